//! Fig. 4: primal-dual on Example 1.

use acrl::{EpochLength, Event, Rng};
use acrl_exact::{ExactPolicy, FiniteTask};
use acrl_learn::baselines::finite::primal_dual::{PrimalDual, PrimalDualConfig, Snapshot, primal_dual};
use acrl_report::{Axis, Colour, Figure, Series, number};

use crate::example_1::{curve, example_1_panels, triple};
use crate::finite::{EPOCH, ETA, THIRD, monitoring, run};
use crate::{Found, Measured, Plan};
use acrl_app::Error;

/// "Stay" among the choices of R₁.
const STAY: usize = 3;
/// "To R₁" among those of R₀.
const TO_R1: usize = 0;

/// The figure and its claims.
pub(crate) fn primal_dual_on_example_1(plan: &Plan<'_>) -> Result<Found, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let settings = PrimalDualConfig { records: 4_000, ..PrimalDualConfig::default() };
    let train = |settings: &PrimalDualConfig, from: f64| {
        let mut observer = |event: &Event<'_>| {
            if let Event::Iteration { iteration, total, .. } = event {
                plan.share.reach(from + 0.45 * *iteration as f64 / *total as f64);
            }
            plan.share.stop.flow()
        };
        primal_dual(&task, settings, &mut Rng::new(plan.seed), &mut observer)
    };
    let found = train(&settings, 0.0)?;
    let exchanged =
        PrimalDualConfig { primal_step: settings.dual_step, dual_step: settings.primal_step, ..settings };
    let other = train(&exchanged, 0.45)?;
    let a_crl = run(&task, ETA, EpochLength::Fixed(EPOCH), 1_000 * EPOCH, plan)?;

    let said = format!(
        "{} rollouts of {} steps, eta_lambda = {}, eta_theta = {}, softmax, gradient of the average",
        settings.rollouts, settings.length, settings.dual_step, settings.primal_step
    );
    let online = found.online.as_slice();
    let short = online[1..].iter().map(|v| THIRD - v).fold(f64::NEG_INFINITY, f64::max);
    let average = Measured::new("fig4-average")
        .with("shortfall_online", short)
        .says(format!("averages of r0, r1, r2 over the training: {}", triple(online)))
        .settings(said.clone());

    let most = largest(&found);
    let least = found.multipliers.iter().map(|m| m.min).fold(f64::INFINITY, f64::min);
    let switches = (0..model.choice_count()).map(|c| switches(&found.record, c)).max().unwrap_or(0);
    let oscillates = Measured::new("fig4-oscillates")
        .with("largest_multiplier", most)
        .with("smallest_multiplier", least)
        .with("switches", f64::from(switches))
        .says(format!(
            "multipliers from {} to {}; the probability that changes most goes from below 0.2 to above 0.8, or back, {switches} \
             times",
            number(least, 3),
            number(most, 3)
        ))
        .settings(said.clone());

    let lags = lags(&task, &found.record)?;
    let longest = lags.iter().copied().max().unwrap_or(0);
    let lag = Measured::new("fig4-lag")
        .with("longest_lag_in_rollouts", longest as f64)
        .with("lags_of_1000_rollouts_or_more", lags.iter().filter(|lag| **lag >= 1_000).count() as f64)
        .with("longest_lag_at_r1_in_rollouts", lag_at_r1(&found.record) as f64)
        .says(format!(
            "for up to {longest} consecutive rollouts the policy at R0 is not that of its multipliers, {} times for 1,000 or more; for \
             up to {} it leaves R1 although lambda_1 > 1 and lambda_1 > lambda_2",
            lags.iter().filter(|lag| **lag >= 1_000).count(),
            lag_at_r1(&found.record)
        ))
        .settings(said.clone());

    let reached = a_crl.multipliers[100..].iter().flat_map(|l| l.as_slice().iter().copied());
    let reached = reached.fold(0.0, f64::max);
    let (deficit, a_crl_deficit) =
        (most * settings.length as f64 / settings.dual_step, reached * EPOCH as f64 / ETA);
    let overshoot = Measured::new("fig4-overshoot")
        .with("times_those_of_a_crl", most / reached)
        .with("times_the_deficit_of_a_crl", deficit / a_crl_deficit)
        .says(format!(
            "multipliers reach {} (A-CRL: {}), deficits {} steps (A-CRL: {})",
            number(most, 3),
            number(reached, 3),
            number(deficit, 3),
            number(a_crl_deficit, 3)
        ))
        .settings(said.clone());

    let late = &found.record[found.record.len() / 10..];
    let mut infeasible = 0;
    for snapshot in late {
        let values = task.values_of_randomised(&snapshot.probabilities)?;
        infeasible += usize::from(!values.meets(task.bounds(), 0.005));
    }
    let stopped = Measured::new("fig4-stopped")
        .with("share_of_infeasible_policies", infeasible as f64 / late.len().max(1) as f64)
        .says(format!(
            "{infeasible} of {} policies on the way miss a requirement by more than 0.005",
            late.len()
        ))
        .settings(said.clone());

    let typo = Measured::new("typo-fig4")
        .with("difference_of_the_largest_multiplier", (largest(&other) - most).abs())
        .says(format!(
            "with eta_lambda = {} the largest multiplier is {} and the longest lag at R1 {} rollouts; with the steps exchanged {} \
             and {}",
            settings.dual_step,
            number(most, 4),
            lag_at_r1(&found.record),
            number(largest(&other), 4),
            lag_at_r1(&other.record)
        ))
        .settings(said);
    let claims = vec![average, oscillates, lag, overshoot, stopped, typo];
    Ok(Found { figures: vec![figure(&found.record)], claims })
}

fn largest(found: &PrimalDual) -> f64 {
    found.multipliers.iter().map(|m| m.max).fold(0.0, f64::max)
}

/// How often the probability of a choice goes from below .2 to above .8 or back.
fn switches(record: &[Snapshot], choice: usize) -> u32 {
    let (mut count, mut high) = (0, None);
    for p in record.iter().map(|s| s.probabilities[choice]) {
        let now = if p < 0.2 { Some(false) } else { (p > 0.8).then_some(true) };
        if let Some(now) = now {
            count += u32::from(high.is_some_and(|high: bool| high != now));
            high = Some(now);
        }
    }
    count
}

/// The stretches, in rollouts, during which the policy at R₀ is not that of the multipliers.
fn lags(task: &FiniteTask<'_>, record: &[Snapshot]) -> Result<Vec<u64>, Error> {
    let mut maximiser = ExactPolicy::new(task);
    let (mut lags, mut since) = (Vec::new(), None);
    for snapshot in record {
        let wanted = maximiser.actions(&snapshot.multipliers)?[0];
        if snapshot.probabilities[wanted] < 0.5 {
            since.get_or_insert(snapshot.rollout);
        } else if let Some(since) = since.take() {
            lags.push(snapshot.rollout - since);
        }
    }
    Ok(lags)
}

/// The longest time, in rollouts, for which the policy leaves R₁ although the multipliers say stay.
fn lag_at_r1(record: &[Snapshot]) -> u64 {
    let (mut longest, mut since) = (0, None);
    for snapshot in record {
        let [first, second] = [0, 1].map(|i| snapshot.multipliers.as_slice()[i]);
        if first > 1.0 && first > second && snapshot.probabilities[STAY] < 0.5 {
            longest = longest.max(snapshot.rollout - *since.get_or_insert(snapshot.rollout));
        } else {
            since = None;
        }
    }
    longest
}

fn figure(record: &[Snapshot]) -> Figure {
    // The last tenth: more could not be told apart.
    let late = &record[record.len() - record.len() / 10..];
    let k: Vec<f64> = late.iter().map(|s| s.rollout as f64 / 1_000.0).collect();
    let of = |value: &dyn Fn(&Snapshot) -> f64| late.iter().map(value).collect::<Vec<f64>>();
    let dashed = |series: Series| Series { dashed: true, ..series };
    let time = vec![
        curve("in the rollout", Colour::Blue, &k, of(&|s| s.rewards[1])),
        dashed(curve("so far", Colour::Red, &k, of(&|s| s.averages[1]))),
    ];
    let multipliers = vec![
        curve("λ1", Colour::Blue, &k, of(&|s| s.multipliers.as_slice()[0])),
        curve("λ2", Colour::Orange, &k, of(&|s| s.multipliers.as_slice()[1])),
    ];
    let policy = vec![
        curve("at R1: stay", Colour::Blue, &k, of(&|s| s.probabilities[STAY])),
        dashed(curve("at R1: go to R0", Colour::Grey, &k, of(&|s| 1.0 - s.probabilities[STAY]))),
        curve("at R0: go to R1", Colour::Orange, &k, of(&|s| s.probabilities[TO_R1])),
    ];
    Figure::new(
        "fig4",
        "Primal-dual on Example 1",
        "The last tenth of 400,000 rollouts, every hundredth of them. The averages are right while it learns, and the \
         policy follows its multipliers late; which of its probabilities switch depends on the seed.",
        3,
        example_1_panels(&Axis::new("rollout k, in thousands"), time, multipliers, policy),
    )
}
