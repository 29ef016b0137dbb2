//! Epochs: the T₀ steps between two dual updates, of fixed or automatic length.

use serde::{Deserialize, Serialize};

use crate::Multipliers;

/// The rule for T₀.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpochLength {
    /// T₀ steps.
    Fixed(u64),
    /// Starts with this many steps, and doubles while the multipliers keep growing ([`AutoEpoch`]).
    Auto(u64),
}

impl EpochLength {
    /// T₀ at the beginning.
    pub fn start(self) -> u64 {
        let (Self::Fixed(length) | Self::Auto(length)) = self;
        length
    }
}

/// A finished epoch, as seen right after the dual update that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Epoch<'a> {
    /// k: the number of epochs before this one.
    pub k: u64,
    /// The number of steps since the dynamics began, this epoch included.
    pub step: u64,
    /// The number of steps in this epoch.
    pub steps: u64,
    /// λ_{k+1}.
    pub multipliers: &'a Multipliers,
    /// T₀ of the next epoch.
    pub length: u64,
}

/// The rule that finds a sufficient epoch length, by doubling it while the multipliers keep growing.
///
/// With an epoch shorter than a change of behaviour takes, the agent oscillates indefinitely and
/// the multipliers grow without bound although the requirements are feasible. The per-step gain α
/// is not changed, so the certificate holds throughout. Every max([`WINDOW`](Self::WINDOW),
/// [`WINDOW_EPOCHS`](Self::WINDOW_EPOCHS)·T₀) steps the rule reads the *debt* Σ λ_i/(α_i R_i), the
/// missing reward in steps at full range. If it has grown by more than [`GROWTH`](Self::GROWTH) per
/// step and set a record [`STRIKES`](Self::STRIKES) times in a row, T₀ doubles, up to
/// [`LONGEST`](Self::LONGEST).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoEpoch {
    window_start: u64,
    previous: f64,
    record: f64,
    strikes: u32,
}

impl AutoEpoch {
    /// The longest T₀.
    pub const LONGEST: u64 = 1 << 16;
    /// The fewest steps between two readings of the debt.
    pub const WINDOW: u64 = 1000;
    /// The fewest epochs between two readings of the debt.
    pub const WINDOW_EPOCHS: u64 = 20;
    /// Growth of the debt per step above which a window counts.
    pub const GROWTH: f64 = 0.01;
    /// Consecutive growing windows after which T₀ doubles.
    pub const STRIKES: u32 = 2;

    /// A rule that starts after `step` steps of a run, at the present debt.
    pub(crate) fn new(step: u64, debt: f64) -> Self {
        Self { window_start: step, previous: debt, record: debt, strikes: 0 }
    }

    /// Called at the end of each epoch; `Some` when T₀ changes.
    pub(crate) fn after_epoch(&mut self, step: u64, length: u64, debt: f64) -> Option<u64> {
        let window = step - self.window_start;
        if window < length.saturating_mul(Self::WINDOW_EPOCHS).max(Self::WINDOW) {
            return None;
        }
        let growth = (debt - self.previous) / window as f64;
        self.strikes = if growth > Self::GROWTH && debt > self.record { self.strikes + 1 } else { 0 };
        self.window_start = step;
        self.previous = debt;
        self.record = self.record.max(debt);
        if self.strikes < Self::STRIKES || length >= Self::LONGEST {
            return None;
        }
        self.strikes = 0;
        Some(length.saturating_mul(2).min(Self::LONGEST))
    }
}
