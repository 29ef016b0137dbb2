//! Actor: a normal distribution squashed by tanh (Haarnoja et al. 2018).

use acrl::Rng;
use acrl_nn::{Activation, Adam, Batch, Mlp, Workspace, polyak_update};
use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::tuning::sac::{ACTOR_GAIN, ADAM_EPSILON, ENT_COEF_RATE, INITIAL_ENT_COEF, LOG_STD};

/// ln √(2π) + ln 4, the constants of ln π(a).
const LOG_CONSTANT: f32 = 0.918_938_5 + 1.386_294_4;

/// The actor π(·|s, w), the entropy coefficient α, and their optimisers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Actor {
    net: Mlp,
    /// Polyak average of the network's parameters, which is what remains of a training: single gradient steps have little
    /// influence on it (Polyak & Juditsky 1992).
    average: Mlp,
    adam: Adam,
    /// ln α.
    log_ent_coef: f32,
    /// Optimiser of ln α and the entropy that it leads to; `None` if α is given.
    ent_coef_adam: Option<(Adam, f32)>,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

#[derive(Debug, Clone)]
struct Scratch {
    work: Workspace,
    d_output: Batch,
    gradient: Vec<f32>,
}

impl Scratch {
    fn of<'a>(scratch: &'a mut Option<Self>, net: &Mlp, input: &Batch) -> &'a mut Self {
        let (capacity, outputs) = (input.capacity(), net.shape().last().copied().unwrap_or(0));
        scratch.get_or_insert_with(|| Self {
            work: Workspace::new(net, capacity),
            d_output: Batch::new(outputs, capacity),
            gradient: vec![0.0; net.parameters().len()],
        })
    }
}

/// Actions drawn from the actor for a batch, and what their gradient needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawn {
    /// Rows of each part: actions in (−1, 1), noise times σ, and tanh of the output of ln σ.
    pub(super) actions: Vec<f32>,
    deviations: Vec<f32>,
    squashed: Vec<f32>,
    /// ln π(a|s, w).
    pub(super) log_probabilities: Vec<f32>,
    batch_size: usize,
    bits: Vec<u64>,
    noise: Vec<f32>,
    std: Vec<f32>,
    product: Vec<f32>,
}

impl Drawn {
    /// A part of the actions, by sample.
    pub(super) fn row(&self, part: usize) -> &[f32] {
        &self.actions[part * self.batch_size..][..self.batch_size]
    }

    /// Draws standard normal noise, a generator for all samples or one for each.
    pub(super) fn draw_noise(&mut self, parts: usize, batch_size: usize, mut bits: impl FnMut(usize) -> u64) {
        let pairs = parts.div_ceil(2);
        self.batch_size = batch_size;
        self.bits.resize(batch_size, 0);
        self.noise.resize(2 * pairs * batch_size, 0.0);
        for pair in self.noise.chunks_exact_mut(2 * batch_size) {
            self.bits.iter_mut().enumerate().for_each(|(b, out)| *out = bits(b));
            let (first, second) = pair.split_at_mut(batch_size);
            acrl_nn::normals(&self.bits, first, second);
        }
    }

    /// Draws no noise, so that actions are tanh μ.
    pub(super) fn no_noise(&mut self, parts: usize, batch_size: usize) {
        self.batch_size = batch_size;
        self.noise.clear();
        self.noise.resize(parts * batch_size, 0.0);
    }

    /// Actions tanh(μ + σ ε) and their ln π, given the outputs (μ, raw ln σ) of an actor.
    pub(super) fn squash(&mut self, output: &Batch) {
        let (parts, n) = (output.rows() / 2, output.batch_size());
        for rows in [&mut self.actions, &mut self.deviations, &mut self.squashed] {
            rows.resize(parts * n, 0.0);
        }
        self.std.resize(n, 0.0);
        self.product.clear();
        self.product.resize(n, 1.0);
        self.log_probabilities.clear();
        self.log_probabilities.resize(n, 0.0);
        let (low, high) = LOG_STD;
        let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
        for part in 0..parts {
            let row = part * n..(part + 1) * n;
            let (action, deviation) = (&mut self.actions[row.clone()], &mut self.deviations[row.clone()]);
            let (squashed, noise) = (&mut self.squashed[row.clone()], &self.noise[row]);
            squashed.copy_from_slice(output.row(parts + part));
            acrl_nn::tanh(squashed);
            let std = &mut self.std;
            std.iter_mut().zip(&*squashed).for_each(|(std, t)| *std = middle + half * t);
            acrl_nn::exp(std);
            let log = &mut self.log_probabilities;
            for b in 0..n {
                deviation[b] = std[b] * noise[b];
                let u = output.row(part)[b] + deviation[b];
                // −ln(1 − tanh²u) = 2|u| − ln 4 + 2 ln(1 + e) with e = exp(−2|u|).
                log[b] +=
                    2.0 * u.abs() - 0.5 * noise[b] * noise[b] - (middle + half * squashed[b]) - LOG_CONSTANT;
                action[b] = u;
                std[b] = -2.0 * u.abs();
            }
            acrl_nn::exp(std);
            for b in 0..n {
                let e = std[b];
                self.product[b] *= 1.0 + e;
                action[b] = ((1.0 - e) / (1.0 + e)).copysign(action[b]);
            }
            // The product of many parts is kept within the range of a float.
            if part % 64 == 63 || part + 1 == parts {
                for (log, product) in log.iter_mut().zip(&mut self.product) {
                    *log += 2.0 * product.ln();
                    *product = 1.0;
                }
            }
        }
    }

    /// ∂L/∂output of an actor, where L = α ln π(a) + ⟨`d_action`, a⟩ per sample.
    fn backward(&self, ent_coef: f32, d_action: &Batch, first: usize, d_output: &mut Batch) {
        let (parts, n) = (d_output.rows() / 2, self.batch_size);
        let half = 0.5 * (LOG_STD.1 - LOG_STD.0);
        for part in 0..parts {
            let at = part * n;
            let (action, deviation) = (&self.actions[at..][..n], &self.deviations[at..][..n]);
            let (squashed, d_action) = (&self.squashed[at..][..n], d_action.row(first + part));
            for b in 0..n {
                let a = action[b];
                d_output.row_mut(part)[b] = ent_coef * 2.0 * a / n as f32 + d_action[b] * (1.0 - a * a);
            }
            for b in 0..n {
                let d_log_std = d_output.row(part)[b] * deviation[b] - ent_coef / n as f32;
                d_output.row_mut(parts + part)[b] = d_log_std * half * (1.0 - squashed[b] * squashed[b]);
            }
        }
    }
}

impl Actor {
    /// An actor with these numbers of inputs and parts of an action. The entropy coefficient is learnt unless given.
    pub(super) fn new(
        (inputs, parts): (usize, usize),
        hidden: &[usize],
        ent_coef: Option<f64>,
        target_entropy: Option<f64>,
        rng: &mut Rng,
    ) -> Result<Self, LearnError> {
        let mut shape = vec![inputs];
        shape.extend(hidden);
        shape.push(2 * parts);
        let net = super::network(&shape, ACTOR_GAIN, rng)?.with_activation(Activation::Relu);
        let target = target_entropy.map_or(-(parts as f32), |target| target as f32);
        let learnt = || (Adam::with(1, [0.9, 0.999], ADAM_EPSILON), target);
        Ok(Self {
            adam: Adam::with(net.parameters().len(), [0.9, 0.999], ADAM_EPSILON),
            average: net.clone(),
            net,
            log_ent_coef: ent_coef.map_or(INITIAL_ENT_COEF, |given| given as f32).ln(),
            ent_coef_adam: ent_coef.is_none().then(learnt),
            scratch: None,
        })
    }

    /// The network: inputs to means μ, and what ln σ is made of.
    pub(super) fn net(&self) -> &Mlp {
        &self.net
    }

    /// Polyak average of the network.
    pub(super) fn average(&self) -> &Mlp {
        &self.average
    }

    /// α.
    pub(super) fn ent_coef(&self) -> f32 {
        self.log_ent_coef.exp()
    }

    /// The network's outputs, kept for [`Actor::descend`].
    pub(super) fn forward(&mut self, input: &Batch) -> &Batch {
        let work = &mut Scratch::of(&mut self.scratch, &self.net, input).work;
        self.net.forward(input, work)
    }

    /// The network's outputs.
    pub(super) fn infer(&mut self, input: &Batch) -> &Batch {
        let work = &mut Scratch::of(&mut self.scratch, &self.net, input).work;
        self.net.infer(input, work)
    }

    /// A gradient step on mean(α ln π(a) − Q(a)), where the rows of `d_action` from `first` on are −∂Q/∂a by the number
    /// of samples; one on α; and one of the average at the rate `tau`. After [`Actor::forward`].
    pub(super) fn descend(
        &mut self,
        drawn: &Drawn,
        d_action: &Batch,
        first: usize,
        (learning_rate, tau): (f32, f32),
    ) {
        let ent_coef = self.ent_coef();
        let Some(Scratch { work, d_output, gradient }) = &mut self.scratch else { return };
        d_output.set_batch_size(drawn.batch_size);
        drawn.backward(ent_coef, d_action, first, d_output);
        gradient.fill(0.0);
        self.net.backward(work, d_output, gradient);
        self.adam.step(self.net.parameters_mut(), gradient, learning_rate);
        polyak_update(self.average.parameters_mut(), self.net.parameters(), tau);
        if let Some((adam, target)) = &mut self.ent_coef_adam {
            let log = drawn.log_probabilities.iter().sum::<f32>() / drawn.batch_size as f32;
            let mut parameter = [self.log_ent_coef];
            adam.step(&mut parameter, &[-(log + *target)], ENT_COEF_RATE * learning_rate);
            self.log_ent_coef = parameter[0];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outputs (μ, raw ln σ) of two parts and three samples.
    fn output() -> Batch {
        let mut output = Batch::new(4, 3);
        for row in 0..4 {
            output
                .row_mut(row)
                .iter_mut()
                .enumerate()
                .for_each(|(b, x)| *x = 0.3 * row as f32 - 0.4 * b as f32);
        }
        output
    }

    fn drawn(output: &Batch) -> Drawn {
        let (mut drawn, mut rng) = (Drawn::default(), Rng::new(2));
        drawn.draw_noise(2, 3, |_| rng.bits());
        drawn.squash(output);
        drawn
    }

    #[test]
    fn log_probabilities_are_those_of_a_squashed_normal_distribution() {
        let output = output();
        let drawn = drawn(&output);
        for b in 0..3 {
            let mut expected = 0.0;
            for part in 0..2 {
                let mean = f64::from(output.row(part)[b]);
                let log_std = -2.0 + 3.0 * f64::from(output.row(2 + part)[b]).tanh();
                let z = f64::from(drawn.noise[part * 3 + b]);
                let action = (mean + log_std.exp() * z).tanh();
                assert!((f64::from(drawn.row(part)[b]) - action).abs() < 1e-5);
                expected +=
                    -0.5 * z * z - log_std - 0.5 * std::f64::consts::TAU.ln() - (1.0 - action * action).ln();
            }
            assert!((f64::from(drawn.log_probabilities[b]) - expected).abs() < 1e-4);
        }
    }

    #[test]
    fn backward_is_the_gradient_of_entropy_and_value() {
        const ENT_COEF: f32 = 0.3;
        let (output, mut d_action) = (output(), Batch::new(3, 3));
        (0..3).for_each(|row| d_action.row_mut(row).fill(0.2 + 0.1 * row as f32));
        let mut d_output = Batch::new(4, 3);
        drawn(&output).backward(ENT_COEF, &d_action, 1, &mut d_output);
        let loss = |output: &Batch| -> f64 {
            let drawn = drawn(output);
            let value = |part: usize| -> f32 {
                drawn.row(part).iter().zip(d_action.row(1 + part)).map(|(a, d)| a * d).sum()
            };
            let log: f32 = drawn.log_probabilities.iter().sum();
            f64::from(ENT_COEF * log / 3.0 + value(0) + value(1))
        };
        for row in 0..4 {
            for b in 0..3 {
                let (mut plus, mut minus) = (output.clone(), output.clone());
                plus.row_mut(row)[b] += 1e-2;
                minus.row_mut(row)[b] -= 1e-2;
                let slope = (loss(&plus) - loss(&minus)) / 2e-2;
                let found = f64::from(d_output.row(row)[b]);
                assert!(
                    (slope - found).abs() < 2e-3 * (1.0 + slope.abs()),
                    "{row}, {b}: {found}, not {slope}"
                );
            }
        }
    }

    #[test]
    fn the_entropy_coefficient_grows_while_the_entropy_is_below_its_target() {
        let mut actor = Actor::new((1, 1), &[8], None, Some(5.0), &mut Rng::new(1)).unwrap();
        let before = actor.ent_coef();
        let (input, d_action) = (Batch::new(1, 16), Batch::new(1, 16));
        let (mut drawn, mut rng) = (Drawn::default(), Rng::new(2));
        drawn.draw_noise(1, 16, |_| rng.bits());
        drawn.squash(actor.forward(&input));
        actor.descend(&drawn, &d_action, 0, (1e-3, 0.5));
        assert!(actor.ent_coef() > before);
        let mut fixed = Actor::new((1, 1), &[8], Some(0.25), None, &mut Rng::new(1)).unwrap();
        fixed.forward(&input);
        fixed.descend(&drawn, &d_action, 0, (1e-3, 0.5));
        assert!((fixed.ent_coef() - 0.25).abs() < 1e-6);
    }
}
