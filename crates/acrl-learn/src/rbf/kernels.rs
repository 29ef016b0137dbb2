//! The products of kernels at one state and one λ.

use super::tensor::PAD;
use super::{Axis, Tensor};

/// Products of kernels below this are taken as 0, in training as in execution.
const NEGLIGIBLE: f32 = 1e-3;

/// κ_n(s) for the nodes at which it is not negligible, and φ_j(λ) for all j.
#[derive(Debug, Clone)]
pub(crate) struct Kernels {
    pub(crate) state: Vec<(u32, f32)>,
    pub(super) multipliers: Vec<f32>,
    /// The blocks of φ that are not negligible.
    pub(super) blocks: Vec<u32>,
    /// From where to where these blocks reach in a row of θ; and room for a row.
    pub(super) runs: Vec<(usize, usize)>,
    pub(super) sums: Vec<f32>,
    /// One axis.
    axis: [f32; Axis::NODES],
    spare: Vec<(u32, f32)>,
}

impl Kernels {
    /// Room for the kernels of a tensor.
    pub(crate) fn new(tensor: &Tensor) -> Self {
        Self {
            state: Vec::with_capacity(tensor.nodes + 1),
            multipliers: vec![0.0; tensor.padded],
            blocks: Vec::with_capacity(tensor.padded / PAD),
            runs: Vec::with_capacity(tensor.row() / PAD),
            sums: vec![0.0; tensor.row()],
            axis: [0.0; Axis::NODES],
            spare: Vec::with_capacity(tensor.nodes + 1),
        }
    }

    /// κ_n(s) = Π κ(s_i), the last coordinate running fastest.
    #[inline(always)]
    pub(crate) fn set_state(&mut self, axes: &[Axis], state: impl Iterator<Item = f64>) {
        self.state.clear();
        self.state.push((0, 1.0));
        for (axis, x) in axes.iter().zip(state) {
            axis.kernels(x, &mut self.axis);
            let kernels = &self.axis[..axis.nodes];
            let low = kernels.iter().take_while(|k| **k < NEGLIGIBLE).count();
            let high = axis.nodes - kernels.iter().rev().take_while(|k| **k < NEGLIGIBLE).count();
            // Written in any case and counted if it is not negligible: no branch to guess wrongly.
            self.spare.resize(self.state.len() * high.saturating_sub(low) + 1, (0, 0.0));
            let mut count = 0;
            for &(node, product) in &self.state {
                for k in low..high {
                    let value = product * kernels[k];
                    self.spare[count] = (node * axis.nodes as u32 + k as u32, value);
                    count += usize::from(value >= NEGLIGIBLE);
                }
            }
            self.spare.truncate(count);
            std::mem::swap(&mut self.state, &mut self.spare);
        }
    }

    /// φ_j(λ) = Π φ(λ_i), the first multiplier running fastest, which makes for long loops.
    #[inline(always)]
    pub(crate) fn set_multipliers(&mut self, axes: &[Axis], multipliers: &[f64]) {
        let mut count = 1;
        self.multipliers[0] = 1.0;
        for (axis, x) in axes.iter().zip(multipliers) {
            axis.kernels(*x, &mut self.axis);
            // The products so far times the first kernel come last, as the others are made of them.
            let (first, rest) = self.multipliers[..count * axis.nodes].split_at_mut(count);
            for (k, products) in rest.chunks_exact_mut(count).enumerate() {
                for e in 0..count {
                    products[e] = first[e] * self.axis[k + 1];
                }
            }
            for product in first {
                *product *= self.axis[0];
            }
            count *= axis.nodes;
        }
        self.blocks.clear();
        for (i, block) in self.multipliers.chunks_exact_mut(PAD).enumerate() {
            let mut sum = 0.0;
            for phi in block {
                *phi = if *phi >= NEGLIGIBLE { *phi } else { 0.0 };
                sum += *phi;
            }
            if sum > 0.0 {
                self.blocks.push(i as u32);
            }
        }
    }
}
