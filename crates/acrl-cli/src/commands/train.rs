//! `acrl train`.

use acrl::{Executor, Named};
use acrl_app::{Control, Error, TrainOptions, TrainResult, train};
use acrl_learn::ExecutionDefaults;

use crate::ExitStatus;
use crate::args::{Global, TrainArgs};
use crate::interrupt::listen;
use crate::output::{Cell, FAINT, Output, Table, count, number, styled};

/// Trains and prints.
pub(crate) fn run(args: &TrainArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let options = TrainOptions {
        output: &args.output,
        total_steps: args.total_steps,
        learner: args.learner,
        method: args.method,
        out_dir: args.out_dir.as_deref(),
        resume: args.resume,
        replace: args.replace,
        checkpoint_every: args.checkpoint_every,
        seed: global.seed,
    };
    let bar = output.bar("training");
    let control = Control::new(listen(), bar.clone());
    let trained = train(&args.source.input, args.source.open()?, &options, &control);
    bar.finish();
    let trained = trained.map_err(|error| match error {
        Error::File(acrl_files::Error::RunExists(path)) => anyhow::anyhow!(
            "{} holds a run already: continue it with --resume, replace it with --replace, or choose another --out-dir",
            path.display()
        ),
        other => other.into(),
    })?;
    if output.is_json() {
        output.object(&trained)?;
    } else {
        print(&trained, output);
    }
    Ok(ExitStatus::of(trained.record.complete))
}

fn print(trained: &TrainResult, output: &mut Output) {
    let TrainResult { policy, record, weight_conditioned, .. } = trained;
    if !record.complete {
        output.warn(&format!(
            "stopped by Ctrl-C after iteration {} of {}: the policy is usable; --resume continues the training",
            trained.iterations, trained.total_iterations
        ));
    }
    let what = if *weight_conditioned {
        record.learner.clone()
    } else {
        format!("{} with {}", record.method, record.learner)
    };
    let (steps, seconds) = (count(record.steps, "step"), number(trained.seconds, 3));
    output.line(format!("{policy}: {what} after {steps} in {seconds} s"));
    output.line("");
    let values = &trained.single_objective_values;
    let mut header = vec![if *weight_conditioned { "all weight on" } else { "" }];
    header.extend(values.iter().map(|(name, _)| name));
    let row = |name: &str, averages: &Named<f64>| {
        let averages = averages.iter().map(|(_, v)| number(*v, 3).into());
        std::iter::once(name.into()).chain(averages).collect::<Vec<Cell>>()
    };
    let mut rows: Vec<Vec<Cell>> = match weight_conditioned {
        true => values.iter().map(|(name, averages)| row(name, averages)).collect(),
        false => values.iter().take(1).map(|(_, averages)| row("long-run average", averages)).collect(),
    };
    rows.extend(trained.online.as_ref().map(|online| row("during training", online)));
    output.table(&Table::new(header, rows, ""));
    if *weight_conditioned {
        output.line(styled(FAINT, "long-run averages with all weight on one reward"));
        let ExecutionDefaults { step_size, epoch, executor } = trained.execution_defaults;
        let executor = match executor {
            Executor::Policy => "policy",
            Executor::Library => "library",
            Executor::TimeSharing => "time-sharing",
        };
        output.line(styled(
            FAINT,
            format!("default execution: executor {executor}, epochs of {epoch} steps, step size {step_size}"),
        ));
    } else {
        output.line(styled(FAINT, "a baseline: the policy ignores the multipliers"));
    }
    output.line(styled(FAINT, format!("logs and checkpoint: {}", trained.folder)));
    output.hint(format!("Try next: acrl run {policy} --runs 20, or with other bounds: --require 'NAME>=X'."));
}
