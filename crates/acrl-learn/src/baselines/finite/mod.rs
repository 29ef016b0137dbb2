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
//! An [`Outcome`] is a row of the table in which they are compared.

pub mod dual_descent;
pub mod fixed_weights;
mod outcome;
pub mod primal_averaging;
pub mod primal_dual;
pub(crate) mod stationary;

pub use outcome::Outcome;
pub use stationary::Stationary;
