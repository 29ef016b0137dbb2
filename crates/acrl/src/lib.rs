//! Constrained reinforcement learning that keeps its promises.
//!
//! An agent maximises the long-run average of a reward r₀ while the long-run averages of
//! r₁…r_m stay above c₁…c_m. No fixed weighting of the rewards expresses that in general, so
//! *state-augmented* constrained reinforcement learning (A-CRL) trains one policy π(s, λ) that is
//! good for every multiplier λ, and lets λ follow the measured deficit while the agent runs.
//!
//! This crate is the vocabulary of the method and its run-time half. It does no I/O.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | r₀ … r_m | rewards of one step | [`Rewards`] |
//! | V₀ … V_m | their long-run averages | [`Values`] |
//! | V_i ≥ c_i | what the agent must achieve | [`Requirement`], [`Specification`] |
//! | λ | multipliers, nonnegative | [`Multipliers`] |
//! | r_λ, 𝓛 | weighted reward, Lagrangian | [`Lagrangian`] |
//! | λ_{k+1} = \[λ_k − (η/T₀) Σ (r − c)\]₊ | the dual update | [`DualDynamics`] |
//! | T₀, k | steps between two updates | [`Epoch`], [`EpochLength`] |
//! | (s, λ) | the augmented state | [`AugmentedState`] |
//! | π(s, λ) | the policy | [`Policy`] |
//! | Algorithm 1 | training π(s, λ) | [`Learner`] |
//! | Algorithm 2 | running it | [`execute`] |
//!
//! Further: [`FiniteCmdp`] is a finite model, [`Certificate`] bounds how far a requirement can be
//! behind, [`Diagnosis`] says why it is behind, [`guarantees`] holds the constants of the theorems,
//! [`mixture`] the small linear programs over value vectors that they need, and [`RunReport`] is
//! what many runs amount to, [`History`] how they came to it.
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

mod certificate;
mod diagnosis;
mod dual;
mod environment;
mod epoch;
mod error;
mod event;
mod execute;
mod finite;
pub mod guarantees;
mod history;
mod learner;
mod ledger_history;
mod library;
pub mod mixture;
mod multipliers;
mod named;
mod policy;
mod report;
mod requirement;
mod rewards;
mod rng;
mod simplex;
mod vec_env;
mod vec_execution;
mod weight_selector;

pub use certificate::{Certificate, RequirementCertificate};
pub use diagnosis::{Diagnosis, DiagnosisInput, Evidence, ExactEvidence, Verdict};
pub use dual::DualDynamics;
pub use environment::{Environment, Task};
pub use epoch::{AutoEpoch, Epoch, EpochLength};
pub use error::Error;
pub use event::{Event, Observer, Silent};
pub use execute::{AugmentedState, Execution, MultiplierStatistics, execute, execute_runs, execute_watched};
pub use finite::{Choice, CsrModel, FiniteCmdp, FiniteCmdpBuilder, ModelError, ModelFault};
pub use history::{Arrival, History, Snapshot, Spread};
pub use learner::Learner;
pub use ledger_history::LedgerHistory;
pub use library::{LibraryEntry, PolicyLibrary};
pub use multipliers::{Lagrangian, Multipliers};
pub use named::Named;
pub use policy::Policy;
pub use report::{RequirementReport, RunReport};
pub use requirement::{Direction, Goal, Objective, Requirement, Scoring, Specification};
pub use rewards::{Rewards, Values};
pub use rng::Rng;
pub use vec_env::{ActionPart, BatchMatrix, Interval, VecEnv, VecTask};
pub use vec_execution::{VecExecution, VecPolicy};
pub use weight_selector::{Executor, WeightSelector};

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
