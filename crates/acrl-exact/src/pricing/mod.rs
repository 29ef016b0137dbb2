//! Pricing problem of the column generation: which policy is worth most at weights w₀ … w_m?
//!
//! A [`PricingOracle`] answers with a deterministic policy, the next column, and an upper bound on
//! Σ w_i V_i of every policy. There are two: [`PolicyIteration`] solves the problem exactly,
//! [`ModifiedPolicyIteration`] takes one improvement step a round, from the policy of the round before.

pub(crate) mod bellman_simd;
mod modified_policy_iteration;
mod policy_iteration;

pub(crate) use modified_policy_iteration::ModifiedPolicyIteration;
pub use policy_iteration::{Maximiser, dual_function, maximise, optimal_actions};
pub(crate) use policy_iteration::{PolicyIteration, lagrangian_weights, maximise_from, priced_bounds};

use crate::policy::DeterministicPolicy;
use crate::{FiniteTask, SolveError};

/// Source of new columns.
pub(crate) trait PricingOracle {
    /// A policy for the requested weights and an upper bound on Σ w_i V_i of every policy.
    fn price(&mut self, task: &FiniteTask<'_>, request: &Request<'_>) -> Result<Priced, SolveError>;

    /// Records whether the last column was new to the master program. Returns whether further rounds
    /// may bring new columns or closer bounds.
    fn record(&mut self, new: bool) -> bool;

    /// Forgets rounds without progress, before a problem with other bounds.
    fn restart(&mut self) {}

    /// Values of a known policy to within `precision` of each reward's range, with their errors; `None`
    /// where values are exact already.
    fn reevaluate(
        &mut self,
        _task: &FiniteTask<'_>,
        _policy: &DeterministicPolicy,
        _weights: &[f64],
        _precision: f64,
    ) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }

    /// Share of the descent that the level method leaves; `None` to price at the multipliers of the
    /// master program. `far`: the bounds are further apart than they are large.
    fn level_share(&self, _far: bool) -> Option<f64> {
        None
    }

    /// Whether policies may be worth less than the bound.
    fn is_approximate(&self) -> bool;
}

/// Request for a column.
pub(crate) struct Request<'r> {
    /// w₀ … w_m.
    pub(crate) weights: &'r [f64],
    /// Distance between the bounds on the answer.
    pub(crate) distance: f64,
    /// Precision to which the Lagrangian of a policy is needed in the end.
    pub(crate) precision: f64,
}

/// Answer to a [`Request`].
pub(crate) struct Priced {
    /// Upper bound on Σ w_i V_i of every policy.
    pub(crate) bound: f64,
    /// `None` if the policy could not be evaluated.
    pub(crate) column: Option<Column>,
}

/// Value vector of a deterministic policy.
pub(crate) struct Column {
    /// V₀ … V_m.
    pub(crate) values: Vec<f64>,
    /// Bound on the error of each value, by the residual of its evaluation equations.
    pub(crate) errors: Vec<f64>,
    pub(crate) policy: ColumnPolicy,
}

/// Policy of a column.
pub(crate) enum ColumnPolicy {
    /// Number of the action in each state of the model.
    Model(Vec<usize>),
    /// Policy of the only end component.
    Component(DeterministicPolicy),
}
