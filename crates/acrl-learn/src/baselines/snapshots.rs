//! Primal averaging: policies are stored during a primal-dual training, and executed in turns.
//!
//! Primal-dual guarantees the averages over the training; so does a policy that is drawn from those of the training and
//! kept for long. Here n policies are stored at even distances over the second half of the training, when λ has
//! converged, and one is drawn for every [`Snapshots::STEPS_PER_TURN`] steps.
//!
//! **Guaranteed**: the mean of the long-run averages of the stored policies, with the shortfall (λ_n − λ_{n/2})/(ηn/2) of the
//! second half and the sampling error of n policies. **Not guaranteed**: anything within a turn, nor that λ stays
//! bounded. **Cost**: n times the memory of one policy (a network of 64-64 has about 4,600 parameters: 32 of them take
//! 600 kB), travel at every switch, and another training for other bounds.

use acrl::{BatchMatrix, Error, Rng, VecPolicy};
use serde::{Deserialize, Serialize};

use crate::TrainedPolicy;

/// Whether a policy is to be stored after `done` of `all` rollouts, for n in the second half.
pub(super) fn is_due(done: u64, all: u64, n: usize) -> bool {
    let first = all / 2;
    let Some(late) = done.checked_sub(first).filter(|late| *late > 0) else { return false };
    // Number that should be stored by now, which increases by 1 at even distances.
    let due = |late: u64| u128::from(late) * n as u128 / u128::from((all - first).max(1));
    due(late) > due(late - 1)
}

/// Policies that act in turns. Actions in an environment depend on that environment only.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    policies: Vec<TrainedPolicy>,
    /// Present policy of each environment, and its remaining steps.
    #[serde(skip)]
    turns: Vec<(usize, usize)>,
}

impl Snapshots {
    /// Steps for which a policy is kept.
    pub const STEPS_PER_TURN: usize = 2_000;

    /// Snapshots of one policy or more.
    pub(crate) fn new(policies: Vec<TrainedPolicy>) -> Self {
        Self { policies, turns: Vec::new() }
    }

    /// The policies.
    pub fn policies(&self) -> &[TrainedPolicy] {
        &self.policies
    }

    /// Number of stored parameters.
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
                (*policy, *left) = (rng.index(acting.len()), Self::STEPS_PER_TURN);
            }
            *left = left.saturating_sub(hold);
            acting[*policy].push(env);
        }
        for (policy, envs) in self.policies.iter_mut().zip(&acting).filter(|(_, envs)| !envs.is_empty()) {
            let gather = |from: &BatchMatrix| {
                let mut some = BatchMatrix::zeros(from.len(), envs.len());
                for row in 0..from.len() {
                    let values = some.row_mut(row).iter_mut().zip(envs);
                    values.for_each(|(to, env)| *to = from.at(row, *env));
                }
                some
            };
            let mut some = BatchMatrix::zeros(actions.len(), envs.len());
            let mut generators: Vec<Rng> = envs.iter().map(|env| rngs[*env].clone()).collect();
            policy.act(&gather(observation), &gather(weights), &mut some, &mut generators)?;
            for (k, (env, rng)) in envs.iter().zip(generators).enumerate() {
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
    fn as_many_snapshots_are_due_as_requested_or_as_there_are_rollouts() {
        for (all, n, expected) in [(244, 32, 32), (1_000_000, 32, 32), (7, 32, 4), (1, 5, 1), (10, 1, 1)] {
            let due: Vec<u64> = (1..=all).filter(|done| is_due(*done, all, n)).collect();
            assert_eq!(due.len(), expected, "{all} {n}");
            assert!(due.iter().all(|done| *done > all / 2) && due.last() == Some(&all));
        }
    }
}
