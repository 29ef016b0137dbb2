//! A table in a policy file: metadata and tensors.

use acrl::{Objective, Requirement, Specification, VecTask};
use acrl_envs::{External, ExternalParameters, ExternalReward};
use acrl_files::{Container, Tensor};
use serde::{Deserialize, Serialize};

use super::counts::FlatCounts;
use super::observations::Rows;
use super::policy::Parts;
use super::solution::StoredSolution;
use super::{Counts, ObservationTable, Tabular, TabularPolicy, TimeLimit};
use crate::policy_file::PolicyFileError;
use crate::{ExecutionDefaults, LearnError, PolicyFile, TrainedPolicy, TrainingRecord};

/// Metadata of a table in a policy file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TabularMeta {
    states: usize,
    width: usize,
    /// Numbers of observations that are not 0.
    numbers: usize,
    /// Distinct successors of all pairs.
    transitions: usize,
    actions: Vec<usize>,
    rewards: Vec<String>,
    objective: Option<Objective>,
    requirements: Vec<Requirement>,
    /// The solution without the arrays with a number for each state, and the number of its policies.
    solution: StoredSolution,
    policies: usize,
    journey: bool,
    #[serde(default, skip_serializing_if = "TimeLimit::is_unknown")]
    time_limit: TimeLimit,
}

impl TabularPolicy {
    /// Metadata, and tensors whose names begin with a prefix.
    pub(crate) fn to_parts(&self, prefix: &str) -> (TabularMeta, Vec<(String, Tensor)>) {
        let Parts { table, counts, actions, rewards, specification, solution } = self.parts().clone();
        let (rows, flat) = (Rows::from(table), FlatCounts::from(counts));
        let states = rows.ends.len();
        let StoredSolution { component_of, journey, policies, .. } = solution.clone();
        let meta = TabularMeta {
            states,
            width: rows.width,
            numbers: rows.places.len(),
            transitions: flat.successors.len(),
            actions,
            rewards,
            objective: specification.objective().cloned(),
            requirements: specification.requirements().to_vec(),
            policies: policies.len(),
            journey: !journey.is_empty(),
            time_limit: flat.limit,
            solution: StoredSolution {
                component_of: Vec::new(),
                journey: Vec::new(),
                policies: Vec::new(),
                ..solution
            },
        };
        let pairs = flat.visits.len();
        let model_states = states * meta.time_limit.phases(states).count;
        // Counts are exact in double precision up to 2⁵³.
        let counts = |counts: Vec<u64>| counts.into_iter().map(|n| n as f64).collect::<Vec<_>>();
        let mut tensors = vec![
            ("observations.ends", Tensor::whole([states], rows.ends)),
            ("observations.places", Tensor::whole([meta.numbers], rows.places)),
            ("observations.values", Tensor::f64([meta.numbers], rows.values)),
            ("counts.visits", Tensor::f64([pairs], counts(flat.visits))),
            ("counts.ends", Tensor::f64([pairs], counts(flat.ends))),
            ("counts.lengths", Tensor::whole([pairs], flat.lengths)),
            ("counts.successors", Tensor::whole([meta.transitions], flat.successors)),
            ("counts.times", Tensor::f64([meta.transitions], counts(flat.times))),
            ("counts.rewards", Tensor::f64([pairs, meta.rewards.len()], flat.sums)),
            ("counts.starts", Tensor::f64([states], counts(flat.starts))),
            ("solution.policies", Tensor::whole([policies.len(), model_states], policies.concat())),
        ];
        if meta.journey {
            tensors.push(("solution.journey", Tensor::whole([model_states], journey)));
            tensors.push(("solution.component_of", Tensor::whole([model_states], component_of)));
        }
        let named = tensors.into_iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor));
        (meta, named.collect())
    }

    /// From metadata and tensors.
    pub(crate) fn from_parts(
        meta: TabularMeta,
        prefix: &str,
        container: &mut Container,
    ) -> Result<Self, PolicyFileError> {
        let wrong = PolicyFileError::Inconsistent;
        let TabularMeta { states, width, numbers, transitions, actions, rewards, .. } = meta;
        let joint = actions.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
        let Some((joint, pairs)) = joint.and_then(|joint| Some((joint, joint.checked_mul(states)?))) else {
            return Err(wrong(format!("its actions are {actions:?}")));
        };
        let name = |name: &str| format!("{prefix}{name}");
        let counts = |counts: Vec<f64>| {
            let count = |x: f64| {
                let whole = (0.0..=9_007_199_254_740_992.0).contains(&x) && x.fract() == 0.0;
                if whole { Ok(x as u64) } else { Err(wrong(format!("a count is {x}"))) }
            };
            counts.into_iter().map(count).collect::<Result<Vec<u64>, _>>()
        };
        let rows = Rows {
            width,
            ends: container.take_whole(&name("observations.ends"), &[states])?,
            places: container.take_whole(&name("observations.places"), &[numbers])?,
            values: container.take_f64(&name("observations.values"), &[numbers])?,
        };
        let flat = FlatCounts {
            actions: joint,
            rewards: rewards.len(),
            visits: counts(container.take_f64(&name("counts.visits"), &[pairs])?)?,
            ends: counts(container.take_f64(&name("counts.ends"), &[pairs])?)?,
            lengths: container.take_whole(&name("counts.lengths"), &[pairs])?,
            successors: container.take_whole(&name("counts.successors"), &[transitions])?,
            times: counts(container.take_f64(&name("counts.times"), &[transitions])?)?,
            sums: container.take_f64(&name("counts.rewards"), &[pairs, rewards.len()])?,
            starts: counts(container.take_f64(&name("counts.starts"), &[states])?)?,
            limit: meta.time_limit,
        };
        let model_states = states.saturating_mul(meta.time_limit.phases(states).count);
        let policies = container.take_whole(&name("solution.policies"), &[meta.policies, model_states])?;
        let mut of_states = |what: &str| match meta.journey {
            true => container.take_whole(&name(what), &[model_states]),
            false => Ok(Vec::new()),
        };
        let solution = StoredSolution {
            journey: of_states("solution.journey")?,
            component_of: of_states("solution.component_of")?,
            policies: policies.chunks(model_states.max(1)).map(<[u32]>::to_vec).collect(),
            ..meta.solution
        };
        let specification = Specification::new(meta.objective, meta.requirements)
            .map_err(|error| wrong(error.to_string()))?;
        let table = ObservationTable::try_from(rows).map_err(wrong)?;
        let counts = Counts::try_from(flat).map_err(wrong)?;
        let parts = Parts { table, counts, actions, rewards, specification, solution };
        Self::try_from(parts).map_err(wrong)
    }
}

impl Tabular {
    /// The policy as it is now: solves the estimated model.
    pub fn policy(&self) -> Result<TabularPolicy, LearnError> {
        TabularPolicy::new(
            self.table.clone(),
            self.counts.clone(),
            self.parts.clone(),
            self.reward_names.clone(),
            self.specification.clone(),
        )
    }

    /// The policy file of the training as it is now. `description` is that of the environment, whose rewards' ranges are
    /// replaced by those of the model. Nothing has to be measured in the environment, because averages in the model are exact.
    pub fn policy_file(
        &self,
        description: &ExternalParameters,
        seed: u64,
        complete: bool,
    ) -> Result<PolicyFile, LearnError> {
        let policy = self.policy()?;
        let reward = |(old, unit): (&ExternalReward, f64)| ExternalReward {
            name: old.name.clone(),
            low: 0.0,
            high: unit,
        };
        let description = ExternalParameters {
            reward: description.reward.iter().zip(self.units()).map(reward).collect(),
            ..description.clone()
        };
        let failed = |error: String| LearnError::Core(acrl::Error::Environment(error));
        let environment = External::new(description).map_err(|error| failed(error.to_string()))?;
        let task = VecTask::new(&environment, self.specification.clone())?;
        let problem = environment.problem(&self.specification).map_err(|error| failed(error.to_string()))?;
        // Names that a problem file cannot hold are refused now, not when the policy is opened.
        acrl_envs::Problem::parse(&problem).map_err(|error| failed(error.to_string()))?;
        let file = PolicyFile {
            problem,
            specification: self.specification.clone(),
            library: policy.library(seed)?,
            coverage: self.coverage.clone(),
            reward_sample: self.reward_sample.clone(),
            execution_defaults: ExecutionDefaults::uncalibrated(&task),
            training: TrainingRecord {
                learner: "tabular".to_owned(),
                method: crate::Training::A_CRL.to_owned(),
                steps: self.steps,
                seed,
                complete,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            policy: TrainedPolicy::Tabular(Box::new(policy)),
        };
        file.check(&task).map_err(|error| failed(error.to_string()))?;
        Ok(file)
    }
}
