//! Settings of the off-policy learner.

use crate::settings::{Range, STEPS, Settings, settings};
use crate::{Criterion, LearnError, WeightSampler};

settings! {
    /// The settings of [`Sac`](super::Sac).
    pub struct SacConfig {
        /// Environment steps of the training, in all environments.
        total_steps: u64 = 200_000; STEPS;
        /// Parallel copies of the environment.
        num_envs: usize = 1; Range::Whole(1, 65_536);
        /// Learning rate of Adam.
        learning_rate: f64 = 7e-4; Range::Open(0.0, 1.0);
        /// Transitions that the replay buffer holds; the oldest are replaced.
        buffer_size: usize = 1_000_000; Range::Whole(1, 1_000_000_000);
        /// Environment steps with random actions before the first gradient step; at most a quarter of the training.
        learning_starts: u64 = 3_000; STEPS;
        /// Transitions of a gradient step.
        batch_size: usize = 128; Range::Whole(1, 65_536);
        /// Rate of the Polyak averages: target critics and average rewards.
        tau: f64 = 0.005; Range::HalfOpen(0.0, 1.0);
        /// Discount factor γ; not used by the average-reward criterion.
        gamma: f64 = 0.99; Range::Open(0.0, 1.0);
        /// Steps of the parallel environments between two updates.
        train_freq: usize = 1; Range::Whole(1, 65_536);
        /// Gradient steps of an update.
        gradient_steps: Option<usize> = None, ("one per environment step"); Range::Whole(1, 1_000_000);
        /// Gradient steps of the critic per gradient step of the actor.
        policy_delay: usize = 2; Range::Whole(1, 1000);
        /// Coefficient of the entropy of continuous actions; it is learnt unless given.
        ent_coef: Option<f64> = None, ("learnt"); Range::Closed(0.0, 1000.0);
        /// Entropy that the learnt coefficient leads to, for actions from −1 to 1.
        target_entropy: Option<f64> = None, ("−1 per part of an action"); Range::Closed(-1e6, 1e6);
        /// Share of the training in which the probability of a random discrete action decreases.
        exploration_fraction: f64 = 0.15; Range::HalfOpen(0.0, 1.0);
        /// Probability of a random discrete action after that.
        exploration_final_eps: f64 = 0.05; Range::Closed(0.0, 1.0);
        /// Widths of the hidden layers.
        hidden_sizes: Vec<usize> = vec![128, 128]; Range::Layers(1024);
        /// Return that the critic estimates: discounted and over at the end of an episode, or relative to the long-run average.
        criterion: Criterion = Criterion::Discounted; Range::Word(Criterion::WORDS);
        /// Distribution of the weights to act with.
        weight_sampler: WeightSampler = WeightSampler::DualTrajectory; Range::Word(WeightSampler::NORMALISED_WORDS);
        /// Share of a batch whose weights are drawn anew (hindsight relabelling); the others keep those that acted.
        relabel_fraction: f64 = 0.5; Range::Closed(0.0, 1.0);
    }
}

impl SacConfig {
    /// Environment steps with random actions.
    pub(super) fn random_steps(&self) -> u64 {
        self.learning_starts.min(self.total_steps / 4)
    }

    /// `Ok` if all settings are in their ranges.
    pub(super) fn check(&self) -> Result<(), LearnError> {
        self.check_ranges()?;
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
