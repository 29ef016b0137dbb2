//! The history of runs: averages, multipliers and certificates over time, for plots.

use serde::{Deserialize, Serialize};

use crate::{DualDynamics, Specification};

/// Mean, minimum and maximum over runs; as JSON `[mean, min, max]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "[f64; 3]", from = "[f64; 3]")]
pub struct MeanMinMax {
    sum: f64,
    runs: usize,
    min: f64,
    max: f64,
}

impl MeanMinMax {
    const NONE: Self = Self { sum: 0.0, runs: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn add(&mut self, value: f64) {
        self.merge(&Self { sum: value, runs: 1, min: value, max: value });
    }

    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.runs += other.runs;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The mean over runs.
    pub fn mean(&self) -> f64 {
        self.sum / self.runs.max(1) as f64
    }

    /// The minimum over runs.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The maximum over runs.
    pub fn max(&self) -> f64 {
        self.max
    }
}

impl From<MeanMinMax> for [f64; 3] {
    fn from(summary: MeanMinMax) -> Self {
        [summary.mean(), summary.min, summary.max]
    }
}

impl From<[f64; 3]> for MeanMinMax {
    fn from([mean, min, max]: [f64; 3]) -> Self {
        Self { sum: mean, runs: 1, min, max }
    }
}

/// The state of several runs after the same number of steps. Averages are in the user's signs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The steps taken.
    pub steps: u64,
    /// The planned steps.
    pub total: u64,
    /// The number of runs.
    pub runs: usize,
    /// The objective's average so far, if there is one.
    pub objective: Option<MeanMinMax>,
    /// The average so far of each requirement's reward.
    pub averages: Vec<MeanMinMax>,
    /// The multipliers.
    pub multipliers: Vec<MeanMinMax>,
    /// The multipliers of the first run.
    pub first: Vec<f64>,
    /// The certified shortfall of each requirement in the worst run; negative values are a
    /// guaranteed margin.
    pub certified_shortfalls: Vec<f64>,
    /// The tolerance of each requirement's certified shortfall.
    pub tolerances: Vec<f64>,
}

/// The transient of one run until it met its requirements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Transient {
    /// From this step on no running average was behind by more than the tolerance; `None` if one
    /// was at the end.
    pub met_from: Option<u64>,
    /// max_i (c_i − average_i)/R_i, the largest in the last nine tenths of the run; below 0 if none
    /// was ever behind.
    pub worst: f64,
}

/// Snapshots at evenly spaced moments of one run or of several simultaneous ones.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    objective: Option<f64>,
    /// The sign, c and R of each requirement.
    requirements: Vec<(f64, f64, f64)>,
    tolerances: Vec<f64>,
    steps: u64,
    snapshots: Vec<Snapshot>,
    transients: Vec<Transient>,
    next: u64,
    detail: Vec<(u64, Vec<f64>)>,
}

impl History {
    /// The number of snapshots of a run.
    pub const MOMENTS: u64 = 400;
    /// One over the last part of a run, in which every change of the multipliers is kept.
    const DETAIL: u64 = 20;

    /// An empty history of runs of `steps` steps; `scales` are the ranges R₁ … R_m, `tolerances`
    /// those of the certified shortfalls.
    pub fn new(specification: &Specification, scales: &[f64], tolerances: Vec<f64>, steps: u64) -> Self {
        let requirements = specification.requirements().iter().zip(scales);
        Self {
            objective: specification.objective().map(|objective| objective.sign()),
            requirements: requirements.map(|(r, scale)| (r.sign(), r.c(), *scale)).collect(),
            tolerances,
            steps,
            snapshots: Vec::new(),
            transients: Vec::new(),
            next: moment(1, steps),
            detail: Vec::new(),
        }
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.snapshots.last().map_or(0, |last| last.runs)
    }

    /// True if [`observe`](Self::observe) has to be called after this step.
    #[inline]
    pub fn is_due(&self, taken: u64) -> bool {
        taken == self.next || (self.in_detail(taken) && taken.is_multiple_of(self.detail_every()))
    }

    #[inline]
    fn in_detail(&self, taken: u64) -> bool {
        taken > self.steps - self.steps / Self::DETAIL
    }

    fn detail_every(&self) -> u64 {
        (self.steps / (Self::DETAIL * Self::MOMENTS)).max(1)
    }

    /// Notes the runs, in their order, after `taken` steps of each; returns the snapshot if one was
    /// due.
    pub fn observe<'a>(
        &mut self,
        taken: u64,
        runs: impl IntoIterator<Item = &'a DualDynamics>,
    ) -> Option<&Snapshot> {
        let mut runs = runs.into_iter().peekable();
        if let Some(first) = runs.peek().filter(|_| self.in_detail(taken)) {
            let multipliers = first.multipliers().as_slice();
            // Multipliers are constant within an epoch.
            if self.detail.last().is_none_or(|(_, last)| last != multipliers) {
                self.detail.push((taken, multipliers.to_vec()));
            }
        }
        if taken == self.next { Some(self.take(taken, runs)) } else { None }
    }

    fn take<'a>(&mut self, taken: u64, runs: impl Iterator<Item = &'a DualDynamics>) -> &Snapshot {
        let m = self.requirements.len();
        let mut snapshot = Snapshot {
            steps: taken,
            total: self.steps,
            runs: 0,
            objective: self.objective.map(|_| MeanMinMax::NONE),
            averages: vec![MeanMinMax::NONE; m],
            multipliers: vec![MeanMinMax::NONE; m],
            first: Vec::new(),
            certified_shortfalls: vec![f64::NEG_INFINITY; m],
            tolerances: self.tolerances.clone(),
        };
        for (run, dynamics) in runs.enumerate() {
            let (averages, shortfalls) = (dynamics.averages(), dynamics.shortfalls());
            let multipliers = dynamics.multipliers().as_slice();
            snapshot.runs += 1;
            if let (Some(summary), Some(sign)) = (&mut snapshot.objective, self.objective) {
                summary.add(sign * averages[0] + 0.0);
            }
            let (mut behind, mut met) = (f64::NEG_INFINITY, true);
            for (i, (sign, c, scale)) in self.requirements.iter().enumerate() {
                snapshot.averages[i].add(sign * averages[i + 1] + 0.0);
                snapshot.multipliers[i].add(multipliers[i]);
                let shortfall = &mut snapshot.certified_shortfalls[i];
                *shortfall = shortfall.max(shortfalls[i]);
                behind = behind.max((c - averages[i + 1]) / scale);
                met &= c - averages[i + 1] <= self.tolerances[i];
            }
            if run == 0 {
                snapshot.first = multipliers.to_vec();
            }
            if self.transients.len() <= run {
                self.transients.push(Transient { met_from: None, worst: f64::NEG_INFINITY });
            }
            let transient = &mut self.transients[run];
            transient.met_from = if met { transient.met_from.or(Some(taken)) } else { None };
            if taken >= self.steps / 10 {
                transient.worst = transient.worst.max(behind);
            }
        }
        self.snapshots.push(snapshot);
        let done = self.snapshots.len() as u64;
        self.next =
            (done + 1..).map(|k| moment(k, self.steps)).find(|next| *next > taken).unwrap_or(u64::MAX);
        // Not empty: the snapshot was pushed above.
        &self.snapshots[self.snapshots.len() - 1]
    }

    /// Adds runs with the same moments. Where some were stopped early, the moments common to all
    /// are kept.
    pub fn merge(&mut self, other: &Self) {
        self.snapshots.truncate(other.snapshots.len());
        for (mine, theirs) in self.snapshots.iter_mut().zip(&other.snapshots) {
            mine.runs += theirs.runs;
            if let (Some(mine), Some(theirs)) = (&mut mine.objective, &theirs.objective) {
                mine.merge(theirs);
            }
            for i in 0..self.requirements.len() {
                mine.averages[i].merge(&theirs.averages[i]);
                mine.multipliers[i].merge(&theirs.multipliers[i]);
                mine.certified_shortfalls[i] =
                    mine.certified_shortfalls[i].max(theirs.certified_shortfalls[i]);
            }
        }
        self.transients.extend(&other.transients);
    }

    /// R₁ … R_m.
    pub fn scales(&self) -> impl Iterator<Item = f64> + '_ {
        self.requirements.iter().map(|(_, _, scale)| *scale)
    }

    /// The snapshots in the order of time.
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// The multipliers of the first run in the last twentieth of its steps, whenever they changed.
    pub fn detail(&self) -> &[(u64, Vec<f64>)] {
        &self.detail
    }

    /// The transients, one for each run.
    pub fn transients(&self) -> &[Transient] {
        &self.transients
    }
}

/// The k-th moment; the last one is the last step. Moments of short runs may coincide.
fn moment(k: u64, steps: u64) -> u64 {
    if k > History::MOMENTS {
        return u64::MAX;
    }
    // In 128 bits, as runs may be long.
    ((u128::from(steps) * u128::from(k)).div_ceil(u128::from(History::MOMENTS)) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpochLength, Objective, Requirement, Rewards};

    fn specification() -> Specification {
        let requirements = vec![Requirement::at_most("x", 0.5).unwrap()];
        Specification::new(Some(Objective::minimize("cost")), requirements).unwrap()
    }

    /// A run with x = 1 for `late` steps and then 0; signs are the paper's.
    fn history(late: u64, steps: u64) -> History {
        let specification = specification();
        let mut dynamics =
            DualDynamics::new(specification.requirements().to_vec(), 0.1, EpochLength::Fixed(5)).unwrap();
        let mut history = History::new(&specification, &[1.0], vec![0.01], steps);
        for t in 0..steps {
            let x = if t < late { -1.0 } else { 0.0 };
            dynamics.observe(&Rewards::new(vec![-2.0, x]).unwrap()).unwrap();
            if history.is_due(t + 1) {
                history.observe(t + 1, [&dynamics]);
            }
        }
        history
    }

    #[test]
    fn moments_are_evenly_spaced_and_end_with_the_run() {
        for steps in [1, 7, 400, 401, 1000, 123_457] {
            let steps_seen: Vec<u64> = history(0, steps).snapshots().iter().map(|s| s.steps).collect();
            assert_eq!(*steps_seen.last().unwrap(), steps);
            assert_eq!(steps_seen.len() as u64, steps.min(History::MOMENTS));
            assert!(steps_seen.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn snapshots_have_the_users_signs_and_merge() {
        let (mut all, other) = (history(1000, 1000), history(0, 1000));
        all.merge(&other);
        let last = all.snapshots().last().unwrap();
        assert_eq!((last.runs, last.averages[0].mean()), (2, 0.5));
        assert_eq!((last.averages[0].min(), last.averages[0].max()), (0.0, 1.0));
        assert_eq!(last.objective.unwrap().mean(), 2.0);
        assert!((last.certified_shortfalls[0] - 0.5).abs() < 1e-9, "x is 1 and may be 0.5: {last:?}");
        // The last 50 steps: ten epochs of 5, each with a multiplier of its own.
        assert_eq!(all.detail().len(), 11);
        assert_eq!(all.detail().last().unwrap(), &(1000, last.first.clone()));
        let ahead = history(0, 1000);
        assert!((ahead.snapshots()[399].certified_shortfalls[0] - 0.0).abs() < 1e-12, "λ never left 0");
        let json = serde_json::to_value(last).unwrap();
        assert_eq!(json["averages"][0], serde_json::json!([0.5, 0.0, 1.0]));
    }

    #[test]
    fn transient_ends_when_the_average_is_within_tolerance() {
        // x for 200 steps: the average is down at 0.51 after 200/0.51 = 393 steps.
        let late = history(200, 1000);
        let transient = late.transients()[0];
        assert_eq!(transient.met_from, Some(393));
        assert!((transient.worst - 0.5).abs() < 1e-9);
        let never = history(1000, 1000).transients()[0];
        assert_eq!(never.met_from, None);
        let always = history(0, 1000).transients()[0];
        assert_eq!((always.met_from, always.worst), (Some(3), -0.5));
    }
}
