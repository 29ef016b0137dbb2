//! Faults of finite models.

use std::fmt;

/// A fault of a finite model, and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    /// The state's name.
    pub state: Option<String>,
    /// The action's name.
    pub action: Option<String>,
    /// The kind of fault.
    pub fault: ModelFault,
}

impl ModelError {
    pub(super) fn whole(fault: ModelFault) -> Self {
        Self { state: None, action: None, fault }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.state, &self.action) {
            (Some(state), Some(action)) => write!(f, "state '{state}', action '{action}': ")?,
            (Some(state), None) => write!(f, "state '{state}': ")?,
            _ => {}
        }
        self.fault.fmt(f)
    }
}

impl std::error::Error for ModelError {}

/// The kinds of faults.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelFault {
    /// A model needs a state.
    #[error("the model has no states")]
    NoStates,
    /// More states than can be numbered.
    #[error("the model has {states} states, more than {}", u32::MAX)]
    TooManyStates { states: usize },
    /// More transitions than can be numbered.
    #[error("the model has {transitions} transitions, more than {}", u32::MAX)]
    TooManyTransitions { transitions: usize },
    /// Arrays that do not fit together.
    #[error("expected {expected} {what}, found {found}")]
    Length { what: &'static str, expected: usize, found: usize },
    /// Offsets that do not begin with 0, or go back.
    #[error("{what} are {before} and then {after}, expected numbers that begin with 0 and never decrease")]
    Offsets { what: &'static str, before: usize, after: usize },
    /// Offsets that end too early or too late.
    #[error("{what} end with {found}, expected {expected}")]
    LastOffset { what: &'static str, expected: usize, found: usize },
    /// Two actions with one name.
    #[error("two actions are called '{0}'")]
    DuplicateActionName(String),
    /// Two rewards with one name.
    #[error("two rewards are called '{0}'")]
    DuplicateReward(String),
    /// A choice for a state that does not exist.
    #[error("there is no such state: the model has {states} states")]
    UnknownState { states: usize },
    /// A state without an action.
    #[error("the state has no action: every state needs at least one, if only to stay where it is")]
    NoAction,
    /// Two actions of a state with one name.
    #[error("the state has this action twice")]
    DuplicateAction,
    /// One target listed twice.
    #[error("the target {target} is listed twice")]
    DuplicateTarget { target: usize },
    /// A target out of range.
    #[error("the target {target} does not exist: the states are 0 to {}", states - 1)]
    Target { target: usize, states: usize },
    /// A probability out of range.
    #[error("the probability of target {target} is {value}, expected a number from 0 to 1")]
    Probability { target: usize, value: f64 },
    /// Probabilities that do not add up to 1.
    #[error("the probabilities add up to {sum}, expected 1")]
    Sum { sum: f64 },
    /// A list of rewards of the wrong length.
    #[error("expected {expected} rewards, found {found}")]
    RewardCount { expected: usize, found: usize },
    /// A reward that is not finite.
    #[error("the reward '{reward}' is {value}, expected a finite number")]
    Reward { reward: String, value: f64 },
    /// An initial state out of range.
    #[error("the initial state {target} does not exist: the states are 0 to {}", states - 1)]
    Initial { target: usize, states: usize },
    /// An initial probability out of range.
    #[error("the probability of starting in state {target} is {value}, expected a number from 0 to 1")]
    InitialProbability { target: usize, value: f64 },
    /// Initial probabilities that do not add up to 1.
    #[error("the initial probabilities add up to {sum}, expected 1")]
    InitialSum { sum: f64 },
}
