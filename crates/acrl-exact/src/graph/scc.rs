//! Strongly connected components (Tarjan 1972), without recursion.

/// Strongly connected components of the graph on `0..n`, in reverse topological order.
pub(crate) fn strong_components<'a>(n: usize, successors: impl Fn(usize) -> &'a [usize]) -> Vec<Vec<usize>> {
    let found = Components::new(n, 0..n, |s, edge| successors(s).get(edge).copied());
    found.iter().map(|states| states.iter().map(|&s| s as usize).collect()).collect()
}

/// Recurrent classes of the Markov chain on `0..n` with these successors, its closed strongly connected
/// components, and its transient states.
pub(crate) fn recurrent_classes<'a>(
    n: usize,
    successors: impl Fn(usize) -> &'a [usize],
) -> (Vec<Vec<usize>>, Vec<usize>) {
    let components = strong_components(n, &successors);
    let mut of = vec![0; n];
    components.iter().enumerate().for_each(|(i, states)| states.iter().for_each(|&s| of[s] = i));
    let closed =
        |states: &Vec<usize>| states.iter().all(|&s| successors(s).iter().all(|&t| of[t] == of[states[0]]));
    let (classes, transient): (Vec<_>, Vec<_>) = components.into_iter().partition(closed);
    (classes, transient.concat())
}

/// Strongly connected components in reverse topological order.
pub(crate) struct Components {
    /// States, component by component.
    pub(crate) states: Vec<u32>,
    /// End of each component in `states`.
    pub(crate) ends: Vec<u32>,
}

impl Components {
    /// Components reachable from the roots. `successor(s, i)` is the i-th successor of s.
    pub(crate) fn new(
        n: usize,
        roots: impl Iterator<Item = usize>,
        successor: impl Fn(usize, usize) -> Option<usize>,
    ) -> Self {
        const UNSEEN: u32 = u32::MAX;
        // Number in the order of discovery; DONE once the state's component is known.
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let component = &self.states[start..end as usize];
            start = end as usize;
            component
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_in_reverse_topological_order() {
        let edges: [&[usize]; 5] = [&[1], &[2, 3], &[1], &[3], &[0]];
        let mut found = strong_components(5, |s| edges[s]);
        found.iter_mut().for_each(|states| states.sort_unstable());
        assert_eq!(found, vec![vec![3], vec![1, 2], vec![0], vec![4]]);
        assert_eq!(recurrent_classes(5, |s| edges[s]).0, vec![vec![3]]);
    }
}
