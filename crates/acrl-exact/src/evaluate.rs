//! What a rule attains in an end component, and its bias: by elimination, or by iteration where chains mix fast.

use acrl::Rng;
use rayon::prelude::*;

use crate::elimination::{Elimination, Evaluation, LANES, LOSS, Lanes, TIME, Workspace};
use crate::ordering::Graph;
use crate::part::Part;
use crate::plan::Plan;
use crate::vectors::vectorised;

/// Rewards that are evaluated together: a group of lanes.
pub(crate) const GROUP: usize = LOSS;

/// 2 GB.
const BUDGET: usize = 250_000_000;
/// A cycle longer than this costs digits: then a state is pinned that is visited more often.
const LONG_CYCLE: f64 = 1e7;
/// A smaller chance to leave a class is none.
const NEVER: f64 = 1e-40;
/// A smaller chance to end in a class that is not looked at does not matter.
const UNKNOWN: f64 = 1e-6;
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
    /// If the rule's state turned out not to be recurrent: classes that are, the best ones first, and the chances of each state to
    /// end in them.
    pub(crate) others: Vec<Class>,
    reach: Vec<Lanes>,
}

/// A recurrent class.
pub(crate) struct Class {
    pub(crate) root: usize,
    /// r₀ … r_m on average.
    pub(crate) values: Vec<f64>,
}

impl Evaluated {
    /// Σ w_i h_i(s) less a price for the time to get to where the rule is at home, by state; −∞ where another class may be
    /// reached. Those in `others` are measured by their own gains, and their roots are `worth` so much.
    pub(crate) fn bias(&self, weights: &[f64], price: f64, worth: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (group, (bias, weights)) in self.bias.iter().zip(weights.chunks(GROUP)).enumerate() {
            let price = if group == 0 { price } else { 0.0 };
            for (out, bias) in out.iter_mut().zip(bias) {
                *out += bias.iter().zip(weights).map(|(h, w)| h * w).sum::<f64>() - price * bias[TIME];
            }
        }
        let lost = self.bias[0].iter().enumerate().filter(|(_, h)| h[LOSS] > NEVER);
        for (s, h) in lost {
            let reach = self.reach.get(s).map_or(&[][..], |reach| reach);
            out[s] += reach.iter().zip(worth).map(|(p, x)| p * x).sum::<f64>();
            if h[LOSS] - reach.iter().sum::<f64>() > UNKNOWN {
                out[s] = f64::NEG_INFINITY;
            }
        }
    }

    /// Turns to other classes: measures the bias of states that end there by the gains there, Σ_k P_k(s) g_k instead of g.
    fn turn_to(&mut self, others: Vec<Class>, reach: Vec<Lanes>) {
        for (group, bias) in self.bias.iter_mut().enumerate() {
            let members = group * GROUP..((group + 1) * GROUP).min(self.values.len());
            for (h, reach) in bias.iter_mut().zip(&reach).filter(|(h, _)| h[LOSS] > NEVER) {
                let time = h[TIME];
                for (h, i) in h.iter_mut().zip(members.clone()) {
                    let less = |(p, class): (&f64, &Class)| p * (self.values[i] - class.values[i]);
                    *h += time * reach.iter().zip(&others).map(less).sum::<f64>();
                }
            }
        }
        (self.others, self.reach) = (others, reach);
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
        let mut tried = Vec::new();
        // A state that is recurrent for sure, and whether it is to be taken.
        let (mut sure, mut settled) = (None, false);
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
            let mut others: Vec<usize> = (0..groups[0].others.len()).collect();
            others.sort_by(|&a, &b| lagrangian(Some(b)).total_cmp(&lagrangian(Some(a))));
            let root = |class: usize| groups[0].others[class].0;
            let best = others.iter().copied().find(|&class| !tried.contains(&root(class)));
            let lost = groups[0].loss > NEVER;
            let long = groups[0].cycle.is_nan() || groups[0].cycle > LONG_CYCLE;
            if !lost {
                sure = Some(pinned);
            }
            let next = match best {
                _ if settled || tried.len() == ATTEMPTS => None,
                Some(class) if lost || lagrangian(Some(class)) > lagrangian(None) => Some(root(class)),
                _ if long => {
                    let visits = elimination.visits(row);
                    (0..visits.len())
                        .max_by(|&a, &b| visits[a].total_cmp(&visits[b]))
                        .filter(|s| *s != pinned)
                }
                _ => None,
            };
            let next = next.or_else(|| {
                settled = lost;
                sure.filter(|_| lost)
            });
            let Some(next) = next else {
                let visits = elimination.visits(row);
                others.truncate(if lost { LANES } else { 0 });
                let class = |&class: &usize| {
                    let values = groups.iter().flat_map(|group| &group.others[class].1[..GROUP]);
                    Class { root: root(class), values: values.copied().take(weights.len()).collect() }
                };
                let others: Vec<Class> = others.iter().map(class).collect();
                let roots: Vec<usize> = others.iter().map(|class| class.root).collect();
                let reach = if lost { elimination.reach(&roots) } else { Vec::new() };
                elimination.recycle(&mut self.workspace);
                let mut evaluated = finish(part, rule, reward, weights.len(), &visits, pinned, groups);
                evaluated.turn_to(others, reach);
                return evaluated;
            };
            tried.push(pinned);
            pinned = next;
            elimination.recycle(&mut self.workspace);
        }
    }

    /// A state that is visited often: the one that a walk along the rule sees most.
    fn walk(&mut self, part: &Part, rule: &[u32]) -> usize {
        let steps = (part.len() + 1000).min(LONG_WALK);
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
                let (low, high) = vectorised(
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
                    vectorised(
                        #[inline(always)]
                        || sweep(&self.chain, &self.rewards, &middle, h),
                    );
                }
            }
            let mut bias = self.lanes[group].clone();
            bias.iter_mut().for_each(|h| (h[TIME], h[LOSS]) = (0.0, 0.0));
            groups.push(bias);
        }
        let (others, reach) = (Vec::new(), Vec::new());
        Some(Evaluated { values, errors, root: 0, several: false, bias: groups, others, reach })
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
    Evaluated { values, errors, root: pinned, several, bias, others: Vec::new(), reach: Vec::new() }
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

    /// Two rooms, of which the one that pays is left once in 10²⁰ steps and the other once in 10⁷⁰: only the latter is a class. The walk
    /// begins in the first, and says so.
    #[test]
    fn what_is_left_for_good_is_no_class_however_long_that_takes() {
        let mut b = FiniteCmdp::builder(["r0"]);
        (0..400).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..400usize {
            let (pays, door) = (s < 200, s == 199 || s == 200);
            let near = |t: usize| (t < 200) == pays;
            let mut to: Vec<(usize, f64)> = [s.wrapping_sub(1), s + 1]
                .into_iter()
                .filter(|&t| t < 400)
                .map(|t| {
                    (
                        t,
                        if near(t) {
                            0.5
                        } else if pays {
                            1e-20
                        } else {
                            1e-70
                        },
                    )
                })
                .collect();
            // Walls and doors throw back.
            let stay = if s == 0 || s == 399 || door { 0.5 } else { 0.0 };
            to.extend((stay > 0.0).then_some((s, stay)));
            b.choice(s, "walk", &to, &[f64::from(pays)]);
        }
        let model = b.build().unwrap();
        let part = Part::new(&model, &(0..400).collect::<Vec<_>>());
        let rule: Vec<u32> = (0..400).collect();
        let evaluated =
            Evaluator::new().evaluate(&part, &rule, &|c| model.choice(c).rewards, &[1e-9], &[1.0]).unwrap();
        assert!(evaluated.values[0].abs() < 1e-12 && evaluated.errors[0] < 1e-9 && evaluated.root >= 200);
    }

    /// v = R − T Σ_k P_k g_k + Σ_k P_k x_k, with what is collected until one of the classes is reached, R, the time that takes, T, and
    /// what the classes are worth, x_k.
    #[test]
    fn several_classes_are_measured_by_their_own_gains() {
        let n = 60;
        let rows: Vec<(Vec<u32>, Vec<f64>)> = (0..n)
            .map(|s| match s {
                7 | 50 => (vec![s], vec![1.0]),
                _ => (vec![(s + n - 1) % n, (s + 1) % n], vec![0.5, 0.5]),
            })
            .collect();
        let graph = Graph::symmetric(n as usize, |s| &rows[s].0);
        let plan = Plan::new(&graph, usize::MAX).unwrap();
        let row = |s: usize| (&rows[s].0[..], &rows[s].1[..]);
        let elimination = Elimination::new(&plan, row, 30, &mut Workspace::default());
        let reward = |s: usize| if s == 7 { 0.5 } else { 0.3 };
        let evaluation = elimination.evaluate(row, |s| lanes(&[reward(s)], 0));
        let others: Vec<Class> = evaluation
            .others
            .iter()
            .map(|(root, gain)| Class { root: *root, values: vec![gain[0]] })
            .collect();
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
        assert!(v[20] == f64::NEG_INFINITY, "it is not known where this ends");
        evaluated.turn_to(others, reach);
        evaluated.bias(&[1.0], 0.0, &worth, &mut v);
        assert!((v[7] - 3.0).abs() < 1e-12 && (v[50] + 2.0).abs() < 1e-12);
        // Between the traps, away from the pinned state: i steps from 50 on the way of 17 to 7, a fair game of i/17 that takes i (17 − i)
        // steps, each of which pays .3.
        for i in 1..17 {
            let (s, p) = ((50 + i) % 60, i as f64 / 17.0);
            let expected =
                (i * (17 - i)) as f64 * (0.3 - 0.5 * p - 0.3 * (1.0 - p)) + 3.0 * p - 2.0 * (1.0 - p);
            assert!((v[s] - expected).abs() < 1e-11, "{s}: {} {expected}", v[s]);
        }
    }
}
