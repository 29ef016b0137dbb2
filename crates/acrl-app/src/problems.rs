//! The bundled problems.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use acrl_envs::{Bundled, Problem, Source, bundled};
use serde::Serialize;

use crate::{Context as _, Error};

/// A bundled problem.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BundledProblem {
    /// The name.
    pub name: &'static str,
    /// A summary in a line.
    pub summary: &'static str,
    /// True if it is continuous, and so needs training.
    pub continuous: bool,
    /// The problem file.
    #[serde(skip)]
    pub text: &'static str,
}

/// The bundled problems.
pub fn problems() -> Vec<BundledProblem> {
    let continuous =
        |b: &Bundled| matches!(Problem::parse(b.text), Ok(Problem { source: Source::Continuous(_), .. }));
    let entry = |b: &Bundled| BundledProblem {
        name: b.name,
        summary: b.summary,
        continuous: continuous(b),
        text: b.text,
    };
    bundled().iter().map(entry).collect()
}

/// The problem file of this name.
pub fn problem_text(name: &str) -> Result<&'static str, Error> {
    let found = bundled().iter().find(|b| b.name == name).map(|b| b.text);
    found.with_context(|| {
        let names: Vec<&str> = bundled().iter().map(|b| b.name).collect();
        format!("no bundled problem is called '{name}': there are {}", names.join(", "))
    })
}

/// Writes a bundled problem file; never over a file that exists.
pub fn init(name: &str, path: &Path) -> Result<(), Error> {
    let text = problem_text(name)?;
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
