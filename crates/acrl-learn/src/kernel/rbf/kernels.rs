//! Products of kernels at one state and one λ.

use super::aligned::Aligned;
use super::tensor::PAD;
use super::{Axis, Tensor};

/// Products of kernels below this count as 0, in training and in execution.
const NEGLIGIBLE: f32 = 1e-3;

/// κ_n(s) for the nodes at which it is not negligible, and φ_j(λ) for all j.
#[derive(Debug, Clone)]
pub(crate) struct Kernels {
    /// Nodes and κ_n; the first `count` are those of the state.
    pub(super) state: Vec<(u32, f32)>,
    pub(super) count: usize,
    pub(super) multipliers: Aligned,
    /// The blocks of φ that are not negligible.
    pub(super) blocks: Vec<u32>,
    /// Beginnings and ends of these blocks in a row of θ.
    pub(super) runs: Vec<(usize, usize)>,
    /// Buffer for a row.
    pub(super) sums: Aligned,
    /// Buffer for one axis.
    axis: [f32; Axis::NODES],
    spare: Vec<(u32, f32)>,
}

impl Kernels {
    /// Buffers for the kernels of a tensor.
    pub(crate) fn new(tensor: &Tensor) -> Self {
        Self {
            state: vec![(0, 0.0); tensor.nodes + 1],
            count: 0,
            multipliers: Aligned::zeros(tensor.padded),
            blocks: Vec::with_capacity(tensor.padded / PAD),
            runs: Vec::with_capacity(tensor.row() / PAD),
            sums: Aligned::zeros(tensor.row()),
            axis: [0.0; Axis::NODES],
            spare: vec![(0, 0.0); tensor.nodes + 1],
        }
    }

    /// The nodes at which κ_n(s) is not negligible, with κ_n(s).
    #[inline(always)]
    pub(crate) fn state(&self) -> &[(u32, f32)] {
        &self.state[..self.count]
    }

    /// κ_n(s) = Π κ(s_i), the last coordinate running fastest.
    #[inline(always)]
    pub(crate) fn set_state(&mut self, axes: &[Axis], state: impl Iterator<Item = f64>) {
        self.state[0] = (0, 1.0);
        self.count = 1;
        for (axis, x) in axes.iter().zip(state) {
            axis.kernels(x, &mut self.axis);
            let kernels = &self.axis[..axis.nodes];
            let low = kernels.iter().take_while(|k| **k < NEGLIGIBLE).count();
            let high = axis.nodes - kernels.iter().rev().take_while(|k| **k < NEGLIGIBLE).count();
            let mut count = 0;
            for &(node, product) in &self.state[..self.count] {
                for k in low..high {
                    let value = product * kernels[k];
                    // Always written, and counted if it is not negligible, without a branch.
                    self.spare[count] = (node * axis.nodes as u32 + k as u32, value);
                    count += usize::from(value >= NEGLIGIBLE);
                }
            }
            self.count = count;
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
            // The products so far are multiplied by the first kernel last, as the others are computed from them.
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
            // As bits, so that the compiler may reorder the disjunction.
            let mut any = 0;
            for phi in block {
                *phi = if *phi >= NEGLIGIBLE { *phi } else { 0.0 };
                any |= phi.to_bits();
            }
            if any != 0 {
                self.blocks.push(i as u32);
            }
        }
    }
}
