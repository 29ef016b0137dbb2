//! Linear functions of a tensor product of kernels, and the two orders of their summation.
//!
//! > f_o(s, λ) = Σ_n Σ_j θ_{n,o,j} κ_n(s) φ_j(λ)
//!
//! with κ_n the products of kernels over the state, φ_j those over the multipliers. Where λ changes at every step,
//! Σ_n κ_n θ_{n,o,·} comes first, over the few κ_n that are not negligible. Where λ is constant, Σ_j θ_{n,o,j} φ_j is
//! computed once for each n (`Field`), and a step costs only the kernels of the state.

use pulp::Simd;
use serde::{Deserialize, Serialize};

use super::aligned::Aligned;
use super::{Axis, Kernels};
use crate::LearnError;
use crate::error::{length, setting};

/// Rows of φ are padded to a multiple of this, a multiple of the width of every machine's registers.
pub(super) const PAD: usize = 16;

/// θ, with its kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub(crate) struct Tensor {
    pub(super) state: Vec<Axis>,
    pub(super) multipliers: Vec<Axis>,
    pub(super) outputs: usize,
    /// Number of products of kernels over states.
    pub(super) nodes: usize,
    /// Number of products over multipliers, padded.
    pub(super) padded: usize,
    pub(super) theta: Aligned,
}

/// A tensor as it is stored: θ without padding, by node, output and kernel of the multipliers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    state: Vec<Axis>,
    multipliers: Vec<Axis>,
    outputs: usize,
    theta: Vec<f32>,
}

impl Tensor {
    /// Largest number of weights: 128 megabytes.
    pub(crate) const WEIGHTS: usize = 1 << 25;
    /// Largest number of outputs.
    pub(crate) const OUTPUTS: usize = 64;

    /// θ = 0. Refuses a tensor that is too large.
    pub(crate) fn zeros(
        state: Vec<Axis>,
        multipliers: Vec<Axis>,
        outputs: usize,
    ) -> Result<Self, LearnError> {
        state.iter().chain(&multipliers).try_for_each(Axis::check)?;
        setting("outputs of kernels", outputs as f64, 1.0..=Self::OUTPUTS as f64, "1 to 64")?;
        let product = |axes: &[Axis]| axes.iter().fold(1.0, |p, axis| p * axis.nodes as f64);
        let size = product(&state) * product(&multipliers) * outputs as f64;
        setting(
            "weights of a tensor of kernels",
            size,
            1.0..=Self::WEIGHTS as f64,
            "1 to 33,554,432 (nodes^dimensions of state and multipliers: take fewer nodes, or ppo)",
        )?;
        let (nodes, kernels) = (product(&state) as usize, product(&multipliers) as usize);
        let padded = kernels.next_multiple_of(PAD);
        Ok(Self {
            state,
            multipliers,
            outputs,
            nodes,
            padded,
            theta: Aligned::zeros(nodes * outputs * padded),
        })
    }

    /// With θ in the order of [`theta`](Self::theta).
    pub(crate) fn new(
        state: Vec<Axis>,
        multipliers: Vec<Axis>,
        outputs: usize,
        theta: Vec<f32>,
    ) -> Result<Self, LearnError> {
        let mut tensor = Self::zeros(state, multipliers, outputs)?;
        let kernels = tensor.kernels();
        length("weights of a tensor of kernels", tensor.nodes * outputs * kernels, theta.len())?;
        let rows = tensor.theta.chunks_exact_mut(tensor.padded).zip(theta.chunks_exact(kernels));
        rows.for_each(|(row, theta)| row[..kernels].copy_from_slice(theta));
        match tensor.not_finite() {
            Some(bad) => Err(acrl::Error::NotFinite { what: "a weight".into(), value: bad.into() }.into()),
            None => Ok(tensor),
        }
    }

    pub(crate) fn state(&self) -> &[Axis] {
        &self.state
    }

    pub(crate) fn multipliers(&self) -> &[Axis] {
        &self.multipliers
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Numbers stored for each node.
    pub(crate) fn row(&self) -> usize {
        self.outputs * self.padded
    }

    /// About Σ_n Σ_j κ_n² φ_j²: (√π)^axes, less near the ends. A step on θ by a gradient divided by it changes f by the
    /// step.
    pub(crate) fn norm(&self) -> f64 {
        std::f64::consts::PI.sqrt().powi((self.state.len() + self.multipliers.len()) as i32)
    }

    /// Number of kernels over the multipliers.
    fn kernels(&self) -> usize {
        self.multipliers.iter().map(|axis| axis.nodes).product()
    }

    /// Refuses a tensor of other kernels or outputs.
    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), LearnError> {
        let shape = |t: &Self| (t.state.clone(), t.multipliers.clone(), t.outputs);
        if shape(self) == shape(other) {
            return Ok(());
        }
        let (name, expected) = ("kernels for this problem", "those with which the training began");
        let value = (other.nodes * other.kernels()).to_string();
        Err(LearnError::Setting { name, value, expected: expected.to_owned() })
    }

    /// θ without padding, by node, output and kernel of the multipliers.
    pub(crate) fn theta(&self) -> Vec<f32> {
        let kernels = self.kernels();
        self.theta.chunks_exact(self.padded).flat_map(|row| row[..kernels].iter().copied()).collect()
    }

    /// The first weight that is not finite.
    pub(crate) fn not_finite(&self) -> Option<f32> {
        self.theta.iter().copied().find(|t| !t.is_finite())
    }

    /// The tensor of the first outputs.
    pub(crate) fn first(&self, outputs: usize) -> Self {
        let width = outputs * self.padded;
        let mut theta = Aligned::zeros(self.nodes * width);
        let rows = theta.chunks_exact_mut(width).zip(self.theta.chunks_exact(self.row()));
        rows.for_each(|(to, from)| to.copy_from_slice(&from[..width]));
        Self { outputs, theta, state: self.state.clone(), multipliers: self.multipliers.clone(), ..*self }
    }

    /// f(s, λ), given the kernels of both.
    #[inline(always)]
    pub(crate) fn value<S: Simd>(&self, simd: S, kernels: &mut Kernels, out: &mut [f64]) {
        let theta = S::as_simd_f32s(&self.theta).0;
        let Kernels { state, count, multipliers, blocks, runs, sums, .. } = kernels;
        let state = &state[..*count];
        let (phi, sums) = (S::as_simd_f32s(multipliers).0, S::as_mut_simd_f32s(sums).0);
        let (row, per_block) = (self.row() / S::F32_LANES, PAD / S::F32_LANES);
        // Adjacent blocks of a row of θ are summed together.
        runs.clear();
        for o in 0..self.outputs {
            for block in blocks.iter() {
                let first = o * phi.len() + *block as usize * per_block;
                match runs.last_mut() {
                    Some((_, end)) if *end == first => *end += per_block,
                    _ => runs.push((first, first + per_block)),
                }
            }
        }
        for &(mut at, end) in runs.iter() {
            while end - at >= 12 {
                sum_twelve(simd, theta, row, state, at, sums);
                at += 12;
            }
            while end - at >= 4 {
                sum_four(simd, theta, row, state, at, sums);
                at += 4;
            }
            while end > at {
                sum_one(simd, theta, row, state, at, sums);
                at += 1;
            }
        }
        for (out, sums) in out.iter_mut().zip(sums.chunks_exact(phi.len())) {
            let mut sum = simd.splat_f32s(0.0);
            for block in blocks.iter() {
                let first = *block as usize * per_block;
                for k in first..first + per_block {
                    sum = simd.mul_add_e_f32s(phi[k], sums[k], sum);
                }
            }
            *out = f64::from(simd.reduce_sum_f32s(sum));
        }
    }
}

/// Functions that compute Σ_n κ_n θ_n in some adjacent columns of the width of a register. The sums are variables and not
/// an array, and nothing can panic between them, so that they stay in registers.
macro_rules! sum_nodes {
    ($name:ident, $n:literal, $($sum:ident $k:literal),*) => {
        #[inline(always)]
        fn $name<S: Simd>(
            simd: S,
            theta: &[S::f32s],
            row: usize,
            state: &[(u32, f32)],
            at: usize,
            out: &mut [S::f32s],
        ) {
            $(let mut $sum = simd.splat_f32s(0.0);)*
            for &(node, kappa) in state {
                let theta = theta.get(node as usize * row + at..).and_then(|theta| theta.first_chunk::<$n>());
                let Some(theta) = theta else { return };
                let kappa = simd.splat_f32s(kappa);
                $($sum = simd.mul_add_e_f32s(kappa, theta[$k], $sum);)*
            }
            out[at..at + $n].copy_from_slice(&[$($sum),*]);
        }
    };
}

sum_nodes!(sum_twelve, 12, a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11);
sum_nodes!(sum_four, 4, a 0, b 1, c 2, d 3);
sum_nodes!(sum_one, 1, a 0);

impl TryFrom<Plain> for Tensor {
    type Error = LearnError;

    fn try_from(plain: Plain) -> Result<Self, LearnError> {
        Self::new(plain.state, plain.multipliers, plain.outputs, plain.theta)
    }
}

impl From<Tensor> for Plain {
    fn from(tensor: Tensor) -> Self {
        let theta = tensor.theta();
        Self { state: tensor.state, multipliers: tensor.multipliers, outputs: tensor.outputs, theta }
    }
}
