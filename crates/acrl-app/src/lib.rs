//! The use cases of acrl as typed functions, for the program, Python and other Rust code.
//!
//! | use case | function | gives |
//! |---|---|---|
//! | exact optimum and prices | [`solve`](fn@solve) | [`SolveResult`] |
//! | a solved policy for an agent without a planned end | [`SolutionFile::execution`] | [`SolutionExecution`] |
//! | optimum over the bound of one requirement | [`sweep`](fn@sweep) | [`SweptCurve`] |
//! | execution with dual dynamics | [`run`](fn@run) | [`Run`] |
//! | the same in an environment that the caller steps | [`ExternalRun`] | [`Run`] |
//! | training of a policy | [`train`](fn@train) | [`TrainResult`] |
//! | comparison of methods | [`compare`](fn@compare) | [`Comparison`] |
//! | assumptions and guarantees | [`check`](fn@check) | [`Check`] |
//! | the demo | [`demo`](fn@demo) | [`Demo`] |
//! | bundled problems | [`problems`](fn@problems), [`init`] | [`BundledProblem`] |
//! | a page in the browser | [`Viewer`] | |
//!
//! Results serialise as the objects that `acrl --json` prints, and most have a `page`. Progress and a request to stop pass
//! through a [`Control`]. Nothing here prints.
//!
//! ```
//! use acrl_app::{Control, ExecutionOptions, Input, RunOptions, Stop, run};
//!
//! let input = Input::read("monitoring")?;
//! let execution = ExecutionOptions { steps: Some(10_000), ..ExecutionOptions::default() };
//! let options = RunOptions { execution, ..RunOptions::default() };
//! let result = run("monitoring", input, &options, &Control::silent(Stop::default()))?;
//! assert!(result.met());
//! # Ok::<(), acrl_app::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod check;
pub mod check_policy;
mod compare;
mod compare_continuous;
mod comparison;
mod control;
mod demo;
mod error;
mod event_log;
mod external_run;
mod finite_execution;
mod input;
mod objective;
mod occupancy;
mod options;
mod plane;
mod problems;
mod run;
mod run_policy;
mod run_writer;
mod solution_execution;
mod solution_file;
pub mod solve;
mod sweep;
mod tabular_run;
mod train;
#[cfg(feature = "view")]
mod view;

pub use check::{Check, CheckOptions, CheckReport, check};
pub use check_policy::PolicyCheckReport;
pub use compare::{CompareOptions, compare};
pub use comparison::{Comparison, MethodEntry};
pub use control::{Control, Progress, Stop};
pub use demo::{Demo, DemoOptions, demo};
pub use error::{Context, Error};
pub use event_log::EventLog;
pub use external_run::ExternalRun;
pub use finite_execution::FiniteExecutor;
pub use input::{ContinuousProblem, FiniteProblem, Input, PolicyProblem, read_model};
pub use objective::ObjectiveResult;
pub use options::{EpochOption, ExecutionOptions, ExecutorOption, InitMultipliers, Sweep};
pub use problems::{BundledProblem, init, problem_text, problems};
pub use run::{Run, RunFiles, RunOptions, run, run_to_files};
pub use run_policy::PolicyRun;
pub use run_writer::create_folder;
pub use solution_execution::{SolutionExecution, SolutionExecutionOptions};
pub use solution_file::SolutionFile;
pub use solve::{PolicyRow, PolicyTable, SolveResult, SolveSettings, solve};
pub use sweep::{SweptCurve, sweep};
pub use train::{TrainOptions, TrainResult, train};
#[cfg(feature = "view")]
pub use view::Viewer;
