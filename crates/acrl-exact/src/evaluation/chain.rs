//! Markov chain of a stationary policy: recurrent classes, gain, bias, long-run frequencies.
//!
//! Each class is eliminated without subtractions ([`gth`](super::gth)), and so are the transient states, so
//! probabilities of 1e-30 beside others of 1 cost no digits.

use std::sync::Arc;

use acrl::FiniteCmdp;

use super::gth::ordering::Graph;
use super::gth::{Elimination, Symbolic, Workspace};
use super::skyline::SkylineElimination;
use crate::graph::recurrent_classes;
use crate::tolerances::FREQUENT;
use crate::tuning::{REFERENCE_ATTEMPTS, SKYLINE_STATES};

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
    rows: Rows,
    classes: Vec<RecurrentClass>,
    /// Class of each recurrent state.
    class_of: Vec<Option<usize>>,
    transient: Vec<usize>,
    /// Chain on the transient states, with all classes as one absorbing state behind them.
    absorption: Option<Factors>,
}

/// Recurrent class.
struct RecurrentClass {
    states: Vec<usize>,
    /// `None` for an absorbing state.
    factors: Option<Factors>,
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
        let mut rows = Rows::default();
        for s in 0..n {
            for (choice, weight) in choices(s) {
                let choice = model.choice(choice);
                rows.targets.extend_from_slice(choice.targets);
                rows.probabilities.extend(choice.probabilities.iter().map(|p| weight * p));
            }
            rows.end();
        }
        let successors: Vec<usize> = rows.targets.iter().map(|&t| t as usize).collect();
        let (classes, mut transient) = recurrent_classes(n, |s| &successors[rows.range(s)]);
        transient.sort_unstable();
        let mut chain =
            Self { rows, classes: Vec::new(), class_of: vec![None; n], transient, absorption: None };
        let mut position = vec![usize::MAX; n];
        for mut states in classes {
            states.sort_unstable();
            let class = chain.classes.len();
            for (i, &s) in states.iter().enumerate() {
                (position[s], chain.class_of[s]) = (i, Some(class));
            }
            chain.classes.push(chain.recurrent_class(states, &position)?);
        }
        if !chain.transient.is_empty() {
            chain.absorption = Some(chain.absorbed(&chain.transient)?);
        }
        Ok(chain)
    }

    /// Class of these states, which are sorted; `position` is that of each among them.
    fn recurrent_class(&self, states: Vec<usize>, position: &[usize]) -> Result<RecurrentClass, Singular> {
        if states.len() == 1 {
            return Ok(RecurrentClass { states, factors: None, stationary: vec![1.0] });
        }
        let mut rows = Rows::default();
        for &s in &states {
            rows.targets.extend(self.row(s).map(|(t, _)| position[t] as u32));
            rows.probabilities.extend(self.row(s).map(|(_, p)| p));
            rows.end();
        }
        let (factors, visits) = Factors::of_class(rows)?;
        let total: f64 = visits.iter().sum();
        let stationary = visits.iter().map(|x| x / total).collect();
        Ok(RecurrentClass { states, factors: Some(factors), stationary })
    }

    /// Factors of the chain on the sorted states `inside`, with everything outside as one absorbing state
    /// behind them.
    fn absorbed(&self, inside: &[usize]) -> Result<Factors, Singular> {
        absorbed(|s| self.rows.row(s), inside)
    }

    fn states(&self) -> usize {
        self.class_of.len()
    }

    /// Σ P(s, t) x(t).
    pub(crate) fn expectation(&self, s: usize, x: &[f64]) -> f64 {
        self.row(s).map(|(t, p)| p * x[t]).sum()
    }

    fn row(&self, s: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let (targets, probabilities) = self.rows.row(s);
        targets.iter().map(|&t| t as usize).zip(probabilities.iter().copied())
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

    /// States of each recurrent class, and the stationary probability of each.
    pub(crate) fn stationary(&self) -> impl Iterator<Item = (&[usize], &[f64])> {
        self.classes.iter().map(|class| (&class.states[..], &class.stationary[..]))
    }

    /// Gain g and bias h of a reward r(s).
    pub(crate) fn gain_and_bias(&self, r: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.states();
        let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
        for class in &self.classes {
            let mean = |x: &dyn Fn(usize) -> f64| -> f64 {
                class.stationary.iter().enumerate().map(|(i, p)| p * x(i)).sum()
            };
            let gain = mean(&|i| r[class.states[i]]);
            let solve = |factors: &Factors| factors.solve(|i| r[class.states[i]] - gain);
            let x = class.factors.as_ref().map_or_else(|| vec![0.0], solve);
            let average = mean(&|i| x[i]);
            for (&s, x) in class.states.iter().zip(&x) {
                (g[s], h[s]) = (gain, x - average);
            }
        }
        if let Some(absorption) = &self.absorption {
            // On transient states g and h still hold 0, so expectations run over recurrent states alone.
            let outside = |i: usize| self.transient.get(i).copied();
            let solve = |b: &dyn Fn(usize) -> f64| absorption.solve(|i| outside(i).map_or(0.0, b));
            let gains = solve(&|s| self.expectation(s, &g));
            self.transient.iter().zip(gains).for_each(|(&s, gain)| g[s] = gain);
            let biases = solve(&|s| r[s] - g[s] + self.expectation(s, &h));
            self.transient.iter().zip(biases).for_each(|(&s, bias)| h[s] = bias);
        }
        (g, h)
    }

    /// Long-run frequencies of the states from an initial distribution: μᵀ P*.
    pub(crate) fn frequencies(&self, initial: &[(usize, f64)]) -> Vec<f64> {
        let mut mass = vec![0.0; self.classes.len()];
        for &(s, p) in initial {
            if let Some(class) = self.class_of[s] {
                mass[class] += p;
            }
        }
        if let Some(absorption) = &self.absorption {
            let transient = |(s, p): &(usize, f64)| Some((self.transient.binary_search(s).ok()? as u32, *p));
            let (targets, probabilities): (Vec<u32>, Vec<f64>) = initial.iter().filter_map(transient).unzip();
            let visits = absorption.visits((&targets, &probabilities));
            for (&s, visits) in self.transient.iter().zip(visits) {
                for (t, p) in self.row(s) {
                    if let Some(class) = self.class_of[t] {
                        mass[class] += visits * p;
                    }
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
        let mut result: Vec<f64> =
            (0..self.states()).map(|s| if target[s] { 0.0 } else { f64::INFINITY }).collect();
        if !open.is_empty() {
            let times = self.absorbed(&open)?.solve(|i| if i < open.len() { 1.0 } else { 0.0 });
            open.iter().zip(times).for_each(|(&s, time)| result[s] = time);
        }
        Ok(result)
    }
}

/// Solution x of x = b + P x of a policy on the sorted states `inside`, with x = 0 outside; b(i) and x(i) belong to the
/// state `inside[i]`. The policy, given as the number of the action in each state, leaves them almost surely.
pub(crate) fn until_outside(
    model: &FiniteCmdp,
    actions: &[usize],
    inside: &[usize],
    b: impl Fn(usize) -> f64,
) -> Result<Vec<f64>, Singular> {
    let choice = |s: usize| model.choice(model.choices(s).start + actions[s]);
    let factors = absorbed(|s| (choice(s).targets, choice(s).probabilities), inside)?;
    let mut x = factors.solve(|i| if i < inside.len() { b(i) } else { 0.0 });
    x.truncate(inside.len());
    if x.iter().all(|x| x.is_finite()) { Ok(x) } else { Err(Singular) }
}

/// Factors of a chain on the sorted states `inside`, with everything outside as one absorbing state behind them.
fn absorbed<'m>(
    row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
    inside: &[usize],
) -> Result<Factors, Singular> {
    let position = |t: u32| inside.binary_search(&(t as usize)).unwrap_or(inside.len()) as u32;
    let mut rows = Rows::default();
    for &s in inside {
        let (targets, probabilities) = row(s);
        rows.targets.extend(targets.iter().map(|&t| position(t)));
        rows.probabilities.extend_from_slice(probabilities);
        rows.end();
    }
    rows.end();
    let factors = Factors::new(rows, inside.len())?;
    if factors.other_root().is_some() { Err(Singular) } else { Ok(factors) }
}

/// Transitions, row by row.
#[derive(Default)]
struct Rows {
    targets: Vec<u32>,
    probabilities: Vec<f64>,
    ends: Vec<usize>,
}

impl Rows {
    /// Ends the row that was being added to.
    fn end(&mut self) {
        self.ends.push(self.targets.len());
    }

    fn range(&self, s: usize) -> std::ops::Range<usize> {
        s.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[s]
    }

    fn row(&self, s: usize) -> (&[u32], &[f64]) {
        (&self.targets[self.range(s)], &self.probabilities[self.range(s)])
    }
}

/// Chain whose states all lead to a reference state, eliminated from there.
struct Factors {
    rows: Rows,
    reference: usize,
    elimination: Eliminated,
}

enum Eliminated {
    Small(SkylineElimination),
    Large(Elimination),
}

impl Factors {
    fn new(rows: Rows, reference: usize) -> Result<Self, Singular> {
        let n = rows.ends.len();
        let elimination = if n <= SKYLINE_STATES {
            Eliminated::Small(SkylineElimination::new(n, |s| rows.row(s), reference))
        } else {
            let graph = Graph::symmetric(n, |s| rows.row(s).0);
            let symbolic = Symbolic::new(&graph, usize::MAX).map(Arc::new).ok_or(Singular)?;
            let workspace = &mut Workspace::default();
            Eliminated::Large(Elimination::new(&symbolic, |s| rows.row(s), reference, workspace))
        };
        Ok(Self { rows, reference, elimination })
    }

    /// Irreducible chain, from a reference state that it visits often: otherwise only rounding is left of
    /// the bias, which is measured from there.
    fn of_class(rows: Rows) -> Result<(Self, Vec<f64>), Singular> {
        let mut factors = Self::new(rows, 0)?;
        for _ in 0..REFERENCE_ATTEMPTS {
            let visits = factors.visits(factors.rows.row(factors.reference));
            let most = (0..visits.len()).max_by(|&a, &b| visits[a].total_cmp(&visits[b]));
            let next = factors.other_root().or(most.filter(|&s| visits[s] > FREQUENT));
            match next {
                Some(next) => factors = Self::new(factors.rows, next)?,
                None => return Ok((factors, visits)),
            }
        }
        Err(Singular)
    }

    /// A state besides the reference that is never left in floating point.
    fn other_root(&self) -> Option<usize> {
        match &self.elimination {
            Eliminated::Small(elimination) => elimination.other_root(),
            Eliminated::Large(elimination) => elimination.other_roots().next(),
        }
    }

    /// Solution x of x = b + P x, with x = 0 at the reference state.
    fn solve(&self, b: impl Fn(usize) -> f64) -> Vec<f64> {
        match &self.elimination {
            Eliminated::Small(elimination) => elimination.solve(b),
            Eliminated::Large(elimination) => elimination.solve(b),
        }
    }

    /// Expected visits of each state between two visits of the reference state, which is left by the
    /// transitions `start`.
    fn visits(&self, start: (&[u32], &[f64])) -> Vec<f64> {
        let row = |s: usize| if s == self.reference { start } else { self.rows.row(s) };
        match &self.elimination {
            Eliminated::Small(elimination) => elimination.visits(start),
            Eliminated::Large(elimination) => elimination.visits(row),
        }
    }
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

    use proptest::prelude::*;

    proptest! {
        /// The stationary distribution of a birth-death chain has product form, π(i+1)/π(i) = p(i)/q(i+1).
        #[test]
        fn birth_death_chains_have_their_product_form(
            exponents in prop::collection::vec((-6.0..0.0f64, -6.0..0.0f64), 2..200),
            drift in -1.0..1.0f64,
        ) {
            let n = exponents.len();
            let (up, down): (Vec<f64>, Vec<f64>) =
                exponents.iter().map(|(u, d)| (0.5 * 10f64.powf(*u), 0.5 * 10f64.powf(*d))).unzip();
            // A drift to one side makes the other a state that is visited once in up to 10³⁰ steps and more.
            let up: Vec<f64> = up.iter().map(|p| p * if drift > 0.5 { 0.7 } else { 1.0 }).collect();
            let mut b = FiniteCmdp::builder(["r0"]);
            (0..n).for_each(|s| _ = b.state(s.to_string()));
            for s in 0..n {
                let p = if s + 1 < n { up[s] } else { 0.0 };
                let q = if s > 0 { down[s] } else { 0.0 };
                let steps = [(s + 1, p), (s.wrapping_sub(1), q), (s, 1.0 - p - q)];
                b.choice(s, "a", &steps.into_iter().filter(|(_, p)| *p > 0.0).collect::<Vec<_>>(), &[0.0]);
            }
            let model = b.build().unwrap();
            let chain = Chain::of_actions(&model, &vec![0; n]).unwrap();
            let mut logs = vec![0.0f64];
            (1..n).for_each(|s| logs.push(logs[s - 1] + (model.choice(s - 1).probabilities
                [position(&model, s - 1, s)] / model.choice(s).probabilities[position(&model, s, s - 1)]).ln()));
            let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logs.iter().map(|l| (l - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let frequencies = chain.frequencies(&[(0, 1.0)]);
            for s in 0..n {
                let expected = weights[s] / total;
                prop_assert!((frequencies[s] - expected).abs() <= 1e-9 * expected + 1e-290);
            }
            // Gain and bias of a reward: the residual counts as often as the state is visited.
            let r: Vec<f64> = (0..n).map(|s| (s % 3) as f64).collect();
            let (g, h) = chain.gain_and_bias(&r);
            let gain: f64 = r.iter().zip(&frequencies).map(|(r, f)| r * f).sum();
            for s in 0..n {
                prop_assert!((g[s] - gain).abs() < 1e-12 && h[s].is_finite());
                let size = chain.expectation(s, &h.iter().map(|h| h.abs()).collect::<Vec<_>>()) + 2.0;
                prop_assert!((g[s] + h[s] - r[s] - chain.expectation(s, &h)).abs() <= 1e-12 * size);
            }
        }
    }

    fn position(model: &FiniteCmdp, choice: usize, target: usize) -> usize {
        model.choice(choice).targets.iter().position(|&t| t as usize == target).unwrap()
    }

    /// A server that starts up once it is asked to, with a buffer that it empties fast: full buffers are
    /// visited so rarely that the equations are singular for methods that subtract.
    #[test]
    fn states_that_are_hardly_ever_visited_cost_no_digits() {
        let n = 60;
        let mut b = FiniteCmdp::builder(["r0"]);
        (0..n).for_each(|s| _ = b.state(s.to_string()));
        for s in 0usize..n {
            let p = if s + 1 < n { 1e-7 } else { 0.0 };
            let q = if s > 0 { 0.9 } else { 0.0 };
            let steps = [(s + 1, p), (s.wrapping_sub(1), q), (s, 1.0 - p - q)];
            let to: Vec<_> = steps.into_iter().filter(|(_, p)| *p > 0.0).collect();
            b.choice(s, "a", &to, &[0.0]);
        }
        let model = b.build().unwrap();
        let chain = Chain::of_actions(&model, &vec![0; n]).unwrap();
        let frequencies = chain.frequencies(&[(n - 1, 1.0)]);
        let ratio: f64 = 1e-7 / 0.9;
        for s in 1..40 {
            assert!((frequencies[s] / (frequencies[0] * ratio.powi(s as i32)) - 1.0).abs() < 1e-11);
        }
        let (g, h) = chain.gain_and_bias(&(0..n).map(|s| s as f64).collect::<Vec<_>>());
        assert!((g[0] / ratio - 1.0).abs() < 1e-6 && h.iter().all(|h| h.is_finite()));
    }
}
