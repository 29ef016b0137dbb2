//! The Adam optimiser and gradient norm clipping.

use crate::batch::TILE;
use crate::isa::{Instructions, Isa, Kernel, dispatch};
use serde::{Deserialize, Serialize};

/// Adam (Kingma and Ba 2015): m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g²,
/// θ ← θ − η · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε).
///
/// It descends: `gradient` is that of a loss. The whole state, with the number of steps t, is serialisable.
///
/// ```
/// let mut adam = acrl_nn::Adam::new(1);
/// let mut x = [1.0];
/// for _ in 0..300 {
///     let gradient = [2.0 * x[0]];
///     adam.step(&mut x, &gradient, 0.02);
/// }
/// assert!(x[0].abs() < 1e-2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Adam {
    beta: [f32; 2],
    epsilon: f32,
    steps: u64,
    first: Vec<f32>,
    second: Vec<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    beta: [f32; 2],
    epsilon: f32,
    steps: u64,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl TryFrom<Stored> for Adam {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let Stored { beta, epsilon, steps, first, second } = stored;
        if first.len() != second.len() {
            return Err(format!(
                "Adam has {} first moments and {} second moments",
                first.len(),
                second.len()
            ));
        }
        if let Some(v) = second.iter().find(|v| v.is_sign_negative() && **v != 0.0) {
            return Err(format!("{v} is a second moment of Adam, but it is a mean of squares"));
        }
        if !beta.iter().all(|b| (0.0..1.0).contains(b)) {
            return Err(format!("the decay rates {beta:?} of Adam are not in [0, 1)"));
        }
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(format!("the epsilon {epsilon} of Adam is not a number from 0 on"));
        }
        Ok(Self { beta, epsilon, steps, first, second })
    }
}

impl Adam {
    /// The optimiser of `n` parameters with β = (0.9, 0.999) and ε = 10⁻⁵.
    pub fn new(n: usize) -> Self {
        Self::with(n, [0.9, 0.999], 1e-5)
    }

    /// The optimiser of `n` parameters with other constants: decay rates β in [0, 1), ε from 0 on.
    pub fn with(n: usize, beta: [f32; 2], epsilon: f32) -> Self {
        Self { beta, epsilon, steps: 0, first: vec![0.0; n], second: vec![0.0; n] }
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// One step with learning rate η = `learning_rate`.
    ///
    /// # Panics
    /// If the parameters or the gradient are not as many as the optimiser was made for.
    pub fn step(&mut self, parameters: &mut [f32], gradient: &[f32], learning_rate: f32) {
        self.step_scaled(parameters, gradient, learning_rate, 1.0);
    }

    /// One step with the gradient times `scale`, for example that of [`clip_norm`], in one pass over memory.
    ///
    /// # Panics
    /// If the parameters or the gradient are not as many as the optimiser was made for.
    pub fn step_scaled(&mut self, parameters: &mut [f32], gradient: &[f32], learning_rate: f32, scale: f32) {
        assert_eq!(parameters.len(), self.first.len(), "number of parameters");
        assert_eq!(gradient.len(), self.first.len(), "length of the gradient");
        self.steps += 1;
        // After 2³¹ steps βᵗ is 0 in any precision.
        let t = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let corrections = self.beta.map(|beta| 1.0 - f64::from(beta).powi(t));
        // η·√(1 − β₂ᵗ)/(1 − β₁ᵗ) · m / (√v + ε·√(1 − β₂ᵗ)) is the same with one division less.
        let root = corrections[1].sqrt();
        let rate = (f64::from(learning_rate) * root / corrections[0]) as f32;
        let epsilon = (f64::from(self.epsilon) * root) as f32;
        let Self { beta, first, second, .. } = self;
        let constants = Constants { beta: *beta, rate, epsilon, scale };
        dispatch(Instructions::best(), Update { constants, parameters, gradient, first, second });
    }
}

#[derive(Clone, Copy)]
struct Constants {
    beta: [f32; 2],
    rate: f32,
    epsilon: f32,
    scale: f32,
}

struct Update<'a> {
    constants: Constants,
    parameters: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
}

impl Kernel for Update<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Constants { beta, rate, epsilon, scale } = self.constants;
        let (beta_1, beta_2) = (isa.splat(beta[0]), isa.splat(beta[1]));
        let (new_1, new_2) = (isa.splat(1.0 - beta[0]), isa.splat(1.0 - beta[1]));
        let (rate, epsilon, scale) = (isa.splat(rate), isa.splat(epsilon), isa.splat(scale));
        let update = |p: &mut [f32; TILE], g: &[f32; TILE], m: &mut [f32; TILE], v: &mut [f32; TILE]| {
            let g = isa.mul(isa.load(g), scale);
            let first = isa.mul_add(beta_1, isa.load(m), isa.mul(new_1, g));
            let second = isa.mul_add(beta_2, isa.load(v), isa.mul(isa.mul(new_2, g), g));
            let step = isa.div(isa.mul(rate, first), isa.add(isa.sqrt(second), epsilon));
            isa.store(first, m);
            isa.store(second, v);
            isa.store(isa.sub(isa.load(p), step), p);
        };
        let (p, p_rest) = self.parameters.as_chunks_mut::<TILE>();
        let (g, g_rest) = self.gradient.as_chunks::<TILE>();
        let (m, m_rest) = self.first.as_chunks_mut::<TILE>();
        let (v, v_rest) = self.second.as_chunks_mut::<TILE>();
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            update(p, g, m, v);
        }
        let n = p_rest.len();
        let mut last = [[0.0; TILE]; 4];
        for (to, from) in last.iter_mut().zip([&*p_rest, g_rest, &*m_rest, &*v_rest]) {
            to[..n].copy_from_slice(from);
        }
        let [p, g, m, v] = &mut last;
        update(p, g, m, v);
        p_rest.copy_from_slice(&p[..n]);
        m_rest.copy_from_slice(&m[..n]);
        v_rest.copy_from_slice(&v[..n]);
    }
}

struct SumOfSquares<'a>(&'a [f32], &'a mut f32);

impl Kernel for SumOfSquares<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (tiles, rest) = self.0.as_chunks::<TILE>();
        let mut last = [0.0; TILE];
        last[..rest.len()].copy_from_slice(rest);
        let last = isa.load(&last);
        // Four chains, so that additions do not wait for each other.
        let mut sums = [isa.mul(last, last), isa.splat(0.0), isa.splat(0.0), isa.splat(0.0)];
        for (i, x) in tiles.iter().enumerate() {
            let x = isa.load(x);
            sums[i % 4] = isa.mul_add(x, x, sums[i % 4]);
        }
        let [a, b, c, d] = sums;
        *self.1 = isa.sum(isa.add(isa.add(a, b), isa.add(c, d)));
    }
}

/// The factor min(1, bound / ‖g‖₂) that keeps the norm of a gradient within a bound, and the norm ‖g‖₂.
///
/// ```
/// assert_eq!(acrl_nn::clip_norm(&[3.0, -4.0], 0.5), (0.1, 5.0));
/// ```
pub fn clip_norm(gradient: &[f32], bound: f32) -> (f32, f32) {
    let mut sum = 0.0;
    dispatch(Instructions::best(), SumOfSquares(gradient, &mut sum));
    let norm = sum.sqrt();
    (if norm > bound { bound / norm } else { 1.0 }, norm)
}
