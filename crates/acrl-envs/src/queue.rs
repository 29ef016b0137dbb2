//! Queue: a buffer whose server can work harder at the price of power.
//!
//! # Description
//!
//! Jobs arrive at a buffer of finite capacity. In each slot the controller chooses how hard the
//! server works. Power should be saved, but the mean queue and the rate of lost jobs are limited.
//!
//! # States
//!
//! The number of jobs in the buffer, 0 … N, where N is the capacity.
//!
//! # Actions
//!
//! The service levels, in every state.
//!
//! # Dynamics
//!
//! In each slot the job in service, if there is one, leaves with the level's probability of success;
//! then a job arrives with probability `arrival`. It is lost if the buffer is full at that moment.
//!
//! # Rewards
//!
//! `power`: the level's power, spent whether or not there is a job. `queue`: the number of jobs at the
//! beginning of the slot. `drops`: the probability that a job is lost in this slot,
//! arrival · (1 − success) when the buffer is full, else 0.
//!
//! # Requirements
//!
//! Minimise power; queue ≤ 4, drops ≤ 0.02.
//!
//! # Known optimum
//!
//! With the default parameters the least power is 1.447336441206 ([`Queue::DEFAULT_OPTIMUM`]), both
//! requirements bind at the prices λ* ≈ (0.0353, 3.944), and the best stationary policy randomises in
//! two states (3 and 8 jobs).
//!
//! # Starting state
//!
//! The empty buffer.
//!
//! # Parameters
//!
//! See [`QueueParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "queue"
//! capacity = 10
//! arrival = 0.5
//! levels = [
//!     { name = "off", success = 0.0, power = 0.0 },
//!     { name = "slow", success = 0.4, power = 1.0 },
//! ]
//! ```

use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};
use serde::Deserialize;

use crate::parameter::{Check, ParameterError, Range as _, parameters};

parameters! {
    /// Parameters of a queue problem.
    QueueParameters {
        /// Jobs the buffer holds, N.
        capacity: usize = 10, 1..=100_000;
        /// The probability that a job arrives in a slot.
        arrival: f64 = 0.5, 0.0..=1.0;
        /// How hard the server can work: 1 to 100 levels.
        levels: Vec<ServiceLevel> = ServiceLevel::defaults();
    }
}

/// One way to run the server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceLevel {
    /// The action's name, which no other level has.
    pub name: String,
    /// The probability that the job in service leaves in a slot, from 0 to 1.
    pub success: f64,
    /// Power per slot, from 0 to 10⁶.
    pub power: f64,
}

impl ServiceLevel {
    /// Off (0, 0), slow (0.4, 1), medium (0.6, 2), fast (0.8, 4).
    fn defaults() -> Vec<Self> {
        let levels = [("off", 0.0, 0.0), ("slow", 0.4, 1.0), ("medium", 0.6, 2.0), ("fast", 0.8, 4.0)];
        levels.map(|(name, success, power)| Self { name: name.to_owned(), success, power }).to_vec()
    }
}

/// A queue problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    parameters: QueueParameters,
}

impl Queue {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "queue";

    /// The least power with the default parameters and requirements (by linear programming).
    pub const DEFAULT_OPTIMUM: f64 = 1.447336441206302;

    /// Checks the parameters.
    pub fn new(parameters: QueueParameters) -> Result<Self, ParameterError> {
        let check = Check(Self::KIND);
        parameters.check(&check)?;
        let levels = &parameters.levels;
        check.items("levels", levels.len(), "service levels")?;
        for (i, level) in levels.iter().enumerate() {
            (0.0..=1.0).check(&check, &format!("levels[{i}].success"), &level.success)?;
            (0.0..=1e6).check(&check, &format!("levels[{i}].power"), &level.power)?;
            let own = !level.name.is_empty() && !levels[..i].iter().any(|other| other.name == level.name);
            let expected = || "a name that no other level has".to_owned();
            check.within(&format!("levels[{i}].name"), format!("'{}'", level.name), own, expected)?;
        }
        Ok(Self { parameters })
    }

    /// The finite model.
    pub fn model(&self) -> Result<FiniteCmdp, Error> {
        let QueueParameters { capacity, arrival, levels } = &self.parameters;
        let (n, a) = (*capacity, *arrival);
        let mut builder = FiniteCmdp::builder(["power", "queue", "drops"]);
        for jobs in 0..=n {
            let state = builder.state(jobs.to_string());
            for level in levels {
                // An empty buffer has nobody to serve.
                let leaves = if jobs == 0 { 0.0 } else { level.success };
                let (up, down) = ((1.0 - leaves) * a, leaves * (1.0 - a));
                let mut transitions = Vec::with_capacity(3);
                if jobs > 0 {
                    transitions.push((jobs - 1, down));
                }
                if jobs < n {
                    transitions.push((jobs, 1.0 - up - down));
                    transitions.push((jobs + 1, up));
                } else {
                    transitions.push((n, 1.0 - down));
                }
                let lost = if jobs == n { up } else { 0.0 };
                // 1 − up − down may be a rounding error below 0.
                transitions.iter_mut().for_each(|(_, p)| *p = p.max(0.0));
                builder.choice(state, &level.name, &transitions, &[level.power, jobs as f64, lost]);
            }
        }
        Ok(builder.build()?)
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let requirements = vec![Requirement::at_most("queue", 4.0)?, Requirement::at_most("drops", 0.02)?];
        Specification::new(Some(Objective::minimize("power")), requirements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_and_go_and_are_lost_only_at_a_full_buffer() {
        let model = Queue::new(QueueParameters::default()).unwrap().model().unwrap();
        assert_eq!((model.states(), model.choice_count()), (11, 44));
        let slow = model.choice(model.choices(3).start + 1);
        assert_eq!(model.action_name(model.choices(3).start + 1), "slow");
        assert_eq!(slow.targets, [2, 3, 4]);
        for (p, expected) in slow.probabilities.iter().zip([0.2, 0.5, 0.3]) {
            assert!((p - expected).abs() < 1e-12);
        }
        assert_eq!(slow.rewards, [1.0, 3.0, 0.0]);
        let full = model.choice(model.choices(10).start + 1);
        assert_eq!((full.targets, full.rewards), (&[9, 10][..], &[1.0, 10.0, 0.3][..]));
        let empty = model.choice(model.choices(0).start + 3);
        assert_eq!((empty.targets, empty.probabilities), (&[0, 1][..], &[0.5, 0.5][..]));
    }
}
