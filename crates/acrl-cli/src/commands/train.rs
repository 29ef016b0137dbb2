//! `acrl train`: Algorithm 1, safe to interrupt, and a policy file at the end.

use std::path::{Path, PathBuf};
use std::time::Instant;

use acrl::{EpochLength, Executor, VecTask};
use acrl_files::{RunFolder, checkpoint};
use acrl_learn::{
    ExecutionDefaults, LearnError, Learner, Method, PolicyFile, Training, TrainingRecord, calibrate,
    evaluate_library,
};
use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};

use crate::Verdict;
use crate::args::{Global, TrainArgs};
use crate::input::{ContinuousProblem, Input};
use crate::output::{FAINT, Output, Table, count, figure, styled};
use crate::watch::{Stop, listen};

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

/// Trains and writes the policy.
pub(crate) fn train(args: &TrainArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    let problem = match Input::open(&args.source)? {
        Input::Continuous(problem) => *problem,
        Input::Finite(_) => bail!(
            "{0} is finite: its best policies are computed and need no training; acrl run {0} executes them",
            args.source.input
        ),
        Input::Policy(_) => bail!("{} is a trained policy, expected a problem (.toml)", args.source.input),
    };
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let seed = global.seed.unwrap_or(problem.train.seed);
    let folder_path = args.folder.clone().unwrap_or_else(|| default_folder(&args.output));
    let fresh = State {
        problem: problem.text.clone(),
        requirements: problem.specification.requirements().to_vec(),
        objective: problem.specification.objective().cloned(),
        seed,
        seconds: 0.0,
        training: begin(&problem, &task, &asked(args, &problem), seed)?,
    };
    let mut job = if args.resume {
        resume(fresh, &folder_path)?
    } else {
        let create = if args.replace { RunFolder::replace } else { RunFolder::create };
        let folder = create(&folder_path).map_err(|error| match error {
            acrl_files::Error::RunExists { .. } => anyhow::Error::new(error)
                .context("continue it with --resume, replace it with --replace, or choose another --folder"),
            other => other.into(),
        })?;
        Job { state: fresh, folder }
    };
    let complete = job.run(&task, args, &listen(), output)?;
    let Job { state, folder } = job;
    folder.finish()?;
    let rehearsing = output.spinner("rehearsing");
    let file = policy_file(&state.training, &problem, &task, seed, complete)?;
    rehearsing.finish_and_clear();
    file.to_container()?.save(&args.output)?;
    report(&file, &state, &task, args, &folder_path, complete, output)?;
    Ok(if complete { Verdict::Good } else { Verdict::Bad })
}

/// `runs/` and the policy's name.
fn default_folder(policy: &Path) -> PathBuf {
    Path::new("runs").join(policy.file_stem().unwrap_or(policy.as_os_str()))
}

/// What is to be trained.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) learner: Learner,
    /// Environment steps; the learner's own number if it is not said.
    pub(super) steps: Option<u64>,
}

fn asked(args: &TrainArgs, problem: &ContinuousProblem) -> Asked {
    let train = &problem.train;
    Asked {
        method: args.method.unwrap_or(train.method),
        learner: args.learner.unwrap_or(train.learner),
        steps: args.steps,
    }
}

/// A training from scratch.
pub(super) fn begin(
    problem: &ContinuousProblem,
    task: &VecTask<'_>,
    asked: &Asked,
    seed: u64,
) -> anyhow::Result<Training> {
    let Asked { method, learner, steps } = *asked;
    Ok(Training::new(task, &problem.train, (method, learner), steps, seed)?)
}

/// Takes up a training where its folder's checkpoint left it.
fn resume(fresh: State, path: &Path) -> anyhow::Result<Job> {
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
    /// Iterates to the end, or until Ctrl-C; whether the end was reached.
    fn run(
        &mut self,
        task: &VecTask<'_>,
        args: &TrainArgs,
        stop: &Stop,
        output: &mut Output,
    ) -> anyhow::Result<bool> {
        let of = self.state.training.iterations();
        let bar = output.bar(of, "training");
        bar.set_position(self.state.training.iteration());
        let (begin, before) = (Instant::now(), self.state.seconds);
        let mut saved = Instant::now();
        while self.state.training.iteration() < of && !stop.requested() {
            let figures = match self.state.training.iterate(task) {
                Ok(figures) => figures,
                Err(error) => {
                    bar.abandon();
                    return Err(self.diverged(error));
                }
            };
            self.state.seconds = before + begin.elapsed().as_secs_f64();
            let training = &self.state.training;
            let iteration = training.iteration();
            self.folder.iteration(iteration, of, training.steps(), self.state.seconds, &figures)?;
            if let Some(reward) = figures.get("rollout/scalarized_reward") {
                bar.set_message(format!("reward {}", figure(*reward, 3)));
            }
            bar.inc(1);
            if iteration == 1 || saved.elapsed().as_secs_f64() >= args.checkpoint_every {
                self.folder.save_checkpoint(KIND, &self.state)?;
                saved = Instant::now();
            }
        }
        self.folder.save_checkpoint(KIND, &self.state)?;
        bar.finish_and_clear();
        Ok(self.state.training.iteration() >= of)
    }

    /// The error, and where the last good checkpoint is.
    fn diverged(&self, error: LearnError) -> anyhow::Error {
        let file = RunFolder::checkpoint_path(self.folder.path());
        let kept = format!("the training stopped; the last good checkpoint is {}", file.display());
        anyhow::Error::new(error).context(kept)
    }
}

/// The policy with all that goes with it.
pub(super) fn policy_file(
    training: &Training,
    problem: &ContinuousProblem,
    task: &VecTask<'_>,
    seed: u64,
    complete: bool,
) -> anyhow::Result<PolicyFile> {
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
        seen: training.seen().clone(),
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

#[derive(Serialize)]
struct TrainJson<'a> {
    policy: String,
    folder: String,
    #[serde(flatten)]
    record: &'a TrainingRecord,
    iterations: u64,
    seconds: f64,
    /// What the policy settles at when one reward is all that matters, by that reward.
    corners: acrl::Named<acrl::Named<f64>>,
    advice: ExecutionDefaults,
    /// Of a baseline: its averages while it trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    online: Option<acrl::Named<f64>>,
}

/// The averages of a baseline while it trained, in the paper's signs; nothing for other trainings.
pub(super) fn online(training: &Training, task: &VecTask<'_>) -> Option<Vec<f64>> {
    let Training::Baseline(baseline) = training else { return None };
    Some(baseline.online().iter().zip(task.scales()).map(|(r, scale)| r * scale).collect())
}

fn report(
    file: &PolicyFile,
    state: &State,
    task: &VecTask<'_>,
    args: &TrainArgs,
    folder: &Path,
    complete: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    let specification = task.specification();
    let mut names: Vec<(String, f64)> = Vec::new();
    names.extend(specification.objective().map(|o| (o.reward.clone(), o.sign())));
    names.extend(specification.requirements().iter().map(|r| (r.name().to_owned(), r.sign())));
    let first = usize::from(!task.has_objective());
    let signed = |values: &[f64]| -> acrl::Named<f64> {
        let values = names.iter().zip(&values[first..]);
        values.map(|((name, sign), v)| (name.clone(), sign * v + 0.0)).collect()
    };
    let corner = |j: usize| signed(&file.library.entries[j].values);
    let online = online(&state.training, task).map(|values| signed(&values));
    let (training, policy) = (&state.training, args.output.display());
    if output.is_json() {
        return output.object(&TrainJson {
            policy: policy.to_string(),
            folder: folder.display().to_string(),
            record: &file.training,
            iterations: training.iteration(),
            seconds: state.seconds,
            corners: names.iter().enumerate().map(|(j, (name, _))| (name.clone(), corner(j))).collect(),
            advice: file.execution_defaults,
            online,
        });
    }
    if !complete {
        output.warn(&format!(
            "stopped by Ctrl-C after iteration {} of {}: the policy is usable; --resume goes on",
            training.iteration(),
            training.iterations()
        ));
    }
    let what = match training {
        Training::Baseline(baseline) => format!("{} with {}", baseline.method().name(), training.learner()),
        _ => training.learner().to_owned(),
    };
    output.line(format!(
        "{policy}: {what} after {} in {} s",
        count(training.steps(), "step"),
        figure(state.seconds, 3)
    ));
    output.line("");
    let blind = file.policy.ignores_weights();
    let mut header = vec![if blind { "" } else { "all weight on" }];
    header.extend(names.iter().map(|(name, _)| name.as_str()));
    let mut table = Table::new(&header);
    for (j, (name, _)) in names.iter().enumerate().take(if blind { 1 } else { names.len() }) {
        let name = if blind { "settles at" } else { name.as_str() };
        let mut row = vec![name.to_owned()];
        row.extend(corner(j).iter().map(|(_, v)| figure(*v, 3)));
        table.plain(row);
    }
    if let Some(online) = online {
        let values = online.iter().map(|(_, v)| figure(*v, 3));
        table.plain(std::iter::once("while it trained".to_owned()).chain(values).collect());
    }
    output.raw(&table.to_string());
    if blind {
        output.line(styled(FAINT, "a baseline: the policy takes no notice of multipliers"));
    } else {
        output.line(styled(FAINT, "what the policy settles at when one reward is all that matters"));
        let ExecutionDefaults { step_size, epoch, executor } = file.execution_defaults;
        let steering = match executor {
            Executor::Policy => "its multipliers",
            Executor::Library => "its library",
        };
        let advice = format!(
            "it will run steered by {steering}, with epochs of {epoch} steps and step size {step_size}"
        );
        output.line(styled(FAINT, advice));
    }
    output.line(styled(FAINT, format!("logs and checkpoint: {}", folder.display())));
    output.hint(format!("Try next: acrl run {policy} --runs 20, or with other bounds: --require 'NAME>=X'."));
    Ok(())
}
