//! The same networks and the same steps on one scalar reward w·r in episodes, which is what other programs can do too:
//! for `make bench-train`, which compares them.

use acrl::{BatchMatrix, Rng, VecTask};

use super::networks::Networks;
use super::policy::Inputs;
use super::rollout::Rollout;
use super::{ActionHeads, PpoConfig};
use crate::LearnError;
use crate::weight_sampler::simplex;

/// A training with one critic head, weights that are drawn anew with each episode, and a constant step size.
///
/// All environments start together. The last step of an episode is worth r + γ v(last state) and cuts the advantages.
pub struct Episodes<'a> {
    task: &'a VecTask<'a>,
    settings: PpoConfig,
    /// The steps of an episode.
    length: usize,
    clock: usize,
    networks: Networks,
    rollout: Rollout,
    state: BatchMatrix,
    /// w₀ … w_m.
    weights: BatchMatrix,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    /// The mean over environments of w·r at each decision of the last rollout.
    means: Vec<f32>,
    rngs: Vec<Rng>,
    rng: Rng,
}

/// A rollout and the parameters it was had with, row by row: for comparing with other programs.
pub struct EpisodeNotes {
    /// Actor, critic and ln σ.
    pub parameters: [Vec<f32>; 3],
    /// What the networks saw; the last block is after the rollout.
    pub inputs: Vec<f32>,
    /// u.
    pub actions: Vec<f32>,
    /// ln π(u), without the constant.
    pub log_probabilities: Vec<f32>,
    /// w·r, with the bootstrap where an episode ends.
    pub rewards: Vec<f32>,
    /// 0 where an episode ends.
    pub continues: Vec<f32>,
    /// v.
    pub values: Vec<f32>,
    /// A.
    pub advantages: Vec<f32>,
    /// A + v.
    pub returns: Vec<f32>,
}

impl<'a> Episodes<'a> {
    /// A training from scratch.
    pub fn new(
        task: &'a VecTask<'a>,
        settings: PpoConfig,
        length: usize,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check()?;
        let (environment, num_envs) = (task.environment(), settings.num_envs);
        let mut rng = Rng::stream(seed, u64::MAX);
        let heads = ActionHeads::new(environment.action_space())?;
        let networks = Networks::with_heads(Inputs::new(task)?, heads, Some(1), &settings, &mut rng)?;
        let mut rollout = networks.rollout(settings.segment, num_envs);
        rollout.weights.fill(1.0);
        let rows = |n: usize| BatchMatrix::zeros(n, num_envs);
        let mut episodes = Self {
            length,
            clock: 0,
            networks,
            rollout,
            state: rows(environment.state_dimension()),
            weights: rows(task.scales().len()),
            observation: rows(environment.observation_space().len()),
            actions: rows(environment.action_space().len()),
            named: rows(environment.reward_names().len()),
            rewards: rows(task.scales().len()),
            means: vec![0.0; settings.segment],
            rngs: (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect(),
            rng,
            settings,
            task,
        };
        episodes.reset()?;
        Ok(episodes)
    }

    /// One rollout and the passes over it; the mean rewards of its steps.
    pub fn iterate(&mut self) -> Result<&[f32], LearnError> {
        self.experience()?;
        self.improve()?;
        Ok(&self.means)
    }

    /// One rollout, its values and its advantages.
    pub fn experience(&mut self) -> Result<(), LearnError> {
        let (environment, n) = (self.task.environment(), self.settings.num_envs);
        self.rollout.continues.fill(1.0);
        for t in 0..self.settings.segment {
            environment.observe(&self.state, &mut self.observation);
            self.networks.see_weights(&mut self.rollout, t, &self.weights);
            self.networks.act(&mut self.rollout, t, &self.observation, &mut self.actions, &mut self.rngs);
            environment.step(&mut self.state, &self.actions, &mut self.named, &mut self.rngs)?;
            self.task.score(&self.named, &mut self.rewards)?;
            let out = &mut self.rollout.rewards[t * n..(t + 1) * n];
            for i in 0..self.rewards.len() {
                let weighted = self.weights.row(i).iter().zip(self.rewards.row(i));
                out.iter_mut().zip(weighted).for_each(|(out, (w, r))| *out += (w * r) as f32);
            }
            self.means[t] = out.iter().sum::<f32>() / n as f32;
            self.clock += 1;
            if self.clock == self.length {
                self.end(t)?;
            }
        }
        self.look(self.settings.segment);
        self.networks.evaluate(&mut self.rollout, 0..self.settings.segment + 1);
        self.rollout.advantages(self.settings.discount as f32, self.settings.trace as f32, None);
        Ok(())
    }

    /// The passes over the last rollout.
    pub fn improve(&mut self) -> Result<(), LearnError> {
        let Self { networks, rollout, settings, rng, .. } = self;
        networks
            .improve(rollout, settings, settings.step_size, rng)
            .map(|_| ())
            .map_err(|(quantity, value)| LearnError::Diverged { iteration: 0, quantity, value })
    }

    /// What happened in the last rollout.
    pub fn notes(&self) -> EpisodeNotes {
        let Rollout { inputs, actions, log_probabilities, rewards, .. } = self.rollout.clone();
        let Rollout { continues, values, advantages, returns, .. } = self.rollout.clone();
        let parameters = self.networks.parameters().map(<[f32]>::to_vec);
        EpisodeNotes {
            parameters,
            inputs,
            actions,
            log_probabilities,
            rewards,
            continues,
            values,
            advantages,
            returns,
        }
    }

    /// Notes what is to be seen now as what is seen at decision t.
    fn look(&mut self, t: usize) {
        self.task.environment().observe(&self.state, &mut self.observation);
        self.networks.see_weights(&mut self.rollout, t, &self.weights);
        self.networks.see(&mut self.rollout, t, &self.observation);
    }

    /// The episode ends after decision t.
    fn end(&mut self, t: usize) -> Result<(), LearnError> {
        let n = self.settings.num_envs;
        // The next decision's place is free until it is made.
        self.look(t + 1);
        self.networks.evaluate(&mut self.rollout, t + 1..t + 2);
        let Rollout { rewards, values, continues, .. } = &mut self.rollout;
        for (r, v) in rewards[t * n..(t + 1) * n].iter_mut().zip(&values[(t + 1) * n..]) {
            *r += self.settings.discount as f32 * v;
        }
        continues[t * n..(t + 1) * n].fill(0.0);
        self.reset()
    }

    /// An episode begins: new states, and weights uniform on the simplex.
    fn reset(&mut self) -> Result<(), LearnError> {
        self.clock = 0;
        let first = usize::from(!self.task.has_objective());
        let mut drawn = vec![0.0; self.weights.len()];
        for (env, rng) in self.rngs.iter_mut().enumerate() {
            self.task.environment().reset(&mut self.state, env, rng)?;
            simplex(&mut drawn[first..], rng);
            self.weights.set_column(env, &drawn);
        }
        Ok(())
    }
}
