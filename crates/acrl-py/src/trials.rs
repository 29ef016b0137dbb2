//! Functions for the benchmarks of the package: with the feature `trials` only.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use acrl::{BatchMatrix, Rng, VecPolicy as _};
use acrl_learn::{Ppo, PpoConfig, TrainedPolicy};
use pyo3::prelude::*;

use crate::arrays::Floats;
use crate::errors::{InputError, input};
use crate::policy::PolicyFile;

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
    let mut file = policy.get().file().clone();
    let task = policy.get().task(file.specification.clone())?;
    let settings = PpoConfig { hidden_sizes, action_repeat: Some(1), ..PpoConfig::default() };
    file.policy = TrainedPolicy::Mlp(Box::new(Ppo::new(&task, settings, seed).map_err(input)?.policy()));
    let container = file.to_container().map_err(input)?;
    PolicyFile::from_container(container, Path::new("untrained"), Rng::new(seed))
}
