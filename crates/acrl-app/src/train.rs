//! Training: Algorithm 1 with checkpoints, and a policy file at the end.

use std::path::Path;
use std::time::Instant;

use acrl::{EpochLength, Event, Named, VecTask};
use acrl_files::{RunFolder, checkpoint};
use acrl_learn::{
    ExecutionDefaults, LearnError, Learner, Method, PolicyFile, Training, TrainingRecord, calibrate,
    evaluate_library,
};
use acrl_report::number;
use serde::{Deserialize, Serialize};

use crate::control::{Control, Progress as _};
use crate::input::{ContinuousProblem, Input};
use crate::{Error, bail, ensure};

/// What a checkpoint holds.
#[derive(Serialize, Deserialize)]
struct State {
    problem: String,
    requirements: Vec<acrl::Requirement>,
    objective: Option<acrl::Objective>,
    seed: u64,
    seconds: f64,
    training: Training,
}

const KIND: &str = "training";

/// Options of [`train`].
#[derive(Debug, Clone)]
pub struct TrainOptions<'a> {
    /// The policy file to write.
    pub output: &'a Path,
    /// Environment steps; the problem's, or the learner's, if absent.
    pub total_steps: Option<u64>,
    /// The learner; the problem's if absent.
    pub learner: Option<Learner>,
    /// A-CRL or a baseline; the problem's if absent.
    pub method: Option<Method>,
    /// The folder for logs and checkpoint; `runs/` and the policy's name if absent.
    pub out_dir: Option<&'a Path>,
    /// Resume from the folder's checkpoint.
    pub resume: bool,
    /// Replace a training that the folder holds already.
    pub replace: bool,
    /// Seconds between two checkpoints.
    pub checkpoint_every: f64,
    /// The seed of all randomness; the problem's if absent.
    pub seed: Option<u64>,
}

/// A finished or stopped training. Serialises as the object of `acrl train --json`.
#[derive(Debug, Serialize)]
pub struct TrainResult {
    /// The path of the policy.
    pub policy: String,
    /// The folder with logs and checkpoint.
    pub folder: String,
    /// Learner, method, steps and seed.
    #[serde(flatten)]
    pub record: TrainingRecord,
    /// Iterations done.
    pub iterations: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// Long-run averages with all weight on one reward, by that reward.
    pub single_objective_values: Named<Named<f64>>,
    /// Recommended settings of an execution.
    pub execution_defaults: ExecutionDefaults,
    /// The averages of a baseline while it trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<Named<f64>>,
    /// The number of iterations planned.
    #[serde(skip)]
    pub total_iterations: u64,
    /// False for a baseline, which ignores the multipliers.
    #[serde(skip)]
    pub weight_conditioned: bool,
}

/// Trains a policy for a continuous problem, to the end or until a stop is requested, and writes it. `name` is the input's
/// name in messages.
pub fn train(
    name: &str,
    input: Input,
    options: &TrainOptions<'_>,
    control: &Control,
) -> Result<TrainResult, Error> {
    let problem = match input {
        Input::Continuous(problem) => *problem,
        Input::Finite(_) => bail!(
            "{name} is finite: its best policies are computed and need no training; acrl run {name} executes them"
        ),
        Input::Policy(_) => bail!("{name} is a trained policy, expected a problem (.toml)"),
    };
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let seed = options.seed.unwrap_or(problem.train.seed);
    let method = options.method.unwrap_or(problem.train.method);
    let learner = options.learner.unwrap_or(problem.train.learner);
    let name = options.output.file_stem().unwrap_or(options.output.as_os_str());
    let folder_path = options.out_dir.map_or_else(|| Path::new("runs").join(name), Path::to_owned);
    let fresh = State {
        problem: problem.text.clone(),
        requirements: problem.specification.requirements().to_vec(),
        objective: problem.specification.objective().cloned(),
        seed,
        seconds: 0.0,
        training: Training::new(&task, &problem.train, (method, learner), options.total_steps, seed)?,
    };
    let mut job = if options.resume {
        resume(fresh, &folder_path)?
    } else {
        let create = if options.replace { RunFolder::replace } else { RunFolder::create };
        Job { state: fresh, folder: create(&folder_path)? }
    };
    let complete = job.run(&task, options.checkpoint_every, control)?;
    let Job { state, folder } = job;
    folder.finish()?;
    control.message("calibrating".to_owned());
    let file = policy_file(&state.training, &problem, &task, seed, complete)?;
    file.to_container()?.save(options.output)?;
    Ok(result(&file, &state, &task, options.output, &folder_path))
}

/// Resumes a training from the checkpoint in its folder.
fn resume(fresh: State, path: &Path) -> Result<Job, Error> {
    let file = RunFolder::checkpoint_path(path);
    ensure!(
        file.exists(),
        "{} holds no checkpoint, so there is nothing to resume: train without --resume",
        path.display()
    );
    let state: State = checkpoint::load(&file, KIND)?;
    let differs = |what: &str| {
        format!(
            "{} is of a training with {what} than asked for: resume it with the same, or train without --resume",
            file.display()
        )
    };
    ensure!(state.problem == fresh.problem, differs("another problem"));
    let same = state.requirements == fresh.requirements && state.objective == fresh.objective;
    ensure!(same, differs("another objective or other requirements"));
    ensure!(state.seed == fresh.seed, differs(&format!("seed {} rather", state.seed)));
    ensure!(state.training.same_settings(&fresh.training), differs("other settings or steps"));
    let folder = RunFolder::resume(path, state.training.iteration())?;
    Ok(Job { state, folder })
}

/// A training and where it keeps its records.
struct Job {
    state: State,
    folder: RunFolder,
}

impl Job {
    /// Iterates to the end or until a stop is requested; true if the end was reached.
    fn run(&mut self, task: &VecTask<'_>, checkpoint_every: f64, control: &Control) -> Result<bool, Error> {
        let total = self.state.training.iterations();
        control.begin(total);
        control.advance(self.state.training.iteration());
        let (begin, before) = (Instant::now(), self.state.seconds);
        let mut saved = Instant::now();
        while self.state.training.iteration() < total && !control.stop.requested() {
            let metrics = match self.state.training.iterate(task) {
                Ok(metrics) => metrics,
                Err(error) => return Err(self.diverged(error)),
            };
            self.state.seconds = before + begin.elapsed().as_secs_f64();
            let (training, seconds) = (&self.state.training, self.state.seconds);
            let (iteration, steps) = (training.iteration(), training.steps());
            let metrics = with_time(&metrics, iteration, steps, seconds);
            if iteration == 1 {
                // For the bounds in live curves.
                self.folder.event(&Event::Requirements(&self.state.requirements))?;
            }
            self.folder.iteration(iteration, total, steps, seconds, &metrics)?;
            if let Some(reward) = metrics.get("rollout/scalarized_reward") {
                control.message(format!("reward {}", number(*reward, 3)));
            }
            control.advance(1);
            if iteration == 1 || saved.elapsed().as_secs_f64() >= checkpoint_every {
                self.folder.save_checkpoint(KIND, &self.state)?;
                saved = Instant::now();
            }
        }
        self.folder.save_checkpoint(KIND, &self.state)?;
        Ok(self.state.training.iteration() >= total)
    }

    /// The error, and where the last good checkpoint is.
    fn diverged(&self, error: LearnError) -> Error {
        let file = RunFolder::checkpoint_path(self.folder.path());
        let place = format!("the training stopped; the last good checkpoint is {}", file.display());
        Error::At { place, source: Box::new(error.into()) }
    }
}

/// The policy with all that goes with it.
pub(super) fn policy_file(
    training: &Training,
    problem: &ContinuousProblem,
    task: &VecTask<'_>,
    seed: u64,
    complete: bool,
) -> Result<PolicyFile, Error> {
    let mut policy = training.policy();
    let library = evaluate_library(task, &mut policy, seed)?;
    // Who stops a training does not want to wait; and there is nothing to choose where the problem fixes the epoch, or
    // if the policy takes no notice of multipliers.
    let given =
        matches!(problem.run.epoch, Some(EpochLength::Fixed(_))) || matches!(training, Training::Baseline(_));
    let advice = if complete && !given {
        calibrate(task, &mut policy, &library, seed)?.first().map(|best| best.defaults)
    } else {
        None
    };
    Ok(PolicyFile {
        problem: problem.text.clone(),
        specification: problem.specification.clone(),
        policy,
        library,
        coverage: training.coverage().clone(),
        reward_sample: training.reward_sample().clone(),
        execution_defaults: advice.unwrap_or_else(|| ExecutionDefaults::uncalibrated(task)),
        training: TrainingRecord {
            learner: training.learner().to_owned(),
            method: training.method().to_owned(),
            steps: training.steps(),
            seed,
            complete,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    })
}

/// The averages of a baseline while it trained, in the paper's signs; nothing for other trainings.
pub(super) fn online(training: &Training, task: &VecTask<'_>) -> Option<Vec<f64>> {
    let Training::Baseline(baseline) = training else { return None };
    Some(baseline.online().iter().zip(task.scales()).map(|(r, scale)| r * scale).collect())
}

/// Metrics of an iteration, and those of time under the tags of Stable-Baselines3.
fn with_time(metrics: &Named<f64>, iteration: u64, steps: u64, seconds: f64) -> Named<f64> {
    let time = [
        ("time/iterations", iteration as f64),
        ("time/total_timesteps", steps as f64),
        ("time/fps", if seconds > 0.0 { steps as f64 / seconds } else { 0.0 }),
    ];
    metrics
        .iter()
        .map(|(name, value)| (name.to_owned(), *value))
        .chain(time.map(|(name, value)| (name.to_owned(), value)))
        .collect()
}

fn result(file: &PolicyFile, state: &State, task: &VecTask<'_>, output: &Path, folder: &Path) -> TrainResult {
    let specification = task.specification();
    let mut names: Vec<(String, f64)> = Vec::new();
    names.extend(specification.objective().map(|o| (o.reward.clone(), o.sign())));
    names.extend(specification.requirements().iter().map(|r| (r.name().to_owned(), r.sign())));
    let first = usize::from(!task.has_objective());
    let signed = |values: &[f64]| -> Named<f64> {
        let values = names.iter().zip(&values[first..]);
        values.map(|((name, sign), v)| (name.clone(), sign * v + 0.0)).collect()
    };
    let single = |j: usize| signed(&file.library.entries[j].values);
    TrainResult {
        policy: output.display().to_string(),
        folder: folder.display().to_string(),
        record: file.training.clone(),
        iterations: state.training.iteration(),
        seconds: state.seconds,
        single_objective_values: names.iter().enumerate().map(|(j, (n, _))| (n.clone(), single(j))).collect(),
        execution_defaults: file.execution_defaults,
        online: online(&state.training, task).map(|values| signed(&values)),
        total_iterations: state.training.iterations(),
        weight_conditioned: !file.policy.ignores_weights(),
    }
}
