//! Algorithm 1 with a policy gradient: the paper's Section IV.
//!
//! Each rollout draws (s, λ), holds λ for T steps with π_θ, and takes one step
//!
//! > θ ← θ + η_θ Σ_t ∇_θ log π_θ(a_t|s_t, λ) A_t,  ∇_μ log π_θ(a|s, λ) = (a − μ(s, λ))/σ²
//!
//! on the weights of an [`RbfPolicy`]. The state after the last action is scored as well: the reward of a
//! state is the merit of the actions before it. What an action is credited with is the [`Credit`]:
//!
//! - *literal*, as printed: A_t = Σ_{u=0}^{T} r_λ(s_u, a_u), with r_λ = r₀ + Σ λ_i (r_i − c_i) and raw λ;
//! - *to go*: A_t = Σ_{u=t}^{T} w·r(s_u, a_u) − (T + 1 − t) b(s_t, w), with normalised weights, where b is learnt beside
//!   the policy with the same kernels: it is the average that is to be expected from here on.
//!
//! λ is held in a rollout, so the weights are summed up over the kernels of λ once, and a step costs only the kernels
//! of the state.
//!
//! **Guaranteed**: an unbiased estimate of the gradient of the T-step return. **Not guaranteed**: that T steps
//! see anything. From further away than T steps there is no signal: see [`actor_critic`](crate::actor_critic).

use acrl::{Named, VecTask};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::setting;
use crate::rbf::{Progress, RbfConfig, RbfPolicy, Rollout, Tensor, Weighting};
use crate::{Coverage, LearnError, RewardSample, WeightSampler};

/// What an action is credited with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Credit {
    /// The whole rollout's return, c included: the paper.
    Total,
    /// The return from its step on, less what was to be expected.
    ToGo {
        /// The step size of the expectation b: the share of its error that a rollout takes away, about.
        baseline_step: f64,
    },
}

/// The settings; those of the paper are [`literal`](Self::literal).
///
/// | Name | Default | literal | Purpose | Range |
/// |---|---|---|---|---|
/// | `kernels` | normalised, 3 nodes | raw λ, 6 nodes | the features | |
/// | `sampler` | simplex | box \[0, 5\]^m | which weights are drawn; a box goes with raw λ, and only with it | |
/// | `credit` | to go | total | what an action is credited with | |
/// | `step_size` | 0.003 | 5·10⁻⁵ | η_θ; the paper's 10⁻³ is for the average over T = 20 steps, which its Lagrangian is | above 0 |
/// | `sigma` | 2 | 2 | σ, in units of half the interval of an action if it is bounded | above 0 |
/// | `length` | 20 | 20 | T, the steps of a rollout | 1 to 1,000,000 |
/// | `rollouts` | 1,000,000 | 1,000,000 | rollouts in all | 1 or more |
/// | `block` | 1,000 | 1,000 | rollouts in an iteration that is reported | 1 or more |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyGradientConfig {
    /// The features.
    pub kernels: RbfConfig,
    /// Which weights are drawn.
    pub sampler: WeightSampler,
    /// What an action is credited with.
    pub credit: Credit,
    /// η_θ.
    pub step_size: f64,
    /// σ.
    pub sigma: f64,
    /// T, the steps of a rollout.
    pub length: usize,
    /// Rollouts in all.
    pub rollouts: u64,
    /// Rollouts in an iteration that is reported.
    pub block: u64,
}

impl Default for PolicyGradientConfig {
    fn default() -> Self {
        Self {
            kernels: RbfConfig::default(),
            sampler: WeightSampler::Simplex,
            credit: Credit::ToGo { baseline_step: 0.5 },
            step_size: 0.003,
            sigma: 2.0,
            length: 20,
            rollouts: 1_000_000,
            block: 1_000,
        }
    }
}

impl PolicyGradientConfig {
    /// Those of the paper, where it gives them.
    pub fn literal() -> Self {
        let (kernels, sampler) = (RbfConfig::literal(), WeightSampler::Box { high: 5.0 });
        Self { kernels, sampler, credit: Credit::Total, step_size: 5e-5, ..Self::default() }
    }

    /// The outputs beside μ: the expectation b.
    fn extra(&self) -> usize {
        usize::from(self.credit != Credit::Total)
    }

    fn check(&self) -> Result<(), LearnError> {
        self.sampler.check()?;
        let (weighting, in_box) = (self.kernels.weighting, matches!(self.sampler, WeightSampler::Box { .. }));
        // Nobody draws weights for a policy that does not see them.
        if weighting != Weighting::Nothing && matches!(weighting, Weighting::Raw { .. }) != in_box {
            let expected = "a box (1) with raw multipliers, and only with them";
            return Err(LearnError::Setting { name: "sampler", value: f64::from(in_box), expected });
        }
        let positive = f64::MIN_POSITIVE..;
        setting("step_size", self.step_size, positive.clone(), "a finite number above 0")?;
        setting("sigma", self.sigma, positive.clone(), "a finite number above 0")?;
        if let Credit::ToGo { baseline_step } = self.credit {
            setting("baseline_step", baseline_step, positive, "a finite number above 0")?;
        }
        setting("length", self.length as f64, 1.0..=1e6, "1 to 1,000,000")?;
        setting("rollouts", self.rollouts as f64, 1.0.., "1 or more")?;
        setting("block", self.block as f64, 1.0.., "1 or more")
    }
}

/// A training in progress. Stored and restored at any time, it goes on to the bit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PolicyGradient {
    settings: PolicyGradientConfig,
    /// μ, and b as the last output if there is one.
    progress: Progress,
    #[serde(skip)]
    rollout: Option<Rollout>,
}

impl PolicyGradient {
    /// θ = 0.
    pub fn new(task: &VecTask<'_>, settings: PolicyGradientConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check()?;
        let progress = Progress::new(task, &settings.kernels, settings.extra(), seed)?;
        Ok(Self { settings, progress, rollout: None })
    }

    /// The settings.
    pub fn settings(&self) -> &PolicyGradientConfig {
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

    /// Rollouts done.
    pub(crate) fn rollouts(&self) -> u64 {
        self.progress.rollouts
    }

    /// The first weight that is no number, as an error.
    pub(crate) fn check_weights(&self, iteration: u64) -> Result<(), LearnError> {
        self.progress.check_weights(iteration)
    }

    /// Environment steps done.
    pub fn steps(&self) -> u64 {
        self.progress.steps
    }

    /// The policy as it is now. With the paper's settings it draws its actions, as the paper's agent does.
    pub fn policy(&self) -> RbfPolicy {
        self.progress.policy(self.settings.sigma).sampling(self.settings.credit == Credit::Total)
    }

    /// The rewards that occurred.
    pub fn seen(&self) -> &RewardSample {
        &self.progress.seen
    }

    /// The weights it was trained on so far.
    pub fn coverage(&self) -> &Coverage {
        &self.progress.coverage
    }

    /// A block of rollouts, each with its step on θ. The figure `return` is the mean of r_λ, or of w·r, per step.
    ///
    /// After an error the training is as it was before the call.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let before = self.clone();
        self.block(task).inspect_err(|_| *self = before)
    }

    fn block(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let PolicyGradientConfig { sampler, sigma, length, rollouts, block, .. } = self.settings;
        let iteration = self.iteration() + 1;
        let mut rollout = self.take_rollout(task)?;
        let begin = self.progress.rollouts;
        let end = rollouts.min(iteration.saturating_mul(block)).max(begin + 1);
        let mut total = 0.0;
        while self.progress.rollouts < end {
            rollout.run(task, &mut self.progress, sampler, sigma)?;
            total += self.ascend(task, &mut rollout, iteration)?;
        }
        self.progress.check_weights(iteration)?;
        self.rollout = Some(rollout);
        let mean = total / ((end - begin) as f64 * (length + 1) as f64);
        Ok([("return".to_owned(), mean)].into_iter().collect())
    }

    /// Room for a rollout.
    fn take_rollout(&mut self, task: &VecTask<'_>) -> Result<Rollout, LearnError> {
        match self.rollout.take() {
            Some(rollout) => Ok(rollout),
            // One more step, for the state after the last action.
            None => Rollout::new(task, &self.settings.kernels, &self.progress, self.settings.length + 1),
        }
    }

    /// The step on θ; the return of the rollout.
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

    /// One rollout at weights that somebody else chooses, from a given state or, without one, from a fresh one, and its
    /// step on θ. Writes where it ended and the means of r₀ … r_m, in units of their ranges; returns that of w·r.
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
        rollout.go_on(task, &mut self.progress, self.settings.sigma)?;
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

    /// Adds up η_θ Σ_t ∇ log π_θ(a_t|s_t, λ) A_t; returns the return of the rollout.
    fn credit(&self, task: &VecTask<'_>, rollout: &mut Rollout) -> f64 {
        let PolicyGradientConfig { step_size, sigma, credit, .. } = self.settings;
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
                        *c = step_size * total * noise / sigma;
                    }
                    field.add_gradient(&step.kernels, coefficients);
                }
            }
            Credit::ToGo { baseline_step } => {
                let baseline_step = baseline_step / (self.progress.tensor.norm() * count);
                let (mut to_go, mut left) = (0.0, 0.0);
                for step in steps.iter().rev() {
                    (to_go, left) = (to_go + step.reward, left + 1.0);
                    let surprise = to_go - left * step.value;
                    for (c, noise) in coefficients.iter_mut().zip(&step.noise) {
                        *c = step_size * surprise * noise / sigma;
                    }
                    coefficients[step.noise.len()] = baseline_step * surprise / left;
                    field.add_gradient(&step.kernels, coefficients);
                }
            }
        }
        total
    }
}

impl Serialize for PolicyGradient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for PolicyGradient {
    /// Refuses a training whose parts do not fit together.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let learner = Self::deserialize(deserializer)?;
        let settings = &learner.settings;
        let fits =
            || settings.check().and_then(|()| learner.progress.check(settings.extra(), settings.sigma));
        fits().map_err(serde::de::Error::custom)?;
        Ok(learner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbf::tests::Line;

    fn short() -> PolicyGradientConfig {
        PolicyGradientConfig { rollouts: 10_000, block: 1_000, sigma: 1.0, ..PolicyGradientConfig::default() }
    }

    fn returns(learner: &mut PolicyGradient, task: &VecTask<'_>) -> Vec<f64> {
        let count = learner.iterations();
        (0..count).map(|_| *learner.iterate(task).unwrap().get("return").unwrap()).collect()
    }

    #[test]
    fn returns_improve_in_both_modes() {
        let line = Line::new();
        let task = line.task();
        let working = PolicyGradientConfig { block: 100, ..short() };
        let found = returns(&mut PolicyGradient::new(&task, working, 0).unwrap(), &task);
        let (first, last) = (found[0], found[90..].iter().sum::<f64>() / 10.0);
        // A random walk is near what it is after for a quarter of the time; going to the better side is most of it.
        assert!(first < 0.45 && last > 0.6, "{first} {last}");
        let literal = PolicyGradientConfig { sigma: 1.0, ..short_literal() };
        let found = returns(&mut PolicyGradient::new(&task, literal, 0).unwrap(), &task);
        // r_λ = Σ λ_i (r_i − .3), with λ up to 5.
        assert!(found[9] > found[0] + 0.3, "{found:?}");
    }

    fn short_literal() -> PolicyGradientConfig {
        PolicyGradientConfig { rollouts: 10_000, ..PolicyGradientConfig::literal() }
    }

    #[test]
    fn settings_out_of_range_and_other_problems_are_refused() {
        let (line, good) = (Line::new(), short());
        for bad in [
            PolicyGradientConfig { step_size: 0.0, ..good },
            PolicyGradientConfig { sigma: f64::NAN, ..good },
            PolicyGradientConfig { length: 0, ..good },
            PolicyGradientConfig { rollouts: 0, ..good },
            PolicyGradientConfig { block: 0, ..good },
            PolicyGradientConfig { credit: Credit::ToGo { baseline_step: -1.0 }, ..good },
            PolicyGradientConfig { sampler: WeightSampler::Box { high: 5.0 }, ..good },
            PolicyGradientConfig { sampler: WeightSampler::Simplex, ..short_literal() },
        ] {
            assert!(PolicyGradient::new(&line.task(), bad, 0).is_err(), "{bad:?}");
        }
        let learner = PolicyGradient::new(&line.task(), good, 0).unwrap();
        let mut stored = serde_json::to_value(&learner).unwrap();
        stored["settings"]["credit"] = serde_json::json!("total");
        assert!(serde_json::from_value::<PolicyGradient>(stored).is_err(), "an output too many");
        let requirement = vec![acrl::Requirement::at_least("left", 0.1).unwrap()];
        let other = VecTask::new(&line, acrl::Specification::new(None, requirement).unwrap()).unwrap();
        assert!(learner.clone().iterate(&other).is_err(), "fewer requirements");
    }
}
