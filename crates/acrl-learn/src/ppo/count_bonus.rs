//! What is new: a reward of its own for environments that care for something never seen, until it is.
//!
//! Of a reward that was 0 at every step so far nothing can be learnt, and where actions at random do not lead to it, it is
//! not found. Whoever cares for it is rewarded for being where nobody has been, instead:
//!
//! > b(s) = max_k 1/√n_k(s_k),
//!
//! where n_k(x) is how often the k-th number of what is seen has been about x. Numbers are counted one by one: together
//! they would be new in every state of many numbers.

use serde::{Deserialize, Serialize};

use super::rollout::Rollout;

/// How often each number of what is seen has been about each of its values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountBonus {
    /// By head of the critic: whether its reward is one that nothing was to be seen of.
    heads: Vec<bool>,
    /// By number, the visits of each of its bins.
    counts: Vec<f32>,
}

impl CountBonus {
    /// Bins of a number from −1 to 1, to which it is scaled, and on either side of that, where four make twice as much: what
    /// has not been seen yet may be far from what has.
    const INSIDE: usize = 32;
    const OUTSIDE: usize = 16;
    const BINS: usize = Self::INSIDE + 2 * Self::OUTSIDE;

    pub(super) fn new(heads: Vec<bool>) -> Self {
        Self { heads, counts: Vec::new() }
    }

    /// Counts what a rollout saw in the first `rows` of its inputs, and adds `factor` b of what each decision led to to the rewards
    /// of the heads in question.
    pub(super) fn reward(&mut self, rollout: &mut Rollout, rows: usize, factor: f32) {
        if factor <= 0.0 || !self.heads.contains(&true) {
            return;
        }
        self.counts.resize(rows * Self::BINS, 0.0);
        let (n, block, longer) = (rollout.num_envs, rollout.len(), rollout.longer());
        let bin = |row: usize, x: f32| row * Self::BINS + Self::bin(x);
        for row in 0..rows {
            for i in n..longer {
                self.counts[bin(row, rollout.inputs[row * longer + i])] += 1.0;
            }
        }
        for i in (0..block).filter(|i| !rollout.ignored[*i] && rollout.continues[*i] > 0.0) {
            let visits = (0..rows).map(|row| self.counts[bin(row, rollout.inputs[row * longer + n + i])]);
            let bonus = factor / visits.fold(f32::INFINITY, f32::min).max(1.0).sqrt();
            for (head, rare) in self.heads.iter().enumerate() {
                if *rare {
                    rollout.rewards[head * block + i] += bonus;
                }
            }
        }
    }

    /// The bin of a number.
    fn bin(x: f32) -> usize {
        if x.abs() <= 1.0 {
            let inside = (0.5 * (x + 1.0) * Self::INSIDE as f32) as usize;
            return Self::OUTSIDE + inside.min(Self::INSIDE - 1);
        }
        let outside = ((4.0 * x.abs().log2()) as usize).min(Self::OUTSIDE - 1);
        if x > 0.0 { Self::OUTSIDE + Self::INSIDE + outside } else { Self::OUTSIDE - 1 - outside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_away_there_is_something_new_too() {
        let bins = [-1e9, -17.0, -1.3, -1.05, -1.0, -0.97, -0.9, 0.0, 1.0, 1.05, 1.3, 17.0, 1e9]
            .map(CountBonus::bin);
        assert_eq!(bins, [0, 0, 14, 15, 16, 16, 17, 32, 47, 48, 49, 63, 63]);
    }

    #[test]
    fn who_cares_for_what_was_never_seen_is_rewarded_for_what_is_new() {
        // Two environments; what is seen is 0 all the time, but for one step of the first environment to 1, and for the weight beside it.
        let mut rollout = Rollout::new(4, 2, 2, 1, 2);
        rollout.inputs[4] = 0.9;
        rollout.inputs[10..].copy_from_slice(&[0.1, -0.3, 0.5, 0.7, -0.9, 0.2, 0.4, 0.6, 0.8, 1.0]);
        rollout.ignored[3] = true;
        rollout.continues[6] = 0.0;
        let mut novelty = CountBonus::new(vec![false, true]);
        novelty.reward(&mut rollout, 1, 0.5);
        assert!(rollout.rewards[..8].iter().all(|r| *r == 0.0), "of this one something was seen");
        // Seven of eight visits are to 0; the first environment's second decision led to what it saw then.
        let usual = 0.5 / 7f32.sqrt();
        assert_eq!(rollout.rewards[8..], [usual, usual, 0.5, 0.0, usual, usual, 0.0, usual]);
        // The second time it is less new.
        rollout.rewards.fill(0.0);
        novelty.reward(&mut rollout, 1, 0.5);
        assert_eq!(rollout.rewards[10], 0.5 / 2f32.sqrt());
        rollout.rewards.fill(0.0);
        novelty.reward(&mut rollout, 1, 0.0);
        CountBonus::new(vec![false, false]).reward(&mut rollout, 1, 0.5);
        assert!(rollout.rewards.iter().all(|r| *r == 0.0));
    }
}
