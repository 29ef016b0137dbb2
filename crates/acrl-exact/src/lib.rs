//! Exact solution of finite constrained Markov decision processes.
//!
//! A [`FiniteTask`] is a model with a specification. On it:
//!
//! | question | answer |
//! |---|---|
//! | values of a policy | [`FiniteTask::values`], [`FiniteTask::values_of_randomised`] |
//! | Lagrangian maximiser at λ, dual function | [`maximise`], [`dual_function`], [`optimal_actions`] |
//! | execution of π(λ) online | [`ExactPolicy`] with [`acrl::execute`] |
//! | optimum, and the price of each requirement | [`solve()`] |
//! | requirements on almost every path of a model with several end components | [`almost_sure()`] |
//! | optimum as a function of a bound | [`sweep()`] |
//! | execution of the optimum, in memory proportional to the model | [`Executable`], [`ExecutionPlan`] and [`MixtureExecutor`] |
//! | largest slack (Slater constant, A1) | [`most_slack`] |
//! | conflicting requirements, and their relaxation | [`solve()`]: [`Conflict`] |
//! | cause of a shortfall | [`exact_evidence()`], for a [diagnosis](acrl::Diagnosis) |
//! | assumptions and guarantees of the theorems | [`assumptions`] |
//! | model files | [`drn`] (Storm's explicit format), [`npz`] (arrays of NumPy and SciPy) |
//!
//! Values are long-run averages (gains), not discounted sums; every routine supports policies with
//! several recurrent classes.
//!
//! The solver is column generation: the loop is in [`solve()`], the master program and the level method
//! in `column_generation`, the Lagrangian maximisers in `pricing`, and policy evaluation in
//! `evaluation`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod almost_sure;
pub mod assumptions;
mod column_generation;
mod conflict;
mod evaluation;
mod exact_evidence;
mod graph;
mod io;
mod policy;
mod pricing;
mod simd;
mod solution;
mod solve;
mod sweep;
mod task;
#[cfg(test)]
mod test_models;
mod tolerances;
mod tuning;
mod vector;

pub use almost_sure::{
    AlmostSure, ComponentOptimum, ComponentSolution, Journey, almost_sure, almost_sure_observed,
};
pub use conflict::{Conflict, Relaxation};
pub use evaluation::chain::Singular;
pub use exact_evidence::exact_evidence;
pub use graph::Structure;
pub use io::{drn, npz};
pub use policy::{
    ExactPolicy, Executable, ExecutableComponent, ExecutionPlan, MixtureExecutor, MixtureState, PlanOptions,
    Realisation, SETTLE, redirect_slow_states,
};
pub use pricing::{Maximiser, dual_function, maximise, optimal_actions};
pub use solution::{MixturePolicy, Optimum, Slack, Solution, SolveError, SolveOptions, SolveRound};
pub use solve::{most_slack, solve};
pub use sweep::{SweepPoint, sweep};
pub use task::FiniteTask;

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
