//! Figs. 1 to 3: the three-state problem, the augmented state, and A-CRL on them.

use acrl::{DualDynamics, EpochLength, FinitePolicy as _, Multipliers, Rewards, Rng, Simulator};
use acrl_exact::{ExactPolicy, FiniteTask};
use acrl_report::{Axis, Bound, Colour, Figure, Panel, Series, number};

use crate::finite::{EPOCH, ETA, THIRD, Trajectory, monitoring, optimum, run};
use crate::{ClaimMeasurement, ExperimentResult, RunConfig, diagrams};
use acrl_app::{Error, ensure};

/// Fig. 1: the problem is what it is drawn as, and its optimum is known.
pub(crate) fn problem(_: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let uniform: Vec<f64> = (0..model.states())
        .flat_map(|s| {
            let choices = model.choices(s).len();
            std::iter::repeat_n(1.0 / choices as f64, choices)
        })
        .collect();
    let values = task.values_of_randomised(&uniform)?;
    let distance = values.as_slice().iter().map(|v| (v - THIRD).abs()).fold(0.0, f64::max);
    let best = optimum(&task)?;
    let measured = ClaimMeasurement::new("optimal-policy")
        .sample("exact")
        .with("distance_of_the_averages_from_a_third", distance)
        .with("distance_of_the_optimum_from_a_third", (best.objective - THIRD).abs())
        .with("optimum", best.objective)
        .description(format!(
            "the uniform policy has {}; the optimum is {}",
            format_values(values.as_slice()),
            number(best.objective, 6)
        ))
        .settings("c = 1/3, exact".to_owned());
    Ok(ExperimentResult { figures: vec![diagrams::problem(&model)], claims: vec![measured] })
}

/// Fig. 2: an execution that is resumed from (s, λ) equals the uninterrupted one.
pub(crate) fn augmented_state(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    const STOP: usize = 500;
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let straight = run(&task, ETA, EpochLength::Fixed(EPOCH), 1_000 * EPOCH, config)?;
    ensure!(straight.multipliers.len() == 1_001, "the execution was stopped");
    // All that is kept of the first half is s and λ.
    let mut state = straight.states[STOP * EPOCH as usize] as usize;
    let requirements = specification.requirements().to_vec();
    let mut dynamics = DualDynamics::new(requirements, ETA, EpochLength::Fixed(EPOCH))?
        .with_multipliers(straight.multipliers[STOP].clone())?;
    let environment = Simulator::new(&model, specification.clone())?;
    let (mut policy, mut rng) = (ExactPolicy::new(&task), Rng::new(config.seed));
    let mut rewards = Rewards::zeros(dynamics.len());
    let (mut k, mut difference) = (STOP, 0.0f64);
    while k < 1_000 {
        let action = policy.act(state, dynamics.multipliers(), &mut rng);
        state = environment.step(state, action, &mut rewards, &mut rng)?;
        if let Some(epoch) = dynamics.observe(&rewards)? {
            k += 1;
            let pairs = epoch.multipliers.as_slice().iter().zip(straight.multipliers[k].as_slice());
            difference = pairs.map(|(a, b)| (a - b).abs()).fold(difference, f64::max);
        }
    }
    let measured = ClaimMeasurement::new("augmented-state")
        .sample("1 run of 1,000 rollouts of 10 steps")
        .with("largest_difference", difference)
        .description(format!(
            "resumed at k = {STOP} from (s, lambda) alone, the multipliers of the next {} rollouts differ by {}",
            1_000 - STOP,
            number(difference, 3)
        ))
        .settings(fig3_settings(1_000));
    Ok(ExperimentResult { figures: vec![diagrams::augmented_state()], claims: vec![measured] })
}

/// Fig. 3 and what the text says about it.
pub(crate) fn a_crl(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let trajectory = run(&task, ETA, EpochLength::Fixed(EPOCH), 1_000 * EPOCH, config)?;
    config.progress.set(0.1);
    let long = run(&task, ETA, EpochLength::Fixed(EPOCH), 100_000 * EPOCH, config)?;
    ensure!(
        trajectory.multipliers.len() == 1_001 && long.multipliers.len() == 100_001,
        "the execution was stopped"
    );
    let distance = |trajectory: &Trajectory| {
        trajectory.execution.averages.as_slice().iter().map(|v| (v - THIRD).abs()).fold(0.0, f64::max)
    };
    let average = ClaimMeasurement::new("fig3-average")
        .sample("1 run of 100,000 rollouts of 10 steps")
        .with("distance_after_1000_rollouts", distance(&trajectory))
        .with("distance_after_100000_rollouts", distance(&long))
        .description(format!(
            "averages of r0, r1, r2: {} after 1,000 rollouts, {} after 100,000",
            format_values(trajectory.execution.averages.as_slice()),
            format_values(long.execution.averages.as_slice())
        ))
        .settings(fig3_settings(1_000));

    let mut policy = ExactPolicy::new(&task);
    let (mut feasible, mut at_a_third, mut disagree) = (0, 0, 0);
    let (mut stays, mut second_larger, mut first_larger) = (0, 0, 0);
    let mut rules = Vec::new();
    for (k, lambda) in trajectory.multipliers.iter().take(1_000).enumerate() {
        let rule = policy.actions(lambda)?.to_vec();
        feasible += usize::from(task.values(&rule)?.meets(task.bounds(), 0.01));
        at_a_third += usize::from((trajectory.share(k, EPOCH, 1) - THIRD).abs() < 1e-9);
        let [first, second] = [0, 1].map(|i| lambda.as_slice()[i]);
        let stay = rule[1] == 1;
        // Ties up to rounding are nobody's; the first tenth is the start from λ = 0.
        let tie = (first - second).abs() < 1e-9 || (first - 1.0).abs() < 1e-9;
        if k >= 100 && !tie {
            disagree += usize::from(stay != (first > 1.0 && first > second));
            if stay {
                stays += 1;
                second_larger += usize::from(second > first);
                first_larger += usize::from(first > second);
            }
        }
        rules.push(rule);
    }
    let rollouts = ClaimMeasurement::new("fig3-rollouts")
        .sample("1 run of 1,000 rollouts of 10 steps")
        .with("feasible_policies", f64::from(feasible as u32))
        .with("rollouts_at_a_third", f64::from(at_a_third as u32))
        .description(format!(
            "{feasible} of 1,000 policies are feasible; {at_a_third} of 1,000 rollouts average 1/3"
        ))
        .settings(fig3_settings(1_000));
    let crossings: Vec<usize> =
        (981..1_000).filter(|&k| crosses(&trajectory.multipliers, k, &rules)).collect();
    let switch = ClaimMeasurement::new("fig3-switch")
        .sample("1 run of 1,000 rollouts of 10 steps")
        .with("epochs_that_disagree", f64::from(disagree as u32))
        .with("crossings_in_the_last_20", crossings.len() as f64)
        .description(format!(
            "the policy at R1 is that of lambda_1 in all but {disagree} rollouts; among the last 20 it crosses 1 upwards and \
             begins to stay at k = {}",
            crossings.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
        ))
        .settings(fig3_settings(1_000));
    let typo = ClaimMeasurement::new("typo-switch")
        .sample("1 run of 1,000 rollouts of 10 steps")
        .with("share_of_stays_with_lambda_2_larger", second_larger as f64 / f64::from(stays).max(1.0))
        .with("share_of_stays_with_lambda_1_larger", first_larger as f64 / f64::from(stays).max(1.0))
        .description(format!(
            "of {stays} rollouts with a policy that stays at R1, lambda_2 is larger in {second_larger} and lambda_1 in \
             {first_larger}"
        ))
        .settings(fig3_settings(1_000));
    Ok(ExperimentResult {
        figures: vec![figure(&trajectory, &rules)],
        claims: vec![average, rollouts, switch, typo],
    })
}

/// Whether λ₁ goes from below 1 to above with rollout k, and the policy at R₁ begins to stay with it.
fn crosses(multipliers: &[Multipliers], k: usize, rules: &[Vec<usize>]) -> bool {
    let first = |k: usize| multipliers[k].as_slice()[0];
    first(k - 1) <= 1.0 && first(k) > 1.0 && rules[k - 1][1] == 0 && rules[k][1] == 1
}

/// The settings of Fig. 3.
fn fig3_settings(rollouts: u64) -> String {
    format!("c = 1/3, {rollouts} rollouts, T0 = {EPOCH}, eta_lambda = {ETA}, the exact pi(lambda)")
}

/// Three averages.
pub(crate) fn format_values(values: &[f64]) -> String {
    values.iter().map(|v| number(*v, 4)).collect::<Vec<_>>().join(" / ")
}

/// A curve over shared x values.
pub(crate) fn curve(name: &str, colour: Colour, x: &[f64], y: Vec<f64>) -> Series {
    Series::new(name, colour, x.to_vec(), y)
}

/// An axis from 0 to 1, with a margin.
pub(crate) fn share_axis(label: &str) -> Axis {
    Axis { range: Some((-0.05, 1.05)), ..Axis::new(label) }
}

/// Time at R1, multipliers, and the policy: the panels of Figs. 3 and 4.
pub(crate) fn example_1_panels(
    x: &Axis,
    time: Vec<Series>,
    multipliers: Vec<Series>,
    policy: Vec<Series>,
) -> Vec<Panel> {
    let level = |name: &str, value| vec![Bound::new(name, value, Colour::Grey)];
    let third = level("1/3", THIRD);
    vec![
        Panel::lines("Time at R1", x.clone(), share_axis("share of the time"), time, third),
        Panel::lines("Multipliers", x.clone(), Axis::new("multiplier"), multipliers, level("1", 1.0)),
        Panel::lines("Policy", x.clone(), share_axis("probability"), policy, Vec::new()),
    ]
}

fn figure(trajectory: &Trajectory, rules: &[Vec<usize>]) -> Figure {
    let (first, last) = (980, 1_000);
    // One more, so that the last rollout is as wide as the others.
    let held = |mut values: Vec<f64>| {
        values.extend(values.last().copied());
        values
    };
    let k: Vec<f64> = (first..=last).map(|k| k as f64).collect();
    let per_rollout = held((first..last).map(|k| trajectory.share(k, EPOCH, 1)).collect());
    let so_far = |k: usize| {
        let steps = (k + 1) * EPOCH as usize;
        trajectory.states[..steps].iter().filter(|s| **s == 1).count() as f64 / steps as f64
    };
    let lambda = |i: usize| held((first..last).map(|k| trajectory.multipliers[k].as_slice()[i]).collect());
    let stay = |yes: bool| {
        held(rules[first..last].iter().map(|rule| f64::from(u8::from((rule[1] == 1) == yes))).collect())
    };
    let stepped = |series: Series| Series { steps: true, ..series };
    let dashed = |series: Series| Series { dashed: true, ..series };
    let x = Axis { range: Some((first as f64, last as f64)), ..Axis::new("rollout k") };
    let time = vec![
        stepped(curve("in the rollout", Colour::Blue, &k, per_rollout)),
        dashed(curve("so far", Colour::Red, &k, held((first..last).map(so_far).collect()))),
    ];
    let multipliers = vec![
        stepped(curve("λ1", Colour::Blue, &k, lambda(0))),
        stepped(curve("λ2", Colour::Orange, &k, lambda(1))),
    ];
    let policy = vec![
        stepped(curve("at R1: stay", Colour::Blue, &k, stay(true))),
        dashed(stepped(curve("at R1: go to R0", Colour::Grey, &k, stay(false)))),
    ];
    Figure::new(
        "fig3",
        "A-CRL on Example 1",
        "The last 20 of 1,000 rollouts of 10 steps. No rollout has the required third of its time at R1, the time \
         average has; the policy switches when the multiplier crosses 1.",
        3,
        example_1_panels(&x, time, multipliers, policy),
    )
}
