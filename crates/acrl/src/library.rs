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
    /// The place at which it settles, one of those from which the way to entries was measured.
    pub place: usize,
    /// Σ (V − r) on the way here from each place: what a change to this entry costs.
    pub travel: Vec<Vec<f64>>,
}

/// What π(·, w_j) settles at for many w_j.
///
/// It says what mixtures of the policy's behaviours can reach ([`Library::optimum`], and the diagnosis), where
/// the multipliers belong, and it can steer an execution: instead of π(·, λ) hold the entry that is best at λ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The entries.
    pub entries: Vec<Settled>,
}

impl Library {
    /// argmax_j w·(v_j − d_j/n) for weights w = (1 or 0, λ): the entry to hold for the next n steps. d_j is what
    /// the way costs from where the `current` entry is, and nothing for that one.
    pub fn best(&self, weights: &[f64], current: Option<usize>, steps: u64) -> Option<usize> {
        let dot = |v: &[f64]| -> f64 { weights.iter().zip(v).map(|(w, v)| w * v).sum() };
        let place = current.and_then(|j| self.entries.get(j)).map(|entry| entry.place);
        let value = |j: usize| {
            let entry = &self.entries[j];
            let travel = place.filter(|_| current != Some(j)).and_then(|i| entry.travel.get(i));
            dot(&entry.values) - travel.map_or(0.0, |d| dot(d).max(0.0)) / steps.max(1) as f64
        };
        let values: Vec<f64> = (0..self.entries.len()).map(value).collect();
        (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b]))
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
        let entry = |place: usize, value: f64| {
            let at = |i: usize, x: f64| if i == place { x } else { 0.0 };
            let travel =
                |from: usize| (0..3).map(|i| if from == place { 0.0 } else { at(i, 20.0) }).collect();
            Settled {
                weights: (0..3).map(|i| at(i, 1.0)).collect(),
                values: (0..3).map(|i| at(i, value)).collect(),
                place,
                travel: (0..3).map(travel).collect(),
            }
        };
        Library { entries: vec![entry(0, 0.9), entry(1, 0.9), entry(2, 0.9)] }
    }

    #[test]
    fn the_best_entry_is_kept_until_another_is_worth_the_way() {
        let library = library();
        assert_eq!(library.best(&[1.0, 1.1, 0.0], None, 100), Some(1));
        // 20 steps of 100 are lost on the way: 1.2·(.9 − .2) < .9 < 1.4·(.9 − .2).
        assert_eq!(library.best(&[1.0, 1.2, 0.0], Some(0), 100), Some(0));
        assert_eq!(library.best(&[1.0, 1.4, 0.0], Some(0), 100), Some(1));
        // Over a longer time the way matters less.
        assert_eq!(library.best(&[1.0, 1.2, 0.0], Some(0), 1000), Some(1));
        assert_eq!(Library::default().best(&[1.0], None, 1), None);
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
