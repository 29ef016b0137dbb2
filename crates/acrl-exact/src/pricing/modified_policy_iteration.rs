//! Approximate pricing oracle for large end components: one step of modified policy iteration
//! (Puterman & Shin 1978) per column-generation round.
//!
//! From the bias of the last policy at the new λ a few Gauss–Seidel sweeps of the Bellman operator give
//! v; its greedy policy is the next column. With ρ = Σ w_i r_i, max_{s,a} (ρ(s, a) + Σ p v − v(s)) is an
//! upper bound on Σ w_i V_i of every policy, for any v. Policy iteration to convergence at every λ would
//! be wasted while λ still moves.

use rayon::prelude::*;

use super::bellman_simd::SimdBellman;
use super::{Column, ColumnPolicy, Priced, PricingOracle, Request};
use crate::evaluation::{Evaluated, Evaluator, RecurrentClass};
use crate::graph::EndComponent;
use crate::policy::DeterministicPolicy;
use crate::simd::vectorised;
use crate::tolerances::{
    BOUND_ROUNDING, EARLY_EVALUATION, EVALUATION_RANGE, EVALUATION_SHARE, FEASIBILITY_EVALUATION,
    IMPROVEMENT_TIE, RESIDUAL_ROUNDING, TIME_COST_RANGE,
};
use crate::tuning::{
    CHUNK, CLOSER, FAST_MIXING_SWEEPS, LEVEL, LEVEL_FAR, LEVEL_FAST_MIXING, PARALLEL_SWEEP_STATES,
    PLAIN_AFTER, STALLED_ROUNDS, SWEEPS, SWEEPS_PER_SIDE, TIME_COST, TIME_COST_GAP_SHARE, VALUE_LIMIT,
    VALUE_LIMIT_GROWTH, VALUE_LIMIT_PER_STATE,
};
use crate::vector::dot;
use crate::{FiniteTask, SolveError};

/// Modified policy iteration, one improvement step per round.
pub(crate) struct ModifiedPolicyIteration<'t> {
    component: &'t EndComponent,
    evaluator: Evaluator,
    /// Choice of the present policy in each state.
    policy: Vec<u32>,
    evaluated: Option<Evaluated>,
    /// Value function v.
    v: Vec<f64>,
    /// Values before a sweep.
    before: Vec<f64>,
    /// ρ of each choice.
    rho: Vec<f64>,
    /// Vectorised Bellman operator, where it is faster.
    simd: Option<SimdBellman>,
    /// Whether the last round brought a new column.
    progress: bool,
    /// Number of rounds since a new column or clearly closer bounds.
    stalled: usize,
    /// Distance of the bounds when they last came closer.
    distance: f64,
    /// Values are clipped at this many times the rewards' range.
    limit: f64,
    /// First state of the second half, if sweeps treat two halves in parallel; else the number of
    /// states.
    half: usize,
}

impl PricingOracle for ModifiedPolicyIteration<'_> {
    fn price(&mut self, task: &FiniteTask<'_>, request: &Request<'_>) -> Result<Priced, SolveError> {
        let &Request { weights, distance, precision } = request;
        // Cost of a step that uses up part of the objective's own gap, in units of the weights.
        let time_cost = TIME_COST_GAP_SHARE / EVALUATION_SHARE * precision * weights[0];
        // While the bounds on the optimum are far apart, values of that precision are enough. Without
        // bounds the requirements matter, and their values.
        let precision = if weights[0] != 0.0 && distance.is_finite() {
            precision.max(EARLY_EVALUATION * distance) / task.weighted_range(weights)
        } else {
            FEASIBILITY_EVALUATION
        };
        // The whole round runs in the thread pool, which is entered once.
        let (bound, column) = rayon::scope(|_| {
            let bound = self.improve(task, weights, distance, time_cost);
            (bound, self.column(task, weights, precision.clamp(EVALUATION_RANGE.0, EVALUATION_RANGE.1)))
        });
        Ok(Priced { bound, column })
    }

    fn record(&mut self, new: bool) -> bool {
        self.progress = new;
        self.stalled = if new { 0 } else { self.stalled + 1 };
        // Perhaps it does take that long to get from one region of the model to another.
        if self.stalled % 6 == 5 {
            self.limit *= VALUE_LIMIT_GROWTH;
        }
        self.stalled < STALLED_ROUNDS
    }

    fn restart(&mut self) {
        (self.progress, self.stalled) = (true, 0);
    }

    fn reevaluate(
        &mut self,
        task: &FiniteTask<'_>,
        policy: &DeterministicPolicy,
        weights: &[f64],
        precision: f64,
    ) -> Option<(Vec<f64>, Vec<f64>)> {
        let choices = policy.choices(self.component);
        let evaluated = self.evaluate(task, &choices, weights, precision)?;
        Some((evaluated.values, evaluated.errors))
    }

    fn level_share(&self, far: bool) -> Option<f64> {
        match self.progress {
            true if self.evaluator.iterates() => Some(LEVEL_FAST_MIXING),
            true if far => Some(LEVEL_FAR),
            true => Some(LEVEL),
            false => None,
        }
    }

    fn is_approximate(&self) -> bool {
        true
    }
}

impl<'t> ModifiedPolicyIteration<'t> {
    pub(crate) fn new(component: &'t EndComponent) -> Self {
        Self::in_halves(component, component.len() >= PARALLEL_SWEEP_STATES)
    }

    fn in_halves(component: &'t EndComponent, halves: bool) -> Self {
        let half = if halves { component.len() / 2 } else { component.len() };
        Self {
            component,
            evaluator: Evaluator::new(),
            policy: (0..component.len()).map(|s| component.choices_of(s).start as u32).collect(),
            evaluated: None,
            v: vec![0.0; component.len()],
            before: Vec::new(),
            rho: vec![0.0; component.choice_count()],
            simd: SimdBellman::new(component, half),
            progress: true,
            stalled: 0,
            distance: f64::INFINITY,
            limit: VALUE_LIMIT.max(VALUE_LIMIT_PER_STATE * component.len() as f64),
            half,
        }
    }

    /// Column of the present policy, with values to within `precision` of each reward's range; `None` if
    /// the policy cannot be evaluated.
    fn column(&mut self, task: &FiniteTask<'_>, weights: &[f64], precision: f64) -> Option<Column> {
        let choices = std::mem::take(&mut self.policy);
        let evaluated = self.evaluate(task, &choices, weights, precision);
        self.policy = choices;
        let evaluated = evaluated?;
        let policy =
            DeterministicPolicy::new(self.component, &self.policy, evaluated.root, evaluated.several);
        let column = Column {
            values: evaluated.values.clone(),
            errors: evaluated.errors.clone(),
            policy: ColumnPolicy::Component(policy),
        };
        self.evaluated = Some(evaluated);
        Some(column)
    }

    fn evaluate(
        &mut self,
        task: &FiniteTask<'_>,
        choices: &[u32],
        weights: &[f64],
        precision: f64,
    ) -> Option<Evaluated> {
        let component = self.component;
        let reward = |c: usize| task.rewards(component.choice(c));
        let precision: Vec<f64> = task.ranges().iter().map(|range| precision * range).collect();
        self.evaluator.evaluate(component, choices, &reward, &precision, weights)
    }

    /// Improves the policy for weights w₀ … w_m and returns an upper bound on Σ w_i V_i of every policy.
    /// `distance` is that between the bounds on the optimum, `time_cost` the least cost of a step.
    fn improve(&mut self, task: &FiniteTask<'_>, weights: &[f64], distance: f64, time_cost: f64) -> f64 {
        let component = self.component;
        let scale = task.weighted_range(weights);
        // (The distance grows when another problem is priced.)
        if !(CLOSER * self.distance..=self.distance).contains(&distance) {
            (self.distance, self.stalled) = (distance, 0);
        }
        self.rho.par_chunks_mut(CHUNK).enumerate().for_each(|(i, rho)| {
            for (c, rho) in (i * CHUNK..).zip(rho) {
                *rho = dot(task.rewards(component.choice(c)), weights);
            }
        });
        let Some(evaluated) = &self.evaluated else { return f64::INFINITY };
        let gains = evaluated.others.iter().map(|class| dot(&class.values, weights));
        let gain = match evaluated.others.is_empty() {
            true => dot(&evaluated.values, weights),
            false => gains.fold(f64::NEG_INFINITY, f64::max),
        };
        // Between regions of equal gain no policy would lead from one to the other. A small cost of time
        // decides for the reference class.
        let time_cost =
            (TIME_COST * distance).max(time_cost).clamp(TIME_COST_RANGE.0 * scale, TIME_COST_RANGE.1 * scale);
        // Other classes keep the value they had, less their deficit in gain, but at most that of the
        // reference: otherwise all states might go where they gain for a while and lose in the long run.
        let reference = self.v[evaluated.root];
        let worth = |class: &RecurrentClass| {
            let behind = (gain - dot(&class.values, weights)).max(0.0);
            (self.v[class.root] - reference).min(0.0) - behind * component.len() as f64
        };
        let worth: Vec<f64> = evaluated.others.iter().map(worth).collect();
        evaluated.bias(weights, time_cost, &worth, &mut self.v);
        // The values from which the policy is improved are known no better than this.
        let error: f64 = evaluated.errors.iter().zip(weights).map(|(e, w)| e * w.abs()).sum();
        let tie = (4.0 * error).clamp(IMPROVEMENT_TIE.0 * scale, IMPROVEMENT_TIE.1 * scale);
        let limit = scale * self.limit;
        self.v.iter_mut().for_each(|v| *v = if v.is_nan() { -limit } else { v.clamp(-limit, limit) });
        // Where policies recur, a step of plain policy iteration in between never lowers the gain.
        let sweeps = match self.stalled {
            PLAIN_AFTER.. if self.stalled % 2 == 1 => 0,
            _ if self.evaluator.iterates() => FAST_MIXING_SWEEPS,
            _ => ((component.len() as f64).sqrt() / SWEEPS_PER_SIDE).clamp(SWEEPS.0, SWEEPS.1) as usize,
        };
        if let Some(simd) = &mut self.simd {
            simd.set_rewards(component, &self.rho, gain + time_cost);
        }
        for sweep in 0..sweeps {
            self.sweep(gain + time_cost, sweep % 2 == 1);
        }
        self.greedy(scale, tie)
    }

    /// Gauss–Seidel sweep v(s) ← max_a (ρ_a − g + Σ_{t ≠ s} p v(t))/(1 − p(s)).
    fn sweep(&mut self, gain: f64, backwards: bool) {
        let (component, rho, simd) = (self.component, &self.rho, &self.simd);
        let go = |first: usize, own: &mut [f64], before: &[f64]| {
            vectorised(
                #[inline(always)]
                || match simd {
                    Some(simd) => simd.sweep(backwards, first, own, before),
                    None => sweep_range(component, rho, gain, backwards, first, own, before),
                },
            );
        };
        if self.half == component.len() {
            return go(0, &mut self.v, &[]);
        }
        self.before.clone_from(&self.v);
        let before = &self.before[..];
        let (lower, upper) = self.v.split_at_mut(self.half);
        rayon::join(|| go(0, lower, before), || go(self.half, upper, before));
    }

    /// Takes the greedy policy of v, keeping actions that tie, and returns max (ρ_a + Σ p v − v(s)).
    fn greedy(&mut self, scale: f64, tie: f64) -> f64 {
        let (component, v, rho) = (self.component, &self.v, &self.rho);
        let pieces = self.policy.par_chunks_mut(CHUNK).enumerate();
        let most = pieces.map(|(i, policy)| {
            vectorised(
                #[inline(always)]
                || greedy_range(component, rho, v, tie, i * CHUNK, policy),
            )
        });
        let (bound, size) =
            most.reduce(|| (f64::NEG_INFINITY, 0.0f64), |(bound, size), (b, s)| (bound.max(b), size.max(s)));
        bound + BOUND_ROUNDING * (scale + size)
    }
}

/// Sweep over the states from `first` on, with values `own`; those of other states are in `before`.
#[inline(always)]
fn sweep_range(
    component: &EndComponent,
    rho: &[f64],
    gain: f64,
    backwards: bool,
    first: usize,
    own: &mut [f64],
    before: &[f64],
) {
    let n = own.len();
    for i in 0..n {
        let i = if backwards { n - 1 - i } else { i };
        let mut best = f64::NEG_INFINITY;
        for c in component.choices_of(first + i) {
            let (targets, probabilities) = component.transitions(c);
            let mut x = rho[c] - gain;
            for (&t, p) in targets.iter().zip(probabilities) {
                let t = t as usize;
                x += p * match own.get(t.wrapping_sub(first)) {
                    Some(v) => *v,
                    None => before[t],
                };
            }
            // An absorbing action is a plain step of value iteration.
            let x = if targets.is_empty() { x + own[i] } else { x * component.steps(c) };
            best = if x > best { x } else { best };
        }
        own[i] = best;
    }
}

/// Greedy policy of the states from `first` on; max (ρ_a + Σ p v − v(s)) and max |v(s)| there.
#[inline(always)]
fn greedy_range(
    component: &EndComponent,
    rho: &[f64],
    v: &[f64],
    tie: f64,
    first: usize,
    policy: &mut [u32],
) -> (f64, f64) {
    let (mut bound, mut size) = (f64::NEG_INFINITY, 0.0f64);
    for (s, own_choice) in (first..).zip(policy) {
        let own = residual(component, rho, v, s, *own_choice as usize);
        let (mut best, mut choice) = (own + tie + RESIDUAL_ROUNDING * v[s].abs(), *own_choice);
        let mut most = own;
        for c in component.choices_of(s) {
            let x = residual(component, rho, v, s, c);
            most = most.max(x);
            if x > best {
                (best, choice) = (x, c as u32);
            }
        }
        *own_choice = choice;
        bound = bound.max(most);
        size = size.max(v[s].abs());
    }
    (bound, size)
}

/// Bellman residual ρ_a + Σ p v − v(s).
#[inline(always)]
fn residual(component: &EndComponent, rho: &[f64], v: &[f64], s: usize, choice: usize) -> f64 {
    let (targets, probabilities) = component.transitions(choice);
    let mut rise = 0.0;
    for (&t, p) in targets.iter().zip(probabilities) {
        rise += p * (v[t as usize] - v[s]);
    }
    rho[choice] + rise
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::maximise_r0;
    use acrl::{FiniteCmdp, Rng};

    /// Ring with noisy steps forth, back and none, and random rewards.
    fn ring(n: usize) -> FiniteCmdp {
        let mut rng = Rng::new(4);
        let mut b = FiniteCmdp::builder(["r0"]);
        (0..n).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..n {
            let (on, back) = ((s + 1) % n, (s + n - 1) % n);
            for (a, to) in [on, back, s].into_iter().enumerate() {
                let targets: Vec<(usize, f64)> =
                    [on, back, s].into_iter().map(|t| (t, if t == to { 0.9 } else { 0.05 })).collect();
                b.choice(s, a.to_string(), &targets, &[rng.uniform()]);
            }
        }
        b.build().unwrap()
    }

    /// Gain of the policy and upper bound, round by round.
    fn rounds(model: &FiniteCmdp, halves: bool, threads: usize) -> Vec<(f64, f64)> {
        let task = FiniteTask::new(model, &maximise_r0(&[])).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut oracle = ModifiedPolicyIteration::in_halves(task.end_component().unwrap(), halves);
            let mut round = || {
                let bound = oracle.improve(&task, &[1.0], 1e-6, 0.0);
                (oracle.column(&task, &[1.0], 1e-12).unwrap().values[0], bound)
            };
            (0..40).map(|_| round()).collect()
        })
    }

    #[test]
    fn parallel_sweeps_do_not_depend_on_the_number_of_threads() {
        let model = ring(500);
        let (halved, whole) = (rounds(&model, true, 1), rounds(&model, false, 1));
        assert!(halved == rounds(&model, true, 3));
        assert!(halved != whole, "halves take other intermediate values");
        for (gain, bound) in [halved[39], whole[39]] {
            let close = bound >= gain && bound - gain < 1e-6;
            assert!((gain - whole[39].0).abs() < 1e-9 && close, "{gain} {bound}");
        }
        assert!(halved.iter().all(|(_, bound)| *bound >= whole[39].0 - 1e-12), "every bound is valid");
    }
}
