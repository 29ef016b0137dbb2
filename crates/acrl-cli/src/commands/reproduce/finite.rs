//! Executions of finite problems, as the experiments on them need them.

use std::ops::ControlFlow;

use acrl::guarantees::squared_bound;
use acrl::{
    Agent, EpochLength, Event, Execution, FiniteCmdp, FinitePolicy as _, Multipliers, Requirement, Rng,
    Simulator, Specification, execute,
};
use acrl_envs::{Monitoring, MonitoringParameters, Problem, Source, bundled};
use acrl_exact::{ExactPolicy, FiniteTask, Optimum, Solution, SolveOptions, solve};
use anyhow::{Context as _, bail};

use super::Plan;

/// c of Example 1.
pub(super) const THIRD: f64 = 1.0 / 3.0;
/// η_λ of Fig. 3.
pub(super) const ETA: f64 = 0.5;
/// T₀ of Fig. 3.
pub(super) const EPOCH: u64 = 10;

/// Example 1 with c₁ = c₂ = c.
pub(super) fn monitoring(c: f64) -> anyhow::Result<(FiniteCmdp, Specification)> {
    let example = Monitoring::new(MonitoringParameters::default())?;
    let mut specification = example.specification()?;
    for name in ["r1", "r2"] {
        specification = specification.require(Requirement::at_least(name, c)?)?;
    }
    Ok((example.model()?, specification))
}

/// A bundled problem that is finite.
pub(super) fn bundled_problem(name: &str) -> anyhow::Result<(FiniteCmdp, Specification)> {
    let found = bundled().iter().find(|b| b.name == name).with_context(|| format!("no problem {name}"))?;
    let problem = Problem::parse(found.text)?;
    match problem.source {
        Source::Model(model) => Ok((model, problem.specification)),
        _ => bail!("{name} is not finite"),
    }
}

/// The optimum of a problem that has one.
pub(super) fn optimum(task: &FiniteTask<'_>) -> anyhow::Result<Optimum> {
    match solve(task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(()))? {
        Solution::Optimal(optimum) => Ok(optimum),
        Solution::Infeasible(conflict) => bail!("infeasible: {}", conflict.names.join(", ")),
    }
}

/// B² = sup ‖(r − c)/R‖².
pub(super) fn b2(task: &FiniteTask<'_>) -> f64 {
    let scaled = |v: Vec<f64>| v.iter().zip(task.scales()).map(|(r, s)| r / s).collect::<Vec<_>>();
    let bounds: Vec<f64> = task.bounds().iter().zip(task.scales()).map(|(c, s)| c / s).collect();
    squared_bound(task.reward_vectors().into_iter().map(scaled), &bounds)
}

/// An execution, and what was seen of it.
pub(super) struct Seen {
    pub(super) execution: Execution<usize>,
    /// λ₀, λ₁ … : one more than there are epochs.
    pub(super) multipliers: Vec<Multipliers>,
    /// s₀, s₁ …
    pub(super) states: Vec<u32>,
}

impl Seen {
    /// The share of rollout k that was spent in a state, if epochs have so many steps.
    pub(super) fn share(&self, k: usize, length: u64, state: u32) -> f64 {
        let rollout = self.states.iter().skip(k * length as usize).take(length as usize);
        rollout.filter(|s| **s == state).count() as f64 / length as f64
    }

    /// The largest certified shortfall, in units of ranges.
    pub(super) fn shortfall(&self, task: &FiniteTask<'_>) -> f64 {
        let entries = self.execution.certificate.requirements.iter().zip(task.scales());
        entries.map(|(entry, range)| entry.shortfall / range).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Algorithm 2 with the exact maximiser, rewards in units of their ranges.
pub(super) fn run(
    task: &FiniteTask<'_>,
    eta: f64,
    epoch: EpochLength,
    steps: u64,
    plan: &Plan<'_>,
) -> anyhow::Result<Seen> {
    let requirements = task.specification().requirements().to_vec();
    let agent = Agent::builder(requirements).step_size(eta).epoch(epoch);
    let mut agent = agent.scales(task.objective_scale(), task.scales()).build()?;
    let mut environment = Simulator::new(task.model(), task.specification().clone())?;
    let mut multipliers = vec![agent.multipliers().clone()];
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            multipliers.push(epoch.multipliers.clone());
        }
        plan.share.stop.flow()
    };
    let mut exact = ExactPolicy::new(task);
    let mut states = Vec::with_capacity(steps as usize);
    let mut policy = |state: usize, lambda: &Multipliers, rng: &mut Rng| {
        states.push(state as u32);
        exact.act(state, lambda, rng)
    };
    let mut rng = Rng::new(plan.seed);
    let execution = execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, &mut observer)?;
    if let Some(failure) = exact.failure() {
        return Err(failure.into());
    }
    Ok(Seen { execution, multipliers, states })
}
