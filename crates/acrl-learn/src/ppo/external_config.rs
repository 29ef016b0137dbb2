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
            decisions: total_steps,
            num_envs,
            segment: (BATCH / num_envs.max(1)).clamp(16, 512),
            hold: Some(1),
            passes: 10,
            minibatch: 256,
            targets: Criterion::Average,
            discount: 0.99,
            entropy: 0.02,
            advantage_floor: 0.01,
            hidden: vec![128, 128],
            ..Self::default()
        }
    }
}
