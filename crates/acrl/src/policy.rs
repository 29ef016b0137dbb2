//! π(s, λ).

use crate::{Multipliers, Rng};

/// A policy acts on a state *and* multipliers: there is no way to act without naming λ.
///
/// `act` is called once per step and may cache what it computed for the last λ. It takes its
/// randomness from `rng` and from nowhere else. A closure is a policy:
///
/// ```
/// use acrl::{Multipliers, Policy, Rng};
/// let mut policy = |state: &usize, lambda: &Multipliers, _: &mut Rng| state + lambda.len();
/// assert_eq!(policy.act(&1, &Multipliers::zeros(2), &mut Rng::new(0)), 3);
/// ```
pub trait Policy<S, A> {
    /// The action a ~ π(s, λ).
    fn act(&mut self, state: &S, multipliers: &Multipliers, rng: &mut Rng) -> A;
}

impl<S, A, F: FnMut(&S, &Multipliers, &mut Rng) -> A> Policy<S, A> for F {
    #[inline]
    fn act(&mut self, state: &S, multipliers: &Multipliers, rng: &mut Rng) -> A {
        self(state, multipliers, rng)
    }
}
