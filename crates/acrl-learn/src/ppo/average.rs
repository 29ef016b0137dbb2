//! The long-run averages ρ(w) of average-reward (differential) targets, learnt beside the critic.

use acrl::Rng;
use acrl_nn::{Adam, Batch, Mlp, Workspace};
use serde::{Deserialize, Serialize};

use super::networks::scale_outputs;
use super::rollout::Rollout;
use crate::LearnError;

/// A network that says what every reward comes to in the long run when the weights are w:
///
/// > ρ_i(w) = E[r_i(s, a) + v_i(s') − v_i(s)],
///
/// which holds for whatever states s the expectation is taken over, if v_i is the differential value of the policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Averages {
    network: Mlp,
    adam: Adam,
    #[serde(skip)]
    memory: Option<(Workspace, Vec<f32>)>,
}

/// Units of the one hidden layer: ρ is a function of a few weights, and bends where behaviours change.
const HIDDEN: usize = 64;
/// Steps on ρ in an iteration, and their size.
const STEPS: usize = 4;
const STEP_SIZE: f32 = 3e-3;
/// The share of their mean that values lose in an iteration: differential values are known up to a constant, which
/// would wander off.
const CENTRE: f32 = 0.1;

impl Averages {
    pub(crate) fn new(heads: usize, rng: &mut Rng) -> Result<Self, LearnError> {
        let network = Mlp::new(&[heads, HIDDEN, heads], 0.01, rng)
            .map_err(|e| LearnError::from(acrl::Error::Environment(e.to_string())))?;
        Ok(Self { adam: Adam::new(network.parameters().len()), network, memory: None })
    }

    /// The parameters, for a look at whether they are numbers.
    pub(crate) fn parameters(&self) -> &[f32] {
        self.network.parameters()
    }

    /// Measures rewards in other units: averages in the old ones times the factors are those in the new ones.
    pub(crate) fn rescale(&mut self, factors: &[f64]) {
        scale_outputs(&mut self.network, factors);
    }

    /// Moves ρ towards what a rollout with values says, and makes differential advantages of it:
    /// δ_t = r_t − ρ(w) + v_{t+1} − v_t. `unit` is the reward of a decision that has 1 all the time, and `left` the
    /// share of the step size that is left.
    pub(crate) fn advantages(&mut self, rollout: &mut Rollout, trace: f32, unit: f32, left: f32) {
        let (n, heads) = (rollout.num_envs, rollout.weights.len() / rollout.num_envs);
        let Self { network, adam, memory } = self;
        let (work, gradient) =
            memory.get_or_insert_with(|| (Workspace::new(network, n), vec![0.0; network.parameters().len()]));
        let mut weights = Batch::new(heads, n);
        for (head, row) in rollout.weights.chunks_exact(n).enumerate() {
            weights.row_mut(head).copy_from_slice(row);
        }
        let measured = rollout.drifts();
        let mut errors = Batch::new(heads, n);
        for _ in 0..STEPS {
            let said = network.forward(&weights, work);
            for head in 0..heads {
                let goal = &measured[head * n..(head + 1) * n];
                for ((error, said), goal) in errors.row_mut(head).iter_mut().zip(said.row(head)).zip(goal) {
                    *error = goal.map_or(0.0, |goal| (said - goal / unit) / n as f32);
                }
            }
            gradient.fill(0.0);
            network.backward(work, &errors, gradient);
            adam.step(network.parameters_mut(), gradient, STEP_SIZE * left);
        }
        let said = network.forward(&weights, work);
        let averages: Vec<f32> = said.iter_rows().flatten().map(|rho| rho * unit).collect();
        rollout.advantages(1.0, trace, Some(&averages));
        rollout.centre(CENTRE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One environment in a circle of two places, of which the second has reward 1: the average is ½, and going on from the
    /// first is worth ½ more than from the second.
    #[test]
    fn averages_and_differential_values_of_a_circle() {
        let mut rng = Rng::new(0);
        let mut averages = Averages::new(1, &mut rng).unwrap();
        let mut rollout = Rollout::new(4, 2, 1, 1, 1);
        rollout.weights.fill(1.0);
        // Lane 0 begins in the first place, environment 1 in the second.
        rollout.rewards.copy_from_slice(&[0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let mut values = [3.0f32, 3.0];
        for _ in 0..2_000 {
            for t in 0..5 {
                for env in 0..2 {
                    rollout.values[t * 2 + env] = values[(t + env) % 2];
                }
            }
            averages.advantages(&mut rollout, 0.5, 1.0, 1.0);
            for place in 0..2 {
                values[place] += 0.1 * (rollout.returns[place] - values[place]);
            }
        }
        // v(1) − v(0) = 1 − ρ = ½; the constant goes away.
        assert!((values[1] - values[0] - 0.5).abs() < 0.01, "{values:?}");
        assert!((values[0] + values[1]).abs() < 0.05, "{values:?}");
        // δ = 0 everywhere: the values are right.
        assert!(rollout.advantages.iter().all(|a| a.abs() < 0.02), "{:?}", rollout.advantages);
    }
}
