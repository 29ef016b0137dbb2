//! Epochs: the T₀ steps between two dual updates, of a fixed length or of one that is found.

use serde::{Deserialize, Serialize};

use crate::Multipliers;

/// How long an epoch is.
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

/// Finds an epoch that is long enough, by doubling it while the multipliers keep growing.
///
/// With an epoch shorter than a change of behaviour takes, the agent turns round for ever and the
/// multipliers grow without bound although the requirements are feasible. The per-step gain α is
/// left alone, so the certificate holds throughout. The rule looks every max(1000, 20·T₀) steps at
/// the *debt* Σ λ_i/(α_i R_i), a number of steps' worth of missing reward: when it has grown by more
/// than 1 % of the steps and set a record twice in a row, T₀ doubles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutoEpoch {
    window_start: u64,
    previous: f64,
    record: f64,
    strikes: u32,
}

impl AutoEpoch {
    /// T₀ never becomes longer than this.
    pub const LONGEST: u64 = 1 << 16;
    const GROWTH: f64 = 0.01;
    const STRIKES: u32 = 2;

    pub(crate) fn new(debt: f64) -> Self {
        Self { window_start: 0, previous: debt, record: debt, strikes: 0 }
    }

    /// The same in mid-run.
    pub(crate) fn from_here(step: u64, debt: f64) -> Self {
        Self { window_start: step, ..Self::new(debt) }
    }

    /// Called at the end of each epoch; `Some` when T₀ changes.
    pub(crate) fn after_epoch(&mut self, step: u64, length: u64, debt: f64) -> Option<u64> {
        let window = step - self.window_start;
        if window < length.saturating_mul(20).max(1000) {
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
