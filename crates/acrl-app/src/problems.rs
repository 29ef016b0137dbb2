//! `acrl problems`: what comes with the program.

use acrl_envs::{Bundled, Problem, Source, bundled};
use serde::Serialize;

use crate::Verdict;
use crate::output::{Output, STRONG, styled};

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
    /// Whether it needs training.
    continuous: bool,
}

fn continuous(problem: &Bundled) -> bool {
    matches!(Problem::parse(problem.text), Ok(Problem { source: Source::Continuous(_), .. }))
}

/// Lists the bundled problems.
pub(crate) fn problems(output: &mut Output) -> anyhow::Result<Verdict> {
    if output.is_json() {
        let entry = |b: &Bundled| Entry { name: b.name, summary: b.summary, continuous: continuous(b) };
        let list: Vec<Entry> = bundled().iter().map(entry).collect();
        output.object(&serde_json::json!({ "problems": list }))?;
        return Ok(Verdict::Good);
    }
    let width = bundled().iter().map(|b| b.name.len()).max().unwrap_or(0);
    for problem in bundled() {
        let padding = " ".repeat(width - problem.name.len());
        output.line(format!("{}{padding}  {}", styled(STRONG, problem.name), problem.summary));
    }
    let trained: Vec<&str> = bundled().iter().filter(|b| continuous(b)).map(|b| b.name).collect();
    output.hint(format!(
        "Try next: acrl solve NAME, acrl run NAME, or acrl init NAME -o my.toml to edit one. {} are continuous: acrl \
         train NAME -o policy.safetensors.",
        trained.join(", ")
    ));
    Ok(Verdict::Good)
}
