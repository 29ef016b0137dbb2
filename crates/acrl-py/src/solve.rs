//! The exact answer to a finite problem.

use acrl_cli::Solved;
use acrl_exact::Answer;
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;

use crate::errors::InputError;
use crate::verbs::{Report, What};
use crate::vocabulary::{Objective, Requirement};
use crate::work::interruptible;

/// The action in each state.
type Rule<'py> = Bound<'py, PyArray1<i64>>;

/// Solves a finite problem: the object of `acrl solve --json`, the rule of each policy of its mixture, and the page.
#[pyfunction]
#[pyo3(signature = (model, name, command, objective, requirements, gap))]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    model: What<'py>,
    name: &str,
    command: &str,
    objective: Option<Bound<'py, Objective>>,
    requirements: Vec<Bound<'py, Requirement>>,
    gap: f64,
) -> PyResult<(String, Vec<Rule<'py>>, Report)> {
    if !(gap > 0.0 && gap < 1.0) {
        return Err(InputError::new_err(format!("the gap is {gap}, expected a number above 0 and below 1")));
    }
    let columns = match &model {
        What::Model(model) => model.get().columns,
        What::Path(path) => path.extension().is_some_and(|e| e == "npz"),
    };
    let opened = model.open(py, name, objective, &requirements)?;
    let (json, solved) = interruptible(py, |watch| {
        let solved = acrl_cli::solve(name, opened, gap, watch)?;
        Ok((serde_json::to_string(&solved)?, solved))
    })?;
    let rules = rules(&solved, columns);
    Ok((
        json,
        rules.iter().map(|rule| rule.to_pyarray(py)).collect(),
        Report::new(solved.page(name, command)),
    ))
}

/// The action in each state, by its number among the columns of the arrays, or among the state's own.
fn rules(solved: &Solved, columns: bool) -> Vec<Vec<i64>> {
    let Answer::Optimal(optimum) = solved.answer() else { return Vec::new() };
    let action = |(state, &action): (usize, &usize)| {
        let column = if columns { solved.model().action_numbers(state).nth(action) } else { None };
        column.unwrap_or(action) as i64
    };
    optimum.mixture.iter().map(|component| component.rule.iter().enumerate().map(action).collect()).collect()
}
