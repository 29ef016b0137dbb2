//! What an execution without a known end remembers, in order to be diagnosed at any time.

use serde::{Deserialize, Serialize};

use crate::{DiagnosisInput, DualDynamics};

/// Where the ledger of a run stood on its way, at a few dozen steps that are evenly spaced, however long the run.
///
/// A run of n steps that is planned looks at its ledger after n/2 steps ([`crate::Execution::growth`]). One that goes on for
/// ever cannot know when that is; it keeps at most [`MARKS`](Self::MARKS) marks, every second of which is dropped when
/// they become too many, so that there always is one within n/16 steps before the middle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerHistory {
    /// The ledger after 0, `stride`, 2·`stride` … steps.
    marks: Vec<Vec<f64>>,
    stride: u64,
    steps: u64,
    updates: u64,
}

impl LedgerHistory {
    /// The most marks.
    pub const MARKS: usize = 32;

    /// From here on.
    pub fn new(dynamics: &DualDynamics) -> Self {
        Self { marks: vec![dynamics.ledger()], stride: 1, steps: 0, updates: 0 }
    }

    /// To be called after every step; `updated` says whether the multipliers have moved.
    #[inline]
    pub fn step(&mut self, dynamics: &DualDynamics, updated: bool) {
        self.steps += 1;
        self.updates += u64::from(updated);
        if self.steps == self.marks.len() as u64 * self.stride {
            self.mark(dynamics);
        }
    }

    fn mark(&mut self, dynamics: &DualDynamics) {
        if self.marks.len() < Self::MARKS {
            self.marks.push(dynamics.ledger());
            return;
        }
        let mut number = 0;
        self.marks.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.stride *= 2;
        // This very step is the next one on the wider grid, as the number of marks was even.
        self.marks.push(dynamics.ledger());
    }

    /// The dual updates since.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The steps since.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// (L_n − L_h)/(α (n − h)) of each requirement, where h is the last mark in the first half.
    pub fn growth(&self, dynamics: &DualDynamics) -> Vec<f64> {
        let last = (self.steps / 2 / self.stride).min(self.marks.len().saturating_sub(1) as u64);
        let steps = (self.steps - last * self.stride).max(1) as f64;
        let ledger = dynamics.ledger();
        match self.marks.get(last as usize) {
            Some(mark) if mark.len() == ledger.len() => {
                (0..ledger.len()).map(|i| (ledger[i] - mark[i]) / (dynamics.gains()[i] * steps)).collect()
            }
            _ => vec![0.0; ledger.len()],
        }
    }

    /// What the run itself shows, for a diagnosis; a certified shortfall of `tolerance` times its reward's range is met.
    pub fn symptoms(&self, dynamics: &DualDynamics, tolerance: f64) -> DiagnosisInput<'static> {
        let (requirements, scales) = (dynamics.requirements(), dynamics.scales());
        let multipliers = dynamics.multipliers().as_slice().iter().zip(scales);
        DiagnosisInput {
            names: requirements.iter().map(|r| r.name().to_owned()).collect(),
            bounds: requirements.iter().map(crate::Requirement::c).collect(),
            scales: scales.to_vec(),
            tolerances: scales.iter().map(|scale| tolerance * scale).collect(),
            shortfalls: dynamics.shortfalls(),
            growth: self.growth(dynamics),
            size: multipliers.map(|(l, scale)| l * scale).sum(),
            updates: self.updates,
            ..DiagnosisInput::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpochLength, Requirement, Rewards, Rng};

    #[test]
    fn there_is_always_a_mark_shortly_before_the_middle() {
        let requirement = Requirement::at_least("x", 0.5).unwrap();
        let mut dynamics = DualDynamics::new(vec![requirement], 0.3, EpochLength::Fixed(3)).unwrap();
        let mut recollection = LedgerHistory::new(&dynamics);
        let (mut ledgers, mut rng) = (vec![dynamics.ledger()], Rng::new(1));
        for n in 1..=3000_u64 {
            let updated =
                dynamics.observe(&Rewards::new(vec![0.0, rng.uniform()]).unwrap()).unwrap().is_some();
            recollection.step(&dynamics, updated);
            ledgers.push(dynamics.ledger());
            assert!(recollection.marks.len() <= LedgerHistory::MARKS);
            let growth = recollection.growth(&dynamics)[0];
            let middle = n / 2;
            let fits = |h: u64| {
                let expected = (ledgers[n as usize][0] - ledgers[h as usize][0])
                    / (dynamics.gains()[0] * (n - h) as f64);
                (growth - expected).abs() < 1e-12
            };
            assert!((middle - (n / 16).min(middle)..=middle).any(fits), "{n}");
            if n.is_power_of_two() {
                assert!(fits(middle), "exactly the middle after {n} steps");
            }
        }
        assert_eq!((recollection.steps(), recollection.updates()), (3000, 1000));
    }
}
