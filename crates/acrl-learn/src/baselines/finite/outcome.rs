//! A line in the table in which methods are compared.

use acrl::Values;
use acrl_exact::FiniteTask;
use serde::Serialize;

/// What a method came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The method's name.
    pub method: &'static str,
    /// V₀ … V_m, in the signs of the paper.
    pub values: Values,
    /// How they were obtained: exact or measured, and over what.
    pub note: String,
}

impl Outcome {
    /// A line.
    pub fn new(method: &'static str, values: Values, note: impl Into<String>) -> Self {
        Self { method, values, note: note.into() }
    }

    /// max_i (c_i − V_i)/R_i: by how much the requirement that is worst off is missed, in units of
    /// its reward's range; negative if all are met with room to spare, −∞ without requirements.
    pub fn violation(&self, task: &FiniteTask<'_>) -> f64 {
        violation(task, &self.values)
    }

    /// Whether no requirement is missed by more than `tolerance`, in units of its reward's range.
    pub fn met(&self, task: &FiniteTask<'_>, tolerance: f64) -> bool {
        self.violation(task) <= tolerance
    }
}

/// max_i (c_i − V_i)/R_i.
pub(crate) fn violation(task: &FiniteTask<'_>, values: &Values) -> f64 {
    let missing = values.requirements().iter().zip(task.bounds()).zip(task.scales());
    missing.map(|((v, c), r)| (c - v) / r).fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{machine, running};

    #[test]
    fn a_violation_is_in_units_of_the_range_and_on_the_side_that_hurts() {
        let model = machine();
        let task = FiniteTask::new(&model, &running(0.9, 0.3)).unwrap();
        // Up 90 % of the time as required, at a cost of 0.5 instead of 0.3; the cost ranges over 4.
        let outcome = Outcome::new("by hand", Values::new(vec![7.0, 0.9, -0.5]).unwrap(), "made up");
        assert!((outcome.violation(&task) - 0.05).abs() < 1e-12);
        assert!(outcome.met(&task, 0.051) && !outcome.met(&task, 0.049));
    }
}
