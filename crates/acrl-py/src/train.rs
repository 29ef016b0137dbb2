//! Training in environments that Python steps.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use acrl::{BatchMatrix, Interval, Named, Specification, VecTask};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_files::{RunFolder, checkpoint};
use acrl_learn::ppo::StepResult;
use acrl_learn::{ExternalEvaluation, ExternalLearner, ExternalTraining, LearnError};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::arrays::rows;
use crate::errors::{DivergedError, InputError, UnknownNameError, file, input, lock};
use crate::specification::{Objective, Requirement};

/// The kind of checkpoint that such a training writes.
const KIND: &str = "training in an external environment";

/// A training whose environment is stepped by the caller. Threads may share it; their calls are serialised.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Trainer(Mutex<Inner>);

struct Inner {
    state: State,
    folder: Option<RunFolder>,
    /// Metrics of the last iteration.
    metrics: Option<Named<f64>>,
}

/// The content of a checkpoint.
#[derive(Serialize, Deserialize)]
struct State {
    description: ExternalParameters,
    objective: Option<acrl::Objective>,
    requirements: Vec<acrl::Requirement>,
    seed: u64,
    seconds: f64,
    training: ExternalTraining,
    /// Bytes of the caller: the environments, if they can be pickled with their states.
    kept: Vec<u8>,
}

#[pymethods]
impl Trainer {
    /// From the rewards' names, the observations' ranges, the parts of an action, the units of rewards where they are
    /// given, the description of Python's spaces as JSON, the number of environments and of steps in all, and the settings
    /// that differ from the defaults as JSON.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "called from one place, by name")]
    fn new(
        objective: Option<Bound<'_, Objective>>,
        requirements: Vec<Bound<'_, Requirement>>,
        names: Vec<String>,
        ranges: Vec<(f64, f64)>,
        parts: Vec<(Option<usize>, f64, f64)>,
        scales: Vec<Option<f64>>,
        spaces: String,
        size: (usize, u64),
        learner: &str,
        settings: &str,
        seed: u64,
    ) -> PyResult<Self> {
        let requirements = requirements.iter().map(|r| r.get().0.clone()).collect();
        let specification =
            Specification::new(objective.map(|o| o.get().0.clone()), requirements).map_err(input)?;
        let ranges: Vec<Interval> = ranges.into_iter().map(|(low, high)| Interval::new(low, high)).collect();
        // Networks normalise by a range; one that is unknown or wide is measured in the first rollout.
        let placeholder = |range: &Interval| {
            if range.is_bounded() && range.width() > 0.0 { [range.low, range.high] } else { [-1.0, 1.0] }
        };
        let description = ExternalParameters {
            observation: ranges.iter().map(placeholder).collect(),
            action: parts.into_iter().map(part).collect(),
            reward: names
                .into_iter()
                .zip(&scales)
                .map(|(name, scale)| reward(name, scale.unwrap_or(1.0)))
                .collect(),
            spaces: Some(spaces),
        };
        let given: Vec<bool> = scales.iter().map(Option::is_some).collect();
        let environment = External::new(description.clone()).map_err(input)?;
        let task = VecTask::new(&environment, specification.clone()).map_err(input)?;
        let (learner, settings) = (learner.parse::<ExternalLearner>().map_err(input)?, object(settings)?);
        let training = ExternalTraining::new(learner, &task, (&ranges, &given), size, &settings, seed);
        let training = training.map_err(learn_error)?;
        let state = State {
            description,
            objective: specification.objective().cloned(),
            requirements: specification.requirements().to_vec(),
            seed,
            seconds: 0.0,
            training,
            kept: Vec::new(),
        };
        Ok(Self(Mutex::new(Inner { state, folder: None, metrics: None })))
    }

    /// Samples an action for every environment, which has a row of observations.
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let mut inner = lock(&self.0);
        let observations = inner.observations(&observations)?;
        let parts = inner.state.description.action.len();
        let mut actions = BatchMatrix::zeros(parts, observations.num_envs());
        inner.state.training.act(&observations, &mut actions);
        Ok(env_major(py, &actions))
    }

    /// Takes the outcome of a step. `mask` is false where an environment only reset.
    fn observe(
        &self,
        rewards: PyReadonlyArray2<'_, f64>,
        observations: PyReadonlyArray2<'_, f64>,
        final_observations: PyReadonlyArray2<'_, f64>,
        terminated: PyReadonlyArray1<'_, bool>,
        truncated: PyReadonlyArray1<'_, bool>,
        mask: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<()> {
        let mut inner = lock(&self.0);
        let num_envs = inner.num_envs();
        let observation = inner.observations(&observations)?;
        let rewards = batch(&rewards, inner.state.description.reward.len(), num_envs, "rewards")?;
        let terminated = flags(&terminated, num_envs, "terminated")?;
        let truncated = flags(&truncated, num_envs, "truncated")?;
        let mask = flags(&mask, num_envs, "mask")?;
        let ended = truncated.iter().any(|ended| *ended);
        let last = if ended { Some(inner.observations(&final_observations)?) } else { None };
        inner.state.training.observe(&StepResult {
            rewards: &rewards,
            final_observation: last.as_ref().unwrap_or(&observation),
            observation: &observation,
            terminated: &terminated,
            truncated: &truncated,
            mask: &mask,
        });
        Ok(())
    }

    /// True when it is time to update.
    #[getter]
    fn update_is_due(&self) -> bool {
        lock(&self.0).state.training.update_is_due()
    }

    /// Updates the networks and returns the metrics of an iteration that this completes.
    fn update<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let observations = lock(&self.0).observations(&observations)?;
        let updated = py.detach(|| {
            let mut inner = lock(&self.0);
            let training = &mut inner.state.training;
            let metrics = on_all_cores(|| training.update(&observations));
            if let Ok(metrics) = &metrics {
                inner.metrics.clone_from(metrics);
            }
            metrics
        });
        let metrics = updated.map_err(learn_error)?;
        metrics.map(|metrics| named(py, &metrics)).transpose()
    }

    /// The environments to reset now, if they can be reset one by one.
    #[getter]
    fn envs_to_reset<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        lock(&self.0).state.training.restarts().to_pyarray(py)
    }

    /// Iterations done.
    #[getter]
    fn iteration(&self) -> u64 {
        lock(&self.0).state.training.iteration()
    }

    /// Iterations planned.
    #[getter]
    fn iterations(&self) -> u64 {
        lock(&self.0).state.training.iterations()
    }

    /// Environment steps done, in all environments.
    #[getter]
    fn steps(&self) -> u64 {
        lock(&self.0).state.training.steps()
    }

    /// The learner that acts now.
    #[getter]
    fn learner(&self) -> &'static str {
        lock(&self.0).state.training.learner().name()
    }

    /// Why it was chosen; `None` if the caller named it, or during its trial.
    #[getter]
    fn learner_reason(&self) -> Option<String> {
        lock(&self.0).state.training.reason().map(str::to_owned)
    }

    /// Seconds of training, including those before a resume.
    #[getter]
    fn seconds(&self) -> f64 {
        lock(&self.0).state.seconds
    }

    /// The units in which rewards are normalised, by name.
    #[getter]
    fn scales<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = lock(&self.0);
        let names = inner.state.description.reward.iter().map(|reward| reward.name.clone());
        named(py, &names.zip(inner.state.training.units()).collect())
    }

    /// Begins to write to a folder that is new ("error" if it is not), to "overwrite", or to "resume" from its checkpoint.
    /// Returns the bytes that the caller stored in the checkpoint.
    fn open_folder<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        if_exists: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut inner = lock(&self.0);
        let inner = &mut *inner;
        py.detach(|| {
            let opened = match if_exists {
                "error" => RunFolder::create(&path),
                "overwrite" => RunFolder::replace(&path),
                _ => {
                    let name = RunFolder::checkpoint_path(&path);
                    let state: State = checkpoint::load(&name, KIND).map_err(|error| file(&name, error))?;
                    let fresh = &inner.state;
                    let same = [
                        (state.description == fresh.description, "another environment"),
                        (state.objective == fresh.objective, "another objective"),
                        (state.requirements == fresh.requirements, "other requirements"),
                        (state.seed == fresh.seed, "another seed"),
                        (
                            state.training.same_settings(&fresh.training),
                            "another learner, other settings or steps",
                        ),
                    ];
                    if let Some((_, what)) = same.iter().find(|(same, _)| !same) {
                        return Err(InputError::new_err(format!(
                            "{} is of a training with {what} than asked for: resume it with the same",
                            name.display()
                        )));
                    }
                    let iteration = state.training.iteration();
                    inner.state = state;
                    RunFolder::resume(&path, iteration)
                }
            };
            inner.folder = Some(opened.map_err(|error| file(&path, error))?);
            Ok(())
        })?;
        Ok(PyBytes::new(py, &inner.state.kept))
    }

    /// Writes the metrics of the last iteration to the folder, if there is one.
    fn log(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let mut inner = lock(&self.0);
        let Inner { state, folder, metrics } = &mut *inner;
        state.seconds = seconds;
        let (Some(folder), Some(metrics)) = (folder, metrics) else { return Ok(()) };
        let training = &state.training;
        py.detach(|| {
            let (iteration, total) = (training.iteration(), training.iterations());
            let written = folder.iteration(iteration, total, training.steps(), seconds, metrics);
            written.map_err(|error| file(folder.path(), error))
        })
    }

    /// Writes a checkpoint to the folder, if there is one, with bytes of the caller.
    fn save_checkpoint(&self, py: Python<'_>, kept: &[u8]) -> PyResult<()> {
        let mut inner = lock(&self.0);
        let Inner { state, folder, .. } = &mut *inner;
        let Some(folder) = folder else { return Ok(()) };
        state.kept = kept.to_vec();
        py.detach(|| folder.save_checkpoint(KIND, state).map_err(|error| file(folder.path(), error)))
    }

    /// Closes the folder.
    fn close_folder(&self, py: Python<'_>) -> PyResult<()> {
        let folder = lock(&self.0).folder.take();
        let Some(folder) = folder else { return Ok(()) };
        let path = folder.path().to_owned();
        py.detach(|| folder.finish().map_err(|error| file(&path, error)))
    }

    /// Begins to evaluate the policy as it is now; `None` if nothing has to be measured in the environment.
    fn evaluation(&self) -> Option<Evaluation> {
        let inner = lock(&self.0);
        let evaluation = inner.state.training.evaluation(inner.state.seed)?;
        let ExternalParameters { observation, action, reward, .. } = &inner.state.description;
        let size = [observation.len(), action.len(), reward.len()];
        Some(Evaluation { evaluation: Mutex::new(evaluation), size })
    }

    /// The policy file as bytes, with the result of an evaluation.
    fn finish<'py>(
        &self,
        py: Python<'py>,
        evaluation: Option<&Bound<'py, Evaluation>>,
        steps: u64,
        complete: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let evaluation = evaluation.map(|evaluation| lock(&evaluation.get().evaluation));
        let bytes = lock(&self.0).file(evaluation.as_deref(), steps, complete)?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Inner {
    /// Observations of all environments.
    fn observations(&self, observations: &PyReadonlyArray2<'_, f64>) -> PyResult<BatchMatrix> {
        let (width, num_envs) = (self.state.description.observation.len(), self.num_envs());
        batch(observations, width, num_envs, "observations")
    }

    fn num_envs(&self) -> usize {
        self.state.training.num_envs()
    }

    /// The policy file as bytes.
    fn file(&self, evaluation: Option<&ExternalEvaluation>, steps: u64, complete: bool) -> PyResult<Vec<u8>> {
        let State { description, seed, training, objective, requirements, .. } = &self.state;
        let specification = Specification::new(objective.clone(), requirements.clone()).map_err(input)?;
        let of = (steps, *seed, complete);
        let file =
            training.policy_file(evaluation, (description, &specification), of).map_err(learn_error)?;
        file.to_container().map_err(input)?.to_bytes().map_err(input)
    }
}

/// The evaluation of a trained policy while Python steps the environment.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Evaluation {
    evaluation: Mutex<ExternalEvaluation>,
    /// Numbers of an observation, of an action, and of rewards.
    size: [usize; 3],
}

#[pymethods]
impl Evaluation {
    /// An action for every environment.
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let mut evaluation = lock(&self.evaluation);
        let [width, parts, _] = self.size;
        let observations = batch(&observations, width, evaluation.num_envs(), "observations")?;
        let mut actions = BatchMatrix::zeros(parts, observations.num_envs());
        evaluation.act(&observations, &mut actions).map_err(input)?;
        Ok(env_major(py, &actions))
    }

    /// Takes the rewards of environments that made a step (`mask`), and which episodes ended with it.
    fn observe(
        &self,
        rewards: PyReadonlyArray2<'_, f64>,
        mask: PyReadonlyArray1<'_, bool>,
        ended: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<()> {
        let mut evaluation = lock(&self.evaluation);
        let num_envs = evaluation.num_envs();
        let rewards = batch(&rewards, self.size[2], num_envs, "rewards")?;
        let (mask, ended) = (flags(&mask, num_envs, "mask")?, flags(&ended, num_envs, "ended")?);
        evaluation.observe(&rewards, &mask, &ended);
        Ok(())
    }

    /// True when everything has been measured.
    #[getter]
    fn done(&self) -> bool {
        lock(&self.evaluation).is_over()
    }

    /// The share of the present stage that is done.
    #[getter]
    fn progress(&self) -> f64 {
        lock(&self.evaluation).progress()
    }

    /// Environment steps so far, in all environments.
    #[getter]
    fn steps(&self) -> u64 {
        lock(&self.evaluation).steps()
    }
}

/// Runs this with threads of this process: those of the one it was forked from are not here.
fn on_all_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let process = std::process::id();
    let pool = {
        // Nobody holds this for long; but who forks meanwhile finds it locked for ever.
        let Ok(mut known) = POOL.try_lock() else { return work() };
        match &*known {
            Some((of, pool)) if *of == process => Some(Arc::clone(pool)),
            _ => ThreadPoolBuilder::new().build().ok().map(Arc::new).inspect(|made| {
                // The threads of another pool are gone, and cannot be waited for.
                if let Some((_, old)) = known.replace((process, Arc::clone(made))) {
                    std::mem::forget(old);
                }
            }),
        }
    };
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn part((choices, low, high): (Option<usize>, f64, f64)) -> ExternalAction {
    let number = |x: f64| x.is_finite().then_some(x);
    match choices {
        Some(n) => ExternalAction { choices: Some(n), low: None, high: None },
        None => ExternalAction { choices: None, low: number(low), high: number(high) },
    }
}

/// Only the width of a range matters, and so it is exact.
fn reward(name: String, unit: f64) -> ExternalReward {
    ExternalReward { name, low: 0.0, high: unit }
}

/// The settings of a JSON object.
fn object(settings: &str) -> PyResult<Map<String, Value>> {
    serde_json::from_str(settings).map_err(|error| InputError::new_err(format!("settings: {error}")))
}

/// An error of a learner.
fn learn_error(error: LearnError) -> PyErr {
    match error {
        LearnError::Diverged { .. } => DivergedError::new_err(error.to_string()),
        LearnError::UnknownSetting { .. } => UnknownNameError::new_err(error.to_string()),
        other => input(other),
    }
}

/// The default number of environments that a learner steps side by side.
#[pyfunction]
pub(crate) fn default_num_envs(learner: &str, total_steps: u64) -> PyResult<usize> {
    let learner = learner.parse::<ExternalLearner>().map_err(input)?;
    Ok(ExternalTraining::default_num_envs(learner, total_steps))
}

/// The default number of environment steps of a training.
#[pyfunction]
pub(crate) fn default_total_steps(learner: &str) -> PyResult<u64> {
    let learner = learner.parse::<ExternalLearner>().map_err(input)?;
    Ok(ExternalTraining::default_total_steps(learner))
}

/// The default settings of a learner as JSON, by name.
#[pyfunction]
pub(crate) fn default_settings(learner: &str, num_envs: usize, total_steps: u64) -> PyResult<String> {
    let learner = learner.parse::<ExternalLearner>().map_err(input)?;
    Ok(ExternalTraining::defaults(learner, num_envs, total_steps).to_string())
}

fn named<'py>(py: Python<'py>, values: &Named<f64>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    values.iter().try_for_each(|(name, value)| dict.set_item(name, value))?;
    Ok(dict)
}

/// A row for each environment.
pub(crate) fn env_major<'py>(py: Python<'py>, rows: &BatchMatrix) -> Bound<'py, PyArray2<f64>> {
    Array2::from_shape_fn((rows.num_envs(), rows.len()), |(env, row)| rows.at(row, env)).into_pyarray(py)
}

/// A batch of an array with a row for each environment.
pub(crate) fn batch(
    array: &PyReadonlyArray2<'_, f64>,
    width: usize,
    num_envs: usize,
    what: &str,
) -> PyResult<BatchMatrix> {
    let found = rows(array, width, what)?;
    if found.num_envs() == num_envs {
        return Ok(found);
    }
    Err(InputError::new_err(format!("there are {} {what}, expected {num_envs}", found.num_envs())))
}

/// A flag for each environment.
pub(crate) fn flags(array: &PyReadonlyArray1<'_, bool>, num_envs: usize, what: &str) -> PyResult<Vec<bool>> {
    let flags: Vec<bool> = array.as_array().iter().copied().collect();
    if flags.len() == num_envs {
        return Ok(flags);
    }
    Err(InputError::new_err(format!("{what} has {} flags for {num_envs} environments", flags.len())))
}
