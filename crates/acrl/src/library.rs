//! A library of settled values: what a policy comes to when its weights are held.

use serde::{Deserialize, Serialize};

use crate::mixture::{Mixture, best_mixture};

/// One entry: the policy π(·, w) held for long, and the averages at which it settles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// w₀ … w_m, nonnegative.
    pub weights: Vec<f64>,
    /// V₀ … V_m.
    pub values: Vec<f64>,
}

/// What π(·, w_j) settles at for many w_j.
///
/// It says what mixtures of the policy's behaviours can reach ([`Library::optimum`], and the diagnosis), where
/// the multipliers belong, and it is a fallback for execution: instead of π(·, λ) hold the entry that is
/// best at λ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The entries.
    pub entries: Vec<Settled>,
}

impl Library {
    /// A better entry must be better by this share of the prices before an execution changes to it: a
    /// change costs travel, of which the settled values know nothing.
    const HYSTERESIS: f64 = 0.1;

    /// argmax_j w·v_j for weights w = (1 or 0, λ), where `scales` are the ranges R₀ … R_m; `current` stays
    /// unless another one is clearly better.
    pub fn best(&self, weights: &[f64], scales: &[f64], current: Option<usize>) -> Option<usize> {
        let value =
            |j: usize| -> f64 { weights.iter().zip(&self.entries[j].values).map(|(w, v)| w * v).sum() };
        let best = (0..self.entries.len()).max_by(|&a, &b| value(a).total_cmp(&value(b)))?;
        let size: f64 = weights.iter().zip(scales).map(|(w, r)| w * r).sum();
        let kept = current.filter(|&j| value(j) >= value(best) - Self::HYSTERESIS * size);
        Some(kept.unwrap_or(best))
    }

    /// The best mixture of the entries that meets V_i ≥ c_i: an estimate of the optimum, and of λ*.
    pub fn optimum(&self, bounds: &[f64]) -> Option<Mixture> {
        let vectors: Vec<&[f64]> = self.entries.iter().map(|entry| entry.values.as_slice()).collect();
        best_mixture(&vectors, bounds)
    }

    /// λ₀ for an execution: the multipliers of the [optimum](Self::optimum), but at least half a unit of the
    /// objective's range for a unit of each reward's, because settled values know nothing of the way from one behaviour to
    /// the next; without an objective or an optimum, one unit. `scales` are R₀ … R_m.
    pub fn start(&self, bounds: &[f64], scales: &[f64], objective: bool) -> Vec<f64> {
        let even = scales[1..].iter().map(|scale| scales[0] / scale);
        match self.optimum(bounds).filter(|_| objective) {
            Some(best) => best.multipliers.iter().zip(even).map(|(l, even)| l.max(0.5 * even)).collect(),
            None => even.collect(),
        }
    }

    /// The settled averages V₁ … V_m, for a diagnosis.
    pub fn settled(&self) -> Vec<Vec<f64>> {
        self.entries.iter().map(|entry| entry.values[1..].to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        let entry = |weights: [f64; 3], values: [f64; 3]| Settled {
            weights: weights.to_vec(),
            values: values.to_vec(),
        };
        Library {
            entries: vec![
                entry([1.0, 0.0, 0.0], [0.9, 0.0, 0.0]),
                entry([0.0, 1.0, 0.0], [0.0, 0.9, 0.0]),
                entry([0.0, 0.0, 1.0], [0.0, 0.0, 0.9]),
            ],
        }
    }

    #[test]
    fn the_best_entry_is_kept_until_another_is_clearly_better() {
        let (library, scales) = (library(), [1.0; 3]);
        assert_eq!(library.best(&[1.0, 1.1, 0.0], &scales, None), Some(1));
        assert_eq!(library.best(&[1.0, 1.2, 0.0], &scales, Some(0)), Some(0));
        assert_eq!(library.best(&[1.0, 1.4, 0.0], &scales, Some(0)), Some(1));
        assert_eq!(Library::default().best(&[1.0], &[1.0], None), None);
    }

    #[test]
    fn its_optimum_has_prices() {
        let best = library().optimum(&[0.3, 0.3]).unwrap();
        assert!((best.value - 0.3).abs() < 1e-12);
        assert!(best.multipliers.iter().all(|l| (l - 1.0).abs() < 1e-12));
        assert!(library().optimum(&[0.5, 0.5]).is_none());
        let scales = [1.0, 1.0, 4.0];
        let start = library().start(&[0.3, -1.0], &scales, true);
        assert!((start[0] - 1.0).abs() < 1e-12 && start[1] == 0.125, "{start:?}");
        assert_eq!(library().start(&[0.3, -1.0], &scales, false), [1.0, 0.25]);
    }
}
