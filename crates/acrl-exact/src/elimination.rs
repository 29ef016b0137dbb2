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

//!
//! Some subtrees of the plan, its *limbs*, are eliminated beside each other, and then what is left, the trunk. Limbs and the order of
//! all sums belong to the plan, so that the numbers do not depend on how many threads there are.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::front::{BESIDES, eliminate};
use crate::plan::Plan;
use crate::vectors::vectorised;

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
    pub(crate) plan: &'p Plan,
    /// Of each front: its rows of the eliminated chain, with what was redirected to them in the lower triangle, and
    /// then what was redirected to it by the rows beyond.
    numbers: Vec<f64>,
    /// 1/d_j by position; 0 for a root.
    pub(crate) inverse: Vec<f64>,
    /// The state that was made a root.
    pub(crate) pinned: usize,
}

/// Space that eliminations reuse.
#[derive(Default)]
pub(crate) struct Workspace {
    numbers: Vec<f64>,
    inverse: Vec<f64>,
    entries: Vec<(u32, u32, f64)>,
    bucket: Vec<u32>,
    desks: Vec<Desk>,
}

/// What it takes to work on one limb.
#[derive(Default)]
struct Desk {
    local: Vec<u32>,
    front: Vec<f64>,
    panel: Vec<f64>,
    /// Fronts whose parents are still to come, and what they hand to them, one after the other.
    waiting: Vec<usize>,
    updates: Vec<f64>,
    runs: Vec<Run>,
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
        let row = |s: usize| if s == pinned { (&[][..], &[][..]) } else { row(s) };
        let mut this = Self {
            plan,
            numbers: std::mem::take(&mut workspace.numbers),
            inverse: std::mem::take(&mut workspace.inverse),
            pinned,
        };
        this.numbers.resize(plan.entries(), 0.0);
        this.inverse.resize(plan.order.len(), 0.0);
        sort_entries(plan, row, workspace);
        let chain = (&workspace.entries[..], &workspace.bucket[..]);
        let numbers = cut(&mut this.numbers, plan.pieces.iter().map(|p| plan.offset[p.fronts.end]));
        let inverse = cut(&mut this.inverse, plan.pieces.iter().map(|p| plan.first[p.fronts.end] as usize));
        let mut parts: Vec<_> = plan.pieces.iter().zip(numbers).zip(inverse).collect();
        let desks = Mutex::new(std::mem::take(&mut workspace.desks));
        let take = || desks.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let give = |desk| desks.lock().unwrap_or_else(PoisonError::into_inner).push(desk);
        // Of each limb what it hands to the trunk.
        let handed: Vec<Vec<f64>> = parts
            .par_iter_mut()
            .with_max_len(1)
            .map(|((piece, numbers), inverse)| {
                if !piece.limb {
                    return Vec::new();
                }
                let mut desk = take();
                desk.clear();
                eliminate_fronts(plan, piece.fronts.clone(), chain, numbers, inverse, &mut desk);
                let handed = desk.updates.clone();
                give(desk);
                handed
            })
            .collect();
        let mut desk = take();
        desk.clear();
        for (((piece, numbers), inverse), handed) in parts.into_iter().zip(handed) {
            if piece.limb {
                desk.updates.extend(handed);
                desk.waiting.push(piece.fronts.end - 1);
            } else {
                eliminate_fronts(plan, piece.fronts.clone(), chain, numbers, inverse, &mut desk);
            }
        }
        give(desk);
        workspace.desks = desks.into_inner().unwrap_or_else(PoisonError::into_inner);
        this
    }

    /// Gives the space back.
    pub(crate) fn recycle(self, workspace: &mut Workspace) {
        (workspace.numbers, workspace.inverse) = (self.numbers, self.inverse);
    }

    /// The positions of the roots, ascending: one for each recurrent class.
    fn roots(&self) -> Vec<usize> {
        (0..self.inverse.len()).filter(|&j| self.inverse[j] == 0.0).collect()
    }

    /// What a front holds: its own rows, and what the rows beyond redirected to it.
    pub(crate) fn numbers(&self, f: usize) -> (&[f64], &[f64]) {
        let k = (self.plan.first[f + 1] - self.plan.first[f]) as usize;
        let size = k + self.plan.rows(f).len();
        self.numbers[self.plan.offset[f]..self.plan.offset[f + 1]].split_at(k * size)
    }

    /// Gain and bias of several rewards at once, of the same chain; `reward(s)` gives them.
    pub(crate) fn evaluate<'m>(
        &self,
        row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
        reward: impl Fn(usize) -> Lanes + Sync,
    ) -> Evaluation {
        let (order, pinned) = (&self.plan.order, self.plan.position[self.pinned] as usize);
        let with_time = |s: usize| {
            let mut r = reward(s);
            (r[TIME], r[LOSS]) = (1.0, 0.0);
            r
        };
        let mut b = vec![[0.0; LANES]; order.len()];
        b.par_chunks_mut(CHUNK).zip(order.par_chunks(CHUNK)).for_each(|(b, order)| {
            for (b, &s) in b.iter_mut().zip(order) {
                *b = with_time(s as usize);
            }
        });
        // An end elsewhere counts as lost.
        let cycles = self.forward(&mut b, |position| {
            let mut end = [0.0; LANES];
            end[LOSS] = if position == pinned { 0.0 } else { 1.0 };
            end
        });
        let others = self.roots().into_iter().zip(cycles).filter(|(root, _)| *root != pinned);
        let others =
            others.map(|(root, cycle)| (order[root] as usize, cycle.map(|x| x / cycle[TIME]))).collect();
        // What is collected on the way to the pinned state, and how long that takes.
        self.backward(&mut b);
        let mut cycle = with_time(self.pinned);
        let (targets, probabilities) = row(self.pinned);
        for (&t, &p) in targets.iter().zip(probabilities) {
            add(&mut cycle, p, &b[self.plan.position[t as usize] as usize]);
        }
        let gain = cycle.map(|x| x / cycle[TIME]);
        let bias = |&p: &u32| {
            let mut b = b[p as usize];
            let time = b[TIME];
            b[..LOSS].iter_mut().zip(&gain).for_each(|(b, g)| *b -= time * g);
            b
        };
        let bias = self.plan.position.par_iter().with_min_len(CHUNK).map(bias).collect();
        Evaluation { gain, others, bias, cycle: cycle[TIME], loss: cycle[LOSS] }
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

/// Vectors are worked on in pieces of at least this many numbers.
pub(crate) const CHUNK: usize = 1 << 14;

#[inline(always)]
pub(crate) fn add(sum: &mut Lanes, x: f64, b: &Lanes) {
    sum.iter_mut().zip(b).for_each(|(s, b)| *s += x * b);
}

/// Cuts a slice where its pieces end, the last one at its end.
pub(crate) fn cut<T>(slice: &mut [T], ends: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let (mut rest, mut at) = (slice, 0);
    ends.map(|end| {
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(end - at);
        (rest, at) = (after, end);
        piece
    })
    .collect()
}

impl Desk {
    fn clear(&mut self) {
        self.waiting.clear();
        self.updates.clear();
    }
}

/// Eliminates successive fronts, whose numbers and inverses these are; `chain` is what [`sort_entries`] made.
fn eliminate_fronts(
    plan: &Plan,
    fronts: Range<usize>,
    (entries, bucket): (&[(u32, u32, f64)], &[u32]),
    all_numbers: &mut [f64],
    all_inverse: &mut [f64],
    desk: &mut Desk,
) {
    let Desk { local, front, panel, waiting, updates, runs } = desk;
    local.resize(plan.order.len(), 0);
    let (numbers_base, inverse_base) = (plan.offset[fronts.start], plan.first[fronts.start] as usize);
    for f in fronts {
        let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
        let rows = plan.rows(f);
        let k = end - begin;
        let size = k + rows.len();
        let stride = size + BESIDES;
        front.clear();
        front.resize(size * stride, 0.0);
        (0..k).for_each(|i| front[i * stride + size + 1] = 1.0);
        (begin..end).for_each(|j| local[j] = (j - begin) as u32);
        rows.iter().enumerate().for_each(|(i, &r)| local[r as usize] = (k + i) as u32);
        for &(i, t, p) in &entries[bucket[begin] as usize..bucket[end] as usize] {
            front[local[i as usize] as usize * stride + local[t as usize] as usize] += p;
        }
        for _ in 0..plan.children[f] {
            let child = waiting.pop().unwrap_or(0);
            let touched = plan.rows(child);
            let start = updates.len() - touched.len() * (touched.len() + BESIDES);
            vectorised(
                #[inline(always)]
                || add_update(front, size, local, touched, &updates[start..], runs),
            );
            updates.truncate(start);
        }
        let inverse = &mut all_inverse[begin - inverse_base..end - inverse_base];
        vectorised(
            #[inline(always)]
            || eliminate(front, size, k, inverse, panel),
        );
        let numbers = &mut all_numbers[plan.offset[f] - numbers_base..plan.offset[f + 1] - numbers_base];
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
}

/// Adds to a front of `size` states what a child redirected among the positions that it touched; `local` says where these are in the
/// front. Those that follow each other in both are added as one.
#[inline(always)]
fn add_update(
    front: &mut [f64],
    size: usize,
    local: &[u32],
    touched: &[u32],
    update: &[f64],
    runs: &mut Vec<Run>,
) {
    let (stride, width) = (size + BESIDES, touched.len() + BESIDES);
    runs.clear();
    let columns = touched.iter().map(|&t| local[t as usize] as usize);
    for (from, to) in columns.chain(size..stride).enumerate() {
        match runs.last_mut() {
            Some(run) if run.to + run.len == to => run.len += 1,
            _ => runs.push(Run { from, to, len: 1 }),
        }
    }
    for (&r, from) in touched.iter().zip(update.chunks_exact(width)) {
        let into = &mut front[local[r as usize] as usize * stride..][..stride];
        for run in &*runs {
            let from = &from[run.from..][..run.len];
            into[run.to..][..run.len].iter_mut().zip(from).for_each(|(x, y)| *x += y);
        }
    }
}

/// Columns that follow each other in an update and in the front that it is added to.
#[derive(Debug, Clone)]
struct Run {
    from: usize,
    to: usize,
    len: usize,
}

/// The transitions of a chain by the front in which they are needed: that of the first of the two positions.
fn sort_entries<'m>(plan: &Plan, row: impl Fn(usize) -> (&'m [u32], &'m [f64]), workspace: &mut Workspace) {
    let n = plan.order.len();
    let Workspace { entries, bucket, .. } = workspace;
    bucket.clear();
    bucket.resize(n + 2, 0);
    each_entry(plan, &row, |i, t, _| bucket[i.min(t) as usize + 2] += 1);
    (0..n).for_each(|i| bucket[i + 2] += bucket[i + 1]);
    entries.clear();
    entries.resize(bucket[n + 1] as usize, (0, 0, 0.0));
    each_entry(plan, &row, |i, t, p| {
        let at = &mut bucket[i.min(t) as usize + 1];
        entries[*at as usize] = (i, t, p);
        *at += 1;
    });
}

/// All transitions between different states, by their positions.
#[inline(always)]
fn each_entry<'m>(
    plan: &Plan,
    row: &impl Fn(usize) -> (&'m [u32], &'m [f64]),
    mut take: impl FnMut(u32, u32, f64),
) {
    for (i, &s) in plan.order.iter().enumerate() {
        let (targets, probabilities) = row(s as usize);
        for (&t, &p) in targets.iter().zip(probabilities) {
            let t = plan.position[t as usize];
            if t as usize != i {
                take(i as u32, t, p);
            }
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

    fn evaluate(rows: &[Row], pinned: usize) -> Evaluation {
        let graph = Graph::symmetric(rows.len(), |s| &rows[s].0);
        let plan = Plan::new(&graph, usize::MAX).unwrap();
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let mut workspace = Workspace::default();
        // Twice, so that the workspace is not clean.
        Elimination::new(&plan, row, 0, &mut workspace).recycle(&mut workspace);
        Elimination::new(&plan, row, pinned, &mut workspace).evaluate(row, reward)
    }

    /// Evaluates, and checks g + h = r + P h wherever another class cannot be reached; the pinned state is recurrent.
    fn check(rows: &[Row], pinned: usize) -> Evaluation {
        let n = rows.len();
        let evaluation = evaluate(rows, pinned);
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

    /// The chances to end in each class solve x = P x, are 1 and 0 in the classes themselves, and add up.
    #[test]
    fn chances_to_end_in_each_class() {
        let rows = walk(25, 5, 5);
        let graph = Graph::symmetric(rows.len(), |s| &rows[s].0);
        let plan = Plan::new(&graph, usize::MAX).unwrap();
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        // Pinned where it is not recurrent.
        let pinned = (0..rows.len()).find(|&s| rows[s].0.len() > 1).unwrap();
        let elimination = Elimination::new(&plan, row, pinned, &mut Workspace::default());
        let evaluation = elimination.evaluate(row, reward);
        let roots: Vec<usize> = evaluation.others.iter().map(|(root, _)| *root).collect();
        assert!(evaluation.loss > 0.1 && roots.len() > 2);
        let reach = elimination.reach(&roots);
        for s in 0..rows.len() {
            assert!((reach[s].iter().sum::<f64>() - evaluation.bias[s][LOSS]).abs() < 1e-12);
            for (k, root) in roots.iter().enumerate() {
                let mean = |(&t, p): (&u32, &f64)| p * reach[t as usize][k];
                let next: f64 = rows[s].0.iter().zip(&rows[s].1).map(mean).sum();
                let expected = if roots.contains(&s) { f64::from(s == *root) } else { next };
                assert!(s == pinned || (reach[s][k] - expected).abs() < 1e-12, "{s} {k}");
            }
        }
    }

    /// Two rooms between which one passes with this probability.
    fn rooms(p: f64) -> Vec<Row> {
        (0..4u32)
            .map(|s| match s {
                1 => (vec![0, 1, 2], vec![0.5, 0.5, p]),
                2 => (vec![1, 2, 3], vec![p, 0.5, 0.5]),
                0 => (vec![0, 1], vec![0.5, 0.5]),
                _ => (vec![2, 3], vec![0.5, 0.5]),
            })
            .collect()
    }

    /// Once in 10⁸⁰ steps: no times that overflow, and two classes. Once in 10⁵⁰ steps: one.
    #[test]
    fn what_never_happens_is_left_out() {
        let evaluation = check(&rooms(1e-80), 0);
        assert_eq!(evaluation.others.len(), 1);
        assert!((evaluation.gain[0] - f64::midpoint(reward(0)[0], reward(1)[0])).abs() < 1e-14);
        let evaluation = evaluate(&rooms(1e-50), 0);
        assert!(evaluation.others.is_empty() && evaluation.loss == 0.0);
        let mean = (0..4).map(|s| reward(s)[0]).sum::<f64>() / 4.0;
        assert!((evaluation.gain[0] - mean).abs() < 1e-14);
    }

    /// A grid on which one is driven to a corner: a step away from it is nothing special, but to come to the other corner takes longer
    /// than any number can hold.
    #[test]
    fn small_chances_multiply() {
        let side = 150u32;
        let rows: Vec<Row> = (0..side * side)
            .map(|s| {
                let (x, y) = (s % side, s / side);
                let share = |inside: bool, p: f64| if inside { p } else { 0.0 };
                let steps = [
                    (s.wrapping_sub(1), share(x > 0, 0.49)),
                    (s + 1, share(x + 1 < side, 0.01)),
                    (s.wrapping_sub(side), share(y > 0, 0.49)),
                    (s + side, share(y + 1 < side, 0.01)),
                ];
                let stay = 1.0 - steps.iter().map(|(_, p)| p).sum::<f64>();
                steps.into_iter().filter(|(_, p)| *p > 0.0).chain([(s, stay)]).unzip()
            })
            .collect();
        let corner = check(&rows, 0);
        assert!(corner.others.is_empty() && corner.cycle < 1.1);
        let other = evaluate(&rows, (side * side) as usize - 1);
        assert!(other.others.len() == 1 && other.loss > 0.9);
        for lane in 0..LOSS {
            assert!((other.others[0].1[lane] - corner.gain[lane]).abs() < 1e-13);
        }
    }

    #[test]
    fn limbs_are_eliminated_beside_each_other_to_the_same_numbers() {
        let rows = walk(150, 0, 9);
        let graph = Graph::symmetric(rows.len(), |s| &rows[s].0);
        let plan = Plan::new(&graph, usize::MAX).unwrap();
        assert!(plan.pieces.iter().filter(|piece| piece.limb).count() >= 4);
        assert!(plan.pieces.windows(2).all(|p| p[0].fronts.end == p[1].fronts.start));
        assert_eq!((plan.pieces[0].fronts.start, plan.pieces.last().unwrap().fronts.end), (0, plan.fronts()));
        check(&rows, 1234);
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let elimination = Elimination::new(&plan, row, 1234, &mut Workspace::default());
                let evaluation = elimination.evaluate(row, reward);
                (evaluation.gain, evaluation.bias, elimination.visits(row))
            })
        };
        assert!(with(1) == with(3));
    }

    #[test]
    fn visits_add_up_to_the_length_of_a_cycle_and_to_the_gain() {
        let rows = walk(120, 0, 3);
        let graph = Graph::symmetric(rows.len(), |s| &rows[s].0);
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
