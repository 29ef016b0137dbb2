//! Trained policies from files.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use acrl::{ActionPart, BatchPolicy as _, BatchTask, Rng, Rows, Steering};
use acrl_envs::{Continuous, Problem, Source};
use acrl_files::Container;
use acrl_learn::TrainedPolicy;
use numpy::{PyArray2, PyArrayMethods as _, PyReadonlyArray2, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{FileError, InputError, file, input, lock};
use crate::vocabulary::{Objective, Requirement};

/// A trained policy with everything that is needed to run it. Any thread may use it; calls wait for each other.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct PolicyFile {
    file: acrl_learn::PolicyFile,
    /// R0 ... Rm.
    scales: Vec<f64>,
    observation: Vec<(f64, f64)>,
    action: Vec<ActionPart>,
    spaces: Option<String>,
    acting: Mutex<Acting>,
}

struct Acting {
    /// Takes the likeliest action.
    mode: TrainedPolicy,
    /// Draws its actions as in training.
    drawing: TrainedPolicy,
    rng: Rng,
}

#[pymethods]
impl PolicyFile {
    /// Opens a file, and checks that it fits the problem that it embeds.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, seed: u64) -> PyResult<Self> {
        py.detach(|| Self::open(&path, seed))
    }

    /// From the bytes of such a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, content: &[u8], seed: u64) -> PyResult<Self> {
        py.detach(|| {
            let name = Path::new("the policy");
            Self::read(Container::from_bytes(content).map_err(|error| file(name, error))?, name, seed)
        })
    }

    /// Actions for a batch: a row of observations and a row of weights w0 ... wm each, which need not add up to 1.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
        weights: PyReadonlyArray2<'py, f64>,
        deterministic: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let seen = rows(&observations, self.observation.len(), "observations")?;
        let weights = rows(&weights, self.scales.len(), "weights")?;
        let lanes = seen.lanes();
        if weights.lanes() != lanes {
            let text = format!("there are {lanes} observations, but weights for {}", weights.lanes());
            return Err(InputError::new_err(text));
        }
        let actions = py.detach(|| {
            let mut actions = Rows::zeros(self.action.len(), lanes);
            let mut acting = lock(&self.acting);
            let draw = if deterministic { 0 } else { acting.rng.bits() };
            let mut rngs: Vec<Rng> = (0..lanes as u64).map(|lane| Rng::stream(draw, lane)).collect();
            let policy = if deterministic { &mut acting.mode } else { &mut acting.drawing };
            policy.act(&seen, &weights, &mut actions, &mut rngs).map(|()| actions)
        });
        let actions = actions.map_err(input)?;
        let flat: Vec<f64> = (0..lanes).flat_map(|lane| actions.lane(lane).collect::<Vec<_>>()).collect();
        flat.to_pyarray(py).reshape([lanes, self.action.len()])
    }

    /// The entry of the library that is best at the weights w0 ... wm, held for so many steps, and its weights.
    fn steer(&self, weights: Vec<f64>, entry: Option<usize>, steps: u64) -> Option<(usize, Vec<f64>)> {
        let library = &self.file.library;
        let entry = entry.filter(|j| *j < library.entries.len());
        let best = library.best(&weights, entry, steps)?;
        Some((best, library.entries.get(best)?.weights.clone()))
    }

    /// What it was trained for.
    #[getter]
    fn requirements(&self) -> Vec<Requirement> {
        self.file.specification.requirements().iter().map(|r| Requirement(r.clone())).collect()
    }

    /// What it was trained to improve, if anything.
    #[getter]
    fn objective(&self) -> Option<Objective> {
        self.file.specification.objective().map(|o| Objective(o.clone()))
    }

    /// The range of each number of an observation.
    #[getter]
    fn observation_space(&self) -> Vec<(f64, f64)> {
        self.observation.clone()
    }

    /// How Python writes observations and actions of the environment, if it is one of Python.
    #[getter]
    fn spaces(&self) -> Option<String> {
        self.spaces.clone()
    }

    /// The bytes of the file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.file.to_container().map_err(input)?.to_bytes().map_err(input)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The parts of an action: a number of choices, or a range.
    #[getter]
    fn action_space(&self) -> Vec<(Option<usize>, f64, f64)> {
        let part = |part: &ActionPart| match part {
            ActionPart::Choice(n) => (Some(*n), 0.0, n.saturating_sub(1) as f64),
            ActionPart::Number(range) => (None, range.low, range.high),
        };
        self.action.iter().map(part).collect()
    }

    /// Step size, epoch and steering with which to execute it.
    #[getter]
    fn advice(&self) -> (f64, u64, &'static str) {
        let advice = self.file.advice;
        let steering = match advice.steering {
            Steering::Policy => "policy",
            Steering::Library => "library",
        };
        (advice.step_size, advice.epoch, steering)
    }

    /// The range of the objective and those of the requirements' rewards.
    #[getter]
    fn scales(&self) -> Vec<f64> {
        self.scales.clone()
    }

    /// The multipliers to start with for these requirements, which are those it was trained for but for the bounds.
    fn start(&self, requirements: Vec<Bound<'_, Requirement>>) -> PyResult<Vec<f64>> {
        let m = self.scales.len() - 1;
        if requirements.len() != m {
            let text = format!("requirements: expected {m}, found {}", requirements.len());
            return Err(InputError::new_err(text));
        }
        let bounds: Vec<f64> = requirements.iter().map(|r| r.get().0.c()).collect();
        let objective = self.file.specification.objective().is_some();
        Ok(self.file.library.start(&bounds, &self.scales, objective))
    }

    /// The steps for which an action is held.
    #[getter]
    fn hold(&self) -> usize {
        self.file.policy.hold().max(1)
    }

    /// The learner, the method, the steps and the seed of its training.
    #[getter]
    fn training(&self) -> (String, String, u64, u64) {
        let training = &self.file.training;
        (training.learner.clone(), training.method.clone(), training.steps, training.seed)
    }
}

impl PolicyFile {
    fn open(path: &Path, seed: u64) -> PyResult<Self> {
        Self::read(Container::load(path).map_err(|error| file(path, error))?, path, seed)
    }

    /// From a container; `path` is what to call it in messages.
    fn read(container: Container, path: &Path, seed: u64) -> PyResult<Self> {
        let trained = acrl_learn::PolicyFile::from_container(container).map_err(|error| file(path, error))?;
        let problem = Problem::parse(&trained.problem).map_err(|error| file(path, error))?;
        let Source::Continuous(environment) = problem.source else {
            let text = format!("{}: the problem that it embeds is finite", path.display());
            return Err(FileError::new_err(text));
        };
        let spaces = match &environment {
            Continuous::External(external) => external.parameters().spaces.clone(),
            _ => None,
        };
        let environment = environment.batch();
        let task =
            BatchTask::new(environment, trained.specification.clone()).map_err(|error| file(path, error))?;
        trained.check(&task).map_err(|error| file(path, error))?;
        let acting = Acting {
            mode: drawing(&trained.policy, false),
            drawing: drawing(&trained.policy, true),
            rng: Rng::new(seed),
        };
        Ok(Self {
            scales: task.scales().to_vec(),
            observation: environment.observation_space().iter().map(|r| (r.low, r.high)).collect(),
            action: environment.action_space().to_vec(),
            spaces,
            acting: Mutex::new(acting),
            file: trained,
        })
    }
}

/// The policy, drawing its actions or not. One that takes turns between others stays as it is.
fn drawing(policy: &TrainedPolicy, drawing: bool) -> TrainedPolicy {
    match policy.clone() {
        TrainedPolicy::Mlp(policy) => TrainedPolicy::Mlp(Box::new(policy.sampling(drawing))),
        TrainedPolicy::Rbf(policy) => TrainedPolicy::Rbf(Box::new(policy.sampling(drawing))),
        other => other,
    }
}

/// A row of an array becomes a lane.
pub(crate) fn rows(array: &PyReadonlyArray2<'_, f64>, width: usize, what: &str) -> PyResult<Rows> {
    let view = array.as_array();
    let (lanes, found) = view.dim();
    if found != width {
        let text = format!("the {what} have {found} numbers each, expected {width}");
        return Err(InputError::new_err(text));
    }
    let mut rows = Rows::zeros(width, lanes);
    for ((lane, row), &value) in view.indexed_iter() {
        if !value.is_finite() {
            let text =
                format!("the {what} must be finite numbers, but number {row} of row {lane} is {value}");
            return Err(InputError::new_err(text));
        }
        rows.set(row, lane, value);
    }
    Ok(rows)
}
