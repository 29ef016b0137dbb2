//! Calibration: execution defaults of a trained policy, found by trying them.

use std::sync::Arc;

use acrl::{
    Agent, EpochLength, Error, Executor, Multipliers, PolicyLibrary, Requirement, Rng, Silent, VecExecution,
    VecPolicy, VecTask,
};
use acrl_envs::RunSettings;

use crate::ExecutionDefaults;
use crate::tuning::calibration::{DRAWN, LIBRARY_EPOCH, TOLERATED};
use crate::weights::simplex;

/// Result of one candidate of the calibration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationResult {
    /// The candidate.
    pub defaults: ExecutionDefaults,
    /// Shortfall of the requirements beyond the tolerance, summed over the runs, in units of ranges.
    pub shortfall: f64,
    /// Average of the objective, in units of its range.
    pub objective: f64,
}

/// Candidates, in the order of preference.
///
/// With an objective a policy may be better between the entries of its library, or worse than a mixture of them. Without
/// one there is nothing to lose, and the library has been measured, whereas π(·, λ) may get stuck at a λ that was not
/// tried.
fn candidates(task: &VecTask<'_>) -> [ExecutionDefaults; 2] {
    let by_policy = ExecutionDefaults::uncalibrated(task);
    if task.has_objective() {
        [by_policy, ExecutionDefaults { executor: Executor::TimeSharing, ..by_policy }]
    } else {
        [ExecutionDefaults { epoch: LIBRARY_EPOCH, executor: Executor::Library, ..by_policy }, by_policy]
    }
}

/// Executes the policy with several candidate settings, for the requirements of the task and for others that are feasible
/// according to its library, and returns the candidates with their results, the best one first: least shortfall, then
/// the better objective.
///
/// Requirements may change after training, so the choice must not depend on one set of them.
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
    let (library, mut results) = (Arc::new(library.clone()), Vec::new());
    for defaults in candidates(task) {
        let rngs = seeds.iter().map(|seed| Rng::new(*seed)).collect();
        let agents = wanted.iter().map(|bounds| agent(task, &library, bounds, defaults));
        let agents = agents.collect::<Result<Vec<_>, _>>()?;
        let num_envs = agents.len() as f64;
        let runs = VecExecution::new(task, policy, agents, rngs, RunSettings::STEPS)?.run(&mut Silent)?;
        let (mut shortfall, mut objective) = (0.0, 0.0);
        for run in &runs {
            objective += run.averages.objective() / task.scales()[0] / num_envs;
            let shortfalls = run.certificate.requirements.iter().zip(&task.scales()[1..]);
            shortfall += shortfalls
                .map(|(c, scale)| (c.certified_shortfall / scale - TOLERATED).max(0.0))
                .sum::<f64>();
        }
        results.push(CalibrationResult { defaults, shortfall, objective });
    }
    // Stable: preferred candidates stay in front of their equals.
    results.sort_by(|a, b| a.shortfall.total_cmp(&b.shortfall).then(b.objective.total_cmp(&a.objective)));
    Ok(results)
}

/// The agent of a run with other bounds.
fn agent(
    task: &VecTask<'_>,
    library: &Arc<PolicyLibrary>,
    bounds: &[f64],
    defaults: ExecutionDefaults,
) -> Result<Agent, Error> {
    let given = task.specification().requirements().iter().zip(bounds);
    let requirements = given.map(|(given, c)| {
        let bound = given.sign() * c;
        Ok(Requirement::new(given.reward(), given.direction(), bound)?.named(given.name()))
    });
    let scales = task.scales();
    let start = library.start(bounds, scales, task.has_objective());
    let epoch = if defaults.executor == Executor::TimeSharing {
        let tolerances = library.tolerances(RunSettings::TOLERANCE, bounds, &scales[1..]);
        let steps = Some(RunSettings::STEPS);
        EpochLength::Scheduled(library.schedule(bounds, scales, &tolerances, steps, defaults.epoch))
    } else {
        EpochLength::Auto(defaults.epoch)
    };
    Agent::builder(requirements.collect::<Result<_, Error>>()?)
        .step_size(library.step_size(defaults.step_size, bounds, scales, task.has_objective()))
        .epoch(epoch)
        .scales(scales[0], &scales[1..])
        .multipliers(Multipliers::new(start)?)
        .objective(task.has_objective())
        .library(Some(library.clone()))
        .executor(defaults.executor)
        .build()
}

/// Bounds that a random mixture of the library's entries meets with slack: 40 to 90 % of the way from the least value to
/// that of the mixture.
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
