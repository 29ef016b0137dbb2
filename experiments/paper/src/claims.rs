//! The one table of claims: what the paper says, where, and the threshold by which a run of ours decides.
//!
//! Thresholds are part of the program, so they are fixed before anything is run. A claim passes if all its limits hold. If one
//! does not, its verdict is the one that is expected of it: an *erratum*, where the paper's statement is wrong, or *deviates*,
//! where our result differs in a stated way. Either has limits of its own, the evidence, and the claim *fails* unless they hold.

use std::fmt;

use acrl::Named;
use serde::Serialize;

use acrl_report::{Cell, Tone, number};

/// A claim of the paper.
pub(crate) struct Claim {
    /// By which it is asked for.
    pub(crate) id: &'static str,
    /// Where in the paper.
    pub(crate) place: &'static str,
    /// The figure that it is about.
    pub(crate) figure: Option<&'static str>,
    /// What the paper says.
    pub(crate) says: &'static str,
    /// What must hold.
    pub(crate) limits: &'static [Limit],
    /// The explanation of a miss, if there is one.
    pub(crate) known: Option<Known>,
    /// What else there is to say.
    pub(crate) note: &'static str,
}

/// Explanation of a claim that does not hold as it stands.
pub(crate) struct Known {
    /// [`ClaimVerdict::Erratum`] or [`ClaimVerdict::Deviates`].
    verdict: ClaimVerdict,
    /// The reason.
    why: &'static str,
    /// What must hold for the explanation to be right.
    evidence: &'static [Limit],
}

/// The paper's statement is wrong, or misprinted.
const fn erratum(why: &'static str, evidence: &'static [Limit]) -> Option<Known> {
    Some(Known { verdict: ClaimVerdict::Erratum, why, evidence })
}

/// Our result differs from the paper's in the stated way.
const fn deviation(why: &'static str, evidence: &'static [Limit]) -> Option<Known> {
    Some(Known { verdict: ClaimVerdict::Deviates, why, evidence })
}

/// A number that is measured, and what it must be.
pub(crate) enum Limit {
    /// At least so much.
    Least(&'static str, f64),
    /// At most so much.
    Most(&'static str, f64),
}

use Limit::{Least, Most};

impl Limit {
    fn name(&self) -> &'static str {
        match self {
            Least(name, _) | Most(name, _) => name,
        }
    }

    /// The limit beside what was measured. A number that is missing or NaN does not hold.
    fn check(&self, measured: &Named<f64>) -> Criterion {
        let value = measured.get(self.name()).copied().filter(|value| !value.is_nan());
        let (relation, bound) = match self {
            Least(_, bound) => (Relation::AtLeast, *bound),
            Most(_, bound) => (Relation::AtMost, *bound),
        };
        let holds = value.is_some_and(|value| match relation {
            Relation::AtLeast => value >= bound,
            Relation::AtMost => value <= bound,
        });
        Criterion { metric: self.name(), relation, bound, measured: value, holds }
    }
}

/// A threshold, and the number measured for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Criterion {
    /// The name of the number.
    pub metric: &'static str,
    /// On which side of the bound it must be.
    pub relation: Relation,
    /// The bound.
    pub bound: f64,
    /// The number; `None` if it was not measured.
    pub measured: Option<f64>,
    /// Whether it is on the right side.
    pub holds: bool,
}

/// Direction of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// At least the bound.
    AtLeast,
    /// At most the bound.
    AtMost,
}

impl Criterion {
    /// As "share of runs that meet all: at least 1", without the measurement.
    pub fn requirement(&self) -> String {
        let name = self.metric.replace('_', " ").replace("a crl", "A-CRL");
        let relation = match self.relation {
            Relation::AtLeast => "at least",
            Relation::AtMost => "at most",
        };
        format!("{name}: {relation} {}", number(self.bound, if self.bound.abs() < 1e-5 { 1 } else { 4 }))
    }
}

impl fmt::Display for Criterion {
    /// As "share of runs that meet all: at least 1, measured 0.95".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.measured.map_or("nothing".to_owned(), |value| number(value, 4));
        write!(f, "{}, measured {measured}", self.requirement())
    }
}

/// Verdict on a claim, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// Reproduced: within the threshold.
    Pass,
    /// The paper's statement is wrong or a misprint, and the measurement shows it.
    Erratum,
    /// A different result, in a stated way.
    Deviates,
    /// Not reproduced.
    Fail,
}

impl ClaimVerdict {
    /// All of them, from the best to the worst.
    pub const ALL: [Self; 4] = [Self::Pass, Self::Erratum, Self::Deviates, Self::Fail];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Erratum => "erratum",
            Self::Deviates => "deviates",
            Self::Fail => "fail",
        }
    }

    /// Heading above the claims with this verdict.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Pass => "Reproduced",
            Self::Erratum => "Errata of the paper",
            Self::Deviates => "Deviations",
            Self::Fail => "Failed",
        }
    }

    /// So many claims in words, as in "2 errata of the paper".
    pub fn count(self, claims: usize) -> String {
        let one = claims == 1;
        match self {
            Self::Pass => format!("{claims} reproduced"),
            Self::Erratum if one => "1 erratum of the paper".to_owned(),
            Self::Erratum => format!("{claims} errata of the paper"),
            Self::Deviates if one => "1 deviates".to_owned(),
            Self::Deviates => format!("{claims} deviate"),
            Self::Fail if one => "1 fails".to_owned(),
            Self::Fail => format!("{claims} fail"),
        }
    }

    /// As it is shown in a table.
    pub fn cell(self) -> Cell {
        let tone = match self {
            Self::Pass => Tone::Good,
            Self::Erratum | Self::Deviates => Tone::Faint,
            Self::Fail => Tone::Bad,
        };
        Cell::new(self.name(), tone)
    }
}

/// Verdict on a claim, and all that it rests on.
pub(crate) struct Judgement {
    pub(crate) verdict: ClaimVerdict,
    /// The thresholds of the claim.
    pub(crate) criteria: Vec<Criterion>,
    /// The thresholds of the explanation, where the claim is missed and has one.
    pub(crate) evidence: Vec<Criterion>,
    /// The explanation of a miss, else a remark.
    pub(crate) why: Option<&'static str>,
}

impl Claim {
    /// The claim of that id.
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        CLAIMS.iter().find(|claim| claim.id == id)
    }

    /// By the numbers measured.
    pub(crate) fn judge(&self, measured: &Named<f64>) -> Judgement {
        let check = |limits: &[Limit]| limits.iter().map(|limit| limit.check(measured)).collect::<Vec<_>>();
        let hold = |criteria: &[Criterion]| criteria.iter().all(|criterion| criterion.holds);
        let criteria = check(self.limits);
        let note = Some(self.note).filter(|note| !note.is_empty());
        if hold(&criteria) {
            return Judgement { verdict: ClaimVerdict::Pass, criteria, evidence: Vec::new(), why: note };
        }
        // A number that was not measured explains nothing.
        let known = self.known.as_ref().filter(|_| criteria.iter().all(|c| c.measured.is_some()));
        let Some(known) = known else {
            return Judgement { verdict: ClaimVerdict::Fail, criteria, evidence: Vec::new(), why: note };
        };
        let evidence = check(known.evidence);
        let verdict = if hold(&evidence) { known.verdict } else { ClaimVerdict::Fail };
        Judgement { verdict, criteria, evidence, why: Some(known.why) }
    }
}

/// The figures of the paper, in their order.
pub(crate) const FIGURES: [(&str, &str); 7] = [
    ("fig1", "The monitoring problem"),
    ("fig2", "The augmented state"),
    ("fig3", "A-CRL on Example 1"),
    ("fig4", "Primal-dual on Example 1"),
    ("fig5", "The policy for two multipliers, and where the agent is"),
    ("fig6", "A-CRL on the continuous problem"),
    ("fig7", "Primal-dual on the continuous problem"),
];

/// What a claim need not state.
const CLAIM: Claim = Claim { id: "", place: "", figure: None, says: "", limits: &[], known: None, note: "" };

/// All claims, in the order of the paper.
pub(crate) const CLAIMS: &[Claim] = &[
    Claim {
        id: "optimal-policy",
        place: "Section III, Example 1; Fig. 1",
        figure: Some("fig1"),
        says: "Choosing between the two actions of each state with probability 1/2 spends 1/3 of the time everywhere and is \
               optimal: P* = 1/3.",
        limits: &[
            Most("distance_of_the_averages_from_a_third", 1e-9),
            Most("distance_of_the_optimum_from_a_third", 1e-6),
        ],
        ..CLAIM
    },
    Claim {
        id: "augmented-state",
        place: "Section II-A; Fig. 2",
        figure: Some("fig2"),
        says: "The dual update is memoryless: (s, lambda) is all that decides how an execution goes on.",
        limits: &[Most("largest_difference", 0.0)],
        ..CLAIM
    },
    Claim {
        id: "o1",
        place: "Section I (O1), Remark 1",
        says: "No fixed weighting of the rewards gives a policy that meets the requirements of Example 1.",
        limits: &[Most("feasible_weightings", 0.0)],
        note: "It holds for exact maximisers. With an entropy bonus the policy at (1, 1) is the uniform one, which is optimal here.",
        ..CLAIM
    },
    Claim {
        id: "o2",
        place: "Section I (O2), Section III-B",
        says: "Dual methods do not converge to an optimal policy: stopped at any k the policy is infeasible.",
        limits: &[Most("feasible_iterates", 0.0), Most("distance_of_the_multipliers_from_1", 0.05)],
        note: "The multipliers do come near the optimal ones (1, 1).",
        ..CLAIM
    },
    Claim {
        id: "theorem-1-feasible",
        place: "Theorem 1, feasibility",
        says: "Trajectories meet the requirements almost surely.",
        limits: &[Most("worst_certified_shortfall", 0.005)],
        note: "As a share of the reward's range. At finite time the average may be slightly below its bound; the certificate \
               bounds by how much.",
        ..CLAIM
    },
    Claim {
        id: "theorem-1-optimal",
        place: "Theorem 1, near-optimality",
        says: "The average of r0 is at least P* - eta B^2/2.",
        limits: &[Least("smallest_margin", 0.0)],
        note: "With B^2 = sup |r - c|^2, as the proof uses it: on Example 1 P* - eta 5/18.",
        ..CLAIM
    },
    Claim {
        id: "constant-b",
        place: "Theorem 1 (A2), Lemmas 1 and 3",
        says: "|r_i - c_i| <= B for every i bounds the squared norm of the update's step by B^2.",
        limits: &[Most("excess_of_the_squared_norm", 0.0)],
        known: erratum(
            "A bound on each entry does not bound the vector's norm: on Example 1 B^2 = 4/9, but sup |r - c|^2 = 5/9. acrl \
             uses the latter throughout.",
            &[Least("excess_of_the_squared_norm", 1e-6)],
        ),
        ..CLAIM
    },
    Claim {
        id: "theorem-2",
        place: "Section III-A, Theorem 2",
        says: "Strong duality: P* = D*.",
        limits: &[Most("largest_relative_gap", 1e-6)],
        ..CLAIM
    },
    Claim {
        id: "proposition-1",
        place: "Section III-B, Proposition 1",
        says: "Optimal policies are among the Lagrangian maximisers at the optimal multipliers; on Example 1 these are all \
               policies.",
        limits: &[
            Most("optimal_actions_outside_the_maximisers", 0.0),
            Most("actions_missing_at_equal_weights", 0.0),
        ],
        ..CLAIM
    },
    Claim {
        id: "unique-maximiser",
        place: "Section III-B",
        says: "Where the maximiser is unique, the policies pi(lambda_k) approach the optimal one.",
        limits: &[Most("late_epochs_with_another_policy", 0.0)],
        note: "A requirement with a positive price makes policies tie, so the case tried is one with loose bounds.",
        ..CLAIM
    },
    Claim {
        id: "fig3-average",
        place: "Section III-C; Fig. 3(a)",
        figure: Some("fig3"),
        says: "The time average of r1 accumulates to exactly 1/3.",
        limits: &[Most("distance_after_1000_rollouts", 0.004), Most("distance_after_100000_rollouts", 1e-4)],
        note: "It approaches 1/3 like 1/n from below: the multipliers of about 1 are the deficit that is left.",
        ..CLAIM
    },
    Claim {
        id: "fig3-rollouts",
        place: "Section III-C; Fig. 3(a)",
        figure: Some("fig3"),
        says: "No single rollout and no policy visited meets the requirements.",
        limits: &[Most("feasible_policies", 0.0), Most("rollouts_at_a_third", 0.0)],
        ..CLAIM
    },
    Claim {
        id: "fig3-switch",
        place: "Section III-C; Fig. 3(b), (c)",
        figure: Some("fig3"),
        says: "The policy at R1 switches when lambda_1 crosses 1, at the same rollout, near the end (the paper's: k = 989).",
        limits: &[Most("epochs_that_disagree", 0.0), Least("crossings_in_the_last_20", 1.0)],
        note: "Which k it is depends on the start and on how ties are broken, which the paper does not give.",
        ..CLAIM
    },
    Claim {
        id: "typo-switch",
        place: "Section III-C, \"we must also have lambda_2 > lambda_1\"",
        says: "While the policy stays at R1, lambda_2 > lambda_1.",
        limits: &[Least("share_of_stays_with_lambda_2_larger", 1.0)],
        known: erratum(
            "A misprint of lambda_1 > lambda_2, as in the text after the weighted reward of Example 1.",
            &[Least("share_of_stays_with_lambda_1_larger", 1.0)],
        ),
        ..CLAIM
    },
    Claim {
        id: "multipliers-bounded",
        place: "Appendix A, Lemmas 2 and 3",
        says: "Multipliers with d(lambda) - P* <= eta B^2/2 have |lambda|_1 <= (P* - V0 + eta B^2/2)/C, and an execution \
               leaves that set by one step at most.",
        limits: &[Most("points_outside_the_ball", 0.0), Least("smallest_margin", 0.0)],
        note: "C = 1/6 is the Slater constant.",
        ..CLAIM
    },
    Claim {
        id: "typo-subgradient",
        place: "Appendix A, Lemma 3",
        says: "(lambda - lambda*)' g <= d(lambda) - d(lambda*) for a subgradient g at lambda.",
        limits: &[Most("points_that_contradict", 0.0)],
        known: erratum(
            "The inequality is printed the wrong way round. The correct one, >=, holds at every point, and the proof needs it.",
            &[Least("points_that_contradict", 1.0), Least("share_of_points_where_the_other_holds", 1.0)],
        ),
        ..CLAIM
    },
    Claim {
        id: "complementary-slackness",
        place: "Appendix A, Lemma 1",
        says: "The average of lambda'(r - c) is at most eta B^2/2.",
        limits: &[Least("smallest_margin", 0.0)],
        ..CLAIM
    },
    Claim {
        id: "epoch-length",
        place: "Appendix B",
        says: "T0 must be long enough for an epoch to be close to unbiased; then feasibility holds as before.",
        limits: &[
            Least("shortfall_with_short_epochs", 0.005),
            Most("shortfall_with_longer_epochs", 0.005),
            Most("shortfall_with_auto", 0.005),
        ],
        note: "With T0 shorter than a change of behaviour takes, the multipliers grow without bound although the problem is strictly \
               feasible; epoch = auto finds a T0 that works.",
        ..CLAIM
    },
    Claim {
        id: "theorem-3",
        place: "Appendix B, Theorem 3",
        says: "With biased epochs the average of r0 is at least P* - eta B^2/2 - beta(T0).",
        limits: &[Least("smallest_margin", 0.0), Most("bias_at_1000_over_bias_at_10", 0.02)],
        ..CLAIM
    },
    Claim {
        id: "memory",
        place: "Section III-C, Memory",
        says: "While the projection is idle, lambda_i is (eta/T0) times the deficit so far.",
        limits: &[Most("largest_difference", 1e-9)],
        note: "In our run the projection acts once, in the first rollout, so the deficit is counted from then on.",
        ..CLAIM
    },
    Claim {
        id: "storage",
        place: "Section III-C, Primal Averaging",
        says: "Primal averaging has to store the whole sequence of parameters, which is impractical; A-CRL stores one policy.",
        limits: &[Least("stored_numbers_relative_to_a_crl", 100.0)],
        note: "A policy that sees lambda is larger than one that does not, so a few hundred stored policies cost no more.",
        ..CLAIM
    },
    Claim {
        id: "primal-averaging",
        place: "Section III-C, Primal Averaging, as printed",
        says: "The average of the policies pi(lambda_k), as printed, has the averages of A-CRL.",
        limits: &[Most("shortfall_by_state", 0.005)],
        known: erratum(
            "Averaged state by state, as printed, policies count in states that they never visit, and the result is infeasible. \
             Weighted by occupancy, the statement is correct.",
            &[Most("shortfall_by_occupancy", 0.005)],
        ),
        ..CLAIM
    },
    Claim {
        id: "primal-averaging-occupancy",
        place: "Section III-C, Primal Averaging",
        says: "Read as an average of occupancies, the averaged policy meets the requirements as A-CRL does.",
        limits: &[Most("shortfall_by_occupancy", 0.005), Most("distance_of_r0_from_a_third", 0.005)],
        ..CLAIM
    },
    Claim {
        id: "fig4-average",
        place: "Section III-D; Fig. 4(a)",
        figure: Some("fig4"),
        says: "Executed online, primal-dual meets the requirements on average.",
        limits: &[Most("shortfall_online", 0.01)],
        ..CLAIM
    },
    Claim {
        id: "fig4-oscillates",
        place: "Section III-D; Fig. 4(b), (c)",
        figure: Some("fig4"),
        says: "Multipliers rise and fall and trigger switches of the policy.",
        limits: &[Least("largest_multiplier", 1.5), Most("smallest_multiplier", 0.5), Least("switches", 4.0)],
        ..CLAIM
    },
    Claim {
        id: "fig4-lag",
        place: "Section III-D; Fig. 4(c)",
        figure: Some("fig4"),
        says: "The policy switches long after the multiplier: about 8,000 rollouts.",
        limits: &[Least("longest_lag_in_rollouts", 4_000.0)],
        known: deviation(
            "Its policies do lag behind the multipliers, for two thousand rollouts and more, but for about a third of the paper's \
             number. The paper does not say how it estimates the gradient, nor between which rollouts it counts. A-CRL has no lag at \
             all.",
            &[Least("longest_lag_in_rollouts", 1_000.0)],
        ),
        note: "A-CRL has no lag at all.",
    },
    Claim {
        id: "fig4-overshoot",
        place: "Section III-D; Fig. 4(b)",
        figure: Some("fig4"),
        says: "Its multipliers grow larger than those of A-CRL, so the transient violation is larger.",
        limits: &[
            Least("largest_multiplier_relative_to_a_crl", 1.3),
            Least("largest_deficit_relative_to_a_crl", 10.0),
        ],
        note: "The deficit is lambda T0/eta: see Memory.",
        ..CLAIM
    },
    Claim {
        id: "fig4-stopped",
        place: "Section III-D; Fig. 4",
        figure: Some("fig4"),
        says: "Primal-dual cannot be stopped: its policies are not close to optimal.",
        limits: &[Least("share_of_infeasible_policies", 0.9)],
        ..CLAIM
    },
    Claim {
        id: "typo-fig4",
        place: "Fig. 4, caption",
        says: "\"dual step eta_theta = 0.0025 and primal step eta_theta = 0.025\".",
        limits: &[Most("difference_of_the_largest_multiplier", 0.0)],
        known: erratum(
            "A misprint: both steps have the same name; the dual step is eta_lambda = 0.0025. With either reading the multipliers \
             oscillate as in Fig. 4.",
            &[Least("largest_multiplier_with_either_reading", 1.5)],
        ),
        note: "The largest multiplier with the steps exchanged, less that of Fig. 4.",
        ..CLAIM
    },
    Claim {
        id: "fig5-one",
        place: "Section IV; Fig. 5(a)",
        figure: Some("fig5"),
        says: "For lambda = [5, 0, 0, 0] the policy moves to the red region.",
        limits: &[Least("share_of_time_in_red", 0.5)],
        known: deviation(
            "It goes to the red region from everywhere, but may come to rest just outside its edge: lambda = [5, 0, 0, 0] is a \
             corner of the box of multipliers, which training hardly samples. Inside the box, as at [4, 1, 1, 1], it \
             stays in red.",
            &[Least("share_of_arrows_towards_red", 0.9), Least("share_of_time_in_red_at_4_1_1_1", 0.5)],
        ),
        note: "Measured from 400 starts all over the box, with lambda held and actions drawn.",
    },
    Claim {
        id: "fig5-two",
        place: "Section IV; Fig. 5(b)",
        figure: Some("fig5"),
        says: "For lambda = [0, 5, 5, 0] it moves into either of blue and green.",
        limits: &[Least("share_of_time_in_blue_or_green", 0.5)],
        ..CLAIM
    },
    Claim {
        id: "fig5-demand",
        place: "Section IV; Fig. 5(c)",
        figure: Some("fig5"),
        says: "The agent spends more time in areas with higher demands.",
        limits: &[Most("pairs_in_the_wrong_order", 0.0)],
        known: deviation(
            "A requirement is a lower bound and there is no objective, so nothing keeps the agent from staying in a region \
             longer than required.",
            &[],
        ),
        ..CLAIM
    },
    Claim {
        id: "fig5-outside",
        place: "Section IV; Fig. 5(c)",
        figure: Some("fig5"),
        says: "It barely spends any time outside the regions.",
        limits: &[Most("share_of_time_outside", 0.1)],
        known: deviation(
            "Actions are drawn with sigma = 2 and the agent travels between regions that are 3 apart; the paper gives neither \
             sigma nor the regions. The requirements leave half of the time free.",
            &[Most("share_of_time_outside", 0.3)],
        ),
        ..CLAIM
    },
    Claim {
        id: "fig6-all-runs",
        place: "Section IV; Fig. 6(c)",
        figure: Some("fig6"),
        says: "All of 100 runs of 200,000 steps meet all requirements.",
        limits: &[Least("share_of_runs_that_meet_all", 1.0)],
        note: "By the plain averages, without a tolerance.",
        ..CLAIM
    },
    Claim {
        id: "fig6-mean",
        place: "Section IV; Fig. 6(c)",
        figure: Some("fig6"),
        says: "The mean over the runs is well over each specification.",
        limits: &[Least("smallest_ratio_to_the_bound", 1.0)],
        note: "\"Well over\" is not a number: the threshold is that it is over.",
        ..CLAIM
    },
    Claim {
        id: "fig6-switching",
        place: "Section IV; Fig. 6(b)",
        figure: Some("fig6"),
        says: "The instantaneous multipliers show the switching in the last 10,000 steps.",
        limits: &[Least("changes_of_the_largest_multiplier", 4.0)],
        ..CLAIM
    },
    Claim {
        id: "fig6-order",
        place: "Section IV; Fig. 6(a)",
        figure: Some("fig6"),
        says: "Requirements that are more difficult to satisfy have larger multipliers.",
        limits: &[Most("pairs_in_the_wrong_order", 0.0)],
        known: deviation(
            "Without an objective only the order of the multipliers counts. A larger bound makes a multiplier rise faster, not \
             higher: the agent visits a region when its multiplier is the largest, and in Fig. 6(b) all of them rise to about the \
             same height.",
            &[],
        ),
        note: "Pairs of regions whose time-average multipliers are not in the order of their bounds.",
    },
    Claim {
        id: "eta-theta",
        place: "Section IV, eta_theta = 0.001",
        says: "Policy gradient with step size 0.001 and rollouts of 20 steps learns the policy.",
        limits: &[Least("share_of_runs_that_meet_all", 1.0)],
        known: deviation(
            "Taken as a step on the total return of a rollout, with kernels that are not normalised, 0.001 is too large. The \
             paper's Lagrangian is an average over time: on the average return, 0.001 (5e-5 on the total) works, and Figs. 5 and 6 \
             use it.",
            &[],
        ),
        ..CLAIM
    },
    Claim {
        id: "fig7-fails",
        place: "Section IV; Fig. 7",
        figure: Some("fig7"),
        says: "After as many iterations the primal-dual method does not generate trajectories that meet the requirements.",
        limits: &[
            Least("shortfall_while_it_trained", 0.005),
            Most("share_of_runs_of_the_last_policy_that_meet_all", 0.0),
        ],
        known: deviation(
            "With these regions the outcome depends on exploration and chance; no theorem says that the method must fail.",
            &[],
        ),
        ..CLAIM
    },
];
