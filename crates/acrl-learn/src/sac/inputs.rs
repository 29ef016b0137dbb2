//! Inputs of the networks: scaled observations, and two numbers per weight.

use acrl::{BatchMatrix, Interval};
use acrl_nn::Batch;
use serde::{Deserialize, Serialize};

use crate::ppo::Inputs;
use crate::tuning::sac::LOG_WEIGHT_OFFSET;

/// Inputs of all networks: the observation, 2w − 1, and ln(w + 0.003)/3 + 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct WeightedInputs(pub(super) Inputs);

impl WeightedInputs {
    /// Numbers of an observation.
    pub(super) fn observation(&self) -> usize {
        self.0.observation().len()
    }

    /// Number of weights.
    pub(super) fn weights(&self) -> usize {
        self.0.weights()
    }

    /// Number of inputs.
    pub(super) fn len(&self) -> usize {
        self.observation() + 2 * self.weights()
    }

    /// Sets the intervals from which observations are scaled.
    pub(super) fn set_observation(&mut self, intervals: Vec<Interval>) {
        self.0.set_observation(intervals);
    }

    /// Factor and offset with which a number of an observation is scaled.
    pub(super) fn scaling(&self, row: usize) -> (f32, f32) {
        let range = self.0.observation()[row];
        let factor = 2.0 / range.width();
        (factor as f32, (-0.5 * (range.low + range.high) * factor) as f32)
    }

    /// Writes observations of environments.
    pub(super) fn write_observation(&self, observation: &BatchMatrix, out: &mut Batch) {
        for row in 0..self.observation() {
            self.0.scale_row(row, observation.row(row), out.row_mut(row));
        }
    }

    /// Writes weights (1, λ) of environments, up to a factor.
    pub(super) fn write_weights(&self, weights: &BatchMatrix, out: &mut Batch, totals: &mut Vec<f64>) {
        self.0.write_weights(weights, out, totals);
        self.spread_weights(out);
    }

    /// Writes weights in units of the rewards, which add up to 1: rows w₀ … w_m of environments.
    pub(super) fn write_shares(&self, weights: &BatchMatrix, out: &mut Batch) {
        let first = weights.len() - self.weights();
        for i in 0..self.weights() {
            let row = out.row_mut(self.observation() + i).iter_mut();
            row.zip(weights.row(first + i)).for_each(|(out, w)| *out = *w as f32);
        }
        self.spread_weights(out);
    }

    /// Makes inputs of the weights that are in the rows behind the observation.
    pub(super) fn spread_weights(&self, out: &mut Batch) {
        let (first, n) = (self.observation(), self.weights());
        for b in 0..out.batch_size() {
            for i in 0..n {
                let w = out.row(first + i)[b];
                out.row_mut(first + i)[b] = 2.0 * w - 1.0;
                out.row_mut(first + n + i)[b] = (w + LOG_WEIGHT_OFFSET).ln() / 3.0 + 1.0;
            }
        }
    }

    /// Weights of a sample, from its inputs.
    pub(super) fn weight(&self, input: &Batch, i: usize, b: usize) -> f32 {
        0.5 * (input.row(self.observation() + i)[b] + 1.0)
    }
}
