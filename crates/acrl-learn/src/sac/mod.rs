//! Algorithm 1 off-policy: soft actor-critic (Haarnoja et al. 2018) for continuous actions, and double Q-learning (van
//! Hasselt et al. 2016) for discrete ones, conditioned on the weights w and with vector-valued critics.
//!
//! The learner for environments whose steps are expensive: every transition is replayed many times. Rewards are vectors and
//! the networks see the weights, so a transition teaches every weighting:
//!
//! - **Replay** of (s, a, r₀ … r_m, s′, terminated, w); half of each batch is relabelled with weights that are drawn anew
//!   (as in Envelope Q-learning, Yang et al. 2019, and GPI-LS, Alegre et al. 2023).
//! - **Twin critics with a head per reward**, and one for the entropy; of the twins the one with the smaller weighted sum
//!   gives all heads of the target (`targets.rs`).
//! - **Units.** The unit of a reward is the range of its long-run averages (`units.rs`).
//! - **Criterion.** Discounted, where the rest of an episode is forfeited by a termination; or the average reward by relative
//!   value iteration, with ρ(w) a small network, where a termination is a transition to the next episode
//!   (`average_reward.rs`).
//! - **Weights that act** are drawn anew in every episode and window, or follow dual dynamics (`weights.rs`).
//!
//! The caller steps the environments: [`act`](Sac::act), [`observe`](Sac::observe), and [`update`](Sac::update) when it [is
//! due](Sac::update_is_due). What acts is a copy of the policy *before* the gradient steps of the last update, so that these
//! run while the environments are stepped (`worker.rs`).

mod actions;
mod actor;
mod average_reward;
mod config;
mod critic;
mod inputs;
mod learner;
mod minibatch;
mod policy;
mod replay;
mod rollout;
mod targets;
mod units;
mod weights;
mod worker;

use acrl::{BatchMatrix, Interval, Named, Rng, VecTask};
use acrl_nn::Mlp;
use serde::{Deserialize, Serialize};

pub use config::SacConfig;
pub(crate) use policy::PolicyNetworks;
pub use policy::SacPolicy;

use crate::error::length;
use crate::ppo::{Inputs, StepResult};
use crate::tuning::sac::{ROW, UNITS_PERIOD};
use crate::{Coverage, LearnError, RewardSample};
use actions::Actions;
use inputs::WeightedInputs;
use learner::{Learner, Losses};
use rollout::Rollout;
use worker::Worker;

/// A training that can be stopped between two updates, stored, and continued bit-identically, if the environment can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sac {
    settings: SacConfig,
    /// What acts, and what is known of the environment.
    rollout: Rollout,
    /// What learns.
    learner: Worker,
    /// Environment steps since the last update, by steps of the parallel environments and in all.
    since_update: (usize, u64),
    /// Environment steps at which the units are measured next.
    next_units: u64,
    /// Rows of metrics so far.
    iteration: u64,
}

impl Sac {
    /// A training from scratch. The task's environment is a description that is not stepped. `ranges` are those of the
    /// observations, infinite where they are unknown; `given` marks the rewards whose range is known and not to be measured.
    pub fn new(
        task: &VecTask<'_>,
        ranges: &[Interval],
        given: &[bool],
        settings: SacConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check()?;
        let environment = task.environment();
        length("ranges of observations", environment.observation_space().len(), ranges.len())?;
        length("ranges of rewards that are given", environment.reward_names().len(), given.len())?;
        let actions = Actions::new(environment.action_space())?;
        let mut inputs = WeightedInputs(Inputs::new(task)?);
        let rollout = Rollout::new(task, (ranges, given), &actions, &settings, seed)?;
        inputs.0.set_scales(rollout.units_of_terms());
        let learner = Learner::new(inputs, actions, &settings, Rng::stream(seed, u64::MAX))?;
        let mut sac = Self {
            rollout,
            since_update: (0, 0),
            next_units: settings.random_steps(),
            iteration: 0,
            learner: Worker::new(learner),
            settings,
        };
        sac.rollout.set_policy(sac.policy());
        Ok(sac)
    }

    /// Draws an action for every environment, from the policy before the gradient steps of the last update. A second call
    /// before a step result is observed replaces the first.
    pub fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) {
        let steps = self.steps();
        let explored = self.settings.exploration_fraction * self.settings.total_steps as f64;
        let done = (steps as f64 / explored.max(1.0)).min(1.0);
        let epsilon = 1.0 + done * (self.settings.exploration_final_eps - 1.0);
        let random = steps < self.settings.random_steps();
        self.rollout.act(observation, actions, (!random).then_some(epsilon));
    }

    /// Notes the discrete actions that another learner took, in place of [`act`](Self::act): off-policy, their result teaches as well.
    pub(crate) fn note_actions(&mut self, observation: &BatchMatrix, actions: &BatchMatrix) {
        self.rollout.note_actions(observation, actions);
    }

    /// Counts the rows of metrics of the steps so far as written.
    pub(crate) fn skip_rows(&mut self) {
        self.iteration = self.steps() / ROW;
    }

    /// Records the result of the last action, once. The numbers must be finite.
    pub fn observe(&mut self, result: &StepResult<'_>) {
        let random = self.steps() < self.settings.random_steps();
        if let Some(steps) = self.rollout.observe(result, random) {
            self.since_update.0 += 1;
            self.since_update.1 += steps;
        }
    }

    /// Whether an update is due.
    pub fn update_is_due(&self) -> bool {
        self.since_update.0 >= self.settings.train_freq
    }

    /// Stores what was observed and makes the gradient steps that are due. Returns metrics about every 1,000 environment
    /// steps.
    ///
    /// An error is a loss of the last gradient steps that is not finite; that step was not made.
    pub fn update(&mut self) -> Result<Option<Named<f64>>, LearnError> {
        let steps = self.steps();
        if let Some((quantity, value)) = self.learner.take_diverged() {
            return Err(LearnError::Diverged { iteration: self.iteration + 1, quantity, value });
        }
        let learner = self.learner.wait();
        learner.replay.extend(&self.rollout.take_records());
        let due = std::mem::take(&mut self.since_update).1;
        // Random steps are only collected.
        let learning = steps > self.settings.random_steps() && learner.replay.len() > 0;
        let row = steps >= ((self.iteration + 1) * ROW).min(self.settings.total_steps);
        let first = steps >= self.next_units && learner.n_updates() == 0;
        if steps >= self.next_units {
            self.next_units += UNITS_PERIOD;
            if self.rollout.measure_units() || first {
                learner.set_units(self.rollout.units_of_terms());
            }
        }
        if first || (row && learning) {
            learner.set_observation(self.rollout.intervals());
        }
        self.rollout.copy_policy(learner);
        if learning {
            let count = self.settings.gradient_steps.map_or(due, |count| count as u64);
            let learning_rate = self.settings.learning_rate as f32;
            self.learner.start(&self.settings, learning_rate, count);
        }
        if !row {
            return Ok(None);
        }
        self.iteration += 1;
        let losses = self.learner.take_losses();
        let mut metrics = self.rollout.metrics();
        metrics.extend(self.update_metrics(losses).into_iter().map(|(name, value)| (name.to_owned(), value)));
        Ok(Some(metrics.into_iter().collect()))
    }

    fn update_metrics(&self, losses: Losses) -> Vec<(&'static str, f64)> {
        let mut metrics = Vec::new();
        if losses.critic_steps > 0 {
            metrics.push(("train/critic_loss", losses.critic / losses.critic_steps as f64));
        }
        if losses.actor_steps > 0 {
            let share = 1.0 / losses.actor_steps as f64;
            metrics.push(("train/actor_loss", losses.actor * share));
            metrics.push(("train/entropy", losses.entropy * share));
        }
        let (ent_coef, n_updates) = self.learner.read(|learner| (learner.ent_coef(), learner.n_updates()));
        metrics.extend(ent_coef.map(|alpha| ("train/ent_coef", f64::from(alpha))));
        metrics.push(("train/learning_rate", self.settings.learning_rate));
        metrics.push(("train/n_updates", n_updates as f64));
        metrics
    }

    /// The settings.
    pub fn settings(&self) -> &SacConfig {
        &self.settings
    }

    /// Rows of metrics so far.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Rows of metrics of the whole training.
    pub fn iterations(&self) -> u64 {
        self.settings.total_steps.div_ceil(ROW)
    }

    /// Environment steps done, in all environments.
    pub fn steps(&self) -> u64 {
        self.rollout.steps
    }

    /// Environments that should be reset now: none.
    pub fn restarts(&self) -> &[bool] {
        &self.rollout.restarts
    }

    /// Moving average of the length of episodes; `None` if none has ended.
    pub fn episode(&self) -> Option<f64> {
        self.rollout.episodes.mean()
    }

    /// Unit of each of the environment's rewards.
    pub fn units(&self) -> Vec<f64> {
        self.rollout.units.units().to_vec()
    }

    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    pub fn terms(&self) -> &[Option<(usize, f64)>] {
        &self.rollout.terms
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        &self.rollout.reward_sample
    }

    /// Sample of the weights that it was trained on.
    pub fn coverage(&self) -> &Coverage {
        &self.rollout.coverage
    }

    /// The policy as it is now.
    pub fn policy(&self) -> SacPolicy {
        self.learner.read(Learner::policy)
    }
}

/// A network with orthogonal weights.
fn network(shape: &[usize], output_gain: f32, rng: &mut Rng) -> Result<Mlp, LearnError> {
    Mlp::new(shape, output_gain, rng).map_err(|e| LearnError::Setting {
        name: "hidden_sizes",
        value: format!("{shape:?}"),
        expected: format!("a network that can be made: {e}"),
    })
}
