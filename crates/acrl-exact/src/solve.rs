//! The optimum of a constrained finite problem, with certified bounds and the price of each requirement.
//!
//! Column generation: a small linear program mixes the value vectors of deterministic policies; its
//! multipliers λ go to the Lagrangian maximiser, whose policy is the next column. Every round gives
//! a lower bound (a mixture that meets the requirements) and an upper bound (the dual function).
//!
//! In small models and in those that fall into several end components the maximiser is exact, by policy iteration to the end;
//! in large ones it is approached while λ still moves (see the module `interleave`).

use std::ops::ControlFlow;

use acrl::mixture::{Mixture, best_mixture, game_value};
use acrl::{Error, Multipliers, Values};

use crate::interleave::{Column, Interleaved, Rule};
use crate::maximise::{constant, lagrangian_weights, maximise_from};
use crate::{Conflict, FiniteTask, Singular};

/// Slacks above this, in units of a reward's range, count as not negative.
pub(crate) const FEASIBLE: f64 = -1e-9;
/// Differences in values below this, in units of a reward's range, are rounding.
const ROUNDING: f64 = 1e-13;
/// Models with at most this many states are maximised exactly at every λ.
const SMALL: usize = 300;
/// While it is not known for so many rounds whether the requirements can be met, ...
const BOTH_ROUNDS: usize = 12;
/// ... the objective counts, too, by this share of what they do.
const BOTH_SHARE: f64 = 1e-4;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveOptions {
    /// Stop at this relative gap; default 1e-6.
    pub gap: f64,
    /// Stop after this many rounds; default 10,000.
    pub rounds: usize,
    /// A model with at most this many states is maximised exactly at every λ; default 300.
    pub small: usize,
}

impl Optimum {
    /// Whether no other multipliers are optimal, up to rounding.
    pub fn multipliers_are_unique(&self) -> bool {
        self.multiplier_ranges.iter().all(|(low, high)| high - low <= 1e-6 * (1.0 + low.abs()))
    }
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self { gap: 1e-6, rounds: 10_000, small: SMALL }
    }
}

/// Where a solve stands after a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveRound {
    /// The number of policies generated so far.
    pub round: usize,
    /// The largest proved lower bound on P*; none while no feasible mixture is known.
    pub lower: Option<f64>,
    /// The smallest proved upper bound on P*.
    pub upper: Option<f64>,
    /// The relative gap, once there are both.
    pub gap: Option<f64>,
}

impl SolveRound {
    fn without_bounds(round: usize) -> Self {
        Self { round, lower: None, upper: None, gap: None }
    }
}

/// The answer to a constrained problem.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The requirements can be met.
    Optimal(Optimum),
    /// They cannot.
    Infeasible(Conflict),
}

/// An optimum within certified bounds, in the signs of the paper (r₀ maximised, V_i ≥ c_i).
#[derive(Debug, Clone)]
pub struct Optimum {
    /// V₀ of the mixture.
    pub objective: f64,
    /// Proved: P* ≥ lower.
    pub lower: f64,
    /// Proved: P* ≤ upper.
    pub upper: f64,
    /// (upper − lower)/max(|lower|, |upper|, R₀/1000).
    pub gap: f64,
    /// V₀ … V_m of the mixture.
    pub values: Values,
    /// λ*: what one unit of each bound costs in the objective.
    pub multipliers: Multipliers,
    /// The least and the largest optimal value of each multiplier (infinite where the requirement
    /// cannot be tightened at all); they agree where λ* is unique.
    pub multiplier_ranges: Vec<(f64, f64)>,
    /// The deterministic Lagrangian maximisers that are mixed.
    pub mixture: Vec<Component>,
    /// The number of policies generated.
    pub rounds: usize,
}

/// A deterministic policy and the share of time spent on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// The share.
    pub weight: f64,
    /// V₀ … V_m.
    pub values: Values,
    /// The number of the action taken in each state.
    pub rule: Vec<usize>,
}

/// A solve that could not be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// A policy could not be evaluated.
    #[error(transparent)]
    Singular(#[from] Singular),
    /// A changed specification does not fit the model.
    #[error(transparent)]
    Specification(#[from] Error),
    /// The rounds ran out before a feasible mixture was found.
    #[error("no answer after {0} rounds: the requirements are too close to infeasible to tell")]
    Rounds(usize),
    /// Chains mix too slowly to be iterated, and to eliminate them takes more memory than is allowed.
    #[error(
        "the model is too large: its {states} states hang together so closely that evaluating a policy takes more than \
         2 GB, and change so slowly that it cannot be iterated"
    )]
    TooLarge {
        /// How many.
        states: usize,
    },
    /// An observer asked to stop before a feasible mixture was found.
    #[error("stopped before a policy that meets the requirements was found")]
    Stopped,
}

/// Solves a constrained problem; `observer` sees every round and may stop it.
pub fn solve(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Answer, SolveError> {
    let mut columns = Columns::new(task, options)?;
    match columns.find_feasible(options, observer)? {
        Feasibility::Feasible => columns.optimise(options, observer).map(Answer::Optimal),
        Feasibility::Infeasible { prices, deficit } => {
            Conflict::analyse(task, &prices, deficit, options, observer).map(Answer::Infeasible)
        }
    }
}

/// The optimum alone; `None` if the requirements cannot be met.
pub(crate) fn optimum_watched(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Option<Optimum>, SolveError> {
    let mut columns = Columns::new(task, options)?;
    match columns.find_feasible(options, observer)? {
        Feasibility::Feasible => columns.optimise(options, observer).map(Some),
        Feasibility::Infeasible { .. } => Ok(None),
    }
}

/// One point of a sweep.
#[derive(Debug, Clone)]
pub enum Swept {
    /// The requirements can be met.
    Optimal(Box<Optimum>),
    /// They cannot.
    Infeasible,
    /// They are too close to infeasible to tell, or the sweep was stopped before.
    Unknown,
}

/// Solves tasks that differ in their bounds only ([`FiniteTask::with`]), each at least as tight as the one before it and solved from
/// the policies that were found until then; so after one that cannot be met none can. `observer` sees every round of each, by
/// its number, and may stop it: what is not reached then is unknown.
pub fn sweep(
    tasks: &[FiniteTask<'_>],
    options: &SolveOptions,
    observer: &mut dyn FnMut(usize, &SolveRound) -> ControlFlow<()>,
) -> Result<Vec<Swept>, SolveError> {
    let Some(first) = tasks.first() else { return Ok(Vec::new()) };
    let mut columns = Columns::new(first, options)?;
    let (mut answers, mut stopped) = (Vec::new(), false);
    for (i, task) in tasks.iter().enumerate() {
        if stopped || matches!(answers.last(), Some(Swept::Infeasible)) {
            answers.push(if stopped { Swept::Unknown } else { Swept::Infeasible });
            continue;
        }
        columns.turn_to(task);
        let mut look = |round: &SolveRound| {
            let flow = observer(i, round);
            stopped |= flow.is_break();
            flow
        };
        let answer = match columns.find_feasible(options, &mut look) {
            Ok(Feasibility::Feasible) => {
                columns.optimise(options, &mut look).map(|o| Swept::Optimal(Box::new(o)))
            }
            Ok(Feasibility::Infeasible { .. }) => Ok(Swept::Infeasible),
            Err(error) => Err(error),
        };
        answers.push(match answer {
            Err(SolveError::Rounds(_) | SolveError::Stopped) => Swept::Unknown,
            answer => answer?,
        });
    }
    Ok(answers)
}

/// Proved: no policy's Σ w_i V_i exceeds this. It is as small as the gap lets one see, unless the observer stops it before.
pub(crate) fn highest(
    task: &FiniteTask<'_>,
    weights: &[f64],
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<f64, SolveError> {
    let mut columns = Columns::new(task, options)?;
    let scale: f64 = weights.iter().zip(task.ranges()).map(|(w, r)| (w * r).abs()).sum();
    let worth = |values: &Vec<f64>| values.iter().zip(weights).map(|(v, w)| v * w).sum::<f64>();
    let best = |columns: &Columns<'_, '_>| columns.values.iter().map(worth).fold(f64::NEG_INFINITY, f64::max);
    let mut upper = f64::INFINITY;
    loop {
        let Priced { bound, more } = columns.price(weights, upper - best(&columns))?;
        upper = upper.min(bound);
        let done = !more || upper - best(&columns) <= options.gap * scale || columns.rounds >= options.rounds;
        if done || observer(&SolveRound::without_bounds(columns.rounds)).is_break() {
            return Ok(upper);
        }
    }
}

/// Whether some policy meets the requirements.
pub fn feasible(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<bool, SolveError> {
    feasible_watched(task, options, &mut |_| ControlFlow::Continue(()))
}

/// The same, with an observer.
pub(crate) fn feasible_watched(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<bool, SolveError> {
    let verdict = Columns::new(task, options)?.find_feasible(options, observer)?;
    Ok(matches!(verdict, Feasibility::Feasible))
}

/// max_π min_i (V_i(π) − c_i)/R_i within bounds, and how it is attained.
#[derive(Debug, Clone)]
pub struct Slack {
    /// The slack of the mixture.
    pub lower: f64,
    /// Proved: no policy has more.
    pub upper: f64,
    /// The policies that are mixed.
    pub mixture: Vec<Component>,
    /// V₀ … V_m of the mixture.
    pub values: Values,
    /// y ≥ 0 with Σ y_i R_i = 1: the combination of requirements that is hardest to meet.
    pub prices: Vec<f64>,
}

/// The largest slack that all requirements can have together, each in units of its reward's range;
/// `None` without requirements. Positive, it is the Slater constant C of (A1).
pub fn most_slack(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<Option<Slack>, SolveError> {
    most_slack_watched(task, options, &mut |_| ControlFlow::Continue(()))
}

/// The same, with an observer: stopped, the bounds are further apart.
pub(crate) fn most_slack_watched(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Option<Slack>, SolveError> {
    if task.is_empty() {
        return Ok(None);
    }
    let mut columns = Columns::new(task, options)?;
    let mut upper = f64::INFINITY;
    loop {
        let (game, bound, more) = columns.game_round(upper)?;
        upper = upper.min(bound);
        let done = !more || upper - game.value <= options.gap * 1e-3 || columns.rounds >= options.rounds;
        if done || observer(&SolveRound::without_bounds(columns.rounds)).is_break() {
            let (mixture, values) = columns.mix(&game.weights)?;
            return Ok(Some(Slack { lower: game.value, upper, mixture, values, prices: game.prices }));
        }
    }
}

enum Feasibility {
    Feasible,
    /// No policy has y·(V − c) above the deficit, which is negative.
    Infeasible {
        prices: Vec<f64>,
        deficit: f64,
    },
}

/// The policies generated so far.
struct Columns<'t, 'm> {
    task: &'t FiniteTask<'m>,
    oracle: Oracle<'t>,
    values: Vec<Vec<f64>>,
    /// How far each value may be off, by the residual of its equations.
    errors: Vec<Vec<f64>>,
    rules: Vec<Rules>,
    rounds: usize,
    /// To what the Lagrangian of a policy needs to be known.
    enough: f64,
}

/// Where new policies come from.
enum Oracle<'t> {
    Exact,
    Interleaved(Box<Interleaved<'t>>),
}

enum Rules {
    /// The number of the action in each state of the model.
    Whole(Vec<usize>),
    /// Of the only end component.
    Part(Rule),
}

/// What became of a round.
struct Priced {
    /// No policy's Σ w_i V_i exceeds this.
    bound: f64,
    /// Whether there may be more to find.
    more: bool,
}

impl<'t, 'm> Columns<'t, 'm> {
    /// Starts with the best policy for the objective and for each requirement alone; in a large model with some policy.
    fn new(task: &'t FiniteTask<'m>, options: &SolveOptions) -> Result<Self, SolveError> {
        let large = task.part().filter(|part| part.len() > options.small);
        let oracle = match large {
            Some(part) => Oracle::Interleaved(Box::new(Interleaved::new(part))),
            None => Oracle::Exact,
        };
        let enough = 0.02 * options.gap * 1e-3 * task.objective_scale();
        let mut columns =
            Self { task, oracle, values: vec![], errors: vec![], rules: vec![], rounds: 0, enough };
        if large.is_some() {
            columns.price(&vec![1.0; task.len() + 1], f64::INFINITY)?;
        } else {
            for i in 0..=task.len() {
                let weights: Vec<f64> = (0..=task.len()).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
                columns.price(&weights, f64::INFINITY)?;
            }
        }
        Ok(columns)
    }

    /// Goes on with a task that differs in its bounds only.
    fn turn_to(&mut self, task: &'t FiniteTask<'m>) {
        (self.task, self.rounds) = (task, 0);
        if let Oracle::Interleaved(oracle) = &mut self.oracle {
            oracle.learnt(true);
        }
    }

    /// A round at `weights`: a bound and new columns. `distance` is how far apart the bounds on the answer are.
    fn price(&mut self, weights: &[f64], distance: f64) -> Result<Priced, SolveError> {
        self.rounds += 1;
        let task = self.task;
        match &mut self.oracle {
            Oracle::Exact => {
                let start = match self.rules.last() {
                    Some(Rules::Whole(rule)) => rule.clone(),
                    _ => vec![0; task.model().states()],
                };
                let maximiser = maximise_from(task, weights, start)?;
                let values = maximiser.values(task)?.as_slice().to_vec();
                let errors = if self.is_new(&values) { maximiser.errors(task) } else { Vec::new() };
                let bound = maximiser.upper_bound(task);
                let new = self.add(values, errors, Rules::Whole(maximiser.rule));
                Ok(Priced { bound, more: self.learnt(new) })
            }
            Oracle::Interleaved(oracle) => {
                let bound = oracle.improve(task, weights, distance);
                let scale: f64 = weights.iter().zip(task.ranges()).map(|(w, r)| (w * r).abs()).sum();
                // While the bounds on the optimum are far apart there is no need to know values well; where there are none yet,
                // it is requirements that matter.
                let coarse = weights[0] != 0.0 && distance.is_finite();
                let enough = if coarse { self.enough.max(0.05 * distance) / scale } else { 1e-10 };
                let column = oracle.column(task, weights, enough.clamp(1e-12, 1e-3));
                // One rule in between may well be missed, but not the first.
                if column.is_none() && self.values.is_empty() {
                    return Err(SolveError::TooLarge { states: task.model().states() });
                }
                let add = |c: Column| self.add(c.values, c.errors, Rules::Part(c.rule));
                let new = column.is_some_and(add);
                Ok(Priced { bound, more: self.learnt(new) })
            }
        }
    }

    /// Tells the oracle whether its column was new; whether there may be more to find.
    fn learnt(&mut self, new: bool) -> bool {
        match &mut self.oracle {
            Oracle::Exact => new,
            Oracle::Interleaved(oracle) => {
                oracle.learnt(new);
                !oracle.exhausted()
            }
        }
    }

    fn is_new(&self, values: &[f64]) -> bool {
        let same = |old: &Vec<f64>| {
            let close = |((a, b), r): ((&f64, &f64), &f64)| (a - b).abs() <= 1e-11 * r;
            old.iter().zip(values).zip(self.task.ranges()).all(close)
        };
        !self.values.iter().any(same)
    }

    /// Adds a column if it is new.
    fn add(&mut self, values: Vec<f64>, errors: Vec<f64>, rule: Rules) -> bool {
        // A value that is hardly known is of no use, and would upset the master program.
        let known = values.iter().all(|v| v.is_finite())
            && errors.iter().zip(self.task.ranges()).all(|(e, range)| *e <= 0.01 * range);
        let new = known && self.is_new(&values);
        if new {
            self.values.push(values);
            self.errors.push(errors);
            self.rules.push(rule);
        }
        new
    }

    /// What each column attains at least.
    fn sure(&self) -> Vec<Vec<f64>> {
        let least = |(values, errors): (&Vec<f64>, &Vec<f64>)| {
            values.iter().zip(errors).map(|(v, e)| v - e).collect::<Vec<f64>>()
        };
        self.values.iter().zip(&self.errors).map(least).collect()
    }

    /// One round on the game: its value over the columns, an upper bound over all policies, and
    /// whether there may be more to find. `upper` is the least upper bound so far.
    fn game_round(&mut self, upper: f64) -> Result<(acrl::mixture::Game, f64, bool), SolveError> {
        let task = self.task;
        let sure = self.sure();
        let requirements: Vec<&[f64]> = sure.iter().map(|v| &v[1..]).collect();
        let game =
            game_value(&requirements, task.bounds(), task.scales()).ok_or(SolveError::Rounds(self.rounds))?;
        let mut weights = vec![0.0];
        weights.extend_from_slice(&game.prices);
        // Where the objective counts for nothing at all, large models end up far from where it is good: in queues that are full.
        // A bound on more than the requirements is none on these.
        let large = matches!(self.oracle, Oracle::Interleaved(_));
        let both = large && task.has_objective() && self.rounds <= BOTH_ROUNDS;
        if both {
            let total: f64 = game.prices.iter().zip(&task.ranges()[1..]).map(|(y, r)| y * r).sum();
            weights[0] = BOTH_SHARE * total / task.objective_scale();
        }
        let Priced { bound, more } = self.price(&weights, upper - game.value)?;
        let bound = if both { f64::INFINITY } else { bound };
        let priced: f64 = game.prices.iter().zip(task.bounds()).map(|(y, c)| y * c).sum();
        Ok((game, bound - priced, more))
    }

    /// Generates columns until a mixture of them meets the requirements or it is proved that none does.
    fn find_feasible(
        &mut self,
        options: &SolveOptions,
        observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
    ) -> Result<Feasibility, SolveError> {
        let task = self.task;
        if task.is_empty() {
            return Ok(Feasibility::Feasible);
        }
        let mut upper = f64::INFINITY;
        loop {
            let (game, bound, more) = self.game_round(upper)?;
            upper = upper.min(bound);
            if bound < FEASIBLE {
                return Ok(Feasibility::Infeasible { prices: game.prices, deficit: bound });
            }
            // With nothing more to find, or hardly anything, the game is solved: its value is as good as 0.
            let solved = !more || upper - game.value < -FEASIBLE;
            if game.value >= 0.0 || solved && game.value >= FEASIBLE {
                return Ok(Feasibility::Feasible);
            }
            if !more || self.rounds >= options.rounds {
                return Err(SolveError::Rounds(self.rounds));
            }
            if observer(&SolveRound::without_bounds(self.rounds)).is_break() {
                return Err(SolveError::Stopped);
            }
        }
    }

    /// Closes the gap between the best mixture and the dual function.
    fn optimise(
        &mut self,
        options: &SolveOptions,
        observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
    ) -> Result<Optimum, SolveError> {
        let task = self.task;
        let mut upper = f64::INFINITY;
        // The multipliers that gave it.
        let mut dual: Option<Multipliers> = None;
        // Values are rounded: a bound that is met to the last digit must not fail by the one after it.
        let relaxed = |share: f64| -> Vec<f64> {
            task.bounds().iter().zip(task.scales()).map(|(c, r)| c - share * r).collect()
        };
        let (rounded, relaxed) = (relaxed(ROUNDING), relaxed(-2.0 * FEASIBLE));
        loop {
            let sure = self.sure();
            let best = best_mixture(&sure, &rounded)
                .or_else(|| best_mixture(&sure, &relaxed))
                .ok_or(SolveError::Rounds(self.rounds))?;
            let weights = lagrangian_weights(task, &Multipliers::new(best.multipliers.clone())?);
            let (bound, more) = if weights.iter().all(|w| *w == 0.0) {
                (0.0, false) // no objective, and no requirement has a price
            } else {
                let tried = self.try_at(&best.multipliers, &dual)?;
                let priced = self.price(&lagrangian_weights(task, &tried), upper - best.value)?;
                let bound = priced.bound - constant(task, &tried);
                if bound < upper || dual.is_none() {
                    dual = Some(tried);
                }
                (bound, priced.more)
            };
            upper = upper.min(bound);
            let multipliers = dual.clone().unwrap_or(Multipliers::new(best.multipliers.clone())?);
            let error = |errors: &Vec<f64>| errors.iter().zip(&weights).map(|(e, w)| e * w).sum::<f64>();
            let error: f64 = best.weights.iter().zip(&self.errors).map(|(p, e)| p * error(e)).sum();
            // What the rounded bounds give away, at its price, is not proved.
            let given: f64 =
                multipliers.as_slice().iter().zip(task.scales()).map(|(l, r)| l * ROUNDING * r).sum();
            let lower = best.value - given;
            let scale = lower.abs().max(upper.abs()).max(1e-3 * task.objective_scale());
            let gap = ((upper - lower) / scale).max(0.0);
            self.enough = 0.02 * options.gap * scale.min(task.objective_scale());
            // A large offset of the objective must not excuse a large error on its range.
            let close = upper - lower <= options.gap * scale.min(task.objective_scale());
            let round =
                SolveRound { round: self.rounds, lower: Some(lower), upper: Some(upper), gap: Some(gap) };
            let stop = observer(&round).is_break();
            // Values that are known too coarsely keep the bounds apart; and in the end all shall be known well.
            if !stop
                && (close || !more || error > 0.2 * (upper - lower))
                && self.refine(&best.weights, &weights)?
            {
                continue;
            }
            if !stop && !more && !close && self.change_oracle() {
                continue;
            }
            if stop || !more || close || self.rounds >= options.rounds {
                let (mixture, values) = self.mix(&best.weights)?;
                // In small models it costs little to look.
                let look = best.degenerate || matches!(self.oracle, Oracle::Exact);
                let own = multipliers.as_slice();
                let multiplier_ranges = if look && task.has_objective() && !stop {
                    let ranges = self.multiplier_ranges(&best, upper, options)?;
                    ranges.iter().zip(own).map(|(&(low, high), &l)| (low.min(l), high.max(l))).collect()
                } else {
                    own.iter().map(|&l| (l, l)).collect()
                };
                return Ok(Optimum {
                    objective: values.objective(),
                    lower,
                    upper: upper.max(lower),
                    gap,
                    values,
                    multipliers,
                    multiplier_ranges,
                    mixture,
                    rounds: self.rounds,
                });
            }
        }
    }

    /// Where exact maximisers leave a gap, because a model nearly falls into parts, elimination without subtractions may
    /// close it: whether that is still to be tried.
    fn change_oracle(&mut self) -> bool {
        match (&self.oracle, self.task.part()) {
            (Oracle::Exact, Some(part)) => {
                self.oracle = Oracle::Interleaved(Box::new(Interleaved::new(part)));
                true
            }
            _ => false,
        }
    }

    /// Where to price next: at the multipliers of the master program. These jump about as long as it knows few columns; so
    /// in models that mix fast only part of the way from the best ones so far, as long as that brings new columns.
    fn try_at(&self, master: &[f64], best: &Option<Multipliers>) -> Result<Multipliers, Error> {
        let stay = match (&self.oracle, best) {
            // Measured: 40 rounds instead of 60 on random models; on grids, which are eliminated, it costs rounds.
            (Oracle::Interleaved(oracle), Some(_)) if oracle.iterates() && oracle.learning() => 0.6,
            _ => 0.0,
        };
        let best = best.as_ref().map_or(master, Multipliers::as_slice);
        Multipliers::new(master.iter().zip(best).map(|(new, old)| stay * old + (1.0 - stay) * new).collect())
    }

    /// How far each multiplier can be moved without losing optimality: the slopes of the optimum in
    /// its bound to either side.
    fn multiplier_ranges(
        &mut self,
        best: &Mixture,
        upper: f64,
        options: &SolveOptions,
    ) -> Result<Vec<(f64, f64)>, SolveError> {
        let task = self.task;
        let tolerance = options.gap * upper.abs().max(1e-3 * task.objective_scale());
        let mut ranges = Vec::with_capacity(task.len());
        for i in 0..task.len() {
            let mut ends = [best.multipliers[i]; 2];
            for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
                let mut bounds = task.bounds().to_vec();
                bounds[i] += sign * 1e-6 * task.scales()[i];
                // New columns can only pull the end in; each round adds one or ends.
                loop {
                    let Some(moved) = best_mixture(&self.sure(), &bounds) else {
                        *end = f64::INFINITY;
                        break;
                    };
                    let multipliers = Multipliers::new(moved.multipliers)?;
                    let priced = self.price(&lagrangian_weights(task, &multipliers), tolerance)?;
                    let bound = priced.bound - constant(task, &multipliers);
                    if bound <= upper + tolerance || !priced.more {
                        *end = multipliers.as_slice()[i];
                        break;
                    }
                }
            }
            ranges.push((ends[0].min(best.multipliers[i]), ends[1].max(best.multipliers[i])));
        }
        Ok(ranges)
    }

    /// Evaluates the policies of a mixture better, where they are not yet known as well as they need to be; whether there
    /// were such.
    fn refine(&mut self, mixture: &[f64], weights: &[f64]) -> Result<bool, SolveError> {
        let Oracle::Interleaved(oracle) = &mut self.oracle else { return Ok(false) };
        let scale: f64 = weights.iter().zip(self.task.ranges()).map(|(w, r)| (w * r).abs()).sum();
        let enough = (self.enough / scale).max(1e-12);
        let mut refined = false;
        for (j, _) in mixture.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let coarse = |(e, range): (&f64, &f64)| *e > enough * range;
            // Of a rule with several classes another one might be meant.
            if let Rules::Part(rule) = &self.rules[j]
                && !rule.several()
                && self.errors[j].iter().zip(self.task.ranges()).any(coarse)
                && let Some((values, errors)) = oracle.refine(self.task, rule, weights, enough)
                && errors.iter().zip(&self.errors[j]).any(|(new, old)| *new < 0.5 * old)
            {
                (self.values[j], self.errors[j], refined) = (values, errors, true);
            }
        }
        Ok(refined)
    }

    /// The policies with positive weight, and the values of their mixture.
    fn mix(&self, weights: &[f64]) -> Result<(Vec<Component>, Values), SolveError> {
        let mut total = vec![0.0; self.task.len() + 1];
        let mut mixture = Vec::new();
        let kept: f64 = weights.iter().filter(|w| **w > 1e-12).sum();
        for (j, &weight) in weights.iter().enumerate().filter(|(_, w)| **w > 1e-12) {
            let weight = weight / kept;
            total.iter_mut().zip(&self.values[j]).for_each(|(t, v)| *t += weight * v);
            let values = Values::new(self.values[j].clone())?;
            let rule = match (&self.rules[j], &self.oracle) {
                (Rules::Part(rule), Oracle::Interleaved(oracle)) => rule.expand(self.task, oracle.part()),
                (Rules::Whole(rule), _) => rule.clone(),
                (Rules::Part(_), Oracle::Exact) => Vec::new(),
            };
            mixture.push(Component { weight, values, rule });
        }
        Ok((mixture, Values::new(total)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{all_rules, model};
    use acrl::{FiniteCmdp, Objective, Requirement, Specification};
    use proptest::prelude::*;

    fn quiet(task: &FiniteTask<'_>) -> Answer {
        solve(task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap()
    }

    proptest! {
        // 256 cases, or as many as PROPTEST_CASES asks for (`make check-slow`).
        #![proptest_config(ProptestConfig::default())]

        /// The set of attainable values is the hull of those of deterministic rules: so enumeration
        /// knows the answer, feasible or not, in both directions.
        #[test]
        fn column_generation_agrees_with_enumeration(
            seed: u64, c1 in 0.2..0.8f64, c2 in 0.2..0.8f64, minimize: bool, at_most: bool, interleaved: bool
        ) {
            let options =
                SolveOptions { small: if interleaved { 0 } else { SMALL }, ..SolveOptions::default() };
            let model = model(seed);
            let objective = if minimize { Objective::minimize("r0") } else { Objective::maximize("r0") };
            let second = if at_most { Requirement::at_most("r2", c2) } else { Requirement::at_least("r2", c2) };
            let specification = Specification::new(
                Some(objective), vec![Requirement::at_least("r1", c1).unwrap(), second.unwrap()]
            ).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            let values: Vec<Vec<f64>> =
                all_rules(&model).iter().map(|rule| task.values(rule).unwrap().as_slice().to_vec()).collect();
            let expected = best_mixture(&values, task.bounds());
            match solve(&task, &options, &mut |_| ControlFlow::Continue(())).unwrap() {
                Answer::Optimal(optimum) => {
                    let best = expected.expect("enumeration finds a feasible mixture too");
                    prop_assert!((optimum.objective - best.value).abs() < 1e-6, "{} {}", optimum.objective, best.value);
                    prop_assert!(optimum.lower <= best.value + 1e-9 && best.value <= optimum.upper + 1e-9);
                    prop_assert!(optimum.values.meets(task.bounds(), 1e-8));
                }
                Answer::Infeasible(conflict) => {
                    prop_assert!(expected.is_none());
                    let requirements: Vec<Vec<f64>> = values.iter().map(|v| v[1..].to_vec()).collect();
                    let game = game_value(&requirements, task.bounds(), task.in_model_units().scales()).unwrap();
                    prop_assert!((conflict.relaxation.uniform + game.value).abs() < 1e-5);
                    for v in &requirements {
                        let priced: f64 = (0..2).map(|i| conflict.certificate[i] * (v[i] - task.bounds()[i])).sum();
                        prop_assert!(priced < 0.0);
                    }
                    // Irreducible: without any one of the set the others can be met.
                    let set: Vec<usize> =
                        (0..2).filter(|i| conflict.names.contains(&specification.names()[*i])).collect();
                    prop_assert!(!feasible(&task.with(&specification.subset(&set)).unwrap(), &SolveOptions::default()).unwrap());
                    for i in &set {
                        let rest: Vec<usize> = set.iter().copied().filter(|j| j != i).collect();
                        prop_assert!(feasible(&task.with(&specification.subset(&rest)).unwrap(), &SolveOptions::default()).unwrap());
                    }
                }
            }
        }
    }

    /// Wherever the analysis of a conflict is stopped, what it says is proved.
    #[test]
    fn a_conflict_that_is_not_analysed_to_the_end_is_one_all_the_same() {
        let model = model(3);
        let values = |task: &FiniteTask<'_>| -> Vec<Vec<f64>> {
            all_rules(&model).iter().map(|rule| task.values(rule).unwrap().as_slice().to_vec()).collect()
        };
        let requirements = ["r1", "r2", "r0"].map(|r| Requirement::at_least(r, 0.95).unwrap()).to_vec();
        let specification = Specification::new(Some(Objective::maximize("r0")), requirements).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        let values = values(&task.in_model_units());
        let (mut partial, mut whole) = (0, 0);
        for small in [0, SMALL] {
            for rounds in 0..200 {
                let options = SolveOptions { small, ..SolveOptions::default() };
                let mut seen = 0;
                let answer = solve(&task, &options, &mut |_| {
                    seen += 1;
                    if seen > rounds { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                let conflict = match answer {
                    Err(SolveError::Stopped) => continue,
                    Ok(Answer::Infeasible(conflict)) => conflict,
                    other => panic!("{other:?}"),
                };
                *(if conflict.complete { &mut whole } else { &mut partial }) += 1;
                let asked: f64 =
                    conflict.certificate.iter().zip(task.in_model_units().bounds()).map(|(y, c)| y * c).sum();
                assert!(conflict.most < asked);
                for v in &values {
                    let priced: f64 = conflict.certificate.iter().zip(&v[1..]).map(|(y, v)| y * v).sum();
                    assert!(priced <= conflict.most + 1e-9, "{priced} {conflict:?}");
                }
                // What gives way is enough, though it may be more than is needed.
                let game: Vec<Vec<f64>> = values.iter().map(|v| v[1..].to_vec()).collect();
                let units = task.in_model_units();
                let best = game_value(&game, units.bounds(), units.scales()).unwrap();
                assert!(conflict.relaxation.uniform >= -best.value - 1e-9);
            }
        }
        assert!(partial > 0 && whole > 0, "{partial} {whole}");
    }

    #[test]
    fn degenerate_prices_come_with_their_range() {
        // One state that pays 1 and one that pays 0 and r1 = 1; c = 0 is on the edge of binding.
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        b.state("A");
        b.choice(0, "earn", &[(0, 1.0)], &[1.0, 0.0]);
        b.choice(0, "serve", &[(0, 1.0)], &[0.0, 1.0]);
        let model = b.build().unwrap();
        let at = |c: f64| {
            let requirement = Requirement::at_least("r1", c).unwrap();
            let specification =
                Specification::new(Some(Objective::maximize("r0")), vec![requirement]).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            match quiet(&task) {
                Answer::Optimal(optimum) => (optimum.multiplier_ranges[0], optimum.multipliers_are_unique()),
                Answer::Infeasible(_) => panic!("feasible"),
            }
        };
        let ((low, high), unique) = at(0.0);
        assert!(low.abs() < 1e-9 && (high - 1.0).abs() < 1e-9 && !unique, "{low} {high}");
        let ((low, high), unique) = at(0.5);
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9 && unique);
        assert!(at(1.0).0.1.is_infinite());
    }
}
