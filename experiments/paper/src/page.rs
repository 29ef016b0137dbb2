//! The report of a reproduction.

use acrl_report::run_page::pairs;
use acrl_report::{Block, Cell, Figure, Report, Table, Tone, number};

use crate::{ClaimEntry, Reproduction};

/// Figures, verdicts and all that was measured.
pub(crate) fn report(reproduction: &Reproduction, figures: Vec<Figure>, only: &[String]) -> Report {
    let Reproduction { passed, deviates, failed, .. } = reproduction;
    let mut blocks = vec![Block::Heading("Verdicts".to_owned()), Block::Table(verdicts(reproduction))];
    if !figures.is_empty() {
        blocks.push(Block::Heading("Figures".to_owned()));
    }
    blocks.extend(figures.into_iter().map(numbered).map(Block::Figure));
    blocks.push(Block::Heading("Claim by claim".to_owned()));
    blocks.extend(reproduction.claims.iter().map(claim_block));
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
    Report {
        title: "The paper, reproduced".to_owned(),
        lead: format!(
            "Of the claims of \"State Augmented Constrained Reinforcement Learning\" {passed} pass, {deviates} deviate for a known \
             reason and {failed} fail. Thresholds are part of the program.{stopped}"
        ),
        good: Some(*failed == 0 && reproduction.complete),
        blocks,
        facts: pairs([
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("seed", reproduction.seed.to_string()),
            ("runs", if reproduction.quick { "fewer (--quick)" } else { "the paper's" }.to_owned()),
            ("seconds", number(reproduction.seconds, 3)),
        ]),
        command,
    }
}

/// With the paper's number in its title.
fn numbered(figure: Figure) -> Figure {
    let title = format!("Fig. {}: {}", figure.name.trim_start_matches("fig"), figure.title);
    Figure { title, ..figure }
}

fn verdicts(reproduction: &Reproduction) -> Table {
    let row =
        |claim: &ClaimEntry| vec![claim.says.into(), Cell::new(claim.id, Tone::Faint), claim.verdict.cell()];
    let note = "deviates: not as in the paper, with the reason stated below";
    Table::new(["the paper says", "claim", "verdict"], reproduction.claims.iter().map(row), note)
}

/// One claim in a few sentences.
fn claim_block(claim: &ClaimEntry) -> Block {
    let mut text = vec![
        format!("{} ({}): {}.", claim.id, claim.place, claim.verdict.name()),
        format!("The paper: {}", claim.says),
        format!("Required: {}.", claim.threshold),
        format!("Measured: {}.", claim.measured),
    ];
    text.extend(claim.why.map(str::to_owned));
    text.push(format!("Settings: {}; seed {}.", claim.settings, claim.seed));
    Block::Text(text.join(" "))
}
