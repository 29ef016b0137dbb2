//! The problems on which this crate is tested.

use acrl::{FiniteCmdp, Objective, Requirement, Specification};

/// Example 1.
pub(crate) fn monitoring() -> FiniteCmdp {
    acrl_envs::Monitoring::new(acrl_envs::MonitoringParameters::default()).unwrap().model().unwrap()
}

/// Maximise r0, and r1 ≥ c₁, r2 ≥ c₂.
pub(crate) fn at_least(c: [f64; 2]) -> Specification {
    let requirements = ["r1", "r2"].iter().zip(c).map(|(r, c)| Requirement::at_least(*r, c).unwrap());
    Specification::new(Some(Objective::maximize("r0")), requirements.collect()).unwrap()
}

/// Example 1's requirements: a third each.
pub(crate) fn third() -> Specification {
    at_least([1.0 / 3.0; 2])
}

/// A machine that wears out at random. It makes more the faster it runs, and must not be down too
/// often nor cost too much in repairs; the rewards differ in size and side.
pub(crate) fn machine() -> FiniteCmdp {
    let mut b = FiniteCmdp::builder(["output", "up", "cost"]);
    ["good", "worn", "down"].iter().for_each(|s| _ = b.state(*s));
    b.choice(0, "fast", &[(0, 0.7), (1, 0.3)], &[10.0, 1.0, 0.0]);
    b.choice(0, "slow", &[(0, 0.9), (1, 0.1)], &[6.0, 1.0, 0.0]);
    b.choice(1, "fast", &[(1, 0.6), (2, 0.4)], &[9.0, 1.0, 0.0]);
    b.choice(1, "slow", &[(1, 0.85), (2, 0.15)], &[5.0, 1.0, 0.0]);
    b.choice(1, "service", &[(0, 0.9), (1, 0.1)], &[0.0, 1.0, 2.0]);
    b.choice(2, "wait", &[(2, 0.8), (0, 0.2)], &[0.0, 0.0, 0.0]);
    b.choice(2, "repair", &[(0, 0.6), (2, 0.4)], &[0.0, 0.0, 4.0]);
    b.build().unwrap()
}

/// Maximise the machine's output; up at least `up` of the time, at a cost of at most `cost`.
pub(crate) fn running(up: f64, cost: f64) -> Specification {
    let requirements =
        vec![Requirement::at_least("up", up).unwrap(), Requirement::at_most("cost", cost).unwrap()];
    Specification::new(Some(Objective::maximize("output")), requirements).unwrap()
}
