//! Benchmark of reading a model: CPU time and memory.
//!
//! ```sh
//! cargo run --release -p acrl-exact --example read-model -- write 300 grid.npz    # a grid of 300 x 300, or grid.drn
//! cargo run --release -p acrl-exact --example read-model -- read grid.npz
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::path::Path;

use acrl::{FiniteCmdp, Objective, Specification};
use acrl_exact::{FiniteTask, Structure, drn, npz};
use cpu_time::ProcessTime;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", side, path] => {
            let model = grid(side.parse()?)?;
            let drn = Path::new(path).extension().is_some_and(|e| e == "drn");
            std::fs::write(path, if drn { drn::write(&model).into_bytes() } else { npz::write(&model) })?;
        }
        ["read", path] => measure(Path::new(path))?,
        _ => {
            return Err("expected write SIDE FILE or read FILE, with a FILE that ends in .npz or .drn".into());
        }
    }
    Ok(())
}

fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    let start = ProcessTime::now();
    let model = match path.extension().is_some_and(|e| e == "drn") {
        true => drn::read(&std::fs::read(path)?)?,
        false => npz::read(File::open(path)?)?,
    };
    let (states, choices, transitions) = (model.states(), model.choice_count(), model.transitions());
    println!("{states} states, {choices} choices, {transitions} transitions");
    println!("read:      {:6.2} CPU-seconds, {:5} MB at most so far", start.elapsed().as_secs_f64(), peak());
    let start = ProcessTime::now();
    let parts = Structure::new(&model).end_components.len();
    let seconds = start.elapsed().as_secs_f64();
    println!("structure: {seconds:6.2} CPU-seconds, {:5} MB at most so far, {parts} end components", peak());
    let start = ProcessTime::now();
    let specification =
        Specification::new(Some(Objective::maximize(model.reward_names()[0].clone())), vec![])?;
    let task = FiniteTask::new(&model, &specification)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "task:      {seconds:6.2} CPU-seconds, {:5} MB at most so far, r0 ranges over {}",
        peak(),
        task.objective_scale()
    );
    Ok(())
}

/// Peak memory of the process in MB; 0 where the system does not provide it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kb| kb / 1024)
}

/// Grid with five moves (stay, and one to each side) that slip with probability 0.08; two regions to be
/// watched, and the energy of moving.
fn grid(side: usize) -> Result<FiniteCmdp, acrl::ModelError> {
    let mut model = FiniteCmdp::builder(["left", "right", "energy"]);
    (0..side * side).for_each(|s| _ = model.state(s.to_string()));
    for s in 0..side * side {
        let (x, y) = (s % side, s / side);
        let at = |dx: isize, dy: isize| {
            let moved = |c: usize, d: isize| c.checked_add_signed(d).filter(|c| *c < side).unwrap_or(c);
            moved(y, dy) * side + moved(x, dx)
        };
        let moves = [at(0, 0), at(0, -1), at(-1, 0), at(1, 0), at(0, 1)];
        for (a, name) in ["stay", "north", "west", "east", "south"].iter().enumerate() {
            let mut to: Vec<(usize, f64)> = Vec::with_capacity(5);
            for (b, &t) in moves.iter().enumerate() {
                let p = if a == b { 0.92 } else { 0.02 };
                match to.iter_mut().find(|(known, _)| *known == t) {
                    Some((_, known)) => *known += p,
                    None => to.push((t, p)),
                }
            }
            to.sort_by_key(|(t, _)| *t);
            let left = f64::from(u8::from(x < side / 5 && y < side / 5));
            let right = f64::from(u8::from(x >= side - side / 5 && y >= side - side / 5));
            model.choice(s, name, &to, &[left, right, f64::from(u8::from(a > 0))]);
        }
    }
    model.build()
}
