//! Numeric elimination of a chain, supernode by supernode along the assembly tree.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::front::{EXTRA_COLUMNS, eliminate};
use super::{LOSS, RHS, Rhs, Symbolic, TIME};
use crate::simd::vectorised;
use crate::tuning::CHUNK;

/// Factors of an eliminated chain.
pub(crate) struct Elimination {
    pub(super) symbolic: Arc<Symbolic>,
    /// Of each supernode: its rows of the eliminated chain, with the multipliers in the lower triangle, and
    /// then the multipliers of its later neighbours.
    factors: Vec<f64>,
    /// 1/d_j by position; 0 for a root.
    pub(super) inverse: Vec<f64>,
    /// State that was made a root.
    pub(super) reference: usize,
}

/// Buffers that eliminations reuse.
#[derive(Default)]
pub(crate) struct Workspace {
    factors: Vec<f64>,
    inverse: Vec<f64>,
    entries: Vec<(u32, u32, f64)>,
    bucket: Vec<u32>,
    subtrees: Vec<SubtreeWorkspace>,
}

/// Buffers for one subtree.
#[derive(Default)]
struct SubtreeWorkspace {
    local: Vec<u32>,
    front: Vec<f64>,
    panel: Vec<f64>,
    /// Stack of supernodes whose parents are still to come, ...
    waiting: Vec<usize>,
    /// ... and of their update matrices.
    updates: Vec<f64>,
    runs: Vec<Run>,
}

impl Elimination {
    /// Eliminates the chain whose transitions from state s are `row(s)`. The reference state is made the root
    /// of its class. The choice matters, because the bias is measured from the root: if the chain returns
    /// there once in 10²⁰ steps, only rounding is left of it.
    pub(crate) fn new<'m>(
        symbolic: &Arc<Symbolic>,
        row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
        reference: usize,
        workspace: &mut Workspace,
    ) -> Self {
        let row = |s: usize| if s == reference { (&[][..], &[][..]) } else { row(s) };
        let mut this = Self {
            symbolic: symbolic.clone(),
            factors: std::mem::take(&mut workspace.factors),
            inverse: std::mem::take(&mut workspace.inverse),
            reference,
        };
        this.factors.resize(symbolic.entries(), 0.0);
        this.inverse.resize(symbolic.order.len(), 0.0);
        sort_entries(symbolic, row, workspace);
        let chain = (&workspace.entries[..], &workspace.bucket[..]);
        let sections = &symbolic.sections;
        let factors = cut(&mut this.factors, sections.iter().map(|p| symbolic.offset[p.supernodes.end]));
        let inverse =
            cut(&mut this.inverse, sections.iter().map(|p| symbolic.first[p.supernodes.end] as usize));
        let mut parts: Vec<_> = sections.iter().zip(factors).zip(inverse).collect();
        let pool = Mutex::new(std::mem::take(&mut workspace.subtrees));
        let take = || pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let give = |space| pool.lock().unwrap_or_else(PoisonError::into_inner).push(space);
        // Update matrix of each subtree.
        let updates: Vec<Vec<f64>> = parts
            .par_iter_mut()
            .with_max_len(1)
            .map(|((section, factors), inverse)| {
                if !section.subtree {
                    return Vec::new();
                }
                let mut space = take();
                space.clear();
                let supernodes = section.supernodes.clone();
                eliminate_supernodes(symbolic, supernodes, chain, factors, inverse, &mut space);
                let update = space.updates.clone();
                give(space);
                update
            })
            .collect();
        let mut space = take();
        space.clear();
        for (((section, factors), inverse), update) in parts.into_iter().zip(updates) {
            if section.subtree {
                space.updates.extend(update);
                space.waiting.push(section.supernodes.end - 1);
            } else {
                let supernodes = section.supernodes.clone();
                eliminate_supernodes(symbolic, supernodes, chain, factors, inverse, &mut space);
            }
        }
        give(space);
        workspace.subtrees = pool.into_inner().unwrap_or_else(PoisonError::into_inner);
        this
    }

    /// Returns the buffers to the workspace.
    pub(crate) fn recycle(self, workspace: &mut Workspace) {
        (workspace.factors, workspace.inverse) = (self.factors, self.inverse);
    }

    /// States that are roots besides the reference state: where the chain is never left in floating point.
    pub(crate) fn other_roots(&self) -> impl Iterator<Item = usize> + '_ {
        let state = |position: usize| self.symbolic.order[position] as usize;
        self.roots().into_iter().map(state).filter(|s| *s != self.reference)
    }

    /// Positions of the roots, ascending: one for each recurrent class.
    fn roots(&self) -> Vec<usize> {
        (0..self.inverse.len()).filter(|&j| self.inverse[j] == 0.0).collect()
    }

    /// Factors of a supernode: its own rows, and the multipliers of its later neighbours.
    pub(super) fn factors(&self, f: usize) -> (&[f64], &[f64]) {
        let symbolic = &*self.symbolic;
        let k = (symbolic.first[f + 1] - symbolic.first[f]) as usize;
        let size = k + symbolic.rows(f).len();
        self.factors[symbolic.offset[f]..symbolic.offset[f + 1]].split_at(k * size)
    }

    /// Gain and bias of several rewards; `reward(s)` are their values in state s.
    pub(crate) fn evaluate<'m>(
        &self,
        row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
        reward: impl Fn(usize) -> Rhs + Sync,
    ) -> Evaluation {
        let symbolic = &*self.symbolic;
        let (order, reference) = (&symbolic.order, symbolic.position[self.reference] as usize);
        let with_time = |s: usize| {
            let mut r = reward(s);
            (r[TIME], r[LOSS]) = (1.0, 0.0);
            r
        };
        let mut b = vec![[0.0; RHS]; order.len()];
        b.par_chunks_mut(CHUNK).zip(order.par_chunks(CHUNK)).for_each(|(b, order)| {
            for (b, &s) in b.iter_mut().zip(order) {
                *b = with_time(s as usize);
            }
        });
        // Absorption at any other root is a loss.
        let cycles = self.forward(&mut b, |position| {
            let mut end = [0.0; RHS];
            end[LOSS] = if position == reference { 0.0 } else { 1.0 };
            end
        });
        let others = self.roots().into_iter().zip(cycles).filter(|(root, _)| *root != reference);
        let others =
            others.map(|(root, cycle)| (order[root] as usize, cycle.map(|x| x / cycle[TIME]))).collect();
        // Reward and time until the reference state is reached.
        self.backward(&mut b);
        let mut cycle = with_time(self.reference);
        let (targets, probabilities) = row(self.reference);
        for (&t, &p) in targets.iter().zip(probabilities) {
            add(&mut cycle, p, &b[symbolic.position[t as usize] as usize]);
        }
        let gain = cycle.map(|x| x / cycle[TIME]);
        let bias = |&p: &u32| {
            let mut b = b[p as usize];
            let time = b[TIME];
            b[..LOSS].iter_mut().zip(&gain).for_each(|(b, g)| *b -= time * g);
            b
        };
        let bias = symbolic.position.par_iter().with_min_len(CHUNK).map(bias).collect();
        Evaluation { gain, others, bias, cycle: cycle[TIME], loss: cycle[LOSS] }
    }
}

/// Gain and bias of several rewards.
pub(crate) struct Evaluation {
    /// Gain in the class of the reference state.
    pub(crate) gain: Rhs,
    /// Root and gain of every other class.
    pub(crate) others: Vec<(usize, Rhs)>,
    /// Bias, 0 at the reference state; in component [`TIME`] the expected time until that or another root is
    /// reached, in component [`LOSS`] the probability of the latter. Where that is positive the bias is
    /// undefined.
    pub(crate) bias: Vec<Rhs>,
    /// Expected return time of the reference state.
    pub(crate) cycle: f64,
    /// Probability of ending in another class instead: the reference state is recurrent if it is 0.
    pub(crate) loss: f64,
}

#[inline(always)]
pub(crate) fn add(sum: &mut Rhs, x: f64, b: &Rhs) {
    sum.iter_mut().zip(b).for_each(|(s, b)| *s += x * b);
}

/// Cuts a slice at the ends of its pieces.
pub(crate) fn cut<T>(slice: &mut [T], ends: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let (mut rest, mut at) = (slice, 0);
    ends.map(|end| {
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(end - at);
        (rest, at) = (after, end);
        piece
    })
    .collect()
}

impl SubtreeWorkspace {
    fn clear(&mut self) {
        self.waiting.clear();
        self.updates.clear();
    }
}

/// Eliminates successive supernodes into their factors and inverses. The chain comes from
/// [`sort_entries`].
fn eliminate_supernodes(
    symbolic: &Symbolic,
    supernodes: Range<usize>,
    (entries, bucket): (&[(u32, u32, f64)], &[u32]),
    all_factors: &mut [f64],
    all_inverse: &mut [f64],
    space: &mut SubtreeWorkspace,
) {
    let SubtreeWorkspace { local, front, panel, waiting, updates, runs } = space;
    local.resize(symbolic.order.len(), 0);
    let (factor_base, inverse_base) =
        (symbolic.offset[supernodes.start], symbolic.first[supernodes.start] as usize);
    for f in supernodes {
        let (begin, end) = (symbolic.first[f] as usize, symbolic.first[f + 1] as usize);
        let rows = symbolic.rows(f);
        let k = end - begin;
        let size = k + rows.len();
        let stride = size + EXTRA_COLUMNS;
        front.clear();
        front.resize(size * stride, 0.0);
        (0..k).for_each(|i| front[i * stride + size + 1] = 1.0);
        (begin..end).for_each(|j| local[j] = (j - begin) as u32);
        rows.iter().enumerate().for_each(|(i, &r)| local[r as usize] = (k + i) as u32);
        for &(i, t, p) in &entries[bucket[begin] as usize..bucket[end] as usize] {
            front[local[i as usize] as usize * stride + local[t as usize] as usize] += p;
        }
        for _ in 0..symbolic.children[f] {
            let child = waiting.pop().unwrap_or(0);
            let touched = symbolic.rows(child);
            let start = updates.len() - touched.len() * (touched.len() + EXTRA_COLUMNS);
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
        let factors =
            &mut all_factors[symbolic.offset[f] - factor_base..symbolic.offset[f + 1] - factor_base];
        for i in 0..k {
            factors[i * size..(i + 1) * size].copy_from_slice(&front[i * stride..i * stride + size]);
        }
        for i in k..size {
            let at = k * size + (i - k) * k;
            factors[at..at + k].copy_from_slice(&front[i * stride..i * stride + k]);
            updates.extend_from_slice(&front[i * stride + k..(i + 1) * stride]);
        }
        waiting.push(f);
    }
}

/// Extend-add: adds the update matrix of a child to a frontal matrix of `size` states. `local` are the
/// positions in the frontal matrix; columns that are contiguous in both are added as one run.
#[inline(always)]
fn add_update(
    front: &mut [f64],
    size: usize,
    local: &[u32],
    touched: &[u32],
    update: &[f64],
    runs: &mut Vec<Run>,
) {
    let (stride, width) = (size + EXTRA_COLUMNS, touched.len() + EXTRA_COLUMNS);
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

/// Columns that are contiguous in an update matrix and in the frontal matrix that it is added to.
#[derive(Debug, Clone)]
struct Run {
    from: usize,
    to: usize,
    len: usize,
}

/// Sorts the transitions of a chain by the supernode that assembles them: that of the earlier position.
fn sort_entries<'m>(
    symbolic: &Symbolic,
    row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
    workspace: &mut Workspace,
) {
    let n = symbolic.order.len();
    let Workspace { entries, bucket, .. } = workspace;
    bucket.clear();
    bucket.resize(n + 2, 0);
    each_entry(symbolic, &row, |i, t, _| bucket[i.min(t) as usize + 2] += 1);
    (0..n).for_each(|i| bucket[i + 2] += bucket[i + 1]);
    entries.clear();
    entries.resize(bucket[n + 1] as usize, (0, 0, 0.0));
    each_entry(symbolic, &row, |i, t, p| {
        let at = &mut bucket[i.min(t) as usize + 1];
        entries[*at as usize] = (i, t, p);
        *at += 1;
    });
}

/// Calls `take` for all transitions between different states, by position.
#[inline(always)]
fn each_entry<'m>(
    symbolic: &Symbolic,
    row: &impl Fn(usize) -> (&'m [u32], &'m [f64]),
    mut take: impl FnMut(u32, u32, f64),
) {
    for (i, &s) in symbolic.order.iter().enumerate() {
        let (targets, probabilities) = row(s as usize);
        for (&t, &p) in targets.iter().zip(probabilities) {
            let t = symbolic.position[t as usize];
            if t as usize != i {
                take(i as u32, t, p);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::gth::ordering::Graph;
    use acrl::Rng;

    type Row = (Vec<u32>, Vec<f64>);

    /// Random walk on a grid with drift, and some absorbing states.
    fn grid(side: usize, absorbing: usize, seed: u64) -> Vec<Row> {
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
        for _ in 0..absorbing {
            let s = rng.index(side * side);
            rows[s] = (vec![s as u32], vec![1.0]);
        }
        rows
    }

    fn reward(s: usize) -> Rhs {
        std::array::from_fn(|k| ((s * 7 + k * 13) % 11) as f64 / 11.0)
    }

    fn analyse(rows: &[Row]) -> Arc<Symbolic> {
        let graph = Graph::symmetric(rows.len(), |s| &rows[s].0);
        Arc::new(Symbolic::new(&graph, usize::MAX).unwrap())
    }

    fn evaluate(rows: &[Row], reference: usize) -> Evaluation {
        let symbolic = analyse(rows);
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let mut workspace = Workspace::default();
        // Twice, so that the workspace holds old numbers.
        Elimination::new(&symbolic, row, 0, &mut workspace).recycle(&mut workspace);
        Elimination::new(&symbolic, row, reference, &mut workspace).evaluate(row, reward)
    }

    /// Evaluates, and checks g + h = r + P h wherever no other class can be reached; the reference state is
    /// recurrent.
    fn check(rows: &[Row], reference: usize) -> Evaluation {
        let n = rows.len();
        let evaluation = evaluate(rows, reference);
        let lossless = |s: usize| evaluation.bias[s][LOSS] < 1e-40;
        for k in 0..LOSS {
            let times = (0..n).filter(|&s| lossless(s)).map(|s| evaluation.bias[s][TIME]);
            let size = times.fold(1.0, f64::max);
            for s in (0..n).filter(|&s| lossless(s)) {
                let mean = |(&t, p): (&u32, &f64)| p * evaluation.bias[t as usize][k];
                let next: f64 = rows[s].0.iter().zip(&rows[s].1).map(mean).sum();
                let residual = reward(s)[k] - evaluation.gain[k] + next - evaluation.bias[s][k];
                assert!(residual.abs() < 1e-14 * size, "state {s}, reward {k}: {residual}");
            }
        }
        evaluation
    }

    #[test]
    fn gain_and_bias_solve_their_equations() {
        for side in [1, 2, 3, 7, 12, 40] {
            let rows = grid(side, 0, side as u64);
            let (one, other) = (check(&rows, 0), check(&rows, side * side / 3));
            assert!(one.others.is_empty());
            for k in 0..LOSS {
                assert!((one.gain[k] - other.gain[k]).abs() < 1e-13);
            }
        }
    }

    #[test]
    fn absorbing_states_are_recurrent_classes() {
        for (side, absorbing) in [(3, 1), (12, 5), (40, 30)] {
            let rows = grid(side, absorbing, 5);
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

    /// Absorption probabilities solve x = P x, are 1 and 0 in the classes themselves, and add up.
    #[test]
    fn absorption_probabilities_solve_their_equations() {
        let rows = grid(25, 5, 5);
        let symbolic = analyse(&rows);
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        // A transient reference state.
        let reference = (0..rows.len()).find(|&s| rows[s].0.len() > 1).unwrap();
        let elimination = Elimination::new(&symbolic, row, reference, &mut Workspace::default());
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
                assert!(s == reference || (reach[s][k] - expected).abs() < 1e-12, "{s} {k}");
            }
        }
    }

    /// Two pairs of states, connected with this probability.
    fn weakly_connected(p: f64) -> Vec<Row> {
        (0..4u32)
            .map(|s| match s {
                1 => (vec![0, 1, 2], vec![0.5, 0.5, p]),
                2 => (vec![1, 2, 3], vec![p, 0.5, 0.5]),
                0 => (vec![0, 1], vec![0.5, 0.5]),
                _ => (vec![2, 3], vec![0.5, 0.5]),
            })
            .collect()
    }

    /// Once in 10⁸⁰ steps: two classes, and no times that overflow. Once in 10⁵⁰ steps: one class.
    #[test]
    fn negligible_transitions_separate_recurrent_classes() {
        let evaluation = check(&weakly_connected(1e-80), 0);
        assert_eq!(evaluation.others.len(), 1);
        assert!((evaluation.gain[0] - f64::midpoint(reward(0)[0], reward(1)[0])).abs() < 1e-14);
        let evaluation = evaluate(&weakly_connected(1e-50), 0);
        assert!(evaluation.others.is_empty() && evaluation.loss == 0.0);
        let mean = (0..4).map(|s| reward(s)[0]).sum::<f64>() / 4.0;
        assert!((evaluation.gain[0] - mean).abs() < 1e-14);
    }

    /// Grid with drift to a corner: single steps against it are frequent, but the hitting time of the
    /// opposite corner overflows.
    #[test]
    fn hitting_times_that_overflow_are_infinite() {
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
        for k in 0..LOSS {
            assert!((other.others[0].1[k] - corner.gain[k]).abs() < 1e-13);
        }
    }

    #[test]
    fn parallel_subtrees_give_bit_identical_results() {
        let rows = grid(150, 0, 9);
        let symbolic = analyse(&rows);
        assert!(symbolic.sections.iter().filter(|section| section.subtree).count() >= 4);
        assert!(symbolic.sections.windows(2).all(|p| p[0].supernodes.end == p[1].supernodes.start));
        assert_eq!(symbolic.sections[0].supernodes.start, 0);
        assert_eq!(symbolic.sections.last().unwrap().supernodes.end, symbolic.supernodes());
        check(&rows, 1234);
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let elimination = Elimination::new(&symbolic, row, 1234, &mut Workspace::default());
                let evaluation = elimination.evaluate(row, reward);
                (evaluation.gain, evaluation.bias, elimination.visits(row))
            })
        };
        assert!(with(1) == with(3));
    }

    #[test]
    fn visits_add_up_to_the_return_time_and_to_the_gain() {
        let rows = grid(120, 0, 3);
        let symbolic = analyse(&rows);
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let elimination = Elimination::new(&symbolic, row, 17, &mut Workspace::default());
        let evaluation = elimination.evaluate(row, reward);
        let visits = elimination.visits(row);
        let time: f64 = visits.iter().sum();
        assert!((time / evaluation.cycle - 1.0).abs() < 1e-12);
        let collected: f64 = visits.iter().enumerate().map(|(s, x)| x * reward(s)[2]).sum();
        assert!((collected / time - evaluation.gain[2]).abs() < 1e-13);
    }
}
