//! Monitoring: one agent, several regions, each of which needs a share of its time.
//!
//! # Description
//!
//! Example 1 of the paper, and the smallest problem on which no weighting of the rewards works. An
//! agent at R0 chooses between the regions R1 and R2. It should be at R0 as much as possible, but
//! at R1 and at R2 for at least a third of the time each.
//!
//! # States
//!
//! R0, R1, R2; with the argument `regions` = n: R0 … Rn.
//!
//! # Actions
//!
//! | state | actions |
//! |---|---|
//! | R0 | `R1`, `R2` (`R1` … `Rn`) |
//! | Ri, i ≥ 1 | `R0`, `Ri` (stay) |
//!
//! # Dynamics
//!
//! The next state is the action.
//!
//! # Rewards
//!
//! r0, r1, r2 (… rn): ri is 1 while the current state is Ri, else 0.
//!
//! # Requirements
//!
//! Maximise r0; r1 ≥ 1/3 and r2 ≥ 1/3. With n regions each has to be at least 1/(n + 1).
//!
//! # Known optimum
//!
//! P* = min(1/2, 1 − c1 − c2) for c1 + c2 ≤ 1, see [`known_optimum`]; λ* = (1, 1) at c1 = c2 = 1/3,
//! where P* = 1/3. Maximisers of the Lagrangian at λ* exist in plenty and none of those that are
//! deterministic is feasible.
//!
//! # Starting state
//!
//! R0.
//!
//! # Parameters
//!
//! See [`MonitoringParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "monitoring"
//! regions = 2
//! ```

use crate::parameter::{Check, ParameterError, parameters};
use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};

parameters! {
    /// Parameters of a monitoring problem.
    MonitoringParameters {
        /// How many regions there are around R0.
        regions: usize = 2, 1..=1000;
    }
}

/// A monitoring problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Monitoring {
    parameters: MonitoringParameters,
}

impl Monitoring {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "monitoring";

    /// Checks the parameters.
    pub fn new(parameters: MonitoringParameters) -> Result<Self, ParameterError> {
        parameters.check(&Check(Self::KIND))?;
        Ok(Self { parameters })
    }

    /// The finite model.
    pub fn model(&self) -> Result<FiniteCmdp, Error> {
        let n = self.parameters.regions;
        let mut builder = FiniteCmdp::builder((0..=n).map(|i| format!("r{i}")));
        for i in 0..=n {
            let state = builder.state(format!("R{i}"));
            let mut rewards = vec![0.0; n + 1];
            rewards[i] = 1.0;
            let next: Vec<usize> = if i == 0 { (1..=n).collect() } else { vec![0, i] };
            for target in next {
                builder.choice(state, format!("R{target}"), &[(target, 1.0)], &rewards);
            }
        }
        Ok(builder.build()?)
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let n = self.parameters.regions;
        let share = 1.0 / (n + 1) as f64;
        let requirements = (1..=n).map(|i| Requirement::at_least(format!("r{i}"), share));
        Specification::new(Some(Objective::maximize("r0")), requirements.collect::<Result<_, _>>()?)
    }
}

/// P* = min(1/2, 1 − c1 − c2), the largest long-run share of R0 when R1 and R2 get at least c1 and
/// c2; `None` if they cannot. A bound below 0 asks for nothing.
///
/// At c1 + c2 = 1 it is a supremum: the agent changes region more and more rarely.
///
/// ```
/// use acrl_envs::monitoring::known_optimum;
/// assert_eq!(known_optimum(0.25, 0.25), Some(0.5));
/// assert_eq!(known_optimum(0.5, 0.25), Some(0.25));
/// assert_eq!(known_optimum(0.75, 0.5), None);
/// ```
pub fn known_optimum(c1: f64, c2: f64) -> Option<f64> {
    if c1.is_nan() || c2.is_nan() {
        return None;
    }
    let asked = c1.max(0.0) + c2.max(0.0);
    (asked <= 1.0).then(|| (1.0 - asked).min(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default() -> Monitoring {
        Monitoring::new(MonitoringParameters::default()).unwrap()
    }

    #[test]
    fn the_model_is_example_1() {
        let model = default().model().unwrap();
        assert_eq!((model.states(), model.choice_count()), (3, 6));
        assert_eq!(model.reward_names(), ["r0", "r1", "r2"]);
        assert_eq!(model.initial(), [(0, 1.0)]);
        for s in 0..3 {
            for c in model.choices(s) {
                let choice = model.choice(c);
                assert_eq!(model.state_name(choice.targets[0] as usize), model.action_name(c));
                assert_eq!(choice.rewards.iter().position(|r| *r == 1.0), Some(s));
            }
        }
        let actions =
            |s: usize| model.choices(s).map(|c| model.action_name(c).into_owned()).collect::<Vec<_>>();
        assert_eq!([actions(0), actions(2)], [["R1", "R2"], ["R0", "R2"]]);
    }

    #[test]
    fn the_known_optimum_has_its_domain() {
        assert_eq!(known_optimum(-1.0, 0.75), Some(0.25));
        assert_eq!(known_optimum(1.0, 0.0), Some(0.0));
        assert_eq!(known_optimum(f64::NAN, 0.1), None);
        assert_eq!(known_optimum(f64::INFINITY, 0.1), None);
    }
}
