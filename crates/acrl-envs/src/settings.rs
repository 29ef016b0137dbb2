//! The `[run]` and `[train]` sections of the problem file.

use acrl::{AgentBuilder, EpochLength};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use crate::document::{ProblemError, Table};

/// The `[run]` section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Environment steps of a run.
    #[serde(deserialize_with = "whole::<_, _, 1, 1_000_000_000_000_000>")]
    pub steps: u64,
    /// Number of independent runs.
    #[serde(deserialize_with = "whole::<_, _, 1, 1_000_000>")]
    pub runs: usize,
    /// η of the dual update; without it the policy's own default, or [`AgentBuilder::STEP_SIZE`].
    #[serde(deserialize_with = "positive")]
    pub step_size: Option<f64>,
    /// Length T₀ of a dual epoch; without it the policy's own default, or [`AgentBuilder::EPOCH`].
    #[serde(deserialize_with = "epoch")]
    pub epoch: Option<EpochLength>,
    /// The start of an automatic epoch as it is written, before it becomes a part of `epoch`.
    #[serde(deserialize_with = "whole::<_, _, 1, 1_000_000_000>")]
    epoch_start: Option<u64>,
    /// Certified shortfall that counts as met, as a share of each reward's range.
    #[serde(deserialize_with = "share")]
    pub tolerance: f64,
    /// Seed of the randomness.
    #[serde(deserialize_with = "whole::<_, _, 0, { u64::MAX }>")]
    pub seed: u64,
}

impl Default for RunSettings {
    fn default() -> Self {
        let (steps, tolerance) = (Self::STEPS, Self::TOLERANCE);
        Self { steps, runs: 1, step_size: None, epoch: None, epoch_start: None, tolerance, seed: 0 }
    }
}

impl RunSettings {
    /// Steps by default.
    pub const STEPS: u64 = 200_000;
    /// Tolerance by default.
    pub const TOLERANCE: f64 = 0.01;

    /// η of the dual update. The gain per step is η divided by the length of the first epoch.
    pub fn step_size(&self) -> f64 {
        self.step_size.unwrap_or(AgentBuilder::STEP_SIZE)
    }

    /// Length T₀ of a dual epoch.
    pub fn epoch_length(&self) -> EpochLength {
        self.epoch.unwrap_or(AgentBuilder::EPOCH)
    }

    pub(crate) fn read(root: &Table<'_>) -> Result<Self, ProblemError> {
        let Some(value) = root.get("run") else { return Ok(Self::default()) };
        let table = value.table("[run]")?;
        let mut run: Self = table.read()?;
        if let Some(start) = run.epoch_start.take() {
            if matches!(run.epoch, Some(EpochLength::Fixed(_))) {
                let start = table.need("epoch_start", "")?;
                return Err(start.error("'epoch_start' in [run] is for epoch = \"auto\" only"));
            }
            run.epoch = Some(EpochLength::Auto(start));
        }
        Ok(run)
    }
}

// An error of these functions is what is expected of the value, as `Table::read` wants it.

fn whole<'de, D: Deserializer<'de>, N: TryFrom<u64>, const LOW: u64, const HIGH: u64>(
    from: D,
) -> Result<N, D::Error> {
    let number = u64::deserialize(from).ok().filter(|number| (LOW..=HIGH).contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| D::Error::custom(format!("a whole number from {LOW} to {HIGH}")))
}

fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(from).ok().filter(|number| *number > 0.0 && number.is_finite());
    number.map(Some).ok_or_else(|| D::Error::custom("a finite number above 0"))
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(from).ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| D::Error::custom("a number above 0 and at most 1"))
}

fn epoch<'de, D: Deserializer<'de>>(from: D) -> Result<Option<EpochLength>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Length(u64),
        Word(String),
    }
    match Written::deserialize(from) {
        Ok(Written::Length(length @ 1..=1_000_000_000)) => Ok(Some(EpochLength::Fixed(length))),
        Ok(Written::Word(word)) if word == "auto" => Ok(Some(AgentBuilder::EPOCH)),
        _ => Err(D::Error::custom("a whole number from 1 to 1000000000, or auto")),
    }
}

/// The `[train]` section as it is written.
///
/// Which keys there are depends on the learners, of which this crate knows nothing: `acrl-learn` reads the section,
/// and makes its error messages by means of it, with lines and values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainSection {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: String,
    value: Json,
    /// The error about the value, without what is expected.
    wrong: ProblemError,
    /// The error about the key, without a message.
    unknown: ProblemError,
}

impl TrainSection {
    pub(crate) fn read(root: &Table<'_>) -> Result<Self, ProblemError> {
        let Some(value) = root.get("train") else { return Ok(Self::default()) };
        let table = value.table("[train]")?;
        let entries = table.keys().filter_map(|key| {
            let value = table.get(key)?;
            let (wrong, unknown) = (value.wrong(""), table.error_at_key(key, ""));
            Some(Entry { key: key.to_owned(), value: value.json(), wrong, unknown })
        });
        Ok(Self { entries: entries.collect() })
    }

    /// The keys that are there, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The value of a key; `null` for a number that is not finite.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.entry(key).map(|entry| &entry.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The same section without a key.
    pub fn without(&self, key: &str) -> Self {
        Self { entries: self.entries.iter().filter(|entry| entry.key != key).cloned().collect() }
    }

    /// The same section with another value of a key that it has.
    pub fn with(&self, key: &str, value: Json) -> Self {
        let mut section = self.clone();
        section.entries.iter_mut().filter(|e| e.key == key).for_each(|e| e.value = value.clone());
        section
    }

    /// Refuses keys other than these; one that has been renamed with its present name.
    pub fn only(&self, known: &[&str], renamed: &[(&str, &str)]) -> Result<(), ProblemError> {
        let unknown = self.entries.iter().filter(|entry| !known.contains(&entry.key.as_str()));
        let Some(entry) = unknown.min_by_key(|entry| entry.unknown.line()) else { return Ok(()) };
        let key = &entry.key;
        Err(entry.unknown.clone().with_message(match renamed.iter().find(|(old, _)| old == key) {
            Some((old, new)) => format!("'{old}' in [train] is now '{new}'"),
            None => crate::document::unknown_key(key, "[train]", known),
        }))
    }

    /// The error about the value of a key that says what was expected.
    pub fn wrong(&self, key: &str, expected: &str) -> ProblemError {
        let begin = self.entry(key).map(|entry| entry.wrong.clone());
        let begin =
            begin.unwrap_or_else(|| ProblemError::new(format!("'{key}' in [train] is missing, expected ")));
        let message = format!("{}{expected}", begin.message());
        begin.with_message(message)
    }

    /// An error at the line of a key.
    pub fn error(&self, key: &str, message: &str) -> ProblemError {
        let at = self.entry(key).map_or_else(|| ProblemError::new(""), |entry| entry.unknown.clone());
        at.with_message(message.to_owned())
    }
}
