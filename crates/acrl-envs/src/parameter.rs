//! Range checks of parameters, with the same messages for all environments.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A parameter of an environment with a value that it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{parameter}' of the {environment} environment is {value}, expected {expected}")]
pub struct ParameterError {
    /// The kind of environment, as in the problem file.
    pub environment: &'static str,
    /// The parameter, as in the problem file; parts of a list as `levels[1].power`.
    pub parameter: String,
    /// The value.
    pub value: String,
    /// The admissible values.
    pub expected: String,
}

/// Checks the parameters of one environment.
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    /// The error for a parameter.
    pub(crate) fn error(
        &self,
        parameter: impl Into<String>,
        value: impl Display,
        expected: impl Into<String>,
    ) -> ParameterError {
        ParameterError {
            environment: self.0,
            parameter: parameter.into(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    /// A whole number in a range.
    pub(crate) fn whole(
        &self,
        parameter: &str,
        value: usize,
        range: RangeInclusive<usize>,
    ) -> Result<(), ParameterError> {
        if range.contains(&value) {
            return Ok(());
        }
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        Err(self.error(parameter, value, expected))
    }

    /// A number in a range; NaN is in none.
    pub(crate) fn number(
        &self,
        parameter: &str,
        value: f64,
        range: RangeInclusive<f64>,
    ) -> Result<(), ParameterError> {
        if range.contains(&value) {
            return Ok(());
        }
        Err(self.error(parameter, value, format!("a number from {} to {}", range.start(), range.end())))
    }

    /// A number above 0 and at most a million.
    pub(crate) fn positive(&self, parameter: &str, value: f64) -> Result<(), ParameterError> {
        if value > 0.0 && value <= 1e6 {
            return Ok(());
        }
        Err(self.error(parameter, value, "a number above 0 and at most 1000000"))
    }
}
