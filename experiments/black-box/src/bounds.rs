//! Three sets of bounds of a problem: feasible, and binding.

use std::ops::ControlFlow;

use acrl::{Direction, Objective, Requirement, Specification};
use acrl_exact::{FiniteTask, Solution, SolveError, SolveOptions, maximise, solve};
use anyhow::{Context as _, Result};

use crate::problems::BlackBox;

/// Bounds, and the optimum under them.
pub(crate) struct BoundSet {
    pub(crate) specification: Specification,
    pub(crate) optimum: f64,
    /// Unit of regret: what the optimum is above the worst objective that any policy has, or its size if that is less.
    pub(crate) unit: f64,
}

/// How far each bound is from what the best policy for the objective alone gives to what is possible at all.
const DEMANDS: [[f64; 2]; 3] = [[0.5, 0.5], [0.25, 0.7], [0.7, 0.25]];

/// Slack of every bound, in units of the range of the reward's average: on the edge of the feasible bounds no learner could
/// meet them, and rewards that are as good as 0 would be bounded.
const SLACK: f64 = 0.02;

/// The bounds of the training and two other sets. Demands that conflict are lowered together.
pub(crate) fn sets(problem: &BlackBox) -> Result<Vec<BoundSet>> {
    let specification = |bounds: [f64; 2]| -> Result<Specification> {
        let requirement = |((name, below), bound): (&(&str, bool), f64)| {
            let direction = if *below { Direction::AtLeast } else { Direction::AtMost };
            Requirement::new(*name, direction, bound)
        };
        let requirements = problem.bounded.iter().zip(bounds).map(requirement);
        let objective = Objective::maximize(problem.objective);
        Ok(Specification::new(Some(objective), requirements.collect::<Result<_, _>>()?)?)
    };
    let any = specification([0.0, 0.0])?;
    let task = FiniteTask::new(&problem.model, &any)?;
    let values = |weights: [f64; 3]| -> Result<Vec<f64>> {
        Ok(maximise(&task, &weights)?.values(&task)?.as_slice().to_vec())
    };
    let alone = values([1.0, 1e-6, 1e-6])?;
    let worst = values([-1.0, 0.0, 0.0])?[0];
    let best = [values([0.0, 1.0, 0.0])?[1], values([0.0, 0.0, 1.0])?[2]];
    let least = [values([0.0, -1.0, 0.0])?[1], values([0.0, 0.0, -1.0])?[2]];
    let mut sets = Vec::new();
    for demands in DEMANDS {
        let mut factor = 1.0;
        let set = loop {
            let bound = |i: usize| {
                let c = alone[i + 1] + factor * demands[i] * (best[i] - alone[i + 1]);
                let c = c - SLACK * (best[i] - least[i]);
                if problem.bounded[i].1 { c } else { -c }
            };
            let specification = specification([bound(0), bound(1)])?;
            let task = FiniteTask::new(&problem.model, &specification)?;
            match solve(&task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())) {
                Ok(Solution::Optimal(optimum)) => {
                    let unit = optimum.objective.abs().min(optimum.objective - worst);
                    break BoundSet { specification, optimum: optimum.objective, unit };
                }
                // Too close to tell is as good as infeasible.
                Ok(Solution::Infeasible(_)) | Err(SolveError::Rounds(_)) => factor *= 0.8,
                Err(error) => return Err(error.into()),
            }
            (factor > 1e-3).then_some(()).context("no bounds can be met")?;
        };
        sets.push(set);
    }
    Ok(sets)
}
