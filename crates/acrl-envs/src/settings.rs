//! The `[run]` and `[train]` sections of the problem file.

use acrl::{AgentBuilder, EpochLength};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use crate::document::{ProblemError, Table};

/// The `[run]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Environment steps of a run.
    pub steps: u64,
    /// Number of independent runs.
    pub runs: usize,
    /// η of the dual update; without it the policy's own default, or [`AgentBuilder::STEP_SIZE`].
    pub step_size: Option<f64>,
    /// Length T₀ of a dual epoch; without it the policy's own default, or [`AgentBuilder::EPOCH`].
    pub epoch: Option<EpochLength>,
    /// Certified shortfall that counts as met, as a share of each reward's range.
    pub tolerance: f64,
    /// Seed of the randomness.
    pub seed: u64,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            steps: Self::STEPS,
            runs: 1,
            step_size: None,
            epoch: None,
            tolerance: Self::TOLERANCE,
            seed: 0,
        }
    }
}

impl RunSettings {
    /// Steps by default.
    pub const STEPS: u64 = 200_000;
    /// Tolerance by default.
    pub const TOLERANCE: f64 = 0.005;

    /// η of the dual update. The gain per step is η divided by the length of the first epoch.
    pub fn step_size(&self) -> f64 {
        self.step_size.unwrap_or(AgentBuilder::STEP_SIZE)
    }

    /// Length T₀ of a dual epoch.
    pub fn epoch_length(&self) -> EpochLength {
        self.epoch.unwrap_or(AgentBuilder::EPOCH)
    }
}

/// `[run]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRun {
    #[serde(deserialize_with = "whole::<_, 1, 1_000_000_000_000_000>")]
    steps: u64,
    #[serde(deserialize_with = "whole::<_, 1, 1_000_000>")]
    runs: u64,
    step_size: Option<Number<false>>,
    epoch: Option<Epoch>,
    epoch_start: Option<EpochStart>,
    tolerance: Number<true>,
    seed: u64,
}

impl Default for RawRun {
    fn default() -> Self {
        let RunSettings { steps, runs, tolerance, seed, .. } = RunSettings::default();
        let (step_size, epoch, epoch_start) = (None, None, None);
        Self { steps, runs: runs as u64, step_size, epoch, epoch_start, tolerance: Number(tolerance), seed }
    }
}

/// Keys of `[run]`, with what is expected of them.
const RUN: &[(&str, &str)] = &[
    ("steps", "a whole number from 1 to 1000000000000000"),
    ("runs", "a whole number from 1 to 1000000"),
    ("step_size", "a finite number above 0"),
    ("epoch", "a whole number from 1 to 1000000000, or auto"),
    ("epoch_start", "a whole number from 1 to 1000000000"),
    ("tolerance", "a number above 0 and at most 1"),
    ("seed", "a whole number from 0 to 18446744073709551615"),
];

/// A whole number in a range.
fn whole<'de, D: Deserializer<'de>, const LOW: u64, const HIGH: u64>(from: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    (LOW..=HIGH).contains(&number).then_some(number).ok_or_else(|| serde::de::Error::custom("out of range"))
}

/// A finite number above 0, and at most 1 if it is a share.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Number<const SHARE: bool>(f64);

impl<const SHARE: bool> TryFrom<f64> for Number<SHARE> {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        let fine = number > 0.0 && number.is_finite() && (!SHARE || number <= 1.0);
        fine.then_some(Self(number)).ok_or("out of range")
    }
}

/// Where an epoch that is found automatically starts.
#[derive(Clone, Copy, Deserialize)]
#[serde(transparent)]
struct EpochStart(#[serde(deserialize_with = "whole::<_, 1, 1_000_000_000>")] u64);

/// A fixed length, or `auto`.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Epoch {
    Fixed(EpochStart),
    Auto(Auto),
}

#[derive(Clone, Copy, Deserialize)]
enum Auto {
    #[serde(rename = "auto")]
    Auto,
}

pub(crate) fn run(root: &Table<'_>) -> Result<RunSettings, ProblemError> {
    let Some(value) = root.get("run") else { return Ok(RunSettings::default()) };
    let table = value.table("[run]")?;
    let RawRun { steps, runs, step_size, epoch, epoch_start, tolerance, seed } = table.read(RUN)?;
    let epoch = match (epoch, epoch_start) {
        (Some(Epoch::Fixed(_)), Some(_)) => {
            let start = table.need("epoch_start", "")?;
            return Err(start.error("'epoch_start' in [run] is for epoch = \"auto\" only"));
        }
        (Some(Epoch::Fixed(EpochStart(length))), None) => Some(EpochLength::Fixed(length)),
        (_, Some(EpochStart(start))) => Some(EpochLength::Auto(start)),
        (Some(Epoch::Auto(Auto::Auto)), None) => Some(AgentBuilder::EPOCH),
        (None, None) => None,
    };
    let step_size = step_size.map(|Number(eta)| eta);
    Ok(RunSettings { steps, runs: runs as usize, step_size, epoch, tolerance: tolerance.0, seed })
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

pub(crate) fn train(root: &Table<'_>) -> Result<TrainSection, ProblemError> {
    let Some(value) = root.get("train") else { return Ok(TrainSection::default()) };
    let table = value.table("[train]")?;
    let entries = table.keys().filter_map(|key| {
        let value = table.get(key)?;
        let (wrong, unknown) = (value.wrong(""), table.error_at_key(key, ""));
        Some(Entry { key: key.to_owned(), value: value.json(), wrong, unknown })
    });
    Ok(TrainSection { entries: entries.collect() })
}

impl TrainSection {
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
