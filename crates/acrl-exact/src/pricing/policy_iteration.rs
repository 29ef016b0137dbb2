//! Exact pricing oracle: the Lagrangian maximiser, by multichain policy iteration (Howard 1960) for
//! gain, then bias.

use acrl::{FiniteCmdp, Multipliers, Values};

use super::{Column, ColumnPolicy, Priced, PricingOracle, Request};
use crate::evaluation::chain::Chain;
use crate::tolerances::{BIAS_ROUNDING, GAIN_ROUNDING, RESIDUAL_ROUNDING, TIE};
use crate::tuning::{POLICY_ITERATIONS, STAGE_REPETITIONS};
use crate::vector::{dot, largest};
use crate::{FiniteTask, Singular, SolveError};

/// Policy iteration to convergence at every λ, from the policy of the last column.
pub(crate) struct PolicyIteration {
    /// Actions of the last column that was new.
    start: Vec<usize>,
    /// Actions of the last column.
    last: Vec<usize>,
}

impl PolicyIteration {
    pub(crate) fn new(task: &FiniteTask<'_>) -> Self {
        Self { start: vec![0; task.model().states()], last: Vec::new() }
    }
}

impl PricingOracle for PolicyIteration {
    fn price(&mut self, task: &FiniteTask<'_>, request: &Request<'_>) -> Result<Priced, SolveError> {
        let maximiser = maximise_from(task, request.weights, self.start.clone())?;
        let values = maximiser.values(task)?.as_slice().to_vec();
        let errors = maximiser.errors(task);
        let bound = maximiser.upper_bound(task);
        self.last.clone_from(&maximiser.actions);
        let policy = ColumnPolicy::Model(maximiser.actions);
        Ok(Priced { bound, column: Some(Column { values, errors, policy }) })
    }

    /// Exact pricing ends with the first column that is not new.
    fn record(&mut self, new: bool) -> bool {
        if new {
            self.start.clone_from(&self.last);
        }
        new
    }

    fn is_approximate(&self) -> bool {
        false
    }
}

/// Deterministic policy that maximises Σ w_i V_i from every state.
///
/// Among the maximisers of the gain it has the largest bias, and among those it takes the first
/// action in every state: ties are broken deterministically.
pub struct Maximiser {
    /// Number of the action in each state.
    pub actions: Vec<usize>,
    /// Σ w_i V_i from each state.
    pub gain: Vec<f64>,
    /// Bias h, with P* h = 0.
    pub bias: Vec<f64>,
    weights: Vec<f64>,
    pub(crate) chain: Chain,
}

/// Maximiser of Σ w_i V_i for weights w₀ … w_m.
///
/// Policy iteration in two stages. The first solves g = max_a P_a g and, over the actions that attain
/// it, g + h = max_a r_a + P_a h. A policy made of the actions that attain both has this gain, and the
/// bias h − P* h; so the second stage maximises the average of −h over those actions. Its policy
/// has a larger bias, for which other actions may attain the first equations: so both stages are
/// repeated until the bias no longer grows.
pub fn maximise(task: &FiniteTask<'_>, weights: &[f64]) -> Result<Maximiser, Singular> {
    maximise_from(task, weights, vec![0; task.model().states()])
}

/// [`maximise`], starting from a policy that may be close to optimal.
pub(crate) fn maximise_from(
    task: &FiniteTask<'_>,
    weights: &[f64],
    actions: Vec<usize>,
) -> Result<Maximiser, Singular> {
    let model = task.model();
    let all = vec![true; model.choice_count()];
    let (rewards, scale) = centred_rewards(task, weights);
    let first = Stage { model, allowed: &all, rewards: &rewards, scale };
    let mut chain = Chain::of_actions(model, &actions)?;
    let mut best = first.iterate(actions, &chain)?;
    chain = best.chain.take().unwrap_or(chain);
    // Each round but the last enlarges the bias; the limit is for rounding.
    for _ in 0..STAGE_REPETITIONS {
        let actions = second_stage(model, &best, &chain)?;
        if actions == best.actions {
            break;
        }
        let next = Chain::of_actions(model, &actions)?;
        let mut other = first.iterate(actions.clone(), &next)?;
        let tolerance = BIAS_ROUNDING * (scale + largest(&best.bias));
        let worse = other.bias.iter().zip(&best.bias).any(|(new, old)| *new < old - tolerance);
        let better = other.bias.iter().zip(&best.bias).any(|(new, old)| *new > old + tolerance);
        if worse || !better && other.actions != actions {
            break;
        }
        chain = other.chain.take().unwrap_or(next);
        best = other;
        if !better {
            break; // the same bias, by the first of the actions that tie
        }
    }
    Ok(Maximiser::new(task, weights, best.actions, chain))
}

/// Policy of largest average −h among the actions that tie in gain and bias; of those that tie in
/// this too, the first in every state.
fn second_stage(model: &FiniteCmdp, best: &Converged, chain: &Chain) -> Result<Vec<usize>, Singular> {
    let mut rewards = vec![0.0; model.choice_count()];
    for s in 0..model.states() {
        rewards[model.choices(s)].fill(-best.bias[s]);
    }
    let stage = Stage { model, allowed: &best.ties, rewards: &rewards, scale: largest(&best.bias) };
    let second = stage.iterate(best.actions.clone(), chain)?;
    let first = |s: usize| model.choices(s).position(|c| second.ties[c]).unwrap_or(second.actions[s]);
    Ok((0..model.states()).map(first).collect())
}

/// Π(λ): for each state the actions that attain both optimality equations. A policy that takes only
/// such actions maximises the Lagrangian.
pub fn optimal_actions(task: &FiniteTask<'_>, weights: &[f64]) -> Result<Vec<Vec<usize>>, Singular> {
    let best = maximise(task, weights)?;
    let model = task.model();
    let all = vec![true; model.choice_count()];
    let (rewards, scale) = centred_rewards(task, weights);
    let stage = Stage { model, allowed: &all, rewards: &rewards, scale };
    let ties = stage.iterate(best.actions, &best.chain)?.ties;
    let optimal = |s: usize| (0..).zip(model.choices(s)).filter(|(_, c)| ties[*c]).map(|(a, _)| a).collect();
    Ok((0..model.states()).map(optimal).collect())
}

/// d(λ) = max_π 𝓛(π, λ), from the initial distribution.
pub fn dual_function(task: &FiniteTask<'_>, multipliers: &Multipliers) -> Result<f64, Singular> {
    let weights = lagrangian_weights(task, multipliers);
    let maximiser = maximise(task, &weights)?;
    Ok(maximiser.value(task) - priced_bounds(task, multipliers))
}

/// (1, λ), or (0, λ) where there is no objective.
pub(crate) fn lagrangian_weights(task: &FiniteTask<'_>, multipliers: &Multipliers) -> Vec<f64> {
    let mut weights = vec![if task.has_objective() { 1.0 } else { 0.0 }];
    weights.extend_from_slice(multipliers.as_slice());
    weights
}

/// Σ λ_i c_i.
pub(crate) fn priced_bounds(task: &FiniteTask<'_>, multipliers: &Multipliers) -> f64 {
    dot(multipliers.as_slice(), task.bounds())
}

impl Maximiser {
    fn new(task: &FiniteTask<'_>, weights: &[f64], actions: Vec<usize>, chain: Chain) -> Self {
        let reward =
            |(s, a): (usize, &usize)| task.weighted_reward(task.model().choices(s).start + a, weights);
        let rewards: Vec<f64> = actions.iter().enumerate().map(reward).collect();
        let (gain, bias) = chain.gain_and_bias(&rewards);
        Self { actions, gain, bias, weights: weights.to_vec(), chain }
    }

    /// V₀ … V_m from the initial distribution.
    pub fn values(&self, task: &FiniteTask<'_>) -> Result<Values, Singular> {
        let frequencies = self.chain.frequencies(task.model().initial());
        let value = |i: usize| {
            let terms = frequencies.iter().zip(task.policy_rewards(&self.actions, i));
            terms.filter(|(f, _)| **f != 0.0).map(|(f, r)| f * r).sum()
        };
        Values::new((0..=task.len()).map(value).collect()).map_err(|_| Singular)
    }

    /// Bound on the error of each of V₀ … V_m: the residual of g + h = r + P h bounds the error of g.
    pub(crate) fn errors(&self, task: &FiniteTask<'_>) -> Vec<f64> {
        let error = |i: usize| {
            let rewards = task.policy_rewards(&self.actions, i);
            let (g, h) = self.chain.gain_and_bias(&rewards);
            let residual = |s: usize| {
                (rewards[s] + self.chain.expectation(s, &h) - h[s] - g[s]).abs()
                    + (self.chain.expectation(s, &g) - g[s]).abs()
            };
            (0..rewards.len()).filter(|&s| task.structure().reachable[s]).map(residual).fold(0.0, f64::max)
        };
        (0..=task.len()).map(error).collect()
    }

    /// Σ w_i V_i from the initial distribution.
    pub fn value(&self, task: &FiniteTask<'_>) -> f64 {
        task.model().initial().iter().map(|(s, p)| p * self.gain[*s]).sum()
    }

    /// Upper bound on Σ w_i V_i of every policy from the initial distribution, valid for any rounding of
    /// gain and bias: with g ≥ P_a g and g + h ≥ r_a + P_a h for all reachable choices no policy exceeds
    /// μ·g, so the excess over the second is added.
    pub(crate) fn upper_bound(&self, task: &FiniteTask<'_>) -> f64 {
        let model = task.model();
        let reachable = |s: &usize| task.structure().reachable[*s];
        let states = || (0..model.states()).filter(reachable);
        let scale = task.weighted_range(&self.weights);
        let (low, high) = states()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), s| (l.min(self.gain[s]), h.max(self.gain[s])));
        let pairs = || states().flat_map(|s| model.choices(s).map(move |c| (s, c)));
        // The difference of two biases of this size is rounded.
        let size: Vec<f64> = self.bias.iter().map(|h| RESIDUAL_ROUNDING * h.abs()).collect();
        let advance = |(s, c): (usize, usize)| {
            let moved =
                task.weighted_reward(c, &self.weights) + model.expectation(c, &self.bias) - self.bias[s];
            moved + model.expectation(c, &size) + size[s]
        };
        if high - low <= BIAS_ROUNDING * scale {
            // One gain for all: r_a + P_a h − h bounds it directly.
            return pairs().map(advance).fold(f64::NEG_INFINITY, f64::max);
        }
        // Several gains: adding a multiple of g to h compensates choices that lose gain.
        let loss = |(s, c): (usize, usize)| self.gain[s] - model.expectation(c, &self.gain);
        let excess = |pair| advance(pair) - self.gain[pair.0];
        let costly = |pair: &(usize, usize)| loss(*pair) > BIAS_ROUNDING * scale;
        let multiple = pairs().filter(costly).map(|p| excess(p) / loss(p)).fold(0.0, f64::max);
        let worst = pairs().map(|p| excess(p) - multiple * loss(p)).fold(0.0, f64::max);
        self.value(task) + worst
    }
}

/// Policy iteration for gain and then h, over some of the choices.
struct Stage<'a> {
    model: &'a FiniteCmdp,
    /// Choices that may be taken.
    allowed: &'a [bool],
    /// Reward of each choice.
    rewards: &'a [f64],
    /// Size of the rewards, for the tolerance of ties.
    scale: f64,
}

/// Result of policy iteration.
struct Converged {
    actions: Vec<usize>,
    /// Chain of the policy; `None` if it is the initial one.
    chain: Option<Chain>,
    bias: Vec<f64>,
    /// Choices that attain both optimality equations.
    ties: Vec<bool>,
}

impl Stage<'_> {
    /// Improves a policy, whose chain is `start`, until no action is better.
    fn iterate(&self, mut actions: Vec<usize>, start: &Chain) -> Result<Converged, Singular> {
        let mut chain: Option<Chain> = None;
        let model = self.model;
        for iteration in 0.. {
            let own = |s: usize| self.rewards[model.choices(s).start + actions[s]];
            let rewards: Vec<f64> = (0..model.states()).map(own).collect();
            let (gain, bias) = chain.as_ref().unwrap_or(start).gain_and_bias(&rewards);
            if !largest(&bias).is_finite() {
                break;
            }
            let mut better = actions.clone();
            let mut ties = vec![false; model.choice_count()];
            for s in 0..model.states() {
                // The policy's own differences are zero: gain and bias solve its equations.
                let mut best = [0.0; 2];
                for (a, c) in model.choices(s).enumerate().filter(|(_, c)| self.allowed[*c]) {
                    let (d, tolerance) = self.differences(s, c, &gain, &bias);
                    let beats = |i: usize| d[i] > best[i] + tolerance[i];
                    let ties_with = |i: usize| d[i] >= best[i] - tolerance[i];
                    ties[c] = d.iter().zip(&tolerance).all(|(d, t)| d.abs() <= *t) || a == actions[s];
                    if a != actions[s] && (beats(0) || ties_with(0) && beats(1)) {
                        (best, better[s]) = (d, a);
                    }
                }
            }
            if better == actions || iteration == POLICY_ITERATIONS {
                return Ok(Converged { actions, chain, bias, ties });
            }
            chain = Some(Chain::of_actions(model, &better)?);
            actions = better;
        }
        Err(Singular)
    }

    /// Differences of a choice to the policy in gain and in h, and their tolerances: a share of the terms
    /// of the difference itself, so that a probability of 10⁻¹¹ still matters.
    fn differences(&self, s: usize, c: usize, gain: &[f64], bias: &[f64]) -> ([f64; 2], [f64; 2]) {
        let choice = self.model.choice(c);
        let (mut g, mut h, mut g_size, mut h_size) = (0.0, self.rewards[c] - gain[s], 0.0, 0.0);
        for (&t, p) in choice.targets.iter().zip(choice.probabilities) {
            let (dg, dh) = (p * (gain[t as usize] - gain[s]), p * (bias[t as usize] - bias[s]));
            (g, h) = (g + dg, h + dh);
            (g_size, h_size) = (g_size + dg.abs(), h_size + dh.abs());
        }
        ([g, h], [TIE * g_size + GAIN_ROUNDING * self.scale, TIE * (self.scale + h_size)])
    }
}

/// Σ w_i r_i of each choice, less a constant, and their size. A constant changes no maximiser, but
/// would cost the gains digits.
fn centred_rewards(task: &FiniteTask<'_>, weights: &[f64]) -> (Vec<f64>, f64) {
    let choices = 0..task.model().choice_count();
    let mut rewards: Vec<f64> = choices.map(|c| task.weighted_reward(c, weights)).collect();
    let bounds = |(low, high): (f64, f64), x: &f64| (low.min(*x), high.max(*x));
    let (low, high) = rewards.iter().fold((f64::INFINITY, f64::NEG_INFINITY), bounds);
    rewards.iter_mut().for_each(|r| *r -= low / 2.0 + high / 2.0);
    (rewards, task.weighted_range(weights))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{self, maximise_r0, of_choices};
    use proptest::prelude::*;

    fn monitoring() -> FiniteCmdp {
        acrl_envs::Monitoring::new(acrl_envs::MonitoringParameters::default()).unwrap().model().unwrap()
    }

    /// Example 1 of the paper.
    fn monitoring_task(model: &FiniteCmdp) -> FiniteTask<'_> {
        FiniteTask::new(model, &maximise_r0(&[("r1", 1.0 / 3.0), ("r2", 1.0 / 3.0)])).unwrap()
    }

    #[test]
    fn maximiser_of_example_1_leaves_the_poorer_region_through_r0() {
        let model = monitoring();
        let task = monitoring_task(&model);
        for (lambda, expected) in [
            ([1.5, 2.0], [2, 0, 2]), // go to R2 and stay, from R1 through R0
            ([2.0, 1.5], [1, 1, 0]),
            ([0.5, 0.7], [2, 0, 0]), // cycle R0 <-> R2, the larger multiplier, deterministically
            ([0.7, 0.5], [1, 0, 0]),
            ([1.2, 0.3], [1, 1, 0]),
            ([0.0, 0.0], [1, 0, 0]), // a full tie: the first action
        ] {
            let best = maximise(&task, &[1.0, lambda[0], lambda[1]]).unwrap();
            let target = |s: usize| model.choice(model.choices(s).start + best.actions[s]).targets[0];
            assert_eq!([0, 1, 2].map(target), expected, "{lambda:?}");
        }
    }

    #[test]
    fn dual_function_of_example_1_is_piecewise_linear() {
        let model = monitoring();
        let task = monitoring_task(&model);
        for l in [[0.0, 0.0], [0.5, 0.9], [1.0, 1.0], [1.0, 3.0], [2.5, 0.1]] {
            let multipliers = Multipliers::new(l.to_vec()).unwrap();
            let most = l[0].max(l[1]);
            let expected = most.max((1.0 + most) / 2.0) - (l[0] + l[1]) / 3.0;
            assert!((dual_function(&task, &multipliers).unwrap() - expected).abs() < 1e-13);
            let best = maximise(&task, &lagrangian_weights(&task, &multipliers)).unwrap();
            let bound = best.upper_bound(&task) - priced_bounds(&task, &multipliers);
            assert!((bound - expected).abs() < 1e-12, "{bound} {expected}");
        }
    }

    #[test]
    fn every_action_is_optimal_at_multipliers_of_one() {
        let model = monitoring();
        let task = monitoring_task(&model);
        let actions = optimal_actions(&task, &[1.0, 1.0, 1.0]).unwrap();
        assert!(actions.iter().all(|a| a == &[0, 1]));
        assert_eq!(optimal_actions(&task, &[1.0, 2.0, 0.0]).unwrap(), [vec![0], vec![1], vec![0]]);
    }

    /// From a hub one can enter a loop at once or by way of a prize: same gain, better bias.
    #[test]
    fn ties_in_gain_are_broken_by_bias() {
        let model = of_choices(&[
            (0, "straight", &[(1, 1.0)], [0.0]),
            (0, "detour", &[(2, 1.0)], [0.0]),
            (1, "stay", &[(1, 1.0)], [1.0]),
            (2, "prize", &[(1, 1.0)], [7.0]),
        ]);
        let task = FiniteTask::new(&model, &maximise_r0(&[])).unwrap();
        let best = maximise(&task, &[1.0]).unwrap();
        assert_eq!(best.actions[0], 1);
        assert!((best.gain[0] - 1.0).abs() < 1e-14);
    }

    /// Two traps with different gains: evaluation and bound survive several recurrent classes.
    #[test]
    fn multichain_models_are_maximised_from_every_state() {
        let model = of_choices(&[
            (0, "left", &[(1, 1.0)], [0.0]),
            (0, "gamble", &[(1, 0.5), (2, 0.5)], [0.0]),
            (0, "stay", &[(0, 1.0)], [0.9]),
            (1, "stay", &[(1, 1.0)], [1.0]),
            (2, "stay", &[(2, 1.0)], [4.0]),
            (3, "stay", &[(3, 1.0)], [100.0]), // unreachable: does not loosen the bound
        ]);
        let task = FiniteTask::new(&model, &maximise_r0(&[])).unwrap();
        let best = maximise(&task, &[1.0]).unwrap();
        assert_eq!(best.actions[0], 1);
        assert!((best.gain[0] - 2.5).abs() < 1e-14);
        assert!((best.upper_bound(&task) - 2.5).abs() < 1e-9);
    }

    proptest! {
        /// From any initial policy: the gain of every state is the best of all deterministic policies, so is
        /// the bias among those of best gain, and the upper bound is tight.
        #[test]
        fn policy_iteration_agrees_with_enumeration(
            seed: u64, start: u64, w in prop::array::uniform3(prop::sample::select(vec![0.0, 0.3, 0.5, 1.0, 2.0]))
        ) {
            let model = test_models::model(seed);
            let task = FiniteTask::new(&model, &maximise_r0(&[("r1", 0.5), ("r2", 0.5)])).unwrap();
            let policies = test_models::all_policies(&model);
            let start = policies[(start % policies.len() as u64) as usize].clone();
            let best = maximise_from(&task, &w, start).unwrap();
            let others: Vec<Maximiser> = policies
                .iter()
                .map(|a| Maximiser::new(&task, &w, a.clone(), Chain::of_actions(&model, a).unwrap()))
                .collect();
            for s in 0..model.states() {
                let gain = others.iter().map(|o| o.gain[s]).fold(f64::NEG_INFINITY, f64::max);
                prop_assert!((best.gain[s] - gain).abs() < 1e-9, "state {s}: {} is not {gain}", best.gain[s]);
            }
            let optimal = |o: &&Maximiser| o.gain.iter().zip(&best.gain).all(|(a, b)| a > &(b - 1e-9));
            for other in others.iter().filter(optimal) {
                for s in 0..model.states() {
                    prop_assert!(best.bias[s] >= other.bias[s] - 1e-7, "state {s}: bias");
                }
            }
            let value = best.value(&task);
            let bound = best.upper_bound(&task);
            prop_assert!(bound >= value - 1e-9 && bound <= value + 1e-6 * (1.0 + value.abs()), "{bound} {value}");
        }
    }
}
