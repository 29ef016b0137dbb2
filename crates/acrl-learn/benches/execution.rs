//! How fast policies are executed with dual dynamics: `make bench`.
//!
//! Steps per CPU-second on one core. For finite policies the peer in the same run is the same loop stripped to its
//! bones: Example 1 hard-coded, no types, no checks, no certificate, no observer. What the library adds is the ratio.
//!
//! Continuous policies run on the planar problem with a speed limit, many runs at once as `acrl run --runs` has
//! them, with T₀ = 1: the policy is asked and λ moves at every step.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use acrl::{Agent, EpochLength, Rng, Silent, Simulator, VecExecution, VecPolicy, VecTask, execute};
use acrl_envs::{Planar, PlanarParameters, Problem, Source, bundled};
use acrl_exact::{ExactPolicy, FiniteTask};
use acrl_learn::{ActorCritic, ActorCriticConfig, Ppo, PpoConfig};
use cpu_time::ProcessTime;
use rayon::prelude::*;

/// Algorithm 2 on Example 1, written out by hand; returns the averages.
fn bare_loop(steps: u64) -> [f64; 3] {
    let (c, gain) = (1.0 / 3.0, 0.05);
    let (mut lambda, mut deficit, mut visits) = ([0.0f64; 2], [0.0f64; 2], [0u64; 3]);
    let mut state = 0usize;
    for t in 1..=steps {
        visits[state] += 1;
        deficit[0] += c - f64::from(u8::from(state == 1));
        deficit[1] += c - f64::from(u8::from(state == 2));
        let best = if lambda[1] > lambda[0] { 2 } else { 1 };
        let stay = lambda[best - 1] > 1.0;
        state = match state {
            0 => best,
            s if s == best && stay => s,
            _ => 0,
        };
        if t % 10 == 0 {
            for i in 0..2 {
                lambda[i] = (lambda[i] + gain * deficit[i]).max(0.0);
                deficit[i] = 0.0;
            }
        }
        state = black_box(state);
    }
    visits.map(|v| v as f64 / steps as f64)
}

/// The library on a bundled problem, from the problem file to the averages.
fn library(name: &str, steps: u64) -> Vec<f64> {
    let text = bundled().iter().find(|b| b.name == name).unwrap().text;
    let problem = Problem::parse(text).unwrap();
    let Source::Model(model) = &problem.source else { unreachable!("bundled problems carry their model") };
    let task = FiniteTask::new(model, &problem.specification).unwrap();
    let requirements = problem.specification.requirements().to_vec();
    let agent =
        Agent::builder(requirements).step_size(problem.run.step_size()).epoch(problem.run.epoch_length());
    let mut agent = agent.scales(task.objective_scale(), task.scales()).build().unwrap();
    let mut environment = Simulator::new(model, problem.specification.clone()).unwrap();
    let mut policy = ExactPolicy::new(&task);
    let run =
        execute(&mut environment, &mut policy, &mut agent, steps, &mut Rng::new(1), &mut Silent).unwrap();
    run.averages.as_slice().to_vec()
}

/// The median of several measurements, in million steps per CPU-second.
fn speed<T>(steps: u64, mut work: impl FnMut() -> T) -> f64 {
    let mut seconds: Vec<f64> = (0..5)
        .map(|_| {
            let start = ProcessTime::now();
            black_box(work());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    steps as f64 / seconds[2] / 1e6
}

/// Runs that go on together, as many as `acrl run` takes.
const NUM_ENVS: usize = 512;

/// Some batches of runs on the threads there are.
fn batches(task: &VecTask<'_>, policy: &(impl VecPolicy + Clone + Sync), batches: u64, steps: u64) {
    let scales = task.scales();
    let agent = Agent::builder(task.specification().requirements().to_vec()).step_size(0.01);
    let agent = agent.epoch(EpochLength::Fixed(1)).scales(scales[0], &scales[1..]);
    let agent = agent.objective(task.has_objective()).build().unwrap();
    (0..batches).into_par_iter().for_each(|batch| {
        let rngs = (0..NUM_ENVS as u64).map(|env| Rng::stream(batch, env)).collect();
        let (mut policy, agents) = (policy.clone(), vec![agent.clone(); NUM_ENVS]);
        let execution = VecExecution::new(task, &mut policy, agents, rngs, steps).unwrap();
        black_box(execution.run(&mut Silent).unwrap());
    });
}

/// Speed on one thread, and how much faster two are.
fn continuous(name: &str, task: &VecTask<'_>, policy: &(impl VecPolicy + Clone + Sync), target: f64) {
    const STEPS: u64 = 1_000;
    assert_eq!(policy.action_repeat(), 1, "a policy that is asked at every step");
    let pools = [1, 2].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let rate = pools[0].install(|| speed(STEPS * NUM_ENVS as u64, || batches(task, policy, 1, STEPS)));
    // One thread and two in turn, so that they share the machine's moods.
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let seconds = pools.each_ref().map(|pool| {
                let start = Instant::now();
                pool.install(|| batches(task, policy, 4, STEPS));
                start.elapsed().as_secs_f64()
            });
            seconds[0] / seconds[1]
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let verdict = |good: bool| if good { "met" } else { "MISSED" };
    println!(
        "{name:<24} {rate:6.2}  at least {target}: {}   two threads {:.2}x, at least 1.8x: {}",
        verdict(rate >= target),
        ratios[2],
        verdict(ratios[2] >= 1.8)
    );
}

/// A network of 64 x 64 and kernels on normalised weights, both after a little training.
fn continuous_policies() {
    let parameters = PlanarParameters { speed_limit: Some(2.0), ..PlanarParameters::default() };
    let planar = Planar::new(parameters).unwrap();
    let task = VecTask::new(&planar, planar.specification().unwrap()).unwrap();
    let mut ppo = Ppo::new(&task, PpoConfig { action_repeat: Some(1), ..PpoConfig::default() }, 0).unwrap();
    let mut actor_critic = ActorCritic::new(&task, ActorCriticConfig::default(), 0).unwrap();
    for _ in 0..10 {
        ppo.iterate(&task).unwrap();
        actor_critic.iterate(&task).unwrap();
    }
    continuous("planar, network 64 x 64", &task, &ppo.policy(), 3.0);
    continuous("planar, kernels", &task, &actor_critic.policy(), 1.0);
}

fn main() {
    if std::env::args().any(|argument| argument == "--continuous") {
        return continuous_policies();
    }
    let steps = 10_000_000;
    let bare = speed(steps, || bare_loop(steps));
    let ours = speed(steps, || library("monitoring", steps));
    println!("million steps per CPU-second, one core, median of 5");
    println!("monitoring  bare loop {bare:8.1}   acrl {ours:8.1}   ratio {:.2}", ours / bare);
    for (name, steps) in [("queue", 2_000_000), ("maintenance", 2_000_000), ("patrol", 400_000)] {
        println!("{name:<11} {:>31.2}", speed(steps, || library(name, steps)));
    }
    continuous_policies();
}
