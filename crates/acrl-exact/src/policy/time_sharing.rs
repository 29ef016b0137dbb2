//! Executor that divides time between the policies of a mixture.

use acrl::{FinitePolicy, Multipliers, Rng};

use super::Executable;
use crate::tuning::{ROUND_BASE, ROUND_GROWTH, ROUND_PER_SIDE, SHORTEST_BLOCKS};

/// Time sharing: each policy of the mixture acts for its share of time, in blocks. Multipliers do not
/// matter.
///
/// Time is divided into rounds, and each round among the policies in proportion to their weights; blocks
/// too short to be worth a switch are saved up. Round k is k^(2/3) times as long as the first, so that
/// the share of time lost in switching goes to 0, and so does the deviation of a running average.
#[derive(Debug, Clone)]
pub struct TimeSharingExecutor<'a> {
    answer: &'a Executable,
    /// Length of every round, if they do not grow.
    fixed: Option<u64>,
    component: Option<usize>,
    /// Index of the acting policy.
    policy: usize,
    /// Number of steps left in the present block.
    left: u64,
    round: u64,
    /// Time owed to each policy.
    owed: Vec<f64>,
}

impl<'a> TimeSharingExecutor<'a> {
    /// Executor with rounds of this length, or growing ones.
    pub fn new(answer: &'a Executable, fixed: Option<u64>) -> Self {
        Self { answer, fixed, component: None, policy: 0, left: 0, round: 0, owed: Vec::new() }
    }

    /// Starts the next block.
    fn next(&mut self, component: usize) {
        let weights = &self.answer.components[component].weights;
        let states = self.answer.policies.first().map_or(0, Vec::len) as f64;
        let first = ROUND_BASE + ROUND_PER_SIDE * states.sqrt();
        let least =
            self.fixed.map_or(first / SHORTEST_BLOCKS, |length| (length as f64 / SHORTEST_BLOCKS).max(1.0));
        if self.owed.len() != weights.len() {
            self.owed = vec![0.0; weights.len()];
            self.policy = weights.len() - 1;
        }
        loop {
            self.policy += 1;
            if self.policy == weights.len() {
                let length = self
                    .fixed
                    .map_or(first * ((self.round + 1) as f64).powf(ROUND_GROWTH), |length| length as f64);
                self.owed.iter_mut().zip(weights).for_each(|(owed, w)| *owed += w * length);
                (self.round, self.policy) = (self.round + 1, 0);
            }
            if self.owed[self.policy] >= least {
                self.left = self.owed[self.policy] as u64;
                self.owed[self.policy] -= self.left as f64;
                return;
            }
        }
    }
}

impl FinitePolicy for TimeSharingExecutor<'_> {
    #[inline]
    fn act(&mut self, state: usize, _: &Multipliers, _: &mut Rng) -> usize {
        if self.component.is_none() {
            self.component = self.answer.settle(state);
        }
        let Some(component) = self.component else { return self.answer.step(state) };
        if self.left == 0 {
            self.next(component);
        }
        self.left -= 1;
        self.answer.policies[self.policy][state] as usize
    }
}
