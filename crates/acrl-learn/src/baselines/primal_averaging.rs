//! Primal averaging: store policies on the way of a primal-dual training, and execute them in turns.
//!
//! The average of the requirements over the training is what [primal-dual](super::primal_dual) guarantees; so a policy that is drawn
//! from those of the training, and held for a long stretch, has it too. Here n policies are stored at even distances over
//! the second half of the training, when λ has found its place, and one is drawn for every [`Snapshots::STRETCH`] steps.
//!
//! **Guaranteed**: the mean of what the stored policies settle at, with the shortfall (λ_n − λ_{n/2})/(ηn/2) of the second half, and
//! whatever n of them say wrongly about all. **Not guaranteed**: anything within a stretch, nor that λ stays bounded. **It costs**
//! n times the memory of one policy (a network of 64-64 has about 4,600 numbers: 32 of them take 600 kB), travel at every
//! change, and other bounds need another training.

use acrl::{BatchPolicy, Error, Rng, Rows};
use serde::{Deserialize, Serialize};

use crate::TrainedPolicy;

/// Whether a policy is to be stored after so many stretches of all, if n are to be had from the second half.
pub(super) fn is_due(done: u64, all: u64, n: usize) -> bool {
    let first = all / 2;
    let Some(late) = done.checked_sub(first).filter(|late| *late > 0) else { return false };
    // How many should be there by now; it goes up by 1 at even distances.
    let due = |late: u64| u128::from(late) * n as u128 / u128::from((all - first).max(1));
    due(late) > due(late - 1)
}

/// Policies that act in turns. What is done in a lane depends on nothing but that lane.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    policies: Vec<TrainedPolicy>,
    /// By lane: whose turn it is, and for how many steps.
    #[serde(skip)]
    turns: Vec<(usize, usize)>,
}

impl Snapshots {
    /// The steps for which a policy is held.
    pub const STRETCH: usize = 2_000;

    /// Of one policy or more.
    pub(crate) fn new(policies: Vec<TrainedPolicy>) -> Self {
        Self { policies, turns: Vec::new() }
    }

    /// The policies.
    pub fn policies(&self) -> &[TrainedPolicy] {
        &self.policies
    }

    /// The numbers that have to be stored.
    pub fn numbers(&self) -> usize {
        self.policies.iter().map(TrainedPolicy::numbers).sum()
    }
}

impl BatchPolicy for Snapshots {
    fn act(
        &mut self,
        observation: &Rows,
        weights: &Rows,
        actions: &mut Rows,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        let (lanes, hold) = (observation.lanes(), self.hold());
        if self.turns.len() != lanes {
            self.turns = vec![(0, 0); lanes];
        }
        let mut acting = vec![Vec::new(); self.policies.len()];
        for (lane, ((policy, left), rng)) in self.turns.iter_mut().zip(&mut *rngs).enumerate() {
            if *left == 0 {
                (*policy, *left) = (rng.index(acting.len()), Self::STRETCH);
            }
            *left = left.saturating_sub(hold);
            acting[*policy].push(lane);
        }
        for (policy, lanes) in self.policies.iter_mut().zip(&acting).filter(|(_, lanes)| !lanes.is_empty()) {
            let gather = |from: &Rows| {
                let mut some = Rows::zeros(from.len(), lanes.len());
                for row in 0..from.len() {
                    let values = some.row_mut(row).iter_mut().zip(lanes);
                    values.for_each(|(to, lane)| *to = from.at(row, *lane));
                }
                some
            };
            let mut some = Rows::zeros(actions.len(), lanes.len());
            let mut generators: Vec<Rng> = lanes.iter().map(|lane| rngs[*lane].clone()).collect();
            policy.act(&gather(observation), &gather(weights), &mut some, &mut generators)?;
            for (k, (lane, rng)) in lanes.iter().zip(generators).enumerate() {
                rngs[*lane] = rng;
                (0..some.len()).for_each(|row| actions.set(row, *lane, some.at(row, k)));
            }
        }
        Ok(())
    }

    fn hold(&self) -> usize {
        self.policies.first().map_or(1, BatchPolicy::hold)
    }
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn as_many_are_stored_as_asked_for_or_as_there_are() {
        for (all, n, expected) in [(244, 32, 32), (1_000_000, 32, 32), (7, 32, 4), (1, 5, 1), (10, 1, 1)] {
            let due: Vec<u64> = (1..=all).filter(|done| is_due(*done, all, n)).collect();
            assert_eq!(due.len(), expected, "{all} {n}");
            assert!(due.iter().all(|done| *done > all / 2) && due.last() == Some(&all));
        }
    }
}
