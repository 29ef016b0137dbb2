//! Solved policies of finite problems, and their execution by an agent.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use acrl::{Agent, AgentBuilder, EpochLength, FinitePolicy as _, Rng, Specification};
use acrl_app::{FiniteExecutor, SolutionExecution, SolutionExecutionOptions, SolutionFile};
use acrl_exact::{MixtureExecutor, MixtureState, Realisation};
use acrl_files::Container;
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use serde::{Deserialize, Serialize};

use crate::errors::{InputError, UnknownNameError, file, input, lock, verb};
use crate::policy::PolicyFile;
use crate::specification::{Objective, Requirement};
use crate::work::interruptible;

/// Tolerated shortfall for which epochs are planned, if there is no agent yet.
const TOLERANCE: f64 = 0.005;

/// A solved policy with its model. It never changes, so threads may share it.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct SolvedPolicy {
    pub(crate) file: SolutionFile,
    /// States by name.
    states: OnceLock<HashMap<String, usize>>,
    rng: Mutex<Rng>,
}

/// The policy of a file, trained or solved.
#[derive(IntoPyObject)]
#[expect(clippy::large_enum_variant, reason = "exists only until it is given to Python")]
pub(crate) enum AnyPolicy {
    Trained(PolicyFile),
    Solved(SolvedPolicy),
}

/// Opens a policy file.
#[pyfunction]
pub(crate) fn load_policy(py: Python<'_>, path: PathBuf, seed: u64) -> PyResult<AnyPolicy> {
    py.detach(|| {
        let container = Container::load(&path).map_err(|error| file(&path, error))?;
        if SolutionFile::is_in(&container) {
            return SolvedPolicy::from_container(container, &path, Rng::new(seed)).map(AnyPolicy::Solved);
        }
        PolicyFile::from_container(container, &path, Rng::new(seed)).map(AnyPolicy::Trained)
    })
}

#[pymethods]
impl SolvedPolicy {
    /// From the content of a file, which `path` names in messages. `rng` is the state of its generator.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, content: &[u8], path: PathBuf, rng: &str) -> PyResult<Self> {
        let wrong = |error| InputError::new_err(format!("the generator's state cannot be read: {error}"));
        let rng = serde_json::from_str(rng).map_err(wrong)?;
        py.detach(|| {
            let container = Container::from_bytes(content).map_err(|error| file(&path, error))?;
            Self::from_container(container, &path, rng)
        })
    }

    /// The content of a file with this policy.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let container = self.file.to_container().map_err(|error| verb(&error))?;
        Ok(PyBytes::new(py, &container.to_bytes().map_err(input)?))
    }

    /// State of the generator for agents.
    #[getter]
    fn rng(&self) -> PyResult<String> {
        let wrong = |error| InputError::new_err(format!("the generator's state cannot be written: {error}"));
        serde_json::to_string(&*lock(&self.rng)).map_err(wrong)
    }

    /// The index of a state, given by index or by name.
    pub(crate) fn state(&self, state: &Bound<'_, PyAny>) -> PyResult<usize> {
        let n = self.file.model.states();
        if let Ok(name) = state.cast::<PyString>() {
            let name = name.to_str()?;
            let found = self.states.get_or_init(|| {
                let name = |s: usize| self.file.model.state_name(s).into_owned();
                (0..n).rev().map(|s| (name(s), s)).collect()
            });
            return found.get(name).copied().ok_or_else(|| {
                UnknownNameError::new_err(format!("unknown state '{name}': the model has {n} states"))
            });
        }
        // Integers of NumPy too, but no floats.
        let Ok(index) = state.call_method0("__index__").and_then(|index| index.extract::<i64>()) else {
            let found = state.repr().map_or_else(|_| "of no known kind".to_owned(), |text| text.to_string());
            return Err(InputError::new_err(format!("the state is {found}, expected its index or its name")));
        };
        usize::try_from(index).ok().filter(|s| *s < n).ok_or_else(|| {
            InputError::new_err(format!("the state is {index}, expected an index from 0 to {}", n - 1))
        })
    }

    /// The index of the action that the policy of the mixture that is best at these multipliers takes in each state.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        states: Vec<Bound<'py, PyAny>>,
        multipliers: Vec<f64>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let m = self.file.specification.requirements().len();
        if multipliers.len() != m {
            let text = format!("there are {} multipliers, expected {m}", multipliers.len());
            return Err(InputError::new_err(text));
        }
        if let Some(wrong) = multipliers.iter().find(|l| !(**l >= 0.0 && l.is_finite())) {
            let text = format!("multipliers are nonnegative finite numbers, but one is {wrong}");
            return Err(InputError::new_err(text));
        }
        let action = |state: &Bound<'py, PyAny>| {
            let state = self.state(state)?;
            let choice = self.file.best_choice(state, &multipliers);
            Ok(self.file.action_index(state, choice) as i64)
        };
        let actions = states.iter().map(action).collect::<PyResult<Vec<_>>>()?;
        Ok(actions.to_pyarray(py))
    }

    /// The number of states.
    #[getter]
    fn states(&self) -> usize {
        self.file.model.states()
    }

    /// The names of the states.
    #[getter]
    fn state_names(&self) -> Vec<String> {
        (0..self.file.model.states()).map(|s| self.file.model.state_name(s).into_owned()).collect()
    }

    /// The names of the actions by index.
    #[getter]
    fn action_names(&self) -> Vec<String> {
        self.file.action_names()
    }

    /// Index and name of each action of a state.
    fn actions(&self, state: &Bound<'_, PyAny>) -> PyResult<Vec<(usize, String)>> {
        let (state, model) = (self.state(state)?, &self.file.model);
        let names = model.choices(state).map(|choice| model.action_name(choice).into_owned());
        Ok(model.action_numbers(state).zip(names).collect())
    }

    /// The requirements.
    #[getter]
    fn requirements(&self) -> Vec<Requirement> {
        wrapped(&self.file.specification)
    }

    /// The requirements with these, which replace those on the same reward and side or are added.
    fn rebound(&self, requirements: Vec<Bound<'_, Requirement>>) -> PyResult<Vec<Requirement>> {
        self.specification(&requirements).map(|specification| wrapped(&specification))
    }

    /// The objective, if there is one.
    #[getter]
    fn objective(&self) -> Option<Objective> {
        self.file.specification.objective().map(|o| Objective(o.clone()))
    }

    /// The range of the objective and those of the requirements' rewards.
    #[getter]
    fn scales(&self) -> PyResult<Vec<f64>> {
        self.file.scales().map_err(|error| verb(&error))
    }

    /// Default step size, first epoch and executor.
    fn execution_defaults(&self, py: Python<'_>) -> PyResult<(f64, u64, &'static str)> {
        let execution = self.execution(py, self.file.specification.clone(), &Settings::default())?;
        let plan = &execution.plan;
        Ok((plan.step_size(), plan.schedule().length(0, 0), executor_name(execution.executor())))
    }

    /// Optimal multipliers for these requirements.
    fn init_multipliers(
        &self,
        py: Python<'_>,
        requirements: Vec<Bound<'_, Requirement>>,
    ) -> PyResult<Vec<f64>> {
        let execution = self.execution(py, self.specification(&requirements)?, &Settings::default())?;
        Ok(execution.plan.multipliers().to_vec())
    }
}

impl SolvedPolicy {
    fn from_container(container: Container, path: &Path, rng: Rng) -> PyResult<Self> {
        let solution = SolutionFile::from_container(container).map_err(|error| file(path, error))?;
        Ok(Self::new(solution, rng))
    }

    pub(crate) fn new(file: SolutionFile, rng: Rng) -> Self {
        Self { file, states: OnceLock::new(), rng: Mutex::new(rng) }
    }

    /// An independent generator.
    fn split_rng(&self) -> Rng {
        Rng::new(lock(&self.rng).bits())
    }

    fn specification(&self, requirements: &[Bound<'_, Requirement>]) -> PyResult<Specification> {
        let requirements: Vec<_> = requirements.iter().map(|r| r.get().0.clone()).collect();
        self.file.rebound(&requirements).map_err(|error| verb(&error))
    }

    fn execution(
        &self,
        py: Python<'_>,
        specification: Specification,
        settings: &Settings,
    ) -> PyResult<SolutionExecution> {
        let options = settings.options()?;
        interruptible(py, |watch| self.file.execution(specification, &options, &watch.stop))
    }
}

fn wrapped(specification: &Specification) -> Vec<Requirement> {
    specification.requirements().iter().map(|r| Requirement(r.clone())).collect()
}

fn executor_name(executor: FiniteExecutor) -> &'static str {
    match executor {
        FiniteExecutor::Stationary => "stationary",
        FiniteExecutor::TimeSharing => "time_sharing",
        FiniteExecutor::Policy => "policy",
    }
}

/// The user's settings of an execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Share of the rewards' ranges.
    pub(crate) tolerance: f64,
    /// "stationary" or "time_sharing".
    pub(crate) executor: Option<String>,
    pub(crate) step_size: Option<f64>,
    /// A fixed epoch.
    pub(crate) epoch: Option<u64>,
    /// The first epoch of the schedule.
    pub(crate) epoch_start: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tolerance: TOLERANCE, executor: None, step_size: None, epoch: None, epoch_start: None }
    }
}

impl Settings {
    fn options(&self) -> PyResult<SolutionExecutionOptions> {
        let realisation = match self.executor.as_deref() {
            None => None,
            Some("stationary") => Some(Realisation::Stationary),
            Some("time_sharing") => Some(Realisation::TimeSharing),
            Some(other) => {
                let text = format!(
                    "the executor of a solved policy is '{other}', expected 'stationary' or 'time_sharing'"
                );
                return Err(InputError::new_err(text));
            }
        };
        Ok(SolutionExecutionOptions { tolerance: self.tolerance, realisation })
    }

    fn step_size(&self, execution: &SolutionExecution) -> f64 {
        self.step_size.unwrap_or_else(|| execution.plan.step_size())
    }

    fn epoch(&self, execution: &SolutionExecution) -> EpochLength {
        let mut schedule = execution.plan.schedule();
        schedule.start = self.epoch_start.unwrap_or(schedule.start);
        self.epoch.map_or(EpochLength::Scheduled(schedule), EpochLength::Fixed)
    }
}

/// Saved state of an execution.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    settings: Settings,
    mixture: MixtureState,
}

/// A solved policy in execution.
pub(crate) struct Execution {
    execution: SolutionExecution,
    saved: Saved,
}

impl Execution {
    /// Plans an execution, and configures its agent.
    pub(crate) fn begin(
        py: Python<'_>,
        policy: &SolvedPolicy,
        requirements: &[acrl::Requirement],
        settings: Settings,
    ) -> PyResult<(Self, AgentBuilder, Rng)> {
        let planned = Self::planned(py, policy, requirements, settings)?;
        let Self { execution, saved: Saved { settings, .. } } = &planned;
        let builder = execution.agent_builder().map_err(|error| verb(&error))?;
        let builder = builder.step_size(settings.step_size(execution)).epoch(settings.epoch(execution));
        Ok((planned, builder, policy.split_rng()))
    }

    /// Plans the same execution again.
    pub(crate) fn restore(
        py: Python<'_>,
        policy: &SolvedPolicy,
        agent: &Agent,
        saved: Saved,
    ) -> PyResult<Self> {
        let requirements = agent.dynamics().requirements();
        let specification = policy.file.rebound(requirements).map_err(|error| verb(&error))?;
        if specification.requirements() != requirements {
            return Err(InputError::new_err("the state of the agent does not fit its policy"));
        }
        let execution = policy.execution(py, specification, &saved.settings)?;
        MixtureExecutor::resume(&execution.plan, saved.mixture.clone()).map_err(InputError::new_err)?;
        Ok(Self { execution, saved })
    }

    /// Plans an execution with the same settings for other requirements.
    pub(crate) fn planned(
        py: Python<'_>,
        policy: &SolvedPolicy,
        requirements: &[acrl::Requirement],
        settings: Settings,
    ) -> PyResult<Self> {
        let specification = policy.file.rebound(requirements).map_err(|error| verb(&error))?;
        let execution = policy.execution(py, specification, &settings)?;
        let mixture = MixtureExecutor::new(&execution.plan).into_state();
        Ok(Self { execution, saved: Saved { settings, mixture } })
    }

    /// Begins with an agent that has followed another plan, whose total deficit is kept.
    pub(crate) fn take_over(&mut self, agent: &mut Agent) -> PyResult<()> {
        let Self { execution, saved: Saved { settings, .. } } = &*self;
        let reference = execution.multipliers().map_err(|error| verb(&error))?;
        agent.replan(reference, settings.step_size(execution), settings.epoch(execution)).map_err(input)?;
        self.begin_epoch(agent);
        Ok(())
    }

    /// The user's settings.
    pub(crate) fn settings(&self) -> Settings {
        self.saved.settings.clone()
    }

    /// What is to be saved.
    pub(crate) fn saved(&self) -> &Saved {
        &self.saved
    }

    /// The number of the action among those of the state.
    pub(crate) fn act(&mut self, state: usize, agent: &Agent, rng: &mut Rng) -> usize {
        self.with(|executor| executor.act(state, agent.multipliers(), rng)).unwrap_or(0)
    }

    /// Divides the next epoch among the policies of the mixture.
    pub(crate) fn begin_epoch(&mut self, agent: &Agent) {
        self.with(|executor| executor.begin_epoch(agent.dynamics()));
    }

    pub(crate) fn executor(&self) -> &'static str {
        executor_name(self.execution.executor())
    }

    /// V₁ … V_m of the policies of the mixture.
    pub(crate) fn values(&self) -> &[Vec<f64>] {
        &self.execution.values
    }

    /// Calls the executor, which borrows the plan. Its state always fits, as it is made for this plan.
    fn with<T>(&mut self, call: impl FnOnce(&mut MixtureExecutor<'_>) -> T) -> Option<T> {
        let state = std::mem::take(&mut self.saved.mixture);
        let mut executor = MixtureExecutor::resume(&self.execution.plan, state).ok()?;
        let result = call(&mut executor);
        self.saved.mixture = executor.into_state();
        Some(result)
    }
}
