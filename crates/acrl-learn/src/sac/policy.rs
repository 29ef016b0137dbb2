//! π(s, w) of the off-policy learner, for acting in training, for execution and for storage.

use acrl::{ActionPart, BatchMatrix, Error, Rng, VecPolicy};
use acrl_nn::{Batch, Mlp, Workspace};
use serde::{Deserialize, Serialize};

use super::actions::Actions;
use super::actor::Drawn;
use super::inputs::WeightedInputs;
use crate::ppo::Inputs;

/// A policy that takes tanh of the actor's mean or, for discrete actions, the action with the best weighted sum of the twin
/// critics.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SacPolicy {
    pub(super) inputs: WeightedInputs,
    pub(super) actions: Actions,
    pub(super) networks: PolicyNetworks,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

/// The networks that decide.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PolicyNetworks {
    /// Of continuous actions.
    Actor(Mlp),
    /// Of discrete actions.
    Critics([Mlp; 2]),
}

#[derive(Debug, Clone)]
struct Scratch {
    input: Batch,
    work: [Workspace; 2],
    totals: Vec<f64>,
    drawn: Drawn,
    weights: Batch,
    chosen: Vec<usize>,
    action: Vec<f32>,
}

impl SacPolicy {
    pub(super) fn new(inputs: WeightedInputs, actions: Actions, networks: PolicyNetworks) -> Self {
        Self { inputs, actions, networks, scratch: None }
    }

    /// A policy of stored parts; an error says which of them contradict each other.
    pub(crate) fn from_parts(
        inputs: Inputs,
        parts: &[ActionPart],
        networks: PolicyNetworks,
    ) -> Result<Self, String> {
        inputs.check().map_err(|e| e.to_string())?;
        if inputs.ignores_weights() {
            return Err("its inputs leave out the weights".to_owned());
        }
        let actions = Actions::new(parts).map_err(|e| e.to_string())?;
        let policy = Self::new(WeightedInputs(inputs), actions, networks);
        let outputs = match policy.actions.joint() {
            Some(n) => n * policy.inputs.weights(),
            None => 2 * policy.actions.len(),
        };
        let nets = match &policy.networks {
            PolicyNetworks::Actor(net) => std::slice::from_ref(net),
            PolicyNetworks::Critics(nets) => &nets[..],
        };
        if (nets.len() == 1) != policy.actions.joint().is_none() {
            return Err(format!("{} networks do not fit its actions {parts:?}", nets.len()));
        }
        for shape in nets.iter().map(Mlp::shape) {
            let expected = (policy.inputs.len(), outputs);
            if (shape[0], shape[shape.len() - 1]) != expected {
                return Err(format!(
                    "the network's widths are {shape:?}, expected {} inputs and {} outputs",
                    expected.0, expected.1
                ));
            }
        }
        Ok(policy)
    }

    /// Scaling of its inputs.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs.0
    }

    /// The parts of its actions.
    pub fn parts(&self) -> &[ActionPart] {
        self.actions.parts()
    }

    /// The networks, by name.
    pub(crate) fn networks(&self) -> &PolicyNetworks {
        &self.networks
    }

    /// Draws an action of the networks for every environment, given weights in units that add up to 1: from the actor's
    /// distribution, or at random with probability `epsilon` where actions are discrete.
    pub(super) fn explore(
        &mut self,
        observation: &BatchMatrix,
        shares: &BatchMatrix,
        epsilon: f64,
        rngs: &mut [Rng],
        actions: &mut Vec<f32>,
    ) {
        let num_envs = observation.num_envs();
        let Self { inputs, actions: space, networks, scratch } = self;
        let scratch = Scratch::of(scratch, inputs, networks, num_envs);
        inputs.write_observation(observation, &mut scratch.input);
        inputs.write_shares(shares, &mut scratch.input);
        scratch.decide(inputs, networks, |drawn, parts| {
            drawn.draw_noise(parts, num_envs, |env| rngs[env].bits());
        });
        actions.clear();
        if space.joint().is_none() {
            (0..num_envs).for_each(|env| scratch.push_drawn(env, actions));
            return;
        }
        for (env, rng) in rngs.iter_mut().enumerate() {
            let random = rng.uniform() < epsilon;
            let action = if random { rng.index(space.joint().unwrap_or(1)) } else { scratch.chosen[env] };
            actions.push(action as f32);
        }
    }
}

impl Scratch {
    fn of<'a>(
        scratch: &'a mut Option<Self>,
        inputs: &WeightedInputs,
        networks: &PolicyNetworks,
        num_envs: usize,
    ) -> &'a mut Self {
        if scratch.as_ref().is_some_and(|scratch| scratch.input.capacity() < num_envs) {
            *scratch = None;
        }
        let scratch = scratch.get_or_insert_with(|| {
            let input = Batch::new(inputs.len(), num_envs);
            let nets = match networks {
                PolicyNetworks::Actor(net) => [net, net],
                PolicyNetworks::Critics([a, b]) => [a, b],
            };
            Self {
                work: nets.map(|net| Workspace::for_inference(net, input.capacity())),
                weights: Batch::new(inputs.weights(), input.capacity()),
                input,
                totals: Vec::new(),
                drawn: Drawn::default(),
                chosen: Vec::new(),
                action: Vec::new(),
            }
        });
        scratch.input.set_batch_size(num_envs);
        scratch
    }

    /// Writes the actions of the distribution with this noise, or the best discrete ones.
    fn decide(
        &mut self,
        inputs: &WeightedInputs,
        networks: &PolicyNetworks,
        noise: impl FnOnce(&mut Drawn, usize),
    ) {
        let Self { input, work: [a, b], drawn, weights, chosen, .. } = self;
        match networks {
            PolicyNetworks::Actor(net) => {
                let output = net.infer(input, a);
                noise(drawn, output.rows() / 2);
                drawn.squash(output);
            }
            PolicyNetworks::Critics([first, second]) => {
                weights.set_batch_size(input.batch_size());
                for i in 0..inputs.weights() {
                    for env in 0..input.batch_size() {
                        weights.row_mut(i)[env] = inputs.weight(input, i, env);
                    }
                }
                greedy([first.infer(input, a), second.infer(input, b)], weights, chosen);
            }
        }
    }

    /// Appends the drawn action of an environment.
    fn push_drawn(&self, env: usize, actions: &mut Vec<f32>) {
        actions.extend(self.drawn.actions.iter().skip(env).step_by(self.input.batch_size()));
    }
}

impl VecPolicy for SacPolicy {
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        _rngs: &mut [Rng],
    ) -> Result<(), Error> {
        let num_envs = observation.num_envs();
        if num_envs == 0 {
            return Ok(());
        }
        let Self { inputs, actions: space, networks, scratch } = self;
        let scratch = Scratch::of(scratch, inputs, networks, num_envs);
        inputs.write_observation(observation, &mut scratch.input);
        inputs.write_weights(weights, &mut scratch.input, &mut scratch.totals);
        scratch.decide(inputs, networks, |drawn, parts| drawn.no_noise(parts, num_envs));
        let mut action = std::mem::take(&mut scratch.action);
        for env in 0..num_envs {
            action.clear();
            if space.joint().is_some() {
                action.push(scratch.chosen[env] as f32);
            } else {
                scratch.push_drawn(env, &mut action);
            }
            space.write(&action, env, actions);
        }
        scratch.action = action;
        Ok(())
    }
}

/// The joint action of each sample with the largest weighted sum of both critics' values.
pub(super) fn greedy(values: [&Batch; 2], weights: &Batch, chosen: &mut Vec<usize>) {
    let (n, rewards) = (weights.batch_size(), weights.rows());
    let mut best = vec![f32::NEG_INFINITY; n];
    chosen.clear();
    chosen.resize(n, 0);
    for action in 0..values[0].rows() / rewards {
        let mut sums = vec![0.0f32; n];
        for i in 0..rewards {
            let row = action * rewards + i;
            let pairs = values[0].row(row).iter().zip(values[1].row(row)).zip(weights.row(i));
            sums.iter_mut().zip(pairs).for_each(|(sum, ((a, b), w))| *sum += w * (a + b));
        }
        for b in 0..n {
            if sums[b] > best[b] {
                (best[b], chosen[b]) = (sums[b], action);
            }
        }
    }
}
