//! `acrl run`: Algorithm 2 with the exact π(s, λ), many times, and a report on every requirement.

use std::ops::ControlFlow;
use std::sync::Mutex;

use acrl::{
    Course, DualDynamics, EpochLength, Event, Execution, Observer, Rng, RunReport, Symptoms, Task,
    Verdict as Matter, execute_runs, execute_watched,
};
use acrl_exact::{Answer, ExactPolicy, FiniteTask, SolveOptions, almost_sure, solve, witness};
use anyhow::{Context as _, bail, ensure};
use indicatif::ProgressBar;
use serde::Serialize;

use super::solve::{SpecificationJson, objective_sign};
use crate::args::{Global, RunArgs};
use crate::folder::{Folder, page_line};
use crate::input::{Input, Loaded};
use crate::log::Log;
use crate::output::{Output, count};
use crate::page::{Remarks, Told, run_page};
use crate::report::{Beside, print};
use crate::{Verdict, interrupt};

/// Runs and prints.
pub(crate) fn run(args: &RunArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    match Input::open(&args.source)? {
        Input::Finite(loaded) => run_finite(*loaded, args, global, output),
        Input::Policy(policy) => super::run_policy::run(*policy, args, global, output),
        Input::Continuous(_) => bail!(
            "{0} is continuous: a policy is needed to run it; train one with: acrl train {0} -o policy.safetensors, \
             then: acrl run policy.safetensors",
            args.source.input
        ),
    }
}

fn run_finite(
    mut loaded: Loaded,
    args: &RunArgs,
    global: &Global,
    output: &mut Output,
) -> anyhow::Result<Verdict> {
    for (flag, given) in [
        ("--occupation", args.occupation.is_some()),
        ("--start", args.start.is_some()),
        ("--steering", args.steering.is_some()),
    ] {
        ensure!(!given, "{flag} is for policies that were trained; {} is a finite model", args.source.input);
    }
    loaded.apply(&args.execution, global);
    let task = loaded.task()?;
    let mut log = args.log.as_deref().map(Log::create).transpose()?;
    interrupt::listen();
    let mut folder = args.folder.as_deref().map(|path| Folder::create(path, args.replace)).transpose()?;
    if let Some(folder) = &mut folder {
        folder.begin(task.specification(), loaded.run.steps);
    }
    let bar = output.bar(loaded.run.steps.saturating_mul(loaded.run.runs as u64), "running");
    let live = folder.as_mut().map(|folder| &mut folder.log);
    let (executions, course) = run_exact(&loaded, &task, live, &bar)?;
    bar.finish_and_clear();
    if let Some(log) = &mut log {
        // The first run once more, now with every event written down: it is the same to the bit.
        execute_exact(&loaded, &task, 0, log, |_, _| {})?;
        log.finish()?;
    }
    if interrupt::requested() {
        output.warn("stopped by Ctrl-C: this is about the steps taken so far");
    }
    let report = report(&loaded, &task, &executions)?;
    let optimum = optimum(&task);
    if let Some(folder) = folder {
        let (specification, tolerance) = (task.specification(), loaded.run.tolerance);
        let told = Told { specification, report: &report, course: &course, tolerance };
        let remarks = Remarks { advice: advice(&report, &loaded, &task), ..Remarks::default() };
        let page = run_page(&args.source.input, &told, &loaded.run, remarks, Vec::new());
        folder.finish(&executions[0].certificate, &page, None)?;
    }
    if output.is_json() {
        output.object(&RunJson {
            met: report.met(),
            report: &report,
            optimum,
            specification: SpecificationJson::new(task.specification()),
            step_size: loaded.run.step_size,
            tolerance: loaded.run.tolerance,
            seed: loaded.run.seed,
        })?;
    } else {
        let beside = Beside {
            specification: task.specification(),
            run: &loaded.run,
            objective_scale: task.objective_scale(),
            optimum,
            best: "the best possible",
            steering: None,
            advice: advice(&report, &loaded, &task),
        };
        print(&report, &beside, output);
        if let Some(folder) = &args.folder {
            output.line(page_line(folder));
        }
        output.hint(format!("Try next: acrl compare {}, to see other methods on it.", args.source.input));
    }
    Ok(if report.met() { Verdict::Good } else { Verdict::Bad })
}

/// The report, and what it takes to understand and to repeat it.
#[derive(Serialize)]
struct RunJson<'a> {
    met: bool,
    #[serde(flatten)]
    report: &'a RunReport,
    optimum: Option<f64>,
    specification: SpecificationJson,
    step_size: f64,
    tolerance: f64,
    seed: u64,
}

/// The best possible objective in the user's sign, where it is quickly found.
fn optimum(task: &FiniteTask<'_>) -> Option<f64> {
    const CHOICES: usize = 20_000;
    if !task.has_objective() || task.model().choice_count() > CHOICES {
        return None;
    }
    let options = SolveOptions { gap: 1e-4, ..SolveOptions::default() };
    if !task.structure().is_communicating() {
        return almost_sure(task, &options).ok()?.objective.map(|v| objective_sign(task) * v + 0.0);
    }
    match solve(task, &options, &mut |_| ControlFlow::Continue(())) {
        Ok(Answer::Optimal(best)) => Some(objective_sign(task) * best.objective + 0.0),
        _ => None,
    }
}

/// All runs of the exact policy, on all cores, and their course; snapshots of the first are written to `live`.
pub(crate) fn run_exact(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    live: Option<&mut Log>,
    bar: &ProgressBar,
) -> anyhow::Result<(Vec<Execution<usize>>, Course)> {
    let live = live.map(Mutex::new);
    let done = execute_runs(loaded.run.runs, |run| -> anyhow::Result<_> {
        let live = live.as_ref().filter(|_| run == 0);
        let mut course = loaded.course(task);
        let look = |taken: u64, dynamics: &DualDynamics| {
            if course.is_due(taken) {
                let snapshot = course.look(taken, [dynamics]);
                let log = live.and_then(|live| live.lock().ok());
                if let (Some(snapshot), Some(mut log)) = (snapshot, log) {
                    log.write(&Event::Snapshot(snapshot));
                }
            }
        };
        let execution = execute_exact(loaded, task, run as u64, &mut Progress::new(bar), look)?;
        Ok((execution, course))
    })?;
    let (mut runs, mut all) = (Vec::new(), None::<Course>);
    // Of runs that were stopped by Ctrl-C before their first step there is nothing to tell.
    for (execution, course) in done.into_iter().filter(|(execution, _)| execution.steps > 0) {
        runs.push(execution);
        match &mut all {
            Some(all) => all.merge(&course),
            None => all = Some(course),
        }
    }
    Ok((runs, all.context("stopped by Ctrl-C before the first step")?))
}

fn execute_exact(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    run: u64,
    observer: &mut dyn Observer,
    each_step: impl FnMut(u64, &DualDynamics),
) -> anyhow::Result<Execution<usize>> {
    let mut environment = Task::new(&loaded.model, loaded.specification.clone())?;
    let mut dynamics = loaded.dynamics(task)?;
    let mut policy = ExactPolicy::new(task);
    let mut rng = Rng::stream(loaded.run.seed, run);
    let steps = loaded.run.steps;
    let execution =
        execute_watched(&mut environment, &mut policy, &mut dynamics, steps, &mut rng, observer, each_step)?;
    policy.failure().map_or(Ok(execution), |failure| Err(failure.into()))
}

/// Sums the runs up, with the exact model as a witness where a requirement is behind.
pub(crate) fn report(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    executions: &[Execution<usize>],
) -> anyhow::Result<RunReport> {
    let symptoms = |exact| Symptoms {
        scales: task.scales().to_vec(),
        tolerances: loaded.tolerances(task),
        exact,
        ..Symptoms::default()
    };
    let first = RunReport::new(&loaded.specification, executions, symptoms(None)).context("no run")?;
    if first.met() {
        return Ok(first);
    }
    let longer = first.epoch as f64 / loaded.run.epoch_length().start() as f64;
    let (exact, reach) = witness(task, loaded.run.step_size * longer)?;
    // In a model of several parts the averages of the runs are what this policy settles at, and no
    // switching takes it out of the part in which it is.
    let ended: Vec<Vec<f64>> = executions.iter().map(|run| run.averages.requirements().to_vec()).collect();
    let settled = if task.structure().is_communicating() { &[][..] } else { &ended[..] };
    let symptoms = Symptoms { reach, settled, ..symptoms(Some(exact)) };
    RunReport::new(&loaded.specification, executions, symptoms).context("no run")
}

/// Moves a progress bar along, now and then.
pub(crate) struct Progress<'a> {
    bar: &'a ProgressBar,
    told: u64,
    begin: Option<u64>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(bar: &'a ProgressBar) -> Self {
        Self { bar, told: 0, begin: None }
    }

    fn tell(&mut self, step: u64) {
        self.bar.inc(step - self.told);
        self.told = step;
    }
}

impl Observer for Progress<'_> {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Started { .. } if interrupt::requested() => return ControlFlow::Break(()),
            Event::Epoch(epoch) => {
                let begin = *self.begin.get_or_insert(epoch.step - epoch.steps);
                if epoch.step - begin >= self.told + (1 << 18) {
                    self.tell(epoch.step - begin);
                    if interrupt::requested() {
                        return ControlFlow::Break(());
                    }
                }
            }
            Event::Finished { steps, .. } => self.tell(*steps),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// What to do about it, in a sentence.
fn advice(report: &RunReport, loaded: &Loaded, task: &FiniteTask<'_>) -> Option<String> {
    let names = report.diagnosis.names.join(", ");
    let parts = task.structure().end_components.len();
    let auto = matches!(loaded.run.epoch_length(), EpochLength::Auto(_));
    let updates = report.diagnosis.evidence.updates;
    Some(match report.diagnosis.verdict {
        Matter::Met => return None,
        Matter::Infeasible if parts > 1 => format!(
            "Infeasible on a single path: the model has {parts} separate end components, and a run ends in one of \
             them; acrl solve gives the expected values."
        ),
        Matter::EpochTooShort | Matter::Converging | Matter::PolicyInsufficient if parts > 1 => format!(
            "The model has {parts} separate end components, and this run ended in one that does not meet {names}; \
             acrl solve says what can be had on almost every path."
        ),
        Matter::Converging if updates == 0 => {
            "The epoch is longer than the run: take a shorter --epoch or more --steps.".to_owned()
        }
        Matter::Converging if updates < 20 => {
            format!(
                "Too early to tell: {} of the multipliers so far; take more --steps.",
                count(updates, "update")
            )
        }
        Matter::Converging => format!(
            "Converging: {names} will be met; more --steps will do (or a larger --step-size, which costs objective)."
        ),
        Matter::EpochTooShort if auto => {
            format!(
                "The multipliers of {names} still grow and the epoch is still being lengthened: take more --steps."
            )
        }
        Matter::EpochTooShort => format!(
            "Epoch too short: the requirements are feasible, but the multipliers of {names} keep growing; \
             use --epoch auto or a longer --epoch."
        ),
        Matter::Infeasible => {
            let together = if report.diagnosis.names.len() == 1 { "" } else { " together" };
            format!("Infeasible: no policy meets {names}{together}; acrl solve says what would have to give.")
        }
        Matter::PolicyInsufficient => {
            format!(
                "Policy insufficient: no mixture of what this policy does meets {names}; train it longer."
            )
        }
    })
}
