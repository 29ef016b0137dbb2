//! Solution for right-hand sides: forward up the assembly tree and backward down again, with subtrees in
//! parallel.

use std::ops::Range;

use rayon::prelude::*;

use super::numeric::{Elimination, add, cut};
use super::symbolic::Section;
use super::{RHS, Rhs};
use crate::simd::vectorised;
use crate::tuning::CHUNK;

impl Elimination {
    /// Forward elimination of right-hand sides b, in place and by position; returns, root by root, the sum
    /// of b over a cycle from the root back to it. At the root itself b is then set to `end(position)`.
    pub(crate) fn forward(&self, b: &mut [Rhs], end: impl Fn(usize) -> Rhs + Sync) -> Vec<Rhs> {
        let work =
            |supernodes: Range<usize>, b: &mut Window<'_, Rhs>| self.forward_supernodes(supernodes, b, &end);
        let cycles = self.ascend(b, |sum, x| add(sum, 1.0, x), work);
        cycles.into_iter().flatten().collect()
    }

    fn forward_supernodes(
        &self,
        supernodes: Range<usize>,
        b: &mut Window<'_, Rhs>,
        end_at: &impl Fn(usize) -> Rhs,
    ) -> Vec<Rhs> {
        let mut cycles = Vec::new();
        let symbolic = &*self.symbolic;
        for f in supernodes {
            let (begin, end) = (symbolic.first[f] as usize, symbolic.first[f + 1] as usize);
            let (rows, k) = (symbolic.rows(f), end - begin);
            let size = k + rows.len();
            let (own, beyond) = self.factors(f);
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

    /// Backward substitution: from eliminated right-hand sides to the solution x of (I − P) x = b, in place
    /// and by position; roots keep their value.
    pub(crate) fn backward(&self, b: &mut [Rhs]) {
        self.descend(b, |supernodes, b| self.backward_supernodes(supernodes, b));
    }

    fn backward_supernodes(&self, supernodes: Range<usize>, b: &mut Window<'_, Rhs>) {
        let symbolic = &*self.symbolic;
        let mut later: Vec<Rhs> = Vec::new();
        for f in supernodes.rev() {
            let (begin, end) = (symbolic.first[f] as usize, symbolic.first[f + 1] as usize);
            let (rows, k) = (symbolic.rows(f), end - begin);
            let size = k + rows.len();
            let (own, _) = self.factors(f);
            let (b_own, mut b_beyond) = b.split(begin, end);
            later.clear();
            later.extend(rows.iter().map(|&r| *b_beyond.at(r)));
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
                        add_all(sum, &row[k..], &later);
                        *sum = sum.map(|x| x * inverse);
                    }
                },
            );
        }
    }

    /// Solution x of x = b + P x, with x = 0 at the reference state.
    pub(crate) fn solve(&self, b: impl Fn(usize) -> f64) -> Vec<f64> {
        let symbolic = &*self.symbolic;
        let only = |x: f64| {
            let mut rhs = [0.0; RHS];
            rhs[0] = x;
            rhs
        };
        let mut x: Vec<Rhs> = symbolic.order.iter().map(|&s| only(b(s as usize))).collect();
        self.forward(&mut x, |_| [0.0; RHS]);
        self.backward(&mut x);
        symbolic.position.iter().map(|&p| x[p as usize][0]).collect()
    }

    /// Absorption probabilities of each state in the classes of at most [`RHS`] roots.
    pub(crate) fn reach(&self, roots: &[usize]) -> Vec<Rhs> {
        let symbolic = &*self.symbolic;
        let mut absorption = vec![[0.0; RHS]; symbolic.order.len()];
        let roots: Vec<usize> = roots.iter().map(|&root| symbolic.position[root] as usize).collect();
        self.forward(&mut absorption, |position| {
            let mut end = [0.0; RHS];
            end.iter_mut()
                .zip(&roots)
                .for_each(|(end, &root)| *end = if root == position { 1.0 } else { 0.0 });
            end
        });
        self.backward(&mut absorption);
        symbolic.position.par_iter().with_min_len(CHUNK).map(|&p| absorption[p as usize]).collect()
    }

    /// Traversal from the leaves to the root: `work` on all subtrees in parallel, then on the sections up to
    /// the root. Contributions of subtrees to later positions are added there. Returns the results of
    /// `work` in the order of the sections.
    fn ascend<T: Copy + Default + Send, R: Send>(
        &self,
        x: &mut [T],
        add: impl Fn(&mut T, &T),
        work: impl Fn(Range<usize>, &mut Window<'_, T>) -> R + Sync,
    ) -> Vec<R> {
        let symbolic = &*self.symbolic;
        let ends = symbolic.sections.iter().map(|p| symbolic.first[p.supernodes.end] as usize);
        let mut parts: Vec<_> = symbolic.sections.iter().zip(cut(x, ends)).collect();
        let subtrees: Vec<Option<(Vec<T>, R)>> = parts
            .par_iter_mut()
            .with_max_len(1)
            .map(|(section, inside)| {
                section.subtree.then(|| {
                    let rows = symbolic.rows(section.supernodes.end - 1);
                    let mut beyond = vec![T::default(); rows.len()];
                    let base = symbolic.first[section.supernodes.start] as usize;
                    let mut window = Window { base, inside, rows, beyond: &mut beyond };
                    let result = work(section.supernodes.clone(), &mut window);
                    (beyond, result)
                })
            })
            .collect();
        let each = symbolic.sections.iter().zip(subtrees).map(|(section, subtree)| match subtree {
            Some((beyond, result)) => {
                let rows = symbolic.rows(section.supernodes.end - 1);
                rows.iter().zip(&beyond).for_each(|(&r, beyond)| add(&mut x[r as usize], beyond));
                result
            }
            None => work(section.supernodes.clone(), &mut Window::whole(x)),
        });
        each.collect()
    }

    /// Traversal from the root to the leaves: `work` on the sections at the root, then on all subtrees in
    /// parallel.
    fn descend<T: Copy + Send + Sync>(
        &self,
        x: &mut [T],
        work: impl Fn(Range<usize>, &mut Window<'_, T>) + Sync,
    ) {
        let symbolic = &*self.symbolic;
        for section in symbolic.sections.iter().rev().filter(|section| !section.subtree) {
            work(section.supernodes.clone(), &mut Window::whole(x));
        }
        let known = |section: &Section| -> Vec<T> {
            let rows = if section.subtree { symbolic.rows(section.supernodes.end - 1) } else { &[] };
            rows.iter().map(|&r| x[r as usize]).collect()
        };
        let beyond: Vec<Vec<T>> = symbolic.sections.iter().map(known).collect();
        let ends = symbolic.sections.iter().map(|p| symbolic.first[p.supernodes.end] as usize);
        let parts: Vec<_> = symbolic.sections.iter().zip(cut(x, ends)).zip(beyond).collect();
        parts.into_par_iter().with_max_len(1).filter(|((section, _), _)| section.subtree).for_each(
            |((section, inside), mut beyond)| {
                let base = symbolic.first[section.supernodes.start] as usize;
                let rows = symbolic.rows(section.supernodes.end - 1);
                work(section.supernodes.clone(), &mut Window { base, inside, rows, beyond: &mut beyond });
            },
        );
    }

    /// Expected visits of each state between two visits of the reference state.
    pub(crate) fn visits<'m>(&self, row: impl Fn(usize) -> (&'m [u32], &'m [f64])) -> Vec<f64> {
        let symbolic = &*self.symbolic;
        let mut x = vec![0.0; symbolic.order.len()];
        let (targets, probabilities) = row(self.reference);
        for (&t, p) in targets.iter().zip(probabilities) {
            x[symbolic.position[t as usize] as usize] = *p;
        }
        x[symbolic.position[self.reference] as usize] = 0.0;
        self.ascend(&mut x, |sum, x| *sum += x, |supernodes, x| self.visits_forward(supernodes, x));
        self.descend(&mut x, |supernodes, x| self.visits_backward(supernodes, x));
        x[symbolic.position[self.reference] as usize] = 1.0;
        symbolic.position.par_iter().with_min_len(CHUNK).map(|&p| x[p as usize]).collect()
    }

    fn visits_forward(&self, supernodes: Range<usize>, x: &mut Window<'_, f64>) {
        let symbolic = &*self.symbolic;
        let mut passed: Vec<f64> = Vec::new();
        for f in supernodes {
            let (begin, end) = (symbolic.first[f] as usize, symbolic.first[f + 1] as usize);
            let (rows, k) = (symbolic.rows(f), end - begin);
            let size = k + rows.len();
            let (own, _) = self.factors(f);
            let (x_own, mut x_beyond) = x.split(begin, end);
            passed.clear();
            passed.resize(rows.len(), 0.0);
            vectorised(
                #[inline(always)]
                || {
                    for i in 0..k {
                        x_own[i] *= self.inverse[begin + i];
                        let visits = x_own[i];
                        let row = &own[i * size..(i + 1) * size];
                        add_times(&mut x_own[i + 1..], visits, &row[i + 1..k]);
                        add_times(&mut passed, visits, &row[k..]);
                    }
                },
            );
            rows.iter().zip(&passed).for_each(|(&r, visits)| *x_beyond.at(r) += visits);
        }
    }

    fn visits_backward(&self, supernodes: Range<usize>, x: &mut Window<'_, f64>) {
        let symbolic = &*self.symbolic;
        for f in supernodes.rev() {
            let (begin, end) = (symbolic.first[f] as usize, symbolic.first[f + 1] as usize);
            let (rows, k) = (symbolic.rows(f), end - begin);
            let size = k + rows.len();
            let (own, beyond) = self.factors(f);
            let (x_own, mut x_beyond) = x.split(begin, end);
            vectorised(
                #[inline(always)]
                || {
                    for (&r, redirected) in rows.iter().zip(beyond.chunks_exact(k)) {
                        add_times(x_own, *x_beyond.at(r), redirected);
                    }
                    for i in (0..k).rev() {
                        // Roots absorb.
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

/// sum += Σ x_i b_i, as four independent sums.
#[inline(always)]
fn add_all(sum: &mut Rhs, x: &[f64], b: &[Rhs]) {
    let (mut second, mut third, mut fourth) = ([0.0; RHS], [0.0; RHS], [0.0; RHS]);
    let (x, b) = (x.chunks_exact(4), b[..x.len()].chunks_exact(4));
    let rest = x.remainder().iter().zip(b.remainder());
    for (x, b) in x.zip(b) {
        add(sum, x[0], &b[0]);
        add(&mut second, x[1], &b[1]);
        add(&mut third, x[2], &b[2]);
        add(&mut fourth, x[3], &b[3]);
    }
    rest.for_each(|(x, b)| add(sum, *x, b));
    for k in 0..RHS {
        sum[k] += second[k] + (third[k] + fourth[k]);
    }
}

/// View of a vector by position for a range of supernodes: their own positions, from `base` on, and their
/// later neighbours.
struct Window<'a, T> {
    base: usize,
    inside: &'a mut [T],
    rows: &'a [u32],
    beyond: &'a mut [T],
}

impl<'a, T> Window<'a, T> {
    /// View of a whole vector.
    fn whole(x: &'a mut [T]) -> Self {
        Window { base: 0, inside: x, rows: &[], beyond: &mut [] }
    }

    /// Positions `begin..end`, and a view of those behind them.
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
        // The later neighbours of a subtree are those of its last supernode.
        &mut self.beyond[self.rows.partition_point(|&r| r < position)]
    }
}
