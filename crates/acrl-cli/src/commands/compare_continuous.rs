//! `acrl compare` on a continuous problem: every method trains on the same steps with the same seed, and runs the same runs.

use acrl::{BatchTask, Values};
use acrl_envs::MethodSetting;
use acrl_learn::{PolicyFile, Training};
use anyhow::ensure;
use indicatif::ProgressBar;

use super::run_policy::{Plan, advise, advised_steering};
use super::solve::SpecificationJson;
use super::train::{Asked, begin, online, policy_file};
use crate::args::{CompareArgs, Global};
use crate::comparison::{Comparison, Entry, print};
use crate::input::{ContinuousProblem, apply};
use crate::output::Output;
use crate::{Verdict, interrupt};

/// Compares and prints.
pub(super) fn compare(
    mut problem: ContinuousProblem,
    args: &CompareArgs,
    global: &Global,
    output: &mut Output,
) -> anyhow::Result<Verdict> {
    problem.run.steps = problem.run.steps.max(super::compare::STEPS);
    problem.run.runs = problem.run.runs.max(super::compare::RUNS);
    apply(&mut problem.run, &args.execution, global);
    let task = BatchTask::new(problem.environment.batch(), problem.specification.clone())?;
    let methods = if args.methods.is_empty() { MethodSetting::ALL } else { &args.methods[..] };
    let steps = args.budget.or(problem.train.steps_given.then_some(problem.train.steps));
    let seed = global.seed.unwrap_or(problem.train.seed);
    let asked = |method: &MethodSetting| Asked { method: *method, learner: problem.train.learner, steps };
    let mut trainings = Vec::new();
    for method in methods {
        trainings.push(begin(&problem, &task, &asked(method), seed)?);
    }
    interrupt::listen();
    let bar = output.bar(trainings.iter().map(Training::iterations).sum(), "training");
    let (mut entries, mut good, mut budget, mut step_size) = (Vec::new(), true, 0, problem.run.step_size);
    let learner = trainings.first().map(Training::learner);
    for mut training in trainings {
        train(&mut training, &task, &bar)?;
        let file = policy_file(&training, &problem, &task, seed, true)?;
        let mut run = problem.run.clone();
        advise(&mut run, file.advice, task.has_objective());
        step_size = run.step_size;
        let (start, steering) = (file.multipliers(&task)?, advised_steering(&run, file.advice));
        let plan = Plan { task: &task, file: &file, run: &run, start, steering };
        let (executions, _, _) = plan.execute(None, &ProgressBar::hidden())?;
        if interrupt::requested() {
            break;
        }
        if training.method() == Training::A_CRL {
            good = plan.report(&executions)?.met();
        }
        budget = budget.max(training.steps());
        let values = executions.into_iter().map(|run| run.averages).collect();
        entries.extend(lines(&training, &file, &task, run.tolerance, values)?);
    }
    bar.finish_and_clear();
    ensure!(!entries.is_empty(), "stopped by Ctrl-C before the first method was done");
    if interrupt::requested() {
        output.warn("stopped by Ctrl-C: this is about the methods that were done");
    }
    let comparison = Comparison {
        steps: problem.run.steps,
        runs: problem.run.runs,
        budget,
        tolerance: problem.run.tolerance,
        step_size,
        seed,
        learner,
        specification: SpecificationJson::new(task.specification()),
        methods: entries,
    };
    if output.is_json() {
        output.object(&comparison)?;
    } else {
        print(&comparison, task.specification(), output);
    }
    Ok(if good && !interrupt::requested() { Verdict::Good } else { Verdict::Bad })
}

/// Trains to the end, or until Ctrl-C.
fn train(training: &mut Training, task: &BatchTask<'_>, bar: &ProgressBar) -> anyhow::Result<()> {
    bar.set_message(format!("training {}", training.method()));
    while training.iteration() < training.iterations() && !interrupt::requested() {
        training.iterate(task)?;
        bar.inc(1);
    }
    Ok(())
}

/// A method's lines in the table: what is left of it, and what it had while it trained if that is what it guarantees.
fn lines(
    training: &Training,
    file: &PolicyFile,
    task: &BatchTask<'_>,
    tolerance: f64,
    runs: Vec<Values>,
) -> anyhow::Result<Vec<Entry>> {
    let entry = |method, runs: &[Values], note: String| {
        Entry::new(method, task.specification(), &task.scales()[1..], tolerance, runs, note)
    };
    let numbers = file.policy.numbers();
    let stopped = |method, note: String| entry(method, &runs, note).map(|entry| entry.made_of(numbers));
    let while_training = |method| -> anyhow::Result<Entry> {
        let averages = Values::new(online(training, task).unwrap_or_default())?;
        entry(method, &[averages], "averages of the training itself, from its first step on".to_owned())
    };
    let last = "its last policy, kept".to_owned();
    Ok(match training.method() {
        "fixed_weights" => vec![stopped("fixed weights", "all rewards count the same".to_owned())?],
        "dual_descent" => vec![stopped("dual descent, stopped", last)?],
        "primal_dual" => vec![while_training("primal-dual, online")?, stopped("primal-dual, stopped", last)?],
        "pid_lagrangian" => {
            vec![while_training("pid-lagrangian, online")?, stopped("pid-lagrangian, stopped", last)?]
        }
        "primal_averaging" => {
            let note = format!("policies of the training that take turns: {numbers} numbers to store");
            vec![stopped("primal averaging", note)?]
        }
        _ => vec![stopped("a-crl", format!("one policy for all multipliers, {}", training.learner()))?],
    })
}
