//! Errors, in the words of the problem and with the value that caused them.

use crate::ModelError;

/// An invalid input to this crate.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number that must be finite is not.
    #[error("{what} must be a finite number, but it is {value}")]
    NotFinite { what: String, value: f64 },
    /// A number that must be positive is not.
    #[error("{what} must be greater than 0, but it is {value}")]
    NotPositive { what: String, value: f64 },
    /// A multiplier below zero.
    #[error("multipliers are nonnegative, but number {index} is {value}")]
    NegativeMultiplier { index: usize, value: f64 },
    /// Two things that must have the same length do not.
    #[error("{what}: expected {expected} numbers, found {found}")]
    Arity { what: String, expected: usize, found: usize },
    /// An objective or a requirement names a reward that the problem does not have.
    #[error("unknown reward '{name}': the rewards of this problem are {}", list(.known))]
    UnknownReward { name: String, known: Vec<String> },
    /// Two requirements carry the same name.
    #[error("two requirements are called '{0}': give one of them another name")]
    DuplicateRequirement(String),
    /// A requirement called like the objective's reward, but about another one.
    #[error("a requirement on another reward is called '{0}' like the objective: give it another name")]
    AmbiguousName(String),
    /// A requirement that cannot be read.
    #[error(
        "cannot read the requirement '{0}': write NAME>=NUMBER or NAME<=NUMBER, in quotes because the shell takes \
         < and > for itself, for example 'r1>=0.25'"
    )]
    RequirementSyntax(String),
    /// An action that the state does not have.
    #[error("state {state} has no action number {action}")]
    UnknownAction { state: String, action: usize },
    /// A failure of the environment.
    #[error("the environment failed: {0}")]
    Environment(String),
    /// A finite model with a fault.
    #[error(transparent)]
    Model(#[from] ModelError),
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none at all".to_owned() } else { names.join(", ") }
}

/// `value` if it is finite, else [`Error::NotFinite`].
pub(crate) fn finite(what: &str, value: f64) -> Result<f64, Error> {
    if value.is_finite() { Ok(value) } else { Err(Error::NotFinite { what: what.to_owned(), value }) }
}

/// `value` if it is finite and above zero.
pub(crate) fn positive(what: &str, value: f64) -> Result<f64, Error> {
    finite(what, value)?;
    if value > 0.0 { Ok(value) } else { Err(Error::NotPositive { what: what.to_owned(), value }) }
}

/// `Ok` if a list has the length it should have.
pub(crate) fn arity(what: &str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Arity { what: what.to_owned(), expected, found }) }
}
