//! Algorithm 1 with actor and critic, for problems in which rewards are further away than a rollout.
//!
//! Each rollout draws (s, w), keeps w for T steps with π_θ, and takes one step on the weights θ of an
//! [`RbfPolicy`] and one on those of a critic V(s, w) with the same kernels:
//!
//! > A_t = Σ_u (γκ)^u δ_{t+u},  δ_t = w·r(s_t, a_t) + γ V(s_{t+1}, w) − V(s_t, w),
//! > θ ← θ + η_θ Σ_t ∇_θ log π_θ(a_t|s_t, w) A_t,  V(s_t, w) ← V(s_t, w) + η_V A_t.
//!
//! With [`Criterion::AverageReward`] γ = 1, and the average reward ρ(w), learnt by ρ(w) ← ρ(w) + η_ρ δ_t, is subtracted
//! from δ_t (Wan et al. 2021).
//!
//! **Choice of γ**: γ to the number of steps from one region to the next should not be below 0.2, or there is no signal
//! ([`ActorCriticConfig::for_travel`]). But with a horizon that is too long an agent changes its behaviour at every change
//! of λ and needs longer dual epochs: γ = 0.99 where 0.95 suffices meets requirements only asymptotically with T₀ = 1.
//!
//! **Not guaranteed**: that π_θ maximises the Lagrangian; a maximiser of discounted returns need not maximise averages.

use acrl::{Named, VecTask};
use serde::{Deserialize, Serialize};

use super::kernel_learner;
use super::rbf::{Field, Progress, RbfConfig, RbfPolicy, Rollout, Tensor, Weighting};
use crate::ppo::advantages;
use crate::settings::{POSITIVE, Range, STEPS, Settings, settings};
use crate::tuning::kernel::AVERAGE_RATE;
use crate::{Criterion, LearnError, WeightSampler};

settings! {
    /// The settings of actor and critic with kernels.
    #[derive(Copy)]
    pub struct ActorCriticConfig {
        /// Environment steps of the training; not counted is one more per rollout, for the value of its last state.
        total_steps: u64 = 10_000_000; STEPS;
        /// Steps T of a rollout.
        n_steps: usize = 20; Range::Whole(1, 1_000_000);
        /// Rollouts in an iteration, which is the unit of reports and checkpoints.
        rollouts_per_iteration: u64 = 1_000; STEPS;
        /// Return that the critic estimates.
        criterion: Criterion = Criterion::Discounted; Range::Word(Criterion::WORDS);
        /// Discount factor γ per step; not used with the average-reward criterion.
        gamma: f64 = 0.95; Range::ClosedOpen(0.0, 1.0);
        /// λ of generalised advantage estimation.
        gae_lambda: f64 = 0.95; Range::Closed(0.0, 1.0);
        /// Learning rate η_θ: about the number of σ by which a step with an advantage of 1 moves μ (0.02 with the average-reward criterion).
        learning_rate: f64 = 0.1; POSITIVE;
        /// Learning rate η_V of the critic: about the share of its error that a rollout removes (0.1 with the average-reward criterion).
        critic_learning_rate: f64 = 0.5; POSITIVE;
        /// Standard deviation σ of actions, in half-widths of their interval if that is bounded.
        std: f64 = 1.0; POSITIVE;
        /// Distribution of the weights to train on.
        weight_sampler: WeightSampler = WeightSampler::Simplex; Range::Word(WeightSampler::NORMALISED_WORDS);
        /// Kernels over states and multipliers, with normalised weights.
        kernels: RbfConfig = RbfConfig::default(); Range::Table("a table of weighting, state_nodes and weight_nodes");
    }
}

impl ActorCriticConfig {
    /// The defaults with γ such that γ^steps = 0.2, where `steps` is the travel time between regions.
    ///
    /// ```
    /// let settings = acrl_learn::ActorCriticConfig::for_travel(31.0);
    /// assert!((settings.gamma - 0.95).abs() < 0.001);
    /// ```
    pub fn for_travel(steps: f64) -> Self {
        Self { gamma: 0.2f64.powf(1.0 / steps.max(1.0)), ..Self::default() }
    }

    /// The defaults with the average-reward criterion: differential values vary more than discounted ones, and need smaller
    /// steps.
    pub fn average() -> Self {
        let criterion = Criterion::AverageReward;
        Self { criterion, learning_rate: 0.02, critic_learning_rate: 0.1, ..Self::default() }
    }

    fn check(&self) -> Result<(), LearnError> {
        self.check_ranges()?;
        let raw = matches!(self.kernels.weighting, Weighting::Raw { .. });
        if raw || matches!(self.weight_sampler, WeightSampler::Box { .. }) {
            let expected = "normalised weights, and a sampler that is no box".to_owned();
            let value = format!("{:?}, {:?}", self.kernels.weighting, self.weight_sampler);
            return Err(LearnError::Setting { name: "weighting", value, expected });
        }
        Ok(())
    }
}

/// A training in progress. Stored and restored at any time, it continues bit-identically.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ActorCritic {
    settings: ActorCriticConfig,
    /// μ, and V as the last output.
    progress: Progress,
    /// Average reward ρ(w): a tensor without kernels over states.
    average: Tensor,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

#[derive(Debug, Clone)]
struct Scratch {
    rollout: Rollout,
    average: Field,
    /// Rewards of a rollout, and then its advantages.
    advantages: Vec<f64>,
    values: Vec<f64>,
}

kernel_learner!(ActorCritic, ActorCriticConfig);

impl ActorCritic {
    /// θ = 0 and V = 0.
    pub fn new(task: &VecTask<'_>, settings: ActorCriticConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check()?;
        let progress = Progress::new(task, &settings.kernels, 1, seed)?;
        let average = Tensor::zeros(Vec::new(), progress.tensor.multipliers().to_vec(), 1)?;
        Ok(Self { settings, progress, average, scratch: None })
    }

    /// Refuses parts that are inconsistent.
    fn check(&self) -> Result<(), LearnError> {
        self.settings.check()?;
        self.progress.check(1, self.settings.std)?;
        let multipliers = self.progress.tensor.multipliers().to_vec();
        Tensor::zeros(Vec::new(), multipliers, 1)?.same_shape(&self.average)
    }

    /// The policy as it is now.
    pub fn policy(&self) -> RbfPolicy {
        self.progress.policy(self.settings.std)
    }

    /// Rollouts up to number `end`, each with its steps on θ, V and ρ.
    fn run_rollouts(
        &mut self,
        task: &VecTask<'_>,
        iteration: u64,
        end: u64,
    ) -> Result<Named<f64>, LearnError> {
        let ActorCriticConfig { weight_sampler, std, n_steps, .. } = self.settings;
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch {
                // One more step, for the value of the state after the last action.
                rollout: Rollout::new(task, &self.settings.kernels, &self.progress, n_steps + 1)?,
                average: Field::new(&self.average),
                advantages: vec![0.0; n_steps],
                values: vec![0.0; n_steps + 1],
            },
        };
        let begin = self.progress.rollouts;
        let (mut total, mut error) = (0.0, 0.0);
        while self.progress.rollouts < end {
            scratch.rollout.run(task, &mut self.progress, weight_sampler, std)?;
            let Scratch { rollout, advantages, values, .. } = &mut scratch;
            values.iter_mut().zip(&rollout.steps).for_each(|(value, step)| *value = step.value);
            advantages.iter_mut().zip(&rollout.steps).for_each(|(reward, step)| *reward = step.reward);
            let sum: f64 = advantages.iter().sum();
            if !sum.is_finite() {
                let quantity = "the return of a rollout";
                return Err(LearnError::Diverged { iteration, quantity, value: sum });
            }
            total += sum;
            if self.settings.criterion == Criterion::AverageReward {
                self.average(&mut scratch);
            }
            self.credit(&mut scratch);
            scratch.rollout.ascend(&mut self.progress.tensor, iteration)?;
            error += scratch.advantages.iter().map(|a| a.abs()).sum::<f64>();
        }
        let rewards = scratch.rollout.reward_metrics(task, &self.progress.prices.scales);
        self.scratch = Some(scratch);
        let count = (end - begin) as f64 * n_steps as f64;
        let metrics =
            [("rollout/scalarized_reward", total / count), ("train/mean_abs_advantage", error / count)];
        Ok(metrics.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(rewards).collect())
    }

    /// Subtracts ρ(w) from the rewards, and moves it by the mean of δ_t = r_t − ρ + V(s_{t+1}) − V(s_t) over the rollout.
    fn average(&mut self, scratch: &mut Scratch) {
        let Scratch { rollout, average: field, advantages: rewards, values } = scratch;
        let mut rho = [0.0];
        field.set_multipliers(&self.average, &rollout.coordinates);
        field.kernels.set_state(&[], std::iter::empty());
        field.value(&self.average, &mut rho);
        rewards.iter_mut().for_each(|r| *r -= rho[0]);
        let gained = values[values.len() - 1] - values[0];
        let error = (rewards.iter().sum::<f64>() + gained) / rewards.len() as f64;
        let step = AVERAGE_RATE * self.settings.critic_learning_rate / self.average.norm();
        field.add_gradient(&[(0, 1.0)], &[step * error]);
        field.ascend(&mut self.average);
    }

    /// Accumulates the gradients of Σ_t log π_θ(a_t|s_t, w) A_t and of the error of V, times their learning rates.
    fn credit(&self, scratch: &mut Scratch) {
        let Scratch { rollout: Rollout { field, steps, .. }, advantages: a, values, .. } = scratch;
        let ActorCriticConfig { criterion, gamma, gae_lambda, learning_rate, .. } = self.settings;
        let ActorCriticConfig { critic_learning_rate, std, .. } = self.settings;
        let gamma = if criterion == Criterion::AverageReward { 1.0 } else { gamma };
        advantages(a, values, gamma, gae_lambda);
        let norm = self.progress.tensor.norm();
        let (actor_rate, critic_rate) =
            (learning_rate / norm, critic_learning_rate / (norm * a.len() as f64));
        let mut coefficients = [0.0; Tensor::OUTPUTS];
        let coefficients = &mut coefficients[..self.progress.tensor.outputs()];
        for (step, advantage) in steps.iter().zip(a.iter()) {
            for (c, noise) in coefficients.iter_mut().zip(&step.noise) {
                *c = actor_rate * advantage * noise / std;
            }
            coefficients[step.noise.len()] = critic_rate * advantage;
            field.add_gradient(&step.kernels, coefficients);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rbf::tests::{line, task};

    fn short() -> ActorCriticConfig {
        ActorCriticConfig { total_steps: 200_000, ..ActorCriticConfig::default() }
    }

    fn returns(learner: &mut ActorCritic, task: &VecTask<'_>) -> Vec<f64> {
        let count = learner.iterations();
        (0..count)
            .map(|_| *learner.iterate(task).unwrap().get("rollout/scalarized_reward").unwrap())
            .collect()
    }

    #[test]
    fn returns_improve_with_both_criteria() {
        let line = line();
        let task = task(&line);
        for settings in [ActorCriticConfig::default(), ActorCriticConfig::average()] {
            let settings =
                ActorCriticConfig { total_steps: 200_000, rollouts_per_iteration: 100, ..settings };
            let found = returns(&mut ActorCritic::new(&task, settings, 0).unwrap(), &task);
            let (first, last) = (found[0], found[90..].iter().sum::<f64>() / 10.0);
            // A random walk obtains a quarter of the reward; going to the better side obtains most of it.
            assert!(first < 0.45 && last > 0.55, "{:?}: {first} {last}", settings.criterion);
        }
    }

    #[test]
    fn settings_out_of_range_and_damaged_states_are_refused() {
        let (line, good) = (line(), short());
        for bad in [
            ActorCriticConfig { gamma: 1.0, ..good },
            ActorCriticConfig { gae_lambda: 1.1, ..good },
            ActorCriticConfig { learning_rate: -1.0, ..good },
            ActorCriticConfig { critic_learning_rate: f64::INFINITY, ..good },
            ActorCriticConfig { n_steps: 0, ..good },
            ActorCriticConfig { weight_sampler: WeightSampler::Box { high: 5.0 }, ..good },
            ActorCriticConfig { kernels: RbfConfig::literal(), ..good },
        ] {
            assert!(ActorCritic::new(&task(&line), bad, 0).is_err(), "{bad:?}");
        }
        let stored = serde_json::to_value(ActorCritic::new(&task(&line), good, 0).unwrap()).unwrap();
        for (path, value) in [
            ("/settings/gamma", serde_json::json!(2.0)),
            ("/average/theta", serde_json::json!([])),
            ("/progress/tensor/outputs", serde_json::json!(1)),
        ] {
            let mut bad = stored.clone();
            *bad.pointer_mut(path).unwrap() = value;
            assert!(serde_json::from_value::<ActorCritic>(bad).is_err(), "{path}");
        }
    }
}
