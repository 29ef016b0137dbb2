//! Parameters of environments: defaults and ranges in one place, with the same messages for all.

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

/// Declares the parameters of an environment: a struct with its defaults and ranges.
///
/// Each line is `name: type = default, range;` below a comment that says what the parameter is for. Without a range
/// the environment's constructor checks the value.
macro_rules! parameters {
    ($(#[$about:meta])* $name:ident {
        $($(#[$purpose:meta])+ $key:ident: $type:ty = $default:expr $(, $range:expr)?;)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                $(#[$purpose])+
                #[doc = concat!("\n\nDefault `", stringify!($default), "`" $(, ", range `", stringify!($range), "`")?, ".")]
                pub $key: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $name {
            /// Checks the parameters that have a range.
            fn check(&self, check: &$crate::parameter::Check) -> Result<(), $crate::parameter::ParameterError> {
                $($($crate::parameter::Range::check(&$range, check, stringify!($key), &self.$key)?;)?)+
                Ok(())
            }
        }
    };
}
pub(crate) use parameters;

/// The admissible values of a parameter. NaN is in no range.
pub(crate) trait Range<T> {
    /// Fails if the value is outside of the range.
    fn check(&self, check: &Check, parameter: &str, value: &T) -> Result<(), ParameterError>;
}

impl Range<usize> for RangeInclusive<usize> {
    fn check(&self, check: &Check, parameter: &str, value: &usize) -> Result<(), ParameterError> {
        let expected = || format!("a whole number from {} to {}", self.start(), self.end());
        check.within(parameter, value, self.contains(value), expected)
    }
}

impl Range<f64> for RangeInclusive<f64> {
    fn check(&self, check: &Check, parameter: &str, value: &f64) -> Result<(), ParameterError> {
        let expected = || format!("a number from {} to {}", self.start(), self.end());
        check.within(parameter, value, self.contains(value), expected)
    }
}

/// Numbers above 0 and at most a million.
pub(crate) struct Positive;

impl Range<f64> for Positive {
    fn check(&self, check: &Check, parameter: &str, value: &f64) -> Result<(), ParameterError> {
        let expected = || "a number above 0 and at most 1000000".to_owned();
        check.within(parameter, value, *value > 0.0 && *value <= 1e6, expected)
    }
}

impl Range<Option<f64>> for Positive {
    fn check(&self, check: &Check, parameter: &str, value: &Option<f64>) -> Result<(), ParameterError> {
        value.iter().try_for_each(|value| Range::check(self, check, parameter, value))
    }
}

/// The errors of one environment.
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

    /// Fails unless the value is `admissible`.
    pub(crate) fn within(
        &self,
        parameter: &str,
        value: impl Display,
        admissible: bool,
        expected: impl FnOnce() -> String,
    ) -> Result<(), ParameterError> {
        if admissible { Ok(()) } else { Err(self.error(parameter, value, expected())) }
    }

    /// Fails unless a list has 1 to 100 items.
    pub(crate) fn items(&self, parameter: &str, count: usize, items: &str) -> Result<(), ParameterError> {
        let expected = || format!("a list of 1 to 100 {items}");
        self.within(parameter, format!("a list of {count}"), (1..=100).contains(&count), expected)
    }
}

/// True if a name can be written in `NAME>=X` too.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && !name.contains(['<', '>', '='])
}
