//! `acrl compare`.

use acrl_app::{CompareOptions, Comparison, Control, Input, Stop, compare, create_folder};

use crate::ExitStatus;
use crate::args::{CompareArgs, Global};
use crate::interrupt::listen;
use crate::output::{FAINT, Output, number, report_line, styled};

/// Compares and prints.
pub(crate) fn run(args: &CompareArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let (name, input) = (&args.source.input, args.source.open()?);
    let options = CompareOptions {
        execution: args.execution.options(args.runs),
        seed: global.seed,
        train_steps: args.train_steps,
        methods: args.methods.clone(),
        train_seeds: args.train_seeds.map(|n| n as usize),
    };
    options.check(name, &input)?;
    args.out_dir.as_deref().map(create_folder).transpose()?;
    let (bar, stop) = match input {
        // A finite comparison has no partial result: Ctrl-C ends the program.
        Input::Finite(_) => (output.bar("comparing"), Stop::default()),
        _ => (output.bar("training"), listen()),
    };
    let comparison = compare(name, input, &options, &Control::new(stop, bar.clone()))?;
    bar.finish();
    if comparison.stopped {
        output.warn("stopped by Ctrl-C: results of the completed trainings");
    }
    if let Some(folder) = &args.out_dir {
        comparison.page(name, output.command()).write(folder)?;
    }
    if output.is_json() {
        output.object(&comparison)?;
    } else {
        print(&comparison, output);
        args.out_dir.iter().for_each(|folder| output.line(report_line(folder)));
        if comparison.end_components > 1 {
            output.line(format!(
                "The model has {} separate end components, and a run ends in one of them.",
                comparison.end_components
            ));
        }
    }
    // The exit status is that of A-CRL alone.
    Ok(ExitStatus::of(comparison.good))
}

/// The table, and a line on each method.
fn print(comparison: &Comparison, output: &mut Output) {
    output.line(comparison.amounts());
    output.line("");
    output.table(&comparison.table());
    if let (Some(objective), Some(optimum)) = (comparison.specification.objective(), comparison.optimum) {
        let best = format!("{}: {} is {}", objective.reward, comparison.best, number(optimum, 4));
        output.line(styled(FAINT, best));
    }
    output.line("");
    for entry in &comparison.methods {
        output.line(styled(FAINT, format!("{}: {}", entry.method, entry.note)));
    }
}
