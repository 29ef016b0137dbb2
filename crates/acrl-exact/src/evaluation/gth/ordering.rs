//! Fill-reducing elimination order: nested dissection (George 1973).

use crate::tuning::{LEAF, PERIPHERAL_SEARCHES, REFINEMENT_PASSES};

/// Undirected graph without loops: the neighbours of v are `targets[first[v]..first[v + 1]]`.
pub(crate) struct Graph {
    first: Vec<usize>,
    targets: Vec<u32>,
}

impl Graph {
    /// Graph with an edge wherever `edges(s)` holds t or `edges(t)` holds s.
    pub(crate) fn symmetric<'a>(n: usize, edges: impl Fn(usize) -> &'a [u32]) -> Self {
        let mut first = vec![0usize; n + 1];
        let pairs = |s: usize| edges(s).iter().map(|&t| t as usize).filter(move |&t| t != s);
        for s in 0..n {
            for t in pairs(s) {
                first[s + 1] += 1;
                first[t + 1] += 1;
            }
        }
        (0..n).for_each(|s| first[s + 1] += first[s]);
        let mut next = first.clone();
        let mut targets = vec![0u32; first[n]];
        for s in 0..n {
            for t in pairs(s) {
                targets[next[s]] = t as u32;
                targets[next[t]] = s as u32;
                next[s] += 1;
                next[t] += 1;
            }
        }
        // Sorts the edges of each vertex and removes duplicates.
        let (mut end, mut begin) = (0, 0);
        for s in 0..n {
            let stop = first[s + 1];
            targets[begin..stop].sort_unstable();
            let start = end;
            for i in begin..stop {
                if end == start || targets[end - 1] != targets[i] {
                    targets[end] = targets[i];
                    end += 1;
                }
            }
            (begin, first[s + 1]) = (stop, end);
        }
        targets.truncate(end);
        targets.shrink_to_fit();
        Self { first, targets }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() - 1
    }

    pub(crate) fn neighbours(&self, v: usize) -> &[u32] {
        &self.targets[self.first[v]..self.first[v + 1]]
    }
}

/// Vertices in elimination order: two disconnected parts, each ordered recursively, then the separator
/// between them. `None` as soon as a separator has more than `widest` vertices: then the graph has no
/// good order.
///
/// A separator is a level of a breadth-first search from a peripheral vertex: the smallest one that
/// leaves at least a quarter on either side, refined by moving its vertices to a side where that makes
/// it smaller.
pub(crate) fn nested_dissection(graph: &Graph, widest: usize) -> Option<Vec<u32>> {
    let n = graph.len();
    let mut dissection = Dissection {
        graph,
        part: vec![0; n],
        parts: 1,
        level: vec![0; n],
        stamp: vec![0; n],
        stamps: 0,
        queue: Vec::with_capacity(n),
        starts: Vec::new(),
    };
    let mut order: Vec<u32> = (0..n as u32).collect();
    let mut work = vec![(0, n)];
    while let Some((begin, end)) = work.pop() {
        let (left, right) = dissection.split(&mut order[begin..end], widest)?;
        if left > 0 {
            work.push((begin, begin + left));
        }
        if right > 0 {
            work.push((begin + left, begin + left + right));
        }
    }
    Some(order)
}

struct Dissection<'g> {
    graph: &'g Graph,
    /// Part of each vertex.
    part: Vec<u32>,
    parts: u32,
    /// Level of each vertex in the last search that reached it, which is `stamp`.
    level: Vec<u32>,
    stamp: Vec<u32>,
    stamps: u32,
    /// Vertices in the order of the last search, and the start of each level.
    queue: Vec<u32>,
    starts: Vec<usize>,
}

const LEFT: u32 = 0;
const RIGHT: u32 = 1;
const SEPARATOR: u32 = 2;

impl Dissection<'_> {
    /// Rearranges a set as left part, right part, separator; returns the sizes of the parts that are still
    /// to be split. `None` if the separator is too wide.
    fn split(&mut self, set: &mut [u32], widest: usize) -> Option<(usize, usize)> {
        let n = set.len();
        if n <= LEAF {
            return Some((0, 0));
        }
        self.search(set[0]);
        if self.queue.len() < n {
            // Disconnected: the vertices reached, and the rest.
            let reached = self.queue.len();
            let stamp = self.stamps;
            let rest: Vec<u32> = set.iter().copied().filter(|&v| self.stamp[v as usize] != stamp).collect();
            set[..reached].copy_from_slice(&self.queue);
            set[reached..].copy_from_slice(&rest);
            self.rename(&set[..reached]);
            return Some((reached, n - reached));
        }
        // A pseudo-peripheral vertex (George & Liu 1979): from the last level, while the depth grows.
        for _ in 0..PERIPHERAL_SEARCHES {
            let depth = self.starts.len();
            let last = &self.queue[self.starts[depth - 1]..];
            let far = last.iter().copied().min_by_key(|&v| (self.graph.neighbours(v as usize).len(), v));
            self.search(far.unwrap_or(set[0]));
            if self.starts.len() <= depth {
                break;
            }
        }
        let depth = self.starts.len();
        if depth < 3 {
            return (n <= widest).then_some((0, 0));
        }
        let size = |l: usize| self.starts.get(l + 1).copied().unwrap_or(n) - self.starts[l];
        let cost = |l: &usize| {
            let smaller = self.starts[*l].min(n - self.starts[*l] - size(*l));
            let balanced = (n / 4).saturating_sub(smaller);
            // An unbalanced cut must shrink the separator by as much.
            (size(*l) + balanced, *l)
        };
        let middle = (1..depth - 1).min_by_key(cost)?;
        let (begin, end) = (self.starts[middle], self.starts[middle] + size(middle));
        let mut side = Sides { of: &mut self.level, sizes: [begin, n - end, end - begin] };
        self.queue[..begin].iter().for_each(|&v| side.of[v as usize] = LEFT);
        self.queue[begin..end].iter().for_each(|&v| side.of[v as usize] = SEPARATOR);
        self.queue[end..].iter().for_each(|&v| side.of[v as usize] = RIGHT);
        let separator = self.queue[begin..end].to_vec();
        side.refine(self.graph, &self.part, separator);
        let [left, right, width] = side.sizes;
        if width > widest {
            return None;
        }
        let mut next = [0, left, left + right];
        for &v in &self.queue {
            let to = self.level[v as usize] as usize;
            set[next[to]] = v;
            next[to] += 1;
        }
        self.rename(&set[..left]);
        self.rename(&set[left + right..]);
        Some((left, right))
    }

    /// Makes some vertices a part of their own.
    fn rename(&mut self, vertices: &[u32]) {
        vertices.iter().for_each(|&v| self.part[v as usize] = self.parts);
        self.parts += 1;
    }

    /// Breadth-first search from a vertex, within its part.
    fn search(&mut self, from: u32) {
        self.stamps += 1;
        self.queue.clear();
        self.starts.clear();
        self.queue.push(from);
        self.stamp[from as usize] = self.stamps;
        let part = self.part[from as usize];
        let mut begin = 0;
        while begin < self.queue.len() {
            self.starts.push(begin);
            let end = self.queue.len();
            for i in begin..end {
                for &t in self.graph.neighbours(self.queue[i] as usize) {
                    if self.part[t as usize] == part && self.stamp[t as usize] != self.stamps {
                        self.stamp[t as usize] = self.stamps;
                        self.queue.push(t);
                    }
                }
            }
            begin = end;
        }
    }
}

/// Set cut in two by a separator.
struct Sides<'a> {
    of: &'a mut [u32],
    sizes: [usize; 3],
}

impl Sides<'_> {
    /// Moves vertices of the separator to a side wherever at most as many others have to take their place,
    /// the smaller side first.
    fn refine(&mut self, graph: &Graph, part: &[u32], mut separator: Vec<u32>) {
        let Some(&some) = separator.first() else { return };
        let part_of = part[some as usize];
        for _ in 0..REFINEMENT_PASSES {
            let mut changed = false;
            let mut next = Vec::with_capacity(separator.len());
            for i in 0..separator.len() {
                let v = separator[i];
                if self.of[v as usize] != SEPARATOR {
                    continue;
                }
                let near = |side: u32| {
                    let inside = |t: &&u32| part[**t as usize] == part_of && self.of[**t as usize] == side;
                    graph.neighbours(v as usize).iter().filter(inside).count()
                };
                let (left, right) = (near(LEFT), near(RIGHT));
                // If it moves to the left, its neighbours on the right take its place, and vice versa.
                let smaller = if self.sizes[0] <= self.sizes[1] { LEFT } else { RIGHT };
                let (to, replaced) = match (left, right) {
                    (_, 0) => (LEFT, 0),
                    (0, _) => (RIGHT, 0),
                    _ if smaller == LEFT => (LEFT, right),
                    _ => (RIGHT, left),
                };
                let imbalance = self.sizes[0].abs_diff(self.sizes[1]);
                if replaced == 0 || replaced == 1 && imbalance > 2 {
                    self.of[v as usize] = to;
                    self.sizes[to as usize] += 1;
                    self.sizes[2] -= 1;
                    changed = true;
                    for &t in graph.neighbours(v as usize) {
                        if replaced > 0 && part[t as usize] == part_of && self.of[t as usize] == 1 - to {
                            self.of[t as usize] = SEPARATOR;
                            self.sizes[1 - to as usize] -= 1;
                            self.sizes[2] += 1;
                            next.push(t);
                        }
                    }
                } else {
                    next.push(v);
                }
            }
            next.retain(|&v| self.of[v as usize] == SEPARATOR);
            next.sort_unstable();
            next.dedup();
            separator = next;
            if !changed {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(n: usize) -> Graph {
        let edges: Vec<Vec<u32>> = (0..n * n)
            .map(|s| {
                let (x, y) = (s % n, s / n);
                let right = (x + 1 < n).then_some(s as u32 + 1);
                let down = (y + 1 < n).then_some((s + n) as u32);
                right.into_iter().chain(down).collect()
            })
            .collect();
        Graph::symmetric(n * n, |s| &edges[s])
    }

    #[test]
    fn order_is_a_permutation_that_ends_in_a_separator() {
        let graph = grid(20);
        let mut order = nested_dissection(&graph, usize::MAX).unwrap();
        // Without the last 40 vertices the rest is disconnected.
        let kept: Vec<bool> = (0..400u32).map(|v| !order[360..].contains(&v)).collect();
        let mut seen = vec![false; 400];
        let mut work = vec![order[0]];
        while let Some(v) = work.pop() {
            if kept[v as usize] && !std::mem::replace(&mut seen[v as usize], true) {
                work.extend(graph.neighbours(v as usize));
            }
        }
        let reached = seen.iter().filter(|s| **s).count();
        assert!(reached < 300, "{reached} of 360 are still connected");
        order.sort_unstable();
        assert!(order.iter().copied().eq(0..400));
    }

    #[test]
    fn disconnected_graphs_and_cliques_are_ordered() {
        let pieces: [&[u32]; 9] = [&[1], &[2], &[], &[4], &[5], &[], &[7], &[8], &[]];
        let mut order = nested_dissection(&Graph::symmetric(9, |s| pieces[s]), 9).unwrap();
        order.sort_unstable();
        assert!(order.iter().copied().eq(0..9));
        let all: Vec<u32> = (0..30).collect();
        let mut order = nested_dissection(&Graph::symmetric(30, |_| &all), 30).unwrap();
        order.sort_unstable();
        assert!(order.iter().copied().eq(0..30));
    }

    #[test]
    fn wide_separators_are_refused() {
        assert!(nested_dissection(&grid(40), 5).is_none());
        assert!(nested_dissection(&grid(40), 60).is_some());
    }
}
