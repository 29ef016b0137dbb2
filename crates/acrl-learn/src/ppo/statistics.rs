//! Where observations and rewards lie, as far as they were seen: for environments that do not say.

use acrl::{BatchMatrix, Interval};
use serde::{Deserialize, Serialize};

/// Observations in a range wider than this are scaled by what is seen.
const WIDE: f64 = 4.0;

/// Where a reward lies.
pub(super) struct Spread {
    /// The least and the greatest average over a block of steps.
    pub(super) low: f64,
    pub(super) high: f64,
    /// What it usually is: the median.
    pub(super) usual: f64,
    /// The standard deviation from step to step.
    deviation: f64,
    /// The greatest |r|.
    largest: f64,
}

impl Spread {
    pub(super) fn of(seen: &[BatchMatrix], row: usize, block: usize) -> Self {
        let num_envs = seen.first().map_or(0, BatchMatrix::num_envs);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for steps in seen.chunks(block) {
            for env in 0..num_envs {
                let mean = steps.iter().map(|rewards| rewards.at(row, env)).sum::<f64>() / steps.len() as f64;
                (low, high) = (low.min(mean), high.max(mean));
            }
        }
        let all = || seen.iter().flat_map(|rewards| rewards.row(row).iter().copied());
        let count = (seen.len() * num_envs).max(1) as f64;
        let mean = all().sum::<f64>() / count;
        let deviation = (all().map(|r| (r - mean).powi(2)).sum::<f64>() / count).sqrt();
        let mut sorted: Vec<f64> = all().collect();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        Self { low, high, usual, deviation, largest: all().fold(0.0, |a, r| r.abs().max(a)) }
    }

    /// Whether it is the same all the time.
    pub(super) fn is_constant(&self) -> bool {
        self.deviation <= 1e-9 * self.largest
    }

    /// Whether it is 0 all the time.
    pub(super) fn is_nothing(&self) -> bool {
        self.largest == 0.0
    }

    /// The unit in which the reward is measured: its size if it is the same all the time, and 1 if that is 0.
    pub(super) fn unit(&self) -> f64 {
        let varied = (self.high - self.low).max(self.deviation).max(1e-3 * self.largest);
        let unit = if self.is_constant() { self.largest } else { varied };
        if unit.is_finite() && unit > f64::MIN_POSITIVE { unit } else { 1.0 }
    }
}

/// Means and deviations of observations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Statistics {
    count: f64,
    means: Vec<f64>,
    /// Σ (x − mean)².
    squares: Vec<f64>,
}

impl Statistics {
    pub(super) fn new(rows: usize) -> Self {
        Self { count: 0.0, means: vec![0.0; rows], squares: vec![0.0; rows] }
    }

    /// Adds the environments of an observation.
    pub(super) fn visit(&mut self, observation: &BatchMatrix) {
        let n = observation.num_envs() as f64;
        let total = self.count + n;
        for (row, (mean, squares)) in self.means.iter_mut().zip(&mut self.squares).enumerate() {
            let num_envs = observation.row(row);
            let of_envs = num_envs.iter().sum::<f64>() / n;
            let about = num_envs.iter().map(|x| (x - of_envs).powi(2)).sum::<f64>();
            let apart = of_envs - *mean;
            *mean += apart * n / total;
            *squares += about + apart * apart * self.count * n / total;
        }
        self.count = total;
    }

    /// The sum of the variances of observations that are scaled from these intervals to −1 … 1.
    pub(super) fn variance(&self, intervals: &[Interval]) -> f64 {
        let of = |(squares, interval): (&f64, &Interval)| {
            squares / self.count.max(1.0) / (0.5 * interval.width()).powi(2)
        };
        self.squares.iter().zip(intervals).map(of).sum()
    }

    /// Where to scale from: the range itself if it is narrow, else two deviations around the mean.
    pub(super) fn intervals(&self, ranges: &[Interval]) -> Vec<Interval> {
        let measured = |row: usize, range: &Interval| {
            if range.is_bounded() && range.width() <= WIDE {
                return *range;
            }
            let (mean, deviation) = (self.means[row], (self.squares[row] / self.count.max(1.0)).sqrt());
            // What has not changed yet is taken as it is.
            let half = if deviation > 1e-9 * (1.0 + mean.abs()) { 2.0 * deviation } else { 1.0 };
            Interval::new(mean - half, mean + half)
        };
        ranges.iter().enumerate().map(|(row, range)| measured(row, range)).collect()
    }
}

#[cfg(test)]
mod tests {
    use acrl::Rng;

    use super::*;

    /// The variance of observations drawn by this, scaled as they would be.
    fn variance(rows: usize, range: Interval, mut draw: impl FnMut(usize) -> Vec<f64>) -> f64 {
        let (mut statistics, mut seen) = (Statistics::new(rows), BatchMatrix::zeros(rows, 1));
        for t in 0..2000 {
            seen.set_column(0, &draw(t));
            statistics.visit(&seen);
        }
        statistics.variance(&statistics.intervals(&vec![range; rows]))
    }

    #[test]
    fn the_more_there_is_to_see_the_larger_its_variance() {
        let mut rng = Rng::new(1);
        let mut noise = |rows: usize| (0..rows).map(|_| 7.0 + 100.0 * rng.uniform()).collect::<Vec<_>>();
        // Two deviations are scaled to 1, so each number has a variance of a quarter.
        assert!((variance(4, Interval::UNBOUNDED, |_| noise(4)) - 1.0).abs() < 1e-9);
        assert!((variance(60, Interval::UNBOUNDED, |_| noise(60)) - 15.0).abs() < 1e-9);
        // One of many choices is not much to see: it goes from −1 to 1 and back.
        let choice =
            variance(50, Interval::new(0.0, 1.0), |t| (0..50).map(|k| f64::from(k == t % 50)).collect());
        assert!((choice - 4.0 * 0.98).abs() < 1e-9, "{choice}");
        assert_eq!(variance(3, Interval::UNBOUNDED, |_| vec![1.0; 3]), 0.0, "nothing moves");
    }

    #[test]
    fn a_reward_that_never_changes_is_measured_by_its_size() {
        let seen = |r: fn(usize) -> f64| {
            let row = |t: usize| {
                let mut rows = BatchMatrix::zeros(1, 2);
                rows.row_mut(0).fill(r(t));
                rows
            };
            Spread::of(&(0..64).map(row).collect::<Vec<_>>(), 0, 16)
        };
        // In units of its deviation it would be a thousand of them, and drown all else.
        let time = seen(|_| -1.0);
        assert_eq!((time.is_constant(), time.unit(), time.usual), (true, 1.0, -1.0));
        let nothing = seen(|_| 0.0);
        assert_eq!((nothing.is_constant(), nothing.unit(), nothing.usual), (true, 1.0, 0.0));
        // What is rare is usually not there.
        let rare = seen(|t| if t == 3 { 5.0 } else { 0.0 });
        assert_eq!((rare.is_constant(), rare.usual), (false, 0.0));
        assert!(rare.unit() < 1.0);
    }
}
