//! What was experienced in one iteration, and the advantages that follow from it.

/// T decisions in each of N environments, as rows of T·N numbers: decision t of environment n is number t·N + n.
#[derive(Debug, Clone)]
pub(crate) struct Rollout {
    pub(crate) decisions: usize,
    pub(crate) num_envs: usize,
    /// What the networks saw; one more block of N for the state after the last decision.
    pub(crate) inputs: Vec<f32>,
    /// What was done, in the actor's units.
    pub(crate) actions: Vec<f32>,
    /// ln π(a) when it was done.
    pub(crate) log_probabilities: Vec<f32>,
    /// The rewards after it, a row per head of the critic.
    pub(crate) rewards: Vec<f32>,
    /// 1, or 0 where something ended after the decision so that what comes next is none of its concern.
    pub(crate) continues: Vec<f32>,
    /// Decisions of which nothing is learnt.
    pub(crate) ignored: Vec<bool>,
    /// Decisions that were not the policy's, because an action was held: of these only the critic learns.
    pub(crate) held: Vec<bool>,
    /// By environment: the weight of each head, constant in a rollout.
    pub(crate) weights: Vec<f32>,
    /// The critic's values, a row per head; one more block of N at the end.
    pub(crate) values: Vec<f32>,
    /// Σ_i w_i A_i.
    pub(crate) advantages: Vec<f32>,
    /// What the critic should have said, a row per head.
    pub(crate) returns: Vec<f32>,
}

impl Rollout {
    pub(crate) fn new(
        decisions: usize,
        num_envs: usize,
        inputs: usize,
        actions: usize,
        heads: usize,
    ) -> Self {
        let (block, longer) = (decisions * num_envs, (decisions + 1) * num_envs);
        Self {
            decisions,
            num_envs,
            inputs: vec![0.0; inputs * longer],
            actions: vec![0.0; actions * block],
            log_probabilities: vec![0.0; block],
            rewards: vec![0.0; heads * block],
            continues: vec![1.0; block],
            ignored: vec![false; block],
            held: vec![false; block],
            weights: vec![0.0; heads * num_envs],
            values: vec![0.0; heads * longer],
            advantages: vec![0.0; block],
            returns: vec![0.0; heads * block],
        }
    }

    /// The number of decisions in all environments.
    pub(crate) fn len(&self) -> usize {
        self.decisions * self.num_envs
    }

    /// The length of a row of `inputs` and `values`.
    pub(crate) fn longer(&self) -> usize {
        (self.decisions + 1) * self.num_envs
    }

    /// Generalised advantages: δ_t = r_t − g + γ v_{t+1} − v_t, A_t = δ_t + γ κ A_{t+1} for every head, where
    /// g is 0 for discounted targets and the average reward for differential ones (with γ = 1), and γ is 0
    /// where something ends.
    pub(crate) fn advantages(&mut self, discount: f32, trace: f32, averages: Option<&[f32]>) {
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        self.advantages.fill(0.0);
        let mut running = vec![0.0f32; n];
        for head in 0..self.weights.len() / n {
            let values = &self.values[head * longer..(head + 1) * longer];
            let rewards = &self.rewards[head * block..(head + 1) * block];
            let returns = &mut self.returns[head * block..(head + 1) * block];
            let weights = &self.weights[head * n..(head + 1) * n];
            running.fill(0.0);
            for t in (0..self.decisions).rev() {
                let (now, next) = (&values[t * n..(t + 1) * n], &values[(t + 1) * n..(t + 2) * n]);
                for env in 0..n {
                    let average = averages.map_or(0.0, |g| g[head * n + env]);
                    let discount = discount * self.continues[t * n + env];
                    let delta = rewards[t * n + env] - average + discount * next[env] - now[env];
                    running[env] = delta + discount * trace * running[env];
                    returns[t * n + env] = running[env] + now[env];
                    self.advantages[t * n + env] += weights[env] * running[env];
                }
            }
        }
    }

    /// By head and environment, the mean over the rollout of r_t + v_{t+1} − v_t: what the rewards come to in the long run, as
    /// far as differential values are right. `None` for an environment that made no step.
    pub(crate) fn drifts(&self) -> Vec<Option<f32>> {
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        let mut drifts = vec![None; self.weights.len()];
        for (head, drifts) in drifts.chunks_exact_mut(n).enumerate() {
            let values = &self.values[head * longer..(head + 1) * longer];
            let rewards = &self.rewards[head * block..(head + 1) * block];
            let (mut sums, mut counts) = (vec![0.0f32; n], vec![0.0f32; n]);
            for i in (0..block).filter(|i| !self.ignored[*i]) {
                sums[i % n] += rewards[i] + self.continues[i] * values[i + n] - values[i];
                counts[i % n] += 1.0;
            }
            for (drift, (sum, count)) in drifts.iter_mut().zip(sums.iter().zip(counts)) {
                *drift = (count > 0.0).then_some(sum / count);
            }
        }
        drifts
    }

    /// Takes a share of the mean value of each head off what its values should have been.
    pub(crate) fn centre(&mut self, share: f32) {
        let (block, longer) = (self.len(), self.longer());
        for (returns, values) in self.returns.chunks_exact_mut(block).zip(self.values.chunks_exact(longer)) {
            let mean = values.iter().sum::<f32>() / longer as f32;
            returns.iter_mut().for_each(|r| *r -= share * mean);
        }
    }

    /// Divides the advantages of each environment by √Σ w_i² σ_i², about what they come to at its weights, where σ_i is the deviation
    /// of head i's advantages, or `floor` if that is more. So environments whose weights are on a reward of which little is at stake
    /// count as much as others, and each still prefers what it preferred.
    ///
    /// `variances` σ_i² are kept from one rollout to the next: they grow at once, and are forgotten slowly, because a rare
    /// reward may be missing in many a rollout.
    pub(crate) fn balance(&mut self, variances: &mut Vec<f32>, floor: f32) {
        const FORGET: f32 = 0.1;
        let (n, block, longer) = (self.num_envs, self.len(), self.longer());
        variances.resize(self.weights.len() / n, 0.0);
        for (head, variance) in variances.iter_mut().enumerate() {
            let advantage = |k: usize| self.returns[head * block + k] - self.values[head * longer + k];
            let all = || (0..block).filter(|k| !self.ignored[*k]).map(advantage);
            let count = all().count().max(1) as f32;
            let mean = all().sum::<f32>() / count;
            let found = all().map(|a| (a - mean).powi(2)).sum::<f32>() / count;
            *variance = found.max(*variance + FORGET * (found - *variance));
        }
        for env in 0..n {
            let part = |(head, variance): (usize, &f32)| {
                self.weights[head * n + env].powi(2) * variance.max(floor * floor)
            };
            let size = variances.iter().enumerate().map(part).sum::<f32>().sqrt() + 1e-8;
            (0..self.decisions).for_each(|t| self.advantages[t * n + env] /= size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_are_those_of_the_recursion() {
        let mut rollout = Rollout::new(2, 1, 1, 1, 2);
        rollout.rewards.copy_from_slice(&[1.0, 2.0, 0.0, 4.0]);
        rollout.values.copy_from_slice(&[0.5, 1.0, 2.0, 0.0, 1.0, 3.0]);
        rollout.weights.copy_from_slice(&[0.25, 0.75]);
        rollout.advantages(0.5, 0.5, None);
        // Head 0: δ = (1 + .5 − .5, 2 + 1 − 1) = (1, 2), A = (1 + .25·2, 2); head 1: δ = (.5, 4.5), A = (1.625, 4.5).
        assert_eq!(rollout.advantages, [0.25 * 1.5 + 0.75 * 1.625, 0.25 * 2.0 + 0.75 * 4.5]);
        assert_eq!(rollout.returns, [2.0, 3.0, 1.625, 5.5]);
        rollout.advantages(1.0, 0.0, Some(&[1.5, 0.0]));
        assert_eq!(rollout.advantages[0], 0.25 * (1.0 - 1.5 + 1.0 - 0.5) + 0.75 * 1.0);
    }

    #[test]
    fn lanes_of_all_weights_count_alike() {
        // Two environments that care for one of two rewards each; of the second a hundredth is at stake.
        let mut rollout = Rollout::new(4, 2, 1, 1, 2);
        for t in 0..4 {
            let r = if t % 2 == 0 { 1.0 } else { -1.0 };
            for env in 0..2 {
                rollout.rewards[t * 2 + env] = r;
                rollout.rewards[8 + t * 2 + env] = 0.01 * r;
            }
        }
        rollout.weights.copy_from_slice(&[1.0, 0.0, 0.0, 1.0]);
        let mut variances = Vec::new();
        rollout.advantages(0.0, 0.0, None);
        assert_eq!(rollout.advantages[..2], [1.0, 0.01]);
        rollout.balance(&mut variances, 0.001);
        let near = |a: &[f32], b: [f32; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(near(&rollout.advantages[..2], [1.0, 1.0]), "{:?}", rollout.advantages);
        // What is smaller than the floor stays small.
        rollout.advantages(0.0, 0.0, None);
        rollout.balance(&mut Vec::new(), 0.1);
        assert!(near(&rollout.advantages[..2], [1.0, 0.1]), "{:?}", rollout.advantages);
        // A reward that is missing for once is not made much of.
        rollout.rewards[8..].iter_mut().for_each(|r| *r *= 0.01);
        rollout.advantages(0.0, 0.0, None);
        rollout.balance(&mut variances, 1e-6);
        assert!(rollout.advantages[1] < 0.011, "{:?}", rollout.advantages);
    }
}
