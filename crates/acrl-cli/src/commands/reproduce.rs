//! `acrl reproduce`.

use acrl_app::Control;
use acrl_paper::{ClaimEntry, ClaimVerdict, ReproduceOptions, Reproduction, reproduce};

use crate::ExitStatus;
use crate::args::{Global, ReproduceArgs};
use crate::interrupt::listen;
use crate::output::{Cell, Output, STRONG, Table, Tone, styled};

/// Runs the experiments, writes the report, prints the verdicts.
pub(crate) fn run(args: &ReproduceArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let options = ReproduceOptions {
        quick: args.quick,
        only: args.only.clone(),
        out_dir: args.out_dir.clone(),
        seed: global.seed.unwrap_or(0),
    };
    let bar = output.bar("reproducing");
    let reproduction = reproduce(&options, &Control::new(listen(), bar.clone()))?;
    bar.finish();
    if !reproduction.complete {
        output.warn("stopped by Ctrl-C: results of the completed experiments");
    }
    if reproduction.quick {
        output.note("quick version: fewer runs than in the paper, stated for each claim");
    }
    if output.is_json() {
        output.object(&reproduction)?;
    } else {
        print(&reproduction, output);
    }
    Ok(ExitStatus::of(reproduction.good()))
}

fn print(reproduction: &Reproduction, output: &mut Output) {
    let row = |claim: &ClaimEntry| {
        let figure = Cell::new(claim.figure.unwrap_or_default(), Tone::Faint);
        let sample = if claim.full_sample.is_some() {
            format!("{} (quick)", claim.sample)
        } else {
            claim.sample.clone()
        };
        vec![claim.id.into(), figure, claim.verdict.cell(), Cell::new(sample, Tone::Faint)]
    };
    let header = ["claim", "figure", "verdict", "rests on"];
    output.table(&Table::new(header, reproduction.claims.iter().map(row), ""));
    for verdict in ClaimVerdict::ALL.into_iter().filter(|verdict| *verdict != ClaimVerdict::Pass) {
        let mut claims = reproduction.claims.iter().filter(|claim| claim.verdict == verdict).peekable();
        if claims.peek().is_some() {
            output.line("");
            output.line(styled(STRONG, verdict.heading()));
        }
        claims.for_each(|claim| explain(claim, output));
    }
    output.line("");
    output.line(&reproduction.headline);
    output.line(format!("report: {}/report.html", reproduction.folder));
}

/// A claim that did not come out as printed.
fn explain(claim: &ClaimEntry, output: &mut Output) {
    output.line(format!("{} ({})", styled(STRONG, claim.id), claim.place));
    output.line(format!("  the paper: {}", claim.says));
    for criterion in &claim.criteria {
        output.line(format!("  required:  {criterion}"));
    }
    output.line(format!("  measured:  {}", claim.measured));
    output.line(format!("  rests on:  {}", claim.rests_on()));
    if let Some(why) = claim.why {
        output.line(format!("  why:       {why}"));
    }
    for criterion in &claim.evidence {
        output.line(format!("  evidence:  {criterion}"));
    }
}
