//! The finite problems that come with the program: their documented optimum, and what it looks like.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use acrl::FiniteCmdp;
use acrl_envs::{Inventory, Maintenance, Patrol, Power, Problem, Queue, Source, bundled};
use acrl_exact::{FiniteTask, MixturePolicy, Optimum, Solution, SolveOptions, optimal_actions, solve};

fn problem(name: &str) -> (FiniteCmdp, acrl::Specification) {
    let file = bundled().iter().find(|file| file.name == name).unwrap();
    let problem = Problem::parse(file.text).unwrap();
    let Source::Model(model) = problem.source else { panic!("{name} is not finite") };
    (model, problem.specification)
}

fn optimum(task: &FiniteTask<'_>) -> Optimum {
    let options = SolveOptions { gap: 1e-12, ..SolveOptions::default() };
    let solution = solve(task, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let Solution::Optimal(optimum) = solution else { panic!("infeasible") };
    optimum
}

/// (1, λ*).
fn weights(optimum: &Optimum) -> Vec<f64> {
    std::iter::once(1.0).chain(optimum.multipliers.as_slice().iter().copied()).collect()
}

/// The states that are reached from `start` if in each state one of the `allowed` actions is taken.
fn reached(model: &FiniteCmdp, allowed: &[Vec<usize>], start: usize) -> Vec<usize> {
    let mut found = vec![start];
    let mut next = 0;
    while let Some(&state) = found.get(next) {
        next += 1;
        for action in &allowed[state] {
            for &target in model.choice(model.choices(state).start + action).targets {
                if !found.contains(&(target as usize)) {
                    found.push(target as usize);
                }
            }
        }
    }
    found
}

#[test]
fn documented_optima_are_those_of_the_solver() {
    for (name, documented) in [
        ("patrol", -Patrol::DEFAULT_OPTIMUM),
        ("queue", -Queue::DEFAULT_OPTIMUM),
        ("maintenance", Maintenance::DEFAULT_OPTIMUM),
        ("power", -Power::DEFAULT_OPTIMUM),
        ("inventory", -Inventory::DEFAULT_OPTIMUM),
    ] {
        let (model, specification) = problem(name);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let optimum = optimum(&task);
        assert!((optimum.lower - documented).abs() < 1e-9, "{name}: {}", optimum.lower);
        assert!((optimum.upper - documented).abs() < 1e-9, "{name}: {}", optimum.upper);
    }
}

/// P* of `power` is a supremum: the optimal mixture sleeps for ever at a full buffer for a tenth of the
/// time, and actions that are optimal at λ* do not lead from the other recurrent class to this and back.
#[test]
fn optimum_of_power_has_two_recurrent_classes_that_optimal_actions_do_not_connect() {
    let (model, specification) = problem("power");
    let task = FiniteTask::new(&model, &specification).unwrap();
    let optimum = optimum(&task);
    assert!(optimum.multipliers.as_slice().iter().all(|price| *price > 0.1), "both requirements bind");
    let asleep_and_full = (0..model.states()).find(|s| model.state_name(*s) == "asleep,100").unwrap();
    let asleep = |policy: &&MixturePolicy| (policy.values.requirements()[0] + 1.0).abs() < 1e-9;
    let (sleeping, cycling): (Vec<_>, Vec<_>) = optimum.mixture.iter().partition(asleep);
    let share = |policies: &[&MixturePolicy]| policies.iter().map(|p| p.weight).sum::<f64>();
    assert!((share(&sleeping) - 0.1).abs() < 1e-3 && (share(&cycling) - 0.9).abs() < 1e-3);
    assert!(cycling.iter().all(|p| p.values.requirements()[0] > -0.25 && p.values.requirements()[1] > -1e-3));
    // The biases of the two classes are free within bounds. At either bound actions tie that lead from one
    // class to the other, but never in both directions.
    let actions = optimal_actions(&task, &weights(&optimum)).unwrap();
    let serving = (0..model.states()).find(|s| model.state_name(*s) == "active,0").unwrap();
    let [from_serving, from_full] = [serving, asleep_and_full].map(|s| reached(&model, &actions, s));
    assert!(from_serving.iter().any(|s| model.state_name(*s) == "asleep,30"));
    assert!(!(from_serving.contains(&asleep_and_full) && from_full.contains(&serving)));
}

/// In `inventory` the optimal actions are those of (s, S) policies, and have one recurrent class.
#[test]
fn optimum_of_inventory_orders_up_to_a_level_and_both_requirements_bind() {
    let (model, specification) = problem("inventory");
    let task = FiniteTask::new(&model, &specification).unwrap();
    let optimum = optimum(&task);
    assert_eq!(optimum.mixture.len(), 3);
    assert!(optimum.multipliers.as_slice().iter().all(|price| *price > 0.1));
    // Demand may empty the shop in every period, so every recurrent class contains the empty shop.
    for (stock, orders) in optimal_actions(&task, &weights(&optimum)).unwrap().into_iter().enumerate() {
        let expected = match stock {
            0..3 => vec![12 - stock, 13 - stock],
            3 => vec![0, 9, 10],
            _ => vec![0],
        };
        assert_eq!(orders, expected, "with {stock} on stock");
    }
}
