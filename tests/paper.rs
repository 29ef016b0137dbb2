//! The claims of the paper about finite problems, one test each. Continuous claims come with the learners.
//!
//! "Example 1" is the three-state monitoring problem with c = 1/3, "as in Fig. 3" means T₀ = 10, η = 0.5.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ops::ControlFlow;

use acrl::guarantees::{multiplier_bound, optimality_loss, squared_bound};
use acrl::{
    Agent, DiagnosisInput, DiagnosisVerdict, EpochLength, Event, ExactEvidence, Execution, FiniteCmdp,
    Multipliers, Requirement, Rng, RunReport, Simulator, Specification, execute,
};
use acrl_envs::{Problem, Source, bundled};
use acrl_exact::{
    ExactPolicy, FiniteTask, Optimum, Solution, SolveOptions, dual_function, maximise, most_slack,
    optimal_actions, solve,
};
use acrl_learn::baselines::finite::dual_descent::dual_descent;
use acrl_learn::baselines::finite::fixed_weights::{soft_policy, square_grid, sweep};
use acrl_learn::baselines::finite::primal_averaging::{
    occupancy_weighted, state_wise, trajectory_weighted, visits,
};
use acrl_learn::baselines::finite::primal_dual::{PrimalDualConfig, primal_dual};

const THIRD: f64 = 1.0 / 3.0;

fn bundled_problem(name: &str) -> (FiniteCmdp, Specification) {
    let problem = Problem::parse(bundled().iter().find(|b| b.name == name).unwrap().text).unwrap();
    let Source::Model(model) = problem.source else { unreachable!("bundled problems carry their model") };
    (model, problem.specification)
}

/// Example 1 with c₁ = c₂ = c.
fn monitoring(c: f64) -> (FiniteCmdp, Specification) {
    let (model, specification) = bundled_problem("monitoring");
    let require = |s: &Specification, name| s.require(Requirement::at_least(name, c).unwrap()).unwrap();
    let specification = require(&require(&specification, "r1"), "r2");
    (model, specification)
}

fn optimum(task: &FiniteTask<'_>) -> Optimum {
    match solve(task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap() {
        Solution::Optimal(optimum) => optimum,
        Solution::Infeasible(conflict) => panic!("infeasible: {:?}", conflict.names),
    }
}

/// What was seen of one epoch.
struct Seen {
    /// λ_k, in force during the epoch.
    before: Multipliers,
    /// λ_{k+1}.
    after: Multipliers,
}

/// Algorithm 2 with the exact maximiser; rewards in units of their ranges.
fn run(task: &FiniteTask<'_>, eta: f64, epoch: EpochLength, steps: u64) -> (Execution<usize>, Vec<Seen>) {
    let requirements = task.specification().requirements().to_vec();
    let agent = Agent::builder(requirements).step_size(eta).epoch(epoch);
    let mut agent = agent.scales(task.objective_scale(), task.scales()).build().unwrap();
    let mut environment = Simulator::new(task.model(), task.specification().clone()).unwrap();
    let mut before = agent.multipliers().clone();
    let mut seen = Vec::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            let after = epoch.multipliers.clone();
            seen.push(Seen { before: std::mem::replace(&mut before, after.clone()), after });
        }
        ControlFlow::Continue(())
    };
    let mut policy = ExactPolicy::new(task);
    let mut rng = Rng::new(1);
    let execution =
        execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, &mut observer).unwrap();
    (execution, seen)
}

/// B² = sup ‖(r − c)/R‖².
fn b2(task: &FiniteTask<'_>) -> f64 {
    let scaled = |v: Vec<f64>| v.iter().zip(task.scales()).map(|(r, s)| r / s).collect::<Vec<_>>();
    let bounds: Vec<f64> = task.bounds().iter().zip(task.scales()).map(|(c, s)| c / s).collect();
    squared_bound(task.reward_vectors().into_iter().map(scaled), &bounds)
}

fn report(task: &FiniteTask<'_>, executions: &[Execution<usize>], exact: Option<ExactEvidence>) -> RunReport {
    let tolerances = task.scales().iter().map(|r| 0.005 * r).collect();
    let symptoms =
        DiagnosisInput { scales: task.scales().to_vec(), tolerances, exact, ..DiagnosisInput::default() };
    RunReport::new(task.specification(), executions, symptoms).unwrap()
}

#[test]
fn example_1_has_optimum_one_third_and_multipliers_one_one() {
    let (model, specification) = monitoring(THIRD);
    let optimum = optimum(&FiniteTask::new(&model, &specification).unwrap());
    assert!((optimum.objective - THIRD).abs() < 1e-9 && optimum.gap <= 1e-6);
    assert!(optimum.multipliers.as_slice().iter().all(|l| (l - 1.0).abs() < 1e-9));
    assert!(optimum.multipliers_are_unique());
}

#[test]
fn theorem_2_strong_duality() {
    for name in ["monitoring", "queue", "maintenance", "inline", "patrol"] {
        let (model, specification) = bundled_problem(name);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let best = optimum(&task);
        let d = |lambda: &Multipliers| dual_function(&task, lambda).unwrap();
        let gap = (d(&best.multipliers) - best.objective).abs();
        assert!(gap <= 1e-6 * best.objective.abs().max(1e-3 * task.objective_scale()), "{name}: {gap}");
        // Weak duality everywhere: the dual function is an upper bound, and convex.
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let mut draw = || -> Multipliers {
                let around = best.multipliers.as_slice().iter().map(|l| 3.0 * (l + 0.1) * rng.uniform());
                Multipliers::new(around.collect()).unwrap()
            };
            let (a, b) = (draw(), draw());
            let middle: Vec<f64> =
                a.as_slice().iter().zip(b.as_slice()).map(|(a, b)| (a + b) / 2.0).collect();
            let middle = Multipliers::new(middle).unwrap();
            assert!(d(&a) >= best.lower - 1e-9, "{name}");
            assert!(d(&middle) <= (d(&a) + d(&b)) / 2.0 + 1e-9, "{name}");
        }
    }
}

#[test]
fn proposition_1_optimal_policies_are_lagrangian_maximisers_at_the_optimal_multipliers() {
    for name in ["monitoring", "queue", "maintenance", "inline"] {
        let (model, specification) = bundled_problem(name);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let best = optimum(&task);
        let mut weights = vec![1.0];
        weights.extend_from_slice(best.multipliers.as_slice());
        let actions = optimal_actions(&task, &weights).unwrap();
        for component in best.mixture.iter().filter(|c| c.weight > 1e-6) {
            let occupancy = task.occupancy(&component.actions).unwrap();
            for s in 0..model.states() {
                let action = component.actions[s];
                let visited = occupancy[model.choices(s).start + action] > 1e-9;
                assert!(!visited || actions[s].contains(&action), "{name}: state {s}, action {action}");
            }
        }
    }
}

#[test]
fn at_one_one_every_policy_is_a_maximiser_and_the_uniform_one_is_optimal() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    for (s, actions) in optimal_actions(&task, &[1.0, 1.0, 1.0]).unwrap().iter().enumerate() {
        assert_eq!(actions.len(), model.choices(s).len());
    }
    let uniform = task.values_of_randomised(&[0.5; 6]).unwrap();
    assert!(uniform.as_slice().iter().all(|v| (v - THIRD).abs() < 1e-12));
}

/// Observation (O1). The claim is about maximisers as they are: with entropy regularisation the policy at
/// (1, 1) is the uniform one, which happens to be optimal here.
#[test]
fn o1_no_fixed_weighting_solves_example_1_without_entropy() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let weightings = sweep(&task, square_grid(2, 3.0, 61).unwrap(), 1e-9).unwrap();
    assert_eq!(weightings.len(), 3721);
    assert!(weightings.iter().all(|w| !w.feasible));
    let one = Multipliers::new(vec![1.0, 1.0]).unwrap();
    let soft = soft_policy(&task, &one, 0.1).unwrap().values(&task).unwrap();
    assert!(soft.as_slice().iter().all(|v| (v - THIRD).abs() < 1e-3), "{soft:?}");
}

/// Observation (O2).
#[test]
fn o2_dual_descent_stopped_at_any_k_is_infeasible_on_example_1() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    for eta in [0.05, 0.5] {
        let descent = dual_descent(&task, eta, 5_000).unwrap();
        for k in 0..5_000 {
            assert!(!descent.values(k).unwrap().meets(task.bounds(), 0.01), "k = {k}");
        }
    }
}

/// In a finite model a requirement with a positive price makes two policies tie, so Π(λ*) can be a singleton
/// only where every price is zero: the maintenance problem with loose bounds, started from high multipliers.
#[test]
fn where_the_maximiser_is_unique_the_policies_approach_the_optimal_one() {
    let (model, specification) = bundled_problem("maintenance");
    let loose = |s: &Specification, name| s.require(Requirement::at_most(name, 0.9).unwrap()).unwrap();
    let specification = loose(&loose(&specification, "poor"), "cost");
    let task = FiniteTask::new(&model, &specification).unwrap();
    let actions = optimal_actions(&task, &[1.0, 0.0, 0.0]).unwrap();
    assert!(actions.iter().all(|a| a.len() == 1), "the set of maximisers is a singleton");
    let star = maximise(&task, &[1.0, 0.0, 0.0]).unwrap().actions;
    let agent = Agent::builder(specification.requirements().to_vec()).step_size(0.5);
    let agent = agent.epoch(EpochLength::Fixed(10));
    let mut agent = agent.multipliers(Multipliers::new(vec![3.0, 3.0]).unwrap()).build().unwrap();
    let mut policy = ExactPolicy::new(&task);
    assert_ne!(policy.actions(agent.multipliers()).unwrap(), star, "it starts elsewhere");
    let mut environment = Simulator::new(&model, specification).unwrap();
    let mut lambdas = Vec::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            lambdas.push(epoch.multipliers.clone());
        }
        ControlFlow::Continue(())
    };
    execute(&mut environment, &mut policy.clone(), &mut agent, 20_000, &mut Rng::new(0), &mut observer)
        .unwrap();
    for lambda in &lambdas[1_000..] {
        assert_eq!(policy.actions(lambda).unwrap(), star);
    }
}

#[test]
fn fig_3_every_policy_visited_is_infeasible_and_the_averages_are_one_third() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let (execution, seen) = run(&task, 0.5, EpochLength::Fixed(10), 10_000);
    assert_eq!(seen.len(), 1_000);
    for v in execution.averages.as_slice() {
        assert!((v - THIRD).abs() < 0.004, "{v}");
    }
    let mut policy = ExactPolicy::new(&task);
    for epoch in &seen {
        let values = task.values(policy.actions(&epoch.before).unwrap()).unwrap();
        assert!(!values.meets(task.bounds(), 0.01));
    }
    for epoch in &seen[100..] {
        assert!(epoch.after.as_slice().iter().all(|l| (0.7..=1.15).contains(l)), "{:?}", epoch.after);
    }
    let (execution, _) = run(&task, 0.5, EpochLength::Fixed(10), 1_000_000);
    for v in execution.averages.as_slice() {
        assert!((v - THIRD).abs() < 1e-4, "{v}");
    }
}

/// "When λ₁ switches to above 1 the maximiser stays at R₁, below 1 it goes back", and R₁ needs λ₁ > λ₂.
#[test]
fn fig_3_the_policy_at_r1_switches_with_the_multiplier() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let (_, seen) = run(&task, 0.5, EpochLength::Fixed(10), 10_000);
    let mut policy = ExactPolicy::new(&task);
    let (mut stays, mut leaves) = (0, 0);
    for epoch in &seen[100..] {
        let l = epoch.before.as_slice();
        if (l[0] - l[1]).abs() < 1e-9 || (l[0] - 1.0).abs() < 1e-9 {
            continue; // a tie up to rounding
        }
        let stay = policy.actions(&epoch.before).unwrap()[1] == 1;
        assert_eq!(stay, l[0] > 1.0 && l[0] > l[1], "{l:?}");
        if stay { stays += 1 } else { leaves += 1 }
    }
    assert!(stays > 50 && leaves > 50, "{stays} {leaves}");
}

/// Theorem 1 with B² = sup ‖r − c‖², and β for epochs too short to be unbiased.
#[test]
fn theorem_1_feasible_and_near_optimal() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    assert!((b2(&task) - 5.0 / 9.0).abs() < 1e-12);
    for eta in [0.05, 0.2, 0.5, 1.0] {
        for epoch in [10, 50, 200] {
            // Long enough for λ/(α n) to fall below the tolerance.
            let steps = (400.0 * epoch as f64 / eta) as u64;
            let (execution, _) = run(&task, eta, EpochLength::Fixed(epoch), steps);
            let bound = THIRD - optimality_loss(eta, b2(&task), 0.0);
            assert!(execution.averages.objective() >= bound, "eta {eta}, epoch {epoch}");
            assert!(
                execution.certificate.requirements.iter().all(|r| r.shortfall < 0.005),
                "eta {eta}, epoch {epoch}"
            );
        }
    }
    for (name, eta, epoch, steps) in [("queue", 0.05, 50, 2_000_000), ("maintenance", 0.2, 50, 1_000_000)] {
        let (model, specification) = bundled_problem(name);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let (execution, _) = run(&task, eta, EpochLength::Fixed(epoch), steps);
        let loss = task.objective_scale() * optimality_loss(eta, b2(&task), 0.0);
        let bound = optimum(&task).lower - loss;
        assert!(
            execution.averages.objective() >= bound,
            "{name}: {} < {bound}",
            execution.averages.objective()
        );
        let shortfalls = execution.certificate.requirements.iter().zip(task.scales());
        assert!(shortfalls.into_iter().all(|(r, range)| r.shortfall < 0.005 * range), "{name}");
    }
}

/// The theorem with a realizable estimator: whatever T₀, the objective is within η B²/2 + β(T₀), where β is
/// the worst bias of an epoch; and β falls like 1/T₀.
#[test]
fn theorem_3_the_beta_term_covers_short_epochs() {
    use acrl_exact::assumptions::Assumptions;
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let best = optimum(&task);
    for epoch in [2, 5, 10, 20] {
        let (execution, seen) = run(&task, 0.5, EpochLength::Fixed(epoch), 100_000);
        let visited: Vec<Multipliers> = seen.into_iter().map(|s| s.before).collect();
        let found = Assumptions::examine(&task, &best, &visited, 0.5, &SolveOptions::default()).unwrap();
        let beta = found.bias.iter().find(|b| b.epoch == epoch).unwrap().beta;
        let bound = THIRD - optimality_loss(0.5, b2(&task), beta);
        assert!(execution.averages.objective() >= bound, "epoch {epoch}: {}", execution.averages.objective());
        let (short, long) = (found.bias[9], found.bias[999]);
        assert!((short.epsilon / long.epsilon - 100.0).abs() < 1.0 && short.beta > long.beta);
    }
}

#[test]
fn lemma_multipliers_stay_within_the_bound() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let slack = most_slack(&task, &SolveOptions::default()).unwrap().unwrap();
    assert!((slack.lower - 1.0 / 6.0).abs() < 1e-9, "the Slater constant of Example 1 is 1/6");
    assert!(slack.mixture.len() > 1, "no deterministic policy attains it");
    let bound = multiplier_bound(THIRD, slack.values.objective(), slack.lower, 0.5, b2(&task));
    // The set D holds every λ with d(λ) − P* ≤ η B²/2 …
    for lambda in square_grid(2, 4.0, 41).unwrap() {
        let inside = dual_function(&task, &lambda).unwrap() - THIRD <= optimality_loss(0.5, b2(&task), 0.0);
        assert!(!inside || lambda.sum() <= bound + 1e-9, "{lambda:?}");
    }
    // … and an execution leaves it by one step at most, in norm η B.
    let (_, seen) = run(&task, 0.5, EpochLength::Fixed(50), 500_000);
    let most = seen.iter().map(|s| s.after.sum()).fold(0.0, f64::max);
    assert!(most <= bound + 0.5 * (2.0 * b2(&task)).sqrt(), "{most} > {bound}");
}

#[test]
fn lemma_ergodic_complementary_slackness() {
    for c in [0.2, THIRD, 0.4] {
        let (model, specification) = monitoring(c);
        let task = FiniteTask::new(&model, &specification).unwrap();
        for eta in [0.1, 0.5] {
            let (_, seen) = run(&task, eta, EpochLength::Fixed(20), 200_000);
            // Where the projection is idle, λ_{k+1} = λ_k − η g_k gives the subgradient; where it is not, the step
            // is shorter than η g_k, and λᵀg with the shorter step is what the proof bounds.
            let product = |s: &Seen| {
                let pairs = s.before.as_slice().iter().zip(s.after.as_slice());
                pairs.map(|(before, after)| before * (before - after) / eta).sum::<f64>()
            };
            let mean = seen.iter().map(product).sum::<f64>() / seen.len() as f64;
            assert!(mean <= optimality_loss(eta, b2(&task), 0.0) + 1e-9, "c {c}, eta {eta}: {mean}");
        }
    }
}

/// "Memory": λ_{i,k} = (η/T₀) Σ (c − 1(s_t = R_i)) while the projection is never applied.
#[test]
fn a_multiplier_is_the_deficit_ledger_when_the_projection_is_idle() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let (execution, seen) = run(&task, 0.5, EpochLength::Fixed(10), 10_000);
    let idle = seen[1..].iter().all(|s| s.after.as_slice().iter().all(|l| *l > 0.0));
    // λ₁ is zero once at the start, where the first epoch cycles through R₁: from then on nothing is projected.
    let opening = &seen[0].after;
    assert!(idle);
    for i in 0..2 {
        let total = execution.averages.requirements()[i] * 10_000.0;
        let ledger = 0.05 * (10_000.0 * THIRD - total);
        let gift = opening.as_slice()[i] - 0.05 * (10.0 * THIRD - if i == 0 { 5.0 } else { 0.0 });
        let last = execution.last.multipliers.as_slice()[i];
        assert!((last - ledger - gift).abs() < 1e-9, "{last} {ledger} {gift}");
    }
}

/// Fig. 4: oscillation, late switches, larger multipliers than A-CRL's, and yet the averages are right.
#[test]
fn fig_4_primal_dual_oscillates_switches_late_overshoots_and_is_right_on_average() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    for seed in 0..3 {
        let settings = PrimalDualConfig::default();
        let found = primal_dual(&task, &settings, &mut Rng::new(seed), &mut acrl::Silent).unwrap();
        assert!(found.online.meets(task.bounds(), 0.01), "seed {seed}: {:?}", found.online);
        let most = found.multipliers.iter().map(|m| m.max).fold(0.0, f64::max);
        assert!((1.5..5.0).contains(&most), "overshoots A-CRL's 1.15: {most}");
        assert!(found.multipliers.iter().all(|m| m.min < 0.5), "and swings far below 1");
        // Some probability goes up and down again and again: which one, the run decides.
        let switches = |choice: usize| {
            let (mut count, mut high) = (0, found.record[0].probabilities[choice] > 0.5);
            for p in found.record.iter().map(|s| s.probabilities[choice]) {
                if high && p < 0.2 || !high && p > 0.8 {
                    (high, count) = (!high, count + 1);
                }
            }
            count
        };
        let most = (0..model.choice_count()).map(switches).max().unwrap();
        assert!(most >= 4, "seed {seed}: {most} switches");
        // Late: for thousands of rollouts on end the policy at R₀ is not the maximiser's (A-CRL: not for one).
        let mut maximiser = ExactPolicy::new(&task);
        let (mut longest, mut since) = (0, None);
        for snapshot in &found.record {
            let wanted = maximiser.actions(&snapshot.multipliers).unwrap()[0];
            if snapshot.probabilities[wanted] < 0.5 {
                longest = longest.max(snapshot.rollout - *since.get_or_insert(snapshot.rollout));
            } else {
                since = None;
            }
        }
        assert!(longest >= 1_000, "seed {seed}: {longest}");
        // And the policies on the way solve nothing.
        let infeasible = found.record.iter().filter(|s| {
            let values = task.values_of_randomised(&s.probabilities).unwrap();
            !values.meets(task.bounds(), 0.01)
        });
        assert!(infeasible.count() * 10 > found.record.len() * 9, "seed {seed}");
    }
}

/// "Primal averaging": as printed, state by state, it is wrong on Example 1; weighted by occupancy it is right.
#[test]
fn primal_averaging_fails_state_wise_and_works_by_occupancy() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let visits = visits(&task, 0.5, 10, 10_000, &mut Rng::new(0)).unwrap();
    let printed = state_wise(&model, &visits.rules).unwrap().values(&task).unwrap();
    for (v, expected) in printed.as_slice().iter().zip([0.442, 0.279, 0.279]) {
        assert!((v - expected).abs() < 0.002, "{printed:?}");
    }
    assert!(!printed.meets(task.bounds(), 0.05));
    let weighted = trajectory_weighted(&model, &visits.choices).unwrap().values(&task).unwrap();
    assert!(weighted.as_slice().iter().all(|v| (v - THIRD).abs() < 1e-3), "{weighted:?}");
    let long_run = occupancy_weighted(&task, &visits.rules).unwrap().values(&task).unwrap();
    assert!(long_run.meets(task.bounds(), 1e-3), "{long_run:?}");
}

#[test]
fn an_epoch_too_short_for_a_switch_fails_and_auto_repairs_it() {
    let (model, specification) = monitoring(0.46);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let slack = most_slack(&task, &SolveOptions::default()).unwrap().unwrap().lower;
    assert!((slack - 0.04).abs() < 1e-9, "strictly feasible");
    let exact = || Some(ExactEvidence { feasible: true, slack, conflict: vec![] });
    let (short, _) = run(&task, 0.5, EpochLength::Fixed(10), 200_000);
    let diagnosis = report(&task, &[short], exact()).diagnosis;
    assert_eq!((diagnosis.verdict, diagnosis.names.len()), (DiagnosisVerdict::EpochTooShort, 2));
    let (auto, _) = run(&task, 0.5, EpochLength::Auto(10), 200_000);
    assert_eq!(report(&task, std::slice::from_ref(&auto), exact()).diagnosis.verdict, DiagnosisVerdict::Met);
    assert!(auto.epoch == 20, "{}", auto.epoch);
    // From T₀ = 1 too, and closer to the edge.
    for (c, longest) in [(0.40, 8), (0.46, 32), (0.48, 64), (0.49, 128)] {
        let (model, specification) = monitoring(c);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let (execution, _) = run(&task, 0.05, EpochLength::Auto(1), 200_000);
        assert!(execution.epoch <= longest, "c {c}: epoch {}", execution.epoch);
        for r in &execution.certificate.requirements {
            assert!(r.shortfall <= 0.005, "c {c}: {}", r.shortfall);
        }
    }
}

#[test]
fn an_infeasible_requirement_is_diagnosed_and_named() {
    let (model, specification) = monitoring(0.55);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let Solution::Infeasible(conflict) =
        solve(&task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap()
    else {
        panic!("feasible")
    };
    assert_eq!(conflict.names, ["r1", "r2"]);
    let (execution, _) = run(&task, 0.5, EpochLength::Auto(10), 200_000);
    // With the exact model, and with nothing but the reward vectors that can occur.
    let exact = ExactEvidence { feasible: false, slack: conflict.slack.upper, conflict: conflict.names };
    let diagnosis = report(&task, std::slice::from_ref(&execution), Some(exact)).diagnosis;
    assert_eq!(
        (diagnosis.verdict, diagnosis.names),
        (DiagnosisVerdict::Infeasible, vec!["r1".into(), "r2".into()])
    );
    let seen = task.reward_vectors();
    let symptoms = DiagnosisInput {
        scales: vec![1.0; 2],
        tolerances: vec![0.005; 2],
        seen: &seen,
        ..DiagnosisInput::default()
    };
    let diagnosis = RunReport::new(&specification, &[execution], symptoms).unwrap().diagnosis;
    assert_eq!(diagnosis.verdict, DiagnosisVerdict::Infeasible);
    assert!((diagnosis.evidence.seen_slack.unwrap() + 0.05).abs() < 1e-9);
}

/// The surprise of the method: argmax r_λ does not depend on c, so bounds change while it runs.
#[test]
fn bounds_changed_in_mid_run_are_met_without_retraining() {
    let (model, specification) = monitoring(THIRD);
    let task = FiniteTask::new(&model, &specification).unwrap();
    let mut environment = Simulator::new(&model, specification.clone()).unwrap();
    let mut policy = ExactPolicy::new(&task);
    let mut rng = Rng::new(5);
    let agent = Agent::builder(specification.requirements().to_vec()).step_size(0.5);
    let mut agent = agent.epoch(EpochLength::Fixed(20)).build().unwrap();
    for bounds in [[0.2, 0.5], [0.4, 0.1], [0.1, 0.6]] {
        agent.set_bound("r1", bounds[0]).unwrap();
        agent.set_bound("r2", bounds[1]).unwrap();
        let execution =
            execute(&mut environment, &mut policy, &mut agent, 100_000, &mut rng, &mut acrl::Silent).unwrap();
        assert!(execution.averages.meets(&bounds, 0.005), "{bounds:?}: {:?}", execution.averages);
        assert!(execution.certificate.requirements.iter().all(|r| r.shortfall <= 0.005));
        let best = (1.0 - bounds[0] - bounds[1]).min(0.5);
        assert!(execution.averages.objective() >= best - 0.05, "{bounds:?}: {:?}", execution.averages);
    }
}
