//! Exact solution of finite problems.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use acrl::Event;
use acrl_app::{Control, Error, SolveResult, SolveSettings, Sweep};
use acrl_exact::Solution;
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::errors::InputError;
use crate::specification::Requirement;
use crate::verbs::{Report, Request};
use crate::work::interruptible;

/// A deterministic policy: the action in each state.
type DeterministicPolicy<'py> = Bound<'py, PyArray1<i64>>;

/// A function of Python that is called with every round: its number, the bounds (or none), the gap (or none) and the seconds
/// so far. The solver stops if it returns False.
struct Callback<'a> {
    call: Option<&'a Py<PyAny>>,
    /// The exception that it raised.
    raised: &'a Mutex<Option<PyErr>>,
}

impl Callback<'_> {
    fn call(&self, event: &Event<'_>) -> ControlFlow<()> {
        let (Some(call), Event::Round { round, lower, upper, gap, seconds }) = (self.call, event) else {
            return ControlFlow::Continue(());
        };
        let stop = Python::attach(|py| -> PyResult<bool> {
            let answer = call.call1(py, (*round, *lower, *upper, *gap, *seconds))?;
            Ok(answer.bind(py).is(PyBool::new(py, false)))
        });
        match stop {
            Ok(false) => ControlFlow::Continue(()),
            Ok(true) => ControlFlow::Break(()),
            Err(error) => {
                if let Ok(mut raised) = self.raised.lock() {
                    raised.get_or_insert(error);
                }
                ControlFlow::Break(())
            }
        }
    }
}

/// The termination criteria: the relative gap, and seconds.
fn settings(gap: f64, time_limit: Option<f64>) -> PyResult<SolveSettings> {
    if !(gap > 0.0 && gap < 1.0) {
        return Err(InputError::new_err(format!("the gap is {gap}, expected a number above 0 and below 1")));
    }
    let limit = |seconds: f64| {
        let wrong = || InputError::new_err(format!("the time limit is {seconds}, expected seconds above 0"));
        Some(seconds).filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(wrong)
    };
    Ok(SolveSettings { gap, time_limit: time_limit.map(limit).transpose()? })
}

/// Long work with a callback, whose exceptions take precedence.
fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&Control, &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let raised = Mutex::new(None);
    let callback = Callback { call: callback, raised: &raised };
    let done = interruptible(py, |watch| work(watch, &mut |event: &Event<'_>| callback.call(event)));
    match raised.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => done,
    }
}

/// Solves a finite problem: the object of `acrl solve --json`, the policies of its mixture, and the page. Writes the policy if
/// a path is given.
#[pyfunction]
#[pyo3(signature = (request, gap, time_limit, policy, callback))]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    request: Request<'py>,
    gap: f64,
    time_limit: Option<f64>,
    policy: Option<PathBuf>,
    callback: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<DeterministicPolicy<'py>>, Report)> {
    let settings = settings(gap, time_limit)?;
    let opened = request.open(py)?;
    let Request(_, name, command, ..) = request;
    let name = name.as_str();
    let (json, solved) = watched(py, callback.as_ref(), |watch, observer| {
        let solved = acrl_app::solve(name, opened, &settings, watch, observer)?;
        if let Some(path) = &policy {
            solved.save_policy(path)?;
        }
        Ok((serde_json::to_string(&solved)?, solved))
    })?;
    let policies = policies(&solved);
    let page = Report::new(solved.page(name, &command));
    Ok((json, policies.iter().map(|policy| policy.to_pyarray(py)).collect(), page))
}

/// Solves a finite problem for several bounds of one requirement: the object of `acrl solve --sweep --json`, and the page.
#[pyfunction]
#[pyo3(signature = (request, requirement, bounds, gap, time_limit, callback))]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    mut request: Request<'py>,
    requirement: Bound<'py, Requirement>,
    bounds: Vec<f64>,
    gap: f64,
    time_limit: Option<f64>,
    callback: Option<Py<PyAny>>,
) -> PyResult<(String, Report)> {
    let settings = settings(gap, time_limit)?;
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Err(InputError::new_err(format!("a bound is {bound}, expected finite numbers")));
    }
    if bounds.is_empty() {
        return Err(InputError::new_err("there are no bounds, expected at least one"));
    }
    let asked = Sweep { requirement: requirement.get().0.clone(), bounds };
    request.4.push(requirement);
    let opened = request.open(py)?;
    let (name, command) = (request.1.as_str(), request.2.as_str());
    watched(py, callback.as_ref(), |watch, observer| {
        let swept = acrl_app::sweep(name, opened, &asked, &settings, watch, observer)?;
        Ok((serde_json::to_string(&swept)?, Report::new(swept.page(name, command))))
    })
}

/// The action in each state: its column in arrays, or its index among the distinct names of actions.
fn policies(solved: &SolveResult) -> Vec<Vec<i64>> {
    let Solution::Optimal(optimum) = &solved.answer else { return Vec::new() };
    let action = |(state, &action): (usize, &usize)| {
        solved.model.action_numbers(state).nth(action).unwrap_or(action) as i64
    };
    optimum
        .mixture
        .iter()
        .map(|component| component.actions.iter().enumerate().map(action).collect())
        .collect()
}
