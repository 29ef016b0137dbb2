//! The two networks and the clipped step that improves them.

use std::ops::Range;

use acrl::{BatchTask, Rng, Rows};
use acrl_nn::{Adam, Batch, Mlp, Workspace, clip_norm};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::policy::Inputs;
use super::rollout::Rollout;
use super::{ActionHeads, MlpPolicy, PpoSettings};
use crate::LearnError;

/// Lanes that one core works on at a time: few enough for its cache. A gradient is the sum over such
/// chunks in their order, so it does not depend on the number of threads.
const CHUNK: usize = 256;

/// Actor, critic and their optimiser.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Networks {
    inputs: Inputs,
    heads: ActionHeads,
    actor: Mlp,
    critic: Mlp,
    log_deviations: Vec<f32>,
    actor_adam: Adam,
    critic_adam: Adam,
    deviation_adam: Adam,
    #[serde(skip)]
    chunks: Vec<Chunk>,
    #[serde(skip)]
    acting: Option<Acting>,
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

/// Memory for acting in all lanes.
#[derive(Debug, Clone)]
struct Acting {
    input: Batch,
    work: Workspace,
}

/// Memory for a chunk of a minibatch, and what it contributes.
#[derive(Debug, Clone)]
struct Chunk {
    input: Batch,
    actions: Vec<f32>,
    log_old: Vec<f32>,
    log_new: Vec<f32>,
    advantages: Vec<f32>,
    outputs: Vec<f32>,
    d_outputs: Batch,
    d_values: Batch,
    actor_work: Workspace,
    critic_work: Workspace,
    actor_gradient: Vec<f32>,
    critic_gradient: Vec<f32>,
    deviation_gradient: Vec<f32>,
    sums: Figures,
}

impl Networks {
    pub(crate) fn new(
        task: &BatchTask<'_>,
        settings: &PpoSettings,
        rng: &mut Rng,
    ) -> Result<Self, LearnError> {
        let inputs = Inputs::new(task)?;
        let heads = ActionHeads::new(task.environment().action_space())?;
        Self::with_heads(inputs, heads, None, settings, rng)
    }

    /// With so many critic heads; one for each weight if it is not said.
    pub(crate) fn with_heads(
        inputs: Inputs,
        heads: ActionHeads,
        values: Option<usize>,
        settings: &PpoSettings,
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
        let critic = network(values.unwrap_or(inputs.weights()), 1.0, rng)?;
        Ok(Self {
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
        })
    }

    fn values(&self) -> usize {
        self.critic.shape().last().copied().unwrap_or(0)
    }

    /// The parameters: actor, critic, ln σ.
    pub(crate) fn parameters(&self) -> [&[f32]; 3] {
        [self.actor.parameters(), self.critic.parameters(), &self.log_deviations]
    }

    /// Memory for what these networks experience.
    pub(crate) fn rollout(&self, decisions: usize, lanes: usize) -> Rollout {
        Rollout::new(decisions, lanes, self.inputs.len(), self.heads.parts().len(), self.values())
    }

    pub(crate) fn policy(&self, hold: usize) -> MlpPolicy {
        let (inputs, heads) = (self.inputs.clone(), self.heads.clone());
        MlpPolicy::new(inputs, heads, self.actor.clone(), self.log_deviations.clone(), hold)
    }

    /// The weights of every lane, for a whole rollout; they add up to 1 already.
    pub(crate) fn set_weights(&self, rollout: &mut Rollout, weights: &Rows) {
        let first = usize::from(!self.inputs.objective());
        for (i, row) in rollout.weights.chunks_exact_mut(rollout.lanes).enumerate() {
            row.iter_mut().zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
        (0..=rollout.decisions).for_each(|t| self.see_weights(rollout, t, weights));
    }

    /// Notes the weights at decision t as inputs.
    pub(crate) fn see_weights(&self, rollout: &mut Rollout, t: usize, weights: &Rows) {
        let (n, longer) = (rollout.lanes, rollout.longer());
        let first = usize::from(!self.inputs.objective());
        for i in 0..self.inputs.weights() {
            let row = self.inputs.observation().len() + i;
            let out = &mut rollout.inputs[row * longer + t * n..][..n];
            out.iter_mut().zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
    }

    /// Notes what is seen at decision t.
    pub(crate) fn see(&self, rollout: &mut Rollout, t: usize, observation: &Rows) {
        let (n, longer) = (rollout.lanes, rollout.longer());
        for row in 0..observation.len() {
            let out = &mut rollout.inputs[row * longer + t * n..][..n];
            self.inputs.scale_row(row, observation.row(row), out);
        }
    }

    /// Draws an action for every lane at decision t.
    pub(crate) fn act(
        &mut self,
        rollout: &mut Rollout,
        t: usize,
        observation: &Rows,
        actions: &mut Rows,
        rngs: &mut [Rng],
    ) {
        self.see(rollout, t, observation);
        let (n, longer, block) = (rollout.lanes, rollout.longer(), rollout.len());
        let Self { actor, heads, log_deviations, inputs, .. } = self;
        let acting = self.acting.get_or_insert_with(|| Acting {
            input: Batch::new(inputs.len(), n),
            work: Workspace::for_inference(actor, n),
        });
        for row in 0..inputs.len() {
            acting.input.row_mut(row).copy_from_slice(&rollout.inputs[row * longer + t * n..][..n]);
        }
        let output = actor.infer(&acting.input, &mut acting.work);
        for (lane, rng) in rngs.iter_mut().enumerate() {
            let write = |part: usize, u: f32| {
                rollout.actions[part * block + t * n + lane] = u;
                let action = ActionHeads::to_environment(heads.parts()[part], f64::from(u));
                actions.set(part, lane, action);
            };
            let log = heads.sample(|row| output.row(row)[lane], log_deviations, rng, write);
            rollout.log_probabilities[t * n + lane] = log;
        }
        rollout.rewards.chunks_exact_mut(block).for_each(|row| row[t * n..(t + 1) * n].fill(0.0));
    }

    /// Adds `factor` times the rewards of a step to those of decision t.
    pub(crate) fn reward(&self, rollout: &mut Rollout, t: usize, rewards: &Rows, factor: f64) {
        let (n, block) = (rollout.lanes, rollout.len());
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
        const TOGETHER: usize = 8;
        let (longer, end) = (rollout.longer(), decisions.end * rollout.lanes);
        for start in (decisions.start * rollout.lanes..end).step_by(TOGETHER * CHUNK) {
            let total = (end - start).div_ceil(CHUNK).min(TOGETHER);
            self.prepare(total);
            let (critic, inputs) = (&self.critic, &rollout.inputs);
            on_all_cores(&mut self.chunks[..total], |c, chunk| {
                let begin = start + c * CHUNK;
                chunk.input.set_lanes(CHUNK.min(end - begin));
                for row in 0..chunk.input.rows() {
                    let out = chunk.input.row_mut(row);
                    out.copy_from_slice(&inputs[row * longer + begin..][..out.len()]);
                }
                critic.infer(&chunk.input, &mut chunk.critic_work);
            });
            for (c, chunk) in self.chunks[..total].iter().enumerate() {
                for (row, values) in chunk.critic_work.output().iter_rows().enumerate() {
                    let begin = row * longer + start + c * CHUNK;
                    rollout.values[begin..][..values.len()].copy_from_slice(values);
                }
            }
        }
    }

    /// Lowers deviations σ that are larger than this.
    pub(crate) fn limit_deviations(&mut self, largest: f64) {
        let largest = largest.ln() as f32;
        self.log_deviations.iter_mut().for_each(|log| *log = log.min(largest));
    }

    /// Passes over the rollout in minibatches, with the clipped objective. On an error, which is a quantity
    /// that is no number and its value, the networks are as they were.
    pub(crate) fn improve(
        &mut self,
        rollout: &Rollout,
        settings: &PpoSettings,
        step_size: f64,
        rng: &mut Rng,
    ) -> Result<Figures, (&'static str, f64)> {
        let before = (self.actor.clone(), self.critic.clone(), self.log_deviations.clone());
        let adams = (self.actor_adam.clone(), self.critic_adam.clone(), self.deviation_adam.clone());
        let mut order: Vec<u32> = (0..rollout.len() as u32).collect();
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
        let count = (settings.passes * order.len()) as f64;
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
        settings: &PpoSettings,
        step_size: f32,
    ) -> Figures {
        let size = minibatch.len() as f32;
        let mean = minibatch.iter().map(|&i| rollout.advantages[i as usize]).sum::<f32>() / size;
        let square = |i: &u32| (rollout.advantages[*i as usize] - mean).powi(2);
        let variance = minibatch.iter().map(square).sum::<f32>() / (size - 1.0).max(1.0);
        let deviation = variance.sqrt() + 1e-8;
        let total = minibatch.len().div_ceil(CHUNK);
        self.prepare(total);
        let Self { actor, critic, heads, log_deviations, chunks, .. } = self;
        on_all_cores(&mut chunks[..total], |c, chunk| {
            let part = &minibatch[c * CHUNK..minibatch.len().min((c + 1) * CHUNK)];
            chunk.gather(rollout, part, mean, deviation);
            chunk.actor(actor, heads, log_deviations, settings, size);
            chunk.critic(critic, rollout, part, size);
        });
        let (first, rest) = self.chunks.split_at_mut(1);
        let first = &mut first[0];
        let mut figures = first.sums;
        for other in &rest[..total - 1] {
            add(&mut first.actor_gradient, &other.actor_gradient);
            add(&mut first.critic_gradient, &other.critic_gradient);
            add(&mut first.deviation_gradient, &other.deviation_gradient);
            figures.policy_loss += other.sums.policy_loss;
            figures.value_loss += other.sums.value_loss;
            figures.clipped += other.sums.clipped;
            figures.divergence += other.sums.divergence;
        }
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
            let (actions, numbers) = (self.heads.parts().len(), self.heads.numbers());
            self.chunks.push(Chunk {
                input: Batch::new(self.inputs.len(), CHUNK),
                actions: vec![0.0; actions * CHUNK],
                log_old: vec![0.0; CHUNK],
                log_new: vec![0.0; CHUNK],
                advantages: vec![0.0; CHUNK],
                outputs: vec![0.0; self.heads.outputs() * CHUNK],
                d_outputs: Batch::new(self.heads.outputs(), CHUNK),
                d_values: Batch::new(self.values(), CHUNK),
                actor_work: Workspace::new(&self.actor, CHUNK),
                critic_work: Workspace::new(&self.critic, CHUNK),
                actor_gradient: vec![0.0; self.actor.parameters().len()],
                critic_gradient: vec![0.0; self.critic.parameters().len()],
                deviation_gradient: vec![0.0; numbers],
                sums: Figures::default(),
            });
        }
    }
}

impl Chunk {
    /// Collects the decisions of a part of a minibatch.
    fn gather(&mut self, rollout: &Rollout, part: &[u32], mean: f32, deviation: f32) {
        let (longer, block) = (rollout.longer(), rollout.len());
        self.input.set_lanes(part.len());
        self.d_outputs.set_lanes(part.len());
        self.d_values.set_lanes(part.len());
        for row in 0..self.input.rows() {
            let from = &rollout.inputs[row * longer..(row + 1) * longer];
            self.input.row_mut(row).iter_mut().zip(part).for_each(|(x, i)| *x = from[*i as usize]);
        }
        for (out, from) in self.actions.chunks_exact_mut(CHUNK).zip(rollout.actions.chunks_exact(block)) {
            out.iter_mut().zip(part).for_each(|(x, i)| *x = from[*i as usize]);
        }
        for (b, i) in part.iter().enumerate() {
            self.log_old[b] = rollout.log_probabilities[*i as usize];
            self.advantages[b] = (rollout.advantages[*i as usize] - mean) / deviation;
        }
    }

    /// The gradient of −mean min(ρ A, clip(ρ) A), where ρ is the ratio of new and old probability.
    fn actor(
        &mut self,
        actor: &Mlp,
        heads: &ActionHeads,
        log_deviations: &[f32],
        settings: &PpoSettings,
        size: f32,
    ) {
        let (lanes, clip) = (self.input.lanes(), settings.clip as f32);
        let output = actor.forward(&self.input, &mut self.actor_work);
        for (out, row) in self.outputs.chunks_exact_mut(CHUNK).zip(output.iter_rows()) {
            out[..lanes].copy_from_slice(row);
        }
        let log_new = &mut self.log_new[..lanes];
        heads.log_probabilities(&self.outputs, &self.actions, CHUNK, log_deviations, log_new);
        let (mut loss, mut clipped, mut divergence) = (0.0f32, 0.0f32, 0.0f32);
        for b in 0..lanes {
            let (log, a) = (log_new[b] - self.log_old[b], self.advantages[b]);
            let ratio = log.exp();
            let bounded = ratio.clamp(1.0 - clip, 1.0 + clip);
            let active = ratio * a <= bounded * a;
            loss -= (ratio * a).min(bounded * a);
            clipped += if ratio == bounded { 0.0 } else { 1.0 };
            divergence += ratio - 1.0 - log;
            log_new[b] = if active { -a * ratio / size } else { 0.0 };
        }
        self.sums.policy_loss = f64::from(loss);
        self.sums.clipped = f64::from(clipped);
        self.sums.divergence = f64::from(divergence);
        self.deviation_gradient.fill(0.0);
        let d_deviations = &mut self.deviation_gradient;
        heads.backward(&mut self.outputs, &self.actions, CHUNK, log_deviations, log_new, d_deviations);
        for (row, from) in self.outputs.chunks_exact(CHUNK).enumerate() {
            self.d_outputs.row_mut(row).copy_from_slice(&from[..lanes]);
        }
        self.actor_gradient.fill(0.0);
        actor.backward(&mut self.actor_work, &self.d_outputs, &mut self.actor_gradient);
    }

    /// The gradient of half of ½ mean Σ (v_i − return_i)².
    fn critic(&mut self, critic: &Mlp, rollout: &Rollout, part: &[u32], size: f32) {
        let block = rollout.len();
        let values = critic.forward(&self.input, &mut self.critic_work);
        let mut loss = 0.0f32;
        for (row, returns) in rollout.returns.chunks_exact(block).enumerate() {
            let (value, out) = (values.row(row), self.d_values.row_mut(row));
            for (b, i) in part.iter().enumerate() {
                let error = value[b] - returns[*i as usize];
                loss += 0.5 * error * error;
                out[b] = error / size;
            }
        }
        self.sums.value_loss = f64::from(loss);
        self.critic_gradient.fill(0.0);
        critic.backward(&mut self.critic_work, &self.d_values, &mut self.critic_gradient);
    }
}

/// Works on every chunk. Handing one over to another thread costs more than a chunk does, where there is but one of either.
fn on_all_cores(chunks: &mut [Chunk], work: impl Fn(usize, &mut Chunk) + Sync) {
    if chunks.len() == 1 || rayon::current_num_threads() == 1 {
        chunks.iter_mut().enumerate().for_each(|(c, chunk)| work(c, chunk));
    } else {
        chunks.par_iter_mut().enumerate().for_each(|(c, chunk)| work(c, chunk));
    }
}

fn add(sum: &mut [f32], other: &[f32]) {
    sum.iter_mut().zip(other).for_each(|(a, b)| *a += b);
}
