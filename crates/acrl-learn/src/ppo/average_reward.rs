//! Average-reward policy optimisation (Zhang & Ross 2021): the long-run averages ρ(w) that differential values (Wan et
//! al. 2021) are relative to, learnt beside the critic.

use acrl::Rng;
use acrl_nn::{Adam, Batch, Mlp, Workspace};
use serde::{Deserialize, Serialize};

use super::RolloutBuffer;
use super::normalize::scale_outputs;
use crate::LearnError;
use crate::tuning::average_reward::{CENTRING, GRADIENT_STEPS, HIDDEN, LEARNING_RATE, OUTPUT_GAIN};

/// Network that estimates the long-run average of every reward under the weights w:
///
/// > ρ_i(w) = E[r_i(s, a) + v_i(s') − v_i(s)],
///
/// which holds for any distribution of the states s, if v_i is the differential value of the policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AverageReward {
    network: Mlp,
    adam: Adam,
    #[serde(skip)]
    scratch: Option<(Workspace, Vec<f32>)>,
}

impl AverageReward {
    pub(crate) fn new(heads: usize, rng: &mut Rng) -> Result<Self, LearnError> {
        let network = Mlp::new(&[heads, HIDDEN, heads], OUTPUT_GAIN, rng)
            .map_err(|e| LearnError::from(acrl::Error::Environment(e.to_string())))?;
        Ok(Self { adam: Adam::new(network.parameters().len()), network, scratch: None })
    }

    /// The parameters of the network.
    pub(crate) fn parameters(&self) -> &[f32] {
        self.network.parameters()
    }

    /// Changes the units of the rewards: averages in the old ones times the factors are those in the new ones.
    pub(crate) fn rescale(&mut self, factors: &[f64]) {
        scale_outputs(&mut self.network, factors);
    }

    /// Fits ρ to a rollout with values, and computes differential advantages δ_t = r_t − ρ(w) + v_{t+1} − v_t. `unit` is
    /// the stored reward of an action whose rewards are 1 throughout, and `left` the share of the learning rate that is left.
    pub(crate) fn advantages(&mut self, buffer: &mut RolloutBuffer, gae_lambda: f32, unit: f32, left: f32) {
        let (n, heads) = (buffer.num_envs, buffer.weights.len() / buffer.num_envs);
        let Self { network, adam, scratch } = self;
        let (work, gradient) = scratch
            .get_or_insert_with(|| (Workspace::new(network, n), vec![0.0; network.parameters().len()]));
        let mut weights = Batch::new(heads, n);
        for (head, row) in buffer.weights.chunks_exact(n).enumerate() {
            weights.row_mut(head).copy_from_slice(row);
        }
        let measured = buffer.average_rewards();
        let mut errors = Batch::new(heads, n);
        for _ in 0..GRADIENT_STEPS {
            let estimate = network.forward(&weights, work);
            for head in 0..heads {
                let targets = &measured[head * n..(head + 1) * n];
                let pairs = estimate.row(head).iter().zip(targets);
                for (error, (estimate, target)) in errors.row_mut(head).iter_mut().zip(pairs) {
                    *error = target.map_or(0.0, |target| (estimate - target / unit) / n as f32);
                }
            }
            gradient.fill(0.0);
            network.backward(work, &errors, gradient);
            adam.step(network.parameters_mut(), gradient, LEARNING_RATE * left);
        }
        let estimate = network.forward(&weights, work);
        let averages: Vec<f32> = estimate.iter_rows().flatten().map(|rho| rho * unit).collect();
        buffer.compute_advantages(1.0, gae_lambda, Some(&averages));
        buffer.centre(CENTRING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two states in a cycle, the second with reward 1: the average is ½, and the second state is worth ½ more.
    #[test]
    fn averages_and_differential_values_of_a_cycle_are_found() {
        let mut rng = Rng::new(0);
        let mut averages = AverageReward::new(1, &mut rng).unwrap();
        let mut buffer = RolloutBuffer::new(4, 2, 1, 1, 1);
        buffer.weights.fill(1.0);
        // Environment 0 begins in the first state, environment 1 in the second.
        buffer.rewards.copy_from_slice(&[0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let mut values = [3.0f32, 3.0];
        for _ in 0..2_000 {
            for t in 0..5 {
                for env in 0..2 {
                    buffer.values[t * 2 + env] = values[(t + env) % 2];
                }
            }
            averages.advantages(&mut buffer, 0.5, 1.0, 1.0);
            for place in 0..2 {
                values[place] += 0.1 * (buffer.returns[place] - values[place]);
            }
        }
        // v(1) − v(0) = 1 − ρ = ½; the constant goes away.
        assert!((values[1] - values[0] - 0.5).abs() < 0.01, "{values:?}");
        assert!((values[0] + values[1]).abs() < 0.05, "{values:?}");
        // δ = 0 everywhere: the values are right.
        assert!(buffer.advantages.iter().all(|a| a.abs() < 0.02), "{:?}", buffer.advantages);
    }
}
