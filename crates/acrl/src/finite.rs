//! Finite models: sparse, with named rewards and as many actions per state as the state has.

use std::collections::HashSet;
use std::fmt;

use crate::{Environment, Error, Rng};

/// A finite Markov decision process with named rewards r(s, a) and an initial distribution.
///
/// Choices (pairs of a state and one of its actions) are numbered through: state s has the choices
/// [`choices(s)`](Self::choices), in the order in which they were added. A value of this type has
/// been checked: probabilities are positive and add up to 1, rewards are finite, every state has an
/// action.
#[derive(Debug, Clone, PartialEq)]
pub struct FiniteCmdp {
    reward_names: Vec<String>,
    state_names: Vec<String>,
    action_names: Vec<String>,
    /// The first choice of each state, and the number of choices at the end.
    first_choice: Vec<usize>,
    /// The first transition of each choice, and the number of transitions at the end.
    first_transition: Vec<usize>,
    targets: Vec<u32>,
    probabilities: Vec<f64>,
    /// r(s, a), choice by choice.
    rewards: Vec<f64>,
    initial: Vec<(usize, f64)>,
}

/// One choice of a model.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The action's name.
    pub action: &'a str,
    /// The states it leads to.
    pub targets: &'a [u32],
    /// With which probabilities.
    pub probabilities: &'a [f64],
    /// r(s, a), in the order of [`FiniteCmdp::reward_names`].
    pub rewards: &'a [f64],
}

impl FiniteCmdp {
    /// How far the probabilities of a choice may add up to something else than 1, for each of its
    /// targets: enough for numbers written with six digits. They are divided by their sum, so that the
    /// model itself is exact.
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
        self.action_names.len()
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
    pub fn state_name(&self, state: usize) -> &str {
        &self.state_names[state]
    }

    /// The numbers of a state's choices.
    #[inline]
    pub fn choices(&self, state: usize) -> std::ops::Range<usize> {
        self.first_choice[state]..self.first_choice[state + 1]
    }

    /// A choice by its number.
    #[inline]
    pub fn choice(&self, choice: usize) -> Choice<'_> {
        let transitions = self.first_transition[choice]..self.first_transition[choice + 1];
        let n = self.reward_names.len();
        Choice {
            action: &self.action_names[choice],
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

    /// The states in which it starts, with their probabilities.
    pub fn initial(&self) -> &[(usize, f64)] {
        &self.initial
    }

    /// The smallest and the largest value of a reward.
    pub fn reward_range(&self, reward: usize) -> (f64, f64) {
        let values = self.rewards.iter().skip(reward).step_by(self.reward_names.len().max(1));
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &r| (low.min(r), high.max(r)))
    }
}

impl Environment for &FiniteCmdp {
    type State = usize;
    type Action = usize;

    fn reward_names(&self) -> &[String] {
        &self.reward_names
    }

    fn reset(&mut self, rng: &mut Rng) -> Result<usize, Error> {
        let mut u = rng.uniform();
        let drawn = self.initial.iter().find(|(_, p)| {
            u -= p;
            u < 0.0
        });
        Ok(drawn.or(self.initial.last()).map_or(0, |(s, _)| *s))
    }

    #[inline]
    fn step(
        &mut self,
        s: &usize,
        action: &usize,
        rewards: &mut [f64],
        rng: &mut Rng,
    ) -> Result<usize, Error> {
        let index = self.first_choice[*s] + *action;
        if index >= self.first_choice[*s + 1] {
            return Err(Error::UnknownAction { state: self.state_names[*s].clone(), action: *action });
        }
        let choice = self.choice(index);
        rewards.copy_from_slice(choice.rewards);
        let drawn = if choice.targets.len() == 1 { 0 } else { rng.weighted(choice.probabilities) };
        Ok(choice.targets[drawn] as usize)
    }
}

/// Collects a [`FiniteCmdp`]. Faults are reported by [`build`](Self::build), or by
/// [`check`](Self::check) as soon as a reader wants to know.
#[derive(Debug, Clone)]
pub struct FiniteCmdpBuilder {
    reward_names: Vec<String>,
    state_names: Vec<String>,
    /// (state, action name), in the order of addition.
    choices: Vec<(usize, String)>,
    first_transition: Vec<usize>,
    targets: Vec<usize>,
    probabilities: Vec<f64>,
    rewards: Vec<f64>,
    initial: Vec<(usize, f64)>,
    fault: Option<ModelError>,
}

impl FiniteCmdpBuilder {
    fn new(reward_names: Vec<String>) -> Self {
        let mut builder = Self {
            reward_names,
            state_names: Vec::new(),
            choices: Vec::new(),
            first_transition: vec![0],
            targets: Vec::new(),
            probabilities: Vec::new(),
            rewards: Vec::new(),
            initial: Vec::new(),
            fault: None,
        };
        for (i, name) in builder.reward_names.iter().enumerate() {
            if builder.reward_names[..i].contains(name) {
                builder.fault = Some(ModelError::whole(ModelFault::DuplicateReward(name.clone())));
            }
        }
        builder
    }

    /// Adds a state and returns its number.
    pub fn state(&mut self, name: impl Into<String>) -> usize {
        self.state_names.push(name.into());
        self.state_names.len() - 1
    }

    /// Adds an action to a state: where it leads, with which probabilities, and r(s, a). Targets
    /// may be states that are added later. Probabilities of 0 are dropped.
    pub fn choice(
        &mut self,
        state: usize,
        action: impl Into<String>,
        transitions: &[(usize, f64)],
        rewards: &[f64],
    ) -> &mut Self {
        let action = action.into();
        if self.fault.is_none() {
            let place = |fault| ModelError {
                state: Some(self.state_names.get(state).cloned().unwrap_or_else(|| state.to_string())),
                action: Some(action.clone()),
                fault,
            };
            self.fault = self.choice_fault(state, transitions, rewards).map(place);
        }
        if self.fault.is_some() {
            return self;
        }
        let total: f64 = transitions.iter().map(|(_, p)| p).sum();
        // Division would change the last bits of a sum that is 1 but for rounding.
        let total = if (total - 1.0).abs() <= 1e-12 { 1.0 } else { total };
        for &(target, p) in transitions.iter().filter(|(_, p)| *p > 0.0) {
            self.targets.push(target);
            self.probabilities.push(p / total);
        }
        self.first_transition.push(self.targets.len());
        self.rewards.extend_from_slice(rewards);
        self.choices.push((state, action));
        self
    }

    fn choice_fault(
        &self,
        state: usize,
        transitions: &[(usize, f64)],
        rewards: &[f64],
    ) -> Option<ModelFault> {
        if state >= self.state_names.len() {
            return Some(ModelFault::UnknownState { states: self.state_names.len() });
        }
        if rewards.len() != self.reward_names.len() {
            return Some(ModelFault::RewardCount { expected: self.reward_names.len(), found: rewards.len() });
        }
        if let Some(i) = rewards.iter().position(|r| !r.is_finite()) {
            return Some(ModelFault::Reward { reward: self.reward_names[i].clone(), value: rewards[i] });
        }
        let wrong = |(_, p): &&(usize, f64)| !(0.0..=1.0 + FiniteCmdp::SUM_TOLERANCE).contains(p);
        if let Some(&(target, value)) = transitions.iter().find(wrong) {
            return Some(ModelFault::Probability { target, value });
        }
        if let Some(target) = repeated(transitions) {
            return Some(ModelFault::DuplicateTarget { target });
        }
        let sum: f64 = transitions.iter().map(|(_, p)| p).sum();
        // Written so that a NaN is a fault too.
        let sums_to_one = (sum - 1.0).abs() <= FiniteCmdp::SUM_TOLERANCE * transitions.len().max(1) as f64;
        (!sums_to_one).then_some(ModelFault::Sum { sum: sum + 0.0 })
    }

    /// Lets the model start in a state, with a probability; several calls make a distribution.
    /// Without any call it starts in state 0.
    pub fn initial(&mut self, state: usize, probability: f64) -> &mut Self {
        self.initial.push((state, probability));
        self
    }

    /// The first fault so far.
    pub fn check(&self) -> Result<(), ModelError> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// The finished model, or its first fault.
    pub fn build(mut self) -> Result<FiniteCmdp, ModelError> {
        self.check()?;
        let states = self.state_names.len();
        if states == 0 {
            return Err(ModelError::whole(ModelFault::NoStates));
        }
        if states > u32::MAX as usize {
            return Err(ModelError::whole(ModelFault::TooManyStates { states }));
        }
        self.check_initial(states)?;
        self.check_targets(states)?;
        let mut order: Vec<usize> = (0..self.choices.len()).collect();
        order.sort_by_key(|&i| self.choices[i].0);
        let mut first_choice = vec![0; states + 1];
        for (state, _) in &self.choices {
            first_choice[state + 1] += 1;
        }
        if let Some(state) = (0..states).find(|s| first_choice[s + 1] == 0) {
            let state = Some(self.state_names[state].clone());
            return Err(ModelError { state, action: None, fault: ModelFault::NoAction });
        }
        (0..states).for_each(|s| first_choice[s + 1] += first_choice[s]);
        self.check_actions(&first_choice, &order)?;

        let n = self.reward_names.len();
        let mut model = FiniteCmdp {
            reward_names: self.reward_names,
            state_names: self.state_names,
            action_names: Vec::with_capacity(order.len()),
            first_choice,
            first_transition: vec![0],
            targets: Vec::with_capacity(self.targets.len()),
            probabilities: Vec::with_capacity(self.targets.len()),
            rewards: Vec::with_capacity(self.rewards.len()),
            initial: self.initial,
        };
        for i in order {
            let transitions = self.first_transition[i]..self.first_transition[i + 1];
            model.action_names.push(std::mem::take(&mut self.choices[i].1));
            model.targets.extend(self.targets[transitions.clone()].iter().map(|&t| t as u32));
            model.probabilities.extend_from_slice(&self.probabilities[transitions]);
            model.first_transition.push(model.targets.len());
            model.rewards.extend_from_slice(&self.rewards[i * n..(i + 1) * n]);
        }
        Ok(model)
    }

    fn check_initial(&mut self, states: usize) -> Result<(), ModelError> {
        if self.initial.is_empty() {
            self.initial.push((0, 1.0));
        }
        for &(state, value) in &self.initial {
            if state >= states {
                return Err(ModelError::whole(ModelFault::Initial { target: state, states }));
            }
            if !(0.0..=1.0 + FiniteCmdp::SUM_TOLERANCE).contains(&value) {
                return Err(ModelError::whole(ModelFault::InitialProbability { target: state, value }));
            }
        }
        let sum: f64 = self.initial.iter().map(|(_, p)| p).sum();
        if (sum - 1.0).abs() > FiniteCmdp::SUM_TOLERANCE {
            return Err(ModelError::whole(ModelFault::InitialSum { sum }));
        }
        self.initial.retain(|(_, p)| *p > 0.0);
        self.initial.iter_mut().for_each(|(_, p)| *p /= sum);
        Ok(())
    }

    /// Within a state, actions are told apart by their names.
    fn check_actions(&self, first_choice: &[usize], order: &[usize]) -> Result<(), ModelError> {
        let mut seen = HashSet::new();
        for state in 0..self.state_names.len() {
            seen.clear();
            for &i in &order[first_choice[state]..first_choice[state + 1]] {
                let action = &self.choices[i].1;
                if !seen.insert(action.as_str()) {
                    return Err(ModelError {
                        state: Some(self.state_names[state].clone()),
                        action: Some(action.clone()),
                        fault: ModelFault::DuplicateAction,
                    });
                }
            }
        }
        Ok(())
    }

    fn check_targets(&self, states: usize) -> Result<(), ModelError> {
        let Some(at) = self.targets.iter().position(|&t| t >= states) else { return Ok(()) };
        let choice = self.first_transition.partition_point(|&first| first <= at) - 1;
        let (state, action) = &self.choices[choice];
        Err(ModelError {
            state: Some(self.state_names[*state].clone()),
            action: Some(action.clone()),
            fault: ModelFault::Target { target: self.targets[at], states },
        })
    }
}

/// A target that is listed twice.
fn repeated(transitions: &[(usize, f64)]) -> Option<usize> {
    if transitions.is_sorted_by(|a, b| a.0 < b.0) {
        return None; // the usual order, without a copy
    }
    let mut targets: Vec<usize> = transitions.iter().map(|(t, _)| *t).collect();
    targets.sort_unstable();
    targets.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// A fault of a finite model, and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    /// The state's name.
    pub state: Option<String>,
    /// The action's name.
    pub action: Option<String>,
    /// What is wrong.
    pub fault: ModelFault,
}

impl ModelError {
    fn whole(fault: ModelFault) -> Self {
        Self { state: None, action: None, fault }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.state, &self.action) {
            (Some(state), Some(action)) => write!(f, "state '{state}', action '{action}': ")?,
            (Some(state), None) => write!(f, "state '{state}': ")?,
            _ => {}
        }
        self.fault.fmt(f)
    }
}

impl std::error::Error for ModelError {}

/// What can be wrong with a finite model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelFault {
    /// A model needs a state.
    #[error("the model has no states")]
    NoStates,
    /// More states than can be numbered.
    #[error("the model has {states} states, more than {}", u32::MAX)]
    TooManyStates {
        /// How many.
        states: usize,
    },
    /// Two rewards with one name.
    #[error("two rewards are called '{0}'")]
    DuplicateReward(String),
    /// A choice for a state that does not exist.
    #[error("there is no such state: the model has {states} states")]
    UnknownState {
        /// How many there are.
        states: usize,
    },
    /// A state without a way on.
    #[error("the state has no action: every state needs at least one, if only to stay where it is")]
    NoAction,
    /// Two actions of a state with one name.
    #[error("the state has this action twice")]
    DuplicateAction,
    /// One target listed twice.
    #[error("the target {target} is listed twice")]
    DuplicateTarget {
        /// The target.
        target: usize,
    },
    /// A target out of range.
    #[error("the target {target} does not exist: the states are 0 to {}", states - 1)]
    Target {
        /// The target.
        target: usize,
        /// How many states there are.
        states: usize,
    },
    /// A probability out of range.
    #[error("the probability of target {target} is {value}, expected a number from 0 to 1")]
    Probability {
        /// The target.
        target: usize,
        /// The value.
        value: f64,
    },
    /// Probabilities that do not add up to 1.
    #[error("the probabilities add up to {sum}, expected 1")]
    Sum {
        /// Their sum.
        sum: f64,
    },
    /// A list of rewards of the wrong length.
    #[error("expected {expected} rewards, found {found}")]
    RewardCount {
        /// The number of reward names.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// A reward that is not finite.
    #[error("the reward '{reward}' is {value}, expected a finite number")]
    Reward {
        /// Its name.
        reward: String,
        /// Its value.
        value: f64,
    },
    /// An initial state out of range.
    #[error("the initial state {target} does not exist: the states are 0 to {}", states - 1)]
    Initial {
        /// The state.
        target: usize,
        /// How many states there are.
        states: usize,
    },
    /// An initial probability out of range.
    #[error("the probability of starting in state {target} is {value}, expected a number from 0 to 1")]
    InitialProbability {
        /// The state.
        target: usize,
        /// The value.
        value: f64,
    },
    /// Initial probabilities that do not add up to 1.
    #[error("the initial probabilities add up to {sum}, expected 1")]
    InitialSum {
        /// Their sum.
        sum: f64,
    },
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
    fn a_model_knows_its_choices_and_steps_with_their_probabilities() {
        let mut b = two_states();
        b.choice(0, "stay", &[(0, 1.0)], &[2.0]); // out of order on purpose
        let model = b.build().unwrap();
        assert_eq!((model.states(), model.choice_count(), model.transitions()), (2, 3, 4));
        assert_eq!(model.choices(0), 0..2);
        assert_eq!(model.choice(1).action, "stay");
        assert_eq!(model.reward_range(0), (0.0, 2.0));
        let (mut env, mut rng, mut r) = (&model, Rng::new(3), [0.0]);
        let back = (0..10_000).filter(|_| env.step(&1, &0, &mut r, &mut rng).unwrap() == 0).count();
        assert!((2300..2700).contains(&back), "{back}");
        assert!(env.step(&1, &1, &mut r, &mut rng).is_err());
    }

    #[test]
    fn faults_name_the_state_and_the_action() {
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
}
