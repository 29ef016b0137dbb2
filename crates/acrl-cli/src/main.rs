//! The `acrl` program. Results go to standard output, everything else to standard error.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod commands;
mod comparison;
mod figures;
mod folder;
mod follow;
mod input;
mod interrupt;
mod live;
mod live_report;
mod log;
mod occupation;
mod output;
mod page;
mod plane;
mod report;
mod server;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Color, Command};
use crate::output::Output;

/// What a verb found: whether everything required holds.
pub(crate) enum Verdict {
    /// Exit status 0.
    Good,
    /// A requirement is not met, or a check failed: exit status 1.
    Bad,
}

fn main() -> ExitCode {
    if std::env::args_os().len() == 1 {
        // Somebody who says only `acrl` wants to know what it is for; that is no mistake.
        return match Cli::command().print_help() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(2),
        };
    }
    let cli = Cli::parse();
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
    let mut output = Output::new(&cli.global);
    let result = match &cli.command {
        Command::Demo(args) => commands::demo::demo(args, &cli.global, &mut output),
        Command::Solve(args) => commands::solve::solve(args, &mut output),
        Command::Run(args) => commands::run::run(args, &cli.global, &mut output),
        Command::Train(args) => commands::train::train(args, &cli.global, &mut output),
        Command::Compare(args) => commands::compare::compare(args, &cli.global, &mut output),
        Command::Reproduce(args) => commands::reproduce::reproduce(args, &cli.global, &mut output),
        Command::Check(args) => commands::check::check(args, &cli.global, &mut output),
        Command::View(args) => commands::view::view(args, &cli.global, &mut output),
        Command::Problems => commands::problems::problems(&mut output),
        Command::Init(args) => commands::init::init(args, &mut output),
        Command::Completions { shell } => commands::completions::completions(*shell, &mut output),
    };
    match result.and_then(|verdict| output.finish().map(|()| verdict)) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(error) => {
            output::error(&error);
            // Nothing is wrong with the input of somebody who pressed Ctrl-C.
            ExitCode::from(if interrupt::requested() { 130 } else { 2 })
        }
    }
}
