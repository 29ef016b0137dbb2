//! Learners of Algorithm 1, and the baselines it is compared with.
//!
//! For continuous problems ([`acrl::VecTask`]):
//!
//! | learner | is |
//! |---|---|
//! | [`ppo`] | proximal policy optimisation with networks conditioned on the weights: the default |
//! | [`sac`] | off-policy soft actor-critic, or Q-learning of discrete actions, with vector-valued critics: for expensive steps |
//! | [`kernel::policy_gradient`] | the paper's Section IV: kernels over (s, λ), with literal and with working settings |
//! | [`kernel::actor_critic`] | the same kernels with a critic, for rewards that are further away |
//! | [`baselines`] | fixed weights, dual descent, primal-dual, PID-Lagrangian, primal averaging |
//!
//! A [`Training`] of any of them can be stopped, stored and continued bit-identically. It results in a [`PolicyFile`], with
//! the library of the policy's long-run averages under fixed weights ([`evaluate_library`]), the [`ExecutionDefaults`] that
//! [`calibrate`] finds, and the [`Coverage`] of its training. The settings of the learners are defined once
//! ([`settings`]), and read from `[train]` of a problem file ([`TrainSettings`]).
//!
//! In environments that the caller steps, `auto` chooses between `tabular`, `sac` and `ppo` ([`ExternalTraining`]).
//! For environments with few distinct observations, [`tabular`] counts, estimates a model, and solves it exactly.
//!
//! For finite problems, [`q_learning`] is Algorithm 1 with a table: Q-learning for all weights at once. It results in a policy
//! π(s, λ), to be run with [`acrl::execute`]. [`baselines::finite`] has the baselines with exact values.
//!
//! ```
//! use acrl::*;
//! use acrl_learn::{QLearning, QLearningConfig};
//! // Two states; action = next state; each must get 30 % of the time.
//! let mut model = FiniteCmdp::builder(["a", "b"]);
//! for (name, rewards) in [("A", [1.0, 0.0]), ("B", [0.0, 1.0])] {
//!     let s = model.state(name);
//!     model.choice(s, "to A", &[(0, 1.0)], &rewards);
//!     model.choice(s, "to B", &[(1, 1.0)], &rewards);
//! }
//! let model = model.build()?;
//! let requirements = vec![Requirement::at_least("a", 0.3)?, Requirement::at_least("b", 0.3)?];
//! let mut task = Simulator::new(&model, Specification::new(None, requirements.clone())?)?;
//! let learner = QLearning::new(QLearningConfig { total_steps: 10_000, ..QLearningConfig::default() })?;
//! let mut policy = learner.train(&task, &mut Rng::new(0), &mut Silent)?;
//! let mut agent = Agent::builder(requirements).step_size(0.1).epoch(EpochLength::Fixed(10)).build()?;
//! let run = execute(&mut task, &mut policy, &mut agent, 10_000, &mut Rng::new(1), &mut Silent)?;
//! assert!(run.averages.meets(&[0.3, 0.3], 0.005));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod auto;
pub mod baselines;
mod calibrate;
mod criterion;
mod error;
mod evaluate;
mod execution;
mod exploration;
mod external_training;
pub mod kernel;
mod metrics;
mod policy_file;
pub mod ppo;
pub mod q_learning;
mod reward_sample;
pub mod sac;
pub mod settings;
pub mod tabular;
#[cfg(test)]
mod test_models;
mod training;
mod tuning;
pub mod weights;

pub use baselines::finite::Stationary;
pub use baselines::{Baseline, BaselineConfig, PidGains, Snapshots};
pub use calibrate::{CalibrationResult, calibrate};
pub use criterion::Criterion;
pub use error::LearnError;
pub use evaluate::{EvaluatedTraining, ExternalEvaluation, LibraryEvaluator, evaluate_library};
pub use execution::{ExecutionDefaults, PolicyEvidence, ReboundError};
pub use external_training::ExternalTraining;
pub use kernel::actor_critic::{ActorCritic, ActorCriticConfig};
pub use kernel::policy_gradient::{PolicyGradient, PolicyGradientConfig};
pub use kernel::rbf::{RbfConfig, RbfPolicy, Weighting};
pub use policy_file::{PolicyFile, PolicyFileError, TrainingRecord};
pub use ppo::{ExternalPpo, MlpPolicy, Ppo, PpoConfig};
pub use q_learning::{QLearning, QLearningConfig, QLearningPolicy};
pub use reward_sample::RewardSample;
pub use sac::{Sac, SacConfig, SacPolicy};
pub use settings::{ExternalLearner, Learner, LearnerConfig, Method, TrainSettings};
pub use tabular::{Suitability, Tabular, TabularConfig, TabularPolicy};
pub use training::{TrainedPolicy, Training};
pub use weights::{Coverage, CoverageReport, WeightSampler};
