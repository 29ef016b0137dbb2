//! Which weights to train on.

use acrl::Rng;
use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::error::setting;

/// How weights w₀ … w_m are drawn for training. Without an objective w₀ = 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeightSampler {
    /// Half of the environments take the weights of dual dynamics that run while they train, so that training sees what an
    /// execution will ask for; the others those of `Corners`. For learners that train in environments.
    Dual,
    /// Uniformly from the simplex of weights that add up to 1.
    Simplex,
    /// Half of them from the whole simplex, half from one of its faces of any dimension, corners and edges
    /// included: where some requirements are met with room to spare, their weights are 0.
    Corners,
    /// (1, λ), or (0, λ) without an objective, λ uniformly from \[0, high\]^m: the paper's Λ.
    Box {
        /// The upper end.
        high: f64,
    },
}

impl WeightSampler {
    /// Refuses a box without inside.
    pub fn check(self) -> Result<(), LearnError> {
        match self {
            Self::Box { high } => setting("high", high, f64::MIN_POSITIVE.., "a finite number above 0"),
            Self::Dual | Self::Simplex | Self::Corners => Ok(()),
        }
    }

    /// Writes w₀ … w_m.
    pub fn draw(self, has_objective: bool, weights: &mut [f64], rng: &mut Rng) {
        let first = usize::from(!has_objective).min(weights.len());
        let (objective, rest) = weights.split_at_mut(first);
        objective.fill(0.0);
        match self {
            Self::Simplex => simplex(rest, rng),
            Self::Corners | Self::Dual => {
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
    normalise(weights);
}

/// Keeps the weights of 1 to n − 1 corners, every number of them as likely as another.
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
    normalise(weights);
}

/// Divides by the sum; weights that are all 0 become equal.
pub(crate) fn normalise(weights: &mut [f64]) {
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
    fn draws_lie_where_they_should_and_cover_it() {
        let mut rng = Rng::new(3);
        for objective in [true, false] {
            let free = if objective { 4 } else { 3 };
            for sampler in [WeightSampler::Simplex, WeightSampler::Corners, WeightSampler::Box { high: 5.0 }]
            {
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
                // Half of the draws from faces, one in n − 1 of these is a corner.
                let expected = if sampler == WeightSampler::Corners { 0.5 / (free - 1) as f64 } else { 0.0 };
                assert!((f64::from(corners) / 20_000.0 - expected).abs() < 0.02, "{sampler:?} {corners}");
            }
        }
        let mut one = [f64::NAN; 2];
        WeightSampler::Corners.draw(false, &mut one, &mut rng);
        assert_eq!(one, [0.0, 1.0], "a single requirement and no objective");
        assert!(WeightSampler::Box { high: f64::NAN }.check().is_err());
        assert!(WeightSampler::Box { high: 0.0 }.check().is_err());
    }
}
