//! The finite environments: their optimum, by duality, and the edges of their ranges.

#![allow(clippy::unwrap_used)]

use acrl::{FiniteCmdp, Specification};
use acrl_envs::monitoring::known_optimum;
use acrl_envs::{Continuous, Inventory, Maintenance, Patrol, Problem, Queue, Source, bundled};

fn model(problem: &Problem) -> FiniteCmdp {
    match &problem.source {
        Source::Model(model) => model.clone(),
        Source::Continuous(Continuous::Planar(planar)) => planar.discretised(20).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// d(λ) = max over policies of V₀ + Σ λ_i (V_i − c_i), by relative value iteration. By duality it is
/// at least P*, and equal to it at λ*. For models in which every state reaches every other soon; the
/// tests of acrl-exact have the optimum of `power`, which mixes too slowly.
fn dual_value(model: &FiniteCmdp, specification: &Specification, lambda: &[f64]) -> f64 {
    let scoring = specification.bind(model.reward_names()).unwrap();
    let weights: Vec<f64> = std::iter::once(1.0).chain(lambda.iter().copied()).collect();
    let reward = |c: usize| -> f64 {
        let r = model.choice(c).rewards;
        let terms = scoring.terms().zip(&weights);
        terms.map(|(term, w)| term.map_or(0.0, |(i, sign)| w * sign * r[i])).sum()
    };
    let mut h = vec![0.0; model.states()];
    for _ in 0..1_000_000 {
        let best = |s: usize| {
            let values = model.choices(s).map(|c| reward(c) + model.expectation(c, &h));
            values.fold(f64::NEG_INFINITY, f64::max)
        };
        let gains: Vec<f64> = (0..model.states()).map(|s| best(s) - h[s]).collect();
        let low = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let high = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if high - low < 1e-11 {
            let bounds = specification.bounds();
            return (low + high) / 2.0 - lambda.iter().zip(&bounds).map(|(l, c)| l * c).sum::<f64>();
        }
        // Half a step, so that periodic policies converge too.
        h.iter_mut().zip(&gains).for_each(|(h, g)| *h += 0.5 * (g - low));
    }
    panic!("value iteration did not converge");
}

#[test]
fn multipliers_prove_the_optimum() {
    let home = "[environment]\nkind = 'planar'\nspeed_limit = 2\n\
                home = { shape = 'disc', centre = [5, 5], radius = 0.8 }";
    let patrol = [0.02743445213105003, 0.02721591924762034, 0.027215919247620624, 0.02555399964945431];
    let cases: [(&str, f64, &[f64]); 7] = [
        ("monitoring", known_optimum(1.0 / 3.0, 1.0 / 3.0).unwrap(), &[1.0, 1.0]),
        ("patrol", -Patrol::DEFAULT_OPTIMUM, &patrol),
        ("queue", -Queue::DEFAULT_OPTIMUM, &[0.03534042375010471, 3.9437884413179525]),
        ("maintenance", Maintenance::DEFAULT_OPTIMUM, &[0.1633006058073954, 0.7677961144767096]),
        ("inventory", -Inventory::DEFAULT_OPTIMUM, &[27.3354497024891, 0.7374308347025289]),
        ("inline", 0.5375, &[0.75, 2.5]),
        // At λ* = (1, 1, 1, 1) the Lagrangian is 1 in each region and in the home: d = 1 − Σ c.
        (home, 0.5, &[1.0; 4]),
    ];
    for (name, optimum, lambda) in cases {
        let text = bundled().iter().find(|file| file.name == name).map_or(name, |file| file.text);
        let problem = Problem::parse(text).unwrap();
        let dual = dual_value(&model(&problem), &problem.specification, lambda);
        assert!((dual - optimum).abs() < 1e-8, "{name}: {dual}");
    }
}

#[test]
fn edges_of_the_ranges_build() {
    let level = |success: f64| format!("levels = [{{ name = 'a', success = {success}, power = 1 }}]");
    for environment in [
        "kind = 'patrol'\nsize = 2\nslip = 0",
        "kind = 'patrol'\nsize = 3\nslip = 1",
        "kind = 'patrol'\nsize = 4\nslip = 0.5",
        "kind = 'monitoring'\nregions = 1",
        "kind = 'monitoring'\nregions = 5",
        "kind = 'maintenance'\nlevels = 2\npoor_levels = 1\nwear = 0.9\nshock = 0.1\nrepair_gain = 10000",
        "kind = 'power'\ncapacity = 1\narrival = 0\nservice = 0\nwake = 0\nsuspend = 0",
        "kind = 'power'\ncapacity = 3\narrival = 1\nservice = 1\nwake = 1\nsuspend = 1\nactive_power = 0",
        "kind = 'inventory'\ncapacity = 1\ndemand = 1e-300\norder_cost = 0\nunit_cost = 0",
        "kind = 'inventory'\ncapacity = 200\ndemand = 100",
        &format!("kind = 'queue'\ncapacity = 1\narrival = 0\n{}", level(0.0)),
        &format!("kind = 'queue'\ncapacity = 1\narrival = 1\n{}", level(1.0)),
        &format!("kind = 'queue'\ncapacity = 1\narrival = 1\n{}", level(0.1)),
        &format!("kind = 'queue'\ncapacity = 1\narrival = 0.3\n{}", level(1.0)),
    ] {
        let problem = Problem::parse(&format!("[environment]\n{environment}"));
        let problem = problem.unwrap_or_else(|error| panic!("{environment}: {error}"));
        assert!(model(&problem).states() > 0);
    }
}
