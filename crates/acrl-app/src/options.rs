//! Options that several use cases share.

use acrl::{Multipliers, Requirement};

use crate::{Context as _, Error};

/// How to execute. What is absent is as in the problem file, or as a trained policy recommends.
#[derive(Debug, Clone, Default)]
pub struct ExecutionOptions {
    /// Steps of each run.
    pub steps: Option<u64>,
    /// Number of runs.
    pub runs: Option<u64>,
    /// Step size of the dual update, in units of the rewards' ranges.
    pub step_size: Option<f64>,
    /// Steps between two dual updates.
    pub epoch: Option<EpochOption>,
    /// Certified shortfall that counts as met, as a share of each reward's range.
    pub tolerance: Option<f64>,
}

/// Steps between two dual updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochOption {
    /// A fixed number of steps.
    Fixed(u64),
    /// Adapted while running.
    Auto,
}

/// What turns multipliers into actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorOption {
    /// π(s, λ) itself.
    Policy,
    /// The best entry of a trained policy's library at λ.
    Library,
    /// The mixture of a finite problem's optimum, as one randomised policy.
    Stationary,
    /// The policies of the mixture of a finite problem's optimum, one after the other.
    TimeSharing,
}

impl ExecutorOption {
    /// All names and what they stand for.
    pub const ALL: [(&'static str, Self); 4] = [
        ("policy", Self::Policy),
        ("library", Self::Library),
        ("stationary", Self::Stationary),
        ("time-sharing", Self::TimeSharing),
    ];
}

/// The multipliers that a run starts with.
#[derive(Debug, Clone, PartialEq)]
pub enum InitMultipliers {
    /// From the stored evaluations of a trained policy.
    Library,
    /// λ* of a finite problem.
    Optimum,
    /// λ = 0.
    Zero,
    /// These, and 0 for the others.
    Given(Vec<(String, f64)>),
}

/// One requirement with several bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The requirement with the first of the bounds.
    pub requirement: Requirement,
    /// All bounds, in order.
    pub bounds: Vec<f64>,
}

impl InitMultipliers {
    /// Multipliers by name, 0 where none is given.
    pub(crate) fn by_name(list: &[(String, f64)], names: &[String]) -> Result<Multipliers, Error> {
        let mut values = vec![0.0; names.len()];
        for (name, value) in list {
            let index = names.iter().position(|n| n == name);
            let index = index.with_context(|| {
                format!("--init-multipliers names '{name}', but the requirements are {}", names.join(", "))
            })?;
            values[index] = *value;
        }
        Ok(Multipliers::new(values)?)
    }
}

impl Sweep {
    /// So many bounds from the requirement's own to another.
    pub fn new(requirement: Requirement, last: f64, points: usize) -> Self {
        let (first, steps) = (requirement.bound(), points.max(2) - 1);
        let bound = |i: usize| first + (last - first) * i as f64 / steps as f64;
        let bounds = (0..=steps).map(|i| if i == steps { last } else { bound(i) }).collect();
        Self { requirement, bounds }
    }
}
