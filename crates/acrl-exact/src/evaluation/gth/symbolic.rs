//! Symbolic analysis: elimination order, supernodes and assembly tree of a model, for all policies.

use std::ops::Range;

use super::ordering::{Graph, nested_dissection};
use crate::tuning::{AMALGAMATION, LARGEST_SUBTREE, LITTLE_WORK, SMALLEST_SUBTREE};

const NONE: u32 = u32::MAX;

/// Elimination order of a model, and its fill-in.
pub(crate) struct Symbolic {
    /// State at each position.
    pub(crate) order: Vec<u32>,
    /// Position of each state.
    pub(crate) position: Vec<u32>,
    /// Supernode f holds the positions `first[f]..first[f + 1]`.
    pub(crate) first: Vec<u32>,
    /// Later neighbours of supernode f: `rows[row_start[f]..row_start[f + 1]]`, ascending.
    pub(crate) row_start: Vec<usize>,
    pub(crate) rows: Vec<u32>,
    /// Number of children of each supernode in the assembly tree; in postorder they are the last ones before
    /// it without a parent yet.
    pub(crate) children: Vec<u32>,
    /// Offset of each supernode's factors.
    pub(crate) offset: Vec<usize>,
    /// All supernodes, in sections.
    pub(crate) sections: Vec<Section>,
}

/// Successive supernodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    pub(crate) supernodes: Range<usize>,
    /// Whether they are a complete subtree, which is processed in parallel to the others. The other
    /// sections lead up to the root.
    pub(crate) subtree: bool,
}

impl Symbolic {
    /// Analyses a graph; `None` if the factors would hold more than `budget` numbers.
    pub(crate) fn new(graph: &Graph, budget: usize) -> Option<Self> {
        // A separator of w states fills at least w² numbers.
        let order = nested_dissection(graph, (budget as f64).sqrt() as usize)?;
        let tree = Tree::new(graph, order);
        let counts = tree.counts(graph, budget)?;
        let mut symbolic = tree.supernodes(&counts);
        symbolic.fill_rows(graph);
        symbolic.measure();
        symbolic.divide();
        (symbolic.entries() <= budget).then_some(symbolic)
    }

    /// Number of entries of the factors.
    pub(crate) fn entries(&self) -> usize {
        self.offset.last().copied().unwrap_or(0)
    }

    /// Number of supernodes.
    pub(crate) fn supernodes(&self) -> usize {
        self.first.len() - 1
    }

    /// Later neighbours of a supernode.
    pub(crate) fn rows(&self, f: usize) -> &[u32] {
        &self.rows[self.row_start[f]..self.row_start[f + 1]]
    }

    /// Computes the later neighbours of each supernode.
    fn fill_rows(&mut self, graph: &Graph) {
        let supernodes = self.supernodes();
        let mut mark = vec![NONE; self.order.len()];
        let mut waiting: Vec<usize> = Vec::new();
        self.row_start = vec![0];
        for f in 0..supernodes {
            let end = self.first[f + 1];
            let begin = self.rows.len();
            let mut is_new =
                |t: u32| t >= end && std::mem::replace(&mut mark[t as usize], f as u32) != f as u32;
            for j in self.first[f]..end {
                let neighbours = graph.neighbours(self.order[j as usize] as usize).iter();
                self.rows.extend(neighbours.map(|&t| self.position[t as usize]).filter(|&t| is_new(t)));
            }
            for _ in 0..self.children[f] {
                let child = waiting.pop().unwrap_or(0);
                for i in self.row_start[child]..self.row_start[child + 1] {
                    let t = self.rows[i];
                    self.rows.extend(is_new(t).then_some(t));
                }
            }
            self.rows[begin..].sort_unstable();
            self.row_start.push(self.rows.len());
            waiting.push(f);
        }
        self.rows.shrink_to_fit();
    }

    /// Computes the offsets of the factors.
    fn measure(&mut self) {
        let mut offset = 0;
        self.offset = vec![0];
        for f in 0..self.supernodes() {
            let k = (self.first[f + 1] - self.first[f]) as usize;
            let u = self.rows(f).len();
            offset += k * (k + u) + u * k;
            self.offset.push(offset);
        }
    }

    /// Finds subtrees to process in parallel. They do not depend on the number of threads, so neither do
    /// the sums.
    fn divide(&mut self) {
        let supernodes = self.supernodes();
        // Of each supernode: the first of its subtree, its children, and the work in its subtree.
        let (mut begin, mut work) = (vec![0usize; supernodes], vec![0.0f64; supernodes]);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); supernodes];
        let mut waiting: Vec<usize> = Vec::new();
        for f in 0..supernodes {
            let k = (self.first[f + 1] - self.first[f]) as f64;
            let size = k + self.rows(f).len() as f64;
            work[f] = k * size * size;
            children[f] = waiting.split_off(waiting.len() - self.children[f] as usize);
            work[f] += children[f].iter().map(|&c| work[c]).sum::<f64>();
            begin[f] = children[f].first().map_or(f, |&c| begin[c]);
            waiting.push(f);
        }
        let total: f64 = waiting.iter().map(|&f| work[f]).sum();
        let mut subtrees: Vec<usize> = Vec::new();
        let mut open = if total < LITTLE_WORK { Vec::new() } else { waiting };
        while let Some(f) = open.pop() {
            if work[f] > LARGEST_SUBTREE * total {
                open.extend(&children[f]);
            } else if work[f] >= SMALLEST_SUBTREE * total {
                subtrees.push(f);
            }
        }
        subtrees.sort_unstable();
        let mut at = 0;
        for f in subtrees {
            if begin[f] > at {
                self.sections.push(Section { supernodes: at..begin[f], subtree: false });
            }
            self.sections.push(Section { supernodes: begin[f]..f + 1, subtree: true });
            at = f + 1;
        }
        if at < supernodes {
            self.sections.push(Section { supernodes: at..supernodes, subtree: false });
        }
    }
}

/// Elimination tree (Liu 1990): the parent of a position is its first later neighbour after fill-in.
struct Tree {
    order: Vec<u32>,
    position: Vec<u32>,
    parent: Vec<u32>,
}

impl Tree {
    /// Tree of an order, which is rearranged in postorder: every subtree is contiguous.
    fn new(graph: &Graph, order: Vec<u32>) -> Self {
        let n = order.len();
        let mut position = invert(&order);
        let (mut parent, mut ancestor) = (vec![NONE; n], vec![NONE; n]);
        for j in 0..n as u32 {
            for &t in graph.neighbours(order[j as usize] as usize) {
                let mut i = position[t as usize];
                while i < j {
                    let next = std::mem::replace(&mut ancestor[i as usize], j);
                    if next == NONE {
                        parent[i as usize] = j;
                        break;
                    }
                    i = next;
                }
            }
        }
        let post = postorder(&parent);
        let order: Vec<u32> = post.iter().map(|&p| order[p as usize]).collect();
        let rank = invert(&post);
        let renumber = |&p: &u32| {
            let old = parent[p as usize];
            if old == NONE { NONE } else { rank[old as usize] }
        };
        let parent = post.iter().map(renumber).collect();
        position.iter_mut().for_each(|p| *p = rank[*p as usize]);
        Self { order, position, parent }
    }

    /// Number of later neighbours of each position; `None` if they add up to more than the budget.
    fn counts(&self, graph: &Graph, budget: usize) -> Option<Vec<u32>> {
        let n = self.order.len();
        let (mut counts, mut mark) = (vec![0u32; n], vec![NONE; n]);
        let mut total = 0usize;
        for i in 0..n as u32 {
            mark[i as usize] = i;
            for &t in graph.neighbours(self.order[i as usize] as usize) {
                let mut j = self.position[t as usize];
                while j < i && mark[j as usize] != i {
                    mark[j as usize] = i;
                    counts[j as usize] += 1;
                    total += 2;
                    j = self.parent[j as usize];
                }
            }
            if total > budget {
                return None;
            }
        }
        Some(counts)
    }

    /// Groups positions into supernodes: chains of the tree with (nearly) the same later neighbours, with
    /// relaxed amalgamation (Ashcraft & Grimes 1989).
    fn supernodes(self, counts: &[u32]) -> Symbolic {
        let n = self.order.len();
        struct Supernode {
            first: usize,
            width: usize,
            /// Number of later neighbours.
            rows: usize,
            /// Number of explicitly stored zeros.
            zeros: usize,
            children: u32,
        }
        let mut children = vec![0u32; n];
        self.parent.iter().filter(|&&p| p != NONE).for_each(|&p| children[p as usize] += 1);
        let mut stack: Vec<Supernode> = Vec::new();
        for j in 0..n {
            let mut node =
                Supernode { first: j, width: 1, rows: counts[j] as usize, zeros: 0, children: children[j] };
            // The supernode before is a child if the parent of its last position is in this one.
            while let Some(child) = stack.last() {
                let last = child.first + child.width - 1;
                let adopted = (node.first..=j).contains(&(self.parent[last] as usize));
                if !adopted {
                    break;
                }
                let added = child.width * (node.width + node.rows - child.rows);
                let width = child.width + node.width;
                let zeros = child.zeros + node.zeros + 2 * added;
                let size = width * (width + 2 * node.rows);
                let share = zeros as f64 / size as f64;
                let merge = AMALGAMATION.iter().any(|(widest, zeros)| width <= *widest && share < *zeros);
                if added > 0 && !merge {
                    break;
                }
                node = Supernode {
                    first: child.first,
                    width,
                    rows: node.rows,
                    zeros,
                    children: node.children + child.children - 1,
                };
                stack.pop();
            }
            stack.push(node);
        }
        let mut first: Vec<u32> = stack.iter().map(|g| g.first as u32).collect();
        first.push(n as u32);
        Symbolic {
            order: self.order,
            position: self.position,
            first,
            row_start: Vec::new(),
            rows: Vec::new(),
            children: stack.iter().map(|g| g.children).collect(),
            offset: Vec::new(),
            sections: Vec::new(),
        }
    }
}

fn invert(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &v)| position[v as usize] = i as u32);
    position
}

/// Nodes of a forest in postorder.
fn postorder(parent: &[u32]) -> Vec<u32> {
    let n = parent.len();
    let (mut child, mut sibling) = (vec![NONE; n], vec![NONE; n]);
    let mut roots = Vec::new();
    for v in (0..n).rev() {
        match parent[v] {
            NONE => roots.push(v as u32),
            p => sibling[v] = std::mem::replace(&mut child[p as usize], v as u32),
        }
    }
    let (mut order, mut work) = (Vec::with_capacity(n), Vec::new());
    for root in roots.into_iter().rev() {
        work.push(root);
        while let Some(&v) = work.last() {
            match std::mem::replace(&mut child[v as usize], NONE) {
                NONE => {
                    order.push(v);
                    work.pop();
                    if let (Some(&p), next) = (work.last(), sibling[v as usize]) {
                        child[p as usize] = next;
                    }
                }
                down => work.push(down),
            }
        }
    }
    order
}
