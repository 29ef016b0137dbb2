//! Execution of a policy file: default settings, scales, tolerances and evidence, for every front end.

use std::sync::Arc;

use acrl::{
    Agent, AgentBuilder, DiagnosisInput, EpochLength, Error, Executor, Multipliers, Requirement,
    Specification, VecTask,
};
use acrl_envs::RunSettings;
use serde::{Deserialize, Serialize};

use crate::PolicyFile;
use crate::tuning::calibration::{MAX_INITIAL_EPOCH, WITH_OBJECTIVE, WITHOUT_OBJECTIVE};

/// Default settings for the execution of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionDefaults {
    /// η of the dual update, in units of the rewards' ranges; the gain per step is η/T₀.
    pub step_size: f64,
    /// Length T₀ of a dual epoch, or where `auto` starts, for a run of 200,000 steps.
    pub epoch: u64,
    /// The executor of λ: the policy or its library.
    pub executor: Executor,
}

impl ExecutionDefaults {
    /// The defaults of a policy that is not calibrated.
    pub fn uncalibrated(task: &VecTask<'_>) -> Self {
        let (step_size, epoch) = if task.has_objective() { WITH_OBJECTIVE } else { WITHOUT_OBJECTIVE };
        Self { step_size, epoch, executor: Executor::Policy }
    }

    /// Initial T₀ of a run with this number of steps; `None` if its end is open, as that of an agent.
    ///
    /// With an objective, every switch of behaviour costs travel, and a shortfall of the requirements on the way grows as
    /// T₀/n. So the initial T₀ is proportional to the steps and to the tolerance of the run.
    pub fn epoch_for(&self, steps: Option<u64>, tolerance: f64, objective: bool) -> EpochLength {
        const CALIBRATED: f64 = RunSettings::STEPS as f64;
        let factor = match steps {
            Some(steps) if objective => steps as f64 * tolerance / (CALIBRATED * RunSettings::TOLERANCE),
            _ => 1.0,
        };
        EpochLength::Auto(((self.epoch as f64 * factor) as u64).clamp(1, MAX_INITIAL_EPOCH))
    }

    /// The executor if the epoch is given or not: a user who fixes the epoch wants π(·, λ).
    pub fn executor_for(&self, epoch: Option<EpochLength>) -> Executor {
        match epoch {
            Some(EpochLength::Fixed(_)) => Executor::Policy,
            Some(EpochLength::Auto(_) | EpochLength::Scheduled(_)) | None => self.executor,
        }
    }
}

/// A requirement for which a policy was not trained.
#[derive(Debug, thiserror::Error)]
pub enum ReboundError {
    /// Another reward or side.
    #[error(
        "was not trained for {requirement}: bounds can be changed without training, but not which rewards are bounded, and \
         on which side; it was trained for {trained}"
    )]
    Untrained {
        /// The requirement.
        requirement: Requirement,
        /// Those of the training.
        trained: String,
    },
    /// An invalid specification.
    #[error(transparent)]
    Invalid(#[from] Error),
}

impl PolicyFile {
    /// The specification of the training with the bounds of other requirements on the same rewards and sides.
    pub fn rebound(&self, requirements: &[Requirement]) -> Result<Specification, ReboundError> {
        let m = self.specification.requirements().len();
        let mut specification = self.specification.clone();
        for requirement in requirements {
            specification = specification.require(requirement.clone())?;
            if specification.requirements().len() != m {
                let trained: Vec<String> =
                    self.specification.requirements().iter().map(ToString::to_string).collect();
                let (requirement, trained) = (requirement.clone(), trained.join(", "));
                return Err(ReboundError::Untrained { requirement, trained });
            }
        }
        Ok(specification)
    }

    /// The ranges R₀ … R_m of the dual dynamics: those that the environment declares, or else those of the averages that the
    /// evaluation measured ([`PolicyLibrary::ranges`](acrl::PolicyLibrary::ranges)). The training measured over a few steps,
    /// and before its end. Averages over an epoch may lie closer together, so that multipliers would hardly move; or wider
    /// apart, so that they would overshoot.
    pub fn scales(&self, task: &VecTask<'_>) -> Vec<f64> {
        if !self.library.is_measured() {
            return task.scales().to_vec();
        }
        let mut scales = self.library.ranges(task.scales(), self.execution_defaults.epoch);
        if !task.has_objective() {
            scales[0] = task.scales()[0];
        }
        scales
    }

    /// Initial multipliers λ₀ of an execution with the task's bounds:
    /// [`PolicyLibrary::start`](acrl::PolicyLibrary::start).
    pub fn multipliers(&self, task: &VecTask<'_>) -> Result<Multipliers, Error> {
        let bounds = task.specification().bounds();
        Multipliers::new(self.library.start(&bounds, &self.scales(task), task.has_objective()))
    }

    /// η for the task's bounds: [`PolicyLibrary::step_size`](acrl::PolicyLibrary::step_size).
    pub fn step_size(&self, task: &VecTask<'_>) -> f64 {
        let (bounds, scales) = (task.specification().bounds(), self.scales(task));
        self.library.step_size(self.execution_defaults.step_size, &bounds, &scales, task.has_objective())
    }

    /// Fills in the step size and the epoch of a run where they are not given.
    pub fn complete(&self, run: &mut RunSettings, executor: Executor, task: &VecTask<'_>) {
        run.step_size = run.step_size.or_else(|| Some(self.step_size(task)));
        run.epoch = run.epoch.or_else(|| Some(self.epoch(executor, Some(run.steps), run.tolerance, task)));
    }

    /// T₀ of an execution of `steps` steps, or without a planned end; `tolerance` is a share of what is asked.
    pub fn epoch(
        &self,
        executor: Executor,
        steps: Option<u64>,
        tolerance: f64,
        task: &VecTask<'_>,
    ) -> EpochLength {
        match executor {
            Executor::TimeSharing => {
                let (bounds, scales) = (task.specification().bounds(), self.scales(task));
                let tolerances = self.library.tolerances(tolerance, &bounds, &scales[1..]);
                let shortest = self.execution_defaults.epoch;
                let schedule = self.library.schedule(&bounds, &scales, &tolerances, steps, shortest);
                EpochLength::Scheduled(schedule)
            }
            Executor::Policy | Executor::Library => {
                self.execution_defaults.epoch_for(steps, tolerance, task.has_objective())
            }
        }
    }

    /// The configuration of an agent that executes the policy for the task's requirements, by default without a planned end.
    pub fn agent_builder(&self, task: &VecTask<'_>) -> Result<AgentBuilder, Error> {
        let (defaults, scales) = (self.execution_defaults, self.scales(task));
        Ok(Agent::builder(task.specification().requirements().to_vec())
            .step_size(self.step_size(task))
            .epoch(self.epoch(defaults.executor, None, RunSettings::TOLERANCE, task))
            .executor(defaults.executor)
            .scales(scales[0], &scales[1..])
            .multipliers(self.multipliers(task)?)
            .objective(task.has_objective())
            .library(Some(Arc::new(self.library.clone()))))
    }

    /// What is known beside the runs of these agents, for their diagnosis.
    pub fn evidence(&self, task: &VecTask<'_>, agents: &[Agent]) -> PolicyEvidence<'_> {
        let library =
            agents.iter().fold(self.library.clone(), |library, agent| agent.corrected_library(&library));
        let steps = agents.iter().map(|agent| agent.progress().0).min().unwrap_or(0);
        let held = !agents.is_empty() && agents.iter().all(|agent| agent.executor() == Executor::Library);
        let bounds =
            agents.first().map_or(task.specification().bounds(), |agent| agent.dynamics().bounds().to_vec());
        PolicyEvidence {
            observed: self.reward_sample.vectors(),
            library: library.values(),
            library_errors: library.standard_errors(),
            deficit_rate_std: library.deviations(task.scales().len(), steps / 2).split_off(1),
            multiplier_units: task.scales()[1..].to_vec(),
            multiplier_limit: self.multiplier_limit(task, &bounds, held),
        }
    }

    /// The largest Σ λ_i U_i, in units U of the training, at which multipliers may still be converging: twice the library's
    /// prices, if the library is feasible by two standard errors. Else it is where the requirements outweigh the objective,
    /// if entries of the library are `held` already; otherwise the executor may still change to the library. `None` without
    /// an objective, or if the library is exact.
    fn multiplier_limit(&self, task: &VecTask<'_>, bounds: &[f64], held: bool) -> Option<f64> {
        if !task.has_objective() || !self.library.is_measured() {
            return None;
        }
        let units = task.scales();
        let alone = acrl::PolicyLibrary::ALONE * units[0];
        let mut sure = self.library.clone();
        for entry in &mut sure.entries {
            let errors = entry.errors.iter().skip(1);
            entry.values.iter_mut().skip(1).zip(errors).for_each(|(v, error)| *v -= 2.0 * error);
        }
        let size = |prices: &[f64]| prices.iter().zip(&units[1..]).map(|(l, unit)| l * unit).sum::<f64>();
        let priced = sure.optimum(bounds).map(|best| 2.0 * size(&best.multipliers) + units[0]);
        let unsure = if held { alone } else { f64::INFINITY };
        Some(priced.map_or(unsure, |priced| priced.min(alone)))
    }
}

/// What a policy file shows beside runs of its policy, for their diagnosis.
#[derive(Debug, Clone)]
pub struct PolicyEvidence<'a> {
    observed: &'a [Vec<f64>],
    library: Vec<Vec<f64>>,
    library_errors: Vec<Vec<f64>>,
    deficit_rate_std: Vec<f64>,
    multiplier_units: Vec<f64>,
    multiplier_limit: Option<f64>,
}

impl PolicyEvidence<'_> {
    /// As the input of a diagnosis, to which the statistics of the runs are added.
    pub fn input(&self) -> DiagnosisInput<'_> {
        DiagnosisInput {
            observed: self.observed,
            library: &self.library,
            library_errors: &self.library_errors,
            deficit_rate_std: self.deficit_rate_std.clone(),
            multiplier_units: self.multiplier_units.clone(),
            multiplier_limit: self.multiplier_limit,
            ..DiagnosisInput::default()
        }
    }
}
