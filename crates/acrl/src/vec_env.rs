//! Problems whose states are vectors of numbers, stepped many at a time.
//!
//! A batch is a struct of arrays: [`BatchMatrix`] holds one row per quantity and one column, a *environment*, per
//! independent copy of the problem. An environment says how environments move and holds none of them itself, so
//! that copies can be stored, restored, moved to another thread or continued to the bit.

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
    /// All zeros.
    pub fn zeros(rows: usize, num_envs: usize) -> Self {
        Self { num_envs, values: vec![0.0; rows * num_envs] }
    }

    /// The number of quantities.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.num_envs).unwrap_or(0)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of copies.
    #[inline]
    pub fn num_envs(&self) -> usize {
        self.num_envs
    }

    /// One quantity in all environments.
    #[inline]
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.num_envs..(row + 1) * self.num_envs]
    }

    /// The same, to write.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.num_envs..(row + 1) * self.num_envs]
    }

    /// `N` consecutive rows from `first` on, to write at once.
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

    /// Sets it.
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

    /// The same, to write.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.values
    }
}

/// A range of numbers; an end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The least.
    #[serde(deserialize_with = "low_end")]
    pub low: f64,
    /// The greatest.
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
    /// From `low` to `high`.
    pub fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Without a bound on either side.
    pub const UNBOUNDED: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// high − low.
    pub fn width(self) -> f64 {
        self.high - self.low
    }

    /// Whether both ends are numbers.
    pub fn is_bounded(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

/// One part of an action: a row of an action batch. An action space is a list of parts, so that
/// choices, numbers and mixtures of both are all the same to a learner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionPart {
    /// One of so many choices; its row holds 0, 1, … as a number.
    Choice(usize),
    /// A number. The environment itself clips what is outside.
    Number(Interval),
}

/// A continuing problem whose states are vectors, many copies of which step together.
///
/// The counterpart of [`Environment`](crate::Environment) for learners of continuous problems. It holds parameters
/// only; the state is in the [`BatchMatrix`] it is given. Each environment has its own generator, and what happens in
/// an environment depends on nothing outside it: a run comes out the same alone and among thousands.
pub trait VecEnv: Send + Sync {
    /// The number of rows of a state.
    fn state_dimension(&self) -> usize;

    /// What the agent sees: the range of each row of an observation. A learner scales by it.
    fn observation_space(&self) -> &[Interval];

    /// What the agent does: the parts of an action.
    fn action_space(&self) -> &[ActionPart];

    /// The names of the rewards, in the order of the rows that `step` writes.
    fn reward_names(&self) -> &[String];

    /// The range of each reward: a bound on |r| that is reached, or nearly so.
    fn reward_ranges(&self) -> &[Interval];

    /// How many steps an action is usefully held: about a tenth of the time in which behaviour can
    /// change something. 1 if the agent must react at every step.
    fn hold(&self) -> usize {
        1
    }

    /// Draws a state to start from, for one environment.
    fn reset(&self, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> Result<(), Error>;

    /// Writes what the agent sees in each environment.
    fn observe(&self, state: &BatchMatrix, observation: &mut BatchMatrix);

    /// Takes an action in each environment: writes the rewards r(s, a), and the next states in place of s.
    fn step(
        &self,
        state: &mut BatchMatrix,
        actions: &BatchMatrix,
        rewards: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error>;
}

/// A batch environment together with what an agent must achieve in it: its steps yield r₀ … r_m.
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

    /// What the agent must achieve.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// Whether there is something to maximise beside the requirements.
    pub fn has_objective(&self) -> bool {
        self.specification.objective().is_some()
    }

    /// R₀ … R_m, the ranges of the rewards; R₀ = 1 without an objective.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Writes r₀ … r_m, given the environment's rewards; fails with the name of a reward that is no number.
    pub fn score(&self, named: &BatchMatrix, rewards: &mut BatchMatrix) -> Result<(), Error> {
        self.scoring.score_rows(named, rewards)
    }
}
