//! One coordinate of a tensor of kernels.

use acrl::Interval;
use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::error::setting;

/// Evenly spaced Gaussian kernels on an interval, whose bandwidth is their distance h:
///
/// > κ_k(x) = exp(−(x − x_k)²/(2h²)),  x_k = low + k·h,  k = 0 … n − 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The first node.
    pub low: f64,
    /// h, the distance of two nodes and the bandwidth.
    pub spacing: f64,
    /// n, the number of nodes.
    pub nodes: usize,
}

impl Axis {
    /// Largest number of nodes on one axis.
    pub const NODES: usize = 64;

    /// `nodes` nodes on a bounded interval, with one at each end.
    pub fn new(range: Interval, nodes: usize) -> Result<Self, LearnError> {
        setting("nodes of kernels", nodes as f64, 2.0..=Self::NODES as f64, "2 to 64")?;
        let width = range.width();
        setting("the lower end of an axis of kernels", range.low, .., "a finite number")?;
        setting("the width of an axis of kernels", width, f64::MIN_POSITIVE.., "finite and above 0")?;
        Ok(Self { low: range.low, spacing: width / (nodes - 1) as f64, nodes })
    }

    /// Refuses an axis that `new` would not have made.
    pub(crate) fn check(&self) -> Result<(), LearnError> {
        let high = self.low + self.spacing * (self.nodes.saturating_sub(1)) as f64;
        Self::new(Interval::new(self.low, high), self.nodes).map(|_| ())
    }

    /// Writes κ₀(x) … κ_{n−1}(x).
    ///
    /// With u = (x − x_j)/h for the nearest node j, κ_{j+i}(x) = e^{−u²/2} (e^u)^i e^{−i²/2}: two
    /// exponentials (and 1/e^u) do for all nodes.
    #[inline(always)]
    pub(crate) fn kernels(&self, x: f64, out: &mut [f32; Self::NODES]) {
        let position = (x - self.low) / self.spacing;
        let j = ((position + 0.5).max(0.0) as usize).min(self.nodes - 1);
        let u = position - j as f64;
        let (peak, ratio, inverse) = if u.abs() <= 0.5 {
            (exp_small(-0.5 * u * u), exp_small(u), exp_small(-u))
        } else {
            // Far outside e^u overflows or underflows, and all kernels vanish.
            let ratio = u.clamp(-30.0, 30.0).exp();
            ((-0.5 * u * u).exp(), ratio, 1.0 / ratio)
        };
        out[j] = peak as f32;
        let mut value = peak;
        for k in j + 1..self.nodes {
            value *= ratio * FALL[k - j - 1];
            out[k] = value as f32;
        }
        value = peak;
        for k in (0..j).rev() {
            value *= inverse * FALL[j - k - 1];
            out[k] = value as f32;
        }
    }
}

/// e^x for |x| ≤ ½ to 10⁻¹⁰, by its series, which is several times as fast; kernels are in single precision.
#[inline(always)]
fn exp_small(x: f64) -> f64 {
    let square = x * x;
    let even =
        1.0 + square * (1.0 / 2.0 + square * (1.0 / 24.0 + square * (1.0 / 720.0 + square / 40_320.0)));
    let odd =
        1.0 + square * (1.0 / 6.0 + square * (1.0 / 120.0 + square * (1.0 / 5_040.0 + square / 362_880.0)));
    even + x * odd
}

/// e^{−i²/2}/e^{−(i−1)²/2} = e^{½−i} for i = 1, 2, …
const FALL: [f64; Axis::NODES] = {
    let mut fall = [0.606_530_659_712_633_4; Axis::NODES]; // e^{−½}
    let mut i = 1;
    while i < fall.len() {
        fall[i] = fall[i - 1] * 0.367_879_441_171_442_33; // e^{−1}
        i += 1;
    }
    fall
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_the_formula_inside_and_outside() {
        let axis = Axis::new(Interval::new(-1.0, 4.0), 11).unwrap();
        let mut out = [f32::NAN; Axis::NODES];
        for x in [-1.0, 0.2, 0.25, 1.74, 3.99, 4.0, 4.3, -1.4, 6.0] {
            axis.kernels(x, &mut out);
            for (k, found) in out[..11].iter().enumerate() {
                let d = (x - (-1.0 + 0.5 * k as f64)) / 0.5;
                assert!(
                    (f64::from(*found) - (-0.5 * d * d).exp()).abs() < 1e-7,
                    "x = {x}, node {k}: {found}"
                );
            }
        }
        for far in [1e9, -1e9, f64::MAX, f64::NEG_INFINITY] {
            axis.kernels(far, &mut out);
            assert!(out[..11].iter().all(|k| *k == 0.0), "{far}: {out:?}");
        }
    }

    #[test]
    fn an_axis_needs_two_nodes_and_a_bounded_range() {
        assert!(Axis::new(Interval::new(0.0, 1.0), 1).is_err());
        assert!(Axis::new(Interval::new(0.0, 1.0), 65).is_err());
        assert!(Axis::new(Interval::new(1.0, 1.0), 3).is_err());
        assert!(Axis::new(Interval::UNBOUNDED, 3).is_err());
        let bad = Axis { low: 0.0, spacing: f64::NAN, nodes: 3 };
        assert!(bad.check().is_err());
    }
}
