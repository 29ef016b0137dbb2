//! What a rule attains in an end component, and its bias: by elimination, or by iteration where chains mix fast.

use acrl::Rng;
use pulp::Arch;
use rayon::prelude::*;

use crate::elimination::{Elimination, Evaluation, LANES, LOSS, Lanes, TIME, Workspace};
use crate::ordering::Graph;
use crate::part::Part;
use crate::plan::Plan;

/// Rewards that are evaluated together: a group of lanes.
pub(crate) const GROUP: usize = LOSS;

/// 2 GB.
const BUDGET: usize = 250_000_000;
/// A cycle longer than this costs digits: then a state is pinned that is visited more often.
const LONG_CYCLE: f64 = 1e7;
/// A smaller chance to leave a class is none.
const NEVER: f64 = 1e-40;
/// The most steps that are walked in search of a state that is visited often.
const LONG_WALK: usize = 1_000_000;
/// States that are tried as a reference.
const ATTEMPTS: usize = 4;
/// States are looked at in pieces of this many.
const CHUNK: usize = 1 << 14;
/// Iterations after which a chain counts as mixing too slowly.
const PATIENCE: usize = 100;
/// Iterations in place before each one that tells how far it is.
const IN_PLACE: usize = 3;

/// A rule's values and its bias, reward by reward.
pub(crate) struct Evaluated {
    /// r₀ … r_m on average, in one recurrent class.
    pub(crate) values: Vec<f64>,
    /// How far each of these may be off.
    pub(crate) errors: Vec<f64>,
    /// A state of that class.
    pub(crate) root: usize,
    /// Whether there are other classes.
    pub(crate) several: bool,
    bias: Vec<Vec<Lanes>>,
}

impl Evaluated {
    /// Σ w_i h_i(s) less a price for the time to get to where the rule is at home, by state; −∞ where another class may be
    /// reached.
    pub(crate) fn bias(&self, weights: &[f64], price: f64, out: &mut [f64]) {
        out.fill(0.0);
        for (group, (bias, weights)) in self.bias.iter().zip(weights.chunks(GROUP)).enumerate() {
            let price = if group == 0 { price } else { 0.0 };
            for (out, bias) in out.iter_mut().zip(bias) {
                *out += bias.iter().zip(weights).map(|(h, w)| h * w).sum::<f64>() - price * bias[TIME];
                if bias[LOSS] > NEVER {
                    *out = f64::NEG_INFINITY;
                }
            }
        }
    }
}

/// How rules are evaluated.
pub(crate) struct Evaluator {
    plan: Option<Plan>,
    /// At most so many numbers are stored for an elimination.
    budget: usize,
    /// Whether there can be no plan.
    too_large: bool,
    workspace: Workspace,
    /// Where the last walk along a rule ended.
    at: usize,
    rng: Rng,
    counts: Vec<u32>,
    /// For the iteration: the bias so far, and the next one.
    lanes: Vec<Vec<Lanes>>,
    next: Vec<Lanes>,
    rewards: Vec<Lanes>,
    chain: Packed,
    /// How much of each update is taken; less than all where a chain goes in circles.
    damping: f64,
}

impl Evaluator {
    /// An evaluator that tries the iteration first, and elimination if the chains mix slowly.
    pub(crate) fn new() -> Self {
        Self {
            plan: None,
            budget: BUDGET,
            too_large: false,
            workspace: Workspace::default(),
            at: 0,
            rng: Rng::new(0),
            counts: Vec::new(),
            lanes: Vec::new(),
            next: Vec::new(),
            rewards: Vec::new(),
            chain: Packed::default(),
            damping: 1.0,
        }
    }

    /// Whether chains mix fast enough to iterate.
    pub(crate) fn iterates(&self) -> bool {
        self.plan.is_none()
    }

    /// Evaluates a rule (the choice in each state); `reward(c)` is r₀ … r_m of a choice. An iteration stops when each value is
    /// known to within `enough[i]`. Of several recurrent classes it takes one of largest Σ w_i V_i. `None` if the chain mixes too
    /// slowly to iterate, and the model is too large to eliminate.
    pub(crate) fn evaluate<'r>(
        &mut self,
        part: &Part,
        rule: &[u32],
        reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
        enough: &[f64],
        weights: &[f64],
    ) -> Option<Evaluated> {
        if self.plan.is_none() {
            let iterated = self.iterate(part, rule, reward, enough);
            if iterated.is_some() || self.too_large {
                return iterated;
            }
            let graph = Graph::symmetric(part.len(), |s| part.successors(s));
            self.plan = Plan::new(&graph, self.budget);
            self.too_large = self.plan.is_none();
        }
        let plan = self.plan.take()?;
        // What the iteration needed.
        (self.lanes, self.next, self.rewards) = (Vec::new(), Vec::new(), Vec::new());
        self.chain = Packed::default();
        let evaluated = self.eliminate(&plan, part, rule, reward, weights);
        self.plan = Some(plan);
        Some(evaluated)
    }

    /// By elimination, from a state that the rule visits often.
    fn eliminate<'r>(
        &mut self,
        plan: &Plan,
        part: &Part,
        rule: &[u32],
        reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
        weights: &[f64],
    ) -> Evaluated {
        let row = |s: usize| part.transitions(rule[s] as usize);
        let mut pinned = self.walk(part, rule);
        let mut attempts = 0;
        loop {
            let elimination = Elimination::new(plan, row, pinned, &mut self.workspace);
            let groups: Vec<Evaluation> = (0..weights.len())
                .step_by(GROUP)
                .map(|begin| elimination.evaluate(row, |s| lanes(reward(rule[s] as usize), begin)))
                .collect();
            let lagrangian = |class: Option<usize>| -> f64 {
                let gain = |group: &Evaluation| class.map_or(group.gain, |class| group.others[class].1);
                let terms = groups.iter().zip(weights.chunks(GROUP));
                terms.map(|(group, w)| gain(group).iter().zip(w).map(|(g, w)| g * w).sum::<f64>()).sum()
            };
            let others = 0..groups[0].others.len();
            let best = others.max_by(|&a, &b| lagrangian(Some(a)).total_cmp(&lagrangian(Some(b))));
            let lost = groups[0].loss > NEVER;
            let long = groups[0].cycle.is_nan() || groups[0].cycle > LONG_CYCLE;
            let next = match best {
                _ if attempts == ATTEMPTS => None,
                Some(class) if lost || lagrangian(Some(class)) > lagrangian(None) => {
                    Some(groups[0].others[class].0)
                }
                _ if long => {
                    let visits = elimination.visits(row);
                    (0..visits.len())
                        .max_by(|&a, &b| visits[a].total_cmp(&visits[b]))
                        .filter(|s| *s != pinned)
                }
                _ => None,
            };
            match next {
                Some(next) => pinned = next,
                None => {
                    let visits = elimination.visits(row);
                    elimination.recycle(&mut self.workspace);
                    return finish(part, rule, reward, weights.len(), &visits, pinned, groups);
                }
            }
            elimination.recycle(&mut self.workspace);
            attempts += 1;
        }
    }

    /// A state that is visited often: the one that a walk along the rule sees most.
    fn walk(&mut self, part: &Part, rule: &[u32]) -> usize {
        let steps = (4 * part.len() + 1000).min(LONG_WALK);
        self.counts.clear();
        self.counts.resize(part.len(), 0);
        for step in 0..steps {
            let choice = rule[self.at] as usize;
            let (targets, probabilities) = part.transitions(choice);
            let mut u = self.rng.uniform() - part.stay(choice);
            if u >= 0.0 && !targets.is_empty() {
                let drawn = probabilities.iter().position(|p| {
                    u -= p;
                    u < 0.0
                });
                self.at = targets[drawn.unwrap_or(targets.len() - 1)] as usize;
            }
            if 2 * step >= steps {
                self.counts[self.at] += 1;
            }
        }
        (0..part.len()).max_by_key(|&s| self.counts[s]).unwrap_or(0)
    }

    /// By iteration of h ← r + P h; `None` if that does not converge soon.
    fn iterate<'r>(
        &mut self,
        part: &Part,
        rule: &[u32],
        reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
        enough: &[f64],
    ) -> Option<Evaluated> {
        let n = part.len();
        let width = enough.len();
        self.lanes.resize_with(width.div_ceil(GROUP), || vec![[0.0; LANES]; n]);
        self.next.resize(n, [0.0; LANES]);
        let (mut values, mut errors) = (vec![0.0; width], vec![0.0; width]);
        let mut groups = Vec::new();
        let arch = Arch::new();
        self.chain.pack(part, rule);
        for (group, begin) in (0..width).step_by(GROUP).enumerate() {
            let members = begin..(begin + GROUP).min(width);
            self.rewards.clear();
            self.rewards.extend(rule.iter().map(|&c| lanes(reward(c as usize), begin)));
            let mut best = f64::INFINITY;
            let mut waited = 0;
            let mut iterations = 0;
            loop {
                let h = &self.lanes[group];
                let (low, high) = arch.dispatch(
                    #[inline(always)]
                    || advance(&self.chain, &self.rewards, h, self.damping, &mut self.next),
                );
                // Only differences matter: so that nothing grows, the middle of the changes is taken off.
                let middle: Lanes = std::array::from_fn(|lane| f64::midpoint(low[lane], high[lane]));
                let shift = middle.map(|x| self.damping * x);
                self.next.iter_mut().for_each(|h| h.iter_mut().zip(&shift).for_each(|(h, m)| *h -= m));
                let mut error: f64 = 0.0;
                for i in members.clone() {
                    let lane = i - begin;
                    values[i] = middle[lane];
                    errors[i] = (high[lane] - low[lane]) / 2.0;
                    error = error.max(errors[i] / enough[i]);
                }
                std::mem::swap(&mut self.lanes[group], &mut self.next);
                if error <= 1.0 {
                    break;
                }
                iterations += 1;
                if error < 0.9 * best {
                    (best, waited) = (error, 0);
                } else {
                    waited += 1;
                }
                if waited == 8 && self.damping == 1.0 {
                    (self.damping, waited) = (0.7, 0);
                } else if waited == 16 || iterations == PATIENCE {
                    return None;
                }
                // In place it goes faster, but does not tell how far.
                let h = &mut self.lanes[group];
                for _ in 0..IN_PLACE {
                    arch.dispatch(
                        #[inline(always)]
                        || sweep(&self.chain, &self.rewards, &middle, h),
                    );
                }
            }
            let mut bias = self.lanes[group].clone();
            bias.iter_mut().for_each(|h| (h[TIME], h[LOSS]) = (0.0, 0.0));
            groups.push(bias);
        }
        Some(Evaluated { values, errors, root: 0, several: false, bias: groups })
    }
}

/// The chain of a rule, row after row.
#[derive(Default)]
struct Packed {
    first: Vec<u32>,
    transitions: Vec<(u32, f64)>,
}

impl Packed {
    fn pack(&mut self, part: &Part, rule: &[u32]) {
        self.first.clear();
        self.transitions.clear();
        self.first.push(0);
        for (s, &choice) in rule.iter().enumerate() {
            let (targets, probabilities) = part.transitions(choice as usize);
            let stay = part.stay(choice as usize);
            self.transitions.extend((stay > 0.0).then_some((s as u32, stay)));
            self.transitions.extend(targets.iter().copied().zip(probabilities.iter().copied()));
            self.first.push(self.transitions.len() as u32);
        }
    }

    /// r(s) + Σ p h(t).
    #[inline(always)]
    fn reward_and_next(&self, s: usize, rewards: &[Lanes], h: &[Lanes]) -> Lanes {
        let mut x = rewards[s];
        for &(t, p) in &self.transitions[self.first[s] as usize..self.first[s + 1] as usize] {
            let h = &h[t as usize];
            for lane in 0..LANES {
                x[lane] += p * h[lane];
            }
        }
        x
    }
}

/// One iteration h ← h + d (r + P h − h); returns the least and the largest r + P h − h of each lane.
#[inline(always)]
fn advance(
    chain: &Packed,
    rewards: &[Lanes],
    h: &[Lanes],
    damping: f64,
    next: &mut [Lanes],
) -> (Lanes, Lanes) {
    let (mut low, mut high) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    for (s, (own, next)) in h.iter().zip(next).enumerate() {
        let x = chain.reward_and_next(s, rewards, h);
        for lane in 0..LANES {
            let change = x[lane] - own[lane];
            low[lane] = if change < low[lane] { change } else { low[lane] };
            high[lane] = if change > high[lane] { change } else { high[lane] };
            next[lane] = own[lane] + damping * change;
        }
    }
    (low, high)
}

/// One iteration h ← r − g + P h in place.
#[inline(always)]
fn sweep(chain: &Packed, rewards: &[Lanes], gain: &Lanes, h: &mut [Lanes]) {
    for s in 0..h.len() {
        let x = chain.reward_and_next(s, rewards, h);
        for lane in 0..LANES {
            h[s][lane] = x[lane] - gain[lane];
        }
    }
}

/// The rewards of a group, in lanes.
#[inline(always)]
fn lanes(rewards: &[f64], begin: usize) -> Lanes {
    let mut lanes = [0.0; LANES];
    let rewards = &rewards[begin..];
    let width = rewards.len().min(GROUP);
    lanes[..width].copy_from_slice(&rewards[..width]);
    lanes
}

/// Values with their errors. The residuals of g + h = r + P h, by how often each state is visited, bound how far g is off: they
/// may be large where the chain is once in 10²⁰ steps.
fn finish<'r>(
    part: &Part,
    rule: &[u32],
    reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
    width: usize,
    visits: &[f64],
    pinned: usize,
    evaluations: Vec<Evaluation>,
) -> Evaluated {
    let total: f64 = visits.iter().sum();
    let mut errors = vec![0.0f64; width];
    for (group, evaluation) in evaluations.iter().enumerate() {
        let begin = group * GROUP;
        let mut mean = [0.0f64; LANES];
        let residual = |s: usize| {
            let choice = rule[s] as usize;
            let (targets, probabilities) = part.transitions(choice);
            let own = &evaluation.bias[s];
            let mut residual = lanes(reward(choice), begin);
            (0..LANES).for_each(|lane| residual[lane] -= evaluation.gain[lane]);
            for (&t, p) in targets.iter().zip(probabilities) {
                let h = &evaluation.bias[t as usize];
                (0..LANES).for_each(|lane| residual[lane] += p * (h[lane] - own[lane]));
            }
            residual
        };
        // Piece by piece, so that the sum is the same whatever the number of threads.
        let sums = visits.par_chunks(CHUNK).enumerate().map(|(piece, visits)| {
            let mut sum = [0.0f64; LANES];
            for (s, visits) in (piece * CHUNK..).zip(visits).filter(|(_, visits)| **visits > 0.0) {
                let share = visits / total;
                sum.iter_mut().zip(residual(s)).for_each(|(x, r)| *x += share * r.abs());
            }
            sum
        });
        for sum in sums.collect::<Vec<Lanes>>() {
            mean.iter_mut().zip(sum).for_each(|(x, y)| *x += y);
        }
        let members = (width - begin).min(GROUP);
        errors[begin..begin + members].copy_from_slice(&mean[..members]);
    }
    if evaluations[0].loss > NEVER {
        errors.fill(f64::INFINITY); // the state is not in a class at all
    }
    let values = evaluations.iter().flat_map(|e| e.gain[..GROUP].iter().copied()).take(width).collect();
    let several = !evaluations[0].others.is_empty();
    let bias = evaluations.into_iter().map(|e| e.bias).collect();
    Evaluated { values, errors, root: pinned, several, bias }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acrl::FiniteCmdp;

    /// A walk on a ring, which takes n² steps to forget where it began; reward 1 in a quarter of it.
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
        let part = Part::new(&model, &(0..n).collect::<Vec<_>>());
        let rule: Vec<u32> = (0..n as u32).collect();
        evaluator.evaluate(&part, &rule, &|c| model.choice(c).rewards, &[1e-9], &[1.0])
    }

    #[test]
    fn what_mixes_slowly_is_eliminated() {
        let mut evaluator = Evaluator::new();
        let evaluated = evaluate(&mut evaluator, 400).unwrap();
        assert!(!evaluator.iterates());
        assert!((evaluated.values[0] - 0.25).abs() < 1e-12 && evaluated.errors[0] < 1e-9);
    }

    #[test]
    fn what_mixes_fast_is_iterated() {
        let mut evaluator = Evaluator::new();
        let evaluated = evaluate(&mut evaluator, 5).unwrap();
        assert!(evaluator.iterates());
        assert!((evaluated.values[0] - 0.4).abs() <= 1e-9);
    }

    #[test]
    fn what_is_too_large_to_eliminate_is_not_evaluated_and_planned_once() {
        let mut evaluator = Evaluator { budget: 100, ..Evaluator::new() };
        assert!(evaluate(&mut evaluator, 400).is_none());
        assert!(evaluator.too_large);
        assert!(evaluate(&mut evaluator, 400).is_none());
    }
}
