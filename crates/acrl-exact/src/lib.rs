//! Finite constrained problems, exactly.
//!
//! A [`FiniteTask`] is a model and what is required of it. On it:
//!
//! | question | answer |
//! |---|---|
//! | what does this policy attain? | [`FiniteTask::values`], [`FiniteTask::values_of_randomised`] |
//! | which policy maximises the Lagrangian at λ? | [`maximise`], [`dual_function`], [`optimal_actions`] |
//! | run π(λ) online | [`ExactPolicy`] with [`acrl::execute`] |
//! | what is the optimum, and the price of each requirement? | [`solve`] |
//! | what can be had on almost every path of a model in several parts? | [`almost_sure()`] |
//! | how does the optimum depend on a bound? | [`sweep`] |
//! | run the optimum, in memory proportional to the model | [`Executable`], [`SteeredPolicy`], [`MixedPolicy`] |
//! | how much slack is there (A1)? | [`most_slack`] |
//! | which requirements conflict, and by how much? | [`solve`] again: [`Conflict`] |
//! | why is a requirement behind? | [`witness()`], for a [diagnosis](acrl::Diagnosis) |
//! | what do the theorems need and promise here? | [`assumptions`] |
//! | which model is this? | [`drn`] reads Storm's explicit format, [`npz`] arrays of NumPy and SciPy |
//!
//! Gains are long-run averages, not discounted sums; every routine survives policies with several
//! recurrent classes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod abreast;
mod almost_sure;
pub mod assumptions;
mod chain;
mod columns;
mod conflict;
pub mod drn;
mod elimination;
mod evaluate;
mod executable;
mod front;
mod graph;
mod interleave;
mod lead;
mod level;
mod maximise;
pub mod npz;
mod ordering;
mod part;
mod plan;
mod policy;
mod solve;
mod substitution;
mod task;
#[cfg(test)]
mod test_models;
mod vectors;
mod witness;

pub use almost_sure::{AlmostSure, ComponentAnswer, Inside, Journey, almost_sure, almost_sure_watched};
pub use chain::Singular;
pub use conflict::{Conflict, Relaxation};
pub use executable::{Executable, ExecutablePart, MixedPolicy, SETTLE, SteeredPolicy};
pub use graph::Structure;
pub use lead::lead_home;
pub use maximise::{Maximiser, dual_function, maximise, optimal_actions};
pub use policy::ExactPolicy;
pub use solve::{
    MixturePolicy, Optimum, Slack, Solution, SolveError, SolveOptions, SolveRound, SweepPoint, feasible,
    most_slack, solve, sweep,
};
pub use task::FiniteTask;
pub use witness::witness;

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
