//! Numerical tolerances: the differences that count as rounding, as equal or as zero.
//!
//! Lengths are shares of the range R_i of the reward concerned, unless stated otherwise: values are
//! evaluated in double precision, so a share of 1e-13 is a few hundred units in the last place.

/// Slack (V_i − c_i)/R_i down to −1e-9 counts as met: well above the rounding of a mixture, well below
/// any bound that a user states.
pub(crate) const FEASIBILITY: f64 = 1e-9;
/// Rounding of a value: bounds are relaxed by it in the master program, so that a bound that is met
/// exactly does not fail in the last digit. The certified lower bound pays for it at its price.
pub(crate) const VALUE_ROUNDING: f64 = 1e-13;
/// Value vectors closer than this are one column.
pub(crate) const SAME_VALUES: f64 = 1e-11;
/// A column whose values have a larger error is rejected: it would only perturb the master program.
pub(crate) const MAX_COLUMN_ERROR: f64 = 0.01;
/// Policies with a smaller weight are dropped from the reported mixture.
pub(crate) const MIN_WEIGHT: f64 = 1e-12;
/// Relative gaps are measured against at least this share of R₀, so that an optimum near 0 can be
/// reached.
pub(crate) const MIN_OBJECTIVE_SHARE: f64 = 1e-3;
/// A bound is moved by this much to find the slope of the optimum on that side of it.
pub(crate) const BOUND_SHIFT: f64 = 1e-6;
/// Multipliers whose range is narrower, relative to 1 + λ, are unique.
pub(crate) const UNIQUE_MULTIPLIER: f64 = 1e-6;
/// The bounds on the largest slack are closed to this share of the requested gap.
pub(crate) const SLACK_GAP: f64 = 1e-3;

/// The Lagrangian of a column is evaluated to this share of the requested gap, which leaves nearly all
/// of the gap to the master program.
pub(crate) const EVALUATION_SHARE: f64 = 0.02;
/// While the bounds are far apart an evaluation to this share of their distance is enough.
pub(crate) const EARLY_EVALUATION: f64 = 0.05;
/// Values are evaluated to this precision where the requirements alone are priced.
pub(crate) const FEASIBILITY_EVALUATION: f64 = 1e-10;
/// The highest and the lowest precision that an evaluation is run to.
pub(crate) const EVALUATION_RANGE: (f64, f64) = (1e-12, 1e-3);
/// The columns of the mixture are re-evaluated when their errors make up this share of the gap.
pub(crate) const ERROR_SHARE: f64 = 0.2;
/// A re-evaluation counts if it reduces an error at least to this share.
pub(crate) const REEVALUATED_ERROR: f64 = 0.5;

/// Level method: the projection may miss the level by this share of the descent.
pub(crate) const LEVEL_MISS: f64 = 1e-3;
/// Level method: a descent below this share of the values themselves is rounding.
pub(crate) const LEVEL_ROUNDING: f64 = 1e-9;

/// Policy iteration: differences below this share of their own terms are ties.
pub(crate) const TIE: f64 = 1e-10;
/// Policy iteration: differences in gain below this share of the rewards are rounding.
pub(crate) const GAIN_ROUNDING: f64 = 1e-12;
/// Policy iteration: differences in bias below this share of reward and bias are rounding; gains
/// closer than this share of the rewards are one gain.
pub(crate) const BIAS_ROUNDING: f64 = 1e-9;

/// Modified policy iteration: the least and the largest difference that counts as a tie between
/// actions. In between it is four times the error of the values from which the policy is improved.
pub(crate) const IMPROVEMENT_TIE: (f64, f64) = (1e-12, 1e-9);
/// Modified policy iteration: the least and the largest hitting-time cost (see `tuning`).
pub(crate) const TIME_COST_RANGE: (f64, f64) = (1e-13, 1e-3);
/// Modified policy iteration: rounding of an upper bound, relative to rewards and values.
pub(crate) const BOUND_ROUNDING: f64 = 1e-15;
/// Modified policy iteration: rounding of a Bellman residual, relative to the value of the state.
pub(crate) const RESIDUAL_ROUNDING: f64 = 4e-16;

/// GTH elimination: a class that is left with a smaller probability per cycle is never left.
pub(crate) const NEVER: f64 = 1e-40;
/// GTH elimination: a state whose eliminated block is not left for longer than this is a root, because
/// times would overflow. Far longer than 1/[`NEVER`]: otherwise a class would be lost to others that
/// are not recurrent.
pub(crate) const FOREVER: f64 = 1e60;
/// A smaller probability of ending in a class that is not represented is ignored.
pub(crate) const UNKNOWN_CLASS: f64 = 1e-6;
/// A longer expected return time of the reference state costs digits of the bias: a state that is
/// visited more often becomes the reference.
pub(crate) const LONG_CYCLE: f64 = 1e7;
/// The reference state of a recurrent class is replaced if another one is visited this many times as often.
pub(crate) const FREQUENT: f64 = 1e3;
/// Damping of the iteration where a chain is periodic.
pub(crate) const DAMPING: f64 = 0.7;
/// An iteration makes progress while each pass reduces the error at least to this share.
pub(crate) const ITERATION_PROGRESS: f64 = 0.9;

/// Redirection: states that together have at most this share of the stationary distribution are not
/// part of the core of a policy.
pub(crate) const OUTSIDE_CORE: f64 = 1e-7;
/// Redirection: above this probability a state counts as having reached the core.
pub(crate) const REACHED: f64 = 0.999;
/// Redirection: states that reach the core in time with a smaller probability are redirected.
pub(crate) const REACHES_IN_TIME: f64 = 0.5;

/// Margins, relative and absolute, that are tried in turn when a relaxation is verified by solving.
pub(crate) const RELAXATION_MARGINS: [f64; 4] = [0.0, 1e-9, 1e-7, 1e-6];
/// The weights of an executable mixture add up to 1 within this.
pub(crate) const WEIGHT_SUM: f64 = 1e-6;
/// A smaller slack gives no usable Slater constant.
pub(crate) const POSITIVE_SLACK: f64 = 1e-9;

/// Execution: a bound nearer to 0 than this share of the range counts as so far from it.
pub(crate) const LEAST_ASKED: f64 = 0.01;
/// Execution: a bound with less room than this share of the range binds.
pub(crate) const BINDING: f64 = 1e-6;
/// Execution: policies whose averages differ by at most this share of the ranges count as the same.
pub(crate) const SAME_POLICY: f64 = 1e-9;
/// Lead home: the cost of a step on the way to a recurrent class, as a share of the range of the Lagrangian. It breaks
/// ties in favour of the shorter way.
pub(crate) const LEAD_HOME_COST: f64 = 1e-4;
/// Execution: the smallest probability of a shortfall for which a margin is kept.
pub(crate) const LEAST_SHORTFALL_ODDS: f64 = 1e-4;
