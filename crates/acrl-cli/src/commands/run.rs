//! `acrl run`.

use acrl::{Executor, Verdict};
use acrl_app::{Control, FiniteExecutor, PolicyRun, Run, RunFiles, RunOptions, run_to_files};

use crate::ExitStatus;
use crate::args::{Global, RunArgs};
use crate::interrupt::listen;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, count, number, report_line, styled};

/// Runs and prints.
pub(crate) fn run(args: &RunArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let (name, input) = (&args.source.input, args.source.open()?);
    let options = RunOptions {
        execution: args.execution.options(args.runs),
        seed: global.seed,
        init_multipliers: args.init_multipliers.clone(),
        executor: args.executor,
        pictures: args.out_dir.is_some(),
    };
    let files = RunFiles {
        log: args.log.as_deref(),
        out_dir: args.out_dir.as_deref(),
        replace: args.replace,
        occupancy: args.occupancy.as_deref(),
        command: output.command(),
    };
    let bar = output.bar("running");
    let run = run_to_files(name, input, &options, &files, &Control::new(listen(), bar.clone()))?;
    bar.finish();
    if run.stopped {
        output.warn("stopped by Ctrl-C: results of the steps taken so far");
    }
    if output.is_json() {
        output.object(&run)?;
    } else {
        print(&run, output);
        args.out_dir.iter().for_each(|folder| output.line(report_line(folder)));
        match &run.policy {
            None => output.hint(format!("Try next: acrl compare {name}, to see other methods on it.")),
            Some(policy) => print_policy(policy, output),
        }
    }
    Ok(ExitStatus::of(run.met()))
}

fn print(run: &Run, output: &mut Output) {
    let report = &run.report;
    output.line(format!(
        "{} of {}, epoch {}, step size {}{}",
        count(report.runs as u64, "run"),
        count(report.steps, "step"),
        report.epoch,
        number(run.step_size, 4),
        match run.policy.as_ref().and_then(|policy| policy.executor) {
            Some(Executor::Library) => ", executor library",
            Some(Executor::TimeSharing) => ", executor time-sharing",
            _ => match run.executor {
                Some(FiniteExecutor::Stationary) => ", executor stationary",
                Some(FiniteExecutor::TimeSharing) => ", executor time-sharing",
                _ => "",
            },
        }
    ));
    if let Some(reason) = &run.executor_reason {
        output.line(styled(FAINT, reason));
    }
    output.line("");
    let mut table = run.summary().table();
    let legend = std::mem::take(&mut table.note);
    output.table(&table);
    let legend = legend.trim_end_matches('.').split("; ").filter(|line| !line.is_empty());
    legend.for_each(|line| output.line(styled(FAINT, line)));
    output.line("");
    if let Some(objective) = &run.objective
        && let Some(line) = objective.line(report)
    {
        let average = number(objective.average, 5);
        output.line(format!("{} {average}: {line}", styled(STRONG, &objective.reward)));
    }
    for (name, entry) in report.requirements.iter() {
        let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
        let (name, average, bound) = (styled(STRONG, name), number(entry.average, 4), number(entry.bound, 4));
        let certificate = number(entry.certified_shortfall, 2);
        let verdict = match entry.verdict {
            Verdict::Satisfied => styled(GOOD, "is satisfied"),
            Verdict::WithinTolerance => styled(GOOD, "is within tolerance"),
            Verdict::Violated => styled(BAD, "is violated"),
        };
        let standing = match entry.verdict {
            Verdict::Satisfied => format!("certified within {certificate} of {bound}"),
            _ => format!("behind {bound} by up to {certificate}, allowed {}", number(entry.tolerance, 2)),
        };
        output.line(format!("{name} {verdict}: average {average}, {standing}, price {}", number(price, 3)));
    }
    if let Some(longer) = &run.longer {
        output.line("");
        output.line(longer);
    }
    if let Some(advice) = &run.advice {
        output.line("");
        output.line(advice);
    }
}

fn print_policy(policy: &PolicyRun, output: &mut Output) {
    if !policy.weight_conditioned {
        output.line(format!(
            "A baseline ({}): it ignores the multipliers, which only measure its shortfall.",
            policy.policy.method
        ));
    }
    if policy.coverage.outside > 0.01 {
        output.warn(&format!(
            "{} % of the multipliers of this run are outside those of the training: train longer, or with \
             another weight_sampler",
            number(100.0 * policy.coverage.outside, 2)
        ));
    }
    if !policy.policy.complete {
        output.warn("the training of this policy was stopped early");
    }
}
