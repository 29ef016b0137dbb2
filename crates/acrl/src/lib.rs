//! Constrained reinforcement learning with requirements on long-run averages.
//!
//! An agent maximises the long-run average of a reward r₀ while the long-run averages of
//! r₁…r_m stay above c₁…c_m. No fixed weighting of the rewards expresses that in general, so
//! *state-augmented* constrained reinforcement learning (A-CRL) trains one policy π(s, λ) that is
//! good for every multiplier λ, and lets λ follow the measured deficit while the agent runs.
//!
//! This crate holds the types of the method and its run-time half. It does no I/O.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | r₀ … r_m | rewards of one step | [`Rewards`] |
//! | V₀ … V_m | their long-run averages | [`Values`] |
//! | V_i ≥ c_i | the requirements | [`Requirement`], [`Specification`] |
//! | λ | multipliers, nonnegative | [`Multipliers`] |
//! | r_λ, 𝓛 | weighted reward, Lagrangian | [`Lagrangian`] |
//! | λ_{k+1} = \[λ_k − (η/T₀) Σ (r − c)\]₊ | the dual update | [`DualDynamics`] |
//! | T₀, k | steps between two updates | [`Epoch`], [`EpochLength`] |
//! | (s, λ) | the augmented state | [`AugmentedState`] |
//! | π(s, λ) | the policy | [`VecPolicy`], [`FinitePolicy`] |
//! | Algorithm 1 | training π(s, λ) in a [`VecEnv`] | the crate `acrl-learn` |
//! | Algorithm 2 | running it | [`Agent`], in loops [`execute`] and [`VecExecution`] |
//!
//! Further: [`FiniteCmdp`] is a finite model, [`Certificate`] a proven bound on the violation of
//! each requirement, [`Diagnosis`] the reason of a violation, [`PolicyLibrary`] a set of evaluated
//! policies, [`guarantees`] holds the constants of the theorems, [`mixture`] small linear programs
//! over value vectors; [`RunReport`] and [`History`] are the results of many runs and their course
//! over time.
//!
//! ```
//! use acrl::{DualDynamics, EpochLength, Requirement, Rewards};
//!
//! let r1 = Requirement::at_least("r1", 0.5)?;
//! let mut dynamics = DualDynamics::new(vec![r1], 0.1, EpochLength::Fixed(2))?;
//! dynamics.observe(&Rewards::new(vec![0.0, 0.0])?)?; // r1 = 0: a deficit of 0.5 …
//! dynamics.observe(&Rewards::new(vec![0.0, 0.0])?)?; // … twice, and the epoch is full
//! assert_eq!(dynamics.multipliers().as_slice(), &[0.05]); // 0 + (0.1/2)·(0.5 + 0.5)
//! # Ok::<(), acrl::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agent;
mod certificate;
mod diagnosis;
mod dual;
mod epoch;
mod error;
mod event;
mod execute;
mod finite;
pub mod guarantees;
mod history;
mod ledger_history;
mod library;
pub mod mixture;
mod multipliers;
mod named;
mod report;
mod requirement;
mod rewards;
mod rng;
mod simplex;
mod time_sharing;
mod vec_env;
mod vec_execution;
mod verdict;
mod weight_selector;

pub use agent::{Agent, AgentBuilder};
pub use certificate::{Certificate, RequirementCertificate};
pub use diagnosis::{Diagnosis, DiagnosisInput, DiagnosisVerdict, Evidence, ExactEvidence};
pub use dual::DualDynamics;
pub use epoch::{AutoEpoch, Epoch, EpochLength, EpochSchedule};
pub use error::Error;
pub use event::{EachStep, Event, Observer, Silent, Step};
pub use execute::{AugmentedState, Execution, execute, execute_runs};
pub use finite::{
    Choice, CsrModel, FiniteCmdp, FiniteCmdpBuilder, FinitePolicy, ModelError, ModelFault, Simulator,
};
pub use history::{History, MeanMinMax, Snapshot, Transient};
pub use ledger_history::MultiplierStatistics;
pub use library::{LibraryEntry, PolicyLibrary};
pub use multipliers::{Lagrangian, Multipliers};
pub use named::Named;
pub use report::{RequirementReport, RunReport};
pub use requirement::{Direction, Goal, Objective, Requirement, Scoring, Specification};
pub use rewards::{Rewards, Values};
pub use rng::Rng;
pub use vec_env::{ActionPart, BatchMatrix, Interval, Spaces, VecEnv, VecPolicy, VecTask};
pub use vec_execution::VecExecution;
pub use verdict::{Verdict, tolerance};
pub use weight_selector::Executor;

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
