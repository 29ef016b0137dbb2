//! Common parts of the kernel learners: the state of a training, and rollouts at constant weights.

use acrl::{BatchMatrix, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::{Field, Prices, RbfConfig, RbfPolicy, Tensor, lay_out, units};
use crate::error::length;
use crate::metrics::reward_metrics;
use crate::weights::normalize;
use crate::{Coverage, LearnError, RewardSample, WeightSampler};

/// A training in progress, without its settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    /// μ, and values that are learnt with the same kernels as further outputs.
    pub(crate) tensor: Tensor,
    pub(crate) prices: Prices,
    units: Vec<(f64, f64)>,
    pub(crate) rng: Rng,
    pub(crate) coverage: Coverage,
    pub(crate) reward_sample: RewardSample,
    pub(crate) rollouts: u64,
    pub(crate) steps: u64,
}

impl Progress {
    /// θ = 0, with `extra` outputs beside the coordinates of an action.
    pub(crate) fn new(
        task: &VecTask<'_>,
        kernels: &RbfConfig,
        extra: usize,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let (tensor, prices) = lay_out(task, kernels, extra)?;
        let units = units(task.environment().action_space())?;
        let (rng, coverage, reward_sample) = (Rng::new(seed), Coverage::new(), RewardSample::default());
        Ok(Self { tensor, prices, units, rng, coverage, reward_sample, rollouts: 0, steps: 0 })
    }

    /// Refuses a stored state whose parts are inconsistent.
    pub(crate) fn check(&self, extra: usize, std: f64) -> Result<(), LearnError> {
        length("outputs of a tensor of kernels", self.units.len() + extra, self.tensor.outputs())?;
        RbfPolicy::new(self.tensor.first(self.units.len()), self.prices.clone(), self.units.clone(), std)
            .map(|_| ())
    }

    /// The policy as it is now.
    pub(crate) fn policy(&self, std: f64) -> RbfPolicy {
        let tensor = self.tensor.first(self.units.len());
        RbfPolicy::assemble(tensor, self.prices.clone(), self.units.clone(), std)
    }

    /// Number of coordinates of an action.
    pub(crate) fn actions(&self) -> usize {
        self.units.len()
    }

    /// An error if a weight is not finite.
    pub(crate) fn check_weights(&self, iteration: u64) -> Result<(), LearnError> {
        let diverged =
            |bad: f32| LearnError::Diverged { iteration, quantity: "a weight", value: f64::from(bad) };
        self.tensor.not_finite().map_or(Ok(()), |bad| Err(diverged(bad)))
    }
}

/// One rollout and its buffers.
#[derive(Debug, Clone)]
pub(crate) struct Rollout {
    pub(crate) field: Field,
    /// w₀ … w_m as they were drawn.
    pub(crate) weights: Vec<f64>,
    /// Coordinates of the kernels over the multipliers.
    pub(crate) coordinates: Vec<f64>,
    pub(crate) steps: Vec<Step>,
    /// Σ_t r₀ … Σ_t r_m, in units of their scales.
    pub(crate) sums: Vec<f64>,
    /// Sums and number of steps of all rollouts since the last [`reward_metrics`](Self::reward_metrics).
    totals: (Vec<f64>, f64),
    spent: Vec<f64>,
    /// Present state.
    pub(crate) state: BatchMatrix,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
}

/// One step of a rollout.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// κ_n(s_t).
    pub(crate) kernels: Vec<(u32, f32)>,
    /// (a_t − μ(s_t))/σ by coordinate.
    pub(crate) noise: Vec<f64>,
    /// The last output at s_t.
    pub(crate) value: f64,
    /// w·r(s_t, a_t).
    pub(crate) reward: f64,
}

impl Rollout {
    /// Buffers for so many steps. Refuses a task of another shape than that of the training.
    pub(crate) fn new(
        task: &VecTask<'_>,
        kernels: &RbfConfig,
        progress: &Progress,
        steps: usize,
    ) -> Result<Self, LearnError> {
        let (tensor, environment) = (&progress.tensor, task.environment());
        let actions = progress.actions();
        length("coordinates of an action", actions, environment.action_space().len())?;
        let (other, prices) = lay_out(task, kernels, tensor.outputs() - actions)?;
        tensor.same_shape(&other)?;
        let step = Step { kernels: Vec::new(), noise: vec![0.0; actions], value: 0.0, reward: 0.0 };
        Ok(Self {
            field: Field::new(tensor),
            weights: vec![0.0; prices.scales.len()],
            coordinates: vec![0.0; tensor.multipliers().len()],
            steps: vec![step; steps],
            sums: vec![0.0; prices.scales.len()],
            totals: (vec![0.0; prices.scales.len()], 0.0),
            spent: vec![0.0; prices.scales.len()],
            state: BatchMatrix::zeros(environment.state_dimension(), 1),
            observation: BatchMatrix::zeros(environment.observation_space().len(), 1),
            actions: BatchMatrix::zeros(actions, 1),
            named: BatchMatrix::zeros(environment.reward_names().len(), 1),
            rewards: BatchMatrix::zeros(prices.scales.len(), 1),
        })
    }

    /// Draws (s, w), and takes all steps with this w.
    pub(crate) fn run(
        &mut self,
        task: &VecTask<'_>,
        progress: &mut Progress,
        sampler: WeightSampler,
        std: f64,
    ) -> Result<(), LearnError> {
        let Self { weights, spent, state, .. } = self;
        let Progress { prices, rng, coverage, .. } = progress;
        sampler.draw(prices.objective, weights, rng);
        spent.copy_from_slice(weights);
        normalize(spent);
        coverage.visit(spent.iter().copied(), rng);
        task.environment().reset(state, 0, rng)?;
        self.take_steps(task, progress, std)
    }

    /// Takes all steps from the present state with the present w.
    pub(crate) fn take_steps(
        &mut self,
        task: &VecTask<'_>,
        progress: &mut Progress,
        std: f64,
    ) -> Result<(), LearnError> {
        let Self { field, weights, sums, spent, state, observation, actions, named, rewards, .. } = self;
        let Progress { tensor, prices, units, rng, .. } = progress;
        let environment = task.environment();
        spent.copy_from_slice(weights);
        prices.coordinates(spent, &mut self.coordinates);
        field.set_multipliers(tensor, &self.coordinates);
        sums.fill(0.0);
        let mut outputs = [0.0; Tensor::OUTPUTS];
        let outputs = &mut outputs[..tensor.outputs()];
        for step in &mut self.steps {
            environment.observe(state, observation);
            field.kernels.set_state(tensor.state(), observation.as_slice().iter().copied());
            field.value(tensor, outputs);
            step.kernels.clear();
            step.kernels.extend_from_slice(field.kernels.state());
            step.value = outputs[outputs.len() - 1];
            for (i, (middle, unit)) in units.iter().enumerate() {
                step.noise[i] = rng.normal();
                actions.set(i, 0, middle + unit * (outputs[i] + std * step.noise[i]));
            }
            environment.step(state, actions, named, std::slice::from_mut(rng))?;
            task.score(named, rewards)?;
            step.reward = 0.0;
            for (i, r) in rewards.as_slice().iter().enumerate() {
                step.reward += weights[i] * r / prices.scales[i];
                sums[i] += r / prices.scales[i];
            }
        }
        self.totals.0.iter_mut().zip(&*sums).for_each(|(total, sum)| *total += *sum);
        self.totals.1 += self.steps.len() as f64;
        // Initial states are anywhere, so the last step of each rollout is a sample of the rewards.
        progress.reward_sample.visit(rewards);
        progress.steps += self.steps.len() as u64;
        progress.rollouts += 1;
        Ok(())
    }

    /// Mean of each reward over the rollouts since the last call.
    pub(crate) fn reward_metrics(&mut self, task: &VecTask<'_>, scales: &[f64]) -> Vec<(String, f64)> {
        let (sums, steps) = std::mem::replace(&mut self.totals, (vec![0.0; scales.len()], 0.0));
        let means: Vec<f64> = sums.iter().map(|sum| sum / steps).collect();
        reward_metrics(task, scales, &means).collect()
    }

    /// θ ← θ + the accumulated gradient; refuses one that is not finite.
    pub(crate) fn ascend(&mut self, tensor: &mut Tensor, iteration: u64) -> Result<(), LearnError> {
        if !self.field.is_finite(tensor.outputs()) {
            let (quantity, value) = ("the gradient", f64::NAN);
            return Err(LearnError::Diverged { iteration, quantity, value });
        }
        self.field.ascend(tensor);
        Ok(())
    }
}
