//! PPO for π(s): the same networks and the same step, for a policy that sees no multipliers.
//!
//! What [`Ppo`](super::Ppo) does without the curriculum: in an iteration all environments have the same weights w, which somebody
//! else chooses. Half of the environments go on for ever, and what they have is what the policy has; the others start
//! anew after every segment, so that the networks see all states, whatever the policy has become.

use acrl::{BatchMatrix, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::networks::{Figures, Networks};
use super::rollout::Rollout;
use super::{ActionHeads, Inputs, LOOK, MlpPolicy, PpoConfig};
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
    hold: usize,
    iteration: u64,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

/// What need not be stored.
#[derive(Debug, Clone)]
struct Scratch {
    rollout: Rollout,
    weights: BatchMatrix,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
}

impl UnconditionedPpo {
    /// A training from scratch.
    pub(crate) fn new(task: &VecTask<'_>, settings: PpoConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check()?;
        let environment = task.environment();
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..settings.num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), settings.num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng)?;
        }
        let heads = ActionHeads::new(environment.action_space())?;
        Ok(Self {
            networks: Networks::with_heads(Inputs::blind(task)?, heads, None, &settings, &mut rng)?,
            seen: RewardSample::default(),
            hold: settings.hold.unwrap_or_else(|| environment.action_repeat()).max(1),
            state,
            rngs,
            rng,
            iteration: 0,
            settings,
            scratch: None,
        })
    }

    /// A segment at the weights w₀ … w_m, in units of the rewards' ranges and adding up to 1, and the step that follows
    /// from it, with the share of Adam's step size that is `left`. Writes the means of r₀ … r_m over the environments that go on, in the same units.
    ///
    /// On an error the networks are as they were before.
    pub(crate) fn learn(
        &mut self,
        task: &VecTask<'_>,
        weights: &[f64],
        left: f64,
        means: &mut [f64],
    ) -> Result<Figures, LearnError> {
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(task, self));
        for (i, w) in weights.iter().enumerate() {
            scratch.weights.row_mut(i).fill(*w);
        }
        self.networks.set_weights(&mut scratch.rollout, &scratch.weights);
        self.experience(task, &mut scratch, means)?;
        self.networks.evaluate(&mut scratch.rollout, 0..self.settings.segment + 1);
        self.networks.advantages(&mut scratch.rollout, &self.settings, left);
        let PpoConfig { step_size, num_envs, .. } = self.settings;
        let step_size = step_size * left;
        let improved = self.networks.improve(&scratch.rollout, &self.settings, step_size, &mut self.rng);
        self.iteration += 1;
        let iteration = self.iteration;
        let figures =
            improved.map_err(|(quantity, value)| LearnError::Diverged { iteration, quantity, value })?;
        for (env, rng) in self.rngs.iter_mut().enumerate().skip(num_envs / 2) {
            task.environment().reset(&mut self.state, env, rng)?;
        }
        self.scratch = Some(scratch);
        Ok(figures)
    }

    /// One segment: every environment decides, holds its action, and decides again.
    fn experience(
        &mut self,
        task: &VecTask<'_>,
        scratch: &mut Scratch,
        means: &mut [f64],
    ) -> Result<(), LearnError> {
        let environment = task.environment();
        let Scratch { rollout, observation, actions, named, rewards, .. } = scratch;
        let PpoConfig { segment, num_envs, discount, .. } = self.settings;
        let going_on = num_envs / 2;
        means.fill(0.0);
        for t in 0..segment {
            environment.observe(&self.state, observation);
            self.networks.act(rollout, t, observation, actions, &mut self.rngs);
            for step in 0..self.hold {
                environment.step(&mut self.state, actions, named, &mut self.rngs)?;
                task.score(named, rewards)?;
                if step == 0 && t.is_multiple_of(LOOK) {
                    self.seen.visit(rewards);
                }
                for (i, scale) in task.scales().iter().enumerate() {
                    rewards.row_mut(i).iter_mut().for_each(|r| *r /= scale);
                    means[i] += rewards.row(i)[..going_on].iter().sum::<f64>();
                }
                self.networks.reward(rollout, t, rewards, (1.0 - discount) / self.hold as f64);
            }
        }
        means.iter_mut().for_each(|mean| *mean /= (going_on * segment * self.hold) as f64);
        environment.observe(&self.state, observation);
        self.networks.see(rollout, segment, observation);
        Ok(())
    }

    pub(crate) fn settings(&self) -> &PpoConfig {
        &self.settings
    }

    pub(crate) fn iteration(&self) -> u64 {
        self.iteration
    }

    pub(crate) fn iterations(&self) -> u64 {
        self.settings.iterations()
    }

    pub(crate) fn steps(&self) -> u64 {
        self.iteration * (self.settings.num_envs * self.settings.segment * self.hold) as u64
    }

    pub(crate) fn seen(&self) -> &RewardSample {
        &self.seen
    }

    /// The policy as it is now; it draws its actions, as it was measured.
    pub(crate) fn policy(&self) -> MlpPolicy {
        self.networks.policy(self.hold).sampling(true)
    }
}

impl Scratch {
    fn new(task: &VecTask<'_>, blind: &UnconditionedPpo) -> Self {
        let environment = task.environment();
        let rows = |n: usize| BatchMatrix::zeros(n, blind.settings.num_envs);
        Self {
            rollout: blind.networks.rollout(blind.settings.segment, blind.settings.num_envs),
            weights: rows(task.scales().len()),
            observation: rows(environment.observation_space().len()),
            actions: rows(environment.action_space().len()),
            named: rows(environment.reward_names().len()),
            rewards: rows(task.scales().len()),
        }
    }
}
