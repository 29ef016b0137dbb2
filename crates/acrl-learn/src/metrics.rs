//! Metrics of an iteration, by the tags of Stable-Baselines3.

use acrl::{BatchMatrix, VecTask};

/// Metrics of an update of PPO.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpdateMetrics {
    /// Mean of −min(ρ A, clip(ρ) A).
    pub(crate) policy_gradient_loss: f64,
    /// Mean squared error of the critic, halved.
    pub(crate) value_loss: f64,
    /// Mean σ of continuous actions.
    pub(crate) std: f64,
    /// Share of the actions at which the clip was active.
    pub(crate) clip_fraction: f64,
    /// Estimate of the KL divergence of the new policy from the one that acted, E[ρ − 1 − ln ρ].
    pub(crate) approx_kl: f64,
    /// Explained variance of the returns by the values before the update.
    pub(crate) explained_variance: f64,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl UpdateMetrics {
    /// Adds the sums of another part of a minibatch.
    pub(crate) fn add(&mut self, other: Self) {
        self.policy_gradient_loss += other.policy_gradient_loss;
        self.value_loss += other.value_loss;
        self.clip_fraction += other.clip_fraction;
        self.approx_kl += other.approx_kl;
    }

    /// The metrics with their tags.
    pub(crate) fn entries(self) -> impl Iterator<Item = (String, f64)> {
        let entries = [
            ("train/policy_gradient_loss", self.policy_gradient_loss),
            ("train/value_loss", self.value_loss),
            ("train/std", self.std),
            ("train/clip_fraction", self.clip_fraction),
            ("train/approx_kl", self.approx_kl),
            ("train/explained_variance", self.explained_variance),
            ("train/learning_rate", self.learning_rate),
        ];
        entries.into_iter().map(|(name, value)| (name.to_owned(), value))
    }

    /// The metrics of an iteration: of its rollout the mean of w·r in units of R, and the progress on the reward that is
    /// furthest behind; and those of the update.
    pub(crate) fn named(
        self,
        means: &BatchMatrix,
        weights: &[f32],
        progress: &[f64],
        objective: bool,
    ) -> impl Iterator<Item = (String, f64)> {
        let (num_envs, first) = (means.num_envs(), usize::from(!objective));
        let heads = means.as_slice()[first * num_envs..].iter();
        let reward = heads.zip(weights).map(|(r, w)| r * f64::from(*w)).sum::<f64>() / num_envs as f64;
        let progress = progress[first..].iter().copied().fold(f64::INFINITY, f64::min);
        let rollout = [("rollout/scalarized_reward", reward), ("rollout/min_objective_progress", progress)];
        rollout.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(self.entries())
    }
}

/// Mean of each reward of the task per environment step of a rollout, in the user's units and signs, under
/// `rollout/reward/NAME`. `means` are those of r₀ … r_m in units of `scales`.
pub(crate) fn reward_metrics(
    task: &VecTask<'_>,
    scales: &[f64],
    means: &[f64],
) -> impl Iterator<Item = (String, f64)> {
    let names = task.environment().reward_names();
    let scoring = task.specification().bind(names);
    let terms: Vec<_> = scoring.iter().flat_map(|scoring| scoring.terms()).collect();
    let means: Vec<f64> = means.iter().zip(scales).map(|(mean, scale)| mean * scale).collect();
    named_rewards(names, &terms, &means).into_iter()
}

/// [`reward_metrics`] of r₀ … r_m in their own units, given the environment's reward and the sign of each of them.
pub(crate) fn named_rewards(
    names: &[String],
    terms: &[Option<(usize, f64)>],
    means: &[f64],
) -> Vec<(String, f64)> {
    let mut metrics: Vec<(String, f64)> = Vec::new();
    for (term, mean) in terms.iter().zip(means) {
        let Some((name, sign)) = term.and_then(|(row, sign)| Some((names.get(row)?, sign))) else { continue };
        let tag = format!("rollout/reward/{name}");
        // Several requirements may be on the same reward.
        if metrics.iter().all(|(known, _)| *known != tag) {
            // Without the sign of −0.
            metrics.push((tag, sign * mean + 0.0));
        }
    }
    metrics
}
