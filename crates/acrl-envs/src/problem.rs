//! The problem file: an environment or a model, objective and requirements, and settings of runs and trainings.
//!
//! TOML, closed: a key that is not listed here is an error. The files in `problems/` of this crate show it in use.
//!
//! | Key | Default | Purpose | Range |
//! |---|---|---|---|
//! | `version` | 1 | version of this format | 1 |
//! | `title` | none | one line on what the problem is | any |
//! | `[environment]` `kind` | – | `monitoring`, `patrol`, `queue`, `maintenance`, `power`, `inventory`, `planar`, `wireless`, `drone`, `external`; beside it its parameters | see there |
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
//! | `[run]` `step_size` | 0.5, or the learner's | η of the dual update | above 0 |
//! | `[run]` `epoch` | `auto`, or the learner's | T₀, the steps between two dual updates | 1 to 10⁹, or `auto` |
//! | `[run]` `epoch_start` | 10 | where `epoch = "auto"` starts | 1 to 10⁹ |
//! | `[run]` `tolerance` | 0.01 | certified shortfall that is tolerated, as a share of what is asked | above 0, to 1 |
//! | `[run]` `seed` | 0 | seed of the randomness | 0 to 2⁶⁴ − 1 |
//! | `[train]` | | `learner`, `method`, `seed` and the settings of the learners | see `docs/training-settings.md` |
//!
//! There is either `[environment]` or `[model]`. Without `[objective]` there is none; but an environment
//! with neither `[objective]` nor `[[requirement]]` brings its own.

use std::path::PathBuf;

use acrl::{Direction, Error, FiniteCmdp, Objective, Requirement, Specification, VecEnv};

use crate::document::{ProblemError, Table, one_of, parse};
use crate::drone::Drone;
use crate::external::External;
use crate::inventory::Inventory;
use crate::maintenance::Maintenance;
use crate::monitoring::Monitoring;
use crate::parameter::ParameterError;
use crate::patrol::Patrol;
use crate::planar::Planar;
use crate::power::Power;
use crate::queue::Queue;
use crate::settings::{RunSettings, TrainSection};
use crate::wireless::Wireless;

/// A problem file that has been read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// One line on what it is.
    pub title: Option<String>,
    /// Environment or model.
    pub source: Source,
    /// Objective and requirements. Their rewards exist in the model, unless that is in another file.
    pub specification: Specification,
    /// Settings of runs.
    pub run: RunSettings,
    /// Settings of trainings, as they are written.
    pub train: TrainSection,
}

/// Environment or model of a problem.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// In a finite environment, or a model written out in the problem file.
    Model(FiniteCmdp),
    /// In the finite model of this file, relative to the problem file.
    File(PathBuf),
    /// In an environment whose states are vectors.
    Continuous(Continuous),
}

impl Source {
    /// The names of the rewards, unless they are in another file.
    pub fn reward_names(&self) -> Option<&[String]> {
        match self {
            Self::Model(model) => Some(model.reward_names()),
            Self::File(_) => None,
            Self::Continuous(continuous) => Some(continuous.batch().reward_names()),
        }
    }
}

/// An environment whose states are vectors.
#[derive(Debug, Clone, PartialEq)]
pub enum Continuous {
    /// Planar monitoring.
    Planar(Planar),
    /// Wireless scheduling and power.
    Wireless(Wireless),
    /// A drone with inertia.
    Drone(Drone),
    /// An environment outside of the program.
    External(External),
}

impl Continuous {
    /// The environment, to step many copies at a time.
    pub fn batch(&self) -> &dyn VecEnv {
        match self {
            Self::Planar(planar) => planar,
            Self::Wireless(wireless) => wireless,
            Self::Drone(drone) => drone,
            Self::External(external) => external,
        }
    }

    /// The requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        match self {
            Self::Planar(planar) => planar.specification(),
            Self::Wireless(wireless) => wireless.specification(),
            Self::Drone(drone) => drone.specification(),
            Self::External(_) => Specification::new(None, Vec::new()),
        }
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
        let run = RunSettings::read(&root)?;
        let train = TrainSection::read(&root)?;
        Ok(Self { title, source, specification, run, train })
    }
}

/// The model, and the specification that comes with an environment.
fn source(root: &Table<'_>) -> Result<(Source, Option<Specification>), ProblemError> {
    match (root.get("environment"), root.get("model")) {
        (Some(environment), None) => {
            let (source, specification) = environment_of(&environment.table("[environment]")?)?;
            Ok((source, Some(specification)))
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

fn environment_of(table: &Table<'_>) -> Result<(Source, Specification), ProblemError> {
    const KINDS: [&str; 10] = [
        Monitoring::KIND,
        Patrol::KIND,
        Queue::KIND,
        Maintenance::KIND,
        Power::KIND,
        Inventory::KIND,
        Planar::KIND,
        Wireless::KIND,
        Drone::KIND,
        External::KIND,
    ];
    let expected = one_of(&KINDS);
    let kind = table.need("kind", &expected)?;
    let out_of_range = |e: ParameterError| {
        // A part of a list or of a table is found at the line of the whole.
        let key = e.parameter.split(['[', '.']).next().and_then(|key| table.get(key));
        key.map_or_else(|| table.error(e.to_string()), |value| value.error(e.to_string()))
    };
    macro_rules! finite {
        ($kind:ident) => {{
            let environment = $kind::new(table.rest("kind")?).map_err(out_of_range)?;
            (environment.model().map(Source::Model), environment.specification())
        }};
    }
    macro_rules! continuous {
        ($kind:ident) => {{
            let environment = Continuous::$kind($kind::new(table.rest("kind")?).map_err(out_of_range)?);
            let specification = environment.specification();
            (Ok(Source::Continuous(environment)), specification)
        }};
    }
    let (source, specification) = match kind.as_string() {
        Some(Monitoring::KIND) => finite!(Monitoring),
        Some(Patrol::KIND) => finite!(Patrol),
        Some(Queue::KIND) => finite!(Queue),
        Some(Maintenance::KIND) => finite!(Maintenance),
        Some(Power::KIND) => finite!(Power),
        Some(Inventory::KIND) => finite!(Inventory),
        Some(Planar::KIND) => continuous!(Planar),
        Some(Wireless::KIND) => continuous!(Wireless),
        Some(Drone::KIND) => continuous!(Drone),
        Some(External::KIND) => continuous!(External),
        _ => return Err(kind.wrong(expected)),
    };
    let fault = |e: Error| table.error(format!("[environment]: {e}"));
    Ok((source.map_err(fault)?, specification.map_err(fault)?))
}

fn specification(root: &Table<'_>, source: &Source) -> Result<Specification, ProblemError> {
    let reward = |table: &Table<'_>| -> Result<String, ProblemError> {
        let value = table.need("reward", "the name of a reward")?;
        let name = value.name()?;
        match source.reward_names() {
            Some(known) if !known.iter().any(|known| known == name) => {
                Err(value.wrong(format!("a reward of this problem: {}", one_of(known))))
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
