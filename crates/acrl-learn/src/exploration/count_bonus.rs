//! Count-based exploration bonus (Strehl & Littman 2008) for rewards that have never been non-zero.
//!
//! > b(s) = max_k 1/√n_k(s_k),
//!
//! where n_k(x) counts the visits of the bin of x in dimension k of the observation: joint counts would make every
//! high-dimensional state novel. The bonus replaces the missing reward and is annealed to zero by mid-training.

use serde::{Deserialize, Serialize};

use crate::ppo::RolloutBuffer;
use crate::tuning::exploration::{INSIDE, OUTSIDE};

/// Visit counts by dimension of the observation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountBonus {
    /// Whether the reward of each head of the critic was always 0 in the warm-up.
    heads: Vec<bool>,
    /// Visits of each bin, by dimension.
    counts: Vec<f32>,
}

impl CountBonus {
    const BINS: usize = INSIDE + 2 * OUTSIDE;

    pub(crate) fn new(heads: Vec<bool>) -> Self {
        Self { heads, counts: Vec::new() }
    }

    /// Counts the observations of a rollout, which are the first `rows` of its inputs, and adds `factor` b(s') to the
    /// rewards of the heads without observed rewards.
    pub(crate) fn reward(&mut self, buffer: &mut RolloutBuffer, rows: usize, factor: f32) {
        if factor <= 0.0 || !self.heads.contains(&true) {
            return;
        }
        self.counts.resize(rows * Self::BINS, 0.0);
        let (n, block, longer) = (buffer.num_envs, buffer.len(), buffer.longer());
        let bin = |row: usize, x: f32| row * Self::BINS + Self::bin(x);
        for row in 0..rows {
            for i in n..longer {
                self.counts[bin(row, buffer.inputs[row * longer + i])] += 1.0;
            }
        }
        for i in (0..block).filter(|i| !buffer.ignored[*i] && buffer.continues[*i] > 0.0) {
            let visits = (0..rows).map(|row| self.counts[bin(row, buffer.inputs[row * longer + n + i])]);
            let bonus = factor / visits.fold(f32::INFINITY, f32::min).max(1.0).sqrt();
            for (head, rare) in self.heads.iter().enumerate() {
                if *rare {
                    buffer.rewards[head * block + i] += bonus;
                }
            }
        }
    }

    /// Bin of a number.
    fn bin(x: f32) -> usize {
        if x.abs() <= 1.0 {
            let inside = (0.5 * (x + 1.0) * INSIDE as f32) as usize;
            return OUTSIDE + inside.min(INSIDE - 1);
        }
        let outside = ((4.0 * x.abs().log2()) as usize).min(OUTSIDE - 1);
        if x > 0.0 { OUTSIDE + INSIDE + outside } else { OUTSIDE - 1 - outside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_outside_the_unit_interval_are_logarithmic() {
        let bins = [-1e9, -17.0, -1.3, -1.05, -1.0, -0.97, -0.9, 0.0, 1.0, 1.05, 1.3, 17.0, 1e9]
            .map(CountBonus::bin);
        assert_eq!(bins, [0, 0, 14, 15, 16, 16, 17, 32, 47, 48, 49, 63, 63]);
    }

    #[test]
    fn count_bonus_applies_only_to_unobserved_rewards() {
        // Two environments; the observation is 0 except for one step of the first environment, beside a weight as input.
        let mut buffer = RolloutBuffer::new(4, 2, 2, 1, 2);
        buffer.inputs[4] = 0.9;
        buffer.inputs[10..].copy_from_slice(&[0.1, -0.3, 0.5, 0.7, -0.9, 0.2, 0.4, 0.6, 0.8, 1.0]);
        buffer.ignored[3] = true;
        buffer.continues[6] = 0.0;
        let mut bonus = CountBonus::new(vec![false, true]);
        bonus.reward(&mut buffer, 1, 0.5);
        assert!(buffer.rewards[..8].iter().all(|r| *r == 0.0), "this reward was observed");
        // Seven of eight visits are to the bin of 0; the first environment's second action led to the eighth.
        let common = 0.5 / 7f32.sqrt();
        assert_eq!(buffer.rewards[8..], [common, common, 0.5, 0.0, common, common, 0.0, common]);
        // The bonus decreases with the second visit.
        buffer.rewards.fill(0.0);
        bonus.reward(&mut buffer, 1, 0.5);
        assert_eq!(buffer.rewards[10], 0.5 / 2f32.sqrt());
        buffer.rewards.fill(0.0);
        bonus.reward(&mut buffer, 1, 0.0);
        CountBonus::new(vec![false, false]).reward(&mut buffer, 1, 0.5);
        assert!(buffer.rewards.iter().all(|r| *r == 0.0));
    }
}
