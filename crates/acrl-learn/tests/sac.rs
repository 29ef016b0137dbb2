//! The off-policy learner: it learns for every weighting, with either criterion, resumes bit-identically, and treats the ends
//! of episodes as its criterion says.
#![allow(missing_docs, clippy::unwrap_used)]

use acrl::{
    ActionPart, BatchMatrix, Executor, Interval, Named, Objective, PolicyLibrary, Requirement, Rewards, Rng,
    Specification, VecPolicy as _, VecTask,
};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_files::checkpoint;
use acrl_learn::ppo::StepResult;
use acrl_learn::{
    Criterion, ExecutionDefaults, ExternalEvaluation, PolicyFile, RewardSample, Sac, SacConfig,
    TrainedPolicy, TrainingRecord,
};

const CHOICE: ExternalAction = ExternalAction { choices: Some(2), low: None, high: None };
const NUMBER: ExternalAction = ExternalAction { choices: None, low: Some(0.0), high: Some(4.0) };

fn external(rewards: &[&str], action: Vec<ExternalAction>) -> External {
    let reward = |name: &&str| ExternalReward { name: (*name).to_owned(), low: 0.0, high: 1.0 };
    let reward = rewards.iter().map(reward).collect();
    External::new(ExternalParameters { observation: vec![[-1.0, 1.0]], action, reward, spaces: None })
        .unwrap()
}

fn config(total_steps: u64) -> SacConfig {
    SacConfig {
        total_steps,
        learning_starts: 500,
        hidden_sizes: vec![32, 32],
        batch_size: 64,
        ..SacConfig::default()
    }
}

/// What the parallel environments of a test do in a step.
trait World {
    fn observation(&self) -> BatchMatrix;
    /// Rewards, and environments whose episode terminated and was truncated.
    fn step(&mut self, actions: &BatchMatrix) -> (BatchMatrix, bool, bool);
}

/// One step of the training, with an update where one is due.
fn step(sac: &mut Sac, world: &mut dyn World) -> Option<Named<f64>> {
    let num_envs = sac.settings().num_envs;
    let observation = world.observation();
    let mut actions = BatchMatrix::zeros(sac.policy().parts().len(), num_envs);
    sac.act(&observation, &mut actions);
    let (rewards, terminated, truncated) = world.step(&actions);
    let next = world.observation();
    sac.observe(&StepResult {
        rewards: &rewards,
        observation: &next,
        final_observation: &next,
        terminated: &vec![terminated; num_envs],
        truncated: &vec![truncated; num_envs],
        mask: &vec![true; num_envs],
    });
    if sac.update_is_due() { sac.update().unwrap() } else { None }
}

fn train(sac: &mut Sac, world: &mut dyn World) {
    while sac.iteration() < sac.iterations() {
        step(sac, world);
    }
}

/// Mean rewards of the policy with multipliers in units of the rewards.
fn averages(sac: &Sac, world: &mut dyn World, multipliers: &[f64], steps: usize) -> Vec<f64> {
    let num_envs = sac.settings().num_envs;
    let (mut policy, terms, units) = (sac.policy(), sac.terms(), sac.units());
    let unit = |i: usize| terms[i].map_or(1.0, |(row, _)| units[row]);
    let objective = f64::from(u8::from(terms[0].is_some()));
    let mut weights = BatchMatrix::zeros(terms.len(), num_envs);
    weights.row_mut(0).fill(objective / unit(0));
    for (i, lambda) in multipliers.iter().enumerate() {
        weights.row_mut(i + 1).fill(lambda / unit(i + 1));
    }
    let mut actions = BatchMatrix::zeros(policy.parts().len(), num_envs);
    let mut sums = vec![0.0; units.len()];
    for _ in 0..steps {
        policy.act(&world.observation(), &weights, &mut actions, &mut vec![Rng::new(0); num_envs]).unwrap();
        let (rewards, ..) = world.step(&actions);
        sums.iter_mut().enumerate().for_each(|(i, sum)| *sum += rewards.row(i).iter().sum::<f64>());
    }
    sums.iter().map(|sum| sum / (steps * num_envs) as f64).collect()
}

/// A force along a random direction x ∈ \[−1, 1\]: it gains x u, and costs u², with u = a − 2 for actions in \[0, 4\].
struct Force {
    directions: Vec<f64>,
    rng: Rng,
}

impl Force {
    fn new(num_envs: usize, seed: u64) -> Self {
        let mut new = Self { directions: vec![0.0; num_envs], rng: Rng::new(seed) };
        new.turn();
        new
    }

    fn turn(&mut self) {
        self.directions.iter_mut().for_each(|x| *x = 2.0 * self.rng.uniform() - 1.0);
    }

    fn task(external: &External) -> VecTask<'_> {
        let energy = Requirement::at_most("energy", 0.1).unwrap();
        let specification = Specification::new(Some(Objective::maximize("gain")), vec![energy]).unwrap();
        VecTask::new(external, specification).unwrap()
    }
}

impl World for Force {
    fn observation(&self) -> BatchMatrix {
        let mut seen = BatchMatrix::zeros(1, self.directions.len());
        seen.row_mut(0).iter_mut().zip(&self.directions).for_each(|(out, x)| *out = 70.0 + 3.0 * x);
        seen
    }

    fn step(&mut self, actions: &BatchMatrix) -> (BatchMatrix, bool, bool) {
        let mut rewards = BatchMatrix::zeros(2, self.directions.len());
        for (env, x) in self.directions.iter().enumerate() {
            let force = 0.5 * (actions.at(0, env) - 2.0);
            rewards.set_column(env, &[x * force, force * force]);
        }
        self.turn();
        (rewards, false, false)
    }
}

fn force_training(criterion: Criterion, num_envs: usize, total_steps: u64, seed: u64) -> Sac {
    let external = external(&["gain", "energy"], vec![NUMBER]);
    let settings = SacConfig { criterion, num_envs, ..config(total_steps) };
    Sac::new(&Force::task(&external), &[Interval::UNBOUNDED], &[true; 2], settings, seed).unwrap()
}

#[test]
fn one_actor_is_near_the_optimum_for_every_multiplier() {
    for (criterion, num_envs, seed) in [(Criterion::Discounted, 1, 1), (Criterion::AverageReward, 4, 2)] {
        let mut sac = force_training(criterion, num_envs, 6_000, seed);
        train(&mut sac, &mut Force::new(num_envs, seed));
        for lambda in [0.0, 0.5, 1.0, 2.0] {
            let found = averages(&sac, &mut Force::new(num_envs, 9), &[lambda], 2_000);
            let value = found[0] - lambda * found[1];
            // u = x/2λ, clipped at 1.
            let best = if lambda == 0.0 { 0.5 } else { 1.0 / (12.0 * lambda) };
            assert!(value > best - 0.04, "{criterion:?}, λ = {lambda}: {value} instead of {best}");
        }
    }
}

#[test]
fn a_resumed_training_is_bit_identical_and_depends_on_its_seed() {
    let mut other = force_training(Criterion::Discounted, 2, 3_000, 4);
    for criterion in [Criterion::Discounted, Criterion::AverageReward] {
        let mut straight = force_training(criterion, 2, 3_000, 3);
        let mut world = Force::new(2, 3);
        for t in 0..600 {
            assert_eq!(straight.steps(), 2 * t);
            step(&mut straight, &mut world);
        }
        let bytes = checkpoint::encode("sac", &straight).unwrap();
        let mut resumed: Sac = checkpoint::decode(&bytes, "sac").unwrap();
        let mut again = Force { directions: world.directions.clone(), rng: world.rng.clone() };
        for _ in 600..1_500 {
            assert_eq!(step(&mut straight, &mut world), step(&mut resumed, &mut again));
        }
        assert_eq!((straight.iteration(), straight.iterations(), straight.steps()), (3, 3, 3_000));
        let text = |sac: &Sac| serde_json::to_string(&sac.policy()).unwrap();
        assert_eq!(
            checkpoint::encode("sac", &straight).unwrap(),
            checkpoint::encode("sac", &resumed).unwrap()
        );
        if criterion == Criterion::Discounted {
            train(&mut other, &mut Force::new(2, 3));
            assert_ne!(text(&straight), text(&other));
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_is_an_error_and_its_step_is_not_made() {
    let mut sac = force_training(Criterion::Discounted, 1, 3_000, 1);
    let mut world = Force::new(1, 1);
    (0..600).for_each(|_| _ = step(&mut sac, &mut world));
    let (observation, mut actions) = (world.observation(), BatchMatrix::zeros(1, 1));
    let mut rewards = BatchMatrix::zeros(2, 1);
    rewards.set(0, 0, 1e300);
    let errors = (0..200).filter_map(|_| {
        sac.act(&observation, &mut actions);
        sac.observe(&StepResult {
            rewards: &rewards,
            observation: &observation,
            final_observation: &observation,
            terminated: &[false],
            truncated: &[false],
            mask: &[true],
        });
        sac.update().err()
    });
    let error = errors.last().unwrap().to_string();
    assert!(error.contains("the critic's loss") && error.contains("iteration 1"), "{error}");
    assert!(averages(&sac, &mut Force::new(1, 9), &[1.0], 10).iter().all(|mean| mean.is_finite()));
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let trained = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut sac = force_training(Criterion::Discounted, 1, 1_500, 3);
            let mut world = Force::new(1, 3);
            let metrics: Vec<_> = (0..1_500).map(|_| step(&mut sac, &mut world)).collect();
            (metrics, checkpoint::encode("sac", &sac).unwrap())
        })
    };
    assert!(trained(1) == trained(2));
}

#[test]
fn an_execution_shares_time_and_a_looser_bound_gives_no_less() {
    let mut sac = force_training(Criterion::Discounted, 1, 6_000, 1);
    let mut world = Force::new(1, 1);
    train(&mut sac, &mut world);
    let mut evaluation = ExternalEvaluation::new(&sac, 5);
    let mut actions = BatchMatrix::zeros(1, 1);
    while !evaluation.is_over() {
        evaluation.act(&world.observation(), &mut actions).unwrap();
        let (rewards, ..) = world.step(&actions);
        evaluation.observe(&rewards, &[true], &[false]);
    }
    assert_eq!(evaluation.steps(), 600, "a tenth of the training");
    let external = external(&["gain", "energy"], vec![NUMBER]);
    let task = Force::task(&external);
    let defaults = evaluation.execution_defaults(&task);
    assert_eq!(defaults.executor, Executor::TimeSharing);
    let file = PolicyFile {
        policy: evaluation.policy().clone(),
        library: evaluation.library(),
        ..policy_file(&sac, &task, defaults)
    };
    let mut gains = Vec::new();
    for bound in [0.05, 0.1, 0.2] {
        let energy = Requirement::at_most("energy", bound).unwrap();
        let specification = Specification::new(Some(Objective::maximize("gain")), vec![energy]).unwrap();
        let task = VecTask::new(&external, specification).unwrap();
        let mut agent = file.agent_builder(&task).unwrap().build().unwrap();
        let (mut policy, mut world) = (file.policy.clone(), Force::new(1, 8));
        let mut weights = BatchMatrix::zeros(2, 1);
        for _ in 0..20_000 {
            weights.set_column(0, agent.weights());
            policy.act(&world.observation(), &weights, &mut actions, &mut [Rng::new(0)]).unwrap();
            let (rewards, ..) = world.step(&actions);
            agent.observe(&Rewards::new(vec![rewards.at(0, 0), -rewards.at(1, 0)]).unwrap()).unwrap();
        }
        let averages = agent.averages();
        // u = x/2λ gains √(12 c)/6 with an energy of c.
        let best = (12.0 * bound).sqrt() / 6.0;
        assert!(-averages[1] < 1.02 * bound && averages[0] > 0.9 * best, "{bound}: {averages:?}, not {best}");
        gains.push(averages[0]);
    }
    assert!(gains.is_sorted(), "{gains:?}");
}

/// Points on a line that move left or right by choice, and are rewarded at its ends.
struct Line {
    positions: Vec<f64>,
    twice: bool,
}

impl Line {
    fn new(num_envs: usize, twice: bool) -> Self {
        Self { positions: (0..num_envs).map(|env| (3 * env % 11) as f64).collect(), twice }
    }

    fn task(external: &External) -> VecTask<'_> {
        let requirement = |name: &str| Requirement::at_least(name, 15.0).unwrap();
        let requirements = vec![requirement("left"), requirement("right")];
        VecTask::new(external, Specification::new(None, requirements).unwrap()).unwrap()
    }
}

impl World for Line {
    fn observation(&self) -> BatchMatrix {
        let mut seen = BatchMatrix::zeros(1, self.positions.len());
        seen.row_mut(0).iter_mut().zip(&self.positions).for_each(|(out, x)| *out = 1000.0 + x);
        seen
    }

    fn step(&mut self, actions: &BatchMatrix) -> (BatchMatrix, bool, bool) {
        let mut rewards = BatchMatrix::zeros(2, self.positions.len());
        for (env, x) in self.positions.iter_mut().enumerate() {
            rewards.set(0, env, if *x <= 1.0 { 50.0 } else { 0.0 });
            rewards.set(1, env, if *x >= 9.0 { 50.0 } else { 0.0 });
            // With two parts, the second one says whether the first is meant the other way round.
            let right = (actions.at(0, env) > 0.5) != (self.twice && actions.at(1, env) > 0.5);
            *x = (*x + if right { 1.0 } else { -1.0 }).clamp(0.0, 10.0);
        }
        (rewards, false, false)
    }
}

#[test]
fn discrete_parts_are_learnt_jointly_for_every_weighting() {
    for (criterion, twice) in [(Criterion::Discounted, true), (Criterion::AverageReward, false)] {
        let external = external(&["left", "right"], vec![CHOICE; 1 + usize::from(twice)]);
        let settings = SacConfig { criterion, num_envs: 2, ..config(8_000) };
        let task = Line::task(&external);
        let mut sac = Sac::new(&task, &[Interval::UNBOUNDED], &[false; 2], settings, 1).unwrap();
        let mut line = Line::new(2, twice);
        train(&mut sac, &mut line);
        assert!(sac.units().iter().all(|unit| (10.0..=51.0).contains(unit)), "{:?}", sac.units());
        for (multipliers, row) in [([1.0, 0.0], 0), ([0.0, 1.0], 1)] {
            let found = averages(&sac, &mut Line::new(2, twice), &multipliers, 200);
            assert!(found[row] > 45.0, "{criterion:?}, {multipliers:?}: {found:?}");
        }
        // The library of its long-run averages.
        let mut evaluation = ExternalEvaluation::new(&sac, 5);
        assert!(matches!(evaluation.policy(), TrainedPolicy::Sac(_)));
        let mut actions = BatchMatrix::zeros(sac.policy().parts().len(), 2);
        while !evaluation.is_over() {
            evaluation.act(&line.observation(), &mut actions).unwrap();
            let (rewards, ..) = line.step(&actions);
            evaluation.observe(&rewards, &[true; 2], &[false; 2]);
        }
        assert!(evaluation.library().entries[0].values[1] > 45.0, "{:?}", evaluation.library());
    }
}

/// Episodes of a single state in which 1 ends the episode with a reward of 1, and 0 goes on with one of ½.
struct Leave {
    truncates: bool,
}

impl World for Leave {
    fn observation(&self) -> BatchMatrix {
        BatchMatrix::zeros(1, 1)
    }

    fn step(&mut self, actions: &BatchMatrix) -> (BatchMatrix, bool, bool) {
        let leaves = actions.at(0, 0) > 0.5;
        let mut rewards = BatchMatrix::zeros(1, 1);
        rewards.set(0, 0, if leaves { 1.0 } else { 0.5 });
        (rewards, leaves && !self.truncates, leaves && self.truncates)
    }
}

#[test]
fn a_termination_forfeits_the_rest_only_if_the_return_is_discounted() {
    let external = external(&["reward"], vec![CHOICE]);
    let specification = Specification::new(Some(Objective::maximize("reward")), vec![]).unwrap();
    let task = VecTask::new(&external, specification).unwrap();
    for (criterion, truncates, leaves) in [
        (Criterion::Discounted, false, false),
        (Criterion::Discounted, true, true),
        (Criterion::AverageReward, false, true),
    ] {
        let settings = SacConfig { criterion, gamma: 0.9, ..config(3_000) };
        let mut sac = Sac::new(&task, &[Interval::UNBOUNDED], &[true], settings, 1).unwrap();
        train(&mut sac, &mut Leave { truncates });
        let found = averages(&sac, &mut Leave { truncates }, &[], 10)[0];
        let expected = if leaves { 1.0 } else { 0.5 };
        assert_eq!(found, expected, "{criterion:?}, truncates: {truncates}");
    }
}

#[test]
fn actions_of_both_kinds_are_refused() {
    let external = external(&["gain", "energy"], vec![CHOICE, NUMBER]);
    let new = Sac::new(&Force::task(&external), &[Interval::UNBOUNDED], &[false; 2], config(1_000), 1);
    let error = new.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("discrete and continuous") && error.contains("'ppo'"), "{error}");
}

#[test]
fn settings_out_of_their_range_are_refused() {
    let external = external(&["gain", "energy"], vec![NUMBER]);
    for (settings, name) in [
        (SacConfig { tau: 0.0, ..config(1_000) }, "tau"),
        (SacConfig { gradient_steps: Some(0), ..config(1_000) }, "gradient_steps"),
        (
            SacConfig { weight_sampler: acrl_learn::WeightSampler::Box { high: 1.0 }, ..config(9) },
            "weight_sampler",
        ),
    ] {
        let new = Sac::new(&Force::task(&external), &[Interval::UNBOUNDED], &[false; 2], settings, 1);
        let error = new.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

fn policy_file(sac: &Sac, task: &VecTask<'_>, execution_defaults: ExecutionDefaults) -> PolicyFile {
    PolicyFile {
        problem: String::new(),
        specification: task.specification().clone(),
        policy: TrainedPolicy::Sac(Box::new(sac.policy())),
        library: PolicyLibrary::default(),
        coverage: sac.coverage().clone(),
        reward_sample: RewardSample::default(),
        execution_defaults,
        training: TrainingRecord {
            learner: "sac".to_owned(),
            method: "a_crl".to_owned(),
            steps: 0,
            seed: 1,
            complete: true,
            version: String::new(),
        },
    }
}

#[test]
fn policies_survive_a_policy_file_and_contradictions_are_refused() {
    for action in [vec![NUMBER; 2], vec![CHOICE; 2]] {
        let external = external(&["gain", "energy"], action);
        let task = Force::task(&external);
        let sac = Sac::new(&task, &[Interval::UNBOUNDED], &[false; 2], config(1_000), 1).unwrap();
        let file = policy_file(&sac, &task, ExecutionDefaults::uncalibrated(&task));
        let container = file.to_container().unwrap();
        let mut read = PolicyFile::from_container(container.clone()).unwrap().policy;
        let (mut policy, mut observation) = (sac.policy(), BatchMatrix::zeros(1, 3));
        observation.row_mut(0).copy_from_slice(&[-1.0, 0.2, 3.0]);
        let mut weights = BatchMatrix::zeros(2, 3);
        weights.as_mut_slice().copy_from_slice(&[1.0, 1.0, 1.0, 0.0, 2.0, 30.0]);
        let (mut a, mut b) = (BatchMatrix::zeros(2, 3), BatchMatrix::zeros(2, 3));
        policy.act(&observation, &weights, &mut a, &mut []).unwrap();
        read.act(&observation, &weights, &mut b, &mut []).unwrap();
        assert_eq!(a, b);
        assert_eq!(read.numbers(), file.policy.numbers());
        assert_eq!(read.inputs(), Some(policy.inputs()));
        // Each part is checked when it is read.
        let discrete = matches!(policy.parts()[0], ActionPart::Discrete(_));
        let mut wrong = container.clone();
        wrong.meta["policy"]["actions"][0] = serde_json::json!({ "discrete": if discrete { 3 } else { 2 } });
        assert!(PolicyFile::from_container(wrong).is_err());
        let mut wrong = container;
        wrong.meta["policy"]["inputs"]["scales"] = serde_json::json!([1.0, -1.0]);
        assert!(PolicyFile::from_container(wrong).is_err());
    }
}
