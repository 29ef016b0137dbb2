//! Time limits of episodes, estimated from truncations and modelled by phases.

use serde::{Deserialize, Serialize};

use crate::tuning::tabular::{MOST_PHASES, PHASED_STATES};

/// Lengths of the episodes that were truncated.
///
/// A policy that waits until it is cut off has other averages than in a model without a limit. The time that is left of an
/// episode is part of the state, but counts do not depend on it; so the model divides an episode into K phases, each of which
/// ends with probability K/T per step, and the last of which ends the episode: an Erlang distribution of the mean T and the
/// standard deviation T/√K, the simplest phase-type approximation of a fixed time (Neuts 1981).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeLimit {
    episodes: u64,
    /// Σ of lengths, and of their squares.
    steps: f64,
    squares: f64,
}

/// Division of episodes into phases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Phases {
    /// K; 1 without a time limit.
    pub(crate) count: usize,
    /// Probability per step that a phase ends.
    pub(crate) rate: f64,
}

impl Phases {
    /// Phase after this number of steps of an episode; the first one after twice the limit, when ends of episodes are
    /// obviously not reported.
    pub(crate) fn after(self, steps: u64) -> usize {
        let phase = (steps as f64 * self.rate) as usize;
        if phase >= 2 * self.count { 0 } else { phase.min(self.count - 1) }
    }
}

impl TimeLimit {
    /// Counts an episode that was truncated after this number of steps.
    pub(super) fn truncated(&mut self, steps: u64) {
        let steps = steps as f64;
        self.episodes += 1;
        self.steps += steps;
        self.squares += steps * steps;
    }

    /// Whether no episode was truncated.
    pub(super) fn is_unknown(&self) -> bool {
        self.episodes == 0
    }

    /// Mean length of the episodes that were truncated.
    pub fn mean(&self) -> Option<f64> {
        (self.episodes > 0).then(|| self.steps / self.episodes as f64)
    }

    /// Whether all of them had this length.
    pub(super) fn is(&self, steps: u64) -> bool {
        let steps = steps as f64;
        self.episodes > 0 && self.steps == steps * self.episodes as f64 && self.squares == self.steps * steps
    }

    /// Phases for a model with this number of states: as many as the lengths and the size of the model allow.
    pub(crate) fn phases(&self, states: usize) -> Phases {
        let none = Phases { count: 1, rate: 0.0 };
        let Some(mean) = self.mean() else { return none };
        let variance = (self.squares / self.episodes as f64 - mean * mean).max(0.0);
        let fitting = if variance > 0.0 { mean * mean / variance } else { f64::INFINITY };
        let most = (PHASED_STATES / states.max(1)).min(MOST_PHASES) as f64;
        let count = most.min(fitting.round()).min(mean) as usize;
        if count > 1 { Phases { count, rate: count as f64 / mean } } else { none }
    }

    /// `Err` if the numbers cannot be sums of lengths.
    pub(super) fn check(&self) -> Result<(), String> {
        let n = self.episodes as f64;
        let possible =
            self.steps.is_finite() && self.steps >= n && self.squares * n >= 0.999 * self.steps.powi(2);
        if possible && self.squares.is_finite() {
            Ok(())
        } else {
            Err("the lengths of truncated episodes cannot be used".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_the_lengths_of_truncated_episodes() {
        let mut limit = TimeLimit::default();
        assert_eq!((limit.phases(10).count, limit.mean(), limit.is(200)), (1, None, false));
        (0..5).for_each(|_| limit.truncated(200));
        let phases = limit.phases(10);
        assert_eq!((phases.count, phases.rate), (MOST_PHASES, MOST_PHASES as f64 / 200.0));
        assert!(limit.is(200) && !limit.is(199) && limit.check().is_ok());
        assert_eq!([0, 199, 300, 400].map(|t| phases.after(t)), [0, MOST_PHASES - 1, MOST_PHASES - 1, 0]);
        assert_eq!(limit.phases(PHASED_STATES).count, 1, "a large model ignores the limit");
        // An exponential distribution has one phase: nothing remembers how long an episode lasts.
        let mut random = TimeLimit::default();
        (1..100).for_each(|k| random.truncated((-(f64::from(k) / 100.0).ln() * 100.0) as u64 + 1));
        assert!(random.phases(10).count <= 1, "{:?}", random.phases(10));
        assert!(TimeLimit { episodes: 2, steps: 1.0, squares: 1.0 }.check().is_err());
        assert!(TimeLimit { episodes: 2, steps: f64::NAN, squares: 1.0 }.check().is_err());
    }
}
