//! Algorithm 1, as a contract.

use crate::{Environment, Error, Observer, Policy, Rng, Task};

/// A learner trains one policy π(s, λ) for all multipliers (Algorithm 1).
///
/// `train` reports [`Event::Iteration`](crate::Event::Iteration) to the observer as it goes; when
/// the observer asks to stop, it returns the policy it has so far.
pub trait Learner<E: Environment> {
    /// What comes out.
    type Policy: Policy<E::State, E::Action>;

    /// Trains on a task from scratch.
    fn train(
        &self,
        task: &mut Task<E>,
        rng: &mut Rng,
        observer: &mut dyn Observer,
    ) -> Result<Self::Policy, Error>;
}
