//! Rust example of the README: compiled and run here, and compared with the text of the README.

use acrl::{DualDynamics, EpochLength, Rng, Silent, Task, execute};
use acrl_envs::{Monitoring, MonitoringParameters};
use acrl_exact::{ExactPolicy, FiniteTask};

#[test]
#[rustfmt::skip]
fn readme_example_runs() -> Result<(), Box<dyn std::error::Error>> {
    let example = Monitoring::new(MonitoringParameters::default())?;
    let (model, specification) = (example.model()?, example.specification()?);
    let task = FiniteTask::new(&model, &specification)?;
    let mut environment = Task::new(&model, specification.clone())?;
    let mut policy = ExactPolicy::new(&task); // pi(s, lambda), computed when it is needed
    let mut dynamics = DualDynamics::new(specification.requirements().to_vec(), 0.5, EpochLength::Fixed(10))?;

    let run = execute(&mut environment, &mut policy, &mut dynamics, 100_000, &mut Rng::new(0), &mut Silent)?;
    assert!(run.certificate.requirements.iter().all(|r| r.shortfall < 0.001));
    Ok(())
}

#[test]
fn readme_example_is_the_one_that_runs() {
    let (here, readme) = (include_str!("readme.rs"), include_str!("../README.md"));
    let block = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = block.expect("the README has a Rust example");
    let here: Vec<&str> = here.lines().map(str::trim).collect();
    // Lines that begin with # are hidden by rustdoc.
    for line in example.lines().map(str::trim).filter(|line| !line.starts_with("# ")) {
        assert!(here.contains(&line), "tests/readme.rs does not hold this line of the README: {line}");
    }
}
