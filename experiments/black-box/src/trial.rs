//! Training and execution in a problem that is stepped as an unknown environment.

use std::path::Path;
use std::sync::Arc;

use acrl::{BatchMatrix, Interval, Rng, Specification, VecTask, Verdict};
use acrl_app::{Control, ExecutionOptions, ExternalRun, Input, PolicyProblem, Run, RunOptions, Stop, run};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_learn::ppo::StepResult;
use acrl_learn::{Suitability, Tabular, TabularConfig};
use anyhow::{Context as _, Result};

use crate::bounds::BoundSet;
use crate::problems::BlackBox;

/// Settings of a trial.
pub(crate) struct Settings {
    pub(crate) train_steps: u64,
    pub(crate) steps: u64,
    pub(crate) seed: u64,
    pub(crate) num_envs: usize,
    pub(crate) features: bool,
}

/// A trained policy.
pub(crate) struct Trained {
    policy: PolicyProblem,
    pub(crate) suitability: Suitability,
}

/// Result of an execution.
pub(crate) struct Outcome {
    pub(crate) verdict: &'static str,
    pub(crate) regret: f64,
}

/// Copies of the problem as environments.
struct Envs<'a> {
    problem: &'a BlackBox,
    features: bool,
    states: Vec<usize>,
    rngs: Vec<Rng>,
    rewards: BatchMatrix,
    observation: BatchMatrix,
    idle: Vec<bool>,
    made: Vec<bool>,
}

impl<'a> Envs<'a> {
    fn new(problem: &'a BlackBox, settings: &Settings, num_envs: usize, stream: u64) -> Self {
        let mut rngs: Vec<Rng> =
            (0..num_envs as u64).map(|env| Rng::stream(settings.seed + 77, stream + env)).collect();
        let initial = problem.model.initial();
        let shares: Vec<f64> = initial.iter().map(|(_, p)| *p).collect();
        let states = rngs.iter_mut().map(|rng| initial[rng.weighted(&shares)].0).collect();
        let mut envs = Self {
            observation: BatchMatrix::zeros(width(problem, settings.features), num_envs),
            rewards: BatchMatrix::zeros(problem.model.reward_names().len(), num_envs),
            idle: vec![false; num_envs],
            made: vec![true; num_envs],
            features: settings.features,
            problem,
            states,
            rngs,
        };
        envs.show();
        envs
    }

    fn show(&mut self) {
        self.observation.as_mut_slice().fill(0.0);
        for (env, &state) in self.states.iter().enumerate() {
            if self.features {
                self.observation.set_column(env, &self.problem.features[state]);
            } else {
                self.observation.set(state, env, 1.0);
            }
        }
    }

    fn step(&mut self, actions: &BatchMatrix) {
        let model = &self.problem.model;
        for (env, rng) in self.rngs.iter_mut().enumerate() {
            let choice = model.choice(model.choices(self.states[env]).start + actions.at(0, env) as usize);
            self.rewards.set_column(env, choice.rewards);
            self.states[env] = choice.targets[rng.weighted(choice.probabilities)] as usize;
        }
        self.show();
    }

    fn result(&self) -> StepResult<'_> {
        StepResult {
            rewards: &self.rewards,
            observation: &self.observation,
            final_observation: &self.observation,
            terminated: &self.idle,
            truncated: &self.idle,
            mask: &self.made,
        }
    }
}

fn width(problem: &BlackBox, features: bool) -> usize {
    if features { problem.features[0].len() } else { problem.model.states() }
}

/// Trains the tabular learner.
pub(crate) fn train(
    problem: &BlackBox,
    specification: &Specification,
    settings: &Settings,
) -> Result<Trained> {
    let width = width(problem, settings.features);
    let names = problem.model.reward_names();
    let reward = |name: &String| ExternalReward { name: name.clone(), low: 0.0, high: 1.0 };
    let description = ExternalParameters {
        observation: vec![[0.0, 1.0]; width],
        action: vec![ExternalAction { choices: Some(problem.model.choices(0).len()), low: None, high: None }],
        reward: names.iter().map(reward).collect(),
        spaces: None,
    };
    let environment = External::new(description.clone())?;
    let task = VecTask::new(&environment, specification.clone())?;
    let config = TabularConfig {
        total_steps: settings.train_steps,
        num_envs: settings.num_envs,
        ..TabularConfig::default()
    };
    let ranges = vec![Interval::UNBOUNDED; width];
    let mut training = Tabular::new(&task, &ranges, &vec![false; names.len()], config, settings.seed)?;
    let mut envs = Envs::new(problem, settings, settings.num_envs, 0);
    let mut actions = BatchMatrix::zeros(1, settings.num_envs);
    while training.iteration() < training.iterations() {
        while !training.update_is_due() {
            training.act(&envs.observation, &mut actions);
            envs.step(&actions);
            training.observe(&envs.result());
        }
        training.update(&envs.observation)?;
    }
    let suitability = training.suitability();
    let file = training.policy_file(&description, settings.seed, true)?;
    let policy = PolicyProblem::from_container(file.to_container()?, Path::new("policy"))?;
    Ok(Trained { policy, suitability })
}

/// Executes a policy for a set of bounds.
pub(crate) fn execute(
    problem: &BlackBox,
    trained: &Trained,
    set: &BoundSet,
    settings: &Settings,
) -> Result<Outcome> {
    let execution = ExecutionOptions { steps: Some(settings.steps), ..ExecutionOptions::default() };
    let options = RunOptions { execution, seed: Some(settings.seed), ..RunOptions::default() };
    let requirements = set.specification.requirements();
    let mut run = ExternalRun::new("policy", trained.policy.clone(), requirements, &options, 1)?;
    let mut envs = Envs::new(problem, settings, 1, 1_000);
    while !run.is_over() {
        let actions = run.act(&envs.observation)?.clone();
        envs.step(&actions);
        run.observe(&envs.result())?;
    }
    outcome(&run.finish()?, set)
}

/// Executes the exact solution of the model, which the learner does not know: what chance and the length of the run allow.
pub(crate) fn known(problem: &BlackBox, set: &BoundSet, settings: &Settings) -> Result<Outcome> {
    let mut input = Input::from(Arc::new(problem.model.clone()));
    let specification = &set.specification;
    input.specify("model", specification.objective().cloned(), specification.requirements())?;
    let execution =
        ExecutionOptions { steps: Some(settings.steps), runs: Some(1), ..ExecutionOptions::default() };
    let options = RunOptions { execution, seed: Some(settings.seed), ..RunOptions::default() };
    outcome(&run("model", input, &options, &Control::silent(Stop::default()))?, set)
}

fn outcome(run: &Run, set: &BoundSet) -> Result<Outcome> {
    if std::env::var("DETAIL").is_ok() {
        println!("{:?} optimum {} {:?} {:?}", run.objective, set.optimum, run.executor, run.executor_reason);
        for s in run.snapshots().iter().step_by(20) {
            println!("   {s:?}");
        }
        for (name, r) in run.report.requirements.iter() {
            println!(
                "  {name} bound {} average {} certified {} {:?}",
                r.bound, r.average, r.certified_shortfall, r.verdict
            );
        }
    }
    let verdicts = run.report.requirements.iter().map(|(_, r)| match r.verdict {
        Verdict::Satisfied => (0, "satisfied"),
        Verdict::WithinTolerance => (1, "within"),
        Verdict::Violated => (2, "violated"),
    });
    let objective = run.objective.as_ref().context("there is no objective")?;
    Ok(Outcome {
        verdict: verdicts.max().map_or("satisfied", |(_, name)| name),
        regret: (set.optimum - objective.average) / set.unit,
    })
}
