//! Simulation of a finite model with a specification, and policies for it.

use super::FiniteCmdp;
use crate::{DualDynamics, Error, Multipliers, Rewards, Rng, Scoring, Specification};

/// π(s, λ) in a finite model: an action index for a state index. There is no way to act without λ.
///
/// `act` is called once per step and may cache what it computed for the last λ. It takes its
/// randomness from `rng` and from nowhere else. A closure is a policy:
///
/// ```
/// use acrl::{FinitePolicy, Multipliers, Rng};
/// let mut policy = |state: usize, lambda: &Multipliers, _: &mut Rng| state + lambda.len();
/// assert_eq!(policy.act(1, &Multipliers::zeros(2), &mut Rng::new(0)), 3);
/// ```
pub trait FinitePolicy {
    /// The action a ~ π(s, λ), as a position among the choices of the state.
    fn act(&mut self, state: usize, multipliers: &Multipliers, rng: &mut Rng) -> usize;

    /// Called at the beginning of every epoch, for policies that need more of the dual dynamics than λ: how long the
    /// epoch will be, say.
    fn begin_epoch(&mut self, dynamics: &DualDynamics) {
        let _ = dynamics;
    }
}

impl<F: FnMut(usize, &Multipliers, &mut Rng) -> usize> FinitePolicy for F {
    #[inline]
    fn act(&mut self, state: usize, multipliers: &Multipliers, rng: &mut Rng) -> usize {
        self(state, multipliers, rng)
    }
}

/// A finite model together with the requirements of an agent: its steps yield r₀ … r_m.
#[derive(Debug, Clone)]
pub struct Simulator<'a> {
    model: &'a FiniteCmdp,
    specification: Specification,
    scoring: Scoring,
}

impl<'a> Simulator<'a> {
    /// Fails if the specification names a reward that the model does not have.
    pub fn new(model: &'a FiniteCmdp, specification: Specification) -> Result<Self, Error> {
        let scoring = specification.bind(model.reward_names())?;
        Ok(Self { model, specification, scoring })
    }

    /// The model.
    pub fn model(&self) -> &'a FiniteCmdp {
        self.model
    }

    /// The objective and the requirements.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// Draws an initial state.
    pub fn reset(&self, rng: &mut Rng) -> usize {
        let (initial, mut u) = (self.model.initial(), rng.uniform());
        let drawn = initial.iter().find(|(_, p)| {
            u -= p;
            u < 0.0
        });
        drawn.or(initial.last()).map_or(0, |(s, _)| *s)
    }

    /// Takes action a in state s: writes r₀ … r_m and returns the next state.
    #[inline]
    pub fn step(
        &self,
        s: usize,
        action: usize,
        rewards: &mut Rewards,
        rng: &mut Rng,
    ) -> Result<usize, Error> {
        let choices = self.model.choices(s);
        if action >= choices.len() {
            return Err(Error::UnknownAction { state: self.model.state_name(s).into_owned(), action });
        }
        let choice = self.model.choice(choices.start + action);
        let drawn = if choice.targets.len() == 1 { 0 } else { rng.weighted(choice.probabilities) };
        self.scoring.score(choice.rewards, rewards)?;
        Ok(choice.targets[drawn] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requirement;

    #[test]
    fn successors_are_drawn_with_their_probabilities() {
        let mut model = FiniteCmdp::builder(["x"]);
        (0..2).for_each(|s| _ = model.state(s.to_string()));
        model.choice(0, "go", &[(1, 1.0)], &[1.0]);
        model.choice(1, "back", &[(0, 0.25), (1, 0.75)], &[0.0]);
        let model = model.build().unwrap();
        let specification = Specification::new(None, vec![Requirement::at_least("x", 0.1).unwrap()]).unwrap();
        let simulator = Simulator::new(&model, specification).unwrap();
        let (mut rng, mut r) = (Rng::new(3), Rewards::zeros(1));
        let back = (0..10_000).filter(|_| simulator.step(1, 0, &mut r, &mut rng).unwrap() == 0).count();
        assert!((2300..2700).contains(&back), "{back}");
        assert!(simulator.step(1, 1, &mut r, &mut rng).is_err());
    }
}
