//! Why a requirement is behind: infeasible, the epoch too short, the policy too weak, or only early.

use serde::{Deserialize, Serialize};

use crate::mixture::game_value;

/// What is the matter, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// The requirements it is about: those in conflict, those still growing, or those behind.
    pub names: Vec<String>,
    /// Those whose reward never changed in all that was seen, so that nobody knows how to change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// What it rests on.
    pub evidence: Evidence,
}

/// The five things that can be the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every requirement's certified shortfall is within its tolerance in every run.
    Met,
    /// Not yet, but the multipliers do not grow any more: more steps will do.
    Converging,
    /// The requirements are feasible, yet the multipliers grow: a change of behaviour takes longer
    /// than an epoch. Lengthen it, or let `auto` do so.
    EpochTooShort,
    /// No policy meets these requirements together.
    Infeasible,
    /// Some policy may meet them, but no mixture of what this one does; or the multipliers have long been where nothing
    /// else matters, to no avail, and its settled averages are not known well enough to say that it could.
    PolicyInsufficient,
}

/// The standard errors within which a difference says nothing.
const ERRORS: f64 = 2.0;

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The largest certified shortfall over its tolerance.
    pub certificate: f64,
    /// The largest deficit per step in the second half of the run, over its tolerance.
    pub growth: f64,
    /// max_p min_i of the slack in units of each reward's range, by the exact model.
    pub exact_slack: Option<f64>,
    /// Σ λ_i R_i at the end, over what it can be while the multipliers are still on their way to λ*
    /// ([`DiagnosisInput::reach`]).
    pub reach: Option<f64>,
    /// The number of dual updates.
    pub updates: u64,
    /// The same over mixtures of all reward vectors seen.
    pub seen_slack: Option<f64>,
    /// The same over mixtures of the settled averages of the policies π(·, w).
    pub settled_slack: Option<f64>,
    /// What that may be off by, because settled averages have errors: two standard errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_error: Option<f64>,
}

/// What the exact model says about feasibility.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactEvidence {
    /// Whether some policy meets the requirements on almost every path.
    pub feasible: bool,
    /// max_π min_i (V_i(π) − c_i)/R_i.
    pub slack: f64,
    /// If they cannot be met: a smallest set of requirements that cannot be met together.
    pub conflict: Vec<String>,
}

/// What a diagnosis is made from. Vectors are in the order of `names`.
#[derive(Debug, Clone, Default)]
pub struct DiagnosisInput<'a> {
    /// The requirements' names.
    pub names: Vec<String>,
    /// c₁ … c_m.
    pub bounds: Vec<f64>,
    /// R₁ … R_m.
    pub scales: Vec<f64>,
    /// How large a certified shortfall may be.
    pub tolerances: Vec<f64>,
    /// The certified shortfalls, of the worst run.
    pub shortfalls: Vec<f64>,
    /// The deficits per step in the second half, of the worst run ([`crate::Execution::growth`]).
    pub growth: Vec<f64>,
    /// Σ λ_i R_i at the end, in the run where it is largest.
    pub size: f64,
    /// The number of dual updates of each run.
    pub updates: u64,
    /// What Σ λ_i R_i may come to with an epoch that is long enough, if that is known: up to there a
    /// growing multiplier is only on its way.
    pub reach: Option<f64>,
    /// From an exact model, if there is one.
    pub exact: Option<ExactEvidence>,
    /// All reward vectors (r₁ … r_m) that can occur or were seen, if they are few enough to know.
    pub seen: &'a [Vec<f64>],
    /// Settled averages (V₁ … V_m) of π(·, w) for many w, if they are known.
    pub settled: &'a [Vec<f64>],
    /// Their standard errors; none if they are exact.
    pub settled_errors: &'a [Vec<f64>],
    /// The standard deviations that `growth` has by chance; none if it has nothing of it.
    pub chance: Vec<f64>,
}

impl DiagnosisInput<'_> {
    /// With fewer dual updates than this, growth says nothing.
    const UPDATES: u64 = 20;

    /// Whether multipliers grow, and for long enough to mean something.
    pub fn growing(&self) -> bool {
        (0..self.growth.len()).any(|i| self.grows(i)) && self.updates >= Self::UPDATES
    }

    /// Whether this multiplier grows: by half a tolerance, and not by chance.
    fn grows(&self, i: usize) -> bool {
        let chance = self.chance.get(i).copied().unwrap_or(0.0);
        self.growth[i] / self.tolerances[i] > 0.5 && self.growth[i] > ERRORS * chance
    }

    /// The settled averages, so many standard errors better than they were found.
    fn settled_with(&self, errors: f64) -> Vec<Vec<f64>> {
        let none = Vec::new();
        let better = |(j, values): (usize, &Vec<f64>)| -> Vec<f64> {
            let of = self.settled_errors.get(j).unwrap_or(&none);
            values.iter().enumerate().map(|(i, v)| v + errors * of.get(i).copied().unwrap_or(0.0)).collect()
        };
        self.settled.iter().enumerate().map(better).collect()
    }

    /// Whether a requirement asks for more of a reward than it was ever seen to be, and it was never seen to change.
    fn is_unseen(&self, i: usize) -> bool {
        let Some(first) = self.seen.first().map(|v| v[i]) else { return false };
        let all = self.seen.iter().chain(self.settled);
        first < self.bounds[i] && all.map(|v| v[i]).all(|r| r == first)
    }
}

impl Diagnosis {
    /// Judges in this order: met; infeasible by the exact model; insufficient because a reward was never seen to change;
    /// infeasible over all reward vectors seen; insufficient over the settled averages; growing multipliers; converging.
    ///
    /// Settled averages with errors decide what they can: if a mixture that is two standard errors better would not do,
    /// the policy is insufficient; if one that is two standard errors worse would, the epoch is too short when multipliers
    /// grow. In between it is the multipliers that tell: the policy is insufficient if they grow beyond their reach.
    ///
    /// Multipliers that grow from zero at the start of a run are not evidence: not in its first half, not
    /// in a run of a few updates, and not while they are within reach of where they belong.
    pub fn judge(symptoms: &DiagnosisInput<'_>) -> Self {
        let s = symptoms;
        let over =
            |values: &[f64]| -> Vec<f64> { values.iter().zip(&s.tolerances).map(|(v, t)| v / t).collect() };
        let (behind, growing) = (over(&s.shortfalls), over(&s.growth));
        let slack = |vectors: &[Vec<f64>]| game_value(vectors, &s.bounds, &s.scales);
        let (seen, settled) = (slack(s.seen), slack(s.settled));
        let hopeful =
            if s.settled_errors.is_empty() { settled.clone() } else { slack(&s.settled_with(ERRORS)) };
        let named = |select: &dyn Fn(usize) -> bool| -> Vec<String> {
            (0..s.names.len()).filter(|&i| select(i)).map(|i| s.names[i].clone()).collect()
        };
        let evidence = Evidence {
            certificate: behind.iter().copied().fold(0.0, f64::max),
            growth: growing.iter().copied().fold(0.0, f64::max),
            exact_slack: s.exact.as_ref().map(|e| e.slack),
            reach: s.reach.map(|reach| s.size / reach),
            updates: s.updates,
            seen_slack: seen.as_ref().map(|g| g.value),
            settled_slack: settled.as_ref().map(|g| g.value),
            settled_error: match (&hopeful, &settled) {
                (Some(hopeful), Some(settled)) if !s.settled_errors.is_empty() => {
                    Some(hopeful.value - settled.value)
                }
                _ => None,
            },
        };
        let unseen = if s.exact.is_none() { named(&|i| s.is_unseen(i)) } else { Vec::new() };
        // Rounding of a slack that is exactly zero must not read as a conflict.
        let negative = |slack: f64| slack < -1e-9;
        let surely = || slack(&s.settled_with(-ERRORS)).is_none_or(|g| !negative(g.value));
        let (verdict, names) = if evidence.certificate <= 1.0 {
            (Verdict::Met, named(&|_| true))
        } else if let Some(exact) = s.exact.as_ref().filter(|e| !e.feasible) {
            (Verdict::Infeasible, exact.conflict.clone())
        } else if !unseen.is_empty() {
            (Verdict::PolicyInsufficient, unseen.clone())
        } else if let Some(game) = seen.filter(|g| s.exact.is_none() && negative(g.value)) {
            (Verdict::Infeasible, named(&|i| game.prices[i] > 1e-9))
        } else if let Some(game) = hopeful.filter(|g| negative(g.value)) {
            (Verdict::PolicyInsufficient, named(&|i| game.prices[i] > 1e-9))
        } else if s.growing() && evidence.reach.is_none_or(|reach| reach > 1.0) {
            let verdict = if surely() { Verdict::EpochTooShort } else { Verdict::PolicyInsufficient };
            (verdict, named(&|i| s.grows(i)))
        } else {
            (Verdict::Converging, named(&|i| behind[i] > 1.0))
        };
        let unseen = if verdict == Verdict::PolicyInsufficient { unseen } else { Vec::new() };
        Self { verdict, names, unseen, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symptoms(shortfall: f64, growth: f64) -> DiagnosisInput<'static> {
        DiagnosisInput {
            names: vec!["a".into(), "b".into()],
            bounds: vec![0.4, 0.4],
            scales: vec![1.0, 1.0],
            tolerances: vec![0.005, 0.005],
            shortfalls: vec![shortfall, 0.0],
            growth: vec![growth, 0.0],
            updates: 1000,
            ..DiagnosisInput::default()
        }
    }

    fn verdict(s: &DiagnosisInput<'_>) -> (Verdict, Vec<String>) {
        let d = Diagnosis::judge(s);
        (d.verdict, d.names)
    }

    #[test]
    fn each_verdict_has_its_symptoms() {
        let apart = [vec![1.0, 0.0], vec![0.0, 1.0]];
        let weak = [vec![0.7, 0.0], vec![0.0, 0.7]];
        let poor = [vec![0.3, 0.0], vec![0.0, 0.3]];
        assert_eq!(verdict(&symptoms(0.004, 0.1)), (Verdict::Met, vec!["a".into(), "b".into()]));
        assert_eq!(verdict(&symptoms(0.1, 0.0)), (Verdict::Converging, vec!["a".into()]));
        assert_eq!(verdict(&symptoms(0.1, 0.1)), (Verdict::EpochTooShort, vec!["a".into()]));
        let s = DiagnosisInput { updates: 3, ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s).0, Verdict::Converging, "three updates say nothing");
        let s = DiagnosisInput { size: 1.0, reach: Some(2.0), ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s).0, Verdict::Converging, "still on their way");
        let s = DiagnosisInput { size: 9.0, reach: Some(2.0), ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s).0, Verdict::EpochTooShort);
        let s = DiagnosisInput { seen: &apart, settled: &weak, ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s).0, Verdict::PolicyInsufficient);
        let s = DiagnosisInput { seen: &poor, ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s), (Verdict::Infeasible, vec!["a".into(), "b".into()]));
        let exact = Some(ExactEvidence { feasible: false, slack: -0.1, conflict: vec!["b".into()] });
        let s = DiagnosisInput { exact, seen: &apart, ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s), (Verdict::Infeasible, vec!["b".into()]));
    }

    #[test]
    fn settled_averages_decide_what_their_errors_allow() {
        let (close, apart) = ([vec![0.45, 0.35], vec![0.35, 0.45]], [vec![0.9, 0.0], vec![0.0, 0.9]]);
        let of = |error: f64| [vec![error; 2], vec![error; 2]];
        let judged = |settled: &[Vec<f64>], errors: &[Vec<f64>], reach: Option<f64>, chance: f64| {
            let chance = vec![chance; 2];
            let s = DiagnosisInput {
                settled,
                settled_errors: errors,
                reach,
                chance,
                size: 5.0,
                ..symptoms(0.1, 0.1)
            };
            let found = Diagnosis::judge(&s);
            (found.verdict, found.evidence.settled_error)
        };
        // A half of each meets both bounds of .4 exactly. Two standard errors of .01 are .02.
        assert_eq!(judged(&close, &[], Some(1.0), 0.0), (Verdict::EpochTooShort, None));
        let (verdict, error) = judged(&close, &of(0.01), Some(1.0), 0.0);
        assert_eq!(verdict, Verdict::PolicyInsufficient, "all that could be done was, and it does not do");
        assert!((error.unwrap() - 0.02).abs() < 1e-9);
        assert_eq!(judged(&close, &of(0.01), Some(9.0), 0.0).0, Verdict::Converging, "not there yet");
        assert_eq!(judged(&apart, &of(0.01), Some(1.0), 0.0).0, Verdict::EpochTooShort, ".45 each, surely");
        let poor = [vec![0.38, 0.38]];
        assert_eq!(judged(&poor, &[], Some(9.0), 0.0).0, Verdict::PolicyInsufficient);
        assert_eq!(judged(&poor, &of(0.005), Some(9.0), 0.0).0, Verdict::PolicyInsufficient, ".39 at best");
        assert_eq!(judged(&poor, &of(0.02), Some(9.0), 0.0).0, Verdict::Converging, ".42 at best: who knows");
        // What may be chance is no growth.
        assert_eq!(judged(&apart, &of(0.01), Some(1.0), 0.06).0, Verdict::Converging);
    }

    #[test]
    fn a_reward_that_never_changed_is_named() {
        let judged = |seen: &[Vec<f64>], settled: &[Vec<f64>]| {
            let s = DiagnosisInput { seen, settled, ..symptoms(0.4, 0.1) };
            let found = Diagnosis::judge(&s);
            (found.verdict, found.names, found.unseen)
        };
        let (never, idle) = ([vec![0.0, 0.3], vec![0.0, 1.0]], [vec![0.0, 0.5]]);
        let a = vec!["a".to_owned()];
        assert_eq!(judged(&never, &idle), (Verdict::PolicyInsufficient, a.clone(), a.clone()));
        assert_eq!(judged(&[vec![0.0, 1.0], vec![0.1, 1.0]], &idle), (Verdict::Infeasible, a, vec![]));
        // It was seen when the policy was measured.
        assert_eq!(judged(&never, &[vec![0.1, 0.5]]).0, Verdict::Infeasible);
        let text = serde_json::to_string(&Diagnosis::judge(&symptoms(0.004, 0.1))).unwrap();
        assert!(!text.contains("unseen") && !text.contains("settled_error"), "{text}");
    }

    #[test]
    fn the_exact_model_overrules_the_rewards_seen() {
        let poor = [vec![0.3, 0.0]];
        let exact = Some(ExactEvidence { feasible: true, slack: 0.1, conflict: vec![] });
        let s = DiagnosisInput { exact, seen: &poor, ..symptoms(0.1, 0.1) };
        assert_eq!(verdict(&s).0, Verdict::EpochTooShort);
    }
}
