//! PPO for a policy π(s) that is not conditioned on the weights, as baselines need it.
//!
//! In an iteration all environments have the same weights w, which the caller chooses. Half of the environments continue
//! across iterations, and their averages are those of the policy; the others are reset after every rollout, so that
//! the networks are trained on all states.

use acrl::{BatchMatrix, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::actor_critic::{Networks, UpdateMetrics};
use super::{ActionHeads, Inputs, MlpPolicy, PpoConfig, REWARD_SAMPLE_INTERVAL, RolloutBuffer};
use crate::{LearnError, RewardSample};

/// A training of π(s) in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnconditionedPpo {
    settings: PpoConfig,
    networks: Networks,
    seen: RewardSample,
    state: BatchMatrix,
    rngs: Vec<Rng>,
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
    weights: BatchMatrix,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
}

impl UnconditionedPpo {
    /// A training from scratch.
    pub(crate) fn new(task: &VecTask<'_>, settings: PpoConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check(2)?;
        let environment = task.environment();
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..settings.num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), settings.num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng)?;
        }
        let heads = ActionHeads::new(environment.action_space())?;
        Ok(Self {
            networks: Networks::with_heads(Inputs::unconditioned(task)?, heads, None, &settings, &mut rng)?,
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

    /// A rollout at the weights w₀ … w_m, in units of the rewards' ranges and adding up to 1, and an update with the share
    /// `left` of the learning rate. Writes the means of r₀ … r_m over the environments that continue, in the same units.
    ///
    /// On an error the networks are as they were before.
    pub(crate) fn learn(
        &mut self,
        task: &VecTask<'_>,
        weights: &[f64],
        left: f64,
        means: &mut [f64],
    ) -> Result<UpdateMetrics, LearnError> {
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(task, self));
        for (i, w) in weights.iter().enumerate() {
            scratch.weights.row_mut(i).fill(*w);
        }
        self.networks.set_weights(&mut scratch.buffer, &scratch.weights);
        self.collect_rollout(task, &mut scratch, means)?;
        self.networks.evaluate(&mut scratch.buffer, 0..self.settings.n_steps + 1);
        self.networks.advantages(&mut scratch.buffer, &self.settings, left);
        let PpoConfig { learning_rate, num_envs, .. } = self.settings;
        let learning_rate = learning_rate * left;
        let updated = self.networks.update(&scratch.buffer, &self.settings, learning_rate, &mut self.rng);
        self.iteration += 1;
        let iteration = self.iteration;
        let metrics =
            updated.map_err(|(quantity, value)| LearnError::Diverged { iteration, quantity, value })?;
        for (env, rng) in self.rngs.iter_mut().enumerate().skip(num_envs / 2) {
            task.environment().reset(&mut self.state, env, rng)?;
        }
        self.scratch = Some(scratch);
        Ok(metrics)
    }

    /// Collects a rollout: `n_steps` actions in every environment, each of them repeated.
    fn collect_rollout(
        &mut self,
        task: &VecTask<'_>,
        scratch: &mut Scratch,
        means: &mut [f64],
    ) -> Result<(), LearnError> {
        let environment = task.environment();
        let Scratch { buffer, observation, actions, named, rewards, .. } = scratch;
        let PpoConfig { n_steps, num_envs, gamma, .. } = self.settings;
        let continuing = num_envs / 2;
        means.fill(0.0);
        for t in 0..n_steps {
            environment.observe(&self.state, observation);
            self.networks.act(buffer, t, observation, actions, &mut self.rngs);
            for step in 0..self.action_repeat {
                environment.step(&mut self.state, actions, named, &mut self.rngs)?;
                task.score(named, rewards)?;
                if step == 0 && t.is_multiple_of(REWARD_SAMPLE_INTERVAL) {
                    self.seen.visit(rewards);
                }
                for (i, scale) in task.scales().iter().enumerate() {
                    rewards.row_mut(i).iter_mut().for_each(|r| *r /= scale);
                    means[i] += rewards.row(i)[..continuing].iter().sum::<f64>();
                }
                self.networks.reward(buffer, t, rewards, (1.0 - gamma) / self.action_repeat as f64);
            }
        }
        means.iter_mut().for_each(|mean| *mean /= (continuing * n_steps * self.action_repeat) as f64);
        environment.observe(&self.state, observation);
        self.networks.set_observation_at(buffer, n_steps, observation);
        Ok(())
    }

    pub(crate) fn settings(&self) -> &PpoConfig {
        &self.settings
    }

    pub(crate) fn iteration(&self) -> u64 {
        self.iteration
    }

    pub(crate) fn iterations(&self) -> u64 {
        self.settings.iterations(self.action_repeat)
    }

    pub(crate) fn steps(&self) -> u64 {
        self.iteration * (self.settings.num_envs * self.settings.n_steps * self.action_repeat) as u64
    }

    pub(crate) fn seen(&self) -> &RewardSample {
        &self.seen
    }

    /// The policy as it is now. It draws its actions, as in the rollouts by which the multipliers were adapted.
    pub(crate) fn policy(&self) -> MlpPolicy {
        self.networks.policy(self.action_repeat).sampling(true)
    }
}

impl Scratch {
    fn new(task: &VecTask<'_>, ppo: &UnconditionedPpo) -> Self {
        let environment = task.environment();
        let rows = |n: usize| BatchMatrix::zeros(n, ppo.settings.num_envs);
        Self {
            buffer: ppo.networks.rollout_buffer(ppo.settings.n_steps, ppo.settings.num_envs),
            weights: rows(task.scales().len()),
            observation: rows(environment.observation_space().len()),
            actions: rows(environment.action_space().len()),
            named: rows(environment.reward_names().len()),
            rewards: rows(task.scales().len()),
        }
    }
}
