//! The dual dynamics: multipliers that follow the measured deficit.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{arity, positive};
use crate::{
    AutoEpoch, Certificate, Epoch, EpochLength, Error, Multipliers, Requirement, RequirementCertificate,
    Rewards,
};

/// The dual update as a state machine without I/O: feed it every step's rewards, read λ.
///
/// > λ_{i,k+1} = \[λ_{i,k} − α_i Σ (r_i(s_t, a_t) − c_i)\]₊, the sum over the T₀ steps of epoch k,
///
/// with a constant gain per step α_i. As in the paper α = η/T₀ for every requirement; with
/// [scales](Self::with_scales) R_i each reward is first divided by its range, which amounts to
/// α_i = (η/T₀)·R_0/R_i² and leaves multipliers and averages in the user's units.
///
/// The state is plain data: serialise it, restore it, go on, and every number comes out the same
/// bit for bit. The plain projected step is what the guarantees are about, so there is no cap on λ,
/// no momentum and no adaptive step size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct DualDynamics {
    requirements: Vec<Requirement>,
    bounds: Vec<f64>,
    /// η/T₀ before scaling.
    gain: f64,
    objective_scale: f64,
    scales: Vec<f64>,
    gains: Vec<f64>,
    length: u64,
    auto: Option<AutoEpoch>,
    multipliers: Multipliers,
    /// Σ (c − r) over the unfinished epoch.
    deficits: Vec<f64>,
    taken: u64,
    k: u64,
    steps: u64,
    ledger: Ledger,
}

/// What the certificate needs to know since it was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    opening: Vec<f64>,
    steps: u64,
    /// Σ r₀ … Σ r_m.
    totals: Vec<f64>,
}

impl Serialize for DualDynamics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for DualDynamics {
    /// Refuses a state whose parts do not fit together.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dynamics = Self::deserialize(deserializer)?;
        dynamics.check().map_err(serde::de::Error::custom)?;
        Ok(dynamics)
    }
}

impl DualDynamics {
    /// λ₀ = 0, step size η and T₀ for the given requirements; α = η/T₀.
    pub fn new(requirements: Vec<Requirement>, step_size: f64, epoch: EpochLength) -> Result<Self, Error> {
        let length = epoch.start();
        positive("the step size", step_size)?;
        positive("the epoch length", length as f64)?;
        let m = requirements.len();
        Ok(Self {
            bounds: requirements.iter().map(Requirement::c).collect(),
            requirements,
            gain: step_size / length as f64,
            objective_scale: 1.0,
            scales: vec![1.0; m],
            gains: vec![step_size / length as f64; m],
            length,
            auto: matches!(epoch, EpochLength::Auto(_)).then(|| AutoEpoch::new(0.0)),
            multipliers: Multipliers::zeros(m),
            deficits: vec![0.0; m],
            taken: 0,
            k: 0,
            steps: 0,
            ledger: Ledger { opening: vec![0.0; m], steps: 0, totals: vec![0.0; m + 1] },
        })
    }

    /// The same with each reward measured in units of its range: `objective` is that of r₀ (1 if
    /// there is no objective), `scales` are those of r₁ … r_m. Opens a new ledger.
    pub fn with_scales(mut self, objective: f64, scales: &[f64]) -> Result<Self, Error> {
        arity("scales of the requirements", self.len(), scales.len())?;
        self.objective_scale = positive("the scale of the objective", objective)?;
        for (scale, requirement) in scales.iter().zip(&self.requirements) {
            positive(&format!("the scale of '{}'", requirement.name()), *scale)?;
        }
        self.scales = scales.to_vec();
        self.gains = self.scales.iter().map(|r| self.gain * (self.objective_scale / r) / r).collect();
        for (gain, requirement) in self.gains.iter().zip(&self.requirements) {
            positive(
                &format!("the gain of '{}', whose range is too large or too small,", requirement.name()),
                *gain,
            )?;
        }
        self.open_ledger();
        Ok(self)
    }

    /// The same from other multipliers: a warm start. Opens a new ledger.
    pub fn with_multipliers(mut self, multipliers: Multipliers) -> Result<Self, Error> {
        arity("multipliers", self.len(), multipliers.len())?;
        self.multipliers = multipliers;
        self.auto = self.auto.as_ref().map(|_| AutoEpoch::new(self.debt()));
        self.open_ledger();
        Ok(self)
    }

    /// Takes note of one step. `Some` when the step ends an epoch and the multipliers have moved.
    #[inline]
    pub fn observe(&mut self, rewards: &Rewards) -> Result<Option<Epoch<'_>>, Error> {
        let r = rewards.as_slice();
        arity("rewards r0..rm", self.bounds.len() + 1, r.len())?;
        self.ledger.totals[0] += r[0];
        for i in 0..self.bounds.len() {
            self.ledger.totals[i + 1] += r[i + 1];
            self.deficits[i] += self.bounds[i] - r[i + 1];
        }
        self.ledger.steps += 1;
        self.steps += 1;
        self.taken += 1;
        if self.taken < self.length { Ok(None) } else { self.end_epoch().map(Some) }
    }

    fn end_epoch(&mut self) -> Result<Epoch<'_>, Error> {
        for i in 0..self.bounds.len() {
            let moved = self.gains[i] * self.deficits[i];
            if !self.multipliers.step(i, moved) {
                let what = format!("the multiplier of '{}'", self.requirements[i].name());
                return Err(Error::NotFinite { what, value: self.multipliers.as_slice()[i] + moved });
            }
            self.deficits[i] = 0.0;
        }
        let (k, steps) = (self.k, self.taken);
        self.k += 1;
        self.taken = 0;
        if self.auto.is_some() {
            let debt = self.debt();
            let longer = self.auto.as_mut().and_then(|auto| auto.after_epoch(self.steps, self.length, debt));
            self.length = longer.unwrap_or(self.length);
        }
        Ok(Epoch { k, step: self.steps, steps, multipliers: &self.multipliers, length: self.length })
    }

    /// Sets T₀ back to where it started, for an agent that acts differently from now on. The gain stays.
    pub(crate) fn restart_epoch_length(&mut self, length: u64) {
        self.length = length.max(1);
        self.auto = self.auto.as_ref().map(|_| AutoEpoch::from_here(self.steps, self.debt()));
    }

    /// Replaces the requirements; the new bounds act from the next step and open a new ledger.
    ///
    /// A requirement that keeps its name, reward and side keeps its multiplier and the deficit of
    /// the unfinished epoch; a new one starts at 0. `scales` are the ranges of the new rewards.
    pub fn replace(&mut self, requirements: Vec<Requirement>, scales: &[f64]) -> Result<(), Error> {
        arity("scales of the requirements", requirements.len(), scales.len())?;
        let kept: Vec<Option<usize>> = requirements
            .iter()
            .map(|new| {
                self.requirements.iter().position(|old| {
                    (old.name(), old.reward(), old.direction()) == (new.name(), new.reward(), new.direction())
                })
            })
            .collect();
        let carry = |values: &[f64]| kept.iter().map(|k| k.map_or(0.0, |i| values[i])).collect::<Vec<_>>();
        let mut next = self.clone();
        next.multipliers = Multipliers::new(carry(self.multipliers.as_slice()))?;
        next.deficits = carry(&self.deficits);
        next.bounds = requirements.iter().map(Requirement::c).collect();
        next.requirements = requirements;
        *self = next.with_scales(self.objective_scale, scales)?;
        Ok(())
    }

    /// Changes one bound (in the user's sign) from the next step on.
    pub fn set_bound(&mut self, name: &str, bound: f64) -> Result<(), Error> {
        let index =
            self.requirements.iter().position(|r| r.name() == name).ok_or_else(|| Error::UnknownReward {
                name: name.to_owned(),
                known: self.requirements.iter().map(|r| r.name().to_owned()).collect(),
            })?;
        let mut requirements = self.requirements.clone();
        let old = &requirements[index];
        requirements[index] = Requirement::new(old.reward(), old.direction(), bound)?.named(name);
        let scales = self.scales.clone();
        self.replace(requirements, &scales)
    }

    /// λ_k, the multipliers to act with now.
    #[inline]
    pub fn multipliers(&self) -> &Multipliers {
        &self.multipliers
    }

    /// The requirements in force.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The number of requirements, m.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// α₁ … α_m, the gains per step.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// R₁ … R_m, the ranges of the requirements' rewards.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// T₀ of the current epoch.
    pub fn epoch_length(&self) -> u64 {
        self.length
    }

    /// The steps observed in all.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// L = λ_k + α Σ (c − r) over the unfinished epoch.
    pub fn ledger(&self) -> Vec<f64> {
        let lambda = self.multipliers.as_slice();
        (0..self.len()).map(|i| lambda[i] + self.gains[i] * self.deficits[i]).collect()
    }

    /// The averages of r₀ … r_m since the ledger was opened; zeros before the first step.
    pub fn averages(&self) -> Vec<f64> {
        let n = self.ledger.steps.max(1) as f64;
        self.ledger.totals.iter().map(|total| total / n).collect()
    }

    /// The steps since the ledger was opened, and Σ r₀ … Σ r_m over them.
    pub(crate) fn totals(&self) -> (u64, &[f64]) {
        (self.ledger.steps, &self.ledger.totals)
    }

    /// (L_n − L_0)/(α n) of each requirement since the ledger was opened: its average is behind by at most this, and ahead by
    /// at least as much where it is negative.
    pub fn shortfalls(&self) -> Vec<f64> {
        let (ledger, n) = (self.ledger(), self.ledger.steps.max(1) as f64);
        (0..self.len()).map(|i| (ledger[i] - self.ledger.opening[i]) / (self.gains[i] * n)).collect()
    }

    /// What is proved about each requirement since the ledger was opened.
    pub fn certificate(&self) -> Certificate {
        let averages = self.averages();
        let entries = self.requirements.iter().zip(self.shortfalls()).enumerate();
        let entries =
            entries.map(|(i, (r, shortfall))| RequirementCertificate::new(r, averages[i + 1], shortfall));
        Certificate { steps: self.ledger.steps, requirements: entries.collect() }
    }

    fn check(&self) -> Result<(), Error> {
        let m = self.requirements.len();
        for (what, found) in [
            ("bounds", self.bounds.len()),
            ("scales", self.scales.len()),
            ("gains", self.gains.len()),
            ("multipliers", self.multipliers.len()),
            ("deficits", self.deficits.len()),
            ("the ledger's opening", self.ledger.opening.len()),
            ("the ledger's totals, less one", self.ledger.totals.len().saturating_sub(1)),
        ] {
            arity(what, m, found)?;
        }
        positive("the epoch length", self.length as f64)?;
        positive("the gain", self.gain)?;
        for gain in self.gains.iter().chain(&self.scales) {
            positive("a gain or scale", *gain)?;
        }
        Ok(())
    }

    fn open_ledger(&mut self) {
        self.ledger = Ledger { opening: self.ledger(), steps: 0, totals: vec![0.0; self.len() + 1] };
    }

    /// Σ λ_i/(α_i R_i): missing reward, in steps at full range.
    fn debt(&self) -> f64 {
        let lambda = self.multipliers.as_slice();
        (0..self.len()).map(|i| lambda[i] / (self.gains[i] * self.scales[i])).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dynamics(c: f64, step_size: f64, epoch: EpochLength) -> DualDynamics {
        DualDynamics::new(vec![Requirement::at_least("x", c).unwrap()], step_size, epoch).unwrap()
    }

    fn feed(dynamics: &mut DualDynamics, r: f64) {
        dynamics.observe(&Rewards::new(vec![0.0, r]).unwrap()).unwrap();
    }

    #[test]
    fn the_update_is_the_papers() {
        let mut d = dynamics(0.5, 1.0, EpochLength::Fixed(4));
        for r in [0.0, 1.0, 0.0, 0.0] {
            assert_eq!(d.multipliers().as_slice(), [0.0]);
            feed(&mut d, r);
        }
        assert_eq!(d.multipliers().as_slice(), [0.25]); // 0 − (1/4)(1 − 2)
        (0..4).for_each(|_| feed(&mut d, 1.0));
        assert_eq!(d.multipliers().as_slice(), [0.0]); // [0.25 − 0.5]₊
    }

    #[test]
    fn wrong_arity_and_bad_parameters_are_errors() {
        let mut d = dynamics(0.5, 1.0, EpochLength::Fixed(1));
        let mut huge = dynamics(1e308, 10.0, EpochLength::Fixed(2));
        huge.observe(&Rewards::zeros(1)).unwrap();
        assert!(huge.observe(&Rewards::zeros(1)).is_err(), "an update that is no number is not swallowed");
        assert!(d.clone().with_scales(1.0, &[1e-200]).is_err());
        assert!(d.observe(&Rewards::zeros(2)).is_err());
        assert!(DualDynamics::new(vec![], 0.0, EpochLength::Fixed(1)).is_err());
        assert!(DualDynamics::new(vec![], f64::NAN, EpochLength::Fixed(1)).is_err());
        assert!(DualDynamics::new(vec![], 1.0, EpochLength::Fixed(0)).is_err());
        assert!(d.set_bound("y", 1.0).is_err());
        assert!(d.set_bound("x", f64::INFINITY).is_err());
        assert!(d.clone().with_scales(1.0, &[0.0]).is_err());
        assert!(d.with_multipliers(Multipliers::zeros(2)).is_err());
    }

    #[test]
    fn a_damaged_state_is_refused() {
        let good = serde_json::to_value(dynamics(0.5, 1.0, EpochLength::Fixed(2))).unwrap();
        for (key, value) in [
            ("gains", serde_json::json!([])),
            ("multipliers", serde_json::json!([-1.0])),
            ("length", serde_json::json!(0)),
            ("surprise", serde_json::json!(1)),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(serde_json::from_value::<DualDynamics>(bad).is_err(), "{key}");
        }
    }

    #[test]
    fn a_changed_bound_acts_from_the_next_step_and_keeps_the_multiplier() {
        let mut d = dynamics(0.5, 1.0, EpochLength::Fixed(2));
        (0..3).for_each(|_| feed(&mut d, 0.0));
        d.set_bound("x", 0.9).unwrap();
        assert_eq!(d.multipliers().as_slice(), [0.5]);
        assert_eq!(d.certificate().steps, 0);
        feed(&mut d, 0.0); // the epoch now holds deficits of 0.5 and of 0.9
        assert!((d.multipliers().as_slice()[0] - (0.5 + 0.5 * 1.4)).abs() < 1e-15);
    }

    #[test]
    fn a_new_requirement_starts_at_zero_and_a_kept_one_goes_on() {
        let mut d = dynamics(0.5, 1.0, EpochLength::Fixed(1));
        feed(&mut d, 0.0);
        let kept = Requirement::at_least("x", 0.4).unwrap();
        let new = Requirement::at_most("y", 3.0).unwrap();
        d.replace(vec![new, kept], &[2.0, 1.0]).unwrap();
        assert_eq!(d.multipliers().as_slice(), [0.0, 0.5]);
        assert_eq!(d.gains(), [0.25, 1.0]);
        assert!(d.replace(vec![], &[1.0]).is_err());
    }

    #[test]
    fn auto_doubles_only_while_multipliers_keep_growing() {
        let mut hopeless = dynamics(0.5, 0.1, EpochLength::Auto(1));
        (0..20_000).for_each(|_| feed(&mut hopeless, 0.4));
        assert!(hopeless.epoch_length() > 4);
        let mut fine = dynamics(0.5, 0.1, EpochLength::Auto(1));
        (0..20_000).for_each(|i| feed(&mut fine, f64::from(i % 2)));
        assert_eq!(fine.epoch_length(), 1);
    }

    /// Rewards, bounds, epoch lengths, steps at which the bound changes: anything goes.
    fn script() -> impl Strategy<Value = (Vec<f64>, f64, f64, u64, Vec<(usize, f64)>)> {
        (
            prop::collection::vec(-3.0..3.0f64, 1..400),
            -2.0..2.0f64,
            0.001..10.0f64,
            1..50u64,
            prop::collection::vec((0..400usize, -2.0..2.0f64), 0..4),
        )
    }

    proptest! {
        #[test]
        fn the_certificate_holds_for_any_rewards_bounds_and_epochs(
            (rewards, c, step, length, changes) in script(), auto: bool, start in 0.0..5.0f64
        ) {
            let epoch = if auto { EpochLength::Auto(length) } else { EpochLength::Fixed(length) };
            let mut d = dynamics(c, step, epoch).with_scales(1.5, &[0.7]).unwrap()
                .with_multipliers(Multipliers::new(vec![start]).unwrap()).unwrap();
            let (mut sum, mut n, mut bound) = (0.0, 0.0, c);
            for (t, &r) in rewards.iter().enumerate() {
                if let Some(&(_, new)) = changes.iter().find(|(at, _)| *at == t) {
                    d.set_bound("x", new).unwrap();
                    (sum, n, bound) = (0.0, 0.0, new);
                }
                feed(&mut d, r);
                (sum, n) = (sum + r, n + 1.0);
                let certified = &d.certificate().requirements[0];
                prop_assert!(sum / n >= bound - certified.shortfall - 1e-9);
                prop_assert!((certified.average - sum / n).abs() < 1e-9);
            }
        }

        #[test]
        fn stop_serialise_restore_go_on_gives_the_same_bits(
            (rewards, c, step, length, changes) in script(), auto: bool, stop in 0..400usize
        ) {
            let epoch = if auto { EpochLength::Auto(length) } else { EpochLength::Fixed(length) };
            let mut straight = dynamics(c, step, epoch).with_scales(3.0, &[0.3]).unwrap();
            let mut resumed = straight.clone();
            for (t, &r) in rewards.iter().enumerate() {
                if t == stop % rewards.len() {
                    let text = serde_json::to_string(&resumed).unwrap();
                    resumed = serde_json::from_str(&text).unwrap();
                }
                for d in [&mut straight, &mut resumed] {
                    if let Some(&(_, new)) = changes.iter().find(|(at, _)| *at == t) {
                        d.set_bound("x", new).unwrap();
                    }
                    feed(d, r);
                }
            }
            prop_assert_eq!(straight, resumed);
        }

        #[test]
        fn replacing_requirements_by_themselves_changes_nothing_but_the_ledger(
            (rewards, c, step, length, _) in script()
        ) {
            let mut d = dynamics(c, step, EpochLength::Fixed(length));
            let mut replaced = d.clone();
            for (t, &r) in rewards.iter().enumerate() {
                if t % 7 == 3 {
                    let same = replaced.requirements().to_vec();
                    replaced.replace(same, &[1.0]).unwrap();
                }
                feed(&mut d, r);
                feed(&mut replaced, r);
                prop_assert_eq!(d.ledger(), replaced.ledger());
            }
        }
    }
}
