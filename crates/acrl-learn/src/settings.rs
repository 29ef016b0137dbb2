//! Settings of the learners: type, default, range and purpose of each, defined once.
//!
//! A configuration is declared by the `settings!` macro, from which the struct, its defaults, its
//! checks, the reading of `[train]` and the reference page `docs/training-settings.md` follow.

use acrl_envs::{ProblemError, TrainSection};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::LearnError;
use crate::baselines::BaselineConfig;
use crate::kernel::actor_critic::ActorCriticConfig;
use crate::kernel::policy_gradient::PolicyGradientConfig;
use crate::ppo::PpoConfig;
use crate::q_learning::QLearningConfig;

/// One setting of a learner.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Name of the field, and key in `[train]`.
    pub key: &'static str,
    /// Purpose, in one sentence.
    pub purpose: &'static str,
    /// Admissible values.
    pub range: Range,
    /// Default in words, where it is not a constant.
    pub default: Option<&'static str>,
}

/// Admissible values of a setting.
#[derive(Debug, Clone, Copy)]
pub enum Range {
    /// Whole numbers from the first to the second.
    Whole(u64, u64),
    /// Numbers above the first and below the second.
    Open(f64, f64),
    /// Numbers above the first, and at most the second.
    HalfOpen(f64, f64),
    /// Numbers from the first to the second.
    Closed(f64, f64),
    /// Numbers of at least the first, and below the second.
    ClosedOpen(f64, f64),
    /// Lists of the widths of 1 to 8 hidden layers, each at most this.
    Layers(u64),
    /// Lists of numbers that are 0 or more.
    Nonnegative,
    /// One of these words; checked by the type.
    Word(&'static [&'static str]),
    /// A table of settings, or a word; checked by the type.
    Table(&'static str),
}

/// Range of settings that only have to be positive.
pub(crate) const POSITIVE: Range = Range::Open(0.0, f64::INFINITY);
/// Range of numbers of environment steps.
pub(crate) const STEPS: Range = Range::Whole(1, 1_000_000_000_000_000);

impl Range {
    /// The range in words, as in "expected ...".
    pub fn expected(&self) -> String {
        match *self {
            Self::Whole(low, high) => format!("a whole number from {low} to {high}"),
            Self::Open(low, f64::INFINITY) => format!("a finite number above {low}"),
            Self::Open(low, high) => format!("a number above {low} and below {high}"),
            Self::HalfOpen(low, high) => format!("a number above {low} and at most {high}"),
            Self::Closed(low, f64::INFINITY) => format!("a finite number of at least {low}"),
            Self::Closed(low, high) => format!("a number from {low} to {high}"),
            Self::ClosedOpen(low, high) => format!("a number of at least {low} and below {high}"),
            Self::Layers(widest) => {
                format!("a list of 1 to 8 widths of hidden layers, each from 1 to {widest}")
            }
            Self::Nonnegative => "a list of finite numbers of at least 0".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Table(expected) => expected.to_owned(),
        }
    }

    /// Whether a value is in the range. What is no finite number has no JSON value, and is in none.
    fn contains(&self, value: &Value) -> bool {
        let number = || value.as_f64().unwrap_or(f64::NAN);
        let list = |fine: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|all| all.iter().all(fine));
        match *self {
            Self::Whole(low, high) => value.as_u64().is_some_and(|n| (low..=high).contains(&n)),
            Self::Open(low, high) => number() > low && number() < high,
            Self::HalfOpen(low, high) => number() > low && number() <= high,
            Self::Closed(low, high) => number() >= low && number() <= high && number().is_finite(),
            Self::ClosedOpen(low, high) => number() >= low && number() < high,
            Self::Layers(widest) => {
                value.as_array().is_some_and(|layers| (1..=8).contains(&layers.len()))
                    && list(&|width| Self::Whole(1, widest).contains(width))
            }
            Self::Nonnegative => list(&|x| Self::Closed(0.0, f64::INFINITY).contains(x)),
            Self::Word(words) => value.as_str().is_none_or(|word| words.contains(&word)),
            Self::Table(_) => true,
        }
    }
}

/// A configuration whose settings are listed.
pub trait Settings: Serialize + DeserializeOwned + Clone {
    /// All of its settings.
    const SETTINGS: &[Setting];

    /// `Ok` if every setting is in its range.
    fn check_ranges(&self) -> Result<(), LearnError> {
        let all = serde_json::to_value(self).unwrap_or_default();
        for Setting { key, range, default, .. } in Self::SETTINGS {
            let value = &all[*key];
            // An absent value is one that the learner or the environment chooses.
            let absent = value.is_null() && default.is_some();
            if !absent && !range.contains(value) {
                let value = if value.is_null() { "not finite".to_owned() } else { value.to_string() };
                return Err(LearnError::Setting { name: key, value, expected: range.expected() });
            }
        }
        Ok(())
    }

    /// The same configuration with the settings of a section that it has.
    fn overlaid(self, section: &TrainSection) -> Result<Self, ProblemError> {
        let mut config = self;
        for Setting { key, range, .. } in Self::SETTINGS {
            let Some(given) = section.get(key) else { continue };
            let wrong = || section.wrong(key, &range.expected());
            if !range.contains(given) {
                return Err(wrong());
            }
            let mut all = serde_json::to_value(&config).map_err(|_| wrong())?;
            all[*key] = given.clone();
            config = serde_json::from_value(all).map_err(|_| wrong())?;
        }
        Ok(config)
    }
}

/// Declares a configuration: a struct with its defaults, and the list of its settings.
///
/// Each line is `name: type = default, range;`, or `name: type = default ("default in words"), range;`, below a
/// comment that says what the setting is for.
macro_rules! settings {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[doc = $purpose:literal])+ $key:ident: $type:ty = $default:expr $(, ($words:literal))?; $range:expr;)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[doc = $purpose])+ pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $crate::settings::Settings for $name {
            const SETTINGS: &[$crate::settings::Setting] = &[$($crate::settings::Setting {
                key: stringify!($key),
                purpose: concat!($($purpose),+),
                range: $range,
                default: { let words: &[&str] = &[$($words)?]; words.first().copied() },
            }),+];
        }
    };
}
pub(crate) use settings;

/// Enumerations that are written as words, in the problem file and on the command line.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal, $($(#[$of:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$of])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            /// All words.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word for it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = ProblemError;

            fn from_str(text: &str) -> Result<Self, ProblemError> {
                let found = Self::ALL.iter().copied().find(|one| one.name() == text);
                let expected = Self::WORDS.join(", ");
                found.ok_or_else(|| {
                    ProblemError::new(format!("the {} is {text:?}, expected one of {expected}", $what))
                })
            }
        }
    };
}

words! {
    /// The algorithm that trains.
    Learner, "learner",
    /// Proximal policy optimisation with networks.
    Ppo = "ppo",
    /// The paper's policy gradient with kernels.
    PolicyGradient = "policy_gradient",
    /// Actor and critic with kernels.
    ActorCritic = "actor_critic",
    /// Differential Q-learning with a table, for finite models.
    QLearning = "q_learning",
}

words! {
    /// The algorithm that trains in environments that the caller steps.
    ExternalLearner, "learner",
    /// One of the others, by what the training measures.
    Auto = "auto",
    /// Proximal policy optimisation.
    Ppo = "ppo",
    /// Soft actor-critic, or double Q-learning for discrete actions.
    Sac = "sac",
    /// A model learnt by counting, and solved exactly.
    Tabular = "tabular",
}

words! {
    /// The method: one policy for all multipliers, or a baseline.
    Method, "method",
    /// Algorithm 1: one policy for all multipliers.
    ACrl = "a_crl",
    /// One policy for weights that are given.
    FixedWeights = "fixed_weights",
    /// One training after the other, while the multipliers move towards their optimum.
    DualDescent = "dual_descent",
    /// Alternating steps on the policy and on the multipliers.
    PrimalDual = "primal_dual",
    /// Primal-dual with a PID controller of the multipliers.
    PidLagrangian = "pid_lagrangian",
    /// Primal-dual whose policies are stored and executed in turns.
    PrimalAveraging = "primal_averaging",
}

/// The `[train]` section of a problem file.
///
/// It lives here and not beside the problem file, because the learners define their settings; the
/// problem file hands the section on as it is written ([`TrainSection`]), with its lines for error messages.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSettings {
    /// Algorithm 1, or a baseline.
    pub method: Method,
    /// The algorithm.
    pub learner: Learner,
    /// Seed of the training's randomness.
    pub seed: u64,
    section: TrainSection,
}

/// The configuration of a learner.
#[derive(Debug, Clone, PartialEq)]
pub enum LearnerConfig {
    /// Proximal policy optimisation.
    Ppo(PpoConfig),
    /// The paper's policy gradient.
    PolicyGradient(PolicyGradientConfig),
    /// Actor and critic with kernels.
    ActorCritic(ActorCriticConfig),
}

/// Keys of earlier versions, and their present names.
const RENAMED: &[(&str, &str)] = &[
    ("steps", "total_steps"),
    ("decisions", "total_steps"),
    ("lanes", "num_envs"),
    ("segment", "n_steps"),
    ("hold", "action_repeat"),
    ("passes", "update_epochs"),
    ("minibatch", "minibatch_size"),
    ("step_size", "learning_rate"),
    ("discount", "gamma"),
    ("trace", "gae_lambda"),
    ("clip", "clip_range"),
    ("deviation", "init_std"),
    ("last_deviation", "final_std"),
    ("entropy", "ent_coef"),
    ("advantage_floor", "min_advantage_std"),
    ("gradient_norm", "max_grad_norm"),
    ("hidden", "hidden_sizes"),
    ("targets", "criterion"),
    ("sampler", "weight_sampler"),
    ("points", "weight_grid_size"),
    ("multiplier_step", "lambda_lr"),
];

/// Words of earlier versions, by key.
const RENAMED_WORDS: &[(&str, &str, &str)] = &[
    ("criterion", "average", "average_reward"),
    ("weight_sampler", "dual", "dual_trajectory"),
    ("weight_sampler", "corners", "faces"),
    ("learner", "tabular", "q_learning"),
];

impl TrainSettings {
    /// The settings of a problem without a section; `continuous` unless the model is finite.
    pub fn of(continuous: bool) -> Self {
        let learner = if continuous { Learner::Ppo } else { Learner::QLearning };
        Self { method: Method::ACrl, learner, seed: 0, section: TrainSection::default() }
    }

    /// Reads and checks a section; `continuous` unless the model is finite. A setting of another learner than
    /// the chosen one is admissible, so that the learner can be chosen on the command line.
    pub fn read(section: &TrainSection, continuous: bool) -> Result<Self, ProblemError> {
        let all = [
            PpoConfig::SETTINGS,
            PolicyGradientConfig::SETTINGS,
            ActorCriticConfig::SETTINGS,
            QLearningConfig::SETTINGS,
            BaselineConfig::SETTINGS,
        ];
        let mut known = vec!["learner", "method", "seed"];
        for setting in all.iter().copied().flatten() {
            if !known.contains(&setting.key) {
                known.push(setting.key);
            }
        }
        section.only(&known, RENAMED)?;
        for (key, old, new) in RENAMED_WORDS {
            if section.get(key).and_then(Value::as_str) == Some(old) {
                return Err(section.error(key, &format!("'{key}' in [train]: '{old}' is now '{new}'")));
            }
        }
        let Self { mut method, mut learner, mut seed, .. } = Self::of(continuous);
        if let Some(given) = section.get("learner") {
            let read = serde_json::from_value(given.clone());
            learner = read.map_err(|_| section.wrong("learner", &Range::Word(Learner::WORDS).expected()))?;
            if continuous && learner == Learner::QLearning {
                let expected =
                    "ppo, policy_gradient or actor_critic, because the states are not finitely many";
                return Err(section.wrong("learner", expected));
            }
        }
        if let Some(given) = section.get("method") {
            let read = serde_json::from_value(given.clone());
            method = read.map_err(|_| section.wrong("method", &Range::Word(Method::WORDS).expected()))?;
        }
        if let Some(given) = section.get("seed") {
            let expected = Range::Whole(0, u64::MAX).expected();
            seed = given.as_u64().ok_or_else(|| section.wrong("seed", &expected))?;
        }
        // The paper's box, if its size is not given.
        let section = match section.get("weight_sampler") {
            Some(word) if word == "box" => {
                section.with("weight_sampler", serde_json::json!({ "box": { "high": 5.0 } }))
            }
            _ => section.clone(),
        };
        let own = match learner {
            Learner::Ppo => PpoConfig::SETTINGS,
            Learner::PolicyGradient => PolicyGradientConfig::SETTINGS,
            Learner::ActorCritic => ActorCriticConfig::SETTINGS,
            Learner::QLearning => QLearningConfig::SETTINGS,
        };
        for key in section.keys().filter(|key| !own.iter().any(|setting| setting.key == *key)) {
            let others = || all.iter().copied().flatten().filter(|setting| setting.key == key);
            let fits =
                |setting: &Setting| section.get(key).is_some_and(|value| setting.range.contains(value));
            if let Some(first) = others().next().filter(|_| !others().any(fits)) {
                return Err(section.wrong(key, &first.range.expected()));
            }
        }
        let settings = Self { method, learner, seed, section };
        match learner {
            Learner::Ppo => drop(settings.ppo()?),
            Learner::PolicyGradient => _ = settings.policy_gradient()?,
            Learner::ActorCritic => _ = settings.actor_critic()?,
            Learner::QLearning => _ = settings.q_learning()?,
        }
        settings.baseline(method)?;
        Ok(settings)
    }

    /// Environment steps of the training, where the section gives them.
    pub fn total_steps(&self) -> Option<u64> {
        self.section.get("total_steps").and_then(Value::as_u64)
    }

    /// The configuration of PPO.
    pub fn ppo(&self) -> Result<PpoConfig, ProblemError> {
        PpoConfig::default().overlaid(&self.section)
    }

    /// The configuration of Q-learning.
    pub fn q_learning(&self) -> Result<QLearningConfig, ProblemError> {
        QLearningConfig::default().overlaid(&self.section)
    }

    /// The configuration of the policy gradient. The box of the paper selects its literal settings; weights along dual
    /// trajectories, which need many environments, are those of the default sampler.
    pub fn policy_gradient(&self) -> Result<PolicyGradientConfig, ProblemError> {
        let boxed = self.section.get("weight_sampler").is_some_and(|sampler| sampler.get("box").is_some());
        let config = if boxed { PolicyGradientConfig::literal() } else { PolicyGradientConfig::default() };
        config.overlaid(&self.for_kernels())
    }

    /// The configuration of actor and critic with kernels.
    pub fn actor_critic(&self) -> Result<ActorCriticConfig, ProblemError> {
        let average = self.section.get("criterion").is_some_and(|c| c == "average_reward");
        let config = if average { ActorCriticConfig::average() } else { ActorCriticConfig::default() };
        config.overlaid(&self.for_kernels())
    }

    /// The configuration of a baseline.
    pub fn baseline(&self, method: Method) -> Result<BaselineConfig, ProblemError> {
        // The method may be another one than that of the section.
        BaselineConfig::new(method).overlaid(&self.section.without("method"))
    }

    fn for_kernels(&self) -> TrainSection {
        let dual = self.section.get("weight_sampler").is_some_and(|w| w == "dual_trajectory");
        if dual { self.section.without("weight_sampler") } else { self.section.clone() }
    }

    /// The configuration of a learner for continuous problems, with another number of environment steps if that is given.
    pub fn learner_config(
        &self,
        learner: Learner,
        total_steps: Option<u64>,
    ) -> Result<LearnerConfig, ProblemError> {
        let given = self.section.get("criterion");
        if learner == Learner::PolicyGradient && given.is_some_and(|c| c == "average_reward") {
            return Err(ProblemError::new(
                "criterion = \"average_reward\" is for ppo and actor_critic, which have a critic, not for policy_gradient",
            ));
        }
        Ok(match learner {
            Learner::Ppo => {
                let mut config = self.ppo()?;
                config.total_steps = total_steps.or(config.total_steps);
                LearnerConfig::Ppo(config)
            }
            Learner::PolicyGradient => {
                let mut config = self.policy_gradient()?;
                config.total_steps = total_steps.unwrap_or(config.total_steps);
                LearnerConfig::PolicyGradient(config)
            }
            Learner::ActorCritic => {
                let mut config = self.actor_critic()?;
                config.total_steps = total_steps.unwrap_or(config.total_steps);
                LearnerConfig::ActorCritic(config)
            }
            Learner::QLearning => {
                return Err(ProblemError::new("the learner 'q_learning' is for finite problems"));
            }
        })
    }
}
