//! Gradients of a part of a minibatch, small enough that its data stay in the cache of one core.

use std::ops::Range;

use acrl_nn::{Batch, Mlp, Workspace};

use super::actor_critic::sum;
use super::distribution::ActionStd;
use super::{ActionHeads, RolloutBuffer};
use crate::metrics::UpdateMetrics;

/// Actions that one core works on at a time. A gradient is the sum over such chunks in their order, so that it does not
/// depend on the number of threads.
pub(crate) const CHUNK: usize = 256;

/// Scratch buffers for a chunk of a minibatch, and the accumulated gradients of chunks.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    input: Batch,
    actions: Vec<f32>,
    log_old: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    /// The actor's outputs, and then their derivatives.
    outputs: Vec<f32>,
    std: ActionStd,
    /// ln π(a), and then the derivatives by it.
    log_new: Vec<f32>,
    ratios: Vec<f32>,
    d_outputs: Batch,
    d_values: Batch,
    actor_work: Workspace,
    critic_work: Workspace,
    pub(crate) actor_gradient: Vec<f32>,
    pub(crate) critic_gradient: Vec<f32>,
    pub(crate) std_gradient: Vec<f32>,
    pub(crate) sums: UpdateMetrics,
}

impl Chunk {
    pub(crate) fn new(actor: &Mlp, critic: &Mlp, heads: &ActionHeads, stds: usize) -> Self {
        let values = critic.shape().last().copied().unwrap_or(0);
        let rows = |n: usize| vec![0.0; n * CHUNK];
        Self {
            input: Batch::new(actor.shape()[0], CHUNK),
            actions: rows(heads.parts().len()),
            log_old: rows(1),
            advantages: rows(1),
            returns: rows(values),
            outputs: rows(heads.outputs()),
            std: ActionStd::default(),
            log_new: rows(1),
            ratios: rows(1),
            d_outputs: Batch::new(heads.outputs(), CHUNK),
            d_values: Batch::new(values, CHUNK),
            actor_work: Workspace::new(actor, CHUNK),
            critic_work: Workspace::new(critic, CHUNK),
            actor_gradient: vec![0.0; actor.parameters().len()],
            critic_gradient: vec![0.0; critic.parameters().len()],
            std_gradient: vec![0.0; stds],
            sums: UpdateMetrics::default(),
        }
    }

    /// Resets the accumulated gradients and metrics.
    pub(crate) fn clear(&mut self) {
        self.actor_gradient.fill(0.0);
        self.critic_gradient.fill(0.0);
        self.std_gradient.fill(0.0);
        self.sums = UpdateMetrics::default();
    }

    /// Adds the gradients and metrics of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        let add = |sum: &mut [f32], more: &[f32]| sum.iter_mut().zip(more).for_each(|(a, b)| *a += b);
        add(&mut self.actor_gradient, &other.actor_gradient);
        add(&mut self.critic_gradient, &other.critic_gradient);
        add(&mut self.std_gradient, &other.std_gradient);
        self.sums.add(other.sums);
    }

    /// Evaluates the critic in some states of a rollout, whose rows are `stride` apart.
    pub(crate) fn evaluate(&mut self, critic: &Mlp, inputs: &[f32], stride: usize, states: Range<usize>) {
        self.input.set_batch_size(states.len());
        for row in 0..self.input.rows() {
            let from = &inputs[row * stride..][states.clone()];
            self.input.row_mut(row).copy_from_slice(from);
        }
        critic.infer(&self.input, &mut self.critic_work);
    }

    /// The values of the last evaluation.
    pub(crate) fn values(&self) -> &Batch {
        self.critic_work.output()
    }

    /// Gathers the data of a part of a minibatch.
    pub(crate) fn gather(&mut self, rollout: &RolloutBuffer, part: &[u32], advantages: &[f32]) {
        let (longer, block) = (rollout.longer(), rollout.len());
        for batch in [&mut self.input, &mut self.d_outputs, &mut self.d_values] {
            batch.set_batch_size(part.len());
        }
        let gather = |out: &mut [f32], from: &[f32]| {
            out.iter_mut().zip(part).for_each(|(x, i)| *x = from[*i as usize]);
        };
        for (row, from) in rollout.inputs.chunks_exact(longer).enumerate() {
            gather(self.input.row_mut(row), from);
        }
        for (out, from) in self.actions.chunks_exact_mut(CHUNK).zip(rollout.actions.chunks_exact(block)) {
            gather(out, from);
        }
        for (out, from) in self.returns.chunks_exact_mut(CHUNK).zip(rollout.returns.chunks_exact(block)) {
            gather(out, from);
        }
        gather(&mut self.log_old, &rollout.log_probabilities);
        self.advantages[..part.len()].copy_from_slice(advantages);
    }

    /// Adds the gradient of −mean min(ρ A, clip(ρ) A), where ρ is the ratio of new and old probability, less the entropy of
    /// discrete actions times `ent_coef`. ln σ comes as its table and the first input that is a weight.
    pub(crate) fn actor(
        &mut self,
        actor: &Mlp,
        heads: &ActionHeads,
        (log_std, first): (&[f32], usize),
        (clip_range, ent_coef): (f32, f32),
        size: f32,
    ) {
        let n = self.input.batch_size();
        let output = actor.forward(&self.input, &mut self.actor_work);
        for (out, row) in self.outputs.chunks_exact_mut(CHUNK).zip(output.iter_rows()) {
            out[..n].copy_from_slice(row);
        }
        let (log_new, ratios) = (&mut self.log_new[..n], &mut self.ratios[..n]);
        let (log_old, advantages) = (&self.log_old[..n], &mut self.advantages[..n]);
        self.std.set(log_std, heads.numbers(), &self.input, first);
        heads.log_probabilities(&self.outputs, &self.actions, CHUNK, &self.std, log_new);
        log_new.iter_mut().zip(log_old).for_each(|(new, old)| *new -= old);
        ratios.copy_from_slice(log_new);
        self.sums.approx_kl -= f64::from(sum(log_new, |log| log));
        acrl_nn::exp(ratios);
        self.sums.approx_kl += f64::from(sum(ratios, |ratio| ratio - 1.0));
        let (low, high) = (1.0 - clip_range, 1.0 + clip_range);
        let outside = |ratio: f32| if ratio < low || ratio > high { 1.0 } else { 0.0 };
        self.sums.clip_fraction += f64::from(sum(ratios, outside));
        for b in 0..n {
            let a = advantages[b];
            let (free, bounded) = (ratios[b] * a, ratios[b].clamp(low, high) * a);
            log_new[b] = if free <= bounded { -free / size } else { 0.0 };
            advantages[b] = free.min(bounded);
        }
        self.sums.policy_gradient_loss -= f64::from(sum(advantages, |objective| objective));
        let d_log = (&*log_new, ent_coef / size);
        heads.backward(&mut self.outputs, &self.actions, CHUNK, &mut self.std, d_log);
        self.std.backward(&mut self.std_gradient, heads.numbers(), &self.input, first);
        for (row, from) in self.outputs.chunks_exact(CHUNK).enumerate() {
            self.d_outputs.row_mut(row).copy_from_slice(&from[..n]);
        }
        actor.backward(&mut self.actor_work, &self.d_outputs, &mut self.actor_gradient);
    }

    /// Adds the gradient of ½ mean Σ (v_i − return_i)², in units of each head's PopArt scale (1 if absent).
    pub(crate) fn critic(&mut self, critic: &Mlp, scales: &[f32], size: f32) {
        let values = critic.forward(&self.input, &mut self.critic_work);
        for (row, returns) in self.returns.chunks_exact(CHUNK).enumerate() {
            let errors = self.d_values.row_mut(row);
            let scale = scales.get(row).copied().unwrap_or(1.0);
            for ((error, value), goal) in errors.iter_mut().zip(values.row(row)).zip(returns) {
                *error = value - goal / scale;
            }
            self.sums.value_loss += f64::from(sum(errors, |error| 0.5 * error * error));
            errors.iter_mut().for_each(|error| *error /= size);
        }
        critic.backward(&mut self.critic_work, &self.d_values, &mut self.critic_gradient);
    }
}
