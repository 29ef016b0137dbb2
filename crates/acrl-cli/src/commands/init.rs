//! `acrl init`.

use acrl_app::{init, problem_text};

use crate::ExitStatus;
use crate::args::InitArgs;
use crate::output::Output;

/// Writes or prints a bundled problem file.
pub(crate) fn run(args: &InitArgs, output: &mut Output) -> anyhow::Result<ExitStatus> {
    match &args.output {
        None => output.raw(problem_text(&args.name)?),
        Some(path) => {
            init(&args.name, path)?;
            output.hint(format!("Wrote {0}. Try next: acrl solve {0}", path.display()));
        }
    }
    Ok(ExitStatus::Good)
}
