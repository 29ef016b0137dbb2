//! Epochs: the T₀ steps between two dual updates, of fixed or automatic length.

use serde::{Deserialize, Serialize};

use crate::error::positive;
use crate::{Error, Multipliers};

/// The rule for T₀.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpochLength {
    /// T₀ steps.
    Fixed(u64),
    /// Starts with this many steps, and doubles while the multipliers keep growing ([`AutoEpoch`]).
    Auto(u64),
    /// Follows the steps taken and the steps that remain ([`EpochSchedule`]).
    Scheduled(EpochSchedule),
}

impl EpochLength {
    /// T₀ at the beginning.
    pub fn start(self) -> u64 {
        match self {
            Self::Fixed(length) | Self::Auto(length) => length,
            Self::Scheduled(schedule) => schedule.length(0, 0),
        }
    }
}

/// T₀ and the gain by the steps taken, or by those planned.
///
/// Each change of behaviour costs objective, and each epoch may bring one; so with short epochs of a constant length
/// the objective stays away from the optimum however long the agent runs. On the other hand requirements can be
/// behind by what one epoch is able to miss. Hence T₀ is what suffices to make changes cheap, but at most a share κ
/// and at least a share ε = [`LEAST_SHARE`](Self::LEAST_SHARE) of the time:
///
/// - without a horizon T₀ = max(`start`, min(κ t, max(`sufficient`, ε t))) after t steps. An epoch whose rewards miss a
///   bound by at most a per step adds at most a T₀/t ≤ a κ to the shortfall of the average, once κ t ≥ `start`: with
///   κ = tolerance/a no more than the tolerance. Up to step n there are at most (1 + 1/ε)(1 + ln(n/s)) epochs
///   from step s = `start`/κ on, so that epochs which cost d each lose O(d ln n/n) of the objective on average.
/// - with a horizon of N steps it is the same with N for t, until the end comes closer: then half of what remains, or
///   all but what it takes to correct chance, [`RESERVE`](Self::RESERVE)·√(τ R + χ²) of R steps that remain, if that is
///   less; but at least `start`. So the last epochs correct what the earlier ones have missed, and N is the end of an
///   epoch. There are at most 2/ε + log₂(N/`start`) + 3 epochs.
///
/// The gain is α = η/[`window`](Self::window): what is missing is made up for within the steps that remain, or a share
/// of those taken (the rates of "re-solving"; Jasin & Kumar 2012), so that chance moves behaviour as little as possible.
/// Each change of the gain opens a new ledger ([`Certificate`](crate::Certificate)); ledgers add up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochSchedule {
    /// The shortest T₀: at least as long as a change of behaviour takes.
    pub start: u64,
    /// T₀ from which on changes of behaviour cost next to nothing.
    pub sufficient: u64,
    /// κ: T₀ takes at most this share of the time.
    pub share: f64,
    /// N, if the number of steps is known.
    pub horizon: Option<u64>,
    /// τ, where it is known: the steps within which the standard deviation of their rewards can be made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction_time: Option<f64>,
    /// χ: the steps within which the standard deviation of what the changes of one epoch miss can be made up for.
    #[serde(default)]
    pub change_correction_time: f64,
}

impl EpochSchedule {
    /// T₀ takes at least this share of the time: with more epochs nothing is gained.
    pub const LEAST_SHARE: f64 = 0.001;
    /// Standard deviations of the rewards of the steps that remain which the last epochs are able to make up for.
    pub const RESERVE: f64 = 4.0;
    /// Without a horizon deficits are made up for within this share of the steps taken.
    pub const WINDOW_SHARE: f64 = 0.125;

    /// T₀ after `step` steps, of which the last `since` count: those since requirements were changed.
    pub fn length(&self, step: u64, since: u64) -> u64 {
        let start = self.start.max(1);
        let share = |n: u64| {
            let least = (Self::LEAST_SHARE * n as f64).ceil() as u64;
            self.sufficient.max(least).min((self.share * n as f64) as u64)
        };
        match self.horizon {
            Some(horizon) if step < horizon => {
                let remaining = horizon - step;
                let reserve = self.correction_time.map_or(f64::INFINITY, |time| {
                    let variance = time.max(1.0) * remaining as f64 + self.change_correction_time.powi(2);
                    (Self::RESERVE * variance.sqrt()).max(start as f64)
                });
                let corrected = remaining.saturating_sub(reserve.ceil().min(u64::MAX as f64) as u64);
                let length = share(horizon).min(corrected.max(remaining / 2)).max(start);
                if remaining < length.saturating_add(start) { remaining } else { length }
            }
            _ => share(since).max(start),
        }
    }

    /// Number of steps within which a deficit is to be made up for, after which the gain α = η/window.
    pub fn window(&self, step: u64, since: u64) -> u64 {
        let window = match self.horizon {
            Some(horizon) if step < horizon => horizon - step,
            _ => (Self::WINDOW_SHARE * since as f64) as u64,
        };
        window.max(self.length(step, since))
    }

    /// Rejects a share that is not a positive number.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.correction_time.is_some_and(|time| !(time >= 0.0 && time.is_finite())) {
            positive("the correction time of an epoch", self.correction_time.unwrap_or(f64::NAN))?;
        }
        if !(self.change_correction_time >= 0.0 && self.change_correction_time.is_finite()) {
            positive("the correction time of a change", self.change_correction_time)?;
        }
        positive("the share of an epoch", self.share).map(|_| ())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn epochs_with_a_horizon_end_at_it(
            start in 1..500u64, sufficient in 0..5000u64, share in 0.001..1.0f64, horizon in 1..100_000u64,
            correction_time in prop::option::of(0.0..1000.0f64), change_correction_time in 0.0..1000.0f64
        ) {
            let schedule = EpochSchedule {
                start, sufficient, share, horizon: Some(horizon), correction_time, change_correction_time
            };
            let (mut step, mut epochs) = (0, 0.0);
            while step < horizon {
                let length = schedule.length(step, step);
                prop_assert!(length >= start.min(horizon) && length <= horizon - step);
                prop_assert!(schedule.window(step, step) >= length);
                step += length;
                epochs += 1.0;
            }
            let halvings = (horizon as f64 / start as f64).log2().max(0.0);
            prop_assert!(epochs <= 2.0 / EpochSchedule::LEAST_SHARE + halvings + 3.0, "{epochs}");
            let enough = (sufficient as f64).min(share * horizon as f64).max(1.0);
            prop_assert!(epochs <= horizon as f64 / enough.floor() + halvings + 3.0, "{epochs}");
        }

        #[test]
        fn epochs_without_a_horizon_grow_in_proportion(
            start in 1..500u64, sufficient in 0..5000u64, share in 0.001..0.5f64
        ) {
            let schedule = EpochSchedule {
                start, sufficient, share, horizon: None, correction_time: None, change_correction_time: 0.0
            };
            let (mut step, mut epochs, mut since) = (0u64, 0.0, None);
            while step < 10_000_000 {
                let length = schedule.length(step, step);
                prop_assert!(length as f64 <= (share * step as f64).max(start as f64));
                if length > start {
                    since.get_or_insert(step);
                    epochs += 1.0;
                }
                step += length;
            }
            let n = step as f64;
            let rate = 1.0 + 1.0 / EpochSchedule::LEAST_SHARE;
            prop_assert!(epochs <= 2.0 + rate * (1.0 + (n * share / start as f64).ln()));
        }
    }
}
