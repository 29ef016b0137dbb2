//! Algorithm 1 with a policy gradient (REINFORCE, Williams 1992): the paper's Section IV.
//!
//! Each rollout draws (s, λ), keeps λ for T steps with π_θ, and takes one step
//!
//! > θ ← θ + η_θ Σ_t ∇_θ log π_θ(a_t|s_t, λ) A_t,  ∇_μ log π_θ(a|s, λ) = (a − μ(s, λ))/σ²
//!
//! on the weights of an [`RbfPolicy`]. The state after the last action is scored as well: the reward of a state is due to
//! the actions before it. The [`Credit`] of an action is
//!
//! - *literal*, as printed: A_t = Σ_{u=0}^{T} r_λ(s_u, a_u), with r_λ = r₀ + Σ λ_i (r_i − c_i) and raw λ;
//! - *to go*: A_t = Σ_{u=t}^{T} w·r(s_u, a_u) − (T + 1 − t) b(s_t, w), with normalised weights, where the baseline b is
//!   learnt beside the policy with the same kernels: the expected average of the remaining rewards.
//!
//! λ is constant in a rollout, so the weights are summed over the kernels of λ once, and a step costs only the kernels of
//! the state.
//!
//! **Guaranteed**: an unbiased estimate of the gradient of the T-step return. **Not guaranteed**: that rewards are within
//! T steps. From further away there is no signal: see [`actor_critic`](super::actor_critic).

use acrl::{Named, VecTask};
use serde::{Deserialize, Serialize};

use super::kernel_learner;
use super::rbf::{Progress, RbfConfig, RbfPolicy, Rollout, Tensor, Weighting};
use crate::error::setting;
use crate::settings::{POSITIVE, Range, STEPS, Settings, settings};
use crate::{LearnError, WeightSampler};

/// Return that an action is credited with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Credit {
    /// Return of the whole rollout, bounds c included, as in the paper.
    Total,
    /// Return from its step on, minus a baseline.
    ToGo {
        /// Learning rate of the baseline b: about the share of its error that a rollout removes.
        baseline_learning_rate: f64,
    },
}

settings! {
    /// The settings of the policy gradient; those of the paper are [`literal`](Self::literal).
    #[derive(Copy)]
    pub struct PolicyGradientConfig {
        /// Environment steps of the training; not counted is one more per rollout, which scores its last state.
        total_steps: u64 = 20_000_000; STEPS;
        /// Steps T of a rollout.
        n_steps: usize = 20; Range::Whole(1, 1_000_000);
        /// Rollouts in an iteration, which is the unit of reports and checkpoints.
        rollouts_per_iteration: u64 = 1_000; STEPS;
        /// Learning rate η_θ; the paper's 10⁻³ is for the average over T = 20 steps, which its Lagrangian is.
        learning_rate: f64 = 0.003; POSITIVE;
        /// Standard deviation σ of actions, in half-widths of their interval if that is bounded.
        std: f64 = 2.0; POSITIVE;
        /// Return that an action is credited with: `total`, or `to_go` with the learning rate of a baseline.
        credit: Credit = Credit::ToGo { baseline_learning_rate: 0.5 }; Range::Table("\"total\" or { to_go = { baseline_learning_rate = X } }");
        /// Distribution of the weights to train on; a box goes with raw multipliers, and only with them.
        weight_sampler: WeightSampler = WeightSampler::Simplex; Range::Word(WeightSampler::WORDS);
        /// Kernels over states and multipliers.
        kernels: RbfConfig = RbfConfig::default(); Range::Table("a table of weighting, state_nodes and weight_nodes");
    }
}

impl PolicyGradientConfig {
    /// The settings of the paper, where it gives them.
    pub fn literal() -> Self {
        let (kernels, weight_sampler) = (RbfConfig::literal(), WeightSampler::Box { high: 5.0 });
        Self { kernels, weight_sampler, credit: Credit::Total, learning_rate: 5e-5, ..Self::default() }
    }

    /// Number of outputs beside μ: the baseline b.
    fn extra(&self) -> usize {
        usize::from(self.credit != Credit::Total)
    }

    fn check(&self) -> Result<(), LearnError> {
        self.check_ranges()?;
        self.weight_sampler.check()?;
        let (weighting, sampler) = (self.kernels.weighting, self.weight_sampler);
        let in_box = matches!(sampler, WeightSampler::Box { .. });
        // A policy that is not conditioned on weights needs no sampler of them.
        if weighting != Weighting::Nothing && matches!(weighting, Weighting::Raw { .. }) != in_box {
            let expected = "a box with raw multipliers, and only with them".to_owned();
            return Err(LearnError::Setting {
                name: "weight_sampler",
                value: format!("{sampler:?}"),
                expected,
            });
        }
        if let Credit::ToGo { baseline_learning_rate } = self.credit {
            let positive = f64::MIN_POSITIVE..;
            setting("baseline_learning_rate", baseline_learning_rate, positive, "a finite number above 0")?;
        }
        Ok(())
    }
}

/// A training in progress. Stored and restored at any time, it continues bit-identically.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PolicyGradient {
    settings: PolicyGradientConfig,
    /// μ, and the baseline b as the last output if there is one.
    progress: Progress,
    #[serde(skip)]
    rollout: Option<Rollout>,
}

kernel_learner!(PolicyGradient, PolicyGradientConfig);

impl PolicyGradient {
    /// θ = 0.
    pub fn new(task: &VecTask<'_>, settings: PolicyGradientConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check()?;
        let progress = Progress::new(task, &settings.kernels, settings.extra(), seed)?;
        Ok(Self { settings, progress, rollout: None })
    }

    /// Number of rollouts done.
    pub(crate) fn rollouts(&self) -> u64 {
        self.progress.rollouts
    }

    /// An error if a weight is not finite.
    pub(crate) fn check_weights(&self, iteration: u64) -> Result<(), LearnError> {
        self.progress.check_weights(iteration)
    }

    /// Refuses parts that are inconsistent.
    fn check(&self) -> Result<(), LearnError> {
        self.settings.check()?;
        self.progress.check(self.settings.extra(), self.settings.std)
    }

    /// The policy as it is now. With the paper's settings it draws its actions, as the paper's agent does.
    pub fn policy(&self) -> RbfPolicy {
        self.progress.policy(self.settings.std).sampling(self.settings.credit == Credit::Total)
    }

    /// Rollouts up to number `end`, each with its gradient step.
    fn run_rollouts(
        &mut self,
        task: &VecTask<'_>,
        iteration: u64,
        end: u64,
    ) -> Result<Named<f64>, LearnError> {
        let PolicyGradientConfig { weight_sampler, std, n_steps, .. } = self.settings;
        let mut rollout = self.take_rollout(task)?;
        let begin = self.progress.rollouts;
        let mut total = 0.0;
        while self.progress.rollouts < end {
            rollout.run(task, &mut self.progress, weight_sampler, std)?;
            total += self.ascend(task, &mut rollout, iteration)?;
        }
        let rewards = rollout.reward_metrics(task, &self.progress.prices.scales);
        self.rollout = Some(rollout);
        let mean = total / ((end - begin) as f64 * (n_steps + 1) as f64);
        Ok(std::iter::once(("rollout/scalarized_reward".to_owned(), mean)).chain(rewards).collect())
    }

    /// Buffers for a rollout.
    fn take_rollout(&mut self, task: &VecTask<'_>) -> Result<Rollout, LearnError> {
        match self.rollout.take() {
            Some(rollout) => Ok(rollout),
            // One more step, for the state after the last action.
            None => Rollout::new(task, &self.settings.kernels, &self.progress, self.settings.n_steps + 1),
        }
    }

    /// The gradient step; returns the return of the rollout.
    fn ascend(
        &mut self,
        task: &VecTask<'_>,
        rollout: &mut Rollout,
        iteration: u64,
    ) -> Result<f64, LearnError> {
        let sum = self.credit(task, rollout);
        if !sum.is_finite() {
            let quantity = "the return of a rollout";
            return Err(LearnError::Diverged { iteration, quantity, value: sum });
        }
        rollout.ascend(&mut self.progress.tensor, iteration)?;
        Ok(sum)
    }

    /// One rollout at given weights, from a given state or, without one, from an initial one, and its gradient step. Writes
    /// the last state and the means of r₀ … r_m, in units of their ranges; returns that of w·r.
    pub(crate) fn learn(
        &mut self,
        task: &VecTask<'_>,
        weights: &[f64],
        state: Option<&mut Vec<f64>>,
        means: &mut [f64],
    ) -> Result<f64, LearnError> {
        let iteration = self.iteration() + 1;
        let mut rollout = self.take_rollout(task)?;
        rollout.weights.copy_from_slice(weights);
        match &state {
            Some(state) => rollout.state.set_column(0, state),
            None => task.environment().reset(&mut rollout.state, 0, &mut self.progress.rng)?,
        }
        rollout.take_steps(task, &mut self.progress, self.settings.std)?;
        let total = self.ascend(task, &mut rollout, iteration)?;
        let count = rollout.steps.len() as f64;
        means.iter_mut().zip(&rollout.sums).for_each(|(mean, sum)| *mean = sum / count);
        if let Some(state) = state {
            state.clear();
            state.extend(rollout.state.column(0));
        }
        self.rollout = Some(rollout);
        Ok(total / count)
    }

    /// Accumulates η_θ Σ_t ∇ log π_θ(a_t|s_t, λ) A_t; returns the return of the rollout.
    fn credit(&self, task: &VecTask<'_>, rollout: &mut Rollout) -> f64 {
        let PolicyGradientConfig { learning_rate, std, credit, .. } = self.settings;
        let Rollout { field, steps, weights, .. } = rollout;
        let mut total: f64 = steps.iter().map(|step| step.reward).sum();
        let mut coefficients = [0.0; Tensor::OUTPUTS];
        let coefficients = &mut coefficients[..self.progress.tensor.outputs()];
        let count = steps.len() as f64;
        match credit {
            Credit::Total => {
                let requirements = task.specification().requirements().iter();
                let priced = requirements.zip(&self.progress.prices.scales[1..]).zip(&weights[1..]);
                total -= count * priced.map(|((r, scale), w)| w * r.c() / scale).sum::<f64>();
                for step in steps {
                    for (c, noise) in coefficients.iter_mut().zip(&step.noise) {
                        *c = learning_rate * total * noise / std;
                    }
                    field.add_gradient(&step.kernels, coefficients);
                }
            }
            Credit::ToGo { baseline_learning_rate } => {
                let baseline_rate = baseline_learning_rate / (self.progress.tensor.norm() * count);
                let (mut to_go, mut left) = (0.0, 0.0);
                for step in steps.iter().rev() {
                    (to_go, left) = (to_go + step.reward, left + 1.0);
                    let advantage = to_go - left * step.value;
                    for (c, noise) in coefficients.iter_mut().zip(&step.noise) {
                        *c = learning_rate * advantage * noise / std;
                    }
                    coefficients[step.noise.len()] = baseline_rate * advantage / left;
                    field.add_gradient(&step.kernels, coefficients);
                }
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rbf::tests::{line, task};

    fn short() -> PolicyGradientConfig {
        PolicyGradientConfig { total_steps: 200_000, std: 1.0, ..PolicyGradientConfig::default() }
    }

    fn returns(learner: &mut PolicyGradient, task: &VecTask<'_>) -> Vec<f64> {
        let count = learner.iterations();
        (0..count)
            .map(|_| *learner.iterate(task).unwrap().get("rollout/scalarized_reward").unwrap())
            .collect()
    }

    #[test]
    fn returns_improve_with_both_credits() {
        let line = line();
        let task = task(&line);
        let working = PolicyGradientConfig { rollouts_per_iteration: 100, ..short() };
        let found = returns(&mut PolicyGradient::new(&task, working, 0).unwrap(), &task);
        let (first, last) = (found[0], found[90..].iter().sum::<f64>() / 10.0);
        // A random walk obtains a quarter of the reward; going to the better side obtains most of it.
        assert!(first < 0.45 && last > 0.6, "{first} {last}");
        let literal = PolicyGradientConfig { std: 1.0, ..short_literal() };
        let found = returns(&mut PolicyGradient::new(&task, literal, 0).unwrap(), &task);
        // r_λ = Σ λ_i (r_i − .3), with λ up to 5.
        assert!(found[9] > found[0] + 0.3, "{found:?}");
    }

    fn short_literal() -> PolicyGradientConfig {
        PolicyGradientConfig { total_steps: 200_000, ..PolicyGradientConfig::literal() }
    }

    #[test]
    fn settings_out_of_range_and_other_problems_are_refused() {
        let (line, good) = (line(), short());
        for bad in [
            PolicyGradientConfig { learning_rate: 0.0, ..good },
            PolicyGradientConfig { std: f64::NAN, ..good },
            PolicyGradientConfig { n_steps: 0, ..good },
            PolicyGradientConfig { total_steps: 0, ..good },
            PolicyGradientConfig { rollouts_per_iteration: 0, ..good },
            PolicyGradientConfig { credit: Credit::ToGo { baseline_learning_rate: -1.0 }, ..good },
            PolicyGradientConfig { weight_sampler: WeightSampler::Box { high: 5.0 }, ..good },
            PolicyGradientConfig { weight_sampler: WeightSampler::Simplex, ..short_literal() },
        ] {
            assert!(PolicyGradient::new(&task(&line), bad, 0).is_err(), "{bad:?}");
        }
        let learner = PolicyGradient::new(&task(&line), good, 0).unwrap();
        let mut stored = serde_json::to_value(&learner).unwrap();
        stored["settings"]["credit"] = serde_json::json!("total");
        assert!(serde_json::from_value::<PolicyGradient>(stored).is_err(), "an output too many");
        let requirement = vec![acrl::Requirement::at_least("left", 0.1).unwrap()];
        let other = VecTask::new(&line, acrl::Specification::new(None, requirement).unwrap()).unwrap();
        assert!(learner.clone().iterate(&other).is_err(), "fewer requirements");
    }
}
