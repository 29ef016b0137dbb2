//! What turns λ into behaviour.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{DualDynamics, PolicyLibrary};

/// What turns λ into behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// π(·, λ); and the library, if there is one, once the multipliers keep growing.
    #[default]
    Policy,
    /// The entry of the library that is best at λ, held for an epoch.
    #[serde(rename = "library")]
    PolicyLibrary,
}

/// Turns the multipliers of one run into the weights to act with, as a state machine without I/O.
///
/// Ask it at the start and whenever the multipliers have moved. Steered by the policy, the weights are (1, λ) or (0, λ);
/// but when the epoch has become [`FALLBACK`](Self::FALLBACK) times as long as it was, the policy by itself is not
/// enough: from then on the run holds the entry of the library that is best at its multipliers, and the length of
/// its epoch starts anew.
///
/// An entry that says over how many steps it was measured is not believed for ever: what it gives in an epoch after another
/// one in which it was held already is measured too, and added to what the library says of it.
///
/// ```
/// use acrl::{DualDynamics, EpochLength, Library, Requirement, Rewards, Settled, Steerer, Steering};
///
/// let entry = Settled { weights: vec![0.0, 1.0], values: vec![0.0, 0.5], ..Settled::default() };
/// let library = Library { entries: vec![entry] };
/// let hard = Requirement::at_least("x", 0.9)?;
/// let mut dynamics = DualDynamics::new(vec![hard], 0.1, EpochLength::Auto(10))?;
/// let mut steerer = Steerer::new(Steering::Policy, &dynamics);
/// let mut weights = [1.0, 0.0]; // w₀ says that there is an objective
/// while steerer.entry().is_none() {
///     if dynamics.observe(&Rewards::new(vec![0.0, 0.1])?)?.is_some() {
///         steerer.steer(&mut dynamics, Some(&library), 1.0, &mut weights);
///     }
/// }
/// assert_eq!(weights, [0.0, 1.0]);
/// assert_eq!(dynamics.epoch_length(), 10);
/// # Ok::<(), acrl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightSelector {
    steering: Executor,
    /// T₀ at the start.
    length: u64,
    /// The entry of the library in use.
    entry: Option<usize>,
    /// What entries gave in this run, by entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    had: Vec<Had>,
    /// Where the sums stood when this epoch began, if they are going to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<Begun>,
}

/// What an entry gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Had {
    steps: u64,
    /// Σ r₁ … Σ r_m.
    sums: Vec<f64>,
}

/// The beginning of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    /// The steps in all, and since the ledger was opened.
    steps: [u64; 2],
    /// Σ r₁ … Σ r_m since the ledger was opened.
    sums: Vec<f64>,
}

impl WeightSelector {
    /// A run goes over to the library when its epoch has become this many times as long.
    pub const FALLBACK: u64 = 4;

    /// For a run that starts with these dynamics.
    pub fn new(steering: Executor, dynamics: &DualDynamics) -> Self {
        Self { steering, length: dynamics.epoch_length(), entry: None, had: Vec::new(), begun: None }
    }

    /// The same, steered otherwise from the start.
    pub fn steered_by(self, steering: Executor) -> Self {
        Self { steering, ..self }
    }

    /// Writes the weights w₀ … w_m to act with until the multipliers move again; `objective` is w₀ beside λ, 1 or 0.
    ///
    /// # Panics
    /// If there are not as many weights as multipliers and one more, or if a library is not made for as many.
    pub fn steer(
        &mut self,
        dynamics: &mut DualDynamics,
        library: Option<&PolicyLibrary>,
        objective: f64,
        weights: &mut [f64],
    ) {
        let library = library.filter(|library| !library.entries.is_empty());
        let stuck = dynamics.epoch_length() >= self.length.saturating_mul(Self::FALLBACK);
        let by_library = self.by_library();
        if stuck && !by_library && library.is_some() {
            dynamics.restart_epoch_length(self.length);
        }
        weights[0] = objective;
        weights[1..].copy_from_slice(dynamics.multipliers().as_slice());
        if let Some(library) = library.filter(|_| stuck || by_library) {
            self.end_epoch(dynamics);
            let (corrected, before) = (self.corrected(library), self.entry);
            self.entry = corrected.best(weights, before, dynamics.epoch_length());
            if let Some(j) = self.entry {
                weights.copy_from_slice(&library.entries[j].weights);
            }
            // What is had on the way from another entry says nothing about this one.
            if self.entry == before && self.entry.is_some_and(|j| library.entries[j].steps > 0) {
                let (opened, totals) = dynamics.totals();
                self.begun = Some(Begun { steps: [dynamics.steps(), opened], sums: totals[1..].to_vec() });
            }
        }
    }

    /// Adds an epoch that counts to what its entry gave.
    fn end_epoch(&mut self, dynamics: &DualDynamics) {
        let (Some(begun), Some(j)) = (self.begun.take(), self.entry) else { return };
        let (opened, totals) = dynamics.totals();
        let steps = dynamics.steps() - begun.steps[0];
        // A ledger that was opened meanwhile, because a bound has changed, knows only a part of the epoch.
        if opened.checked_sub(begun.steps[1]) != Some(steps) {
            return;
        }
        self.had.resize(self.had.len().max(j + 1), Had::default());
        let had = &mut self.had[j];
        had.sums.resize(begun.sums.len(), 0.0);
        had.steps += steps;
        for (sum, (after, before)) in had.sums.iter_mut().zip(totals[1..].iter().zip(&begun.sums)) {
            *sum += after - before;
        }
    }

    /// The library with what its entries gave in this run, step for step as good as what was measured before. The
    /// objective is left as it is: an agent need not be told of it.
    pub fn corrected<'a>(&self, library: &'a PolicyLibrary) -> Cow<'a, PolicyLibrary> {
        let mut corrected = Cow::Borrowed(library);
        for (j, had) in self.had.iter().enumerate().filter(|(_, had)| had.steps > 0) {
            if library.entries.get(j).is_none_or(|entry| entry.values.len() != had.sums.len() + 1) {
                continue;
            }
            let entry = &mut corrected.to_mut().entries[j];
            let (before, all) = (entry.steps as f64, (entry.steps + had.steps) as f64);
            for (value, sum) in entry.values[1..].iter_mut().zip(&had.sums) {
                *value = (*value * before + sum) / all;
            }
            entry.errors.iter_mut().skip(1).for_each(|error| *error *= (before / all).sqrt());
            entry.steps += had.steps;
        }
        corrected
    }

    /// The entry of the library in use, if the run holds one.
    pub fn entry(&self) -> Option<usize> {
        self.entry
    }

    /// What steers it now.
    pub fn steering(&self) -> Executor {
        if self.by_library() { Executor::PolicyLibrary } else { Executor::Policy }
    }

    fn by_library(&self) -> bool {
        self.steering == Executor::PolicyLibrary || self.entry.is_some()
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
        steerer: &mut WeightSelector,
        library: Option<&PolicyLibrary>,
        steps: u64,
    ) -> Vec<(Vec<f64>, u64)> {
        let mut told = Vec::new();
        for _ in 0..steps {
            if dynamics.observe(&Rewards::new(vec![0.0, 0.1]).unwrap()).unwrap().is_some() {
                let mut weights = vec![0.0; 2];
                steerer.steer(dynamics, library, 1.0, &mut weights);
                told.push((weights, dynamics.epoch_length()));
            }
        }
        told
    }

    #[test]
    fn a_run_goes_over_to_the_library_at_four_times_its_epoch_and_stays() {
        let mut d = dynamics(EpochLength::Auto(10));
        let mut steerer = WeightSelector::new(Executor::Policy, &d);
        let told = run(&mut d, &mut steerer, Some(&library()), 100_000);
        let over = told.iter().position(|(weights, _)| weights == &[0.0, 1.0]).unwrap();
        assert!(told[..over].iter().all(|(w, length)| w[0] == 1.0 && *length <= 20), "λ until then");
        assert_eq!((told[over - 1].1, told[over].1), (20, 10), "the epoch starts anew");
        assert!(told[over..].iter().all(|(w, _)| w == &[0.0, 1.0]));
        assert_eq!((steerer.entry(), steerer.steering()), (Some(1), Executor::PolicyLibrary));
        assert!(told.last().unwrap().1 > 10, "and may become longer again");
    }

    #[test]
    fn without_a_library_or_with_a_fixed_epoch_it_is_lambda_throughout() {
        for (epoch, library) in [
            (EpochLength::Auto(10), None),
            (EpochLength::Auto(10), Some(PolicyLibrary::default())),
            (EpochLength::Fixed(10), Some(library())),
        ] {
            let mut d = dynamics(epoch);
            let mut steerer = WeightSelector::new(Executor::Policy, &d);
            let told = run(&mut d, &mut steerer, library.as_ref(), 50_000);
            assert_eq!(told.last().unwrap().0, [1.0, d.multipliers().as_slice()[0]]);
            assert_eq!((steerer.entry(), steerer.steering()), (None, Executor::Policy));
        }
    }

    /// Cost is in the paper's sign, and at most .05 of it is wanted. Both entries are said to have none, over 3,000 steps; but
    /// the first has .2 of it in truth.
    #[test]
    fn an_entry_that_does_not_keep_what_it_says_is_not_held_for_ever() {
        let entry = |weights: [f64; 2], objective: f64, steps: u64| LibraryEntry {
            weights: weights.to_vec(),
            values: vec![objective, 0.0],
            errors: vec![0.0, 0.02],
            steps,
            ..LibraryEntry::default()
        };
        let held = |steps: u64| {
            let library =
                PolicyLibrary { entries: vec![entry([1.0, 0.0], 0.1, steps), entry([0.0, 1.0], 0.0, steps)] };
            let requirement = Requirement::at_most("cost", 0.05).unwrap();
            let mut d = DualDynamics::new(vec![requirement], 0.5, EpochLength::Fixed(50)).unwrap();
            let mut steerer = WeightSelector::new(Executor::PolicyLibrary, &d);
            let mut weights = [0.0; 2];
            steerer.steer(&mut d, Some(&library), 1.0, &mut weights);
            let mut lies = 0;
            for _ in 0..100_000 {
                let lied = steerer.entry() == Some(0);
                lies += u64::from(lied);
                let cost = if lied { -0.2 } else { 0.0 };
                if d.observe(&Rewards::new(vec![9.0, cost]).unwrap()).unwrap().is_some() {
                    steerer.steer(&mut d, Some(&library), 1.0, &mut weights);
                }
            }
            (lies, d.averages()[1], steerer.corrected(&library).into_owned())
        };
        let (lies, average, corrected) = held(3_000);
        assert!((10_000..30_000).contains(&lies), "it may be held a quarter of the time: {lies}");
        assert!(average > -0.055, "{average}");
        let first = &corrected.entries[0];
        // Corrected as far as it takes: from then on it is not held twice in a row.
        assert!(first.values[1] < -0.05 && first.errors[1] < 0.02, "{first:?}");
        assert_eq!(first.values[0], 0.1, "of the objective nothing was learnt");
        // Values that are taken as exact stay what they are.
        let (lies, average, corrected) = held(0);
        assert_eq!((lies, corrected.entries[0].values[1]), (100_000, 0.0));
        assert!(average < -0.19);
    }

    #[test]
    fn an_epoch_in_which_a_bound_changes_does_not_count() {
        let mut library = library();
        library.entries.iter_mut().for_each(|entry| entry.steps = 100);
        let mut d = dynamics(EpochLength::Fixed(10));
        let mut steerer = WeightSelector::new(Executor::PolicyLibrary, &d);
        run(&mut d, &mut steerer, Some(&library), 995);
        let had = |steerer: &WeightSelector| steerer.had.iter().map(|had| had.steps).sum::<u64>();
        let before = had(&steerer);
        assert!(before > 500 && before.is_multiple_of(10), "{before}");
        d.set_bound("x", 0.8).unwrap();
        run(&mut d, &mut steerer, Some(&library), 5);
        assert_eq!(had(&steerer), before);
        run(&mut d, &mut steerer, Some(&library), 10);
        assert_eq!(had(&steerer), before + 10);
    }

    #[test]
    fn stop_serialise_restore_go_on_gives_the_same_bits() {
        let (mut d, mut library) = (dynamics(EpochLength::Auto(10)), library());
        library.entries.iter_mut().for_each(|entry| entry.steps = 1_000);
        let mut steerer = WeightSelector::new(Executor::Policy, &d);
        for steps in [1_500, 3_000, 10_000] {
            run(&mut d, &mut steerer, Some(&library), steps);
            let mut restored: WeightSelector =
                serde_json::from_str(&serde_json::to_string(&steerer).unwrap()).unwrap();
            let (told, again) = (
                run(&mut d.clone(), &mut restored, Some(&library), 9_000),
                run(&mut d, &mut steerer, Some(&library), 9_000),
            );
            assert_eq!(told, again);
            assert_eq!(restored, steerer);
        }
    }
}
