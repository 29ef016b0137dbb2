//! The specification: an objective and named requirements on long-run averages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{arity, finite};
use crate::{BatchMatrix, Error, Rewards};

/// The side on which a requirement bounds its reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The long-run average is at least the bound.
    AtLeast,
    /// The long-run average is at most the bound.
    AtMost,
}

/// The direction of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Larger is better.
    Maximize,
    /// Smaller is better.
    Minimize,
}

/// The reward to maximise or to minimise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// The reward's name.
    pub reward: String,
    /// The direction of improvement.
    pub goal: Goal,
}

impl Objective {
    /// Maximise a reward.
    pub fn maximize(reward: impl Into<String>) -> Self {
        Self { reward: reward.into(), goal: Goal::Maximize }
    }

    /// Minimise a reward.
    pub fn minimize(reward: impl Into<String>) -> Self {
        Self { reward: reward.into(), goal: Goal::Minimize }
    }

    /// +1 or −1: the sign of the reward in r₀, which is maximised.
    pub fn sign(&self) -> f64 {
        if self.goal == Goal::Maximize { 1.0 } else { -1.0 }
    }
}

/// "The long-run average of `reward` is at least (or at most) `bound`."
///
/// ```
/// use acrl::Requirement;
/// let power = Requirement::at_most("power", 2.0)?;
/// assert_eq!(power.c(), -2.0); // stored as −r ≥ −2
/// assert_eq!("r1>=0.25".parse::<Requirement>()?, Requirement::at_least("r1", 0.25)?);
/// # Ok::<(), acrl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawRequirement")]
pub struct Requirement {
    name: String,
    reward: String,
    direction: Direction,
    bound: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequirement {
    name: String,
    reward: String,
    direction: Direction,
    bound: f64,
}

impl TryFrom<RawRequirement> for Requirement {
    type Error = Error;
    fn try_from(raw: RawRequirement) -> Result<Self, Error> {
        Self::new(raw.reward, raw.direction, raw.bound).map(|r| r.named(raw.name))
    }
}

impl Requirement {
    /// A requirement named after its reward.
    pub fn new(reward: impl Into<String>, direction: Direction, bound: f64) -> Result<Self, Error> {
        let reward = reward.into();
        finite(&format!("the bound of '{reward}'"), bound)?;
        Ok(Self { name: reward.clone(), reward, direction, bound })
    }

    /// The average of `reward` is at least `bound`.
    pub fn at_least(reward: impl Into<String>, bound: f64) -> Result<Self, Error> {
        Self::new(reward, Direction::AtLeast, bound)
    }

    /// The average of `reward` is at most `bound`.
    pub fn at_most(reward: impl Into<String>, bound: f64) -> Result<Self, Error> {
        Self::new(reward, Direction::AtMost, bound)
    }

    /// The requirement under another name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The reward it bounds.
    pub fn reward(&self) -> &str {
        &self.reward
    }

    /// The side it bounds.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// The bound, in the user's sign.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// +1 for `at_least`, −1 for `at_most`.
    pub fn sign(&self) -> f64 {
        if self.direction == Direction::AtLeast { 1.0 } else { -1.0 }
    }

    /// c_i = sign · bound, the bound in the form V_i ≥ c_i.
    pub fn c(&self) -> f64 {
        self.sign() * self.bound
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = if self.direction == Direction::AtLeast { ">=" } else { "<=" };
        write!(f, "{}{relation}{}", self.reward, self.bound)
    }
}

impl FromStr for Requirement {
    type Err = Error;

    /// Reads `NAME>=X` or `NAME<=X`, where X is a number or a fraction such as `1/3`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let syntax = || Error::RequirementSyntax(text.to_owned());
        let at = text.find(">=").or_else(|| text.find("<=")).ok_or_else(syntax)?;
        let (name, bound) = (text[..at].trim(), text[at + 2..].trim());
        let bound = match bound.split_once('/') {
            Some((p, q)) => number(p).zip(number(q)).map(|(p, q)| p / q),
            None => number(bound),
        };
        let bound = bound.ok_or_else(syntax)?;
        if name.is_empty() || name.contains(['<', '>', '=']) {
            return Err(syntax());
        }
        let direction = if text[at..].starts_with('>') { Direction::AtLeast } else { Direction::AtMost };
        Self::new(name, direction, bound)
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// An objective, which may be missing (then r₀ = 0), and the requirements, whose names differ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "RawSpecification")]
pub struct Specification {
    objective: Option<Objective>,
    requirements: Vec<Requirement>,
}

/// A specification as it is read, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpecification {
    objective: Option<Objective>,
    requirements: Vec<Requirement>,
}

impl TryFrom<RawSpecification> for Specification {
    type Error = Error;

    fn try_from(raw: RawSpecification) -> Result<Self, Error> {
        Self::new(raw.objective, raw.requirements)
    }
}

impl Specification {
    /// From an objective and requirements. Two unnamed requirements on the two sides of one reward
    /// are called `NAME.min` and `NAME.max`.
    pub fn new(objective: Option<Objective>, requirements: Vec<Requirement>) -> Result<Self, Error> {
        let mut specification = Self { objective, requirements };
        specification.name_sides();
        for (i, requirement) in specification.requirements.iter().enumerate() {
            let objective = specification.objective.as_ref().map(|o| o.reward.as_str());
            if objective == Some(requirement.name()) && requirement.reward != requirement.name {
                return Err(Error::AmbiguousName(requirement.name.clone()));
            }
            if specification.requirements[..i].iter().any(|other| other.name == requirement.name) {
                return Err(Error::DuplicateRequirement(requirement.name.clone()));
            }
        }
        Ok(specification)
    }

    /// The objective, if there is one.
    pub fn objective(&self) -> Option<&Objective> {
        self.objective.as_ref()
    }

    /// The requirements, in their order.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// c₁ … c_m.
    pub fn bounds(&self) -> Vec<f64> {
        self.requirements.iter().map(Requirement::c).collect()
    }

    /// The requirements' names.
    pub fn names(&self) -> Vec<String> {
        self.requirements.iter().map(|r| r.name.clone()).collect()
    }

    /// The specification with another objective.
    pub fn with_objective(&self, objective: Option<Objective>) -> Self {
        Self { objective, requirements: self.requirements.clone() }
    }

    /// The specification with one requirement more, or with the bound of the requirement on
    /// the same reward and side replaced.
    pub fn require(&self, requirement: Requirement) -> Result<Self, Error> {
        let mut requirements = self.requirements.clone();
        let same = |r: &&mut Requirement| {
            let same = r.reward == requirement.reward || r.name == requirement.name;
            same && r.direction == requirement.direction
        };
        match requirements.iter_mut().find(same) {
            Some(existing) => existing.bound = requirement.bound,
            None => requirements.push(requirement),
        }
        Self::new(self.objective.clone(), requirements)
    }

    /// The specification with only the requirements at `indices`.
    pub fn subset(&self, indices: &[usize]) -> Self {
        let requirements = indices.iter().map(|&i| self.requirements[i].clone()).collect();
        Self { objective: self.objective.clone(), requirements }
    }

    fn name_sides(&mut self) {
        for i in 0..self.requirements.len() {
            let this = &self.requirements[i];
            let two_sided =
                self.requirements.iter().any(|r| r.reward == this.reward && r.direction != this.direction);
            if two_sided && this.name == this.reward {
                let side = if this.direction == Direction::AtLeast { "min" } else { "max" };
                let name = format!("{}.{side}", this.reward);
                self.requirements[i].name = name;
            }
        }
    }

    /// Resolves the names of the rewards among those of an environment or model.
    pub fn bind(&self, reward_names: &[String]) -> Result<Scoring, Error> {
        let find = |name: &str| {
            reward_names
                .iter()
                .position(|n| n == name)
                .ok_or_else(|| Error::UnknownReward { name: name.to_owned(), known: reward_names.to_vec() })
        };
        let objective = match &self.objective {
            Some(objective) => Some((find(&objective.reward)?, objective.sign())),
            None => None,
        };
        let requirements = self
            .requirements
            .iter()
            .map(|r| Ok((find(&r.reward)?, r.sign())))
            .collect::<Result<_, Error>>()?;
        Ok(Scoring { rewards: reward_names.len(), objective, requirements })
    }
}

/// The map from named rewards to r₀ … r_m: indices and signs.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoring {
    rewards: usize,
    objective: Option<(usize, f64)>,
    requirements: Vec<(usize, f64)>,
}

impl Scoring {
    /// The number of requirements, m.
    pub fn len(&self) -> usize {
        self.requirements.len()
    }

    /// True without requirements.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True if there is an objective (else r₀ = 0).
    pub fn has_objective(&self) -> bool {
        self.objective.is_some()
    }

    /// The terms (index of the named reward, sign) of r₀ … r_m; `None` where r₀ = 0.
    pub fn terms(&self) -> impl Iterator<Item = Option<(usize, f64)>> + '_ {
        std::iter::once(self.objective).chain(self.requirements.iter().copied().map(Some))
    }

    /// Writes r₀ … r_m of the named rewards into `rewards`; an error names a reward that is not
    /// finite.
    #[inline]
    pub fn score(&self, named: &[f64], rewards: &mut Rewards) -> Result<(), Error> {
        arity("rewards of the environment", self.rewards, named.len())?;
        let out = rewards.as_mut_slice();
        arity("rewards r0..rm", self.requirements.len() + 1, out.len())?;
        out[0] = self.objective.map_or(0.0, |(i, sign)| sign * named[i]);
        for (r, &(i, sign)) in out[1..].iter_mut().zip(&self.requirements) {
            *r = sign * named[i];
        }
        if out.iter().sum::<f64>().is_finite() {
            return Ok(());
        }
        for (i, &value) in out.iter().enumerate() {
            finite(&format!("reward r{i}"), value)?;
        }
        Ok(())
    }

    /// Writes a row for each of r₀ … r_m of a batch; an error names a reward that is not finite.
    pub(crate) fn score_rows(&self, named: &BatchMatrix, rewards: &mut BatchMatrix) -> Result<(), Error> {
        for (i, term) in self.terms().enumerate() {
            let out = rewards.row_mut(i);
            let Some((row, sign)) = term else {
                out.fill(0.0);
                continue;
            };
            let mut sum = 0.0;
            for (r, &value) in out.iter_mut().zip(named.row(row)) {
                *r = sign * value;
                sum += value;
            }
            if !sum.is_finite() {
                for &value in named.row(row) {
                    finite(&format!("reward r{i}"), value)?;
                }
            }
        }
        Ok(())
    }

    /// The ranges of r₀ … r_m, given those of the named rewards; R₀ = 1 without an objective.
    pub(crate) fn scales(&self, named: &[f64]) -> Vec<f64> {
        self.terms().map(|term| term.map_or(1.0, |(row, _)| named[row])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_in_both_directions_and_as_fractions() {
        let third: Requirement = " r1 >= 1/3 ".parse().unwrap();
        assert_eq!((third.reward(), third.c()), ("r1", 1.0 / 3.0));
        let power: Requirement = "power<=2e1".parse().unwrap();
        assert_eq!((power.bound(), power.c(), power.to_string().as_str()), (20.0, -20.0, "power<=20"));
        for bad in ["", "r1", "r1=0.3", ">=1", "r1>=", "r1>=x", "r1>=<=1", "r1>=NaN", "r1>=inf", "r1>=1/0"] {
            assert!(bad.parse::<Requirement>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn two_sides_of_a_reward_get_distinct_names() {
        let base = Specification::new(None, vec![Requirement::at_least("x", 0.1).unwrap()]).unwrap();
        assert_eq!(base.names(), ["x"]);
        let both = base.require(Requirement::at_most("x", 0.4).unwrap()).unwrap();
        assert_eq!(both.names(), ["x.min", "x.max"]);
        let replaced = both.require(Requirement::at_least("x", 0.2).unwrap()).unwrap();
        assert_eq!(replaced.bounds(), [0.2, -0.4]);
    }

    #[test]
    fn unknown_reward_is_reported_with_the_known_ones() {
        let s = Specification::new(Some(Objective::maximize("r9")), vec![]).unwrap();
        let error = s.bind(&["r0".into(), "r1".into()]).unwrap_err();
        assert_eq!(error.to_string(), "unknown reward 'r9': the rewards of this problem are r0, r1");
    }

    #[test]
    fn non_finite_rewards_are_rejected() {
        let s = Specification::new(None, vec![Requirement::at_least("x", 0.1).unwrap()]).unwrap();
        let scoring = s.bind(&["x".into()]).unwrap();
        let mut rewards = Rewards::zeros(1);
        assert!(scoring.score(&[f64::NAN], &mut rewards).is_err());
        assert!(scoring.score(&[1.0, 2.0], &mut rewards).is_err());
        assert!(scoring.score(&[1.0], &mut rewards).is_ok());
    }
}
