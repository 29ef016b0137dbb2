//! The `acrl` program as a library: what its verbs compute, apart from how they print it.
//!
//! [`main`] is the program itself: results go to standard output, everything else to standard error. The others give
//! results to go on with. Each serialises as the object that `--json` prints, and is also a page:
//!
//! | verb | computes | gives |
//! |---|---|---|
//! | `acrl solve` | [`solve`] | [`SolveResult`] |
//! | `acrl solve --sweep` | [`sweep`] | [`SweptCurve`] |
//! | `acrl run` | [`run`] | [`Run`] |
//! | `acrl compare` | [`compare`] | [`Comparison`] |
//! | `acrl reproduce` | [`reproduce`] | [`Reproduction`] |
//!
//! ```
//! use acrl_app::{Execution, Input, RunOptions, Stop, Watch, run};
//!
//! let input = Input::read("monitoring")?;
//! let execution = Execution { steps: Some(10_000), ..Execution::default() };
//! let options = RunOptions { execution, ..RunOptions::default() };
//! let found = run("monitoring", input, &options, &Watch::silent(Stop::default()))?;
//! assert!(found.met());
//! # Ok::<(), anyhow::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer_file;
mod args;
mod check;
mod compare;
mod compare_continuous;
mod comparison;
mod completions;
#[path = "../../acrl-report/src/curves.rs"]
mod curves;
mod demo;
mod folder;
mod init;
mod input;
#[path = "../../acrl-report/src/live_page.rs"]
mod live_page;
mod log;
mod occupancy;
mod output;
mod plane;
mod problems;
mod report;
#[path = "../../../experiments/paper/src/lib.rs"]
mod reproduce;
mod run;
#[path = "../../acrl-report/src/run_figures.rs"]
mod run_figures;
#[path = "../../acrl-report/src/run_page.rs"]
mod run_page;
mod run_policy;
mod solve;
mod sweep;
mod train;
mod view;
mod watch;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};

pub use crate::args::{EpochArg, Execution, Start, Sweep};
pub use crate::compare::{CompareOptions, compare};
pub use crate::comparison::Comparison;
pub use crate::input::{ContinuousProblem, Input, Loaded, PolicyProblem, read_model};
pub use crate::reproduce::{ReproduceOptions, Reproduction, reproduce};
pub use crate::run::{Run, RunOptions, page_of, run};
pub use crate::solve::{SolveResult, SolveSettings, solve};
pub use crate::sweep::{SweptCurve, sweep};
pub use crate::watch::{Stop, Watch};

use crate::args::{Cli, Color, Command};
use crate::output::Output;

/// What a verb found: whether everything required holds.
pub(crate) enum Verdict {
    /// Exit status 0.
    Good,
    /// A requirement is not met, or a check failed: exit status 1.
    Bad,
}

impl Verdict {
    fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

/// The program: takes the words of the command line, the program's name first, and gives the exit status.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    if words.len() <= 1 {
        // Somebody who says only `acrl` wants to know what it is for; that is no mistake.
        return if Cli::command().print_help().is_ok() { 0 } else { 2 };
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            // What cannot be shown has no reader.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let choice = match cli.global.color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    if let Some(threads) = cli.global.threads {
        // Fails only if the pool exists already, and nothing has used it yet.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build_global();
    }
    let mut output = Output::new(&cli.global, run_page::command(&words));
    let result = match &cli.command {
        Command::Demo(args) => demo::demo(args, &cli.global, &mut output),
        Command::Solve(args) => solve::verb(args, &mut output),
        Command::Run(args) => run::verb(args, &cli.global, &mut output),
        Command::Train(args) => train::train(args, &cli.global, &mut output),
        Command::Compare(args) => compare::verb(args, &cli.global, &mut output),
        Command::Reproduce(args) => reproduce::verb(args, &cli.global, &mut output),
        Command::Check(args) => check::check(args, &cli.global, &mut output),
        Command::View(args) => view::view(args, &cli.global, &mut output),
        Command::Problems => problems::problems(&mut output),
        Command::Init(args) => init::init(args, &mut output),
        Command::Completions { shell } => completions::completions(*shell, &mut output),
    };
    match result.and_then(|verdict| output.finish().map(|()| verdict)) {
        Ok(Verdict::Good) => 0,
        Ok(Verdict::Bad) => 1,
        Err(error) => {
            output::error(&error);
            // Nothing is wrong with the input of somebody who pressed Ctrl-C.
            if watch::interrupted() { 130 } else { 2 }
        }
    }
}
