//! Default settings for environments that the caller steps.

use super::PpoConfig;
use crate::Criterion;

/// Environment steps between two updates, over all environments.
const BATCH: usize = 2048;

impl PpoConfig {
    /// The defaults of [`ExternalPpo`](super::ExternalPpo). Such environments are slow, so fewer of them run side by side,
    /// each rollout is used for more gradient steps, and networks are wider. Most of them have episodes whose length is not
    /// known in advance, so the criterion is the average reward.
    pub fn external(num_envs: usize, total_steps: u64) -> Self {
        Self {
            total_steps: Some(total_steps),
            num_envs,
            n_steps: (BATCH / num_envs.max(1)).clamp(16, 512),
            action_repeat: Some(1),
            update_epochs: 10,
            minibatch_size: 256,
            criterion: Criterion::AverageReward,
            gamma: 0.99,
            ent_coef: 0.02,
            min_advantage_std: 0.01,
            hidden_sizes: vec![128, 128],
            ..Self::default()
        }
    }
}
