//! The exact answer to a finite problem.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use acrl::{FiniteCmdp, Specification, Values};
use acrl_envs::{Problem, Source, bundled};
use acrl_exact::{Answer, Conflict, FiniteTask, Optimum, SolveOptions, almost_sure, drn};
use numpy::ToPyArray as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{FileError, InputError, SolveError, file, input, told};
use crate::model::Model;
use crate::vocabulary::{Objective, Requirement};

/// Solves a finite problem: a `Model`, or the path of a problem or model file, or the name of a bundled problem. What
/// is required replaces what the file requires of the same reward and side, or is added to it. Everything in the
/// user's signs.
#[pyfunction]
#[pyo3(signature = (model, objective, requirements, gap))]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    objective: Option<Bound<'py, Objective>>,
    requirements: Vec<Bound<'py, Requirement>>,
    gap: f64,
) -> PyResult<Bound<'py, PyDict>> {
    if !(gap > 0.0 && gap < 1.0) {
        return Err(InputError::new_err(format!("the gap is {gap}, expected a number above 0 and below 1")));
    }
    let objective = objective.map(|o| o.get().0.clone());
    let requirements: Vec<acrl::Requirement> = requirements.iter().map(|r| r.get().0.clone()).collect();
    let mut loaded = None;
    let (finite, columns, base) = match model.cast::<Model>() {
        Ok(model) => {
            let model = model.get();
            (&model.model, Some(&model.actions), Specification::default())
        }
        Err(_) => {
            let path: PathBuf = model.extract()?;
            let (model, specification) = py.detach(|| open(&path))?;
            (&*loaded.insert(model), None, specification)
        }
    };
    let mut specification = base;
    if objective.is_some() {
        specification = specification.with_objective(objective);
    }
    for requirement in requirements {
        specification = specification.require(requirement).map_err(input)?;
    }
    if specification.objective().is_none() && specification.requirements().is_empty() {
        let names = finite.reward_names().join(", ");
        let text = format!("nothing to achieve: give an objective or requirements; the rewards are {names}");
        return Err(InputError::new_err(text));
    }
    let answered = py.detach(|| answer(finite, &specification, gap))?;
    let context = Telling { py, specification: &specification, model: finite, columns };
    context.answer(&answered)
}

/// A finite model and what is required of it.
fn open(path: &Path) -> PyResult<(FiniteCmdp, Specification)> {
    let name = path.to_string_lossy();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let refuse = |text: String| Err(FileError::new_err(format!("{name}: {text}")));
    if let Some(problem) = bundled().iter().find(|b| b.name == name).filter(|_| !path.exists()) {
        return parse(problem.text, path);
    }
    match extension {
        _ if !path.exists() => {
            let names: Vec<&str> = bundled().iter().map(|b| b.name).collect();
            refuse(format!(
                "no such file, and no bundled problem of that name; those are {}",
                names.join(", ")
            ))
        }
        "toml" => parse(&std::fs::read_to_string(path).map_err(|error| file(path, error))?, path),
        "drn" => Ok((read_model(path)?, Specification::default())),
        _ => refuse("expected a problem (.toml) or a model (.drn)".to_owned()),
    }
}

fn parse(text: &str, path: &Path) -> PyResult<(FiniteCmdp, Specification)> {
    let problem = Problem::parse(text).map_err(|error| file(path, error))?;
    let model = match problem.source {
        Source::Model(model) => model,
        Source::File(name) => read_model(&path.parent().unwrap_or(Path::new("")).join(name))?,
        Source::Continuous(_) => {
            let text = format!("{} is continuous, expected a finite problem or model", path.display());
            return Err(InputError::new_err(text));
        }
    };
    Ok((model, problem.specification))
}

fn read_model(path: &Path) -> PyResult<FiniteCmdp> {
    let bytes = std::fs::read(path).map_err(|error| file(path, error))?;
    drn::read(&bytes).map_err(|error| file(path, error))
}

struct Answered {
    answer: Answer,
    almost_sure: Option<f64>,
    communicating: bool,
    seconds: f64,
}

/// Solves without the interpreter's lock, which is taken between rounds to look for an interruption.
fn answer(model: &FiniteCmdp, specification: &Specification, gap: f64) -> PyResult<Answered> {
    let start = Instant::now();
    let wrong = |error: acrl_exact::SolveError| SolveError::new_err(told(&error));
    let task = FiniteTask::new(model, specification).map_err(input)?;
    let options = SolveOptions { gap, ..SolveOptions::default() };
    let mut interrupted = None;
    let mut watch = |_: &acrl_exact::SolveRound| match Python::attach(|py| py.check_signals()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            interrupted = Some(error);
            ControlFlow::Break(())
        }
    };
    let solved = acrl_exact::solve(&task, &options, &mut watch);
    if let Some(error) = interrupted {
        return Err(error);
    }
    let answer = solved.map_err(wrong)?;
    let communicating = task.structure().is_communicating();
    let almost_sure = match &answer {
        Answer::Optimal(_) if !communicating => almost_sure(&task, &options).map_err(wrong)?.objective,
        Answer::Optimal(optimum) => Some(optimum.objective),
        Answer::Infeasible(_) => None,
    };
    Ok(Answered { answer, almost_sure, communicating, seconds: start.elapsed().as_secs_f64() })
}

/// From the signs of the paper to those of the user, by name.
struct Telling<'a, 'py> {
    py: Python<'py>,
    specification: &'a Specification,
    model: &'a FiniteCmdp,
    columns: Option<&'a Vec<usize>>,
}

impl<'py> Telling<'_, 'py> {
    fn answer(&self, answered: &Answered) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(self.py);
        let requirements = self.specification.requirements().iter().map(|r| Requirement(r.clone()));
        told.set_item("requirements", requirements.collect::<Vec<_>>())?;
        told.set_item("maximised", self.specification.objective().map(|o| Objective(o.clone())))?;
        told.set_item("states", self.model.states())?;
        told.set_item("choices", self.model.choice_count())?;
        told.set_item("communicating", answered.communicating)?;
        told.set_item("seconds", answered.seconds)?;
        match &answered.answer {
            Answer::Optimal(optimum) => self.optimum(&told, optimum, answered.almost_sure)?,
            Answer::Infeasible(conflict) => self.conflict(&told, conflict)?,
        }
        Ok(told)
    }

    fn optimum(&self, told: &Bound<'py, PyDict>, optimum: &Optimum, sure: Option<f64>) -> PyResult<()> {
        let objective = self.specification.objective();
        let sign = objective.map_or(1.0, acrl::Objective::sign);
        let signed = |value: f64| sign * value + 0.0; // adding 0 turns -0 into 0
        let (lower, upper) = (signed(optimum.lower), signed(optimum.upper));
        told.set_item("objective", objective.map(|_| signed(optimum.objective)))?;
        told.set_item("almost_sure", sure.filter(|_| objective.is_some()).map(signed))?;
        told.set_item("bounds", if sign > 0.0 { (lower, upper) } else { (upper, lower) })?;
        told.set_item("gap", optimum.gap)?;
        told.set_item("values", self.values(&optimum.values)?)?;
        told.set_item("multipliers", self.named(optimum.multipliers.as_slice())?)?;
        told.set_item("multiplier_ranges", self.named(&optimum.multiplier_ranges)?)?;
        let mut mixture = Vec::new();
        for component in &optimum.mixture {
            let rule: Vec<i64> = component.rule.iter().enumerate().map(|(s, &a)| self.action(s, a)).collect();
            mixture.push((component.weight, self.values(&component.values)?, rule.to_pyarray(self.py)));
        }
        told.set_item("mixture", mixture)
    }

    fn conflict(&self, told: &Bound<'py, PyDict>, conflict: &Conflict) -> PyResult<()> {
        told.set_item("conflict", &conflict.names)?;
        let relaxation = &conflict.relaxation;
        told.set_item("relax_uniform", Some(relaxation.uniform).filter(|u| u.is_finite()))?;
        told.set_item("relax_alone", self.named(&relaxation.alone)?)
    }

    /// The number of an action among the columns of the arrays, or among the state's own.
    fn action(&self, state: usize, action: usize) -> i64 {
        let column = self.columns.map_or(action, |columns| columns[self.model.choices(state).start + action]);
        column as i64
    }

    fn named<T: Copy + IntoPyObject<'py>>(&self, values: &[T]) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(self.py);
        for (name, value) in self.specification.names().into_iter().zip(values) {
            named.set_item(name, *value)?;
        }
        Ok(named)
    }

    fn values(&self, values: &Values) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(self.py);
        if let Some(objective) = self.specification.objective() {
            named.set_item(&objective.reward, objective.sign() * values.objective() + 0.0)?;
        }
        for (requirement, value) in self.specification.requirements().iter().zip(values.requirements()) {
            named.set_item(requirement.name(), requirement.sign() * value + 0.0)?;
        }
        Ok(named)
    }
}
