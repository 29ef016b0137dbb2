//! The theorems and lemmas about trajectories, on Example 1, and the queue and maintenance problems.

use acrl::guarantees::{multiplier_bound, optimality_loss};
use acrl::{EpochLength, Multipliers, Rng};
use acrl_exact::assumptions::Assumptions;
use acrl_exact::{ExactPolicy, FiniteTask, SolveOptions, dual_function, most_slack};
use acrl_learn::baselines::finite::fixed_weights::square_grid;

use crate::finite::{EPOCH, ETA, THIRD, bundled_problem, monitoring, optimum, range_squared_bound, run};
use crate::{ClaimMeasurement, ExperimentResult, RunConfig};
use acrl_app::{Context as _, Error};
use acrl_report::number;

/// Theorem 1, and its constant B.
pub(crate) fn theorem_1(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (mut shortfall, mut margin, mut runs) = (f64::NEG_INFINITY, f64::INFINITY, 0);
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    for eta in [0.05, 0.2, 0.5, 1.0] {
        for epoch in [10, 50, 200] {
            // Long enough for λ/(α n) to fall below the threshold.
            let steps = (400.0 * epoch as f64 / eta) as u64;
            let trajectory = run(&task, eta, EpochLength::Fixed(epoch), steps, config)?;
            let bound = THIRD - optimality_loss(eta, range_squared_bound(&task), 0.0);
            shortfall = shortfall.max(trajectory.shortfall(&task));
            margin = margin.min(trajectory.execution.averages.objective() - bound);
            runs += 1;
            config.progress.set(0.4 * f64::from(runs) / 12.0);
        }
    }
    let of_example = number(margin, 3);
    let stochastic = [("queue", 0.05, 50, 2_000_000), ("maintenance", 0.2, 50, 1_000_000)];
    for (i, (name, eta, epoch, steps)) in stochastic.into_iter().enumerate() {
        let (model, specification) = bundled_problem(name)?;
        let task = FiniteTask::new(&model, &specification)?;
        let trajectory = run(&task, eta, EpochLength::Fixed(epoch), steps, config)?;
        let loss = optimality_loss(eta, range_squared_bound(&task), 0.0);
        let bound = optimum(&task)?.lower / task.objective_scale() - loss;
        shortfall = shortfall.max(trajectory.shortfall(&task));
        margin = margin.min(trajectory.execution.averages.objective() / task.objective_scale() - bound);
        config.progress.set(0.7 + 0.3 * i as f64);
    }
    let settings = "Example 1 with eta in {0.05, 0.2, 0.5, 1} and T0 in {10, 50, 200} for 400 T0/eta steps; queue (eta = 0.05, \
                    2,000,000 steps) and maintenance (eta = 0.2, 1,000,000 steps) with T0 = 50";
    let feasible = ClaimMeasurement::new("theorem-1-feasible")
        .sample("14 runs of 4,000 to 2,000,000 steps")
        .with("worst_certified_shortfall", shortfall)
        .description(format!(
            "the largest certified shortfall is {} of the reward's range",
            number(shortfall, 3)
        ))
        .settings(settings.to_owned());
    let optimal = ClaimMeasurement::new("theorem-1-optimal")
        .sample("14 runs of 4,000 to 2,000,000 steps")
        .with("smallest_margin", margin)
        .description(format!(
            "the average of r0 is at least {of_example} above the bound on Example 1, and at least {} of its range \
             on all problems",
            number(margin, 3)
        ))
        .settings(settings.to_owned());
    let componentwise = task
        .reward_vectors()
        .iter()
        .flat_map(|r| r.iter().zip(task.bounds()).map(|(r, c)| (r - c).abs()).collect::<Vec<_>>())
        .fold(0.0, f64::max);
    let constant = ClaimMeasurement::new("constant-b")
        .sample("exact")
        .with("excess_of_the_squared_norm", range_squared_bound(&task) - componentwise.powi(2))
        .description(format!(
            "on Example 1 B = {} bounds every entry, B^2 = {}, and sup |r - c|^2 = {}",
            number(componentwise, 4),
            number(componentwise.powi(2), 4),
            number(range_squared_bound(&task), 4)
        ))
        .settings("exact".to_owned());
    Ok(ExperimentResult::of(vec![feasible, optimal, constant]))
}

/// The lemmas on the size of λ and on complementary slackness, and the subgradient inequality between them.
pub(crate) fn lemmas(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let slack = most_slack(&task, &SolveOptions::default())?.context("Example 1 has requirements")?;
    let bound =
        multiplier_bound(THIRD, slack.values.objective(), slack.lower, ETA, range_squared_bound(&task));
    let grid = square_grid(2, 4.0, 41)?;
    let mut outside = 0;
    for lambda in &grid {
        let inside =
            dual_function(&task, lambda)? - THIRD <= optimality_loss(ETA, range_squared_bound(&task), 0.0);
        outside += usize::from(inside && lambda.sum() > bound + 1e-9);
    }
    let trajectory = run(&task, ETA, EpochLength::Fixed(50), 500_000, config)?;
    let most = trajectory.multipliers.iter().map(Multipliers::sum).fold(0.0, f64::max);
    // One step is η B long in the norm, so η √2 B in the sum.
    let reach = bound + ETA * (2.0 * range_squared_bound(&task)).sqrt();
    let bounded = ClaimMeasurement::new("multipliers-bounded")
        .sample("1,681 multipliers, exact, and 1 run of 500,000 steps")
        .with("points_outside_the_ball", outside as f64)
        .with("smallest_margin", reach - most)
        .description(format!(
            "C = {}: the ball has radius {}, {outside} points of its set are outside; the largest |lambda|_1 of a run is {}, at \
             most {} is allowed",
            number(slack.lower, 4),
            number(bound, 4),
            number(most, 4),
            number(reach, 4)
        ))
        .settings("41 x 41 multipliers on [0, 4]^2; 10,000 epochs with T0 = 50, eta = 0.5".to_owned());
    config.progress.set(0.5);

    let (points, contradict, satisfied) = subgradients(config.seed)?;
    let typo = ClaimMeasurement::new("typo-subgradient")
        .sample("1,000 random multipliers, exact")
        .with("points_that_contradict", f64::from(contradict))
        .with("share_of_points_where_the_other_holds", f64::from(satisfied) / f64::from(points))
        .description(format!("of {points} random multipliers {contradict} contradict <= and {satisfied} satisfy >="))
        .settings(
            "maintenance, each lambda_i uniform up to 3 (lambda*_i + 0.1), exact; on Example 1 both hold everywhere, because all \
             maximisers tie at lambda*"
                .to_owned(),
        );

    let (mut margin, mut largest) = (f64::INFINITY, f64::NEG_INFINITY);
    for c in [0.2, THIRD, 0.4] {
        let (model, specification) = monitoring(c)?;
        let task = FiniteTask::new(&model, &specification)?;
        for eta in [0.1, 0.5] {
            let trajectory = run(&task, eta, EpochLength::Fixed(20), 200_000, config)?;
            // The actual step λ_k − λ_{k+1}, after projection, as in the proof.
            let product = |pair: &[Multipliers]| {
                let entries = pair[0].as_slice().iter().zip(pair[1].as_slice());
                entries.map(|(before, after)| before * (before - after) / eta).sum::<f64>()
            };
            let updates = trajectory.multipliers.windows(2);
            let mean = updates.clone().map(product).sum::<f64>() / updates.len().max(1) as f64;
            largest = largest.max(mean);
            margin = margin.min(optimality_loss(eta, range_squared_bound(&task), 0.0) + 1e-9 - mean);
        }
    }
    let slackness = ClaimMeasurement::new("complementary-slackness")
        .sample("6 runs of 200,000 steps")
        .with("smallest_margin", margin)
        .description(format!(
            "the mean of λᵀ(λ_k − λ_{{k+1}})/η is at most {}, and at least {} below its bound",
            number(largest, 3),
            number(margin, 3)
        ))
        .settings(
            "Example 1 with c in {0.2, 1/3, 0.4}, eta in {0.1, 0.5}, T0 = 20, 10,000 epochs each".to_owned(),
        );
    Ok(ExperimentResult::of(vec![bounded, typo, slackness]))
}

/// Number of random multipliers λ, of those that contradict (λ − λ*)ᵀg ≤ d(λ) − d(λ*), and of those that satisfy
/// (λ − λ*)ᵀg ≥ d(λ) − d(λ*).
fn subgradients(seed: u64) -> Result<(u32, u32, u32), Error> {
    const POINTS: u32 = 1_000;
    let (model, specification) = bundled_problem("maintenance")?;
    let task = FiniteTask::new(&model, &specification)?;
    let lambda_star = optimum(&task)?.multipliers;
    let dual_optimum = dual_function(&task, &lambda_star)?;
    let (mut contradict, mut satisfied) = (0, 0);
    let (mut policy, mut rng) = (ExactPolicy::new(&task), Rng::new(seed));
    for _ in 0..POINTS {
        let around = lambda_star.as_slice().iter().map(|l| 3.0 * (l + 0.1) * rng.uniform());
        let lambda = Multipliers::new(around.collect())?;
        let values = task.values(policy.actions(&lambda)?)?;
        let inner_product: f64 = (0..task.len())
            .map(|i| {
                let offset = lambda.as_slice()[i] - lambda_star.as_slice()[i];
                offset * (values.requirements()[i] - task.bounds()[i])
            })
            .sum();
        let dual_difference = dual_function(&task, &lambda)? - dual_optimum;
        contradict += u32::from(inner_product > dual_difference + 1e-9);
        satisfied += u32::from(inner_product >= dual_difference - 1e-9);
    }
    Ok((POINTS, contradict, satisfied))
}

/// Appendix B: epochs that are too short, and what the bias of an epoch costs.
pub(crate) fn epochs(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    const STEPS: u64 = 200_000;
    // Strictly feasible problems, an epoch that is too short for a switch, and one that is not.
    let cases = [(0.40, 1, 3), (0.46, 10, 20)];
    let (mut short, mut long, mut auto) = (f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY);
    let mut parts = Vec::new();
    for (c, too_short, enough) in cases {
        let (model, specification) = monitoring(c)?;
        let task = FiniteTask::new(&model, &specification)?;
        let run = |epoch: EpochLength| run(&task, ETA, epoch, STEPS, config);
        let [a, b, found] = [
            run(EpochLength::Fixed(too_short))?,
            run(EpochLength::Fixed(enough))?,
            run(EpochLength::Auto(too_short))?,
        ];
        short = short.min(a.shortfall(&task));
        long = long.max(b.shortfall(&task));
        auto = auto.max(found.shortfall(&task));
        parts.push(format!(
            "c = {c}: T0 = {too_short} stalls at {}, T0 = {enough} reaches {}, auto ends at T0 = {}",
            number(a.execution.averages.requirements()[0], 4),
            number(b.execution.averages.requirements()[0], 4),
            found.execution.epoch
        ));
    }
    let lengths = ClaimMeasurement::new("epoch-length")
        .sample("6 runs of 200,000 steps")
        .with("shortfall_with_short_epochs", short)
        .with("shortfall_with_longer_epochs", long)
        .with("shortfall_with_auto", auto)
        .description(parts.join("; "))
        .settings(format!("Example 1, eta = {ETA}, {STEPS} steps each"));
    config.progress.set(0.5);

    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let best = optimum(&task)?;
    let (mut margin, mut ratio, mut betas) = (f64::INFINITY, 0.0f64, Vec::new());
    for epoch in [2u64, 5, 10, 20] {
        let trajectory = run(&task, ETA, EpochLength::Fixed(epoch), 100_000, config)?;
        let found =
            Assumptions::examine(&task, &best, &trajectory.multipliers, ETA, &SolveOptions::default())?;
        let at = |length: u64| found.bias.iter().find(|b| b.epoch == length).context("an epoch that long");
        let beta = at(epoch)?.beta;
        let bound = THIRD - optimality_loss(ETA, range_squared_bound(&task), beta);
        margin = margin.min(trajectory.execution.averages.objective() - bound);
        ratio = ratio.max(at(1_000)?.epsilon / at(10)?.epsilon);
        betas.push(format!("{epoch}: {}", number(beta, 3)));
    }
    let theorem = ClaimMeasurement::new("theorem-3")
        .sample("4 runs of 100,000 steps")
        .with("smallest_margin", margin)
        .with("bias_at_1000_over_bias_at_10", ratio)
        .description(format!(
            "the average of r0 is at least {} above the bound; beta by T0: {}",
            number(margin, 3),
            betas.join(", ")
        ))
        .settings(format!(
            "Example 1, eta = {ETA}, 100,000 steps, beta the worst bias over visited policies and states"
        ));
    Ok(ExperimentResult::of(vec![lengths, theorem]))
}

/// Memory: λ equals α times the accumulated deficit while the projection is inactive.
pub(crate) fn memory(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let (model, specification) = monitoring(THIRD)?;
    let task = FiniteTask::new(&model, &specification)?;
    let trajectory = run(&task, ETA, EpochLength::Fixed(EPOCH), 1_000 * EPOCH, config)?;
    let mut difference = 0.0f64;
    let mut projected = 0;
    let gain = ETA / EPOCH as f64;
    for i in 0..task.len() {
        // From λ₁ on: only the first update may be cut short by the projection.
        let lambda_1 = trajectory.multipliers[1].as_slice()[i];
        let mut deficit = 0.0;
        for k in 1..trajectory.multipliers.len() - 1 {
            deficit += EPOCH as f64 * (THIRD - trajectory.share(k, EPOCH, i as u32 + 1));
            let lambda = trajectory.multipliers[k + 1].as_slice()[i];
            projected += usize::from(lambda <= 0.0);
            difference = difference.max((lambda - lambda_1 - gain * deficit).abs());
        }
    }
    let measured = ClaimMeasurement::new("memory")
        .sample("1 run of 1,000 rollouts of 10 steps")
        .with("largest_difference", difference)
        .with("projections_after_the_first_rollout", projected as f64)
        .description(format!(
            "over 1,000 rollouts multipliers and accumulated deficits differ by at most {}; after the first \
             rollout the projection acts {projected} times",
            number(difference, 2)
        ))
        .settings(format!("c = 1/3, 1,000 rollouts, T0 = {EPOCH}, eta = {ETA}"));
    Ok(ExperimentResult::of(vec![measured]))
}
