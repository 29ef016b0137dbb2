//! π(s, w) as a network that can be executed and stored.

use acrl::{BatchMatrix, Error, Interval, Rng, VecPolicy, VecTask};
use acrl_nn::{Batch, Mlp, Workspace};
use serde::{Deserialize, Serialize};

use super::ActionHeads;
use super::action::{Deviations, Noise};

/// What networks see: observations scaled to [−1, 1], and weights in units of the rewards' ranges that add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    observation: Vec<Interval>,
    /// R₀ … R_m.
    scales: Vec<f64>,
    objective: bool,
    /// Whether the weights are left out: π(s), which knows nothing of λ.
    #[serde(default)]
    blind: bool,
}

impl Inputs {
    /// Refuses an observation without a finite range.
    pub fn new(task: &VecTask<'_>) -> Result<Self, Error> {
        let observation = task.environment().observation_space().to_vec();
        let (scales, objective) = (task.scales().to_vec(), task.has_objective());
        let inputs = Self { observation, scales, objective, blind: false };
        inputs.check()?;
        Ok(inputs)
    }

    /// The same without the weights: for a policy π(s) that knows nothing of λ.
    pub fn blind(task: &VecTask<'_>) -> Result<Self, Error> {
        Ok(Self { blind: true, ..Self::new(task)? })
    }

    /// `Ok` if every range is a finite interval of positive width, and there is something to weigh.
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

    /// The number of inputs: the observation, and a weight for each reward (r₀ only if there is an objective) unless
    /// they are left out.
    pub fn len(&self) -> usize {
        self.observation.len() + if self.blind { 0 } else { self.weights() }
    }

    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the weights are left out.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// The number of weights, which are among the inputs unless they are left out.
    pub fn weights(&self) -> usize {
        self.scales.len() - usize::from(!self.objective)
    }

    /// R₀ … R_m.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Whether the task had an objective.
    pub fn objective(&self) -> bool {
        self.objective
    }

    /// The intervals of the observation.
    pub fn observation(&self) -> &[Interval] {
        &self.observation
    }

    /// Scales observations from these intervals, of which there are as many as before.
    pub(crate) fn set_observation(&mut self, intervals: Vec<Interval>) {
        debug_assert_eq!(self.observation.len(), intervals.len());
        self.observation = intervals;
    }

    /// Measures rewards in these units R₀ … R_m.
    pub(crate) fn set_scales(&mut self, scales: Vec<f64>) {
        debug_assert_eq!(self.scales.len(), scales.len());
        self.scales = scales;
    }

    /// Writes an observation's rows, scaled.
    #[inline]
    pub(crate) fn scale_row(&self, row: usize, observation: &[f64], out: &mut [f32]) {
        let range = self.observation[row];
        let (middle, scale) = (0.5 * (range.low + range.high), 2.0 / range.width());
        for (out, x) in out.iter_mut().zip(observation) {
            *out = ((x - middle) * scale) as f32;
        }
    }

    /// Writes the rows of weights: w_i R_i / Σ w_j R_j, uniform where all of them are 0.
    fn normalise(&self, weights: &BatchMatrix, out: &mut Batch, totals: &mut Vec<f64>) {
        if self.blind {
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

/// A trained policy: the mean of its distribution is what it does, unless it is to draw from it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpPolicy {
    inputs: Inputs,
    heads: ActionHeads,
    actor: Mlp,
    log_deviations: Vec<f32>,
    hold: usize,
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
    deviations: Deviations,
    noise: Noise,
    /// ln π(a), which is not asked for.
    log: Vec<f32>,
}

impl MlpPolicy {
    pub(crate) fn new(
        inputs: Inputs,
        heads: ActionHeads,
        actor: Mlp,
        log_deviations: Vec<f32>,
        hold: usize,
    ) -> Self {
        Self { inputs, heads, actor, log_deviations, hold, sampling: false, scratch: None }
    }

    /// The same, drawing its actions as in training, or acting with the mean.
    pub fn sampling(mut self, sampling: bool) -> Self {
        self.sampling = sampling;
        self
    }

    /// Whether it draws its actions.
    pub fn is_sampling(&self) -> bool {
        self.sampling
    }

    /// What its network sees.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// How its outputs become actions.
    pub fn heads(&self) -> &ActionHeads {
        &self.heads
    }

    /// ln σ of each number.
    pub fn log_deviations(&self) -> &[f32] {
        &self.log_deviations
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
            // Whatever fits into the one must fit into the other.
            let work = Workspace::for_inference(&self.actor, input.capacity());
            let (totals, log) = (Vec::new(), Vec::new());
            let (noise, deviations) = (Noise::default(), Deviations::default());
            self.scratch = Some(Scratch { input, work, totals, deviations, noise, log });
        }
        let Some(scratch) = &mut self.scratch else { return Ok(()) };
        scratch.input.set_batch_size(num_envs);
        for row in 0..observation.len() {
            self.inputs.scale_row(row, observation.row(row), scratch.input.row_mut(row));
        }
        self.inputs.normalise(weights, &mut scratch.input, &mut scratch.totals);
        let output = self.actor.infer(&scratch.input, &mut scratch.work);
        if self.sampling {
            let write = |part: usize, env: usize, u: f32| {
                let action = ActionHeads::to_environment(self.heads.parts()[part], f64::from(u));
                actions.set(part, env, action);
            };
            let Scratch { noise, log, deviations, .. } = scratch;
            log.resize(num_envs, 0.0);
            deviations.set(&self.log_deviations, self.heads.numbers(), &scratch.input, 0);
            self.heads.sample(output, deviations, noise, rngs, log, write);
            return Ok(());
        }
        for env in 0..num_envs {
            self.heads.mode(|row| output.row(row)[env], |part, a| actions.set(part, env, a));
        }
        Ok(())
    }

    fn action_repeat(&self) -> usize {
        self.hold
    }
}
