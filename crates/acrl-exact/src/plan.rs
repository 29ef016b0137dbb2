//! In which order the states of a model are eliminated, and what fills in: worked out once, whatever the rule.

use std::ops::Range;

use crate::ordering::{Graph, nested_dissection};

const NONE: u32 = u32::MAX;

/// The order of elimination of a model, and what fills in.
pub(crate) struct Plan {
    /// The state at each position.
    pub(crate) order: Vec<u32>,
    /// The position of each state.
    pub(crate) position: Vec<u32>,
    /// Front f eliminates the positions `first[f]..first[f + 1]`.
    pub(crate) first: Vec<u32>,
    /// The later positions that front f touches: `rows[row_start[f]..row_start[f + 1]]`, ascending.
    pub(crate) row_start: Vec<usize>,
    pub(crate) rows: Vec<u32>,
    /// How many fronts hand their update to each front; they are the last ones before it that are still unused.
    pub(crate) children: Vec<u32>,
    /// Where each front's numbers begin.
    pub(crate) offset: Vec<usize>,
    /// All fronts, in pieces.
    pub(crate) pieces: Vec<Piece>,
}

/// Successive fronts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) fronts: Range<usize>,
    /// Whether these are a whole subtree, which can be eliminated beside the others.
    pub(crate) limb: bool,
}

/// A limb has at most this share of all work ...
const LARGEST_LIMB: f64 = 1.0 / 8.0;
/// ... and at least this share: smaller ones are not worth it.
const SMALLEST_LIMB: f64 = 1.0 / 256.0;
/// With fewer multiplications in all there are no limbs.
const LITTLE_WORK: f64 = 1e7;

impl Plan {
    /// Orders the states of a graph; `None` if more than `budget` numbers would have to be stored.
    pub(crate) fn new(graph: &Graph, budget: usize) -> Option<Self> {
        let n = graph.len();
        // A separator of w states fills at least w² numbers.
        let order = nested_dissection(graph, (budget as f64).sqrt() as usize)?;
        let tree = Tree::new(graph, order);
        let counts = tree.counts(graph, budget)?;
        let mut plan = tree.fronts(&counts);
        plan.fill_rows(graph);
        plan.measure();
        plan.divide();
        debug_assert_eq!(plan.order.len(), n);
        (plan.entries() <= budget).then_some(plan)
    }

    /// The numbers that the factors hold.
    pub(crate) fn entries(&self) -> usize {
        self.offset.last().copied().unwrap_or(0)
    }

    /// How many fronts there are.
    pub(crate) fn fronts(&self) -> usize {
        self.first.len() - 1
    }

    /// The later positions that a front touches.
    pub(crate) fn rows(&self, f: usize) -> &[u32] {
        &self.rows[self.row_start[f]..self.row_start[f + 1]]
    }

    /// The states that each front touches beyond its own.
    fn fill_rows(&mut self, graph: &Graph) {
        let fronts = self.fronts();
        let mut mark = vec![NONE; self.order.len()];
        let mut waiting: Vec<usize> = Vec::new();
        self.row_start = vec![0];
        for f in 0..fronts {
            let end = self.first[f + 1];
            let begin = self.rows.len();
            for j in self.first[f]..end {
                for &t in graph.neighbours(self.order[j as usize] as usize) {
                    let t = self.position[t as usize];
                    if t >= end && mark[t as usize] != f as u32 {
                        mark[t as usize] = f as u32;
                        self.rows.push(t);
                    }
                }
            }
            for _ in 0..self.children[f] {
                let child = waiting.pop().unwrap_or(0);
                for i in self.row_start[child]..self.row_start[child + 1] {
                    let t = self.rows[i];
                    if t >= end && mark[t as usize] != f as u32 {
                        mark[t as usize] = f as u32;
                        self.rows.push(t);
                    }
                }
            }
            self.rows[begin..].sort_unstable();
            self.row_start.push(self.rows.len());
            waiting.push(f);
        }
        self.rows.shrink_to_fit();
    }

    fn measure(&mut self) {
        let mut offset = 0;
        self.offset = vec![0];
        for f in 0..self.fronts() {
            let k = (self.first[f + 1] - self.first[f]) as usize;
            let u = self.rows(f).len();
            offset += k * (k + u) + u * k;
            self.offset.push(offset);
        }
    }

    /// Finds subtrees that can be eliminated beside each other. Whether they are or not does not depend on the machine, and
    /// so neither do the sums.
    fn divide(&mut self) {
        let fronts = self.fronts();
        // Of each front: the first one of its subtree, its children, and the work in its subtree.
        let (mut begin, mut work) = (vec![0usize; fronts], vec![0.0f64; fronts]);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); fronts];
        let mut waiting: Vec<usize> = Vec::new();
        for f in 0..fronts {
            let k = (self.first[f + 1] - self.first[f]) as f64;
            let size = k + self.rows(f).len() as f64;
            work[f] = k * size * size;
            children[f] = waiting.split_off(waiting.len() - self.children[f] as usize);
            work[f] += children[f].iter().map(|&c| work[c]).sum::<f64>();
            begin[f] = children[f].first().map_or(f, |&c| begin[c]);
            waiting.push(f);
        }
        let total: f64 = waiting.iter().map(|&f| work[f]).sum();
        let mut limbs: Vec<usize> = Vec::new();
        let mut open = if total < LITTLE_WORK { Vec::new() } else { waiting };
        while let Some(f) = open.pop() {
            if work[f] > LARGEST_LIMB * total {
                open.extend(&children[f]);
            } else if work[f] >= SMALLEST_LIMB * total {
                limbs.push(f);
            }
        }
        limbs.sort_unstable();
        let mut at = 0;
        for f in limbs {
            if begin[f] > at {
                self.pieces.push(Piece { fronts: at..begin[f], limb: false });
            }
            self.pieces.push(Piece { fronts: begin[f]..f + 1, limb: true });
            at = f + 1;
        }
        if at < fronts {
            self.pieces.push(Piece { fronts: at..fronts, limb: false });
        }
    }
}

/// The elimination tree: the parent of a position is the first later one that it touches.
struct Tree {
    order: Vec<u32>,
    position: Vec<u32>,
    parent: Vec<u32>,
}

impl Tree {
    /// The tree of an order, which is rearranged so that every subtree is contiguous.
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

    /// How many later positions each position touches; `None` if they add up to more than the budget.
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

    /// Groups positions into fronts: chains of the tree whose later neighbours agree, or nearly.
    fn fronts(self, counts: &[u32]) -> Plan {
        let n = self.order.len();
        // Each group: its first position, how many it has, how many rows beyond, zeros stored in vain, children.
        struct Group {
            first: usize,
            width: usize,
            rows: usize,
            zeros: usize,
            children: u32,
        }
        let mut children = vec![0u32; n];
        self.parent.iter().filter(|&&p| p != NONE).for_each(|&p| children[p as usize] += 1);
        let mut stack: Vec<Group> = Vec::new();
        for j in 0..n {
            let mut group =
                Group { first: j, width: 1, rows: counts[j] as usize, zeros: 0, children: children[j] };
            // The group just before is a child if its last position's parent is in this one.
            while let Some(child) = stack.last() {
                let last = child.first + child.width - 1;
                let adopted = (group.first..=j).contains(&(self.parent[last] as usize));
                if !adopted {
                    break;
                }
                let added = child.width * (group.width + group.rows - child.rows);
                let width = child.width + group.width;
                let zeros = child.zeros + group.zeros + 2 * added;
                let size = width * (width + 2 * group.rows);
                let share = zeros as f64 / size as f64;
                let merge = added == 0
                    || width <= 4
                    || width <= 16 && share < 0.4
                    || width <= 48 && share < 0.1
                    || share < 0.05;
                if !merge {
                    break;
                }
                group = Group {
                    first: child.first,
                    width,
                    rows: group.rows,
                    zeros,
                    children: group.children + child.children - 1,
                };
                stack.pop();
            }
            stack.push(group);
        }
        let mut first: Vec<u32> = stack.iter().map(|g| g.first as u32).collect();
        first.push(n as u32);
        Plan {
            order: self.order,
            position: self.position,
            first,
            row_start: Vec::new(),
            rows: Vec::new(),
            children: stack.iter().map(|g| g.children).collect(),
            offset: Vec::new(),
            pieces: Vec::new(),
        }
    }
}

fn invert(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &v)| position[v as usize] = i as u32);
    position
}

/// The nodes of a forest, children before their parents and every subtree in one piece.
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
