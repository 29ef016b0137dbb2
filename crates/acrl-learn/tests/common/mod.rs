//! Environments, and policies trained with default settings and executed as `acrl run` does.
#![allow(dead_code, unused_imports)] // Each test uses its part.

mod unit_interval;

use std::sync::Arc;

use acrl::{
    Agent, EpochLength, Execution, Executor, Multipliers, PolicyLibrary, Rng, Silent, VecExecution,
    VecPolicy, VecTask,
};
use acrl_envs::RunSettings;
use acrl_learn::{
    ExecutionDefaults, MlpPolicy, PolicyFile, Ppo, PpoConfig, RewardSample, Training, TrainingRecord,
    calibrate, evaluate_library,
};
pub(crate) use unit_interval::UnitInterval;

/// The present policy of a training as a file.
pub(crate) fn policy_file(task: &VecTask<'_>, training: &Training) -> PolicyFile {
    let mut policy = training.policy();
    PolicyFile {
        problem: "some text".into(),
        specification: task.specification().clone(),
        library: evaluate_library(task, &mut policy, 0).unwrap(),
        policy,
        coverage: training.coverage().clone(),
        reward_sample: training.reward_sample().clone(),
        execution_defaults: ExecutionDefaults { step_size: 0.5, epoch: 10, executor: Executor::Library },
        training: TrainingRecord {
            learner: training.learner().into(),
            method: training.method().into(),
            steps: training.steps(),
            seed: 3,
            complete: false,
            version: "0".into(),
        },
    }
}

/// A trained policy, what it settles at, what it has seen, and how to execute it.
pub(crate) struct Trained {
    pub(crate) policy: MlpPolicy,
    pub(crate) library: PolicyLibrary,
    pub(crate) reward_sample: RewardSample,
    pub(crate) advice: ExecutionDefaults,
}

/// How to execute it.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) step_size: f64,
    pub(crate) epoch: EpochLength,
    pub(crate) steering: Executor,
    /// Whether the objective counts for nothing.
    pub(crate) ignoring: bool,
}

impl Way {
    /// As the policy advises.
    pub(crate) fn advised(ExecutionDefaults { step_size, epoch, executor }: ExecutionDefaults) -> Self {
        Self { step_size, epoch: EpochLength::Auto(epoch), steering: executor, ignoring: false }
    }

    /// With an epoch that stays as it is, and so without the library.
    pub(crate) fn fixed(step_size: f64, epoch: u64) -> Self {
        Self { step_size, epoch: EpochLength::Fixed(epoch), steering: Executor::Policy, ignoring: false }
    }
}

impl Trained {
    /// Trains, settles and rehearses.
    pub(crate) fn new(task: &VecTask<'_>, decisions: u64, seed: u64) -> Self {
        let total_steps = Some(decisions * task.environment().action_repeat().max(1) as u64);
        let mut ppo = Ppo::new(task, PpoConfig { total_steps, ..PpoConfig::default() }, seed).unwrap();
        while ppo.iteration() < ppo.iterations() {
            ppo.iterate(task).unwrap();
        }
        let mut policy = ppo.policy();
        let library = evaluate_library(task, &mut policy, seed).unwrap();
        let advice = calibrate(task, &mut policy, &library, seed).unwrap()[0].defaults;
        Self { policy, library, reward_sample: ppo.reward_sample().clone(), advice }
    }

    /// Several runs from where the library says multipliers belong.
    pub(crate) fn execute(
        &self,
        task: &VecTask<'_>,
        way: Way,
        steps: u64,
        runs: usize,
    ) -> Vec<Execution<Vec<f64>>> {
        execute(task, &mut self.policy.clone(), &self.library, way, steps, runs)
    }
}

/// The same for any policy.
pub(crate) fn execute(
    task: &VecTask<'_>,
    policy: &mut dyn VecPolicy,
    library: &PolicyLibrary,
    way: Way,
    steps: u64,
    runs: usize,
) -> Vec<Execution<Vec<f64>>> {
    let scales = task.scales();
    let start = library.start(&task.specification().bounds(), scales, task.has_objective());
    let requirements = task.specification().requirements().to_vec();
    let rngs = (0..runs as u64).map(|run| Rng::stream(7, run)).collect();
    let epoch = if way.steering == Executor::TimeSharing {
        let bounds = task.specification().bounds();
        let tolerances = library.tolerances(RunSettings::TOLERANCE, &bounds, &scales[1..]);
        EpochLength::Scheduled(library.schedule(&bounds, scales, &tolerances, Some(steps), 400))
    } else {
        way.epoch
    };
    let fixed = matches!(way.epoch, EpochLength::Fixed(_)) && way.steering == Executor::Policy;
    let agent = Agent::builder(requirements)
        .step_size(library.step_size(
            way.step_size,
            &task.specification().bounds(),
            scales,
            task.has_objective(),
        ))
        .epoch(epoch)
        .scales(scales[0], &scales[1..])
        .multipliers(Multipliers::new(start).unwrap())
        .objective(task.has_objective() && !way.ignoring)
        .library((!fixed).then(|| Arc::new(library.clone())))
        .executor(way.steering)
        .build()
        .unwrap();
    VecExecution::new(task, policy, vec![agent; runs], rngs, steps).unwrap().run(&mut Silent).unwrap()
}

/// The largest certified shortfall of all runs and requirements, in units of ranges R₁ … R_m.
pub(crate) fn shortfall<S>(runs: &[Execution<S>], scales: &[f64]) -> f64 {
    let of_run = |run: &Execution<S>| {
        let shortfalls = run.certificate.requirements.iter().zip(scales);
        shortfalls.map(|(c, scale)| c.certified_shortfall / scale).fold(f64::NEG_INFINITY, f64::max)
    };
    runs.iter().map(of_run).fold(f64::NEG_INFINITY, f64::max)
}
