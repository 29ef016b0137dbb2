//! What turns λ into behaviour.

use serde::{Deserialize, Serialize};

use crate::{DualDynamics, Library};

/// What turns λ into behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// π(·, λ); and the library, if there is one, once the multipliers keep growing.
    #[default]
    Policy,
    /// The entry of the library that is best at λ, held for an epoch.
    Library,
}

/// Turns the multipliers of one run into the weights to act with, as a state machine without I/O.
///
/// Ask it at the start and whenever the multipliers have moved. Steered by the policy, the weights are (1, λ) or (0, λ);
/// but when the epoch has become [`FALLBACK`](Self::FALLBACK) times as long as it was, the policy by itself is not
/// enough: from then on the run holds the entry of the library that is best at its multipliers, and the length of
/// its epoch starts anew.
///
/// ```
/// use acrl::{DualDynamics, EpochLength, Library, Requirement, Rewards, Settled, Steerer, Steering};
///
/// let entry = Settled { weights: vec![0.0, 1.0], values: vec![0.0, 0.5], place: 0, travel: vec![] };
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steerer {
    steering: Steering,
    /// T₀ at the start.
    length: u64,
    /// The entry of the library in use.
    entry: Option<usize>,
}

impl Steerer {
    /// A run goes over to the library when its epoch has become this many times as long.
    pub const FALLBACK: u64 = 4;

    /// For a run that starts with these dynamics.
    pub fn new(steering: Steering, dynamics: &DualDynamics) -> Self {
        Self { steering, length: dynamics.epoch_length(), entry: None }
    }

    /// The same, steered otherwise from the start.
    pub fn steered_by(self, steering: Steering) -> Self {
        Self { steering, ..self }
    }

    /// Writes the weights w₀ … w_m to act with until the multipliers move again; `objective` is w₀ beside λ, 1 or 0.
    ///
    /// # Panics
    /// If there are not as many weights as multipliers and one more, or if a library is not made for as many.
    pub fn steer(
        &mut self,
        dynamics: &mut DualDynamics,
        library: Option<&Library>,
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
            self.entry = library.best(weights, self.entry, dynamics.epoch_length());
            if let Some(j) = self.entry {
                weights.copy_from_slice(&library.entries[j].weights);
            }
        }
    }

    /// The entry of the library in use, if the run holds one.
    pub fn entry(&self) -> Option<usize> {
        self.entry
    }

    /// What steers it now.
    pub fn steering(&self) -> Steering {
        if self.by_library() { Steering::Library } else { Steering::Policy }
    }

    fn by_library(&self) -> bool {
        self.steering == Steering::Library || self.entry.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpochLength, Requirement, Rewards, Settled};

    fn library() -> Library {
        let entry = |weights: [f64; 2], values: [f64; 2]| Settled {
            weights: weights.to_vec(),
            values: values.to_vec(),
            place: 0,
            travel: vec![],
        };
        Library { entries: vec![entry([1.0, 0.0], [1.0, 0.0]), entry([0.0, 1.0], [0.0, 0.5])] }
    }

    fn dynamics(epoch: EpochLength) -> DualDynamics {
        DualDynamics::new(vec![Requirement::at_least("x", 0.9).unwrap()], 0.1, epoch).unwrap()
    }

    /// The weights after each update, and the lengths of the epochs that follow.
    fn run(
        dynamics: &mut DualDynamics,
        steerer: &mut Steerer,
        library: Option<&Library>,
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
        let mut steerer = Steerer::new(Steering::Policy, &d);
        let told = run(&mut d, &mut steerer, Some(&library()), 100_000);
        let over = told.iter().position(|(weights, _)| weights == &[0.0, 1.0]).unwrap();
        assert!(told[..over].iter().all(|(w, length)| w[0] == 1.0 && *length <= 20), "λ until then");
        assert_eq!((told[over - 1].1, told[over].1), (20, 10), "the epoch starts anew");
        assert!(told[over..].iter().all(|(w, _)| w == &[0.0, 1.0]));
        assert_eq!((steerer.entry(), steerer.steering()), (Some(1), Steering::Library));
        assert!(told.last().unwrap().1 > 10, "and may become longer again");
    }

    #[test]
    fn without_a_library_or_with_a_fixed_epoch_it_is_lambda_throughout() {
        for (epoch, library) in [
            (EpochLength::Auto(10), None),
            (EpochLength::Auto(10), Some(Library::default())),
            (EpochLength::Fixed(10), Some(library())),
        ] {
            let mut d = dynamics(epoch);
            let mut steerer = Steerer::new(Steering::Policy, &d);
            let told = run(&mut d, &mut steerer, library.as_ref(), 50_000);
            assert_eq!(told.last().unwrap().0, [1.0, d.multipliers().as_slice()[0]]);
            assert_eq!((steerer.entry(), steerer.steering()), (None, Steering::Policy));
        }
    }

    #[test]
    fn stop_serialise_restore_go_on_gives_the_same_bits() {
        let (mut d, library) = (dynamics(EpochLength::Auto(10)), library());
        let mut steerer = Steerer::new(Steering::Policy, &d);
        for steps in [1_500, 3_000, 10_000] {
            run(&mut d, &mut steerer, Some(&library), steps);
            let mut restored: Steerer =
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
