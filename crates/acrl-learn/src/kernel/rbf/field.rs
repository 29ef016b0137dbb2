//! A tensor of kernels at a constant λ.

use pulp::{Arch, Simd, WithSimd};

use super::tensor::PAD;
use super::{Kernels, Tensor};

/// A tensor at a constant λ: f_{n,o} = Σ_j θ_{n,o,j} φ_j(λ), computed when a node is first needed, and the gradient with
/// respect to it, from which that of θ follows by one outer product.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) kernels: Kernels,
    /// f_{n,o}.
    values: Vec<f32>,
    /// Σ_t (coefficient of step t) κ_n(s_t).
    gradient: Vec<f32>,
    known: Vec<bool>,
    touched: Vec<u32>,
    arch: Arch,
}

impl Field {
    /// Buffers for a tensor.
    pub(crate) fn new(tensor: &Tensor) -> Self {
        let size = tensor.nodes * tensor.outputs;
        Self {
            kernels: Kernels::new(tensor),
            values: vec![0.0; size],
            gradient: vec![0.0; size],
            known: vec![false; tensor.nodes],
            touched: Vec::with_capacity(tensor.nodes),
            arch: Arch::new(),
        }
    }

    /// Changes to another λ (or another θ).
    pub(crate) fn set_multipliers(&mut self, tensor: &Tensor, multipliers: &[f64]) {
        self.kernels.set_multipliers(&tensor.multipliers, multipliers);
        self.release();
    }

    fn release(&mut self) {
        self.touched.drain(..).for_each(|node| self.known[node as usize] = false);
    }

    /// f(s, λ) for the state whose kernels are set.
    pub(crate) fn value(&mut self, tensor: &Tensor, out: &mut [f64]) {
        let Self { kernels, values, gradient, known, touched, arch } = self;
        let outputs = tensor.outputs;
        let new = touched.len();
        for &(node, _) in kernels.state() {
            if !std::mem::replace(&mut known[node as usize], true) {
                touched.push(node);
            }
        }
        if touched.len() > new {
            let new = &touched[new..];
            new.iter().for_each(|n| gradient[*n as usize * outputs..][..outputs].fill(0.0));
            arch.dispatch(Contract { tensor, kernels, nodes: new, values });
        }
        // Specialised for small numbers of outputs, so that the sums stay in registers.
        match outputs {
            1 => gather::<1>(kernels.state(), values, out),
            2 => gather::<2>(kernels.state(), values, out),
            3 => gather::<3>(kernels.state(), values, out),
            _ => gather_any(kernels.state(), values, out),
        }
    }

    /// Adds Σ_o coefficient_o ∂f_o/∂f_{n,o} at a state with these kernels.
    #[inline]
    pub(crate) fn add_gradient(&mut self, state: &[(u32, f32)], coefficients: &[f64]) {
        match coefficients.len() {
            1 => scatter::<1>(state, coefficients, &mut self.gradient),
            2 => scatter::<2>(state, coefficients, &mut self.gradient),
            3 => scatter::<3>(state, coefficients, &mut self.gradient),
            _ => scatter_any(state, coefficients, &mut self.gradient),
        }
    }

    /// Whether the gradient is finite.
    pub(crate) fn is_finite(&self, outputs: usize) -> bool {
        let mut rows = self.touched.iter().map(|n| *n as usize * outputs);
        rows.all(|at| self.gradient[at..at + outputs].iter().all(|g| g.is_finite()))
    }

    /// θ ← θ + gradient ⊗ φ.
    pub(crate) fn ascend(&mut self, tensor: &mut Tensor) {
        let (kernels, nodes, gradient) = (&self.kernels, &self.touched, &self.gradient);
        self.arch.dispatch(Ascend { tensor, kernels, nodes, gradient });
        self.release();
    }
}

/// Σ_n κ_n f_{n,o} for each of N outputs.
#[inline(always)]
fn gather<const N: usize>(state: &[(u32, f32)], values: &[f32], out: &mut [f64]) {
    let (values, _) = values.as_chunks::<N>();
    let mut sums = [0.0; N];
    for &(node, kappa) in state {
        let values = values[node as usize];
        for o in 0..N {
            sums[o] += f64::from(kappa * values[o]);
        }
    }
    out.copy_from_slice(&sums);
}

fn gather_any(state: &[(u32, f32)], values: &[f32], out: &mut [f64]) {
    let outputs = out.len();
    out.fill(0.0);
    for &(node, kappa) in state {
        let values = &values[node as usize * outputs..][..outputs];
        for o in 0..outputs {
            out[o] += f64::from(kappa * values[o]);
        }
    }
}

/// g_{n,o} ← g_{n,o} + c_o κ_n for each of N outputs.
#[inline(always)]
fn scatter<const N: usize>(state: &[(u32, f32)], coefficients: &[f64], gradient: &mut [f32]) {
    let (gradient, _) = gradient.as_chunks_mut::<N>();
    let coefficients: [f32; N] = std::array::from_fn(|o| coefficients[o] as f32);
    for &(node, kappa) in state {
        let gradient = &mut gradient[node as usize];
        for o in 0..N {
            gradient[o] += coefficients[o] * kappa;
        }
    }
}

fn scatter_any(state: &[(u32, f32)], coefficients: &[f64], gradient: &mut [f32]) {
    let outputs = coefficients.len();
    for &(node, kappa) in state {
        let gradient = &mut gradient[node as usize * outputs..][..outputs];
        for o in 0..outputs {
            gradient[o] += coefficients[o] as f32 * kappa;
        }
    }
}

/// f_{n,o} = Σ_j θ_{n,o,j} φ_j for some nodes.
struct Contract<'a> {
    tensor: &'a Tensor,
    kernels: &'a Kernels,
    nodes: &'a [u32],
    values: &'a mut [f32],
}

impl WithSimd for Contract<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tensor, kernels, nodes, values } = self;
        let phi = S::as_simd_f32s(&kernels.multipliers).0;
        let theta = S::as_simd_f32s(&tensor.theta).0;
        let per_block = PAD / S::F32_LANES;
        for node in nodes {
            for at in *node as usize * tensor.outputs..(*node as usize + 1) * tensor.outputs {
                let theta = &theta[at * phi.len()..(at + 1) * phi.len()];
                // Two independent sums.
                let mut sums = [simd.splat_f32s(0.0); 2];
                for block in &kernels.blocks {
                    let first = *block as usize * per_block;
                    let (theta, phi) = (&theta[first..first + per_block], &phi[first..first + per_block]);
                    for k in 0..per_block {
                        sums[k % 2] = simd.mul_add_e_f32s(theta[k], phi[k], sums[k % 2]);
                    }
                }
                values[at] = simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]));
            }
        }
    }
}

/// θ_{n,o,j} ← θ_{n,o,j} + g_{n,o} φ_j for some nodes.
struct Ascend<'a> {
    tensor: &'a mut Tensor,
    kernels: &'a Kernels,
    nodes: &'a [u32],
    gradient: &'a [f32],
}

impl WithSimd for Ascend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tensor, kernels, nodes, gradient } = self;
        let phi = S::as_simd_f32s(&kernels.multipliers).0;
        let theta = S::as_mut_simd_f32s(&mut tensor.theta).0;
        let per_block = PAD / S::F32_LANES;
        for node in nodes {
            for at in *node as usize * tensor.outputs..(*node as usize + 1) * tensor.outputs {
                let theta = &mut theta[at * phi.len()..(at + 1) * phi.len()];
                let g = simd.splat_f32s(gradient[at]);
                for block in &kernels.blocks {
                    let first = *block as usize * per_block;
                    let (theta, phi) = (&mut theta[first..first + per_block], &phi[first..first + per_block]);
                    for k in 0..per_block {
                        theta[k] = simd.mul_add_e_f32s(g, phi[k], theta[k]);
                    }
                }
            }
        }
    }
}
