//! Running: Algorithm 2 with the exact π(s, λ) or a trained one, many times, and a report on every requirement.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use acrl::{
    Certificate, DiagnosisInput, DiagnosisVerdict, EachStep, EpochLength, Event, Execution, Executor,
    History, Multipliers, Observer, Rng, RunReport, Simulator, Snapshot, Specification, Step, execute,
    execute_runs,
};
use acrl_exact::{
    ExactPolicy, FiniteTask, PolicySetExecutor, Solution, SolveOptions, TimeSharingExecutor, almost_sure,
    exact_evidence, solve,
};
use acrl_report::run_page::{Notes, RunSummary, run_page};
use acrl_report::{Figure, Report, count};
use serde::Serialize;

use crate::control::{Control, Progress as _, Stop};
use crate::event_log::EventLog;
use crate::input::{FiniteExecutor, FiniteProblem, Input, SolvedPolicy, apply};
use crate::options::{ExecutionOptions, InitMultipliers};
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
    /// The multipliers that a trained policy starts with.
    pub init_multipliers: Option<InitMultipliers>,
    /// The executor of a trained policy.
    pub executor: Option<Executor>,
    /// Time sharing: execute the mixture of a solved policy on a fixed schedule.
    pub time_sharing: bool,
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
    pub(crate) met: bool,
    /// Averages, certificates and the diagnosis.
    #[serde(flatten)]
    pub report: RunReport,
    /// The best objective, where it is known or estimated.
    #[serde(flatten)]
    pub best: Best,
    /// The objective and the requirements.
    pub specification: Specification,
    /// Step size of the dual update.
    pub step_size: f64,
    /// Certified shortfall that counts as met, as a share of each reward's range.
    pub tolerance: f64,
    /// Seed of all randomness.
    pub seed: u64,
    /// The trained policy, if one was run.
    #[serde(flatten)]
    pub policy: Option<PolicyRun>,
    /// The executor of a solved policy, if one was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<FiniteExecutor>,
    /// Averages, multipliers and certificates over time.
    #[serde(skip)]
    pub history: History,
    /// The certificate of the first run.
    #[serde(skip)]
    pub certificate: Certificate,
    /// The range of the objective.
    #[serde(skip)]
    pub objective_scale: f64,
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

/// The best objective in the user's sign, where it is known.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Best {
    /// The optimum of the model.
    Optimum(Option<f64>),
    /// The best mixture of the entries of the policy library.
    Estimate(Option<f64>),
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
    for (flag, given) in [
        ("--occupancy", files.occupancy.is_some()),
        ("--init-multipliers", options.init_multipliers.is_some()),
        ("--executor", options.executor.is_some()),
    ] {
        ensure!(!given, "{flag} is for policies that were trained; {name} is a finite model");
    }
    apply(&mut problem.run, &options.execution, options.seed);
    prepare(name, &mut problem, options.time_sharing)?;
    let task = problem.task()?;
    let (mut log, mut folder) = files.open(task.specification(), problem.run.steps, &control.stop)?;
    control.begin(problem.run.steps.saturating_mul(problem.run.runs as u64));
    let live = folder.as_mut().map(|folder| &mut folder.log);
    let (executions, history) = run_exact(&problem, &task, log.as_mut(), live, control)?;
    if let Some(log) = &mut log {
        log.finish()?;
    }
    let report = report(&problem, &task, &executions)?;
    let run = Run {
        met: report.met(),
        best: Best::Optimum(known_optimum(&problem, &task).or_else(|| optimum(&task))),
        executor: problem.solved.as_ref().map(|solved| solved.executor),
        specification: task.specification().clone(),
        step_size: problem.run.step_size(),
        tolerance: problem.run.tolerance,
        seed: problem.run.seed,
        policy: None,
        history,
        certificate: executions[0].certificate.clone(),
        objective_scale: task.objective_scale(),
        advice: advice(&report, &problem, &task),
        problem: None,
        pictures: Vec::new(),
        stopped: control.stop.requested(),
        report,
    };
    Ok((run, folder))
}

/// Decides how a solved policy acts. It can be asked for other bounds, but not for other things.
fn prepare(name: &str, problem: &mut FiniteProblem, time_sharing: bool) -> Result<(), Error> {
    /// Largest model, in states, for which π(λ) is computed at every λ.
    const SMALL: usize = 1_000;
    let parts = problem.task()?.structure().end_components.len();
    let Some(solved) = &mut problem.solved else {
        ensure!(
            !time_sharing,
            "--time-sharing is for policies that acrl solve --policy wrote; {name} is a problem or model"
        );
        return Ok(());
    };
    let kinds = |specification: &Specification| -> Vec<(String, acrl::Direction)> {
        specification.requirements().iter().map(|r| (r.reward().to_owned(), r.direction())).collect()
    };
    let (before, now) = (&solved.specification, &problem.specification);
    ensure!(
        before.objective() == now.objective() && kinds(before) == kinds(now),
        "{name} was solved for another objective or other requirements: bounds can be changed, other things need another acrl \
         solve --policy"
    );
    ensure!(
        !time_sharing || before == now,
        "--time-sharing cannot take other bounds: its shares are for the bounds it was solved with; leave it out, or solve again"
    );
    if problem.run.step_size.is_none() {
        // It starts where the multipliers belong, or near that if there are several parts, each with its own; large steps
        // would only take them away from there.
        problem.run.step_size = Some(if parts == 1 { 0.01 } else { 0.05 });
    }
    if problem.run.epoch.is_none() {
        // Policies of different places need time to get there.
        let ways = 50.0 * (problem.model.states() as f64).sqrt();
        let start = (ways as u64).min(problem.run.steps / 200).max(10);
        problem.run.epoch = Some(EpochLength::Auto(start));
    }
    solved.executor = if time_sharing {
        FiniteExecutor::TimeSharing
    } else if parts == 1 && problem.model.states() <= SMALL {
        FiniteExecutor::Exact
    } else {
        FiniteExecutor::PolicySet
    };
    Ok(())
}

/// The optimum that a solved policy has, if the bounds are still the same.
fn known_optimum(problem: &FiniteProblem, task: &FiniteTask<'_>) -> Option<f64> {
    let solved = problem.solved.as_ref().filter(|a| a.specification == problem.specification)?;
    task.has_objective().then(|| objective_sign(task) * solved.answer.values()[0] + 0.0)
}

impl Run {
    /// True if every requirement is met in every run.
    pub fn met(&self) -> bool {
        self.met
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
            executor: policy.map(|policy| policy.executor),
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
        let execution = execute_exact(problem, task, run as u64, &mut observer)?;
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

fn execute_exact(
    problem: &FiniteProblem,
    task: &FiniteTask<'_>,
    run: u64,
    observer: &mut impl Observer,
) -> Result<Execution<usize>, Error> {
    let mut environment = Simulator::new(&problem.model, problem.specification.clone())?;
    let mut agent = problem.agent_builder(task);
    let mut rng = Rng::stream(problem.run.seed, run);
    let steps = problem.run.steps;
    let (answer, executor) = match &problem.solved {
        Some(solved) => (Some(&*solved.answer), solved.executor),
        None => (None, FiniteExecutor::Exact),
    };
    if let (Some(answer), FiniteExecutor::Exact | FiniteExecutor::PolicySet) = (answer, executor) {
        agent = agent.multipliers(Multipliers::new(answer.multipliers())?);
    }
    let mut agent = agent.build()?;
    if let (Some(answer), FiniteExecutor::PolicySet) = (answer, executor) {
        let policy = &mut PolicySetExecutor::new(answer, task.has_objective());
        return Ok(execute(&mut environment, policy, &mut agent, steps, &mut rng, observer)?);
    }
    if let (Some(answer), FiniteExecutor::TimeSharing) = (answer, executor) {
        let round = match problem.run.epoch_length() {
            EpochLength::Fixed(length) => Some(length),
            EpochLength::Auto(_) => None,
        };
        let policy = &mut TimeSharingExecutor::new(answer, round);
        return Ok(execute(&mut environment, policy, &mut agent, steps, &mut rng, observer)?);
    }
    let mut policy = ExactPolicy::new(task);
    let execution = execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, observer)?;
    policy.failure().map_or(Ok(execution), |failure| Err(failure.into()))
}

/// Sums the runs up, with the exact model as a witness where a requirement is behind.
pub(crate) fn report(
    problem: &FiniteProblem,
    task: &FiniteTask<'_>,
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
    let longer = first.epoch as f64 / problem.run.epoch_length().start() as f64;
    let (exact, multiplier_limit) = exact_evidence(task, problem.run.step_size() * longer)?;
    // With several end components the averages of the runs are the long-run averages of this policy, and no
    // switching leaves the end component it is in.
    let ended: Vec<Vec<f64>> = executions.iter().map(|run| run.averages.requirements().to_vec()).collect();
    // A solved policy can do no more than its policies can.
    let cached: Vec<Vec<f64>> = match &problem.solved {
        Some(SolvedPolicy { answer, executor, .. })
            if *executor != FiniteExecutor::Exact && answer.components.len() == 1 =>
        {
            answer.components[0].values.iter().map(|values| values[1..].to_vec()).collect()
        }
        _ => Vec::new(),
    };
    let library = if task.structure().is_communicating() { &cached[..] } else { &ended[..] };
    let input = DiagnosisInput { multiplier_limit, library, ..input(Some(exact)) };
    RunReport::new(&problem.specification, executions, input).context("no run")
}

/// Reports the progress of one run every 2¹⁸ steps.
struct ProgressObserver<'a> {
    control: &'a Control,
    reported: u64,
    begin: Option<u64>,
}

impl<'a> ProgressObserver<'a> {
    fn new(control: &'a Control) -> Self {
        Self { control, reported: 0, begin: None }
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
            Event::Epoch(epoch) => {
                let begin = *self.begin.get_or_insert(epoch.step - epoch.steps);
                if epoch.step - begin >= self.reported + (1 << 18) {
                    self.report(epoch.step - begin);
                    if self.control.stop.requested() {
                        return ControlFlow::Break(());
                    }
                }
            }
            Event::Finished { steps, .. } => self.report(*steps),
            _ => {}
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
fn advice(report: &RunReport, problem: &FiniteProblem, task: &FiniteTask<'_>) -> Option<String> {
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
    if let Some(advice) = epoch_advice(report, problem.run.epoch_length()) {
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
