//! The data of one iteration, from which the networks are updated.

use crate::tuning::normalize::ADVANTAGE_VARIANCE_DECAY;

/// Rollout of T actions in each of N environments, stored as rows of T·N numbers: action t of environment n is number
/// t·N + n.
#[derive(Debug, Clone)]
pub struct RolloutBuffer {
    /// T.
    pub n_steps: usize,
    /// N.
    pub num_envs: usize,
    /// Inputs of the networks; one more block of N for the state after the last action.
    pub inputs: Vec<f32>,
    /// Actions, in the actor's units.
    pub actions: Vec<f32>,
    /// ln π(a) under the policy that acted.
    pub log_probabilities: Vec<f32>,
    /// Rewards, a row per head of the critic.
    pub rewards: Vec<f32>,
    /// 1, or 0 where an episode ended after the action.
    pub continues: Vec<f32>,
    /// Entries without a transition, which are left out of updates.
    pub ignored: Vec<bool>,
    /// Actions that were repeated by exploration and not drawn from the policy: they train the critic only.
    pub sticky: Vec<bool>,
    /// Weights by head and environment, constant in a rollout.
    pub weights: Vec<f32>,
    /// Values, a row per head; one more block of N at the end.
    pub values: Vec<f32>,
    /// Scalarized advantages Σ_i w_i A_i.
    pub advantages: Vec<f32>,
    /// Targets of the critic, a row per head.
    pub returns: Vec<f32>,
}

impl RolloutBuffer {
    pub(crate) fn new(n_steps: usize, num_envs: usize, inputs: usize, actions: usize, heads: usize) -> Self {
        let (block, longer) = (n_steps * num_envs, (n_steps + 1) * num_envs);
        Self {
            n_steps,
            num_envs,
            inputs: vec![0.0; inputs * longer],
            actions: vec![0.0; actions * block],
            log_probabilities: vec![0.0; block],
            rewards: vec![0.0; heads * block],
            continues: vec![1.0; block],
            ignored: vec![false; block],
            sticky: vec![false; block],
            weights: vec![0.0; heads * num_envs],
            values: vec![0.0; heads * longer],
            advantages: vec![0.0; block],
            returns: vec![0.0; heads * block],
        }
    }

    /// Number of actions in all environments.
    pub(crate) fn len(&self) -> usize {
        self.n_steps * self.num_envs
    }

    /// Length of a row of `inputs` and `values`.
    pub(crate) fn longer(&self) -> usize {
        (self.n_steps + 1) * self.num_envs
    }

    /// Explained variance 1 − Var(R − v)/Var(R) of the scalarized returns R = Σ w_i R_i by the values that the critic gave
    /// them before the update; 0 where all returns are equal.
    pub(crate) fn explained_variance(&self) -> f64 {
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        let [mut count, mut sum, mut squares, mut error, mut errors] = [0.0f64; 5];
        for i in (0..block).filter(|i| !self.ignored[*i]) {
            let (mut scalar, mut off) = (0.0, 0.0);
            for head in 0..self.weights.len() / n {
                let w = f64::from(self.weights[head * n + i % n]);
                let (target, value) = (self.returns[head * block + i], self.values[head * longer + i]);
                scalar += w * f64::from(target);
                off += w * f64::from(target - value);
            }
            count += 1.0;
            (sum, squares) = (sum + scalar, squares + scalar * scalar);
            (error, errors) = (error + off, errors + off * off);
        }
        let variance = squares - sum * sum / count;
        if variance > 0.0 { 1.0 - (errors - error * error / count) / variance } else { 0.0 }
    }

    /// Mean over the rollout of r_t + v_{t+1} − v_t by head and environment: an estimate of the average reward, as far as
    /// the differential values are right. `None` for an environment without a transition.
    pub(crate) fn average_rewards(&self) -> Vec<Option<f32>> {
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        let mut averages = vec![None; self.weights.len()];
        for (head, averages) in averages.chunks_exact_mut(n).enumerate() {
            let values = &self.values[head * longer..(head + 1) * longer];
            let rewards = &self.rewards[head * block..(head + 1) * block];
            let (mut sums, mut counts) = (vec![0.0f32; n], vec![0.0f32; n]);
            for i in (0..block).filter(|i| !self.ignored[*i]) {
                sums[i % n] += rewards[i] + self.continues[i] * values[i + n] - values[i];
                counts[i % n] += 1.0;
            }
            for (average, (sum, count)) in averages.iter_mut().zip(sums.iter().zip(counts)) {
                *average = (count > 0.0).then_some(sum / count);
            }
        }
        averages
    }

    /// Subtracts a share of the mean value of each head from the targets of the critic.
    pub(crate) fn centre(&mut self, share: f32) {
        let (block, longer) = (self.len(), self.longer());
        for (returns, values) in self.returns.chunks_exact_mut(block).zip(self.values.chunks_exact(longer)) {
            let mean = values.iter().sum::<f32>() / longer as f32;
            returns.iter_mut().for_each(|r| *r -= share * mean);
        }
    }

    /// Divides the advantages of each environment by √Σ w_i² σ_i², about their standard deviation at its weights, where
    /// σ_i is the standard deviation of head i's advantages, or `floor` if that is more. So a weighting under
    /// which little is at stake contributes as much to the gradient as others, and the order of its actions is kept.
    ///
    /// `variances` σ_i² persist between rollouts: they grow at once and decay slowly, because a rare reward may be missing
    /// from many rollouts.
    pub(crate) fn normalize_advantages_per_weight(&mut self, variances: &mut Vec<f32>, floor: f32) {
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        variances.resize(self.weights.len() / n, 0.0);
        for (head, variance) in variances.iter_mut().enumerate() {
            let advantage = |k: usize| self.returns[head * block + k] - self.values[head * longer + k];
            let all = || (0..block).filter(|k| !self.ignored[*k]).map(advantage);
            let count = all().count().max(1) as f32;
            let mean = all().sum::<f32>() / count;
            let found = all().map(|a| (a - mean).powi(2)).sum::<f32>() / count;
            *variance = found.max(*variance + ADVANTAGE_VARIANCE_DECAY * (found - *variance));
        }
        for env in 0..n {
            let part = |(head, variance): (usize, &f32)| {
                self.weights[head * n + env].powi(2) * variance.max(floor * floor)
            };
            let size = variances.iter().enumerate().map(part).sum::<f32>().sqrt() + 1e-8;
            (0..self.n_steps).for_each(|t| self.advantages[t * n + env] /= size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_are_normalized_per_weighting() {
        // Two environments with all weight on one of two rewards each; the second is a hundred times smaller.
        let mut buffer = RolloutBuffer::new(4, 2, 1, 1, 2);
        for t in 0..4 {
            let r = if t % 2 == 0 { 1.0 } else { -1.0 };
            for env in 0..2 {
                buffer.rewards[t * 2 + env] = r;
                buffer.rewards[8 + t * 2 + env] = 0.01 * r;
            }
        }
        buffer.weights.copy_from_slice(&[1.0, 0.0, 0.0, 1.0]);
        let mut variances = Vec::new();
        buffer.compute_advantages(0.0, 0.0, None);
        assert_eq!(buffer.advantages[..2], [1.0, 0.01]);
        buffer.normalize_advantages_per_weight(&mut variances, 0.001);
        let near = |a: &[f32], b: [f32; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(near(&buffer.advantages[..2], [1.0, 1.0]), "{:?}", buffer.advantages);
        // Advantages below the floor stay small.
        buffer.compute_advantages(0.0, 0.0, None);
        buffer.normalize_advantages_per_weight(&mut Vec::new(), 0.1);
        assert!(near(&buffer.advantages[..2], [1.0, 0.1]), "{:?}", buffer.advantages);
        // A reward that is missing from one rollout is not amplified.
        buffer.rewards[8..].iter_mut().for_each(|r| *r *= 0.01);
        buffer.compute_advantages(0.0, 0.0, None);
        buffer.normalize_advantages_per_weight(&mut variances, 1e-6);
        assert!(buffer.advantages[1] < 0.011, "{:?}", buffer.advantages);
    }

    #[test]
    fn explained_variance_is_one_for_a_perfect_critic_and_zero_for_a_constant_one() {
        let mut buffer = RolloutBuffer::new(3, 1, 1, 1, 1);
        buffer.weights.fill(1.0);
        buffer.returns.copy_from_slice(&[1.0, 2.0, 6.0]);
        buffer.values.copy_from_slice(&[1.0, 2.0, 6.0, 0.0]);
        assert!((buffer.explained_variance() - 1.0).abs() < 1e-12);
        buffer.values.fill(3.0);
        assert!(buffer.explained_variance().abs() < 1e-12);
        buffer.returns.fill(1.0);
        assert_eq!(buffer.explained_variance(), 0.0);
    }
}
