//! Finite models: sparse, with named rewards and any number of actions per state.

use std::borrow::Cow;

mod builder;
mod csr;
mod fault;
mod names;
mod simulator;

pub use builder::FiniteCmdpBuilder;
pub use csr::CsrModel;
pub use fault::{ModelError, ModelFault};
use names::{ActionNames, StateNames};
pub use simulator::{FinitePolicy, Simulator};

/// A finite Markov decision process with named rewards r(s, a) and an initial distribution.
///
/// Choices (pairs of a state and one of its actions) are numbered through: state s has the choices
/// [`choices(s)`](Self::choices), in the order in which they were added. A value of this type has
/// been checked: probabilities are positive and add up to 1, rewards are finite, every state has an
/// action.
///
/// It is made by a [builder](Self::builder) or of [arrays](Self::from_csr), and takes 12 bytes for
/// each transition, 4 for each state, and for each choice 4, 8 per reward, and 4 more if actions
/// are not numbered by their place. Names of states that equal their numbers take no memory, others
/// their length and 8 bytes.
#[derive(Debug, Clone)]
pub struct FiniteCmdp {
    reward_names: Vec<String>,
    state_names: StateNames,
    actions: ActionNames,
    /// The first choice of each state, and the number of choices at the end.
    first_choice: Vec<u32>,
    /// The first transition of each choice, and the number of transitions at the end.
    first_transition: Vec<u32>,
    targets: Vec<u32>,
    probabilities: Vec<f64>,
    /// r(s, a), choice by choice.
    rewards: Vec<f64>,
    initial: Vec<(usize, f64)>,
}

/// One choice of a model.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The successor states.
    pub targets: &'a [u32],
    /// Their probabilities.
    pub probabilities: &'a [f64],
    /// r(s, a), in the order of [`FiniteCmdp::reward_names`].
    pub rewards: &'a [f64],
}

impl FiniteCmdp {
    /// The tolerance of the sum of a choice's probabilities, per target: enough for numbers written
    /// with six digits. They are divided by their sum, so that the model itself is exact.
    pub const SUM_TOLERANCE: f64 = 1e-6;

    /// Starts a model with the given rewards.
    pub fn builder<N: Into<String>>(rewards: impl IntoIterator<Item = N>) -> FiniteCmdpBuilder {
        FiniteCmdpBuilder::new(rewards.into_iter().map(Into::into).collect())
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.state_names.len()
    }

    /// The number of choices.
    pub fn choice_count(&self) -> usize {
        self.first_transition.len() - 1
    }

    /// The number of transitions with positive probability.
    pub fn transitions(&self) -> usize {
        self.targets.len()
    }

    /// The names of the rewards.
    pub fn reward_names(&self) -> &[String] {
        &self.reward_names
    }

    /// A state's name.
    pub fn state_name(&self, state: usize) -> Cow<'_, str> {
        self.state_names.get(state)
    }

    /// The name of a choice's action.
    pub fn action_name(&self, choice: usize) -> Cow<'_, str> {
        let state = self.first_choice.partition_point(|first| *first as usize <= choice) - 1;
        self.actions.get(choice, choice - self.first_choice[state] as usize)
    }

    /// The distinct names of actions; `None` if these are numbers.
    pub fn action_names(&self) -> Option<&[String]> {
        self.actions.names.as_deref()
    }

    /// The index among the distinct [names](Self::action_names) of each action of a state: for a
    /// model of [arrays](Self::from_csr), the column.
    pub fn action_numbers(&self, state: usize) -> impl Iterator<Item = usize> {
        self.choices(state).enumerate().map(|(position, choice)| self.actions.number(choice, position))
    }

    /// The numbers of a state's choices.
    #[inline]
    pub fn choices(&self, state: usize) -> std::ops::Range<usize> {
        self.first_choice[state] as usize..self.first_choice[state + 1] as usize
    }

    /// The successors of all choices of a state, one choice after the other; a state may occur
    /// several times.
    #[inline]
    pub fn successors(&self, state: usize) -> &[u32] {
        let choices = self.choices(state);
        let [start, end] = [choices.start, choices.end].map(|c| self.first_transition[c] as usize);
        &self.targets[start..end]
    }

    /// A choice by its number.
    #[inline]
    pub fn choice(&self, choice: usize) -> Choice<'_> {
        let transitions = self.first_transition[choice] as usize..self.first_transition[choice + 1] as usize;
        let n = self.reward_names.len();
        Choice {
            targets: &self.targets[transitions.clone()],
            probabilities: &self.probabilities[transitions],
            rewards: &self.rewards[choice * n..(choice + 1) * n],
        }
    }

    /// Σ p(s') x(s') over the successors of a choice.
    #[inline]
    pub fn expectation(&self, choice: usize, x: &[f64]) -> f64 {
        let choice = self.choice(choice);
        choice.targets.iter().zip(choice.probabilities).map(|(&t, p)| p * x[t as usize]).sum()
    }

    /// The initial distribution.
    pub fn initial(&self) -> &[(usize, f64)] {
        &self.initial
    }

    /// The smallest and the largest value of a reward.
    pub fn reward_range(&self, reward: usize) -> (f64, f64) {
        let values = self.rewards.iter().skip(reward).step_by(self.reward_names.len().max(1));
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &r| (low.min(r), high.max(r)))
    }

    /// Rejects two actions of a state with one name. Names that follow from the place are not stored.
    fn check_actions(&mut self) -> Result<(), ModelError> {
        let Some(of) = &self.actions.of else { return Ok(()) };
        let names = of.iter().max().map_or(0, |most| *most as usize + 1);
        let mut seen_in = vec![u32::MAX; names];
        let mut in_place = true;
        for state in 0..self.states() {
            for (position, choice) in self.choices(state).enumerate() {
                let action = of[choice] as usize;
                in_place &= action == position;
                if std::mem::replace(&mut seen_in[action], state as u32) == state as u32 {
                    return Err(ModelError {
                        state: Some(self.state_name(state).into_owned()),
                        action: Some(self.action_name(choice).into_owned()),
                        fault: ModelFault::DuplicateAction,
                    });
                }
            }
        }
        if in_place {
            self.actions.of = None;
        }
        Ok(())
    }

    /// Frees unused capacity.
    fn shrink_to_fit(&mut self) {
        self.state_names.shrink_to_fit();
        self.actions.of.iter_mut().for_each(Vec::shrink_to_fit);
        self.first_transition.shrink_to_fit();
        self.targets.shrink_to_fit();
        self.probabilities.shrink_to_fit();
        self.rewards.shrink_to_fit();
        self.initial.shrink_to_fit();
    }
}

/// Compares names, however they are stored.
impl PartialEq for FiniteCmdp {
    fn eq(&self, other: &Self) -> bool {
        let names = |states: std::ops::Range<usize>| {
            states.flat_map(|s| self.choices(s).enumerate()).all(|(position, choice)| {
                self.actions.get(choice, position) == other.actions.get(choice, position)
            })
        };
        self.reward_names == other.reward_names
            && self.state_names == other.state_names
            && self.first_choice == other.first_choice
            && self.first_transition == other.first_transition
            && self.targets == other.targets
            && self.probabilities == other.probabilities
            && self.rewards == other.rewards
            && self.initial == other.initial
            && names(0..self.states())
    }
}

/// The first choice of each state, and the number of choices at the end.
fn first_choices(counts: Vec<u32>) -> Vec<u32> {
    let mut first = counts;
    let mut next = 0;
    for count in &mut first {
        next += std::mem::replace(count, next);
    }
    first.reserve_exact(1);
    first.push(next);
    first
}

/// Rejects two rewards with one name.
fn checked_rewards(names: &[String]) -> Result<(), ModelFault> {
    let repeated = (0..names.len()).find(|&i| names[..i].contains(&names[i]));
    repeated.map_or(Ok(()), |i| Err(ModelFault::DuplicateReward(names[i].clone())))
}

/// The sum of the probabilities of a choice, by which they are divided; fails if one of them or the
/// sum is invalid.
fn checked_sum(transitions: impl ExactSizeIterator<Item = (usize, f64)>) -> Result<f64, ModelFault> {
    let (count, mut sum) = (transitions.len(), 0.0);
    for (target, value) in transitions {
        // Written so that a NaN is a fault too.
        if !(0.0..=1.0 + FiniteCmdp::SUM_TOLERANCE).contains(&value) {
            return Err(ModelFault::Probability { target, value });
        }
        sum += value;
    }
    if (sum - 1.0).abs() > FiniteCmdp::SUM_TOLERANCE * count.max(1) as f64 {
        return Err(ModelFault::Sum { sum });
    }
    // Division would change the last bits of a sum that is 1 but for rounding.
    Ok(if (sum - 1.0).abs() <= 1e-12 { 1.0 } else { sum })
}

/// The initial distribution without states of probability 0; state 0 if it is empty.
fn checked_initial(mut initial: Vec<(usize, f64)>, states: usize) -> Result<Vec<(usize, f64)>, ModelError> {
    if initial.is_empty() {
        initial.push((0, 1.0));
    }
    for &(state, value) in &initial {
        if state >= states {
            return Err(ModelError::whole(ModelFault::Initial { target: state, states }));
        }
        if !(0.0..=1.0 + FiniteCmdp::SUM_TOLERANCE).contains(&value) {
            return Err(ModelError::whole(ModelFault::InitialProbability { target: state, value }));
        }
    }
    let sum: f64 = initial.iter().map(|(_, p)| p).sum();
    if (sum - 1.0).abs() > FiniteCmdp::SUM_TOLERANCE {
        return Err(ModelError::whole(ModelFault::InitialSum { sum }));
    }
    initial.retain(|(_, p)| *p > 0.0);
    // As for the probabilities of a choice.
    let sum = if (sum - 1.0).abs() <= 1e-12 { 1.0 } else { sum };
    initial.iter_mut().for_each(|(_, p)| *p /= sum);
    Ok(initial)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_states() -> FiniteCmdpBuilder {
        let mut b = FiniteCmdp::builder(["x"]);
        b.state("A");
        b.state("B");
        b.choice(0, "go", &[(1, 1.0)], &[1.0]);
        b.choice(1, "back", &[(0, 0.25), (1, 0.75)], &[0.0]);
        b
    }

    #[test]
    fn choices_are_grouped_by_state() {
        let mut b = two_states();
        b.choice(0, "stay", &[(0, 1.0)], &[2.0]); // out of order on purpose
        let model = b.build().unwrap();
        assert_eq!((model.states(), model.choice_count(), model.transitions()), (2, 3, 4));
        assert_eq!(model.choices(0), 0..2);
        assert_eq!(model.action_name(1), "stay");
        assert_eq!(model.reward_range(0), (0.0, 2.0));
    }

    #[test]
    fn faults_name_state_and_action() {
        let fault = |change: fn(&mut FiniteCmdpBuilder)| {
            let mut b = two_states();
            change(&mut b);
            b.build().unwrap_err().to_string()
        };
        type Case = (fn(&mut FiniteCmdpBuilder), &'static str);
        let cases: [Case; 12] = [
            (
                |b| _ = b.choice(0, "a", &[(1, 0.5)], &[0.0]),
                "state 'A', action 'a': the probabilities add up to 0.5",
            ),
            (|b| _ = b.choice(0, "a", &[(1, -0.5), (0, 1.5)], &[0.0]), "the probability of target 1 is -0.5"),
            (|b| _ = b.choice(0, "a", &[(1, f64::NAN)], &[0.0]), "the probability of target 1 is NaN"),
            (
                |b| _ = b.choice(0, "a", &[(7, 1.0)], &[0.0]),
                "state 'A', action 'a': the target 7 does not exist",
            ),
            (|b| _ = b.choice(0, "a", &[(1, 0.5), (1, 0.5)], &[0.0]), "the target 1 is listed twice"),
            (|b| _ = b.choice(0, "a", &[], &[0.0]), "the probabilities add up to 0"),
            (|b| _ = b.choice(0, "a", &[(0, 1.0)], &[f64::INFINITY]), "the reward 'x' is inf"),
            (|b| _ = b.choice(0, "a", &[(0, 1.0)], &[]), "expected 1 rewards, found 0"),
            (|b| _ = b.choice(0, "go", &[(0, 1.0)], &[0.0]), "the state has this action twice"),
            (|b| _ = b.choice(5, "a", &[(0, 1.0)], &[0.0]), "state '5', action 'a': there is no such state"),
            (|b| _ = b.state("C"), "state 'C': the state has no action"),
            (|b| _ = b.initial(1, 0.5), "the initial probabilities add up to 0.5"),
        ];
        for (change, expected) in cases {
            let message = fault(change);
            assert!(message.contains(expected), "{message:?} does not contain {expected:?}");
        }
        assert!(FiniteCmdp::builder(["x", "x"]).build().is_err());
        assert!(FiniteCmdp::builder(["x"]).build().is_err());
    }

    /// The two states above, with a second action that only the first one has.
    fn rows() -> CsrModel {
        CsrModel {
            states: 2,
            reward_names: vec!["x".into()],
            first_entry: vec![0, 1, 2, 4, 4],
            targets: vec![1, 0, 0, 1],
            probabilities: vec![1.0, 1.0, 0.25, 0.75],
            rewards: vec![1.0, 2.0, 0.0, f64::NAN],
            ..CsrModel::default()
        }
    }

    #[test]
    fn arrays_and_the_builder_make_the_same_model() {
        let mut b = FiniteCmdp::builder(["x"]);
        (0..2).for_each(|s| _ = b.state(s.to_string()));
        b.choice(1, "0", &[(0, 0.25), (1, 0.75)], &[0.0]); // out of order on purpose
        b.choice(0, "0", &[(1, 1.0)], &[1.0]);
        b.choice(0, "1", &[(0, 1.0)], &[2.0]);
        let built = b.build().unwrap();
        assert_eq!(FiniteCmdp::from_csr(rows()).unwrap(), built);
        assert_eq!((built.successors(0), built.successors(1)), (&[1, 0][..], &[0, 1][..]));
        let first_row = Some(vec![0, 2, 3]);
        let (first_entry, rewards) = (vec![0, 1, 2, 4], vec![1.0, 2.0, 0.0]);
        let uneven = CsrModel { first_row, first_entry, rewards, ..rows() };
        assert_eq!(FiniteCmdp::from_csr(uneven.clone()).unwrap(), built);
        let names = vec!["b".to_owned(), "a".to_owned()];
        let named = CsrModel { action_names: Some(names), row_actions: Some(vec![1, 0, 0]), ..uneven };
        let named = FiniteCmdp::from_csr(named).unwrap();
        assert_eq!((0..3).map(|c| named.action_name(c)).collect::<Vec<_>>(), ["a", "b", "b"]);
        assert_eq!(named.action_numbers(0).collect::<Vec<_>>(), [1, 0]);
        assert_ne!(named, built);
    }

    #[test]
    fn faults_of_arrays_name_the_array() {
        type Case = (fn(&mut CsrModel), &'static str);
        let cases: [Case; 17] = [
            (|m| m.states = 0, "the model has no states"),
            (|m| m.states = 3, "expected 6 rows, as many for each state, found 4"),
            (|m| m.first_entry = vec![], "the first entries of rows end with 0, expected 4"),
            (|m| m.first_entry[0] = 1, "the first entries of rows are 0 and then 1"),
            (|m| m.first_entry[1] = 3, "the first entries of rows are 3 and then 2"),
            (|m| _ = m.probabilities.pop(), "expected 4 entries of the transitions' matrix, found 3"),
            (|m| _ = m.rewards.pop(), "expected 4 rewards, found 3"),
            (|m| m.rewards[1] = f64::INFINITY, "state '0', action '1': the reward 'x' is inf"),
            (
                |m| m.targets[2] = 2,
                "state '1', action '0': the target 2 does not exist: the states are 0 to 1",
            ),
            (|m| m.probabilities[3] = 0.5, "state '1', action '0': the probabilities add up to 0.75"),
            (|m| m.probabilities[3] = f64::NAN, "the probability of target 1 is NaN"),
            (|m| m.first_entry = vec![0, 2, 4, 4, 4], "state '0', action '0': the probabilities add up to 2"),
            (|m| m.first_row = Some(vec![0, 4]), "expected 3 first rows of states, found 2"),
            (|m| m.first_row = Some(vec![0, 2, 4]), "state '1', action '1': the reward 'x' is NaN"),
            (|m| m.action_names = Some(vec!["a".into()]), "expected 2 names of actions, found 1"),
            (|m| m.action_names = Some(vec!["a".into(); 2]), "two actions are called 'a'"),
            (|m| m.initial = vec![(0, 0.5)], "the initial probabilities add up to 0.5"),
        ];
        for (change, expected) in cases {
            let mut arrays = rows();
            change(&mut arrays);
            let message = FiniteCmdp::from_csr(arrays).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} does not contain {expected:?}");
        }
    }

    #[test]
    fn arbitrary_state_names_are_kept() {
        for names in [["0", "1", "2"], ["0", "1", "two"], ["0", "01", "2"], ["", "0", "0"], ["0", "+1", "é"]]
        {
            let mut b = FiniteCmdp::builder(["x"]);
            names.iter().for_each(|name| _ = b.state(name));
            (0..3).for_each(|s| _ = b.choice(s, "stay", &[(s, 1.0)], &[0.0]));
            let model = b.build().unwrap();
            assert_eq!((0..3).map(|s| model.state_name(s)).collect::<Vec<_>>(), names);
        }
    }
}
