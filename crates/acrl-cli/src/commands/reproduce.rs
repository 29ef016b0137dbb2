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
        vec![claim.id.into(), figure, claim.verdict.cell()]
    };
    output.table(&Table::new(["claim", "figure", "verdict"], reproduction.claims.iter().map(row), ""));
    output.line("");
    for claim in reproduction.claims.iter().filter(|claim| claim.verdict != ClaimVerdict::Pass) {
        output.line(format!("{} {} ({})", styled(STRONG, claim.id), claim.verdict.name(), claim.place));
        output.line(format!("  the paper: {}", claim.says));
        output.line(format!("  required:  {}", claim.threshold));
        output.line(format!("  measured:  {}", claim.measured));
        if let Some(why) = claim.why {
            output.line(format!("  why:       {why}"));
        }
    }
    output.line("");
    output.line(format!(
        "{} pass, {} deviate with a stated reason, {} fail; report: {}/report.html",
        reproduction.passed, reproduction.deviates, reproduction.failed, reproduction.folder
    ));
}
