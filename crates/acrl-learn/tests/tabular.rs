//! The tabular learner, its policy file and its execution, in environments that the test steps.

#![allow(clippy::unwrap_used)]

use acrl::{
    Agent, BatchMatrix, Interval, Objective, Requirement, Rewards, Rng, Specification, VecPolicy as _,
    VecTask,
};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_learn::ppo::StepResult;
use acrl_learn::tabular::{
    Counts, TabularExecution, TabularExecutionOptions, TabularState, estimate, solve_estimate,
};
use acrl_learn::{LearnError, PolicyFile, Tabular, TabularConfig, TabularPolicy, TrainedPolicy};

/// What a step of a test environment gives.
struct Step {
    next: usize,
    rewards: [f64; 2],
    terminated: bool,
    truncated: bool,
}

/// Test environment: its states are observed as numbers.
trait World {
    fn parts(&self) -> Vec<usize>;
    fn start(&self, rng: &mut Rng) -> usize;
    fn step(&self, state: usize, action: &[f64], age: u64, rng: &mut Rng) -> Step;
    fn observation(&self, state: usize) -> Vec<f64> {
        vec![state as f64]
    }
}

fn description(parts: &[usize], width: usize) -> ExternalParameters {
    let action = |n: &usize| ExternalAction { choices: Some(*n), low: None, high: None };
    let reward = |name: &str| ExternalReward { name: name.to_owned(), low: 0.0, high: 1.0 };
    ExternalParameters {
        observation: vec![[0.0, 1.0]; width],
        action: parts.iter().map(action).collect(),
        reward: vec![reward("gain"), reward("service")],
        spaces: None,
    }
}

fn specification(bound: f64) -> Specification {
    let requirement = Requirement::at_least("service", bound).unwrap();
    Specification::new(Some(Objective::maximize("gain")), vec![requirement]).unwrap()
}

fn learner(world: &dyn World, config: TabularConfig, seed: u64) -> Tabular {
    let width = world.observation(0).len();
    let environment = External::new(description(&world.parts(), width)).unwrap();
    let task = VecTask::new(&environment, specification(0.3)).unwrap();
    Tabular::new(&task, &vec![Interval::UNBOUNDED; width], &[false; 2], config, seed).unwrap()
}

/// The environments of a training.
#[derive(Clone)]
struct Envs {
    states: Vec<usize>,
    ages: Vec<u64>,
    rngs: Vec<Rng>,
}

impl Envs {
    fn new(world: &dyn World, num_envs: usize, seed: u64) -> Self {
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, 90 + env)).collect();
        let states = rngs.iter_mut().map(|rng| world.start(rng)).collect();
        Self { states, ages: vec![0; num_envs], rngs }
    }

    fn observation(&self, world: &dyn World) -> BatchMatrix {
        columns(&self.states.iter().map(|s| world.observation(*s)).collect::<Vec<_>>())
    }

    /// Steps until an update, which gives the metrics.
    fn iterate(&mut self, world: &dyn World, training: &mut Tabular) -> Result<acrl::Named<f64>, LearnError> {
        let num_envs = self.states.len();
        let mut actions = BatchMatrix::zeros(world.parts().len(), num_envs);
        while !training.update_is_due() {
            training.act(&self.observation(world), &mut actions);
            let (mut rewards, mut last) = (Vec::new(), Vec::new());
            let (mut terminated, mut truncated) = (vec![false; num_envs], vec![false; num_envs]);
            for env in 0..num_envs {
                let (rng, action) = (&mut self.rngs[env], actions.column(env).collect::<Vec<_>>());
                let step = world.step(self.states[env], &action, self.ages[env], rng);
                (terminated[env], truncated[env]) = (step.terminated, step.truncated);
                last.push(world.observation(step.next));
                rewards.push(step.rewards.to_vec());
                let ended = step.terminated || step.truncated;
                self.states[env] = if ended { world.start(rng) } else { step.next };
                self.ages[env] = if ended { 0 } else { self.ages[env] + 1 };
            }
            training.observe(&StepResult {
                rewards: &columns(&rewards),
                observation: &self.observation(world),
                final_observation: &columns(&last),
                terminated: &terminated,
                truncated: &truncated,
                mask: &vec![true; num_envs],
            });
        }
        Ok(training.update(&self.observation(world))?.unwrap())
    }
}

fn columns(columns: &[Vec<f64>]) -> BatchMatrix {
    let mut matrix = BatchMatrix::zeros(columns[0].len(), columns.len());
    columns.iter().enumerate().for_each(|(env, column)| matrix.set_column(env, column));
    matrix
}

fn trained(world: &dyn World, total_steps: u64, num_envs: usize, seed: u64) -> Tabular {
    let config = TabularConfig { total_steps, num_envs, ..TabularConfig::default() };
    let mut training = learner(world, config, seed);
    let mut envs = Envs::new(world, num_envs, seed);
    while training.iteration() < training.iterations() {
        envs.iterate(world, &mut training).unwrap();
    }
    training
}

fn file(world: &dyn World, training: &Tabular) -> PolicyFile {
    let width = world.observation(0).len();
    training.policy_file(&description(&world.parts(), width), 3, true).unwrap()
}

fn table(file: &PolicyFile) -> &TabularPolicy {
    match &file.policy {
        TrainedPolicy::Tabular(policy) => policy,
        _ => panic!("no table"),
    }
}

/// A chain of states that one of two actions climbs, while the other falls back to the start: random actions reach the end
/// once in 2²⁵ steps.
struct Chain;

impl World for Chain {
    fn parts(&self) -> Vec<usize> {
        vec![2]
    }

    fn start(&self, _: &mut Rng) -> usize {
        0
    }

    fn step(&self, state: usize, action: &[f64], _: u64, _: &mut Rng) -> Step {
        // Which action climbs depends on the state.
        let next = if action[0] as usize == state % 2 { (state + 1).min(25) } else { 0 };
        Step { next, rewards: [f64::from(u8::from(state == 25)), 0.5], terminated: false, truncated: false }
    }
}

#[test]
fn exploration_covers_a_chain_that_random_walks_do_not() {
    for num_envs in [1, 8] {
        let training = trained(&Chain, 10_000, num_envs, 1);
        assert_eq!(training.suitability().states, 26);
        assert_eq!(training.suitability().pairs, 52, "every action of every state");
        let policy = training.policy().unwrap();
        assert!((policy.solution().answer.values()[0] - 1.0).abs() < 1e-6, "to stay at the end");
    }
}

/// Two actions that end the episode, after which each of 40 states is as likely; in half of them there is a gain.
struct Lottery;

impl World for Lottery {
    fn parts(&self) -> Vec<usize> {
        vec![2]
    }

    fn start(&self, rng: &mut Rng) -> usize {
        rng.index(40)
    }

    fn step(&self, state: usize, action: &[f64], _: u64, _: &mut Rng) -> Step {
        let gain = f64::from(u8::from(state < 20));
        Step { next: state, rewards: [gain, action[0]], terminated: true, truncated: false }
    }
}

#[test]
fn all_ends_share_one_distribution_of_first_states() {
    let training = trained(&Lottery, 1_600, 4, 2);
    let policy = training.policy().unwrap();
    let model = policy.model().unwrap();
    assert_eq!(model.states(), 40);
    let first: Vec<(u32, f64)> = {
        let choice = model.choice(0);
        choice.targets.iter().copied().zip(choice.probabilities.iter().copied()).collect()
    };
    assert_eq!(first.len(), 40, "a pair that was tried 20 times leads to every first state");
    for choice in 0..model.choice_count() {
        let choice = model.choice(choice);
        let same = choice.targets.iter().copied().zip(choice.probabilities.iter().copied());
        assert!(same.zip(&first).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12));
    }
    assert!((policy.solution().answer.values()[0] - 0.5).abs() < 0.05);
}

/// A corridor that is cut off after 5 steps; the third state pays, but later states are better.
struct Corridor;

impl World for Corridor {
    fn parts(&self) -> Vec<usize> {
        vec![2]
    }

    fn start(&self, _: &mut Rng) -> usize {
        0
    }

    fn step(&self, state: usize, action: &[f64], age: u64, _: &mut Rng) -> Step {
        let next = if action[0] == 1.0 { (state + 1).min(5) } else { state };
        Step { next, rewards: [state as f64 / 5.0, 0.5], terminated: false, truncated: age == 4 }
    }
}

#[test]
fn truncation_is_a_transition_to_the_final_observation() {
    let policy = trained(&Corridor, 2_000, 4, 3).policy().unwrap();
    let model = policy.model().unwrap();
    // State 5 is seen only as a final observation; from every other state an action leads on and none back to the start,
    // except in the last of five phases, each of which is a step.
    let state = |s: usize| policy.table().find(&[s as f64]).unwrap();
    assert_eq!((policy.counts().time_limit().mean(), model.states()), (Some(5.0), 6 * 5));
    for (s, phase) in (0..5).flat_map(|s| (0..5).map(move |phase| (s, phase))) {
        for choice in model.choices(5 * state(s) + phase) {
            let next = [5 * state(s) + phase + 1, 5 * state(s + 1) + phase + 1];
            let expected = if phase == 4 { [5 * state(0); 2] } else { next };
            let targets = model.choice(choice).targets;
            assert!(targets.iter().all(|t| expected.contains(&(*t as usize))), "{s} {phase}: {targets:?}");
        }
    }
}

/// A state for each pair of digits, which the two parts of the action set; only one pair pays.
struct Lock;

impl World for Lock {
    fn parts(&self) -> Vec<usize> {
        vec![3, 4]
    }

    fn start(&self, _: &mut Rng) -> usize {
        0
    }

    fn step(&self, state: usize, action: &[f64], _: u64, _: &mut Rng) -> Step {
        let next = action[0] as usize + 3 * action[1] as usize;
        let rewards = [f64::from(u8::from(state == 2 + 3 * 3)), f64::from(u8::from(state == 1))];
        Step { next, rewards, terminated: false, truncated: false }
    }

    fn observation(&self, state: usize) -> Vec<f64> {
        vec![(state % 3) as f64, (state / 3) as f64]
    }
}

#[test]
fn actions_of_several_parts_are_enumerated() {
    let training = trained(&Lock, 4_000, 4, 4);
    assert_eq!((training.suitability().states, training.suitability().pairs), (12, 144));
    let mut policy = file(&Lock, &training).policy;
    let mut act = |weights: [f64; 2]| {
        let mut actions = BatchMatrix::zeros(2, 1);
        let (seen, weights) = (columns(&[vec![0.0, 0.0]]), columns(&[weights.to_vec()]));
        policy.act(&seen, &weights, &mut actions, &mut [Rng::new(0)]).unwrap();
        actions.as_slice().to_vec()
    };
    assert_eq!(act([1.0, 0.1]), [2.0, 3.0], "the gain");
    assert_eq!(act([1.0, 9.0]), [1.0, 0.0], "the service");
}

#[test]
fn unseen_observation_is_treated_as_the_nearest_one() {
    let mut policy = file(&Lock, &trained(&Lock, 4_000, 4, 4)).policy;
    let mut actions = BatchMatrix::zeros(2, 1);
    let seen = columns(&[vec![1.9, 3.2]]);
    policy.act(&seen, &columns(&[vec![1.0, 0.1]]), &mut actions, &mut [Rng::new(0)]).unwrap();
    assert_eq!(actions.as_slice(), [2.0, 3.0]);
}

#[test]
fn resumed_training_is_bit_identical() {
    for world in [&Lottery as &dyn World, &Lock] {
        let config = TabularConfig { total_steps: 3_000, num_envs: 3, ..TabularConfig::default() };
        let (mut straight, mut resumed) = (learner(world, config.clone(), 5), learner(world, config, 5));
        let (mut envs, mut again) = (Envs::new(world, 3, 5), Envs::new(world, 3, 5));
        while straight.iteration() < straight.iterations() {
            let metrics = envs.iterate(world, &mut straight).unwrap();
            let text = serde_json::to_string(&resumed).unwrap();
            resumed = serde_json::from_str(&text).unwrap();
            assert_eq!(again.iterate(world, &mut resumed).unwrap(), metrics);
        }
        assert_eq!(serde_json::to_string(&straight).unwrap(), serde_json::to_string(&resumed).unwrap());
    }
}

#[test]
fn continuous_actions_and_too_many_states_are_refused() {
    let mut parameters = description(&[2], 1);
    parameters.action = vec![ExternalAction { choices: None, low: Some(-1.0), high: Some(1.0) }];
    let environment = External::new(parameters).unwrap();
    let task = VecTask::new(&environment, specification(0.3)).unwrap();
    let new = |config| Tabular::new(&task, &[Interval::UNBOUNDED], &[false; 2], config, 0);
    let error = new(TabularConfig::default()).unwrap_err().to_string();
    assert!(error.contains("continuous part in [-1, 1]"), "{error}");
    let config =
        TabularConfig { max_states: 10, num_envs: 2, total_steps: 2_000, ..TabularConfig::default() };
    let mut training = learner(&Lottery, config, 0);
    let mut envs = Envs::new(&Lottery, 2, 0);
    let error = loop {
        if let Err(error) = envs.iterate(&Lottery, &mut training) {
            break error;
        }
    };
    assert!(matches!(error, LearnError::TooManyStates { states: 10, .. }), "{error}");
    assert!(training.suitability().too_many_states);
}

#[test]
fn policy_file_round_trips_and_damage_is_noticed() {
    let training = trained(&Lock, 4_000, 4, 6);
    let file = file(&Lock, &training);
    let bytes = file.to_container().unwrap().to_bytes().unwrap();
    let container = || acrl_files::Container::from_bytes(&bytes).unwrap();
    let back = PolicyFile::from_container(container()).unwrap();
    assert_eq!(back.to_container().unwrap().to_bytes().unwrap(), bytes);
    assert_eq!(table(&back).counts(), training.counts());
    assert_eq!(back.library, file.library);
    assert_eq!(table(&back).solution(), table(&file).solution());
    let wrong = |change: &dyn Fn(&mut acrl_files::Container)| {
        let mut container = container();
        change(&mut container);
        PolicyFile::from_container(container).unwrap_err().to_string()
    };
    let put = |name: &'static str, tensor: acrl_files::Tensor| {
        move |c: &mut acrl_files::Container| _ = c.tensors.insert(name.to_owned(), tensor.clone())
    };
    let pairs = vec![0.5; 144];
    assert!(wrong(&put("counts.visits", acrl_files::Tensor::f64([144], pairs))).contains("a count is 0.5"));
    assert!(
        wrong(&put("counts.ends", acrl_files::Tensor::f64([144], vec![1.0; 144]))).contains("contradict")
    );
    assert!(wrong(&put("more", acrl_files::Tensor::f64([1], vec![1.0]))).contains("more"));
    assert!(wrong(&|c| _ = c.tensors.remove("observations.values")).contains("is missing"));
    assert!(wrong(&|c| c.meta["policy"]["table"]["actions"] = serde_json::json!([3, 5])).contains("shape"));
    assert!(wrong(&|c| c.meta["policy"]["table"]["surprise"] = 1.into()).contains("metadata"));
    let half = &bytes[..bytes.len() / 2];
    assert!(acrl_files::Container::from_bytes(half).is_err());
}

/// Two states; action 1 goes to the service state, which pays with a probability.
struct Service(f64);

impl World for Service {
    fn parts(&self) -> Vec<usize> {
        vec![2]
    }

    fn start(&self, _: &mut Rng) -> usize {
        0
    }

    fn step(&self, state: usize, action: &[f64], _: u64, rng: &mut Rng) -> Step {
        let served = state == 1 && rng.uniform() < self.0;
        let rewards = [f64::from(u8::from(state == 0)), f64::from(u8::from(served))];
        Step { next: action[0] as usize, rewards, terminated: false, truncated: false }
    }
}

/// Executes a policy in a world, and gives the averages of both rewards, the execution and its agent.
fn execute(
    world: &dyn World,
    policy: &TabularPolicy,
    bound: f64,
    steps: u64,
    horizon: Option<u64>,
) -> (Vec<f64>, TabularExecution, Agent) {
    let options = TabularExecutionOptions { steps: horizon, tolerance: 0.005, ..Default::default() };
    let mut execution = TabularExecution::new(policy, specification(bound), options).unwrap();
    let mut agent = execution.agent_builder().unwrap().build().unwrap();
    execution.begin_epoch(&agent);
    let (mut rng, mut noise) = (Rng::new(1), Rng::new(2));
    let mut state = world.start(&mut noise);
    for age in 0..steps {
        let action = execution.act(&world.observation(state), &agent, &mut rng);
        let step = world.step(state, &action, age, &mut noise);
        let updated = agent.observe(&Rewards::new(step.rewards.to_vec()).unwrap()).unwrap().is_some();
        execution.observe(&step.rewards.map(Some), false, updated, &mut agent).unwrap();
        state = step.next;
    }
    (agent.averages(), execution, agent)
}

#[test]
fn estimation_in_execution_removes_the_error_of_the_model() {
    // In training every visit pays, in execution six of ten: a constant error of the model.
    let policy = trained(&Service(1.0), 1_000, 4, 7).policy().unwrap();
    for horizon in [None, Some(60_000)] {
        let (averages, execution, agent) = execute(&Service(0.6), &policy, 0.3, 60_000, horizon);
        assert!(averages[1] > 0.3 - 0.002, "{horizon:?}: {averages:?}");
        assert!((averages[0] - 0.5).abs() < 0.01, "{averages:?}");
        // The ledger is open since the first step, over all solved models.
        let certificate = agent.certificate();
        assert_eq!(certificate.steps, 60_000);
        let shortfall = 0.3 - averages[1];
        assert!(certificate.requirements[0].certified_shortfall >= shortfall - 1e-12);
        let pairs = [0, 1].map(|action| execution.counts().visits(1, action));
        assert!(pairs.iter().sum::<u64>() > 25_000, "counts go on: {pairs:?}");
    }
}

#[test]
fn bounds_that_the_estimate_cannot_meet_are_relaxed() {
    let policy = trained(&Service(0.6), 4_000, 4, 8).policy().unwrap();
    let (averages, execution, _) = execute(&Service(0.6), &policy, 0.9, 5_000, None);
    assert!(execution.solution().relaxed > 0.2, "{}", execution.solution().relaxed);
    assert!(averages[1] > 0.57, "as much as there is: {averages:?}");
}

#[test]
fn execution_resumes_bit_identically() {
    let world = Service(0.6);
    let policy = trained(&world, 1_000, 4, 9).policy().unwrap();
    let options = TabularExecutionOptions { tolerance: 0.005, ..Default::default() };
    let mut execution = TabularExecution::new(&policy, specification(0.2), options).unwrap();
    let mut agent = execution.agent_builder().unwrap().build().unwrap();
    execution.begin_epoch(&agent);
    let (mut rng, mut noise, mut state) = (Rng::new(1), Rng::new(2), 0);
    let mut other = (execution.clone(), agent.clone(), rng.clone());
    for age in 0..6_000 {
        let seen = world.observation(state);
        let action = execution.act(&seen, &agent, &mut rng);
        assert_eq!(other.0.act(&seen, &other.1, &mut other.2), action, "step {age}");
        let ended = age % 50 == 49;
        let step = world.step(state, &action, 0, &mut noise);
        for (execution, agent) in [(&mut execution, &mut agent), (&mut other.0, &mut other.1)] {
            let updated = agent.observe(&Rewards::new(step.rewards.to_vec()).unwrap()).unwrap().is_some();
            execution.observe(&step.rewards.map(Some), ended, updated, agent).unwrap();
        }
        state = if ended { 0 } else { step.next };
        if age % 500 == 250 {
            let text = serde_json::to_string(other.0.state()).unwrap();
            let saved: TabularState = serde_json::from_str(&text).unwrap();
            other.0 = TabularExecution::resume(&policy, saved).unwrap();
        }
    }
    assert_eq!(other.0.state(), execution.state());
    assert_eq!(other.1, agent);
    let lock = trained(&Lock, 1_000, 4, 9).policy().unwrap();
    assert!(TabularExecution::resume(&lock, execution.state().clone()).is_err(), "another policy");
}

#[test]
fn new_states_in_execution_are_explored_and_learnt() {
    /// Service, but action 1 leads by way of a state that training has not seen.
    struct Detour;
    impl World for Detour {
        fn parts(&self) -> Vec<usize> {
            vec![2]
        }
        fn start(&self, _: &mut Rng) -> usize {
            0
        }
        fn step(&self, state: usize, action: &[f64], _: u64, rng: &mut Rng) -> Step {
            let step = Service(0.6).step(state.min(1), action, 0, rng);
            // Of the new state only action 1 leads out.
            let next = match state {
                0 if action[0] == 1.0 => 2,
                2 => {
                    if action[0] == 1.0 {
                        1
                    } else {
                        2
                    }
                }
                _ => step.next,
            };
            Step {
                next,
                rewards: [f64::from(u8::from(state == 0)), if state == 2 { 0.0 } else { step.rewards[1] }],
                ..step
            }
        }
    }
    let policy = trained(&Service(0.6), 1_000, 4, 10).policy().unwrap();
    let (averages, execution, _) = execute(&Detour, &policy, 0.2, 40_000, Some(40_000));
    assert_eq!(execution.counts().states(), 3);
    assert!(averages[1] > 0.198, "{averages:?}");
}

/// A corridor whose end pays once, until a coin is picked up at its beginning, which is not observed: the model takes that
/// for chance.
struct Hidden;

impl World for Hidden {
    fn parts(&self) -> Vec<usize> {
        vec![2]
    }

    fn start(&self, _: &mut Rng) -> usize {
        0
    }

    // Four places, and whether a coin is carried.
    fn step(&self, state: usize, action: &[f64], _: u64, rng: &mut Rng) -> Step {
        let (place, coin) = (state % 4, state / 4 == 1);
        let to = if action[0] == 1.0 { (place + 1).min(3) } else { place.saturating_sub(1) };
        let paid = place == 3 && coin;
        let coin = (coin && !paid) || to == 0;
        let rewards = [f64::from(u8::from(paid)), f64::from(u8::from(rng.uniform() < 0.5))];
        Step { next: to + 4 * usize::from(coin), rewards, terminated: false, truncated: false }
    }

    fn observation(&self, state: usize) -> Vec<f64> {
        vec![(state % 4) as f64]
    }
}

#[test]
fn hidden_states_show_in_the_models_claims() {
    let z = |world: &dyn World| {
        let found = trained(world, 40_000, 4, 11).suitability();
        found.disagreement.unwrap() / found.disagreement_error.unwrap()
    };
    assert!(z(&Hidden) < -3.0, "{}", z(&Hidden));
    for world in [&Service(0.6) as &dyn World, &Lottery, &Lock] {
        assert!(z(world).abs() < 3.0, "{}", z(world));
    }
}

/// A first state that leads to one in which every step is rewarded, until the episode is cut off.
fn cut_off_after(limit: u64, episodes: u64) -> Counts {
    let mut counts = Counts::new(1, 1);
    for _ in 0..episodes {
        counts.start(0);
        counts.transition(0, 0, &[0.0], Some(1));
        (1..limit).for_each(|_| counts.transition(1, 0, &[1.0], Some(1)));
        counts.truncated(limit);
    }
    counts
}

#[test]
fn time_limit_is_part_of_the_model() {
    let specification = Specification::new(Some(Objective::maximize("r")), vec![]).unwrap();
    // With more phases than steps each step is one, and the limit is exact; else the mean is.
    for (limit, expected) in [(10, 0.9), (200, 0.995)] {
        let counts = cut_off_after(limit, 3);
        let model = estimate(&counts, &["r".to_owned()]).unwrap();
        let objective = solve_estimate(&model, &specification).unwrap().answer.values()[0];
        assert!((objective - expected).abs() < 1e-3, "{objective} {expected}");
    }
    let unlimited = Counts::new(1, 1);
    assert_eq!(unlimited.time_limit().mean(), None);
}
