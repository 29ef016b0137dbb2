//! What the verbs of the program compute, and the program itself.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use acrl::Executor;
use acrl_cli::{CompareOptions, EpochArg, Execution, Input, ReproduceOptions, RunOptions, Start};
use acrl_learn::Method;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{FileError, InputError, input, verb};
use crate::model::Model;
use crate::vocabulary::{Objective, Requirement};
use crate::work::interruptible;

/// A page: text, tables and figures. It never changes.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Report(acrl_report::Report);

impl Report {
    pub(crate) fn new(report: acrl_report::Report) -> Self {
        Self(report)
    }
}

#[pymethods]
impl Report {
    /// Writes report.html, report.json, figures/ and data/ into a folder.
    fn write(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| {
            std::fs::create_dir_all(&folder)
                .map_err(|error| FileError::new_err(format!("{}: {error}", folder.display())))?;
            self.0.write(&folder).map_err(|error| FileError::new_err(crate::errors::told(&error)))
        })
    }

    /// The page as one file that opens without a network.
    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_html())
    }

    /// What `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(content: &[u8]) -> PyResult<Self> {
        rmp_serde::from_slice(content).map(Self).map_err(input)
    }

    /// All of it, such that numbers that are not finite are kept.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let content = rmp_serde::to_vec_named(&self.0).map_err(input)?;
        Ok(PyBytes::new(py, &content))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (slf.get().to_bytes(slf.py())?,)))
    }
}

/// What to work on: a `Model`, or a path or a bundled problem's name; with what is asked of it.
#[derive(FromPyObject)]
pub(crate) enum What<'py> {
    Model(Bound<'py, Model>),
    Path(PathBuf),
}

impl What<'_> {
    /// Reads it. `name` is what messages call it.
    pub(crate) fn open(
        self,
        py: Python<'_>,
        name: &str,
        objective: Option<Bound<'_, Objective>>,
        requirements: &[Bound<'_, Requirement>],
    ) -> PyResult<Input> {
        let mut opened = match self {
            Self::Model(model) => Arc::clone(&model.get().model).into(),
            Self::Path(path) => {
                let path =
                    path.to_str().ok_or_else(|| FileError::new_err(format!("{path:?} is not UTF-8")))?;
                py.detach(|| Input::read(path)).map_err(|error| FileError::new_err(format!("{error:#}")))?
            }
        };
        let objective = objective.map(|o| o.get().0.clone());
        let requirements: Vec<acrl::Requirement> = requirements.iter().map(|r| r.get().0.clone()).collect();
        opened.ask(name, objective, &requirements).map_err(|error| verb(&error))?;
        if let Some(rewards) = opened.asks_nothing() {
            let names = rewards.join(", ");
            let text =
                format!("nothing to achieve: give an objective or requirements; the rewards are {names}");
            return Err(InputError::new_err(text));
        }
        Ok(opened)
    }
}

/// Steps, runs, step size, epoch (0: to be found) and tolerance, as far as they are given.
type Settings = (Option<u64>, Option<u64>, Option<f64>, Option<u64>, Option<f64>);

fn execution((steps, runs, step_size, epoch, tolerance): Settings) -> Execution {
    let epoch = epoch.map(|steps| if steps == 0 { EpochArg::Auto } else { EpochArg::Fixed(steps) });
    Execution { steps, runs, step_size, epoch, tolerance }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(input)
}

/// Runs a finite problem or a trained policy: the object of `acrl run --json`, snapshots of its course, and the page.
#[pyfunction]
#[pyo3(signature = (what, name, command, objective, requirements, settings, seed, start, steering, mixture))]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(crate) fn run(
    py: Python<'_>,
    what: What<'_>,
    name: &str,
    command: &str,
    objective: Option<Bound<'_, Objective>>,
    requirements: Vec<Bound<'_, Requirement>>,
    settings: Settings,
    seed: Option<u64>,
    start: Option<Vec<(String, f64)>>,
    steering: Option<&str>,
    mixture: bool,
) -> PyResult<(String, String, Report)> {
    let opened = what.open(py, name, objective, &requirements)?;
    let steering = match steering {
        None => None,
        Some("policy") => Some(Executor::Policy),
        Some("library") => Some(Executor::Library),
        Some(other) => {
            let text = format!("the steering is '{other}', expected 'policy' or 'library'");
            return Err(InputError::new_err(text));
        }
    };
    let start = start.map(Start::Given);
    let options =
        RunOptions { execution: execution(settings), seed, start, steering, mixture, pictures: true };
    interruptible(py, |watch| {
        let run = acrl_cli::run(name, opened, &options, watch)?;
        let snapshots = serde_json::to_string(run.snapshots())?;
        Ok((serde_json::to_string(&run)?, snapshots, Report::new(run.page(name, command))))
    })
}

/// The page on runs of which the object of `acrl run --json` and snapshots are left.
#[pyfunction]
pub(crate) fn run_report(
    py: Python<'_>,
    data: &str,
    snapshots: &str,
    name: &str,
    command: &str,
) -> PyResult<Report> {
    py.detach(|| acrl_cli::page_of(data, snapshots, name, command))
        .map(Report::new)
        .map_err(|error| verb(&error))
}

/// Compares methods on a problem: the object of `acrl compare --json`, and the page.
#[pyfunction]
#[pyo3(signature = (what, name, command, objective, requirements, settings, seed, budget, methods, trainings))]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(crate) fn compare(
    py: Python<'_>,
    what: What<'_>,
    name: &str,
    command: &str,
    objective: Option<Bound<'_, Objective>>,
    requirements: Vec<Bound<'_, Requirement>>,
    settings: Settings,
    seed: Option<u64>,
    budget: Option<u64>,
    methods: Vec<String>,
    trainings: Option<usize>,
) -> PyResult<(String, Report)> {
    let opened = what.open(py, name, objective, &requirements)?;
    let methods: Result<Vec<Method>, _> = methods.iter().map(|method| method.parse()).collect();
    let methods = methods.map_err(input)?;
    let options = CompareOptions { execution: execution(settings), seed, budget, methods, trainings };
    interruptible(py, |watch| {
        let comparison = acrl_cli::compare(name, opened, &options, watch)?;
        Ok((serde_json::to_string(&comparison)?, Report::new(comparison.page(name, command))))
    })
}

/// Reproduces the paper into a folder: the object of `acrl reproduce --json`, and the page.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    folder: PathBuf,
    quick: bool,
    only: Vec<String>,
    seed: u64,
) -> PyResult<(String, Report)> {
    let options = ReproduceOptions { quick, only, folder, seed };
    let found = interruptible(py, |watch| acrl_cli::reproduce(&options, watch))?;
    Ok((json(&found)?, Report::new(found.page().clone())))
}

/// The program: the words of its command line, its name first; gives the exit status.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| acrl_cli::main(words))
}
