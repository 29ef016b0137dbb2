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

use acrl::{BatchMatrix, Error, Rng, VecPolicy};
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

/// Policies that act in turns. What is done in an environment depends on nothing but that environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    policies: Vec<TrainedPolicy>,
    /// By environment: whose turn it is, and for how many steps.
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

impl VecPolicy for Snapshots {
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        let (num_envs, hold) = (observation.num_envs(), self.action_repeat());
        if self.turns.len() != num_envs {
            self.turns = vec![(0, 0); num_envs];
        }
        let mut acting = vec![Vec::new(); self.policies.len()];
        for (env, ((policy, left), rng)) in self.turns.iter_mut().zip(&mut *rngs).enumerate() {
            if *left == 0 {
                (*policy, *left) = (rng.index(acting.len()), Self::STRETCH);
            }
            *left = left.saturating_sub(hold);
            acting[*policy].push(env);
        }
        for (policy, num_envs) in
            self.policies.iter_mut().zip(&acting).filter(|(_, num_envs)| !num_envs.is_empty())
        {
            let gather = |from: &BatchMatrix| {
                let mut some = BatchMatrix::zeros(from.len(), num_envs.len());
                for row in 0..from.len() {
                    let values = some.row_mut(row).iter_mut().zip(num_envs);
                    values.for_each(|(to, env)| *to = from.at(row, *env));
                }
                some
            };
            let mut some = BatchMatrix::zeros(actions.len(), num_envs.len());
            let mut generators: Vec<Rng> = num_envs.iter().map(|env| rngs[*env].clone()).collect();
            policy.act(&gather(observation), &gather(weights), &mut some, &mut generators)?;
            for (k, (env, rng)) in num_envs.iter().zip(generators).enumerate() {
                rngs[*env] = rng;
                (0..some.len()).for_each(|row| actions.set(row, *env, some.at(row, k)));
            }
        }
        Ok(())
    }

    fn action_repeat(&self) -> usize {
        self.policies.first().map_or(1, VecPolicy::action_repeat)
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
