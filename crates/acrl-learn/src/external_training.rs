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

use acrl::{BatchMatrix, Interval, Named, VecTask};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ppo::StepResult;
use crate::settings::{ExternalLearner, Settings};
use crate::{Coverage, ExternalEvaluation, ExternalPpo, LearnError, PpoConfig, RewardSample};

/// A training of any learner in environments that the caller steps; can be stored between two updates, and continued
/// bit-identically if the environments can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalTraining {
    /// Proximal policy optimisation.
    Ppo(Box<ExternalPpo>),
}

/// Runs the same expression for any learner.
macro_rules! each {
    ($training:expr, $learner:ident => $call:expr) => {
        match $training {
            ExternalTraining::Ppo($learner) => $call,
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
        })
    }

    /// The default settings of a learner, by name.
    pub fn defaults(learner: ExternalLearner, num_envs: usize, total_steps: u64) -> Value {
        match learner {
            ExternalLearner::Ppo => serde_json::to_value(PpoConfig::external(num_envs, total_steps)),
        }
        .unwrap_or_default()
    }

    /// The learner.
    pub fn learner(&self) -> ExternalLearner {
        match self {
            Self::Ppo(_) => ExternalLearner::Ppo,
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
        }
    }

    /// Updates the networks or the model; `observation` is the present one. Returns the metrics of an iteration that
    /// it completes.
    pub fn update(&mut self, observation: &BatchMatrix) -> Result<Option<Named<f64>>, LearnError> {
        match self {
            Self::Ppo(ppo) => ppo.update(observation),
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

    /// Begins to evaluate the present policy.
    pub fn evaluation(&self, seed: u64) -> ExternalEvaluation {
        match self {
            Self::Ppo(ppo) => ExternalEvaluation::new(ppo, seed),
        }
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
