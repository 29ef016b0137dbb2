//! The policies that a solve has generated, and the rounds that generate more of them.

use std::ops::ControlFlow;

use acrl::mixture::{Game, Mixture, best_mixture, game_value};
use acrl::{Error, Multipliers, Values};

use crate::FiniteTask;
use crate::interleave::{Column, Interleaved, Rule};
use crate::level::{Cut, Level};
use crate::maximise::{constant, lagrangian_weights, maximise_from};
use crate::solve::{MixturePolicy, Optimum, SolveError, SolveOptions, SolveRound};

/// Slacks above this, in units of a reward's range, count as not negative.
pub(crate) const FEASIBLE: f64 = -1e-9;
/// Differences in values below this, in units of a reward's range, are rounding.
const ROUNDING: f64 = 1e-13;
/// To this share of the gap the Lagrangian of a policy needs to be known.
const ENOUGH: f64 = 0.02;
/// While it is not known for so many rounds whether the requirements can be met, ...
const BOTH_ROUNDS: usize = 12;
/// ... the objective counts, too, by this share of what they do.
const BOTH_SHARE: f64 = 1e-4;
/// How much of the way down the level method leaves; more where rules are evaluated by iteration, because there a round comes closer to the
/// dual function. (Rounds of random models of 1,000 to 30,000 states: 21 to 25 with .8, 34 to 51 with .4. Rounds of 6 plain grids and 8
/// with terrain, on average: 73 and 52 with .5, 69 and 60 with .3, 92 and 50 with .7, 91 and 80 without.)
const LEVEL: f64 = 0.5;
const LEVEL_FAST: f64 = 0.8;
/// The same as long as the bounds are further apart than they are large: then no λ tried so far is worth staying close to. (Rounds of three
/// queues of 22 with 12, 16, 20 and 40 sweeps: 30, 32, 28 and 28; without it 25, 30, 60 and 37. Of the plain grid of 300: 118 and 141.)
const LEVEL_FAR: f64 = 0.01;
/// The share of the gap that a price of time may cost.
const PATIENCE_SHARE: f64 = 0.4;

pub(crate) enum Feasibility {
    Feasible,
    /// No policy has y·(V − c) above the deficit, which is negative.
    Infeasible {
        prices: Vec<f64>,
        deficit: f64,
    },
}

/// The policies generated so far.
pub(crate) struct Columns<'t, 'm> {
    task: &'t FiniteTask<'m>,
    oracle: Oracle<'t>,
    pub(crate) values: Vec<Vec<f64>>,
    /// How far each value may be off, by the residual of its equations.
    errors: Vec<Vec<f64>>,
    rules: Vec<Rules>,
    pub(crate) rounds: usize,
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
pub(crate) struct Priced {
    /// No policy's Σ w_i V_i exceeds this.
    pub(crate) bound: f64,
    /// Whether there may be more to find.
    pub(crate) more: bool,
}

impl<'t, 'm> Columns<'t, 'm> {
    /// Starts with the best policy for the objective and for each requirement alone; in a large model with some policy.
    pub(crate) fn new(task: &'t FiniteTask<'m>, options: &SolveOptions) -> Result<Self, SolveError> {
        let large = task.part().filter(|part| part.len() > options.small);
        let oracle = match large {
            Some(part) => Oracle::Interleaved(Box::new(Interleaved::new(part))),
            None => Oracle::Exact,
        };
        let enough = ENOUGH * options.gap * 1e-3 * task.objective_scale();
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
    pub(crate) fn turn_to(&mut self, task: &'t FiniteTask<'m>) {
        (self.task, self.rounds) = (task, 0);
        if let Oracle::Interleaved(oracle) = &mut self.oracle {
            oracle.learnt(true);
        }
    }

    /// A round at `weights`: a bound and new columns. `distance` is how far apart the bounds on the answer are.
    pub(crate) fn price(&mut self, weights: &[f64], distance: f64) -> Result<Priced, SolveError> {
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
                // The objective's own gap, in units of the weights.
                let patience = PATIENCE_SHARE / ENOUGH * self.enough * weights[0];
                let scale: f64 = weights.iter().zip(task.ranges()).map(|(w, r)| (w * r).abs()).sum();
                // While the bounds on the optimum are far apart there is no need to know values well; where there are none yet,
                // it is requirements that matter.
                let coarse = weights[0] != 0.0 && distance.is_finite();
                let enough = if coarse { self.enough.max(0.05 * distance) / scale } else { 1e-10 };
                // All of a round in the pool: to go there for each of its parts costs a tenth of it.
                let (bound, column) = rayon::scope(|_| {
                    let bound = oracle.improve(task, weights, distance, patience);
                    (bound, oracle.column(task, weights, enough.clamp(1e-12, 1e-3)))
                });
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
    pub(crate) fn game_round(&mut self, upper: f64) -> Result<(Game, f64, bool), SolveError> {
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
    pub(crate) fn find_feasible(
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
    pub(crate) fn optimise(
        &mut self,
        options: &SolveOptions,
        observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
    ) -> Result<Optimum, SolveError> {
        let task = self.task;
        let mut upper = f64::INFINITY;
        // The multipliers that gave it.
        let mut dual: Option<Multipliers> = None;
        let mut level = Level::default();
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
                let tried = self.try_at(&best, &mut level, upper)?;
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
            self.enough = ENOUGH * options.gap * scale.min(task.objective_scale());
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
                    reached: gap <= options.gap,
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

    /// Where to price next: at the multipliers of the master program, or by the level method on the way there, as long as that brings
    /// new columns.
    fn try_at(&self, best: &Mixture, level: &mut Level, upper: f64) -> Result<Multipliers, Error> {
        let size = best.value.abs().max(upper.abs()).max(1e-3 * self.task.objective_scale());
        // (At first there is no upper bound.)
        let far = upper.is_infinite() || upper - best.value > size;
        let share = match &self.oracle {
            Oracle::Interleaved(oracle) if oracle.learning() && oracle.iterates() => LEVEL_FAST,
            Oracle::Interleaved(oracle) if oracle.learning() && far => LEVEL_FAR,
            Oracle::Interleaved(oracle) if oracle.learning() => LEVEL,
            _ => return Multipliers::new(best.multipliers.clone()),
        };
        let (scales, bounds) = (self.task.scales(), self.task.bounds());
        let cut = |values: &Vec<f64>| Cut {
            objective: values[0],
            slacks: values[1..].iter().zip(bounds).zip(scales).map(|((v, c), r)| (v - c) / r).collect(),
        };
        let cuts: Vec<Cut> = self.values.iter().map(cut).collect();
        let master: Vec<f64> = best.multipliers.iter().zip(scales).map(|(l, r)| l * r).collect();
        let point = level.next(&cuts, &master, best.value, share);
        level.note(point.clone());
        Multipliers::new(point.iter().zip(scales).map(|(x, r)| x / r).collect())
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
    pub(crate) fn mix(&self, weights: &[f64]) -> Result<(Vec<MixturePolicy>, Values), SolveError> {
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
            mixture.push(MixturePolicy { weight, values, rule });
        }
        Ok((mixture, Values::new(total)?))
    }
}
