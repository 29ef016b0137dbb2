//! Generalised advantage estimation (Schulman et al. 2016).
//!
//! λ of the estimator is written κ, because λ denotes the multipliers.

use super::RolloutBuffer;

/// Advantages of one trajectory, from its last step to its first:
///
/// > A_t = δ_t + γκ A_{t+1},  δ_t = r_t + γ V(s_{t+1}) − V(s_t).
///
/// `values` has one entry more than `rewards`; writes A over the rewards.
///
/// ```
/// let mut rewards = [1.0, 0.0];
/// acrl_learn::ppo::advantages(&mut rewards, &[0.0, 1.0, 2.0], 0.5, 1.0);
/// assert_eq!(rewards, [1.5, 0.0]); // 1 + ½·1 − 0 + ½·A₁, with A₁ = ½·2 − 1
/// ```
pub fn advantages(rewards: &mut [f64], values: &[f64], gamma: f64, gae_lambda: f64) {
    let mut advantage = 0.0;
    for (reward, value) in rewards.iter_mut().zip(values.windows(2)).rev() {
        advantage = *reward + gamma * value[1] - value[0] + gamma * gae_lambda * advantage;
        *reward = advantage;
    }
}

impl RolloutBuffer {
    /// Advantages and returns of every head: δ_t = r_t − g + γ v_{t+1} − v_t, A_t = δ_t + γκ A_{t+1}, where g is 0 for
    /// discounted returns and the average reward for differential ones (with γ = 1), and γ is 0 where an episode ends.
    pub fn compute_advantages(&mut self, gamma: f32, gae_lambda: f32, averages: Option<&[f32]>) {
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        self.advantages.fill(0.0);
        let mut running = vec![0.0f32; n];
        for head in 0..self.weights.len() / n {
            let values = &self.values[head * longer..(head + 1) * longer];
            let rewards = &self.rewards[head * block..(head + 1) * block];
            let returns = &mut self.returns[head * block..(head + 1) * block];
            let weights = &self.weights[head * n..(head + 1) * n];
            running.fill(0.0);
            for t in (0..self.n_steps).rev() {
                let (now, next) = (&values[t * n..(t + 1) * n], &values[(t + 1) * n..(t + 2) * n]);
                for env in 0..n {
                    let average = averages.map_or(0.0, |g| g[head * n + env]);
                    let gamma = gamma * self.continues[t * n + env];
                    let delta = rewards[t * n + env] - average + gamma * next[env] - now[env];
                    running[env] = delta + gamma * gae_lambda * running[env];
                    returns[t * n + env] = running[env] + now[env];
                    self.advantages[t * n + env] += weights[env] * running[env];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_follow_the_gae_recursion_per_head() {
        let mut buffer = RolloutBuffer::new(2, 1, 1, 1, 2);
        buffer.rewards.copy_from_slice(&[1.0, 2.0, 0.0, 4.0]);
        buffer.values.copy_from_slice(&[0.5, 1.0, 2.0, 0.0, 1.0, 3.0]);
        buffer.weights.copy_from_slice(&[0.25, 0.75]);
        buffer.compute_advantages(0.5, 0.5, None);
        // Head 0: δ = (1 + .5 − .5, 2 + 1 − 1) = (1, 2), A = (1 + .25·2, 2); head 1: δ = (.5, 4.5), A = (1.625, 4.5).
        assert_eq!(buffer.advantages, [0.25 * 1.5 + 0.75 * 1.625, 0.25 * 2.0 + 0.75 * 4.5]);
        assert_eq!(buffer.returns, [2.0, 3.0, 1.625, 5.5]);
        buffer.compute_advantages(1.0, 0.0, Some(&[1.5, 0.0]));
        assert_eq!(buffer.advantages[0], 0.25 * (1.0 - 1.5 + 1.0 - 0.5) + 0.75 * 1.0);
    }
}
