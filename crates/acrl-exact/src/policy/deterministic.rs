//! Deterministic policies of an end component, stored compactly.

use crate::FiniteTask;
use crate::graph::{EndComponent, Grouped};

/// Deterministic policy of an end component, one byte per state where possible, and the recurrent class
/// whose values its column holds.
#[derive(Debug, Clone)]
pub(crate) struct DeterministicPolicy {
    actions: Actions,
    /// A state of the recurrent class.
    root: u32,
    /// Whether the policy has other recurrent classes.
    several: bool,
}

#[derive(Debug, Clone)]
enum Actions {
    Few(Vec<u8>),
    Many(Vec<u32>),
}

impl DeterministicPolicy {
    /// The policy that takes choice `choices[s]` of the component in state s.
    pub(crate) fn new(component: &EndComponent, choices: &[u32], root: usize, several: bool) -> Self {
        let action = |s: usize| choices[s] - component.choices_of(s).start as u32;
        let few = (0..choices.len()).all(|s| action(s) < 256);
        let actions = if few {
            Actions::Few((0..choices.len()).map(|s| action(s) as u8).collect())
        } else {
            Actions::Many((0..choices.len()).map(action).collect())
        };
        Self { actions, root: root as u32, several }
    }

    /// Whether the policy has several recurrent classes.
    pub(crate) fn has_several_classes(&self) -> bool {
        self.several
    }

    /// Choice of the component in each state.
    pub(crate) fn choices(&self, component: &EndComponent) -> Vec<u32> {
        let action = |s: usize| match &self.actions {
            Actions::Few(actions) => u32::from(actions[s]),
            Actions::Many(actions) => actions[s],
        };
        (0..component.len()).map(|s| component.choices_of(s).start as u32 + action(s)).collect()
    }

    /// Number of the action in each state of the model; from every state the policy reaches its
    /// recurrent class.
    pub(crate) fn expand(&self, task: &FiniteTask<'_>, component: &EndComponent) -> Vec<usize> {
        let model = task.model();
        let mut choices = self.choices(component);
        if self.several {
            redirect_to_class(component, &mut choices, self.root as usize);
        }
        // Outside of the only end component all states are transient under every policy.
        let mut actions = vec![0; model.states()];
        for (s, choice) in choices.into_iter().enumerate() {
            let state = component.state(s);
            actions[state] = component.choice(choice as usize) - model.choices(state).start;
        }
        actions
    }
}

/// Redirects the states from which a policy may end outside the recurrent class of `root`: each takes
/// the first step of a path with the fewest transitions to where it does not.
fn redirect_to_class(component: &EndComponent, choices: &mut [u32], root: usize) {
    let n = component.len();
    // The class itself: all that the policy reaches from the root.
    let mut reaches = vec![false; n];
    let mut work = vec![root];
    while let Some(s) = work.pop() {
        if !std::mem::replace(&mut reaches[s], true) {
            work.extend(component.transitions(choices[s] as usize).0.iter().map(|&t| t as usize));
        }
    }
    let into = |s: usize| component.successors(s).iter().map(move |&t| (t as usize, s));
    let predecessors = Grouped::new(n, (0..n).flat_map(into));
    let mut queue: Vec<usize> = (0..n).filter(|&s| reaches[s]).collect();
    let mut at = 0;
    while at < queue.len() {
        let t = queue[at];
        at += 1;
        for s in predecessors.of(t).iter().map(|&s| s as usize) {
            if !std::mem::replace(&mut reaches[s], true) {
                let leads = |c: &usize| component.transitions(*c).0.contains(&(t as u32));
                // The policy's own action, if it leads there too.
                let own = Some(choices[s] as usize).filter(leads);
                if let Some(choice) = own.or_else(|| component.choices_of(s).find(leads)) {
                    choices[s] = choice as u32;
                }
                queue.push(s);
            }
        }
    }
}
