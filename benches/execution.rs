//! How fast a finite policy is executed with dual dynamics: `make bench`.
//!
//! Steps per CPU-second on one core. The peer in the same run is the same loop stripped to its bones: Example 1
//! hard-coded, no types, no checks, no certificate, no observer. What the library adds is the ratio.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;

use acrl::{DualDynamics, Rng, Silent, Task, execute};
use acrl_envs::{Problem, Source, bundled};
use acrl_exact::{ExactPolicy, FiniteTask};
use cpu_time::ProcessTime;

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
    let mut dynamics = DualDynamics::new(requirements, problem.run.step_size, problem.run.epoch_length())
        .unwrap()
        .with_scales(task.objective_scale(), task.scales())
        .unwrap();
    let mut environment = Task::new(model, problem.specification.clone()).unwrap();
    let mut policy = ExactPolicy::new(&task);
    let run =
        execute(&mut environment, &mut policy, &mut dynamics, steps, &mut Rng::new(1), &mut Silent).unwrap();
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

fn main() {
    let steps = 10_000_000;
    let bare = speed(steps, || bare_loop(steps));
    let ours = speed(steps, || library("monitoring", steps));
    println!("million steps per CPU-second, one core, median of 5");
    println!("monitoring  bare loop {bare:8.1}   acrl {ours:8.1}   ratio {:.2}", ours / bare);
    for (name, steps) in [("queue", 2_000_000), ("maintenance", 2_000_000), ("patrol", 400_000)] {
        println!("{name:<11} {:>31.2}", speed(steps, || library(name, steps)));
    }
}
