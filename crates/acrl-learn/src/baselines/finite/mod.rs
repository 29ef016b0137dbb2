//! Baselines on finite models, with exact maximisers and exact values, so that a failure is one of the method and not of the
//! learning.
//!
//! | method | is | on Example 1 |
//! |---|---|---|
//! | [`fixed_weights`] | maximise r₀ + Σ λ_i r_i for λ on a grid | no weighting is feasible |
//! | [`dual_descent`] | search λ* first, then keep π(λ_k) | π(λ_k) is infeasible for every k |
//! | [`primal_dual`] | gradient steps on the policy and λ together | feasible only during training |
//! | [`primal_averaging`] | average the policies π(λ_k) | depends on the kind of average |
//!
//! They result in a [`Stationary`] policy that does not depend on λ (or [`primal_averaging::Blocks`], which switches).

pub mod dual_descent;
pub mod fixed_weights;
pub mod primal_averaging;
pub mod primal_dual;
pub(crate) mod stationary;

pub use stationary::Stationary;

use acrl::Values;
use acrl_exact::FiniteTask;

/// max_i (c_i − V_i)/R_i: the shortfall of the requirement that is worst off, in units of its reward's range; negative if
/// all are met with slack, −∞ without requirements.
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
        let values = Values::new(vec![7.0, 0.9, -0.5]).unwrap();
        assert!((violation(&task, &values) - 0.05).abs() < 1e-12);
    }
}
