//! Options, progress, results and errors of a solve.

use acrl::{Error, Multipliers, Values};

use crate::tolerances::UNIQUE_MULTIPLIER;
use crate::tuning::{EXACT_PRICING_STATES, MAX_ROUNDS};
use crate::{Conflict, Singular};

/// Stopping criteria.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveOptions {
    /// Relative gap at which to stop; default 1e-6.
    pub gap: f64,
    /// Number of pricing rounds after which to stop; default 10,000.
    pub rounds: usize,
    /// Number of states up to which pricing is exact at every λ; default 300.
    pub small: usize,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self { gap: 1e-6, rounds: MAX_ROUNDS, small: EXACT_PRICING_STATES }
    }
}

/// Progress of a solve after a pricing round.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SolveRound {
    /// Number of policies generated so far.
    pub round: usize,
    /// Largest proved lower bound on P*; `None` while no feasible mixture is known.
    pub lower: Option<f64>,
    /// Smallest proved upper bound on P*.
    pub upper: Option<f64>,
    /// Relative gap, once there are both bounds.
    pub gap: Option<f64>,
}

/// Solution of a constrained problem.
#[derive(Debug, Clone)]
pub enum Solution {
    /// The requirements can be met.
    Optimal(Optimum),
    /// The requirements cannot be met.
    Infeasible(Conflict),
}

/// Optimum within certified bounds, in the signs of the paper (r₀ maximised, V_i ≥ c_i).
#[derive(Debug, Clone)]
pub struct Optimum {
    /// V₀ of the mixture.
    pub objective: f64,
    /// Proved lower bound on P*.
    pub lower: f64,
    /// Proved upper bound on P*.
    pub upper: f64,
    /// Relative gap (upper − lower)/max(|lower|, |upper|, R₀/1000).
    pub gap: f64,
    /// Whether the gap is as small as requested. If not, the solve was stopped, or no further column
    /// would close it.
    pub reached: bool,
    /// V₀ … V_m of the mixture.
    pub values: Values,
    /// λ*: the cost of one unit of each bound in the objective.
    pub multipliers: Multipliers,
    /// Least and largest optimal value of each multiplier (infinite where the requirement cannot be
    /// tightened at all); they agree where λ* is unique.
    pub multiplier_ranges: Vec<(f64, f64)>,
    /// Deterministic Lagrangian maximisers, with their weights.
    pub mixture: Vec<MixturePolicy>,
    /// Number of policies generated.
    pub rounds: usize,
}

impl Optimum {
    /// Whether no other multipliers are optimal, up to rounding.
    pub fn multipliers_are_unique(&self) -> bool {
        self.multiplier_ranges.iter().all(|(low, high)| high - low <= UNIQUE_MULTIPLIER * (1.0 + low.abs()))
    }
}

/// Deterministic policy of a mixture, and its share of time.
#[derive(Debug, Clone, PartialEq)]
pub struct MixturePolicy {
    /// Share of time.
    pub weight: f64,
    /// V₀ … V_m.
    pub values: Values,
    /// Number of the action in each state.
    pub actions: Vec<usize>,
}

/// Largest common slack max_π min_i (V_i(π) − c_i)/R_i within bounds, and the mixture that attains it.
#[derive(Debug, Clone)]
pub struct Slack {
    /// Slack of the mixture.
    pub lower: f64,
    /// Proved upper bound on the slack of every policy.
    pub upper: f64,
    /// Deterministic policies, with their weights.
    pub mixture: Vec<MixturePolicy>,
    /// V₀ … V_m of the mixture.
    pub values: Values,
    /// y ≥ 0 with Σ y_i R_i = 1: the combination of requirements that is hardest to meet.
    pub prices: Vec<f64>,
}

/// Failure of a solve.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// A policy could not be evaluated.
    #[error(transparent)]
    Singular(#[from] Singular),
    /// A changed specification does not fit the model.
    #[error(transparent)]
    Specification(#[from] Error),
    /// The rounds ran out before a feasible mixture was found.
    #[error("no answer after {0} rounds: the requirements are too close to infeasible to tell")]
    Rounds(usize),
    /// Chains mix too slowly for iterative evaluation, and their factors exceed the memory limit.
    #[error(
        "model too large: factorising the transition matrix of {states} states needs more than 2 GB, and iterative \
         evaluation does not converge because the chain mixes too slowly"
    )]
    TooLarge {
        /// Number of states of the model.
        states: usize,
    },
    /// An observer stopped the solve before a feasible mixture was found.
    #[error("stopped before a policy that meets the requirements was found")]
    Stopped,
}
