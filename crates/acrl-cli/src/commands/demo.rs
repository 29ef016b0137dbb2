//! `acrl demo`.

use acrl_app::demo::{Demo, NOTE};
use acrl_app::{Control, DemoOptions, demo};

use crate::ExitStatus;
use crate::args::{DemoArgs, Global};
use crate::interrupt::listen;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, number, relation, styled};

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
    let (header, rows) = &demo.table;
    output.line(styled(STRONG, "Four regions, each to be monitored for a share of the time"));
    output.line(format!(
        "one policy for all multipliers ({}, {}), {} of {}",
        demo.comparison.learner.unwrap_or_default(),
        count(demo.train_steps, "training step"),
        count(demo.first.runs as u64, "run"),
        count(demo.first.steps, "step")
    ));
    output.line("");
    let mut printed = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let style = |good: &Option<bool>| match good {
        Some(true) => GOOD,
        Some(false) => BAD,
        None => anstyle::Style::new(),
    };
    for row in rows {
        printed.row(row.iter().map(|(cell, good)| (cell.clone(), style(good))).collect());
    }
    output.raw(&printed.to_string());
    output.line(styled(FAINT, NOTE));
    output.line("");
    output.line(styled(STRONG, "Other requirements, the same policy, without retraining"));
    output.line("");
    let mut printed = Table::new(&["", "bound", "average", "worst run", "certified shortfall", "met"]);
    for (r, (name, entry)) in
        demo.changed_specification.requirements().iter().zip(demo.changed.requirements.iter())
    {
        let plain = anstyle::Style::new();
        let mut row: Vec<(String, anstyle::Style)> = [
            name.to_owned(),
            relation(r, 4),
            number(entry.average, 3),
            number(entry.worst, 3),
            number(entry.certified_shortfall, 2),
        ]
        .map(|cell| (cell, plain))
        .into();
        row.push(if entry.met { ("yes".to_owned(), GOOD) } else { ("NO".to_owned(), BAD) });
        printed.row(row);
    }
    output.raw(&printed.to_string());
}
