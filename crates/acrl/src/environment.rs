//! Environments with named rewards, and the task that an environment and a specification make.

use crate::{Error, Rewards, Rng, Scoring, Specification};

/// A continuing Markov decision process with named rewards. There is no `done`: an episodic
/// problem starts its next episode inside `step`.
pub trait Environment {
    /// s.
    type State: Clone;
    /// a.
    type Action;

    /// The names of the rewards, in the order in which `step` writes them.
    fn reward_names(&self) -> &[String];

    /// Draws a state to start from.
    fn reset(&mut self, rng: &mut Rng) -> Result<Self::State, Error>;

    /// Takes action a in state s: writes the rewards r(s, a) and returns the next state.
    fn step(
        &mut self,
        state: &Self::State,
        action: &Self::Action,
        rewards: &mut [f64],
        rng: &mut Rng,
    ) -> Result<Self::State, Error>;
}

/// An environment together with what an agent must achieve in it: its steps yield r₀ … r_m.
#[derive(Debug, Clone)]
pub struct Task<E> {
    environment: E,
    specification: Specification,
    scoring: Scoring,
    named: Vec<f64>,
}

impl<E: Environment> Task<E> {
    /// Fails if the specification names a reward that the environment does not have.
    pub fn new(environment: E, specification: Specification) -> Result<Self, Error> {
        let scoring = specification.bind(environment.reward_names())?;
        let named = vec![0.0; environment.reward_names().len()];
        Ok(Self { environment, specification, scoring, named })
    }

    /// The environment.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// What the agent must achieve.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// Draws a state to start from.
    pub fn reset(&mut self, rng: &mut Rng) -> Result<E::State, Error> {
        self.environment.reset(rng)
    }

    /// One step; writes r₀ … r_m, which are checked to be finite.
    #[inline]
    pub fn step(
        &mut self,
        state: &E::State,
        action: &E::Action,
        rewards: &mut Rewards,
        rng: &mut Rng,
    ) -> Result<E::State, Error> {
        let next = self.environment.step(state, action, &mut self.named, rng)?;
        self.scoring.score(&self.named, rewards)?;
        Ok(next)
    }
}
