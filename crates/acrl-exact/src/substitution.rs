//! Right-hand sides through an elimination: up the tree of fronts and down again, limbs beside each other.

use std::ops::Range;

use rayon::prelude::*;

use crate::elimination::{CHUNK, Elimination, LANES, Lanes, add, cut};
use crate::plan::Piece;
use crate::vectors::vectorised;

impl Elimination<'_> {
    /// Eliminates right-hand sides b, in place and by position; returns, root by root, the sum of b over a cycle from the root back
    /// to it. For the others the end at a root then counts as `end` says of its position.
    pub(crate) fn forward(&self, b: &mut [Lanes], end: impl Fn(usize) -> Lanes + Sync) -> Vec<Lanes> {
        let work = |fronts: Range<usize>, b: &mut Window<'_, Lanes>| self.forward_fronts(fronts, b, &end);
        let cycles = self.rise(b, |sum, x| add(sum, 1.0, x), work);
        cycles.into_iter().flatten().collect()
    }

    fn forward_fronts(
        &self,
        fronts: Range<usize>,
        b: &mut Window<'_, Lanes>,
        end_at: &impl Fn(usize) -> Lanes,
    ) -> Vec<Lanes> {
        let mut cycles = Vec::new();
        let plan = self.plan;
        for f in fronts {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let (own, beyond) = self.numbers(f);
            let (b_own, mut b_beyond) = b.split(begin, end);
            vectorised(
                #[inline(always)]
                || {
                    for i in 0..k {
                        let (before, own_and_after) = b_own.split_at_mut(i);
                        let sum = &mut own_and_after[0];
                        add_all(sum, &own[i * size..i * size + i], before);
                        if self.inverse[begin + i] == 0.0 {
                            cycles.push(*sum);
                            *sum = end_at(begin + i);
                        }
                    }
                    for (&r, redirected) in rows.iter().zip(beyond.chunks_exact(k)) {
                        add_all(b_beyond.at(r), redirected, b_own);
                    }
                },
            );
        }
        cycles
    }

    /// From eliminated right-hand sides to the solution x of (I − P) x = b, in place and by position; roots keep
    /// what they hold.
    pub(crate) fn backward(&self, b: &mut [Lanes]) {
        self.fall(b, |fronts, b| self.backward_fronts(fronts, b));
    }

    fn backward_fronts(&self, fronts: Range<usize>, b: &mut Window<'_, Lanes>) {
        let plan = self.plan;
        let mut there: Vec<Lanes> = Vec::new();
        for f in fronts.rev() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let (own, _) = self.numbers(f);
            let (b_own, mut b_beyond) = b.split(begin, end);
            there.clear();
            there.extend(rows.iter().map(|&r| *b_beyond.at(r)));
            vectorised(
                #[inline(always)]
                || {
                    for i in (0..k).rev() {
                        let inverse = self.inverse[begin + i];
                        if inverse == 0.0 {
                            continue;
                        }
                        let row = &own[i * size..(i + 1) * size];
                        let (own_and_before, after) = b_own.split_at_mut(i + 1);
                        let sum = &mut own_and_before[i];
                        add_all(sum, &row[i + 1..k], after);
                        add_all(sum, &row[k..], &there);
                        *sum = sum.map(|x| x * inverse);
                    }
                },
            );
        }
    }

    /// Of each state, the chances to end in the classes of these roots, of which there are at most [`LANES`].
    pub(crate) fn reach(&self, roots: &[usize]) -> Vec<Lanes> {
        let plan = self.plan;
        let mut chances = vec![[0.0; LANES]; plan.order.len()];
        let roots: Vec<usize> = roots.iter().map(|&root| plan.position[root] as usize).collect();
        self.forward(&mut chances, |position| {
            let mut end = [0.0; LANES];
            end.iter_mut()
                .zip(&roots)
                .for_each(|(end, &root)| *end = if root == position { 1.0 } else { 0.0 });
            end
        });
        self.backward(&mut chances);
        plan.position.par_iter().with_min_len(CHUNK).map(|&p| chances[p as usize]).collect()
    }

    /// From the leaves to the root: `work` on each limb beside the others, and then on the trunk, piece by piece. What limbs leave in the
    /// rows beyond them is added there. Returns what `work` returns, in the order of the pieces.
    fn rise<T: Copy + Default + Send, R: Send>(
        &self,
        x: &mut [T],
        add: impl Fn(&mut T, &T),
        work: impl Fn(Range<usize>, &mut Window<'_, T>) -> R + Sync,
    ) -> Vec<R> {
        let plan = self.plan;
        let ends = plan.pieces.iter().map(|p| plan.first[p.fronts.end] as usize);
        let mut parts: Vec<_> = plan.pieces.iter().zip(cut(x, ends)).collect();
        let limbs: Vec<Option<(Vec<T>, R)>> = parts
            .par_iter_mut()
            .with_max_len(1)
            .map(|(piece, inside)| {
                piece.limb.then(|| {
                    let rows = plan.rows(piece.fronts.end - 1);
                    let mut beyond = vec![T::default(); rows.len()];
                    let base = plan.first[piece.fronts.start] as usize;
                    let mut window = Window { base, inside, rows, beyond: &mut beyond };
                    let result = work(piece.fronts.clone(), &mut window);
                    (beyond, result)
                })
            })
            .collect();
        let each = plan.pieces.iter().zip(limbs).map(|(piece, limb)| match limb {
            Some((beyond, result)) => {
                let rows = plan.rows(piece.fronts.end - 1);
                rows.iter().zip(&beyond).for_each(|(&r, beyond)| add(&mut x[r as usize], beyond));
                result
            }
            None => work(piece.fronts.clone(), &mut Window::whole(x)),
        });
        each.collect()
    }

    /// From the root to the leaves: `work` on the trunk, and then on each limb beside the others.
    fn fall<T: Copy + Send + Sync>(
        &self,
        x: &mut [T],
        work: impl Fn(Range<usize>, &mut Window<'_, T>) + Sync,
    ) {
        let plan = self.plan;
        for piece in plan.pieces.iter().rev().filter(|piece| !piece.limb) {
            work(piece.fronts.clone(), &mut Window::whole(x));
        }
        let known = |piece: &Piece| -> Vec<T> {
            let rows = if piece.limb { plan.rows(piece.fronts.end - 1) } else { &[] };
            rows.iter().map(|&r| x[r as usize]).collect()
        };
        let beyond: Vec<Vec<T>> = plan.pieces.iter().map(known).collect();
        let ends = plan.pieces.iter().map(|p| plan.first[p.fronts.end] as usize);
        let parts: Vec<_> = plan.pieces.iter().zip(cut(x, ends)).zip(beyond).collect();
        parts.into_par_iter().with_max_len(1).filter(|((piece, _), _)| piece.limb).for_each(
            |((piece, inside), mut beyond)| {
                let base = plan.first[piece.fronts.start] as usize;
                let rows = plan.rows(piece.fronts.end - 1);
                work(piece.fronts.clone(), &mut Window { base, inside, rows, beyond: &mut beyond });
            },
        );
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
        self.rise(&mut x, |sum, x| *sum += x, |fronts, x| self.visits_rise(fronts, x));
        self.fall(&mut x, |fronts, x| self.visits_fall(fronts, x));
        x[plan.position[self.pinned] as usize] = 1.0;
        plan.position.par_iter().with_min_len(CHUNK).map(|&p| x[p as usize]).collect()
    }

    fn visits_rise(&self, fronts: Range<usize>, x: &mut Window<'_, f64>) {
        let plan = self.plan;
        let mut handed: Vec<f64> = Vec::new();
        for f in fronts {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let (own, _) = self.numbers(f);
            let (x_own, mut x_beyond) = x.split(begin, end);
            handed.clear();
            handed.resize(rows.len(), 0.0);
            vectorised(
                #[inline(always)]
                || {
                    for i in 0..k {
                        x_own[i] *= self.inverse[begin + i];
                        let visits = x_own[i];
                        let row = &own[i * size..(i + 1) * size];
                        add_times(&mut x_own[i + 1..], visits, &row[i + 1..k]);
                        add_times(&mut handed, visits, &row[k..]);
                    }
                },
            );
            rows.iter().zip(&handed).for_each(|(&r, visits)| *x_beyond.at(r) += visits);
        }
    }

    fn visits_fall(&self, fronts: Range<usize>, x: &mut Window<'_, f64>) {
        let plan = self.plan;
        for f in fronts.rev() {
            let (begin, end) = (plan.first[f] as usize, plan.first[f + 1] as usize);
            let (rows, k) = (plan.rows(f), end - begin);
            let size = k + rows.len();
            let (own, beyond) = self.numbers(f);
            let (x_own, mut x_beyond) = x.split(begin, end);
            vectorised(
                #[inline(always)]
                || {
                    for (&r, redirected) in rows.iter().zip(beyond.chunks_exact(k)) {
                        add_times(x_own, *x_beyond.at(r), redirected);
                    }
                    for i in (0..k).rev() {
                        // What leads to a root ends there.
                        if self.inverse[begin + i] == 0.0 {
                            x_own[i] = 0.0;
                        }
                        let visits = x_own[i];
                        add_times(x_own, visits, &own[i * size..i * size + i]);
                    }
                },
            );
        }
    }
}

/// to += x · by.
#[inline(always)]
fn add_times(to: &mut [f64], x: f64, by: &[f64]) {
    for (to, by) in to.iter_mut().zip(by) {
        *to += x * by;
    }
}

/// sum += Σ x_i b_i, as several sums beside each other, so that none waits for the one before.
#[inline(always)]
fn add_all(sum: &mut Lanes, x: &[f64], b: &[Lanes]) {
    let (mut second, mut third, mut fourth) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    let (x, b) = (x.chunks_exact(4), b[..x.len()].chunks_exact(4));
    let rest = x.remainder().iter().zip(b.remainder());
    for (x, b) in x.zip(b) {
        add(sum, x[0], &b[0]);
        add(&mut second, x[1], &b[1]);
        add(&mut third, x[2], &b[2]);
        add(&mut fourth, x[3], &b[3]);
    }
    rest.for_each(|(x, b)| add(sum, *x, b));
    for lane in 0..LANES {
        sum[lane] += second[lane] + (third[lane] + fourth[lane]);
    }
}

/// What a range of fronts sees of a vector by position: its own part, from `base` on, and the rows beyond that it touches.
struct Window<'a, T> {
    base: usize,
    inside: &'a mut [T],
    rows: &'a [u32],
    beyond: &'a mut [T],
}

impl<'a, T> Window<'a, T> {
    /// A vector as a whole.
    fn whole(x: &'a mut [T]) -> Self {
        Window { base: 0, inside: x, rows: &[], beyond: &mut [] }
    }

    /// The positions `begin..end`, and what comes after them.
    fn split(&mut self, begin: usize, end: usize) -> (&mut [T], Window<'_, T>) {
        let (own, after) = self.inside[begin - self.base..].split_at_mut(end - begin);
        (own, Window { base: end, inside: after, rows: self.rows, beyond: self.beyond })
    }

    #[inline(always)]
    fn at(&mut self, position: u32) -> &mut T {
        let inside = position as usize - self.base;
        if inside < self.inside.len() {
            return &mut self.inside[inside];
        }
        // Those that a subtree touches are those that its last front touches.
        &mut self.beyond[self.rows.partition_point(|&r| r < position)]
    }
}
