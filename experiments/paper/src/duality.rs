//! What weightings, dual methods and averaged policies can and cannot do.

use std::ops::ControlFlow;

use acrl::{
    Agent, EpochLength, Event, FiniteCmdp, Multipliers, Requirement, Rng, Simulator, Specification, Values,
    execute,
};
use acrl_exact::{ExactPolicy, FiniteTask, dual_function, maximise, optimal_actions};
use acrl_learn::baselines::finite::dual_descent::dual_descent;
use acrl_learn::baselines::finite::fixed_weights::{soft_policy, square_grid, sweep};
use acrl_learn::baselines::finite::primal_averaging::{
    occupancy_weighted, state_wise, trajectory_weighted, visits,
};

use crate::example_1::format_values;
use crate::finite::{EPOCH, ETA, THIRD, bundled_problem, monitoring, optimum};
use crate::{ClaimMeasurement, ExperimentResult, RunConfig};
use acrl_app::Error;
use acrl_report::number;

/// (O1): 61 × 61 weightings.
pub(crate) fn o1(_: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let weightings = sweep(&task, square_grid(2, 3.0, 61)?, 1e-9)?;
    let feasible = weightings.iter().filter(|w| w.feasible).count();
    let soft = soft_policy(&task, &Multipliers::new(vec![1.0, 1.0])?, 0.1)?.values(&task)?;
    let measured = ClaimMeasurement::new("o1")
        .sample("3,721 weightings, exact")
        .with("feasible_weightings", feasible as f64)
        .with("weightings", weightings.len() as f64)
        .description(format!(
            "{feasible} of {} weightings on [0, 3]^2 are feasible; with an entropy bonus of 0.1 the one at (1, 1) has {}",
            weightings.len(),
            format_values(soft.as_slice())
        ))
        .settings("c = 1/3, lambda on a grid of 61 x 61 points, exact maximisers, tolerance 1e-9".to_owned());
    Ok(ExperimentResult::of(vec![measured]))
}

/// (O2): dual descent with exact values, stopped anywhere.
pub(crate) fn o2(_: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    const ITERATES: usize = 5_000;
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let (mut feasible, mut distance) = (0, f64::INFINITY);
    for eta in [0.05, 0.5] {
        let descent = dual_descent(&task, eta, ITERATES)?;
        for k in 0..ITERATES {
            feasible += usize::from(descent.values(k).is_some_and(|v| v.meets(task.bounds(), 0.01)));
        }
        if let Some(last) = descent.iterates.last() {
            let off = last.multipliers.as_slice().iter().map(|l| (l - 1.0).abs()).fold(0.0, f64::max);
            distance = distance.min(off);
        }
    }
    let measured = ClaimMeasurement::new("o2")
        .sample("10,000 iterates, exact")
        .with("feasible_iterates", feasible as f64)
        .with("distance_of_the_multipliers_from_1", distance)
        .description(format!(
            "{feasible} of {} iterates are feasible within 0.01; the last multipliers are within {} of 1",
            2 * ITERATES,
            number(distance, 2)
        ))
        .settings(format!("c = 1/3, {ITERATES} exact iterates each with eta = 0.05 and 0.5"));
    Ok(ExperimentResult::of(vec![measured]))
}

/// Theorem 2 on all finite problems that come with acrl.
pub(crate) fn theorem_2(_: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (mut largest, mut parts) = (0.0f64, Vec::new());
    for name in ["monitoring", "queue", "maintenance", "inline", "patrol"] {
        let (model, specification) = bundled_problem(name)?;
        let task = FiniteTask::new(&model, &specification)?;
        let best = optimum(&task)?;
        let gap = (dual_function(&task, &best.multipliers)? - best.objective).abs()
            / best.objective.abs().max(1e-3 * task.objective_scale());
        largest = largest.max(gap);
        parts.push(format!("{name} {}", number(gap, 2)));
    }
    let measured = ClaimMeasurement::new("theorem-2")
        .sample("5 problems, exact")
        .with("largest_relative_gap", largest)
        .description(format!("|D* - P*|/|P*|: {}", parts.join(", ")))
        .settings(
            "P* by column generation with certified bounds, D* the dual function at lambda*".to_owned(),
        );
    Ok(ExperimentResult::of(vec![measured]))
}

/// Proposition 1: no optimal policy acts outside Π(λ*).
pub(crate) fn proposition_1(_: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (mut checked, mut outside) = (0, 0);
    for name in ["monitoring", "queue", "maintenance", "inline"] {
        let (model, specification) = bundled_problem(name)?;
        let task = FiniteTask::new(&model, &specification)?;
        let best = optimum(&task)?;
        let mut weights = vec![1.0];
        weights.extend_from_slice(best.multipliers.as_slice());
        let actions = optimal_actions(&task, &weights)?;
        for component in best.mixture.iter().filter(|c| c.weight > 1e-6) {
            let occupancy = task.occupancy(&component.actions)?;
            for s in 0..model.states() {
                let action = component.actions[s];
                if occupancy[model.choices(s).start + action] > 1e-9 {
                    checked += 1;
                    outside += usize::from(!actions[s].contains(&action));
                }
            }
        }
    }
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let all = optimal_actions(&task, &[1.0, 1.0, 1.0])?;
    let missing: usize = (0..model.states()).map(|s| model.choices(s).len() - all[s].len()).sum();
    let measured = ClaimMeasurement::new("proposition-1")
        .sample("4 problems, exact")
        .with("optimal_actions_outside_the_maximisers", outside as f64)
        .with("actions_missing_at_equal_weights", missing as f64)
        .with("actions_checked", checked as f64)
        .description(format!(
            "{outside} of {checked} actions that optimal policies take are not maximal at lambda*; at (1, 1) {missing} of {} \
             actions of Example 1 are not",
            model.choice_count()
        ))
        .settings("the optimal mixtures of monitoring, queue, maintenance and inline".to_owned());
    Ok(ExperimentResult::of(vec![measured]))
}

/// Where Π(λ*) has one member, π(λ_k) ends there.
pub(crate) fn unique_maximiser(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = loose_maintenance()?;
    let task = FiniteTask::new(&model, &specification)?;
    let actions = optimal_actions(&task, &[1.0, 0.0, 0.0])?;
    let unique = actions.iter().all(|a| a.len() == 1);
    let star = maximise(&task, &[1.0, 0.0, 0.0])?.actions;
    let agent = Agent::builder(specification.requirements().to_vec()).step_size(0.5);
    let agent = agent.epoch(EpochLength::Fixed(10)).multipliers(Multipliers::new(vec![3.0, 3.0])?);
    let mut agent = agent.build()?;
    let mut policy = ExactPolicy::new(&task);
    let starts_elsewhere = policy.actions(agent.multipliers())? != star;
    let mut environment = Simulator::new(&model, specification.clone())?;
    let mut lambdas = Vec::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            lambdas.push(epoch.multipliers.clone());
        }
        ControlFlow::Continue(())
    };
    let mut rng = Rng::new(config.seed);
    execute(&mut environment, &mut policy.clone(), &mut agent, 20_000, &mut rng, &mut observer)?;
    let mut elsewhere = 0;
    for lambda in lambdas.iter().skip(1_000) {
        elsewhere += usize::from(policy.actions(lambda)? != star);
    }
    let late = if unique && starts_elsewhere { elsewhere as f64 } else { f64::NAN };
    let measured = ClaimMeasurement::new("unique-maximiser")
        .sample("1 run of 20,000 steps")
        .with("late_epochs_with_another_policy", late)
        .description(format!(
            "started at (3, 3), with another policy; in {elsewhere} of the last {} epochs the policy is not the optimal one",
            lambdas.len().saturating_sub(1_000)
        ))
        .settings("maintenance with both bounds at 0.9, T0 = 10, eta = 0.5, 2,000 epochs".to_owned());
    Ok(ExperimentResult::of(vec![measured]))
}

fn loose_maintenance() -> Result<(FiniteCmdp, Specification), Error> {
    let (model, mut specification) = bundled_problem("maintenance")?;
    for name in ["poor", "cost"] {
        specification = specification.require(Requirement::at_most(name, 0.9)?)?;
    }
    Ok((model, specification))
}

/// Primal averaging, as printed and by occupancy.
pub(crate) fn primal_averaging(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    const EPOCHS: u64 = 10_000;
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let visits = visits(&task, ETA, EPOCH, EPOCHS, &mut Rng::new(config.seed))?;
    let printed = state_wise(&model, &visits.rules)?.values(&task)?;
    let weighted = trajectory_weighted(&model, &visits.choices)?.values(&task)?;
    let long_run = occupancy_weighted(&task, &visits.rules)?.values(&task)?;
    let short =
        |values: &Values| values.requirements().iter().map(|v| THIRD - v).fold(f64::NEG_INFINITY, f64::max);
    let settings = format!("c = 1/3, the policies of {EPOCHS} epochs, T0 = {EPOCH}, eta = {ETA}");
    let by_state = ClaimMeasurement::new("primal-averaging")
        .sample("1 run of 10,000 epochs of 10 steps")
        .with("shortfall_by_state", short(&printed))
        .with("shortfall_by_occupancy", short(&weighted))
        .description(format!(
            "averages of r0, r1, r2 if averaged state by state: {}; weighted by occupancy: {}",
            format_values(printed.as_slice()),
            format_values(weighted.as_slice())
        ))
        .settings(settings.clone());
    let by_occupancy = ClaimMeasurement::new("primal-averaging-occupancy")
        .sample("1 run of 10,000 epochs of 10 steps")
        .with("shortfall_by_occupancy", short(&weighted))
        .with("distance_of_r0_from_a_third", (weighted.objective() - THIRD).abs())
        .description(format!(
            "weighted by the run's occupancy: {}; by the long-run occupancies of the policies: {} (epochs of 10 are biased)",
            format_values(weighted.as_slice()),
            format_values(long_run.as_slice())
        ))
        .settings(settings);
    Ok(ExperimentResult::of(vec![by_state, by_occupancy]))
}
