//! Functions for the tests and benchmarks of the package: with the feature `trials` only.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use acrl::{
    BatchMatrix, DiagnosisInput, Rng, RunReport, Silent, Specification, VecExecution, VecPolicy as _, VecTask,
};
use acrl_envs::{Continuous, Problem, Source};
use acrl_learn::{Ppo, PpoConfig, TrainedPolicy};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _};
use pyo3::prelude::*;

use crate::arrays::Floats;
use crate::dynamics::Dynamics;
use crate::errors::{InputError, input};
use crate::policy::{PolicyFile, executor_named};

/// Tolerated shortfall, as a share of the rewards' ranges.
const TOLERANCE: f64 = 0.005;

/// Observations [steps, n], weights w0 ... wm [steps, m + 1], rewards r0 ... rm [steps, m + 1], and the diagnosis.
type Trace<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, String);

/// One run in the problem that a policy embeds, as of `acrl run`: the observation before each step, the weights, the rewards
/// in the user's signs, and the diagnosis as JSON.
#[pyfunction]
pub(crate) fn trace<'py>(
    policy: &Bound<'py, PolicyFile>,
    dynamics: &Bound<'py, Dynamics>,
    executor: &str,
    steps: usize,
    seed: u64,
) -> PyResult<Trace<'py>> {
    let (py, file) = (policy.py(), &policy.get().file);
    let executor = executor_named(executor)?;
    let builder = dynamics.get().0.clone().executor(executor).library(Some(Arc::new(file.library.clone())));
    let agent = builder.objective(file.specification.objective().is_some()).build().map_err(input)?;
    let requirements = agent.dynamics().requirements().to_vec();
    let specification =
        Specification::new(file.specification.objective().cloned(), requirements).map_err(input)?;
    let environment = environment(policy.get())?;
    let task = VecTask::new(environment.batch(), specification).map_err(input)?;
    let mut acting = file.policy.clone();
    let rngs = vec![Rng::new(seed)];
    let mut execution =
        VecExecution::new(&task, &mut acting, vec![agent], rngs, steps as u64).map_err(input)?;
    let mut signs = vec![task.specification().objective().map_or(1.0, acrl::Objective::sign)];
    signs.extend(task.specification().requirements().iter().map(acrl::Requirement::sign));
    let (n, m) = (task.environment().observation_space().len(), signs.len());
    let mut seen = BatchMatrix::zeros(n, 1);
    let (mut observations, mut weights, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..steps {
        task.environment().observe(execution.states(), &mut seen);
        observations.extend_from_slice(seen.as_slice());
        weights.extend_from_slice(execution.weights().as_slice());
        // `Silent` never stops a run.
        let _ = execution.step(&mut Silent).map_err(input)?;
        rewards.extend(execution.rewards().as_slice().iter().zip(&signs).map(|(r, sign)| r * sign));
    }
    let (scales, settled) = (&task.scales()[1..], file.library.settled());
    let symptoms = DiagnosisInput {
        scales: scales.to_vec(),
        tolerances: scales.iter().map(|scale| TOLERANCE * scale).collect(),
        seen: file.seen.vectors(),
        settled: &settled,
        ..DiagnosisInput::default()
    };
    let runs = execution.finish().map_err(input)?;
    let report = RunReport::new(task.specification(), &runs, symptoms);
    let wrong = |error| InputError::new_err(format!("the diagnosis cannot be written: {error}"));
    let diagnosis = serde_json::to_string(&report.map(|report| report.diagnosis)).map_err(wrong)?;
    let array = |values: Vec<f64>, width: usize| PyArray1::from_vec(py, values).reshape([steps, width]);
    Ok((array(observations, n)?, array(weights, m)?, array(rewards, m)?, diagnosis))
}

/// Seconds of each of `repeats` actions on a batch in Rust.
#[pyfunction]
pub(crate) fn seconds_to_act(
    policy: &Bound<'_, PolicyFile>,
    observations: &Bound<'_, PyAny>,
    multipliers: &Bound<'_, PyAny>,
    repeats: usize,
) -> PyResult<Vec<f64>> {
    let (Some(seen), Some(prices)) = (Floats::new(observations), Floats::new(multipliers)) else {
        return Err(InputError::new_err("expected arrays of floats"));
    };
    let (observation, weights) = policy.get().batch(&seen, &prices)?;
    let mut actions = BatchMatrix::zeros(policy.get().action_len(), observation.num_envs());
    let mut rngs: Vec<Rng> = (0..observation.num_envs() as u64).map(|env| Rng::stream(0, env)).collect();
    let mut actor = policy.get().actor(true);
    let mut once = || {
        let start = Instant::now();
        actor.act(black_box(&observation), black_box(&weights), &mut actions, &mut rngs)?;
        black_box(&actions);
        Ok(start.elapsed().as_secs_f64())
    };
    let seconds: Result<_, acrl::Error> = (0..repeats).map(|_| once()).collect();
    seconds.map_err(input)
}

/// The policy with an untrained network of these widths, for time measurements.
#[pyfunction]
pub(crate) fn untrained(
    policy: &Bound<'_, PolicyFile>,
    hidden_sizes: Vec<usize>,
    seed: u64,
) -> PyResult<PolicyFile> {
    let mut file = policy.get().file.clone();
    let environment = environment(policy.get())?;
    let task = VecTask::new(environment.batch(), file.specification.clone()).map_err(input)?;
    let settings = PpoConfig { hidden_sizes, action_repeat: Some(1), ..PpoConfig::default() };
    file.policy = TrainedPolicy::Mlp(Box::new(Ppo::new(&task, settings, seed).map_err(input)?.policy()));
    let container = file.to_container().map_err(input)?;
    PolicyFile::from_container(container, Path::new("untrained"), Rng::new(seed))
}

/// The environment of the problem that a policy embeds.
fn environment(policy: &PolicyFile) -> PyResult<Continuous> {
    match Problem::parse(&policy.file.problem).map_err(input)?.source {
        Source::Continuous(environment) => Ok(environment),
        _ => Err(InputError::new_err("the problem that the policy embeds is finite")),
    }
}
