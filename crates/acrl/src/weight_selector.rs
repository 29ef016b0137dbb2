//! The choice of the weights to act with, given the multipliers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::time_sharing::{TimeSharing, TurnEvent};
use crate::{DualDynamics, PolicyLibrary};

/// The rule that turns λ into weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// π(·, λ); and the library, if there is one, once the multipliers keep growing.
    #[default]
    Policy,
    /// The entry of the library that is best at λ, for an epoch at a time.
    Library,
    /// Entries of the library in turns, in shares of each epoch that make up for what is missing.
    TimeSharing,
}

/// The choice of weights for one run, as a state machine without I/O.
///
/// It is used at the start and whenever the multipliers have moved. With [`Executor::Policy`] the
/// weights are (1, λ) or (0, λ); but when the epoch has become [`FALLBACK`](Self::FALLBACK) times
/// as long as it was, the policy by itself is not sufficient: from then on the run uses the entry
/// of the library that is best at its multipliers (generalized policy improvement over a set of
/// policies, Barreto et al. 2017), and T₀ restarts at its initial length.
///
/// The values of an entry that states over how many steps it was evaluated are updated online:
/// rewards of an epoch that follows another one with the same entry are added to its evaluation
/// ([`corrected`](Self::corrected)).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightSelector {
    executor: Executor,
    /// T₀ at the start.
    length: u64,
    /// The entry of the library in use.
    entry: Option<usize>,
    /// Rewards observed in this run, by entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    observed: Vec<Observed>,
    /// The sums at the beginning of this epoch, if it counts for its entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch_start: Option<EpochStart>,
    /// Turns of this epoch, with [`Executor::TimeSharing`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turns: Option<TimeSharing>,
}

/// Rewards observed with one entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Observed {
    steps: u64,
    /// Σ r₁ … Σ r_m.
    sums: Vec<f64>,
}

/// Steps and sums at the beginning of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EpochStart {
    /// The steps in all, and since the ledger was opened.
    steps: [u64; 2],
    /// Σ r₁ … Σ r_m since the ledger was opened.
    sums: Vec<f64>,
}

impl WeightSelector {
    /// A run changes over to the library when its epoch has become this many times as long.
    pub(crate) const FALLBACK: u64 = 4;

    /// The choice for a run that starts with these dynamics.
    pub(crate) fn new(executor: Executor, dynamics: &DualDynamics) -> Self {
        Self {
            executor,
            length: dynamics.epoch_length(),
            entry: None,
            observed: Vec::new(),
            epoch_start: None,
            turns: (executor == Executor::TimeSharing).then(TimeSharing::default),
        }
    }

    /// Writes the weights w₀ … w_m to act with until the multipliers move again; `objective` is w₀
    /// beside λ, 1 or 0.
    ///
    /// # Panics
    /// If the number of weights is not m + 1, or if the library is made for another number of
    /// requirements.
    #[inline]
    pub(crate) fn select(
        &mut self,
        dynamics: &mut DualDynamics,
        library: Option<&PolicyLibrary>,
        objective: f64,
        weights: &mut [f64],
    ) {
        weights[0] = objective;
        weights[1..].copy_from_slice(dynamics.multipliers().as_slice());
        let Some(library) = library.filter(|library| !library.entries.is_empty()) else { return };
        match self.turns.take() {
            Some(mut turns) => {
                self.end_epoch(dynamics);
                self.entry = turns.begin_epoch(&self.corrected(library), dynamics, objective, self.entry);
                self.turns = Some(turns);
                if let Some(j) = self.entry {
                    weights.copy_from_slice(&library.entries[j].weights);
                }
            }
            None => self.select_entry(dynamics, library, weights),
        }
    }

    /// Counts a step within an epoch; writes the weights of the entry whose turn begins.
    #[inline]
    pub(crate) fn step(
        &mut self,
        dynamics: &DualDynamics,
        library: Option<&PolicyLibrary>,
        weights: &mut [f64],
    ) {
        let (Some(turns), Some(library)) = (&mut self.turns, library) else { return };
        match turns.step() {
            None => {}
            Some(TurnEvent::Half) => self.begin_observation(dynamics, library),
            Some(TurnEvent::Next(j)) => {
                self.end_epoch(dynamics);
                self.entry = Some(j);
                weights.copy_from_slice(&library.entries[j].weights);
            }
        }
    }

    /// Begins to count rewards for the entry in use, if its values have standard errors.
    fn begin_observation(&mut self, dynamics: &DualDynamics, library: &PolicyLibrary) {
        if self.entry.is_some_and(|j| library.entries[j].steps > 0) {
            let (opened, totals) = dynamics.totals();
            let steps = [dynamics.steps(), opened];
            self.epoch_start = Some(EpochStart { steps, sums: totals[1..].to_vec() });
        }
    }

    /// Replaces the weights (1 or 0, λ) by those of an entry, if the run uses the library.
    fn select_entry(&mut self, dynamics: &mut DualDynamics, library: &PolicyLibrary, weights: &mut [f64]) {
        let stuck = dynamics.epoch_length() >= self.length.saturating_mul(Self::FALLBACK);
        if self.executor() == Executor::Policy {
            if !stuck {
                return;
            }
            dynamics.restart_epoch_length(self.length);
        }
        self.end_epoch(dynamics);
        let (corrected, before) = (self.corrected(library), self.entry);
        self.entry = corrected.best(weights, before, dynamics.epoch_length());
        if let Some(j) = self.entry {
            weights.copy_from_slice(&library.entries[j].weights);
        }
        // Rewards on the way from another entry are not those of this one.
        if self.entry == before {
            self.begin_observation(dynamics, library);
        }
    }

    /// Adds an epoch that counts to the observations of its entry.
    fn end_epoch(&mut self, dynamics: &DualDynamics) {
        let (Some(start), Some(j)) = (self.epoch_start.take(), self.entry) else { return };
        let (opened, totals) = dynamics.totals();
        let steps = dynamics.steps() - start.steps[0];
        // A ledger that was opened meanwhile, because a bound has changed, covers only a part of
        // the epoch.
        if opened.checked_sub(start.steps[1]) != Some(steps) {
            return;
        }
        self.observed.resize(self.observed.len().max(j + 1), Observed::default());
        let observed = &mut self.observed[j];
        observed.sums.resize(start.sums.len(), 0.0);
        observed.steps += steps;
        for (sum, (after, before)) in observed.sums.iter_mut().zip(totals[1..].iter().zip(&start.sums)) {
            *sum += after - before;
        }
    }

    /// The library with the rewards that its entries had in this run: means over the steps of the
    /// evaluation and of the run together. The objective stays as it was evaluated, because an
    /// agent need not observe it.
    pub(crate) fn corrected<'a>(&self, library: &'a PolicyLibrary) -> Cow<'a, PolicyLibrary> {
        let mut corrected = Cow::Borrowed(library);
        for (j, observed) in self.observed.iter().enumerate().filter(|(_, observed)| observed.steps > 0) {
            if library.entries.get(j).is_none_or(|entry| entry.values.len() != observed.sums.len() + 1) {
                continue;
            }
            let entry = &mut corrected.to_mut().entries[j];
            let (before, all) = (entry.steps as f64, (entry.steps + observed.steps) as f64);
            for (value, sum) in entry.values[1..].iter_mut().zip(&observed.sums) {
                *value = (*value * before + sum) / all;
            }
            entry.errors.iter_mut().skip(1).for_each(|error| *error *= (before / all).sqrt());
            entry.steps += observed.steps;
        }
        corrected
    }

    /// The entry of the library in use, if the run uses one.
    pub(crate) fn entry(&self) -> Option<usize> {
        self.entry
    }

    /// The rule in use now.
    #[inline]
    pub(crate) fn executor(&self) -> Executor {
        match (&self.turns, self.entry) {
            (Some(_), _) => Executor::TimeSharing,
            (None, Some(_)) => Executor::Library,
            (None, None) => self.executor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpochLength, LibraryEntry, Requirement, Rewards};

    fn library() -> PolicyLibrary {
        let entry = |weights: [f64; 2], values: [f64; 2]| LibraryEntry {
            weights: weights.to_vec(),
            values: values.to_vec(),
            ..LibraryEntry::default()
        };
        PolicyLibrary { entries: vec![entry([1.0, 0.0], [1.0, 0.0]), entry([0.0, 1.0], [0.0, 0.5])] }
    }

    fn dynamics(epoch: EpochLength) -> DualDynamics {
        DualDynamics::new(vec![Requirement::at_least("x", 0.9).unwrap()], 0.1, epoch).unwrap()
    }

    /// The weights after each update, and the lengths of the epochs that follow.
    fn run(
        dynamics: &mut DualDynamics,
        selector: &mut WeightSelector,
        library: Option<&PolicyLibrary>,
        steps: u64,
    ) -> Vec<(Vec<f64>, u64)> {
        let mut chosen = Vec::new();
        for _ in 0..steps {
            if dynamics.observe(&Rewards::new(vec![0.0, 0.1]).unwrap()).unwrap().is_some() {
                let mut weights = vec![0.0; 2];
                selector.select(dynamics, library, 1.0, &mut weights);
                chosen.push((weights, dynamics.epoch_length()));
            }
        }
        chosen
    }

    #[test]
    fn run_falls_back_on_the_library_at_four_times_its_epoch() {
        let mut d = dynamics(EpochLength::Auto(10));
        let mut selector = WeightSelector::new(Executor::Policy, &d);
        let chosen = run(&mut d, &mut selector, Some(&library()), 100_000);
        let over = chosen.iter().position(|(weights, _)| weights == &[0.0, 1.0]).unwrap();
        assert!(chosen[..over].iter().all(|(w, length)| w[0] == 1.0 && *length <= 20), "λ until then");
        assert_eq!((chosen[over - 1].1, chosen[over].1), (20, 10), "the epoch restarts");
        assert!(chosen[over..].iter().all(|(w, _)| w == &[0.0, 1.0]));
        assert_eq!((selector.entry(), selector.executor()), (Some(1), Executor::Library));
        assert!(chosen.last().unwrap().1 > 10, "and may become longer again");
    }

    #[test]
    fn weights_are_lambda_without_a_library_or_with_a_fixed_epoch() {
        for (epoch, library) in [
            (EpochLength::Auto(10), None),
            (EpochLength::Auto(10), Some(PolicyLibrary::default())),
            (EpochLength::Fixed(10), Some(library())),
        ] {
            let mut d = dynamics(epoch);
            let mut selector = WeightSelector::new(Executor::Policy, &d);
            let chosen = run(&mut d, &mut selector, library.as_ref(), 50_000);
            assert_eq!(chosen.last().unwrap().0, [1.0, d.multipliers().as_slice()[0]]);
            assert_eq!((selector.entry(), selector.executor()), (None, Executor::Policy));
        }
    }

    /// Cost has the paper's sign, with a bound of 0.05. Both entries were evaluated at 0 over 3,000
    /// steps, but the true cost of the first is 0.2.
    #[test]
    fn entry_with_an_optimistic_evaluation_is_corrected_online() {
        let entry = |weights: [f64; 2], objective: f64, steps: u64| LibraryEntry {
            weights: weights.to_vec(),
            values: vec![objective, 0.0],
            errors: vec![0.0, 0.02],
            steps,
            ..LibraryEntry::default()
        };
        let run = |steps: u64| {
            let library =
                PolicyLibrary { entries: vec![entry([1.0, 0.0], 0.1, steps), entry([0.0, 1.0], 0.0, steps)] };
            let requirement = Requirement::at_most("cost", 0.05).unwrap();
            let mut d = DualDynamics::new(vec![requirement], 0.5, EpochLength::Fixed(50)).unwrap();
            let mut selector = WeightSelector::new(Executor::Library, &d);
            let mut weights = [0.0; 2];
            selector.select(&mut d, Some(&library), 1.0, &mut weights);
            let mut steps_wrong = 0;
            for _ in 0..100_000 {
                let wrong = selector.entry() == Some(0);
                steps_wrong += u64::from(wrong);
                let cost = if wrong { -0.2 } else { 0.0 };
                if d.observe(&Rewards::new(vec![9.0, cost]).unwrap()).unwrap().is_some() {
                    selector.select(&mut d, Some(&library), 1.0, &mut weights);
                }
            }
            (steps_wrong, d.averages()[1], selector.corrected(&library).into_owned())
        };
        let (steps_wrong, average, corrected) = run(3_000);
        assert!(
            (10_000..30_000).contains(&steps_wrong),
            "it may be used a quarter of the time: {steps_wrong}"
        );
        assert!(average > -0.055, "{average}");
        let first = &corrected.entries[0];
        // Corrected until it is not chosen twice in a row.
        assert!(first.values[1] < -0.05 && first.errors[1] < 0.02, "{first:?}");
        assert_eq!(first.values[0], 0.1, "the objective is not corrected");
        // Exact values are not corrected.
        let (steps_wrong, average, corrected) = run(0);
        assert_eq!((steps_wrong, corrected.entries[0].values[1]), (100_000, 0.0));
        assert!(average < -0.19);
    }

    #[test]
    fn epoch_in_which_a_bound_changes_does_not_count() {
        let mut library = library();
        library.entries.iter_mut().for_each(|entry| entry.steps = 100);
        let mut d = dynamics(EpochLength::Fixed(10));
        let mut selector = WeightSelector::new(Executor::Library, &d);
        run(&mut d, &mut selector, Some(&library), 995);
        let observed =
            |selector: &WeightSelector| selector.observed.iter().map(|observed| observed.steps).sum::<u64>();
        let before = observed(&selector);
        assert!(before > 500 && before.is_multiple_of(10), "{before}");
        d.set_bound("x", 0.8).unwrap();
        run(&mut d, &mut selector, Some(&library), 5);
        assert_eq!(observed(&selector), before);
        run(&mut d, &mut selector, Some(&library), 10);
        assert_eq!(observed(&selector), before + 10);
    }
}
