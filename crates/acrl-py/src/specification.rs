//! Requirements, objectives, weights.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use acrl::{Direction, Goal, Multipliers};
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{InputError, input};

/// "The long-run average of a reward is at least (or at most) a bound."
///
/// Made by `acrl.at_least` and `acrl.at_most`; never changes, so it can be a key, be compared and be pickled.
#[pyclass(frozen, eq, module = "acrl")]
#[derive(Clone, PartialEq)]
pub(crate) struct Requirement(pub(crate) acrl::Requirement);

#[pymethods]
impl Requirement {
    #[new]
    #[pyo3(signature = (name, bound, direction, reward=None))]
    fn new(name: &str, bound: f64, direction: &str, reward: Option<&str>) -> PyResult<Self> {
        let side = match direction {
            "at_least" => Direction::AtLeast,
            "at_most" => Direction::AtMost,
            _ => {
                let text = format!("the direction is '{direction}', expected 'at_least' or 'at_most'");
                return Err(InputError::new_err(text));
            }
        };
        if name.is_empty() || reward.is_some_and(str::is_empty) {
            return Err(InputError::new_err("the name of a requirement or reward is empty"));
        }
        let requirement = acrl::Requirement::new(reward.unwrap_or(name), side, bound).map_err(input)?;
        Ok(Self(requirement.named(name)))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The reward that it bounds.
    #[getter]
    fn reward(&self) -> &str {
        self.0.reward()
    }

    /// The bound on its long-run average.
    #[getter]
    fn bound(&self) -> f64 {
        self.0.bound()
    }

    /// "at_least" or "at_most".
    #[getter]
    fn direction(&self) -> &'static str {
        match self.0.direction() {
            Direction::AtLeast => "at_least",
            Direction::AtMost => "at_most",
        }
    }

    /// +1 for at_least, -1 for at_most: sign * reward >= sign * bound.
    #[getter]
    fn sign(&self) -> f64 {
        self.0.sign()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // 0 and -0 are equal, so they hash alike.
        let bound = (self.bound() + 0.0).to_bits();
        (self.name(), self.reward(), self.direction(), bound).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let quoted = |text: &str| PyString::new(py, text).repr().map(|text| text.to_string());
        let bound = self.bound().into_pyobject(py)?.repr()?.to_string();
        let reward = match self.reward() {
            reward if reward == self.name() => String::new(),
            reward => format!(", reward={}", quoted(reward)?),
        };
        Ok(format!("acrl.{}({}, {bound}{reward})", self.direction(), quoted(self.name())?))
    }

    fn __getnewargs__(&self) -> (&str, f64, &str, &str) {
        (self.name(), self.bound(), self.direction(), self.reward())
    }
}

/// The reward to maximise or to minimise. Made by `acrl.maximize` and `acrl.minimize`.
#[pyclass(frozen, eq, module = "acrl")]
#[derive(Clone, PartialEq)]
pub(crate) struct Objective(pub(crate) acrl::Objective);

#[pymethods]
impl Objective {
    #[new]
    fn new(reward: &str, goal: &str) -> PyResult<Self> {
        match goal {
            _ if reward.is_empty() => Err(InputError::new_err("the name of the objective's reward is empty")),
            "maximize" => Ok(Self(acrl::Objective::maximize(reward))),
            "minimize" => Ok(Self(acrl::Objective::minimize(reward))),
            _ => {
                let text = format!("the goal is '{goal}', expected 'maximize' or 'minimize'");
                Err(InputError::new_err(text))
            }
        }
    }

    /// The reward's name.
    #[getter]
    fn reward(&self) -> &str {
        &self.0.reward
    }

    /// "maximize" or "minimize".
    #[getter]
    fn goal(&self) -> &'static str {
        match self.0.goal {
            Goal::Maximize => "maximize",
            Goal::Minimize => "minimize",
        }
    }

    /// +1 if it is maximised, -1 if it is minimised.
    #[getter]
    fn sign(&self) -> f64 {
        self.0.sign()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.reward(), self.goal()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("acrl.{}({})", self.goal(), PyString::new(py, self.reward()).repr()?))
    }

    fn __getnewargs__(&self) -> (&str, &str) {
        (self.reward(), self.goal())
    }
}

/// The requirements, each with a name of its own: the two sides of a reward are told apart, and duplicates refused.
#[pyfunction]
pub(crate) fn named(requirements: Vec<Bound<'_, Requirement>>) -> PyResult<Vec<Requirement>> {
    let requirements = requirements.iter().map(|r| r.get().0.clone()).collect();
    let specification = acrl::Specification::new(None, requirements).map_err(input)?;
    Ok(specification.requirements().iter().map(|r| Requirement(r.clone())).collect())
}

/// The weights w0, w1 ... wm of the multipliers; w0 is 0 without an objective.
#[pyfunction]
pub(crate) fn weights<'py>(
    py: Python<'py>,
    multipliers: Vec<f64>,
    objective: bool,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    Ok(Multipliers::new(multipliers).map_err(input)?.weights(objective).to_pyarray(py))
}
