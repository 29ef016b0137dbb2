//! Evidence of the exact model for a diagnosis.

use acrl::ExactEvidence;

use crate::assumptions::multiplier_reach;
use crate::solve::silent;
use crate::{FiniteTask, Solution, SolveError, SolveOptions, almost_sure, most_slack, solve};

/// Feasibility of the requirements on a single path, and, if known, an upper bound on Σ λ_i R_i during an
/// execution with this step size.
pub fn exact_evidence(
    task: &FiniteTask<'_>,
    step_size: f64,
) -> Result<(ExactEvidence, Option<f64>), SolveError> {
    let options = SolveOptions::default();
    if !task.structure().is_communicating() {
        let sure = almost_sure(task, &options)?;
        let best = sure.components.iter().map(|c| c.slack).fold(f64::NEG_INFINITY, f64::max);
        let feasible = sure.objective.is_some();
        let conflict = if feasible { vec![] } else { task.specification().names() };
        return Ok((ExactEvidence { feasible, slack: best, conflict }, None));
    }
    let best = match solve(task, &options, &mut silent)? {
        Solution::Infeasible(conflict) => {
            let (slack, conflict) = (conflict.slack.upper, conflict.names);
            return Ok((ExactEvidence { feasible: false, slack, conflict }, None));
        }
        Solution::Optimal(best) => best,
    };
    let slack = most_slack(task, &options)?;
    let reach = slack.as_ref().and_then(|slack| multiplier_reach(task, &best, slack, step_size));
    let slack = slack.map_or(f64::INFINITY, |slack| slack.lower.max(0.0));
    Ok((ExactEvidence { feasible: true, slack, conflict: vec![] }, reach))
}
