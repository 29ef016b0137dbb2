//! What Algorithm 1 is compared with on continuous problems: one policy π(s) that sees no multipliers, and a rule by which
//! the weights of the rewards change while it trains.
//!
//! All of them share a trainer, [`Baseline`]: a stretch of experience at the weights w = (1, λ)/(1 + Σλ), a step on the
//! policy by one of the [`UnconditionedLearner`]s, and then the method's rule for λ, given the deficits g = c − r̄ of that
//! stretch, all in units of the rewards' ranges. Networks, budget and seeds are those of the learner it is compared with.
//!
//! | method | rule | guaranteed | not guaranteed |
//! |---|---|---|---|
//! | [`fixed_weights`] | λ is given | a good policy for *these* weights | anything about the requirements: there may be no weights that would do |
//! | [`dual_descent`] | λ by the settled deficit, after a long training at each | λ near the optimal prices | that π(·) at these prices meets the requirements: maximisers at λ* need not |
//! | [`primal_dual`] | λ ← \[λ + ηg\]₊ after each stretch | the averages *while it trains*, short by λ/(ηn) | the policy that is left at the end |
//! | [`pid_lagrangian`] | λ by deficit, its integral and its rise | the same up to the other two terms, with less overshoot | the same |
//! | [`primal_averaging`] | as primal-dual, and policies on the way are stored | the mean over what is stored, as far as λ stayed bounded and the store is a fair sample | a single policy: it takes as many times the memory |
//!
//! Where one stationary policy can meet the requirements and be found on the way, as in `wireless`, they all may work. Where
//! behaviour has to be switched, as between regions that are far apart, only the last one can, in long stretches.
//!
//! What is executed draws its actions, as in training: the averages that the multipliers balanced were those of drawn actions.

pub mod dual_descent;
pub mod fixed_weights;
pub mod pid_lagrangian;
pub mod primal_averaging;
pub mod primal_dual;

use acrl::{Named, VecTask};
use serde::{Deserialize, Serialize};

use crate::error::{length, setting};
use crate::policy_gradient::Credit;
use crate::ppo::{PpoConfig, UnconditionedPpo};
use crate::rbf::Weighting;
use crate::weight_sampler::normalise;
use crate::{Coverage, LearnError, PolicyGradient, PolicyGradientConfig, RewardSample, TrainedPolicy};
use dual_descent::DualDescent;
use pid_lagrangian::{Gains, PidLagrangian};
pub use primal_averaging::Snapshots;
use primal_dual::PrimalDual;

/// A baseline and its settings; multipliers and steps are in units of the rewards' ranges.
///
/// | Setting | Default | Purpose | Range |
/// |---|---|---|---|
/// | `multipliers` | 1 each | fixed weights: λ | 0 or more |
/// | `rounds` | 10 | dual descent: trainings, each at one λ | 1 or more |
/// | `step_size` | .3 | η; of dual descent 2, divided by √k in round k | above 0 |
/// | `gains` | see [`Gains`] | PID-Lagrangian: of its three terms | 0 or more |
/// | `snapshots` | 32 | primal averaging: policies stored | 1 to 10,000 |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum Method {
    /// λ is given.
    FixedWeights { multipliers: Vec<f64> },
    /// λ moves after a long training at each.
    DualDescent { rounds: u64, step_size: f64 },
    /// λ moves after each stretch.
    PrimalDual { step_size: f64 },
    /// λ by deficit, integral and rise.
    PidLagrangian { gains: Gains },
    /// As primal-dual, and policies on the way are stored.
    PrimalAveraging { step_size: f64, snapshots: usize },
}

impl Method {
    /// Fixed weights, the same for all rewards of a task.
    pub fn even(task: &VecTask<'_>) -> Self {
        Self::FixedWeights { multipliers: vec![1.0; task.specification().requirements().len()] }
    }

    /// Dual descent with the default settings.
    pub fn dual_descent() -> Self {
        Self::DualDescent { rounds: 10, step_size: 2.0 }
    }

    /// Primal-dual with the default settings.
    pub fn primal_dual() -> Self {
        Self::PrimalDual { step_size: 0.3 }
    }

    /// PID-Lagrangian with the default settings.
    pub fn pid_lagrangian() -> Self {
        Self::PidLagrangian { gains: Gains::default() }
    }

    /// Primal averaging with the default settings.
    pub fn primal_averaging() -> Self {
        Self::PrimalAveraging { step_size: 0.3, snapshots: 32 }
    }

    /// Its name, as it is written in problem files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FixedWeights { .. } => "fixed_weights",
            Self::DualDescent { .. } => "dual_descent",
            Self::PrimalDual { .. } => "primal_dual",
            Self::PidLagrangian { .. } => "pid_lagrangian",
            Self::PrimalAveraging { .. } => "primal_averaging",
        }
    }

    /// The same with another η, or with all gains multiplied by it where there are several.
    pub fn with_step_size(mut self, eta: f64) -> Self {
        match &mut self {
            Self::FixedWeights { .. } => {}
            Self::DualDescent { step_size, .. }
            | Self::PrimalDual { step_size }
            | Self::PrimalAveraging { step_size, .. } => *step_size = eta,
            Self::PidLagrangian { gains } => *gains = gains.times(eta),
        }
        self
    }

    fn check(&self, m: usize) -> Result<(), LearnError> {
        let positive = |value| setting("step_size", value, f64::MIN_POSITIVE.., "a finite number above 0");
        match self {
            Self::FixedWeights { multipliers } => {
                length("multipliers of fixed weights", m, multipliers.len())?;
                multipliers.iter().try_for_each(|l| setting("multipliers", *l, 0.0.., "0 or more"))
            }
            Self::DualDescent { rounds, step_size } => {
                setting("rounds", *rounds as f64, 1.0.., "1 or more")?;
                positive(*step_size)
            }
            Self::PrimalDual { step_size } => positive(*step_size),
            Self::PidLagrangian { gains } => gains.check(),
            Self::PrimalAveraging { step_size, snapshots } => {
                setting("snapshots", *snapshots as f64, 1.0..=10_000.0, "1 to 10,000")?;
                positive(*step_size)
            }
        }
    }

    /// The rule for λ, for so many stretches of experience in all.
    fn rule(&self, m: usize, stretches: u64) -> Rule {
        match self {
            Self::FixedWeights { multipliers } => Rule::Fixed(multipliers.clone()),
            Self::DualDescent { rounds, step_size } => {
                Rule::Descent(DualDescent::new(*step_size, stretches.div_ceil(*rounds), m))
            }
            Self::PrimalDual { step_size } | Self::PrimalAveraging { step_size, .. } => {
                Rule::Ascent(PrimalDual::new(*step_size, m))
            }
            Self::PidLagrangian { gains } => Rule::Pid(PidLagrangian::new(*gains, m)),
        }
    }
}

/// Where λ is, and how it goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    Fixed(Vec<f64>),
    Descent(DualDescent),
    Ascent(PrimalDual),
    Pid(PidLagrangian),
}

impl Rule {
    fn multipliers(&self) -> &[f64] {
        match self {
            Self::Fixed(multipliers) => multipliers,
            Self::Descent(rule) => rule.multipliers(),
            Self::Ascent(rule) => rule.multipliers(),
            Self::Pid(rule) => rule.multipliers(),
        }
    }

    fn observe(&mut self, deficits: &[f64]) {
        match self {
            Self::Fixed(_) => {}
            Self::Descent(rule) => rule.observe(deficits),
            Self::Ascent(rule) => rule.observe(deficits),
            Self::Pid(rule) => rule.observe(deficits),
        }
    }
}

/// What improves π(s).
#[derive(Debug, Clone, PartialEq)]
pub enum UnconditionedLearner {
    /// Networks, with [`ppo`](crate::ppo)'s step.
    Ppo(PpoConfig),
    /// Kernels over the state, with the step of [`policy_gradient`](crate::policy_gradient): λ moves after every rollout. With the
    /// literal credit all rollouts are one trajectory and λ is raw, as in the paper's Section IV; else every other one starts
    /// anew, and the weights are normalised.
    PolicyGradient(PolicyGradientConfig),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Learner {
    Ppo(Box<UnconditionedPpo>),
    PolicyGradient(Box<PolicyGradient>),
}

/// A training of a baseline that can be stopped between two iterations, stored, and continued to the bit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    method: Method,
    rule: Rule,
    learner: Learner,
    /// c₁ … c_m in units of ranges.
    bounds: Vec<f64>,
    names: Vec<String>,
    objective: bool,
    /// Where the one trajectory of a policy gradient is.
    state: Vec<f64>,
    /// Means of r₀ … r_m over all stretches so far, in units of ranges, and how many these are.
    online: Vec<f64>,
    stretches: u64,
    coverage: Coverage,
    snapshots: Vec<TrainedPolicy>,
}

impl Baseline {
    /// A training from scratch.
    pub fn new(
        task: &VecTask<'_>,
        method: Method,
        learner: UnconditionedLearner,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let requirements = task.specification().requirements();
        let m = requirements.len();
        method.check(m)?;
        let mut state = Vec::new();
        let learner = match learner {
            UnconditionedLearner::Ppo(settings) => {
                Learner::Ppo(Box::new(UnconditionedPpo::new(task, settings, seed)?))
            }
            UnconditionedLearner::PolicyGradient(mut settings) => {
                settings.kernels.weighting = Weighting::Nothing;
                let mut start = acrl::BatchMatrix::zeros(task.environment().state_dimension(), 1);
                task.environment().reset(&mut start, 0, &mut acrl::Rng::stream(seed, 1))?;
                state.extend(start.column(0));
                Learner::PolicyGradient(Box::new(PolicyGradient::new(task, settings, seed)?))
            }
        };
        let bounds = requirements.iter().zip(&task.scales()[1..]).map(|(r, scale)| r.c() / scale);
        let mut baseline = Self {
            rule: Rule::Fixed(Vec::new()),
            bounds: bounds.collect(),
            names: task.specification().names(),
            objective: task.has_objective(),
            state,
            online: vec![0.0; m + 1],
            stretches: 0,
            coverage: Coverage::new(),
            snapshots: Vec::new(),
            method,
            learner,
        };
        baseline.rule = baseline.method.rule(m, baseline.all_stretches());
        Ok(baseline)
    }

    /// One iteration of the learner; `multiplier.NAME` among its figures is λ in units of ranges.
    ///
    /// On an error the policy is as it was before the iteration.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let mut means = vec![0.0; self.online.len()];
        let mut figures = match &self.learner {
            Learner::Ppo(_) => self.iterate_ppo(task, &mut means)?,
            Learner::PolicyGradient(_) => {
                let before = self.clone();
                self.iterate_gradient(task, &mut means).inspect_err(|_| *self = before)?
            }
        };
        let named = self.names.iter().map(|name| format!("multiplier.{name}"));
        figures.extend(named.zip(self.rule.multipliers().iter().copied()));
        Ok(figures.into_iter().collect())
    }

    fn iterate_ppo(
        &mut self,
        task: &VecTask<'_>,
        means: &mut [f64],
    ) -> Result<Vec<(String, f64)>, LearnError> {
        let (weights, left) = (self.weights(), self.left());
        let Learner::Ppo(learner) = &mut self.learner else { return Ok(Vec::new()) };
        let figures = learner.learn(task, &weights, left, means)?;
        let reward = weights.iter().zip(&*means).map(|(w, r)| w * r).sum();
        self.observe(means);
        let figures = [
            ("reward", reward),
            ("policy_loss", figures.policy_loss),
            ("value_loss", figures.value_loss),
            ("deviation", figures.deviation),
            ("clipped", figures.clipped),
            ("divergence", figures.divergence),
        ];
        Ok(figures.map(|(name, value)| (name.to_owned(), value)).to_vec())
    }

    /// A block of rollouts.
    fn iterate_gradient(
        &mut self,
        task: &VecTask<'_>,
        means: &mut [f64],
    ) -> Result<Vec<(String, f64)>, LearnError> {
        let iteration = self.iteration() + 1;
        let (mut total, mut count) = (0.0, 0.0);
        while count == 0.0 || !self.at_block_end() {
            let (weights, one_trajectory) = (self.weights(), self.one_trajectory());
            let Learner::PolicyGradient(learner) = &mut self.learner else { return Ok(Vec::new()) };
            let fresh = !one_trajectory && learner.rollouts() % 2 == 1;
            let state = (!fresh).then_some(&mut self.state);
            total += learner.learn(task, &weights, state, means)?;
            count += 1.0;
            if !fresh {
                self.observe(means);
            }
        }
        if let Learner::PolicyGradient(learner) = &self.learner {
            learner.check_weights(iteration)?;
        }
        Ok(vec![("return".to_owned(), total / count)])
    }

    /// Takes note of a stretch: the rule moves λ, and a policy is stored where that is due.
    fn observe(&mut self, means: &[f64]) {
        self.stretches += 1;
        let share = 1.0 / self.stretches as f64;
        self.online.iter_mut().zip(means).for_each(|(online, mean)| *online += share * (mean - *online));
        let deficits: Vec<f64> = self.bounds.iter().zip(&means[1..]).map(|(c, r)| c - r).collect();
        self.rule.observe(&deficits);
        if let Method::PrimalAveraging { snapshots, .. } = self.method {
            let all = self.all_stretches();
            if primal_averaging::is_due(self.stretches, all, snapshots) {
                self.snapshots.push(self.current());
            }
        }
    }

    /// w₀ … w_m: (1, λ), or (0, λ) without an objective, divided by the sum unless λ is to be raw.
    fn weights(&self) -> Vec<f64> {
        let mut weights = vec![if self.objective { 1.0 } else { 0.0 }];
        weights.extend(self.rule.multipliers());
        if !self.one_trajectory() {
            normalise(&mut weights[usize::from(!self.objective)..]);
        }
        weights
    }

    /// The share of Adam's step size that is left: it goes down to 0 in each round of dual descent, which is a training by
    /// itself; not at all while policies are collected that follow λ; else once.
    fn left(&self) -> f64 {
        let rounds = match self.method {
            Method::PrimalAveraging { .. } => return 1.0,
            Method::DualDescent { rounds, .. } => rounds,
            _ => 1,
        };
        let round = self.all_stretches().div_ceil(rounds);
        1.0 - (self.stretches % round) as f64 / round as f64
    }

    /// Whether the paper is taken at its word: see [`UnconditionedLearner::PolicyGradient`].
    fn one_trajectory(&self) -> bool {
        match &self.learner {
            Learner::Ppo(_) => false,
            Learner::PolicyGradient(learner) => learner.settings().credit == Credit::Total,
        }
    }

    /// How often λ is looked at in all.
    fn all_stretches(&self) -> u64 {
        match &self.learner {
            Learner::Ppo(learner) => learner.iterations(),
            Learner::PolicyGradient(learner) if self.one_trajectory() => learner.settings().rollouts,
            Learner::PolicyGradient(learner) => learner.settings().rollouts.div_ceil(2),
        }
    }

    fn at_block_end(&self) -> bool {
        match &self.learner {
            Learner::Ppo(_) => true,
            Learner::PolicyGradient(learner) => {
                let PolicyGradientConfig { rollouts, block, .. } = *learner.settings();
                learner.rollouts().is_multiple_of(block) || learner.rollouts() >= rollouts
            }
        }
    }

    /// The policy as it is now, by itself.
    fn current(&self) -> TrainedPolicy {
        match &self.learner {
            Learner::Ppo(learner) => TrainedPolicy::Mlp(Box::new(learner.policy())),
            Learner::PolicyGradient(learner) => TrainedPolicy::Rbf(Box::new(learner.policy().sampling(true))),
        }
    }

    /// What is to be executed: the policy as it is now, or those that were stored.
    pub fn policy(&self) -> TrainedPolicy {
        if self.snapshots.is_empty() {
            return self.current();
        }
        TrainedPolicy::Snapshots(Box::new(Snapshots::new(self.snapshots.clone())))
    }

    /// Whether another training has the same method, learner and settings.
    pub fn same_settings(&self, other: &Self) -> bool {
        let learners = match (&self.learner, &other.learner) {
            (Learner::Ppo(a), Learner::Ppo(b)) => a.settings() == b.settings(),
            (Learner::PolicyGradient(a), Learner::PolicyGradient(b)) => a.settings() == b.settings(),
            _ => false,
        };
        learners && self.method == other.method
    }

    /// The method and its settings.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The learner's name.
    pub fn learner(&self) -> &'static str {
        match self.learner {
            Learner::Ppo(_) => "ppo",
            Learner::PolicyGradient(_) => "policy_gradient",
        }
    }

    /// λ, in units of the rewards' ranges.
    pub fn multipliers(&self) -> &[f64] {
        self.rule.multipliers()
    }

    /// The averages of r₀ … r_m while it trained, in units of the rewards' ranges: what it attains if the training is the
    /// execution. Lanes and rollouts that start anew do not count.
    pub fn online(&self) -> &[f64] {
        &self.online
    }

    /// Iterations done.
    pub fn iteration(&self) -> u64 {
        match &self.learner {
            Learner::Ppo(learner) => learner.iteration(),
            Learner::PolicyGradient(learner) => learner.iteration(),
        }
    }

    /// Iterations planned.
    pub fn iterations(&self) -> u64 {
        match &self.learner {
            Learner::Ppo(learner) => learner.iterations(),
            Learner::PolicyGradient(learner) => learner.iterations(),
        }
    }

    /// Environment steps done.
    pub fn steps(&self) -> u64 {
        match &self.learner {
            Learner::Ppo(learner) => learner.steps(),
            Learner::PolicyGradient(learner) => learner.steps(),
        }
    }

    /// The rewards that occurred.
    pub fn seen(&self) -> &RewardSample {
        match &self.learner {
            Learner::Ppo(learner) => learner.seen(),
            Learner::PolicyGradient(learner) => learner.seen(),
        }
    }

    /// Empty: the policy sees no weights, so that none are outside what it was trained on.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }
}
