//! The `[run]` and `[train]` sections of the problem file.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use acrl::EpochLength;

use crate::document::{ProblemError, Table, Value};

const STEPS: RangeInclusive<u64> = 1..=1_000_000_000_000_000;
const RUNS: RangeInclusive<u64> = 1..=1_000_000;
const EPOCH: RangeInclusive<u64> = 1..=1_000_000_000;
const POINTS: RangeInclusive<u64> = 1..=1_000_000;
const LAYERS: RangeInclusive<usize> = 1..=8;
const NEURONS: RangeInclusive<u64> = 1..=4096;
const HOLD: RangeInclusive<u64> = 1..=10_000;

/// The `[run]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Steps of a run.
    pub steps: u64,
    /// Independent runs.
    pub runs: usize,
    /// η of the dual update.
    pub step_size: f64,
    /// Whether the file says so; a trained policy knows a better default.
    pub step_size_given: bool,
    /// T₀, or that it is to be found.
    pub epoch: EpochSetting,
    /// Where to start when it is to be found: the file's `epoch` if that is a number, else its
    /// `epoch_start`. The gain per step is `step_size` divided by the epoch at the start.
    pub epoch_start: u64,
    /// Whether the file gives `epoch` or `epoch_start`; a trained policy knows better defaults.
    pub epoch_given: bool,
    /// The certified shortfall that still counts as met, in units of each reward's range.
    pub tolerance: f64,
    /// The seed of the randomness.
    pub seed: u64,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            steps: 200_000,
            runs: 1,
            step_size: 0.5,
            step_size_given: false,
            epoch: EpochSetting::Auto,
            epoch_start: 10,
            epoch_given: false,
            tolerance: 0.005,
            seed: 0,
        }
    }
}

impl RunSettings {
    /// The epoch as the dual dynamics take it.
    pub fn epoch_length(&self) -> EpochLength {
        match self.epoch {
            EpochSetting::Fixed(length) => EpochLength::Fixed(length),
            EpochSetting::Auto => EpochLength::Auto(self.epoch_start),
        }
    }
}

/// T₀ as a user gives it: a number, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochSetting {
    /// This many steps.
    Fixed(u64),
    /// To be found, beginning with [`RunSettings::epoch_start`].
    Auto,
}

impl FromStr for EpochSetting {
    type Err = ProblemError;

    fn from_str(text: &str) -> Result<Self, ProblemError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let length = text.parse().ok().filter(|n| EPOCH.contains(n));
        length
            .map(Self::Fixed)
            .ok_or_else(|| ProblemError::new(format!("the epoch is {text:?}, expected {}", epoch_expected())))
    }
}

fn epoch_expected() -> String {
    format!("a whole number from {} to {}, or auto", EPOCH.start(), EPOCH.end())
}

/// The `[train]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSettings {
    /// Algorithm 1, or a baseline.
    pub method: MethodSetting,
    /// The algorithm.
    pub learner: LearnerSetting,
    /// Steps of training.
    pub steps: u64,
    /// Whether the file says so; a learner may know a better default.
    pub steps_given: bool,
    /// Most points of a tabular learner's grid of weights.
    pub points: usize,
    /// Neurons of each hidden layer of a network.
    pub hidden: Vec<usize>,
    /// γ of the returns, per decision; none: the learner's.
    pub discount: Option<f64>,
    /// Steps for which an action is held; none: the environment's.
    pub hold: Option<usize>,
    /// Step size of a learner with kernels, or of a network's optimiser; none: the learner's.
    pub step_size: Option<f64>,
    /// Step size of a baseline's multipliers; none: the method's.
    pub multiplier_step: Option<f64>,
    /// What the critic estimates.
    pub targets: CriterionSetting,
    /// Where training takes multipliers from.
    pub sampler: WeightSamplerSetting,
    /// The seed of the training's randomness.
    pub seed: u64,
}

impl Default for TrainSettings {
    /// The defaults for finite models.
    fn default() -> Self {
        Self {
            method: MethodSetting::ACrl,
            learner: LearnerSetting::Tabular,
            steps: 1_000_000,
            steps_given: false,
            points: 300,
            hidden: vec![64, 64],
            discount: None,
            hold: None,
            step_size: None,
            multiplier_step: None,
            targets: CriterionSetting::Discounted,
            sampler: WeightSamplerSetting::Dual,
            seed: 0,
        }
    }
}

impl TrainSettings {
    /// The defaults for continuous environments.
    pub fn continuous() -> Self {
        Self { learner: LearnerSetting::Ppo, steps: 10_000_000, ..Self::default() }
    }
}

/// Enumerations that are written as words, in the problem file and on the command line alike.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal, $($(#[$of:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// As it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            fn expected() -> String {
                let names: Vec<&str> = Self::ALL.iter().map(|one| one.name()).collect();
                crate::document::one_of(&names)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = ProblemError;

            fn from_str(text: &str) -> Result<Self, ProblemError> {
                let found = Self::ALL.iter().copied().find(|one| one.name() == text);
                found.ok_or_else(|| {
                    ProblemError::new(format!("the {} is {text:?}, expected {}", $what, Self::expected()))
                })
            }
        }
    };
}

words! {
    /// The algorithm that trains.
    LearnerSetting, "learner",
    /// Proximal policy optimisation with a network.
    Ppo = "ppo",
    /// The paper's policy gradient on kernels.
    PolicyGradient = "policy_gradient",
    /// Actor and critic on kernels.
    ActorCritic = "actor_critic",
    /// A table, for finite models.
    Tabular = "tabular",
}

words! {
    /// What is trained: one policy for all multipliers, or a baseline that it is compared with.
    MethodSetting, "method",
    /// Algorithm 1: one policy for all multipliers.
    ACrl = "a_crl",
    /// One policy for weights that are given.
    FixedWeights = "fixed_weights",
    /// One policy after the other, while the multipliers move towards their optimum.
    DualDescent = "dual_descent",
    /// Steps on a policy and on the multipliers in turns.
    PrimalDual = "primal_dual",
    /// The same with a controller that has three terms.
    PidLagrangian = "pid_lagrangian",
    /// Primal-dual whose policies are stored and take turns.
    PrimalAveraging = "primal_averaging",
}

words! {
    /// What a critic estimates.
    CriterionSetting, "kind of targets",
    /// The discounted sum of rewards.
    Discounted = "discounted",
    /// The sum of what each reward is above its long-run average.
    Average = "average",
}

words! {
    /// Where training takes multipliers from.
    WeightSamplerSetting, "sampler",
    /// Half of them from dual dynamics that run while training.
    Dual = "dual",
    /// Uniform on the simplex of normalised weights.
    Simplex = "simplex",
    /// More often on the corners and edges of the simplex.
    Corners = "corners",
    /// Uniform in a box of multipliers, as in the paper.
    Box = "box",
}

pub(crate) fn run(root: &Table<'_>) -> Result<RunSettings, ProblemError> {
    let mut run = RunSettings::default();
    let Some(value) = root.get("run") else { return Ok(run) };
    let table = value.table("[run]")?;
    table.only(&["steps", "runs", "step_size", "epoch", "epoch_start", "tolerance", "seed"])?;
    if let Some(value) = table.get("steps") {
        run.steps = value.whole(&STEPS)?;
    }
    if let Some(value) = table.get("runs") {
        run.runs = value.whole(&RUNS)? as usize;
    }
    if let Some(value) = table.get("step_size") {
        run.step_size = positive(&value, f64::MAX, "a finite number above 0")?;
        run.step_size_given = true;
    }
    if let Some(value) = table.get("tolerance") {
        run.tolerance = positive(&value, 1.0, "a number above 0 and at most 1")?;
    }
    if let Some(value) = table.get("seed") {
        run.seed = value.whole(&(0..=u64::MAX))?;
    }
    if let Some(value) = table.get("epoch") {
        run.epoch = match value.as_string() {
            Some("auto") => EpochSetting::Auto,
            _ => EpochSetting::Fixed(value.whole(&EPOCH).map_err(|_| value.wrong(epoch_expected()))?),
        };
    }
    match (run.epoch, table.get("epoch_start")) {
        (EpochSetting::Auto, Some(value)) => run.epoch_start = value.whole(&EPOCH)?,
        (EpochSetting::Fixed(_), Some(value)) => {
            return Err(value.error("'epoch_start' in [run] is for epoch = \"auto\" only"));
        }
        (EpochSetting::Fixed(length), None) => run.epoch_start = length,
        (EpochSetting::Auto, None) => {}
    }
    run.epoch_given = table.get("epoch").is_some() || table.get("epoch_start").is_some();
    Ok(run)
}

pub(crate) fn train(root: &Table<'_>, continuous: bool) -> Result<TrainSettings, ProblemError> {
    let mut train = if continuous { TrainSettings::continuous() } else { TrainSettings::default() };
    let Some(value) = root.get("train") else { return Ok(train) };
    let table = value.table("[train]")?;
    table.only(&[
        "learner",
        "steps",
        "points",
        "hidden",
        "discount",
        "hold",
        "targets",
        "sampler",
        "seed",
        "method",
        "step_size",
        "multiplier_step",
    ])?;
    if let Some(value) = table.get("learner") {
        train.learner = word(&value, &LearnerSetting::expected())?;
        if continuous && train.learner == LearnerSetting::Tabular {
            return Err(
                value.wrong("ppo, policy_gradient or actor_critic, because the states are not finitely many")
            );
        }
    }
    if let Some(value) = table.get("steps") {
        train.steps = value.whole(&STEPS)?;
        train.steps_given = true;
    }
    if let Some(value) = table.get("points") {
        train.points = value.whole(&POINTS)? as usize;
    }
    if let Some(value) = table.get("hidden") {
        let expected = format!("a list of {} to {} layers' numbers of neurons", LAYERS.start(), LAYERS.end());
        let layers = value.list(&expected)?;
        if !LAYERS.contains(&layers.len()) {
            return Err(value.wrong(expected));
        }
        let sizes = layers.iter().map(|layer| layer.whole(&NEURONS).map(|n| n as usize));
        train.hidden = sizes.collect::<Result<_, _>>()?;
    }
    if let Some(value) = table.get("discount") {
        let discount = value.number().ok().filter(|x| *x > 0.0 && *x < 1.0);
        train.discount = Some(discount.ok_or_else(|| value.wrong("a number above 0 and below 1"))?);
    }
    if let Some(value) = table.get("hold") {
        train.hold = Some(value.whole(&HOLD)? as usize);
    }
    if let Some(value) = table.get("method") {
        train.method = word(&value, &MethodSetting::expected())?;
    }
    if let Some(value) = table.get("step_size") {
        train.step_size = Some(positive(&value, f64::MAX, "a finite number above 0")?);
    }
    if let Some(value) = table.get("multiplier_step") {
        train.multiplier_step = Some(positive(&value, f64::MAX, "a finite number above 0")?);
    }
    if let Some(value) = table.get("targets") {
        train.targets = word(&value, &CriterionSetting::expected())?;
    }
    if let Some(value) = table.get("sampler") {
        train.sampler = word(&value, &WeightSamplerSetting::expected())?;
    }
    if let Some(value) = table.get("seed") {
        train.seed = value.whole(&(0..=u64::MAX))?;
    }
    Ok(train)
}

fn word<T: FromStr>(value: &Value<'_>, expected: &str) -> Result<T, ProblemError> {
    value.as_string().and_then(|text| text.parse().ok()).ok_or_else(|| value.wrong(expected))
}

fn positive(value: &Value<'_>, most: f64, expected: &str) -> Result<f64, ProblemError> {
    let number = value.number().ok().filter(|x| *x > 0.0 && *x <= most);
    number.ok_or_else(|| value.wrong(expected))
}
