//! The two networks and the clipped step that improves them.

use std::ops::Range;

use acrl::{BatchMatrix, Interval, Rng, VecTask};
use acrl_nn::{Adam, Batch, Mlp, Workspace, clip_norm};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::action::{Deviations, Noise};
use super::average::Averages;
use super::chunk::{CHUNK, Chunk};
use super::policy::Inputs;
use super::rollout::Rollout;
use super::{ActionHeads, MlpPolicy, PpoConfig};
use crate::{Criterion, LearnError};

/// Actor, critic and their optimiser.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Networks {
    inputs: Inputs,
    heads: ActionHeads,
    actor: Mlp,
    critic: Mlp,
    /// ln σ of each number; by weight, or the same for all.
    log_deviations: Vec<f32>,
    actor_adam: Adam,
    critic_adam: Adam,
    deviation_adam: Adam,
    /// By head of the critic, what 1 of its output is worth; 1 if it is not said.
    #[serde(default)]
    value_scales: Vec<f32>,
    /// ρ(w), if targets are differential.
    #[serde(default)]
    averages: Option<Averages>,
    #[serde(skip)]
    chunks: Vec<Chunk>,
    #[serde(skip)]
    acting: Option<Acting>,
    /// The normalised advantages of a minibatch.
    #[serde(skip)]
    advantages: Vec<f32>,
}

/// What an iteration says about itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) policy_loss: f64,
    pub(crate) value_loss: f64,
    /// The mean σ.
    pub(crate) deviation: f64,
    /// The share of decisions at which the clip was active.
    pub(crate) clipped: f64,
    /// The divergence of the new policy from the one that acted.
    pub(crate) divergence: f64,
}

/// Memory for acting in all environments.
#[derive(Debug, Clone)]
struct Acting {
    input: Batch,
    work: Workspace,
    deviations: Deviations,
    noise: Noise,
}

/// By how much neurons heed the weights w more than the observation at first. What to do depends on w in every state,
/// but w is in \[0, 1\] and adds up to 1: with 1 a network hardly sees it, and learns one behaviour for all w.
const HEED: f32 = 4.0;

impl Networks {
    pub(crate) fn new(task: &VecTask<'_>, settings: &PpoConfig, rng: &mut Rng) -> Result<Self, LearnError> {
        let inputs = Inputs::new(task)?;
        let heads = ActionHeads::new(task.environment().action_space())?;
        let mut networks = Self::with_heads(inputs, heads, None, settings, rng)?;
        networks.heed(HEED);
        Ok(networks)
    }

    /// Makes neurons heed the weights w more than they do, by this factor.
    pub(crate) fn heed(&mut self, factor: f32) {
        let (first, inputs) = (self.inputs.observation().len(), self.inputs.len());
        for network in [&mut self.actor, &mut self.critic] {
            let neurons = network.shape()[1];
            for of_neuron in network.parameters_mut()[..neurons * inputs].chunks_exact_mut(inputs) {
                of_neuron[first..].iter_mut().for_each(|x| *x *= factor);
            }
        }
    }

    /// Gives each weighting a deviation σ(w) of its own. Else environments to which noise is a cost take it from all.
    pub(crate) fn deviate_by_weights(&mut self) {
        self.log_deviations = self.log_deviations.repeat(self.inputs.weights());
        self.deviation_adam = Adam::new(self.log_deviations.len());
        self.chunks.clear();
    }

    /// With so many critic heads; one for each weight if it is not said.
    pub(crate) fn with_heads(
        inputs: Inputs,
        heads: ActionHeads,
        values: Option<usize>,
        settings: &PpoConfig,
        rng: &mut Rng,
    ) -> Result<Self, LearnError> {
        let shape = |outputs: usize| {
            let mut shape = vec![inputs.len()];
            shape.extend(&settings.hidden);
            shape.push(outputs);
            shape
        };
        let network = |outputs, gain, rng: &mut Rng| {
            Mlp::new(&shape(outputs), gain, rng).map_err(|e| acrl::Error::Environment(e.to_string()))
        };
        let actor = network(heads.outputs(), 0.01, rng)?;
        let values = values.unwrap_or(inputs.weights());
        let critic = network(values, 1.0, rng)?;
        let averages = match settings.targets {
            Criterion::Discounted => None,
            Criterion::Average => Some(Averages::new(values, rng)?),
        };
        Ok(Self {
            value_scales: Vec::new(),
            averages,
            actor_adam: Adam::new(actor.parameters().len()),
            critic_adam: Adam::new(critic.parameters().len()),
            deviation_adam: Adam::new(heads.numbers()),
            log_deviations: vec![settings.deviation.ln() as f32; heads.numbers()],
            inputs,
            heads,
            actor,
            critic,
            chunks: Vec::new(),
            acting: None,
            advantages: Vec::new(),
        })
    }

    /// What 1 of the output of a head of the critic is worth.
    fn value_scale(&self, head: usize) -> f32 {
        self.value_scales.get(head).copied().unwrap_or(1.0)
    }

    fn values(&self) -> usize {
        self.critic.shape().last().copied().unwrap_or(0)
    }

    /// The parameters: actor, critic, ln σ.
    pub(crate) fn parameters(&self) -> [&[f32]; 3] {
        [self.actor.parameters(), self.critic.parameters(), &self.log_deviations]
    }

    /// Memory for what these networks experience.
    pub(crate) fn rollout(&self, decisions: usize, num_envs: usize) -> Rollout {
        Rollout::new(decisions, num_envs, self.inputs.len(), self.heads.parts().len(), self.values())
    }

    pub(crate) fn policy(&self, hold: usize) -> MlpPolicy {
        let (inputs, heads) = (self.inputs.clone(), self.heads.clone());
        // When all is learnt they hardly differ.
        let numbers = heads.numbers();
        let rows = (self.log_deviations.len() / numbers.max(1)).max(1);
        let mean =
            |number| self.log_deviations.iter().skip(number).step_by(numbers).sum::<f32>() / rows as f32;
        MlpPolicy::new(inputs, heads, self.actor.clone(), (0..numbers).map(mean).collect(), hold)
    }

    /// The weights of every environment, for a whole rollout; they add up to 1 already.
    pub(crate) fn set_weights(&self, rollout: &mut Rollout, weights: &BatchMatrix) {
        let first = usize::from(!self.inputs.objective());
        for (i, row) in rollout.weights.chunks_exact_mut(rollout.num_envs).enumerate() {
            row.iter_mut().zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
        (0..=rollout.decisions).for_each(|t| self.see_weights(rollout, t, weights));
    }

    /// Notes the weights at decision t as inputs.
    pub(crate) fn see_weights(&self, rollout: &mut Rollout, t: usize, weights: &BatchMatrix) {
        let (n, longer) = (rollout.num_envs, rollout.longer());
        if self.inputs.is_blind() {
            return;
        }
        let first = usize::from(!self.inputs.objective());
        for i in 0..self.inputs.weights() {
            let row = self.inputs.observation().len() + i;
            let out = &mut rollout.inputs[row * longer + t * n..][..n];
            out.iter_mut().zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
    }

    /// Notes what is seen at decision t.
    pub(crate) fn see(&self, rollout: &mut Rollout, t: usize, observation: &BatchMatrix) {
        let (n, longer) = (rollout.num_envs, rollout.longer());
        for row in 0..observation.len() {
            let out = &mut rollout.inputs[row * longer + t * n..][..n];
            self.inputs.scale_row(row, observation.row(row), out);
        }
    }

    /// Draws an action for every environment at decision t.
    pub(crate) fn act(
        &mut self,
        rollout: &mut Rollout,
        t: usize,
        observation: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) {
        self.see(rollout, t, observation);
        let (n, longer, block) = (rollout.num_envs, rollout.longer(), rollout.len());
        let Self { actor, heads, log_deviations, inputs, .. } = self;
        let acting = self.acting.get_or_insert_with(|| Acting {
            input: Batch::new(inputs.len(), n),
            work: Workspace::for_inference(actor, n),
            deviations: Deviations::default(),
            noise: Noise::default(),
        });
        for row in 0..inputs.len() {
            acting.input.row_mut(row).copy_from_slice(&rollout.inputs[row * longer + t * n..][..n]);
        }
        let output = actor.infer(&acting.input, &mut acting.work);
        let Rollout { actions: drawn, log_probabilities, .. } = rollout;
        let log = &mut log_probabilities[t * n..(t + 1) * n];
        let write = |part: usize, env: usize, u: f32| {
            drawn[part * block + t * n + env] = u;
            actions.set(part, env, ActionHeads::to_environment(heads.parts()[part], f64::from(u)));
        };
        acting.deviations.set(log_deviations, heads.numbers(), &acting.input, inputs.observation().len());
        heads.sample(output, &acting.deviations, &mut acting.noise, rngs, log, write);
        rollout.rewards.chunks_exact_mut(block).for_each(|row| row[t * n..(t + 1) * n].fill(0.0));
    }

    /// Adds `factor` times the rewards of a step to those of decision t.
    pub(crate) fn reward(&self, rollout: &mut Rollout, t: usize, rewards: &BatchMatrix, factor: f64) {
        let (n, block) = (rollout.num_envs, rollout.len());
        let first = usize::from(!self.inputs.objective());
        for head in 0..self.values() {
            let out = &mut rollout.rewards[head * block + t * n..][..n];
            for (out, r) in out.iter_mut().zip(rewards.row(first + head)) {
                *out += (factor * r) as f32;
            }
        }
    }

    /// The critic's opinion of the states of some decisions of a rollout.
    pub(crate) fn evaluate(&mut self, rollout: &mut Rollout, decisions: Range<usize>) {
        let (longer, end) = (rollout.longer(), decisions.end * rollout.num_envs);
        let together = if rayon::current_num_threads() == 1 { 1 } else { 8 };
        for start in (decisions.start * rollout.num_envs..end).step_by(together * CHUNK) {
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

    /// The advantages of a rollout with values, by the targets that are asked for; `left` is the share of the training
    /// that is left.
    pub(crate) fn advantages(&mut self, rollout: &mut Rollout, settings: &PpoConfig, left: f64) {
        let (discount, trace) = (settings.discount as f32, settings.trace as f32);
        match &mut self.averages {
            None => rollout.advantages(discount, trace, None),
            Some(averages) => averages.advantages(rollout, trace, 1.0 - discount, left as f32),
        }
    }

    /// Ends episodes after some decisions (t, environment), each of which is worth γ v of the observation it led to: adds that to
    /// its rewards, and lets no advantages flow over it.
    pub(crate) fn cut<'a>(
        &mut self,
        rollout: &mut Rollout,
        cuts: impl Iterator<Item = (usize, usize, &'a [f64])>,
        discount: f32,
    ) {
        let discount = if self.averages.is_some() { 1.0 } else { discount };
        let cuts: Vec<_> = cuts.collect();
        let (n, block, longer) = (rollout.num_envs, rollout.len(), rollout.longer());
        let seen = self.inputs.observation().len();
        for part in cuts.chunks(CHUNK) {
            let mut inputs = vec![0.0f32; self.inputs.len() * part.len()];
            for (c, (t, env, observation)) in part.iter().enumerate() {
                for row in 0..self.inputs.len() {
                    let out = &mut inputs[row * part.len() + c];
                    if row < seen {
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
                    rollout.rewards[head * block + t * n + env] += discount * (scale * value);
                }
            }
            part.iter().for_each(|(t, env, _)| rollout.continues[t * n + env] = 0.0);
        }
    }

    /// Scales observations from these intervals from now on.
    pub(crate) fn set_observation(&mut self, intervals: Vec<Interval>) {
        self.inputs.set_observation(intervals);
    }

    /// Measures rewards in units of these R₀ … R_m from now on; values in the old units times the factors are values
    /// in the new ones.
    pub(crate) fn rescale(&mut self, factors: &[f64], units: &[f64]) {
        self.inputs.set_scales(units.to_vec());
        let heads = self.values();
        let factors = &factors[factors.len() - heads..];
        if self.value_scales.is_empty() {
            scale_outputs(&mut self.critic, factors);
        }
        self.value_scales.iter_mut().zip(factors).for_each(|(scale, factor)| *scale *= *factor as f32);
        if let Some(averages) = &mut self.averages {
            averages.rescale(factors);
        }
    }

    /// Makes values small at first, by this factor.
    pub(crate) fn shrink_values(&mut self, factor: f64) {
        let factors = vec![factor; self.values()];
        scale_outputs(&mut self.critic, &factors);
    }

    /// Measures values in units of how much those of a rollout differ, so that the critic, whose steps are of one size, tells
    /// small differences from none; what it says stays the same. Units grow at once, and shrink slowly, because a rare reward
    /// may be missing in many a rollout.
    pub(crate) fn follow_values(&mut self, rollout: &Rollout) {
        const FORGET: f32 = 0.1;
        const LEAST: f32 = 1e-6;
        self.value_scales.resize(self.critic.shape().last().copied().unwrap_or(0), 1.0);
        let mut factors = Vec::with_capacity(self.value_scales.len());
        for (scale, returns) in self.value_scales.iter_mut().zip(rollout.returns.chunks_exact(rollout.len()))
        {
            let all =
                || returns.iter().zip(&rollout.ignored).filter(|(_, ignored)| !**ignored).map(|(r, _)| *r);
            let count = all().count().max(1) as f32;
            let mean = all().sum::<f32>() / count;
            let found = all().map(|r| (r - mean).powi(2)).sum::<f32>() / count;
            let old = *scale;
            *scale = found.max(old * old + FORGET * (found - old * old)).sqrt().max(LEAST);
            factors.push(f64::from(old / *scale));
        }
        scale_outputs(&mut self.critic, &factors);
    }

    /// Lowers deviations σ that are larger than this.
    pub(crate) fn limit_deviations(&mut self, largest: f64) {
        let largest = largest.ln() as f32;
        self.log_deviations.iter_mut().for_each(|log| *log = log.min(largest));
    }

    /// Raises deviations σ that are smaller than this.
    pub(crate) fn keep_deviations(&mut self, least: f64) {
        let least = least.ln() as f32;
        self.log_deviations.iter_mut().for_each(|log| *log = log.max(least));
    }

    /// Passes over the rollout in minibatches, with the clipped objective. On an error, which is a quantity
    /// that is no number and its value, the networks are as they were.
    pub(crate) fn improve(
        &mut self,
        rollout: &Rollout,
        settings: &PpoConfig,
        step_size: f64,
        rng: &mut Rng,
    ) -> Result<Figures, (&'static str, f64)> {
        let before = (self.actor.clone(), self.critic.clone(), self.log_deviations.clone());
        let averages = self.averages.as_ref().map_or(&[][..], Averages::parameters);
        let averages = averages.iter().map(|v| f64::from(*v)).sum::<f64>();
        if !averages.is_finite() {
            return Err(("the network of averages", averages));
        }
        let adams = (self.actor_adam.clone(), self.critic_adam.clone(), self.deviation_adam.clone());
        let mut order: Vec<u32> =
            (0..rollout.len() as u32).filter(|i| !rollout.ignored[*i as usize]).collect();
        let mut totals = Figures::default();
        for _ in 0..settings.passes {
            for i in (1..order.len()).rev() {
                order.swap(i, rng.index(i + 1));
            }
            for minibatch in order.chunks(settings.minibatch) {
                let figures = self.step(rollout, minibatch, settings, step_size as f32);
                totals.policy_loss += figures.policy_loss;
                totals.value_loss += figures.value_loss;
                totals.clipped += figures.clipped;
                totals.divergence += figures.divergence;
            }
        }
        let count = (settings.passes * order.len().max(1)) as f64;
        let deviations = self.log_deviations.iter().map(|s| f64::from(s.exp()));
        let figures = Figures {
            policy_loss: totals.policy_loss / count,
            value_loss: totals.value_loss / count,
            deviation: deviations.sum::<f64>() / self.log_deviations.len().max(1) as f64,
            clipped: totals.clipped / count,
            divergence: totals.divergence / count,
        };
        let sum = |values: &[f32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        for (quantity, value) in [
            ("the policy's loss", figures.policy_loss),
            ("the critic's loss", figures.value_loss),
            ("the policy's network", sum(self.actor.parameters()) + sum(&self.log_deviations)),
            ("the critic's network", sum(self.critic.parameters())),
        ] {
            if !value.is_finite() {
                (self.actor, self.critic, self.log_deviations) = before;
                (self.actor_adam, self.critic_adam, self.deviation_adam) = adams;
                return Err((quantity, value));
            }
        }
        Ok(figures)
    }

    /// One gradient step on a minibatch; the sums of its figures.
    fn step(
        &mut self,
        rollout: &Rollout,
        minibatch: &[u32],
        settings: &PpoConfig,
        step_size: f32,
    ) -> Figures {
        let size = minibatch.len() as f32;
        self.advantages.clear();
        self.advantages.extend(minibatch.iter().map(|&i| rollout.advantages[i as usize]));
        // What was not the policy's decision has no advantage.
        let some_held = rollout.held.contains(&true);
        let own = |i: &u32| !rollout.held[*i as usize];
        let count = if some_held { minibatch.iter().filter(|i| own(i)).count() as f32 } else { size };
        let forget_held = |advantages: &mut [f32]| {
            if some_held {
                let all = advantages.iter_mut().zip(minibatch);
                all.filter(|(_, i)| !own(i)).for_each(|(a, _)| *a = 0.0);
            }
        };
        forget_held(&mut self.advantages);
        let mean = sum(&self.advantages, |a| a) / count.max(1.0);
        let of_held = (size - count) * mean * mean;
        let squares = sum(&self.advantages, |a| (a - mean) * (a - mean)) - of_held;
        let variance = squares.max(0.0) / (count - 1.0).max(1.0);
        let deviation = variance.sqrt().max(settings.advantage_floor as f32) + 1e-8;
        self.advantages.iter_mut().for_each(|a| *a = (*a - mean) / deviation);
        forget_held(&mut self.advantages);
        // One chunk after the other in the same memory, which the cache holds, or each in its own on another core: each
        // adds one number to every part of the gradient, so the sums are the same to the bit.
        let parts = minibatch.len().div_ceil(CHUNK);
        let total = if rayon::current_num_threads() == 1 { 1 } else { parts };
        self.prepare(total);
        // The bonus goes down with the step size.
        let entropy = settings.entropy as f32 * step_size / settings.step_size as f32;
        let first = self.inputs.observation().len();
        let Self { actor, critic, heads, log_deviations, value_scales, chunks, advantages, .. } = self;
        let parts = minibatch.chunks(CHUNK).zip(advantages.chunks(CHUNK));
        let work = |chunk: &mut Chunk, (part, advantages): (&[u32], &[f32])| {
            chunk.gather(rollout, part, advantages);
            chunk.actor(actor, heads, (log_deviations, first), (settings.clip as f32, entropy), size);
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
        let figures = first.sums;
        let gradients = [&first.actor_gradient, &first.critic_gradient, &first.deviation_gradient];
        let norm = gradients.map(|g| clip_norm(g, f32::INFINITY).1.powi(2)).iter().sum::<f32>().sqrt();
        let scale = (settings.gradient_norm as f32 / (norm + 1e-6)).min(1.0);
        let [actor, critic, deviation] = gradients;
        self.actor_adam.step_scaled(self.actor.parameters_mut(), actor, step_size, scale);
        self.critic_adam.step_scaled(self.critic.parameters_mut(), critic, step_size, scale);
        self.deviation_adam.step_scaled(&mut self.log_deviations, deviation, step_size, scale);
        figures
    }

    /// Makes room for so many chunks.
    fn prepare(&mut self, total: usize) {
        while self.chunks.len() < total {
            let deviations = self.log_deviations.len();
            self.chunks.push(Chunk::new(&self.actor, &self.critic, &self.heads, deviations));
        }
    }
}

/// Multiplies each output of a network by a factor.
pub(super) fn scale_outputs(network: &mut Mlp, factors: &[f64]) {
    let width = network.shape()[network.shape().len() - 2];
    let from = network.parameters().len() - factors.len() * (width + 1);
    let (weights, biases) = network.parameters_mut()[from..].split_at_mut(factors.len() * width);
    for ((row, bias), factor) in weights.chunks_exact_mut(width).zip(biases).zip(factors) {
        *bias *= *factor as f32;
        row.iter_mut().for_each(|w| *w *= *factor as f32);
    }
}

/// Σ f(x) of 16 numbers at a time: one by one, each addition would wait for the one before it.
pub(super) fn sum(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (tiles, rest) = values.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for tile in tiles {
        sums.iter_mut().zip(tile).for_each(|(sum, x)| *sum += f(*x));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum += f(*x));
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use acrl::{Objective, Specification};
    use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};

    use super::*;

    #[test]
    fn values_stay_the_same_in_other_units() {
        let external = External::new(ExternalParameters {
            observation: vec![[-1.0, 1.0]],
            action: vec![ExternalAction { choices: Some(2), low: None, high: None }],
            reward: vec![ExternalReward { name: "r".to_owned(), low: 0.0, high: 1.0 }],
            spaces: None,
        })
        .unwrap();
        let specification = Specification::new(Some(Objective::maximize("r")), Vec::new()).unwrap();
        let task = VecTask::new(&external, specification).unwrap();
        let mut networks = Networks::new(&task, &PpoConfig::default(), &mut Rng::new(1)).unwrap();
        let mut rollout = networks.rollout(4, 2);
        rollout.inputs.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 / 10.0);
        networks.evaluate(&mut rollout, 0..5);
        let before = rollout.values.clone();
        assert!(before.iter().any(|value| value.abs() > 1e-3));
        let mut follow = |networks: &mut Networks, size: f32| {
            for (i, r) in rollout.returns.iter_mut().enumerate() {
                *r = if i % 2 == 0 { 7.0 + size } else { 7.0 - size };
            }
            networks.follow_values(&rollout);
            networks.evaluate(&mut rollout, 0..5);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs() + 1e-6;
            assert!(rollout.values.iter().zip(&before).all(near), "{:?}, not {before:?}", rollout.values);
            networks.value_scale(0)
        };
        // They grow at once, however far from 0 the values are, and shrink slowly.
        assert!((follow(&mut networks, 30.0) - 30.0).abs() < 1e-3);
        let smaller = follow(&mut networks, 0.001);
        assert!((20.0..30.0).contains(&smaller), "{smaller}");
        (0..300).for_each(|_| _ = follow(&mut networks, 0.001));
        assert!((follow(&mut networks, 0.001) - 0.001).abs() < 1e-4);
    }
}
