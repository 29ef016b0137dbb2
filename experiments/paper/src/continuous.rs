//! Figs. 5 and 6: Section IV, trained and executed as the paper has it.

use acrl::{BatchMatrix, MeanMinMax, Rng, VecPolicy as _, VecTask};
use acrl_envs::{Planar, PlanarParameters};
use acrl_learn::{PolicyGradient, PolicyGradientConfig, RbfPolicy};
use acrl_report::{
    Area, Arrow, Axis, Band, Bound, Colour, Field, Figure, Heat, Panel, Plot, Region, Series, Slider, number,
};

use crate::example_1::curve;
use crate::runs::{CELLS, LAST, Watched, watch};
use crate::{ClaimMeasurement, ExperimentResult, ProgressShare, RunConfig};
use acrl_app::{Error, ensure};

/// Steps of each run.
pub(crate) const STEPS: u64 = 200_000;
/// Runs of Figs. 6 and 7.
pub(crate) fn runs_of(quick: bool) -> usize {
    if quick { 20 } else { 100 }
}

/// What is measured over all runs.
fn sample(quick: bool) -> String {
    format!("1 training; {} runs of 200,000 steps", runs_of(quick))
}

/// The problem of Section IV.
pub(crate) fn arena() -> Result<Planar, Error> {
    Ok(Planar::new(PlanarParameters::default())?)
}

/// The paper's policy gradient, to the end or to Ctrl-C; `part` of `progress` is its own.
pub(crate) fn train(
    task: &VecTask<'_>,
    settings: PolicyGradientConfig,
    seed: u64,
    progress: &ProgressShare<'_>,
    part: f64,
) -> Result<RbfPolicy, Error> {
    let mut learner = PolicyGradient::new(task, settings, seed)?;
    while learner.iteration() < learner.iterations() {
        ensure!(!progress.stop.requested(), "stopped by Ctrl-C");
        learner.iterate(task)?;
        progress.set(part * learner.iteration() as f64 / learner.iterations() as f64);
    }
    Ok(learner.policy())
}

/// The learner's settings in words.
pub(crate) fn settings_text(settings: &PolicyGradientConfig) -> String {
    format!(
        "{} rollouts of {} steps, kernels on (s, lambda) in [0, 10]^2 x [0, 5]^4 one unit apart, sigma = {}, eta_theta = {} on the \
         total return",
        settings.rollouts(),
        settings.n_steps,
        number(settings.std, 3),
        number(settings.learning_rate, 3)
    )
}

/// The two figures and their claims.
pub(crate) fn a_crl(config: &RunConfig<'_>) -> Result<ExperimentResult, Error> {
    let arena = arena()?;
    let task = VecTask::new(&arena, arena.specification()?)?;
    let settings = PolicyGradientConfig::literal();
    let policy = train(&task, settings, config.seed, &config.progress, 0.4)?;
    let runs = runs_of(config.quick);
    let watched = watch(&task, &policy, runs, STEPS, config.seed, &config.progress, 0.4)?;
    let training = settings_text(&settings);
    let executing =
        format!("{training} (0.001 on the average); {runs} runs of {STEPS} steps, T0 = 1, eta_lambda = 0.01");
    let names = task.specification().names();
    let bounds = task.specification().bounds();

    let one = settle(&task, &policy, &[5.0, 0.0, 0.0, 0.0], config.seed)?;
    let inside = settle(&task, &policy, &[4.0, 1.0, 1.0, 1.0], config.seed)?;
    let two = settle(&task, &policy, &[0.0, 5.0, 5.0, 0.0], config.seed)?;
    let (towards, beside) = approach(&arena, &task, &policy, &[5.0, 0.0, 0.0, 0.0], 0)?;
    let list = |shares: &[f64]| by_name(&names, shares);
    let one_region = ClaimMeasurement::new("fig5-one")
        .sample("1 training; 400 starts, 600 steps each")
        .with("share_of_time_in_red", one[0])
        .with("share_of_arrows_towards_red", towards)
        .with("distance_from_red_at_rest", beside)
        .with("share_of_time_in_red_at_4_1_1_1", inside[0])
        .description(format!(
            "shares of the time at lambda = [5, 0, 0, 0]: {}; {} of the arrows point towards red, and following them ends {} from \
             it on average; at [4, 1, 1, 1] the share of red is {}",
            list(&one),
            number(towards, 3),
            number(beside, 3),
            number(inside[0], 3)
        ))
        .settings(training.clone());
    let two_regions = ClaimMeasurement::new("fig5-two")
        .sample("1 training; 400 starts, 600 steps each")
        .with("share_of_time_in_blue_or_green", two[1] + two[2])
        .description(format!("shares of the time at lambda = [0, 5, 5, 0]: {}", list(&two)))
        .settings(training);
    let mean = watched.mean();
    let worst = watched.worst();
    let demand = ClaimMeasurement::new("fig5-demand")
        .sample_of(config, sample)
        .with("pairs_in_the_wrong_order", wrong_pairs(&bounds, &mean))
        .description(format!("mean shares of the time: {}", list(&mean)))
        .settings(executing.clone());
    let outside = 1.0 - mean.iter().sum::<f64>();
    let outside = ClaimMeasurement::new("fig5-outside")
        .sample_of(config, sample)
        .with("share_of_time_outside", outside)
        .description(format!("{} of the time is spent outside the regions", number(outside, 3)))
        .settings(executing.clone());

    let meet = watched.meeting(&bounds);
    let all_runs = ClaimMeasurement::new("fig6-all-runs")
        .sample_of(config, sample)
        .with("share_of_runs_that_meet_all", meet as f64 / runs as f64)
        .with("runs", runs as f64)
        .description(format!("{meet} of {runs} runs meet all four; the worst of the runs: {}", list(&worst)))
        .settings(executing.clone());
    let ratio = mean.iter().zip(&bounds).map(|(v, c)| v / c).fold(f64::INFINITY, f64::min);
    let means = ClaimMeasurement::new("fig6-mean")
        .sample_of(config, sample)
        .with("smallest_ratio_to_the_bound", ratio)
        .description(format!("mean shares of the time: {}; required: {}", list(&mean), list(&bounds)))
        .settings(executing.clone());
    let switching = ClaimMeasurement::new("fig6-switching")
        .sample("1 training; 1 run of 200,000 steps")
        .with("changes_of_the_largest_multiplier", watched.first.changes as f64)
        .description(format!("the largest multiplier changes {} times", watched.first.changes))
        .settings(executing.clone());
    let multipliers = watched.first.means.last().cloned().unwrap_or_default();
    let order = ClaimMeasurement::new("fig6-order")
        .sample("1 training; 1 run of 200,000 steps")
        .with("pairs_in_the_wrong_order", wrong_pairs(&bounds, &multipliers))
        .description(format!("time-average multipliers of the first run: {}", list(&multipliers)))
        .settings(executing);
    let pictures = vec![
        policy_figure(&arena, &task, &policy, &watched, runs)?,
        curves_figure(&names, &bounds, &watched, runs),
    ];
    let claims = vec![one_region, two_regions, demand, outside, all_runs, means, switching, order];
    Ok(ExperimentResult { figures: pictures, claims })
}

/// Values with their names.
pub(crate) fn by_name(names: &[String], values: &[f64]) -> String {
    let pairs = names.iter().zip(values).map(|(name, value)| format!("{name} {}", number(*value, 3)));
    pairs.collect::<Vec<_>>().join(", ")
}

/// Pairs i, j with c_i > c_j and not x_i > x_j.
fn wrong_pairs(bounds: &[f64], x: &[f64]) -> f64 {
    let pairs = (0..bounds.len()).flat_map(|i| (0..bounds.len()).map(move |j| (i, j)));
    pairs.filter(|&(i, j)| bounds[i] > bounds[j] && x[i] <= x[j]).count() as f64
}

/// Starts along a side.
const STARTS: usize = 20;

/// The middles of STARTS × STARTS cells.
fn starts() -> BatchMatrix {
    let mut rows = BatchMatrix::zeros(2, STARTS * STARTS);
    for env in 0..STARTS * STARTS {
        let middle = |i: usize| 10.0 * (i as f64 + 0.5) / STARTS as f64;
        rows.set_column(env, &[middle(env % STARTS), middle(env / STARTS)]);
    }
    rows
}

/// (0, λ) in every environment.
fn weights(lambda: &[f64], num_envs: usize) -> BatchMatrix {
    let mut rows = BatchMatrix::zeros(lambda.len() + 1, num_envs);
    for (i, l) in lambda.iter().enumerate() {
        rows.row_mut(i + 1).fill(*l);
    }
    rows
}

/// Shares of the time in each region from starts all over the box, with λ held: after 200 steps, for 400.
fn settle(task: &VecTask<'_>, policy: &RbfPolicy, lambda: &[f64], seed: u64) -> Result<Vec<f64>, Error> {
    let (mut policy, mut state) = (policy.clone(), starts());
    let num_envs = state.num_envs();
    let weights = weights(lambda, num_envs);
    let mut rngs: Vec<Rng> = (0..num_envs).map(|env| Rng::stream(seed, env as u64)).collect();
    let mut actions = BatchMatrix::zeros(2, num_envs);
    let mut rewards = BatchMatrix::zeros(lambda.len(), num_envs);
    let mut sums = vec![0.0; lambda.len()];
    for t in 0..600 {
        policy.act(&state, &weights, &mut actions, &mut rngs)?;
        task.environment().step(&mut state, &actions, &mut rewards, &mut rngs)?;
        if t >= 200 {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum += rewards.row(i).iter().sum::<f64>();
            }
        }
    }
    Ok(sums.into_iter().map(|sum| sum / (400 * num_envs) as f64).collect())
}

/// The share of the starts from which the mean action leads towards a region, and how far from it, on average, mean actions
/// lead in 600 steps.
fn approach(
    arena: &Planar,
    task: &VecTask<'_>,
    policy: &RbfPolicy,
    lambda: &[f64],
    region: usize,
) -> Result<(f64, f64), Error> {
    let (mut policy, mut state) = (policy.clone().sampling(false), starts());
    let shape = &arena.parameters().regions[region].shape;
    let (middle, [west_east, south_north]) = (shape.middle(), shape.bounds());
    let num_envs = state.num_envs();
    let weights = weights(lambda, num_envs);
    let (mut rngs, mut towards) = (vec![Rng::new(0); num_envs], 0);
    let (mut actions, mut rewards) =
        (BatchMatrix::zeros(2, num_envs), BatchMatrix::zeros(lambda.len(), num_envs));
    for t in 0..600 {
        policy.act(&state, &weights, &mut actions, &mut rngs)?;
        if t == 0 {
            let lead = |env: usize| {
                (0..2).map(|i| actions.at(i, env) * (middle[i] - state.at(i, env))).sum::<f64>() > 0.0
            };
            towards = (0..num_envs).filter(|&env| lead(env)).count();
        }
        task.environment().step(&mut state, &actions, &mut rewards, &mut rngs)?;
    }
    let beyond = |x: f64, [low, high]: [f64; 2]| (low - x).max(x - high).max(0.0);
    let distance =
        |env: usize| beyond(state.at(0, env), west_east).hypot(beyond(state.at(1, env), south_north));
    let mean = (0..num_envs).map(distance).sum::<f64>() / num_envs as f64;
    Ok((towards as f64 / num_envs as f64, mean))
}

/// The regions as they are drawn.
fn regions(arena: &Planar) -> Vec<Region> {
    let region = |(i, region): (usize, &acrl_envs::Region)| {
        let [[west, east], [south, north]] = region.shape.bounds();
        Region {
            name: region.name.clone(),
            colour: Colour::of(&region.name, i),
            outline: vec![(west, south), (east, south), (east, north), (west, north)],
        }
    };
    arena.parameters().regions.iter().enumerate().map(region).collect()
}

fn policy_figure(
    arena: &Planar,
    task: &VecTask<'_>,
    policy: &RbfPolicy,
    watched: &Watched,
    runs: usize,
) -> Result<Figure, Error> {
    let area = Area { x: (0.0, 10.0), y: (0.0, 10.0) };
    let names = task.specification().names();
    let field = |lambda: &[f64]| -> Result<Panel, Error> {
        let at = starts();
        let (mut actions, num_envs) = (BatchMatrix::zeros(2, at.num_envs()), at.num_envs());
        let mut rngs = vec![Rng::new(0); num_envs];
        policy.clone().sampling(false).act(&at, &weights(lambda, num_envs), &mut actions, &mut rngs)?;
        let arrow = |env: usize| Arrow {
            x: at.at(0, env),
            y: at.at(1, env),
            dx: actions.at(0, env),
            dy: actions.at(1, env),
        };
        let slider = |(i, name): (usize, &String)| Slider {
            name: name.clone(),
            colour: Colour::of(name, i),
            value: lambda[i],
            most: 5.0,
        };
        let list: Vec<String> = lambda.iter().map(|l| number(*l, 2)).collect();
        let field = Field {
            area,
            regions: regions(arena),
            arrows: (0..num_envs).map(arrow).collect(),
            sliders: names.iter().enumerate().map(slider).collect(),
            model: None,
        };
        Ok(Panel::new(format!("Policy for λ = [{}]", list.join(", ")), Plot::Field(field)))
    };
    let total = watched.counts.iter().sum::<u64>().max(1) as f64;
    let heat = Heat {
        area,
        regions: regions(arena),
        columns: CELLS,
        shares: watched.counts.iter().map(|n| *n as f64 / total).collect(),
    };
    let caption = format!(
        "After 1,000,000 training iterations. Arrows are the mean actions; the occupation measure is that of {runs} runs with \
         dual dynamics."
    );
    let panels = vec![
        field(&[5.0, 0.0, 0.0, 0.0])?,
        field(&[0.0, 5.0, 5.0, 0.0])?,
        Panel::new("Occupation measure", Plot::Heat(heat)),
    ];
    Ok(Figure::new("fig5", "The policy for two multipliers, and where the agent is", &caption, 3, panels))
}

/// One curve for each region, in its colour.
pub(crate) fn coloured(
    names: &[String],
    x: &[f64],
    what: &str,
    y: impl Fn(usize) -> Vec<f64>,
) -> Vec<Series> {
    let one = |(i, name): (usize, &String)| {
        let label = if what.is_empty() { name.clone() } else { format!("{name}{what}") };
        curve(&label, Colour::of(name, i), x, y(i))
    };
    names.iter().enumerate().map(one).collect()
}

/// Shares of the time so far, with the required ones.
pub(crate) fn share_panel(x: Axis, series: Vec<Series>, names: &[String], bounds: &[f64]) -> Panel {
    let required = names
        .iter()
        .zip(bounds)
        .enumerate()
        .map(|(i, (name, c))| Bound::new(format!("{name} ≥ {}", number(*c, 3)), *c, Colour::of(name, i)));
    Panel::lines("Share of the time in each region", x, Axis::new("share so far"), series, required.collect())
}

fn curves_figure(names: &[String], bounds: &[f64], watched: &Watched, runs: usize) -> Figure {
    let times = watched.history.snapshots().iter().map(|snapshot| snapshot.steps as f64 / 1_000.0);
    let thousands: Vec<f64> = times.collect();
    let late: Vec<f64> = watched.first.late.iter().map(|(t, _)| t / 1_000.0).collect();
    let time = || Axis::new("steps, in thousands");
    let multipliers =
        |title: &str, series| Panel::lines(title, time(), Axis::new("multiplier"), series, Vec::new());
    let mut satisfaction = coloured(names, &thousands, "", |i| watched.over_runs(i, MeanMinMax::mean));
    for (i, series) in satisfaction.iter_mut().enumerate() {
        series.band = Some(Band {
            name: format!("min–max over {runs} runs"),
            low: watched.over_runs(i, MeanMinMax::min),
            high: watched.over_runs(i, MeanMinMax::max),
        });
    }
    let mut shares = share_panel(time(), satisfaction, names, bounds);
    if let Plot::Lines(lines) = &mut shares.plot {
        lines.y.range = Some((0.0, 0.5));
    }
    let means = coloured(names, &thousands, "", |i| watched.first.means.iter().map(|l| l[i]).collect());
    let last = coloured(names, &late, "", |i| watched.first.late.iter().map(|(_, l)| l[i]).collect());
    let caption = format!(
        "Multipliers of one run, averaged over time and in its last {LAST} steps; shares of the time in each region, mean and \
         range of {runs} runs. Dashed: what is required."
    );
    let panels = vec![
        multipliers("Time-average multipliers", means),
        multipliers("Multipliers, last 10,000 steps", last),
        shares,
    ];
    Figure::new("fig6", "A-CRL on the continuous problem", &caption, 3, panels)
}
