//! The one table of claims: what the paper says, where, and the threshold by which a run of ours decides.
//!
//! Thresholds are part of the program, so they are fixed before anything is run. A claim passes if all its limits hold. If one
//! does not, it *deviates* where the reason is known (the text is off, or we differ knowingly), and else it *fails*.

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
    /// Why a miss is no failure of ours, if that is known.
    pub(crate) known: Option<&'static str>,
    /// What else there is to say.
    pub(crate) note: &'static str,
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

    /// Written so that a number that is none, or missing, is a miss.
    fn holds(&self, measured: &Named<f64>) -> bool {
        let value = measured.get(self.name()).copied().unwrap_or(f64::NAN);
        match self {
            Least(_, bound) => value >= *bound,
            Most(_, bound) => value <= *bound,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().replace('_', " ");
        let written = |bound: f64| number(bound, if bound.abs() < 1e-5 { 1 } else { 4 });
        match self {
            Least(_, bound) => write!(f, "{name} at least {}", written(*bound)),
            Most(_, bound) => write!(f, "{name} at most {}", written(*bound)),
        }
    }
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// Within the threshold.
    Pass,
    /// Not so, for a reason that is known.
    Deviates,
    /// Not so.
    Fail,
}

impl ClaimVerdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Deviates => "deviates",
            Self::Fail => "fail",
        }
    }

    /// As it is shown in a table.
    pub fn cell(self) -> Cell {
        let tone = match self {
            Self::Pass => Tone::Good,
            Self::Deviates => Tone::Faint,
            Self::Fail => Tone::Bad,
        };
        Cell::new(self.name(), tone)
    }
}

impl Claim {
    /// The claim of that id.
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        CLAIMS.iter().find(|claim| claim.id == id)
    }

    /// The threshold in words.
    pub(crate) fn threshold(&self) -> String {
        self.limits.iter().map(Limit::to_string).collect::<Vec<_>>().join("; ")
    }

    /// By the numbers measured.
    pub(crate) fn verdict(&self, measured: &Named<f64>) -> ClaimVerdict {
        if self.limits.iter().all(|limit| limit.holds(measured)) {
            ClaimVerdict::Pass
        } else if self.known.is_some() {
            ClaimVerdict::Deviates
        } else {
            ClaimVerdict::Fail
        }
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
        limits: &[Most("distance_from_a_third", 1e-9), Most("distance_of_the_optimum", 1e-6)],
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
        note: "It is about maximisers as they are: with an entropy bonus the policy at (1, 1) is the uniform one, which is \
               optimal here.",
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
        note: "Of the reward's range; at finite time the average may sit a little below its bound, and the certificate says \
               by how much at most.",
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
        known: Some(
            "A bound on each entry does not bound the vector's norm: on Example 1 B^2 = 4/9, but sup |r - c|^2 = 5/9. acrl \
             uses the latter throughout.",
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
        limits: &[Most("actions_outside", 0.0), Most("actions_missing_at_equal_weights", 0.0)],
        ..CLAIM
    },
    Claim {
        id: "unique-maximiser",
        place: "Section III-B",
        says: "Where the maximiser is unique, the policies pi(lambda_k) approach the optimal one.",
        limits: &[Most("late_epochs_elsewhere", 0.0)],
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
        known: Some(
            "A typo: it is lambda_1 > lambda_2, as the text after the weighted reward of Example 1 has it.",
        ),
        ..CLAIM
    },
    Claim {
        id: "multipliers-bounded",
        place: "Appendix A, Lemmas 2 and 3",
        says: "Multipliers with d(lambda) - P* <= eta B^2/2 have |lambda|_1 <= (P* - V0 + eta B^2/2)/C, and an execution \
               leaves that set by one step at most.",
        limits: &[Most("outside_the_ball", 0.0), Least("smallest_margin", 0.0)],
        note: "C = 1/6 is the Slater constant.",
        ..CLAIM
    },
    Claim {
        id: "typo-subgradient",
        place: "Appendix A, Lemma 3",
        says: "(lambda - lambda*)' g <= d(lambda) - d(lambda*) for a subgradient g at lambda.",
        limits: &[Most("points_that_contradict", 0.0)],
        known: Some(
            "The inequality is printed the wrong way round. The right one, >=, holds at every point, and the proof needs it.",
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
        limits: &[Least("times_as_many_numbers", 100.0)],
        note: "A policy that sees lambda is larger than one that does not, so a few hundred stored policies cost no more.",
        ..CLAIM
    },
    Claim {
        id: "primal-averaging",
        place: "Section III-C, Primal Averaging, as printed",
        says: "The average of the policies pi(lambda_k), as printed, has the averages of A-CRL.",
        limits: &[Most("shortfall_by_state", 0.005)],
        known: Some(
            "Averaged state by state, as printed, every policy has a say in states that it never visits, and the result is \
             infeasible. Weighted by occupancy, it is correct.",
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
        limits: &[Least("longest_lag_in_rollouts", 1_000.0)],
        note: "A-CRL has no lag at all. Ours is shorter than the paper's, which does not say how it estimates the gradient.",
        ..CLAIM
    },
    Claim {
        id: "fig4-overshoot",
        place: "Section III-D; Fig. 4(b)",
        figure: Some("fig4"),
        says: "Its multipliers grow larger than those of A-CRL, so the transient violation is larger.",
        limits: &[Least("times_those_of_a_crl", 1.3), Least("times_the_deficit_of_a_crl", 10.0)],
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
        known: Some(
            "A typo: both steps have one name, and the dual step is eta_lambda = 0.0025. Exchanging the two changes little here.",
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
        known: Some(
            "It goes to the red region from everywhere, but the place where it comes to rest may be just beside the region's edge: \
             lambda = [5, 0, 0, 0] is a corner of the box of multipliers, where training hardly samples. Inside the \
             box, as at [4, 1, 1, 1], it stays in red.",
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
        known: Some(
            "A requirement is a lower bound and there is no objective, so nothing keeps the agent from being longer than it \
             must in a region that its policy likes.",
        ),
        ..CLAIM
    },
    Claim {
        id: "fig5-outside",
        place: "Section IV; Fig. 5(c)",
        figure: Some("fig5"),
        says: "It barely spends any time outside the regions.",
        limits: &[Most("share_of_time_outside", 0.1)],
        known: Some(
            "Actions are drawn with sigma = 2 and the agent travels between regions that are 3 apart; the paper gives neither \
             sigma nor the regions. The requirements leave half of the time free.",
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
        known: Some(
            "Without an objective only the order of the multipliers counts. A larger bound makes a multiplier rise faster, not \
             higher: the agent comes when it is the largest, and in Fig. 6(b) all of them rise to about the same height.",
        ),
        note: "Pairs of regions whose time-average multipliers are not in the order of their bounds.",
    },
    Claim {
        id: "eta-theta",
        place: "Section IV, eta_theta = 0.001",
        says: "Policy gradient with step size 0.001 and rollouts of 20 steps learns the policy.",
        limits: &[Least("share_of_runs_that_meet_all", 1.0)],
        known: Some(
            "Taken as a step on the total return of a rollout, with kernels that are not normalised, 0.001 is too large. The \
             paper's Lagrangian is an average over time: read so, on the average return, 0.001 (5e-5 on the total) works, and \
             is what Figs. 5 and 6 use.",
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
        known: Some(
            "With these regions it is a matter of exploration and chance; no theorem says that it must fail, and it is not \
             tuned to.",
        ),
        ..CLAIM
    },
];
