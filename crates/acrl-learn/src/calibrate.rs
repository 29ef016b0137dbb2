//! How to execute a trained policy: found by trying.

use std::sync::Arc;

use acrl::{
    Agent, EpochLength, Error, Executor, Multipliers, PolicyLibrary, Requirement, Rng, Silent, VecExecution,
    VecPolicy, VecTask,
};
use serde::{Deserialize, Serialize};

use crate::weight_sampler::simplex;

/// How to execute a policy, unless one knows better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionDefaults {
    /// η, in units of the rewards' ranges; the gain per step is η/T₀.
    pub step_size: f64,
    /// T₀, or where `auto` starts, for a run of 200,000 steps.
    pub epoch: u64,
    /// What turns λ into behaviour.
    pub steering: Executor,
}

impl ExecutionDefaults {
    /// How to execute a policy of which nothing is known. Without an objective nothing is lost by large steps; with
    /// one, multipliers must stay near their prices.
    pub fn unrehearsed(task: &VecTask<'_>) -> Self {
        let (step_size, epoch) = if task.has_objective() { (1.2, 400) } else { (0.6, 200) };
        Self { step_size, epoch, steering: Executor::Policy }
    }
}

/// A way to execute the policy, and what it came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationResult {
    /// The way.
    pub advice: ExecutionDefaults,
    /// By how much requirements were missed beyond what is tolerated, summed over the runs, in units of ranges.
    pub missed: f64,
    /// The average objective, in units of its range.
    pub objective: f64,
}

/// Steps of a rehearsal: those of a run by default.
const STEPS: u64 = 200_000;
/// Requirements to rehearse with, beside the user's own.
const DRAWN: usize = 7;
/// The shortfall that counts as none, in units of ranges: half of what a run tolerates by default.
const TOLERATED: f64 = 0.0025;
/// The epochs tried with the library.
const EPOCHS: [u64; 4] = [400, 800, 1600, 3200];

/// The ways to try, the first ones preferred.
///
/// With an objective, how long a behaviour is held decides what is lost on the way to the next. Without one there is
/// nothing to lose, and what the library says has been measured, whereas π(·, λ) may get stuck at a λ that was
/// not rehearsed.
fn ways(task: &VecTask<'_>) -> Vec<ExecutionDefaults> {
    let by_policy = ExecutionDefaults::unrehearsed(task);
    let by_library =
        |epoch: &u64| ExecutionDefaults { epoch: *epoch, steering: Executor::Library, ..by_policy };
    if task.has_objective() {
        std::iter::once(by_policy).chain(EPOCHS.iter().map(by_library)).collect()
    } else {
        vec![by_library(&EPOCHS[0]), by_policy]
    }
}

/// Executes the policy in several ways, for the requirements of the task and for others that its library
/// says can be met, and returns the ways with what they came to, the best one first: fewest requirements missed, then the
/// better objective.
///
/// The agent is to meet requirements that nobody has named yet, so the choice must not depend on one set of them.
pub fn calibrate(
    task: &VecTask<'_>,
    policy: &mut dyn VecPolicy,
    library: &PolicyLibrary,
    seed: u64,
) -> Result<Vec<CalibrationResult>, Error> {
    let mut rng = Rng::stream(seed, u64::MAX - 2);
    let mut wanted = vec![task.specification().bounds()];
    wanted.extend((0..DRAWN).map(|_| draw(task, library, &mut rng)));
    let seeds: Vec<u64> = wanted.iter().map(|_| rng.bits()).collect();
    let (library, mut rehearsed) = (Arc::new(library.clone()), Vec::new());
    for advice in ways(task) {
        let rngs = seeds.iter().map(|seed| Rng::new(*seed)).collect();
        let agents = wanted.iter().map(|bounds| agent(task, &library, bounds, advice));
        let agents = agents.collect::<Result<Vec<_>, _>>()?;
        let num_envs = agents.len() as f64;
        let runs = VecExecution::new(task, policy, agents, rngs, STEPS)?.run(&mut Silent)?;
        let (mut missed, mut objective) = (0.0, 0.0);
        for run in &runs {
            objective += run.averages.objective() / task.scales()[0] / num_envs;
            let shortfalls = run.certificate.requirements.iter().zip(&task.scales()[1..]);
            missed += shortfalls.map(|(c, scale)| (c.shortfall / scale - TOLERATED).max(0.0)).sum::<f64>();
        }
        rehearsed.push(CalibrationResult { advice, missed, objective });
    }
    // Stable: the preferred way stays in front of its equals.
    rehearsed.sort_by(|a, b| a.missed.total_cmp(&b.missed).then(b.objective.total_cmp(&a.objective)));
    Ok(rehearsed)
}

/// The agent of a run with other bounds.
fn agent(
    task: &VecTask<'_>,
    library: &Arc<PolicyLibrary>,
    bounds: &[f64],
    advice: ExecutionDefaults,
) -> Result<Agent, Error> {
    let given = task.specification().requirements().iter().zip(bounds);
    let requirements = given.map(|(given, c)| {
        let bound = given.sign() * c;
        Ok(Requirement::new(given.reward(), given.direction(), bound)?.named(given.name()))
    });
    let scales = task.scales();
    let start = library.start(bounds, scales, task.has_objective());
    Agent::builder(requirements.collect::<Result<_, Error>>()?)
        .step_size(advice.step_size)
        .epoch(EpochLength::Auto(advice.epoch))
        .scales(scales[0], &scales[1..])
        .multipliers(Multipliers::new(start)?)
        .objective(task.has_objective())
        .library(Some(library.clone()))
        .executor(advice.steering)
        .build()
}

/// Bounds that a mixture of the library's entries meets with something to spare: 40 to 90 % of the way from
/// the least to what the mixture has.
fn draw(task: &VecTask<'_>, library: &PolicyLibrary, rng: &mut Rng) -> Vec<f64> {
    let mut shares = vec![0.0; library.entries.len()];
    simplex(&mut shares, rng);
    let part = 0.4 + 0.5 * rng.uniform();
    let bound = |i: usize| {
        let of_entries = || library.entries.iter().map(|entry| entry.values[i]);
        let least = of_entries().fold(f64::INFINITY, f64::min);
        let mixture: f64 = of_entries().zip(&shares).map(|(v, share)| share * v).sum();
        least + part * (mixture - least)
    };
    (1..task.scales().len()).map(bound).collect()
}
