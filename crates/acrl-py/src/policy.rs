//! Trained policies and their files.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use acrl::{ActionPart, BatchMatrix, Executor, LibraryEntry, Rng, Specification, VecPolicy as _, VecTask};
use acrl_app::{ExecutorOption, InitMultipliers, PolicyProblem};
use acrl_envs::{Continuous, RunSettings};
use acrl_exact::Realisation;
use acrl_files::Container;
use acrl_learn::tabular::{TabularExecution, TabularExecutionOptions};
use acrl_learn::{ReboundError, TabularPolicy, TrainedPolicy};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::Floats;
use crate::errors::{InputError, UnknownNameError, file, input, lock};
use crate::specification::{Objective, Requirement};

/// A trained policy with everything that is needed to run it.
///
/// Any thread may use it: each takes an actor out of the pool for as long as it computes. The lock of the pool is taken
/// only by a thread that holds the interpreter's, so that a process that forks leaves it open.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct PolicyFile {
    pub(crate) problem: PolicyProblem,
    observation: Vec<(f64, f64)>,
    action: Vec<ActionPart>,
    acting: Mutex<Acting>,
}

struct Acting {
    /// Idle actors: those that sample, and those that take the mode.
    idle: [Vec<TrainedPolicy>; 2],
    rng: Rng,
}

/// Weights, averages, standard errors and steps of an entry of the policy library.
type LibraryRow = (Vec<f64>, Vec<f64>, Vec<f64>, u64);

/// Objective, price of the bound, and shares of time of the best mixture of library entries.
type TradeoffPoint = (f64, f64, Vec<f64>);

#[pymethods]
impl PolicyFile {
    /// Opens a file, and checks that it fits the problem that it embeds.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, seed: u64) -> PyResult<Self> {
        py.detach(|| Self::open(&path, seed))
    }

    /// From the content of a file, which `path` names in messages. `rng` is the state of its generator, if it is not the
    /// initial one.
    #[staticmethod]
    #[pyo3(signature = (content, path, rng=None, seed=0))]
    fn from_bytes(
        py: Python<'_>,
        content: &[u8],
        path: PathBuf,
        rng: Option<&str>,
        seed: u64,
    ) -> PyResult<Self> {
        let wrong = |error| InputError::new_err(format!("the generator's state cannot be read: {error}"));
        let rng = rng.map(serde_json::from_str).transpose().map_err(wrong)?.unwrap_or_else(|| Rng::new(seed));
        py.detach(|| {
            let container = Container::from_bytes(content).map_err(|error| file(&path, error))?;
            Self::from_container(container, &path, rng)
        })
    }

    /// The content of a file with this policy.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let container = self.file().to_container().map_err(input)?;
        Ok(PyBytes::new(py, &container.to_bytes().map_err(input)?))
    }

    /// State of the generator for sampled actions.
    #[getter]
    fn rng(&self) -> PyResult<String> {
        let wrong = |error| InputError::new_err(format!("the generator's state cannot be written: {error}"));
        serde_json::to_string(&lock(&self.acting).rng).map_err(wrong)
    }

    /// The action for an observation, or those for rows of them, with multipliers for all or a row for each; `None` if
    /// one of the two is no array of floats, and has to be made one first.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        observations: &Bound<'py, PyAny>,
        multipliers: &Bound<'py, PyAny>,
        deterministic: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(seen), Some(prices)) = (Floats::new(observations), Floats::new(multipliers)) else {
            return Ok(None);
        };
        let (observation, weights) = self.batch(&seen, &prices)?;
        let num_envs = observation.num_envs();
        let mut actions = BatchMatrix::zeros(self.action.len(), num_envs);
        let (mut policy, mut rngs) = {
            let mut acting = lock(&self.acting);
            let draw = if deterministic { 0 } else { acting.rng.bits() };
            let idle = acting.idle[usize::from(deterministic)].pop();
            drop(acting);
            let policy = idle.unwrap_or_else(|| self.actor(deterministic));
            // A network that does not sample needs no generators, which are slow to make.
            let needed = if deterministic && matches!(policy, TrainedPolicy::Mlp(_)) { 0 } else { num_envs };
            (policy, (0..needed as u64).map(|env| Rng::stream(draw, env)).collect::<Vec<_>>())
        };
        if num_envs == 1 {
            policy.act(&observation, &weights, &mut actions, &mut rngs).map_err(input)?;
        } else {
            py.detach(|| policy.act(&observation, &weights, &mut actions, &mut rngs)).map_err(input)?;
        }
        lock(&self.acting).idle[usize::from(deterministic)].push(policy);
        if seen.shape().len() == 1 {
            return Ok(Some(self.action(py, actions.as_slice())));
        }
        Ok(Some(if self.is_discrete() {
            self.turned(py, &actions, |x| x as i64)?.into_any()
        } else {
            self.turned(py, &actions, |x| x)?.into_any()
        }))
    }

    /// Requirements of the training.
    #[getter]
    fn requirements(&self) -> Vec<Requirement> {
        wrapped(&self.file().specification)
    }

    /// Requirements of the training with the bounds of these.
    fn rebound(&self, requirements: Vec<Bound<'_, Requirement>>) -> PyResult<Vec<Requirement>> {
        self.specification(&requirements).map(|specification| wrapped(&specification))
    }

    /// Objective of the training, if there was one.
    #[getter]
    fn objective(&self) -> Option<Objective> {
        self.file().specification.objective().map(|o| Objective(o.clone()))
    }

    /// The range of each number of an observation.
    #[getter]
    fn observation_space(&self) -> Vec<(f64, f64)> {
        self.observation.clone()
    }

    /// Description of the spaces of a Gymnasium environment, as JSON.
    #[getter]
    fn spaces(&self) -> Option<String> {
        match self.problem.environment() {
            Continuous::External(external) => external.parameters().spaces.clone(),
            _ => None,
        }
    }

    /// The parts of an action: a number of choices, or a range.
    #[getter]
    fn action_space(&self) -> Vec<(Option<usize>, f64, f64)> {
        let part = |part: &ActionPart| match part {
            ActionPart::Discrete(n) => (Some(*n), 0.0, n.saturating_sub(1) as f64),
            ActionPart::Continuous(range) => (None, range.low, range.high),
        };
        self.action.iter().map(part).collect()
    }

    /// Default step size, epoch and executor.
    #[getter]
    fn execution_defaults(&self) -> PyResult<(f64, u64, &'static str)> {
        if let Some(table) = self.table(None) {
            let options = TabularExecutionOptions { tolerance: RunSettings::TOLERANCE, ..Default::default() };
            let specification = self.file().specification.clone();
            let execution = TabularExecution::new(table, specification, options).map_err(input)?;
            let name = realisation_name(execution.plan().realisation());
            return Ok((execution.step_size(), execution.epoch().start(), name));
        }
        let defaults = self.file().execution_defaults;
        Ok((defaults.step_size, defaults.epoch, executor_name(defaults.executor)))
    }

    /// True if actions are to be sampled.
    #[getter]
    fn draws(&self) -> bool {
        self.file().policy.is_sampling()
    }

    /// The range of the objective and those of the requirements' rewards.
    #[getter]
    fn scales(&self) -> PyResult<Vec<f64>> {
        let task = self.task(self.file().specification.clone())?;
        Ok(self.file().scales(&task))
    }

    /// Initial multipliers for the requirements of the training with the bounds of these.
    fn init_multipliers(&self, requirements: Vec<Bound<'_, Requirement>>) -> PyResult<Vec<f64>> {
        let task = self.task(self.specification(&requirements)?)?;
        Ok(self.file().multipliers(&task).map_err(input)?.as_slice().to_vec())
    }

    /// The entries of the policy library: w0 ... wm, V0 ... Vm in the user's signs, their standard errors, and steps.
    #[getter]
    fn library(&self) -> Vec<LibraryRow> {
        let signs = self.signs();
        let entry = |entry: &LibraryEntry| {
            let values = entry.values.iter().zip(&signs).map(|(v, sign)| sign * v + 0.0).collect();
            let errors = (0..signs.len()).map(|i| entry.errors.get(i).copied().unwrap_or(0.0)).collect();
            (entry.weights.clone(), values, errors, entry.steps)
        };
        self.file().library.entries.iter().map(entry).collect()
    }

    /// The best mixture of library entries for each bound of one requirement, where the others have the bounds of these:
    /// its objective and the price of the bound in the user's signs, and the shares of time; `None` where no mixture meets
    /// the requirements.
    fn tradeoff(
        &self,
        name: &str,
        bounds: Vec<f64>,
        requirements: Vec<Bound<'_, Requirement>>,
    ) -> PyResult<Vec<Option<TradeoffPoint>>> {
        let specification = self.specification(&requirements)?;
        let requirements = specification.requirements();
        let Some(place) = requirements.iter().position(|r| r.name() == name) else {
            return Err(UnknownNameError::new_err(format!("unknown requirement '{name}'")));
        };
        let (mut asked, signs) = (specification.bounds(), self.signs());
        let mut points = Vec::new();
        for bound in bounds {
            if !bound.is_finite() {
                return Err(InputError::new_err(format!("a bound is {bound}, expected finite numbers")));
            }
            asked[place] = signs[place + 1] * bound;
            let best = self.file().library.optimum(&asked);
            points
                .push(best.map(|best| (signs[0] * best.value + 0.0, best.multipliers[place], best.weights)));
        }
        Ok(points)
    }

    /// Steps for which an action is repeated.
    #[getter]
    fn action_repeat(&self) -> usize {
        self.file().policy.action_repeat().max(1)
    }

    /// The learner, the method, the steps and the seed of its training.
    #[getter]
    fn training(&self) -> (String, String, u64, u64) {
        let training = &self.file().training;
        (training.learner.clone(), training.method.clone(), training.steps, training.seed)
    }
}

impl PolicyFile {
    fn open(path: &Path, seed: u64) -> PyResult<Self> {
        let container = Container::load(path).map_err(|error| file(path, error))?;
        Self::from_container(container, path, Rng::new(seed))
    }

    pub(crate) fn from_container(container: Container, path: &Path, rng: Rng) -> PyResult<Self> {
        let problem = PolicyProblem::from_container(container, path).map_err(|error| file(path, error))?;
        let environment = problem.environment().batch();
        Ok(Self {
            observation: environment.observation_space().iter().map(|r| (r.low, r.high)).collect(),
            action: environment.action_space().to_vec(),
            acting: Mutex::new(Acting { idle: [Vec::new(), Vec::new()], rng }),
            problem,
        })
    }

    /// The content of the file.
    pub(crate) fn file(&self) -> &acrl_learn::PolicyFile {
        self.problem.file()
    }

    /// The tabular policy that is executed as a solved mixture: unless another executor is asked for.
    pub(crate) fn table(&self, executor: Option<&str>) -> Option<&TabularPolicy> {
        match (&self.file().policy, executor) {
            (TrainedPolicy::Tabular(table), None | Some("stationary" | "time_sharing")) => Some(table),
            _ => None,
        }
    }

    /// The specification of the training with the bounds of these requirements.
    fn specification(&self, requirements: &[Bound<'_, Requirement>]) -> PyResult<Specification> {
        let requirements: Vec<_> = requirements.iter().map(|r| r.get().0.clone()).collect();
        self.file().rebound(&requirements).map_err(|error| match error {
            ReboundError::Invalid(error) => input(error),
            untrained @ ReboundError::Untrained { .. } => {
                InputError::new_err(format!("the policy {untrained}"))
            }
        })
    }

    /// The signs that turn r0 ... rm back into the user's rewards.
    fn signs(&self) -> Vec<f64> {
        let specification = &self.file().specification;
        let first = specification.objective().map_or(1.0, acrl::Objective::sign);
        std::iter::once(first)
            .chain(specification.requirements().iter().map(acrl::Requirement::sign))
            .collect()
    }

    /// The task of the training with a specification.
    pub(crate) fn task(&self, specification: Specification) -> PyResult<VecTask<'_>> {
        self.problem.task(specification).map_err(input)
    }

    /// The numbers of an observation.
    pub(crate) fn observation_len(&self) -> usize {
        self.observation.len()
    }

    /// The parts of an action.
    pub(crate) fn action_len(&self) -> usize {
        self.action.len()
    }

    /// An observation of the wrong width.
    pub(crate) fn wrong_width(&self, found: usize) -> PyErr {
        let expected = self.observation.len();
        InputError::new_err(format!("the observations have {found} numbers each, expected {expected}"))
    }

    /// A policy to act with.
    pub(crate) fn actor(&self, deterministic: bool) -> TrainedPolicy {
        sampling(&self.file().policy, !deterministic)
    }

    /// An independent generator.
    pub(crate) fn split_rng(&self) -> Rng {
        Rng::new(lock(&self.acting).rng.bits())
    }

    /// True if every part of an action is discrete, so that actions are integers.
    fn is_discrete(&self) -> bool {
        self.action.iter().all(|part| matches!(part, ActionPart::Discrete(_)))
    }

    /// One action as an array.
    pub(crate) fn action<'py>(&self, py: Python<'py>, action: &[f64]) -> Bound<'py, PyAny> {
        if self.is_discrete() {
            return PyArray1::from_iter(py, action.iter().map(|x| *x as i64)).into_any();
        }
        action.to_pyarray(py).into_any()
    }

    /// Actions as an array with a row for each environment.
    fn turned<'py, T: numpy::Element + Clone>(
        &self,
        py: Python<'py>,
        actions: &BatchMatrix,
        convert: impl Fn(f64) -> T,
    ) -> PyResult<Bound<'py, PyArray2<T>>> {
        // A matrix without environments has no rows.
        let (num_envs, parts) = (actions.num_envs(), self.action.len());
        let mut values = vec![convert(0.0); num_envs * parts];
        for row in 0..parts.min(actions.len()) {
            for (to, from) in values.chunks_exact_mut(parts).zip(actions.row(row)) {
                to[row] = convert(*from);
            }
        }
        PyArray1::from_vec(py, values).reshape([num_envs, parts])
    }

    /// Observations and weights w0 ... wm, an environment for each observation.
    pub(crate) fn batch(
        &self,
        seen: &Floats<'_>,
        prices: &Floats<'_>,
    ) -> PyResult<(BatchMatrix, BatchMatrix)> {
        let m = self.file().specification.requirements().len();
        if !matches!(prices.shape(), [n] | [_, n] if *n == m) {
            let text = format!("the multipliers have shape {}, expected {m} numbers", prices.shape_text());
            return Err(InputError::new_err(text));
        }
        let (num_envs, width) = match *seen.shape() {
            [width] => (1, width),
            [num_envs, width] => (num_envs, width),
            _ => {
                let shape = seen.shape_text();
                let text = format!("the observation has shape {shape}, expected one or two dimensions");
                return Err(InputError::new_err(text));
            }
        };
        match *prices.shape() {
            [rows, _] if seen.shape().len() == 1 => {
                let text = format!("there are {rows} rows of multipliers for one observation");
                return Err(InputError::new_err(text));
            }
            [rows, _] if rows != num_envs => {
                let text = format!("there are {num_envs} observations, but multipliers for {rows}");
                return Err(InputError::new_err(text));
            }
            _ if width != self.observation.len() => return Err(self.wrong_width(width)),
            _ => {}
        }
        let (mut observation, mut weights) =
            (BatchMatrix::zeros(width, num_envs), BatchMatrix::zeros(m + 1, num_envs));
        seen.write(&mut observation, 0, "observations")?;
        prices.write(&mut weights, 1, "multipliers")?;
        let objective = self.file().specification.objective().is_some();
        weights.row_mut(0).fill(f64::from(u8::from(objective)));
        if weights.as_slice().iter().fold(false, |negative, w| negative | (*w < 0.0)) {
            let least = weights.as_slice().iter().copied().fold(0.0, f64::min);
            let text = format!("multipliers are nonnegative, but one is {least}");
            return Err(InputError::new_err(text));
        }
        Ok((observation, weights))
    }
}

/// Requirements for Python.
fn wrapped(specification: &Specification) -> Vec<Requirement> {
    specification.requirements().iter().map(|r| Requirement(r.clone())).collect()
}

/// An executor by its name.
pub(crate) fn executor_named(name: &str) -> PyResult<Executor> {
    match name {
        "policy" => Ok(Executor::Policy),
        "library" => Ok(Executor::Library),
        "time_sharing" => Ok(Executor::TimeSharing),
        _ => {
            let text = format!("the executor is '{name}', expected 'policy', 'library' or 'time_sharing'");
            Err(InputError::new_err(text))
        }
    }
}

/// An executor of runs by its name.
pub(crate) fn executor_option(name: &str) -> PyResult<ExecutorOption> {
    let known = ExecutorOption::ALL.iter().find(|(known, _)| *known == name.replace('_', "-"));
    known.map(|(_, executor)| *executor).ok_or_else(|| {
        let text =
            format!("the executor is '{name}', expected 'stationary', 'time_sharing', 'policy' or 'library'");
        InputError::new_err(text)
    })
}

/// Initial multipliers: 'optimum', 'library', or '' with a list by name.
pub(crate) fn init_multipliers_option((word, list): (&str, Vec<(String, f64)>)) -> InitMultipliers {
    match word {
        "optimum" => InitMultipliers::Optimum,
        "library" => InitMultipliers::Library,
        _ => InitMultipliers::Given(list),
    }
}

/// The name of the executor of a solved mixture.
pub(crate) fn realisation_name(realisation: Realisation) -> &'static str {
    match realisation {
        Realisation::Stationary => "stationary",
        Realisation::TimeSharing => "time_sharing",
    }
}

/// The name of an executor.
pub(crate) fn executor_name(executor: Executor) -> &'static str {
    match executor {
        Executor::Policy => "policy",
        Executor::Library => "library",
        Executor::TimeSharing => "time_sharing",
    }
}

/// The policy with sampled actions or their mode. A time-sharing policy stays as it is.
fn sampling(policy: &TrainedPolicy, sampling: bool) -> TrainedPolicy {
    match policy.clone() {
        TrainedPolicy::Mlp(policy) => TrainedPolicy::Mlp(Box::new(policy.sampling(sampling))),
        TrainedPolicy::Rbf(policy) => TrainedPolicy::Rbf(Box::new(policy.sampling(sampling))),
        other => other,
    }
}
