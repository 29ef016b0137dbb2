//! The paper's learners: Gaussian policies with radial basis functions over states and multipliers.

pub mod actor_critic;
pub mod policy_gradient;
pub mod rbf;

/// What the kernel learners have in common: a struct with `settings`, `progress`, `run_rollouts`, which is an iteration, and
/// `check`, which refuses inconsistent parts of a stored training.
macro_rules! kernel_learner {
    ($learner:ident, $settings:ident) => {
        impl $settings {
            /// Number of rollouts of the training.
            pub fn rollouts(&self) -> u64 {
                self.total_steps.div_ceil(self.n_steps as u64)
            }
        }

        impl $learner {
            /// The settings.
            pub fn settings(&self) -> &$settings {
                &self.settings
            }

            /// Number of iterations done.
            pub fn iteration(&self) -> u64 {
                self.progress.rollouts.div_ceil(self.settings.rollouts_per_iteration)
            }

            /// Number of iterations planned.
            pub fn iterations(&self) -> u64 {
                self.settings.rollouts().div_ceil(self.settings.rollouts_per_iteration)
            }

            /// Environment steps done.
            pub fn steps(&self) -> u64 {
                self.progress.steps
            }

            /// Sample of the reward vectors that occurred.
            pub fn reward_sample(&self) -> &crate::RewardSample {
                &self.progress.reward_sample
            }

            /// Sample of the weights that it was trained on.
            pub fn coverage(&self) -> &crate::Coverage {
                &self.progress.coverage
            }

            /// An iteration: rollouts, each with its gradient step. Returns its metrics, which are means per step.
            ///
            /// After an error the training is as it was before the call.
            pub fn iterate(
                &mut self,
                task: &acrl::VecTask<'_>,
            ) -> Result<acrl::Named<f64>, crate::LearnError> {
                let before = self.clone();
                let iteration = self.iteration() + 1;
                let rollouts = iteration.saturating_mul(self.settings.rollouts_per_iteration);
                let end = self.settings.rollouts().min(rollouts).max(self.progress.rollouts + 1);
                let metrics = self.run_rollouts(task, iteration, end);
                metrics
                    .and_then(|metrics| self.progress.check_weights(iteration).map(|()| metrics))
                    .inspect_err(|_| *self = before)
            }
        }

        impl serde::Serialize for $learner {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $learner {
            /// Refuses a training whose parts are inconsistent.
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let learner = Self::deserialize(deserializer)?;
                learner.check().map_err(serde::de::Error::custom)?;
                Ok(learner)
            }
        }
    };
}
use kernel_learner;
