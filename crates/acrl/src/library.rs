//! A library of settled values: what a policy comes to when its weights are held.

use serde::{Deserialize, Serialize};

use crate::mixture::{Mixture, best_mixture};

/// One entry: the policy π(·, w) held for long, and the averages at which it settles.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryEntry {
    /// w₀ … w_m, nonnegative.
    pub weights: Vec<f64>,
    /// V₀ … V_m.
    pub values: Vec<f64>,
    /// Their standard errors; empty if they are taken as exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<f64>,
    /// The steps over which they were measured; 0 if they are taken as exact.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// The place at which it settles, one of those from which the way to entries was measured.
    pub place: usize,
    /// Σ (V − r) on the way here from each place: what a change to this entry costs.
    pub travel: Vec<Vec<f64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(steps: &u64) -> bool {
    *steps == 0
}

impl LibraryEntry {
    /// The variance of an average over so many steps of reward i, by what the visits differed.
    fn variance(&self, i: usize, steps: u64) -> f64 {
        let error = self.errors.get(i).copied().unwrap_or(0.0);
        error * error * self.steps as f64 / steps.max(1) as f64
    }
}

/// What π(·, w_j) settles at for many w_j.
///
/// It says what mixtures of the policy's behaviours can reach ([`PolicyLibrary::optimum`], and the diagnosis), where
/// the multipliers belong, and it can steer an execution: instead of π(·, λ) hold the entry that is best at λ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLibrary {
    /// The entries.
    pub entries: Vec<LibraryEntry>,
}

impl PolicyLibrary {
    /// Σ λ_i R_i over R₀ from which on an objective hardly matters: its share in the weights is .05 then.
    pub const ALONE: f64 = 19.0;

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
    ///
    /// Prices of values with errors may be anything; they count up to [`ALONE`](Self::ALONE) units. And the best of many such
    /// values was lucky: so the start is where requirements would be met if all entries had a standard error less of
    /// them, if they can be met then. A multiplier that is too large costs some of the objective until it has come down; one
    /// that is too small, what is required.
    pub fn start(&self, bounds: &[f64], scales: &[f64], objective: bool) -> Vec<f64> {
        let even = scales[1..].iter().map(|scale| scales[0] / scale);
        let most = if self.is_measured() { Self::ALONE } else { f64::INFINITY };
        match self.cautious().optimum(bounds).or_else(|| self.optimum(bounds)).filter(|_| objective) {
            Some(best) => {
                let prices = best.multipliers.iter().zip(even);
                prices.map(|(l, even)| l.clamp(0.5 * even, most * even)).collect()
            }
            None => even.collect(),
        }
    }

    /// The same with a standard error less of what is required.
    fn cautious(&self) -> Self {
        let mut library = self.clone();
        for LibraryEntry { values, errors, .. } in &mut library.entries {
            values.iter_mut().zip(errors).skip(1).for_each(|(value, error)| *value -= *error);
        }
        library
    }

    /// The settled averages V₁ … V_m, for a diagnosis.
    pub fn settled(&self) -> Vec<Vec<f64>> {
        self.entries.iter().map(|entry| entry.values[1..].to_vec()).collect()
    }

    /// Their standard errors; empty if no entry has any.
    pub fn settled_errors(&self) -> Vec<Vec<f64>> {
        if !self.is_measured() {
            return Vec::new();
        }
        let error = |entry: &LibraryEntry, i: usize| entry.errors.get(i).copied().unwrap_or(0.0);
        let of = |entry: &LibraryEntry| (1..entry.values.len()).map(|i| error(entry, i)).collect();
        self.entries.iter().map(of).collect()
    }

    /// Whether its values come with errors.
    pub fn is_measured(&self) -> bool {
        self.entries.iter().any(|entry| !entry.errors.is_empty())
    }

    /// The standard deviation of an average of V₀ … V_m over so many steps at weights that are held: the root mean square
    /// over entries.
    pub fn deviations(&self, rewards: usize, steps: u64) -> Vec<f64> {
        let n = self.entries.len().max(1) as f64;
        let variance = |i: usize| self.entries.iter().map(|entry| entry.variance(i, steps)).sum::<f64>() / n;
        (0..rewards).map(|i| variance(i).sqrt()).collect()
    }

    /// How far averages over an epoch range, in place of `units` that were measured over a few steps: R₀ … R_m for the dual
    /// dynamics.
    ///
    /// R_i of a requirement is how far the entries lie apart, or twice the deviation within one if that is more, as multipliers
    /// are not to follow chance; and a thirtieth of the unit at least. A policy was trained to weigh rewards in `units`, and
    /// what it does changes where λ_i is some U₀/U_i. So R₀ is U₀ times the (geometric) mean of R_i/U_i, and a deficit
    /// of R_i moves λ_i by as much of that as a deficit of U_i would have done before.
    ///
    /// If nobody knows how averages deviate, all are a whole unit at least.
    pub fn ranges(&self, units: &[f64], epoch: u64) -> Vec<f64> {
        let deviations = self.deviations(units.len(), epoch);
        let least = if self.is_measured() { 1.0 / 30.0 } else { 1.0 };
        let range = |(i, unit): (usize, &f64)| {
            let had = || self.entries.iter().map(|entry| entry.values[i]);
            let width = had().fold(f64::NEG_INFINITY, f64::max) - had().fold(f64::INFINITY, f64::min);
            width.max(2.0 * deviations[i]).max(least * unit)
        };
        let mut ranges: Vec<f64> = units.iter().enumerate().map(range).collect();
        if self.is_measured() {
            let m = (units.len() - 1).max(1) as f64;
            let narrower = ranges.iter().zip(units).skip(1).map(|(range, unit)| (range / unit).ln());
            ranges[0] = units[0] * (narrower.sum::<f64>() / m).exp();
        }
        ranges
    }

    /// The certified shortfalls that count as met: `share` of the ranges R₁ … R_m, but no more than a twentieth of what a
    /// requirement asks for, c_i − min_j V_ij. An agent that neglects it altogether never meets it.
    pub fn tolerances(&self, share: f64, bounds: &[f64], scales: &[f64]) -> Vec<f64> {
        let tolerance = |(i, (bound, scale)): (usize, (&f64, &f64))| {
            let least = self.entries.iter().map(|entry| entry.values[i + 1]).fold(f64::INFINITY, f64::min);
            let asked = bound - least;
            if asked > 0.0 { (share * scale).min(asked / 20.0) } else { share * scale }
        };
        bounds.iter().zip(scales).enumerate().map(tolerance).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> PolicyLibrary {
        let entry = |place: usize, value: f64| {
            let at = |i: usize, x: f64| if i == place { x } else { 0.0 };
            let travel =
                |from: usize| (0..3).map(|i| if from == place { 0.0 } else { at(i, 20.0) }).collect();
            LibraryEntry {
                weights: (0..3).map(|i| at(i, 1.0)).collect(),
                values: (0..3).map(|i| at(i, value)).collect(),
                place,
                travel: (0..3).map(travel).collect(),
                ..LibraryEntry::default()
            }
        };
        PolicyLibrary { entries: vec![entry(0, 0.9), entry(1, 0.9), entry(2, 0.9)] }
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
        assert_eq!(PolicyLibrary::default().best(&[1.0], None, 1), None);
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

    /// A cost of .11 or .02 per step, in bursts: 3,000 steps of each with a standard error of .02.
    fn bursts() -> PolicyLibrary {
        let entry = |values: [f64; 2]| LibraryEntry {
            weights: vec![1.0, 0.0],
            values: values.to_vec(),
            errors: vec![0.001, 0.02],
            steps: 3_000,
            ..LibraryEntry::default()
        };
        PolicyLibrary { entries: vec![entry([0.0, -0.11]), entry([0.01, -0.02])] }
    }

    #[test]
    fn ranges_are_those_of_averages() {
        // In a single step the cost is 0 or 1; over an epoch of 400 steps it deviates by .02·√(3000/400) = .055.
        let expected = 0.04 * 7.5f64.sqrt();
        let ranges = bursts().ranges(&[0.2, 1.0], 400);
        assert!((ranges[1] - expected).abs() < 1e-12, "{ranges:?}");
        assert!(
            (ranges[0] - 0.2 * expected).abs() < 1e-12,
            "weighed against each other as before: {ranges:?}"
        );
        // Averages over long epochs hardly deviate: the entries are .09 apart.
        let ranges = bursts().ranges(&[0.2, 1.0], 40_000);
        assert!((ranges[1] - 0.09).abs() < 1e-12, "{ranges:?}");
        // One that never differs has some range all the same.
        let one = PolicyLibrary { entries: vec![bursts().entries[0].clone()] };
        assert!((one.ranges(&[0.3, 1.2], 1 << 40)[1] - 0.04).abs() < 1e-12);
        assert_eq!(
            library().ranges(&[1.0, 0.5, 2.0], 400),
            [1.0, 0.9, 2.0],
            "without errors it is only widened"
        );
        assert_eq!(PolicyLibrary::default().ranges(&[3.0], 400), [3.0]);
    }

    #[test]
    fn values_with_errors_start_on_the_safe_side() {
        let entry = |values: [f64; 2], error: f64| LibraryEntry {
            weights: vec![1.0, 1.0],
            values: values.to_vec(),
            errors: vec![0.0, error],
            steps: 3_000,
            ..LibraryEntry::default()
        };
        let of = |error: f64| PolicyLibrary {
            entries: vec![entry([1.0, -0.1], error), entry([0.8, -0.04], error), entry([0.0, 0.0], error)],
        };
        let start = |error: f64| of(error).start(&[-0.05], &[1.0, 1.0], true)[0];
        // By their face the first two do; if they were lucky, the last one is needed, which is dear.
        assert!((start(1e-9) - 0.2 / 0.06).abs() < 1e-3, "{}", start(1e-9));
        assert!((start(0.02) - 19.0).abs() < 1e-9, "{}", start(0.02));
        assert!(
            (start(0.2) - 0.2 / 0.06).abs() < 1e-3,
            "if nothing is enough, by their face: {}",
            start(0.2)
        );
    }

    #[test]
    fn a_tolerance_is_small_beside_what_is_asked() {
        let tolerances = |bound: f64, scale: f64| bursts().tolerances(0.005, &[bound], &[scale])[0];
        assert_eq!(tolerances(-0.025, 0.2), 0.001, "a share of the range");
        assert!((tolerances(-0.10, 1.0) - 0.0005).abs() < 1e-12, "a twentieth of .11 − .10");
        assert_eq!(tolerances(-1000.0, 0.2), 0.001, "nothing is asked");
        // A reward that never was had: .005 of a range of 1 would be more than all that is required.
        let entry =
            LibraryEntry { weights: vec![0.0, 1.0], values: vec![0.0, 0.0], ..LibraryEntry::default() };
        let never = PolicyLibrary { entries: vec![entry] }.tolerances(0.005, &[0.00353], &[1.0])[0];
        assert!((never - 0.00353 / 20.0).abs() < 1e-12, "{never}");
    }

    #[test]
    fn old_entries_are_read_and_written_as_they_were() {
        let text = r#"{"weights":[0.5,0.5],"values":[1.0,2.0],"place":0,"travel":[]}"#;
        let entry: LibraryEntry = serde_json::from_str(text).unwrap();
        assert_eq!((entry.steps, entry.errors.len()), (0, 0));
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
    }
}
