//! The return that a learner with a critic maximises.

use serde::{Deserialize, Serialize};

/// The optimality criterion of a learner with a critic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// The discounted return Σ γᵗ r_t. Discounting makes an agent stay where it is until another place is clearly
    /// better, which keeps an execution with short dual epochs from switching behaviour for ever.
    #[default]
    Discounted,
    /// The long-run average ρ, as in the paper: δ_t = r_t − ρ + V(s_{t+1}) − V(s_t), with ρ learnt beside the
    /// differential values V.
    AverageReward,
}

impl Criterion {
    /// The words for them in problem files.
    pub const WORDS: &[&str] = &["discounted", "average_reward"];
}
