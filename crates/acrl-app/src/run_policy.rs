//! Running a trained policy: Algorithm 2 with π(s, λ), many runs at a time.

use std::ops::ControlFlow;
use std::sync::Mutex;

use acrl::{
    Agent, DiagnosisInput, DiagnosisVerdict, EachStep, Event, Execution, Executor, History, Multipliers,
    Named, Observer, Rng, RunReport, Step, VecExecution, VecTask,
};
use acrl_envs::RunSettings;
use acrl_learn::{CoverageReport, PolicyFile, TrainingRecord};
use acrl_report::count;
use rayon::prelude::*;
use serde::Serialize;

use crate::control::{Control, Progress as _};
use crate::event_log::EventLog;
use crate::input::{PolicyProblem, apply};
use crate::objective::ObjectiveResult;
use crate::occupancy::OccupancyGrid;
use crate::options::{ExecutorOption, InitMultipliers};
use crate::plane::Plane;
use crate::run::{Run, RunFiles, RunOptions, epoch_advice};
use crate::run_writer::RunWriter;
use crate::tabular_run::solved_policy;
use crate::{Context as _, Error, bail};

pub(super) type Executions = Vec<Execution<Vec<f64>>>;

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
    let prepared = prepare(&mut input, options)?;
    let PolicyProblem { problem, file } = &input;
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let (plan, run) = (Plan::new(&task, &input, &prepared), &problem.run);
    let (mut log, mut folder) = files.open(task.specification(), run.steps, &control.stop)?;
    let plane = Plane::new(&problem.environment).filter(|_| options.pictures);
    let occupancy = match files.occupancy {
        Some(_) => Some(OccupancyGrid::new(&task)?),
        None if plane.is_some() => OccupancyGrid::new(&task).ok(),
        None => None,
    };
    control.begin(run.steps.saturating_mul(run.runs as u64));
    let live = folder.as_mut().map(|folder| &mut folder.log);
    let runs = plan.execute(occupancy, log.as_mut(), live, control)?;
    if let Some(log) = &mut log {
        log.finish()?;
    }
    if let (Some(occupancy), Some(path)) = (&runs.occupancy, files.occupancy) {
        let written = std::fs::write(path, occupancy.to_csv());
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let report = plan.report(&runs.runs, &[])?;
    let pictures = match &plane {
        Some(plane) => plane.figures(&task, file, &report, runs.occupancy.as_ref())?,
        None => Vec::new(),
    };
    let run = plan.result(name, &problem.text, report, runs, control.stop.requested());
    Ok((Run { pictures, ..run }, folder))
}

/// The trained policy of some runs.
#[derive(Debug, Serialize)]
pub struct PolicyRun {
    start: Named<f64>,
    /// How it was trained.
    pub policy: TrainingRecord,
    /// The weights of the runs beside those of the training.
    pub coverage: CoverageReport,
    /// What chose the weights; `None` for a solved mixture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
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

/// Initial multipliers and executor of runs.
#[derive(Debug)]
pub(super) struct PreparedRun {
    pub(super) start: Multipliers,
    pub(super) executor: Executor,
}

/// Settles everything that neither the options nor the problem say by the defaults of the policy.
pub(super) fn prepare(input: &mut PolicyProblem, options: &RunOptions) -> Result<PreparedRun, Error> {
    let is_solved = solved_policy(input, options.executor).is_some();
    let PolicyProblem { problem, file } = input;
    apply(&mut problem.run, &options.execution, options.seed);
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let executor = match options.executor {
        None => file.execution_defaults.executor_for(problem.run.epoch),
        Some(ExecutorOption::Policy) => Executor::Policy,
        Some(ExecutorOption::Library) => Executor::Library,
        // How the solution of an estimated model is realised.
        Some(ExecutorOption::Stationary | ExecutorOption::TimeSharing) if is_solved => {
            file.execution_defaults.executor_for(problem.run.epoch)
        }
        Some(ExecutorOption::TimeSharing) => Executor::TimeSharing,
        Some(ExecutorOption::Stationary) => bail!(
            "the executor 'stationary' is for finite problems; for a trained policy take --executor policy, library or \
             time-sharing"
        ),
    };
    file.complete(&mut problem.run, executor, &task);
    Ok(PreparedRun { start: start(options.init_multipliers.as_ref(), file, &task)?, executor })
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
        Some(InitMultipliers::Optimum) => {
            bail!("--init-multipliers optimum is for finite problems; this policy was trained: use library")
        }
        Some(InitMultipliers::Given(list)) => InitMultipliers::by_name(list, &names),
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

/// True if the weights of this step, out of all steps of the run, are compared with those of the training.
pub(super) fn is_sampled(step: u64, steps: u64) -> bool {
    const INTERVAL: u64 = 997;
    step.is_multiple_of(INTERVAL) || step == steps
}

/// The weights of the first runs of a batch, in units of the rewards' ranges and adding up to 1.
pub(super) fn normalised(agents: &[Agent], scales: &[f64]) -> Vec<Vec<f32>> {
    const ENVS: usize = 4;
    let weights = |agent: &Agent| {
        let scaled: Vec<f64> = agent.weights().iter().zip(scales).map(|(w, scale)| w * scale).collect();
        let total: f64 = scaled.iter().sum();
        let even = 1.0 / scaled.len() as f64;
        scaled.iter().map(|w| if total > 0.0 { w / total } else { even } as f32).collect()
    };
    agents.iter().take(ENVS).map(weights).collect()
}

impl<'a> Plan<'a> {
    /// The plan of prepared runs.
    pub(super) fn new(task: &'a VecTask<'a>, input: &'a PolicyProblem, prepared: &PreparedRun) -> Self {
        let PreparedRun { start, executor } = prepared;
        Self { task, file: &input.file, run: &input.problem.run, start: start.clone(), executor: *executor }
    }

    pub(super) fn agent(&self) -> Result<Agent, Error> {
        let agent = self.file.agent_builder(self.task)?;
        let agent = agent.step_size(self.run.step_size()).epoch(self.run.epoch_length());
        Ok(agent.multipliers(self.start.clone()).executor(self.executor).build()?)
    }

    /// The history of the runs that has yet to be filled.
    pub(super) fn history(&self) -> History {
        let specification = self.task.specification();
        History::new(specification, &self.scales(), self.tolerances(), self.run.steps)
    }

    /// R₁ … R_m.
    fn scales(&self) -> Vec<f64> {
        self.file.scales(self.task).split_off(1)
    }

    fn tolerances(&self) -> Vec<f64> {
        let bounds = self.task.specification().bounds();
        self.file.library.tolerances(self.run.tolerance, &bounds, &self.scales())
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
        let mut history = self.history();
        let each = |&Step { steps: step, agents, states }: &Step<'_>| {
            if let (Some(occupancy), Some(states)) = (&mut occupancy, states) {
                occupancy.visit(states);
            }
            if is_sampled(step, self.run.steps) {
                visited.extend(normalised(agents, self.task.scales()));
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

    /// The report on runs; `agents` are those of the runs, which have observed more than the evaluation of a library with
    /// standard errors.
    pub(super) fn report(&self, executions: &Executions, agents: &[Agent]) -> Result<RunReport, Error> {
        let evidence = self.file.evidence(self.task, agents);
        let known =
            DiagnosisInput { scales: self.scales(), tolerances: self.tolerances(), ..evidence.input() };
        RunReport::new(self.task.specification(), executions, known).context("no run")
    }

    /// The result of runs, without pictures.
    pub(super) fn result(
        &self,
        name: &str,
        problem: &str,
        report: RunReport,
        runs: PolicyRuns,
        stopped: bool,
    ) -> Run {
        let (task, file, run) = (self.task, self.file, self.run);
        let names = task.specification().names().into_iter();
        let policy = PolicyRun {
            start: names.zip(self.start.as_slice().iter().copied()).collect(),
            policy: file.training.clone(),
            coverage: file.coverage.compare(&runs.visited),
            executor: Some(self.executor),
            runs_on_library: runs.runs_on_library,
            weight_conditioned: !file.policy.ignores_weights(),
        };
        Run {
            objective: ObjectiveResult::new(task.specification(), &report, None, estimate(task, file)),
            specification: task.specification().clone(),
            step_size: run.step_size(),
            tolerance: run.tolerance,
            seed: run.seed,
            policy: Some(policy),
            executor: None,
            executor_reason: None,
            change_of_behaviour: 0,
            history: runs.history,
            certificate: runs.runs[0].certificate.clone(),
            longer: None,
            advice: advice(&report, self, name),
            problem: Some(problem.to_owned()),
            pictures: Vec::new(),
            stopped,
            report,
        }
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
        DiagnosisVerdict::Converging => format!(
            "Converging: the multipliers of {names} no longer grow, so the certified shortfall decreases as 1/steps; take \
             more --steps."
        ),
    })
}
