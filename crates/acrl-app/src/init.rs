//! `acrl init`: a problem file to start from.

use std::fs::OpenOptions;
use std::io::Write as _;

use acrl_envs::bundled;
use anyhow::{Context as _, bail};

use crate::Verdict;
use crate::args::InitArgs;
use crate::output::Output;

/// Writes a bundled problem file; never over a file that exists.
pub(crate) fn init(args: &InitArgs, output: &mut Output) -> anyhow::Result<Verdict> {
    let Some(problem) = bundled().iter().find(|b| b.name == args.name) else {
        let names: Vec<&str> = bundled().iter().map(|b| b.name).collect();
        bail!("no bundled problem is called '{}': there are {}", args.name, names.join(", "));
    };
    let Some(path) = &args.output else {
        output.raw(problem.text);
        return Ok(Verdict::Good);
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(problem.text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    output.hint(format!("Wrote {0}. Try next: acrl solve {0}", path.display()));
    Ok(Verdict::Good)
}
