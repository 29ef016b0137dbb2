//! Fig. 7, what primal averaging would have to store, and other readings of the step size.

use acrl::{VecTask, execute_runs};
use acrl_learn::{Baseline, BaselineConfig, LearnerConfig, Method, PolicyGradient, PolicyGradientConfig};
use acrl_report::{Axis, Figure, Panel, Series, number};

use crate::continuous::{STEPS, arena, by_name, coloured, runs_of, settings_text, share_panel, train};
use crate::runs::watch;
use crate::{ClaimMeasurement, ExperimentResult, ProgressShare, RunConfig};
use acrl_app::{Error, ensure};

/// η_λ.
const ETA: f64 = 0.01;

/// Primal-dual on the problem of Section IV.
pub(crate) fn primal_dual(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let arena = arena()?;
    let task = VecTask::new(&arena, arena.specification()?)?;
    let (names, bounds) = (task.specification().names(), task.specification().bounds());
    let settings = PolicyGradientConfig::literal();
    let mut training = baseline(&task, config.seed)?;
    let (mut iterations, mut multipliers, mut online) = (Vec::new(), Vec::new(), Vec::new());
    while training.iteration() < training.iterations() {
        ensure!(!config.progress.stop.requested(), "stopped by Ctrl-C");
        training.iterate(&task)?;
        iterations.push((training.iteration() * settings.rollouts_per_iteration) as f64 / 1_000.0);
        multipliers.push(training.multipliers().to_vec());
        online.push(training.online()[1..].to_vec());
        config.progress.set(0.6 * training.iteration() as f64 / training.iterations() as f64);
    }
    let runs = runs_of(config.quick);
    let watched = watch(&task, &training.policy(), runs, STEPS, config.seed, &config.progress, 0.6)?;
    let last = online.last().cloned().unwrap_or_default();
    let short = bounds.iter().zip(&last).map(|(c, v)| c - v).fold(f64::NEG_INFINITY, f64::max);
    let within: Vec<f64> = bounds.iter().map(|c| c - 0.005).collect();
    let meet = watched.meeting(&within);
    let list = |shares: &[f64]| by_name(&names, shares);
    let measured = ClaimMeasurement::new("fig7-fails")
        .sample_of(config, |quick| {
            format!("1 training of 1,000,000 rollouts; {} runs of 200,000 steps", runs_of(quick))
        })
        .with("shortfall_while_it_trained", short)
        .with("share_of_runs_of_the_last_policy_that_meet_all", meet as f64 / runs as f64)
        .description(format!(
            "averages while it trained: {}; its last policy meets all four within 0.005 in {meet} of {runs} runs, mean {}",
            list(&last),
            list(&watched.mean())
        ))
        .settings(format!(
            "{} rollouts of {} steps in one trajectory, kernels on s one unit apart, sigma = {}, eta_theta = {} on the total \
             return (0.001 on the average), eta_lambda = {ETA}; {runs} runs of {STEPS} steps",
            settings.rollouts(),
            settings.n_steps,
            number(settings.std, 3),
            number(settings.learning_rate, 3)
        ));

    let mut means: Vec<Vec<f64>> = Vec::new();
    for (n, lambda) in multipliers.iter().enumerate() {
        let before = means.last().cloned().unwrap_or_else(|| vec![0.0; lambda.len()]);
        let share = 1.0 / (n + 1) as f64;
        means.push(before.iter().zip(lambda).map(|(mean, l)| mean + share * (l - mean)).collect());
    }
    let column = |rows: &[Vec<f64>], i: usize| rows.iter().map(|row| row[i]).collect::<Vec<_>>();
    let mut curves = coloured(&names, &iterations, "", |i| column(&multipliers, i));
    let dashed = coloured(&names, &iterations, ", average", |i| column(&means, i));
    curves.extend(dashed.into_iter().map(|series| Series { dashed: true, ..series }));
    let x = Axis::new("iterations, in thousands");
    let shares = coloured(&names, &iterations, "", |i| column(&online, i));
    let figure = Figure::new(
        "fig7",
        "Primal-dual on the continuous problem",
        "One training of a policy that ignores the multipliers, every thousandth iteration. Dashed: multipliers \
         averaged over time, and what is required.",
        2,
        vec![
            Panel::lines("Multipliers", x.clone(), Axis::new("multiplier"), curves, Vec::new()),
            share_panel(x, shares, &names, &bounds),
        ],
    );
    Ok(ExperimentResult { figures: vec![figure], claims: vec![measured] })
}

fn baseline(task: &VecTask<'_>, seed: u64) -> Result<Baseline, Error> {
    let learner = LearnerConfig::PolicyGradient(PolicyGradientConfig::literal());
    let settings = BaselineConfig::new(Method::PrimalDual).with_lambda_lr(ETA);
    Ok(Baseline::new(task, settings, learner, seed)?)
}

/// The numbers that are to be stored.
pub(crate) fn storage(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let arena = arena()?;
    let task = VecTask::new(&arena, arena.specification()?)?;
    let settings = PolicyGradientConfig::literal();
    let literal = PolicyGradient::new(&task, settings, config.seed)?.policy().theta().len();
    let normalised =
        PolicyGradient::new(&task, PolicyGradientConfig::default(), config.seed)?.policy().theta().len();
    let one = baseline(&task, config.seed)?.policy().numbers();
    let sequence = one as f64 * settings.rollouts() as f64;
    let measured = ClaimMeasurement::new("storage")
        .sample("exact")
        .with("stored_numbers_relative_to_a_crl", sequence / literal as f64)
        .with("numbers_of_one_policy_of_lambda", literal as f64)
        .with("numbers_of_the_sequence", sequence)
        .description(format!(
            "A-CRL stores {literal} numbers ({normalised} with normalised weights) and 4 multipliers; {} policies of {one} numbers \
             each are {sequence}",
            settings.rollouts()
        ))
        .settings("the kernels of Section IV; a policy that does not see lambda after each of 1,000,000 iterations".to_owned());
    Ok(ExperimentResult::of(vec![measured]))
}

/// η_θ = .001 on the total return, and a tenth of it.
pub(crate) fn eta_theta(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    const READINGS: [f64; 2] = [1e-3, 1e-4];
    let arena = arena()?;
    let task = VecTask::new(&arena, arena.specification()?)?;
    let (names, bounds) = (task.specification().names(), task.specification().bounds());
    let literal = PolicyGradientConfig::literal();
    let (readings, runs, total_steps) =
        if config.quick { (1, 5, 6_000_000) } else { (2, 20, literal.total_steps) };
    let reading = |i: usize| PolicyGradientConfig { learning_rate: READINGS[i], total_steps, ..literal };
    let tried = execute_runs(readings, |i| -> Result<_, Error> {
        let settings = reading(i);
        let hidden = ProgressShare::hidden(config.progress.stop);
        let progress = if i == 0 { &config.progress } else { &hidden };
        let policy = train(&task, settings, config.seed, progress, 0.7)?;
        let watched = watch(&task, &policy, runs, STEPS, config.seed, progress, 0.7)?;
        Ok((settings, watched.meeting(&bounds), watched.mean()))
    })?;
    let mut parts = Vec::new();
    for (settings, meet, mean) in &tried {
        parts.push(format!(
            "{} on the total return: {meet} of {runs} runs meet all, mean {}",
            number(settings.learning_rate, 2),
            by_name(&names, mean)
        ));
    }
    let first = tried.first().map_or(0, |(_, meet, _)| *meet);
    let settings = reading(0);
    let measured = ClaimMeasurement::new("eta-theta")
        .sample_of(config, |quick| {
            let trainings =
                if quick { "1 training of 6,000,000 steps" } else { "2 trainings of 20,000,000 steps" };
            format!("{trainings}; {} runs of 200,000 steps each", if quick { 5 } else { 20 })
        })
        .with("share_of_runs_that_meet_all", first as f64 / runs as f64)
        .description(parts.join("; "))
        .settings(format!(
            "{}; {runs} runs of {STEPS} steps, T0 = 1, eta_lambda = {ETA}",
            settings_text(&settings)
        ));
    Ok(ExperimentResult::of(vec![measured]))
}
