//! The verbs of the program as functions, and the program itself.

#[cfg(feature = "program")]
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use acrl_app::{CompareOptions, EpochOption, ExecutionOptions, Input, RunOptions};
use acrl_learn::Method;
use acrl_paper::ReproduceOptions;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{FileError, InputError, input, verb};
use crate::model::Model;
use crate::policy::{executor_option, init_multipliers_option};
use crate::specification::{Objective, Requirement};
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
            self.0.write(&folder).map_err(|error| FileError::new_err(crate::errors::with_causes(&error)))
        })
    }

    /// The page as one file that opens without a network.
    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_html())
    }

    /// From the result of `to_bytes`.
    #[staticmethod]
    fn from_bytes(content: &[u8]) -> PyResult<Self> {
        rmp_serde::from_slice(content).map(Self).map_err(input)
    }

    /// As MessagePack, which keeps numbers that are not finite.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let content = rmp_serde::to_vec_named(&self.0).map_err(input)?;
        Ok(PyBytes::new(py, &content))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (slf.get().to_bytes(slf.py())?,)))
    }
}

/// A `Model`, or the path of a file, or the name of a bundled problem.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    Model(Bound<'py, Model>),
    Path(PathBuf),
}

/// A problem with the user's objective and requirements: the arguments that all verbs share, as a tuple.
#[derive(FromPyObject)]
pub(crate) struct Request<'py>(
    pub(crate) Source<'py>,
    /// Its name in messages and on pages.
    pub(crate) String,
    /// The call of Python that repeats it.
    pub(crate) String,
    pub(crate) Option<Bound<'py, Objective>>,
    pub(crate) Vec<Bound<'py, Requirement>>,
);

impl Request<'_> {
    /// Reads the problem, and gives it the objective and the requirements.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Input> {
        let Self(source, name, _, objective, requirements) = self;
        let mut opened = match source {
            Source::Model(model) => Arc::clone(&model.get().model).into(),
            Source::Path(path) => {
                let path =
                    path.to_str().ok_or_else(|| FileError::new_err(format!("{path:?} is not UTF-8")))?;
                py.detach(|| Input::read(path))
                    .map_err(|error| FileError::new_err(crate::errors::with_causes(&error)))?
            }
        };
        let objective = objective.as_ref().map(|o| o.get().0.clone());
        let requirements: Vec<acrl::Requirement> = requirements.iter().map(|r| r.get().0.clone()).collect();
        opened.specify(name, objective, &requirements).map_err(|error| verb(&error))?;
        if let Some(rewards) = opened.unspecified() {
            let names = rewards.join(", ");
            let text =
                format!("nothing to achieve: give an objective or requirements; the rewards are {names}");
            return Err(InputError::new_err(text));
        }
        Ok(opened)
    }
}

/// Steps, runs, step size, epoch (0: automatic) and tolerance, where they are given.
pub(crate) type Settings = (Option<u64>, Option<u64>, Option<f64>, Option<u64>, Option<f64>);

pub(crate) fn execution((steps, runs, step_size, epoch, tolerance): Settings) -> ExecutionOptions {
    let epoch = epoch.map(|steps| if steps == 0 { EpochOption::Auto } else { EpochOption::Fixed(steps) });
    ExecutionOptions { steps, runs, step_size, epoch, tolerance }
}

/// Runs a finite problem or a trained policy: the object of `acrl run --json`, its snapshots, and the page.
#[pyfunction]
#[pyo3(signature = (request, settings, seed, init_multipliers, executor))]
pub(crate) fn run(
    py: Python<'_>,
    request: Request<'_>,
    settings: Settings,
    seed: Option<u64>,
    init_multipliers: Option<(&str, Vec<(String, f64)>)>,
    executor: Option<&str>,
) -> PyResult<(String, String, Report)> {
    let opened = request.open(py)?;
    let options = RunOptions {
        execution: execution(settings),
        seed,
        init_multipliers: init_multipliers.map(init_multipliers_option),
        executor: executor.map(executor_option).transpose()?,
        pictures: true,
    };
    let Request(_, name, command, ..) = &request;
    interruptible(py, |watch| {
        let run = acrl_app::run(name, opened, &options, watch)?;
        let snapshots = serde_json::to_string(run.snapshots())?;
        Ok((serde_json::to_string(&run)?, snapshots, Report::new(run.page(name, command))))
    })
}

/// Compares methods on a problem: the object of `acrl compare --json`, and the page.
#[pyfunction]
#[pyo3(signature = (request, settings, seed, train_steps, methods, train_seeds))]
pub(crate) fn compare(
    py: Python<'_>,
    request: Request<'_>,
    settings: Settings,
    seed: Option<u64>,
    train_steps: Option<u64>,
    methods: Vec<String>,
    train_seeds: Option<usize>,
) -> PyResult<(String, Report)> {
    let opened = request.open(py)?;
    let methods: Result<Vec<Method>, _> = methods.iter().map(|method| method.parse()).collect();
    let methods = methods.map_err(input)?;
    let execution = execution(settings);
    let options = CompareOptions { execution, seed, train_steps, methods, train_seeds };
    let Request(_, name, command, ..) = &request;
    interruptible(py, |watch| {
        let comparison = acrl_app::compare(name, opened, &options, watch)?;
        Ok((serde_json::to_string(&comparison)?, Report::new(comparison.page(name, command))))
    })
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(input)
}

/// Reproduces the paper into a folder: the object of `acrl reproduce --json`, and the page.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    out_dir: PathBuf,
    quick: bool,
    only: Vec<String>,
    seed: u64,
) -> PyResult<(String, Report)> {
    let options = ReproduceOptions { quick, only, out_dir, seed };
    let found = interruptible(py, |watch| acrl_paper::reproduce(&options, watch))?;
    Ok((json(&found)?, Report::new(found.page().clone())))
}

/// The program: the words of its command line, its name first; gives the exit status.
#[cfg(feature = "program")]
#[pyfunction]
pub(crate) fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| acrl_cli::main(words))
}
