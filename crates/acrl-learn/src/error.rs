//! Errors of the learners and baselines.

use acrl_exact::Singular;

/// A method that could not be set up or carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// A setting out of its range.
    #[error("the setting '{name}' is {value}, expected {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// Its range.
        expected: String,
    },
    /// A setting that the learner does not have.
    #[error("settings: unknown '{name}', expected {known}")]
    UnknownSetting {
        /// Its name.
        name: String,
        /// The names of the learner's settings.
        known: String,
    },
    /// A `[train]` section with a wrong value.
    #[error(transparent)]
    Section(#[from] acrl_envs::ProblemError),
    /// A learner that a method cannot use.
    #[error("the method '{method}' trains with the learner ppo or policy_gradient, not with {learner}")]
    Learner {
        /// The method.
        method: &'static str,
        /// The learner.
        learner: &'static str,
    },
    /// A list whose length does not fit the model.
    #[error("{what}: expected {expected} numbers, found {found}")]
    Length {
        /// Which list.
        what: &'static str,
        /// The length it should have.
        expected: usize,
        /// The length it has.
        found: usize,
    },
    /// Numbers that are no probabilities of a state's actions.
    #[error("state '{state}': probabilities must be nonnegative and add up to 1, but they are {found:?}")]
    Probabilities {
        /// The state.
        state: String,
        /// The numbers.
        found: Vec<f64>,
    },
    /// A rule that takes an action that the state does not have.
    #[error("state '{state}' has no action number {action}")]
    Action {
        /// The state.
        state: String,
        /// The action's number.
        action: usize,
    },
    /// An average over no rules at all.
    #[error("there are no rules to average: visit at least one")]
    NoRules,
    /// An iteration that does not converge.
    #[error("{what} did not converge within {sweeps} sweeps")]
    NotConverged {
        /// The quantity that was computed.
        what: &'static str,
        /// Number of sweeps.
        sweeps: usize,
    },
    /// A training whose parameters or losses are not finite any more.
    #[error("training diverged in iteration {iteration}: {quantity} is {value}")]
    Diverged {
        /// The iteration, from 1.
        iteration: u64,
        /// The quantity that is not finite.
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
    /// An environment that is not for a table.
    #[error(
        "the environment has more than {states} distinct observations after {steps} steps, too many for the tabular learner: take \
         another learner, or raise max_states"
    )]
    TooManyStates {
        /// Number of states of the table.
        states: usize,
        /// Environment steps so far.
        steps: u64,
    },
    /// Actions that cannot be listed.
    #[error("the tabular learner is for a few discrete actions, but {found}: take another learner")]
    Actions {
        /// What the environment has.
        found: String,
    },
    /// An estimated model without a solution.
    #[error("the estimated model of {states} states has no solution, however far the bounds are relaxed")]
    Unsolved {
        /// Number of its states.
        states: usize,
    },
    /// A failure of the solver.
    #[error(transparent)]
    Solve(#[from] acrl_exact::SolveError),
    /// A policy could not be evaluated.
    #[error(transparent)]
    Singular(#[from] Singular),
    /// An error of the core.
    #[error(transparent)]
    Core(#[from] acrl::Error),
}

/// `Ok` if a setting is in its range; NaN is in no range.
pub(crate) fn setting(
    name: &'static str,
    value: f64,
    range: impl std::ops::RangeBounds<f64>,
    expected: &'static str,
) -> Result<(), LearnError> {
    if value.is_finite() && range.contains(&value) {
        Ok(())
    } else {
        Err(LearnError::Setting { name, value: value.to_string(), expected: expected.to_owned() })
    }
}

/// `Ok` if a list has the length it should have.
pub(crate) fn length(what: &'static str, expected: usize, found: usize) -> Result<(), LearnError> {
    if expected == found { Ok(()) } else { Err(LearnError::Length { what, expected, found }) }
}
