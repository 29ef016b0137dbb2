//! Baselines that Algorithm 1 is compared with.
//!
//! On continuous problems they train one policy π(s) that is not conditioned on multipliers, while a dual
//! rule changes the weights of the rewards. All of them share a trainer, [`Baseline`]: a rollout at the weights
//! w = (1, λ)/(1 + Σλ), an update of the policy, and the rule for λ, given the deficits g = c − r̄ of that rollout, all
//! in units of the rewards' ranges. Networks, budget and seeds are those of the learner it is compared with.
//!
//! Rules, and what each of them guarantees: `docs/training.md`, section "Baselines".
//!
//! Where one stationary policy can meet the requirements and training finds it, as in `wireless`, all of them may work.
//! Where behaviour has to be switched, as between regions that are far apart, only primal averaging can, because it
//! executes one policy for 2,000 steps at a time.
//!
//! The executed policy samples its actions, as in training: the multipliers balanced the averages of sampled actions.
//!
//! [`finite`] has the exact versions for finite models.

mod dual_rules;
pub mod finite;
mod snapshots;

use acrl::{Named, VecTask};
use serde::{Deserialize, Serialize};

use crate::error::{length, setting};
use crate::kernel::policy_gradient::Credit;
use crate::kernel::rbf::Weighting;
use crate::metrics::reward_metrics;
use crate::settings::{POSITIVE, Range, STEPS, Settings, settings};
use crate::weights::normalize;
use crate::{
    Coverage, LearnError, LearnerConfig, Method, PolicyGradient, Ppo, RewardSample, TrainedPolicy, Training,
};
use dual_rules::DualRule;
pub use dual_rules::PidGains;
pub use snapshots::Snapshots;

settings! {
    /// The settings of a baseline; multipliers are in units of the rewards' ranges.
    pub struct BaselineConfig {
        /// Method; `a_crl`, which trains one policy for all multipliers, is none of the baselines.
        method: Method = Method::PrimalDual, ("`a_crl`; in Rust `primal_dual`"); Range::Word(Method::WORDS);
        /// Learning rate η of the multipliers; of dual descent divided by √k in round k, of PID a factor of all gains.
        lambda_lr: Option<f64> = None, ("0.3; dual descent: 2; PID: 1"); POSITIVE;
        /// Fixed weights: λ, one number per requirement.
        multipliers: Option<Vec<f64>> = None, ("1 each"); Range::Nonnegative;
        /// Dual descent: number of trainings, each at one λ.
        rounds: u64 = 10; STEPS;
        /// PID-Lagrangian: gains of the controller.
        gains: PidGains = PidGains::default(); Range::Table("a table of proportional, integral, derivative and smoothing");
        /// Primal averaging: number of stored policies.
        snapshots: usize = 32; Range::Whole(1, 10_000);
    }
}

impl BaselineConfig {
    /// The default settings of a method.
    pub fn new(method: Method) -> Self {
        Self { method, ..Self::default() }
    }

    /// The same baseline with another learning rate of its multipliers.
    pub fn with_lambda_lr(self, lambda_lr: f64) -> Self {
        Self { lambda_lr: Some(lambda_lr), ..self }
    }

    fn lambda_lr(&self) -> f64 {
        self.lambda_lr.unwrap_or(match self.method {
            Method::DualDescent => 2.0,
            Method::PidLagrangian => 1.0,
            _ => 0.3,
        })
    }

    fn check(&self, m: usize) -> Result<(), LearnError> {
        self.check_ranges()?;
        setting("lambda_lr", self.lambda_lr(), f64::MIN_POSITIVE.., "a finite number above 0")?;
        if let Some(multipliers) = &self.multipliers {
            length("multipliers of fixed weights", m, multipliers.len())?;
        }
        self.gains.check_ranges()
    }
}

/// A training of a baseline that can be stopped between two iterations, stored, and continued bit-identically.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    settings: BaselineConfig,
    rule: DualRule,
    /// PPO or a policy gradient, with a policy that is not conditioned on weights.
    learner: Training,
    /// Bounds c₁ … c_m in units of ranges.
    bounds: Vec<f64>,
    names: Vec<String>,
    objective: bool,
    /// Current state of the single trajectory of a policy gradient.
    state: Vec<f64>,
    /// Means of r₀ … r_m over all rollouts so far, in units of ranges.
    online: Vec<f64>,
    /// Number of rollouts so far, without those that are reset.
    rollouts: u64,
    snapshots: Vec<TrainedPolicy>,
}

/// Metrics of an iteration, and the means of r₀ … r_m in units of ranges.
type RolloutMetrics = (Vec<(String, f64)>, Vec<f64>);

impl Baseline {
    /// A training from scratch.
    pub fn new(
        task: &VecTask<'_>,
        settings: BaselineConfig,
        learner: LearnerConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let requirements = task.specification().requirements();
        let m = requirements.len();
        settings.check(m)?;
        let mut state = Vec::new();
        let learner = match learner {
            LearnerConfig::Ppo(config) => Training::Ppo(Box::new(Ppo::unconditioned(task, config, seed)?)),
            LearnerConfig::PolicyGradient(mut config) => {
                config.kernels.weighting = Weighting::Nothing;
                let mut start = acrl::BatchMatrix::zeros(task.environment().state_dimension(), 1);
                task.environment().reset(&mut start, 0, &mut acrl::Rng::stream(seed, 1))?;
                state.extend(start.column(0));
                Training::PolicyGradient(Box::new(PolicyGradient::new(task, config, seed)?))
            }
            LearnerConfig::ActorCritic(_) => {
                return Err(LearnError::Learner { method: settings.method.name(), learner: "actor_critic" });
            }
        };
        let bounds = requirements.iter().zip(&task.scales()[1..]).map(|(r, scale)| r.c() / scale);
        let mut baseline = Self {
            rule: DualRule::new(&BaselineConfig::new(Method::FixedWeights), m, 0),
            bounds: bounds.collect(),
            names: task.specification().names(),
            objective: task.has_objective(),
            state,
            online: vec![0.0; m + 1],
            rollouts: 0,
            snapshots: Vec::new(),
            settings,
            learner,
        };
        baseline.rule = DualRule::new(&baseline.settings, m, baseline.all_rollouts());
        Ok(baseline)
    }

    /// One iteration of the learner; the metric `train/multiplier/NAME` is λ in units of ranges.
    ///
    /// On an error the policy is as it was before the iteration.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let (mut metrics, means) = match &self.learner {
            Training::PolicyGradient(_) => {
                let before = self.clone();
                self.iterate_gradient(task).inspect_err(|_| *self = before)?
            }
            // PPO restores its networks itself.
            _ => self.iterate_ppo(task)?,
        };
        metrics.extend(reward_metrics(task, task.scales(), &means));
        let named = self.names.iter().map(|name| format!("train/multiplier/{name}"));
        metrics.extend(named.zip(self.rule.multipliers().iter().copied()));
        Ok(metrics.into_iter().collect())
    }

    /// An iteration of PPO.
    fn iterate_ppo(&mut self, task: &VecTask<'_>) -> Result<RolloutMetrics, LearnError> {
        let (weights, progress_remaining) = (self.weights(), self.progress_remaining());
        let Training::Ppo(learner) = &mut self.learner else {
            let (method, learner) = (self.settings.method.name(), self.learner.learner());
            return Err(LearnError::Learner { method, learner });
        };
        let (update, means) = learner.iterate_at(task, &weights, progress_remaining)?;
        let reward = weights.iter().zip(&means).map(|(w, r)| w * r).sum();
        self.dual_update(&means);
        let metrics = std::iter::once(("rollout/scalarized_reward".to_owned(), reward));
        Ok((metrics.chain(update.entries()).collect(), means))
    }

    /// The rollouts of an iteration of the policy gradient.
    fn iterate_gradient(&mut self, task: &VecTask<'_>) -> Result<RolloutMetrics, LearnError> {
        let iteration = self.iteration() + 1;
        let (mut total, mut count, mut observed) = (0.0, 0.0, 0.0);
        let (mut means, mut sums) = (vec![0.0; self.online.len()], vec![0.0; self.online.len()]);
        loop {
            let (weights, single_trajectory) = (self.weights(), self.single_trajectory());
            let Training::PolicyGradient(learner) = &mut self.learner else { break };
            let reset = !single_trajectory && learner.rollouts() % 2 == 1;
            let state = (!reset).then_some(&mut self.state);
            total += learner.learn(task, &weights, state, &mut means)?;
            count += 1.0;
            if !reset {
                self.dual_update(&means);
                sums.iter_mut().zip(&means).for_each(|(sum, mean)| *sum += mean);
                observed += 1.0;
            }
            let Training::PolicyGradient(learner) = &self.learner else { break };
            let (done, settings) = (learner.rollouts(), learner.settings());
            if done.is_multiple_of(settings.rollouts_per_iteration) || done >= settings.rollouts() {
                learner.check_weights(iteration)?;
                break;
            }
        }
        sums.iter_mut().for_each(|sum| *sum /= f64::max(observed, 1.0));
        Ok((vec![("rollout/scalarized_reward".to_owned(), total / count)], sums))
    }

    /// Updates λ and the averages by a rollout, and stores a snapshot where that is due.
    fn dual_update(&mut self, means: &[f64]) {
        self.rollouts += 1;
        let share = 1.0 / self.rollouts as f64;
        self.online.iter_mut().zip(means).for_each(|(online, mean)| *online += share * (mean - *online));
        let deficits: Vec<f64> = self.bounds.iter().zip(&means[1..]).map(|(c, r)| c - r).collect();
        self.rule.update(&deficits);
        if self.settings.method == Method::PrimalAveraging {
            let all = self.all_rollouts();
            if snapshots::is_due(self.rollouts, all, self.settings.snapshots) {
                self.snapshots.push(self.snapshot());
            }
        }
    }

    /// Weights w₀ … w_m: (1, λ), or (0, λ) without an objective, divided by the sum unless λ is raw.
    fn weights(&self) -> Vec<f64> {
        let mut weights = vec![if self.objective { 1.0 } else { 0.0 }];
        weights.extend(self.rule.multipliers());
        if !self.single_trajectory() {
            normalize(&mut weights[usize::from(!self.objective)..]);
        }
        weights
    }

    /// Share of the training that remains, which scales the learning rate: it decreases to 0 in each round of dual
    /// descent, which is a training by itself, is 1 with primal averaging, and decreases once otherwise.
    fn progress_remaining(&self) -> f64 {
        let rounds = match self.settings.method {
            Method::PrimalAveraging => return 1.0,
            Method::DualDescent => self.settings.rounds,
            _ => 1,
        };
        let round = self.all_rollouts().div_ceil(rounds);
        1.0 - (self.rollouts % round) as f64 / round as f64
    }

    /// Whether all rollouts are one trajectory and λ is raw, as in the paper's Section IV: with the literal credit of a
    /// policy gradient. Otherwise every other rollout is reset, and the weights are normalised.
    fn single_trajectory(&self) -> bool {
        matches!(&self.learner, Training::PolicyGradient(learner) if learner.settings().credit == Credit::Total)
    }

    /// Number of rollouts of the whole training, without those that are reset.
    fn all_rollouts(&self) -> u64 {
        match &self.learner {
            Training::PolicyGradient(learner) if self.single_trajectory() => learner.settings().rollouts(),
            Training::PolicyGradient(learner) => learner.settings().rollouts().div_ceil(2),
            learner => learner.iterations(),
        }
    }

    /// The current policy, which samples its actions.
    fn snapshot(&self) -> TrainedPolicy {
        match self.learner.policy() {
            TrainedPolicy::Rbf(policy) => TrainedPolicy::Rbf(Box::new(policy.sampling(true))),
            policy => policy,
        }
    }

    /// The policy to execute: the current one, or the snapshots.
    pub fn policy(&self) -> TrainedPolicy {
        if self.snapshots.is_empty() {
            return self.snapshot();
        }
        TrainedPolicy::Snapshots(Box::new(Snapshots::new(self.snapshots.clone())))
    }

    /// Whether another training has the same method, learner and settings.
    pub fn same_settings(&self, other: &Self) -> bool {
        self.settings == other.settings && self.learner.same_settings(&other.learner)
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.settings.method
    }

    /// The learner's name.
    pub fn learner(&self) -> &'static str {
        self.learner.learner()
    }

    /// λ, in units of the rewards' ranges.
    pub fn multipliers(&self) -> &[f64] {
        self.rule.multipliers()
    }

    /// Averages of r₀ … r_m during training, in units of the rewards' ranges, without environments and rollouts that are
    /// reset: what is attained if the training is the execution.
    pub fn online(&self) -> &[f64] {
        &self.online
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        self.learner.iteration()
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        self.learner.iterations()
    }

    /// Environment steps done.
    pub fn steps(&self) -> u64 {
        self.learner.steps()
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        self.learner.reward_sample()
    }

    /// An empty sample: the policy does not depend on weights.
    pub fn coverage(&self) -> &Coverage {
        self.learner.coverage()
    }
}
