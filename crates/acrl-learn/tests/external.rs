//! PPO in external environments: it learns without given ranges, resumes bit-identically, and bootstraps correctly at the
//! ends of episodes.
#![allow(missing_docs, clippy::unwrap_used)]

use acrl::{
    BatchMatrix, Interval, Named, Objective, Requirement, Rng, Specification, VecPolicy as _, VecTask,
};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_learn::ppo::StepResult;
use acrl_learn::{Criterion, ExternalPpo, LibraryEvaluator, PpoConfig};

fn external(observations: usize, rewards: &[&str], action: ExternalAction) -> External {
    let reward = |name: &&str| ExternalReward { name: (*name).to_owned(), low: 0.0, high: 1.0 };
    let observation = vec![[-1.0, 1.0]; observations];
    let reward = rewards.iter().map(reward).collect();
    External::new(ExternalParameters { observation, action: vec![action], reward, spaces: None }).unwrap()
}

/// Points on a line that move left or right by choice, and are rewarded at its ends. Far from the units that networks
/// like: positions from 1,000 to 1,010, rewards of 50.
struct Line {
    positions: Vec<f64>,
}

impl Line {
    const CHOICE: ExternalAction = ExternalAction { choices: Some(2), low: None, high: None };

    fn new(num_envs: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self { positions: (0..num_envs).map(|_| 1000.0 + rng.index(11) as f64).collect() }
    }

    fn observation(&self) -> BatchMatrix {
        let mut seen = BatchMatrix::zeros(1, self.positions.len());
        seen.row_mut(0).copy_from_slice(&self.positions);
        seen
    }

    fn step(&mut self, actions: &BatchMatrix) -> BatchMatrix {
        let mut rewards = BatchMatrix::zeros(2, self.positions.len());
        for (env, x) in self.positions.iter_mut().enumerate() {
            rewards.set(0, env, if *x <= 1001.0 { 50.0 } else { 0.0 });
            rewards.set(1, env, if *x >= 1009.0 { 50.0 } else { 0.0 });
            *x = (*x + if actions.at(0, env) > 0.5 { 1.0 } else { -1.0 }).clamp(1000.0, 1010.0);
        }
        rewards
    }
}

fn settings(num_envs: usize, iterations: u64) -> PpoConfig {
    let n_steps = 64;
    PpoConfig {
        total_steps: Some(iterations * (num_envs * n_steps) as u64),
        num_envs,
        n_steps,
        minibatch_size: 128,
        gamma: 0.95,
        ent_coef: 0.02,
        min_advantage_std: 0.05,
        hidden_sizes: vec![32, 32],
        ..PpoConfig::default()
    }
}

fn line_task(external: &External) -> VecTask<'_> {
    let requirement = |name: &str| Requirement::at_least(name, 15.0).unwrap();
    let specification = Specification::new(None, vec![requirement("left"), requirement("right")]).unwrap();
    VecTask::new(external, specification).unwrap()
}

fn iterate(ppo: &mut ExternalPpo, line: &mut Line) -> Option<Named<f64>> {
    let num_envs = line.positions.len();
    let (never, always) = (vec![false; num_envs], vec![true; num_envs]);
    let mut actions = BatchMatrix::zeros(1, num_envs);
    while !ppo.rollout_is_full() {
        ppo.act(&line.observation(), &mut actions);
        let rewards = line.step(&actions);
        let seen = line.observation();
        ppo.observe(&StepResult {
            rewards: &rewards,
            observation: &seen,
            final_observation: &seen,
            terminated: &never,
            truncated: &never,
            mask: &always,
        });
    }
    ppo.update(&line.observation()).unwrap()
}

#[test]
fn it_learns_both_ends_of_the_line_without_given_ranges() {
    let external = external(1, &["left", "right"], Line::CHOICE);
    let task = line_task(&external);
    let cases = [
        (0, Criterion::Discounted),
        (1, Criterion::Discounted),
        (2, Criterion::Discounted),
        (0, Criterion::AverageReward),
    ];
    for (seed, criterion) in cases {
        let mut line = Line::new(8, seed);
        let settings = PpoConfig { criterion, ..settings(8, 60) };
        let mut ppo = ExternalPpo::new(&task, &[Interval::UNBOUNDED], &[false; 2], settings, seed).unwrap();
        assert!(iterate(&mut ppo, &mut line).is_none(), "the first rollout is a warm-up");
        while ppo.iteration() < ppo.iterations() {
            iterate(&mut ppo, &mut line).unwrap();
        }
        assert!(ppo.units().iter().all(|unit| (10.0..=60.0).contains(unit)), "{:?}", ppo.units());
        // Long-run averages with all weight on one reward, compared with the best of 50.
        let mut policy = ppo.policy();
        let scales = policy.inputs().scales().to_vec();
        let mut evaluator = LibraryEvaluator::new(&scales, false, 8, None, (30, 100), 0, seed);
        let (mut actions, mut rngs) = (BatchMatrix::zeros(1, 8), vec![Rng::new(seed); 8]);
        while !evaluator.is_over() {
            policy.act(&line.observation(), evaluator.weights(), &mut actions, &mut rngs).unwrap();
            let named = line.step(&actions);
            let mut rewards = BatchMatrix::zeros(3, 8);
            (0..2).for_each(|i| rewards.row_mut(i + 1).copy_from_slice(named.row(i)));
            evaluator.observe(&rewards, &[true; 8], &[false; 8]);
        }
        let library = evaluator.library();
        for i in 0..2 {
            let value = library.entries[i].values[i + 1];
            assert!(value > 45.0, "seed {seed}, {criterion:?}, reward {i}: {value}");
        }
    }
}

/// Corridors of 30 places that lead to a reward, with 60 steps for each attempt: who takes each step at random never arrives.
/// Time passes meanwhile, always alike. In those that turn, what leads on in one place leads back in the next.
struct Corridors {
    places: Vec<(u32, u32)>,
    turning: bool,
}

impl Corridors {
    const ENVS: usize = 8;

    fn observation(&self) -> BatchMatrix {
        let mut seen = BatchMatrix::zeros(2, Self::ENVS);
        for (env, (place, _)) in self.places.iter().enumerate() {
            seen.set_column(env, &[f64::from(*place), f64::from(place % 2)]);
        }
        seen
    }

    /// Time and arrival, and which attempts are over.
    fn step(&mut self, actions: &BatchMatrix) -> (BatchMatrix, Vec<bool>, Vec<bool>) {
        let mut rewards = BatchMatrix::zeros(2, Self::ENVS);
        rewards.row_mut(0).fill(-1.0);
        let (mut arrived, mut late) = (vec![false; Self::ENVS], vec![false; Self::ENVS]);
        for (env, (place, age)) in self.places.iter_mut().enumerate() {
            let on = (actions.at(0, env) > 0.5) != (self.turning && *place % 2 == 1);
            *place = if on { *place + 1 } else { place.saturating_sub(1) };
            *age += 1;
            arrived[env] = *place == 30;
            late[env] = !arrived[env] && *age == 60;
            if arrived[env] || late[env] {
                (*place, *age) = (0, 0);
            }
            rewards.set(1, env, f64::from(u8::from(arrived[env])));
        }
        (rewards, arrived, late)
    }

    /// A training in them, and after each iteration the arrivals in it and the unit in which they are counted; if it is
    /// `stored`, it is written down and read again each time.
    fn train(turning: bool, seed: u64, stored: bool) -> (ExternalPpo, Vec<(f64, f64)>) {
        let external = external(2, &["time", "arrived"], Line::CHOICE);
        let objective = Some(Objective::maximize("time"));
        let requirements = vec![Requirement::at_least("arrived", 0.02).unwrap()];
        let task = VecTask::new(&external, Specification::new(objective, requirements).unwrap()).unwrap();
        let mut corridors = Self { places: vec![(0, 0); Self::ENVS], turning };
        let iterations = if turning { 240 } else { 80 };
        let settings = PpoConfig { gamma: 0.98, ..settings(Self::ENVS, iterations) };
        let ranges = [Interval::UNBOUNDED, Interval::new(0.0, 1.0)];
        let mut ppo = ExternalPpo::new(&task, &ranges, &[false; 2], settings, seed).unwrap();
        let (mut actions, always) = (BatchMatrix::zeros(1, Self::ENVS), [true; Self::ENVS]);
        let mut found = Vec::new();
        while ppo.iteration() < ppo.iterations() {
            let mut arrivals = 0.0;
            while !ppo.rollout_is_full() {
                ppo.act(&corridors.observation(), &mut actions);
                let (rewards, arrived, late) = corridors.step(&actions);
                arrivals += rewards.row(1).iter().sum::<f64>();
                let seen = corridors.observation();
                ppo.observe(&StepResult {
                    rewards: &rewards,
                    observation: &seen,
                    final_observation: &seen,
                    terminated: &arrived,
                    truncated: &late,
                    mask: &always,
                });
            }
            ppo.update(&corridors.observation()).unwrap();
            found.push((arrivals, ppo.units()[1]));
            if stored {
                ppo = serde_json::from_str(&serde_json::to_string(&ppo).unwrap()).unwrap();
            }
        }
        (ppo, found)
    }
}

#[test]
fn exploration_finds_rewards_that_random_actions_never_reach() {
    // Where corridors turn actions that are held lead nowhere: it is found because places are sought that are new.
    for (turning, seed) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let (ppo, found) = Corridors::train(turning, seed, false);
        assert_eq!(found[0].0, 0.0, "nothing is held at first, and nothing is found");
        let last = ppo.progress()[1];
        let least = if turning { 0.25 } else { 0.5 };
        assert!(last > least, "seed {seed}, turning {turning}: {last}, arrivals {found:?}");
        // The time that always passes is counted in units of its size, and not as a thousand of them.
        assert_eq!(ppo.units()[0], 1.0);
        // What was never seen is counted in units of 1, and as soon as it is by what an environment has of it in a segment of 64.
        let first = found.iter().position(|(arrivals, _)| *arrivals > 0.0).unwrap();
        assert!(found[..first].iter().all(|(_, unit)| *unit == 1.0));
        assert!(found[first].1 <= 4.0 / 64.0, "{:?}", found[first]);
    }
}

#[test]
fn exploration_state_is_bit_identical_after_a_resume() {
    let [(straight, found), (resumed, again)] =
        [false, true].map(|stored| Corridors::train(false, 0, stored));
    assert_eq!(found, again);
    assert_eq!(serde_json::to_string(&straight).unwrap(), serde_json::to_string(&resumed).unwrap());
}

#[test]
fn std_stays_above_its_lower_bound_until_mid_training() {
    // A number whose square is a cost: noise is all that costs anything soon.
    let external = external(1, &["cost"], ExternalAction { choices: None, low: Some(-1.0), high: Some(1.0) });
    let specification = Specification::new(Some(Objective::minimize("cost")), vec![]).unwrap();
    let task = VecTask::new(&external, specification).unwrap();
    let settings = PpoConfig { update_epochs: 10, ..settings(4, 80) };
    let mut ppo = ExternalPpo::new(&task, &[Interval::new(-1.0, 1.0)], &[false], settings, 1).unwrap();
    let (seen, mut actions, mut rewards) =
        (BatchMatrix::zeros(1, 4), BatchMatrix::zeros(1, 4), BatchMatrix::zeros(1, 4));
    let mut stds = Vec::new();
    while ppo.iteration() < ppo.iterations() {
        let mut costs = Vec::new();
        while !ppo.rollout_is_full() {
            ppo.act(&seen, &mut actions);
            (0..4).for_each(|env| rewards.set(0, env, actions.at(0, env).powi(2)));
            costs.extend_from_slice(rewards.row(0));
            ppo.observe(&StepResult {
                rewards: &rewards,
                observation: &seen,
                final_observation: &seen,
                terminated: &[false; 4],
                truncated: &[false; 4],
                mask: &[true; 4],
            });
        }
        if let Some(figures) = ppo.update(&seen).unwrap() {
            stds.push(*figures.get("train/std").unwrap());
            // The mean cost, in the sign of the user.
            let mean = costs.iter().sum::<f64>() / costs.len() as f64;
            assert!((figures.get("rollout/reward/cost").unwrap() - mean).abs() < 1e-9);
        }
    }
    // Two thirds of .6, less what an iteration takes off it.
    assert!(stds[..40].iter().all(|std| *std > 0.36), "{stds:?}");
    assert!((0.3..0.45).contains(&stds[39]), "{stds:?}");
    assert!(stds[79] < 0.06, "{stds:?}");
}

/// Factor by which the input weights of w are scaled after a warm-up with observations of so many dimensions.
fn weight_input_scale(rows: usize) -> f32 {
    let external = external(rows, &["left", "right"], Line::CHOICE);
    let task = line_task(&external);
    let mut ppo =
        ExternalPpo::new(&task, &vec![Interval::UNBOUNDED; rows], &[false; 2], settings(8, 10), 0).unwrap();
    let of_weights = |ppo: &ExternalPpo| -> f32 {
        let policy = ppo.policy();
        let layer = &policy.actor().parameters()[..32 * (rows + 2)];
        layer.chunks_exact(rows + 2).flat_map(|neuron| &neuron[rows..]).map(|w| w * w).sum::<f32>().sqrt()
    };
    let (before, mut rng) = (of_weights(&ppo), Rng::new(5));
    let (mut actions, mut seen) = (BatchMatrix::zeros(1, 8), BatchMatrix::zeros(rows, 8));
    while !ppo.rollout_is_full() {
        seen.as_mut_slice().iter_mut().for_each(|x| *x = rng.uniform());
        ppo.act(&seen, &mut actions);
        ppo.observe(&StepResult {
            rewards: &BatchMatrix::zeros(2, 8),
            observation: &seen,
            final_observation: &seen,
            terminated: &[false; 8],
            truncated: &[false; 8],
            mask: &[true; 8],
        });
    }
    assert!(ppo.update(&seen).unwrap().is_none());
    of_weights(&ppo) / before
}

#[test]
fn weight_inputs_are_scaled_by_the_observation_variance() {
    // Each number has a variance of a quarter as networks see it.
    assert!((weight_input_scale(2) - 1.0).abs() < 1e-3, "{}", weight_input_scale(2));
    assert!((weight_input_scale(20) - 5.0).abs() < 0.1, "{}", weight_input_scale(20));
    assert!((weight_input_scale(100) - 10.0).abs() < 1e-3, "{}", weight_input_scale(100));
}

#[test]
fn a_resumed_training_is_bit_identical() {
    let external = external(1, &["left", "right"], Line::CHOICE);
    let task = line_task(&external);
    let mut straight =
        ExternalPpo::new(&task, &[Interval::UNBOUNDED], &[false; 2], settings(4, 16), 3).unwrap();
    let mut resumed = straight.clone();
    let (mut line, mut other) = (Line::new(4, 1), Line::new(4, 1));
    // Beyond the re-estimation of reward scales, and the end of the normalisation of observations.
    for _ in 0..12 {
        let text = serde_json::to_string(&resumed).unwrap();
        resumed = serde_json::from_str(&text).unwrap();
        assert_eq!(iterate(&mut straight, &mut line), iterate(&mut resumed, &mut other));
    }
    assert_eq!(serde_json::to_string(&straight).unwrap(), serde_json::to_string(&resumed).unwrap());
    let elsewhere = ExternalPpo::new(&task, &[Interval::UNBOUNDED], &[false; 2], settings(4, 16), 4).unwrap();
    assert_ne!(
        serde_json::to_string(&elsewhere.policy()).unwrap(),
        serde_json::to_string(&straight.policy()).unwrap()
    );
}

/// How far off the critic is in the end, if the reward is always 1, so that its value is 1 wherever one is, and episodes of
/// seven steps end in some way. `end` changes the last transition of an episode.
fn value_loss(end: fn(&mut Transition, env: usize)) -> f64 {
    let num_envs = 4;
    let external = external(1, &["one"], Line::CHOICE);
    let specification = Specification::new(Some(Objective::maximize("one")), vec![]).unwrap();
    let task = VecTask::new(&external, specification).unwrap();
    let range = [Interval::new(-1.0, 1.0)];
    let mut ppo = ExternalPpo::new(&task, &range, &[true], settings(num_envs, 80), 1).unwrap();
    let mut transition = Transition::new(num_envs);
    let (mut clock, mut actions, mut loss) = (0, BatchMatrix::zeros(1, num_envs), f64::INFINITY);
    let mut now = BatchMatrix::zeros(1, num_envs);
    while ppo.iteration() < ppo.iterations() {
        while !ppo.rollout_is_full() {
            ppo.act(&now, &mut actions);
            clock += 1;
            transition = Transition::new(num_envs);
            (0..num_envs).filter(|env| (clock + env) % 7 == 0).for_each(|env| end(&mut transition, env));
            ppo.observe(&StepResult {
                rewards: &transition.rewards,
                observation: &transition.observation,
                final_observation: &transition.last,
                terminated: &transition.terminated,
                truncated: &transition.truncated,
                mask: &transition.valid,
            });
            now = transition.observation.clone();
        }
        if let Some(figures) = ppo.update(&transition.observation).unwrap() {
            loss = *figures.get("train/value_loss").unwrap();
        }
    }
    loss
}

#[derive(Clone)]
struct Transition {
    rewards: BatchMatrix,
    observation: BatchMatrix,
    last: BatchMatrix,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    valid: Vec<bool>,
}

impl Transition {
    fn new(num_envs: usize) -> Self {
        let mut rewards = BatchMatrix::zeros(1, num_envs);
        rewards.row_mut(0).fill(1.0);
        let mut transition = Self {
            rewards,
            observation: BatchMatrix::zeros(1, num_envs),
            last: BatchMatrix::zeros(1, num_envs),
            terminated: vec![false; num_envs],
            truncated: vec![false; num_envs],
            valid: vec![true; num_envs],
        };
        transition.observation.row_mut(0).fill(0.5);
        transition
    }
}

#[test]
fn ends_of_episodes_bootstrap_from_the_next_or_the_final_observation() {
    let truncated = value_loss(|transition, env| {
        transition.truncated[env] = true;
        transition.last.set(0, env, 0.5);
        // Where the next episode begins is none of its concern.
        transition.observation.set(0, env, -0.5);
    });
    assert!(truncated < 1e-4, "{truncated}");
    let terminated = value_loss(|transition, env| {
        transition.terminated[env] = true;
        transition.observation.set(0, env, 0.5);
        // What was seen last is seen nowhere else, and nothing is known of it.
        transition.last.set(0, env, -1.0);
    });
    assert!(terminated < 1e-4, "{terminated}");
    // Beside that, an end that is reported as a step in which all is lost.
    let lost = value_loss(|transition, env| transition.rewards.set(0, env, 0.0));
    assert!(lost > 10.0 * truncated.max(terminated), "{lost}");
}

#[test]
fn masked_steps_do_not_count() {
    // The reward of the step that resets is ignored.
    let resets = value_loss(|transition, env| {
        transition.valid[env] = false;
        transition.rewards.set(0, env, 1e6);
    });
    assert!(resets < 1e-4, "{resets}");
}
