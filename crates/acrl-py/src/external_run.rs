//! Runs of a trained policy in environments that Python steps.

use std::sync::Mutex;

use acrl_app::RunOptions;
use acrl_learn::ppo::StepResult;
use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::errors::{InputError, input, lock, verb};
use crate::policy::{PolicyFile, executor_option, init_multipliers_option};
use crate::specification::Requirement;
use crate::train::{batch, env_major, flags};
use crate::verbs::{Report, Settings, execution};

/// Runs whose environments are stepped by the caller.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct ExternalRun {
    /// `None` once it is finished.
    run: Mutex<Option<acrl_app::ExternalRun>>,
    /// The numbers of an observation.
    width: usize,
}

#[pymethods]
impl ExternalRun {
    /// Runs of a policy in parallel environments, with the bounds of these requirements. `name` is the policy's name.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "called from one place")]
    fn new(
        name: &str,
        policy: &Bound<'_, PolicyFile>,
        requirements: Vec<Bound<'_, Requirement>>,
        settings: Settings,
        seed: Option<u64>,
        init_multipliers: Option<(&str, Vec<(String, f64)>)>,
        executor: Option<&str>,
        num_envs: usize,
    ) -> PyResult<Self> {
        let requirements: Vec<_> = requirements.iter().map(|r| r.get().0.clone()).collect();
        let options = RunOptions {
            execution: execution(settings),
            seed,
            init_multipliers: init_multipliers.map(init_multipliers_option),
            executor: executor.map(executor_option).transpose()?,
            ..RunOptions::default()
        };
        let problem = policy.get().problem.clone();
        let run = acrl_app::ExternalRun::new(name, problem, &requirements, &options, num_envs);
        let run = run.map_err(|error| verb(&error))?;
        Ok(Self { run: Mutex::new(Some(run)), width: policy.get().observation_len() })
    }

    /// An action for every environment, which has a row of observations.
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.with(|run| {
            let observations = batch(&observations, self.width, run.num_envs(), "observations")?;
            Ok(env_major(py, run.act(&observations).map_err(input)?))
        })
    }

    /// Takes the outcome of a step of environments that made one (`mask`). True when all runs are over.
    fn observe(
        &self,
        rewards: PyReadonlyArray2<'_, f64>,
        observations: PyReadonlyArray2<'_, f64>,
        final_observations: PyReadonlyArray2<'_, f64>,
        terminated: PyReadonlyArray1<'_, bool>,
        truncated: PyReadonlyArray1<'_, bool>,
        mask: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<bool> {
        self.with(|run| {
            let (num_envs, names) = (run.num_envs(), run.reward_names().len());
            let observation = batch(&observations, self.width, num_envs, "observations")?;
            let truncated = flags(&truncated, num_envs, "truncated")?;
            let last = if truncated.iter().any(|ended| *ended) {
                Some(batch(&final_observations, self.width, num_envs, "observations")?)
            } else {
                None
            };
            run.observe(&StepResult {
                rewards: &batch(&rewards, names, num_envs, "rewards")?,
                final_observation: last.as_ref().unwrap_or(&observation),
                observation: &observation,
                terminated: &flags(&terminated, num_envs, "terminated")?,
                truncated: &truncated,
                mask: &flags(&mask, num_envs, "mask")?,
            })
            .map_err(input)?;
            Ok(run.is_over())
        })
    }

    /// The object of `acrl run --json`, the snapshots, and the page.
    fn finish(&self, command: &str) -> PyResult<(String, String, Report)> {
        let run = lock(&self.run).take().ok_or_else(finished)?;
        let name = run.name().to_owned();
        let run = run.finish().map_err(|error| verb(&error))?;
        let json = serde_json::to_string(&run).map_err(input)?;
        let snapshots = serde_json::to_string(run.snapshots()).map_err(input)?;
        Ok((json, snapshots, Report::new(run.page(&name, command))))
    }
}

impl ExternalRun {
    fn with<T>(&self, work: impl FnOnce(&mut acrl_app::ExternalRun) -> PyResult<T>) -> PyResult<T> {
        work(lock(&self.run).as_mut().ok_or_else(finished)?)
    }
}

fn finished() -> PyErr {
    InputError::new_err("the runs are finished")
}
