//! Markov chain of a stationary policy, by sparse LU factorisation: recurrent classes, gain, bias,
//! long-run frequencies.

use acrl::FiniteCmdp;
use faer::linalg::solvers::{Solve, SolveCore};
use faer::sparse::linalg::solvers::Lu;
use faer::sparse::{SparseColMat, Triplet};
use faer::{Conj, MatMut};

use crate::graph::recurrent_classes;

/// Evaluation equations of a policy that cannot be solved in floating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the evaluation equations of a policy are numerically singular: some probabilities are too small to matter"
)]
pub struct Singular;

/// Chain of a policy, factorised once and solved for any number of rewards.
///
/// For a reward vector r the gain g and the bias h solve
/// g = P g, g + h = r + P h, P* h = 0, where P* is the limiting matrix.
pub(crate) struct Chain {
    first: Vec<usize>,
    targets: Vec<usize>,
    probabilities: Vec<f64>,
    classes: Vec<RecurrentClass>,
    /// Class of each recurrent state.
    class_of: Vec<Option<usize>>,
    transient: Vec<usize>,
    /// I − P on the transient states, each row divided by the probability of leaving its state.
    transient_lu: Option<Lu<usize, f64>>,
    /// One over that probability: the expected time in the state.
    stay: Vec<f64>,
    /// Computed probability of absorption from each transient state: 1 up to rounding, which grows with
    /// the time spent there. Dividing by it keeps gains within those of the classes.
    absorption: Vec<f64>,
}

/// Recurrent class; `states[0]` is the reference at which h is 0 while solving.
struct RecurrentClass {
    states: Vec<usize>,
    /// I − P with the reference's column replaced by ones; `None` for an absorbing state.
    lu: Option<Lu<usize, f64>>,
    /// Stationary probabilities, in the order of `states`.
    stationary: Vec<f64>,
}

impl Chain {
    /// Chain of the deterministic policy that takes action number `actions[s]` in state s.
    pub(crate) fn of_actions(model: &FiniteCmdp, actions: &[usize]) -> Result<Self, Singular> {
        Self::new(model, |s| [(model.choices(s).start + actions[s], 1.0)])
    }

    /// Chain of a randomised policy that takes choice number c with probability `weights[c]`.
    pub(crate) fn of_weights(model: &FiniteCmdp, weights: &[f64]) -> Result<Self, Singular> {
        let positive = |&c: &usize| weights[c] > 0.0;
        Self::new(model, |s| model.choices(s).filter(positive).map(|c| (c, weights[c])))
    }

    /// Chain of a policy, from the choices that it takes in each state and their probabilities.
    fn new<I: IntoIterator<Item = (usize, f64)>>(
        model: &FiniteCmdp,
        choices: impl Fn(usize) -> I,
    ) -> Result<Self, Singular> {
        let n = model.states();
        let mut chain = Self {
            first: vec![0],
            targets: Vec::new(),
            probabilities: Vec::new(),
            classes: Vec::new(),
            class_of: vec![None; n],
            transient: Vec::new(),
            transient_lu: None,
            stay: Vec::new(),
            absorption: Vec::new(),
        };
        for s in 0..n {
            for (choice, weight) in choices(s) {
                let choice = model.choice(choice);
                chain.targets.extend(choice.targets.iter().map(|&t| t as usize));
                chain.probabilities.extend(choice.probabilities.iter().map(|p| weight * p));
            }
            chain.first.push(chain.targets.len());
        }
        let successors = |s: usize| &chain.targets[chain.first[s]..chain.first[s + 1]];
        let (classes, transient) = recurrent_classes(n, successors);
        chain.transient = transient;
        let mut position = vec![usize::MAX; n];
        for mut states in classes {
            states.sort_unstable();
            let class = chain.classes.len();
            for (i, &s) in states.iter().enumerate() {
                (position[s], chain.class_of[s]) = (i, Some(class));
            }
            chain.classes.push(chain.recurrent_class(states, &position)?);
        }
        position.fill(usize::MAX);
        chain.factorise_transient(position)?;
        Ok(chain)
    }

    /// Class of these states, which are sorted; `position` is that of each among them.
    fn recurrent_class(&self, states: Vec<usize>, position: &[usize]) -> Result<RecurrentClass, Singular> {
        let mut triplets = Vec::new();
        for (i, &s) in states.iter().enumerate() {
            triplets.push(Triplet { row: i, col: 0, val: 1.0 });
            let off_reference = self.generator(s).filter(|(t, _)| position[*t] != 0);
            triplets.extend(off_reference.map(|(t, p)| Triplet { row: i, col: position[t], val: -p }));
        }
        let mut stationary = vec![0.0; states.len()];
        stationary[0] = 1.0;
        let lu = if states.len() > 1 { factorise(states.len(), &triplets)? } else { None };
        if let Some(lu) = &lu {
            lu.solve_transpose_in_place_with_conj(Conj::No, column(&mut stationary));
        }
        Ok(RecurrentClass { states, lu, stationary })
    }

    /// Factorises I − P on the transient states; `position` is scratch, filled with [`usize::MAX`].
    fn factorise_transient(&mut self, mut position: Vec<usize>) -> Result<(), Singular> {
        self.transient.sort_unstable();
        self.transient.iter().enumerate().for_each(|(i, &s)| position[s] = i);
        self.stay = self.transient.iter().map(|&s| 1.0 / self.leaving(s)).collect();
        let mut triplets = Vec::new();
        for (i, (&s, stay)) in self.transient.iter().zip(&self.stay).enumerate() {
            let inside = self.generator(s).filter(|(t, _)| position[*t] != usize::MAX);
            triplets.extend(inside.map(|(t, p)| Triplet { row: i, col: position[t], val: -p * stay }));
        }
        self.transient_lu = factorise(self.transient.len(), &triplets)?;
        let into_classes =
            |s: usize| self.row(s).filter(|(t, _)| position[*t] == usize::MAX).map(|(_, p)| p).sum::<f64>();
        let absorption = self.transient.iter().zip(&self.stay).map(|(&s, stay)| stay * into_classes(s));
        self.absorption = absorption.collect();
        solve(self.transient_lu.as_ref(), &mut self.absorption);
        Ok(())
    }

    fn states(&self) -> usize {
        self.class_of.len()
    }

    /// Σ P(s, t) x(t).
    pub(crate) fn expectation(&self, s: usize, x: &[f64]) -> f64 {
        self.row(s).map(|(t, p)| p * x[t]).sum()
    }

    fn row(&self, s: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.first[s]..self.first[s + 1];
        self.targets[range.clone()].iter().copied().zip(self.probabilities[range].iter().copied())
    }

    /// Probability of leaving a state. As a sum it is exact where 1 − P(s, s) would cancel.
    fn leaving(&self, s: usize) -> f64 {
        self.row(s).filter(|(t, _)| *t != s).map(|(_, p)| p).sum()
    }

    /// Row of P − I of a state.
    fn generator(&self, s: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.row(s).filter(move |(t, _)| *t != s).chain([(s, -self.leaving(s))])
    }

    /// Core of the chain: of each recurrent class the likeliest states that together have at least `share`
    /// of its stationary probability.
    pub(crate) fn core(&self, share: f64) -> Vec<usize> {
        let mut core = Vec::new();
        for class in &self.classes {
            let mut order: Vec<usize> = (0..class.states.len()).collect();
            order.sort_by(|&i, &j| class.stationary[j].total_cmp(&class.stationary[i]));
            let mut mass = 0.0;
            for i in order {
                if mass >= share {
                    break;
                }
                mass += class.stationary[i];
                core.push(class.states[i]);
            }
        }
        core
    }

    /// States of each recurrent class.
    pub(crate) fn recurrent_classes(&self) -> impl Iterator<Item = &[usize]> {
        self.classes.iter().map(|class| class.states.as_slice())
    }

    /// Gain g and bias h of a reward r(s).
    pub(crate) fn gain_and_bias(&self, r: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.states();
        let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
        for class in &self.classes {
            let mut x: Vec<f64> = class.states.iter().map(|&s| r[s]).collect();
            solve(class.lu.as_ref(), &mut x);
            let gain = std::mem::take(&mut x[0]); // h is 0 at the reference
            let mean: f64 = x.iter().zip(&class.stationary).map(|(h, p)| h * p).sum();
            for (&s, x) in class.states.iter().zip(&x) {
                (g[s], h[s]) = (gain, x - mean);
            }
        }
        // On transient states h and g still hold 0, so expectations run over recurrent states alone.
        let scaled = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
            self.transient.iter().zip(&self.stay).map(|(&s, stay)| stay * f(s)).collect()
        };
        let mut x = scaled(&|s| self.expectation(s, &g));
        solve(self.transient_lu.as_ref(), &mut x);
        x.iter_mut().zip(&self.absorption).for_each(|(g, total)| *g /= total);
        for (i, &s) in self.transient.iter().enumerate() {
            g[s] = x[i];
        }
        let mut y = scaled(&|s| r[s] - g[s] + self.expectation(s, &h));
        solve(self.transient_lu.as_ref(), &mut y);
        for (i, &s) in self.transient.iter().enumerate() {
            h[s] = y[i];
        }
        (g, h)
    }

    /// Long-run frequencies of the states from an initial distribution: μᵀ P*.
    pub(crate) fn frequencies(&self, initial: &[(usize, f64)]) -> Vec<f64> {
        let mut mass = vec![0.0; self.classes.len()];
        let mut start = vec![0.0; self.transient.len()];
        let position = |s: usize| self.transient.binary_search(&s);
        for &(s, p) in initial {
            match self.class_of[s] {
                Some(class) => mass[class] += p,
                None => start[position(s).unwrap_or(0)] += p,
            }
        }
        // Expected visits to transient states before absorption: xᵀ (I − P) = startᵀ.
        if let Some(lu) = &self.transient_lu {
            lu.solve_transpose_in_place_with_conj(Conj::No, column(&mut start));
            start.iter_mut().zip(&self.stay).for_each(|(x, stay)| *x *= stay);
        }
        for (i, &s) in self.transient.iter().enumerate() {
            for (t, p) in self.row(s) {
                if let Some(class) = self.class_of[t] {
                    mass[class] += start[i] * p;
                }
            }
        }
        // All of it ends in some class; what is missing is rounding.
        let total: f64 = mass.iter().sum();
        mass.iter_mut().for_each(|mass| *mass /= total);
        let mut frequencies = vec![0.0; self.states()];
        for (class, mass) in self.classes.iter().zip(mass) {
            for (&s, p) in class.states.iter().zip(&class.stationary) {
                frequencies[s] = mass * p;
            }
        }
        frequencies
    }

    /// Expected hitting time of `target` from each state; infinite where it is not reached almost surely.
    pub(crate) fn hitting_times(&self, target: &[bool]) -> Result<Vec<f64>, Singular> {
        // Doomed: some reachable recurrent class does not meet the target.
        let misses = |class: &RecurrentClass| !class.states.iter().any(|&s| target[s]);
        let mut doomed = vec![false; self.states()];
        for class in self.classes.iter().filter(|class| misses(class)) {
            class.states.iter().for_each(|&s| doomed[s] = true);
        }
        loop {
            let leads = |s: &usize| !doomed[*s] && !target[*s] && self.row(*s).any(|(t, _)| doomed[t]);
            let more: Vec<usize> = (0..self.states()).filter(leads).collect();
            if more.is_empty() {
                break;
            }
            more.into_iter().for_each(|s| doomed[s] = true);
        }
        let open: Vec<usize> = (0..self.states()).filter(|&s| !doomed[s] && !target[s]).collect();
        let mut position = vec![None; self.states()];
        open.iter().enumerate().for_each(|(i, &s)| position[s] = Some(i));
        let row = |(i, &s): (usize, &usize)| self.generator(s).map(move |(t, p)| (i, t, p));
        let entries = open.iter().enumerate().flat_map(row);
        // I − P on the open states: the entries above hold P − I.
        let triplets = entries
            .filter_map(|(i, t, p)| position[t].map(|j| Triplet { row: i, col: j, val: -p }))
            .collect::<Vec<_>>();
        let mut times = vec![1.0; open.len()];
        solve(factorise(open.len(), &triplets)?.as_ref(), &mut times);
        let mut result: Vec<f64> =
            (0..self.states()).map(|s| if target[s] { 0.0 } else { f64::INFINITY }).collect();
        open.iter().zip(times).for_each(|(&s, time)| result[s] = time);
        Ok(result)
    }
}

/// Factorised matrix with the given entries, duplicates added; `None` if empty.
fn factorise(n: usize, entries: &[Triplet<usize, usize, f64>]) -> Result<Option<Lu<usize, f64>>, Singular> {
    if n == 0 {
        return Ok(None);
    }
    let matrix = SparseColMat::try_new_from_triplets(n, n, entries).map_err(|_| Singular)?;
    matrix.sp_lu().map(Some).map_err(|_| Singular)
}

/// Solves in place; without a factorisation the matrix is the identity of an absorbing state.
fn solve(lu: Option<&Lu<usize, f64>>, x: &mut [f64]) {
    if let Some(lu) = lu {
        lu.solve_in_place(column(x));
    }
}

fn column(x: &mut [f64]) -> MatMut<'_, f64> {
    let rows = x.len();
    MatMut::from_column_major_slice_mut(x, rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::of_choices;

    /// Recurrent classes {0} and {1, 2}, and a transient state 3 that leads to either.
    fn chain() -> Chain {
        let model = of_choices(&[
            (0, "a", &[(0, 1.0)], [3.0]),
            (1, "a", &[(2, 1.0)], [1.0]),
            (2, "a", &[(1, 0.5), (2, 0.5)], [0.0]),
            (3, "a", &[(0, 0.25), (1, 0.25), (3, 0.5)], [8.0]),
        ]);
        Chain::of_actions(&model, &[0; 4]).unwrap()
    }

    #[test]
    fn gain_and_bias_solve_their_equations() {
        let chain = chain();
        let r = [3.0, 1.0, 0.0, 8.0];
        let (g, h) = chain.gain_and_bias(&r);
        let third = 1.0 / 3.0;
        for (g, expected) in g.iter().zip([3.0, third, third, 0.5 * 3.0 + 0.5 * third]) {
            assert!((g - expected).abs() < 1e-14);
        }
        for s in 0..4 {
            assert!((g[s] + h[s] - r[s] - chain.expectation(s, &h)).abs() < 1e-13);
        }
        assert!((h[1] / 3.0 + 2.0 * h[2] / 3.0).abs() < 1e-14, "P* h = 0");
    }

    #[test]
    fn frequencies_follow_the_absorption_probabilities() {
        let chain = chain();
        let f = chain.frequencies(&[(3, 1.0)]);
        for (f, expected) in f.iter().zip([0.5, 0.5 / 3.0, 1.0 / 3.0, 0.0]) {
            assert!((f - expected).abs() < 1e-14, "{f} {expected}");
        }
    }

    #[test]
    fn hitting_times_are_expectations_or_infinite() {
        let chain = chain();
        let times = chain.hitting_times(&[false, true, false, false]).unwrap();
        assert!(times[0].is_infinite() && times[3].is_infinite());
        assert!((times[2] - 2.0).abs() < 1e-14 && times[1] == 0.0);
    }

    #[test]
    fn randomised_policies_mix_their_choices() {
        let model = of_choices(&[
            (0, "stay", &[(0, 1.0)], [1.0]),
            (0, "go", &[(1, 1.0)], [1.0]),
            (1, "back", &[(0, 1.0)], [0.0]),
        ]);
        let chain = Chain::of_weights(&model, &[0.5, 0.5, 1.0]).unwrap();
        let (g, _) = chain.gain_and_bias(&[1.0, 0.0]);
        assert!((g[0] - 2.0 / 3.0).abs() < 1e-14 && (g[1] - g[0]).abs() < 1e-14);
    }
}
