//! Fig. 4: primal-dual on Example 1.

use acrl::{EpochLength, Event, Rng};
use acrl_exact::{ExactPolicy, FiniteTask};
use acrl_learn::baselines::finite::primal_dual::{PrimalDual, PrimalDualConfig, Snapshot, primal_dual};
use acrl_report::{Axis, Colour, Figure, Series, number};

use crate::example_1::{curve, example_1_panels, format_values};
use crate::finite::{self, EPOCH, ETA, THIRD, monitoring};
use crate::{ClaimMeasurement, ExperimentResult, RunConfig};
use acrl_app::Error;

/// "Stay" among the choices of R₁.
const STAY: usize = 3;
/// "To R₁" among those of R₀.
const TO_R1: usize = 0;

/// The figure and its claims.
pub(crate) fn primal_dual_on_example_1(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let settings = PrimalDualConfig { records: 4_000, ..PrimalDualConfig::default() };
    let train = |settings: &PrimalDualConfig, from: f64| {
        let mut observer = |event: &Event<'_>| {
            if let Event::Iteration { iteration, total, .. } = event {
                config.progress.set(from + 0.45 * *iteration as f64 / *total as f64);
            }
            config.progress.stop.flow()
        };
        primal_dual(&task, settings, &mut Rng::new(config.seed), &mut observer)
    };
    let run = train(&settings, 0.0)?;
    let exchanged =
        PrimalDualConfig { primal_step: settings.dual_step, dual_step: settings.primal_step, ..settings };
    let swapped_run = train(&exchanged, 0.45)?;
    let a_crl = finite::run(&task, ETA, EpochLength::Fixed(EPOCH), 1_000 * EPOCH, config)?;

    let settings_text = format!(
        "{} rollouts of {} steps, eta_lambda = {}, eta_theta = {}, softmax, gradient of the average",
        settings.rollouts, settings.length, settings.dual_step, settings.primal_step
    );
    let online = run.online.as_slice();
    let online_shortfall = online[1..].iter().map(|v| THIRD - v).fold(f64::NEG_INFINITY, f64::max);
    let average = ClaimMeasurement::new("fig4-average")
        .sample("1 training of 400,000 rollouts")
        .with("shortfall_online", online_shortfall)
        .description(format!("averages of r0, r1, r2 over the training: {}", format_values(online)))
        .settings(settings_text.clone());

    let max_multiplier = largest(&run);
    let min_multiplier = run.multipliers.iter().map(|m| m.min).fold(f64::INFINITY, f64::min);
    let max_switches = (0..model.choice_count()).map(|c| switches(&run.record, c)).max().unwrap_or(0);
    let oscillates = ClaimMeasurement::new("fig4-oscillates")
        .sample("1 training of 400,000 rollouts")
        .with("largest_multiplier", max_multiplier)
        .with("smallest_multiplier", min_multiplier)
        .with("switches", f64::from(max_switches))
        .description(format!(
            "multipliers from {} to {}; the probability that changes most crosses from below 0.2 to \
             above 0.8 or back {max_switches} times",
            number(min_multiplier, 3),
            number(max_multiplier, 3)
        ))
        .settings(settings_text.clone());

    let all_lags = lags(&task, &run.record)?;
    let longest = all_lags.iter().copied().max().unwrap_or(0);
    let lag = ClaimMeasurement::new("fig4-lag")
        .sample("1 training of 400,000 rollouts")
        .with("longest_lag_in_rollouts", longest as f64)
        .with("lags_of_1000_rollouts_or_more", all_lags.iter().filter(|lag| **lag >= 1_000).count() as f64)
        .with("longest_lag_at_r1_in_rollouts", lag_at_r1(&run.record) as f64)
        .description(format!(
            "for up to {longest} consecutive rollouts the policy at R0 is not a maximiser of the Lagrangian, \
             {} times for 1,000 or more; for up to {} consecutive rollouts it leaves R1 although lambda_1 > 1 and lambda_1 > lambda_2",
            all_lags.iter().filter(|lag| **lag >= 1_000).count(),
            lag_at_r1(&run.record)
        ))
        .settings(settings_text.clone());

    let reached = a_crl.multipliers[100..].iter().flat_map(|l| l.as_slice().iter().copied());
    let reached = reached.fold(0.0, f64::max);
    let (deficit, a_crl_deficit) =
        (max_multiplier * settings.length as f64 / settings.dual_step, reached * EPOCH as f64 / ETA);
    let overshoot = ClaimMeasurement::new("fig4-overshoot")
        .sample("1 training of 400,000 rollouts")
        .with("largest_multiplier_relative_to_a_crl", max_multiplier / reached)
        .with("largest_deficit_relative_to_a_crl", deficit / a_crl_deficit)
        .description(format!(
            "multipliers reach {} (A-CRL: {}), deficits {} steps (A-CRL: {})",
            number(max_multiplier, 3),
            number(reached, 3),
            number(deficit, 3),
            number(a_crl_deficit, 3)
        ))
        .settings(settings_text.clone());

    let after_burn_in = &run.record[run.record.len() / 10..];
    let mut infeasible = 0;
    for snapshot in after_burn_in {
        let values = task.values_of_randomised(&snapshot.probabilities)?;
        infeasible += usize::from(!values.meets(task.bounds(), 0.005));
    }
    let stopped = ClaimMeasurement::new("fig4-stopped")
        .sample("1 training of 400,000 rollouts")
        .with("share_of_infeasible_policies", infeasible as f64 / after_burn_in.len().max(1) as f64)
        .description(format!(
            "{infeasible} of {} policies recorded during training violate a requirement by more than 0.005",
            after_burn_in.len()
        ))
        .settings(settings_text.clone());

    let typo = ClaimMeasurement::new("typo-fig4")
        .sample("2 trainings of 400,000 rollouts")
        .with("difference_of_the_largest_multiplier", (largest(&swapped_run) - max_multiplier).abs())
        .with("largest_multiplier_with_either_reading", largest(&swapped_run).min(max_multiplier))
        .description(format!(
            "with eta_lambda = {} the largest multiplier is {} and the longest lag at R1 {} rollouts; with the steps exchanged {} \
             and {}",
            settings.dual_step,
            number(max_multiplier, 4),
            lag_at_r1(&run.record),
            number(largest(&swapped_run), 4),
            lag_at_r1(&swapped_run.record)
        ))
        .settings(settings_text);
    let claims = vec![average, oscillates, lag, overshoot, stopped, typo];
    Ok(ExperimentResult { figures: vec![figure(&run.record)], claims })
}

fn largest(run: &PrimalDual) -> f64 {
    run.multipliers.iter().map(|m| m.max).fold(0.0, f64::max)
}

/// Number of times that the probability of a choice crosses from below 0.2 to above 0.8 or back.
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

/// Lengths, in rollouts, of the completed periods in which the most probable action at R₀ does not maximise the
/// Lagrangian.
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

/// The longest period, in rollouts, in which the policy leaves R₁ although staying maximises the Lagrangian; a period
/// that is not over at the end of the record counts.
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
    // Only the last tenth, for legibility.
    let last_tenth = &record[record.len() - record.len() / 10..];
    let k: Vec<f64> = last_tenth.iter().map(|s| s.rollout as f64 / 1_000.0).collect();
    let of = |value: &dyn Fn(&Snapshot) -> f64| last_tenth.iter().map(value).collect::<Vec<f64>>();
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
        "The last tenth of 400,000 rollouts, every hundredth of them. Averages during training meet the bounds; the \
         policy lags behind its multipliers. Which probabilities switch depends on the seed.",
        3,
        example_1_panels(&Axis::new("rollout k, in thousands"), time, multipliers, policy),
    )
}
