//! Learners of Algorithm 1, and the baselines it is compared with. One file is one method, and reads from top to bottom.
//!
//! For continuous problems ([`acrl::VecTask`]):
//!
//! | learner | is |
//! |---|---|
//! | [`ppo`] | networks, dual dynamics while training, no reward neglected: the default |
//! | [`policy_gradient`] | the paper's Section IV: kernels over (s, λ), literal and working settings |
//! | [`actor_critic`] | the same with a critic, for rewards that are further away |
//! | [`baselines`] | what they are compared with: fixed weights, dual descent, primal-dual, PID-Lagrangian, primal averaging |
//!
//! A [`Training`] of any of them can be stopped, stored and continued to the bit; a [`PolicyFile`] is what comes out, with the
//! library of what the policy [settles](settle) at and the [`Coverage`] of its training.
//!
//! For finite problems:
//!
//! | method | is | on Example 1 |
//! |---|---|---|
//! | [`tabular`] | Algorithm 1 with a table: Q-learning for all weights at once | meets the requirements |
//! | [`fixed_weights`] | maximise r₀ + Σ λ_i r_i for λ on a grid | no weighting is feasible |
//! | [`dual_descent`] | look for λ* first, then keep π(λ_k) | π(λ_k) is infeasible for every k |
//! | [`primal_dual`] | gradient steps on the policy and λ together | feasible only while it learns |
//! | [`primal_averaging`] | average the policies π(λ_k) | depends on how one averages |
//!
//! The first of these leaves a policy π(s, λ) behind, to be run with [`acrl::execute`]. The others leave a
//! [`Stationary`] policy that knows nothing of λ (or [`primal_averaging::Blocks`], which switches), and
//! its values are exact. An [`Outcome`] is a line of the table in which they are compared.
//!
//! ```
//! use acrl::*;
//! use acrl_learn::{Tabular, TabularSettings};
//! // Two states; action = next state; each must get 30 % of the time.
//! let mut model = FiniteCmdp::builder(["a", "b"]);
//! for (name, rewards) in [("A", [1.0, 0.0]), ("B", [0.0, 1.0])] {
//!     let s = model.state(name);
//!     model.choice(s, "to A", &[(0, 1.0)], &rewards);
//!     model.choice(s, "to B", &[(1, 1.0)], &rewards);
//! }
//! let model = model.build()?;
//! let requirements = vec![Requirement::at_least("a", 0.3)?, Requirement::at_least("b", 0.3)?];
//! let mut task = Task::new(&model, Specification::new(None, requirements.clone())?)?;
//! let learner = Tabular::new(TabularSettings { steps: 10_000, ..TabularSettings::default() })?;
//! let mut policy = learner.train(&mut task, &mut Rng::new(0), &mut Silent)?;
//! let mut dynamics = DualDynamics::new(requirements, 0.1, EpochLength::Fixed(10))?;
//! let run = execute(&mut task, &mut policy, &mut dynamics, 10_000, &mut Rng::new(1), &mut Silent)?;
//! assert!(run.averages.meets(&[0.3, 0.3], 0.005));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod actor_critic;
pub mod baselines;
mod calibrate;
mod coverage;
pub mod criterion;
pub mod dual_descent;
mod error;
mod evaluate_library;
mod external_evaluation;
pub mod fixed_weights;
mod grid;
mod library_evaluator;
mod outcome;
mod policy_file;
pub mod policy_gradient;
pub mod ppo;
pub mod primal_averaging;
pub mod primal_dual;
pub mod rbf;
mod reward_sample;
mod stationary;
pub mod tabular;
#[cfg(test)]
mod test_models;
mod trained;
pub mod weight_sampler;

pub use actor_critic::{ActorCritic, ActorCriticConfig};
pub use baselines::{Baseline, Method, Snapshots, UnconditionedLearner};
pub use calibrate::{CalibrationResult, ExecutionDefaults, calibrate};
pub use coverage::{Coverage, CoverageReport};
pub use criterion::Criterion;
pub use error::LearnError;
pub use evaluate_library::settle;
pub use external_evaluation::ExternalEvaluation;
pub use library_evaluator::LibraryEvaluator;
pub use outcome::Outcome;
pub use policy_file::{PolicyFile, PolicyFileError, TrainingRecord};
pub use policy_gradient::{PolicyGradient, PolicyGradientConfig};
pub use ppo::{ExternalPpo, MlpPolicy, Ppo, PpoConfig};
pub use rbf::{RbfConfig, RbfPolicy, Weighting};
pub use reward_sample::RewardSample;
pub use stationary::Stationary;
pub use tabular::{Tabular, TabularConfig, TabularPolicy};
pub use trained::{TrainedPolicy, Training};
pub use weight_sampler::WeightSampler;
