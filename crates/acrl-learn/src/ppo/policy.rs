//! π(s, w) as a network, for execution and storage.

use acrl::{BatchMatrix, Error, Interval, Rng, VecPolicy, VecTask};
use acrl_nn::{Batch, Mlp, Workspace};
use serde::{Deserialize, Serialize};

use super::ActionHeads;
use super::distribution::{ActionStd, Noise};

/// Inputs of a network: observations scaled to [−1, 1], and weights in units of the rewards' ranges that add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    observation: Vec<Interval>,
    /// R₀ … R_m.
    scales: Vec<f64>,
    objective: bool,
    /// Whether the weights are left out: a policy π(s) that does not depend on λ.
    #[serde(default, rename = "blind")]
    unconditioned: bool,
}

impl Inputs {
    /// Refuses an observation without a finite range.
    pub fn new(task: &VecTask<'_>) -> Result<Self, Error> {
        let observation = task.environment().observation_space().to_vec();
        let (scales, objective) = (task.scales().to_vec(), task.has_objective());
        let inputs = Self { observation, scales, objective, unconditioned: false };
        inputs.check()?;
        Ok(inputs)
    }

    /// Inputs without weights, of a policy π(s) that does not depend on λ.
    pub fn unconditioned(task: &VecTask<'_>) -> Result<Self, Error> {
        Ok(Self { unconditioned: true, ..Self::new(task)? })
    }

    /// `Ok` if every range is a finite interval of positive width, and there is an objective or a requirement.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (row, range) in self.observation.iter().enumerate() {
            if !(range.is_bounded() && range.width() > 0.0) {
                return Err(Error::Environment(format!(
                    "row {row} of its observations ranges over {range:?}, expected a finite interval of positive width"
                )));
            }
        }
        if self.scales.len() <= usize::from(!self.objective) {
            return Err(Error::Environment("it has neither an objective nor a requirement".to_owned()));
        }
        match self.scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
            Some(&value) => Err(Error::NotPositive { what: "the range of a reward".to_owned(), value }),
            None => Ok(()),
        }
    }

    /// Number of inputs: the observation and, unless they are left out, a weight for each reward (r₀ only with an
    /// objective).
    pub fn len(&self) -> usize {
        self.observation.len() + if self.unconditioned { 0 } else { self.weights() }
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the weights are left out.
    pub fn ignores_weights(&self) -> bool {
        self.unconditioned
    }

    /// Number of weights, whether or not they are among the inputs.
    pub fn weights(&self) -> usize {
        self.scales.len() - usize::from(!self.objective)
    }

    /// Scales R₀ … R_m of the rewards.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Whether the task had an objective.
    pub fn objective(&self) -> bool {
        self.objective
    }

    /// Intervals from which observations are scaled.
    pub fn observation(&self) -> &[Interval] {
        &self.observation
    }

    /// Sets the intervals from which observations are scaled.
    pub(crate) fn set_observation(&mut self, intervals: Vec<Interval>) {
        debug_assert_eq!(self.observation.len(), intervals.len());
        self.observation = intervals;
    }

    /// Sets the scales R₀ … R_m of the rewards.
    pub(crate) fn set_scales(&mut self, scales: Vec<f64>) {
        debug_assert_eq!(self.scales.len(), scales.len());
        self.scales = scales;
    }

    /// Writes a row of observations, scaled.
    #[inline]
    pub(crate) fn scale_row(&self, row: usize, observation: &[f64], out: &mut [f32]) {
        let range = self.observation[row];
        let (middle, scale) = (0.5 * (range.low + range.high), 2.0 / range.width());
        for (out, x) in out.iter_mut().zip(observation) {
            *out = ((x - middle) * scale) as f32;
        }
    }

    /// Writes the rows of weights: w_i R_i / Σ w_j R_j, uniform where all of them are 0.
    pub(crate) fn write_weights(&self, weights: &BatchMatrix, out: &mut Batch, totals: &mut Vec<f64>) {
        if self.unconditioned {
            return;
        }
        let first = usize::from(!self.objective);
        totals.clear();
        totals.resize(weights.num_envs(), 0.0);
        for i in first..self.scales.len() {
            for (total, w) in totals.iter_mut().zip(weights.row(i)) {
                *total += w * self.scales[i];
            }
        }
        let uniform = 1.0 / self.weights() as f32;
        for i in first..self.scales.len() {
            let row = out.row_mut(self.observation.len() + i - first);
            for ((out, w), total) in row.iter_mut().zip(weights.row(i)).zip(totals.iter()) {
                let share = (w * self.scales[i] / total) as f32;
                *out = if share.is_finite() { share } else { uniform };
            }
        }
    }
}

/// A trained policy, which takes the mode of its distribution or, if `sampling`, draws from it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpPolicy {
    inputs: Inputs,
    heads: ActionHeads,
    actor: Mlp,
    log_std: Vec<f32>,
    action_repeat: usize,
    #[serde(default)]
    sampling: bool,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

#[derive(Debug, Clone)]
struct Scratch {
    input: Batch,
    work: Workspace,
    totals: Vec<f64>,
    std: ActionStd,
    noise: Noise,
    /// ln π(a), which is not used.
    log: Vec<f32>,
}

impl MlpPolicy {
    pub(crate) fn new(
        inputs: Inputs,
        heads: ActionHeads,
        actor: Mlp,
        log_std: Vec<f32>,
        action_repeat: usize,
    ) -> Self {
        Self { inputs, heads, actor, log_std, action_repeat, sampling: false, scratch: None }
    }

    /// The same policy, drawing its actions as in training or taking the mode.
    pub fn sampling(mut self, sampling: bool) -> Self {
        self.sampling = sampling;
        self
    }

    /// Whether it draws its actions.
    pub fn is_sampling(&self) -> bool {
        self.sampling
    }

    /// Inputs of its network.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Distribution of its actions.
    pub fn heads(&self) -> &ActionHeads {
        &self.heads
    }

    /// ln σ of each continuous part of an action.
    pub fn log_std(&self) -> &[f32] {
        &self.log_std
    }

    /// The network.
    pub fn actor(&self) -> &Mlp {
        &self.actor
    }
}

impl VecPolicy for MlpPolicy {
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        let num_envs = observation.num_envs();
        if self.scratch.as_ref().is_none_or(|scratch| scratch.work.batch_size() < num_envs) {
            let input = Batch::new(self.inputs.len(), num_envs);
            // Both must have the same capacity.
            let work = Workspace::for_inference(&self.actor, input.capacity());
            let (totals, log) = (Vec::new(), Vec::new());
            let (noise, std) = (Noise::default(), ActionStd::default());
            self.scratch = Some(Scratch { input, work, totals, std, noise, log });
        }
        let Some(scratch) = &mut self.scratch else { return Ok(()) };
        scratch.input.set_batch_size(num_envs);
        for row in 0..observation.len() {
            self.inputs.scale_row(row, observation.row(row), scratch.input.row_mut(row));
        }
        self.inputs.write_weights(weights, &mut scratch.input, &mut scratch.totals);
        let output = self.actor.infer(&scratch.input, &mut scratch.work);
        if self.sampling {
            let write = |part: usize, env: usize, u: f32| {
                let action = ActionHeads::to_environment(self.heads.parts()[part], f64::from(u));
                actions.set(part, env, action);
            };
            let Scratch { noise, log, std, .. } = scratch;
            log.resize(num_envs, 0.0);
            std.set(&self.log_std, self.heads.numbers(), &scratch.input, 0);
            self.heads.sample(output, std, noise, rngs, log, write);
            return Ok(());
        }
        for env in 0..num_envs {
            self.heads.mode(|row| output.row(row)[env], |part, a| actions.set(part, env, a));
        }
        Ok(())
    }

    fn action_repeat(&self) -> usize {
        self.action_repeat
    }
}
