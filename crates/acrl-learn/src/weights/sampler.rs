//! Distributions of the weights to train on.

use acrl::Rng;
use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::error::setting;

/// Distribution of the weights w₀ … w_m in training. Without an objective w₀ = 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeightSampler {
    /// Half of the environments take the weights of dual dynamics that run while they train, so that training covers what an
    /// execution will ask for; the others draw from `Faces`. For learners with many environments.
    DualTrajectory,
    /// Uniform on the simplex of weights that add up to 1.
    Simplex,
    /// Half of them uniform on the simplex, half on one of its faces of any dimension, corners and edges included: where
    /// requirements are met with slack, their weights are 0.
    Faces,
    /// (1, λ), or (0, λ) without an objective, with λ uniform on \[0, high\]^m: the paper's Λ.
    Box {
        /// Upper end of the box.
        high: f64,
    },
}

impl WeightSampler {
    /// The words for them in problem files.
    pub const WORDS: &[&str] = &["dual_trajectory", "simplex", "faces", "box"];
    /// The words for those that draw normalised weights.
    pub(crate) const NORMALISED_WORDS: &[&str] = &["dual_trajectory", "simplex", "faces"];

    /// Refuses a box without interior.
    pub fn check(self) -> Result<(), LearnError> {
        match self {
            Self::Box { high } => setting("high", high, f64::MIN_POSITIVE.., "a finite number above 0"),
            Self::DualTrajectory | Self::Simplex | Self::Faces => Ok(()),
        }
    }

    /// Draws w₀ … w_m.
    pub fn draw(self, has_objective: bool, weights: &mut [f64], rng: &mut Rng) {
        let first = usize::from(!has_objective).min(weights.len());
        let (objective, rest) = weights.split_at_mut(first);
        objective.fill(0.0);
        match self {
            Self::Simplex => simplex(rest, rng),
            Self::Faces | Self::DualTrajectory => {
                simplex(rest, rng);
                if rng.uniform() < 0.5 {
                    face(rest, rng);
                }
            }
            Self::Box { high } => {
                rest.iter_mut().for_each(|w| *w = high * rng.uniform());
                if has_objective {
                    weights[0] = 1.0;
                }
            }
        }
    }
}

/// Uniform on the simplex: exponential numbers divided by their sum.
pub(crate) fn simplex(weights: &mut [f64], rng: &mut Rng) {
    weights.iter_mut().for_each(|w| *w = -(1.0 - rng.uniform()).ln());
    normalize(weights);
}

/// Keeps the weights of 1 to n − 1 corners, each number of them with the same probability.
fn face(weights: &mut [f64], rng: &mut Rng) {
    let n = weights.len();
    let mut keep = 1 + rng.index(n.saturating_sub(1));
    for i in 0..n {
        if rng.uniform() * ((n - i) as f64) < keep as f64 {
            keep -= 1;
        } else {
            weights[i] = 0.0;
        }
    }
    normalize(weights);
}

/// Divides by the sum; weights that are all 0 become equal.
pub(crate) fn normalize(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        weights.iter_mut().for_each(|w| *w /= sum);
    } else {
        let n = weights.len() as f64;
        weights.fill(1.0 / n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_support_and_mean_of_their_distribution() {
        let mut rng = Rng::new(3);
        for objective in [true, false] {
            let free = if objective { 4 } else { 3 };
            for sampler in [WeightSampler::Simplex, WeightSampler::Faces, WeightSampler::Box { high: 5.0 }] {
                let (mut mean, mut corners, mut w) = ([0.0; 4], 0, [f64::NAN; 4]);
                for _ in 0..20_000 {
                    sampler.draw(objective, &mut w, &mut rng);
                    mean.iter_mut().zip(&w).for_each(|(mean, w)| *mean += w / 20_000.0);
                    assert!(w.iter().all(|w| (0.0..=5.0).contains(w)), "{w:?}");
                    assert!(objective || w[0] == 0.0);
                    if matches!(sampler, WeightSampler::Box { .. }) {
                        assert!(!objective || w[0] == 1.0);
                    } else {
                        assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                        corners += u32::from(w.contains(&1.0));
                    }
                }
                match sampler {
                    WeightSampler::Box { .. } => assert!(mean[1..].iter().all(|m| (m - 2.5).abs() < 0.1)),
                    _ => assert!(mean[4 - free..].iter().all(|m| (m - 1.0 / free as f64).abs() < 0.02)),
                }
                // Half of the draws are from faces, and one in n − 1 of these is a corner.
                let expected = if sampler == WeightSampler::Faces { 0.5 / (free - 1) as f64 } else { 0.0 };
                assert!((f64::from(corners) / 20_000.0 - expected).abs() < 0.02, "{sampler:?} {corners}");
            }
        }
        let mut one = [f64::NAN; 2];
        WeightSampler::Faces.draw(false, &mut one, &mut rng);
        assert_eq!(one, [0.0, 1.0], "a single requirement and no objective");
        assert!(WeightSampler::Box { high: f64::NAN }.check().is_err());
        assert!(WeightSampler::Box { high: 0.0 }.check().is_err());
    }
}
