//! PPO with a scalar critic of w·r in episodes of fixed length: the variant that `make bench-train` compares with other
//! programs.

use acrl::{BatchMatrix, Rng, VecTask};
use acrl_learn::ppo::{ActionHeads, Inputs, Networks, RolloutBuffer};
use acrl_learn::{LearnError, PpoConfig};

/// A training with one critic head, weights that are drawn for each episode, and a constant learning rate.
///
/// All environments start together. The end of an episode is a truncation, which bootstraps from the final state.
pub(crate) struct Episodes<'a> {
    task: &'a VecTask<'a>,
    settings: PpoConfig,
    /// Steps of an episode.
    length: usize,
    clock: usize,
    networks: Networks,
    rollout: RolloutBuffer,
    state: BatchMatrix,
    /// w₀ … w_m.
    weights: BatchMatrix,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    /// Mean over environments of w·r at each step of the last rollout.
    means: Vec<f32>,
    rngs: Vec<Rng>,
    rng: Rng,
}

impl<'a> Episodes<'a> {
    /// A training from scratch.
    pub(crate) fn new(
        task: &'a VecTask<'a>,
        settings: PpoConfig,
        length: usize,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let (environment, num_envs) = (task.environment(), settings.num_envs);
        let mut rng = Rng::stream(seed, u64::MAX);
        let heads = ActionHeads::new(environment.action_space())?;
        let networks = Networks::with_heads(Inputs::new(task)?, heads, Some(1), &settings, &mut rng)?;
        let mut rollout = networks.rollout_buffer(settings.n_steps, num_envs);
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
            means: vec![0.0; settings.n_steps],
            rngs: (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect(),
            rng,
            settings,
            task,
        };
        episodes.reset()?;
        Ok(episodes)
    }

    /// One iteration; returns the mean rewards of its steps.
    pub(crate) fn iterate(&mut self) -> Result<&[f32], LearnError> {
        self.collect_rollout()?;
        self.update()?;
        Ok(&self.means)
    }

    /// Collects a rollout and computes its values and advantages.
    pub(crate) fn collect_rollout(&mut self) -> Result<(), LearnError> {
        let (environment, n) = (self.task.environment(), self.settings.num_envs);
        self.rollout.continues.fill(1.0);
        for t in 0..self.settings.n_steps {
            environment.observe(&self.state, &mut self.observation);
            self.networks.set_weights_at(&mut self.rollout, t, &self.weights);
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
        self.write_inputs(self.settings.n_steps);
        self.networks.evaluate(&mut self.rollout, 0..self.settings.n_steps + 1);
        self.rollout.compute_advantages(self.settings.gamma as f32, self.settings.gae_lambda as f32, None);
        Ok(())
    }

    /// The update by the last rollout.
    pub(crate) fn update(&mut self) -> Result<(), LearnError> {
        let Self { networks, rollout, settings, rng, .. } = self;
        networks.update(rollout, settings, settings.learning_rate, 0, rng).map(|_| ())
    }

    /// The last rollout, in one block of the length of a row more for inputs and values.
    pub(crate) fn rollout(&self) -> &RolloutBuffer {
        &self.rollout
    }

    /// The parameters of actor, critic and ln σ.
    pub(crate) fn parameters(&self) -> [&[f32]; 3] {
        self.networks.parameters()
    }

    /// Writes the present observation to the inputs at step t.
    fn write_inputs(&mut self, t: usize) {
        self.task.environment().observe(&self.state, &mut self.observation);
        self.networks.set_weights_at(&mut self.rollout, t, &self.weights);
        self.networks.set_observation_at(&mut self.rollout, t, &self.observation);
    }

    /// Ends the episode after step t.
    fn end(&mut self, t: usize) -> Result<(), LearnError> {
        let n = self.settings.num_envs;
        // The inputs at t + 1 are free until the next action.
        self.write_inputs(t + 1);
        self.networks.evaluate(&mut self.rollout, t + 1..t + 2);
        let RolloutBuffer { rewards, values, continues, .. } = &mut self.rollout;
        for (r, v) in rewards[t * n..(t + 1) * n].iter_mut().zip(&values[(t + 1) * n..]) {
            *r += self.settings.gamma as f32 * v;
        }
        continues[t * n..(t + 1) * n].fill(0.0);
        self.reset()
    }

    /// Begins an episode: new states, and weights uniform on the simplex.
    fn reset(&mut self) -> Result<(), LearnError> {
        self.clock = 0;
        let first = usize::from(!self.task.has_objective());
        let mut drawn = vec![0.0; self.weights.len()];
        for (env, rng) in self.rngs.iter_mut().enumerate() {
            self.task.environment().reset(&mut self.state, env, rng)?;
            drawn[first..].iter_mut().for_each(|w| *w = -(1.0 - rng.uniform()).ln());
            let sum: f64 = drawn[first..].iter().sum();
            drawn[first..].iter_mut().for_each(|w| *w /= sum);
            self.weights.set_column(env, &drawn);
        }
        Ok(())
    }
}
