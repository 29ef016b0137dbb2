//! Dual descent: train to the end for a λ, see what the policy settles at, move λ, train on.
//!
//! > λ_{k+1} = \[λ_k + (η/√k) ḡ_k\]₊,
//!
//! with ḡ_k the mean deficit over the second half of round k, when the policy has settled. The budget is divided into rounds,
//! and a round goes on from the policy of the one before; its step size goes down to 0 in every round.
//!
//! **Guaranteed**, if each round finds a maximiser: λ approaches the optimal prices, as a subgradient method does.
//! **Not guaranteed**: that the last policy meets the requirements. It maximises the Lagrangian at λ_k, and at the optimal
//! prices there are several such policies: which one comes out is chance, and on Example 1 none of them is feasible.

use serde::{Deserialize, Serialize};

/// λ, and the round that is going on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DualDescent {
    step_size: f64,
    /// Stretches in a round.
    round: u64,
    /// Of which so many are done.
    done: u64,
    /// k: rounds that are over.
    rounds: u64,
    /// Σ g over the second half, and of how many.
    sums: Vec<f64>,
    counted: u64,
    multipliers: Vec<f64>,
}

impl DualDescent {
    /// λ = 0, and so many stretches in a round.
    pub(crate) fn new(step_size: f64, round: u64, m: usize) -> Self {
        let zeros = vec![0.0; m];
        Self {
            step_size,
            round: round.max(1),
            done: 0,
            rounds: 0,
            sums: zeros.clone(),
            counted: 0,
            multipliers: zeros,
        }
    }

    pub(crate) fn multipliers(&self) -> &[f64] {
        &self.multipliers
    }

    /// Adds up the second half of a round; at its end λ moves.
    pub(crate) fn observe(&mut self, deficits: &[f64]) {
        self.done += 1;
        if 2 * self.done > self.round {
            self.sums.iter_mut().zip(deficits).for_each(|(sum, g)| *sum += g);
            self.counted += 1;
        }
        if self.done < self.round {
            return;
        }
        self.rounds += 1;
        let step = self.step_size / (self.rounds as f64).sqrt() / self.counted as f64;
        for (l, sum) in self.multipliers.iter_mut().zip(&mut self.sums) {
            *l = (*l + step * std::mem::take(sum)).max(0.0);
        }
        (self.done, self.counted) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_counts_from_its_middle_and_steps_become_shorter() {
        let mut rule = DualDescent::new(2.0, 4, 1);
        for g in [9.0, 9.0, 0.1, 0.3] {
            assert_eq!(rule.multipliers(), [0.0]);
            rule.observe(&[g]);
        }
        assert!((rule.multipliers()[0] - 0.4).abs() < 1e-12);
        [9.0, 9.0, -0.1, -0.1].iter().for_each(|g| rule.observe(&[*g]));
        assert!((rule.multipliers()[0] - (0.4 - 0.2 / 2.0f64.sqrt())).abs() < 1e-12);
        let mut short = DualDescent::new(1.0, 0, 1);
        short.observe(&[0.5]);
        assert_eq!(short.multipliers(), [0.5]);
    }
}
