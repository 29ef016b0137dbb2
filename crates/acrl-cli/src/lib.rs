//! The `acrl` program: arguments, text, exit status. What it computes is in `acrl-app`.
//!
//! Results go to standard output, everything else to standard error.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod commands;
mod former_flags;
mod interrupt;
mod output;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Color, Command};
use crate::output::Output;

/// The exit status of a verb with a result.
pub(crate) enum ExitStatus {
    /// 0.
    Good,
    /// 1: a requirement is not met, or a check failed.
    Bad,
}

impl ExitStatus {
    fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

/// The program: takes the words of the command line, the program's name first, and gives the exit status.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    if words.len() <= 1 {
        // `acrl` alone is a question, not a mistake.
        return if Cli::command().print_help().is_ok() { 0 } else { 2 };
    }
    if let Some(message) = former_flags::message(&words) {
        output::error(&anyhow::anyhow!(message));
        return 2;
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed standard error has no reader.
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
    let mut output = Output::new(&cli.global, output::command(&words));
    let result = match &cli.command {
        Command::Demo(args) => commands::demo::run(args, &cli.global, &mut output),
        Command::Solve(args) => commands::solve::run(args, &mut output),
        Command::Run(args) => commands::run::run(args, &cli.global, &mut output),
        Command::Train(args) => commands::train::run(args, &cli.global, &mut output),
        Command::Compare(args) => commands::compare::run(args, &cli.global, &mut output),
        Command::Reproduce(args) => commands::reproduce::run(args, &cli.global, &mut output),
        Command::Check(args) => commands::check::run(args, &cli.global, &mut output),
        Command::View(args) => commands::view::run(args, &cli.global, &mut output),
        Command::Problems => commands::problems::run(&mut output),
        Command::Init(args) => commands::init::run(args, &mut output),
        Command::Completions { shell } => commands::completions::run(*shell, &mut output),
    };
    match result.and_then(|status| output.finish().map(|()| status)) {
        Ok(ExitStatus::Good) => 0,
        Ok(ExitStatus::Bad) => 1,
        Err(error) => {
            output::error(&error);
            // After Ctrl-C the input is not to blame.
            if interrupt::interrupted() { 130 } else { 2 }
        }
    }
}
