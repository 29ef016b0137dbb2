//! Algorithm 1 with proximal policy optimisation (Schulman et al. 2017): one network for π(s, w), good for every
//! weighting w.
//!
//! The default learner. Its networks see the state and the normalised weights w = (1, λ)/(1 + Σλ), so that no
//! multiplier is ever outside what they were trained on, and the reward is w·r. An iteration of [`Ppo`] is a
//! rollout in parallel environments, generalised advantage estimation and a few passes of clipped gradient steps
//! ([`Ppo::iterate`]). Beyond textbook PPO:
//!
//! - **Weight sampling.** Half of the environments run dual dynamics while they train, and so see the weights that an
//!   execution will ask for ([`crate::weights`]).
//! - **Vector-valued critic.** One value head per reward, and A = Σ w_i A_i: each head learns the value of one reward,
//!   under π(·, w).
//! - **Reset buffer.** States from which a reward was recently obtained are stored; part of the environments
//!   restart there, so that sparse rewards keep appearing in the batch (cf. Go-Explore, Ecoffet et al. 2021).
//! - **Average reward.** With [`Criterion::AverageReward`](crate::Criterion) the critic learns differential values
//!   (Zhang & Ross 2021, Wan et al. 2021), see the module `average_reward`.
//!
//! [`PpoConfig`] lists the settings. [`ExternalPpo`] is for environments that cannot be reset to an arbitrary state.

mod actor_critic;
mod average_reward;
mod config;
mod distribution;
mod external;
mod gae;
mod minibatch;
mod normalize;
mod policy;
mod rollout_buffer;

use acrl::{BatchMatrix, Named, Rng, VecTask};
use serde::{Deserialize, Serialize};

#[doc(hidden)] // For `benches/train`.
pub use actor_critic::Networks;
pub use config::PpoConfig;
pub use distribution::ActionHeads;
pub(crate) use external::EpisodeLength;
pub use external::{ExternalPpo, StepResult};
pub use gae::advantages;
pub(crate) use normalize::{ObservationStatistics, scale_outputs};
pub use policy::{Inputs, MlpPolicy};
#[doc(hidden)] // For `benches/train`.
pub use rollout_buffer::RolloutBuffer;

use crate::metrics::{UpdateMetrics, reward_metrics};
use crate::tuning::ppo::{COVERAGE_SAMPLE, REWARD_SAMPLE_INTERVAL};
use crate::weights::WeightCurriculum;
use crate::{Coverage, LearnError, RewardSample};

/// A training that can be stopped between two iterations, stored, and continued bit-identically.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ppo {
    settings: PpoConfig,
    networks: Networks,
    /// Weights of all environments; `None` for a policy π(s), which a baseline trains at weights of its own.
    #[serde(default)]
    curriculum: Option<WeightCurriculum>,
    #[serde(default)]
    coverage: Coverage,
    reward_sample: RewardSample,
    /// States of all environments.
    state: BatchMatrix,
    /// Random number generators of the environments.
    rngs: Vec<Rng>,
    /// Random number generator of the learner, for the order of minibatches.
    rng: Rng,
    action_repeat: usize,
    iteration: u64,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

/// Scratch buffers, rebuilt after a resume.
#[derive(Debug, Clone)]
struct Scratch {
    buffer: RolloutBuffer,
    /// States at each action, and rewards in these states; none without a curriculum.
    states: Vec<BatchMatrix>,
    rewards_at: Vec<BatchMatrix>,
    weights: BatchMatrix,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    /// Mean rewards of each environment in the rollout, in units of their ranges.
    means: BatchMatrix,
    /// Mean rewards of the environments that continue across iterations: all of them with a curriculum.
    overall: Vec<f64>,
}

impl Ppo {
    /// A training of a policy π(s, w) from scratch.
    pub fn new(task: &VecTask<'_>, settings: PpoConfig, seed: u64) -> Result<Self, LearnError> {
        Self::start(task, settings, seed, true)
    }

    /// A training of a policy π(s) that is not conditioned on weights, as baselines need it.
    pub(crate) fn unconditioned(
        task: &VecTask<'_>,
        settings: PpoConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        Self::start(task, settings, seed, false)
    }

    fn start(
        task: &VecTask<'_>,
        settings: PpoConfig,
        seed: u64,
        conditioned: bool,
    ) -> Result<Self, LearnError> {
        settings.check(2)?;
        let (environment, num_envs) = (task.environment(), settings.num_envs);
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng)?;
        }
        let inputs = if conditioned { Inputs::new(task)? } else { Inputs::unconditioned(task)? };
        let networks = Networks::new(inputs, environment.action_space(), &settings, &mut rng)?;
        let sampler = settings.weight_sampler;
        Ok(Self {
            networks,
            curriculum: conditioned.then(|| WeightCurriculum::new(task, sampler, num_envs, &mut rngs)),
            coverage: Coverage::new(),
            reward_sample: RewardSample::default(),
            action_repeat: settings.action_repeat.unwrap_or_else(|| environment.action_repeat()).max(1),
            state,
            rngs,
            rng,
            iteration: 0,
            settings,
            scratch: None,
        })
    }

    /// One iteration: a rollout in every environment, and an update of the networks. Returns its metrics.
    ///
    /// If the environment fails, the networks are unchanged. If the update diverges, actor, critic and σ are as before
    /// it, and the training can be resumed from a checkpoint.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let progress_remaining = (1.0 - self.iteration as f64 / self.iterations() as f64).max(0.0);
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(task, self));
        let update = self.rollout_and_update(task, &[], progress_remaining, &mut scratch)?;
        let rollout =
            update.named(&scratch.means, &scratch.buffer.weights, self.progress(), task.has_objective());
        let metrics = rollout.chain(reward_metrics(task, task.scales(), &scratch.overall)).collect();
        self.scratch = Some(scratch);
        Ok(metrics)
    }

    /// One iteration of a policy π(s) at the weights w₀ … w_m, in units of the rewards' ranges and adding up to 1, with
    /// the share `progress_remaining` of the learning rate. Returns its metrics, and the means of r₀ … r_m in the same units.
    ///
    /// Half of the environments continue across iterations, and the means are theirs; the others are reset after every
    /// rollout, so that the networks are trained on all states.
    pub(crate) fn iterate_at(
        &mut self,
        task: &VecTask<'_>,
        weights: &[f64],
        progress_remaining: f64,
    ) -> Result<(UpdateMetrics, Vec<f64>), LearnError> {
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(task, self));
        let update = self.rollout_and_update(task, weights, progress_remaining, &mut scratch)?;
        let means = scratch.overall.clone();
        self.scratch = Some(scratch);
        Ok((update, means))
    }

    /// An iteration; `progress_remaining` goes from 1 to 0 over the training, and `weights` are those of a policy π(s).
    fn rollout_and_update(
        &mut self,
        task: &VecTask<'_>,
        weights: &[f64],
        progress_remaining: f64,
        scratch: &mut Scratch,
    ) -> Result<UpdateMetrics, LearnError> {
        let PpoConfig { n_steps, num_envs, learning_rate, .. } = self.settings;
        // The weights of the rollout.
        if let Some(curriculum) = &self.curriculum {
            scratch.weights.as_mut_slice().copy_from_slice(curriculum.weights().as_slice());
            for _ in 0..COVERAGE_SAMPLE {
                let env = self.rng.index(num_envs);
                self.coverage.visit(scratch.weights.column(env), &mut self.rng);
            }
        } else {
            weights.iter().enumerate().for_each(|(i, w)| scratch.weights.row_mut(i).fill(*w));
        }
        self.networks.set_weights(&mut scratch.buffer, &scratch.weights);

        self.collect_rollout(task, scratch)?;
        let Scratch { buffer, states, rewards_at, means, .. } = scratch;
        if let Some(curriculum) = &mut self.curriculum {
            curriculum.fill_reset_buffer(states, rewards_at, &mut self.rng);
            self.networks.clamp_std_max(self.settings.max_std(progress_remaining));
        }

        // Values, generalised advantages, and `update_epochs` passes of clipped gradient steps over minibatches.
        self.networks.evaluate(buffer, 0..n_steps + 1);
        self.networks.advantages(buffer, &self.settings, progress_remaining);
        self.iteration += 1;
        let (learning_rate, rng) = (learning_rate * progress_remaining, &mut self.rng);
        let metrics = self.networks.update(buffer, &self.settings, learning_rate, self.iteration, rng)?;

        // The weights and states of the next rollout.
        if let Some(curriculum) = &mut self.curriculum {
            let steps = n_steps * self.action_repeat;
            curriculum.after_rollout(task, steps, means, &mut self.state, &mut self.rngs)?;
        } else {
            for (env, rng) in self.rngs.iter_mut().enumerate().skip(num_envs / 2) {
                task.environment().reset(&mut self.state, env, rng)?;
            }
        }
        Ok(metrics)
    }

    /// Collects a rollout: `n_steps` actions in every environment, each of them repeated.
    fn collect_rollout(&mut self, task: &VecTask<'_>, scratch: &mut Scratch) -> Result<(), LearnError> {
        let environment = task.environment();
        let Scratch { buffer, states, rewards_at, observation, actions, named, rewards, .. } = scratch;
        let PpoConfig { n_steps, num_envs, gamma, .. } = self.settings;
        let steps = (n_steps * self.action_repeat) as f64;
        let continuing = if self.curriculum.is_some() { num_envs } else { num_envs / 2 };
        scratch.means.as_mut_slice().fill(0.0);
        scratch.overall.fill(0.0);
        for t in 0..n_steps {
            environment.observe(&self.state, observation);
            self.networks.act(buffer, t, observation, actions, &mut self.rngs);
            if let Some(state) = states.get_mut(t) {
                state.as_mut_slice().copy_from_slice(self.state.as_slice());
            }
            for step in 0..self.action_repeat {
                environment.step(&mut self.state, actions, named, &mut self.rngs)?;
                task.score(named, rewards)?;
                if step == 0 && t.is_multiple_of(REWARD_SAMPLE_INTERVAL) {
                    self.reward_sample.visit(rewards);
                }
                for (i, scale) in task.scales().iter().enumerate() {
                    rewards.row_mut(i).iter_mut().for_each(|r| *r /= scale);
                    scratch.overall[i] += rewards.row(i)[..continuing].iter().sum::<f64>();
                }
                self.networks.reward(buffer, t, rewards, (1.0 - gamma) / self.action_repeat as f64);
                for (mean, r) in scratch.means.as_mut_slice().iter_mut().zip(rewards.as_slice()) {
                    *mean += r / steps;
                }
                if let Some(first) = rewards_at.get_mut(t).filter(|_| step == 0) {
                    first.as_mut_slice().copy_from_slice(rewards.as_slice());
                }
            }
        }
        scratch.overall.iter_mut().for_each(|mean| *mean /= continuing as f64 * steps);
        environment.observe(&self.state, observation);
        self.networks.set_observation_at(buffer, n_steps, observation);
        Ok(())
    }

    /// The settings.
    pub fn settings(&self) -> &PpoConfig {
        &self.settings
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        self.settings.iterations(self.action_repeat)
    }

    /// Environment steps done, in all environments.
    pub fn steps(&self) -> u64 {
        self.iteration * (self.settings.num_envs * self.settings.n_steps * self.action_repeat) as u64
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        &self.reward_sample
    }

    /// Progress on each of r₀ … r_m, from 0 to 1: the share of its range that the policy attains when nearly all weight
    /// is on it.
    pub fn progress(&self) -> &[f64] {
        self.curriculum.as_ref().map_or(&[], WeightCurriculum::progress)
    }

    /// Sample of the weights that it was trained on; empty if the policy is not conditioned on weights.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The policy as it is now. One that is not conditioned on weights draws its actions, as in the rollouts by which
    /// the multipliers were adapted.
    pub fn policy(&self) -> MlpPolicy {
        self.networks.policy(self.action_repeat).sampling(self.curriculum.is_none())
    }
}

impl Scratch {
    fn new(task: &VecTask<'_>, ppo: &Ppo) -> Self {
        let PpoConfig { n_steps, num_envs, .. } = ppo.settings;
        let (environment, rewards) = (task.environment(), task.scales().len());
        let rows = |n: usize| BatchMatrix::zeros(n, num_envs);
        let stored = if ppo.curriculum.is_some() { n_steps } else { 0 };
        Self {
            buffer: ppo.networks.rollout_buffer(n_steps, num_envs),
            states: vec![rows(environment.state_dimension()); stored],
            rewards_at: vec![rows(rewards); stored],
            weights: rows(rewards),
            observation: rows(environment.observation_space().len()),
            actions: rows(environment.action_space().len()),
            named: rows(environment.reward_names().len()),
            rewards: rows(rewards),
            means: rows(rewards),
            overall: vec![0.0; rewards],
        }
    }
}
