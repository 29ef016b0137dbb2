//! Training in environments that Python steps.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use acrl::{
    BatchMatrix, Executor, Interval, Named, PolicyLibrary, Rng, Specification, VecPolicy as _, VecTask,
};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward, Problem};
use acrl_files::{RunFolder, checkpoint};
use acrl_learn::ppo::StepResult;
use acrl_learn::{
    ExecutionDefaults, ExternalPpo, LearnError, LibraryEvaluator, MlpPolicy, PolicyFile, PpoConfig,
    TrainedPolicy, TrainingRecord,
};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::{Deserialize, Serialize};

use crate::arrays::rows;
use crate::errors::{DivergedError, InputError, file, input, lock};
use crate::vocabulary::{Objective, Requirement};

/// What a checkpoint of such a training is called.
const KIND: &str = "training in an external environment";

/// A training whose environment is stepped by the caller. Any thread may use it; calls wait for each other.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Trainer(Mutex<Inner>);

struct Inner {
    specification: Specification,
    state: State,
    folder: Option<RunFolder>,
    /// The figures of the last iteration.
    figures: Option<Named<f64>>,
}

/// What a checkpoint holds.
#[derive(Serialize, Deserialize)]
struct State {
    description: ExternalParameters,
    objective: Option<acrl::Objective>,
    requirements: Vec<acrl::Requirement>,
    seed: u64,
    seconds: f64,
    training: ExternalPpo,
    /// What the caller wants to keep: the environment, if it can be stored.
    kept: Vec<u8>,
}

#[pymethods]
impl Trainer {
    /// From the rewards' names, the observations' ranges, the parts of an action, the units of rewards where they are
    /// given, a text that says how Python writes observations and actions, and settings as JSON.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "called from one place, by name")]
    fn new(
        objective: Option<Bound<'_, Objective>>,
        requirements: Vec<Bound<'_, Requirement>>,
        names: Vec<String>,
        ranges: Vec<(f64, f64)>,
        parts: Vec<(Option<usize>, f64, f64)>,
        units: Vec<Option<f64>>,
        spaces: String,
        settings: &str,
        seed: u64,
    ) -> PyResult<Self> {
        let requirements = requirements.iter().map(|r| r.get().0.clone()).collect();
        let specification =
            Specification::new(objective.map(|o| o.get().0.clone()), requirements).map_err(input)?;
        let ranges: Vec<Interval> = ranges.into_iter().map(|(low, high)| Interval::new(low, high)).collect();
        // Networks scale from a range; what is unknown or wide is measured before anything is learnt.
        let placeholder = |range: &Interval| {
            if range.is_bounded() && range.width() > 0.0 { [range.low, range.high] } else { [-1.0, 1.0] }
        };
        let description = ExternalParameters {
            observation: ranges.iter().map(placeholder).collect(),
            action: parts.into_iter().map(part).collect(),
            reward: names
                .into_iter()
                .zip(&units)
                .map(|(name, unit)| reward(name, unit.unwrap_or(1.0)))
                .collect(),
            spaces: Some(spaces),
        };
        let given: Vec<bool> = units.iter().map(Option::is_some).collect();
        let environment = External::new(description.clone()).map_err(input)?;
        let task = VecTask::new(&environment, specification.clone()).map_err(input)?;
        let training = ExternalPpo::new(&task, &ranges, &given, merged(settings)?, seed).map_err(input)?;
        let state = State {
            description,
            objective: specification.objective().cloned(),
            requirements: specification.requirements().to_vec(),
            seed,
            seconds: 0.0,
            training,
            kept: Vec::new(),
        };
        Ok(Self(Mutex::new(Inner { specification, state, folder: None, figures: None })))
    }

    /// Draws an action for every environment: a row of observations each.
    fn decide<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let mut inner = lock(&self.0);
        let seen = inner.num_envs(&observations)?;
        let parts = inner.state.description.action.len();
        let mut actions = BatchMatrix::zeros(parts, seen.num_envs());
        inner.state.training.act(&seen, &mut actions);
        Ok(env_major(py, &actions))
    }

    /// Takes note of what came of it.
    fn observe(
        &self,
        rewards: PyReadonlyArray2<'_, f64>,
        observations: PyReadonlyArray2<'_, f64>,
        last: PyReadonlyArray2<'_, f64>,
        terminated: PyReadonlyArray1<'_, bool>,
        truncated: PyReadonlyArray1<'_, bool>,
        valid: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<()> {
        let mut inner = lock(&self.0);
        let observation = inner.num_envs(&observations)?;
        let rewards = rows(&rewards, inner.state.description.reward.len(), "rewards")?;
        let num_envs = observation.num_envs();
        let flags = |array: PyReadonlyArray1<'_, bool>, what: &str| -> PyResult<Vec<bool>> {
            let flags: Vec<bool> = array.as_array().iter().copied().collect();
            if flags.len() == num_envs {
                return Ok(flags);
            }
            Err(InputError::new_err(format!("{what} has {} flags for {num_envs} num_envs", flags.len())))
        };
        let (terminated, truncated) = (flags(terminated, "terminated")?, flags(truncated, "truncated")?);
        let valid = flags(valid, "valid")?;
        let ended = truncated.iter().any(|ended| *ended);
        let last = if ended { Some(inner.num_envs(&last)?) } else { None };
        inner.state.training.observe(&StepResult {
            rewards: &rewards,
            final_observation: last.as_ref().unwrap_or(&observation),
            observation: &observation,
            terminated: &terminated,
            truncated: &truncated,
            mask: &valid,
        });
        Ok(())
    }

    /// Whether it is time to improve.
    #[getter]
    fn full(&self) -> bool {
        lock(&self.0).state.training.rollout_is_full()
    }

    /// Improves by the segment that is over, and returns figures of it; none after the first, which is only looked at.
    fn improve<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let seen = lock(&self.0).num_envs(&observations)?;
        let improved = py.detach(|| {
            let mut inner = lock(&self.0);
            let training = &mut inner.state.training;
            let figures = on_all_cores(|| training.update(&seen));
            if let Ok(figures) = &figures {
                inner.figures.clone_from(figures);
            }
            figures
        });
        let figures = improved.map_err(|error| match error {
            LearnError::Diverged { .. } => DivergedError::new_err(error.to_string()),
            other => input(other),
        })?;
        figures.map(|figures| named(py, &figures)).transpose()
    }

    /// The environments that should start anew now, if they can.
    #[getter]
    fn restarts<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
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

    /// The seconds it took, those before it was resumed included.
    #[getter]
    fn seconds(&self) -> f64 {
        lock(&self.0).state.seconds
    }

    /// The units in which rewards are measured, by name.
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = lock(&self.0);
        let names = inner.state.description.reward.iter().map(|reward| reward.name.clone());
        named(py, &names.zip(inner.state.training.units()).collect())
    }

    /// Begins to keep records in a folder: "create" one, "replace" what is there, or "resume" from its checkpoint. What
    /// was kept beside the checkpoint is returned.
    fn open_folder<'py>(&self, py: Python<'py>, path: PathBuf, how: &str) -> PyResult<Bound<'py, PyBytes>> {
        let mut inner = lock(&self.0);
        let inner = &mut *inner;
        py.detach(|| {
            let opened = match how {
                "create" => RunFolder::create(&path),
                "replace" => RunFolder::replace(&path),
                _ => {
                    let name = RunFolder::checkpoint_path(&path);
                    let state: State = checkpoint::load(&name, KIND).map_err(|error| file(&name, error))?;
                    let fresh = &inner.state;
                    let same = [
                        (state.description == fresh.description, "another environment"),
                        (state.objective == fresh.objective, "another objective"),
                        (state.requirements == fresh.requirements, "other requirements"),
                        (state.seed == fresh.seed, "another seed"),
                        (state.training.settings() == fresh.training.settings(), "other settings or steps"),
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

    /// Notes the last iteration in the folder, if there is one.
    fn note(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let mut inner = lock(&self.0);
        let Inner { state, folder, figures, .. } = &mut *inner;
        state.seconds = seconds;
        let (Some(folder), Some(figures)) = (folder, figures) else { return Ok(()) };
        let training = &state.training;
        py.detach(|| {
            let noted = folder.iteration(
                training.iteration(),
                training.iterations(),
                training.steps(),
                seconds,
                figures,
            );
            noted.map_err(|error| file(folder.path(), error))
        })
    }

    /// Writes a checkpoint to the folder, if there is one, and keeps these bytes beside it.
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

    /// The steps of an episode, if there are any that come to an end.
    #[getter]
    fn episode(&self) -> Option<f64> {
        lock(&self.0).state.training.episode()
    }

    /// Finds out what the policy settles at: at all kinds of weights, so many of them drawn, or only where one reward is
    /// all that matters; with up to `budget` steps in each environment where the regular ones are not enough.
    fn settler(
        &self,
        drawn: Option<usize>,
        settling: usize,
        measured: usize,
        budget: usize,
        drawing: bool,
    ) -> Settler {
        let inner = lock(&self.0);
        let training = &inner.state.training;
        let policy = training.policy().sampling(drawing);
        let scales = policy.inputs().scales().to_vec();
        let (objective, num_envs) = (policy.inputs().objective(), training.settings().num_envs);
        let times = (settling, measured);
        let settling =
            LibraryEvaluator::new(&scales, objective, num_envs, drawn, times, budget, inner.state.seed);
        let rngs = (0..num_envs as u64).map(|env| Rng::stream(inner.state.seed ^ 0x5e77, env)).collect();
        Settler(Mutex::new(Settles {
            rewards: BatchMatrix::zeros(scales.len(), num_envs),
            terms: training.terms().to_vec(),
            named: inner.state.description.reward.len(),
            policy,
            settling,
            rngs,
        }))
    }

    /// The policy file, as bytes: with what the policy settles at, and drawing its actions or not.
    fn finish<'py>(
        &self,
        py: Python<'py>,
        settler: &Bound<'py, Settler>,
        steps: u64,
        complete: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let settled = lock(&settler.get().0);
        let found = (settled.settling.library(), settled.settling.executor());
        let bytes = lock(&self.0).file(settled.policy.clone(), found, steps, complete)?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Inner {
    /// Observations of all environments.
    fn num_envs(&self, observations: &PyReadonlyArray2<'_, f64>) -> PyResult<BatchMatrix> {
        let seen = rows(observations, self.state.description.observation.len(), "observations")?;
        let num_envs = self.state.training.settings().num_envs;
        if seen.num_envs() == num_envs {
            return Ok(seen);
        }
        Err(InputError::new_err(format!("there are {} observations, expected {num_envs}", seen.num_envs())))
    }

    /// The policy file as bytes.
    fn file(
        &self,
        policy: MlpPolicy,
        (library, steering): (PolicyLibrary, Executor),
        steps: u64,
        complete: bool,
    ) -> PyResult<Vec<u8>> {
        let specification = &self.specification;
        let State { description, seed, training, .. } = &self.state;
        let scaled = policy.inputs().observation().iter().map(|range| [range.low, range.high]);
        let units = description.reward.iter().zip(training.units());
        let description = ExternalParameters {
            observation: scaled.collect(),
            reward: units.map(|(old, unit)| reward(old.name.clone(), unit)).collect(),
            ..description.clone()
        };
        let environment = External::new(description).map_err(input)?;
        let task = VecTask::new(&environment, specification.clone()).map_err(input)?;
        let problem = environment.problem(specification).map_err(input)?;
        // Names that no problem file can hold are told now, not when the policy is opened.
        Problem::parse(&problem).map_err(input)?;
        let file = PolicyFile {
            problem,
            specification: specification.clone(),
            policy: TrainedPolicy::Mlp(Box::new(policy)),
            library,
            coverage: training.coverage().clone(),
            seen: training.seen().clone(),
            execution_defaults: ExecutionDefaults {
                executor: steering,
                ..ExecutionDefaults::uncalibrated(&task)
            },
            training: TrainingRecord {
                learner: "ppo".to_owned(),
                method: acrl_learn::Training::A_CRL.to_owned(),
                steps,
                seed: *seed,
                complete,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
        };
        file.check(&task).map_err(input)?;
        file.to_container().map_err(input)?.to_bytes().map_err(input)
    }
}

/// A policy whose weights are held, to find out what it settles at.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Settler(Mutex<Settles>);

struct Settles {
    policy: MlpPolicy,
    settling: LibraryEvaluator,
    terms: Vec<Option<(usize, f64)>>,
    /// The number of the environment's rewards.
    named: usize,
    rewards: BatchMatrix,
    rngs: Vec<Rng>,
}

#[pymethods]
impl Settler {
    /// An action for every environment.
    fn decide<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let mut settles = lock(&self.0);
        let Settles { policy, settling, rngs, .. } = &mut *settles;
        let seen = rows(&observations, policy.inputs().observation().len(), "observations")?;
        if seen.num_envs() != rngs.len() {
            let text = format!("there are {} observations, expected {}", seen.num_envs(), rngs.len());
            return Err(InputError::new_err(text));
        }
        let mut actions = BatchMatrix::zeros(policy.heads().parts().len(), seen.num_envs());
        policy.act(&seen, settling.weights(), &mut actions, rngs).map_err(input)?;
        Ok(env_major(py, &actions))
    }

    /// Takes note of the rewards of environments that made a step, and of episodes that ended with it.
    fn observe(
        &self,
        rewards: PyReadonlyArray2<'_, f64>,
        valid: PyReadonlyArray1<'_, bool>,
        ended: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<()> {
        let mut settles = lock(&self.0);
        let Settles { settling, terms, named, rewards: scored, .. } = &mut *settles;
        let found = rows(&rewards, *named, "rewards")?;
        let flags =
            |array: PyReadonlyArray1<'_, bool>| array.as_array().iter().copied().collect::<Vec<bool>>();
        let (valid, ended) = (flags(valid), flags(ended));
        if [found.num_envs(), valid.len(), ended.len()].iter().any(|num_envs| *num_envs != scored.num_envs())
        {
            let text = format!("rewards of {} num_envs, expected {}", found.num_envs(), scored.num_envs());
            return Err(InputError::new_err(text));
        }
        for (i, term) in terms.iter().enumerate() {
            if let Some((row, sign)) = term {
                let out = scored.row_mut(i).iter_mut();
                out.zip(found.row(*row)).for_each(|(r, x)| *r = sign * x);
            }
        }
        settling.observe(scored, &valid, &ended);
        Ok(())
    }

    /// Whether all has been seen.
    #[getter]
    fn over(&self) -> bool {
        lock(&self.0).settling.is_over()
    }

    /// Steps in each environment, as far as is known.
    #[getter]
    fn steps(&self) -> usize {
        lock(&self.0).settling.steps()
    }

    /// For each reward, the average in units of its range when it is all that matters.
    #[getter]
    fn corners(&self) -> Vec<f64> {
        let settles = lock(&self.0);
        let (scales, library) = (settles.policy.inputs().scales(), settles.settling.library());
        let first = usize::from(!settles.policy.inputs().objective());
        let corners = library.entries.iter().take(scales.len() - first).enumerate();
        corners.map(|(j, entry)| entry.values[first + j] / scales[first + j]).collect()
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

/// The default settings with some of them replaced.
fn merged(settings: &str) -> PyResult<PpoConfig> {
    serde_json::from_str(settings).map_err(|error| InputError::new_err(format!("settings: {error}")))
}

fn named<'py>(py: Python<'py>, values: &Named<f64>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    values.iter().try_for_each(|(name, value)| dict.set_item(name, value))?;
    Ok(dict)
}

/// A row for each environment.
fn env_major<'py>(py: Python<'py>, rows: &BatchMatrix) -> Bound<'py, PyArray2<f64>> {
    Array2::from_shape_fn((rows.num_envs(), rows.len()), |(env, row)| rows.at(row, env)).into_pyarray(py)
}
