//! Algorithm 1 with proximal policy optimisation (Schulman et al. 2017): one network for π(s, w), good for every
//! weighting w.
//!
//! The default learner. Its networks see the state and the normalised weights w = (1, λ)/(1 + Σλ), so that no
//! multiplier is ever outside what they were trained on, and the reward is w·r. An iteration of [`Ppo`] is a
//! rollout in parallel environments, generalised advantage estimation and a few epochs of clipped gradient steps
//! ([`Ppo::iterate`]). Beyond textbook PPO:
//!
//! - **Weight sampling.** Half of the environments run dual dynamics while they train, and so see the weights that an
//!   execution will ask for ([`crate::weights`]).
//! - **Vector-valued critic.** One value head per reward, and A = Σ w_i A_i: each head learns the value of one reward,
//!   whatever the weights.
//! - **Reset buffer.** States from which a reward was recently obtained are stored; part of the environments
//!   restart there, so that sparse rewards keep appearing in the batch (cf. Go-Explore, Ecoffet et al. 2019).
//! - **Average reward.** With [`Criterion::AverageReward`](crate::Criterion) the critic learns differential values
//!   (Zhang & Ross 2021, Wan et al. 2021), see the module `average_reward`.
//!
//! [`PpoConfig`] lists the settings. [`ExternalPpo`] is for environments that cannot be reset to an arbitrary state.

mod actor_critic;
mod average_reward;
mod config;
mod distribution;
mod episodes;
mod external;
mod external_config;
mod gae;
mod minibatch;
mod normalize;
mod policy;
mod rollout_buffer;
mod unconditioned;

use acrl::{BatchMatrix, Named, Rng, VecTask};
use serde::{Deserialize, Serialize};

pub(crate) use actor_critic::UpdateMetrics;
pub use config::PpoConfig;
pub use distribution::ActionHeads;
#[doc(hidden)]
pub use episodes::{EpisodeRecord, Episodes};
pub use external::{ExternalPpo, StepResult};
pub use gae::advantages;
pub use policy::{Inputs, MlpPolicy};
pub(crate) use rollout_buffer::RolloutBuffer;
pub(crate) use unconditioned::UnconditionedPpo;

use crate::weights::WeightCurriculum;
use crate::{Coverage, LearnError, RewardSample};
use actor_critic::Networks;

/// A training that can be stopped between two iterations, stored, and continued bit-identically.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ppo {
    settings: PpoConfig,
    networks: Networks,
    curriculum: WeightCurriculum,
    coverage: Coverage,
    seen: RewardSample,
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

/// Actions between two looks at the rewards of all environments for the [`RewardSample`].
const REWARD_SAMPLE_INTERVAL: usize = 8;
/// Environments per iteration whose weights enter the [`Coverage`].
const COVERAGE_SAMPLE: usize = 16;

/// Scratch buffers, rebuilt after a resume.
#[derive(Debug, Clone)]
struct Scratch {
    buffer: RolloutBuffer,
    /// States at each action.
    states: Vec<BatchMatrix>,
    /// Rewards in these states.
    rewards_at: Vec<BatchMatrix>,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    /// Mean rewards of the rollout, in units of their ranges.
    means: BatchMatrix,
}

impl Ppo {
    /// A training from scratch.
    pub fn new(task: &VecTask<'_>, settings: PpoConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check(2)?;
        let environment = task.environment();
        let num_envs = settings.num_envs;
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng)?;
        }
        Ok(Self {
            networks: Networks::new(task, &settings, &mut rng)?,
            curriculum: WeightCurriculum::new(task, settings.weight_sampler, num_envs, &mut rngs),
            coverage: Coverage::new(),
            seen: RewardSample::default(),
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
    /// On an error the networks are as they were before the iteration.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(task, &self.settings, self));
        self.collect_rollout(task, &mut scratch)?;
        self.networks.evaluate(&mut scratch.buffer, 0..self.settings.n_steps + 1);
        let left = (1.0 - self.iteration as f64 / self.iterations() as f64).max(0.0);
        self.networks.advantages(&mut scratch.buffer, &self.settings, left);
        let learning_rate = self.settings.learning_rate * left;
        self.networks.clamp_std_max(self.settings.max_std(left));
        let metrics = self.networks.update(&scratch.buffer, &self.settings, learning_rate, &mut self.rng);
        self.iteration += 1;
        let metrics = metrics.map_err(|(quantity, value)| LearnError::Diverged {
            iteration: self.iteration,
            quantity,
            value,
        })?;
        let steps = self.settings.n_steps * self.action_repeat;
        let means = &scratch.means;
        self.curriculum.after_rollout(task, steps, means, &mut self.state, &mut self.rngs)?;
        let weights = &scratch.buffer.weights;
        let progress = self.curriculum.progress();
        let metrics = metrics.named(means, weights, progress, task.has_objective());
        self.scratch = Some(scratch);
        Ok(metrics)
    }

    /// Collects a rollout: `n_steps` actions in every environment, each of them repeated.
    fn collect_rollout(&mut self, task: &VecTask<'_>, scratch: &mut Scratch) -> Result<(), LearnError> {
        let environment = task.environment();
        let Scratch { buffer, states, rewards_at, observation, actions, named, rewards, means } = scratch;
        let scales = task.scales();
        let PpoConfig { n_steps, num_envs, gamma, .. } = self.settings;
        means.as_mut_slice().fill(0.0);
        self.networks.set_weights(buffer, self.curriculum.weights());
        for _ in 0..COVERAGE_SAMPLE {
            let env = self.rng.index(num_envs);
            self.coverage.visit(self.curriculum.weights().column(env), &mut self.rng);
        }
        for t in 0..n_steps {
            environment.observe(&self.state, observation);
            self.networks.act(buffer, t, observation, actions, &mut self.rngs);
            states[t].as_mut_slice().copy_from_slice(self.state.as_slice());
            for step in 0..self.action_repeat {
                environment.step(&mut self.state, actions, named, &mut self.rngs)?;
                task.score(named, rewards)?;
                if step == 0 && t.is_multiple_of(REWARD_SAMPLE_INTERVAL) {
                    self.seen.visit(rewards);
                }
                for (i, scale) in scales.iter().enumerate() {
                    rewards.row_mut(i).iter_mut().for_each(|r| *r /= scale);
                }
                self.networks.reward(buffer, t, rewards, (1.0 - gamma) / self.action_repeat as f64);
                for (mean, r) in means.as_mut_slice().iter_mut().zip(rewards.as_slice()) {
                    *mean += r / (n_steps * self.action_repeat) as f64;
                }
                if step == 0 {
                    rewards_at[t].as_mut_slice().copy_from_slice(rewards.as_slice());
                }
            }
        }
        self.curriculum.fill_reset_buffer(states, rewards_at, &mut self.rng);
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
    pub fn seen(&self) -> &RewardSample {
        &self.seen
    }

    /// Progress on each of r₀ … r_m, from 0 to 1: the share of its range that the policy attains when nearly all weight
    /// is on it.
    pub fn progress(&self) -> &[f64] {
        self.curriculum.progress()
    }

    /// Sample of the weights that it was trained on.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The policy as it is now.
    pub fn policy(&self) -> MlpPolicy {
        self.networks.policy(self.action_repeat)
    }
}

impl UpdateMetrics {
    /// All metrics of an iteration by name: those of the rollout (the mean of w·r in units of R, and the progress on the
    /// reward that is furthest behind) and those of the update.
    fn named(self, means: &BatchMatrix, weights: &[f32], progress: &[f64], objective: bool) -> Named<f64> {
        let (num_envs, first) = (means.num_envs(), usize::from(!objective));
        let heads = means.as_slice()[first * num_envs..].iter();
        let reward = heads.zip(weights).map(|(r, w)| r * f64::from(*w)).sum::<f64>() / num_envs as f64;
        let progress = progress[first..].iter().copied().fold(f64::INFINITY, f64::min);
        let rollout = [("rollout/scalarized_reward", reward), ("rollout/min_objective_progress", progress)];
        let all = rollout.into_iter().chain(self.entries());
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Scratch {
    fn new(task: &VecTask<'_>, settings: &PpoConfig, ppo: &Ppo) -> Self {
        let environment = task.environment();
        let rows = |n: usize| BatchMatrix::zeros(n, settings.num_envs);
        let rewards = task.scales().len();
        Self {
            buffer: ppo.networks.rollout_buffer(settings.n_steps, settings.num_envs),
            states: vec![rows(environment.state_dimension()); settings.n_steps],
            rewards_at: vec![rows(rewards); settings.n_steps],
            observation: rows(environment.observation_space().len()),
            actions: rows(environment.action_space().len()),
            named: rows(environment.reward_names().len()),
            rewards: rows(rewards),
            means: rows(rewards),
        }
    }
}
