//! The report of a reproduction.

use acrl_report::run_page::pairs;
use acrl_report::{Block, Details, Figure, Report, number};

use crate::{ClaimEntry, ClaimVerdict, Criterion, Reproduction};

/// Claims by verdict, and figures.
pub(crate) fn report(reproduction: &Reproduction, figures: Vec<Figure>, only: &[String]) -> Report {
    // What did not come out as printed is on top.
    let order = [ClaimVerdict::Fail, ClaimVerdict::Deviates, ClaimVerdict::Erratum, ClaimVerdict::Pass];
    let mut blocks = Vec::new();
    for verdict in order {
        let rows: Vec<Details> =
            reproduction.claims.iter().filter(|claim| claim.verdict == verdict).map(row).collect();
        if !rows.is_empty() {
            blocks.extend([
                Block::Heading(verdict.heading().to_owned()),
                Block::Text(about(verdict).to_owned()),
            ]);
            blocks.push(Block::Details(rows));
        }
    }
    if !figures.is_empty() {
        blocks.push(Block::Heading("Figures".to_owned()));
    }
    blocks.extend(figures.into_iter().map(numbered).map(Block::Figure));
    let mut command = "acrl reproduce".to_owned();
    if reproduction.quick {
        command.push_str(" --quick");
    }
    if !only.is_empty() {
        command.push_str(&format!(" --only {}", only.join(",")));
    }
    if reproduction.seed != 0 {
        command.push_str(&format!(" --seed {}", reproduction.seed));
    }
    let stopped = if reproduction.complete { "" } else { " It was stopped before the end." };
    let title =
        if reproduction.quick { "The paper, reproduced (quick version)" } else { "The paper, reproduced" };
    Report {
        title: title.to_owned(),
        lead: format!(
            "Claims of \"State Augmented Constrained Reinforcement Learning\": {}. The thresholds are part of the \
             program.{stopped}",
            reproduction.headline
        ),
        good: Some(reproduction.good()),
        blocks,
        facts: pairs([
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("seed", reproduction.seed.to_string()),
            (
                "runs",
                if reproduction.quick { "fewer (--quick)" } else { "as many as in the paper" }.to_owned(),
            ),
            ("seconds", number(reproduction.seconds, 3)),
        ]),
        command,
    }
}

/// What a verdict means, below its heading.
fn about(verdict: ClaimVerdict) -> &'static str {
    match verdict {
        ClaimVerdict::Pass => "Measured within the threshold.",
        ClaimVerdict::Erratum => {
            "The statement of the paper is wrong or misprinted; the measurement contradicts it and agrees with the correction."
        }
        ClaimVerdict::Deviates => "The result differs from the paper's in the way that is stated.",
        ClaimVerdict::Fail => "Not reproduced.",
    }
}

/// With the paper's number in its title.
fn numbered(figure: Figure) -> Figure {
    let title = format!("Fig. {}: {}", figure.name.trim_start_matches("fig"), figure.title);
    Figure { title, ..figure }
}

/// A claim, to be opened.
fn row(claim: &ClaimEntry) -> Details {
    let listed = |criteria: &[Criterion]| criteria.iter().map(check).collect::<Vec<_>>().join("\n");
    let mut lines = vec![
        ("In the paper", claim.place.to_owned()),
        ("Required", listed(&claim.criteria)),
        ("Measured", claim.measured.clone()),
        ("Rests on", claim.rests_on()),
    ];
    if let Some(why) = claim.why {
        let label = if claim.verdict == ClaimVerdict::Pass { "Remark" } else { "Explanation" };
        lines.push((label, why.to_owned()));
    }
    if !claim.evidence.is_empty() {
        lines.push(("Evidence for it", listed(&claim.evidence)));
    }
    lines.push(("Settings", format!("{}; seed {}", claim.settings, claim.seed)));
    Details {
        anchor: claim.id.to_owned(),
        summary: typeset(claim.says),
        badge: claim.verdict.cell(),
        lines: lines.into_iter().map(|(label, text)| (label.to_owned(), typeset(&text))).collect(),
    }
}

/// A threshold with a sign for whether it holds.
fn check(criterion: &Criterion) -> String {
    format!("{criterion} {}", if criterion.holds { "✓" } else { "✗" })
}

/// Symbols in place of their names: "eta_lambda" becomes "η_λ".
fn typeset(text: &str) -> String {
    const NAMES: [(&str, &str); 6] =
        [("lambda", "λ"), ("theta", "θ"), ("eta", "η"), ("beta", "β"), ("sigma", "σ"), ("pi", "π")];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (taken, replaced) = match NAMES.iter().find(|(name, _)| *name == &rest[..word]) {
            Some((_, symbol)) => (word, *symbol),
            None if word > 0 => (word, &rest[..word]),
            None => (first.len_utf8(), &rest[..first.len_utf8()]),
        };
        out.push_str(replaced);
        rest = &rest[taken..];
    }
    let signs = [("<=", "≤"), (">=", "≥"), ("^2", "²"), ("_1", "₁"), ("_2", "₂"), (" x ", " × ")];
    signs.iter().fold(out, |text, (plain, sign)| text.replace(plain, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_replace_whole_words_only() {
        let text = "lambda_1 >= eta_lambda B^2/2, with beta(T0) on a 61 x 61 grid; a better spirit";
        assert_eq!(typeset(text), "λ₁ ≥ η_λ B²/2, with β(T0) on a 61 × 61 grid; a better spirit");
        assert_eq!(typeset("‖r‖ on average"), "‖r‖ on average");
    }
}
