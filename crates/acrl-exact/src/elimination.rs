//! Gain and bias of a Markov chain by elimination of its states, without subtractions.
//!
//! Eliminating a state j from a chain P redirects everyone who would go to j to where j goes next:
//! P(i, t) += P(i, j) P(j, t)/d_j, with d_j = Σ_t P(j, t) over the states that are left. (Grassmann, Taksar
//! and Heyman: d_j is 1 − P(j, j), but computed as a sum.) Every number is a sum of products of
//! probabilities, so each has nearly full relative precision, however close the chain is to
//! falling into parts, and a state without anywhere to go (d_j = 0) is the last one of a recurrent class,
//! its *root*: so the classes of a chain come out of the elimination itself.
//!
//! The sparsity is that of the whole model, whatever the rule: so states are ordered once, by nested dissection, and
//! grouped into *fronts* of states with the same neighbours, which are eliminated together as dense matrices
//! (multifrontal).

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::Arch;

use crate::plan::Plan;

/// How many right-hand sides are solved for together.
pub(crate) const LANES: usize = 8;
/// The lane of the time, which is not free for rewards.
pub(crate) const TIME: usize = LANES - 1;
/// The lane of the chance to end in another class, which is not free either.
pub(crate) const LOSS: usize = LANES - 2;
/// One number of each right-hand side.
pub(crate) type Lanes = [f64; LANES];

/// The chain of a rule, eliminated.
pub(crate) struct Elimination<'p> {
    plan: &'p Plan,
    /// Of each front: its rows of the eliminated chain, with what was redirected to them in the lower triangle, and
    /// then what was redirected to it by the rows beyond.
    numbers: Vec<f64>,
    /// 1/d_j by position; 0 for a root.
    inverse: Vec<f64>,
    /// The positions of the roots, ascending: one for each recurrent class.
    roots: Vec<u32>,
    /// The state that was made a root.
    pinned: usize,
}

/// Space that eliminations reuse.
#[derive(Default)]
pub(crate) struct Workspace {
    numbers: Vec<f64>,
    inverse: Vec<f64>,
    entries: Vec<(u32, u32, f64)>,
    bucket: Vec<u32>,
    local: Vec<u32>,
    front: Vec<f64>,
    updates: Vec<f64>,
    panel: Vec<f64>,
}

impl<'p> Elimination<'p> {
    /// Eliminates the chain in which state s leads to the states and with the probabilities of `row(s)`. The pinned state is
    /// made the root of its class: a choice that matters, because a bias is measured from the root, and where the
    /// chain comes by there once in 10²⁰ steps nothing is left of it but rounding.
    pub(crate) fn new<'m>(
        plan: &'p Plan,
        row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
        pinned: usize,
        workspace: &mut Workspace,
    ) -> Self {
        let n = plan.order.len();
        let row = |s: usize| if s == pinned { (&[][..], &[][..]) } else { row(s) };
        let mut this = Self {
            plan,
            numbers: std::mem::take(&mut workspace.numbers),
            inverse: std::mem::take(&mut workspace.inverse),
            roots: Vec::new(),
            pinned,
        };
        this.numbers.resize(plan.entries(), 0.0);
        this.inverse.resize(n, 0.0);
        sort_entries(plan, row, workspace);
        let Workspace { entries, bucket, local, front, updates, panel, .. } = workspace;
        local.resize(n, 0);
        updates.clear();
        let arch = Arch::new();
        let mut waiting: Vec<usize> = Vec::new();
        for f in 0..plan.fronts() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let rows = plan.rows(f);
            let k = end - begin;
            let size = k + rows.len();
            // One more column: what was redirected to roots, which are out of the chain.
            let stride = size + 1;
            front.clear();
            front.resize(size * stride, 0.0);
            (begin..end).for_each(|j| local[j] = (j - begin) as u32);
            rows.iter().enumerate().for_each(|(i, &r)| local[r as usize] = (k + i) as u32);
            for &(i, t, p) in &entries[bucket[begin] as usize..bucket[end] as usize] {
                front[local[i as usize] as usize * stride + local[t as usize] as usize] += p;
            }
            for _ in 0..plan.children[f] {
                let child = waiting.pop().unwrap_or(0);
                let touched = plan.rows(child);
                let width = touched.len() + 1;
                let start = updates.len() - touched.len() * width;
                for (i, &r) in touched.iter().enumerate() {
                    let into = &mut front[local[r as usize] as usize * stride..][..stride];
                    let from = &updates[start + i * width..][..width];
                    for (&t, x) in touched.iter().zip(from) {
                        into[local[t as usize] as usize] += x;
                    }
                    into[size] += from[width - 1];
                }
                updates.truncate(start);
            }
            let inverse = &mut this.inverse[begin..end];
            arch.dispatch(|| eliminate(front, size, k, inverse, panel));
            let roots = (begin..end).filter(|&j| this.inverse[j] == 0.0).map(|j| j as u32);
            this.roots.extend(roots);
            let numbers = &mut this.numbers[plan.offset[f]..plan.offset[f + 1]];
            for i in 0..k {
                numbers[i * size..(i + 1) * size].copy_from_slice(&front[i * stride..i * stride + size]);
            }
            for i in k..size {
                let at = k * size + (i - k) * k;
                numbers[at..at + k].copy_from_slice(&front[i * stride..i * stride + k]);
                updates.extend_from_slice(&front[i * stride + k..(i + 1) * stride]);
            }
            waiting.push(f);
        }
        this
    }

    /// Gives the space back.
    pub(crate) fn recycle(self, workspace: &mut Workspace) {
        (workspace.numbers, workspace.inverse) = (self.numbers, self.inverse);
    }

    /// Eliminates right-hand sides b, in place and by position: at a root this gives the sum of b over a
    /// cycle from the root back to it. `at_root` is told the number of the root and that sum, and gives the value by
    /// which the others shall count a visit to the root.
    fn forward(&self, b: &mut [Lanes], mut at_root: impl FnMut(usize, &Lanes) -> Lanes) {
        let plan = self.plan;
        let arch = Arch::new();
        let mut root = 0;
        for f in 0..plan.fronts() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let numbers = &self.numbers[plan.offset[f]..plan.offset[f + 1]];
            let (own, beyond) = numbers.split_at(k * size);
            let (b_own, b_beyond) = b[begin..].split_at_mut(k);
            for i in 0..k {
                let mut sum = b_own[i];
                for (x, b) in own[i * size..i * size + i].iter().zip(&*b_own) {
                    add(&mut sum, *x, b);
                }
                if self.inverse[begin + i] == 0.0 {
                    sum = at_root(root, &sum);
                    root += 1;
                }
                b_own[i] = sum;
            }
            arch.dispatch(
                #[inline(always)]
                || {
                    for (&r, redirected) in rows.iter().zip(beyond.chunks_exact(k)) {
                        let sum = &mut b_beyond[r as usize - end];
                        for (x, b) in redirected.iter().zip(&*b_own) {
                            add(sum, *x, b);
                        }
                    }
                },
            );
        }
    }

    /// From eliminated right-hand sides to the solution x of (I − P) x = b, in place and by position; roots keep
    /// what they hold.
    fn backward(&self, b: &mut [Lanes]) {
        let plan = self.plan;
        let arch = Arch::new();
        for f in (0..plan.fronts()).rev() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let own = &self.numbers[plan.offset[f]..plan.offset[f] + k * size];
            let (b_own, b_beyond) = b[begin..].split_at_mut(k);
            arch.dispatch(
                #[inline(always)]
                || {
                    for i in (0..k).rev() {
                        let inverse = self.inverse[begin + i];
                        if inverse == 0.0 {
                            continue;
                        }
                        let mut sum = b_own[i];
                        let row = &own[i * size..(i + 1) * size];
                        for (x, b) in row[i + 1..k].iter().zip(&b_own[i + 1..]) {
                            add(&mut sum, *x, b);
                        }
                        for (x, &r) in row[k..].iter().zip(rows) {
                            add(&mut sum, *x, &b_beyond[r as usize - end]);
                        }
                        b_own[i] = sum.map(|x| x * inverse);
                    }
                },
            );
        }
    }

    /// Gain and bias of several rewards at once, of the same chain; `reward(s)` gives them.
    pub(crate) fn evaluate<'m>(
        &self,
        row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
        reward: impl Fn(usize) -> Lanes,
    ) -> Evaluation {
        let (order, pinned) = (&self.plan.order, self.plan.position[self.pinned]);
        let with_time = |s: usize| {
            let mut r = reward(s);
            (r[TIME], r[LOSS]) = (1.0, 0.0);
            r
        };
        let mut b: Vec<Lanes> = order.iter().map(|&s| with_time(s as usize)).collect();
        let mut others = Vec::new();
        self.forward(&mut b, |root, cycle| {
            let mut value = [0.0; LANES];
            if self.roots[root] != pinned {
                let state = order[self.roots[root] as usize] as usize;
                others.push((state, cycle.map(|x| x / cycle[TIME])));
                value[LOSS] = 1.0;
            }
            value
        });
        // What is collected on the way to the pinned state, and how long that takes.
        self.backward(&mut b);
        let mut cycle = with_time(self.pinned);
        let (targets, probabilities) = row(self.pinned);
        for (&t, &p) in targets.iter().zip(probabilities) {
            add(&mut cycle, p, &b[self.plan.position[t as usize] as usize]);
        }
        let gain = cycle.map(|x| x / cycle[TIME]);
        for b in &mut b {
            let time = b[TIME];
            b[..LOSS].iter_mut().zip(&gain).for_each(|(b, g)| *b -= time * g);
        }
        let bias = self.plan.position.iter().map(|&p| b[p as usize]).collect();
        Evaluation { gain, others, bias, cycle: cycle[TIME], loss: cycle[LOSS] }
    }

    /// How often each state is visited on a cycle from the pinned state back to it.
    pub(crate) fn visits<'m>(&self, row: impl Fn(usize) -> (&'m [u32], &'m [f64])) -> Vec<f64> {
        let plan = self.plan;
        let mut x = vec![0.0; plan.order.len()];
        let (targets, probabilities) = row(self.pinned);
        for (&t, p) in targets.iter().zip(probabilities) {
            x[plan.position[t as usize] as usize] = *p;
        }
        x[plan.position[self.pinned] as usize] = 0.0;
        for f in 0..plan.fronts() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let own = &self.numbers[plan.offset[f]..plan.offset[f] + k * size];
            for i in 0..k {
                x[begin + i] *= self.inverse[begin + i];
                let visits = x[begin + i];
                let row = &own[i * size..(i + 1) * size];
                (i + 1..k).for_each(|t| x[begin + t] += visits * row[t]);
                rows.iter().zip(&row[k..]).for_each(|(&t, p)| x[t as usize] += visits * p);
            }
        }
        for f in (0..plan.fronts()).rev() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let (own, beyond) = self.numbers[plan.offset[f]..plan.offset[f + 1]].split_at(k * size);
            for (&r, redirected) in rows.iter().zip(beyond.chunks_exact(k)) {
                let visits = x[r as usize];
                redirected.iter().enumerate().for_each(|(j, p)| x[begin + j] += visits * p);
            }
            for i in (0..k).rev() {
                // What leads to a root ends there.
                if self.inverse[begin + i] == 0.0 {
                    x[begin + i] = 0.0;
                }
                let visits = x[begin + i];
                (0..i).for_each(|j| x[begin + j] += visits * own[i * size + j]);
            }
        }
        x[plan.position[self.pinned] as usize] = 1.0;
        plan.position.iter().map(|&p| x[p as usize]).collect()
    }
}

/// Gain and bias of several rewards.
pub(crate) struct Evaluation {
    /// The gain in the class of the pinned state.
    pub(crate) gain: Lanes,
    /// The root of every other class, and the gain there.
    pub(crate) others: Vec<(usize, Lanes)>,
    /// The bias, 0 at the pinned state; in lane [`TIME`] the expected time to get there or into another class, in lane
    /// [`LOSS`] the chance of the latter. Where there is one the bias means nothing.
    pub(crate) bias: Vec<Lanes>,
    /// The expected time from the pinned state back to it.
    pub(crate) cycle: f64,
    /// The chance to end in another class instead: the pinned state is recurrent if there is none.
    pub(crate) loss: f64,
}

#[inline(always)]
fn add(sum: &mut Lanes, x: f64, b: &Lanes) {
    sum.iter_mut().zip(b).for_each(|(s, b)| *s += x * b);
}

/// The transitions of a chain by the front in which they are needed: that of the first of the two positions.
fn sort_entries<'m>(plan: &Plan, row: impl Fn(usize) -> (&'m [u32], &'m [f64]), workspace: &mut Workspace) {
    let n = plan.order.len();
    let Workspace { entries, bucket, .. } = workspace;
    bucket.clear();
    bucket.resize(n + 2, 0);
    let each = |take: &mut dyn FnMut(u32, u32, f64)| {
        for (i, &s) in plan.order.iter().enumerate() {
            let (targets, probabilities) = row(s as usize);
            for (&t, &p) in targets.iter().zip(probabilities) {
                let t = plan.position[t as usize];
                if t as usize != i {
                    take(i as u32, t, p);
                }
            }
        }
    };
    each(&mut |i, t, _| bucket[i.min(t) as usize + 2] += 1);
    (0..n).for_each(|i| bucket[i + 2] += bucket[i + 1]);
    entries.clear();
    entries.resize(bucket[n + 1] as usize, (0, 0, 0.0));
    each(&mut |i, t, p| {
        let at = &mut bucket[i.min(t) as usize + 1];
        entries[*at as usize] = (i, t, p);
        *at += 1;
    });
}

/// A state that is left with a smaller probability is not left: what would come of it is far below rounding, and the times
/// would overflow.
const NEVER: f64 = 1e-60;
/// States eliminated together before the rest of a front hears of it.
const BLOCK: usize = 32;
/// Products of matrices with fewer multiplications than this are written out.
const SMALL: usize = 4096;

/// Eliminates the first k states of a front with `size` states, in rows of size + 1 numbers.
#[inline(always)]
fn eliminate(front: &mut [f64], size: usize, k: usize, inverse: &mut [f64], panel: &mut Vec<f64>) {
    let stride = size + 1;
    for begin in (0..k).step_by(BLOCK) {
        let end = (begin + BLOCK).min(k);
        for j in begin..end {
            let (above, below) = front.split_at_mut((j + 1) * stride);
            let own = &mut above[j * stride..];
            let mut leaving: f64 = own[j + 1..].iter().sum();
            if leaving < NEVER {
                own[j + 1..].fill(0.0);
                leaving = 0.0;
            }
            inverse[j] = if leaving > 0.0 { 1.0 / leaving } else { 0.0 };
            // To a root goes what goes there: it is not redirected, but out of the chain.
            let factor = if leaving > 0.0 { inverse[j] } else { 1.0 };
            for (i, row) in (j + 1..size).zip(below.chunks_exact_mut(stride)) {
                if row[j] == 0.0 {
                    continue;
                }
                row[j] *= factor;
                let x = row[j];
                if leaving > 0.0 {
                    // The other states of the block need all of their row, the rest only the columns of the block.
                    let until = if i < end { stride } else { end };
                    row[j + 1..until].iter_mut().zip(&own[j + 1..until]).for_each(|(r, o)| *r += x * o);
                } else if i < end {
                    row[size] += x;
                }
            }
        }
        let (m, width, depth) = (size - end, stride - end, end - begin);
        if m == 0 {
            continue;
        }
        let (above, below) = front.split_at_mut(end * stride);
        // What went to roots of this block is out of the chain.
        for j in (begin..end).filter(|&j| inverse[j] == 0.0) {
            for row in below.chunks_exact_mut(stride) {
                row[size] += row[j];
            }
        }
        if m * width * depth < SMALL {
            for row in below.chunks_exact_mut(stride) {
                let (redirected, rest) = row.split_at_mut(end);
                for (j, &x) in (begin..end).zip(&redirected[begin..]) {
                    if x != 0.0 && inverse[j] != 0.0 {
                        let own = &above[j * stride + end..(j + 1) * stride];
                        rest.iter_mut().zip(own).for_each(|(r, o)| *r += x * o);
                    }
                }
            }
        } else {
            // The rows of roots hold nothing but zeros beyond them.
            panel.clear();
            below.chunks_exact(stride).for_each(|row| panel.extend_from_slice(&row[begin..end]));
            let own = MatRef::from_row_major_slice_with_stride(
                &above[begin * stride + end..],
                depth,
                width,
                stride,
            );
            let redirected = MatRef::from_row_major_slice(panel.as_slice(), m, depth);
            // (In faer 0.24 the constructor for rows with a stride confuses the strides.)
            let rest = MatMut::from_column_major_slice_with_stride_mut(&mut below[end..], width, m, stride)
                .transpose_mut();
            matmul(rest, Accum::Add, redirected, own, 1.0, Par::Seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::Graph;
    use acrl::Rng;

    type Row = (Vec<u32>, Vec<f64>);

    /// A walk on a grid with drift, walls, and here and there a trap.
    fn walk(side: usize, traps: usize, seed: u64) -> Vec<Row> {
        let mut rng = Rng::new(seed);
        let mut rows: Vec<Row> = (0..side * side)
            .map(|s| {
                let (x, y) = (s % side, s / side);
                let mut to: Vec<u32> = vec![s as u32];
                to.extend((x > 0).then(|| s as u32 - 1));
                to.extend((x + 1 < side).then(|| s as u32 + 1));
                to.extend((y > 0).then(|| (s - side) as u32));
                to.extend((y + 1 < side).then(|| (s + side) as u32));
                let shares: Vec<f64> = to.iter().map(|_| rng.uniform().powi(3) + 1e-3).collect();
                let total: f64 = shares.iter().sum();
                (to, shares.iter().map(|p| p / total).collect())
            })
            .collect();
        for _ in 0..traps {
            let s = rng.index(side * side);
            rows[s] = (vec![s as u32], vec![1.0]);
        }
        rows
    }

    fn reward(s: usize) -> Lanes {
        std::array::from_fn(|lane| ((s * 7 + lane * 13) % 11) as f64 / 11.0)
    }

    /// Evaluates, and checks g + h = r + P h wherever another class cannot be reached.
    fn check(rows: &[Row], pinned: usize) -> Evaluation {
        let n = rows.len();
        let graph = Graph::symmetric(n, |s| &rows[s].0);
        let plan = Plan::new(&graph, usize::MAX).unwrap();
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let mut workspace = Workspace::default();
        // Twice, so that the workspace is not clean.
        Elimination::new(&plan, row, 0, &mut workspace).recycle(&mut workspace);
        let evaluation = Elimination::new(&plan, row, pinned, &mut workspace).evaluate(row, reward);
        let at_home = |s: usize| evaluation.bias[s][LOSS] < 1e-40;
        for lane in 0..LOSS {
            let times = (0..n).filter(|&s| at_home(s)).map(|s| evaluation.bias[s][TIME]);
            let size = times.fold(1.0, f64::max);
            for s in (0..n).filter(|&s| at_home(s)) {
                let mean = |(&t, p): (&u32, &f64)| p * evaluation.bias[t as usize][lane];
                let next: f64 = rows[s].0.iter().zip(&rows[s].1).map(mean).sum();
                let residual = reward(s)[lane] - evaluation.gain[lane] + next - evaluation.bias[s][lane];
                assert!(residual.abs() < 1e-14 * size, "state {s}, lane {lane}: {residual}");
            }
        }
        evaluation
    }

    #[test]
    fn gain_and_bias_solve_their_equations() {
        for side in [1, 2, 3, 7, 12, 40] {
            let rows = walk(side, 0, side as u64);
            let (one, other) = (check(&rows, 0), check(&rows, side * side / 3));
            assert!(one.others.is_empty());
            for lane in 0..LOSS {
                assert!((one.gain[lane] - other.gain[lane]).abs() < 1e-13);
            }
        }
    }

    #[test]
    fn every_trap_is_a_class_of_its_own() {
        for (side, traps) in [(3, 1), (12, 5), (40, 30)] {
            let rows = walk(side, traps, 5);
            let alone: Vec<usize> = (0..rows.len()).filter(|&s| rows[s].0.len() == 1).collect();
            let evaluation = check(&rows, alone[0]);
            assert_eq!(evaluation.others.len() + 1, alone.len());
            assert_eq!(evaluation.gain[..LOSS], reward(alone[0])[..LOSS]);
            for (root, gain) in &evaluation.others {
                assert!(alone.contains(root));
                assert_eq!(gain[..LOSS], reward(*root)[..LOSS]);
            }
        }
    }

    /// Two rooms between which one passes once in 10⁸⁰ steps: no times that overflow, and two classes.
    #[test]
    fn what_never_happens_is_left_out() {
        let rows: Vec<Row> = (0..4u32)
            .map(|s| match s {
                1 => (vec![0, 1, 2], vec![0.5, 0.5, 1e-80]),
                2 => (vec![1, 2, 3], vec![1e-80, 0.5, 0.5]),
                0 => (vec![0, 1], vec![0.5, 0.5]),
                _ => (vec![2, 3], vec![0.5, 0.5]),
            })
            .collect();
        let evaluation = check(&rows, 0);
        assert_eq!(evaluation.others.len(), 1);
        assert!((evaluation.gain[0] - f64::midpoint(reward(0)[0], reward(1)[0])).abs() < 1e-14);
    }

    #[test]
    fn visits_add_up_to_the_length_of_a_cycle_and_to_the_gain() {
        let rows = walk(12, 0, 3);
        let graph = Graph::symmetric(144, |s| &rows[s].0);
        let plan = Plan::new(&graph, usize::MAX).unwrap();
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let elimination = Elimination::new(&plan, row, 17, &mut Workspace::default());
        let evaluation = elimination.evaluate(row, reward);
        let visits = elimination.visits(row);
        let time: f64 = visits.iter().sum();
        assert!((time / evaluation.cycle - 1.0).abs() < 1e-12);
        let collected: f64 = visits.iter().enumerate().map(|(s, x)| x * reward(s)[2]).sum();
        assert!((collected / time - evaluation.gain[2]).abs() < 1e-13);
    }
}
