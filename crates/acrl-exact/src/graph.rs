//! Strongly connected components, maximal end components, and what they say about a model.
//!
//! All of it walks over the model's own arrays: beside them it takes some 20 bytes for each state, and where a model falls
//! into parts, 4 for each transition (who leads to whom).

use acrl::FiniteCmdp;

/// The strongly connected components of the graph on `0..n`, each after those it leads to (Tarjan).
pub(crate) fn components<'a>(n: usize, successors: impl Fn(usize) -> &'a [usize]) -> Vec<Vec<usize>> {
    let found = Components::new(n, 0..n, |s, edge| successors(s).get(edge).copied());
    found.iter().map(|states| states.iter().map(|&s| s as usize).collect()).collect()
}

/// Strongly connected components, each after those it leads to.
struct Components {
    /// One component after the other, and where each ends.
    states: Vec<u32>,
    ends: Vec<u32>,
}

impl Components {
    /// Those that can be reached from the roots. `successor(s, i)` is the i-th state that s leads to.
    fn new(
        n: usize,
        roots: impl Iterator<Item = usize>,
        successor: impl Fn(usize, usize) -> Option<usize>,
    ) -> Self {
        const UNSEEN: u32 = u32::MAX;
        // The place in the order of discovery, until a state's component is found. Then it is DONE.
        const DONE: u32 = u32::MAX - 1;
        let mut index = vec![UNSEEN; n];
        let mut low = vec![0_u32; n];
        let (mut states, mut ends) = (Vec::new(), Vec::new());
        let (mut stack, mut next): (Vec<u32>, u32) = (Vec::new(), 0);
        let mut work: Vec<(u32, u32)> = Vec::new();
        for root in roots {
            if index[root] != UNSEEN {
                continue;
            }
            work.push((root as u32, 0));
            while let Some((s, edge)) = work.last_mut() {
                let s = *s as usize;
                if *edge == 0 && index[s] == UNSEEN {
                    (index[s], low[s]) = (next, next);
                    next += 1;
                    stack.push(s as u32);
                }
                let successor = successor(s, *edge as usize);
                *edge += 1;
                match successor {
                    Some(t) if index[t] == UNSEEN => work.push((t as u32, 0)),
                    Some(t) if index[t] != DONE => low[s] = low[s].min(index[t]),
                    Some(_) => {}
                    None => {
                        work.pop();
                        if low[s] == index[s] {
                            while let Some(t) = stack.pop() {
                                index[t as usize] = DONE;
                                states.push(t);
                                if t as usize == s {
                                    break;
                                }
                            }
                            ends.push(states.len() as u32);
                        }
                        if let Some(&(parent, _)) = work.last() {
                            low[parent as usize] = low[parent as usize].min(low[s]);
                        }
                    }
                }
            }
        }
        Self { states, ends }
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let component = &self.states[start..end as usize];
            start = end as usize;
            component
        })
    }
}

/// How a model hangs together, seen from its initial states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Which states can be reached at all.
    pub reachable: Vec<bool>,
    /// The reachable maximal end components: sets of states within which an agent can stay for
    /// ever and get from any state to any other.
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
        // No choice leads out of what can be reached: if that is one component, then it is the end component.
        let end_components = if found.ends.len() == 1 {
            vec![(0..n).filter(|&s| reachable[s]).collect()]
        } else {
            end_components(model, found)
        };
        Self { reachable, end_components }
    }

    /// Whether all that can happen in the long run happens in one end component, so that every
    /// mixture of long-run behaviours is attained on almost every path.
    pub fn is_communicating(&self) -> bool {
        self.end_components.len() == 1
    }
}

/// Who leads to whom, backwards: the choices that lead to each state, and the state of each choice.
struct Predecessors {
    first: Vec<u32>,
    choices: Vec<u32>,
    states: Vec<u32>,
}

impl Predecessors {
    fn new(model: &FiniteCmdp) -> Self {
        let n = model.states();
        let mut first = vec![0_u32; n + 1];
        let mut states = vec![0_u32; model.choice_count()];
        for s in 0..n {
            states[model.choices(s)].fill(s as u32);
            model.successors(s).iter().for_each(|&t| first[t as usize + 1] += 1);
        }
        (0..n).for_each(|s| first[s + 1] += first[s]);
        let mut next = first.clone();
        let mut choices = vec![0_u32; model.transitions()];
        for c in 0..model.choice_count() {
            for &t in model.choice(c).targets {
                choices[next[t as usize] as usize] = c as u32;
                next[t as usize] += 1;
            }
        }
        Self { first, choices, states }
    }

    /// The choices that lead to a state, each with the state that has it.
    fn of(&self, state: usize) -> impl Iterator<Item = (usize, usize)> {
        let range = self.first[state] as usize..self.first[state + 1] as usize;
        self.choices[range].iter().map(|&c| (c as usize, self.states[c as usize] as usize))
    }
}

/// The states from which some policy reaches a goal with probability 1.
pub(crate) fn almost_surely_reaching(model: &FiniteCmdp, goal: &[bool]) -> Vec<bool> {
    let n = model.states();
    let predecessors = Predecessors::new(model);
    let mut kept = vec![true; n];
    // Choices that may leave the kept states.
    let mut leaves = vec![false; model.choice_count()];
    loop {
        // Which states can get to the goal at all, by choices that never leave the kept states?
        let mut reaching: Vec<bool> = (0..n).map(|s| kept[s] && goal[s]).collect();
        let mut work: Vec<usize> = (0..n).filter(|&s| reaching[s]).collect();
        while let Some(t) = work.pop() {
            for (c, s) in predecessors.of(t) {
                if kept[s] && !leaves[c] && !std::mem::replace(&mut reaching[s], true) {
                    work.push(s);
                }
            }
        }
        if reaching == kept {
            return kept;
        }
        for s in (0..n).filter(|&s| kept[s] && !reaching[s]) {
            predecessors.of(s).for_each(|(c, _)| leaves[c] = true);
        }
        kept = reaching;
    }
}

/// Which choices and states may still belong to an end component.
struct Candidates<'a> {
    model: &'a FiniteCmdp,
    predecessors: Predecessors,
    kept: Vec<bool>,
    /// How many choices each state has left.
    left: Vec<u32>,
}

impl Candidates<'_> {
    /// Drops a choice. A state that has none left takes those along that lead to it, and so on.
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

    /// The components of some states under the choices that are left. `place` is scratch for all states.
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

/// Splits into components, drops the choices that leave their component, and looks again at what is left of a component
/// that had such choices.
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

    #[test]
    fn components_come_in_reverse_topological_order() {
        let edges: [&[usize]; 5] = [&[1], &[2, 3], &[1], &[3], &[0]];
        let found = components(5, |s| edges[s]);
        let sorted: Vec<Vec<usize>> = found
            .into_iter()
            .map(|mut c| {
                c.sort_unstable();
                c
            })
            .collect();
        assert_eq!(sorted, vec![vec![3], vec![1, 2], vec![0], vec![4]]);
    }

    #[test]
    fn two_traps_are_two_end_components_and_a_hub_is_none() {
        let mut b = FiniteCmdp::builder(["x"]);
        (0..4).for_each(|s| _ = b.state(s.to_string()));
        b.choice(0, "left", &[(1, 1.0)], &[0.0]);
        b.choice(0, "right", &[(2, 1.0)], &[0.0]);
        b.choice(1, "stay", &[(1, 1.0)], &[0.0]);
        b.choice(2, "stay", &[(2, 1.0)], &[0.0]);
        b.choice(3, "unreachable", &[(3, 1.0)], &[0.0]);
        let structure = Structure::new(&b.build().unwrap());
        assert_eq!(structure.end_components, vec![vec![1], vec![2]]);
        assert_eq!(structure.reachable, [true, true, true, false]);
        assert!(!structure.is_communicating());
    }

    #[test]
    fn reaching_for_sure_is_more_than_reaching() {
        let mut b = FiniteCmdp::builder(["x"]);
        (0..4).for_each(|s| _ = b.state(s.to_string()));
        b.choice(0, "gamble", &[(1, 0.5), (2, 0.5)], &[0.0]);
        b.choice(1, "stay", &[(1, 1.0)], &[0.0]);
        b.choice(2, "stay", &[(2, 1.0)], &[0.0]);
        b.choice(3, "try again", &[(1, 0.1), (3, 0.9)], &[0.0]);
        b.choice(3, "give up", &[(2, 1.0)], &[0.0]);
        let model = b.build().unwrap();
        assert_eq!(almost_surely_reaching(&model, &[false, true, false, false]), [false, true, false, true]);
    }

    #[test]
    fn a_choice_that_may_escape_belongs_to_no_end_component() {
        let mut b = FiniteCmdp::builder(["x"]);
        (0..2).for_each(|s| _ = b.state(s.to_string()));
        b.choice(0, "risk", &[(0, 0.9), (1, 0.1)], &[0.0]);
        b.choice(1, "stay", &[(1, 1.0)], &[0.0]);
        let structure = Structure::new(&b.build().unwrap());
        assert_eq!(structure.end_components, vec![vec![1]]);
        assert!(structure.is_communicating());
    }

    /// By the definition: split into components, drop the choices that leave theirs, until nothing changes.
    fn end_components_slowly(model: &FiniteCmdp, reachable: &[bool]) -> Vec<Vec<usize>> {
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
            let mut found = components(n, |s| &edges[s]);
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
    fn a_long_way_into_a_trap_falls_apart_at_once() {
        // Each state may step back or on, the last one stays: state after state loses its only choice.
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
    fn end_components_are_those_of_the_definition() {
        let mut several = 0;
        for seed in 0..2000 {
            let mut rng = acrl::Rng::new(seed);
            let n = 1 + rng.index(12);
            let mut b = FiniteCmdp::builder(["x"]);
            (0..n).for_each(|s| _ = b.state(s.to_string()));
            for s in 0..n {
                for a in 0..1 + rng.index(3) {
                    let mut to: Vec<usize> = (0..1 + rng.index(2)).map(|_| rng.index(n)).collect();
                    to.sort_unstable();
                    to.dedup();
                    let p = 1.0 / to.len() as f64;
                    let to: Vec<(usize, f64)> = to.into_iter().map(|t| (t, p)).collect();
                    b.choice(s, a.to_string(), &to, &[0.0]);
                }
            }
            let model = b.build().unwrap();
            let structure = Structure::new(&model);
            assert_eq!(
                structure.end_components,
                end_components_slowly(&model, &structure.reachable),
                "{seed}"
            );
            several += usize::from(structure.end_components.len() > 1);
        }
        assert!(several > 100, "{several}");
    }
}
