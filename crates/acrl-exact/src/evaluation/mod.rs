//! Policy evaluation: long-run averages and bias of a policy.
//!
//! [`chain`] evaluates any stationary policy of a small model, class by class. [`Evaluator`]
//! evaluates deterministic policies of a large end component: by iteration where chains mix fast
//! ([`iterate`]), else by elimination without subtractions ([`gth`]).

pub(crate) mod chain;
pub(crate) mod gth;
mod iterate;
mod skyline;

use crate::graph::EndComponent;
use crate::tolerances::{NEVER, UNKNOWN_CLASS};
use crate::tuning::FACTOR_BUDGET;
use crate::vector::dot;
use gth::ordering::Graph;
use gth::{GthEvaluator, LOSS, RHS, Rhs, Symbolic, TIME};
use iterate::Iteration;

/// Number of rewards that are evaluated together; time and loss take the other right-hand sides.
const GROUP: usize = LOSS;

/// Values and bias of a policy, reward by reward.
pub(crate) struct Evaluated {
    /// Long-run averages of r₀ … r_m in one recurrent class.
    pub(crate) values: Vec<f64>,
    /// Bound on the error of each value.
    pub(crate) errors: Vec<f64>,
    /// A state of that class.
    pub(crate) root: usize,
    /// Whether there are other classes.
    pub(crate) several: bool,
    bias: Vec<Vec<Rhs>>,
    /// Recurrent classes, best first, if the reference state turned out to be transient.
    pub(crate) others: Vec<RecurrentClass>,
    /// Probability of absorption in each of `others`, by state.
    reach: Vec<Rhs>,
}

/// Recurrent class of a policy.
pub(crate) struct RecurrentClass {
    /// A state of the class.
    pub(crate) root: usize,
    /// Long-run averages of r₀ … r_m.
    pub(crate) values: Vec<f64>,
}

impl Evaluated {
    /// Σ w_i h_i(s) less a cost for the time to reach the reference class, by state; −∞ where another
    /// class may be reached. States that end in one of `others` are measured by the gain there, and the
    /// root of each is `worth` so much.
    pub(crate) fn bias(&self, weights: &[f64], time_cost: f64, worth: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (group, (bias, weights)) in self.bias.iter().zip(weights.chunks(GROUP)).enumerate() {
            let time_cost = if group == 0 { time_cost } else { 0.0 };
            for (out, bias) in out.iter_mut().zip(bias) {
                *out += dot(bias, weights) - time_cost * bias[TIME];
            }
        }
        let lost = self.bias[0].iter().enumerate().filter(|(_, h)| h[LOSS] > NEVER);
        for (s, h) in lost {
            let reach = self.reach.get(s).map_or(&[][..], |reach| reach);
            out[s] += dot(reach, worth);
            if h[LOSS] - reach.iter().sum::<f64>() > UNKNOWN_CLASS {
                out[s] = f64::NEG_INFINITY;
            }
        }
    }

    /// Measures the bias of states that end in other classes by the gains there, Σ_k P_k(s) g_k instead of
    /// g.
    fn turn_to(&mut self, others: Vec<RecurrentClass>, reach: Vec<Rhs>) {
        for (group, bias) in self.bias.iter_mut().enumerate() {
            let members = group * GROUP..((group + 1) * GROUP).min(self.values.len());
            for (h, reach) in bias.iter_mut().zip(&reach).filter(|(h, _)| h[LOSS] > NEVER) {
                let time = h[TIME];
                for (h, i) in h.iter_mut().zip(members.clone()) {
                    let less = |(p, class): (&f64, &RecurrentClass)| p * (self.values[i] - class.values[i]);
                    *h += time * reach.iter().zip(&others).map(less).sum::<f64>();
                }
            }
        }
        (self.others, self.reach) = (others, reach);
    }
}

/// Rewards of each choice.
pub(crate) type Rewards<'a, 'r> = dyn Fn(usize) -> &'r [f64] + Sync + 'a;

/// Evaluator of the deterministic policies of an end component. It iterates until a chain turns out to
/// mix slowly, and eliminates from then on.
pub(crate) struct Evaluator {
    iteration: Iteration,
    elimination: Option<GthEvaluator>,
    /// Limit of the numbers stored in the factors of an elimination.
    budget: usize,
    /// Whether the factors would exceed the budget.
    too_large: bool,
}

impl Evaluator {
    pub(crate) fn new() -> Self {
        Self { iteration: Iteration::new(), elimination: None, budget: FACTOR_BUDGET, too_large: false }
    }

    /// Whether chains mix fast enough to iterate.
    pub(crate) fn iterates(&self) -> bool {
        self.elimination.is_none()
    }

    /// Evaluates the policy that takes choice `policy[s]` in state s; `reward(c)` is r₀ … r_m of a choice.
    /// An iteration stops when each value is known to within `precision[i]`. Of several recurrent classes
    /// one of largest Σ w_i V_i is taken. `None` if the chain mixes too slowly to iterate and the model is
    /// too large to eliminate.
    pub(crate) fn evaluate<'r>(
        &mut self,
        component: &EndComponent,
        policy: &[u32],
        reward: &Rewards<'_, 'r>,
        precision: &[f64],
        weights: &[f64],
    ) -> Option<Evaluated> {
        if self.elimination.is_none() {
            let iterated = self.iteration.evaluate(component, policy, reward, precision);
            if iterated.is_some() || self.too_large {
                return iterated;
            }
            let graph = Graph::symmetric(component.len(), |s| component.successors(s));
            self.elimination = Symbolic::new(&graph, self.budget).map(GthEvaluator::new);
            self.too_large = self.elimination.is_none();
            if !self.too_large {
                self.iteration = Iteration::new();
            }
        }
        Some(self.elimination.as_mut()?.evaluate(component, policy, reward, weights))
    }
}

/// Rewards of a group as right-hand sides.
#[inline(always)]
fn group_rewards(rewards: &[f64], begin: usize) -> Rhs {
    let mut rhs = [0.0; RHS];
    let rewards = &rewards[begin..];
    let width = rewards.len().min(GROUP);
    rhs[..width].copy_from_slice(&rewards[..width]);
    rhs
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::evaluation::gth::{Elimination, Workspace};
    use crate::test_models::whole_component;
    use acrl::FiniteCmdp;

    /// Random walk on a ring, with mixing time of order n²; reward 1 in a quarter of it.
    fn ring(n: usize) -> FiniteCmdp {
        let mut b = FiniteCmdp::builder(["r0"]);
        (0..n).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..n {
            let reward = if 4 * s < n { 1.0 } else { 0.0 };
            b.choice(s, "walk", &[((s + 1) % n, 0.5), ((s + n - 1) % n, 0.5)], &[reward]);
        }
        b.build().unwrap()
    }

    fn evaluate(evaluator: &mut Evaluator, n: usize) -> Option<Evaluated> {
        let model = ring(n);
        let component = whole_component(&model);
        let policy: Vec<u32> = (0..n as u32).collect();
        evaluator.evaluate(&component, &policy, &|c| model.choice(c).rewards, &[1e-9], &[1.0])
    }

    #[test]
    fn slow_mixing_chains_fall_back_to_elimination() {
        let mut evaluator = Evaluator::new();
        let evaluated = evaluate(&mut evaluator, 400).unwrap();
        assert!(!evaluator.iterates());
        assert!((evaluated.values[0] - 0.25).abs() < 1e-12 && evaluated.errors[0] < 1e-9);
    }

    #[test]
    fn fast_mixing_chains_are_iterated() {
        let mut evaluator = Evaluator::new();
        let evaluated = evaluate(&mut evaluator, 5).unwrap();
        assert!(evaluator.iterates());
        assert!((evaluated.values[0] - 0.4).abs() <= 1e-9);
    }

    #[test]
    fn chains_beyond_the_factor_budget_are_not_evaluated() {
        let mut evaluator = Evaluator { budget: 100, ..Evaluator::new() };
        assert!(evaluate(&mut evaluator, 400).is_none());
        assert!(evaluator.too_large);
        assert!(evaluate(&mut evaluator, 400).is_none());
    }

    /// Two nearly closed sets: the one with reward is left once in 10²⁰ steps, the other once in 10⁷⁰, so
    /// only the latter is a recurrent class. The simulation starts in the first.
    #[test]
    fn nearly_absorbing_transient_sets_are_not_recurrent_classes() {
        let mut b = FiniteCmdp::builder(["r0"]);
        (0..400).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..400usize {
            let (rewarded, boundary) = (s < 200, s == 199 || s == 200);
            let leave = if rewarded { 1e-20 } else { 1e-70 };
            let near = [s.wrapping_sub(1), s + 1].into_iter().filter(|&t| t < 400);
            let mut to: Vec<_> = near.map(|t| (t, if (t < 200) == rewarded { 0.5 } else { leave })).collect();
            // Reflection at the ends and at the boundary of the sets.
            to.extend((s == 0 || s == 399 || boundary).then_some((s, 0.5)));
            b.choice(s, "walk", &to, &[f64::from(rewarded)]);
        }
        let model = b.build().unwrap();
        let component = whole_component(&model);
        let policy: Vec<u32> = (0..400).collect();
        let reward = |c: usize| model.choice(c).rewards;
        let evaluated = Evaluator::new().evaluate(&component, &policy, &reward, &[1e-9], &[1.0]).unwrap();
        assert!(evaluated.values[0].abs() < 1e-12 && evaluated.errors[0] < 1e-9 && evaluated.root >= 200);
    }

    /// v = R − T Σ_k P_k g_k + Σ_k P_k x_k, with the reward R and the time T until absorption, and the worth
    /// x_k of each class.
    #[test]
    fn bias_towards_several_classes_uses_their_own_gains() {
        let n = 60;
        let rows: Vec<(Vec<u32>, Vec<f64>)> = (0..n)
            .map(|s| match s {
                7 | 50 => (vec![s], vec![1.0]),
                _ => (vec![(s + n - 1) % n, (s + 1) % n], vec![0.5, 0.5]),
            })
            .collect();
        let graph = Graph::symmetric(n as usize, |s| &rows[s].0);
        let symbolic = Arc::new(Symbolic::new(&graph, usize::MAX).unwrap());
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let elimination = Elimination::new(&symbolic, row, 30, &mut Workspace::default());
        let reward = |s: usize| if s == 7 { 0.5 } else { 0.3 };
        let evaluation = elimination.evaluate(row, |s| group_rewards(&[reward(s)], 0));
        let class = |(root, gain): &(usize, Rhs)| RecurrentClass { root: *root, values: vec![gain[0]] };
        let others: Vec<RecurrentClass> = evaluation.others.iter().map(class).collect();
        let roots: Vec<usize> = others.iter().map(|class| class.root).collect();
        assert!(roots.contains(&7) && roots.contains(&50));
        let worth: Vec<f64> = roots.iter().map(|&root| if root == 7 { 3.0 } else { -2.0 }).collect();
        let reach = elimination.reach(&roots);
        let mut evaluated = Evaluated {
            values: vec![evaluation.gain[0]],
            errors: vec![f64::INFINITY],
            root: 30,
            several: true,
            bias: vec![evaluation.bias],
            others: Vec::new(),
            reach: Vec::new(),
        };
        let mut v = vec![0.0; n as usize];
        evaluated.bias(&[1.0], 0.0, &[], &mut v);
        assert!(v[20] == f64::NEG_INFINITY, "the class in which this ends is not represented");
        evaluated.turn_to(others, reach);
        evaluated.bias(&[1.0], 0.0, &worth, &mut v);
        assert!((v[7] - 3.0).abs() < 1e-12 && (v[50] + 2.0).abs() < 1e-12);
        // Between the absorbing states, away from the reference: i of the 17 steps from 50 to 7. Absorption at
        // 7 has probability i/17 and the duration is i (17 − i), with reward 0.3 a step.
        for i in 1..17 {
            let (s, p) = ((50 + i) % 60, i as f64 / 17.0);
            let expected =
                (i * (17 - i)) as f64 * (0.3 - 0.5 * p - 0.3 * (1.0 - p)) + 3.0 * p - 2.0 * (1.0 - p);
            assert!((v[s] - expected).abs() < 1e-11, "{s}: {} {expected}", v[s]);
        }
    }
}
