//! Learners of acrl on finite problems that they cannot look into, beside the exact optimum.
//!
//! `cargo run --release -p acrl-black-box -- --help`

#![allow(clippy::print_stdout, reason = "a program")]

mod bounds;
mod problems;
mod table;
mod trial;

use anyhow::Result;
use clap::Parser;
use cpu_time::ProcessTime;

use problems::{KINDS, draw};
use table::Table;

/// Trains on finite problems as black boxes, executes for three sets of bounds, and prints what was met and the regret.
#[derive(Debug, Parser)]
struct Args {
    /// Environment steps of each training.
    #[arg(long, default_value_t = 100_000)]
    train_steps: u64,
    /// Steps of each execution.
    #[arg(long, default_value_t = 200_000)]
    steps: u64,
    /// First seed of the problems.
    #[arg(long, default_value_t = 1_000)]
    seed: u64,
    /// Problems of each kind.
    #[arg(long, default_value_t = 4)]
    draws: u64,
    /// Only this kind of problems.
    #[arg(long)]
    kind: Option<String>,
    /// States of random problems.
    #[arg(long)]
    states: Option<usize>,
    /// Seed of training and execution.
    #[arg(long, default_value_t = 0)]
    run_seed: u64,
    /// Parallel environments of the training.
    #[arg(long, default_value_t = 16)]
    num_envs: usize,
    /// Observe features of the states instead of their numbers (one-hot).
    #[arg(long)]
    features: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let settings = trial::Settings {
        train_steps: args.train_steps,
        steps: args.steps,
        seed: args.run_seed,
        num_envs: args.num_envs,
        features: args.features,
    };
    let (mut learnt, mut known) = (Table::default(), Table::default());
    println!(
        "| problem | states | optimum | trained | changed 1 | changed 2 | per pair | CPU s: train, execute |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let kinds = (0..KINDS.len()).filter(|kind| args.kind.as_deref().is_none_or(|name| name == KINDS[*kind]));
    for kind in kinds {
        for seed in args.seed..args.seed + args.draws {
            let problem = draw(kind, seed, args.states)?;
            let sets = bounds::sets(&problem)?;
            let start = ProcessTime::now();
            let trained = trial::train(&problem, &sets[0].specification, &settings)?;
            let training = start.elapsed().as_secs_f64();
            let start = ProcessTime::now();
            let mut cells = Vec::new();
            for set in &sets {
                cells.push(learnt.add(trial::execute(&problem, &trained, set, &settings)?));
            }
            let executing = start.elapsed().as_secs_f64();
            for (cell, set) in cells.iter_mut().zip(&sets) {
                *cell += &format!(" ({})", known.add(trial::known(&problem, set, &settings)?));
            }
            println!(
                "| {} | {} | {:.4} | {} | {:.0} | {training:.2}, {executing:.2} |",
                problem.name,
                problem.model.states(),
                sets[0].optimum,
                cells.join(" | "),
                trained.suitability.steps_per_pair,
            );
        }
    }
    println!("\nlearnt: {learnt}\n(model known: {known})");
    Ok(())
}
