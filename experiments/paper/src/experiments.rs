//! The experiments, and which figures and claims come out of each.

use crate::{ExperimentResult, RunConfig, continuous, duality, example_1, fig_4, fig_7, guarantees};
use acrl_app::Error;

/// Something to run, and what comes out of it.
pub(crate) struct Experiment {
    pub(crate) what: &'static str,
    pub(crate) figures: &'static [&'static str],
    pub(crate) claims: &'static [&'static str],
    /// How long it takes, about: in seconds of one core.
    pub(crate) units: u64,
    pub(crate) run: fn(&RunConfig<'_>) -> Result<ExperimentResult, Error>,
}

/// An experiment without figures that takes about a second.
const EXPERIMENT: Experiment = Experiment {
    what: "",
    figures: &[],
    claims: &[],
    units: 1,
    run: |_| Ok(ExperimentResult::of(Vec::new())),
};

/// All experiments.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        what: "Section IV: training and executing A-CRL",
        figures: &["fig5", "fig6"],
        claims: &[
            "fig5-one",
            "fig5-two",
            "fig5-demand",
            "fig5-outside",
            "fig6-all-runs",
            "fig6-mean",
            "fig6-switching",
            "fig6-order",
        ],
        units: 100,
        run: continuous::a_crl,
    },
    Experiment {
        what: "the problem of Example 1",
        figures: &["fig1"],
        claims: &["optimal-policy"],
        run: example_1::problem,
        ..EXPERIMENT
    },
    Experiment {
        what: "the augmented state",
        figures: &["fig2"],
        claims: &["augmented-state"],
        run: example_1::augmented_state,
        ..EXPERIMENT
    },
    Experiment {
        what: "A-CRL on Example 1",
        figures: &["fig3"],
        claims: &["fig3-average", "fig3-rollouts", "fig3-switch", "typo-switch"],
        run: example_1::a_crl,
        ..EXPERIMENT
    },
    Experiment {
        what: "primal-dual on Example 1",
        figures: &["fig4"],
        claims: &[
            "fig4-average",
            "fig4-oscillates",
            "fig4-lag",
            "fig4-overshoot",
            "fig4-stopped",
            "typo-fig4",
        ],
        units: 4,
        run: fig_4::primal_dual_on_example_1,
    },
    Experiment { what: "fixed weights", claims: &["o1"], run: duality::o1, ..EXPERIMENT },
    Experiment { what: "dual descent", claims: &["o2"], run: duality::o2, ..EXPERIMENT },
    Experiment {
        what: "Theorem 1",
        claims: &["theorem-1-feasible", "theorem-1-optimal", "constant-b"],
        units: 2,
        run: guarantees::theorem_1,
        ..EXPERIMENT
    },
    Experiment {
        what: "Section IV: other readings of the step size",
        claims: &["eta-theta"],
        units: 100,
        run: fig_7::eta_theta,
        ..EXPERIMENT
    },
    Experiment {
        what: "Section IV: primal-dual",
        figures: &["fig7"],
        claims: &["fig7-fails"],
        units: 40,
        run: fig_7::primal_dual,
    },
    Experiment { what: "Theorem 2", claims: &["theorem-2"], run: duality::theorem_2, ..EXPERIMENT },
    Experiment {
        what: "Proposition 1",
        claims: &["proposition-1"],
        run: duality::proposition_1,
        ..EXPERIMENT
    },
    Experiment {
        what: "a unique maximiser",
        claims: &["unique-maximiser"],
        run: duality::unique_maximiser,
        ..EXPERIMENT
    },
    Experiment {
        what: "the lemmas",
        claims: &["multipliers-bounded", "typo-subgradient", "complementary-slackness"],
        run: guarantees::lemmas,
        ..EXPERIMENT
    },
    Experiment {
        what: "the length of epochs",
        claims: &["epoch-length", "theorem-3"],
        run: guarantees::epochs,
        ..EXPERIMENT
    },
    Experiment { what: "memory", claims: &["memory"], run: guarantees::memory, ..EXPERIMENT },
    Experiment { what: "storage", claims: &["storage"], run: fig_7::storage, ..EXPERIMENT },
    Experiment {
        what: "primal averaging",
        claims: &["primal-averaging", "primal-averaging-occupancy"],
        run: duality::primal_averaging,
        ..EXPERIMENT
    },
];
