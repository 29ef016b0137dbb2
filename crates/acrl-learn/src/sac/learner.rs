//! The learning state: networks, replay buffer, and a gradient step.
//!
//! It is apart from what acts ([`SacPolicy`]), so that gradient steps and the simulator need nothing of each other.

use acrl::{Interval, Rng};
use acrl_nn::Batch;
use serde::{Deserialize, Serialize};

use super::SacConfig;
use super::actions::Actions;
use super::actor::{Actor, Drawn};
use super::average_reward::AverageReward;
use super::critic::TwinCritic;
use super::inputs::WeightedInputs;
use super::minibatch::Minibatch;
use super::policy::{PolicyNetworks, SacPolicy, greedy};
use super::replay::{Layout, ReplayBuffer};
use super::targets::{Return, Successors, pessimist, targets};
use crate::{Criterion, LearnError};

/// Networks with their optimisers, and what they learn from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Learner {
    inputs: WeightedInputs,
    actions: Actions,
    /// The actor of continuous actions.
    actor: Option<Actor>,
    critics: TwinCritic,
    average_reward: Option<AverageReward>,
    pub(super) replay: ReplayBuffer,
    rng: Rng,
    /// Gradient steps so far.
    n_updates: u64,
    #[serde(skip)]
    scratch: Option<Box<Scratch>>,
}

/// Losses of gradient steps, summed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Losses {
    pub(super) critic: f64,
    pub(super) critic_steps: u64,
    pub(super) actor: f64,
    pub(super) entropy: f64,
    pub(super) actor_steps: u64,
}

impl Losses {
    pub(super) fn add(&mut self, other: Self) {
        self.critic += other.critic;
        self.critic_steps += other.critic_steps;
        self.actor += other.actor;
        self.entropy += other.entropy;
        self.actor_steps += other.actor_steps;
    }
}

/// A loss that is not finite.
pub(super) type Diverged = (&'static str, f64);

#[derive(Debug, Clone)]
struct Scratch {
    batch: Minibatch,
    drawn: Drawn,
    /// Inputs of the critic: (s, w, a) and (s′, w, a′).
    input: Batch,
    next_input: Batch,
    /// Weights alone.
    weights_input: Batch,
    /// Values of both twins at the actions that count, of discrete actions.
    values: [Batch; 2],
    y: Batch,
    d_output: [Batch; 2],
    d_input: [Batch; 2],
    second: Vec<bool>,
    chosen: Vec<usize>,
}

impl Learner {
    pub(super) fn new(
        inputs: WeightedInputs,
        actions: Actions,
        settings: &SacConfig,
        mut rng: Rng,
    ) -> Result<Self, LearnError> {
        let (hidden, rewards) = (&settings.hidden_sizes, inputs.weights());
        let (actor, shape, heads) = match actions.joint() {
            Some(n) => (None, (inputs.len(), n * rewards), rewards),
            None => {
                let (ent_coef, target) = (settings.ent_coef, settings.target_entropy);
                let parts = (inputs.len(), actions.len());
                let actor = Actor::new(parts, hidden, ent_coef, target, &mut rng)?;
                (Some(actor), (inputs.len() + actions.len(), rewards + 1), rewards + 1)
            }
        };
        let critics = TwinCritic::new(shape, hidden, &mut rng)?;
        let average_reward = match settings.criterion {
            Criterion::Discounted => None,
            Criterion::AverageReward => Some(AverageReward::new(2 * rewards, heads, &mut rng)?),
        };
        let layout = Layout { observation: inputs.observation(), action: actions.len(), rewards };
        let replay = ReplayBuffer::new(layout, settings.buffer_size);
        Ok(Self { inputs, actions, actor, critics, average_reward, replay, rng, n_updates: 0, scratch: None })
    }

    /// Gradient steps so far.
    pub(super) fn n_updates(&self) -> u64 {
        self.n_updates
    }

    /// α.
    pub(super) fn ent_coef(&self) -> Option<f32> {
        self.actor.as_ref().map(Actor::ent_coef)
    }

    /// Sets the intervals from which observations are scaled.
    pub(super) fn set_observation(&mut self, intervals: Vec<Interval>) {
        self.inputs.set_observation(intervals);
    }

    /// Sets the units R₀ … R_m, and converts values to them.
    pub(super) fn set_units(&mut self, units: Vec<f64>) {
        let first = units.len() - self.inputs.weights();
        let pairs = self.inputs.0.scales().iter().zip(&units).skip(first);
        let mut factors: Vec<f64> = pairs.map(|(old, new)| old / new).collect();
        if self.actor.is_some() {
            factors.push(1.0);
        }
        self.critics.rescale(&factors);
        self.average_reward.iter_mut().for_each(|averages| averages.rescale(&factors));
        self.inputs.0.set_scales(units);
    }

    /// The policy as it is now, of Polyak averages of the parameters.
    pub(super) fn policy(&self) -> SacPolicy {
        let networks = match &self.actor {
            Some(actor) => PolicyNetworks::Actor(actor.average().clone()),
            None => PolicyNetworks::Critics(self.critics.target().clone()),
        };
        SacPolicy::new(self.inputs.clone(), self.actions.clone(), networks)
    }

    /// Copies what acts to a policy of this learner.
    pub(super) fn copy_to(&self, policy: &mut SacPolicy) {
        let copy = |to: &mut acrl_nn::Mlp, from: &acrl_nn::Mlp| {
            to.parameters_mut().copy_from_slice(from.parameters());
        };
        policy.inputs.clone_from(&self.inputs);
        match (&mut policy.networks, &self.actor) {
            (PolicyNetworks::Actor(to), Some(actor)) => copy(to, actor.net()),
            (PolicyNetworks::Critics(to), _) => {
                to.iter_mut().zip(self.critics.online()).for_each(|(to, from)| copy(to, from));
            }
            _ => {}
        }
    }

    /// A gradient step of the critics and, every `policy_delay` steps, of the actor. On an error nothing has changed but the
    /// random numbers.
    pub(super) fn gradient_step(
        &mut self,
        settings: &SacConfig,
        learning_rate: f32,
    ) -> Result<Losses, Diverged> {
        let Self { inputs, actions, actor, critics, average_reward, replay, rng, n_updates, scratch } = self;
        let scratch = scratch.get_or_insert_with(|| {
            Box::new(Scratch::new(inputs, actions, settings.batch_size, average_reward.is_some()))
        });
        let Scratch {
            batch,
            drawn,
            input,
            next_input,
            weights_input,
            values,
            y,
            d_output,
            second,
            chosen,
            ..
        } = &mut **scratch;
        let size = settings.batch_size;
        let relabelled = (settings.relabel_fraction * size as f64).round() as usize;
        batch.sample(replay, inputs, relabelled, rng);
        let rewards = inputs.weights();
        // Actions that follow, and their values.
        if let Some(actor) = actor {
            drawn.draw_noise(actions.len(), size, |_| rng.bits());
            drawn.squash(actor.infer(&batch.next));
            copy_rows(&batch.state, input, 0);
            copy_rows(&batch.action, input, inputs.len());
            copy_rows(&batch.next, next_input, 0);
            (0..actions.len())
                .for_each(|i| next_input.row_mut(inputs.len() + i).copy_from_slice(drawn.row(i)));
        } else {
            greedy(critics.infer(&batch.next), &batch.weights, chosen);
            let next = critics.targets(&batch.next);
            next.iter().zip(&mut *values).for_each(|(from, to)| take(from, chosen, to));
        }
        if let Some(averages) = average_reward {
            for row in 0..weights_input.rows() {
                weights_input.row_mut(row).copy_from_slice(batch.state.row(inputs.observation() + row));
            }
            averages.infer(weights_input);
        }
        let ent_coef = actor.as_ref().map(Actor::ent_coef);
        let successors = Successors {
            values: if actor.is_some() { critics.targets(next_input) } else { values.each_ref() },
            entropy: ent_coef.map(|ent_coef| (&drawn.log_probabilities[..], ent_coef)),
            goes_on: &batch.goes_on,
            criterion: match average_reward.as_ref().and_then(AverageReward::output) {
                Some(rho) => Return::Average(rho),
                None => Return::Discounted(settings.gamma as f32),
            },
        };
        targets(&batch.rewards, &batch.weights, &successors, second, y);
        // Regression of the critics.
        let found = if actor.is_some() {
            critics.forward(input)
        } else {
            chosen.clear();
            chosen.extend(batch.action.row(0).iter().map(|a| *a as usize));
            d_output.iter_mut().for_each(|d| (0..d.rows()).for_each(|row| d.row_mut(row).fill(0.0)));
            critics.forward(&batch.state)
        };
        let mut loss = 0.0f64;
        let scale = 2.0 / size as f32;
        for (q, d) in found.into_iter().zip(&mut *d_output) {
            for row in 0..y.rows() {
                let mut sum = 0.0f32;
                for b in 0..size {
                    let at = if ent_coef.is_some() { row } else { chosen[b] * rewards + row };
                    let error = q.row(at)[b] - y.row(row)[b];
                    sum += error * error;
                    d.row_mut(at)[b] = scale * error;
                }
                loss += f64::from(sum);
            }
        }
        loss /= 2.0 * size as f64;
        if !loss.is_finite() {
            return Err(("the critic's loss", loss));
        }
        if let Some(averages) = average_reward {
            let values = if actor.is_some() {
                critics.first_target(input)
            } else {
                take(critics.first_target(&batch.state), chosen, &mut values[0]);
                &values[0]
            };
            averages.fit(weights_input, values, learning_rate, settings.tau as f32);
        }
        critics.descend(d_output, learning_rate);
        let mut losses = Losses { critic: loss, critic_steps: 1, ..Losses::default() };
        if actor.is_some() && n_updates.is_multiple_of(settings.policy_delay as u64) {
            losses.add(self.actor_step(learning_rate, settings.tau as f32)?);
        }
        self.critics.average(settings.tau as f32);
        self.n_updates += 1;
        Ok(losses)
    }

    /// A gradient step of the actor on the batch, by the pessimistic twin's values of its own actions.
    fn actor_step(&mut self, learning_rate: f32, tau: f32) -> Result<Losses, Diverged> {
        let Self { inputs, actions, actor, critics, rng, scratch, .. } = self;
        let (Some(actor), Some(scratch)) = (actor, scratch) else { return Ok(Losses::default()) };
        let Scratch { batch, drawn, input, d_output, d_input, second, .. } = &mut **scratch;
        let (size, rewards) = (batch.goes_on.len(), inputs.weights());
        drawn.draw_noise(actions.len(), size, |_| rng.bits());
        drawn.squash(actor.forward(&batch.state));
        (0..actions.len()).for_each(|i| input.row_mut(inputs.len() + i).copy_from_slice(drawn.row(i)));
        let values = critics.forward(input);
        pessimist(values, &batch.weights, second);
        let share = 1.0 / size as f32;
        let ent_coef = actor.ent_coef();
        let mut loss = 0.0f32;
        for b in 0..size {
            let twin = usize::from(second[b]);
            for row in 0..=rewards {
                let weight = if row < rewards { batch.weights.row(row)[b] } else { 1.0 };
                loss -= weight * values[twin].row(row)[b];
                d_output[twin].row_mut(row)[b] = -share * weight;
                d_output[1 - twin].row_mut(row)[b] = 0.0;
            }
        }
        let log = drawn.log_probabilities.iter().sum::<f32>();
        let loss = f64::from((loss + ent_coef * log) * share);
        if !loss.is_finite() {
            return Err(("the actor's loss", loss));
        }
        critics.input_gradients(d_output, d_input);
        let [first, other] = d_input;
        for row in inputs.len()..first.rows() {
            first.row_mut(row).iter_mut().zip(other.row(row)).for_each(|(d, other)| *d += other);
        }
        actor.descend(drawn, first, inputs.len(), (learning_rate, tau));
        Ok(Losses { actor: loss, entropy: f64::from(-log * share), actor_steps: 1, ..Losses::default() })
    }
}

impl Scratch {
    fn new(inputs: &WeightedInputs, actions: &Actions, size: usize, average: bool) -> Self {
        let rewards = inputs.weights();
        let (heads, outputs, width) = match actions.joint() {
            Some(n) => (rewards, n * rewards, inputs.len()),
            None => (rewards + 1, rewards + 1, inputs.len() + actions.len()),
        };
        let of_critic = if actions.joint().is_some() { 0 } else { width };
        Self {
            batch: Minibatch::new(inputs, actions.len(), size),
            drawn: Drawn::default(),
            input: Batch::new(of_critic, size),
            next_input: Batch::new(of_critic, size),
            weights_input: Batch::new(if average { 2 * rewards } else { 0 }, size),
            values: [(); 2].map(|()| Batch::new(rewards, size)),
            y: Batch::new(heads, size),
            d_output: [(); 2].map(|()| Batch::new(outputs, size)),
            d_input: [(); 2].map(|()| Batch::new(of_critic, size)),
            second: Vec::new(),
            chosen: Vec::new(),
        }
    }
}

/// Copies all rows, from this row on.
fn copy_rows(from: &Batch, to: &mut Batch, first: usize) {
    from.iter_rows().enumerate().for_each(|(row, values)| to.row_mut(first + row).copy_from_slice(values));
}

/// The values of the chosen joint action of each sample.
fn take(values: &Batch, chosen: &[usize], out: &mut Batch) {
    let rewards = out.rows();
    for row in 0..rewards {
        let picked = chosen.iter().enumerate().map(|(b, action)| values.row(action * rewards + row)[b]);
        out.row_mut(row).iter_mut().zip(picked).for_each(|(out, value)| *out = value);
    }
}
