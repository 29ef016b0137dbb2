//! Vectorised environments and policies: the interface of learners and of batched execution.
//!
//! A batch is a struct of arrays: [`BatchMatrix`] holds one row per quantity and one column per
//! environment. A [`VecEnv`] holds parameters only and no state, so that states can be stored,
//! restored, moved to another thread and continued bit-identically.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{arity, finite};
use crate::{Error, Rng, Scoring, Specification};

/// A matrix with one row per quantity and one column per environment; rows are contiguous.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchMatrix {
    num_envs: usize,
    values: Vec<f64>,
}

impl BatchMatrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, num_envs: usize) -> Self {
        Self { num_envs, values: vec![0.0; rows * num_envs] }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.num_envs).unwrap_or(0)
    }

    /// True if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of columns.
    #[inline]
    pub fn num_envs(&self) -> usize {
        self.num_envs
    }

    /// One quantity in all environments.
    #[inline]
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.num_envs..(row + 1) * self.num_envs]
    }

    /// One quantity in all environments, mutable.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.num_envs..(row + 1) * self.num_envs]
    }

    /// `N` consecutive rows from `first` on, mutable at once.
    #[inline]
    pub fn rows_mut<const N: usize>(&mut self, first: usize) -> [&mut [f64]; N] {
        let mut chunks = self.values[first * self.num_envs..].chunks_exact_mut(self.num_envs.max(1));
        std::array::from_fn(|_| chunks.next().unwrap_or_default())
    }

    /// One quantity in one environment.
    #[inline]
    pub fn at(&self, row: usize, env: usize) -> f64 {
        self.values[row * self.num_envs + env]
    }

    /// Sets one quantity in one environment.
    #[inline]
    pub fn set(&mut self, row: usize, env: usize, value: f64) {
        self.values[row * self.num_envs + env] = value;
    }

    /// All quantities of an environment.
    pub fn column(&self, env: usize) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().skip(env).step_by(self.num_envs.max(1)).copied()
    }

    /// Sets all quantities of an environment.
    pub fn set_column(&mut self, env: usize, values: &[f64]) {
        for (row, value) in values.iter().enumerate() {
            self.set(row, env, *value);
        }
    }

    /// All numbers, row after row.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// All numbers, row after row, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.values
    }
}

/// A range of numbers; an end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    #[serde(deserialize_with = "low_end")]
    pub low: f64,
    /// The upper end.
    #[serde(deserialize_with = "high_end")]
    pub high: f64,
}

/// JSON has no infinite numbers: they are written as null.
fn low_end<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
}

fn high_end<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

impl Interval {
    /// The interval from `low` to `high`.
    pub fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// The interval without a bound on either side.
    pub const UNBOUNDED: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// high − low.
    pub fn width(self) -> f64 {
        self.high - self.low
    }

    /// True if both ends are finite.
    pub fn is_bounded(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

/// One part of an action: a row of an action batch. An action space is a list of parts, so that
/// discrete, continuous and hybrid action spaces have one form.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionPart {
    /// A discrete part with this many values; its row holds 0, 1, …
    Discrete(usize),
    /// A continuous part. The environment itself clips numbers outside of the interval.
    Continuous(Interval),
}

/// The spaces of an environment, for [`VecEnv::spaces`].
#[derive(Debug, Clone, PartialEq)]
pub struct Spaces {
    /// The dimension of a state.
    pub state_dimension: usize,
    /// The range of each component of an observation.
    pub observation: Vec<Interval>,
    /// The parts of an action.
    pub action: Vec<ActionPart>,
    /// The names of the rewards.
    pub reward_names: Vec<String>,
    /// The range of each reward.
    pub reward_ranges: Vec<Interval>,
}

/// A continuing vectorised environment (no `done`: an episodic problem starts its next episode
/// inside `step`).
///
/// It holds parameters only; the states are in the [`BatchMatrix`] it is given. Each environment
/// has its own generator, and environments do not interact: a run is bit-identical alone and in any
/// batch.
pub trait VecEnv: Send + Sync {
    /// The spaces of states, observations, actions and rewards.
    fn spaces(&self) -> &Spaces;

    /// The dimension of a state.
    fn state_dimension(&self) -> usize {
        self.spaces().state_dimension
    }

    /// The range of each component of an observation, by which a learner scales.
    fn observation_space(&self) -> &[Interval] {
        &self.spaces().observation
    }

    /// The parts of an action.
    fn action_space(&self) -> &[ActionPart] {
        &self.spaces().action
    }

    /// The names of the rewards, in the order of the rows that `step` writes.
    fn reward_names(&self) -> &[String] {
        &self.spaces().reward_names
    }

    /// The interval \[low, high\] of each reward's values, attained or nearly so.
    fn reward_ranges(&self) -> &[Interval] {
        &self.spaces().reward_ranges
    }

    /// The recommended number of steps for which an action is repeated (frame skip): about a tenth
    /// of the time constant of the dynamics. 1 if the agent must react at every step.
    fn action_repeat(&self) -> usize {
        1
    }

    /// Draws the initial state of one environment.
    fn reset(&self, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> Result<(), Error>;

    /// Writes the observation of each environment.
    fn observe(&self, state: &BatchMatrix, observation: &mut BatchMatrix);

    /// Takes an action in each environment: writes the rewards r(s, a), and the next states in
    /// place of s.
    fn step(
        &self,
        state: &mut BatchMatrix,
        actions: &BatchMatrix,
        rewards: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error>;
}

/// π(s, w) for a batch: the one interface of policies outside of finite models.
///
/// `weights` has the rows w₀ … w_m, which are (1, λ), or (0, λ) without an objective, up to a
/// positive factor: there is no way to act without λ. The action in an environment depends on that
/// environment alone. A closure is a policy:
///
/// ```
/// use acrl::{BatchMatrix, Error, Rng, VecPolicy};
/// let mut idle = |_: &BatchMatrix, _: &BatchMatrix, actions: &mut BatchMatrix, _: &mut [Rng]| -> Result<(), Error> {
///     actions.as_mut_slice().fill(0.0);
///     Ok(())
/// };
/// assert_eq!(idle.action_repeat(), 1);
/// ```
pub trait VecPolicy: Send {
    /// Writes an action for each environment.
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error>;

    /// The number of steps for which an action is repeated.
    fn action_repeat(&self) -> usize {
        1
    }
}

impl<F> VecPolicy for F
where
    F: FnMut(&BatchMatrix, &BatchMatrix, &mut BatchMatrix, &mut [Rng]) -> Result<(), Error> + Send,
{
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        self(observation, weights, actions, rngs)
    }
}

/// A vectorised environment together with a specification: its steps yield r₀ … r_m.
#[derive(Clone)]
pub struct VecTask<'a> {
    environment: &'a dyn VecEnv,
    specification: Specification,
    scoring: Scoring,
    scales: Vec<f64>,
}

impl<'a> VecTask<'a> {
    /// Fails if the specification names a reward that the environment does not have.
    pub fn new(environment: &'a dyn VecEnv, specification: Specification) -> Result<Self, Error> {
        let scoring = specification.bind(environment.reward_names())?;
        arity("ranges of the rewards", environment.reward_names().len(), environment.reward_ranges().len())?;
        let mut scales = Vec::new();
        for (name, range) in environment.reward_names().iter().zip(environment.reward_ranges()) {
            scales.push(finite(&format!("the range of '{name}'"), range.width())?);
        }
        let scales = scoring.scales(&scales);
        Ok(Self { environment, specification, scoring, scales })
    }

    /// The environment.
    pub fn environment(&self) -> &'a dyn VecEnv {
        self.environment
    }

    /// The objective and the requirements.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// True if there is an objective beside the requirements.
    pub fn has_objective(&self) -> bool {
        self.specification.objective().is_some()
    }

    /// R₀ … R_m, the ranges of the rewards; R₀ = 1 without an objective.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Writes r₀ … r_m, given the environment's rewards; an error names a reward that is not finite.
    pub fn score(&self, named: &BatchMatrix, rewards: &mut BatchMatrix) -> Result<(), Error> {
        self.scoring.score_rows(named, rewards)
    }
}
