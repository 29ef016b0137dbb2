//! The distribution of actions: continuous parts are normal, discrete ones categorical, and all are independent.

use acrl::{ActionPart, Error, Rng};
use acrl_nn::Batch;
use serde::{Deserialize, Serialize};

/// Distribution of actions given the outputs of an actor.
///
/// A continuous part has one output, its mean μ in units of half its interval around the middle, and a standard
/// deviation σ that does not depend on the state; a discrete part with n values has n outputs, its logits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionHeads {
    parts: Vec<ActionPart>,
}

impl ActionHeads {
    /// Refuses parts without a distribution: fewer than two discrete values, or an interval of width 0.
    pub fn new(parts: &[ActionPart]) -> Result<Self, Error> {
        for (index, part) in parts.iter().enumerate() {
            let fine = match part {
                ActionPart::Discrete(n) => *n >= 2,
                ActionPart::Continuous(range) => range.width() > 0.0,
            };
            if !fine {
                return Err(Error::Environment(format!(
                    "part {index} of its actions is {part:?}, expected a choice among two or more, or an interval \
                     of positive width"
                )));
            }
        }
        Ok(Self { parts: parts.to_vec() })
    }

    /// The parts of an action.
    pub fn parts(&self) -> &[ActionPart] {
        &self.parts
    }

    /// Number of outputs that the actor needs.
    pub fn outputs(&self) -> usize {
        self.parts.iter().map(|part| width(*part)).sum()
    }

    /// Number of continuous parts.
    pub fn numbers(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, ActionPart::Continuous(_))).count()
    }

    /// An action in the environment's units: u in units of half the interval, or a choice as it is.
    #[inline]
    pub fn to_environment(part: ActionPart, u: f64) -> f64 {
        match part {
            ActionPart::Continuous(range) if range.is_bounded() => {
                0.5 * (range.low + range.high) + 0.5 * range.width() * u
            }
            _ => u,
        }
    }

    /// The mode of the distribution in one environment, part by part.
    #[inline]
    pub fn mode(&self, output: impl Fn(usize) -> f32, mut write: impl FnMut(usize, f64)) {
        let mut row = 0;
        for (index, &part) in self.parts.iter().enumerate() {
            let u = match part {
                ActionPart::Continuous(_) => f64::from(output(row)),
                ActionPart::Discrete(n) => {
                    let mut best = 0;
                    for k in 1..n {
                        if output(row + k) > output(row + best) {
                            best = k;
                        }
                    }
                    best as f64
                }
            };
            write(index, Self::to_environment(part, u));
            row += width(part);
        }
    }

    /// Draws an action in every environment from its own generator: passes part, environment and value in the actor's
    /// units to `write`, and writes ln π(a) to `log`.
    pub(crate) fn sample(
        &self,
        output: &Batch,
        stds: &ActionStd,
        noise: &mut Noise,
        rngs: &mut [Rng],
        log: &mut [f32],
        mut write: impl FnMut(usize, usize, f32),
    ) {
        noise.draw(self.numbers(), rngs);
        log.fill(0.0);
        let (mut row, mut number) = (0, 0);
        for (index, &part) in self.parts.iter().enumerate() {
            match part {
                ActionPart::Continuous(_) => {
                    let envs = output.row(row).iter().zip(noise.row(number)).zip(log.iter_mut());
                    let sizes = stds.row(number);
                    for (env, (((mean, noise), log), (size, log_size))) in envs.zip(sizes).enumerate() {
                        write(index, env, mean + size * noise);
                        *log += -0.5 * noise * noise - log_size;
                    }
                    number += 1;
                }
                ActionPart::Discrete(n) => {
                    for (env, (rng, log)) in rngs.iter_mut().zip(log.iter_mut()).enumerate() {
                        let logit = |k: usize| output.row(row + k)[env];
                        let total = log_sum_exp(n, logit);
                        let mut u = rng.uniform() as f32;
                        let mut chosen = n - 1;
                        for k in 0..n {
                            u -= (logit(k) - total).exp();
                            if u < 0.0 {
                                chosen = k;
                                break;
                            }
                        }
                        write(index, env, chosen as f32);
                        *log += logit(chosen) - total;
                    }
                }
            }
            row += width(part);
        }
    }

    /// Writes ln π(a) for all entries of a chunk, where rows of `outputs` and `actions` are `stride` apart.
    pub(crate) fn log_probabilities(
        &self,
        outputs: &[f32],
        actions: &[f32],
        stride: usize,
        stds: &ActionStd,
        log: &mut [f32],
    ) {
        log.fill(0.0);
        let batch = log.len();
        let (mut row, mut number) = (0, 0);
        for (index, &part) in self.parts.iter().enumerate() {
            let action = &actions[index * stride..][..batch];
            match part {
                ActionPart::Continuous(_) => {
                    let (inverse, log_size) = stds.inverse(number);
                    let (mean, inverse) = (&outputs[row * stride..][..batch], &inverse[..batch]);
                    let log_size = &log_size[..batch];
                    for b in 0..batch {
                        let z = (action[b] - mean[b]) * inverse[b];
                        log[b] += -0.5 * z * z - log_size[b];
                    }
                    number += 1;
                }
                ActionPart::Discrete(choices) => {
                    for b in 0..batch {
                        let logit = |k: usize| outputs[(row + k) * stride + b];
                        log[b] += logit(action[b] as usize) - log_sum_exp(choices, logit);
                    }
                }
            }
            row += width(part);
        }
    }

    /// Given ∂L/∂ln π(a) of each entry: writes ∂L/∂outputs in place of the outputs, and ∂L/∂ln σ in place of ln σ, where L
    /// includes −`ent_coef` times the entropy −Σ p ln p of each discrete part.
    pub(crate) fn backward(
        &self,
        outputs: &mut [f32],
        actions: &[f32],
        stride: usize,
        stds: &mut ActionStd,
        (d_log, ent_coef): (&[f32], f32),
    ) {
        let batch = d_log.len();
        let (mut row, mut number) = (0, 0);
        for (index, &part) in self.parts.iter().enumerate() {
            let action = &actions[index * stride..][..batch];
            match part {
                ActionPart::Continuous(_) => {
                    let mean = &mut outputs[row * stride..][..batch];
                    let (inverse, d_log_size) = stds.inverse_mut(number);
                    let (inverse, d_log_size) = (&inverse[..batch], &mut d_log_size[..batch]);
                    for b in 0..batch {
                        let z = (action[b] - mean[b]) * inverse[b];
                        mean[b] = d_log[b] * z * inverse[b];
                        d_log_size[b] = d_log[b] * (z * z - 1.0);
                    }
                    number += 1;
                }
                ActionPart::Discrete(choices) => {
                    for b in 0..batch {
                        let at = |k: usize| (row + k) * stride + b;
                        let total = log_sum_exp(choices, |k| outputs[at(k)]);
                        let negentropy: f32 =
                            (0..choices).map(|k| outputs[at(k)] - total).map(|log| log.exp() * log).sum();
                        for k in 0..choices {
                            let log = outputs[at(k)] - total;
                            let chosen = if action[b] as usize == k { 1.0 } else { 0.0 };
                            outputs[at(k)] =
                                d_log[b] * (chosen - log.exp()) + ent_coef * log.exp() * (log - negentropy);
                        }
                    }
                }
            }
            row += width(part);
        }
    }
}

/// Standard deviations σ of continuous actions in many environments: the same for all of them, or a function of the
/// weights w,
///
/// > ln σ_j(w) = Σ_i w_i s_ij,
///
/// so that weightings under which noise is costly can avoid it while others keep exploring.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActionStd {
    num_envs: usize,
    /// ln σ, a row per continuous part.
    logs: Vec<f32>,
    /// σ.
    sizes: Vec<f32>,
    /// 1/σ.
    inverses: Vec<f32>,
}

impl ActionStd {
    /// Computes σ for an input whose rows from `first` on are the weights. The table of s has a row per weight, or one row
    /// for all.
    pub(crate) fn set(&mut self, table: &[f32], numbers: usize, input: &Batch, first: usize) {
        self.num_envs = input.batch_size();
        for rows in [&mut self.logs, &mut self.sizes, &mut self.inverses] {
            rows.resize(numbers * self.num_envs, 0.0);
        }
        if self.logs.is_empty() {
            return;
        }
        if table.len() == numbers {
            for (number, log) in table.iter().enumerate() {
                let row = number * self.num_envs..(number + 1) * self.num_envs;
                self.logs[row.clone()].fill(*log);
                self.sizes[row.clone()].fill(log.exp());
                self.inverses[row].fill((-log).exp());
            }
            return;
        }
        self.logs.fill(0.0);
        for (i, of_weight) in table.chunks_exact(numbers).enumerate() {
            for (logs, s) in self.logs.chunks_exact_mut(self.num_envs).zip(of_weight) {
                logs.iter_mut().zip(input.row(first + i)).for_each(|(log, w)| *log += w * s);
            }
        }
        self.sizes.copy_from_slice(&self.logs);
        acrl_nn::exp(&mut self.sizes);
        self.inverses.iter_mut().zip(&self.sizes).for_each(|(inverse, size)| *inverse = 1.0 / size);
    }

    /// Adds ∂L/∂s, where ∂L/∂ln σ is in place of ln σ.
    pub(crate) fn backward(&self, gradient: &mut [f32], numbers: usize, input: &Batch, first: usize) {
        if self.logs.is_empty() {
            return;
        }
        let rows = gradient.len() / numbers;
        for (i, of_weight) in gradient.chunks_exact_mut(numbers).enumerate() {
            for (d_logs, sum) in self.logs.chunks_exact(self.num_envs).zip(of_weight) {
                // In 16 partial sums, so that additions do not wait for each other.
                let mut sums = [0.0f32; 16];
                if rows == 1 {
                    for tile in d_logs.chunks(16) {
                        sums.iter_mut().zip(tile).for_each(|(sum, d)| *sum += d);
                    }
                } else {
                    for (tile, w) in d_logs.chunks(16).zip(input.row(first + i).chunks(16)) {
                        sums.iter_mut().zip(tile).zip(w).for_each(|((sum, d), w)| *sum += d * w);
                    }
                }
                *sum += sums.iter().sum::<f32>();
            }
        }
    }

    /// σ and ln σ of a continuous part, by environment.
    fn row(&self, number: usize) -> impl Iterator<Item = (&f32, &f32)> {
        let row = number * self.num_envs..(number + 1) * self.num_envs;
        self.sizes[row.clone()].iter().zip(&self.logs[row])
    }

    /// 1/σ and ln σ of a continuous part, by environment.
    fn inverse(&self, number: usize) -> (&[f32], &[f32]) {
        let row = number * self.num_envs..(number + 1) * self.num_envs;
        (&self.inverses[row.clone()], &self.logs[row])
    }

    fn inverse_mut(&mut self, number: usize) -> (&[f32], &mut [f32]) {
        let row = number * self.num_envs..(number + 1) * self.num_envs;
        (&self.inverses[row.clone()], &mut self.logs[row])
    }
}

/// Standard normal numbers, a row per continuous part, in buffers that are reused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noise {
    num_envs: usize,
    bits: Vec<u64>,
    /// Normal numbers; the number of rows is even.
    rows: Vec<f32>,
}

impl Noise {
    /// Draws so many numbers in each environment from its own generator.
    fn draw(&mut self, numbers: usize, rngs: &mut [Rng]) {
        self.num_envs = rngs.len();
        self.bits.resize(self.num_envs, 0);
        self.rows.resize(numbers.next_multiple_of(2) * self.num_envs, 0.0);
        if self.num_envs == 0 {
            return;
        }
        for pair in self.rows.chunks_exact_mut(2 * self.num_envs) {
            self.bits.iter_mut().zip(&mut *rngs).for_each(|(bits, rng)| *bits = rng.bits());
            let (first, second) = pair.split_at_mut(self.num_envs);
            acrl_nn::normals(&self.bits, first, second);
        }
    }

    /// A row of numbers, by environment.
    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.num_envs..][..self.num_envs]
    }
}

/// Number of outputs of a part.
fn width(part: ActionPart) -> usize {
    match part {
        ActionPart::Continuous(_) => 1,
        ActionPart::Discrete(n) => n,
    }
}

/// ln Σ_k exp(x_k) without overflow.
#[inline]
fn log_sum_exp(n: usize, x: impl Fn(usize) -> f32) -> f32 {
    let most = (0..n).map(&x).fold(f32::NEG_INFINITY, f32::max);
    most + (0..n).map(|k| (x(k) - most).exp()).sum::<f32>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use acrl::Interval;

    fn heads() -> ActionHeads {
        let number = ActionPart::Continuous(Interval::new(-1.0, 3.0));
        ActionHeads::new(&[number, ActionPart::Discrete(3), number]).unwrap()
    }

    #[test]
    fn backward_is_the_gradient_of_log_probability_minus_entropy() {
        const ENTROPY: f32 = 0.3;
        let heads = heads();
        let outputs = [0.3f32, -0.2, 0.9, 0.1, -0.7];
        let actions = [0.8f32, 2.0, -0.5];
        // One environment whose weights are its input; ln σ at either weight alone.
        let stds = [-0.4f32, 0.2, 0.5, -0.3];
        let mut input = Batch::new(2, 1);
        (0..2).for_each(|i| input.row_mut(i)[0] = [0.3, 0.7][i]);
        let of = |table: &[f32]| {
            let mut stds = ActionStd::default();
            stds.set(table, 2, &input, 0);
            stds
        };
        let log = |outputs: &[f32], table: &[f32]| {
            let mut log = [0.0];
            heads.log_probabilities(outputs, &actions, 1, &of(table), &mut log);
            let of_choice = |k: usize| outputs[1 + k] - log_sum_exp(3, |k| outputs[1 + k]);
            let negentropy: f32 = (0..3).map(|k| of_choice(k).exp() * of_choice(k)).sum();
            log[0] + ENTROPY * negentropy
        };
        let (mut d_outputs, mut d_deviations) = (outputs, [0.0; 4]);
        let mut here = of(&stds);
        heads.backward(&mut d_outputs, &actions, 1, &mut here, (&[1.0], ENTROPY));
        here.backward(&mut d_deviations, 2, &input, 0);
        let step = 1e-2;
        for i in 0..outputs.len() {
            let moved = |by: f32| {
                let mut outputs = outputs;
                outputs[i] += by;
                log(&outputs, &stds)
            };
            assert!((d_outputs[i] - (moved(step) - moved(-step)) / (2.0 * step)).abs() < 1e-3, "output {i}");
        }
        for i in 0..4 {
            let moved = |by: f32| {
                let mut stds = stds;
                stds[i] += by;
                log(&outputs, &stds)
            };
            assert!((d_deviations[i] - (moved(step) - moved(-step)) / (2.0 * step)).abs() < 1e-3);
        }
    }

    #[test]
    fn samples_follow_the_reported_log_probabilities() {
        const ENVS: usize = 100;
        let heads = heads();
        let outputs = [0.3f32, -0.2, 0.9, 0.1, -0.7];
        let stds = [-0.4f32, 0.2];
        let of = |num_envs: usize| {
            let mut of_envs = ActionStd::default();
            of_envs.set(&stds, 2, &Batch::new(1, num_envs), 0);
            of_envs
        };
        let mut output = Batch::new(5, ENVS);
        (0..5).for_each(|k| output.row_mut(k).fill(outputs[k]));
        let mut rngs: Vec<Rng> = (0..ENVS as u64).map(|env| Rng::stream(3, env)).collect();
        let (mut actions, mut reported, mut noise) = ([[0.0; 3]; ENVS], [0.0; ENVS], Noise::default());
        let (mut counts, mut squares) = ([0.0; 3], [0.0; 2]);
        for _ in 0..200 {
            let write = |part: usize, env: usize, u: f32| actions[env][part] = u;
            heads.sample(&output, &of(ENVS), &mut noise, &mut rngs, &mut reported, write);
            for (actions, reported) in actions.iter().zip(reported) {
                let mut log = [0.0];
                heads.log_probabilities(&outputs, actions, 1, &of(1), &mut log);
                assert!((reported - log[0]).abs() < 1e-4);
                counts[actions[1] as usize] += 1.0 / 20_000.0;
                squares[0] += (actions[0] - outputs[0]).powi(2) / 20_000.0;
                squares[1] += (actions[2] - outputs[4]).powi(2) / 20_000.0;
            }
        }
        for i in 0..2 {
            assert!((squares[i] / (2.0 * stds[i]).exp() - 1.0).abs() < 0.05);
        }
        let total = log_sum_exp(3, |k| outputs[1 + k]);
        for k in 0..3 {
            assert!((counts[k] - (outputs[1 + k] - total).exp()).abs() < 0.015);
        }
    }

    #[test]
    fn std_is_interpolated_between_weights() {
        // Two weights, two continuous parts; environments at either weight alone, and between them.
        let mut input = Batch::new(3, 3);
        input.row_mut(1).copy_from_slice(&[1.0, 0.0, 0.5]);
        input.row_mut(2).copy_from_slice(&[0.0, 1.0, 0.5]);
        let table = [0.01f32, 0.6, 0.64, 0.6].map(f32::ln);
        let mut stds = ActionStd::default();
        stds.set(&table, 2, &input, 1);
        let near = |number: usize, expected: [f32; 3]| {
            stds.row(number)
                .zip(expected)
                .all(|((size, log), e)| (size / e - 1.0).abs() < 1e-4 && (log - e.ln()).abs() < 1e-4)
        };
        assert!(near(0, [0.01, 0.64, 0.08]) && near(1, [0.6; 3]), "{stds:?}");
    }

    #[test]
    fn mode_is_in_the_units_of_the_environment() {
        let mut action = [0.0; 3];
        heads().mode(|k| [0.5, 0.0, 2.0, 1.0, -1.0][k], |k, u| action[k] = u);
        assert_eq!(action, [2.0, 1.0, -1.0]);
        assert!(ActionHeads::new(&[ActionPart::Discrete(1)]).is_err());
        assert!(ActionHeads::new(&[ActionPart::Continuous(Interval::new(1.0, 1.0))]).is_err());
    }
}
