//! The claims of the paper about finite problems, run as `acrl reproduce` runs them.
#![allow(missing_docs, clippy::unwrap_used)]

use acrl_app::{Control, Stop};
use acrl_paper::ClaimVerdict::{Deviates, Erratum, Pass};
use acrl_paper::{ClaimEntry, ClaimVerdict, ReproduceOptions, reproduce};

/// Each claim with the verdict that it must have.
const FINITE: [(&str, ClaimVerdict); 21] = [
    ("optimal-policy", Pass),
    ("augmented-state", Pass),
    ("o1", Pass),
    ("o2", Pass),
    ("theorem-1-feasible", Pass),
    ("theorem-1-optimal", Pass),
    ("constant-b", Erratum),
    ("theorem-2", Pass),
    ("proposition-1", Pass),
    ("unique-maximiser", Pass),
    ("fig3-average", Pass),
    ("fig3-rollouts", Pass),
    ("fig3-switch", Pass),
    ("typo-switch", Erratum),
    ("multipliers-bounded", Pass),
    ("typo-subgradient", Erratum),
    ("complementary-slackness", Pass),
    ("epoch-length", Pass),
    ("theorem-3", Pass),
    ("memory", Pass),
    ("primal-averaging-occupancy", Pass),
];
/// Primal-dual on Example 1: it oscillates, switches late, overshoots, and is right on average.
const FIG_4: [(&str, ClaimVerdict); 6] = [
    ("fig4-average", Pass),
    ("fig4-oscillates", Pass),
    ("fig4-lag", Deviates),
    ("fig4-overshoot", Pass),
    ("fig4-stopped", Pass),
    ("typo-fig4", Erratum),
];

/// Measures claims, which must have these verdicts.
fn measure(claims: &[(&str, ClaimVerdict)], seed: u64) -> Vec<ClaimEntry> {
    let folder = tempfile::tempdir().unwrap();
    let only = claims.iter().map(|(id, _)| (*id).to_owned()).collect();
    let options = ReproduceOptions { quick: true, only, out_dir: folder.path().join("report"), seed };
    let found = reproduce(&options, &Control::silent(Stop::default())).unwrap().claims;
    for (id, verdict) in claims {
        let claim = found.iter().find(|claim| claim.id == *id).unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(claim.verdict, *verdict, "seed {seed}: {claim:?}");
        assert!(!claim.sample.is_empty() && claim.full_sample.is_none(), "{claim:?}");
    }
    found
}

#[test]
fn claims_about_finite_problems_have_their_verdicts() {
    measure(&FINITE, 1);
}

#[test]
fn primal_dual_has_the_shape_of_figure_4_for_several_seeds() {
    for seed in [0, 1] {
        measure(&FIG_4, seed);
    }
}

/// As printed, state by state, primal averaging is wrong on Example 1.
#[test]
fn primal_averaging_by_state_is_infeasible() {
    let claim = &measure(&[("primal-averaging", Erratum)], 0)[0];
    let shortfall = *claim.metrics.get("shortfall_by_state").unwrap();
    assert!((shortfall - (1.0 / 3.0 - 0.279)).abs() < 0.002, "{claim:?}");
}
