//! PPO: independent of the number of threads, bit-identical after a resume, stopped when it diverges.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use acrl::{
    ActionPart, BatchMatrix, Error, Executor, Interval, Objective, Requirement, Rng, Specification,
    VecPolicy, VecTask,
};
use acrl_files::checkpoint;
use acrl_learn::{
    ActorCritic, ActorCriticConfig, Baseline, BaselineConfig, Criterion, LearnError, LearnerConfig, Method,
    PolicyFile, PolicyGradient, PolicyGradientConfig, Ppo, PpoConfig, Training, WeightSampler, calibrate,
    evaluate_library,
};
use common::{UnitInterval, policy_file};

/// A point on a line from 0 to 1 that moves, or stays by choice; `left` and `right` are its ends.
fn line(factor: f64) -> UnitInterval {
    let action = [ActionPart::Continuous(Interval::new(-1.0, 1.0)), ActionPart::Discrete(2)];
    let line = UnitInterval::new(&["left", "right"], &action, |x, [velocity, stays], rewards, _| {
        *rewards = [f64::from(*x < 0.2), f64::from(*x > 0.8), 0.0];
        let moving = if stays == 0.0 { 0.1 } else { 0.0 };
        *x = (*x + moving * velocity.clamp(-1.0, 1.0)).clamp(0.0, 1.0);
    });
    UnitInterval { factor, ..line }
}

fn specification() -> Specification {
    let requirement = |name: &str| Requirement::at_least(name, 0.3).unwrap();
    Specification::new(None, vec![requirement("left"), requirement("right")]).unwrap()
}

fn settings(total_steps: u64) -> PpoConfig {
    let total_steps = Some(total_steps);
    PpoConfig { total_steps, num_envs: 64, n_steps: 16, minibatch_size: 600, ..PpoConfig::default() }
}

fn train(task: &VecTask<'_>, iterations: u64) -> Ppo {
    train_for(task, iterations, Criterion::Discounted)
}

fn train_for(task: &VecTask<'_>, iterations: u64, criterion: Criterion) -> Ppo {
    let settings = PpoConfig { criterion, ..settings(40 * 1024) };
    let mut ppo = Ppo::new(task, settings, 3).unwrap();
    (0..iterations).for_each(|_| drop(ppo.iterate(task).unwrap()));
    ppo
}

fn weights(ppo: &Ppo) -> Vec<f32> {
    ppo.policy().actor().parameters().to_vec()
}

#[test]
fn it_learns_continuous_and_discrete_actions_for_all_weights() {
    let line = line(1.0);
    let task = VecTask::new(&line, specification()).unwrap();
    for seed in 0..2 {
        learns(&task, Criterion::Discounted, seed);
        learns(&task, Criterion::AverageReward, seed);
    }
}

fn learns(task: &VecTask<'_>, criterion: Criterion, seed: u64) {
    let settings = PpoConfig { total_steps: Some(500_000), criterion, ..PpoConfig::default() };
    let mut ppo = Ppo::new(task, settings, seed).unwrap();
    while ppo.iteration() < ppo.iterations() {
        ppo.iterate(task).unwrap();
    }
    let mut policy = ppo.policy();
    let library = evaluate_library(task, &mut policy, 0).unwrap();
    assert!(library.entries[0].values[1] > 0.9, "left: {:?}", library.entries[0]);
    assert!(library.entries[1].values[2] > 0.9, "right: {:?}", library.entries[1]);
    assert!(library.optimum(&[0.3, 0.3]).is_some());
}

/// Goes to an end if nearly all the weight is there, and else does not move.
struct Undecided;

impl VecPolicy for Undecided {
    fn act(
        &mut self,
        _: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        _: &mut [Rng],
    ) -> Result<(), Error> {
        for env in 0..weights.num_envs() {
            let [left, right] = [2, 1].map(|back| weights.at(weights.len() - back, env));
            let share = right / (left + right);
            let speed = if share > 0.95 {
                1.0
            } else if share < 0.05 {
                -1.0
            } else {
                0.0
            };
            actions.set_column(env, &[speed, 0.0]);
        }
        Ok(())
    }
}

#[test]
fn a_policy_that_cannot_mix_is_executed_by_its_library() {
    let line = line(1.0);
    let task = VecTask::new(&line, specification()).unwrap();
    let library = evaluate_library(&task, &mut Undecided, 0).unwrap();
    // Where it does not move depends on where it was: no entry. 9 steps of a run lead from one end to the region of the
    // other, and the first 2 of them are still had here.
    assert!(library.entries.iter().all(|e| e.values[1] == 1.0 || e.values[2] == 1.0), "{library:?}");
    let (left, right) = (&library.entries[0], &library.entries[1]);
    assert_eq!((left.place, right.place), (0, 1));
    assert_eq!(left.travel, [[0.0; 3], [0.0, 9.0, -2.0]]);
    assert_eq!(right.travel, [[0.0, -2.0, 9.0], [0.0; 3]]);
    // As much as possible of one, with enough of the other: by itself it moves when a multiplier is above 19 or below .05.
    let right = Requirement::at_least("right", 0.3).unwrap();
    let specification = Specification::new(Some(Objective::maximize("left")), vec![right]).unwrap();
    let task = VecTask::new(&line, specification).unwrap();
    let library = evaluate_library(&task, &mut Undecided, 0).unwrap();
    let results = calibrate(&task, &mut Undecided, &library, 0).unwrap();
    assert_eq!(results[0].defaults.executor, Executor::TimeSharing);
    assert!(results[0].shortfall == 0.0, "{results:?}");
    let by_policy = results.iter().find(|way| way.defaults.executor == Executor::Policy).unwrap();
    assert!(by_policy.shortfall > 0.0 || by_policy.objective < results[0].objective, "{results:?}");
}

#[test]
fn threads_and_interruptions_do_not_change_a_training() {
    let line = line(1.0);
    let task = VecTask::new(&line, specification()).unwrap();
    let pool = |n: usize| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
    for criterion in [Criterion::Discounted, Criterion::AverageReward] {
        let train = |iterations| train_for(&task, iterations, criterion);
        let one = pool(1).install(|| weights(&train(6)));
        assert_eq!(one, pool(3).install(|| weights(&train(6))));
        let bytes = checkpoint::encode("test", &Training::Ppo(Box::new(train(4)))).unwrap();
        let mut restored: Training = checkpoint::decode(&bytes, "test").unwrap();
        (0..2).for_each(|_| drop(restored.iterate(&task).unwrap()));
        let Training::Ppo(restored) = restored else { panic!() };
        assert_eq!(one, weights(&restored));
    }
}

#[test]
fn a_diverging_training_stops_and_leaves_the_policy() {
    // Rewards 10³⁰ times as large as they are said to be: their squares are no numbers any more.
    let line = line(1e30);
    let task = VecTask::new(&line, specification()).unwrap();
    let mut ppo = Ppo::new(&task, settings(40 * 1024), 3).unwrap();
    let before = weights(&ppo);
    let error = ppo.iterate(&task).unwrap_err();
    assert!(matches!(error, LearnError::Diverged { iteration: 1, .. }), "{error}");
    assert!(error.to_string().starts_with("training diverged in iteration 1: the "), "{error}");
    assert_eq!(weights(&ppo), before);
    let line = UnitInterval { factor: f64::NAN, ..line };
    let task = VecTask::new(&line, specification()).unwrap();
    let error = Ppo::new(&task, settings(1), 3).unwrap().iterate(&task).unwrap_err();
    assert!(error.to_string().contains("must be a finite number"), "{error}");
}

#[test]
fn mean_rewards_are_metrics_in_the_units_and_signs_of_the_user() {
    let action = [ActionPart::Continuous(Interval::new(-1.0, 1.0))];
    let mut environment = UnitInterval::new(&["gain", "cost", "other"], &action, |x, _, rewards, rng| {
        *rewards = [0.25, 0.75, 1.0];
        *x = rng.uniform();
    });
    let ranges = [(0.0, 2.0), (-1.0, 3.0), (0.0, 1.0)].map(|(low, high)| Interval::new(low, high));
    environment.spaces.reward_ranges = ranges.to_vec();
    let requirements =
        vec![Requirement::at_least("gain", 0.1).unwrap(), Requirement::at_most("gain", 0.9).unwrap()];
    let specification = Specification::new(Some(Objective::minimize("cost")), requirements).unwrap();
    let task = VecTask::new(&environment, specification).unwrap();
    let gradient = PolicyGradientConfig { rollouts_per_iteration: 10, ..PolicyGradientConfig::default() };
    let critic = ActorCriticConfig { rollouts_per_iteration: 10, ..ActorCriticConfig::default() };
    let baseline = |learner: LearnerConfig| {
        let baseline = Baseline::new(&task, BaselineConfig::new(Method::PrimalDual), learner, 0).unwrap();
        Training::Baseline(Box::new(baseline))
    };
    for mut training in [
        Training::Ppo(Box::new(Ppo::new(&task, settings(1024), 0).unwrap())),
        Training::PolicyGradient(Box::new(PolicyGradient::new(&task, gradient, 0).unwrap())),
        Training::ActorCritic(Box::new(ActorCritic::new(&task, critic, 0).unwrap())),
        baseline(LearnerConfig::Ppo(settings(1024))),
        baseline(LearnerConfig::PolicyGradient(gradient)),
    ] {
        let metrics = training.iterate(&task).unwrap();
        let rewards: Vec<(&str, f64)> = metrics
            .iter()
            .filter_map(|(tag, mean)| Some((tag.strip_prefix("rollout/reward/")?, *mean)))
            .collect();
        let [("cost", cost), ("gain", gain)] = rewards[..] else { panic!("{rewards:?}") };
        assert!((cost - 0.75).abs() < 1e-12 && (gain - 0.25).abs() < 1e-12, "{rewards:?}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let line = line(1.0);
    let task = VecTask::new(&line, specification()).unwrap();
    let refused = |change: &dyn Fn(&mut PpoConfig), name: &str| {
        let mut settings = PpoConfig::default();
        change(&mut settings);
        let error = Ppo::new(&task, settings, 0).unwrap_err().to_string();
        assert!(error.contains(&format!("'{name}'")), "{error}");
    };
    refused(&|s| s.gamma = 1.0, "gamma");
    refused(&|s| s.gamma = f64::NAN, "gamma");
    refused(&|s| s.num_envs = 1, "num_envs");
    refused(&|s| s.minibatch_size = 0, "minibatch_size");
    refused(&|s| s.action_repeat = Some(0), "action_repeat");
    refused(&|s| s.hidden_sizes = vec![], "hidden_sizes");
    refused(&|s| s.hidden_sizes = vec![64, 0], "hidden_sizes");
    refused(&|s| s.learning_rate = -1.0, "learning_rate");
    refused(&|s| s.weight_sampler = WeightSampler::Box { high: 5.0 }, "weight_sampler");
}

#[test]
fn a_policy_file_round_trips_and_checks_its_environment() {
    let line = line(1.0);
    let task = VecTask::new(&line, specification()).unwrap();
    let training = Training::Ppo(Box::new(train(&task, 2)));
    let file = policy_file(&task, &training);
    let bytes = file.to_container().unwrap().to_bytes().unwrap();
    let mut read = PolicyFile::from_container(acrl_files::Container::from_bytes(&bytes).unwrap()).unwrap();
    assert_eq!((&read.library, &read.training), (&file.library, &file.training));
    read.check(&task).unwrap();
    let mut observation = BatchMatrix::zeros(1, 5);
    observation.as_mut_slice().copy_from_slice(&[0.0, 0.2, 0.5, 0.7, 1.0]);
    let mut weights = BatchMatrix::zeros(3, 5);
    (0..5).for_each(|env| weights.set_column(env, &[0.0, 1.0, env as f64]));
    let mut rngs: Vec<Rng> = (0..5).map(Rng::new).collect();
    let (mut a, mut b) = (BatchMatrix::zeros(2, 5), BatchMatrix::zeros(2, 5));
    read.policy.act(&observation, &weights, &mut a, &mut rngs).unwrap();
    file.policy.clone().act(&observation, &weights, &mut b, &mut rngs).unwrap();
    assert_eq!(a, b);
    // The same environment alone.
    let mut alone = BatchMatrix::zeros(2, 1);
    let mut one = (BatchMatrix::zeros(1, 1), BatchMatrix::zeros(3, 1));
    one.0.set_column(0, &[0.7]);
    one.1.set_column(0, &[0.0, 1.0, 3.0]);
    read.policy.act(&one.0, &one.1, &mut alone, &mut rngs[..1]).unwrap();
    assert_eq!(alone.column(0).collect::<Vec<_>>(), a.column(3).collect::<Vec<_>>());

    let fewer = specification().subset(&[0]);
    let other = VecTask::new(&line, fewer).unwrap();
    assert!(read.check(&other).unwrap_err().to_string().contains("does not fit"));
}

#[test]
fn a_policy_acts_in_any_number_of_environments() {
    let line = line(1.0);
    let task = VecTask::new(&line, specification()).unwrap();
    let mut policy = train(&task, 1).policy();
    for num_envs in [1, 15, 2, 40] {
        let observation = BatchMatrix::zeros(1, num_envs);
        let mut actions = BatchMatrix::zeros(2, num_envs);
        let mut rngs = vec![Rng::new(0); num_envs];
        policy.act(&observation, &BatchMatrix::zeros(3, num_envs), &mut actions, &mut rngs).unwrap();
        assert!(actions.row(0).iter().all(|a| *a == actions.at(0, 0)));
    }
}
