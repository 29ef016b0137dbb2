//! GTH elimination of a small chain, in rows that are stored densely between their first and last entry.
//!
//! The method is that of [`gth`](super::gth), without its analysis of the sparsity pattern: for a few hundred
//! states that would cost more than it saves. States are eliminated in the reverse order of a breadth-first
//! search from the reference state, so that rows stay short.

use crate::vector::dot;

/// Eliminated chain of n states.
pub(super) struct SkylineElimination {
    /// State at each position, the reference state last, and the position of each state.
    order: Vec<u32>,
    position: Vec<u32>,
    /// Row by row: before the diagonal the multipliers, behind it the eliminated chain.
    entries: Vec<f64>,
    /// First and last position (plus one) that each row has an entry at.
    extents: Vec<(usize, usize)>,
    /// One over the probability of leaving each state for a later one; 0 where there is none.
    inverse: Vec<f64>,
}

impl SkylineElimination {
    /// Eliminates the chain whose transitions from state s are `row(s)`; all states lead to the reference.
    pub(super) fn new<'m>(n: usize, row: impl Fn(usize) -> (&'m [u32], &'m [f64]), reference: usize) -> Self {
        let (order, position) = elimination_order(n, |s| row(s).0, reference);
        let mut entries = vec![0.0; n * n];
        let mut extents = vec![(0, 0); n];
        for i in 0..n - 1 {
            let (targets, probabilities) = row(order[i] as usize);
            let own = &mut entries[i * n..(i + 1) * n];
            let (mut first, mut end) = (i, i + 1);
            for (&t, p) in targets.iter().zip(probabilities) {
                let t = position[t as usize] as usize;
                own[t] += p;
                (first, end) = (first.min(t), end.max(t + 1));
            }
            extents[i] = (first, end);
        }
        extents[n - 1] = (n - 1, n);
        let mut inverse = vec![0.0; n];
        // Row by row: all earlier states are eliminated from it, then its own leaving probability is known.
        for i in 0..n - 1 {
            let (above, rest) = entries.split_at_mut(i * n);
            let own = &mut rest[..n];
            let (first, mut end) = extents[i];
            for j in first..i {
                if own[j] == 0.0 {
                    continue;
                }
                own[j] *= inverse[j];
                let (x, until) = (own[j], extents[j].1);
                let redirected = &above[j * n + j + 1..j * n + until];
                own[j + 1..until].iter_mut().zip(redirected).for_each(|(own, p)| *own += x * p);
                end = end.max(until);
            }
            extents[i].1 = end;
            let leaving: f64 = own[i + 1..end].iter().sum();
            inverse[i] = if leaving > 0.0 { 1.0 / leaving } else { 0.0 };
        }
        Self { order, position, entries, extents, inverse }
    }

    fn states(&self) -> usize {
        self.order.len()
    }

    /// Multipliers of a row and the position of the first; eliminated chain behind the diagonal.
    fn row(&self, i: usize) -> (&[f64], usize, &[f64]) {
        let ((first, end), base) = (self.extents[i], i * self.states());
        (&self.entries[base + first..base + i], first, &self.entries[base + i + 1..base + end.max(i + 1)])
    }

    /// A state besides the reference that is never left in floating point.
    pub(super) fn other_root(&self) -> Option<usize> {
        let stuck = self.inverse[..self.states() - 1].iter().position(|x| !(*x > 0.0 && x.is_finite()));
        stuck.map(|i| self.order[i] as usize)
    }

    /// Solution x of x = b + P x, with x = 0 at the reference state.
    pub(super) fn solve(&self, b: impl Fn(usize) -> f64) -> Vec<f64> {
        let last = self.states() - 1;
        let mut x: Vec<f64> = self.order.iter().map(|&s| b(s as usize)).collect();
        for i in 0..last {
            let (multipliers, first, _) = self.row(i);
            x[i] += dot(multipliers, &x[first..i]);
        }
        x[last] = 0.0;
        for i in (0..last).rev() {
            let (_, _, later) = self.row(i);
            x[i] = (x[i] + dot(later, &x[i + 1..i + 1 + later.len()])) * self.inverse[i];
        }
        self.position.iter().map(|&p| x[p as usize]).collect()
    }

    /// Expected visits of each state after leaving the reference state by the transitions `row` until it is
    /// reached again; 1 at the reference state itself.
    pub(super) fn visits(&self, (targets, probabilities): (&[u32], &[f64])) -> Vec<f64> {
        let last = self.states() - 1;
        let mut x = vec![0.0; last + 1];
        for (&t, p) in targets.iter().zip(probabilities) {
            x[self.position[t as usize] as usize] += p;
        }
        for i in 0..last {
            x[i] *= self.inverse[i];
            let (_, _, later) = self.row(i);
            let visits = x[i];
            x[i + 1..].iter_mut().zip(later).for_each(|(x, p)| *x += visits * p);
        }
        for i in (0..last).rev() {
            let (multipliers, first, _) = self.row(i);
            let visits = x[i];
            x[first..i].iter_mut().zip(multipliers).for_each(|(x, p)| *x += visits * p);
        }
        x[last] = 1.0;
        self.position.iter().map(|&p| x[p as usize]).collect()
    }
}

/// States in the reverse order of a breadth-first search against the transitions from the reference, and
/// the position of each.
fn elimination_order<'m>(
    n: usize,
    targets: impl Fn(usize) -> &'m [u32],
    reference: usize,
) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0u32; n + 2];
    for s in 0..n {
        targets(s).iter().for_each(|&t| start[t as usize + 2] += 1);
    }
    (2..n + 2).for_each(|t| start[t] += start[t - 1]);
    let mut sources = vec![0u32; start[n + 1] as usize];
    for s in 0..n {
        for &t in targets(s) {
            sources[start[t as usize + 1] as usize] = s as u32;
            start[t as usize + 1] += 1;
        }
    }
    let mut order = Vec::with_capacity(n);
    let mut position = vec![u32::MAX; n];
    order.push(reference as u32);
    position[reference] = 0;
    let mut next = 0;
    while next < order.len() {
        let t = order[next] as usize;
        for &s in &sources[start[t] as usize..start[t + 1] as usize] {
            if position[s as usize] == u32::MAX {
                position[s as usize] = 0;
                order.push(s);
            }
        }
        next += 1;
    }
    // States that do not lead to the reference go first: one of them is a root of its own.
    for s in 0..n {
        if position[s] == u32::MAX {
            order.push(s as u32);
        }
    }
    order.reverse();
    order.iter().enumerate().for_each(|(i, &s)| position[s as usize] = i as u32);
    (order, position)
}
