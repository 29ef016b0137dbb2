//! Maintenance: a machine that wears out, a budget, and a limit on running it in poor condition.
//!
//! # Description
//!
//! A machine produces less the more it is worn. It can be run, repaired (which may fail) or replaced.
//! Output should be large, while the cost per step stays within a budget and the machine is in poor
//! condition only for a small share of the time.
//!
//! # States
//!
//! The condition, 0 (new) … K − 1 (worst). The last `poor_levels` of them count as poor.
//!
//! # Actions
//!
//! `run`, `repair`, `replace`, in every condition.
//!
//! # Dynamics
//!
//! `run`: the condition gets worse by one level with probability `wear`, by two with probability
//! `shock`, and stays as it is otherwise (never beyond the worst). `repair`: it gets better by up to
//! `repair_gain` levels with probability `repair_success`, else nothing changes. `replace`: it is new.
//!
//! # Rewards
//!
//! `output`: 1 − loss · k/(K − 1) for `run` in condition k, 0 for the other actions. `poor`: 1 while the
//! condition is poor, else 0. `cost`: `repair_cost` for `repair`, `replace_cost` for `replace`, 0 for `run`.
//!
//! # Requirements
//!
//! Maximise output; poor ≤ 0.05, cost ≤ 0.15.
//!
//! # Known optimum
//!
//! With the default parameters the largest output is 0.800033841654 ([`Maintenance::DEFAULT_OPTIMUM`]),
//! both requirements bind at the prices λ* ≈ (0.1633, 0.7678), and the best stationary policy
//! randomises in conditions 2 (run or repair) and 4 (run or replace).
//!
//! # Starting state
//!
//! A new machine.
//!
//! # Parameters
//!
//! See [`MaintenanceParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "maintenance"
//! levels = 6
//! wear = 0.25
//! ```

use crate::parameter::{Check, ParameterError, Range as _, parameters};
use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};

parameters! {
    /// Parameters of a maintenance problem.
    MaintenanceParameters {
        /// Levels of condition, K.
        levels: usize = 6, 2..=10_000;
        /// Number of the worst levels that count as poor: 1 to K − 1.
        poor_levels: usize = 2;
        /// Probability that action `run` worsens the condition by one level.
        wear: f64 = 0.25, 0.0..=1.0;
        /// Probability that action `run` worsens it by two levels: 0 to 1 − `wear`.
        shock: f64 = 0.05;
        /// Share of the output that is lost in the worst condition.
        loss: f64 = 0.2, 0.0..=1.0;
        /// Probability that action `repair` succeeds.
        repair_success: f64 = 0.6, 0.0..=1.0;
        /// Levels restored by a successful repair.
        repair_gain: usize = 2, 1..=10_000;
        /// Cost of action `repair`.
        repair_cost: f64 = 0.5, 0.0..=1e6;
        /// Cost of action `replace`.
        replace_cost: f64 = 3.0, 0.0..=1e6;
    }
}

/// A maintenance problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Maintenance {
    parameters: MaintenanceParameters,
}

impl Maintenance {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "maintenance";

    /// The largest output with the default parameters and requirements (by linear programming).
    pub const DEFAULT_OPTIMUM: f64 = 0.800033841654481;

    /// Checks the parameters.
    pub fn new(parameters: MaintenanceParameters) -> Result<Self, ParameterError> {
        let (check, p) = (Check(Self::KIND), &parameters);
        p.check(&check)?;
        (1..=p.levels - 1).check(&check, "poor_levels", &p.poor_levels)?;
        // A tolerance, so that 0.9 + 0.1 and the like never fail by rounding.
        let admissible = p.shock >= 0.0 && p.wear + p.shock <= 1.0 + 1e-9;
        let expected = || format!("a number from 0 to 1 - wear = {}", 1.0 - p.wear);
        check.within("shock", p.shock, admissible, expected)?;
        Ok(Self { parameters })
    }

    /// The finite model.
    pub fn model(&self) -> Result<FiniteCmdp, Error> {
        let p = &self.parameters;
        let worst = p.levels - 1;
        let mut builder = FiniteCmdp::builder(["output", "poor", "cost"]);
        for level in 0..=worst {
            let state = builder.state(level.to_string());
            let poor = if level + p.poor_levels >= p.levels { 1.0 } else { 0.0 };
            let output = 1.0 - p.loss * level as f64 / worst as f64;
            let no_wear = (1.0 - p.wear - p.shock).max(0.0);
            let run = [(level, no_wear), (worst.min(level + 1), p.wear), (worst.min(level + 2), p.shock)];
            builder.choice(state, "run", &merged(&run), &[output, poor, 0.0]);
            let better = level.saturating_sub(p.repair_gain);
            let repair = [(better, p.repair_success), (level, 1.0 - p.repair_success)];
            builder.choice(state, "repair", &merged(&repair), &[0.0, poor, p.repair_cost]);
            builder.choice(state, "replace", &[(0, 1.0)], &[0.0, poor, p.replace_cost]);
        }
        Ok(builder.build()?)
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let requirements = vec![Requirement::at_most("poor", 0.05)?, Requirement::at_most("cost", 0.15)?];
        Specification::new(Some(Objective::maximize("output")), requirements)
    }
}

/// Adds up what leads to one level: at both ends of the scale several outcomes do.
fn merged(transitions: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let mut merged: Vec<(usize, f64)> = Vec::with_capacity(transitions.len());
    for &(target, p) in transitions {
        match merged.iter_mut().find(|(t, _)| *t == target) {
            Some((_, sum)) => *sum += p,
            None => merged.push((target, p)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_wears_repairing_helps_and_replacing_renews() {
        let model = Maintenance::new(MaintenanceParameters::default()).unwrap().model().unwrap();
        assert_eq!((model.states(), model.choice_count()), (6, 18));
        let choice = |level: usize, action: usize| model.choice(model.choices(level).start + action);
        assert_eq!(choice(1, 0).targets, [1, 2, 3]);
        assert_eq!((choice(4, 0).targets, choice(5, 0).targets), (&[4, 5][..], &[5][..]));
        assert!((choice(4, 0).probabilities[1] - 0.3).abs() < 1e-12);
        assert!((choice(5, 0).rewards[0] - 0.8).abs() < 1e-12);
        assert_eq!(choice(3, 1).targets, [1, 3]);
        assert_eq!(choice(0, 1).targets, [0]);
        assert_eq!((choice(4, 2).targets, choice(4, 2).rewards), (&[0][..], &[0.0, 1.0, 3.0][..]));
        assert_eq!(choice(3, 2).rewards[1], 0.0);
    }
}
