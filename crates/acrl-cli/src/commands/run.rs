//! `acrl run`: Algorithm 2 with the exact π(s, λ) or a trained one, many times, and a report on every requirement.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use acrl::{
    Certificate, DiagnosisInput, DiagnosisVerdict, EachStep, EpochLength, Event, Execution as Executed,
    Executor, History, Multipliers, Observer, Rng, RunReport, Simulator, Snapshot, Specification, Step,
    execute as execute_finite, execute_runs,
};
use acrl_envs::RunSettings;
use acrl_exact::{
    ExactPolicy, FiniteTask, PolicySetExecutor, Solution, SolveOptions, TimeSharingExecutor, almost_sure,
    exact_evidence, solve,
};
use acrl_report::{Figure, Report};
use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use super::run_policy::{self, PolicyRun};
use super::solve::objective_sign;
use crate::Verdict;
use crate::args::{Execution, Global, RunArgs, Start};
use crate::folder::{Folder, page_line};
use crate::input::{Acting, Answered, Input, Loaded};
use crate::log::Log;
use crate::output::{Output, count};
use crate::page::{Remarks, Told, run_page};
use crate::report::{Beside, print};
use crate::watch::{Stop, Watch, listen};

/// Runs and prints.
pub(crate) fn verb(args: &RunArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    let (name, input) = (&args.source.input, Input::open(&args.source)?);
    let options = RunOptions {
        execution: args.execution.clone(),
        seed: global.seed,
        start: args.start.clone(),
        steering: args.steering,
        mixture: args.mixture,
        pictures: args.folder.is_some(),
    };
    let files = Files {
        log: args.log.as_deref(),
        folder: args.folder.as_deref().map(|path| (path, args.replace)),
        occupation: args.occupation.as_deref(),
    };
    let watch = Watch { stop: listen(), bar: output.bar(0, "running") };
    let (run, folder) = execute(name, input, &options, &files, &watch)?;
    watch.bar.finish_and_clear();
    if run.stopped {
        output.warn("stopped by Ctrl-C: this is about the steps taken so far");
    }
    if let Some(folder) = folder {
        folder.finish(&run.certificate, &run.page(name, output.command()), run.problem.as_deref())?;
    }
    if output.is_json() {
        output.object(&run)?;
    } else {
        run.print(args, output);
    }
    Ok(Verdict::of(run.met))
}

/// How to run. What is left out is as the problem says, or as a trained policy advises.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Steps, runs, step size, epoch and tolerance.
    pub execution: Execution,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// The multipliers that a trained policy starts with.
    pub start: Option<Start>,
    /// What turns multipliers into behaviour, for a trained policy.
    pub steering: Option<Executor>,
    /// Whether a solved policy is executed as a mixture, by the clock.
    pub mixture: bool,
    /// Whether the page is to show what a trained policy does, where it acts in the plane.
    pub pictures: bool,
}

/// What is to be written while it runs.
#[derive(Default)]
pub(super) struct Files<'a> {
    /// The events of the first run.
    pub(super) log: Option<&'a Path>,
    /// Events while it runs, and the page; and whether a run that is there is to be replaced.
    pub(super) folder: Option<(&'a Path, bool)>,
    /// The share of the time in each cell of a grid.
    pub(super) occupation: Option<&'a Path>,
}

impl Files<'_> {
    pub(super) fn open(&self, stop: &Stop) -> anyhow::Result<(Option<Log>, Option<Folder>)> {
        let log = self.log.map(|path| Log::create(path, stop.clone())).transpose()?;
        let folder = self.folder.map(|(path, replace)| Folder::create(path, replace, stop.clone()));
        Ok((log, folder.transpose()?))
    }
}

/// What came of some runs: the report, and what it takes to understand and to repeat it. Serialises as the object of
/// `acrl run --json`.
#[derive(Debug, Serialize)]
pub struct Run {
    pub(super) met: bool,
    #[serde(flatten)]
    pub(super) report: RunReport,
    #[serde(flatten)]
    pub(super) best: Best,
    pub(super) specification: Specification,
    pub(super) step_size: f64,
    pub(super) tolerance: f64,
    pub(super) seed: u64,
    #[serde(flatten)]
    pub(super) policy: Option<PolicyRun>,
    /// How a solved policy was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acting: Option<Acting>,
    #[serde(skip)]
    pub(super) settings: RunSettings,
    #[serde(skip)]
    pub(super) course: History,
    /// Of the first run.
    #[serde(skip)]
    pub(super) certificate: Certificate,
    /// The range of the objective.
    #[serde(skip)]
    pub(super) objective_scale: f64,
    #[serde(skip)]
    pub(super) advice: Option<String>,
    /// The problem file, if there was one that a policy embeds.
    #[serde(skip)]
    pub(super) problem: Option<String>,
    #[serde(skip)]
    pub(super) pictures: Vec<Figure>,
    /// Whether it was stopped before the end.
    #[serde(skip)]
    pub(super) stopped: bool,
}

/// What the objective can come to, in the user's sign, if that is known.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Best {
    /// By the model.
    Optimum(Option<f64>),
    /// By the policy's library.
    Estimate(Option<f64>),
}

/// Runs a finite problem or a trained policy, to the end or until it is stopped. `name` is what messages call it.
pub fn run(name: &str, input: Input, options: &RunOptions, watch: &Watch) -> anyhow::Result<Run> {
    Ok(execute(name, input, options, &Files::default(), watch)?.0)
}

fn execute(
    name: &str,
    input: Input,
    options: &RunOptions,
    files: &Files<'_>,
    watch: &Watch,
) -> anyhow::Result<(Run, Option<Folder>)> {
    match input {
        Input::Finite(loaded) => run_finite(name, *loaded, options, files, watch),
        Input::Policy(policy) => run_policy::run(name, *policy, options, files, watch),
        Input::Continuous(_) => bail!(
            "{name} is continuous: a policy is needed to run it; train one with: acrl train {name} -o policy.safetensors, \
             then: acrl run policy.safetensors"
        ),
    }
}

fn run_finite(
    name: &str,
    mut loaded: Loaded,
    options: &RunOptions,
    files: &Files<'_>,
    watch: &Watch,
) -> anyhow::Result<(Run, Option<Folder>)> {
    for (flag, given) in [
        ("--occupation", files.occupation.is_some()),
        ("--start", options.start.is_some()),
        ("--steering", options.steering.is_some()),
    ] {
        ensure!(!given, "{flag} is for policies that were trained; {name} is a finite model");
    }
    loaded.apply(&options.execution, options.seed);
    prepare(name, &mut loaded, options.mixture)?;
    let task = loaded.task()?;
    let (mut log, mut folder) = files.open(&watch.stop)?;
    if let Some(folder) = &mut folder {
        folder.begin(task.specification(), loaded.run.steps);
    }
    watch.bar.set_length(loaded.run.steps.saturating_mul(loaded.run.runs as u64));
    let live = folder.as_mut().map(|folder| &mut folder.log);
    let (executions, course) = run_exact(&loaded, &task, live, watch)?;
    if let Some(log) = &mut log {
        // The first run once more, now with every event written down: it is the same to the bit.
        execute_exact(&loaded, &task, 0, log)?;
        log.finish()?;
    }
    let report = report(&loaded, &task, &executions)?;
    let run = Run {
        met: report.met(),
        best: Best::Optimum(known_optimum(&loaded, &task).or_else(|| optimum(&task))),
        acting: loaded.answered.as_ref().map(|answered| answered.acting),
        specification: task.specification().clone(),
        step_size: loaded.run.step_size(),
        tolerance: loaded.run.tolerance,
        seed: loaded.run.seed,
        policy: None,
        settings: loaded.run.clone(),
        course,
        certificate: executions[0].certificate.clone(),
        objective_scale: task.objective_scale(),
        advice: advice(&report, &loaded, &task),
        problem: None,
        pictures: Vec::new(),
        stopped: watch.stop.requested(),
        report,
    };
    Ok((run, folder))
}

/// Decides how a solved policy acts. It can be asked for other bounds, but not for other things.
fn prepare(name: &str, loaded: &mut Loaded, mixture: bool) -> anyhow::Result<()> {
    /// Up to so many states π(λ) is computed for every λ.
    const SMALL: usize = 1_000;
    let parts = loaded.task()?.structure().end_components.len();
    let Some(answered) = &mut loaded.answered else {
        ensure!(
            !mixture,
            "--mixture is for policies that acrl solve --policy wrote; {name} is a problem or model"
        );
        return Ok(());
    };
    let kinds = |specification: &Specification| -> Vec<(String, acrl::Direction)> {
        specification.requirements().iter().map(|r| (r.reward().to_owned(), r.direction())).collect()
    };
    let (solved, asked) = (&answered.specification, &loaded.specification);
    ensure!(
        solved.objective() == asked.objective() && kinds(solved) == kinds(asked),
        "{name} was solved for another objective or other requirements: bounds can be changed, other things need another acrl \
         solve --policy"
    );
    ensure!(
        !mixture || solved == asked,
        "--mixture cannot take other bounds: its shares are for those it was solved with; leave it out, or solve again"
    );
    if loaded.run.step_size.is_none() {
        // It starts where the multipliers belong, or near that if there are several parts, each with its own; large steps
        // would only take them away from there.
        loaded.run.step_size = Some(if parts == 1 { 0.01 } else { 0.05 });
    }
    if loaded.run.epoch.is_none() {
        // Policies of different places need time to get there.
        let ways = 50.0 * (loaded.model.states() as f64).sqrt();
        let start = (ways as u64).min(loaded.run.steps / 200).max(10);
        loaded.run.epoch = Some(EpochLength::Auto(start));
    }
    answered.acting = if mixture {
        Acting::Mixture
    } else if parts == 1 && loaded.model.states() <= SMALL {
        Acting::Exact
    } else {
        Acting::Policies
    };
    Ok(())
}

/// The optimum that a solved policy has, if the bounds are still the same.
fn known_optimum(loaded: &Loaded, task: &FiniteTask<'_>) -> Option<f64> {
    let answered = loaded.answered.as_ref().filter(|a| a.specification == loaded.specification)?;
    task.has_objective().then(|| objective_sign(task) * answered.answer.values()[0] + 0.0)
}

impl Run {
    /// Whether every requirement is met in every run.
    pub fn met(&self) -> bool {
        self.met
    }

    /// How averages, multipliers and certificates moved.
    pub fn snapshots(&self) -> &[Snapshot] {
        self.course.snapshots()
    }

    /// The page on it. `input` is what was run, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let told = Told {
            specification: &self.specification,
            report: &self.report,
            course: &self.course,
            tolerance: self.tolerance,
        };
        let policy = self.policy.as_ref();
        let remarks = Remarks {
            training: policy.map(|policy| &policy.policy),
            steering: policy.map(|policy| policy.steering),
            advice: self.advice.clone(),
            stopped: self.stopped,
        };
        run_page(input, &told, &self.settings, remarks, self.pictures.clone(), command.to_owned())
    }

    fn print(&self, args: &RunArgs, output: &mut Output) {
        let (optimum, best) = match self.best {
            Best::Optimum(value) => (value, "the best possible"),
            Best::Estimate(value) => (value, "the best mixture of what the policy does"),
        };
        let beside = Beside {
            specification: &self.specification,
            run: &self.settings,
            objective_scale: self.objective_scale,
            optimum,
            best,
            steering: self.policy.as_ref().map(|policy| policy.steering),
            advice: self.advice.clone(),
        };
        print(&self.report, &beside, output);
        if let Some(folder) = &args.folder {
            output.line(page_line(folder));
        }
        match &self.policy {
            None => output
                .hint(format!("Try next: acrl compare {}, to see other methods on it.", args.source.input)),
            Some(policy) => policy.print(output),
        }
    }
}

/// The page on runs of which only the object of `acrl run --json` and some snapshots are left, such as runs in an
/// environment of somebody else. `input` is what was run, `command` what makes it again.
pub fn page_of(json: &str, snapshots: &str, input: &str, command: &str) -> anyhow::Result<Report> {
    #[derive(Deserialize)]
    struct Left {
        #[serde(flatten)]
        report: RunReport,
        specification: Specification,
        step_size: f64,
        tolerance: f64,
        seed: u64,
    }
    let left: Left = serde_json::from_str(json).context("these are no results of runs")?;
    let snapshots: Vec<Snapshot> = serde_json::from_str(snapshots).context("these are no snapshots")?;
    let Left { report, specification, step_size, tolerance, seed } = left;
    let m = specification.requirements().len();
    for snapshot in &snapshots {
        let lengths = [snapshot.averages.len(), snapshot.multipliers.len(), snapshot.shortfalls.len()];
        ensure!(
            lengths.iter().all(|length| *length == m),
            "the snapshot at step {} is about {} averages, {} multipliers and {} shortfalls, expected {m} of each",
            snapshot.steps,
            lengths[0],
            lengths[1],
            lengths[2]
        );
    }
    // Tolerances are shares of ranges.
    let scales: Vec<f64> = report.requirements.iter().map(|(_, r)| r.tolerance / tolerance).collect();
    ensure!(
        scales.len() == m && scales.iter().all(|scale| scale.is_finite() && *scale > 0.0),
        "the requirements do not fit the specification, or their tolerances are not above 0"
    );
    let course = History::of_snapshots(&specification, &scales, tolerance, snapshots);
    let settings = RunSettings { step_size: Some(step_size), tolerance, seed, ..RunSettings::default() };
    let told = Told { specification: &specification, report: &report, course: &course, tolerance };
    Ok(run_page(input, &told, &settings, Remarks::default(), Vec::new(), command.to_owned()))
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

/// All runs of the exact policy, on all cores, and their course; snapshots of the first are written to `live`.
pub(crate) fn run_exact(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    live: Option<&mut Log>,
    watch: &Watch,
) -> anyhow::Result<(Vec<Executed<usize>>, History)> {
    let live = live.map(Mutex::new);
    let done = execute_runs(loaded.run.runs, |run| -> anyhow::Result<_> {
        let live = live.as_ref().filter(|_| run == 0);
        let mut course = loaded.course(task);
        let look = |step: &Step<'_>| {
            if course.is_due(step.steps) {
                let snapshot = course.observe(step.steps, [step.agents[0].dynamics()]);
                let log = live.and_then(|live| live.lock().ok());
                if let (Some(snapshot), Some(mut log)) = (snapshot, log) {
                    log.write(&Event::Snapshot(snapshot));
                }
            }
            ControlFlow::Continue(())
        };
        let mut observer = (Progress::new(watch), EachStep(look));
        let execution = execute_exact(loaded, task, run as u64, &mut observer)?;
        Ok((execution, course))
    })?;
    let (mut runs, mut all) = (Vec::new(), None::<History>);
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
    observer: &mut impl Observer,
) -> anyhow::Result<Executed<usize>> {
    let mut environment = Simulator::new(&*loaded.model, loaded.specification.clone())?;
    let mut agent = loaded.agent_builder(task);
    let mut rng = Rng::stream(loaded.run.seed, run);
    let steps = loaded.run.steps;
    let (answer, acting) = match &loaded.answered {
        Some(answered) => (Some(&*answered.answer), answered.acting),
        None => (None, Acting::Exact),
    };
    if let (Some(answer), Acting::Exact | Acting::Policies) = (answer, acting) {
        agent = agent.multipliers(Multipliers::new(answer.multipliers())?);
    }
    let mut agent = agent.build()?;
    if let (Some(answer), Acting::Policies) = (answer, acting) {
        let policy = &mut PolicySetExecutor::new(answer, task.has_objective());
        return Ok(execute_finite(&mut environment, policy, &mut agent, steps, &mut rng, observer)?);
    }
    if let (Some(answer), Acting::Mixture) = (answer, acting) {
        let round = match loaded.run.epoch_length() {
            EpochLength::Fixed(length) => Some(length),
            EpochLength::Auto(_) => None,
        };
        let policy = &mut TimeSharingExecutor::new(answer, round);
        return Ok(execute_finite(&mut environment, policy, &mut agent, steps, &mut rng, observer)?);
    }
    let mut policy = ExactPolicy::new(task);
    let execution = execute_finite(&mut environment, &mut policy, &mut agent, steps, &mut rng, observer)?;
    policy.failure().map_or(Ok(execution), |failure| Err(failure.into()))
}

/// Sums the runs up, with the exact model as a witness where a requirement is behind.
pub(crate) fn report(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    executions: &[Executed<usize>],
) -> anyhow::Result<RunReport> {
    let symptoms = |exact| DiagnosisInput {
        scales: task.scales().to_vec(),
        tolerances: loaded.tolerances(task),
        exact,
        ..DiagnosisInput::default()
    };
    let first = RunReport::new(&loaded.specification, executions, symptoms(None)).context("no run")?;
    if first.met() {
        return Ok(first);
    }
    let longer = first.epoch as f64 / loaded.run.epoch_length().start() as f64;
    let (exact, multiplier_limit) = exact_evidence(task, loaded.run.step_size() * longer)?;
    // In a model of several parts the averages of the runs are what this policy settles at, and no
    // switching takes it out of the part in which it is.
    let ended: Vec<Vec<f64>> = executions.iter().map(|run| run.averages.requirements().to_vec()).collect();
    // A solved policy can do no more than its policies can.
    let cached: Vec<Vec<f64>> = match &loaded.answered {
        Some(Answered { answer, acting, .. }) if *acting != Acting::Exact && answer.components.len() == 1 => {
            answer.components[0].values.iter().map(|values| values[1..].to_vec()).collect()
        }
        _ => Vec::new(),
    };
    let settled = if task.structure().is_communicating() { &cached[..] } else { &ended[..] };
    let symptoms = DiagnosisInput { multiplier_limit, settled, ..symptoms(Some(exact)) };
    RunReport::new(&loaded.specification, executions, symptoms).context("no run")
}

/// Moves a progress bar along, now and then.
struct Progress<'a> {
    watch: &'a Watch,
    told: u64,
    begin: Option<u64>,
}

impl<'a> Progress<'a> {
    fn new(watch: &'a Watch) -> Self {
        Self { watch, told: 0, begin: None }
    }

    fn tell(&mut self, step: u64) {
        self.watch.bar.inc(step - self.told);
        self.told = step;
    }
}

impl Observer for Progress<'_> {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Started { .. } if self.watch.stop.requested() => return ControlFlow::Break(()),
            Event::Epoch(epoch) => {
                let begin = *self.begin.get_or_insert(epoch.step - epoch.steps);
                if epoch.step - begin >= self.told + (1 << 18) {
                    self.tell(epoch.step - begin);
                    if self.watch.stop.requested() {
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
        DiagnosisVerdict::Met => return None,
        DiagnosisVerdict::Infeasible if parts > 1 => format!(
            "Infeasible on a single path: the model has {parts} separate end components, and a run ends in one of \
             them; acrl solve gives the expected values."
        ),
        DiagnosisVerdict::EpochTooShort
        | DiagnosisVerdict::Converging
        | DiagnosisVerdict::PolicyInsufficient
            if parts > 1 =>
        {
            format!(
                "The model has {parts} separate end components, and this run ended in one that does not meet {names}; \
             acrl solve says what can be had on almost every path."
            )
        }
        DiagnosisVerdict::Converging if updates == 0 => {
            "The epoch is longer than the run: take a shorter --epoch or more --steps.".to_owned()
        }
        DiagnosisVerdict::Converging if updates < 20 => {
            format!(
                "Too early to tell: {} of the multipliers so far; take more --steps.",
                count(updates, "update")
            )
        }
        DiagnosisVerdict::Converging => format!(
            "Converging: {names} will be met; more --steps will do (or a larger --step-size, which costs objective)."
        ),
        DiagnosisVerdict::EpochTooShort if auto => {
            format!(
                "The multipliers of {names} still grow and the epoch is still being lengthened: take more --steps."
            )
        }
        DiagnosisVerdict::EpochTooShort => format!(
            "Epoch too short: the requirements are feasible, but the multipliers of {names} keep growing; \
             use --epoch auto or a longer --epoch."
        ),
        DiagnosisVerdict::Infeasible => {
            let together = if report.diagnosis.names.len() == 1 { "" } else { " together" };
            format!("Infeasible: no policy meets {names}{together}; acrl solve says what would have to give.")
        }
        DiagnosisVerdict::PolicyInsufficient if loaded.answered.is_some() => format!(
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
