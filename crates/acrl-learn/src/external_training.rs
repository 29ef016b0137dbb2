//! Training in environments that the caller steps: one interface for every learner.
//!
//! The driver is a loop of three calls, the same for each learner:
//!
//! ```text
//! loop until training.iteration() == training.iterations():
//!     training.act(&observation, &mut actions)
//!     step the environments
//!     training.observe(&result)
//!     if training.update_is_due(): metrics = training.update(&observation)
//! ```

use acrl::{BatchMatrix, Error, Interval, Named, Specification, VecTask};
use acrl_envs::{External, ExternalParameters, ExternalReward, Problem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ppo::StepResult;
use crate::settings::{ExternalLearner, Settings};
use crate::{
    Coverage, ExternalEvaluation, ExternalPpo, LearnError, PolicyFile, PpoConfig, RewardSample, Sac,
    SacConfig, Tabular, TabularConfig, TrainingRecord,
};

/// A training of any learner in environments that the caller steps; can be stored between two updates, and continued
/// bit-identically if the environments can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalTraining {
    /// Proximal policy optimisation.
    Ppo(Box<ExternalPpo>),
    /// Soft actor-critic.
    Sac(Box<Sac>),
    /// A model learnt by counting.
    Tabular(Box<Tabular>),
}

/// Runs the same expression for any learner.
macro_rules! each {
    ($training:expr, $learner:ident => $call:expr) => {
        match $training {
            ExternalTraining::Ppo($learner) => $call,
            ExternalTraining::Sac($learner) => $call,
            ExternalTraining::Tabular($learner) => $call,
        }
    };
}

impl ExternalTraining {
    /// A training from scratch. The task's environment is a description that is not stepped. `ranges` are those of the
    /// observations, infinite where they are unknown; `given` marks the rewards whose range is known and not to be measured.
    /// `settings` replace the learner's defaults.
    pub fn new(
        learner: ExternalLearner,
        task: &VecTask<'_>,
        (ranges, given): (&[Interval], &[bool]),
        (num_envs, total_steps): (usize, u64),
        settings: &Map<String, Value>,
        seed: u64,
    ) -> Result<Self, LearnError> {
        Ok(match learner {
            ExternalLearner::Ppo => {
                let config = configured(PpoConfig::external(num_envs, total_steps), settings)?;
                Self::Ppo(Box::new(ExternalPpo::new(task, ranges, given, config, seed)?))
            }
            ExternalLearner::Sac => {
                let config = SacConfig { num_envs, total_steps, ..SacConfig::default() };
                Self::Sac(Box::new(Sac::new(task, ranges, given, configured(config, settings)?, seed)?))
            }
            ExternalLearner::Tabular => {
                let config = TabularConfig { num_envs, total_steps, ..TabularConfig::default() };
                Self::Tabular(Box::new(Tabular::new(
                    task,
                    ranges,
                    given,
                    configured(config, settings)?,
                    seed,
                )?))
            }
        })
    }

    /// The default settings of a learner, by name.
    pub fn defaults(learner: ExternalLearner, num_envs: usize, total_steps: u64) -> Value {
        match learner {
            ExternalLearner::Ppo => serde_json::to_value(PpoConfig::external(num_envs, total_steps)),
            ExternalLearner::Sac => {
                serde_json::to_value(SacConfig { num_envs, total_steps, ..SacConfig::default() })
            }
            ExternalLearner::Tabular => {
                serde_json::to_value(TabularConfig { num_envs, total_steps, ..TabularConfig::default() })
            }
        }
        .unwrap_or_default()
    }

    /// The learner.
    pub fn learner(&self) -> ExternalLearner {
        match self {
            Self::Ppo(_) => ExternalLearner::Ppo,
            Self::Sac(_) => ExternalLearner::Sac,
            Self::Tabular(_) => ExternalLearner::Tabular,
        }
    }

    /// An action for every environment.
    pub fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) {
        each!(self, learner => learner.act(observation, actions));
    }

    /// Records the result of the last actions.
    pub fn observe(&mut self, result: &StepResult<'_>) {
        each!(self, learner => learner.observe(result));
    }

    /// Whether an update is due.
    pub fn update_is_due(&self) -> bool {
        match self {
            Self::Ppo(ppo) => ppo.rollout_is_full(),
            Self::Sac(sac) => sac.update_is_due(),
            Self::Tabular(tabular) => tabular.update_is_due(),
        }
    }

    /// Updates the networks or the model; `observation` is the present one. Returns the metrics of an iteration that
    /// it completes.
    pub fn update(&mut self, observation: &BatchMatrix) -> Result<Option<Named<f64>>, LearnError> {
        match self {
            Self::Ppo(ppo) => ppo.update(observation),
            Self::Sac(sac) => sac.update(),
            Self::Tabular(tabular) => tabular.update(observation),
        }
    }

    /// Environments that should be reset now, if that is possible.
    pub fn restarts(&self) -> &[bool] {
        each!(self, learner => learner.restarts())
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        each!(self, learner => learner.iteration())
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        each!(self, learner => learner.iterations())
    }

    /// Environment steps done, in all environments.
    pub fn steps(&self) -> u64 {
        each!(self, learner => learner.steps())
    }

    /// Number of parallel environments.
    pub fn num_envs(&self) -> usize {
        each!(self, learner => learner.settings().num_envs)
    }

    /// Whether another training has the same learner and settings.
    pub fn same_settings(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ppo(a), Self::Ppo(b)) => a.settings() == b.settings(),
            (Self::Sac(a), Self::Sac(b)) => a.settings() == b.settings(),
            (Self::Tabular(a), Self::Tabular(b)) => a.settings() == b.settings(),
            _ => false,
        }
    }

    /// Scale R of each of the environment's rewards.
    pub fn units(&self) -> Vec<f64> {
        each!(self, learner => learner.units())
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        each!(self, learner => learner.reward_sample())
    }

    /// Sample of the weights that it was trained on.
    pub fn coverage(&self) -> &Coverage {
        each!(self, learner => learner.coverage())
    }

    /// Begins to evaluate the present policy; `None` if nothing has to be measured in the environment, because averages
    /// in a model are exact.
    pub fn evaluation(&self, seed: u64) -> Option<ExternalEvaluation> {
        match self {
            Self::Ppo(ppo) => Some(ExternalEvaluation::new(&**ppo, seed)),
            Self::Sac(sac) => Some(ExternalEvaluation::new(&**sac, seed)),
            Self::Tabular(_) => None,
        }
    }

    /// The content of a policy file, with the result of the evaluation if there is one. `steps` are those of the training
    /// and the evaluation, `description` is that of the environment.
    pub fn policy_file(
        &self,
        evaluation: Option<&ExternalEvaluation>,
        (description, specification): (&ExternalParameters, &Specification),
        (steps, seed, complete): (u64, u64, bool),
    ) -> Result<PolicyFile, LearnError> {
        let Some(evaluation) = evaluation else {
            return match self {
                Self::Tabular(tabular) => tabular.policy_file(description, seed, complete),
                Self::Ppo(_) | Self::Sac(_) => {
                    Err(Error::Environment("the policy has not been evaluated".to_owned()).into())
                }
            };
        };
        let failed = |error: String| LearnError::Core(Error::Environment(error));
        let policy = evaluation.policy().clone();
        let observed = policy.inputs().map_or(&[][..], |inputs| inputs.observation());
        let units = description.reward.iter().zip(self.units());
        let description = ExternalParameters {
            observation: observed.iter().map(|range| [range.low, range.high]).collect(),
            // Only the width of a range matters, and so it is exact.
            reward: units
                .map(|(old, high)| ExternalReward { name: old.name.clone(), low: 0.0, high })
                .collect(),
            ..description.clone()
        };
        let environment = External::new(description).map_err(|error| failed(error.to_string()))?;
        let task = VecTask::new(&environment, specification.clone())?;
        let problem = environment.problem(specification).map_err(|error| failed(error.to_string()))?;
        // Names that a problem file cannot hold are refused now, not when the policy is opened.
        Problem::parse(&problem).map_err(|error| failed(error.to_string()))?;
        let file = PolicyFile {
            problem,
            specification: specification.clone(),
            policy,
            library: evaluation.library(),
            coverage: self.coverage().clone(),
            reward_sample: self.reward_sample().clone(),
            execution_defaults: evaluation.execution_defaults(&task),
            training: TrainingRecord {
                learner: self.learner().name().to_owned(),
                method: crate::Training::A_CRL.to_owned(),
                steps,
                seed,
                complete,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
        };
        file.check(&task).map_err(|error| failed(error.to_string()))?;
        Ok(file)
    }
}

/// A configuration with some settings replaced.
fn configured<C: Settings>(defaults: C, settings: &Map<String, Value>) -> Result<C, LearnError> {
    let mut config = defaults;
    for (name, value) in settings {
        let Some(setting) = C::SETTINGS.iter().find(|setting| setting.key == name) else {
            let known: Vec<&str> = C::SETTINGS.iter().map(|setting| setting.key).collect();
            return Err(LearnError::UnknownSetting { name: name.clone(), known: known.join(", ") });
        };
        let wrong = || LearnError::Setting {
            name: setting.key,
            value: value.to_string(),
            expected: setting.range.expected(),
        };
        let mut all = serde_json::to_value(&config).map_err(|_| wrong())?;
        all[setting.key] = value.clone();
        config = serde_json::from_value(all).map_err(|_| wrong())?;
    }
    config.check_ranges()?;
    Ok(config)
}
