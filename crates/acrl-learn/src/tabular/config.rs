//! Settings of the tabular learner.

use crate::settings::{Range, STEPS, settings};

settings! {
    /// The settings of the tabular learner.
    pub struct TabularConfig {
        /// Environment steps of the training, in all environments.
        total_steps: u64 = 100_000; STEPS;
        /// Parallel copies of the environment.
        num_envs: usize = 16; Range::Whole(1, 65_536);
        /// Largest number of distinct observations; an environment with more is not for a table.
        max_states: usize = 10_000; Range::Whole(1, 10_000_000);
        /// Discount factor of the plans for exploration; solutions are for long-run averages.
        gamma: f64 = 0.99; Range::Open(0.0, 1.0);
    }
}
