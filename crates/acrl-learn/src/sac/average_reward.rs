//! Average rewards ρ(w) of relative value iteration (RVI Q-learning, Abounadi et al. 2001; RVI-SAC, Hisaki & Ono 2024).
//!
//! y = r − ρ(w) + Q(s′, a′, w) is solved by Q up to a constant, which f(Q) = ρ fixes. Here f(Q)(w) is the mean over the
//! replay buffer of the target critic's values, as a small network of w, with an output for each head of the critic.

use acrl::Rng;
use acrl_nn::{Activation, Adam, Batch, Mlp, Workspace, polyak_update};
use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::ppo::scale_outputs;
use crate::tuning::sac::{ADAM_EPSILON, AVERAGE_REWARD_HIDDEN};

/// ρ(w), and the network whose Polyak average it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AverageReward {
    online: Mlp,
    target: Mlp,
    adam: Adam,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

#[derive(Debug, Clone)]
struct Scratch {
    /// Of ρ and of the network that is fitted.
    work: [Workspace; 2],
    error: Batch,
    gradient: Vec<f32>,
}

impl AverageReward {
    /// Average rewards by head, as functions of the inputs; numbers of both are given.
    pub(super) fn new(inputs: usize, heads: usize, rng: &mut Rng) -> Result<Self, LearnError> {
        let shape = [inputs, AVERAGE_REWARD_HIDDEN, heads];
        // ρ is 0 before anything is known of it.
        let online = super::network(&shape, 0.0, rng)?.with_activation(Activation::Relu);
        let adam = Adam::with(online.parameters().len(), [0.9, 0.999], ADAM_EPSILON);
        Ok(Self { target: online.clone(), online, adam, scratch: None })
    }

    /// Computes ρ(w) for each sample.
    pub(super) fn infer(&mut self, input: &Batch) {
        let Self { target, scratch, .. } = self;
        let scratch = scratch.get_or_insert_with(|| {
            let heads = target.shape()[2];
            Scratch {
                work: [(); 2].map(|()| Workspace::new(target, input.capacity())),
                error: Batch::new(heads, input.capacity()),
                gradient: vec![0.0; target.parameters().len()],
            }
        });
        target.infer(input, &mut scratch.work[0]);
    }

    /// ρ(w) of the last [`AverageReward::infer`].
    pub(super) fn output(&self) -> Option<&Batch> {
        self.scratch.as_ref().map(|scratch| scratch.work[0].output())
    }

    /// A gradient step towards these values, and one of the Polyak average. After [`AverageReward::infer`].
    pub(super) fn fit(&mut self, input: &Batch, values: &Batch, learning_rate: f32, tau: f32) {
        let Some(Scratch { work: [_, work], error, gradient }) = &mut self.scratch else { return };
        let output = self.online.forward(input, work);
        error.set_batch_size(input.batch_size());
        let scale = 2.0 / input.batch_size() as f32;
        for row in 0..error.rows() {
            let pairs = output.row(row).iter().zip(values.row(row));
            error.row_mut(row).iter_mut().zip(pairs).for_each(|(e, (y, v))| *e = scale * (y - v));
        }
        gradient.fill(0.0);
        self.online.backward(work, error, gradient);
        self.adam.step(self.online.parameters_mut(), gradient, learning_rate);
        polyak_update(self.target.parameters_mut(), self.online.parameters(), tau);
    }

    /// Multiplies the heads by factors.
    pub(super) fn rescale(&mut self, factors: &[f64]) {
        [&mut self.online, &mut self.target].into_iter().for_each(|net| scale_outputs(net, factors));
    }
}
