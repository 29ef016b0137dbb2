//! What a critic is to learn, and the advantages that follow from it.

use serde::{Deserialize, Serialize};

/// The return that a learner with a critic maximises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Σ γᵗ r_t. The discount makes an agent stay where it is until another place is clearly better, which
    /// keeps an execution with a short epoch from turning round for ever.
    #[default]
    Discounted,
    /// The long-run average ρ, as in the paper: δ_t = r_t − ρ + V(s_{t+1}) − V(s_t), with ρ learnt beside V.
    Average,
}

/// Generalised advantage estimation, from the last step to the first:
///
/// > A_t = δ_t + γλ A_{t+1},  δ_t = r_t + γ V(s_{t+1}) − V(s_t).
///
/// `values` has one number more than `rewards`; writes A over the rewards.
///
/// ```
/// let mut rewards = [1.0, 0.0];
/// acrl_learn::targets::advantages(&mut rewards, &[0.0, 1.0, 2.0], 0.5, 1.0);
/// assert_eq!(rewards, [1.5, 0.0]); // 1 + ½·1 − 0 + ½·A₁, with A₁ = ½·2 − 1
/// ```
pub fn advantages(rewards: &mut [f64], values: &[f64], gamma: f64, lambda: f64) {
    let mut advantage = 0.0;
    for (reward, value) in rewards.iter_mut().zip(values.windows(2)).rev() {
        advantage = *reward + gamma * value[1] - value[0] + gamma * lambda * advantage;
        *reward = advantage;
    }
}
