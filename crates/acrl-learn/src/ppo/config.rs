//! Settings of PPO.

use crate::settings::{POSITIVE, Range, STEPS, Settings, settings};
use crate::tuning::ppo::{DEFAULT_ACTIONS, EXTERNAL_BATCH};
use crate::{Criterion, LearnError, WeightSampler};

settings! {
    /// The settings of PPO. The learning rate goes down linearly to 0, and the entropy bonus with it.
    pub struct PpoConfig {
        /// Environment steps of the training, in all environments.
        total_steps: Option<u64> = None, ("4,000,000 × `action_repeat`"); STEPS;
        /// Parallel copies of the environment (at least 2 unless the environment is external).
        num_envs: usize = 512; Range::Whole(1, 65_536);
        /// Actions per environment between two updates (rollout length); the weights are constant within a rollout.
        n_steps: usize = 32; Range::Whole(1, 4096);
        /// Environment steps for which an action is repeated.
        action_repeat: Option<usize> = None, ("the environment's"); Range::Whole(1, 1000);
        /// Passes over a rollout in an update.
        update_epochs: usize = 5; Range::Whole(1, 100);
        /// Actions in the minibatch of a gradient step.
        minibatch_size: usize = 1024; Range::Whole(1, 1_000_000);
        /// Learning rate of Adam at the start.
        learning_rate: f64 = 1e-3; Range::Open(0.0, 1.0);
        /// Return that the critic estimates: discounted, or relative to the long-run average reward.
        criterion: Criterion = Criterion::Discounted; Range::Word(Criterion::WORDS);
        /// Discount factor γ per action; with the average-reward criterion only the unit of values, 1 − γ.
        gamma: f64 = 0.985; Range::Open(0.0, 1.0);
        /// λ of generalised advantage estimation; written κ in formulas, because λ denotes the multipliers.
        gae_lambda: f64 = 0.95; Range::Closed(0.0, 1.0);
        /// Clipping range ε of the probability ratio.
        clip_range: f64 = 0.2; Range::Open(0.0, 1.0);
        /// Initial standard deviation σ of continuous actions, in half-widths of their interval.
        init_std: f64 = 0.6; Range::Open(0.0, 10.0);
        /// Upper bound on σ at the end of training; execution uses the mean action.
        final_std: f64 = 0.05; Range::Open(0.0, 10.0);
        /// Coefficient of the entropy of discrete actions.
        ent_coef: f64 = 0.0; Range::Closed(0.0, 1.0);
        /// Lower bound on the standard deviation by which advantages are divided (smaller deviations are treated as noise).
        min_advantage_std: f64 = 0.0; Range::Closed(0.0, 1.0);
        /// Largest norm of the gradient.
        max_grad_norm: f64 = 0.5; POSITIVE;
        /// Widths of the hidden layers.
        hidden_sizes: Vec<usize> = vec![64, 64]; Range::Layers(1024);
        /// Distribution of the weights to train on.
        weight_sampler: WeightSampler = WeightSampler::DualTrajectory; Range::Word(WeightSampler::NORMALISED_WORDS);
    }
}

impl PpoConfig {
    /// Default number of environment steps of [`ExternalPpo`](super::ExternalPpo).
    pub const EXTERNAL_STEPS: u64 = 1_000_000;

    /// Default number of environments of [`ExternalPpo`](super::ExternalPpo).
    pub const EXTERNAL_ENVS: usize = 16;

    /// The defaults of [`ExternalPpo`](super::ExternalPpo). Such environments are slow, so fewer of them run side by side,
    /// each rollout is used for more gradient steps, and networks are wider. Most of them have episodes whose length is not
    /// known in advance, so the criterion is the average reward.
    pub fn external(num_envs: usize, total_steps: u64) -> Self {
        Self {
            total_steps: Some(total_steps),
            num_envs,
            n_steps: (EXTERNAL_BATCH / num_envs.max(1)).clamp(16, 512),
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

    /// Iterations that the training takes, with so many environment steps per action.
    pub(super) fn iterations(&self, action_repeat: usize) -> u64 {
        let total = self.total_steps.unwrap_or(DEFAULT_ACTIONS * action_repeat as u64);
        total.div_ceil((self.num_envs * self.n_steps * action_repeat) as u64).max(1)
    }

    /// Upper bound on σ when this share of the training is left: none in the first half, then one that decreases
    /// geometrically from `init_std` to `final_std`.
    pub(super) fn max_std(&self, left: f64) -> f64 {
        let free = (2.0 * left).clamp(0.0, 1.0);
        if free < 1.0 { self.init_std.powf(free) * self.final_std.powf(1.0 - free) } else { f64::INFINITY }
    }

    /// `Ok` if all settings are in their ranges, with at least so many environments.
    pub(super) fn check(&self, min_envs: usize) -> Result<(), LearnError> {
        self.check_ranges()?;
        if self.num_envs < min_envs {
            let expected = Range::Whole(min_envs as u64, 65_536).expected();
            return Err(LearnError::Setting { name: "num_envs", value: self.num_envs.to_string(), expected });
        }
        match self.weight_sampler {
            WeightSampler::Box { high } => Err(LearnError::Setting {
                name: "weight_sampler",
                value: format!("a box up to {high}"),
                expected: "no box: the weights are normalised".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}
