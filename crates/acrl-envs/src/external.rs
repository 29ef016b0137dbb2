//! External: the description of an environment outside of the program, such as one of Python.
//!
//! # Description
//!
//! Observations, actions and rewards of an environment that the caller steps. A policy that was trained in it embeds this
//! description, so that it can be opened, checked and executed beside the environment.
//!
//! # Actions
//!
//! A list of discrete and continuous parts.
//!
//! # Dynamics
//!
//! Unknown. Stepping it is an error.
//!
//! # Rewards
//!
//! By name, each with its range.
//!
//! # Parameters
//!
//! See [`ExternalParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "external"
//! observation = [[-1.0, 1.0], [0.0, 5.0]]
//! action = [{ choices = 3 }, { low = -1.0, high = 1.0 }]
//! reward = [{ name = "speed", low = 0.0, high = 2.0 }, { name = "heat", low = 0.0, high = 1.0 }]
//!
//! [[requirement]]
//! reward = "heat"
//! at_most = 0.3
//! ```

use std::cmp::Ordering;

use acrl::{ActionPart, BatchMatrix, Direction, Error, Goal, Interval, Rng, Spaces, Specification, VecEnv};
use serde::{Deserialize, Serialize};

use crate::parameter::{Check, ParameterError};

/// Description of an external environment.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | `observation` | – | range of each dimension of an observation, by which networks scale it | pairs low < high |
/// | `action` | – | the parts of an action | `choices` of 2 or more, or `low` < `high` |
/// | `reward` | – | name and range of each reward | low < high |
/// | `spaces` | none | the caller's encoding of observations and actions | any text |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalParameters {
    /// Range of each dimension of an observation.
    pub observation: Vec<[f64; 2]>,
    /// Parts of an action.
    pub action: Vec<ExternalAction>,
    /// Names and ranges of the rewards.
    pub reward: Vec<ExternalReward>,
    /// The caller's encoding of observations and actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<String>,
}

/// One part of an action.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalAction {
    /// Number of values of a discrete part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<usize>,
    /// Lower end of a continuous part; −∞ if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of a continuous part; ∞ if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// Name and range of a reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalReward {
    /// Name.
    pub name: String,
    /// Lower end of its range.
    pub low: f64,
    /// Upper end of its range.
    pub high: f64,
}

/// An environment outside of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct External {
    parameters: ExternalParameters,
    spaces: Spaces,
}

const CHECK: Check = Check(External::KIND);

impl External {
    /// The kind's name in problem files.
    pub const KIND: &str = "external";

    /// Refuses empty ranges, fewer than two discrete values, and rewards of the same name.
    pub fn new(parameters: ExternalParameters) -> Result<Self, ParameterError> {
        let range = |parameter: String, low: f64, high: f64| {
            if low.is_finite() && high.is_finite() && low < high {
                return Ok(Interval::new(low, high));
            }
            Err(CHECK.error(parameter, format!("[{low}, {high}]"), "[low, high] with low < high"))
        };
        let observation = parameters.observation.iter().enumerate();
        let observation = observation
            .map(|(i, [low, high])| range(format!("observation[{i}]"), *low, *high))
            .collect::<Result<_, _>>()?;
        let mut action = Vec::new();
        for (i, part) in parameters.action.iter().enumerate() {
            let parameter = format!("action[{i}]");
            let expected = "either 2 or more choices, or numbers low < high";
            let invalid = |value: String| CHECK.error(parameter.clone(), value, expected);
            action.push(match *part {
                ExternalAction { choices: Some(n), low: None, high: None } if n >= 2 => {
                    ActionPart::Discrete(n)
                }
                ExternalAction { choices: None, low, high } => {
                    let low = low.unwrap_or(f64::NEG_INFINITY);
                    let high = high.unwrap_or(f64::INFINITY);
                    // A NaN is refused too.
                    if low.partial_cmp(&high) != Some(Ordering::Less) {
                        return Err(invalid(format!("[{low}, {high}]")));
                    }
                    ActionPart::Continuous(Interval::new(low, high))
                }
                ExternalAction { choices: Some(n), .. } => return Err(invalid(format!("{n} choices"))),
            });
        }
        if action.is_empty() {
            return Err(CHECK.error("action", "empty", "at least one part"));
        }
        let names: Vec<String> = parameters.reward.iter().map(|reward| reward.name.clone()).collect();
        if let Some(twice) = (1..names.len()).find(|&i| names[..i].contains(&names[i])) {
            return Err(CHECK.error(
                format!("reward[{twice}].name"),
                &names[twice],
                "a name that no other reward has",
            ));
        }
        let ranges = parameters.reward.iter().enumerate();
        let ranges = ranges
            .map(|(i, reward)| range(format!("reward[{i}]"), reward.low, reward.high))
            .collect::<Result<_, _>>()?;
        let (state_dimension, reward_names, reward_ranges) = (0, names, ranges);
        let spaces = Spaces { state_dimension, observation, action, reward_names, reward_ranges };
        Ok(Self { spaces, parameters })
    }

    /// The description.
    pub fn parameters(&self) -> &ExternalParameters {
        &self.parameters
    }

    /// The problem file of this environment with a specification.
    pub fn problem(&self, specification: &Specification) -> Result<String, toml::ser::Error> {
        #[derive(Serialize)]
        struct ProblemDocument<'a> {
            environment: EnvironmentSection<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            objective: Option<ObjectiveSection<'a>>,
            requirement: Vec<RequirementSection<'a>>,
        }
        #[derive(Serialize)]
        struct EnvironmentSection<'a> {
            kind: &'static str,
            #[serde(flatten)]
            parameters: &'a ExternalParameters,
        }
        #[derive(Serialize)]
        struct ObjectiveSection<'a> {
            reward: &'a str,
            direction: &'static str,
        }
        #[derive(Serialize)]
        struct RequirementSection<'a> {
            reward: &'a str,
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            at_least: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            at_most: Option<f64>,
        }
        let objective = specification.objective().map(|objective| ObjectiveSection {
            reward: &objective.reward,
            direction: match objective.goal {
                Goal::Maximize => "maximize",
                Goal::Minimize => "minimize",
            },
        });
        let requirement = specification.requirements().iter().map(|requirement| {
            let (reward, name) = (requirement.reward(), requirement.name());
            let side = |direction| (requirement.direction() == direction).then(|| requirement.bound());
            let (at_least, at_most) = (side(Direction::AtLeast), side(Direction::AtMost));
            RequirementSection { reward, name, at_least, at_most }
        });
        toml::to_string(&ProblemDocument {
            environment: EnvironmentSection { kind: Self::KIND, parameters: &self.parameters },
            objective,
            requirement: requirement.collect(),
        })
    }

    /// Error of an attempt to reset or step it.
    fn cannot_step() -> Error {
        Error::Environment(
            "the environment runs outside of this program: execute the policy beside it, as with acrl.Agent in Python"
                .to_owned(),
        )
    }
}

impl VecEnv for External {
    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn reset(&self, _: &mut BatchMatrix, _: usize, _: &mut Rng) -> Result<(), Error> {
        Err(Self::cannot_step())
    }

    // Never called: there is no state to observe, because `reset` fails.
    fn observe(&self, _: &BatchMatrix, _: &mut BatchMatrix) {}

    fn step(
        &self,
        _: &mut BatchMatrix,
        _: &BatchMatrix,
        _: &mut BatchMatrix,
        _: &mut [Rng],
    ) -> Result<(), Error> {
        Err(Self::cannot_step())
    }
}

#[cfg(test)]
mod tests {
    use acrl::{Objective, Requirement};

    use super::*;
    use crate::{Continuous, Problem, Source};

    fn parameters() -> ExternalParameters {
        let number = ExternalAction { choices: None, low: Some(-1.0), high: Some(0.5) };
        ExternalParameters {
            observation: vec![[-1.0, 1.0], [0.1, 0.30000000000000004]],
            action: vec![
                ExternalAction { choices: Some(3), low: None, high: None },
                number,
                ExternalAction { high: None, ..number },
            ],
            reward: vec![
                ExternalReward { name: "speed".to_owned(), low: 0.0, high: 2.0 },
                ExternalReward { name: "the \"heat\"".to_owned(), low: -1e-300, high: 1e17 },
            ],
            spaces: Some("{\"box\": [1, 2]}".to_owned()),
        }
    }

    #[test]
    fn its_problem_file_round_trips() {
        let external = External::new(parameters()).unwrap();
        let requirements = vec![
            Requirement::at_most("the \"heat\"", 0.1).unwrap().named("hot"),
            Requirement::at_least("speed", -2.5e-7).unwrap(),
        ];
        for objective in [None, Some(Objective::minimize("speed"))] {
            let specification = Specification::new(objective, requirements.clone()).unwrap();
            let text = external.problem(&specification).unwrap();
            let problem = Problem::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(problem.source, Source::Continuous(Continuous::External(external.clone())));
            assert_eq!(problem.specification, specification);
        }
    }

    #[test]
    fn it_cannot_be_stepped() {
        let external = External::new(parameters()).unwrap();
        let (mut state, mut rng) = (BatchMatrix::zeros(0, 1), Rng::new(0));
        let error = external.reset(&mut state, 0, &mut rng).unwrap_err().to_string();
        assert!(error.contains("outside of this program"), "{error}");
    }

    #[test]
    fn invalid_descriptions_are_refused() {
        let wrong = |change: fn(&mut ExternalParameters), expected: &str| {
            let mut parameters = parameters();
            change(&mut parameters);
            let error = External::new(parameters).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        wrong(|p| p.observation[1] = [1.0, 1.0], "'observation[1]' of the external environment is [1, 1]");
        wrong(|p| p.observation[0][1] = f64::INFINITY, "observation[0]");
        wrong(|p| p.action[0].choices = Some(1), "1 choices");
        wrong(|p| p.action[0].low = Some(0.0), "3 choices");
        wrong(|p| p.action[1].high = Some(f64::NAN), "[-1, NaN]");
        wrong(|p| p.action.clear(), "at least one part");
        wrong(|p| p.reward[0].name = p.reward[1].name.clone(), "'reward[1].name'");
        wrong(|p| p.reward[0].high = 0.0, "reward[0]");
    }
}
