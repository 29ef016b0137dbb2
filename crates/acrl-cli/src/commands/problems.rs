//! `acrl problems`: what comes with the program.

use acrl_envs::bundled;
use serde::Serialize;

use crate::Verdict;
use crate::output::{Output, STRONG, styled};

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
}

/// Lists the bundled problems.
pub(crate) fn problems(output: &mut Output) -> anyhow::Result<Verdict> {
    if output.is_json() {
        let list: Vec<Entry> = bundled().iter().map(|b| Entry { name: b.name, summary: b.summary }).collect();
        output.object(&serde_json::json!({ "problems": list }))?;
        return Ok(Verdict::Good);
    }
    let width = bundled().iter().map(|b| b.name.len()).max().unwrap_or(0);
    for problem in bundled() {
        let padding = " ".repeat(width - problem.name.len());
        output.line(format!("{}{padding}  {}", styled(STRONG, problem.name), problem.summary));
    }
    output.hint("Try next: acrl solve NAME, acrl run NAME, or acrl init NAME -o my.toml to edit one.");
    Ok(Verdict::Good)
}
