//! Running: Algorithm 2 with the exact π(s, λ) or a trained one, many times, and a report on every requirement.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use acrl::{
    Certificate, DiagnosisInput, DiagnosisVerdict, EachStep, EpochLength, Event, Execution, History,
    Observer, RunReport, Snapshot, Specification, Step, execute_runs,
};
use acrl_exact::{FiniteTask, Solution, SolveOptions, almost_sure, exact_evidence, solve};
use acrl_report::run_page::{Notes, RunSummary, run_page};
use acrl_report::{Figure, Report, count};
use serde::Serialize;

use crate::control::{Control, Progress as _, Stop};
use crate::event_log::EventLog;
use crate::finite_execution::{FiniteExecution, FiniteExecutor};
use crate::input::{FiniteProblem, Input, apply};
use crate::objective::ObjectiveResult;
use crate::options::{ExecutionOptions, ExecutorOption, InitMultipliers};
use crate::run_policy::{self, PolicyRun};
use crate::run_writer::RunWriter;
use crate::solve::objective_sign;
use crate::{Context as _, Error, bail, ensure};

/// Options of [`run`]. What is absent is as in the problem file, or as a trained policy recommends.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Steps, runs, step size, epoch and tolerance.
    pub execution: ExecutionOptions,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// The multipliers that a run starts with.
    pub init_multipliers: Option<InitMultipliers>,
    /// What turns multipliers into actions.
    pub executor: Option<ExecutorOption>,
    /// Draw the behaviour of a trained policy in the plane for the page, where its environment is planar.
    pub pictures: bool,
}

/// Files that [`run_to_files`] writes.
#[derive(Debug, Clone, Default)]
pub struct RunFiles<'a> {
    /// The events of the first run.
    pub log: Option<&'a Path>,
    /// A folder for the events of all runs and the page.
    pub out_dir: Option<&'a Path>,
    /// Replace a run that the folder holds already.
    pub replace: bool,
    /// The share of the time in each cell of a grid.
    pub occupancy: Option<&'a Path>,
    /// The command that repeats the run, for the page.
    pub command: &'a str,
}

impl RunFiles<'_> {
    /// Creates the log and the folder, in which the runs begin.
    pub(crate) fn open(
        &self,
        specification: &Specification,
        steps: u64,
        stop: &Stop,
    ) -> Result<(Option<EventLog>, Option<RunWriter>), Error> {
        let log = self.log.map(|path| EventLog::create(path, stop.clone())).transpose()?;
        let folder = |path| RunWriter::create(path, self.replace, specification, steps, stop.clone());
        Ok((log, self.out_dir.map(folder).transpose()?))
    }
}

/// The results of some runs and their settings. Serialises as the object of `acrl run --json`.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Averages, certificates and the diagnosis.
    #[serde(flatten)]
    pub report: RunReport,
    /// The objective beside the optimum; `null` without one.
    pub objective: Option<ObjectiveResult>,
    /// The objective and the requirements.
    pub specification: Specification,
    /// Step size of the dual update.
    pub step_size: f64,
    /// Certified shortfall that counts as met, as a share of what is asked.
    pub tolerance: f64,
    /// Seed of all randomness.
    pub seed: u64,
    /// The trained policy, if one was run.
    #[serde(flatten)]
    pub policy: Option<PolicyRun>,
    /// The executor of a finite problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<FiniteExecutor>,
    /// Why it was chosen, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_reason: Option<String>,
    /// Expected steps of a change from one policy to another, where policies take turns.
    #[serde(skip)]
    pub change_of_behaviour: u64,
    /// Averages, multipliers and certificates over time.
    #[serde(skip)]
    pub history: History,
    /// The certificate of the first run.
    #[serde(skip)]
    pub certificate: Certificate,
    /// How long a run has to be until changes of policy cost next to nothing, if this one is shorter, in a sentence.
    #[serde(skip)]
    pub longer: Option<String>,
    /// The diagnosis of requirements that are not met and what to do about it, in a sentence.
    #[serde(skip)]
    pub advice: Option<String>,
    /// The problem file, if it is embedded in a policy.
    #[serde(skip)]
    pub(crate) problem: Option<String>,
    #[serde(skip)]
    pub(crate) pictures: Vec<Figure>,
    /// True if a stop was requested before the end.
    #[serde(skip)]
    pub stopped: bool,
}

/// Runs a finite problem or a trained policy, to the end or until a stop is requested. `name` is the input's name in
/// messages.
pub fn run(name: &str, input: Input, options: &RunOptions, control: &Control) -> Result<Run, Error> {
    run_to_files(name, input, options, &RunFiles::default(), control)
}

/// [`run`], which also writes files.
pub fn run_to_files(
    name: &str,
    input: Input,
    options: &RunOptions,
    files: &RunFiles<'_>,
    control: &Control,
) -> Result<Run, Error> {
    let (run, folder) = match input {
        Input::Finite(problem) => run_finite(name, *problem, options, files, control)?,
        Input::Policy(policy) => run_policy::run(name, *policy, options, files, control)?,
        Input::Continuous(_) => bail!(
            "{name} is continuous: a policy is needed to run it; train one with: acrl train {name} -o policy.safetensors, \
             then: acrl run policy.safetensors"
        ),
    };
    if let Some(folder) = folder {
        folder.finish(&run.certificate, &run.page(name, files.command), run.problem.as_deref())?;
    }
    Ok(run)
}

fn run_finite(
    name: &str,
    mut problem: FiniteProblem,
    options: &RunOptions,
    files: &RunFiles<'_>,
    control: &Control,
) -> Result<(Run, Option<RunWriter>), Error> {
    ensure!(
        files.occupancy.is_none(),
        "--occupancy is for policies that were trained; {name} is a finite model"
    );
    apply(&mut problem.run, &options.execution, options.seed);
    check_solved(name, &problem)?;
    let task = problem.task()?;
    let init = options.init_multipliers.as_ref();
    let execution = FiniteExecution::new(name, &problem, &task, options.executor, init, &control.stop)?;
    let (mut log, mut folder) = files.open(task.specification(), problem.run.steps, &control.stop)?;
    control.begin(problem.run.steps.saturating_mul(problem.run.runs as u64));
    let live = folder.as_mut().map(|folder| &mut folder.log);
    let (executions, history) = run_exact(&problem, &task, &execution, log.as_mut(), live, control)?;
    if let Some(log) = &mut log {
        log.finish()?;
    }
    let report = report(&problem, &task, &execution, &executions)?;
    let run = Run {
        objective: ObjectiveResult::new(
            task.specification(),
            &report,
            execution.optimum.or_else(|| optimum(&task)),
            None,
        ),
        executor: Some(execution.executor()),
        executor_reason: execution.reason.clone(),
        change_of_behaviour: execution.change_of_behaviour(),
        specification: task.specification().clone(),
        step_size: execution.step_size(&problem),
        tolerance: problem.run.tolerance,
        seed: problem.run.seed,
        policy: None,
        history,
        certificate: executions[0].certificate.clone(),
        longer: execution.longer(problem.run.steps),
        advice: advice(&report, &problem, &task, &execution),
        problem: None,
        pictures: Vec::new(),
        stopped: control.stop.requested(),
        report,
    };
    Ok((run, folder))
}

/// Fails if a solved policy is asked for other things than other bounds.
fn check_solved(name: &str, problem: &FiniteProblem) -> Result<(), Error> {
    let Some(solved) = &problem.solved else { return Ok(()) };
    let kinds = |specification: &Specification| -> Vec<(String, acrl::Direction)> {
        specification.requirements().iter().map(|r| (r.reward().to_owned(), r.direction())).collect()
    };
    let (before, now) = (&solved.specification, &problem.specification);
    let known = kinds(before);
    let other = kinds(now).into_iter().find(|kind| !known.contains(kind)).map(|(reward, _)| reward);
    ensure!(
        before.objective() == now.objective() && known == kinds(now),
        "{name} was solved for another objective or other requirements{}: bounds can be changed, other things need another \
         acrl solve --policy",
        other.map_or(String::new(), |reward| format!(", without one on '{reward}'"))
    );
    Ok(())
}

impl Run {
    /// True if no requirement is violated in any run.
    pub fn met(&self) -> bool {
        self.report.met()
    }

    /// Averages, multipliers and certificates over time.
    pub fn snapshots(&self) -> &[Snapshot] {
        self.history.snapshots()
    }

    /// The results as they are shown.
    pub fn summary(&self) -> RunSummary<'_> {
        let Self { specification, report, history, tolerance, .. } = self;
        RunSummary { specification, report, history, tolerance: *tolerance }
    }

    /// The page of the run. `input` is what was run, `command` repeats it.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let policy = self.policy.as_ref();
        let notes = Notes {
            step_size: self.step_size,
            seed: self.seed,
            training: policy.map(|policy| policy.training_line()),
            executor: policy.and_then(|policy| policy.executor),
            advice: self.advice.clone(),
            stopped: self.stopped,
        };
        run_page(input, &self.summary(), notes, self.pictures.clone(), command.to_owned())
    }
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
        Ok(Solution::Optimal(best)) => Some(objective_sign(task) * best.objective + 0.0),
        _ => None,
    }
}

/// All runs of the exact policy, on all cores, and their history. Events of the first run go to `log`, snapshots of it to
/// `live`.
pub(crate) fn run_exact(
    problem: &FiniteProblem,
    task: &FiniteTask<'_>,
    finite: &FiniteExecution,
    log: Option<&mut EventLog>,
    live: Option<&mut EventLog>,
    control: &Control,
) -> Result<(Vec<Execution<usize>>, History), Error> {
    let (log, live) = (Mutex::new(log), live.map(Mutex::new));
    let done = execute_runs(problem.run.runs, |run| -> Result<_, Error> {
        let live = live.as_ref().filter(|_| run == 0);
        let log = if run == 0 { log.lock().ok().and_then(|mut log| log.take()) } else { None };
        let mut history = problem.history(task);
        let look = |step: &Step<'_>| {
            if history.is_due(step.steps) {
                let snapshot = history.observe(step.steps, [step.agents[0].dynamics()]);
                let live = live.and_then(|live| live.lock().ok());
                if let (Some(snapshot), Some(mut live)) = (snapshot, live) {
                    live.write(&Event::Snapshot(snapshot));
                }
            }
            ControlFlow::Continue(())
        };
        let log = log.map(|log| log as &mut dyn Observer);
        let mut observer = ((ProgressObserver::new(control), log), EachStep(look));
        let execution = finite.execute(problem, task, run as u64, &mut observer)?;
        Ok((execution, history))
    })?;
    let (mut runs, mut all) = (Vec::new(), None::<History>);
    // A run that was stopped before its first step has no results.
    for (execution, history) in done.into_iter().filter(|(execution, _)| execution.steps > 0) {
        runs.push(execution);
        match &mut all {
            Some(all) => all.merge(&history),
            None => all = Some(history),
        }
    }
    Ok((runs, all.ok_or(Error::Stopped(" before the first step"))?))
}

/// Sums the runs up, with the exact model as a witness where a requirement is behind.
pub(crate) fn report(
    problem: &FiniteProblem,
    task: &FiniteTask<'_>,
    execution: &FiniteExecution,
    executions: &[Execution<usize>],
) -> Result<RunReport, Error> {
    let input = |exact| DiagnosisInput {
        scales: task.scales().to_vec(),
        tolerances: problem.tolerances(task),
        exact,
        ..DiagnosisInput::default()
    };
    let first = RunReport::new(&problem.specification, executions, input(None)).context("no run")?;
    if first.met() {
        return Ok(first);
    }
    let longer = first.epoch as f64 / execution.epoch(problem).start() as f64;
    let (exact, multiplier_limit) = exact_evidence(task, execution.step_size(problem) * longer)?;
    // With several end components the averages of the runs are the long-run averages of this policy, and no
    // switching leaves the end component it is in.
    let ended: Vec<Vec<f64>> = executions.iter().map(|run| run.averages.requirements().to_vec()).collect();
    let library = if task.structure().is_communicating() { &execution.values[..] } else { &ended[..] };
    let input = DiagnosisInput { multiplier_limit, library, ..input(Some(exact)) };
    RunReport::new(&problem.specification, executions, input).context("no run")
}

/// Reports the progress of one run every 2¹⁸ steps.
struct ProgressObserver<'a> {
    control: &'a Control,
    reported: u64,
}

impl<'a> ProgressObserver<'a> {
    fn new(control: &'a Control) -> Self {
        Self { control, reported: 0 }
    }

    fn report(&mut self, step: u64) {
        self.control.advance(step - self.reported);
        self.reported = step;
    }
}

impl Observer for ProgressObserver<'_> {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Started { .. } if self.control.stop.requested() => return ControlFlow::Break(()),
            Event::Finished { steps, .. } => self.report(*steps),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        if step.steps.is_multiple_of(1 << 18) {
            self.report(step.steps);
            return self.control.stop.flow();
        }
        ControlFlow::Continue(())
    }
}

/// The advice that is the same for exact and trained policies, in a sentence: on epochs that are too
/// short or too long.
pub(crate) fn epoch_advice(report: &RunReport, epoch: EpochLength) -> Option<String> {
    let names = report.diagnosis.names.join(", ");
    match (report.diagnosis.verdict, epoch) {
        (DiagnosisVerdict::EpochTooShort, EpochLength::Auto(_)) => Some(format!(
            "The multipliers of {names} still grow and the epoch is still being lengthened: take more --steps."
        )),
        (DiagnosisVerdict::Converging, _) if report.diagnosis.evidence.updates == 0 => {
            Some("The epoch is longer than the run: take a shorter --epoch or more --steps.".to_owned())
        }
        _ => None,
    }
}

/// What to do about a requirement that is not met, in a sentence.
fn advice(
    report: &RunReport,
    problem: &FiniteProblem,
    task: &FiniteTask<'_>,
    execution: &FiniteExecution,
) -> Option<String> {
    let (verdict, names) = (report.diagnosis.verdict, report.diagnosis.names.join(", "));
    let parts = task.structure().end_components.len();
    let updates = report.diagnosis.evidence.updates;
    if parts > 1 && verdict != DiagnosisVerdict::Met {
        return Some(match verdict {
            DiagnosisVerdict::Infeasible => format!(
                "Infeasible on a single path: the model has {parts} separate end components, and a run ends in one of \
                 them; acrl solve gives the expected values."
            ),
            _ => format!(
                "The model has {parts} separate end components, and this run ended in one that does not meet {names}; \
                 acrl solve gives the optimum with probability 1."
            ),
        });
    }
    if let Some(advice) = epoch_advice(report, execution.epoch(problem)) {
        return Some(advice);
    }
    Some(match verdict {
        DiagnosisVerdict::Met => return None,
        DiagnosisVerdict::Converging if updates < 20 => format!(
            "Too early to tell: {} of the multipliers so far; take more --steps.",
            count(updates, "update")
        ),
        DiagnosisVerdict::Converging => format!(
            "Converging: the multipliers of {names} no longer grow, so the certified shortfall decreases as 1/steps; take \
             more --steps (or a larger --step-size, which costs objective)."
        ),
        DiagnosisVerdict::EpochTooShort => format!(
            "Epoch too short: the requirements are feasible, but the multipliers of {names} keep growing; use --epoch auto \
             or a longer --epoch."
        ),
        DiagnosisVerdict::Infeasible => {
            let together = if report.diagnosis.names.len() == 1 { "" } else { " together" };
            format!(
                "Infeasible: no policy meets {names}{together}; acrl solve computes the smallest relaxation."
            )
        }
        DiagnosisVerdict::PolicyInsufficient if problem.solved.is_some() => format!(
            "Policy insufficient: no mixture of the policies in the file meets {names} with these bounds; solve for them with \
             acrl solve --policy."
        ),
        DiagnosisVerdict::PolicyInsufficient => {
            format!(
                "Policy insufficient: no mixture of what this policy does meets {names}; train it longer."
            )
        }
    })
}
