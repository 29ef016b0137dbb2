//! What a rule attains in an end component, and its bias: by elimination, or by iteration where chains mix fast.

use acrl::Rng;

use crate::elimination::{Elimination, Evaluation, LANES, Lanes, Plan, TIME, Workspace};
use crate::ordering::Graph;
use crate::part::Part;

/// Rewards that are evaluated together: a group of lanes.
pub(crate) const GROUP: usize = TIME;

/// At most this many numbers are stored for an elimination (2 GB).
const BUDGET: usize = 250_000_000;
/// A cycle longer than this costs digits: then a state is pinned that is visited more often.
const LONG_CYCLE: f64 = 1e7;
/// Iterations after which a chain counts as mixing too slowly.
const PATIENCE: usize = 400;

/// A rule's values and its bias, reward by reward.
pub(crate) struct Evaluated {
    /// Of each recurrent class: a state in it, its r₀ … r_m on average, and how far each of these may be off.
    pub(crate) classes: Vec<(usize, Vec<f64>, Vec<f64>)>,
    groups: Vec<Group>,
}

struct Group {
    /// The gain from each state; empty if it is the same from all.
    gain: Vec<Lanes>,
    bias: Vec<Lanes>,
}

impl Evaluated {
    /// Σ w_i h_i(s) by state.
    pub(crate) fn bias(&self, weights: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (group, weights) in self.groups.iter().zip(weights.chunks(GROUP)) {
            for (out, bias) in out.iter_mut().zip(&group.bias) {
                *out += bias.iter().zip(weights).map(|(h, w)| h * w).sum::<f64>();
            }
        }
    }

    /// Σ w_i g_i(s); `None` if it is the same from all states.
    pub(crate) fn gain(&self, weights: &[f64], s: usize) -> Option<f64> {
        let mut total = 0.0;
        for (group, weights) in self.groups.iter().zip(weights.chunks(GROUP)) {
            total += group.gain.get(s)?.iter().zip(weights).map(|(g, w)| g * w).sum::<f64>();
        }
        Some(total)
    }

    /// The time to a state in which a class is at home; 0 where it is not known.
    pub(crate) fn time(&self, s: usize) -> f64 {
        self.groups[0].bias[s][TIME]
    }
}

/// How rules are evaluated.
pub(crate) struct Evaluator {
    plan: Option<Plan>,
    workspace: Workspace,
    /// Where the last walk along a rule ended.
    at: usize,
    rng: Rng,
    counts: Vec<u32>,
    /// For the iteration: the bias so far, and the next one.
    lanes: Vec<Vec<Lanes>>,
    next: Vec<Lanes>,
    /// How much of each update is taken; less than all where a chain goes in circles.
    damping: f64,
}

impl Evaluator {
    /// An evaluator that tries the iteration first, and elimination if the chains mix slowly.
    pub(crate) fn new() -> Self {
        Self {
            plan: None,
            workspace: Workspace::default(),
            at: 0,
            rng: Rng::new(0),
            counts: Vec::new(),
            lanes: Vec::new(),
            next: Vec::new(),
            damping: 1.0,
        }
    }

    /// Evaluates a rule (the choice in each state); `reward(c)` is r₀ … r_m of a choice. An iteration stops when each value is
    /// known to within `enough[i]`.
    pub(crate) fn evaluate<'r>(
        &mut self,
        part: &Part,
        rule: &[u32],
        reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
        enough: &[f64],
    ) -> Evaluated {
        if self.plan.is_none() {
            let iterated = self.iterate(part, rule, reward, enough);
            if let Some(evaluated) = iterated {
                return evaluated;
            }
            let graph = Graph::symmetric(part.len(), |s| part.successors(s));
            self.plan = Plan::new(&graph, BUDGET);
            self.lanes = Vec::new();
            self.next = Vec::new();
        }
        match self.plan.take() {
            Some(plan) => {
                let evaluated = self.eliminate(&plan, part, rule, reward, enough.len());
                self.plan = Some(plan);
                evaluated
            }
            None => self.give_up(part, rule, reward, enough.len()),
        }
    }

    /// By elimination, from a state that the rule visits often.
    fn eliminate<'r>(
        &mut self,
        plan: &Plan,
        part: &Part,
        rule: &[u32],
        reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
        width: usize,
    ) -> Evaluated {
        let row = |s: usize| part.transitions(rule[s] as usize);
        let mut pinned = Some(self.walk(part, rule));
        let mut tries = 0;
        loop {
            let elimination = Elimination::new(plan, row, pinned, &mut self.workspace);
            let mut groups = Vec::new();
            for begin in (0..width).step_by(GROUP) {
                let lanes = |s: usize| lanes(reward(rule[s] as usize), begin);
                match elimination.evaluate(row, lanes) {
                    Some(evaluation) => groups.push(evaluation),
                    None => break,
                }
            }
            tries += 1;
            if groups.is_empty() {
                // Several classes, none of which leads to the others.
                pinned = None;
            } else if pinned.is_some() && groups[0].cycle > LONG_CYCLE && tries < 3 {
                let visits = elimination.visits(row);
                pinned = (0..visits.len()).max_by(|&a, &b| visits[a].total_cmp(&visits[b]));
            } else {
                let roots: Vec<usize> = elimination.roots().collect();
                let visits = pinned.map(|_| elimination.visits(row));
                elimination.recycle(&mut self.workspace);
                return finish(part, rule, reward, width, visits.as_deref(), &roots, groups);
            }
            elimination.recycle(&mut self.workspace);
        }
    }

    /// A state that is visited often: the one that a walk along the rule sees most.
    fn walk(&mut self, part: &Part, rule: &[u32]) -> usize {
        let steps = 4 * part.len() + 1000;
        self.counts.clear();
        self.counts.resize(part.len(), 0);
        for step in 0..steps {
            let (targets, probabilities) = part.transitions(rule[self.at] as usize);
            let drawn = if targets.len() == 1 { 0 } else { self.rng.weighted(probabilities) };
            self.at = targets[drawn] as usize;
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
        for (group, begin) in (0..width).step_by(GROUP).enumerate() {
            let members = begin..(begin + GROUP).min(width);
            let mut best = f64::INFINITY;
            let mut waited = 0;
            let mut iterations = 0;
            loop {
                let h = &self.lanes[group];
                let (mut low, mut high) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
                for s in 0..n {
                    let choice = rule[s] as usize;
                    let mut x = lanes(reward(choice), begin);
                    let (targets, probabilities) = part.transitions(choice);
                    for (&t, p) in targets.iter().zip(probabilities) {
                        let h = &h[t as usize];
                        (0..LANES).for_each(|lane| x[lane] += p * h[lane]);
                    }
                    for lane in 0..LANES {
                        let change = x[lane] - h[s][lane];
                        low[lane] = low[lane].min(change);
                        high[lane] = high[lane].max(change);
                        x[lane] = h[s][lane] + self.damping * change;
                    }
                    self.next[s] = x;
                }
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
                if waited == 20 && self.damping == 1.0 {
                    (self.damping, waited) = (0.7, 0);
                } else if waited == 40 || iterations == PATIENCE {
                    return None;
                }
            }
            let mut bias = self.lanes[group].clone();
            bias.iter_mut().for_each(|h| h[TIME] = 0.0);
            groups.push(Group { gain: Vec::new(), bias });
        }
        Some(Evaluated { classes: vec![(0, values, errors)], groups })
    }

    /// What is known without an evaluation: nothing but the ranges of the rewards.
    fn give_up<'r>(
        &self,
        part: &Part,
        rule: &[u32],
        reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
        width: usize,
    ) -> Evaluated {
        let (mut low, mut high) = (vec![f64::INFINITY; width], vec![f64::NEG_INFINITY; width]);
        for &choice in rule {
            for (i, r) in reward(choice as usize).iter().enumerate() {
                low[i] = low[i].min(*r);
                high[i] = high[i].max(*r);
            }
        }
        let values = low.iter().zip(&high).map(|(l, h)| f64::midpoint(*l, *h)).collect();
        let errors = low.iter().zip(&high).map(|(l, h)| (h - l) / 2.0).collect();
        let empty = || Group { gain: Vec::new(), bias: vec![[0.0; LANES]; part.len()] };
        let groups = (0..width.div_ceil(GROUP)).map(|_| empty()).collect();
        Evaluated { classes: vec![(0, values, errors)], groups }
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

/// Values with their errors. The residuals of g = P g and g + h = r + P h bound how far g is off; where it is known how
/// often each state is visited, residuals count by that, since they may be large where the chain is once in 10²⁰ steps.
fn finish<'r>(
    part: &Part,
    rule: &[u32],
    reward: &(dyn Fn(usize) -> &'r [f64] + Sync),
    width: usize,
    visits: Option<&[f64]>,
    roots: &[usize],
    evaluations: Vec<Evaluation>,
) -> Evaluated {
    let total: f64 = visits.map_or(1.0, |visits| visits.iter().sum());
    let mut errors = vec![0.0f64; width];
    for (group, evaluation) in evaluations.iter().enumerate() {
        let begin = group * GROUP;
        let members = (width - begin).min(GROUP);
        let (mut worst, mut mean) = ([0.0f64; LANES], [0.0f64; LANES]);
        for s in 0..part.len() {
            let choice = rule[s] as usize;
            let (targets, probabilities) = part.transitions(choice);
            let (own, gain) = (&evaluation.bias[s], evaluation.gain(s));
            let mut residual = lanes(reward(choice), begin);
            (0..LANES).for_each(|lane| residual[lane] -= gain[lane]);
            let mut drift = [0.0; LANES];
            for (&t, p) in targets.iter().zip(probabilities) {
                let (h, g) = (&evaluation.bias[t as usize], evaluation.gain(t as usize));
                for lane in 0..LANES {
                    residual[lane] += p * (h[lane] - own[lane]);
                    drift[lane] += p * (g[lane] - gain[lane]);
                }
            }
            let share = visits.map_or(1.0, |visits| visits[s] / total);
            for lane in 0..LANES {
                let size = residual[lane].abs() + drift[lane].abs();
                worst[lane] = worst[lane].max(size);
                mean[lane] += share * size;
            }
        }
        for lane in 0..members {
            errors[begin + lane] = if visits.is_some() { worst[lane].min(mean[lane]) } else { worst[lane] };
        }
    }
    let value = |class: usize| {
        let gains = evaluations.iter().flat_map(|e| e.gains[class][..GROUP].iter().copied());
        gains.take(width).collect::<Vec<f64>>()
    };
    let classes =
        roots.iter().enumerate().map(|(class, &root)| (root, value(class), errors.clone())).collect();
    let groups = evaluations.into_iter().map(|e| Group { gain: e.by_state, bias: e.bias }).collect();
    Evaluated { classes, groups }
}
