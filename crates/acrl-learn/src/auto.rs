//! Choice of a learner by what a training measures: `learner = "auto"`.
//!
//! With discrete actions a training begins with the [tabular](crate::tabular) learner, which needs the fewest steps where it
//! applies. It stays if observations recur; else the off-policy learner ([`sac`](crate::sac)) takes over, with all
//! transitions observed so far in its replay buffer, so that nothing is lost. Continuous actions are for the off-policy
//! learner from the beginning. Very long trainings, and those in many parallel environments, are for [`ppo`](crate::ppo),
//! whose updates take the least time.
//!
//! The choice depends on steps and observations alone, not on the clock, so that it is the same on every machine.

use acrl::BatchMatrix;
use serde::{Deserialize, Serialize};

use crate::ppo::StepResult;
use crate::tuning::auto::{
    DISAGREEMENT, DISAGREEMENT_ERRORS, FEW_REPEATS, LONG_TRAINING, MANY_ENVS, SHORTEST_TRIAL, STEPS_PER_PAIR,
    TRIAL,
};
use crate::{Sac, Suitability};

/// Why `learner = "auto"` is `ppo` from the beginning, if it is.
pub(crate) fn needs_fast_updates(num_envs: usize, total_steps: u64) -> Option<&'static str> {
    if total_steps >= LONG_TRAINING {
        Some("in a long training, its updates take the least time")
    } else if num_envs >= MANY_ENVS {
        Some("with many environments in parallel, its updates take the least time")
    } else {
        None
    }
}

/// Choice of a learner in the course of a training.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LearnerChoice {
    /// Off-policy learner that observes the transitions of the tabular learner's trial.
    waiting: Option<Box<Sac>>,
    /// Why the learner was chosen; `None` during the trial.
    reason: Option<String>,
}

impl LearnerChoice {
    /// A choice that was made at once.
    pub(crate) fn made(reason: impl Into<String>) -> Self {
        Self { waiting: None, reason: Some(reason.into()) }
    }

    /// A choice between the tabular learner, which acts first, and this one.
    pub(crate) fn trial(waiting: Sac) -> Self {
        Self { waiting: Some(Box::new(waiting)), reason: None }
    }

    /// Why the learner was chosen; `None` during the trial.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Shows a step's actions to the learner that waits.
    pub(crate) fn act(&mut self, observation: &BatchMatrix, actions: &BatchMatrix) {
        self.waiting.iter_mut().for_each(|sac| sac.note_actions(observation, actions));
    }

    /// Shows a step's result to the learner that waits.
    pub(crate) fn observe(&mut self, result: &StepResult<'_>) {
        self.waiting.iter_mut().for_each(|sac| sac.observe(result));
    }

    /// Decides, if enough is known; the off-policy learner if it is to take over. `total` are the steps planned.
    pub(crate) fn decide(&mut self, suitability: &Suitability, total: u64) -> Option<Box<Sac>> {
        self.waiting.as_ref()?;
        if let Some(reason) = unsuitable(suitability, total) {
            self.reason = Some(reason);
            let mut sac = self.waiting.take()?;
            sac.skip_rows();
            return Some(sac);
        }
        if suitability.steps as f64 >= TRIAL * total as f64 && suitability.steps >= SHORTEST_TRIAL {
            self.waiting = None;
            self.reason = Some(format!(
                "observations recur: {} distinct ones in {} steps",
                suitability.states, suitability.steps
            ));
        }
        None
    }
}

/// Why a table is not the right thing, as far as is known so far; `total` are the steps planned.
fn unsuitable(found: &Suitability, total: u64) -> Option<String> {
    let (states, steps) = (found.states as f64, found.steps as f64);
    if found.too_many_states {
        return Some(format!("a table cannot hold the {} distinct observations so far", found.states));
    }
    if found.steps < SHORTEST_TRIAL.min(total) {
        return None;
    }
    if states > FEW_REPEATS * steps {
        return Some(format!("observations hardly recur: {} distinct ones in {steps} steps", found.states));
    }
    if steps < TRIAL * total as f64 {
        return None;
    }
    // States go on appearing at most as fast as they do now.
    let growth = found.new_states as f64 / (0.1 * steps);
    let expected = states + growth * (total as f64 - steps).max(0.0);
    let per_pair = total as f64 / (found.pairs as f64 * expected / states.max(1.0)).max(1.0);
    if per_pair < STEPS_PER_PAIR {
        return Some(format!(
            "too few steps for a table: about {per_pair:.1} for each of its pairs of observation and action"
        ));
    }
    let (gap, error) = (found.disagreement?, found.disagreement_error?);
    (gap < -(DISAGREEMENT + DISAGREEMENT_ERRORS * error)).then(|| {
        format!(
            "observations hide part of the state: averages are {:.2} of their range below a model's",
            -gap
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(states: usize, steps: u64, new_states: usize) -> Suitability {
        Suitability {
            steps,
            states,
            pairs: 4 * states,
            steps_per_pair: steps as f64 / (4 * states) as f64,
            new_states,
            too_many_states: false,
            disagreement: None,
            disagreement_error: None,
        }
    }

    #[test]
    fn tables_are_for_observations_that_recur() {
        assert_eq!(unsuitable(&found(500, 10_000, 0), 100_000), None);
        let why = |found: &Suitability, total| unsuitable(found, total).unwrap();
        assert!(why(&found(900, 1_000, 90), 100_000).contains("hardly recur"));
        assert!(why(&found(2_000, 10_000, 200), 100_000).contains("too few steps"));
        assert!(why(&Suitability { too_many_states: true, ..found(10, 20, 0) }, 100).contains("cannot hold"));
        let hidden =
            Suitability { disagreement: Some(-0.5), disagreement_error: Some(0.05), ..found(20, 10_000, 0) };
        assert!(why(&hidden, 100_000).contains("hide"));
        let slightly = Suitability { disagreement: Some(-0.1), ..hidden };
        assert_eq!(unsuitable(&slightly, 100_000), None);
    }
}
