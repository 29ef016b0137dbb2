//! The baselines of continuous problems: they find a single policy where one suffices, at the documented cost.
#![allow(missing_docs, clippy::unwrap_used)]

use acrl::{
    ActionPart, BatchMatrix, Error, Executor, Interval, Objective, Requirement, Rng, Spaces, Specification,
    VecEnv, VecPolicy, VecTask,
};
use acrl_files::{Container, checkpoint};
use acrl_learn::{
    Baseline, BaselineConfig, ExecutionDefaults, LearnerConfig, Method, PidGains, PolicyFile,
    PolicyGradientConfig, PpoConfig, Snapshots, TrainedPolicy, Training, TrainingRecord, evaluate_library,
};

/// How much to spend: x of a purse of 1 yields √x, and 1 − x is saved. Nothing else changes.
///
/// With `saved` ≥ .6 the best is x = .4, at the price 1/(2√.4) = .79: a single policy, whatever happens.
struct Purse {
    spaces: Spaces,
    /// What is claimed to be 1.
    unit: f64,
}

impl Purse {
    fn new() -> Self {
        let unit = Interval::new(0.0, 1.0);
        let spaces = Spaces {
            state_dimension: 1,
            observation: vec![unit],
            action: vec![ActionPart::Continuous(unit)],
            reward_names: vec!["yield".into(), "saved".into()],
            reward_ranges: vec![unit; 2],
        };
        Self { spaces, unit: 1.0 }
    }

    fn task(&self) -> VecTask<'_> {
        let requirement = Requirement::at_least("saved", 0.6).unwrap();
        let specification =
            Specification::new(Some(Objective::maximize("yield")), vec![requirement]).unwrap();
        VecTask::new(self, specification).unwrap()
    }
}

impl VecEnv for Purse {
    fn spaces(&self) -> &Spaces {
        &self.spaces
    }
    fn reset(&self, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> Result<(), Error> {
        state.set(0, env, rng.uniform());
        Ok(())
    }
    fn observe(&self, state: &BatchMatrix, observation: &mut BatchMatrix) {
        observation.as_mut_slice().copy_from_slice(state.as_slice());
    }
    fn step(
        &self,
        state: &mut BatchMatrix,
        actions: &BatchMatrix,
        rewards: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        for env in 0..state.num_envs() {
            let x = actions.at(0, env).clamp(0.0, 1.0);
            rewards.set(0, env, self.unit * x.sqrt());
            rewards.set(1, env, self.unit * (1.0 - x));
            state.set(0, env, rngs[env].uniform());
        }
        Ok(())
    }
}

fn primal_dual() -> BaselineConfig {
    BaselineConfig::new(Method::PrimalDual)
}

fn dual_descent() -> BaselineConfig {
    BaselineConfig::new(Method::DualDescent)
}

fn pid_lagrangian() -> BaselineConfig {
    BaselineConfig::new(Method::PidLagrangian)
}

fn primal_averaging() -> BaselineConfig {
    BaselineConfig::new(Method::PrimalAveraging)
}

fn fixed_weights(multipliers: Vec<f64>) -> BaselineConfig {
    BaselineConfig { multipliers: Some(multipliers), ..BaselineConfig::new(Method::FixedWeights) }
}

fn ppo(iterations: u64) -> LearnerConfig {
    LearnerConfig::Ppo(PpoConfig {
        total_steps: Some(1024 * iterations),
        num_envs: 64,
        n_steps: 16,
        minibatch_size: 256,
        hidden_sizes: vec![8],
        ..PpoConfig::default()
    })
}

fn kernels(rollouts: u64) -> LearnerConfig {
    LearnerConfig::PolicyGradient(PolicyGradientConfig {
        total_steps: 20 * rollouts,
        rollouts_per_iteration: 100,
        std: 0.3,
        ..PolicyGradientConfig::default()
    })
}

fn train(task: &VecTask<'_>, method: BaselineConfig, learner: LearnerConfig) -> Baseline {
    let mut baseline = Baseline::new(task, method, learner, 2).unwrap();
    while baseline.iteration() < baseline.iterations() {
        baseline.iterate(task).unwrap();
    }
    baseline
}

/// Long-run averages of a policy.
fn averages(task: &VecTask<'_>, policy: &mut TrainedPolicy) -> Vec<f64> {
    evaluate_library(task, policy, 0).unwrap().entries[0].values.clone()
}

#[test]
fn dual_rules_find_a_single_policy_where_one_suffices() {
    let purse = Purse::new();
    let task = purse.task();
    for (method, learner) in [
        (primal_dual(), ppo(200)),
        (pid_lagrangian(), ppo(200)),
        (primal_averaging(), ppo(200)),
        (primal_dual().with_lambda_lr(0.01), kernels(20_000)),
    ] {
        let what = format!("{method:?}");
        let baseline = train(&task, method, learner);
        let values = averages(&task, &mut baseline.policy());
        assert!((values[1] - 0.6).abs() < 0.04 && values[0] > 0.57, "{what}: {values:?}");
        assert!((0.5..1.2).contains(&baseline.multipliers()[0]), "{what}: {:?}", baseline.multipliers());
        assert!((baseline.online()[1] - 0.6).abs() < 0.05, "{what}: {:?}", baseline.online());
    }
    // Weights know nothing of bounds: at λ = ½ it spends everything, at λ = 2 next to nothing.
    for (multiplier, saved) in [(0.5, 0.0..0.35), (2.0, 0.8..1.0)] {
        let method = fixed_weights(vec![multiplier]);
        let values = averages(&task, &mut train(&task, method, ppo(100)).policy());
        assert!(saved.contains(&values[1]), "{multiplier}: {values:?}");
    }
    let descent = train(&task, dual_descent(), ppo(300));
    assert!((0.5..1.1).contains(&descent.multipliers()[0]), "{:?}", descent.multipliers());
}

#[test]
fn threads_and_interruptions_do_not_change_a_training() {
    let purse = Purse::new();
    let task = purse.task();
    let pool = |n: usize| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
    for learner in [ppo(6), kernels(600)] {
        for method in [primal_averaging(), pid_lagrangian(), dual_descent()] {
            let straight = pool(1).install(|| train(&task, method.clone(), learner.clone()));
            let resumed = pool(3).install(|| {
                let baseline = Baseline::new(&task, method.clone(), learner.clone(), 2).unwrap();
                let mut training = Training::Baseline(Box::new(baseline));
                while training.iteration() < training.iterations() {
                    let bytes = checkpoint::encode("test", &training).unwrap();
                    training = checkpoint::decode(&bytes, "test").unwrap();
                    training.iterate(&task).unwrap();
                }
                training
            });
            let straight = Training::Baseline(Box::new(straight));
            assert!(straight.same_settings(&resumed) && straight.steps() == resumed.steps());
            let json = |training: &Training| serde_json::to_string(training).unwrap();
            assert!(json(&straight) == json(&resumed), "{method:?}");
        }
    }
}

fn file(task: &VecTask<'_>, baseline: Baseline) -> PolicyFile {
    let training = Training::Baseline(Box::new(baseline));
    let mut policy = training.policy();
    PolicyFile {
        problem: String::new(),
        specification: task.specification().clone(),
        library: evaluate_library(task, &mut policy, 0).unwrap(),
        policy,
        coverage: training.coverage().clone(),
        seen: training.seen().clone(),
        execution_defaults: ExecutionDefaults { step_size: 1.0, epoch: 100, executor: Executor::Policy },
        training: TrainingRecord {
            learner: training.learner().into(),
            method: training.method().into(),
            steps: training.steps(),
            seed: 2,
            complete: true,
            version: "0".into(),
        },
    }
}

/// 30 actions in each of 20 environments, at weights that are all different or all the same.
fn acts(policy: &TrainedPolicy, same: bool) -> Vec<BatchMatrix> {
    let num_envs = 20;
    let (mut policy, mut observation) = (policy.clone(), BatchMatrix::zeros(1, num_envs));
    let mut weights = BatchMatrix::zeros(2, num_envs);
    for env in 0..num_envs {
        observation.set(0, env, env as f64 / num_envs as f64);
        weights.set_column(env, &if same { [1.0, 1.0] } else { [env as f64, 1.0] });
    }
    let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(7, env)).collect();
    let act = |_| {
        let mut actions = BatchMatrix::zeros(1, num_envs);
        policy.act(&observation, &weights, &mut actions, &mut rngs).unwrap();
        actions
    };
    (0..30).map(act).collect()
}

#[test]
fn a_policy_file_stores_all_snapshots_and_ignores_weights() {
    let purse = Purse::new();
    let task = purse.task();
    let one = train(&task, primal_dual(), ppo(8)).policy().numbers();
    for (method, numbers) in [
        (primal_dual(), one),
        (BaselineConfig { snapshots: 4, ..primal_averaging() }, 4 * one),
        // There are only so many stretches in the second half.
        (BaselineConfig { snapshots: 1000, ..primal_averaging() }, 4 * one),
    ] {
        let file = file(&task, train(&task, method.clone(), ppo(8)));
        assert_eq!(file.policy.numbers(), numbers, "{method:?}");
        assert!(file.policy.ignores_weights() && file.training.method == method.method.name());
        let bytes = file.to_container().unwrap().to_bytes().unwrap();
        let restored = PolicyFile::from_container(Container::from_bytes(&bytes).unwrap()).unwrap();
        restored.check(&task).unwrap();
        let acted = acts(&file.policy, true);
        assert_eq!(acted, acts(&restored.policy, true));
        assert_eq!(acted, acts(&file.policy, false));
        assert_eq!(file.coverage.compare(&[vec![0.5, 0.5]]).outside, 0.0);
    }
    // An empty list of policies, or one in another, is refused.
    let file = file(&task, train(&task, primal_averaging(), ppo(4)));
    for policies in [serde_json::json!([]), serde_json::json!([{"kind": "snapshots", "policies": []}])] {
        let mut container = file.to_container().unwrap();
        container.meta["policy"]["policies"] = policies;
        assert!(PolicyFile::from_container(container).unwrap_err().to_string().contains("take turns"));
    }
}

#[test]
fn a_snapshot_acts_for_a_whole_stretch() {
    let purse = Purse::new();
    let task = purse.task();
    let TrainedPolicy::Snapshots(mut policies) = train(&task, primal_averaging(), ppo(64)).policy() else {
        panic!("expected snapshots")
    };
    assert_eq!(policies.policies().len(), 32);
    // Means differ from policy to policy, so that drawn actions change their mean with every turn only.
    let mut rng = [Rng::new(1)];
    let (observation, weights, mut actions) =
        (BatchMatrix::zeros(1, 1), BatchMatrix::zeros(2, 1), BatchMatrix::zeros(1, 1));
    let mut mean = || -> f64 {
        let turn = (0..Snapshots::STRETCH).map(|_| {
            policies.act(&observation, &weights, &mut actions, &mut rng).unwrap();
            actions.at(0, 0)
        });
        turn.sum::<f64>() / Snapshots::STRETCH as f64
    };
    let means: Vec<f64> = (0..8).map(|_| mean()).collect();
    let (low, high) = means.iter().fold((f64::MAX, f64::MIN), |(a, b), m| (a.min(*m), b.max(*m)));
    assert!(high - low > 0.02, "{means:?}");
}

#[test]
fn settings_out_of_range_are_refused_and_divergence_stops_the_training() {
    let mut purse = Purse::new();
    for method in [
        fixed_weights(vec![]),
        fixed_weights(vec![-1.0]),
        primal_dual().with_lambda_lr(0.0),
        primal_averaging().with_lambda_lr(f64::NAN),
        BaselineConfig { rounds: 0, ..dual_descent() },
        BaselineConfig { snapshots: 0, ..primal_averaging() },
        BaselineConfig { gains: PidGains { integral: -1.0, ..PidGains::default() }, ..pid_lagrangian() },
    ] {
        assert!(Baseline::new(&purse.task(), method.clone(), ppo(1), 0).is_err(), "{method:?}");
    }
    for learner in [ppo(9), kernels(900)] {
        let mut baseline = Baseline::new(&purse.task(), primal_dual(), learner, 0).unwrap();
        baseline.iterate(&purse.task()).unwrap();
        let numbers = |baseline: &Baseline| acts(&baseline.policy(), true);
        let before = numbers(&baseline);
        purse.unit = 1e300;
        let error = baseline.iterate(&purse.task()).unwrap_err().to_string();
        assert!(error.contains("iteration 2"), "{error}");
        assert_eq!(numbers(&baseline), before);
        purse.unit = 1.0;
    }
}
