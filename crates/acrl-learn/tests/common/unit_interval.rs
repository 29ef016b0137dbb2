//! Environments on the unit interval, for the tests of the learners.

use acrl::{ActionPart, BatchMatrix, Error, Interval, Rng, Spaces, VecEnv};

/// One number x in \[0, 1\], which is observed, with rewards from 0 to 1. Initial states are uniform.
#[derive(Debug, Clone)]
pub(crate) struct UnitInterval {
    pub(crate) spaces: Spaces,
    /// Factor of all rewards, whose ranges stay as they are.
    pub(crate) factor: f64,
    pub(crate) step: Step,
}

/// Writes the rewards of an action in x, and the next x.
pub(crate) type Step = fn(x: &mut f64, action: [f64; 2], rewards: &mut [f64; 3], rng: &mut Rng);

impl UnitInterval {
    pub(crate) fn new(rewards: &[&str], action: &[ActionPart], step: Step) -> Self {
        let unit = Interval::new(0.0, 1.0);
        Self {
            spaces: Spaces {
                state_dimension: 1,
                observation: vec![unit],
                action: action.to_vec(),
                reward_names: rewards.iter().map(|name| (*name).to_owned()).collect(),
                reward_ranges: vec![unit; rewards.len()],
            },
            factor: 1.0,
            step,
        }
    }
}

impl VecEnv for UnitInterval {
    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn reset(&self, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> Result<(), Error> {
        state.set(0, env, rng.uniform());
        Ok(())
    }

    fn observe(&self, state: &BatchMatrix, observation: &mut BatchMatrix) {
        observation.as_mut_slice().copy_from_slice(state.as_slice());
    }

    fn step(
        &self,
        state: &mut BatchMatrix,
        actions: &BatchMatrix,
        rewards: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        for (env, rng) in rngs.iter_mut().enumerate() {
            let (mut x, mut found) = (state.at(0, env), [0.0; 3]);
            let action = [0, 1].map(|i| if i < actions.len() { actions.at(i, env) } else { 0.0 });
            (self.step)(&mut x, action, &mut found, rng);
            (0..rewards.len()).for_each(|i| rewards.set(i, env, self.factor * found[i]));
            state.set(0, env, x);
        }
        Ok(())
    }
}
