//! Whether the diagnosis is right, on cases whose truth is known by construction or was verified in another way:
//! infeasible by 2, 5 or 15 % of the rewards' ranges, an epoch fixed too short, a policy that was trained too little, and
//! nothing the matter; finite and planar. The slow test is for `make check-slow`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::collections::BTreeMap;

use acrl::mixture::game_value;
use acrl::{
    Agent, BatchMatrix, DiagnosisInput, DiagnosisVerdict, EpochLength, Error, Execution, FiniteCmdp,
    FinitePolicy, Multipliers, Objective, PolicyLibrary, Requirement, Rewards, Rng, RunReport, Silent,
    Simulator, Specification, VecPolicy, VecTask, execute,
};
use acrl_envs::{PlanarParameters, RandomPlanar, Region};
use acrl_exact::{ExactPolicy, FiniteTask, SolveOptions, exact_evidence, most_slack};
use acrl_learn::{QLearning, QLearningConfig, QLearningPolicy, evaluate_library};
use common::{Trained, Way, execute as execute_planar, shortfall};

/// What is the matter, in truth.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// max_π min_i (V_i − c_i)/R_i is this much below zero.
    Infeasible(f64),
    TooShort,
    UnderTrained,
    Fine,
}

const KINDS: [Kind; 6] = [
    Kind::Infeasible(0.02),
    Kind::Infeasible(0.05),
    Kind::Infeasible(0.15),
    Kind::TooShort,
    Kind::UnderTrained,
    Kind::Fine,
];

impl Kind {
    fn verdict(self) -> DiagnosisVerdict {
        match self {
            Self::Infeasible(_) => DiagnosisVerdict::Infeasible,
            Self::TooShort => DiagnosisVerdict::EpochTooShort,
            Self::UnderTrained => DiagnosisVerdict::PolicyInsufficient,
            Self::Fine => DiagnosisVerdict::Met,
        }
    }
}

/// The cases so far: how many there were of each kind, and how many were judged rightly.
#[derive(Default)]
struct Score(BTreeMap<String, (usize, usize)>);

impl Score {
    fn note(&mut self, world: &str, kind: Kind, case: &str, report: &RunReport) {
        let (verdict, e) = (report.diagnosis.verdict, &report.diagnosis.evidence);
        let right = verdict == kind.verdict();
        println!(
            "{world} {kind:?}, {case}: {verdict:?}, {} (certificate {:.2}, deficit rate {:.2}, multiplier ratio {:?}, slack: exact {:?}, seen \
             {:?}, values {:?})",
            if right { "right" } else { "WRONG" },
            e.certified_shortfall_ratio,
            e.deficit_rate,
            e.multiplier_ratio,
            e.exact_slack,
            e.observed_slack,
            e.library_slack
        );
        let entry = self.0.entry(format!("{world} {kind:?}")).or_default();
        entry.0 += 1;
        entry.1 += usize::from(right);
    }

    /// All cases, and those that were judged rightly.
    fn total(&self) -> (usize, usize) {
        self.0.iter().for_each(|(kind, (n, right))| println!("{kind}: {right} of {n}"));
        self.0.values().fold((0, 0), |sum, entry| (sum.0 + entry.0, sum.1 + entry.1))
    }
}

/// Steps of a run, how many runs there are, and the tolerated shortfall in units of ranges: the defaults.
const STEPS: u64 = 200_000;
const RUNS: usize = 3;
const TOLERANCE: f64 = 0.005;
/// A shortfall that goes away falls like 1/n. One that is still there after a run so many times as long, and not much
/// smaller, does not go away.
const LONGER: u64 = 10;
const LONGER_PLANAR: u64 = 5;
const STAYS: f64 = 0.5;
/// By how much no mixture of simulated averages may reach the bounds before a policy counts as under-trained.
const CLEARLY: f64 = 0.01;
/// How often a case is drawn before giving up.
const ATTEMPTS: usize = 1_000;

fn stays(before: f64, after: f64) -> bool {
    before > TOLERANCE && after > TOLERANCE && after > STAYS * before
}

// ---- finite ----

/// Any two of some sites are connected by ways of a few steps; each site has a reward of its own. An agent may turn round
/// on its way, and slips.
fn sites(rng: &mut Rng) -> FiniteCmdp {
    let count = 2 + rng.index(3);
    let mut b = FiniteCmdp::builder((0..=count).map(|i| format!("r{i}")));
    let slip = if rng.uniform() < 0.5 { 0.0 } else { 0.2 * rng.uniform() };
    let lengths: Vec<usize> = (0..count).map(|_| 1 + rng.index(8)).collect();
    let n: usize = lengths.iter().sum::<usize>() + count;
    (0..n).for_each(|s| _ = b.state(s.to_string()));
    let mut s = 0;
    for (site, length) in lengths.into_iter().enumerate() {
        for on_the_way in 0..=length {
            let mut rewards = vec![0.0; count + 1];
            // The objective is to be on the ways of the first site.
            rewards[0] = f64::from(site == 0 && on_the_way > 0);
            if on_the_way == 0 {
                rewards[site + 1] = 1.0;
            }
            let (back, on) = ((s + n - 1) % n, (s + 1) % n);
            for (name, to) in [("stay", s), ("back", back), ("on", on)] {
                let to: Vec<(usize, f64)> = match slip {
                    0.0 => vec![(to, 1.0)],
                    slip if to == s => vec![(s, 1.0 - slip), (on, slip)],
                    slip => vec![(to, 1.0 - slip), (s, slip)],
                };
                b.choice(s, name, &to, &rewards);
            }
            s += 1;
        }
    }
    b.build().unwrap()
}

/// Few states, transitions and rewards at random; the first action of each state may lead to the next one.
fn mixed(rng: &mut Rng) -> FiniteCmdp {
    let n = 3 + rng.index(6);
    let mut b = FiniteCmdp::builder(["r0", "r1", "r2", "r3"]);
    (0..n).for_each(|s| _ = b.state(s.to_string()));
    for s in 0..n {
        for a in 0..2 + rng.index(2) {
            let next = (s + 1) % n;
            let (t, p) = (rng.index(n), 0.1 + 0.8 * rng.uniform());
            let to = match a {
                0 if t == next => vec![(next, 1.0)],
                0 => vec![(next, p), (t, 1.0 - p)],
                _ => vec![(t, 1.0)],
            };
            let rewards = [(); 4].map(|()| rng.uniform());
            b.choice(s, a.to_string(), &to, &rewards);
        }
    }
    b.build().unwrap()
}

/// Requirements on all rewards but r0, which is the objective or nothing, with a given largest slack.
fn specification(model: &FiniteCmdp, slack: f64, rng: &mut Rng) -> Specification {
    let objective = (rng.uniform() < 0.5).then(|| Objective::maximize("r0"));
    let names = &model.reward_names()[1..];
    let mut requirements: Vec<Requirement> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let (low, high) = model.reward_range(i + 1);
        let bound = low + (high - low) * rng.uniform();
        requirements.push(if rng.uniform() < 0.8 {
            Requirement::at_least(name, bound).unwrap()
        } else {
            Requirement::at_most(name, bound).unwrap()
        });
    }
    let first = Specification::new(objective.clone(), requirements.clone()).unwrap();
    let task = FiniteTask::new(model, &first).unwrap();
    let has = most_slack(&task, &SolveOptions::default()).unwrap().unwrap().lower;
    for (r, scale) in requirements.iter_mut().zip(task.scales()) {
        let bound = r.bound() + r.sign() * (has - slack) * scale;
        *r = Requirement::new(r.reward(), r.direction(), bound).unwrap();
    }
    Specification::new(objective, requirements).unwrap()
}

/// A run of a policy on a finite task with the default gain.
fn execute_finite<P: FinitePolicy + Clone>(
    task: &FiniteTask<'_>,
    policy: &P,
    epoch: EpochLength,
    steps: u64,
) -> Vec<Execution<usize>> {
    let run = |run: usize| {
        let mut environment = Simulator::new(task.model(), task.specification().clone()).unwrap();
        let requirements = task.specification().requirements().to_vec();
        let agent = Agent::builder(requirements).step_size(STEP_SIZE).epoch(epoch);
        let mut agent = agent.scales(task.objective_scale(), task.scales()).build().unwrap();
        let mut rng = Rng::stream(1, run as u64);
        execute(&mut environment, &mut policy.clone(), &mut agent, steps, &mut rng, &mut Silent).unwrap()
    };
    (0..RUNS).map(run).collect()
}

/// The default step size and epoch to start from.
const STEP_SIZE: f64 = 0.5;
const EPOCH: u64 = 10;

fn tolerances(scales: &[f64]) -> Vec<f64> {
    scales.iter().map(|scale| TOLERANCE * scale).collect()
}

/// The report, with the exact model as exact evidence, and what a learnt policy settles at.
fn judge_finite(
    task: &FiniteTask<'_>,
    runs: &[Execution<usize>],
    epoch: EpochLength,
    values: &[Vec<f64>],
) -> RunReport {
    let longest = runs.iter().map(|run| run.epoch).max().unwrap();
    let (exact, multiplier_limit) =
        exact_evidence(task, STEP_SIZE * longest as f64 / epoch.start() as f64).unwrap();
    let input = DiagnosisInput {
        scales: task.scales().to_vec(),
        tolerances: tolerances(task.scales()),
        exact: Some(exact),
        multiplier_limit,
        library: values,
        ..DiagnosisInput::default()
    };
    RunReport::new(task.specification(), runs, input).unwrap()
}

/// What a learnt policy averages at many multipliers, each held for long from where the last one was left: measured, not
/// computed.
fn simulate(task: &FiniteTask<'_>, policy: &mut QLearningPolicy, rng: &mut Rng) -> Vec<Vec<f64>> {
    const WEIGHTS: usize = 200;
    const SETTLING: usize = 1_000;
    const MEASURED: usize = 20_000;
    let environment = Simulator::new(task.model(), task.specification().clone()).unwrap();
    let mut state = environment.reset(rng);
    let mut rewards = Rewards::zeros(task.len());
    let mut averages = Vec::new();
    for _ in 0..WEIGHTS {
        // Of all sizes, and some of them 0.
        let size = task.objective_scale() * 10f64.powf(4.0 - 6.0 * rng.uniform());
        let mut drawn = |scale: &f64| match rng.uniform() {
            u if u < 0.3 => 0.0,
            _ => -(1.0 - rng.uniform()).ln() * size / scale,
        };
        let multipliers = Multipliers::new(task.scales().iter().map(&mut drawn).collect()).unwrap();
        let mut sums = vec![0.0; task.len()];
        for step in 0..SETTLING + MEASURED {
            let action = policy.act(state, &multipliers, rng);
            state = environment.step(state, action, &mut rewards, rng).unwrap();
            if step >= SETTLING {
                sums.iter_mut().zip(&rewards.as_slice()[1..]).for_each(|(sum, r)| *sum += r);
            }
        }
        averages.push(sums.iter().map(|sum| sum / MEASURED as f64).collect());
    }
    averages
}

/// One finite case, drawn until it is in truth what it is to be.
fn finite(kind: Kind, seed: u64, score: &mut Score) {
    let mut rng = Rng::stream(seed, 77);
    for attempt in 0..ATTEMPTS {
        let model = if rng.uniform() < 0.5 { sites(&mut rng) } else { mixed(&mut rng) };
        let slack = match kind {
            Kind::Infeasible(by) => -by,
            _ => 0.03 + 0.07 * rng.uniform(),
        };
        let specification = specification(&model, slack, &mut rng);
        let task = FiniteTask::new(&model, &specification).unwrap();
        assert!(task.structure().is_communicating(), "seed {seed}");
        let auto = EpochLength::Auto(EPOCH);
        let exact = ExactPolicy::new(&task);
        let mut case = format!("seed {seed}.{attempt}, {} states, slack {slack:.3}", model.states());
        let report = match kind {
            Kind::Fine => judge_finite(&task, &execute_finite(&task, &exact, auto, STEPS), auto, &[]),
            Kind::Infeasible(_) => {
                let epoch = if rng.uniform() < 0.5 { auto } else { EpochLength::Fixed(EPOCH) };
                case += &format!(", {epoch:?}");
                judge_finite(&task, &execute_finite(&task, &exact, epoch, STEPS), epoch, &[])
            }
            Kind::TooShort => {
                let length = [1, 2, 4, 10, 20][rng.index(5)];
                let epoch = EpochLength::Fixed(length);
                let runs = execute_finite(&task, &exact, epoch, STEPS);
                let of = |runs: &[Execution<usize>]| shortfall(runs, task.scales());
                if of(&runs) <= TOLERANCE {
                    continue;
                }
                let after = of(&execute_finite(&task, &exact, epoch, LONGER * STEPS));
                let longer = EpochLength::Auto(length);
                let lengthened = of(&execute_finite(&task, &exact, longer, LONGER * STEPS));
                if !stays(of(&runs), after) || lengthened > TOLERANCE {
                    continue;
                }
                case += &format!(", epoch {length}");
                judge_finite(&task, &runs, epoch, &[])
            }
            Kind::UnderTrained => {
                let steps = 10 + rng.index(100) as u64;
                let learner =
                    QLearning::new(QLearningConfig { total_steps: steps, ..QLearningConfig::default() })
                        .unwrap();
                let environment = Simulator::new(&model, specification.clone()).unwrap();
                let mut policy = learner.train(&environment, &mut rng, &mut Silent).unwrap();
                let simulated = simulate(&task, &mut policy, &mut rng);
                let game = game_value(&simulated, task.bounds(), task.scales()).unwrap();
                let runs = execute_finite(&task, &policy, auto, STEPS);
                let before = shortfall(&runs, task.scales());
                if game.value > -CLEARLY || before <= TOLERANCE {
                    continue;
                }
                let after = shortfall(&execute_finite(&task, &policy, auto, LONGER * STEPS), task.scales());
                if !stays(before, after) {
                    continue;
                }
                let of = |run: &&Execution<usize>| shortfall(std::slice::from_ref(*run), task.scales());
                let worst = runs.iter().max_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
                let values = policy.settled_from(&task, worst.last.state).unwrap();
                case += &format!(", {steps} transitions, simulated {:.3}", game.value);
                judge_finite(&task, &runs, auto, &values)
            }
        };
        return score.note("finite", kind, &case, &report);
    }
    panic!("no case of {kind:?} for seed {seed}");
}

// ---- planar ----

/// A planar problem and a policy for it.
struct Planar {
    problem: RandomPlanar,
    decisions: u64,
    trained: Trained,
}

impl Planar {
    fn new(seed: u64, decisions: u64) -> Self {
        let problem = RandomPlanar::new(seed).unwrap();
        let task = VecTask::new(problem.planar(), problem.draw(0).unwrap()).unwrap();
        let trained = Trained::new(&task, decisions, seed);
        Self { problem, decisions, trained }
    }

    fn task(&self, specification: Specification) -> VecTask<'_> {
        VecTask::new(self.problem.planar(), specification).unwrap()
    }

    /// One case, drawn until it is in truth what it is to be; false if there is none with this policy.
    fn case(&self, kind: Kind, seed: u64, attempts: u64, score: &mut Score) -> bool {
        let mut rng = Rng::stream(seed, 78);
        for attempt in 0..attempts {
            let draw = 100 * seed + attempt + 1;
            let mut case = format!("seed {draw}, {} decisions", self.decisions);
            let feasible = self.problem.draw(draw).unwrap();
            let advised = Way::advised(self.trained.advice);
            let (task, runs) = match kind {
                Kind::Infeasible(by) => {
                    let task = self.task(infeasible(&feasible, by));
                    let way = if rng.uniform() < 0.5 { advised } else { Way::fixed(0.1, 10) };
                    let runs = self.trained.execute(&task, way, STEPS, RUNS);
                    case += &format!(", {:?}", way.epoch);
                    (task, runs)
                }
                Kind::Fine => {
                    let task = self.task(feasible);
                    let runs = self.trained.execute(&task, advised, STEPS, RUNS);
                    (task, runs)
                }
                Kind::TooShort => {
                    let task = self.task(feasible);
                    let length = [1, 2, 5, 10][rng.index(4)];
                    let gain = 0.6 * 10f64.powf(-3.0 * rng.uniform());
                    let way = Way::fixed(gain * length as f64, length);
                    let of = |runs: &[Execution<Vec<f64>>]| shortfall(runs, &task.scales()[1..]);
                    let runs = self.trained.execute(&task, way, STEPS, RUNS);
                    if of(&runs) <= TOLERANCE {
                        continue;
                    }
                    // A longer epoch alone does it: with the same gain, and without the library.
                    let meets = |longer: u64| {
                        let way = Way::fixed(gain * longer as f64, longer);
                        of(&self.trained.execute(&task, way, LONGER_PLANAR * STEPS, RUNS)) <= TOLERANCE
                    };
                    let after = of(&self.trained.execute(&task, way, LONGER_PLANAR * STEPS, RUNS));
                    if !stays(of(&runs), after) || ![200, 1_000, 5_000].into_iter().any(meets) {
                        continue;
                    }
                    case += &format!(", epoch {length}, gain {gain:.4}");
                    (task, runs)
                }
                Kind::UnderTrained => {
                    let task = self.task(feasible);
                    let simulated = self.simulate(&task, &mut rng);
                    let bounds = task.specification().bounds();
                    let game = game_value(&simulated, &bounds, &task.scales()[1..]).unwrap();
                    let runs = self.trained.execute(&task, advised, STEPS, RUNS);
                    let before = shortfall(&runs, &task.scales()[1..]);
                    if game.value > -CLEARLY || before <= TOLERANCE {
                        continue;
                    }
                    case += &format!(", simulated {:.3}", game.value);
                    (task, runs)
                }
            };
            let report =
                judge_planar(&task, &runs, self.trained.reward_sample.vectors(), &self.trained.library);
            score.note("planar", kind, &case, &report);
            return true;
        }
        false
    }

    /// What the policy averages at many weights, each held for long, from states drawn by the environment.
    fn simulate(&self, task: &VecTask<'_>, rng: &mut Rng) -> Vec<Vec<f64>> {
        const WEIGHTS: usize = 400;
        const SETTLING: usize = 2_000;
        const MEASURED: usize = 2_000;
        let (environment, m) = (task.environment(), task.scales().len() - 1);
        let mut policy = self.trained.policy.clone();
        let rows = |n: usize| BatchMatrix::zeros(n, WEIGHTS);
        let mut state = rows(environment.state_dimension());
        let mut observation = rows(environment.observation_space().len());
        let mut actions = rows(environment.action_space().len());
        let (mut named, mut rewards) = (rows(environment.reward_names().len()), rows(m + 1));
        let (mut weights, mut sums) = (rows(m + 1), vec![vec![0.0; m]; WEIGHTS]);
        let mut rngs: Vec<Rng> = (0..WEIGHTS).map(|_| Rng::new(rng.bits())).collect();
        for env in 0..WEIGHTS {
            environment.reset(&mut state, env, &mut rngs[env]).unwrap();
            // Powers of exponential numbers: from nearly even to nearly all on one.
            let power = 0.2 + 4.0 * rng.uniform();
            for (i, scale) in task.scales().iter().enumerate() {
                let counts = i > 0 || task.has_objective();
                let drawn = (-(1.0 - rng.uniform()).ln()).powf(power);
                weights.set(i, env, if counts { drawn / scale } else { 0.0 });
            }
        }
        let hold = policy.action_repeat().max(1);
        for step in 0..SETTLING + MEASURED {
            if step % hold == 0 {
                environment.observe(&state, &mut observation);
                policy.act(&observation, &weights, &mut actions, &mut rngs).unwrap();
            }
            environment.step(&mut state, &actions, &mut named, &mut rngs).unwrap();
            task.score(&named, &mut rewards).unwrap();
            for (env, sums) in sums.iter_mut().enumerate().filter(|_| step >= SETTLING) {
                (0..m).for_each(|i| sums[i] += rewards.at(i + 1, env) / MEASURED as f64);
            }
        }
        sums
    }
}

/// The report, with the rewards seen and the values averages as evidence.
fn judge_planar(
    task: &VecTask<'_>,
    runs: &[Execution<Vec<f64>>],
    seen: &[Vec<f64>],
    library: &PolicyLibrary,
) -> RunReport {
    let values = library.values();
    let scales = task.scales()[1..].to_vec();
    let input = DiagnosisInput {
        tolerances: tolerances(&scales),
        scales,
        observed: seen,
        library: &values,
        ..DiagnosisInput::default()
    };
    RunReport::new(task.specification(), runs, input).unwrap()
}

/// Goes straight to the middle of the region with the largest weight.
struct Straight {
    middles: Vec<[f64; 2]>,
}

impl VecPolicy for Straight {
    fn act(
        &mut self,
        at: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        _: &mut [Rng],
    ) -> Result<(), Error> {
        for env in 0..weights.num_envs() {
            let of_region = |i: &usize| weights.at(i + 1, env);
            let to = (0..self.middles.len()).max_by(|a, b| of_region(a).total_cmp(&of_region(b))).unwrap();
            // As far as it is, in one step; the environment knows the speed limit.
            let velocity = [0, 1].map(|k| (self.middles[to][k] - at.at(k, env)) / 0.05);
            actions.set_column(env, &velocity);
        }
        Ok(())
    }
}

/// An epoch that is too short for a policy that is perfect at every λ: as soon as it has left one region for another, the
/// first is what matters most, and it turns round. A longer epoch does.
fn straight(gain: f64, score: &mut Score) {
    let parameters = PlanarParameters { speed_limit: Some(2.0), ..PlanarParameters::default() };
    let planar = acrl_envs::Planar::new(parameters).unwrap();
    let task = VecTask::new(&planar, planar.specification().unwrap()).unwrap();
    let middle = |region: &Region| region.shape.bounds().map(|[low, high]| 0.5 * (low + high));
    let mut policy = Straight { middles: planar.parameters().regions.iter().map(middle).collect() };
    let library = evaluate_library(&task, &mut policy, 0).unwrap();
    let mut runs = |length: u64, steps: u64| {
        execute_planar(&task, &mut policy, &library, Way::fixed(gain * length as f64, length), steps, RUNS)
    };
    let of = |runs: &[Execution<Vec<f64>>]| shortfall(runs, &task.scales()[1..]);
    let short = runs(1, STEPS);
    assert!(stays(of(&short), of(&runs(1, LONGER_PLANAR * STEPS))), "an epoch of one step is enough");
    assert!(of(&runs(1_000, LONGER_PLANAR * STEPS)) <= TOLERANCE, "a longer epoch does not do either");
    let seen: Vec<Vec<f64>> = (0..4).map(|i| (0..4).map(|k| f64::from(i == k)).collect()).collect();
    let report = judge_planar(&task, &short, &seen, &library);
    score.note("planar", Kind::TooShort, &format!("straight, epoch 1, gain {gain:.4}"), &report);
}

/// The bounds, all multiplied by what makes max_p min_i (p_i − c_i) = −x. The regions are disjoint, so no policy spends
/// shares of its time in them that add up to more than 1.
fn infeasible(specification: &Specification, by: f64) -> Specification {
    let bounds = specification.bounds();
    let m = bounds.len();
    let regions: Vec<Vec<f64>> = (0..m).map(|i| (0..m).map(|k| f64::from(i == k)).collect()).collect();
    let value = |factor: f64| {
        let scaled: Vec<f64> = bounds.iter().map(|c| c * factor).collect();
        game_value(&regions, &scaled, &vec![1.0; m]).unwrap().value
    };
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *(if value(middle) > -by { &mut low } else { &mut high }) = middle;
    }
    let scaled = specification.requirements().iter().zip(&bounds);
    let scaled = scaled.map(|(r, c)| Requirement::at_least(r.reward(), c * high).unwrap());
    Specification::new(specification.objective().cloned(), scaled.collect()).unwrap()
}

#[test]
fn diagnosis_is_right_on_twelve_cases() {
    let mut score = Score::default();
    for (seed, kind) in KINDS.into_iter().enumerate() {
        finite(kind, seed as u64, &mut score);
    }
    let trained = Planar::new(104, 1_000_000);
    let untrained = Planar::new(104, 100_000);
    for kind in KINDS {
        let planar = if kind == Kind::UnderTrained { &untrained } else { &trained };
        match kind {
            Kind::TooShort => straight(0.01, &mut score),
            _ => assert!(planar.case(kind, 0, 20, &mut score), "no case of {kind:?}"),
        }
    }
    let (all, right) = score.total();
    assert_eq!((all, right), (12, 12));
}

#[test]
#[ignore = "minutes; make check-slow"]
fn diagnosis_is_right_on_a_hundred_cases() {
    let mut score = Score::default();
    for seed in 0..50 {
        finite(KINDS[seed % KINDS.len()], 1_000 + seed as u64, &mut score);
    }
    let decisions = 4_000_000;
    let trained: Vec<Planar> = (400..406).map(|seed| Planar::new(seed, decisions)).collect();
    let mut weak = (410..).map(|seed: u64| Planar::new(seed, 20_000 << (seed % 5)));
    let mut last = weak.next().unwrap();
    for seed in 0..50 {
        let kind = KINDS[seed % KINDS.len()];
        let round = seed / KINDS.len();
        let mut case = |planar: &Planar| planar.case(kind, seed as u64, 4, &mut score);
        match kind {
            // What cannot be done cannot be done by any policy.
            Kind::Infeasible(_) if round % 2 == 1 => _ = case(&last),
            Kind::UnderTrained => {
                while !case(&last) {
                    last = weak.next().unwrap();
                }
                last = weak.next().unwrap();
            }
            _ => {
                let found = (round..round + trained.len()).any(|i| case(&trained[i % trained.len()]));
                match kind {
                    Kind::TooShort if !found => straight(0.002 * (1.0 + round as f64), &mut score),
                    _ => assert!(found, "{kind:?}"),
                }
            }
        }
    }
    let (all, right) = score.total();
    assert!(all == 100 && right >= 95, "{right} of {all} are right");
}
