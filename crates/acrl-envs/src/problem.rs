//! The problem file: an environment or a model, what to achieve in it, and how to run and train.
//!
//! TOML, closed: a key that is not listed here is an error. Files in `problems/` show it in use.
//!
//! | Key | Default | Purpose | Range |
//! |---|---|---|---|
//! | `version` | 1 | version of this format | 1 |
//! | `title` | none | one line on what the problem is | any |
//! | `[environment]` `kind` | – | `monitoring`, `patrol`, `queue`, `maintenance`; beside it its parameters | see there |
//! | `[model]` `file` | – | a model file, relative to the problem file | a path |
//! | `[model]` `rewards` | – | names of the rewards of a model that is written out here | names |
//! | `[model]` `initial` | – | where it starts | a state, or a table state = probability |
//! | `[[model.state]]` `name` | – | a state | a name of its own |
//! | `[[model.state]]` `rewards` | 0 each | table reward = number, added to those of its actions | finite |
//! | `[[model.state.action]]` `name` | – | an action of the state above it | a name of its own |
//! | `[[model.state.action]]` `to` | – | table state = probability | adds up to 1 |
//! | `[[model.state.action]]` `rewards` | 0 each | table reward = number | finite |
//! | `[objective]` `reward` | – | what to maximise or minimise | a reward |
//! | `[objective]` `direction` | `maximize` | which of the two | `maximize`, `minimize` |
//! | `[[requirement]]` `reward` | – | the reward that is bounded | a reward |
//! | `[[requirement]]` `name` | its reward | what it is called in reports | a name of its own |
//! | `[[requirement]]` `at_least`, `at_most` | – | bound on the long-run average, one of the two | finite |
//! | `[run]` `steps` | 200000 | steps of a run | 1 to 10¹⁵ |
//! | `[run]` `runs` | 1 | independent runs | 1 to 10⁶ |
//! | `[run]` `step_size` | 0.5 | η of the dual update | above 0 |
//! | `[run]` `epoch` | `auto` | T₀, the steps between two dual updates | 1 to 10⁹, or `auto` |
//! | `[run]` `epoch_start` | 10 | where `epoch = "auto"` starts | 1 to 10⁹ |
//! | `[run]` `tolerance` | 0.005 | shortfall that counts as met, as a share of the reward's range | above 0, to 1 |
//! | `[run]` `seed` | 0 | seed of the randomness | 0 to 2⁶⁴ − 1 |
//! | `[train]` `steps` | 1000000 | steps of a tabular learner | 1 to 10¹⁵ |
//! | `[train]` `points` | 300 | most points of its grid of weights | 1 to 1,000,000 |
//!
//! There is either `[environment]` or `[model]`. Without `[objective]` there is none; but an environment
//! with neither `[objective]` nor `[[requirement]]` brings its own.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use acrl::{Direction, EpochLength, Error, FiniteCmdp, Objective, Requirement, Specification};

use crate::document::{ProblemError, Table, Value, one_of, parse};
use crate::maintenance::Maintenance;
use crate::monitoring::Monitoring;
use crate::parameter::ParameterError;
use crate::patrol::Patrol;
use crate::queue::Queue;

const STEPS: RangeInclusive<u64> = 1..=1_000_000_000_000_000;
const RUNS: RangeInclusive<u64> = 1..=1_000_000;
const EPOCH: RangeInclusive<u64> = 1..=1_000_000_000;
const POINTS: RangeInclusive<u64> = 1..=1_000_000;

/// A problem file that has been read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// One line on what it is.
    pub title: Option<String>,
    /// Where the agent acts.
    pub source: Source,
    /// What it must achieve. Its rewards exist in the model, unless that is in another file.
    pub specification: Specification,
    /// How to run it.
    pub run: RunSettings,
    /// How to train on it.
    pub train: TrainSettings,
}

/// Where the model of a problem is.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Here: an environment, or a model written out in the problem file.
    Model(FiniteCmdp),
    /// In this file, relative to the problem file.
    File(PathBuf),
}

/// The `[run]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Steps of a run.
    pub steps: u64,
    /// Independent runs.
    pub runs: usize,
    /// η of the dual update.
    pub step_size: f64,
    /// T₀, or that it is to be found.
    pub epoch: EpochSetting,
    /// Where to start when it is to be found: the file's `epoch` if that is a number, else its
    /// `epoch_start`. The gain per step is `step_size` divided by the epoch at the start.
    pub epoch_start: u64,
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
            epoch: EpochSetting::Auto,
            epoch_start: 10,
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
    /// Steps of training.
    pub steps: u64,
    /// Most points of a tabular learner's grid of weights.
    pub points: usize,
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self { steps: 1_000_000, points: 300 }
    }
}

impl Problem {
    /// Reads the text of a problem file. Does not open other files.
    pub fn parse(text: &str) -> Result<Self, ProblemError> {
        let root = parse(text)?;
        let root = Table::root(text, &root);
        root.only(&["version", "title", "environment", "model", "objective", "requirement", "run", "train"])?;
        if let Some(version) = root.get("version") {
            version.whole(&(1..=1)).map_err(|_| version.wrong("1, the version this program reads"))?;
        }
        let title = match root.get("title") {
            Some(title) => Some(title.as_string().ok_or_else(|| title.wrong("a string"))?.to_owned()),
            None => None,
        };
        let (source, default) = source(&root)?;
        let specification = match default {
            Some(default) if root.get("objective").is_none() && root.get("requirement").is_none() => default,
            _ => specification(&root, &source)?,
        };
        Ok(Self { title, source, specification, run: run(&root)?, train: train(&root)? })
    }
}

/// The model, and the specification that comes with an environment.
fn source(root: &Table<'_>) -> Result<(Source, Option<Specification>), ProblemError> {
    match (root.get("environment"), root.get("model")) {
        (Some(environment), None) => {
            let (model, specification) = environment_of(&environment.table("[environment]")?)?;
            Ok((Source::Model(model), Some(specification)))
        }
        (None, Some(model)) => {
            let model = model.table("[model]")?;
            let Some(file) = model.get("file") else {
                return Ok((Source::Model(crate::inline::read(&model)?), None));
            };
            let path = file.string("the path of a model file")?;
            if let Some(key) = model.keys().find(|key| *key != "file") {
                let message = format!("[model] has both 'file' and '{key}', expected 'file' alone");
                return Err(file.error(message));
            }
            Ok((Source::File(PathBuf::from(path)), None))
        }
        (Some(_), Some(model)) => {
            Err(model.error("the file has both [environment] and [model], expected one of them"))
        }
        (None, None) => Err(ProblemError::new("the file has no [environment] and no [model], expected one")),
    }
}

fn environment_of(table: &Table<'_>) -> Result<(FiniteCmdp, Specification), ProblemError> {
    const KINDS: [&str; 4] = [Monitoring::KIND, Patrol::KIND, Queue::KIND, Maintenance::KIND];
    let expected = one_of(&KINDS);
    let kind = table.need("kind", &expected)?;
    let out_of_range = |e: ParameterError| {
        // A part of a list is found at the line of the list.
        let key = e.parameter.split('[').next().and_then(|key| table.get(key));
        key.map_or_else(|| table.error(e.to_string()), |value| value.error(e.to_string()))
    };
    let (model, specification) = match kind.as_string() {
        Some(Monitoring::KIND) => {
            let e = Monitoring::new(table.rest("kind")?).map_err(out_of_range)?;
            (e.model(), e.specification())
        }
        Some(Patrol::KIND) => {
            let e = Patrol::new(table.rest("kind")?).map_err(out_of_range)?;
            (e.model(), e.specification())
        }
        Some(Queue::KIND) => {
            let e = Queue::new(table.rest("kind")?).map_err(out_of_range)?;
            (e.model(), e.specification())
        }
        Some(Maintenance::KIND) => {
            let e = Maintenance::new(table.rest("kind")?).map_err(out_of_range)?;
            (e.model(), e.specification())
        }
        _ => return Err(kind.wrong(expected)),
    };
    let fault = |e: Error| table.error(format!("[environment]: {e}"));
    Ok((model.map_err(fault)?, specification.map_err(fault)?))
}

fn specification(root: &Table<'_>, source: &Source) -> Result<Specification, ProblemError> {
    let reward = |table: &Table<'_>| -> Result<String, ProblemError> {
        let value = table.need("reward", "the name of a reward")?;
        let name = value.name()?;
        match source {
            Source::Model(model) if !model.reward_names().iter().any(|known| known == name) => {
                Err(value.wrong(format!("a reward of this problem: {}", one_of(model.reward_names()))))
            }
            _ => Ok(name.to_owned()),
        }
    };
    let objective = match root.get("objective") {
        Some(value) => {
            let table = value.table("[objective]")?;
            table.only(&["reward", "direction"])?;
            let reward = reward(&table)?;
            Some(match table.get("direction") {
                None => Objective::maximize(reward),
                Some(direction) => match direction.as_string() {
                    Some("maximize") => Objective::maximize(reward),
                    Some("minimize") => Objective::minimize(reward),
                    _ => return Err(direction.wrong("maximize or minimize")),
                },
            })
        }
        None => None,
    };
    let mut requirements = Vec::new();
    if let Some(value) = root.get("requirement") {
        for table in value.tables("[[requirement]]")? {
            requirements.push(requirement(&table, reward(&table)?)?);
        }
    }
    Specification::new(objective, requirements)
        .map_err(|e| ProblemError::new(format!("[[requirement]]: {e}")))
}

fn requirement(table: &Table<'_>, reward: String) -> Result<Requirement, ProblemError> {
    table.only(&["name", "reward", "at_least", "at_most"])?;
    let (direction, bound) = match (table.get("at_least"), table.get("at_most")) {
        (Some(bound), None) => (Direction::AtLeast, bound),
        (None, Some(bound)) => (Direction::AtMost, bound),
        (Some(_), Some(bound)) => {
            return Err(bound.error(format!(
                "the [[requirement]] on '{reward}' has both at_least and at_most, expected one of them"
            )));
        }
        (None, None) => {
            return Err(table.error(format!(
                "the [[requirement]] on '{reward}' has no bound, expected at_least or at_most"
            )));
        }
    };
    let requirement =
        Requirement::new(reward, direction, bound.number()?).map_err(|e| bound.error(e.to_string()))?;
    Ok(match table.get("name") {
        Some(name) => requirement.named(name.name()?),
        None => requirement,
    })
}

fn run(root: &Table<'_>) -> Result<RunSettings, ProblemError> {
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
    Ok(run)
}

fn train(root: &Table<'_>) -> Result<TrainSettings, ProblemError> {
    let mut train = TrainSettings::default();
    let Some(value) = root.get("train") else { return Ok(train) };
    let table = value.table("[train]")?;
    table.only(&["steps", "points"])?;
    if let Some(value) = table.get("steps") {
        train.steps = value.whole(&STEPS)?;
    }
    if let Some(value) = table.get("points") {
        train.points = value.whole(&POINTS)? as usize;
    }
    Ok(train)
}

fn positive(value: &Value<'_>, most: f64, expected: &str) -> Result<f64, ProblemError> {
    let number = value.number().ok().filter(|x| *x > 0.0 && *x <= most);
    number.ok_or_else(|| value.wrong(expected))
}
