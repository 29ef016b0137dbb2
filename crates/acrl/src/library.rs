//! A library of evaluated policies: the long-run averages of π(·, w) under fixed weights.
//!
//! It is a set of policies with known values, over which generalized policy improvement chooses the
//! best one (Barreto et al. 2017); its entries approximate a convex coverage set (Roijers et al.
//! 2013), and the optimum over their mixtures is a linear program.

use serde::{Deserialize, Serialize};

use crate::mixture::{Mixture, best_mixture};
use crate::time_sharing::TimeSharing;
use crate::{EpochSchedule, tolerance};

/// One evaluated policy π(·, w): its weights and its long-run averages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryEntry {
    /// w₀ … w_m, nonnegative.
    pub weights: Vec<f64>,
    /// V₀ … V_m.
    pub values: Vec<f64>,
    /// The standard errors of the values; empty if these are exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<f64>,
    /// The steps of the evaluation; 0 if the values are exact.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// The index of its stationary region, among those from which transients were measured.
    pub place: usize,
    /// Σ (V − r) of the transient from each region: the cost of a switch to this entry.
    pub travel: Vec<Vec<f64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(steps: &u64) -> bool {
    *steps == 0
}

impl LibraryEntry {
    /// The variance of an average of reward i over `steps` steps, by the standard error of the
    /// evaluation.
    fn variance(&self, i: usize, steps: u64) -> f64 {
        let error = self.errors.get(i).copied().unwrap_or(0.0);
        error * error * self.steps as f64 / steps.max(1) as f64
    }
}

/// The long-run averages of π(·, w_j) for many w_j.
///
/// It gives the best mixture of the policies ([`PolicyLibrary::optimum`], and the diagnosis),
/// initial multipliers, and an alternative to π(·, λ) in an execution: the entry that is best at λ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLibrary {
    /// The entries.
    pub entries: Vec<LibraryEntry>,
}

impl PolicyLibrary {
    /// Σ λ_i R_i over R₀ above which requirements dominate: the objective's share in the weights is
    /// below 0.05.
    pub const ALONE: f64 = 19.0;
    /// The smallest range of an average, as a share of its unit.
    pub const LEAST_RANGE: f64 = 1.0 / 30.0;

    /// argmax_j w·(v_j − d_j/n) for weights w = (1 or 0, λ): the entry to use for the next n steps.
    /// d_j is the cost of the switch from the `current` entry, and 0 for that one.
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

    /// The best mixture of the entries that meets V_i ≥ c_i: an estimate of the optimum and of λ*.
    pub fn optimum(&self, bounds: &[f64]) -> Option<Mixture> {
        let vectors: Vec<&[f64]> = self.entries.iter().map(|entry| entry.values.as_slice()).collect();
        best_mixture(&vectors, bounds)
    }

    /// Σ (V − r) of r₀ … r_m on the way from one entry to another; `None` if it was not measured.
    pub(crate) fn lost(&self, from: usize, to: usize) -> Option<&[f64]> {
        let (from, to) = (&self.entries[from], &self.entries[to]);
        to.travel.get(from.place).map(Vec::as_slice)
    }

    /// T₀ over time for [`Executor::TimeSharing`](crate::Executor): long enough to make changes of policy cheap, as far
    /// as their cost was measured, but at most a share of the time. `shortest` is used where nothing was measured.
    pub fn schedule(
        &self,
        bounds: &[f64],
        scales: &[f64],
        tolerances: &[f64],
        steps: Option<u64>,
        shortest: u64,
    ) -> EpochSchedule {
        TimeSharing::schedule(self, (bounds, scales), tolerances, steps, shortest)
    }

    /// λ₀ for an execution: the multipliers of the [optimum](Self::optimum); without an objective or an optimum, one unit
    /// of the objective's range for a unit of each reward's. `scales` are R₀ … R_m.
    ///
    /// The multipliers of inexact values are limited to [`ALONE`](Self::ALONE) units.
    pub fn start(&self, bounds: &[f64], scales: &[f64], objective: bool) -> Vec<f64> {
        let even = scales[1..].iter().map(|scale| scales[0] / scale);
        let most = if self.is_measured() { Self::ALONE } else { f64::INFINITY };
        match self.optimum(bounds).filter(|_| objective) {
            Some(best) => best.multipliers.iter().zip(even).map(|(l, even)| l.min(most * even)).collect(),
            None => even.collect(),
        }
    }

    /// The smallest share of the usual step size that is taken for small multipliers.
    pub const LEAST_STEP: f64 = 0.25;

    /// The step size of the dual update that fits λ₀: an epoch in which all of a reward is missing moves a multiplier at
    /// most by as much as the largest of λ₀ is, so that the multipliers do not jump over the weights that matter; but
    /// not less than [`LEAST_STEP`](Self::LEAST_STEP) of the usual `step_size`, because λ₀ is an estimate.
    pub fn step_size(&self, step_size: f64, bounds: &[f64], scales: &[f64], objective: bool) -> f64 {
        let start = self.start(bounds, scales, objective);
        let largest = start.iter().zip(&scales[1..]).map(|(l, r)| l * r / scales[0]).fold(0.0, f64::max);
        if objective && largest > 0.0 {
            step_size * (largest / step_size).clamp(Self::LEAST_STEP, 1.0)
        } else {
            step_size
        }
    }

    /// The long-run averages V₁ … V_m of the entries, for a diagnosis.
    pub fn values(&self) -> Vec<Vec<f64>> {
        self.entries.iter().map(|entry| entry.values[1..].to_vec()).collect()
    }

    /// The standard errors of these averages; empty if they are exact.
    pub fn standard_errors(&self) -> Vec<Vec<f64>> {
        if !self.is_measured() {
            return Vec::new();
        }
        let error = |entry: &LibraryEntry, i: usize| entry.errors.get(i).copied().unwrap_or(0.0);
        let of = |entry: &LibraryEntry| (1..entry.values.len()).map(|i| error(entry, i)).collect();
        self.entries.iter().map(of).collect()
    }

    /// True if the values have standard errors.
    pub fn is_measured(&self) -> bool {
        self.entries.iter().any(|entry| !entry.errors.is_empty())
    }

    /// The standard deviations of averages of r₀ … r_m over `steps` steps under fixed weights: the
    /// root mean square over entries.
    pub fn deviations(&self, rewards: usize, steps: u64) -> Vec<f64> {
        let n = self.entries.len().max(1) as f64;
        let variance = |i: usize| self.entries.iter().map(|entry| entry.variance(i, steps)).sum::<f64>() / n;
        (0..rewards).map(|i| variance(i).sqrt()).collect()
    }

    /// The ranges R₀ … R_m of averages over an epoch for the dual dynamics, in place of `units`,
    /// the ranges U₀ … U_m of rewards over a few steps.
    ///
    /// R_i of a requirement is the range over the entries, or twice the standard deviation within
    /// one if that is larger, so that multipliers do not follow noise; and at least
    /// [`LEAST_RANGE`](Self::LEAST_RANGE) units. A policy trained with rewards in `units` changes
    /// its behaviour where λ_i is about U₀/U_i. So R₀ is U₀ times the geometric mean of R_i/U_i,
    /// and a deficit of R_i moves λ_i by the same share of it as a deficit of U_i did.
    ///
    /// If the values have no standard errors, every range is at least one unit.
    pub fn ranges(&self, units: &[f64], epoch: u64) -> Vec<f64> {
        let deviations = self.deviations(units.len(), epoch);
        let least = if self.is_measured() { Self::LEAST_RANGE } else { 1.0 };
        let range = |(i, unit): (usize, &f64)| {
            let values = || self.entries.iter().map(|entry| entry.values[i]);
            let width = values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min);
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

    /// The [tolerances](tolerance) of certified shortfalls for a share of what is asked. The worst average is that of
    /// the worst entry, so that an agent that ignores a requirement never meets it.
    pub fn tolerances(&self, share: f64, bounds: &[f64], scales: &[f64]) -> Vec<f64> {
        let worst = |i: usize| {
            let values = self.entries.iter().map(|entry| entry.values[i + 1]);
            values.min_by(f64::total_cmp)
        };
        let bounds = bounds.iter().zip(scales).enumerate();
        bounds.map(|(i, (bound, scale))| tolerance(share, *bound, *scale, worst(i))).collect()
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
    fn best_entry_is_kept_until_another_is_worth_the_switch() {
        let library = library();
        assert_eq!(library.best(&[1.0, 1.1, 0.0], None, 100), Some(1));
        // A switch costs 20 steps of 100: 1.2·(0.9 − 0.2) < 0.9 < 1.4·(0.9 − 0.2).
        assert_eq!(library.best(&[1.0, 1.2, 0.0], Some(0), 100), Some(0));
        assert_eq!(library.best(&[1.0, 1.4, 0.0], Some(0), 100), Some(1));
        // Over more steps the switch matters less.
        assert_eq!(library.best(&[1.0, 1.2, 0.0], Some(0), 1000), Some(1));
        assert_eq!(PolicyLibrary::default().best(&[1.0], None, 1), None);
    }

    #[test]
    fn optimum_has_multipliers() {
        let best = library().optimum(&[0.3, 0.3]).unwrap();
        assert!((best.value - 0.3).abs() < 1e-12);
        assert!(best.multipliers.iter().all(|l| (l - 1.0).abs() < 1e-12));
        assert!(library().optimum(&[0.5, 0.5]).is_none());
        let scales = [1.0, 1.0, 4.0];
        let start = library().start(&[0.3, -1.0], &scales, true);
        assert!((start[0] - 1.0).abs() < 1e-12 && start[1] == 0.0, "{start:?}");
        assert_eq!(library().start(&[0.3, -1.0], &scales, false), [1.0, 0.25]);
    }

    /// A cost of 0.11 or 0.02 per step, in bursts: 3,000 steps of each with a standard error of 0.02.
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
    fn ranges_are_those_of_averages_over_an_epoch() {
        // In a single step the cost is 0 or 1; over an epoch of 400 steps its standard deviation is
        // 0.02·√(3000/400) = 0.055.
        let expected = 0.04 * 7.5f64.sqrt();
        let ranges = bursts().ranges(&[0.2, 1.0], 400);
        assert!((ranges[1] - expected).abs() < 1e-12, "{ranges:?}");
        assert!((ranges[0] - 0.2 * expected).abs() < 1e-12, "the ratio of the units is kept: {ranges:?}");
        // Averages over long epochs hardly vary: the entries are 0.09 apart.
        let ranges = bursts().ranges(&[0.2, 1.0], 40_000);
        assert!((ranges[1] - 0.09).abs() < 1e-12, "{ranges:?}");
        // A constant reward has the smallest range.
        let one = PolicyLibrary { entries: vec![bursts().entries[0].clone()] };
        assert!((one.ranges(&[0.3, 1.2], 1 << 40)[1] - 0.04).abs() < 1e-12);
        assert_eq!(
            library().ranges(&[1.0, 0.5, 2.0], 400),
            [1.0, 0.9, 2.0],
            "without errors ranges are only widened"
        );
        assert_eq!(PolicyLibrary::default().ranges(&[3.0], 400), [3.0]);
    }

    #[test]
    fn start_is_the_optimum_and_the_step_fits_it() {
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
        // The third entry's error does not matter for a bound that the first two meet.
        for error in [1e-9, 0.02] {
            let start = of(error).start(&[-0.05], &[1.0, 1.0], true)[0];
            assert!((start - 0.2 / 0.06).abs() < 1e-9, "{start}");
        }
        assert_eq!(of(0.02).start(&[-0.01], &[1.0, 1.0], true)[0], 19.0, "a limit");
        let step = |bound: f64, scale: f64| of(0.02).step_size(1.2, &[bound], &[1.0, scale], true);
        assert_eq!(step(-0.05, 1.0), 1.2);
        assert!((step(-0.05, 0.2) - 0.04 / 0.06).abs() < 1e-9);
        assert!((step(-0.05, 0.01) - 0.3).abs() < 1e-9);
        assert_eq!(step(-1.0, 0.01), 1.2, "a price of 0 has no size");
    }

    #[test]
    fn tolerance_is_a_share_of_the_distance_from_the_worst_entry() {
        let tolerances = |bound: f64, scale: f64| bursts().tolerances(0.01, &[bound], &[scale])[0];
        assert!((tolerances(-0.10, 1.0) - 0.0001).abs() < 1e-12, "of 0.11 − 0.10");
        assert_eq!(tolerances(-1000.0, 0.2), 0.001, "every entry meets the bound: of half the range");
        let zeros = vec![0.0, 0.0];
        let entry = LibraryEntry { values: zeros, ..LibraryEntry::default() };
        let never = PolicyLibrary { entries: vec![entry] };
        assert!((never.tolerances(0.01, &[0.00353], &[1.0])[0] - 0.0000353).abs() < 1e-12);
        assert_eq!(PolicyLibrary::default().tolerances(0.01, &[0.2], &[1.0])[0], 0.002);
    }

    #[test]
    fn exact_entries_are_stored_without_errors_and_steps() {
        let text = r#"{"weights":[0.5,0.5],"values":[1.0,2.0],"place":0,"travel":[]}"#;
        let entry: LibraryEntry = serde_json::from_str(text).unwrap();
        assert_eq!((entry.steps, entry.errors.len()), (0, 0));
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
    }
}
