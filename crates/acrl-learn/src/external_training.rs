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

use acrl::{ActionPart, BatchMatrix, Error, Interval, Named, Specification, VecTask};
use acrl_envs::{External, ExternalParameters, ExternalReward, Problem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::auto::{LearnerChoice, needs_fast_updates};
use crate::ppo::StepResult;
use crate::settings::{ExternalLearner, Settings};
use crate::{
    Coverage, ExternalEvaluation, ExternalPpo, LearnError, PolicyFile, PpoConfig, RewardSample, Sac,
    SacConfig, Tabular, TabularConfig, TrainingRecord,
};

/// A training of any learner in environments that the caller steps; can be stored between two updates, and continued
/// bit-identically if the environments can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalTraining {
    active: Active,
    /// How the learner was chosen, or is being chosen; `None` if the caller named it.
    choice: Option<LearnerChoice>,
    /// Iterations that another learner did before.
    offset: u64,
}

/// The learner that acts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Active {
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
            Active::Ppo($learner) => $call,
            Active::Sac($learner) => $call,
            Active::Tabular($learner) => $call,
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
        let ppo = || -> Result<Active, LearnError> {
            let config = configured(PpoConfig::external(num_envs, total_steps), settings)?;
            Ok(Active::Ppo(Box::new(ExternalPpo::new(task, ranges, given, config, seed)?)))
        };
        let sac = || -> Result<Sac, LearnError> {
            let config = SacConfig { num_envs, total_steps, ..SacConfig::default() };
            Sac::new(task, ranges, given, configured(config, settings)?, seed)
        };
        let tabular = || -> Result<Active, LearnError> {
            let config = TabularConfig { num_envs, total_steps, ..TabularConfig::default() };
            let config = configured(config, settings)?;
            Ok(Active::Tabular(Box::new(Tabular::new(task, ranges, given, config, seed)?)))
        };
        let (active, choice) = match learner {
            ExternalLearner::Ppo => (ppo()?, None),
            ExternalLearner::Sac => (Active::Sac(Box::new(sac()?)), None),
            ExternalLearner::Tabular => (tabular()?, None),
            ExternalLearner::Auto => {
                if let Some(name) = settings.keys().next() {
                    return Err(LearnError::Setting {
                        name: "learner",
                        value: "auto".to_owned(),
                        expected: format!("the name of the learner whose setting '{name}' is"),
                    });
                }
                let continuous = |part: &ActionPart| matches!(part, ActionPart::Continuous(_));
                let (active, choice) = if let Some(reason) = needs_fast_updates(num_envs, total_steps) {
                    (ppo()?, LearnerChoice::made(reason))
                } else if task.environment().action_space().iter().any(continuous) {
                    match sac() {
                        Ok(sac) => {
                            (Active::Sac(Box::new(sac)), LearnerChoice::made("actions are continuous"))
                        }
                        Err(_) => (ppo()?, LearnerChoice::made("actions are continuous and discrete")),
                    }
                } else {
                    match (tabular(), sac()) {
                        (Ok(tabular), Ok(sac)) => (tabular, LearnerChoice::trial(sac)),
                        _ => (ppo()?, LearnerChoice::made("there are too many actions for a table")),
                    }
                };
                (active, Some(choice))
            }
        };
        Ok(Self { active, choice, offset: 0 })
    }

    /// Default number of parallel environments: one where each environment step has a gradient step.
    pub fn default_num_envs(learner: ExternalLearner, total_steps: u64) -> usize {
        match learner {
            ExternalLearner::Sac => 1,
            ExternalLearner::Auto if needs_fast_updates(1, total_steps).is_none() => 1,
            _ => PpoConfig::EXTERNAL_ENVS,
        }
    }

    /// Default number of environment steps, in all environments.
    pub fn default_total_steps(learner: ExternalLearner) -> u64 {
        match learner {
            ExternalLearner::Ppo => PpoConfig::EXTERNAL_STEPS,
            ExternalLearner::Tabular => TabularConfig::default().total_steps,
            ExternalLearner::Auto | ExternalLearner::Sac => SacConfig::default().total_steps,
        }
    }

    /// The default settings of a learner, by name.
    pub fn defaults(learner: ExternalLearner, num_envs: usize, total_steps: u64) -> Value {
        match learner {
            ExternalLearner::Auto => return Value::Object(Map::new()),
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

    /// The learner that acts now.
    pub fn learner(&self) -> ExternalLearner {
        match self.active {
            Active::Ppo(_) => ExternalLearner::Ppo,
            Active::Sac(_) => ExternalLearner::Sac,
            Active::Tabular(_) => ExternalLearner::Tabular,
        }
    }

    /// Why this learner was chosen; `None` if the caller named it, or as long as it is on trial.
    pub fn reason(&self) -> Option<&str> {
        self.choice.as_ref().and_then(LearnerChoice::reason)
    }

    /// An action for every environment.
    pub fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) {
        each!(&mut self.active, learner => learner.act(observation, actions));
        self.choice.iter_mut().for_each(|choice| choice.act(observation, actions));
    }

    /// Records the result of the last actions.
    pub fn observe(&mut self, result: &StepResult<'_>) {
        each!(&mut self.active, learner => learner.observe(result));
        self.choice.iter_mut().for_each(|choice| choice.observe(result));
    }

    /// Whether an update is due.
    pub fn update_is_due(&self) -> bool {
        match &self.active {
            Active::Ppo(ppo) => ppo.rollout_is_full(),
            Active::Sac(sac) => sac.update_is_due(),
            Active::Tabular(tabular) => tabular.update_is_due(),
        }
    }

    /// Updates the networks or the model; `observation` is the present one. Returns the metrics of an iteration that
    /// it completes.
    pub fn update(&mut self, observation: &BatchMatrix) -> Result<Option<Named<f64>>, LearnError> {
        if let (Active::Tabular(tabular), Some(choice)) = (&self.active, &mut self.choice)
            && let Some(sac) = choice.decide(&tabular.suitability(), tabular.settings().total_steps)
        {
            self.offset = tabular.iteration().saturating_sub(sac.iteration());
            self.active = Active::Sac(sac);
        }
        match &mut self.active {
            Active::Ppo(ppo) => ppo.update(observation),
            Active::Sac(sac) => sac.update(),
            Active::Tabular(tabular) => tabular.update(observation),
        }
    }

    /// Environments that should be reset now, if that is possible.
    pub fn restarts(&self) -> &[bool] {
        each!(&self.active, learner => learner.restarts())
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        self.offset + each!(&self.active, learner => learner.iteration())
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        self.offset + each!(&self.active, learner => learner.iterations())
    }

    /// Environment steps done, in all environments.
    pub fn steps(&self) -> u64 {
        each!(&self.active, learner => learner.steps())
    }

    /// Number of parallel environments.
    pub fn num_envs(&self) -> usize {
        each!(&self.active, learner => learner.settings().num_envs)
    }

    /// Whether another training has the same learner and settings; one whose learner is chosen is like any other such one
    /// with as many environments and steps.
    pub fn same_settings(&self, other: &Self) -> bool {
        if self.choice.is_some() || other.choice.is_some() {
            let size = |training: &Self| (training.num_envs(), training.total_steps());
            return self.choice.is_some() == other.choice.is_some() && size(self) == size(other);
        }
        match (&self.active, &other.active) {
            (Active::Ppo(a), Active::Ppo(b)) => a.settings() == b.settings(),
            (Active::Sac(a), Active::Sac(b)) => a.settings() == b.settings(),
            (Active::Tabular(a), Active::Tabular(b)) => a.settings() == b.settings(),
            _ => false,
        }
    }

    /// Environment steps planned, in all environments.
    fn total_steps(&self) -> u64 {
        match &self.active {
            Active::Ppo(ppo) => ppo.settings().total_steps.unwrap_or(0),
            Active::Sac(sac) => sac.settings().total_steps,
            Active::Tabular(tabular) => tabular.settings().total_steps,
        }
    }

    /// Scale R of each of the environment's rewards.
    pub fn units(&self) -> Vec<f64> {
        each!(&self.active, learner => learner.units())
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        each!(&self.active, learner => learner.reward_sample())
    }

    /// Sample of the weights that it was trained on.
    pub fn coverage(&self) -> &Coverage {
        each!(&self.active, learner => learner.coverage())
    }

    /// Begins to evaluate the present policy; `None` if nothing has to be measured in the environment, because averages
    /// in a model are exact.
    pub fn evaluation(&self, seed: u64) -> Option<ExternalEvaluation> {
        match &self.active {
            Active::Ppo(ppo) => Some(ExternalEvaluation::new(&**ppo, seed)),
            Active::Sac(sac) => Some(ExternalEvaluation::new(&**sac, seed)),
            Active::Tabular(_) => None,
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
            return match &self.active {
                Active::Tabular(tabular) => tabular.policy_file(description, seed, complete),
                Active::Ppo(_) | Active::Sac(_) => {
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
