//! The promise with default settings: a policy trained on a problem for which nothing was tuned meets its requirements,
//! and then other ones. The slow test is for `make check-slow`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::ops::ControlFlow;

use acrl::{Requirement, Specification, VecEnv, VecTask};
use acrl_envs::{Drone, Planar, PlanarParameters, RandomPlanar, Shape, Wireless};
use acrl_exact::{FiniteTask, Solution, SolveOptions, solve};
use common::{Trained, Way, shortfall};

const STEPS: u64 = 200_000;
const RUNS: usize = 10;
/// Actions of a training by default.
const DECISIONS: u64 = 4_000_000;

/// The largest certified shortfall in units of ranges, and the mean objective, as `acrl run` executes by default.
fn execute(trained: &Trained, task: &VecTask<'_>, ignoring: bool) -> (f64, f64) {
    let way = Way { ignoring, ..Way::advised(trained.advice) };
    let runs = trained.execute(task, way, STEPS, RUNS);
    let objective = runs.iter().map(|run| run.averages.objective()).sum::<f64>() / RUNS as f64;
    (shortfall(&runs, &task.scales()[1..]), objective)
}

/// Trains for the first specification, runs for each; whether all was met, and the objective worth its weight.
fn keeps(name: &str, environment: &dyn VecEnv, wanted: &[Specification], decisions: u64) -> bool {
    let task = VecTask::new(environment, wanted[0].clone()).unwrap();
    let trained = Trained::new(&task, decisions, 1);
    println!("{name}: {:?}", trained.advice);
    let mut kept = true;
    for (draw, specification) in wanted.iter().enumerate() {
        let task = VecTask::new(environment, specification.clone()).unwrap();
        let (shortfall, objective) = execute(&trained, &task, false);
        let worthwhile = !task.has_objective() || {
            let ignoring = execute(&trained, &task, true).1;
            println!("{name}, draw {draw}: objective {objective:.4}, when ignored {ignoring:.4}");
            objective > ignoring
        };
        println!("{name}, draw {draw}: shortfall {shortfall:.4}");
        kept &= shortfall <= 0.005 && worthwhile;
    }
    kept
}

fn planar(seed: u64, decisions: u64) -> bool {
    let problem = RandomPlanar::new(seed).unwrap();
    let wanted = [problem.draw(0).unwrap(), problem.draw(1).unwrap()];
    keeps(&format!("planar {seed}"), problem.planar(), &wanted, decisions)
}

/// The same with other bounds.
fn rebound(specification: &Specification, bounds: &[Requirement]) -> Specification {
    bounds.iter().fold(specification.clone(), |s, bound| s.require(bound.clone()).unwrap())
}

fn wireless(decisions: u64) -> bool {
    let environment = Wireless::new(Default::default()).unwrap();
    let first = environment.specification().unwrap();
    let other = ["rate_near>=0.3", "rate_middle>=0.5", "rate_far>=0.25", "power<=0.9"];
    let other = rebound(&first, &other.map(|text| text.parse().unwrap()));
    keeps("wireless", &environment, &[first, other], decisions)
}

fn drone(decisions: u64) -> bool {
    let environment = Drone::new(Default::default()).unwrap();
    let first = environment.specification().unwrap();
    let bounds = first.requirements().iter().zip([0.3, 0.15, 0.25]);
    let bounds: Vec<Requirement> =
        bounds.map(|(r, c)| Requirement::at_least(r.reward(), c).unwrap()).collect();
    let other = rebound(&first, &bounds);
    keeps("drone", &environment, &[first, other], decisions)
}

/// Home as much as four regions allow: the average objective over that of the exact solution of the problem cut into
/// cells; and the largest shortfall.
fn near_optimal(decisions: u64, cells: usize) -> (f64, f64) {
    let home = Shape::Disc { centre: [5.0, 5.0], radius: 1.0 };
    let parameters =
        PlanarParameters { speed_limit: Some(2.0), home: Some(home), ..PlanarParameters::default() };
    let planar = Planar::new(parameters).unwrap();
    let specification = planar.specification().unwrap();
    let model = planar.discretised(cells).unwrap();
    let finite = FiniteTask::new(&model, &specification).unwrap();
    let answer = solve(&finite, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    let Solution::Optimal(optimum) = answer else { panic!("{cells}: {answer:?}") };
    let task = VecTask::new(&planar, specification).unwrap();
    let trained = Trained::new(&task, decisions, 1);
    let (shortfall, objective) = execute(&trained, &task, false);
    println!("home: {objective:.4} of {:.4}, shortfall {shortfall:.4}, {:?}", optimum.upper, trained.advice);
    (objective / optimum.upper, shortfall)
}

#[test]
fn objective_is_near_optimal_with_a_quarter_of_the_steps() {
    let (share, shortfall) = near_optimal(1_000_000, 20);
    assert!(share > 0.92 && shortfall <= 0.005, "{share}, {shortfall}");
}

#[test]
#[ignore = "minutes; make check-slow"]
fn an_objective_is_within_five_percent_of_its_optimum() {
    let (share, shortfall) = near_optimal(DECISIONS, Planar::MOST_CELLS);
    assert!(share >= 0.95 && shortfall <= 0.005, "{share}, {shortfall}");
}

#[test]
fn random_problem_and_wireless_meet_requirements_with_a_quarter_of_the_steps() {
    assert!(planar(104, 1_000_000), "planar 104");
    assert!(wireless(1_000_000), "wireless");
}

#[test]
#[ignore = "minutes; make check-slow"]
fn random_problems_meet_requirements_with_default_settings() {
    let decisions = DECISIONS;
    let mut broken: Vec<String> = Vec::new();
    // Problems that nothing was tuned on are as many as there are seeds: PROMISE_SEED=900 draws others.
    let first: u64 =
        std::env::var("PROMISE_SEED").map_or(600, |seed| seed.parse().expect("PROMISE_SEED is a number"));
    for seed in first..first + 12 {
        if !planar(seed, decisions) {
            broken.push(format!("planar {seed}"));
        }
    }
    broken.extend((!wireless(decisions)).then(|| "wireless".to_owned()));
    broken.extend((!drone(decisions)).then(|| "drone".to_owned()));
    assert!(broken.is_empty(), "the promise is broken on {} of 14: {broken:?}", broken.len());
}
