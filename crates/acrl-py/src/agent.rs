//! The native half of `acrl.Agent`: one call to act, one to observe.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use acrl::{BatchMatrix, DiagnosisInput, EpochLength, Multipliers, Rewards, Rng, VecPolicy as _, Verdict};
use acrl_learn::tabular::{TabularExecution, TabularExecutionOptions, TabularState};
use acrl_learn::{RewardSample, TrainedPolicy};
use numpy::{PyArray1, ToPyArray as _};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};
use serde::{Deserialize, Serialize};

use crate::arrays::Floats;
use crate::errors::{InputError, UnknownNameError, input, lock};
use crate::policy::{PolicyFile, executor_name, executor_named, realisation_name};
use crate::solved::{Execution, Saved, Settings, SolvedPolicy};
use crate::specification::Requirement;

/// Dual dynamics, what turns multipliers into behaviour, and, of a trained or solved policy, the policy itself.
///
/// Any thread may use it. Its lock is taken only by a thread that holds the interpreter's, and no Python code runs
/// meanwhile: so nobody waits for it, and a process that forks leaves it open.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Agent {
    /// The names of the rewards r1 ... rm.
    rewards: Vec<Py<PyString>>,
    /// The name of r0, if it has one.
    objective: Option<Py<PyString>>,
    policy: Option<Py<PolicyFile>>,
    solved: Option<Py<SolvedPolicy>>,
    action_repeat: u64,
    run: Mutex<Run>,
}

struct Run {
    state: State,
    acting: Option<Acting>,
    execution: Option<Execution>,
    /// The execution of a tabular policy.
    tabular: Option<TabularExecution>,
}

/// The state that is saved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    agent: acrl::Agent,
    /// The rewards (r1 ... rm) of this run, if the policy is not a trained one, which brings its own.
    reward_sample: RewardSample,
    /// The action that is repeated, and the step of its first use.
    held: Option<(u64, Vec<f64>)>,
    /// Generator of sampled actions.
    rng: Rng,
    /// The execution of a solved policy.
    #[serde(default)]
    solved: Option<Saved>,
    /// The execution of a tabular policy.
    #[serde(default)]
    tabular: Option<TabularState>,
}

/// The state to be saved, by reference.
#[derive(Serialize)]
struct StateRef<'a> {
    agent: &'a acrl::Agent,
    reward_sample: &'a RewardSample,
    held: &'a Option<(u64, Vec<f64>)>,
    rng: &'a Rng,
    #[serde(skip_serializing_if = "Option::is_none")]
    solved: Option<&'a Saved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tabular: Option<&'a TabularState>,
}

/// A trained policy, and buffers for one environment.
struct Acting {
    policy: TrainedPolicy,
    observation: BatchMatrix,
    weights: BatchMatrix,
    actions: BatchMatrix,
}

#[pymethods]
impl Agent {
    /// Of requirements with names of their own. What is absent is as a trained policy recommends, or as in
    /// [`acrl::AgentBuilder`]. `epoch` is fixed, `epoch_start` the initial length of "auto"; `objective` is the name of the
    /// objective's reward, and `weigh` says whether there is an objective at all.
    #[new]
    #[pyo3(signature = (
        requirements, objective, weigh, policy=None, deterministic=true, action_repeat=1, solved=None, *, step_size=None,
        epoch=None, epoch_start=None, objective_scale=None, scales=None, multipliers=None, executor=None,
        tolerance=0.005
    ))]
    #[expect(clippy::too_many_arguments, reason = "called from one place, by name")]
    fn new(
        py: Python<'_>,
        requirements: Vec<Bound<'_, Requirement>>,
        objective: Option<&str>,
        weigh: bool,
        policy: Option<Py<PolicyFile>>,
        deterministic: bool,
        action_repeat: u64,
        solved: Option<Py<SolvedPolicy>>,
        step_size: Option<f64>,
        epoch: Option<u64>,
        epoch_start: Option<u64>,
        objective_scale: Option<f64>,
        scales: Option<Vec<f64>>,
        multipliers: Option<Vec<f64>>,
        executor: Option<&str>,
        tolerance: f64,
    ) -> PyResult<Self> {
        let requirements: Vec<_> = requirements.iter().map(|r| r.get().0.clone()).collect();
        let start = multipliers.map(Multipliers::new).transpose().map_err(input)?;
        if let Some(policy) = solved {
            let executor = executor.map(str::to_owned);
            let settings = Settings { tolerance, executor, step_size, epoch, epoch_start };
            let (mut execution, mut builder, rng) =
                Execution::begin(py, policy.get(), &requirements, settings)?;
            if objective_scale.is_some() || scales.is_some() {
                let text = "the scales of a solved policy are the ranges of its model's rewards";
                return Err(InputError::new_err(text));
            }
            if let Some(start) = start {
                builder = builder.reference(start);
            }
            let agent = builder.build().map_err(input)?;
            execution.begin_epoch(&agent);
            let state = State {
                agent,
                reward_sample: RewardSample::default(),
                held: None,
                rng,
                solved: None,
                tabular: None,
            };
            let mut new = Self::with_state(py, state, objective, None, deterministic, action_repeat);
            new.solved = Some(policy);
            lock(&new.run).execution = Some(execution);
            return Ok(new);
        }
        if let Some(table) = policy.as_ref().and_then(|policy| policy.get().table(executor)) {
            if objective_scale.is_some() || scales.is_some() {
                let text = "the scales of a tabular policy are the ranges of its model's rewards";
                return Err(InputError::new_err(text));
            }
            let options = TabularExecutionOptions {
                steps: None,
                tolerance,
                time_sharing: executor.map(|name| name == "time_sharing"),
                step_size,
                epoch,
                epoch_start,
            };
            let file = policy.as_ref().map(|policy| policy.get());
            let specification = file.map(|file| file.file().rebound(&requirements)).transpose();
            let specification = specification.map_err(input)?.unwrap_or_default();
            let mut execution = TabularExecution::new(table, specification, options).map_err(input)?;
            let mut builder = execution.agent_builder().map_err(input)?.objective(weigh);
            if let Some(start) = start {
                builder = builder.reference(start);
            }
            let agent = builder.build().map_err(input)?;
            execution.begin_epoch(&agent);
            let rng = file.map_or_else(|| Rng::new(0), PolicyFile::split_rng);
            let state = State {
                agent,
                reward_sample: RewardSample::default(),
                held: None,
                rng,
                solved: None,
                tabular: None,
            };
            let new = Self::with_state(py, state, objective, policy, deterministic, action_repeat);
            lock(&new.run).tabular = Some(execution);
            return Ok(new);
        }
        let epoch = epoch.map(EpochLength::Fixed).or(epoch_start.map(EpochLength::Auto));
        let mut executor = executor.map(executor_named).transpose()?;
        let (mut builder, mut ranges) = match policy.as_ref().map(Py::get) {
            None => (acrl::Agent::builder(requirements.clone()), vec![1.0; requirements.len() + 1]),
            Some(policy) => {
                let file = policy.file();
                let task = policy.task(file.rebound(&requirements).map_err(input)?)?;
                let executor = *executor.get_or_insert(file.execution_defaults.executor_for(epoch));
                let builder = file.agent_builder(&task).map_err(input)?;
                (builder.epoch(file.epoch(executor, None, tolerance, &task)), file.scales(&task))
            }
        };
        if let Some(range) = objective_scale {
            ranges[0] = range;
        }
        if let Some(scales) = scales {
            ranges.splice(1.., scales);
        }
        builder = builder.scales(ranges[0], &ranges[1..]).objective(weigh);
        if let Some(step_size) = step_size {
            builder = builder.step_size(step_size);
        }
        if let Some(epoch) = epoch {
            builder = builder.epoch(epoch);
        }
        if let Some(start) = start {
            builder = builder.multipliers(start);
        }
        if let Some(executor) = executor {
            builder = builder.executor(executor);
        }
        let state = State {
            agent: builder.build().map_err(input)?,
            reward_sample: RewardSample::default(),
            held: None,
            rng: policy.as_ref().map_or_else(|| Rng::new(0), |policy| policy.get().split_rng()),
            solved: None,
            tabular: None,
        };
        Ok(Self::with_state(py, state, objective, policy, deterministic, action_repeat))
    }

    /// From the result of `to_json`; bit-identical.
    #[staticmethod]
    #[pyo3(signature = (text, objective, weigh, policy=None, deterministic=true, action_repeat=1, solved=None))]
    #[expect(clippy::too_many_arguments, reason = "called from one place")]
    fn from_json(
        py: Python<'_>,
        text: &str,
        objective: Option<&str>,
        weigh: bool,
        policy: Option<Py<PolicyFile>>,
        deterministic: bool,
        action_repeat: u64,
        solved: Option<Py<SolvedPolicy>>,
    ) -> PyResult<Self> {
        let wrong = |error| InputError::new_err(format!("the state of the agent cannot be read: {error}"));
        let mut state: State = serde_json::from_str(text).map_err(wrong)?;
        if let Some(file) = policy.as_ref().map(|policy| policy.get().file()) {
            let (m, found) = (file.specification.requirements().len(), state.agent.dynamics().len());
            if m != found {
                let text = format!("the policy was trained for {m} requirements, but the agent has {found}");
                return Err(InputError::new_err(text));
            }
            // An agent that follows a plan does not fall back on entries of the library.
            if state.tabular.is_none() {
                state.agent.attach_library(Some(Arc::new(file.library.clone()))).map_err(input)?;
            }
        }
        let parts = policy.as_ref().map_or(0, |policy| policy.get().action_len());
        let fits = state.held.as_ref().is_none_or(|(_, action)| action.len() == parts);
        if !fits || state.agent.has_objective() != weigh || state.solved.is_some() != solved.is_some() {
            return Err(InputError::new_err("the state of the agent does not fit its policy"));
        }
        let execution = match (&solved, state.solved.take()) {
            (Some(policy), Some(saved)) => Some(Execution::restore(py, policy.get(), &state.agent, saved)?),
            _ => None,
        };
        let table = policy.as_ref().and_then(|policy| policy.get().table(None));
        let tabular = match (table, state.tabular.take()) {
            (Some(table), Some(saved)) => Some(TabularExecution::resume(table, saved).map_err(input)?),
            (None, Some(_)) => {
                return Err(InputError::new_err("the state of the agent does not fit its policy"));
            }
            (_, None) => None,
        };
        let mut restored = Self::with_state(py, state, objective, policy, deterministic, action_repeat);
        restored.solved = solved;
        {
            let mut run = lock(&restored.run);
            (run.execution, run.tabular) = (execution, tabular);
        }
        Ok(restored)
    }

    /// The whole state as JSON.
    fn to_json(&self) -> PyResult<String> {
        let wrong = |error| InputError::new_err(format!("the state cannot be written: {error}"));
        let Run { state, execution, tabular, .. } = &*lock(&self.run);
        serde_json::to_string(&StateRef {
            agent: &state.agent,
            reward_sample: &state.reward_sample,
            held: &state.held,
            rng: &state.rng,
            solved: execution.as_ref().map(Execution::saved),
            tabular: tabular.as_ref().map(TabularExecution::state),
        })
        .map_err(wrong)
    }

    /// The action of the trained policy for one observation; `None` if that is no array of floats, and has to be made
    /// one first.
    fn act<'py>(
        &self,
        py: Python<'py>,
        observation: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let policy = self.policy.as_ref().map(Py::get);
        let policy = policy.ok_or_else(|| InputError::new_err("the agent has no trained policy"))?;
        let action = match self.held() {
            Some(action) => action,
            None => match Floats::new(observation) {
                Some(seen) => self.decide(policy, &seen)?,
                None => return Ok(None),
            },
        };
        Ok(Some(policy.action(py, &action)))
    }

    /// The index of the action of the solved policy in a state, given by index or by name.
    fn act_in_state(&self, state: &Bound<'_, PyAny>) -> PyResult<usize> {
        let policy = self.solved.as_ref().map(Py::get);
        let policy = policy.ok_or_else(|| InputError::new_err("the agent has no solved policy"))?;
        let seen = policy.state(state)?;
        let Run { state, execution, .. } = &mut *lock(&self.run);
        let choice = execution.as_mut().map_or(0, |e| e.act(seen, &state.agent, &mut state.rng));
        Ok(policy.file.action_index(seen, choice))
    }

    /// Takes one step's rewards, by name or in order, in the user's signs, and how its episode ended. True if the
    /// multipliers were updated.
    #[pyo3(signature = (rewards, terminated=false, truncated=false))]
    fn observe(&self, rewards: &Bound<'_, PyAny>, terminated: bool, truncated: bool) -> PyResult<bool> {
        let Read { values, has_objective } = self.read(rewards)?;
        let Run { state, execution, tabular, .. } = &mut *lock(&self.run);
        if let Some(tabular) = tabular {
            let named = named(tabular, &values, has_objective);
            let updated = state.observe(values, false)?;
            tabular.observe(&named, terminated || truncated, updated, &mut state.agent).map_err(input)?;
            return Ok(updated);
        }
        let updated = state.observe(values, self.policy.is_none() && execution.is_none())?;
        if let (Some(execution), true) = (execution, updated) {
            execution.begin_epoch(&state.agent);
        }
        Ok(updated)
    }

    /// Changes one bound from the next step on, and opens a new ledger. A solved policy is solved for again; if the bounds
    /// cannot be met, nothing changes.
    fn set_bound(&self, py: Python<'_>, name: &str, bound: f64) -> PyResult<()> {
        if let Some(policy) = self.solved.as_ref().map(Py::get) {
            return self.replan(py, policy, name, bound);
        }
        let Run { state, tabular, .. } = &mut *lock(&self.run);
        let (Some(execution), Some(policy)) = (&tabular, self.policy.as_ref().map(Py::get)) else {
            return state.agent.set_bound(name, bound).map_err(input);
        };
        let mut agent = state.agent.clone();
        agent.set_bound(name, bound).map_err(input)?;
        let specification = policy.file().rebound(agent.dynamics().requirements()).map_err(input)?;
        let next = execution.rebound(specification, &mut agent).map_err(input)?;
        (state.agent, *tabular) = (agent, Some(next));
        Ok(())
    }

    /// The present multipliers.
    fn multipliers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let found = lock(&self.run).state.agent.multipliers().clone();
        found.as_slice().to_pyarray(py)
    }

    /// The weights w0 ... wm of these multipliers; w0 is 0 without an objective.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let agent = &lock(&self.run).state.agent;
        agent.multipliers().weights(agent.has_objective()).to_pyarray(py)
    }

    /// The weights w0 ... wm that a trained policy acts on, which need not add up to 1.
    fn acting_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        lock(&self.run).state.agent.weights().to_pyarray(py)
    }

    /// The present executor, and the entry of the library that is held.
    fn executor(&self) -> (&'static str, Option<usize>) {
        let run = lock(&self.run);
        let agent = &run.state.agent;
        match (&run.execution, &run.tabular) {
            (Some(execution), _) => (execution.executor(), None),
            (None, Some(tabular)) => (realisation_name(tabular.plan().realisation()), None),
            (None, None) => (executor_name(agent.executor()), agent.entry()),
        }
    }

    /// The requirements in force.
    fn requirements(&self) -> Vec<Requirement> {
        lock(&self.run).state.agent.dynamics().requirements().iter().map(|r| Requirement(r.clone())).collect()
    }

    /// The averages of r0 ... rm since the ledger was opened, those of the requirements in the user's signs.
    fn averages(&self) -> Vec<f64> {
        let run = lock(&self.run);
        let dynamics = run.state.agent.dynamics();
        let mut averages = dynamics.averages();
        for (average, requirement) in averages[1..].iter_mut().zip(dynamics.requirements()) {
            *average = requirement.sign() * *average + 0.0; // adding 0 turns -0 into 0
        }
        averages
    }

    /// The steps since the ledger was opened, and name, bound, average and certified shortfall of each requirement.
    fn certificate(&self) -> (u64, Vec<(String, f64, f64, f64)>) {
        let certificate = lock(&self.run).state.agent.certificate();
        let entries = certificate.requirements.into_iter();
        (certificate.steps, entries.map(|c| (c.name, c.bound, c.average, c.certified_shortfall)).collect())
    }

    /// The diagnosis as JSON, with the fields of `acrl run --json`.
    fn diagnosis(&self, tolerance: f64) -> PyResult<String> {
        let run = &*lock(&self.run);
        let Run { state: State { reward_sample, .. }, execution, .. } = run;
        let agent = &*self.judged(run);
        if let Some(execution) = execution {
            let input = DiagnosisInput { library: execution.values(), ..DiagnosisInput::default() };
            return written(&agent.diagnosis(tolerance, input));
        }
        let diagnosis = match self.policy.as_ref().map(Py::get) {
            Some(policy) => {
                let task = policy.task(policy.file().specification.clone())?;
                let evidence = policy.file().evidence(&task, std::slice::from_ref(agent));
                agent.diagnosis(tolerance, evidence.input())
            }
            // The long-run averages of other policies are mixtures of their observed rewards, after enough steps.
            None => {
                let library =
                    if agent.diagnosis_input(tolerance).growing() { reward_sample.vectors() } else { &[] };
                agent.diagnosis(tolerance, DiagnosisInput { library, ..DiagnosisInput::default() })
            }
        };
        written(&diagnosis)
    }

    /// The verdict on each requirement, where this share of what is asked is tolerated.
    fn verdicts(&self, share: f64) -> Vec<&'static str> {
        let run = lock(&self.run);
        let agent = &*self.judged(&run);
        let (certificate, tolerances) = (agent.certificate(), agent.tolerances(share));
        let verdicts = tolerances.iter().enumerate().map(|(i, tolerance)| certificate.verdict(i, *tolerance));
        let name = |verdict| match verdict {
            Verdict::Satisfied => "satisfied",
            Verdict::WithinTolerance => "within_tolerance",
            Verdict::Violated => "violated",
        };
        verdicts.map(name).collect()
    }

    /// The certified shortfalls that are tolerated, for a share of what is asked.
    fn tolerances(&self, share: f64) -> Vec<f64> {
        self.judged(&lock(&self.run)).tolerances(share)
    }

    /// The length of the current epoch, in steps.
    #[getter]
    fn epoch(&self) -> u64 {
        lock(&self.run).state.agent.dynamics().epoch_length()
    }

    /// The steps observed in all.
    #[getter]
    fn steps(&self) -> u64 {
        lock(&self.run).state.agent.dynamics().steps()
    }
}

impl Agent {
    fn with_state(
        py: Python<'_>,
        state: State,
        objective: Option<&str>,
        policy: Option<Py<PolicyFile>>,
        deterministic: bool,
        action_repeat: u64,
    ) -> Self {
        let acting = policy.as_ref().map(|policy| {
            let policy = policy.get();
            Acting {
                policy: policy.actor(deterministic),
                observation: BatchMatrix::zeros(policy.observation_len(), 1),
                weights: BatchMatrix::zeros(state.agent.weights().len(), 1),
                actions: BatchMatrix::zeros(policy.action_len(), 1),
            }
        });
        let name = |r: &acrl::Requirement| PyString::intern(py, r.reward()).unbind();
        Self {
            rewards: state.agent.dynamics().requirements().iter().map(name).collect(),
            objective: objective.map(|name| PyString::intern(py, name).unbind()),
            policy,
            solved: None,
            action_repeat,
            run: Mutex::new(Run { state, acting, execution: None, tabular: None }),
        }
    }

    /// The agent with the library of its policy, by which tolerances and diagnoses are judged.
    fn judged<'a>(&self, run: &'a Run) -> Cow<'a, acrl::Agent> {
        let agent = &run.state.agent;
        match self.policy.as_ref().filter(|_| run.tabular.is_some()) {
            None => Cow::Borrowed(agent),
            Some(policy) => {
                let mut with_library = agent.clone();
                // The library was made for as many requirements.
                let attached =
                    with_library.attach_library(Some(Arc::new(policy.get().file().library.clone())));
                attached.map_or(Cow::Borrowed(agent), |()| Cow::Owned(with_library))
            }
        }
    }

    /// Solves for another bound.
    fn replan(&self, py: Python<'_>, policy: &SolvedPolicy, name: &str, bound: f64) -> PyResult<()> {
        loop {
            let (settings, mut agent) = {
                let run = lock(&self.run);
                (run.execution.as_ref().map(Execution::settings), run.state.agent.clone())
            };
            let Some(settings) = settings else { return Ok(()) };
            let before = agent.dynamics().requirements().to_vec();
            agent.set_bound(name, bound).map_err(input)?;
            let mut next = Execution::planned(py, policy, agent.dynamics().requirements(), settings)?;
            let Run { state, execution, .. } = &mut *lock(&self.run);
            // Another thread may have changed a bound meanwhile.
            if state.agent.dynamics().requirements() == before {
                let mut agent = state.agent.clone();
                agent.set_bound(name, bound).map_err(input)?;
                next.take_over(&mut agent)?;
                (state.agent, *execution) = (agent, Some(next));
                return Ok(());
            }
        }
    }

    /// The action that is repeated, until as many steps have been observed.
    fn held(&self) -> Option<Vec<f64>> {
        if self.action_repeat <= 1 {
            return None;
        }
        let state = &lock(&self.run).state;
        let (at, action) = state.held.as_ref()?;
        let since = state.agent.dynamics().steps().saturating_sub(*at);
        (0 < since && since < self.action_repeat).then(|| action.clone())
    }

    /// A new action.
    fn decide(&self, policy: &PolicyFile, seen: &Floats<'_>) -> PyResult<Vec<f64>> {
        let width = policy.observation_len();
        match seen.shape() {
            [n] if *n == width => {}
            [n] => return Err(policy.wrong_width(*n)),
            _ => {
                let text =
                    format!("the observation has shape {}, expected {width} numbers", seen.shape_text());
                return Err(InputError::new_err(text));
            }
        }
        let Run { state, acting, tabular, .. } = &mut *lock(&self.run);
        let Some(acting) = acting else { return Ok(Vec::new()) };
        seen.write(&mut acting.observation, 0, "observations")?;
        if let Some(tabular) = tabular {
            return Ok(tabular.act(acting.observation.as_slice(), &state.agent, &mut state.rng));
        }
        acting.weights.as_mut_slice().copy_from_slice(state.agent.weights());
        let Acting { policy, observation, weights, actions } = acting;
        policy.act(observation, weights, actions, std::slice::from_mut(&mut state.rng)).map_err(input)?;
        let action = actions.as_slice().to_vec();
        if self.action_repeat > 1 {
            state.held = Some((state.agent.dynamics().steps(), action.clone()));
        }
        Ok(action)
    }

    /// r0 ... rm in the user's signs.
    fn read<'py>(&self, rewards: &Bound<'py, PyAny>) -> PyResult<Read> {
        if let Ok(named) = rewards.cast::<PyDict>() {
            return self.by_name(rewards, |name| named.get_item(name));
        }
        let m = self.rewards.len();
        let mut values = Vec::with_capacity(m + 2);
        match Floats::new(rewards) {
            Some(floats) if floats.shape().len() == 1 => floats.extend(&mut values),
            _ if rewards.is_instance_of::<PyString>() => return Err(no_rewards(rewards)),
            _ => {
                let listed = rewards.is_instance_of::<PyList>() || rewards.is_instance_of::<PyTuple>();
                if !listed && let Ok(named) = rewards.cast::<PyMapping>() {
                    let get = |name: &Bound<'py, PyString>| {
                        if named.contains(name)? { named.get_item(name).map(Some) } else { Ok(None) }
                    };
                    return self.by_name(rewards, get);
                }
                let items = rewards.try_iter().map_err(|_| no_rewards(rewards))?;
                // One too many suffices, should the iterator be infinite.
                for item in items.take(m + 2) {
                    values.push(number(&item?, &|| format!("number {} of the rewards", values.len()))?);
                }
            }
        }
        let has_objective = values.len() != m;
        if !has_objective {
            values.insert(0, 0.0);
        } else if values.len() != m + 1 {
            let found = rewards.len().unwrap_or(values.len());
            let text =
                format!("rewards: expected {m} numbers, or {} with the objective, found {found}", m + 1);
            return Err(InputError::new_err(text));
        }
        Ok(Read { values: self.check(rewards.py(), values)?, has_objective })
    }

    fn by_name<'py>(
        &self,
        rewards: &Bound<'py, PyAny>,
        get: impl Fn(&Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Read> {
        let py = rewards.py();
        let told = |name: &Bound<'py, PyString>| format!("the reward '{name}'");
        let (mut values, mut has_objective) = (vec![0.0], false);
        if let Some(name) = self.objective.as_ref().map(|name| name.bind(py))
            && let Some(value) = get(name)?
        {
            values[0] = number(&value, &|| told(name))?;
            has_objective = true;
        }
        for name in self.rewards.iter().map(|name| name.bind(py)) {
            let Some(value) = get(name)? else {
                let keys = rewards.try_iter()?.map(|key| key?.str().map(|key| key.to_string()));
                let keys = keys.collect::<PyResult<Vec<_>>>()?.join(", ");
                let found = if keys.is_empty() { "none" } else { &keys };
                return Err(UnknownNameError::new_err(format!("{} is missing: found {found}", told(name))));
            };
            values.push(number(&value, &|| told(name))?);
        }
        Ok(Read { values: self.check(py, values)?, has_objective })
    }

    /// Refuses rewards that are not finite.
    fn check(&self, py: Python<'_>, values: Vec<f64>) -> PyResult<Vec<f64>> {
        let Some(place) = values.iter().position(|value| !value.is_finite()) else { return Ok(values) };
        let name = match (place, &self.objective) {
            (0, None) => "the objective".to_owned(),
            (0, Some(name)) => format!("the reward '{}'", name.bind(py)),
            _ => format!("the reward '{}'", self.rewards[place - 1].bind(py)),
        };
        let text = format!("{name} must be a finite number, but it is {}", values[place]);
        Err(InputError::new_err(text))
    }
}

/// Rewards of a step.
struct Read {
    /// r0 ... rm in the user's signs.
    values: Vec<f64>,
    /// Whether the objective is among them, and not 0 for want of it.
    has_objective: bool,
}

/// The rewards that a tabular execution counts, out of r0 ... rm in the user's signs.
fn named(execution: &TabularExecution, values: &[f64], has_objective: bool) -> Vec<Option<f64>> {
    let specification = execution.specification();
    let value = |name: &String| {
        let bounded = specification.requirements().iter().position(|r| r.reward() == name);
        let objective = specification.objective().filter(|o| has_objective && o.reward == *name);
        bounded.map(|i| values[i + 1]).or(objective.map(|_| values[0]))
    };
    execution.reward_names().iter().map(value).collect()
}

impl State {
    /// Adds the rewards of a step, in the user's signs; `keep` stores them in the sample too.
    fn observe(&mut self, mut values: Vec<f64>, keep: bool) -> PyResult<bool> {
        for (value, requirement) in values[1..].iter_mut().zip(self.agent.dynamics().requirements()) {
            *value *= requirement.sign();
        }
        let rewards = Rewards::new(values).map_err(input)?;
        let updated = self.agent.observe(&rewards).map_err(input)?.is_some();
        if keep {
            self.reward_sample.see(rewards.requirements());
        }
        Ok(updated)
    }
}

/// A diagnosis as JSON.
fn written(diagnosis: &acrl::Diagnosis) -> PyResult<String> {
    let wrong = |error| InputError::new_err(format!("the diagnosis cannot be written: {error}"));
    serde_json::to_string(diagnosis).map_err(wrong)
}

/// A number, whatever its type.
fn number(value: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<f64> {
    value.extract::<f64>().map_err(|error| {
        if !error.is_instance_of::<PyTypeError>(value.py()) {
            return error;
        }
        let found = value.repr().map_or_else(|_| "of no known kind".to_owned(), |text| text.to_string());
        InputError::new_err(format!("{} is {found}, expected a number", name()))
    })
}

fn no_rewards(found: &Bound<'_, PyAny>) -> PyErr {
    let found = found.repr().map_or_else(|_| "of no known kind".to_owned(), |text| text.to_string());
    InputError::new_err(format!("the rewards are {found}, expected numbers by name or in order"))
}
