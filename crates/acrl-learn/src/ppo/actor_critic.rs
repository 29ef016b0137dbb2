//! Actor and critic, and the clipped gradient step that updates them.

use std::ops::Range;

use acrl::{ActionPart, BatchMatrix, Interval, Rng};
use acrl_nn::{Adam, Batch, Mlp, Workspace, clip_norm};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::average_reward::AverageReward;
use super::distribution::{ActionStd, Noise};
use super::minibatch::{CHUNK, Chunk};
use super::policy::Inputs;
use super::{ActionHeads, MlpPolicy, PpoConfig, RolloutBuffer};
use crate::metrics::UpdateMetrics;
use crate::tuning::ppo::{ACTOR_GAIN, WEIGHT_INPUT_SCALE};
use crate::{Criterion, LearnError};

/// Actor and critic with their optimisers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Networks {
    pub(super) inputs: Inputs,
    heads: ActionHeads,
    actor: Mlp,
    pub(super) critic: Mlp,
    /// ln σ of each continuous action; one row per weight, or one for all.
    log_std: Vec<f32>,
    actor_adam: Adam,
    critic_adam: Adam,
    std_adam: Adam,
    /// PopArt scale of each head of the critic; 1 if absent.
    #[serde(default)]
    pub(super) value_scales: Vec<f32>,
    /// ρ(w), with the average-reward criterion.
    #[serde(default)]
    pub(super) average_reward: Option<AverageReward>,
    #[serde(skip)]
    chunks: Vec<Chunk>,
    #[serde(skip)]
    acting: Option<Acting>,
    /// Normalised advantages of a minibatch.
    #[serde(skip)]
    advantages: Vec<f32>,
}

/// Scratch buffers for acting in all environments.
#[derive(Debug, Clone)]
struct Acting {
    input: Batch,
    work: Workspace,
    std: ActionStd,
    noise: Noise,
}

impl Networks {
    pub(crate) fn new(
        inputs: Inputs,
        actions: &[ActionPart],
        settings: &PpoConfig,
        rng: &mut Rng,
    ) -> Result<Self, LearnError> {
        let mut networks = Self::with_heads(inputs, ActionHeads::new(actions)?, None, settings, rng)?;
        networks.scale_weight_inputs(WEIGHT_INPUT_SCALE);
        Ok(networks)
    }

    /// Multiplies the first layer's parameters for the weights w by a factor.
    pub(crate) fn scale_weight_inputs(&mut self, factor: f32) {
        let (first, inputs) = (self.inputs.observation().len(), self.inputs.len());
        for network in [&mut self.actor, &mut self.critic] {
            let neurons = network.shape()[1];
            for of_neuron in network.parameters_mut()[..neurons * inputs].chunks_exact_mut(inputs) {
                of_neuron[first..].iter_mut().for_each(|x| *x *= factor);
            }
        }
    }

    /// Gives each weighting a standard deviation σ(w) of its own, so that weightings under which noise is costly do not
    /// end the exploration of others.
    pub(crate) fn weight_dependent_std(&mut self) {
        self.log_std = self.log_std.repeat(self.inputs.weights());
        self.std_adam = Adam::new(self.log_std.len());
        self.chunks.clear();
    }

    /// Networks with so many critic heads, by default one per weight.
    pub fn with_heads(
        inputs: Inputs,
        heads: ActionHeads,
        values: Option<usize>,
        settings: &PpoConfig,
        rng: &mut Rng,
    ) -> Result<Self, LearnError> {
        let shape = |outputs: usize| {
            let mut shape = vec![inputs.len()];
            shape.extend(&settings.hidden_sizes);
            shape.push(outputs);
            shape
        };
        let network = |outputs, gain, rng: &mut Rng| {
            Mlp::new(&shape(outputs), gain, rng).map_err(|e| acrl::Error::Environment(e.to_string()))
        };
        let actor = network(heads.outputs(), ACTOR_GAIN, rng)?;
        let values = values.unwrap_or(inputs.weights());
        let critic = network(values, 1.0, rng)?;
        let average_reward = match settings.criterion {
            Criterion::Discounted => None,
            Criterion::AverageReward => Some(AverageReward::new(values, rng)?),
        };
        Ok(Self {
            value_scales: Vec::new(),
            average_reward,
            actor_adam: Adam::new(actor.parameters().len()),
            critic_adam: Adam::new(critic.parameters().len()),
            std_adam: Adam::new(heads.numbers()),
            log_std: vec![settings.init_std.ln() as f32; heads.numbers()],
            inputs,
            heads,
            actor,
            critic,
            chunks: Vec::new(),
            acting: None,
            advantages: Vec::new(),
        })
    }

    /// PopArt scale of a head of the critic.
    pub(super) fn value_scale(&self, head: usize) -> f32 {
        self.value_scales.get(head).copied().unwrap_or(1.0)
    }

    /// Number of heads of the critic.
    pub(super) fn values(&self) -> usize {
        self.critic.shape().last().copied().unwrap_or(0)
    }

    /// The parameters: actor, critic, ln σ.
    pub fn parameters(&self) -> [&[f32]; 3] {
        [self.actor.parameters(), self.critic.parameters(), &self.log_std]
    }

    /// Rollout buffer that fits these networks.
    pub fn rollout_buffer(&self, n_steps: usize, num_envs: usize) -> RolloutBuffer {
        RolloutBuffer::new(n_steps, num_envs, self.inputs.len(), self.heads.parts().len(), self.values())
    }

    /// The policy, with the mean of σ(w) over the weights, which hardly differ at the end of a training.
    pub(crate) fn policy(&self, action_repeat: usize) -> MlpPolicy {
        let (inputs, heads) = (self.inputs.clone(), self.heads.clone());
        let numbers = heads.numbers();
        let rows = (self.log_std.len() / numbers.max(1)).max(1);
        let mean = |number| self.log_std.iter().skip(number).step_by(numbers).sum::<f32>() / rows as f32;
        MlpPolicy::new(inputs, heads, self.actor.clone(), (0..numbers).map(mean).collect(), action_repeat)
    }

    /// Sets the weights of every environment for a whole rollout; they add up to 1.
    pub(crate) fn set_weights(&self, rollout: &mut RolloutBuffer, weights: &BatchMatrix) {
        let first = usize::from(!self.inputs.objective());
        for (i, row) in rollout.weights.chunks_exact_mut(rollout.num_envs).enumerate() {
            row.iter_mut().zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
        (0..=rollout.n_steps).for_each(|t| self.set_weights_at(rollout, t, weights));
    }

    /// Writes the weights to the inputs at action t.
    pub fn set_weights_at(&self, rollout: &mut RolloutBuffer, t: usize, weights: &BatchMatrix) {
        let (n, longer) = (rollout.num_envs, rollout.longer());
        if self.inputs.ignores_weights() {
            return;
        }
        let first = usize::from(!self.inputs.objective());
        for i in 0..self.inputs.weights() {
            let row = self.inputs.observation().len() + i;
            let out = &mut rollout.inputs[row * longer + t * n..][..n];
            out.iter_mut().zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
    }

    /// Writes the observation to the inputs at action t.
    pub fn set_observation_at(&self, rollout: &mut RolloutBuffer, t: usize, observation: &BatchMatrix) {
        let (n, longer) = (rollout.num_envs, rollout.longer());
        for row in 0..observation.len() {
            let out = &mut rollout.inputs[row * longer + t * n..][..n];
            self.inputs.scale_row(row, observation.row(row), out);
        }
    }

    /// Draws action t of every environment.
    pub fn act(
        &mut self,
        rollout: &mut RolloutBuffer,
        t: usize,
        observation: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) {
        self.set_observation_at(rollout, t, observation);
        let (n, longer, block) = (rollout.num_envs, rollout.longer(), rollout.len());
        let Self { actor, heads, log_std, inputs, .. } = self;
        let acting = self.acting.get_or_insert_with(|| Acting {
            input: Batch::new(inputs.len(), n),
            work: Workspace::for_inference(actor, n),
            std: ActionStd::default(),
            noise: Noise::default(),
        });
        for row in 0..inputs.len() {
            acting.input.row_mut(row).copy_from_slice(&rollout.inputs[row * longer + t * n..][..n]);
        }
        let output = actor.infer(&acting.input, &mut acting.work);
        let RolloutBuffer { actions: drawn, log_probabilities, .. } = rollout;
        let log = &mut log_probabilities[t * n..(t + 1) * n];
        let write = |part: usize, env: usize, u: f32| {
            drawn[part * block + t * n + env] = u;
            actions.set(part, env, ActionHeads::to_environment(heads.parts()[part], f64::from(u)));
        };
        acting.std.set(log_std, heads.numbers(), &acting.input, inputs.observation().len());
        heads.sample(output, &acting.std, &mut acting.noise, rngs, log, write);
        rollout.rewards.chunks_exact_mut(block).for_each(|row| row[t * n..(t + 1) * n].fill(0.0));
    }

    /// Adds `factor` times the rewards of a step to those of action t.
    pub(crate) fn reward(&self, rollout: &mut RolloutBuffer, t: usize, rewards: &BatchMatrix, factor: f64) {
        let (n, block) = (rollout.num_envs, rollout.len());
        let first = usize::from(!self.inputs.objective());
        for head in 0..self.values() {
            let out = &mut rollout.rewards[head * block + t * n..][..n];
            for (out, r) in out.iter_mut().zip(rewards.row(first + head)) {
                *out += (factor * r) as f32;
            }
        }
    }

    /// Writes the values of the states at some steps of a rollout.
    pub fn evaluate(&mut self, rollout: &mut RolloutBuffer, steps: Range<usize>) {
        let (longer, end) = (rollout.longer(), steps.end * rollout.num_envs);
        let together = if rayon::current_num_threads() == 1 { 1 } else { 8 };
        for start in (steps.start * rollout.num_envs..end).step_by(together * CHUNK) {
            let total = (end - start).div_ceil(CHUNK).min(together);
            self.prepare(total);
            let (critic, inputs) = (&self.critic, &rollout.inputs);
            let work = |(c, chunk): (usize, &mut Chunk)| {
                let begin = start + c * CHUNK;
                chunk.evaluate(critic, inputs, longer, begin..end.min(begin + CHUNK));
            };
            match &mut self.chunks[..total] {
                [chunk] => work((0, chunk)),
                chunks => chunks.par_iter_mut().enumerate().for_each(work),
            }
            for (c, chunk) in self.chunks[..total].iter().enumerate() {
                for (row, values) in chunk.values().iter_rows().enumerate() {
                    let begin = row * longer + start + c * CHUNK;
                    let (out, scale) = (&mut rollout.values[begin..][..values.len()], self.value_scale(row));
                    out.iter_mut().zip(values).for_each(|(out, value)| *out = scale * value);
                }
            }
        }
    }

    /// Computes the advantages of a rollout with values; `left` is the share of the training that is left.
    pub(crate) fn advantages(&mut self, rollout: &mut RolloutBuffer, settings: &PpoConfig, left: f64) {
        let (gamma, gae_lambda) = (settings.gamma as f32, settings.gae_lambda as f32);
        match &mut self.average_reward {
            None => rollout.compute_advantages(gamma, gae_lambda, None),
            Some(averages) => averages.advantages(rollout, gae_lambda, 1.0 - gamma, left as f32),
        }
    }

    /// Ends episodes after some actions (t, environment): bootstraps from the value of the observation that each led to,
    /// by adding γ v to its rewards, and stops the advantages there.
    pub(crate) fn end_episodes<'a>(
        &mut self,
        rollout: &mut RolloutBuffer,
        ends: impl Iterator<Item = (usize, usize, &'a [f64])>,
        gamma: f32,
    ) {
        let gamma = if self.average_reward.is_some() { 1.0 } else { gamma };
        let ends: Vec<_> = ends.collect();
        let (n, block, longer) = (rollout.num_envs, rollout.len(), rollout.longer());
        let observed = self.inputs.observation().len();
        for part in ends.chunks(CHUNK) {
            let mut inputs = vec![0.0f32; self.inputs.len() * part.len()];
            for (c, (t, env, observation)) in part.iter().enumerate() {
                for row in 0..self.inputs.len() {
                    let out = &mut inputs[row * part.len() + c];
                    if row < observed {
                        self.inputs.scale_row(row, &observation[row..=row], std::slice::from_mut(out));
                    } else {
                        *out = rollout.inputs[row * longer + t * n + env];
                    }
                }
            }
            self.prepare(1);
            let chunk = &mut self.chunks[0];
            chunk.evaluate(&self.critic, &inputs, part.len(), 0..part.len());
            for (head, values) in chunk.values().iter_rows().enumerate() {
                let scale = self.value_scales.get(head).copied().unwrap_or(1.0);
                for ((t, env, _), value) in part.iter().zip(values) {
                    rollout.rewards[head * block + t * n + env] += gamma * (scale * value);
                }
            }
            part.iter().for_each(|(t, env, _)| rollout.continues[t * n + env] = 0.0);
        }
    }

    /// Sets the intervals from which observations are scaled.
    pub(crate) fn set_observation(&mut self, intervals: Vec<Interval>) {
        self.inputs.set_observation(intervals);
    }

    /// Lowers every σ to at most this.
    pub(crate) fn clamp_std_max(&mut self, largest: f64) {
        let largest = largest.ln() as f32;
        self.log_std.iter_mut().for_each(|log| *log = log.min(largest));
    }

    /// Raises every σ to at least this.
    pub(crate) fn clamp_std_min(&mut self, least: f64) {
        let least = least.ln() as f32;
        self.log_std.iter_mut().for_each(|log| *log = log.max(least));
    }

    /// Epochs of minibatch steps on the clipped objective. Refuses an update after which a loss or a parameter is not
    /// finite; the networks are then as they were.
    pub fn update(
        &mut self,
        rollout: &RolloutBuffer,
        settings: &PpoConfig,
        learning_rate: f64,
        iteration: u64,
        rng: &mut Rng,
    ) -> Result<UpdateMetrics, LearnError> {
        let diverged = |quantity, value| Err(LearnError::Diverged { iteration, quantity, value });
        let before = (self.actor.clone(), self.critic.clone(), self.log_std.clone());
        let averages = self.average_reward.as_ref().map_or(&[][..], AverageReward::parameters);
        let averages = averages.iter().map(|v| f64::from(*v)).sum::<f64>();
        if !averages.is_finite() {
            return diverged("the average-reward network", averages);
        }
        let adams = (self.actor_adam.clone(), self.critic_adam.clone(), self.std_adam.clone());
        let mut order: Vec<u32> =
            (0..rollout.len() as u32).filter(|i| !rollout.ignored[*i as usize]).collect();
        let mut totals = UpdateMetrics::default();
        for _ in 0..settings.update_epochs {
            for i in (1..order.len()).rev() {
                order.swap(i, rng.index(i + 1));
            }
            for minibatch in order.chunks(settings.minibatch_size) {
                totals.add(self.step(rollout, minibatch, settings, learning_rate as f32));
            }
        }
        let count = (settings.update_epochs * order.len().max(1)) as f64;
        let stds = self.log_std.iter().map(|s| f64::from(s.exp()));
        let metrics = UpdateMetrics {
            policy_gradient_loss: totals.policy_gradient_loss / count,
            value_loss: totals.value_loss / count,
            std: stds.sum::<f64>() / self.log_std.len().max(1) as f64,
            clip_fraction: totals.clip_fraction / count,
            approx_kl: totals.approx_kl / count,
            explained_variance: rollout.explained_variance(),
            learning_rate,
        };
        let sum = |values: &[f32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        for (quantity, value) in [
            ("the policy's loss", metrics.policy_gradient_loss),
            ("the critic's loss", metrics.value_loss),
            ("the policy's network", sum(self.actor.parameters()) + sum(&self.log_std)),
            ("the critic's network", sum(self.critic.parameters())),
        ] {
            if !value.is_finite() {
                (self.actor, self.critic, self.log_std) = before;
                (self.actor_adam, self.critic_adam, self.std_adam) = adams;
                return diverged(quantity, value);
            }
        }
        Ok(metrics)
    }

    /// One gradient step on a minibatch; the sums of its metrics.
    fn step(
        &mut self,
        rollout: &RolloutBuffer,
        minibatch: &[u32],
        settings: &PpoConfig,
        learning_rate: f32,
    ) -> UpdateMetrics {
        let size = minibatch.len() as f32;
        self.advantages.clear();
        self.advantages.extend(minibatch.iter().map(|&i| rollout.advantages[i as usize]));
        // Repeated actions were not drawn from the policy and have no advantage.
        let some_sticky = rollout.sticky.contains(&true);
        let own = |i: &u32| !rollout.sticky[*i as usize];
        let count = if some_sticky { minibatch.iter().filter(|i| own(i)).count() as f32 } else { size };
        let clear_sticky = |advantages: &mut [f32]| {
            if some_sticky {
                let all = advantages.iter_mut().zip(minibatch);
                all.filter(|(_, i)| !own(i)).for_each(|(a, _)| *a = 0.0);
            }
        };
        clear_sticky(&mut self.advantages);
        let mean = sum(&self.advantages, |a| a) / count.max(1.0);
        let of_sticky = (size - count) * mean * mean;
        let squares = sum(&self.advantages, |a| (a - mean) * (a - mean)) - of_sticky;
        let variance = squares.max(0.0) / (count - 1.0).max(1.0);
        let std = variance.sqrt().max(settings.min_advantage_std as f32) + 1e-8;
        self.advantages.iter_mut().for_each(|a| *a = (*a - mean) / std);
        clear_sticky(&mut self.advantages);
        // One chunk after the other in the same memory, which the cache holds, or each in its own on another core: each
        // adds one number to every part of the gradient, so that the sums are bit-identical.
        let parts = minibatch.len().div_ceil(CHUNK);
        let total = if rayon::current_num_threads() == 1 { 1 } else { parts };
        self.prepare(total);
        // The entropy bonus decreases with the learning rate.
        let ent_coef = settings.ent_coef as f32 * learning_rate / settings.learning_rate as f32;
        let first = self.inputs.observation().len();
        let Self { actor, critic, heads, log_std, value_scales, chunks, advantages, .. } = self;
        let parts = minibatch.chunks(CHUNK).zip(advantages.chunks(CHUNK));
        let work = |chunk: &mut Chunk, (part, advantages): (&[u32], &[f32])| {
            chunk.gather(rollout, part, advantages);
            chunk.actor(actor, heads, (log_std, first), (settings.clip_range as f32, ent_coef), size);
            chunk.critic(critic, value_scales, size);
        };
        chunks[..total].iter_mut().for_each(Chunk::clear);
        match &mut chunks[..total] {
            [chunk] => parts.for_each(|part| work(chunk, part)),
            chunks => {
                let parts: Vec<_> = parts.collect();
                chunks.par_iter_mut().zip(parts).for_each(|(chunk, part)| work(chunk, part));
            }
        }
        let (first, rest) = self.chunks[..total].split_at_mut(1);
        let first = &mut first[0];
        rest.iter().for_each(|other| first.add(other));
        let metrics = first.sums;
        let gradients = [&first.actor_gradient, &first.critic_gradient, &first.std_gradient];
        let norm = gradients.map(|g| clip_norm(g, f32::INFINITY).1.powi(2)).iter().sum::<f32>().sqrt();
        let scale = (settings.max_grad_norm as f32 / (norm + 1e-6)).min(1.0);
        let [actor, critic, std] = gradients;
        self.actor_adam.step_scaled(self.actor.parameters_mut(), actor, learning_rate, scale);
        self.critic_adam.step_scaled(self.critic.parameters_mut(), critic, learning_rate, scale);
        self.std_adam.step_scaled(&mut self.log_std, std, learning_rate, scale);
        metrics
    }

    /// Allocates so many chunks.
    fn prepare(&mut self, total: usize) {
        while self.chunks.len() < total {
            let stds = self.log_std.len();
            self.chunks.push(Chunk::new(&self.actor, &self.critic, &self.heads, stds));
        }
    }
}

/// Σ f(x) in 16 partial sums, so that additions do not wait for each other.
pub(super) fn sum(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (tiles, rest) = values.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for tile in tiles {
        sums.iter_mut().zip(tile).for_each(|(sum, x)| *sum += f(*x));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum += f(*x));
    sums.iter().sum()
}
