//! Strongly connected components, maximal end components, and what they say about a model.

use acrl::FiniteCmdp;

/// The strongly connected components of the graph on `0..n`, each after those it leads to (Tarjan).
pub(crate) fn components<'a>(n: usize, successors: impl Fn(usize) -> &'a [usize]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let (mut index, mut low) = (vec![UNSEEN; n], vec![0; n]);
    let mut on_stack = vec![false; n];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    let mut work: Vec<(usize, usize)> = Vec::new();
    for root in 0..n {
        if index[root] != UNSEEN {
            continue;
        }
        work.push((root, 0));
        while let Some((s, edge)) = work.pop() {
            if edge == 0 {
                (index[s], low[s]) = (next, next);
                next += 1;
                stack.push(s);
                on_stack[s] = true;
            }
            match successors(s).get(edge) {
                Some(&t) => {
                    work.push((s, edge + 1));
                    if index[t] == UNSEEN {
                        work.push((t, 0));
                    } else if on_stack[t] {
                        low[s] = low[s].min(index[t]);
                    }
                }
                None => {
                    if low[s] == index[s] {
                        let at = stack.iter().rposition(|&t| t == s).unwrap_or(0);
                        let component = stack.split_off(at);
                        component.iter().for_each(|&t| on_stack[t] = false);
                        found.push(component);
                    }
                    if let Some(&(parent, _)) = work.last() {
                        low[parent] = low[parent].min(low[s]);
                    }
                }
            }
        }
    }
    found
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
        let mut reachable = vec![false; n];
        let mut work: Vec<usize> = model.initial().iter().map(|(s, _)| *s).collect();
        while let Some(s) = work.pop() {
            if !std::mem::replace(&mut reachable[s], true) {
                for choice in model.choices(s) {
                    work.extend(model.choice(choice).targets.iter().map(|&t| t as usize));
                }
            }
        }
        let end_components = end_components(model, &reachable);
        Self { reachable, end_components }
    }

    /// Whether all that can happen in the long run happens in one end component, so that every
    /// mixture of long-run behaviours is attained on almost every path.
    pub fn is_communicating(&self) -> bool {
        self.end_components.len() == 1
    }
}

/// The states from which some policy reaches a goal with probability 1.
pub(crate) fn almost_surely_reaching(model: &FiniteCmdp, goal: &[bool]) -> Vec<bool> {
    let n = model.states();
    let mut kept = vec![true; n];
    loop {
        // Which states can get to the goal at all, by choices that never leave the kept states?
        let mut reaching: Vec<bool> = (0..n).map(|s| kept[s] && goal[s]).collect();
        loop {
            let steps = |s: &usize| {
                let choice = |c: usize| {
                    let targets = model.choice(c).targets;
                    targets.iter().all(|&t| kept[t as usize]) && targets.iter().any(|&t| reaching[t as usize])
                };
                kept[*s] && !reaching[*s] && model.choices(*s).any(choice)
            };
            let more: Vec<usize> = (0..n).filter(steps).collect();
            if more.is_empty() {
                break;
            }
            more.into_iter().for_each(|s| reaching[s] = true);
        }
        if reaching == kept {
            return kept;
        }
        kept = reaching;
    }
}

/// Splits into components, drops the choices that leave their component, until nothing changes.
fn end_components(model: &FiniteCmdp, within: &[bool]) -> Vec<Vec<usize>> {
    let n = model.states();
    let mut kept: Vec<bool> = vec![true; model.choice_count()];
    let mut alive = within.to_vec();
    loop {
        let edges: Vec<Vec<usize>> = (0..n)
            .map(|s| {
                let choices = model.choices(s).filter(|&c| alive[s] && kept[c]);
                choices.flat_map(|c| model.choice(c).targets.iter().map(|&t| t as usize)).collect()
            })
            .collect();
        let found = components(n, |s| &edges[s]);
        let mut component_of = vec![usize::MAX; n];
        for (i, component) in found.iter().enumerate() {
            component.iter().filter(|&&s| alive[s]).for_each(|&s| component_of[s] = i);
        }
        let mut changed = false;
        for s in (0..n).filter(|&s| alive[s]) {
            for c in model.choices(s) {
                let leaves =
                    model.choice(c).targets.iter().any(|&t| component_of[t as usize] != component_of[s]);
                changed |= kept[c] && leaves;
                kept[c] &= !leaves;
            }
        }
        for s in 0..n {
            if alive[s] && !model.choices(s).any(|c| kept[c]) {
                alive[s] = false;
                changed = true;
            }
        }
        if !changed {
            let mut result: Vec<Vec<usize>> =
                found.into_iter().filter(|c| c.iter().all(|&s| alive[s])).collect();
            result.iter_mut().for_each(|c| c.sort_unstable());
            result.sort();
            return result;
        }
    }
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
}
