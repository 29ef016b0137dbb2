//! Column generation (Dantzig & Wolfe 1960; Gilmore & Gomory 1961).
//!
//! The [`Master`] program mixes the value vectors of known deterministic policies, its columns. Its
//! multipliers λ, moderated by the [`LevelMethod`], go to a [`PricingOracle`], whose policy is the next
//! column. The loops themselves are in [`solve`](crate::solve).

mod level;
mod master;

use acrl::Multipliers;
use acrl::mixture::{Game, Mixture};

use crate::pricing::{
    ColumnPolicy, ModifiedPolicyIteration, PolicyIteration, Priced, PricingOracle, Request,
    lagrangian_weights, priced_bounds,
};
use crate::tolerances::{
    BOUND_SHIFT, EVALUATION_RANGE, EVALUATION_SHARE, MIN_OBJECTIVE_SHARE, REEVALUATED_ERROR,
};
use crate::tuning::{OBJECTIVE_ROUNDS, OBJECTIVE_SHARE};
use crate::vector::dot;
use crate::{FiniteTask, SolveError, SolveOptions};

pub(crate) use level::LevelMethod;
pub(crate) use master::Master;

/// State of a column generation: the columns, and the oracle that brings more.
pub(crate) struct ColumnGeneration<'t, 'm> {
    pub(crate) task: &'t FiniteTask<'m>,
    oracle: Box<dyn PricingOracle + 't>,
    pub(crate) master: Master,
    /// Number of pricing rounds so far.
    pub(crate) rounds: usize,
    /// Precision to which the Lagrangian of a policy is needed.
    precision: f64,
}

/// Outcome of a pricing round.
pub(crate) struct Round {
    /// Upper bound on the priced quantity over all policies.
    pub(crate) bound: f64,
    /// Whether further rounds may bring new columns or closer bounds.
    pub(crate) more: bool,
}

impl<'t, 'm> ColumnGeneration<'t, 'm> {
    /// Starts with the best policy for the objective and for each requirement alone; in a large model
    /// with the first policy of modified policy iteration.
    pub(crate) fn new(task: &'t FiniteTask<'m>, options: &SolveOptions) -> Result<Self, SolveError> {
        let large = task.end_component().filter(|component| component.len() > options.small);
        let oracle: Box<dyn PricingOracle + 't> = match large {
            Some(component) => Box::new(ModifiedPolicyIteration::new(component)),
            None => Box::new(PolicyIteration::new(task)),
        };
        let precision = EVALUATION_SHARE * options.gap * MIN_OBJECTIVE_SHARE * task.objective_scale();
        let mut this = Self { task, oracle, master: Master::default(), rounds: 0, precision };
        if large.is_some() {
            this.price(&vec![1.0; task.len() + 1], f64::INFINITY)?;
            return Ok(this);
        }
        for i in 0..=task.len() {
            let mut weights = vec![0.0; task.len() + 1];
            weights[i] = 1.0;
            this.price(&weights, f64::INFINITY)?;
        }
        Ok(this)
    }

    /// Continues, with the same columns, at a task that differs in its bounds only.
    pub(crate) fn turn_to(&mut self, task: &'t FiniteTask<'m>) {
        (self.task, self.rounds) = (task, 0);
        self.oracle.restart();
    }

    /// Sets the precision that a relative gap on this scale needs.
    pub(crate) fn set_precision(&mut self, gap: f64, scale: f64) {
        self.precision = EVALUATION_SHARE * gap * scale;
    }

    /// Whether the oracle's policies may be worth less than its bounds.
    pub(crate) fn is_approximate(&self) -> bool {
        self.oracle.is_approximate()
    }

    /// One round at `weights`: an upper bound on Σ w_i V_i, and perhaps a new column. `distance` is that
    /// between the bounds on the answer.
    pub(crate) fn price(&mut self, weights: &[f64], distance: f64) -> Result<Round, SolveError> {
        self.rounds += 1;
        let request = Request { weights, distance, precision: self.precision };
        let Priced { bound, column } = self.oracle.price(self.task, &request)?;
        // A policy in between may be missing, but not the first.
        if column.is_none() && self.master.columns.is_empty() {
            return Err(SolveError::TooLarge { states: self.task.model().states() });
        }
        let new = column.is_some_and(|column| self.master.add(self.task, column));
        Ok(Round { bound, more: self.oracle.record(new) })
    }

    /// One round of the feasibility game: its value over the columns, and an upper bound over all
    /// policies. `upper` is the smallest upper bound so far.
    pub(crate) fn price_game(&mut self, upper: f64) -> Result<(Game, Round), SolveError> {
        let task = self.task;
        let game = self.master.game(task).ok_or(SolveError::Rounds(self.rounds))?;
        let mut weights = vec![0.0];
        weights.extend_from_slice(&game.prices);
        let with_objective = self.is_approximate() && task.has_objective() && self.rounds <= OBJECTIVE_ROUNDS;
        if with_objective {
            weights[0] = OBJECTIVE_SHARE * dot(&game.prices, task.scales()) / task.objective_scale();
        }
        let Round { bound, more } = self.price(&weights, upper - game.value)?;
        // A bound on objective and requirements together is none on the requirements.
        let bound = if with_objective { f64::INFINITY } else { bound };
        let bound = bound - dot(&game.prices, task.bounds());
        Ok((game, Round { bound, more }))
    }

    /// Multipliers at which to price next: those of the master program, or a point of the level method
    /// on the way there.
    pub(crate) fn next_multipliers(
        &self,
        best: &Mixture,
        level: &mut LevelMethod,
        upper: f64,
    ) -> Result<Multipliers, SolveError> {
        let size = best.value.abs().max(upper.abs()).max(MIN_OBJECTIVE_SHARE * self.task.objective_scale());
        // (At first there is no upper bound.)
        let far = upper.is_infinite() || upper - best.value > size;
        match self.oracle.level_share(far) {
            Some(share) => Ok(level.next(self.task, &self.master.columns, best, share)?),
            None => Ok(Multipliers::new(best.multipliers.clone())?),
        }
    }

    /// Re-evaluates the policies of a mixture whose values are not known well enough; returns whether
    /// any values improved.
    pub(crate) fn reevaluate(&mut self, mixture: &[f64], weights: &[f64]) -> bool {
        let task = self.task;
        let precision = (self.precision / task.weighted_range(weights)).max(EVALUATION_RANGE.0);
        let mut improved = false;
        let used = self.master.columns.iter_mut().zip(mixture).filter(|(_, p)| **p > 0.0);
        for (column, _) in used {
            let imprecise = |(e, range): (&f64, &f64)| *e > precision * range;
            // With several recurrent classes the evaluation might choose another one.
            if let ColumnPolicy::Component(policy) = &column.policy
                && !policy.has_several_classes()
                && column.errors.iter().zip(task.ranges()).any(imprecise)
                && let Some((values, errors)) = self.oracle.reevaluate(task, policy, weights, precision)
                && errors.iter().zip(&column.errors).any(|(new, old)| *new < REEVALUATED_ERROR * old)
            {
                (column.values, column.errors, improved) = (values, errors, true);
            }
        }
        improved
    }

    /// Switches from exact pricing to modified policy iteration: where a model nearly falls into several
    /// components, elimination without subtractions closes gaps that LU factorisation leaves. Returns
    /// whether that was still to be tried.
    pub(crate) fn switch_oracle(&mut self) -> bool {
        match self.task.end_component() {
            Some(component) if !self.is_approximate() => {
                self.oracle = Box::new(ModifiedPolicyIteration::new(component));
                true
            }
            _ => false,
        }
    }

    /// Least and largest optimal value of each multiplier: the slopes of the optimum in each bound, to
    /// either side.
    pub(crate) fn multiplier_ranges(
        &mut self,
        best: &Mixture,
        upper: f64,
        options: &SolveOptions,
    ) -> Result<Vec<(f64, f64)>, SolveError> {
        let task = self.task;
        let tolerance = options.gap * upper.abs().max(MIN_OBJECTIVE_SHARE * task.objective_scale());
        let mut ranges = Vec::with_capacity(task.len());
        for i in 0..task.len() {
            let mut ends = [best.multipliers[i]; 2];
            for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
                let mut bounds = task.bounds().to_vec();
                bounds[i] += sign * BOUND_SHIFT * task.scales()[i];
                // New columns can only pull the end in; each round adds one or ends.
                loop {
                    let Some(moved) = self.master.best_mixture_within(&bounds) else {
                        *end = f64::INFINITY;
                        break;
                    };
                    let multipliers = Multipliers::new(moved.multipliers)?;
                    let round = self.price(&lagrangian_weights(task, &multipliers), tolerance)?;
                    let bound = round.bound - priced_bounds(task, &multipliers);
                    if bound <= upper + tolerance || !round.more {
                        *end = multipliers.as_slice()[i];
                        break;
                    }
                }
            }
            ranges.push((ends[0].min(best.multipliers[i]), ends[1].max(best.multipliers[i])));
        }
        Ok(ranges)
    }
}
