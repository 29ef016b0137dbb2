//! Lagrangian maximisers of large end components, approached while the prices still move.
//!
//! Policy iteration to the end at every λ would be a waste: so a round does one step of it. From the bias of the last rule at
//! the new λ a few Gauss–Seidel sweeps of the Bellman operator lead to a value function v, whose greedy rule is the next
//! one. Its values are a column of the master program; and v, whatever it is, gives an upper bound: with ρ = r₀ + λ·r no policy's
//! Lagrangian exceeds max_{s,a} (ρ(s, a) + Σ p v − v(s)) − λ·c.

use rayon::prelude::*;

use crate::FiniteTask;
use crate::abreast::Abreast;
use crate::evaluate::{Class, Evaluated, Evaluator};
use crate::part::Part;
use crate::vectors::vectorised;

/// Sweeps of a round, alternately forth and back: √n/15 of them, but at least and at most so many. (Grids of 10,000 states take about
/// as many rounds with 10 as with 20, the plain one of 90,000 half as many again.)
const SWEEPS: (f64, f64) = (10.0, 20.0);
/// The same where chains mix fast.
const FAST_SWEEPS: usize = 8;
/// At first values are kept within this many times the rewards' range (or 100 for each state, if that is more), so that a part of the
/// model that a rule hardly ever leaves does not drown the rest.
const LIMIT: f64 = 1e6;
/// The price of time, as a share of the distance between the bounds.
const PATIENCE_PRICE: f64 = 1e-5;
/// Bounds are clearly closer when they are this much as far apart.
const CLOSER: f64 = 0.8;
/// Rounds without a new column or closer bounds after which there is nothing more to find.
const STALLED: usize = 60;

/// With at least this many states a sweep goes through the two halves beside each other, each with the other's values from before. (Rounds
/// of grids of 90,000 states with halves and without: 114 and 109, 172 and 209. Whether it pays there on two cores is not measured.)
const HALVES: usize = 1 << 18;
/// Choices and states are looked at in pieces of this many.
const CHUNK: usize = 1 << 14;

/// A rule's value vector.
pub(crate) struct Column {
    pub(crate) values: Vec<f64>,
    /// How far each value may be off.
    pub(crate) errors: Vec<f64>,
    pub(crate) rule: Rule,
}

/// A rule of a part, small; and a state of the class whose values are meant.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    actions: Actions,
    root: u32,
    /// Whether the rule may also end in another class.
    several: bool,
}

#[derive(Debug, Clone)]
enum Actions {
    Few(Vec<u8>),
    Many(Vec<u32>),
}

impl Rule {
    fn new(part: &Part, rule: &[u32], root: usize, several: bool) -> Self {
        let action = |s: usize| rule[s] - part.choices_of(s).start as u32;
        let few = (0..rule.len()).all(|s| action(s) < 256);
        let actions = if few {
            Actions::Few((0..rule.len()).map(|s| action(s) as u8).collect())
        } else {
            Actions::Many((0..rule.len()).map(action).collect())
        };
        Self { actions, root: root as u32, several }
    }

    /// Whether the rule may also end in another class.
    pub(crate) fn several(&self) -> bool {
        self.several
    }

    fn choice(&self, part: &Part, s: usize) -> usize {
        let action = match &self.actions {
            Actions::Few(actions) => usize::from(actions[s]),
            Actions::Many(actions) => actions[s] as usize,
        };
        part.choices_of(s).start + action
    }

    /// The rule for the whole model, by the numbers of actions; from every state it leads to the class that is meant.
    pub(crate) fn expand(&self, task: &FiniteTask<'_>, part: &Part) -> Vec<usize> {
        let model = task.model();
        let mut choices: Vec<usize> = (0..part.len()).map(|s| self.choice(part, s)).collect();
        if self.several {
            lead_to(part, &mut choices, self.root as usize);
        }
        // Outside of the only end component nothing lasts, whatever is done there.
        let mut rule = vec![0; model.states()];
        for (s, choice) in choices.into_iter().enumerate() {
            let state = part.state(s);
            rule[state] = part.choice(choice) - model.choices(state).start;
        }
        rule
    }
}

/// Changes a rule where it may end elsewhere than in the class of `root`: there it takes a step on a shortest way to where it
/// does not.
fn lead_to(part: &Part, choices: &mut [usize], root: usize) {
    let n = part.len();
    // The class itself: all that the rule reaches from the root.
    let mut home = vec![false; n];
    let mut work = vec![root];
    while let Some(s) = work.pop() {
        if !std::mem::replace(&mut home[s], true) {
            work.extend(part.transitions(choices[s]).0.iter().map(|&t| t as usize));
        }
    }
    // Who can step to whom, backwards.
    let mut first = vec![0usize; n + 1];
    for s in 0..n {
        part.successors(s).iter().for_each(|&t| first[t as usize + 1] += 1);
    }
    (0..n).for_each(|s| first[s + 1] += first[s]);
    let mut back = vec![0u32; first[n]];
    let mut next = first.clone();
    for s in 0..n {
        for &t in part.successors(s) {
            back[next[t as usize]] = s as u32;
            next[t as usize] += 1;
        }
    }
    let mut queue: Vec<usize> = (0..n).filter(|&s| home[s]).collect();
    let mut at = 0;
    while at < queue.len() {
        let t = queue[at];
        at += 1;
        for &s in &back[first[t]..first[t + 1]] {
            let s = s as usize;
            if !home[s] {
                home[s] = true;
                let leads = |c: &usize| part.transitions(*c).0.contains(&(t as u32));
                // The rule's own action, if it leads there too.
                let own = Some(choices[s]).filter(leads);
                if let Some(choice) = own.or_else(|| part.choices_of(s).find(leads)) {
                    choices[s] = choice;
                }
                queue.push(s);
            }
        }
    }
}

/// Rules and their columns, round by round.
pub(crate) struct Interleaved<'t> {
    part: &'t Part,
    evaluator: Evaluator,
    rule: Vec<u32>,
    evaluated: Option<Evaluated>,
    v: Vec<f64>,
    /// The values before a sweep.
    before: Vec<f64>,
    /// Σ w_i r_i of each choice.
    rho: Vec<f64>,
    /// The part once more, where that makes sweeps faster.
    abreast: Option<Abreast>,
    /// Whether the last round brought a new column.
    learning: bool,
    /// Rounds that brought neither a new column nor bounds that are clearly closer.
    stalled: usize,
    /// How far apart the bounds were when they last came closer.
    distance: f64,
    /// Values are kept within so many times the rewards' range.
    limit: f64,
    /// Where the second half of the states begins, if sweeps go in halves; else how many there are.
    half: usize,
}

impl<'t> Interleaved<'t> {
    pub(crate) fn new(part: &'t Part) -> Self {
        Self::in_halves(part, part.len() >= HALVES)
    }

    fn in_halves(part: &'t Part, halves: bool) -> Self {
        let half = if halves { part.len() / 2 } else { part.len() };
        Self {
            part,
            evaluator: Evaluator::new(),
            rule: (0..part.len()).map(|s| part.choices_of(s).start as u32).collect(),
            evaluated: None,
            v: vec![0.0; part.len()],
            before: Vec::new(),
            rho: vec![0.0; part.choice_count()],
            abreast: Abreast::new(part, half),
            learning: true,
            stalled: 0,
            distance: f64::INFINITY,
            limit: LIMIT.max(100.0 * part.len() as f64),
            half,
        }
    }

    pub(crate) fn part(&self) -> &'t Part {
        self.part
    }

    /// Whether chains mix so fast that rules are evaluated by iteration.
    pub(crate) fn iterates(&self) -> bool {
        self.evaluator.iterates()
    }

    /// Whether round after round brought nothing.
    pub(crate) fn exhausted(&self) -> bool {
        self.stalled >= STALLED
    }

    /// Whether the last round brought a new column.
    pub(crate) fn learning(&self) -> bool {
        self.learning
    }

    /// Tells whether the columns of the last round were new.
    pub(crate) fn learnt(&mut self, new: bool) {
        self.learning = new;
        self.stalled = if new { 0 } else { self.stalled + 1 };
        // Perhaps it does take that long to get from one part of the model to another.
        if self.stalled % 6 == 5 {
            self.limit *= 1e3;
        }
    }

    /// The column of the present rule, with values that are known to within `enough` of each reward's range; `None` if the
    /// rule cannot be evaluated.
    pub(crate) fn column(&mut self, task: &FiniteTask<'_>, weights: &[f64], enough: f64) -> Option<Column> {
        let part = self.part;
        let reward = |c: usize| task.rewards(part.choice(c));
        let enough: Vec<f64> = task.ranges().iter().map(|range| enough * range).collect();
        let evaluated = self.evaluator.evaluate(part, &self.rule, &reward, &enough, weights)?;
        let rule = Rule::new(part, &self.rule, evaluated.root, evaluated.several);
        let column = Column { values: evaluated.values.clone(), errors: evaluated.errors.clone(), rule };
        self.evaluated = Some(evaluated);
        Some(column)
    }

    /// Values of a rule that was met before, known to within `enough` of each reward's range, and their errors.
    pub(crate) fn refine(
        &mut self,
        task: &FiniteTask<'_>,
        rule: &Rule,
        weights: &[f64],
        enough: f64,
    ) -> Option<(Vec<f64>, Vec<f64>)> {
        let part = self.part;
        let reward = |c: usize| task.rewards(part.choice(c));
        let enough: Vec<f64> = task.ranges().iter().map(|range| enough * range).collect();
        let choices: Vec<u32> = (0..part.len()).map(|s| rule.choice(part, s) as u32).collect();
        let evaluated = self.evaluator.evaluate(part, &choices, &reward, &enough, weights)?;
        Some((evaluated.values, evaluated.errors))
    }

    /// Improves the rule for weights w₀ … w_m and returns an upper bound on Σ w_i V_i of every policy. `distance` is how far
    /// apart the bounds on the optimum are, and `patience` what a bound may be off.
    pub(crate) fn improve(
        &mut self,
        task: &FiniteTask<'_>,
        weights: &[f64],
        distance: f64,
        patience: f64,
    ) -> f64 {
        let part = self.part;
        let scale: f64 = weights.iter().zip(task.ranges()).map(|(w, r)| (w * r).abs()).sum();
        // (Further apart than before they are when another question is asked.)
        if !(CLOSER * self.distance..=self.distance).contains(&distance) {
            (self.distance, self.stalled) = (distance, 0);
        }
        self.rho.par_chunks_mut(CHUNK).enumerate().for_each(|(i, rho)| {
            for (c, rho) in (i * CHUNK..).zip(rho) {
                *rho = dot(task.rewards(part.choice(c)), weights);
            }
        });
        let Some(evaluated) = &self.evaluated else { return f64::INFINITY };
        let gain = match &evaluated.others[..] {
            [] => dot(&evaluated.values, weights),
            others => {
                others.iter().map(|class| dot(&class.values, weights)).fold(f64::NEG_INFINITY, f64::max)
            }
        };
        // Where two parts of the model are as good as each other it would be right to stay in either, and no rule would lead
        // from one to the other for ages. A small price of time decides for where the rule is at home.
        let price = (PATIENCE_PRICE * distance).max(patience).clamp(1e-13 * scale, 1e-3 * scale);
        // Classes are worth what they were before, less if they fall behind, but not more than where the rule was thought to be at home:
        // else all might go where they are better off for a while and worse ever after.
        let home = self.v[evaluated.root];
        let worth = |class: &Class| {
            let behind = (gain - dot(&class.values, weights)).max(0.0);
            (self.v[class.root] - home).min(0.0) - behind * part.len() as f64
        };
        let worth: Vec<f64> = evaluated.others.iter().map(worth).collect();
        evaluated.bias(weights, price, &worth, &mut self.v);
        // No better than that are the values known from which the rule is improved.
        let error: f64 = evaluated.errors.iter().zip(weights).map(|(e, w)| e * w.abs()).sum();
        let tie = (4.0 * error).clamp(1e-12 * scale, 1e-9 * scale);
        let limit = scale * self.limit;
        self.v.iter_mut().for_each(|v| *v = if v.is_nan() { -limit } else { v.clamp(-limit, limit) });
        // Rules that come round again and again: a step of plain policy iteration in between is never for the worse.
        let sweeps = match self.stalled {
            9.. if self.stalled % 2 == 1 => 0,
            _ if self.iterates() => FAST_SWEEPS,
            _ => ((part.len() as f64).sqrt() / 15.0).clamp(SWEEPS.0, SWEEPS.1) as usize,
        };
        if let Some(abreast) = &mut self.abreast {
            abreast.take(part, &self.rho, gain + price);
        }
        for sweep in 0..sweeps {
            self.sweep(gain + price, sweep % 2 == 1);
        }
        self.greedy(scale, tie)
    }

    /// One Gauss–Seidel sweep: v(s) ← max_a (ρ_a − g + Σ_{t ≠ s} p v(t))/(1 − p(s)).
    fn sweep(&mut self, gain: f64, backwards: bool) {
        let (part, rho, abreast) = (self.part, &self.rho, &self.abreast);
        let go = |first: usize, own: &mut [f64], before: &[f64]| {
            vectorised(
                #[inline(always)]
                || match abreast {
                    Some(abreast) => abreast.sweep(backwards, first, own, before),
                    None => sweep_range(part, rho, gain, backwards, first, own, before),
                },
            );
        };
        if self.half == part.len() {
            return go(0, &mut self.v, &[]);
        }
        self.before.clone_from(&self.v);
        let before = &self.before[..];
        let (lower, upper) = self.v.split_at_mut(self.half);
        rayon::join(|| go(0, lower, before), || go(self.half, upper, before));
    }

    /// Takes the rule that is greedy for v, keeping actions that tie, and returns max (ρ_a + Σ p v − v(s)).
    fn greedy(&mut self, scale: f64, tie: f64) -> f64 {
        let (part, v, rho) = (self.part, &self.v, &self.rho);
        let pieces = self.rule.par_chunks_mut(CHUNK).enumerate();
        let most = pieces.map(|(i, rule)| {
            vectorised(
                #[inline(always)]
                || greedy_range(part, rho, v, tie, i * CHUNK, rule),
            )
        });
        let (bound, size) =
            most.reduce(|| (f64::NEG_INFINITY, 0.0f64), |(bound, size), (b, s)| (bound.max(b), size.max(s)));
        // What rounding may have hidden.
        bound + 1e-15 * (scale + size)
    }
}

/// A sweep over the states from `first` on, whose values these are; those of others are in `before`.
#[inline(always)]
fn sweep_range(
    part: &Part,
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
        for c in part.choices_of(first + i) {
            let (targets, probabilities) = part.transitions(c);
            let mut x = rho[c] - gain;
            for (&t, p) in targets.iter().zip(probabilities) {
                let t = t as usize;
                x += p * match own.get(t.wrapping_sub(first)) {
                    Some(v) => *v,
                    None => before[t],
                };
            }
            // Where an action stays for good, a step counts as a step.
            let x = if targets.is_empty() { x + own[i] } else { x * part.steps(c) };
            best = if x > best { x } else { best };
        }
        own[i] = best;
    }
}

/// The greedy rule of the states from `first` on; max (ρ_a + Σ p v − v(s)) and max |v(s)| there.
#[inline(always)]
fn greedy_range(part: &Part, rho: &[f64], v: &[f64], tie: f64, first: usize, rule: &mut [u32]) -> (f64, f64) {
    let (mut bound, mut size) = (f64::NEG_INFINITY, 0.0f64);
    for (s, rule) in (first..).zip(rule) {
        let own = advance(part, rho, v, s, *rule as usize);
        let (mut best, mut choice) = (own + tie + 4e-16 * v[s].abs(), *rule);
        let mut most = own;
        for c in part.choices_of(s) {
            let x = advance(part, rho, v, s, c);
            most = most.max(x);
            if x > best {
                (best, choice) = (x, c as u32);
            }
        }
        *rule = choice;
        bound = bound.max(most);
        size = size.max(v[s].abs());
    }
    (bound, size)
}

/// ρ_a + Σ p v − v(s).
#[inline(always)]
fn advance(part: &Part, rho: &[f64], v: &[f64], s: usize, choice: usize) -> f64 {
    let (targets, probabilities) = part.transitions(choice);
    let mut rise = 0.0;
    for (&t, p) in targets.iter().zip(probabilities) {
        rise += p * (v[t as usize] - v[s]);
    }
    rho[choice] + rise
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use acrl::{FiniteCmdp, Objective, Rng, Specification};

    /// A ring of rooms in which one may go on, go back, or stay, with slips; what each pays is drawn.
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

    /// The gain of the rule, and the bound, round by round.
    fn rounds(model: &FiniteCmdp, halves: bool, threads: usize) -> Vec<(f64, f64)> {
        let specification = Specification::new(Some(Objective::maximize("r0")), vec![]).unwrap();
        let task = FiniteTask::new(model, &specification).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut oracle = Interleaved::in_halves(task.part().unwrap(), halves);
            let mut round = || {
                let bound = oracle.improve(&task, &[1.0], 1e-6, 0.0);
                (oracle.column(&task, &[1.0], 1e-12).unwrap().values[0], bound)
            };
            (0..40).map(|_| round()).collect()
        })
    }

    #[test]
    fn sweeps_in_halves_come_to_the_same_with_any_number_of_threads() {
        let model = ring(500);
        let (halved, whole) = (rounds(&model, true, 1), rounds(&model, false, 1));
        assert!(halved == rounds(&model, true, 3));
        assert!(halved != whole, "halves do something else on the way");
        for (gain, bound) in [halved[39], whole[39]] {
            assert!(
                (gain - whole[39].0).abs() < 1e-9 && bound >= gain && bound - gain < 1e-6,
                "{gain} {bound}"
            );
        }
        assert!(halved.iter().all(|(_, bound)| *bound >= whole[39].0 - 1e-12), "every bound is one");
    }
}
