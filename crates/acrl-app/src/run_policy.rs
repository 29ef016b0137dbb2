//! Running a trained policy: Algorithm 2 with π(s, λ), many runs at a time.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use acrl::{
    Agent, DiagnosisInput, DiagnosisVerdict, EachStep, EpochLength, Event, Execution, Executor, History,
    Multipliers, Named, Observer, Rng, RunReport, Step, VecExecution, VecTask,
};
use acrl_envs::RunSettings;
use acrl_learn::{CoverageReport, ExecutionDefaults, PolicyFile, TrainingRecord};
use acrl_report::count;
use rayon::prelude::*;
use serde::Serialize;

use crate::control::{Control, Progress as _};
use crate::event_log::EventLog;
use crate::input::{PolicyProblem, apply};
use crate::occupancy::OccupancyGrid;
use crate::options::InitMultipliers;
use crate::plane::Plane;
use crate::run::{Best, Run, RunFiles, RunOptions, epoch_advice};
use crate::run_folder::RunWriter;
use crate::{Context as _, Error, ensure};

type Executions = Vec<Execution<Vec<f64>>>;

/// What all runs came to.
pub(super) struct PolicyRuns {
    pub(super) runs: Executions,
    /// A sample of the weights that were asked for.
    pub(super) visited: Vec<Vec<f32>>,
    /// How many runs ended with the library.
    pub(super) runs_on_library: usize,
    pub(super) history: History,
    pub(super) occupancy: Option<OccupancyGrid>,
}

/// Runs, and says what came of it.
pub(super) fn run(
    name: &str,
    mut input: PolicyProblem,
    options: &RunOptions,
    files: &RunFiles<'_>,
    control: &Control,
) -> Result<(Run, Option<RunWriter>), Error> {
    ensure!(
        !options.time_sharing,
        "--time-sharing is for policies that acrl solve --policy wrote; {name} was trained"
    );
    apply(&mut input.problem.run, &options.execution, options.seed);
    let PolicyProblem { problem, file } = &mut input;
    advise(&mut problem.run, file.execution_defaults, problem.specification.objective().is_some());
    let run = &problem.run;
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let start = start(options.init_multipliers.as_ref(), file, &task)?;
    let executor = options.executor.unwrap_or_else(|| advised_executor(run, file.execution_defaults));
    let plan = Plan { task: &task, file, run, start, executor };
    let (mut log, mut folder) = files.open(task.specification(), run.steps, &control.stop)?;
    let plane = Plane::new(&problem.environment).filter(|_| options.pictures);
    let occupancy = match files.occupancy {
        Some(_) => Some(OccupancyGrid::new(&task)?),
        None if plane.is_some() => OccupancyGrid::new(&task).ok(),
        None => None,
    };
    control.begin(run.steps.saturating_mul(run.runs as u64));
    let live = folder.as_mut().map(|folder| &mut folder.log);
    let PolicyRuns { runs: executions, visited, runs_on_library, history, occupancy } =
        plan.execute(occupancy, log.as_mut(), live, control)?;
    if let Some(log) = &mut log {
        log.finish()?;
    }
    if let (Some(occupancy), Some(path)) = (&occupancy, files.occupancy) {
        let written = std::fs::write(path, occupancy.to_csv());
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let report = plan.report(&executions)?;
    let pictures = match &plane {
        Some(plane) => plane.figures(&task, file, &report, occupancy.as_ref())?,
        None => Vec::new(),
    };
    let names = task.specification().names().into_iter();
    let policy = PolicyRun {
        start: names.zip(plan.start.as_slice().iter().copied()).collect(),
        policy: file.training.clone(),
        coverage: file.coverage.compare(&visited),
        executor,
        runs_on_library,
        weight_conditioned: !file.policy.ignores_weights(),
    };
    let run = Run {
        met: report.met(),
        best: Best::Estimate(estimate(&task, file)),
        specification: task.specification().clone(),
        step_size: run.step_size(),
        tolerance: run.tolerance,
        seed: run.seed,
        policy: Some(policy),
        executor: None,
        history,
        certificate: executions[0].certificate.clone(),
        objective_scale: task.scales()[0],
        advice: advice(&report, &plan, name),
        problem: Some(problem.text.clone()),
        pictures,
        stopped: control.stop.requested(),
        report,
    };
    Ok((run, folder))
}

/// The trained policy of some runs.
#[derive(Debug, Serialize)]
pub struct PolicyRun {
    start: Named<f64>,
    /// How it was trained.
    pub policy: TrainingRecord,
    /// The weights of the runs beside those of the training.
    pub coverage: CoverageReport,
    /// What chose the weights.
    pub executor: Executor,
    /// The number of runs that ended with the policy library.
    pub runs_on_library: usize,
    /// False for a baseline, which ignores the multipliers.
    #[serde(skip)]
    pub weight_conditioned: bool,
}

impl PolicyRun {
    pub(crate) fn training_line(&self) -> String {
        training_line(&self.policy)
    }
}

/// A training in a line.
pub(crate) fn training_line(training: &TrainingRecord) -> String {
    format!(
        "{} with {}, {}, seed {}{}",
        training.method,
        training.learner,
        count(training.steps, "step"),
        training.seed,
        if training.complete { "" } else { ", stopped early" }
    )
}

/// What neither the command line nor the problem says, the policy advises.
///
/// With an objective, how long the agent stays in one place before it changes decides how much it loses on the way:
/// the longer the run, the longer it may stay without a requirement being far behind at the end.
pub(super) fn advise(run: &mut RunSettings, advice: ExecutionDefaults, objective: bool) {
    const ADVISED: f64 = 200_000.0;
    if run.epoch.is_none() {
        let longer = if objective { run.steps as f64 * run.tolerance / (ADVISED * 0.005) } else { 1.0 };
        run.epoch = Some(EpochLength::Auto(((advice.epoch as f64 * longer) as u64).clamp(1, 1 << 14)));
    }
    run.step_size = run.step_size.or(Some(advice.step_size));
}

/// The same for what turns multipliers into behaviour; who fixes the epoch wants π(·, λ).
pub(super) fn advised_executor(run: &RunSettings, advice: ExecutionDefaults) -> Executor {
    match run.epoch_length() {
        EpochLength::Auto(_) => advice.executor,
        EpochLength::Fixed(_) => Executor::Policy,
    }
}

/// λ₀.
fn start(
    given: Option<&InitMultipliers>,
    file: &PolicyFile,
    task: &VecTask<'_>,
) -> Result<Multipliers, Error> {
    let names = task.specification().names();
    match given {
        None | Some(InitMultipliers::Library) => Ok(file.multipliers(task)?),
        Some(InitMultipliers::Zero) => Ok(Multipliers::zeros(names.len())),
        Some(InitMultipliers::Given(list)) => {
            let mut values = vec![0.0; names.len()];
            for (name, value) in list {
                let index = names.iter().position(|n| n == name);
                let index = index.with_context(|| {
                    format!(
                        "--init-multipliers names '{name}', but the requirements are {}",
                        names.join(", ")
                    )
                })?;
                values[index] = *value;
            }
            Ok(Multipliers::new(values)?)
        }
    }
}

/// What the best mixture of the library's entries has of the objective, in the user's sign.
pub(super) fn estimate(task: &VecTask<'_>, file: &PolicyFile) -> Option<f64> {
    let objective = task.specification().objective()?;
    let best = file.library.optimum(&task.specification().bounds())?;
    Some(objective.sign() * best.value + 0.0)
}

/// Everything that decides how the runs come out.
pub(super) struct Plan<'a> {
    pub(super) task: &'a VecTask<'a>,
    pub(super) file: &'a PolicyFile,
    pub(super) run: &'a RunSettings,
    pub(super) start: Multipliers,
    pub(super) executor: Executor,
}

/// Steps between two comparisons of the weights with those of the training.
const LOOK: u64 = 997;

impl Plan<'_> {
    fn agent(&self) -> Result<Agent, Error> {
        let scales = self.task.scales();
        let auto = matches!(self.run.epoch_length(), EpochLength::Auto(_));
        let library = auto || self.executor == Executor::Library;
        Ok(Agent::builder(self.task.specification().requirements().to_vec())
            .step_size(self.run.step_size())
            .epoch(self.run.epoch_length())
            .scales(scales[0], &scales[1..])
            .multipliers(self.start.clone())
            .objective(self.task.has_objective())
            .library(library.then(|| Arc::new(self.file.library.clone())))
            .executor(self.executor)
            .build()?)
    }

    /// Some of the runs, together. A run comes out the same whichever others are beside it.
    fn batch(&self, runs: std::ops::Range<usize>, observer: &mut dyn Observer) -> Result<Executions, Error> {
        let mut policy = self.file.policy.clone();
        let agents = vec![self.agent()?; runs.len()];
        let rngs = runs.map(|run| Rng::stream(self.run.seed, run as u64)).collect();
        Ok(VecExecution::new(self.task, &mut policy, agents, rngs, self.run.steps)?.run(observer)?)
    }

    /// All runs on all cores. Events of the first go to `log`, snapshots of the first batch to `live`.
    pub(super) fn execute(
        &self,
        occupancy: Option<OccupancyGrid>,
        log: Option<&mut EventLog>,
        live: Option<&mut EventLog>,
        control: &Control,
    ) -> Result<PolicyRuns, Error> {
        const MOST: usize = 512;
        let total = self.run.runs;
        let size = total.div_ceil(rayon::current_num_threads()).clamp(1, MOST);
        let begins: Vec<usize> = (0..total).step_by(size).collect();
        let (log, live) = (Mutex::new(log), live.map(Mutex::new));
        let done: Vec<_> = begins
            .into_par_iter()
            .map(|begin| {
                let runs = begin..(begin + size).min(total);
                let log = if begin == 0 { log.lock().ok().and_then(|mut log| log.take()) } else { None };
                self.execute_some(runs, occupancy.clone(), log, live.as_ref().filter(|_| begin == 0), control)
            })
            .collect::<Result<_, Error>>()?;
        let mut parts = done.into_iter();
        let mut all = parts.next().context("no run")?;
        for part in parts {
            all.runs.extend(part.runs);
            all.visited.extend(part.visited);
            all.runs_on_library += part.runs_on_library;
            all.history.merge(&part.history);
            if let (Some(all), Some(more)) = (&mut all.occupancy, &part.occupancy) {
                all.add(more);
            }
        }
        all.runs.retain(|run: &Execution<Vec<f64>>| run.steps > 0);
        if all.runs.is_empty() {
            return Err(Error::Stopped(" before the first step"));
        }
        Ok(all)
    }

    fn execute_some(
        &self,
        runs: std::ops::Range<usize>,
        mut occupancy: Option<OccupancyGrid>,
        log: Option<&mut EventLog>,
        live: Option<&Mutex<&mut EventLog>>,
        control: &Control,
    ) -> Result<PolicyRuns, Error> {
        let num_envs = runs.len();
        let (mut visited, mut runs_on_library) = (Vec::new(), 0);
        let specification = self.task.specification();
        let mut history =
            History::new(specification, &self.task.scales()[1..], self.run.tolerance, self.run.steps);
        let each = |&Step { steps: step, agents, states }: &Step<'_>| {
            if let (Some(occupancy), Some(states)) = (&mut occupancy, states) {
                occupancy.visit(states);
            }
            if step.is_multiple_of(LOOK) || step == self.run.steps {
                visited.extend(self.normalised(agents));
                runs_on_library = agents.iter().filter(|agent| agent.entry().is_some()).count();
            }
            if history.is_due(step) {
                let snapshot = history.observe(step, agents.iter().map(Agent::dynamics));
                let log = live.and_then(|live| live.lock().ok());
                if let (Some(snapshot), Some(mut log)) = (snapshot, log) {
                    log.event(&Event::Snapshot(snapshot))?;
                }
            }
            if step.is_multiple_of(1024) {
                control.advance(1024 * num_envs as u64);
                if control.stop.requested() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let runs = self.batch(runs, &mut (log.map(|log| log as &mut dyn Observer), EachStep(each)))?;
        Ok(PolicyRuns { runs, visited, runs_on_library, history, occupancy })
    }

    /// The weights of the first runs of a batch, in units of the rewards' ranges and adding up to 1.
    fn normalised(&self, agents: &[Agent]) -> Vec<Vec<f32>> {
        const ENVS: usize = 4;
        let scales = self.task.scales();
        agents
            .iter()
            .take(ENVS)
            .map(|agent| {
                let scaled: Vec<f64> =
                    agent.weights().iter().zip(scales).map(|(w, scale)| w * scale).collect();
                let total: f64 = scaled.iter().sum();
                let even = 1.0 / scaled.len() as f64;
                scaled.iter().map(|w| if total > 0.0 { w / total } else { even } as f32).collect()
            })
            .collect()
    }

    pub(super) fn report(&self, executions: &Executions) -> Result<RunReport, Error> {
        let scales = &self.task.scales()[1..];
        let settled = self.file.library.settled();
        let symptoms = DiagnosisInput {
            scales: scales.to_vec(),
            tolerances: scales.iter().map(|scale| self.run.tolerance * scale).collect(),
            seen: self.file.seen.vectors(),
            settled: &settled,
            ..DiagnosisInput::default()
        };
        RunReport::new(self.task.specification(), executions, symptoms).context("no run")
    }
}

/// What to do about a requirement that is not met, in a sentence.
fn advice(report: &RunReport, plan: &Plan<'_>, input: &str) -> Option<String> {
    if let Some(advice) = epoch_advice(report, plan.run.epoch_length()) {
        return Some(advice);
    }
    let names = report.diagnosis.names.join(", ");
    Some(match report.diagnosis.verdict {
        DiagnosisVerdict::Met => return None,
        DiagnosisVerdict::Infeasible => format!(
            "Infeasible: among all rewards seen in training, no mixture meets {names} together; lower a bound with \
             --require."
        ),
        DiagnosisVerdict::PolicyInsufficient => format!(
            "Policy insufficient: no mixture of the long-run averages of {input} meets {names}; train it longer (acrl train \
             --total-steps), or lower a bound."
        ),
        DiagnosisVerdict::EpochTooShort => format!(
            "Epoch too short: the averages of the policy would meet {names}, but the multipliers keep growing; use --epoch \
             auto or a longer --epoch."
        ),
        DiagnosisVerdict::Converging => format!("Converging: {names} will be met; more --steps will do."),
    })
}
