//! `acrl demo`.

use acrl::{Requirement, RequirementReport};
use acrl_app::{Control, Demo, DemoOptions, demo};
use acrl_report::bound;
use acrl_report::run_page::verdict_cell;

use crate::ExitStatus;
use crate::args::{DemoArgs, Global};
use crate::interrupt::listen;
use crate::output::{Cell, FAINT, Output, STRONG, Table, count, number, styled};

/// Runs the demo and prints.
pub(crate) fn run(args: &DemoArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let command = output.command().to_owned();
    let options = DemoOptions {
        out_dir: &args.out_dir,
        train_steps: args.train_steps,
        seed: global.seed,
        command: &command,
    };
    let bar = output.bar("training");
    let demo = demo(&options, &Control::new(listen(), bar.clone()))?;
    bar.finish();
    if output.is_json() {
        output.object(&demo)?;
    } else {
        print(&demo, output);
        output.line("");
        output.line(format!("Report: {} (or: acrl view {})", demo.report, args.out_dir.display()));
        output.line(styled(FAINT, format!("policy: {}; {} s in all", demo.policy, number(demo.seconds, 2))));
        output.hint(format!(
            "Try next: acrl run {} --runs 20 --require 'blue>=0.5', or acrl init planar-speed -o mine.toml",
            demo.policy
        ));
    }
    Ok(ExitStatus::of(demo.met))
}

fn print(demo: &Demo, output: &mut Output) {
    output.line(styled(STRONG, "Four regions, each to be monitored for a share of the time"));
    output.line(format!(
        "one policy for all multipliers ({}, {}), {} of {}",
        demo.comparison.learner.unwrap_or_default(),
        count(demo.train_steps, "training step"),
        count(demo.first.runs as u64, "run"),
        count(demo.first.steps, "step")
    ));
    output.line("");
    output.table(&demo.table);
    output.line("");
    output.line(styled(STRONG, "Other requirements, the same policy, without retraining"));
    output.line("");
    let rows = demo.changed_specification.requirements().iter().zip(demo.changed.requirements.iter());
    let row = |(r, (name, entry)): (&Requirement, (&str, &RequirementReport))| {
        let numbers = [(entry.average, 3), (entry.worst, 3), (entry.certified_shortfall, 2)];
        let mut row: Vec<Cell> = vec![name.into(), bound(r.direction(), r.bound(), 4).into()];
        row.extend(numbers.map(|(x, digits)| number(x, digits).into()));
        row.push(verdict_cell(entry.verdict));
        row
    };
    let header = ["", "bound", "average", "worst run", "certified shortfall", "verdict"];
    output.table(&Table::new(header, rows.map(row), ""));
}
