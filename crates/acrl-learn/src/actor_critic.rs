//! Algorithm 1 with a policy gradient and a critic, for problems in which rewards are further away than a rollout.
//!
//! Each rollout draws (s, w), holds w for T steps with π_θ, and takes one step on the weights θ of an
//! [`RbfPolicy`] and one on those of a critic V(s, w) with the same kernels:
//!
//! > A_t = Σ_u (γλ)^u δ_{t+u},  δ_t = w·r(s_t, a_t) + γ V(s_{t+1}, w) − V(s_t, w),
//! > θ ← θ + η_θ Σ_t ∇_θ log π_θ(a_t|s_t, w) A_t,  V(s_t, w) ← V(s_t, w) + η_V A_t.
//!
//! With [`Criterion::Average`] γ = 1 and δ_t is less ρ(w), the average that is learnt beside V: ρ(w) ← ρ(w) + η_ρ δ_t.
//!
//! **Choose γ by the way to go**: γ to the number of steps from one region to the next should not be below .2, or
//! there is no signal from afar ([`ActorCriticConfig::for_travel`]). But an agent that looks too far ahead turns round at
//! every change of λ and needs longer epochs: γ = .99 where .95 would do meets requirements only asymptotically
//! with T₀ = 1.
//!
//! **Not guaranteed**: that π_θ maximises the Lagrangian; a discounted maximiser is not the average's.

use acrl::{Named, VecTask};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::criterion::advantages;
use crate::error::setting;
use crate::rbf::{Field, Progress, RbfConfig, RbfPolicy, Rollout, Tensor, Weighting};
use crate::{Coverage, Criterion, LearnError, RewardSample, WeightSampler};

/// The settings.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | `kernels` | normalised, 3 nodes | the features; normalised weights only | |
/// | `sampler` | simplex | which weights are drawn; no box | |
/// | `targets` | discounted | what V is to be | |
/// | `gamma` | 0.95 | γ, per step; of no account with average targets | 0 to below 1 |
/// | `trace` | 0.95 | λ of the advantages | 0 to 1 |
/// | `step_size` | 0.1 | η_θ: by how many σ a step with an advantage of 1 moves μ, about; see [`average`](Self::average) | above 0 |
/// | `critic_step` | 0.5 | η_V: the share of its error that a rollout takes away, about | above 0 |
/// | `sigma` | 1 | σ, in units of half the interval of an action if it is bounded | above 0 |
/// | `length` | 20 | T, the steps of a rollout | 1 to 1,000,000 |
/// | `rollouts` | 500,000 | rollouts in all | 1 or more |
/// | `block` | 1,000 | rollouts in an iteration that is reported | 1 or more |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ActorCriticConfig {
    /// The features.
    pub kernels: RbfConfig,
    /// Which weights are drawn.
    pub sampler: WeightSampler,
    /// What V is to be.
    pub targets: Criterion,
    /// γ.
    pub gamma: f64,
    /// λ of the advantages.
    pub trace: f64,
    /// η_θ.
    pub step_size: f64,
    /// η_V.
    pub critic_step: f64,
    /// σ.
    pub sigma: f64,
    /// T, the steps of a rollout.
    pub length: usize,
    /// Rollouts in all.
    pub rollouts: u64,
    /// Rollouts in an iteration that is reported.
    pub block: u64,
}

impl Default for ActorCriticConfig {
    fn default() -> Self {
        Self {
            kernels: RbfConfig::default(),
            sampler: WeightSampler::Simplex,
            targets: Criterion::Discounted,
            gamma: 0.95,
            trace: 0.95,
            step_size: 0.1,
            critic_step: 0.5,
            sigma: 1.0,
            length: 20,
            rollouts: 500_000,
            block: 1_000,
        }
    }
}

impl ActorCriticConfig {
    /// The defaults with γ such that γ^steps = .2, where `steps` is the way from one place of interest to the next.
    ///
    /// ```
    /// let settings = acrl_learn::ActorCriticConfig::for_travel(31.0);
    /// assert!((settings.gamma - 0.95).abs() < 0.001);
    /// ```
    pub fn for_travel(steps: f64) -> Self {
        Self { gamma: 0.2f64.powf(1.0 / steps.max(1.0)), ..Self::default() }
    }

    /// Those for average targets: differential values vary more than discounted ones, and need smaller steps.
    pub fn average() -> Self {
        Self { targets: Criterion::Average, step_size: 0.02, critic_step: 0.1, ..Self::default() }
    }

    fn check(&self) -> Result<(), LearnError> {
        let raw = matches!(self.kernels.weighting, Weighting::Raw { .. });
        if raw || matches!(self.sampler, WeightSampler::Box { .. }) {
            let expected = "normalised weights, and a sampler that is no box";
            return Err(LearnError::Setting { name: "weighting", value: f64::from(raw), expected });
        }
        let positive = f64::MIN_POSITIVE..;
        setting("gamma", self.gamma, 0.0..1.0, "0 to below 1")?;
        setting("trace", self.trace, 0.0..=1.0, "0 to 1")?;
        setting("step_size", self.step_size, positive.clone(), "a finite number above 0")?;
        setting("critic_step", self.critic_step, positive.clone(), "a finite number above 0")?;
        setting("sigma", self.sigma, positive, "a finite number above 0")?;
        setting("length", self.length as f64, 1.0..=1e6, "1 to 1,000,000")?;
        setting("rollouts", self.rollouts as f64, 1.0.., "1 or more")?;
        setting("block", self.block as f64, 1.0.., "1 or more")
    }
}

/// ρ is learnt this much slower than V, which follows it.
const AVERAGE_STEP: f64 = 0.1;

/// A training in progress. Stored and restored at any time, it goes on to the bit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ActorCritic {
    settings: ActorCriticConfig,
    /// μ, and V as the last output.
    progress: Progress,
    /// ρ(w): a tensor without kernels over states.
    average: Tensor,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

#[derive(Debug, Clone)]
struct Scratch {
    rollout: Rollout,
    average: Field,
    /// The rewards of a rollout, and then its advantages.
    advantages: Vec<f64>,
    values: Vec<f64>,
}

impl ActorCritic {
    /// θ = 0 and V = 0.
    pub fn new(task: &VecTask<'_>, settings: ActorCriticConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check()?;
        let progress = Progress::new(task, &settings.kernels, 1, seed)?;
        let average = Tensor::zeros(Vec::new(), progress.tensor.multipliers().to_vec(), 1)?;
        Ok(Self { settings, progress, average, scratch: None })
    }

    /// The settings.
    pub fn settings(&self) -> &ActorCriticConfig {
        &self.settings
    }

    /// Iterations done.
    pub fn iteration(&self) -> u64 {
        self.progress.rollouts.div_ceil(self.settings.block)
    }

    /// Iterations in all.
    pub fn iterations(&self) -> u64 {
        self.settings.rollouts.div_ceil(self.settings.block)
    }

    /// Environment steps done.
    pub fn steps(&self) -> u64 {
        self.progress.steps
    }

    /// The policy as it is now.
    pub fn policy(&self) -> RbfPolicy {
        self.progress.policy(self.settings.sigma)
    }

    /// The rewards that occurred.
    pub fn seen(&self) -> &RewardSample {
        &self.progress.seen
    }

    /// The weights it was trained on so far.
    pub fn coverage(&self) -> &Coverage {
        &self.progress.coverage
    }

    /// A block of rollouts, each with its steps on θ, V and ρ. The figure `return` is the mean of w·r per step, `error`
    /// the mean of |A|.
    ///
    /// After an error the training is as it was before the call.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let before = self.clone();
        self.block(task).inspect_err(|_| *self = before)
    }

    fn block(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let ActorCriticConfig { sampler, sigma, length, rollouts, block, .. } = self.settings;
        let iteration = self.iteration() + 1;
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch {
                // One more step, for the value of the state after the last action.
                rollout: Rollout::new(task, &self.settings.kernels, &self.progress, length + 1)?,
                average: Field::new(&self.average),
                advantages: vec![0.0; length],
                values: vec![0.0; length + 1],
            },
        };
        let begin = self.progress.rollouts;
        let end = rollouts.min(iteration.saturating_mul(block)).max(begin + 1);
        let (mut total, mut error) = (0.0, 0.0);
        while self.progress.rollouts < end {
            scratch.rollout.run(task, &mut self.progress, sampler, sigma)?;
            let Scratch { rollout, advantages, values, .. } = &mut scratch;
            values.iter_mut().zip(&rollout.steps).for_each(|(value, step)| *value = step.value);
            advantages.iter_mut().zip(&rollout.steps).for_each(|(reward, step)| *reward = step.reward);
            let sum: f64 = advantages.iter().sum();
            if !sum.is_finite() {
                let quantity = "the return of a rollout";
                return Err(LearnError::Diverged { iteration, quantity, value: sum });
            }
            total += sum;
            if self.settings.targets == Criterion::Average {
                self.average(&mut scratch);
            }
            self.credit(&mut scratch);
            scratch.rollout.ascend(&mut self.progress.tensor, iteration)?;
            error += scratch.advantages.iter().map(|a| a.abs()).sum::<f64>();
        }
        self.progress.check_weights(iteration)?;
        self.scratch = Some(scratch);
        let count = (end - begin) as f64 * length as f64;
        Ok([("return".to_owned(), total / count), ("error".to_owned(), error / count)].into_iter().collect())
    }

    /// Takes ρ(w) off the rewards, and moves it by the mean of δ_t = r_t − ρ + V(s_{t+1}) − V(s_t) over the rollout.
    fn average(&mut self, scratch: &mut Scratch) {
        let Scratch { rollout, average: field, advantages: rewards, values } = scratch;
        let mut rho = [0.0];
        field.hold(&self.average, &rollout.coordinates);
        field.kernels.set_state(&[], std::iter::empty());
        field.value(&self.average, &mut rho);
        rewards.iter_mut().for_each(|r| *r -= rho[0]);
        let gained = values[values.len() - 1] - values[0];
        let error = (rewards.iter().sum::<f64>() + gained) / rewards.len() as f64;
        let step = AVERAGE_STEP * self.settings.critic_step / self.average.norm();
        field.add_gradient(&[(0, 1.0)], &[step * error]);
        field.ascend(&mut self.average);
    }

    /// Adds up the gradients of Σ_t log π_θ(a_t|s_t, w) A_t and of the error of V, times their steps.
    fn credit(&self, scratch: &mut Scratch) {
        let Scratch { rollout: Rollout { field, steps, .. }, advantages: a, values, .. } = scratch;
        let ActorCriticConfig { targets, gamma, trace, step_size, critic_step, sigma, .. } = self.settings;
        let gamma = if targets == Criterion::Average { 1.0 } else { gamma };
        advantages(a, values, gamma, trace);
        let norm = self.progress.tensor.norm();
        let (step_size, critic_step) = (step_size / norm, critic_step / (norm * a.len() as f64));
        let mut coefficients = [0.0; Tensor::OUTPUTS];
        let coefficients = &mut coefficients[..self.progress.tensor.outputs()];
        for (step, advantage) in steps.iter().zip(a.iter()) {
            for (c, noise) in coefficients.iter_mut().zip(&step.noise) {
                *c = step_size * advantage * noise / sigma;
            }
            coefficients[step.noise.len()] = critic_step * advantage;
            field.add_gradient(&step.kernels, coefficients);
        }
    }
}

impl Serialize for ActorCritic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for ActorCritic {
    /// Refuses a training whose parts do not fit together.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let learner = Self::deserialize(deserializer)?;
        let fits = || {
            learner.settings.check()?;
            learner.progress.check(1, learner.settings.sigma)?;
            let multipliers = learner.progress.tensor.multipliers().to_vec();
            Tensor::zeros(Vec::new(), multipliers, 1)?.same_shape(&learner.average)
        };
        fits().map_err(serde::de::Error::custom)?;
        Ok(learner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbf::tests::Line;

    fn short() -> ActorCriticConfig {
        ActorCriticConfig { rollouts: 10_000, block: 1_000, ..ActorCriticConfig::default() }
    }

    fn returns(learner: &mut ActorCritic, task: &VecTask<'_>) -> Vec<f64> {
        let count = learner.iterations();
        (0..count).map(|_| *learner.iterate(task).unwrap().get("return").unwrap()).collect()
    }

    #[test]
    fn returns_improve_with_both_targets() {
        let line = Line::new();
        let task = line.task();
        for settings in [ActorCriticConfig::default(), ActorCriticConfig::average()] {
            let settings = ActorCriticConfig { rollouts: 10_000, block: 100, ..settings };
            let found = returns(&mut ActorCritic::new(&task, settings, 0).unwrap(), &task);
            let (first, last) = (found[0], found[90..].iter().sum::<f64>() / 10.0);
            // A random walk is near what it is after for a quarter of the time; going to the better side is most of it.
            assert!(first < 0.45 && last > 0.55, "{:?}: {first} {last}", settings.targets);
        }
    }

    #[test]
    fn settings_out_of_range_and_damaged_states_are_refused() {
        let (line, good) = (Line::new(), short());
        for bad in [
            ActorCriticConfig { gamma: 1.0, ..good },
            ActorCriticConfig { trace: 1.1, ..good },
            ActorCriticConfig { step_size: -1.0, ..good },
            ActorCriticConfig { critic_step: f64::INFINITY, ..good },
            ActorCriticConfig { length: 0, ..good },
            ActorCriticConfig { sampler: WeightSampler::Box { high: 5.0 }, ..good },
            ActorCriticConfig { kernels: RbfConfig::literal(), ..good },
        ] {
            assert!(ActorCritic::new(&line.task(), bad, 0).is_err(), "{bad:?}");
        }
        let stored = serde_json::to_value(ActorCritic::new(&line.task(), good, 0).unwrap()).unwrap();
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
