//! Whether a table is the right thing for an environment.

use serde::{Deserialize, Serialize};

/// Measurements of a tabular training that tell whether a table is the right thing. What follows from them is up to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suitability {
    /// Transitions counted.
    pub steps: u64,
    /// Distinct observations.
    pub states: usize,
    /// Pairs of a state and an action that were tried.
    pub pairs: usize,
    /// Transitions per pair tried. From 10 on requirements and objective usually come out well, from 50 on very well.
    pub steps_per_pair: f64,
    /// States that appeared in the last tenth of the steps. If they are a tenth of all, there is no end of them.
    pub new_states: usize,
    /// Whether there are more states than the table may have.
    pub too_many_states: bool,
    /// Mean difference of measured from claimed averages of policies that are optimal in the model, in units of the ranges of
    /// averages; negative if the model promises too much, as it does if states are hidden. `None` in short trainings.
    pub disagreement: Option<f64>,
    /// Its standard error.
    pub disagreement_error: Option<f64>,
}
