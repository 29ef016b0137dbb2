//! The policy that a table is: π(s, λ) maximises the Lagrangian of the estimated model.

use std::sync::{Arc, OnceLock};

use acrl::{
    BatchMatrix, Error, FiniteCmdp, LibraryEntry, PolicyLibrary, Rng, Specification, VecPolicy, VecTask,
};
use acrl_exact::{FiniteTask, maximise};
use serde::{Deserialize, Serialize};

use super::solution::StoredSolution;
use super::{Counts, EstimatedSolution, ObservationTable, action_parts, estimate, solve_estimate, split};
use crate::LearnError;
use crate::evaluate::weightings;
use crate::tuning::tabular::LIBRARY_WORK;

/// Counts, and the solution of the model that they estimate.
///
/// In an observation that is not in the table it acts as in the nearest one that is; among several, as all are to an unknown
/// value of a discrete space, in one drawn at random.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct TabularPolicy {
    parts: Parts,
    solution: EstimatedSolution,
    cache: Cache,
}

/// What is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parts {
    pub(super) table: ObservationTable,
    pub(super) counts: Counts,
    /// Number of values of each part of an action.
    pub(super) actions: Vec<usize>,
    /// Names of the counted rewards.
    pub(super) rewards: Vec<String>,
    /// Specification of the training.
    pub(super) specification: Specification,
    pub(super) solution: StoredSolution,
}

/// What follows from the counts.
#[derive(Debug, Clone, Default)]
struct Cache {
    model: OnceLock<Arc<FiniteCmdp>>,
    /// Weights, and the index of the action in each state for them.
    rule: Option<(Vec<f64>, Vec<u32>)>,
}

impl TryFrom<Parts> for TabularPolicy {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Self, String> {
        let joint = parts.actions.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
        if joint != Some(parts.counts.actions())
            || parts.counts.rewards() != parts.rewards.len()
            || parts.counts.states() != parts.table.len()
            || parts.table.is_empty()
        {
            return Err("the table, the counts and the actions do not fit each other".to_owned());
        }
        let model = estimate(&parts.counts, &parts.rewards).map_err(|error| error.to_string())?;
        parts.specification.bind(model.reward_names()).map_err(|error| error.to_string())?;
        let solution = EstimatedSolution::from(parts.solution.clone());
        solution.answer.check(&model, parts.specification.requirements().len())?;
        let cache = Cache { model: Arc::new(model).into(), rule: None };
        Ok(Self { parts, solution, cache })
    }
}

impl From<TabularPolicy> for Parts {
    fn from(policy: TabularPolicy) -> Self {
        policy.parts
    }
}

impl TabularPolicy {
    /// Solves the model that the counts of a training estimate.
    pub(super) fn new(
        table: ObservationTable,
        mut counts: Counts,
        actions: Vec<usize>,
        rewards: Vec<String>,
        specification: Specification,
    ) -> Result<Self, LearnError> {
        counts.grow(table.len());
        if table.is_empty() {
            return Err(Error::Environment("it was never stepped".to_owned()).into());
        }
        let model = estimate(&counts, &rewards)?;
        let solution = solve_estimate(&model, &specification)?;
        let stored = StoredSolution::from(solution.clone());
        let parts = Parts { table, counts, actions, rewards, specification, solution: stored };
        let cache = Cache { model: Arc::new(model).into(), rule: None };
        Ok(Self { parts, solution, cache })
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// What was counted in training.
    pub fn counts(&self) -> &Counts {
        &self.parts.counts
    }

    /// The observations.
    pub fn table(&self) -> &ObservationTable {
        &self.parts.table
    }

    /// Names of the counted rewards.
    pub fn reward_names(&self) -> &[String] {
        &self.parts.rewards
    }

    /// Objective and requirements of the training.
    pub fn specification(&self) -> &Specification {
        &self.parts.specification
    }

    /// Solution for the training's bounds.
    pub fn solution(&self) -> &EstimatedSolution {
        &self.solution
    }

    /// The estimated model.
    pub fn model(&self) -> Result<Arc<FiniteCmdp>, Error> {
        if let Some(model) = self.cache.model.get() {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(estimate(&self.parts.counts, &self.parts.rewards)?);
        Ok(Arc::clone(self.cache.model.get_or_init(|| model)))
    }

    /// R₀ … R_m: ranges of the rewards in the estimated model.
    pub fn scales(&self) -> Result<Vec<f64>, Error> {
        let model = self.model()?;
        let task = FiniteTask::new(&model, &self.parts.specification)?;
        Ok(std::iter::once(task.objective_scale()).chain(task.scales().iter().copied()).collect())
    }

    /// The policy library: exact averages in the estimated model of Lagrangian maximisers at many weights, and of the policies
    /// of the solution.
    pub fn library(&self, seed: u64) -> Result<PolicyLibrary, LearnError> {
        let model = self.model()?;
        let task = FiniteTask::new(&model, &self.parts.specification)?;
        let drawn =
            (LIBRARY_WORK / (model.transitions() + model.states())).min(crate::tuning::library::DRAWN);
        let mut rng = Rng::stream(seed, u64::MAX - 1);
        let mut library = PolicyLibrary::default();
        let mut add = |weights: Vec<f64>, values: Vec<f64>| {
            library.entries.push(LibraryEntry { weights, values, ..LibraryEntry::default() });
        };
        for weights in weightings(&self.scales()?, task.has_objective(), drawn, &mut rng) {
            let values = maximise(&task, &weights)?.values(&task)?;
            add(weights, values.as_slice().to_vec());
        }
        if let [component] = &self.solution.answer.components[..] {
            let objective = f64::from(u8::from(task.has_objective()));
            let weights: Vec<f64> =
                std::iter::once(objective).chain(component.multipliers.iter().copied()).collect();
            component.values.iter().for_each(|values| add(weights.clone(), values.clone()));
        }
        Ok(library)
    }

    /// States whose action is taken in an observation: its own, or the nearest ones if it is unknown.
    fn states(&self, observation: &[f64]) -> Vec<usize> {
        match self.parts.table.find(observation) {
            Some(state) => vec![state],
            None => self.parts.table.nearest(observation, |_| true),
        }
    }

    /// Index of the action of π(·, w) in each state.
    fn rule(&mut self, weights: &[f64]) -> Result<&[u32], Error> {
        if self.cache.rule.as_ref().is_none_or(|(known, _)| known != weights) {
            let model = self.model()?;
            let task = FiniteTask::new(&model, &self.parts.specification)?;
            let failed = |error| Error::Environment(format!("its estimated model cannot be solved: {error}"));
            let maximiser = maximise(&task, weights).map_err(failed)?;
            let choices = maximiser.actions.iter().enumerate();
            let index = |(state, choice): (usize, &usize)| action_index(&model, state, *choice) as u32;
            self.cache.rule = Some((weights.to_vec(), choices.map(index).collect()));
        }
        Ok(self.cache.rule.as_ref().map_or(&[], |(_, rule)| rule))
    }

    /// `Ok` if it can act in the task's environment.
    pub(crate) fn check(&self, task: &VecTask<'_>) -> Result<(), String> {
        let environment = task.environment();
        let width = environment.observation_space().len();
        if width != self.parts.table.width() {
            let expected = self.parts.table.width();
            return Err(format!(
                "its observations have {expected} numbers, those of the environment {width}"
            ));
        }
        let actions = action_parts(environment.action_space()).map_err(|error| error.to_string())?;
        if actions != self.parts.actions {
            return Err(format!(
                "it was trained for actions with {:?} values, but the environment has {actions:?}",
                self.parts.actions
            ));
        }
        let rewards = environment.reward_names();
        if rewards != self.parts.rewards {
            let trained = &self.parts.rewards;
            return Err(format!(
                "it was trained for the rewards {trained:?}, but the environment has {rewards:?}"
            ));
        }
        Ok(())
    }
}

/// Index of the action of a choice, among all joint actions.
pub(super) fn action_index(model: &FiniteCmdp, state: usize, choice: usize) -> usize {
    model.action_numbers(state).nth(choice).unwrap_or(0)
}

impl VecPolicy for TabularPolicy {
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        for (env, rng) in rngs.iter_mut().enumerate() {
            let weights: Vec<f64> = weights.column(env).collect();
            let seen: Vec<f64> = observation.column(env).collect();
            let states = self.states(&seen);
            let state = if states.len() == 1 { states[0] } else { states[rng.index(states.len())] };
            // The beginning of an episode: how long it lasts already is not known here.
            let first = state * self.parts.counts.phases().count;
            let action = self.rule(&weights)?[first] as usize;
            actions.set_column(env, &split(action, &self.parts.actions));
        }
        Ok(())
    }
}
