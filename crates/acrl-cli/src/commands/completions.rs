//! `acrl completions`.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::ExitStatus;
use crate::args::Cli;
use crate::output::Output;

/// Prints the script of a shell.
pub(crate) fn run(shell: Shell, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "acrl", &mut script);
    output.raw(&String::from_utf8(script)?);
    Ok(ExitStatus::Good)
}
