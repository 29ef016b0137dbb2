//! Restricted master program: the best mixture of the columns that are known.

use acrl::Values;
use acrl::mixture::{Game, Mixture, best_mixture, game_value};

use crate::pricing::{Column, ColumnPolicy};
use crate::solution::MixturePolicy;
use crate::tolerances::{FEASIBILITY, MAX_COLUMN_ERROR, MIN_WEIGHT, SAME_VALUES, VALUE_ROUNDING};
use crate::vector::dot;
use crate::{FiniteTask, SolveError};

/// Columns generated so far.
#[derive(Default)]
pub(crate) struct Master {
    pub(crate) columns: Vec<Column>,
}

impl Master {
    /// Adds a column if its values are known well enough and differ from those of all others; returns
    /// whether it was added.
    pub(crate) fn add(&mut self, task: &FiniteTask<'_>, column: Column) -> bool {
        let known = column.values.iter().all(|v| v.is_finite())
            && column.errors.iter().zip(task.ranges()).all(|(e, range)| *e <= MAX_COLUMN_ERROR * range);
        let same = |old: &Column| {
            let close = |((a, b), r): ((&f64, &f64), &f64)| (a - b).abs() <= SAME_VALUES * r;
            old.values.iter().zip(&column.values).zip(task.ranges()).all(close)
        };
        let new = known && !self.columns.iter().any(same);
        if new {
            self.columns.push(column);
        }
        new
    }

    /// Mixture of largest V₀ that meets the bounds, by the certain values of the columns. Bounds are
    /// relaxed by rounding, and by the feasibility tolerance if they cannot be met otherwise.
    pub(crate) fn best_mixture(&self, task: &FiniteTask<'_>) -> Option<Mixture> {
        let relaxed = |share: f64| -> Vec<f64> {
            task.bounds().iter().zip(task.scales()).map(|(c, r)| c - share * r).collect()
        };
        self.best_mixture_within(&relaxed(VALUE_ROUNDING))
            .or_else(|| self.best_mixture_within(&relaxed(2.0 * FEASIBILITY)))
    }

    /// Mixture of largest V₀ that meets these bounds.
    pub(crate) fn best_mixture_within(&self, bounds: &[f64]) -> Option<Mixture> {
        best_mixture(&self.certain_values(), bounds)
    }

    /// Matrix game of the feasibility phase: the mixture of largest minimal slack, against the prices
    /// of the requirements that are hardest to meet.
    pub(crate) fn game(&self, task: &FiniteTask<'_>) -> Option<Game> {
        let values = self.certain_values();
        let requirements: Vec<&[f64]> = values.iter().map(|v| &v[1..]).collect();
        game_value(&requirements, task.bounds(), task.scales())
    }

    /// Values that each column attains at least.
    fn certain_values(&self) -> Vec<Vec<f64>> {
        let least = |column: &Column| column.values.iter().zip(&column.errors).map(|(v, e)| v - e).collect();
        self.columns.iter().map(least).collect()
    }

    /// Largest Σ w_i V_i of a column.
    pub(crate) fn best_value(&self, weights: &[f64]) -> f64 {
        self.columns.iter().map(|column| dot(&column.values, weights)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Error of the mixture's Lagrangian that the errors of its columns allow.
    pub(crate) fn error(&self, mixture: &[f64], weights: &[f64]) -> f64 {
        mixture.iter().zip(&self.columns).map(|(p, column)| p * dot(&column.errors, weights)).sum()
    }

    /// Policies with positive weight, and the values of their mixture.
    pub(crate) fn mix(
        &self,
        task: &FiniteTask<'_>,
        weights: &[f64],
    ) -> Result<(Vec<MixturePolicy>, Values), SolveError> {
        let mut total = vec![0.0; task.len() + 1];
        let mut mixture = Vec::new();
        let kept: f64 = weights.iter().filter(|w| **w > MIN_WEIGHT).sum();
        for (column, &weight) in self.columns.iter().zip(weights).filter(|(_, w)| **w > MIN_WEIGHT) {
            let weight = weight / kept;
            total.iter_mut().zip(&column.values).for_each(|(t, v)| *t += weight * v);
            let values = Values::new(column.values.clone())?;
            let actions = match (&column.policy, task.end_component()) {
                (ColumnPolicy::Model(actions), _) => actions.clone(),
                (ColumnPolicy::Component(policy), Some(component)) => policy.expand(task, component),
                (ColumnPolicy::Component(_), None) => Vec::new(),
            };
            mixture.push(MixturePolicy { weight, values, actions });
        }
        Ok((mixture, Values::new(total)?))
    }
}
