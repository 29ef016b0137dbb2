//! The dual dynamics: multipliers that follow the measured deficit.

use serde::{Deserialize, Serialize};

use crate::error::{arity, positive};
use crate::{
    AutoEpoch, Certificate, Epoch, EpochLength, EpochSchedule, Error, Multipliers, Requirement,
    RequirementCertificate, Rewards,
};

/// The dual update as a state machine without I/O: feed it every step's rewards, read λ.
///
/// > λ_{i,k+1} = \[λ_{i,k} − α_i Σ (r_i(s_t, a_t) − c_i)\]₊, the sum over the T₀ steps of epoch k,
///
/// with a constant gain per step α_i. As in the paper α = η/T₀ for every requirement; with
/// [scales](Self::with_scales) R_i each reward is first divided by its range, which amounts to
/// α_i = (η/T₀)·R_0/R_i² and leaves multipliers and averages in the user's units. With an
/// [`EpochSchedule`] T₀ and the gain follow the steps taken; each change opens a new ledger, and ledgers add up.
///
/// The state is plain data: serialised, restored and continued it yields bit-identical numbers.
/// Derived quantities are not stored; a damaged state is rejected. The guarantees are about the
/// plain projected step, so there is no cap on λ, no momentum and no adaptive step size.
///
/// An [`Agent`](crate::Agent) is this with a choice of weights and a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct DualDynamics {
    state: State,
    /// c₁ … c_m, derived from the requirements.
    bounds: Vec<f64>,
    /// α₁ … α_m, derived from the gain and the scales.
    gains: Vec<f64>,
}

/// The stored part of [`DualDynamics`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    requirements: Vec<Requirement>,
    /// η.
    step_size: f64,
    /// η/T₀ before scaling.
    gain: f64,
    /// R₀.
    objective_scale: f64,
    /// R₁ … R_m.
    scales: Vec<f64>,
    /// T₀ of the current epoch.
    length: u64,
    auto: Option<AutoEpoch>,
    schedule: Option<EpochSchedule>,
    /// λ that a deficit of 0 corresponds to, whatever the gain.
    reference: Option<Multipliers>,
    multipliers: Multipliers,
    /// Σ (c − r) over the unfinished epoch.
    deficits: Vec<f64>,
    /// Steps of the unfinished epoch.
    taken: u64,
    /// Finished epochs.
    k: u64,
    /// Steps in all.
    steps: u64,
    ledger: Ledger,
}

/// The sums that a certificate needs, since the ledger was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    /// L₀ of the present gain.
    opening: Vec<f64>,
    /// Σ (L − L₀)/α over earlier gains.
    closed: Vec<f64>,
    steps: u64,
    /// Σ r₀ … Σ r_m.
    totals: Vec<f64>,
}

impl Ledger {
    fn new(opening: Vec<f64>) -> Self {
        let m = opening.len();
        Self { opening, closed: vec![0.0; m], steps: 0, totals: vec![0.0; m + 1] }
    }
}

impl TryFrom<State> for DualDynamics {
    type Error = Error;

    fn try_from(state: State) -> Result<Self, Error> {
        let m = state.requirements.len();
        for (what, found) in [
            ("scales", state.scales.len()),
            ("multipliers", state.multipliers.len()),
            ("deficits", state.deficits.len()),
            ("the reference", state.reference.as_ref().map_or(m, Multipliers::len)),
            ("the ledger's opening", state.ledger.opening.len()),
            ("the ledger's closed part", state.ledger.closed.len()),
            ("the ledger's totals, less one", state.ledger.totals.len().saturating_sub(1)),
        ] {
            arity(what, m, found)?;
        }
        positive("the epoch length", state.length as f64)?;
        positive("the step size", state.step_size)?;
        positive("the gain", state.gain)?;
        positive("the scale of the objective", state.objective_scale)?;
        state.schedule.iter().try_for_each(EpochSchedule::check)?;
        for (scale, requirement) in state.scales.iter().zip(&state.requirements) {
            positive(&format!("the scale of '{}'", requirement.name()), *scale)?;
        }
        let gains = gains(&state);
        for (gain, requirement) in gains.iter().zip(&state.requirements) {
            let what =
                format!("the gain of '{}', whose range is too large or too small,", requirement.name());
            positive(&what, *gain)?;
        }
        Ok(Self { bounds: state.requirements.iter().map(Requirement::c).collect(), gains, state })
    }
}

/// α₁ … α_m.
fn gains(state: &State) -> Vec<f64> {
    state.scales.iter().map(|r| state.gain * (state.objective_scale / r) / r).collect()
}

impl From<DualDynamics> for State {
    fn from(dynamics: DualDynamics) -> Self {
        dynamics.state
    }
}

impl DualDynamics {
    /// λ₀ = 0, step size η and T₀ for the given requirements; α = η/T₀.
    pub fn new(requirements: Vec<Requirement>, step_size: f64, epoch: EpochLength) -> Result<Self, Error> {
        let length = epoch.start();
        let window = if let EpochLength::Scheduled(s) = epoch { s.window(0, 0) } else { length };
        positive("the step size", step_size)?;
        positive("the epoch length", length as f64)?;
        let m = requirements.len();
        Self::try_from(State {
            requirements,
            step_size,
            gain: step_size / window as f64,
            objective_scale: 1.0,
            scales: vec![1.0; m],
            length,
            auto: matches!(epoch, EpochLength::Auto(_)).then(|| AutoEpoch::new(0, 0.0)),
            schedule: if let EpochLength::Scheduled(schedule) = epoch { Some(schedule) } else { None },
            reference: None,
            multipliers: Multipliers::zeros(m),
            deficits: vec![0.0; m],
            taken: 0,
            k: 0,
            steps: 0,
            ledger: Ledger::new(vec![0.0; m]),
        })
    }

    /// The dynamics with each reward measured in units of its range: `objective` is that of r₀ (1 if
    /// there is no objective), `scales` are those of r₁ … r_m. Opens a new ledger.
    pub fn with_scales(mut self, objective: f64, scales: &[f64]) -> Result<Self, Error> {
        arity("scales of the requirements", self.len(), scales.len())?;
        self.state.objective_scale = objective;
        self.state.scales = scales.to_vec();
        let mut scaled = Self::try_from(self.state)?;
        scaled.open_ledger();
        Ok(scaled)
    }

    /// The dynamics from other multipliers: a warm start. Opens a new ledger.
    pub fn with_multipliers(mut self, multipliers: Multipliers) -> Result<Self, Error> {
        arity("multipliers", self.len(), multipliers.len())?;
        self.state.multipliers = multipliers;
        self.state.auto = self.state.auto.as_ref().map(|_| AutoEpoch::new(0, self.debt()));
        self.open_ledger();
        Ok(self)
    }

    /// The dynamics from the optimal multipliers λ*, as far as they are known. If the gain changes, the distance from
    /// there changes with it, so that (λ − λ*)/α is the total deficit all along. Opens a new ledger.
    pub fn with_reference(self, reference: Multipliers) -> Result<Self, Error> {
        let mut dynamics = self.with_multipliers(reference.clone())?;
        dynamics.state.reference = Some(reference);
        Ok(dynamics)
    }

    /// Adds the rewards of one step. `Some` when the step ends an epoch and the multipliers have
    /// moved.
    #[inline]
    pub fn observe(&mut self, rewards: &Rewards) -> Result<Option<Epoch<'_>>, Error> {
        let (r, state) = (rewards.as_slice(), &mut self.state);
        arity("rewards r0..rm", self.bounds.len() + 1, r.len())?;
        state.ledger.totals[0] += r[0];
        for i in 0..self.bounds.len() {
            state.ledger.totals[i + 1] += r[i + 1];
            state.deficits[i] += self.bounds[i] - r[i + 1];
        }
        state.ledger.steps += 1;
        state.steps += 1;
        state.taken += 1;
        if state.taken < state.length { Ok(None) } else { self.end_epoch().map(Some) }
    }

    fn end_epoch(&mut self) -> Result<Epoch<'_>, Error> {
        let (k, steps) = (self.state.k, self.state.taken);
        self.move_multipliers()?;
        self.state.k += 1;
        if self.state.auto.is_some() {
            let debt = self.debt();
            let State { auto, steps, length, .. } = &mut self.state;
            let longer = auto.as_mut().and_then(|auto| auto.after_epoch(*steps, *length, debt));
            *length = longer.unwrap_or(*length);
        }
        self.follow_schedule();
        let State { steps: step, multipliers, length, .. } = &self.state;
        Ok(Epoch { k, step: *step, steps, multipliers, length: *length })
    }

    /// The dual update.
    fn move_multipliers(&mut self) -> Result<(), Error> {
        let state = &mut self.state;
        for i in 0..self.bounds.len() {
            let moved = self.gains[i] * state.deficits[i];
            if !state.multipliers.step(i, moved) {
                let what = format!("the multiplier of '{}'", state.requirements[i].name());
                return Err(Error::NotFinite { what, value: state.multipliers.as_slice()[i] + moved });
            }
            state.deficits[i] = 0.0;
        }
        state.taken = 0;
        Ok(())
    }

    /// Sets T₀ and the gain by the schedule, if there is one, between two epochs.
    fn follow_schedule(&mut self) {
        let Some(schedule) = self.state.schedule else { return };
        let (step, since) = (self.state.steps, self.state.ledger.steps);
        let gain = self.state.step_size / schedule.window(step, since) as f64;
        self.state.length = schedule.length(step, since);
        if gain == self.state.gain {
            return;
        }
        let (ledger, before) = (self.ledger(), std::mem::take(&mut self.gains));
        let state = &mut self.state;
        for i in 0..before.len() {
            state.ledger.closed[i] += (ledger[i] - state.ledger.opening[i]) / before[i];
        }
        state.gain = gain;
        self.gains = gains(state);
        if let Some(reference) = &state.reference {
            for (i, &from) in reference.as_slice().iter().enumerate() {
                let moved = (state.multipliers.as_slice()[i] - from) * (self.gains[i] / before[i] - 1.0);
                state.multipliers.step(i, moved);
            }
        }
        state.ledger.opening = state.multipliers.as_slice().to_vec();
    }

    /// Sets T₀ back to its initial length, for an agent that acts differently from now on. The gain
    /// stays.
    pub(crate) fn restart_epoch_length(&mut self, length: u64) {
        self.state.length = length.max(1);
        self.state.auto = self.state.auto.as_ref().map(|_| AutoEpoch::new(self.state.steps, self.debt()));
    }

    /// Replaces the requirements; the new bounds act from the next step and open a new ledger.
    ///
    /// A requirement that keeps its name, reward and side keeps its multiplier and the deficit of
    /// the unfinished epoch; a new one starts at 0. `scales` are the ranges of the new rewards.
    pub fn replace(&mut self, requirements: Vec<Requirement>, scales: &[f64]) -> Result<(), Error> {
        arity("scales of the requirements", requirements.len(), scales.len())?;
        let key = |r: &Requirement| (r.name().to_owned(), r.reward().to_owned(), r.direction());
        let old: Vec<_> = self.state.requirements.iter().map(key).collect();
        let kept: Vec<_> =
            requirements.iter().map(|new| old.iter().position(|old| *old == key(new))).collect();
        let carry = |values: &[f64]| kept.iter().map(|k| k.map_or(0.0, |i| values[i])).collect::<Vec<_>>();
        let m = requirements.len();
        let mut next = Self::try_from(State {
            multipliers: Multipliers::new(carry(self.state.multipliers.as_slice()))?,
            deficits: carry(&self.state.deficits),
            requirements,
            scales: scales.to_vec(),
            reference: self
                .state
                .reference
                .as_ref()
                .map(|l| Multipliers::new(carry(l.as_slice())))
                .transpose()?,
            ledger: Ledger::new(vec![0.0; m]),
            ..self.state.clone()
        })?;
        next.open_ledger();
        if next.state.schedule.is_some() {
            // The unfinished epoch may be long: the new requirements get one of their own.
            next.move_multipliers()?;
            next.open_ledger();
            next.follow_schedule();
        }
        *self = next;
        Ok(())
    }

    /// Changes one bound (in the user's sign) from the next step on.
    pub fn set_bound(&mut self, name: &str, bound: f64) -> Result<(), Error> {
        let mut requirements = self.state.requirements.clone();
        let Some(changed) = requirements.iter_mut().find(|r| r.name() == name) else {
            let known = requirements.iter().map(|r| r.name().to_owned()).collect();
            return Err(Error::UnknownReward { name: name.to_owned(), known });
        };
        *changed = Requirement::new(changed.reward(), changed.direction(), bound)?.named(name);
        let scales = self.state.scales.clone();
        self.replace(requirements, &scales)
    }

    /// Replaces λ*, η and T₀, for a plan that was made for changed requirements. The total deficit
    /// (λ − λ*)/α is kept as far as λ stays nonnegative. Begins an epoch, and opens a new ledger.
    pub fn replan(
        &mut self,
        reference: Multipliers,
        step_size: f64,
        epoch: EpochLength,
    ) -> Result<(), Error> {
        self.follow_plan(reference, step_size, epoch, true)
    }

    /// Replaces λ*, η and T₀ by those of a plan for the same requirements, such as one for a model that was estimated again.
    /// The total deficit is kept as [`replan`](Self::replan) keeps it. Begins an epoch; the ledger stays open, to which the
    /// deficits under the new gain are added.
    pub fn revise(
        &mut self,
        reference: Multipliers,
        step_size: f64,
        epoch: EpochLength,
    ) -> Result<(), Error> {
        self.follow_plan(reference, step_size, epoch, false)
    }

    fn follow_plan(
        &mut self,
        reference: Multipliers,
        step_size: f64,
        epoch: EpochLength,
        open_ledger: bool,
    ) -> Result<(), Error> {
        arity("multipliers", self.len(), reference.len())?;
        let mut next = self.clone();
        next.move_multipliers()?;
        let deficits = next.deficits();
        let (closed, since) = if open_ledger {
            (vec![0.0; self.len()], 0)
        } else {
            (self.deficit_bounds(), self.state.ledger.steps)
        };
        let mut state = Self::new(self.state.requirements.clone(), step_size, epoch)?.state;
        state.objective_scale = self.state.objective_scale;
        state.scales = self.state.scales.clone();
        (state.k, state.steps) = (self.state.k, self.state.steps);
        if let Some(schedule) = state.schedule {
            state.length = schedule.length(state.steps, since);
            state.gain = step_size / schedule.window(state.steps, since) as f64;
        }
        let gains = gains(&state);
        let start = (0..deficits.len()).map(|i| (reference.as_slice()[i] + gains[i] * deficits[i]).max(0.0));
        state.multipliers = Multipliers::new(start.collect())?;
        state.reference = Some(reference);
        next = Self::try_from(state)?;
        if next.state.auto.is_some() {
            next.state.auto = Some(AutoEpoch::new(next.state.steps, next.debt()));
        }
        next.open_ledger();
        if !open_ledger {
            let totals = self.state.ledger.totals.clone();
            next.state.ledger = Ledger { closed, totals, steps: since, ..next.state.ledger };
        }
        *self = next;
        Ok(())
    }

    /// λ_k, the multipliers to act with now.
    #[inline]
    pub fn multipliers(&self) -> &Multipliers {
        &self.state.multipliers
    }

    /// The requirements in force.
    pub fn requirements(&self) -> &[Requirement] {
        &self.state.requirements
    }

    /// The number of requirements, m.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// True without requirements.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// c₁ … c_m, the bounds in the signs of [`Rewards`].
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// α₁ … α_m, the gains per step.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// R₁ … R_m, the ranges of the requirements' rewards.
    pub fn scales(&self) -> &[f64] {
        &self.state.scales
    }

    /// R₀, the range of the objective.
    pub fn objective_scale(&self) -> f64 {
        self.state.objective_scale
    }

    /// Number of steps within which deficits are to be made up for: η over the gain.
    pub fn window(&self) -> f64 {
        self.state.step_size / self.state.gain
    }

    /// T₀ of the current epoch.
    pub fn epoch_length(&self) -> u64 {
        self.state.length
    }

    /// The number of steps observed in all.
    pub fn steps(&self) -> u64 {
        self.state.steps
    }

    /// L = λ_k + α Σ (c − r) over the unfinished epoch.
    pub fn ledger(&self) -> Vec<f64> {
        let (lambda, deficits) = (self.state.multipliers.as_slice(), &self.state.deficits);
        (0..self.len()).map(|i| lambda[i] + self.gains[i] * deficits[i]).collect()
    }

    /// The averages of r₀ … r_m since the ledger was opened; zeros before the first step.
    pub fn averages(&self) -> Vec<f64> {
        let (steps, totals) = self.totals();
        let n = steps.max(1) as f64;
        totals.iter().map(|total| total / n).collect()
    }

    /// The steps since the ledger was opened, and Σ r₀ … Σ r_m over them.
    pub(crate) fn totals(&self) -> (u64, &[f64]) {
        (self.state.ledger.steps, &self.state.ledger.totals)
    }

    /// Σ (L − L₀)/α over the gains since the ledger was opened: an upper bound on how much of each reward is missing.
    pub(crate) fn deficit_bounds(&self) -> Vec<f64> {
        let (ledger, Ledger { opening, closed, .. }) = (self.ledger(), &self.state.ledger);
        (0..self.len()).map(|i| closed[i] + (ledger[i] - opening[i]) / self.gains[i]).collect()
    }

    /// The same per step: an upper bound on how far the average of each requirement is behind; where it is negative,
    /// a guaranteed margin.
    pub fn shortfalls(&self) -> Vec<f64> {
        let n = self.state.ledger.steps.max(1) as f64;
        self.deficit_bounds().into_iter().map(|deficit| deficit / n).collect()
    }

    /// (λ − λ*)/α: the reward that is missing of each requirement in all, as far as λ stayed positive; λ* is the
    /// [reference](Self::with_reference), or 0.
    pub fn deficits(&self) -> Vec<f64> {
        let reference = |i: usize| self.state.reference.as_ref().map_or(0.0, |l| l.as_slice()[i]);
        (0..self.len()).map(|i| (self.multipliers().as_slice()[i] - reference(i)) / self.gains[i]).collect()
    }

    /// The certificate of each requirement since the ledger was opened.
    pub fn certificate(&self) -> Certificate {
        let averages = self.averages();
        let entries = self.state.requirements.iter().zip(self.shortfalls()).enumerate();
        let entries =
            entries.map(|(i, (r, shortfall))| RequirementCertificate::new(r, averages[i + 1], shortfall));
        Certificate { steps: self.state.ledger.steps, requirements: entries.collect() }
    }

    fn open_ledger(&mut self) {
        self.state.ledger = Ledger::new(self.ledger());
    }

    /// Σ λ_i/(α_i R_i): the missing reward, in steps at full range.
    fn debt(&self) -> f64 {
        let lambda = self.state.multipliers.as_slice();
        (0..self.len()).map(|i| lambda[i] / (self.gains[i] * self.state.scales[i])).sum()
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
    fn update_is_the_projected_step_of_the_paper() {
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
    fn wrong_arity_and_invalid_parameters_are_errors() {
        let mut d = dynamics(0.5, 1.0, EpochLength::Fixed(1));
        let mut huge = dynamics(1e308, 10.0, EpochLength::Fixed(2));
        huge.observe(&Rewards::zeros(1)).unwrap();
        assert!(huge.observe(&Rewards::zeros(1)).is_err(), "an update that overflows is an error");
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
    fn damaged_state_is_rejected() {
        let good = serde_json::to_value(dynamics(0.5, 1.0, EpochLength::Fixed(2))).unwrap();
        for (key, value) in [
            ("scales", serde_json::json!([])),
            ("gain", serde_json::json!(-1.0)),
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
    fn changed_bound_acts_from_the_next_step_and_keeps_the_multiplier() {
        let mut d = dynamics(0.5, 1.0, EpochLength::Fixed(2));
        (0..3).for_each(|_| feed(&mut d, 0.0));
        d.set_bound("x", 0.9).unwrap();
        assert_eq!(d.multipliers().as_slice(), [0.5]);
        assert_eq!(d.certificate().steps, 0);
        feed(&mut d, 0.0); // the epoch now holds deficits of 0.5 and of 0.9
        assert!((d.multipliers().as_slice()[0] - (0.5 + 0.5 * 1.4)).abs() < 1e-15);
    }

    #[test]
    fn replaced_requirements_keep_multipliers_of_those_that_stay() {
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
    fn auto_epoch_doubles_only_while_multipliers_keep_growing() {
        let mut infeasible = dynamics(0.5, 0.1, EpochLength::Auto(1));
        (0..20_000).for_each(|_| feed(&mut infeasible, 0.4));
        assert!(infeasible.epoch_length() > 4);
        let mut feasible = dynamics(0.5, 0.1, EpochLength::Auto(1));
        (0..20_000).for_each(|i| feed(&mut feasible, f64::from(i % 2)));
        assert_eq!(feasible.epoch_length(), 1);
    }

    proptest! {
        /// Whatever plans follow each other, the ledger counts all steps, and its bound holds.
        #[test]
        fn revised_plans_keep_the_ledger_open(seed: u64, c in 0.1..0.9f64, plans in 1..6usize) {
            let mut rng = crate::Rng::new(seed);
            let mut d = dynamics(c, 0.5, EpochLength::Fixed(7));
            let mut sum = 0.0;
            for plan in 0..plans {
                for _ in 0..50 {
                    let r = rng.uniform();
                    sum += r;
                    feed(&mut d, r);
                }
                let n = 50 * (plan + 1);
                let before = d.shortfalls()[0];
                let reference = Multipliers::new(vec![3.0 * rng.uniform()]).unwrap();
                d.revise(reference, 0.1 + rng.uniform(), EpochLength::Fixed(5 + rng.index(20) as u64)).unwrap();
                prop_assert_eq!(d.certificate().steps, n as u64);
                prop_assert!((d.averages()[1] - sum / n as f64).abs() < 1e-12);
                prop_assert!(d.shortfalls()[0] >= c - sum / n as f64 - 1e-9);
                prop_assert!((d.shortfalls()[0] - before).abs() < 1e-9, "a new plan concedes nothing");
            }
        }
    }

    const OPEN_ENDED: EpochSchedule = EpochSchedule {
        start: 10,
        sufficient: 1000,
        share: 0.1,
        horizon: None,
        correction_time: None,
        change_correction_time: 0.0,
    };

    #[test]
    fn schedule_changes_gain_and_length_together_and_keeps_the_deficit() {
        let schedule = OPEN_ENDED;
        let d = dynamics(0.5, 1.0, EpochLength::Scheduled(schedule));
        let mut d = d.with_reference(Multipliers::new(vec![2.0]).unwrap()).unwrap();
        for i in 0..1000 {
            feed(&mut d, f64::from(i % 3 == 0));
            let behind = 0.5 * f64::from(i + 1) - f64::from(i / 3 + 1);
            let unfinished = d.state.deficits[0];
            assert!(
                (d.deficits()[0] + unfinished - behind).abs() < 1e-9 || d.multipliers().as_slice()[0] == 0.0
            );
            assert!((d.gains()[0] * d.window() - 1.0).abs() < 1e-12);
        }
        assert!(d.epoch_length() > 80);
        d.set_bound("x", 0.4).unwrap();
        assert_eq!(d.epoch_length(), 10, "changed requirements need not wait");
    }

    #[test]
    fn replanned_dynamics_keep_the_total_deficit_and_the_steps() {
        let schedule = OPEN_ENDED;
        let reference = |l: f64| Multipliers::new(vec![l]).unwrap();
        let d = dynamics(0.5, 1.0, EpochLength::Scheduled(schedule));
        let mut d = d.with_reference(reference(2.0)).unwrap();
        (0..1003).for_each(|i| feed(&mut d, f64::from(i % 3 == 0)));
        d.set_bound("x", 0.6).unwrap();
        let before = d.deficits()[0];
        let longer = EpochSchedule { start: 25, ..schedule };
        d.replan(reference(3.0), 0.25, EpochLength::Scheduled(longer)).unwrap();
        assert!((d.deficits()[0] - before).abs() < 1e-9, "{before} {:?}", d.deficits());
        assert_eq!((d.steps(), d.epoch_length(), d.certificate().steps), (1003, 25, 0));
        assert!((d.gains()[0] * d.window() - 0.25).abs() < 1e-12);
        d.replan(reference(1.0), 0.25, EpochLength::Fixed(40)).unwrap();
        assert_eq!(d.epoch_length(), 40);
        (0..40).for_each(|_| feed(&mut d, 0.6));
        assert!((d.deficits()[0] - before).abs() < 1e-9);
        assert!(d.replan(Multipliers::zeros(2), 0.25, EpochLength::Fixed(40)).is_err());
    }

    /// The rules for T₀.
    fn epochs() -> impl Strategy<Value = EpochLength> {
        let schedule = (1..50u64, 0..200u64, 0.001..2.0f64, prop::option::of(1..500u64));
        prop_oneof![
            (1..50u64).prop_map(EpochLength::Fixed),
            (1..50u64).prop_map(EpochLength::Auto),
            schedule.prop_map(|(start, sufficient, share, horizon)| {
                EpochLength::Scheduled(EpochSchedule { start, sufficient, share, horizon, ..OPEN_ENDED })
            }),
        ]
    }

    /// Arbitrary rewards, bounds and steps at which the bound changes.
    fn script() -> impl Strategy<Value = (Vec<f64>, f64, f64, EpochLength, Vec<(usize, f64)>)> {
        (
            prop::collection::vec(-3.0..3.0f64, 1..400),
            -2.0..2.0f64,
            0.001..10.0f64,
            epochs(),
            prop::collection::vec((0..400usize, -2.0..2.0f64), 0..4),
        )
    }

    proptest! {
        #[test]
        fn certificate_holds_for_any_rewards_bounds_and_epochs(
            (rewards, c, step, epoch, changes) in script(), reference: bool, start in 0.0..5.0f64
        ) {
            let start = Multipliers::new(vec![start]).unwrap();
            let d = dynamics(c, step, epoch).with_scales(1.5, &[0.7]).unwrap();
            let mut d = if reference { d.with_reference(start) } else { d.with_multipliers(start) }.unwrap();
            let (mut sum, mut n, mut bound) = (0.0, 0.0, c);
            for (t, &r) in rewards.iter().enumerate() {
                if let Some(&(_, new)) = changes.iter().find(|(at, _)| *at == t) {
                    d.set_bound("x", new).unwrap();
                    (sum, n, bound) = (0.0, 0.0, new);
                }
                feed(&mut d, r);
                (sum, n) = (sum + r, n + 1.0);
                let certified = &d.certificate().requirements[0];
                prop_assert!(sum / n >= bound - certified.certified_shortfall - 1e-9);
                prop_assert!((certified.average - sum / n).abs() < 1e-9);
            }
        }

        #[test]
        fn restored_state_continues_bit_identically(
            (rewards, c, step, epoch, changes) in script(), stop in 0..400usize
        ) {
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
            (rewards, c, step, _, _) in script(), length in 1..50u64
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
