//! `acrl problems`.

use acrl_app::problems;

use crate::ExitStatus;
use crate::output::{Output, STRONG, styled};

/// Lists the bundled problems.
pub(crate) fn run(output: &mut Output) -> anyhow::Result<ExitStatus> {
    let problems = problems();
    if output.is_json() {
        output.object(&serde_json::json!({ "problems": problems }))?;
        return Ok(ExitStatus::Good);
    }
    let width = problems.iter().map(|b| b.name.len()).max().unwrap_or(0);
    for problem in &problems {
        let padding = " ".repeat(width - problem.name.len());
        output.line(format!("{}{padding}  {}", styled(STRONG, problem.name), problem.summary));
    }
    let continuous: Vec<&str> = problems.iter().filter(|b| b.continuous).map(|b| b.name).collect();
    output.hint(format!(
        "Try next: acrl solve NAME, acrl run NAME, or acrl init NAME -o my.toml to edit one. {} are continuous: acrl \
         train NAME -o policy.safetensors.",
        continuous.join(", ")
    ));
    Ok(ExitStatus::Good)
}
