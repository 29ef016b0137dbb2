//! Actions as the networks see them: numbers in \[−1, 1\], or one index for all discrete parts together.

use acrl::{ActionPart, BatchMatrix, Error};
use serde::{Deserialize, Serialize};

use crate::ppo::ActionHeads;
use crate::tuning::sac::MAX_JOINT_ACTIONS;

/// The parts of an action, which are all continuous or all discrete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ActionPart>", into = "Vec<ActionPart>")]
pub(super) struct Actions {
    parts: Vec<ActionPart>,
    /// Number of combinations of discrete parts; `None` for continuous ones.
    joint: Option<usize>,
}

impl TryFrom<Vec<ActionPart>> for Actions {
    type Error = Error;

    fn try_from(parts: Vec<ActionPart>) -> Result<Self, Error> {
        Self::new(&parts)
    }
}

impl From<Actions> for Vec<ActionPart> {
    fn from(actions: Actions) -> Self {
        actions.parts
    }
}

impl Actions {
    /// Refuses parts of both kinds, and discrete parts with too many combinations.
    pub(super) fn new(parts: &[ActionPart]) -> Result<Self, Error> {
        ActionHeads::new(parts)?;
        let sizes: Vec<usize> = parts.iter().filter_map(choices).collect();
        let wrong = |why: String| {
            Err(Error::Environment(format!(
                "its actions {why}, expected by the learner 'sac'; 'ppo' learns them"
            )))
        };
        if parts.is_empty() {
            return wrong("have no parts, and at least one is".to_owned());
        }
        let joint = sizes.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
        match joint {
            _ if sizes.is_empty() => Ok(Self { parts: parts.to_vec(), joint: None }),
            _ if sizes.len() < parts.len() => {
                wrong("have discrete and continuous parts, and parts of one kind are".to_owned())
            }
            Some(n) if n <= MAX_JOINT_ACTIONS => Ok(Self { parts: parts.to_vec(), joint }),
            _ => wrong(format!(
                "have {} combinations, and at most {MAX_JOINT_ACTIONS} are",
                joint.map_or("too many".to_owned(), |n| n.to_string())
            )),
        }
    }

    /// The parts.
    pub(super) fn parts(&self) -> &[ActionPart] {
        &self.parts
    }

    /// Number of combinations of discrete parts; `None` if the parts are continuous.
    pub(super) fn joint(&self) -> Option<usize> {
        self.joint
    }

    /// Numbers per action in the replay buffer.
    pub(super) fn len(&self) -> usize {
        if self.joint.is_some() { 1 } else { self.parts.len() }
    }

    /// Writes an action of the networks as the environment takes it.
    pub(super) fn write(&self, action: &[f32], env: usize, actions: &mut BatchMatrix) {
        if self.joint.is_none() {
            for (row, (part, a)) in self.parts.iter().zip(action).enumerate() {
                actions.set(row, env, ActionHeads::to_environment(*part, f64::from(*a)));
            }
            return;
        }
        let mut index = action[0] as usize;
        for (row, n) in self.parts.iter().filter_map(choices).enumerate() {
            actions.set(row, env, (index % n) as f64);
            index /= n;
        }
    }

    /// Index of the combination of discrete parts; the inverse of [`write`](Self::write).
    pub(super) fn joint_index(&self, env: usize, actions: &BatchMatrix) -> usize {
        let sizes = self.parts.iter().filter_map(choices).enumerate();
        sizes.fold((0, 1), |(sum, step), (row, n)| (sum + step * actions.at(row, env) as usize, step * n)).0
    }
}

fn choices(part: &ActionPart) -> Option<usize> {
    match part {
        ActionPart::Discrete(n) => Some(*n),
        ActionPart::Continuous(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acrl::Interval;

    const NUMBER: ActionPart = ActionPart::Continuous(Interval { low: 0.0, high: 4.0 });

    #[test]
    fn joint_actions_enumerate_every_combination_once() {
        let actions = Actions::new(&[ActionPart::Discrete(3), ActionPart::Discrete(2)]).unwrap();
        assert_eq!((actions.joint(), actions.len()), (Some(6), 1));
        let mut found = BatchMatrix::zeros(2, 6);
        (0..6).for_each(|index| actions.write(&[index as f32], index, &mut found));
        assert!((0..6).all(|index| actions.joint_index(index, &found) == index));
        let mut pairs: Vec<Vec<f64>> = (0..6).map(|env| found.column(env).collect()).collect();
        pairs.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let expected: Vec<Vec<f64>> =
            (0..3).flat_map(|a| (0..2).map(move |b| vec![f64::from(a), f64::from(b)])).collect();
        assert_eq!(pairs, expected);
    }

    #[test]
    fn continuous_actions_are_scaled_to_their_interval() {
        let actions = Actions::new(&[NUMBER]).unwrap();
        let mut found = BatchMatrix::zeros(1, 1);
        actions.write(&[-0.5], 0, &mut found);
        assert_eq!((found.at(0, 0), actions.joint()), (1.0, None));
    }

    #[test]
    fn mixed_and_large_action_spaces_are_refused_with_the_learner_that_takes_them() {
        for parts in [vec![NUMBER, ActionPart::Discrete(2)], vec![ActionPart::Discrete(9); 3], vec![]] {
            let error = Actions::new(&parts).unwrap_err().to_string();
            assert!(error.contains("'ppo'"), "{error}");
        }
    }
}
