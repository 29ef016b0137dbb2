//! Maximal end components.

use acrl::FiniteCmdp;

use super::reach::Predecessors;
use super::scc::Components;

/// Connectivity of a model, seen from its initial states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Whether each state can be reached.
    pub reachable: Vec<bool>,
    /// Reachable maximal end components: sets of states within which an agent can stay for ever and
    /// reach any state from any other.
    pub end_components: Vec<Vec<usize>>,
}

impl Structure {
    /// Analyses a model.
    pub fn new(model: &FiniteCmdp) -> Self {
        let n = model.states();
        let roots = model.initial().iter().map(|(s, _)| *s);
        let found = Components::new(n, roots, |s, edge| model.successors(s).get(edge).map(|&t| t as usize));
        let mut reachable = vec![false; n];
        found.states.iter().for_each(|&s| reachable[s as usize] = true);
        // No choice leaves the reachable states: if they are strongly connected, they are the end component.
        let end_components = if found.ends.len() == 1 {
            vec![(0..n).filter(|&s| reachable[s]).collect()]
        } else {
            end_components(model, found)
        };
        Self { reachable, end_components }
    }

    /// Whether there is one end component, so that every mixture of long-run averages is attained on
    /// almost every path.
    pub fn is_communicating(&self) -> bool {
        self.end_components.len() == 1
    }
}

/// Choices and states that may still belong to an end component.
struct Candidates<'a> {
    model: &'a FiniteCmdp,
    predecessors: Predecessors,
    kept: Vec<bool>,
    /// Number of remaining choices of each state.
    left: Vec<u32>,
}

impl Candidates<'_> {
    /// Drops a choice, and where a state has none left, all choices that may lead to it.
    fn drop(&mut self, choice: usize) {
        let mut work = vec![choice];
        while let Some(c) = work.pop() {
            if !std::mem::replace(&mut self.kept[c], false) {
                continue;
            }
            let s = self.predecessors.states[c] as usize;
            self.left[s] -= 1;
            if self.left[s] == 0 {
                work.extend(self.predecessors.of(s).map(|(c, _)| c).filter(|&c| self.kept[c]));
            }
        }
    }

    /// Strong components of some states under the remaining choices. `place` is scratch for all states.
    fn components(&self, states: &[u32], place: &mut [u32]) -> Components {
        let (mut targets, mut ends) = (Vec::new(), Vec::with_capacity(states.len()));
        states.iter().enumerate().for_each(|(i, &s)| place[s as usize] = i as u32);
        for &s in states {
            for c in self.model.choices(s as usize).filter(|&c| self.kept[c]) {
                targets.extend(self.model.choice(c).targets.iter().map(|&t| place[t as usize]));
            }
            ends.push(targets.len());
        }
        let first = |i: usize| if i == 0 { 0 } else { ends[i - 1] };
        let successor = |i: usize, edge: usize| targets[first(i)..ends[i]].get(edge).map(|&t| t as usize);
        let mut found = Components::new(states.len(), 0..states.len(), successor);
        found.states.iter_mut().for_each(|s| *s = states[*s as usize]);
        found
    }
}

/// Decomposition into maximal end components (de Alfaro 1997): splits into strong components, drops the
/// choices that leave their component, and splits again the components that had such choices.
fn end_components(model: &FiniteCmdp, reachable: Components) -> Vec<Vec<usize>> {
    let n = model.states();
    let left = (0..n).map(|s| model.choices(s).len() as u32).collect();
    let kept = vec![true; model.choice_count()];
    let mut candidates = Candidates { model, predecessors: Predecessors::new(model), kept, left };
    let (mut component_of, mut place) = (vec![u32::MAX; n], vec![0; n]);
    let mut next = 0;
    let mut result: Vec<Vec<usize>> = Vec::new();
    let mut work = vec![reachable];
    while let Some(found) = work.pop() {
        let start = next;
        for component in found.iter() {
            component.iter().for_each(|&s| component_of[s as usize] = next);
            next += 1;
        }
        let (mut broken, mut leaving) = (vec![false; found.ends.len()], Vec::new());
        for (i, component) in found.iter().enumerate() {
            for c in component.iter().flat_map(|&s| model.choices(s as usize)) {
                let leaves = |&t: &u32| component_of[t as usize] != start + i as u32;
                if candidates.kept[c] && model.choice(c).targets.iter().any(leaves) {
                    broken[i] = true;
                    leaving.push(c);
                }
            }
        }
        leaving.into_iter().for_each(|c| candidates.drop(c));
        for (component, broken) in found.iter().zip(broken) {
            if broken {
                let some = |s: &u32| candidates.left[*s as usize] > 0;
                let states: Vec<u32> = component.iter().copied().filter(some).collect();
                if !states.is_empty() {
                    work.push(candidates.components(&states, &mut place));
                }
            } else {
                let mut states: Vec<usize> = component.iter().map(|&s| s as usize).collect();
                states.sort_unstable();
                result.push(states);
            }
        }
    }
    result.sort();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::almost_surely_reaching;
    use crate::graph::scc::strong_components;
    use crate::test_models::{of_choices, random_model};

    #[test]
    fn absorbing_states_are_end_components_and_a_hub_is_not() {
        let structure = Structure::new(&of_choices(&[
            (0, "left", &[(1, 1.0)], [0.0]),
            (0, "right", &[(2, 1.0)], [0.0]),
            (1, "stay", &[(1, 1.0)], [0.0]),
            (2, "stay", &[(2, 1.0)], [0.0]),
            (3, "unreachable", &[(3, 1.0)], [0.0]),
        ]));
        assert_eq!(structure.end_components, vec![vec![1], vec![2]]);
        assert_eq!(structure.reachable, [true, true, true, false]);
        assert!(!structure.is_communicating());
    }

    #[test]
    fn choices_that_may_leave_are_not_part_of_an_end_component() {
        let structure = Structure::new(&of_choices(&[
            (0, "risk", &[(0, 0.9), (1, 0.1)], [0.0]),
            (1, "stay", &[(1, 1.0)], [0.0]),
        ]));
        assert_eq!(structure.end_components, vec![vec![1]]);
        assert!(structure.is_communicating());
    }

    /// End components by definition: split into components, drop the choices that leave theirs, repeat.
    fn end_components_by_definition(model: &FiniteCmdp, reachable: &[bool]) -> Vec<Vec<usize>> {
        let n = model.states();
        let mut kept = vec![true; model.choice_count()];
        let mut alive = reachable.to_vec();
        loop {
            let edges: Vec<Vec<usize>> = (0..n)
                .map(|s| {
                    let choices = model.choices(s).filter(|&c| alive[s] && kept[c]);
                    choices.flat_map(|c| model.choice(c).targets.iter().map(|&t| t as usize)).collect()
                })
                .collect();
            let mut found = strong_components(n, |s| &edges[s]);
            found.iter_mut().for_each(|c| c.sort_unstable());
            let of = |s: usize| found.iter().position(|c| c.contains(&s));
            let before = (kept.clone(), alive.clone());
            for s in (0..n).filter(|&s| alive[s]) {
                for c in model.choices(s) {
                    kept[c] &=
                        model.choice(c).targets.iter().all(|&t| alive[t as usize] && of(t as usize) == of(s));
                }
            }
            (0..n).for_each(|s| alive[s] &= model.choices(s).any(|c| kept[c]));
            if before == (kept.clone(), alive.clone()) {
                found.retain(|c| c.iter().all(|&s| alive[s]));
                found.sort();
                return found;
            }
        }
    }

    #[test]
    fn long_transient_chain_is_decomposed_in_linear_time() {
        // A random walk with an absorbing end: state after state loses its only choice.
        let n = 300_000;
        let mut b = FiniteCmdp::builder(["x"]);
        (0..n).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..n - 1 {
            b.choice(s, "go", &[(s.saturating_sub(1), 0.5), (s + 1, 0.5)], &[0.0]);
        }
        b.choice(n - 1, "stay", &[(n - 1, 1.0)], &[0.0]);
        let model = b.build().unwrap();
        assert_eq!(Structure::new(&model).end_components, vec![vec![n - 1]]);
        let goal: Vec<bool> = (0..n).map(|s| s == n - 1).collect();
        assert!(almost_surely_reaching(&model, &goal).iter().all(|reaches| *reaches));
    }

    #[test]
    fn end_components_agree_with_the_definition() {
        let mut several = 0;
        for seed in 0..2000 {
            let mut rng = acrl::Rng::new(seed);
            let states = 1 + rng.index(12);
            let model = random_model(&mut rng, states);
            let structure = Structure::new(&model);
            let expected = end_components_by_definition(&model, &structure.reachable);
            assert_eq!(structure.end_components, expected, "{seed}");
            several += usize::from(structure.end_components.len() > 1);
        }
        assert!(several > 100, "{several}");
    }
}
