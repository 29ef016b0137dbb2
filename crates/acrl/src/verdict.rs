//! The verdict on a requirement: one rule for the program, its reports and the language bindings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a requirement is met. The largest of several is that of all runs or of all requirements together.
///
/// ```
/// use acrl::{Verdict, tolerance};
/// // bad <= 0.004, in the sign of the paper: −0.00498 is violated, as the tolerance is 1 % of the bound.
/// let allowed = tolerance(0.01, -0.004, 1.0, None);
/// assert_eq!(allowed, 0.00004);
/// assert_eq!(Verdict::of(-0.00498 >= -0.004, 0.00098, allowed), Verdict::Violated);
/// assert_eq!(Verdict::of(-0.00403 >= -0.004, 0.00003, allowed), Verdict::WithinTolerance);
/// assert_eq!(Verdict::of(-0.00390 >= -0.004, 0.0, allowed), Verdict::Satisfied);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The plain average is on the right side of the bound.
    Satisfied,
    /// It is not, but the certified shortfall is at most the [`tolerance`].
    WithinTolerance,
    /// Neither.
    Violated,
}

impl Verdict {
    /// The verdict on a requirement whose average is `inside` its bound or not.
    pub fn of(inside: bool, certified_shortfall: f64, tolerance: f64) -> Self {
        match inside {
            true => Self::Satisfied,
            false if certified_shortfall <= tolerance => Self::WithinTolerance,
            false => Self::Violated,
        }
    }

    /// The verdict on all; satisfied if there are none.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::Satisfied)
    }

    /// True unless violated.
    pub fn is_met(self) -> bool {
        self != Self::Violated
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Satisfied => "satisfied",
            Self::WithinTolerance => "within tolerance",
            Self::Violated => "violated",
        })
    }
}

/// How large a certified shortfall may be: a share of what is asked, and at most half that share of the range of the
/// reward.
///
/// What is asked is |c|, or the distance of c from the `worst` average that a policy can have, where that is known and
/// smaller. Bounds and averages are in the sign of the paper, where a requirement reads V ≥ c.
///
/// ```
/// use acrl::tolerance;
/// assert_eq!(tolerance(0.01, 0.2, 1.0, None), 0.002);
/// assert_eq!(tolerance(0.01, 290.0, 20.0, None), 0.1, "at most .005 of the range");
/// assert_eq!(tolerance(0.01, 290.0, 20.0, Some(285.0)), 0.05, "5 above the worst");
/// assert_eq!(tolerance(0.01, 0.0, 1.0, None), 0.0, "a bound of 0 has no tolerance");
/// ```
pub fn tolerance(share: f64, bound: f64, range: f64, worst: Option<f64>) -> f64 {
    let distance = worst.map(|worst| bound - worst).filter(|distance| *distance > 0.0);
    let asked = distance.unwrap_or(f64::INFINITY).min(bound.abs());
    share * asked.min(range / 2.0)
}
