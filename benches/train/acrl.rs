//! Our side of `make bench-train`: the command line, the clock and the JSON object that the README describes.
//!
//! It times `acrl_learn`'s PPO with one value head and in episodes, as the other programs have it.
//! `--check` prints a rollout and three full-batch updates instead, for `check.py`.
#![allow(missing_docs, clippy::print_stdout)]

mod episodes;
#[path = "../../crates/acrl-nn/benches/peak/mod.rs"]
mod peak;

use std::error::Error;
use std::time::Instant;

use acrl::VecTask;
use acrl_envs::{Planar, PlanarParameters};
use acrl_learn::PpoConfig;
use cpu_time::ProcessTime;
use episodes::Episodes;
use serde_json::{Value, json};

const EPISODE: usize = 100;
/// Environment steps that a point of the curve is the mean of.
const WINDOW: usize = 20_000;
/// Full-batch updates of `--check`.
const UPDATES: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    let parameters =
        PlanarParameters { speed_limit: Some(arguments.speed_limit), ..PlanarParameters::default() };
    let planar = Planar::new(parameters)?;
    let task = VecTask::new(&planar, planar.specification()?)?;
    if arguments.check {
        println!("{}", check(&task, &arguments)?);
        return Ok(());
    }
    let settings = settings(&arguments.config)?;
    // Not timed: a rollout and its updates, as the others are allowed.
    Episodes::new(&task, settings.clone(), EPISODE, arguments.seed)?.iterate()?;
    let (num_envs, rollout) = (settings.num_envs, settings.num_envs * settings.n_steps);
    let iterations = arguments.steps.div_ceil(rollout).max(1);
    let (wall, cpu) = (Instant::now(), ProcessTime::now());
    let mut training = Episodes::new(&task, settings.clone(), EPISODE, arguments.seed)?;
    let mut rewards = Vec::with_capacity(iterations * settings.n_steps);
    for _ in 0..iterations {
        rewards.extend_from_slice(training.iterate()?);
    }
    let (seconds, cpu_seconds) = (wall.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let steps = iterations * rollout;
    let result = json!({
        "name": "acrl",
        "version": env!("CARGO_PKG_VERSION"),
        "config": arguments.config,
        "steps": steps,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "steps_per_second": steps as f64 / seconds,
        "peak_gflops": peak::gigaflops(acrl_nn::Instructions::best()),
        "curve": curve(&rewards, num_envs, settings.n_steps),
    });
    println!("{}", if arguments.json { result.to_string() } else { format!("{result:#}") });
    Ok(())
}

struct Arguments {
    config: String,
    steps: usize,
    seed: u64,
    speed_limit: f64,
    json: bool,
    check: bool,
}

impl Arguments {
    fn read(mut given: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let config = "A".to_owned();
        let mut read = Self { config, steps: 200_000, seed: 0, speed_limit: 20.0, json: false, check: false };
        while let Some(name) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--config" => read.config = value()?,
                "--steps" => read.steps = value()?.parse()?,
                "--seed" => read.seed = value()?.parse()?,
                "--speed-limit" => read.speed_limit = value()?.parse()?,
                "--json" => read.json = true,
                "--check" => read.check = true,
                _ => return Err(format!("there is no {name}").into()),
            }
        }
        Ok(read)
    }
}

fn settings(config: &str) -> Result<PpoConfig, String> {
    let (num_envs, update_epochs, minibatch_size) = match config {
        "A" => (16, 10, 256),
        "B" => (64, 4, 2048),
        _ => return Err(format!("--config is {config}, expected A or B")),
    };
    Ok(PpoConfig {
        num_envs,
        n_steps: 128,
        update_epochs,
        minibatch_size,
        learning_rate: 3e-4,
        gamma: 0.97,
        gae_lambda: 0.95,
        clip_range: 0.2,
        init_std: 0.6,
        max_grad_norm: 0.5,
        hidden_sizes: vec![64, 64],
        ..PpoConfig::default()
    })
}

/// At the end of each rollout: environment steps, and the mean of the rewards of the last 20,000 of them.
fn curve(rewards: &[f32], num_envs: usize, n_steps: usize) -> Vec<(usize, f64)> {
    let window = WINDOW / num_envs;
    let ends = (n_steps..=rewards.len()).step_by(n_steps).filter(|&end| end >= window);
    ends.map(|end| {
        let sum: f64 = rewards[end - window..end].iter().map(|r| f64::from(*r)).sum();
        (end * num_envs, sum / window as f64)
    })
    .collect()
}

/// A rollout that contains the end of an episode, and the parameters after some updates with all of it.
fn check(task: &VecTask<'_>, arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    let mut settings = settings(&arguments.config)?;
    settings.minibatch_size = settings.num_envs * settings.n_steps;
    settings.update_epochs = UPDATES;
    let mut training = Episodes::new(task, settings.clone(), EPISODE, arguments.seed)?;
    training.collect_rollout()?;
    let parameters = training.parameters().map(<[f32]>::to_vec);
    let rollout = training.rollout().clone();
    training.update()?;
    Ok(json!({
        "num_envs": settings.num_envs,
        "n_steps": settings.n_steps,
        "updates": UPDATES,
        "parameters": parameters,
        "inputs": rollout.inputs,
        "actions": rollout.actions,
        "log_probabilities": rollout.log_probabilities,
        "rewards": rollout.rewards,
        "continues": rollout.continues,
        "values": rollout.values,
        "advantages": rollout.advantages,
        "returns": rollout.returns,
        "parameters_after": training.parameters(),
    }))
}
