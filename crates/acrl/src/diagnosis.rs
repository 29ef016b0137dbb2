//! Diagnosis of a run: why a requirement is behind (infeasible, epoch too short, policy
//! insufficient, or only early).
//!
//! The statistics are the certified shortfall, the deficit rate (the slope of the ledger over the
//! second half of the run, compared with its standard deviation), the multiplier ratio (Σ λ_i R_i
//! over the largest value on the way to λ*) and slacks: the values max_p min_i of matrix games over
//! mixtures of reward vectors (von Neumann 1928). The thresholds are the constants of
//! [`DiagnosisInput`].

use serde::{Deserialize, Serialize};

use crate::mixture::game_value;
use crate::{Multipliers, Verdict};

/// The verdict on a run and its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: DiagnosisVerdict,
    /// The requirements it is about: those in conflict, those still growing, or those behind.
    pub names: Vec<String>,
    /// Requirements whose reward never changed in any observation, so that no policy is known to
    /// change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unobserved_rewards: Vec<String>,
    /// The statistics of the verdict.
    pub evidence: Evidence,
}

/// The five verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisVerdict {
    /// Every requirement is satisfied or within tolerance in every run.
    Met,
    /// Not met yet, but the multipliers do not grow any more: more steps suffice.
    Converging,
    /// The requirements are feasible, yet the multipliers grow: a change of behaviour takes longer
    /// than an epoch. Lengthen it, or let `auto` do so.
    EpochTooShort,
    /// No policy meets these requirements together.
    Infeasible,
    /// Some policy may meet them, but no mixture of the library's policies does; or the multipliers
    /// have grown beyond the point where requirements dominate, and the library's evaluation is not
    /// accurate enough to show a mixture that would.
    PolicyInsufficient,
}

/// The statistics of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The largest certified shortfall over its tolerance.
    pub certified_shortfall_ratio: f64,
    /// The largest deficit per step in the second half of the run, over its tolerance.
    pub deficit_rate: f64,
    /// max_p min_i of the slack in units of each reward's range, by the exact model.
    pub exact_slack: Option<f64>,
    /// Σ λ_i R_i at the end, over its largest value while the multipliers are still on their way to
    /// λ* ([`DiagnosisInput::multiplier_limit`]).
    pub multiplier_ratio: Option<f64>,
    /// The number of dual updates.
    pub updates: u64,
    /// The slack over mixtures of all observed reward vectors.
    pub observed_slack: Option<f64>,
    /// The slack over mixtures of the library: the long-run averages of the policies π(·, w).
    pub library_slack: Option<f64>,
    /// The error of that slack: its change if every average were two standard errors better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_error: Option<f64>,
}

/// Feasibility by the exact model.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactEvidence {
    /// True if some policy meets the requirements almost surely.
    pub feasible: bool,
    /// max_π min_i (V_i(π) − c_i)/R_i.
    pub slack: f64,
    /// If they cannot be met: an irreducible set of requirements in conflict.
    pub conflict: Vec<String>,
}

/// The data of a diagnosis. Vectors are in the order of `names`.
#[derive(Debug, Clone, Default)]
pub struct DiagnosisInput<'a> {
    /// The requirements' names.
    pub names: Vec<String>,
    /// c₁ … c_m.
    pub bounds: Vec<f64>,
    /// R₁ … R_m.
    pub scales: Vec<f64>,
    /// The tolerances of the certified shortfalls.
    pub tolerances: Vec<f64>,
    /// The verdicts, of the worst run.
    pub verdicts: Vec<Verdict>,
    /// The certified shortfalls, of the worst run.
    pub shortfalls: Vec<f64>,
    /// The deficits per step in the second half, of the worst run
    /// ([`crate::Execution::deficit_rates`]).
    pub deficit_rates: Vec<f64>,
    /// Σ λ_i R_i at the end, in the run where it is largest.
    pub multiplier_size: f64,
    /// The number of dual updates of each run.
    pub updates: u64,
    /// The units U₁ … U_m in which multipliers are added up, in place of R₁ … R_m; none if they are
    /// the same.
    pub multiplier_units: Vec<f64>,
    /// The largest Σ λ_i R_i with a sufficient epoch length, if it is known: up to there a growing
    /// multiplier is only on its way to λ*.
    pub multiplier_limit: Option<f64>,
    /// Feasibility by an exact model, if there is one.
    pub exact: Option<ExactEvidence>,
    /// All reward vectors (r₁ … r_m) that can occur or were observed, if they are few enough to
    /// store.
    pub observed: &'a [Vec<f64>],
    /// Long-run averages (V₁ … V_m) of π(·, w) for many w, if they are known.
    pub library: &'a [Vec<f64>],
    /// Their standard errors; none if they are exact.
    pub library_errors: &'a [Vec<f64>],
    /// The standard deviations of the deficit rates; none if they are deterministic.
    pub deficit_rate_std: Vec<f64>,
}

impl DiagnosisInput<'_> {
    /// The fewest dual updates with which a deficit rate is evidence.
    pub const MIN_UPDATES: u64 = 20;
    /// The deficit rate, in tolerances, above which a multiplier counts as growing.
    pub const GROWING_RATE: f64 = 0.5;
    /// The standard errors beyond which a difference is significant.
    pub const STANDARD_ERRORS: f64 = 2.0;
    /// The slack below which a mixture counts as infeasible, and the price above which a
    /// requirement takes part in a conflict: more than rounding.
    pub const ROUNDING: f64 = 1e-9;

    /// Σ λ_i U_i, where U are the [units](Self::multiplier_units), or else the ranges `scales`.
    pub fn size(&self, multipliers: &Multipliers, scales: &[f64]) -> f64 {
        let units = if self.multiplier_units.is_empty() { scales } else { &self.multiplier_units };
        multipliers.as_slice().iter().zip(units).map(|(l, unit)| l * unit).sum()
    }

    /// True if a multiplier grows significantly, over enough updates.
    pub fn growing(&self) -> bool {
        (0..self.deficit_rates.len()).any(|i| self.grows(i)) && self.updates >= Self::MIN_UPDATES
    }

    /// True if the deficit rate is beyond half a tolerance and significantly above 0.
    fn grows(&self, i: usize) -> bool {
        let (rate, std) = (self.deficit_rates[i], self.deficit_rate_std.get(i).copied().unwrap_or(0.0));
        in_tolerances(rate, self.tolerances[i]) > Self::GROWING_RATE && rate > Self::STANDARD_ERRORS * std
    }

    /// The long-run averages of the library plus a number of standard errors.
    fn library_with(&self, errors: f64) -> Vec<Vec<f64>> {
        let none = Vec::new();
        let better = |(j, values): (usize, &Vec<f64>)| -> Vec<f64> {
            let of = self.library_errors.get(j).unwrap_or(&none);
            values.iter().enumerate().map(|(i, v)| v + errors * of.get(i).copied().unwrap_or(0.0)).collect()
        };
        self.library.iter().enumerate().map(better).collect()
    }

    /// True if the bound is above the reward in all observations, and the reward never changed.
    fn is_unobserved(&self, i: usize) -> bool {
        let Some(first) = self.observed.first().map(|v| v[i]) else { return false };
        let all = self.observed.iter().chain(self.library);
        first < self.bounds[i] && all.map(|v| v[i]).all(|r| r == first)
    }
}

/// A number in units of a tolerance, which may be 0.
fn in_tolerances(value: f64, tolerance: f64) -> f64 {
    const MOST: f64 = 1e9;
    if value == 0.0 { 0.0 } else { (value / tolerance).clamp(-MOST, MOST) }
}

impl Diagnosis {
    /// Decides in this order: met; infeasible by the exact model; insufficient because a reward
    /// never changed; infeasible over all observed reward vectors; insufficient over the library;
    /// growing multipliers; converging.
    ///
    /// The library's averages decide as far as their errors allow: if no mixture suffices even two
    /// standard errors better, the policy is insufficient; if one suffices two standard errors
    /// worse, the epoch is too short when multipliers grow. In between the multipliers decide: the
    /// policy is insufficient if their ratio exceeds 1.
    ///
    /// Multipliers that grow from zero at the start of a run are not evidence: not in its first
    /// half, not in a run of a few updates, and not while their ratio is below 1.
    pub fn judge(input: &DiagnosisInput<'_>) -> Self {
        let s = input;
        let over = |values: &[f64]| -> Vec<f64> {
            values.iter().zip(&s.tolerances).map(|(v, t)| in_tolerances(*v, *t)).collect()
        };
        let (behind, growing) = (over(&s.shortfalls), over(&s.deficit_rates));
        let slack = |vectors: &[Vec<f64>]| game_value(vectors, &s.bounds, &s.scales);
        let (observed, library) = (slack(s.observed), slack(s.library));
        let optimistic = if s.library_errors.is_empty() {
            library.clone()
        } else {
            slack(&s.library_with(DiagnosisInput::STANDARD_ERRORS))
        };
        let named = |select: &dyn Fn(usize) -> bool| -> Vec<String> {
            (0..s.names.len()).filter(|&i| select(i)).map(|i| s.names[i].clone()).collect()
        };
        let evidence = Evidence {
            certified_shortfall_ratio: behind.iter().copied().fold(0.0, f64::max),
            deficit_rate: growing.iter().copied().fold(0.0, f64::max),
            exact_slack: s.exact.as_ref().map(|e| e.slack),
            multiplier_ratio: s.multiplier_limit.map(|limit| s.multiplier_size / limit),
            updates: s.updates,
            observed_slack: observed.as_ref().map(|g| g.value),
            library_slack: library.as_ref().map(|g| g.value),
            library_error: match (&optimistic, &library) {
                (Some(optimistic), Some(library)) if !s.library_errors.is_empty() => {
                    Some(optimistic.value - library.value)
                }
                _ => None,
            },
        };
        let unobserved = if s.exact.is_none() { named(&|i| s.is_unobserved(i)) } else { Vec::new() };
        // Rounding of a slack that is exactly zero must not read as a conflict.
        let negative = |slack: f64| slack < -DiagnosisInput::ROUNDING;
        let sufficient =
            || slack(&s.library_with(-DiagnosisInput::STANDARD_ERRORS)).is_none_or(|g| !negative(g.value));
        let met = |i: usize| s.verdicts[i].is_met();
        let (verdict, names) = if (0..s.names.len()).all(met) {
            (DiagnosisVerdict::Met, named(&|_| true))
        } else if let Some(exact) = s.exact.as_ref().filter(|e| !e.feasible) {
            (DiagnosisVerdict::Infeasible, exact.conflict.clone())
        } else if !unobserved.is_empty() {
            (DiagnosisVerdict::PolicyInsufficient, unobserved.clone())
        } else if let Some(game) = observed.filter(|g| s.exact.is_none() && negative(g.value)) {
            (DiagnosisVerdict::Infeasible, named(&|i| game.prices[i] > DiagnosisInput::ROUNDING))
        } else if let Some(game) = optimistic.filter(|g| negative(g.value)) {
            (DiagnosisVerdict::PolicyInsufficient, named(&|i| game.prices[i] > DiagnosisInput::ROUNDING))
        } else if s.growing() && evidence.multiplier_ratio.is_none_or(|ratio| ratio > 1.0) {
            let verdict = if sufficient() {
                DiagnosisVerdict::EpochTooShort
            } else {
                DiagnosisVerdict::PolicyInsufficient
            };
            (verdict, named(&|i| s.grows(i)))
        } else {
            (DiagnosisVerdict::Converging, named(&|i| !met(i)))
        };
        let unobserved_rewards =
            if verdict == DiagnosisVerdict::PolicyInsufficient { unobserved } else { Vec::new() };
        Self { verdict, names, unobserved_rewards, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(shortfall: f64, deficit_rate: f64) -> DiagnosisInput<'static> {
        DiagnosisInput {
            names: vec!["a".into(), "b".into()],
            bounds: vec![0.4, 0.4],
            scales: vec![1.0, 1.0],
            tolerances: vec![0.005, 0.005],
            verdicts: vec![Verdict::of(shortfall == 0.0, shortfall, 0.005), Verdict::Satisfied],
            shortfalls: vec![shortfall, 0.0],
            deficit_rates: vec![deficit_rate, 0.0],
            updates: 1000,
            ..DiagnosisInput::default()
        }
    }

    fn verdict(s: &DiagnosisInput<'_>) -> (DiagnosisVerdict, Vec<String>) {
        let d = Diagnosis::judge(s);
        (d.verdict, d.names)
    }

    #[test]
    fn each_verdict_follows_from_its_evidence() {
        let apart = [vec![1.0, 0.0], vec![0.0, 1.0]];
        let weak = [vec![0.7, 0.0], vec![0.0, 0.7]];
        let poor = [vec![0.3, 0.0], vec![0.0, 0.3]];
        assert_eq!(verdict(&input(0.004, 0.1)), (DiagnosisVerdict::Met, vec!["a".into(), "b".into()]));
        assert_eq!(verdict(&input(0.1, 0.0)), (DiagnosisVerdict::Converging, vec!["a".into()]));
        assert_eq!(verdict(&input(0.1, 0.1)), (DiagnosisVerdict::EpochTooShort, vec!["a".into()]));
        let s = DiagnosisInput { updates: 3, ..input(0.1, 0.1) };
        assert_eq!(verdict(&s).0, DiagnosisVerdict::Converging, "three updates are no evidence");
        let s = DiagnosisInput { multiplier_size: 1.0, multiplier_limit: Some(2.0), ..input(0.1, 0.1) };
        assert_eq!(verdict(&s).0, DiagnosisVerdict::Converging, "still on their way");
        let s = DiagnosisInput { multiplier_size: 9.0, multiplier_limit: Some(2.0), ..input(0.1, 0.1) };
        assert_eq!(verdict(&s).0, DiagnosisVerdict::EpochTooShort);
        let s = DiagnosisInput { observed: &apart, library: &weak, ..input(0.1, 0.1) };
        assert_eq!(verdict(&s).0, DiagnosisVerdict::PolicyInsufficient);
        let s = DiagnosisInput { observed: &poor, ..input(0.1, 0.1) };
        assert_eq!(verdict(&s), (DiagnosisVerdict::Infeasible, vec!["a".into(), "b".into()]));
        let exact = Some(ExactEvidence { feasible: false, slack: -0.1, conflict: vec!["b".into()] });
        let s = DiagnosisInput { exact, observed: &apart, ..input(0.1, 0.1) };
        assert_eq!(verdict(&s), (DiagnosisVerdict::Infeasible, vec!["b".into()]));
    }

    #[test]
    fn library_averages_decide_as_far_as_their_errors_allow() {
        let (close, apart) = ([vec![0.45, 0.35], vec![0.35, 0.45]], [vec![0.9, 0.0], vec![0.0, 0.9]]);
        let of = |error: f64| [vec![error; 2], vec![error; 2]];
        let judged = |library: &[Vec<f64>], errors: &[Vec<f64>], limit: Option<f64>, std: f64| {
            let deficit_rate_std = vec![std; 2];
            let s = DiagnosisInput {
                library,
                library_errors: errors,
                multiplier_limit: limit,
                deficit_rate_std,
                multiplier_size: 5.0,
                ..input(0.1, 0.1)
            };
            let found = Diagnosis::judge(&s);
            (found.verdict, found.evidence.library_error)
        };
        // A half of each meets both bounds of 0.4 exactly. Two standard errors of 0.01 are 0.02.
        assert_eq!(judged(&close, &[], Some(1.0), 0.0), (DiagnosisVerdict::EpochTooShort, None));
        let (verdict, error) = judged(&close, &of(0.01), Some(1.0), 0.0);
        assert_eq!(verdict, DiagnosisVerdict::PolicyInsufficient, "the multipliers are beyond their limit");
        assert!((error.unwrap() - 0.02).abs() < 1e-9);
        assert_eq!(
            judged(&close, &of(0.01), Some(9.0), 0.0).0,
            DiagnosisVerdict::Converging,
            "below the limit"
        );
        assert_eq!(
            judged(&apart, &of(0.01), Some(1.0), 0.0).0,
            DiagnosisVerdict::EpochTooShort,
            "0.45 each, significantly"
        );
        let poor = [vec![0.38, 0.38]];
        assert_eq!(judged(&poor, &[], Some(9.0), 0.0).0, DiagnosisVerdict::PolicyInsufficient);
        assert_eq!(
            judged(&poor, &of(0.005), Some(9.0), 0.0).0,
            DiagnosisVerdict::PolicyInsufficient,
            "0.39 at best"
        );
        assert_eq!(
            judged(&poor, &of(0.02), Some(9.0), 0.0).0,
            DiagnosisVerdict::Converging,
            "0.42 at best: undecided"
        );
        // A rate within two standard deviations is not significant.
        assert_eq!(judged(&apart, &of(0.01), Some(1.0), 0.06).0, DiagnosisVerdict::Converging);
    }

    #[test]
    fn unobserved_rewards_are_named() {
        let judged = |observed: &[Vec<f64>], library: &[Vec<f64>]| {
            let s = DiagnosisInput { observed, library, ..input(0.4, 0.1) };
            let found = Diagnosis::judge(&s);
            (found.verdict, found.names, found.unobserved_rewards)
        };
        let (never, idle) = ([vec![0.0, 0.3], vec![0.0, 1.0]], [vec![0.0, 0.5]]);
        let a = vec!["a".to_owned()];
        assert_eq!(judged(&never, &idle), (DiagnosisVerdict::PolicyInsufficient, a.clone(), a.clone()));
        assert_eq!(
            judged(&[vec![0.0, 1.0], vec![0.1, 1.0]], &idle),
            (DiagnosisVerdict::Infeasible, a, vec![])
        );
        // It changed when the policy was evaluated.
        assert_eq!(judged(&never, &[vec![0.1, 0.5]]).0, DiagnosisVerdict::Infeasible);
        let text = serde_json::to_string(&Diagnosis::judge(&input(0.004, 0.1))).unwrap();
        assert!(!text.contains("unobserved_rewards") && !text.contains("library_error"), "{text}");
    }

    #[test]
    fn exact_model_overrules_observed_rewards() {
        let poor = [vec![0.3, 0.0]];
        let exact = Some(ExactEvidence { feasible: true, slack: 0.1, conflict: vec![] });
        let s = DiagnosisInput { exact, observed: &poor, ..input(0.1, 0.1) };
        assert_eq!(verdict(&s).0, DiagnosisVerdict::EpochTooShort);
    }
}
