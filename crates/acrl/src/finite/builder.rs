//! The builder of a finite model, choice by choice.

use super::fault::{ModelError, ModelFault};
use super::names::{ActionNames, Interner, StateNames};
use super::{FiniteCmdp, checked_initial, checked_rewards, checked_sum, first_choices};

/// The builder of a [`FiniteCmdp`]. Faults are reported by [`build`](Self::build), or earlier by
/// [`check`](Self::check).
///
/// Its arrays become the model without a copy if the choices are added in the order of their states.
#[derive(Debug, Clone)]
pub struct FiniteCmdpBuilder {
    reward_names: Vec<String>,
    state_names: StateNames,
    actions: Interner,
    /// The state and the action of each choice, in the order of addition.
    states: Vec<u32>,
    action_of: Vec<u32>,
    /// The number of consecutive choices of the last one's state.
    run: usize,
    first_transition: Vec<u32>,
    targets: Vec<u32>,
    probabilities: Vec<f64>,
    rewards: Vec<f64>,
    initial: Vec<(usize, f64)>,
    /// The first target that does not fit the index type.
    huge: Option<usize>,
    fault: Option<ModelError>,
}

impl FiniteCmdpBuilder {
    pub(super) fn new(reward_names: Vec<String>) -> Self {
        Self {
            fault: checked_rewards(&reward_names).err().map(ModelError::whole),
            reward_names,
            state_names: StateNames::Numbered(0),
            actions: Interner::default(),
            states: Vec::new(),
            action_of: Vec::new(),
            run: 0,
            first_transition: vec![0],
            targets: Vec::new(),
            probabilities: Vec::new(),
            rewards: Vec::new(),
            initial: Vec::new(),
            huge: None,
        }
    }

    /// Adds a state and returns its number. A name that equals this number takes no memory.
    pub fn state(&mut self, name: impl AsRef<str>) -> usize {
        self.state_names.push(name.as_ref());
        self.state_names.len() - 1
    }

    /// Adds an action to a state: successors with probabilities, and r(s, a). Targets
    /// may be states that are added later. Probabilities of 0 are dropped.
    pub fn choice(
        &mut self,
        state: usize,
        action: impl AsRef<str>,
        transitions: &[(usize, f64)],
        rewards: &[f64],
    ) -> &mut Self {
        let action = action.as_ref();
        if self.fault.is_some() {
            return self;
        }
        let total = match self.checked(state, transitions, rewards) {
            Ok(total) => total,
            Err(fault) => {
                let known = state < self.state_names.len();
                let name = if known { self.state_names.get(state).into_owned() } else { state.to_string() };
                self.fault = Some(ModelError { state: Some(name), action: Some(action.to_owned()), fault });
                return self;
            }
        };
        for &(target, p) in transitions.iter().filter(|(_, p)| *p > 0.0) {
            let kept = u32::try_from(target).unwrap_or_else(|_| {
                self.huge.get_or_insert(target);
                u32::MAX
            });
            self.targets.push(kept);
            self.probabilities.push(p / total);
        }
        self.run = if self.states.last() == Some(&(state as u32)) { self.run + 1 } else { 0 };
        self.states.push(state as u32);
        self.action_of.push(self.actions.number(action, self.run));
        self.first_transition.push(self.targets.len() as u32);
        self.rewards.extend_from_slice(rewards);
        self
    }

    /// The sum by which the probabilities are divided.
    fn checked(
        &self,
        state: usize,
        transitions: &[(usize, f64)],
        rewards: &[f64],
    ) -> Result<f64, ModelFault> {
        let states = self.state_names.len();
        if state >= states {
            return Err(ModelFault::UnknownState { states });
        }
        if states > u32::MAX as usize {
            return Err(ModelFault::TooManyStates { states });
        }
        let count = self.targets.len() + transitions.len();
        if count > u32::MAX as usize {
            return Err(ModelFault::TooManyTransitions { transitions: count });
        }
        if rewards.len() != self.reward_names.len() {
            return Err(ModelFault::RewardCount { expected: self.reward_names.len(), found: rewards.len() });
        }
        if let Some(i) = rewards.iter().position(|r| !r.is_finite()) {
            return Err(ModelFault::Reward { reward: self.reward_names[i].clone(), value: rewards[i] });
        }
        let total = checked_sum(transitions.iter().copied())?;
        repeated(transitions).map_or(Ok(total), |target| Err(ModelFault::DuplicateTarget { target }))
    }

    /// Adds an initial state with a probability; several calls make a distribution. The default is
    /// state 0.
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
        let initial = checked_initial(std::mem::take(&mut self.initial), states)?;
        self.check_targets(states)?;
        if !self.states.is_sorted() {
            self.sort();
        }
        let mut counts = vec![0_u32; states];
        self.states.iter().for_each(|&state| counts[state as usize] += 1);
        self.states = Vec::new();
        if let Some(state) = counts.iter().position(|count| *count == 0) {
            let state = Some(self.state_names.get(state).into_owned());
            return Err(ModelError { state, action: None, fault: ModelFault::NoAction });
        }
        let mut model = FiniteCmdp {
            first_choice: first_choices(counts),
            reward_names: self.reward_names,
            state_names: self.state_names,
            actions: ActionNames { names: Some(self.actions.names), of: Some(self.action_of) },
            first_transition: self.first_transition,
            targets: self.targets,
            probabilities: self.probabilities,
            rewards: self.rewards,
            initial,
        };
        model.check_actions()?;
        model.shrink_to_fit();
        Ok(model)
    }

    /// Sorts the choices by state.
    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.states.len() as u32).collect();
        order.sort_by_key(|&i| self.states[i as usize]);
        let n = self.reward_names.len();
        let mut first_transition = Vec::with_capacity(self.first_transition.len());
        let (mut targets, mut probabilities) =
            (Vec::with_capacity(self.targets.len()), Vec::with_capacity(self.targets.len()));
        let mut rewards = Vec::with_capacity(self.rewards.len());
        first_transition.push(0);
        for i in order.iter().map(|i| *i as usize) {
            let transitions = self.first_transition[i] as usize..self.first_transition[i + 1] as usize;
            targets.extend_from_slice(&self.targets[transitions.clone()]);
            probabilities.extend_from_slice(&self.probabilities[transitions]);
            first_transition.push(targets.len() as u32);
            rewards.extend_from_slice(&self.rewards[i * n..(i + 1) * n]);
        }
        self.action_of = order.iter().map(|i| self.action_of[*i as usize]).collect();
        self.states.sort_unstable();
        (self.first_transition, self.targets) = (first_transition, targets);
        (self.probabilities, self.rewards) = (probabilities, rewards);
    }

    fn check_targets(&self, states: usize) -> Result<(), ModelError> {
        let Some(at) = self.targets.iter().position(|&t| t as usize >= states) else { return Ok(()) };
        let choice = self.first_transition.partition_point(|&first| first as usize <= at) - 1;
        let target = self.huge.filter(|_| self.targets[at] == u32::MAX).unwrap_or(self.targets[at] as usize);
        Err(ModelError {
            state: Some(self.state_names.get(self.states[choice] as usize).into_owned()),
            action: Some(self.actions.names[self.action_of[choice] as usize].clone()),
            fault: ModelFault::Target { target, states },
        })
    }
}

/// The first target that is listed twice.
fn repeated(transitions: &[(usize, f64)]) -> Option<usize> {
    if transitions.is_sorted_by(|a, b| a.0 < b.0) {
        return None; // the usual order, without a copy
    }
    let mut targets: Vec<usize> = transitions.iter().map(|(t, _)| *t).collect();
    targets.sort_unstable();
    targets.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
