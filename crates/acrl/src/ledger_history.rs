//! The ledger and the multipliers along a run, for its report and its diagnosis.

use serde::{Deserialize, Serialize};

use crate::error::{arity, positive};
use crate::{DualDynamics, Epoch, Error};

/// Statistics of one multiplier over a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MultiplierStatistics {
    /// The value at the end.
    pub last: f64,
    /// The mean over steps.
    pub mean: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// The ledger in the middle of a run, and statistics of the multipliers.
///
/// A run of a planned length n keeps the certified deficit after n/2 steps, and statistics from step n/10 on.
/// A run without a planned end keeps at most [`MARKS`](Self::MARKS) evenly spaced ones, every
/// second of which is dropped when they become too many, so that one is always within n/16 steps
/// before the middle; its statistics are of all steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LedgerHistory {
    /// The planned steps n.
    planned: Option<u64>,
    /// The deficit after 0, `stride`, 2·`stride` … steps, or after 0 (later n/2) steps if they are
    /// planned.
    marks: Vec<Vec<f64>>,
    stride: u64,
    steps: u64,
    updates: u64,
    /// The step after which something is to be noted.
    next: u64,
    /// Steps over which `sums` were taken.
    weight: f64,
    sums: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
}

impl LedgerHistory {
    /// The largest number of marks.
    pub(crate) const MARKS: usize = 32;

    /// The history of a run that starts now, of `planned` steps or without a planned end.
    pub(crate) fn new(dynamics: &DualDynamics, planned: Option<u64>) -> Self {
        let lambda = dynamics.multipliers().as_slice().to_vec();
        let next = match planned {
            Some(n) if n >= 10 => n / 10,
            Some(n) => n / 2,
            None => 1,
        };
        Self {
            planned,
            marks: vec![dynamics.deficit_bounds()],
            stride: 1,
            steps: 0,
            updates: 0,
            next,
            weight: 0.0,
            sums: vec![0.0; lambda.len()],
            min: lambda.clone(),
            max: lambda,
        }
    }

    /// Rejects a stored history that does not fit m requirements.
    pub(crate) fn check(&self, m: usize) -> Result<(), Error> {
        arity("marks of the history", self.marks.len().max(1), self.marks.len())?;
        for values in self.marks.iter().chain([&self.sums, &self.min, &self.max]) {
            arity("requirements of the history", m, values.len())?;
        }
        positive("the stride of the history", self.stride as f64).map(|_| ())
    }

    /// Notes the multipliers after a dual update; to be called before [`step`](Self::step).
    #[inline]
    pub(crate) fn update(&mut self, epoch: &Epoch<'_>) {
        self.updates += 1;
        self.weight += epoch.steps as f64;
        for (i, &l) in epoch.multipliers.as_slice().iter().enumerate() {
            self.sums[i] += l * epoch.steps as f64;
            self.min[i] = self.min[i].min(l);
            self.max[i] = self.max[i].max(l);
        }
    }

    /// To be called after every step.
    #[inline]
    pub(crate) fn step(&mut self, dynamics: &DualDynamics) {
        self.steps += 1;
        if self.steps == self.next {
            self.mark(dynamics);
        }
    }

    #[cold]
    fn mark(&mut self, dynamics: &DualDynamics) {
        match self.planned {
            Some(n) => {
                if self.steps == n / 2 {
                    self.marks[0] = dynamics.deficit_bounds();
                }
                if self.steps == n / 10 {
                    self.restart_statistics(dynamics);
                }
                self.next = if self.steps < n / 2 { n / 2 } else { u64::MAX };
            }
            None => {
                if self.marks.len() == Self::MARKS {
                    let mut number = 0;
                    self.marks.retain(|_| {
                        number += 1;
                        number % 2 == 1
                    });
                    // This step is the next one on the wider grid, as the number of marks was even.
                    self.stride *= 2;
                }
                self.marks.push(dynamics.deficit_bounds());
                self.next = self.marks.len() as u64 * self.stride;
            }
        }
    }

    fn restart_statistics(&mut self, dynamics: &DualDynamics) {
        let lambda = dynamics.multipliers().as_slice();
        self.weight = 0.0;
        self.sums.fill(0.0);
        self.min.copy_from_slice(lambda);
        self.max.copy_from_slice(lambda);
    }

    /// The number of dual updates.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    /// The number of steps.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// (L_n − L_h)/(α (n − h)) of each requirement, where h is the middle of the run, or the last
    /// mark before it.
    pub(crate) fn deficit_rates(&self, dynamics: &DualDynamics) -> Vec<f64> {
        let (mark, middle) = match self.planned {
            Some(n) => (0, n / 2),
            None => {
                let last = (self.steps / 2 / self.stride).min(self.marks.len().saturating_sub(1) as u64);
                (last as usize, last * self.stride)
            }
        };
        let n = self.steps.saturating_sub(middle).max(1) as f64;
        dynamics.deficit_bounds().iter().zip(&self.marks[mark]).map(|(now, then)| (now - then) / n).collect()
    }

    /// The statistics of each multiplier.
    pub(crate) fn multipliers(&self, dynamics: &DualDynamics) -> Vec<MultiplierStatistics> {
        let entry = |(i, &last): (usize, &f64)| MultiplierStatistics {
            last,
            mean: if self.weight > 0.0 { self.sums[i] / self.weight } else { last },
            min: self.min[i],
            max: self.max[i],
        };
        dynamics.multipliers().as_slice().iter().enumerate().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpochLength, Requirement, Rewards, Rng};

    #[test]
    fn open_ended_history_keeps_a_mark_shortly_before_the_middle() {
        let requirement = Requirement::at_least("x", 0.5).unwrap();
        let mut dynamics = DualDynamics::new(vec![requirement], 0.3, EpochLength::Fixed(3)).unwrap();
        let mut history = LedgerHistory::new(&dynamics, None);
        let (mut deficits, mut rng) = (vec![dynamics.deficit_bounds()], Rng::new(1));
        for n in 1..=3000_u64 {
            if let Some(epoch) = dynamics.observe(&Rewards::new(vec![0.0, rng.uniform()]).unwrap()).unwrap() {
                history.update(&epoch);
            }
            history.step(&dynamics);
            deficits.push(dynamics.deficit_bounds());
            assert!(history.marks.len() <= LedgerHistory::MARKS);
            let rate = history.deficit_rates(&dynamics)[0];
            let middle = n / 2;
            let fits = |h: u64| {
                let expected = (deficits[n as usize][0] - deficits[h as usize][0]) / (n - h) as f64;
                (rate - expected).abs() < 1e-12
            };
            assert!((middle - (n / 16).min(middle)..=middle).any(fits), "{n}");
            if n.is_power_of_two() {
                assert!(fits(middle), "exactly the middle after {n} steps");
            }
        }
        assert_eq!((history.steps(), history.updates()), (3000, 1000));
    }
}
