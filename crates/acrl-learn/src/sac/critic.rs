//! Twin critics with vector-valued outputs, and their targets (clipped double Q-learning, Fujimoto et al. 2018).

use acrl::Rng;
use acrl_nn::{Activation, Adam, Batch, Mlp, Workspace, polyak_update};
use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::ppo::scale_outputs;
use crate::tuning::sac::ADAM_EPSILON;

/// Two critics, their target networks and optimisers. Hidden layers have layer normalisation, which keeps values of
/// actions that are not in the replay buffer bounded (Ball et al. 2023).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TwinCritic {
    online: [Mlp; 2],
    target: [Mlp; 2],
    adam: [Adam; 2],
    #[serde(skip)]
    scratch: Option<Scratch>,
}

#[derive(Debug, Clone)]
struct Scratch {
    online: [Workspace; 2],
    target: [Workspace; 2],
    gradient: Vec<f32>,
}

impl Scratch {
    fn of<'a>(scratch: &'a mut Option<Self>, net: &Mlp, input: &Batch) -> &'a mut Self {
        let capacity = input.capacity();
        scratch.get_or_insert_with(|| Self {
            online: [(); 2].map(|()| Workspace::new(net, capacity)),
            target: [(); 2].map(|()| Workspace::for_inference(net, capacity)),
            gradient: vec![0.0; net.parameters().len()],
        })
    }
}

impl TwinCritic {
    /// Critics with these numbers of inputs and outputs.
    pub(super) fn new(
        (inputs, outputs): (usize, usize),
        hidden: &[usize],
        rng: &mut Rng,
    ) -> Result<Self, LearnError> {
        let mut shape = vec![inputs];
        shape.extend(hidden);
        shape.push(outputs);
        let mut net = || -> Result<Mlp, LearnError> {
            Ok(super::network(&shape, 1.0, rng)?.with_activation(Activation::Relu).with_layer_norm())
        };
        let online = [net()?, net()?];
        let adam = Adam::with(online[0].parameters().len(), [0.9, 0.999], ADAM_EPSILON);
        Ok(Self { target: online.clone(), online, adam: [adam.clone(), adam], scratch: None })
    }

    /// The critics.
    pub(super) fn online(&self) -> &[Mlp; 2] {
        &self.online
    }

    /// Their target networks.
    pub(super) fn target(&self) -> &[Mlp; 2] {
        &self.target
    }

    /// Values of both critics, kept for [`TwinCritic::descend`] and [`TwinCritic::input_gradients`].
    pub(super) fn forward(&mut self, input: &Batch) -> [&Batch; 2] {
        let Self { online: [a, b], scratch, .. } = self;
        let [work_a, work_b] = &mut Scratch::of(scratch, a, input).online;
        [a.forward(input, work_a), b.forward(input, work_b)]
    }

    /// Values of both critics.
    pub(super) fn infer(&mut self, input: &Batch) -> [&Batch; 2] {
        let Self { online: [a, b], scratch, .. } = self;
        let [work_a, work_b] = &mut Scratch::of(scratch, a, input).online;
        [a.infer(input, work_a), b.infer(input, work_b)]
    }

    /// Values of both target networks.
    pub(super) fn targets(&mut self, input: &Batch) -> [&Batch; 2] {
        let Self { target: [a, b], scratch, .. } = self;
        let [work_a, work_b] = &mut Scratch::of(scratch, a, input).target;
        [a.infer(input, work_a), b.infer(input, work_b)]
    }

    /// Values of the first target network.
    pub(super) fn first_target(&mut self, input: &Batch) -> &Batch {
        let Self { target: [net, _], scratch, .. } = self;
        net.infer(input, &mut Scratch::of(scratch, net, input).target[0])
    }

    /// A gradient step of each critic, given ∂L/∂output. After [`TwinCritic::forward`].
    pub(super) fn descend(&mut self, d_output: &[Batch; 2], learning_rate: f32) {
        let Some(Scratch { online: work, gradient, .. }) = &mut self.scratch else { return };
        for k in 0..2 {
            gradient.fill(0.0);
            self.online[k].backward(&mut work[k], &d_output[k], gradient);
            self.adam[k].step(self.online[k].parameters_mut(), gradient, learning_rate);
        }
    }

    /// ∂L/∂input of each critic, given ∂L/∂output. After [`TwinCritic::forward`].
    pub(super) fn input_gradients(&mut self, d_output: &[Batch; 2], d_input: &mut [Batch; 2]) {
        let Some(Scratch { online: work, .. }) = &mut self.scratch else { return };
        for k in 0..2 {
            self.online[k].input_gradient(&mut work[k], &d_output[k], &mut d_input[k]);
        }
    }

    /// Moves the target networks.
    pub(super) fn average(&mut self, tau: f32) {
        for (target, online) in self.target.iter_mut().zip(&self.online) {
            polyak_update(target.parameters_mut(), online.parameters(), tau);
        }
    }

    /// Multiplies outputs by factors, one after the other and again from the first.
    pub(super) fn rescale(&mut self, factors: &[f64]) {
        let outputs = self.online[0].shape().last().copied().unwrap_or(0);
        let all: Vec<f64> = factors.iter().copied().cycle().take(outputs).collect();
        self.online.iter_mut().chain(&mut self.target).for_each(|net| scale_outputs(net, &all));
    }
}
