//! Figures of an execution: averages, multipliers and certified shortfalls over time.

use acrl::Specification;

use crate::curves::{Curve, LiveRun};
use crate::{Axis, Band, Bound, Colour, Figure, Panel, Series, bound};

/// The colours of the requirements: that of the region of the same name, or one after the other.
pub fn colours(specification: &Specification) -> Vec<Colour> {
    let requirements = specification.requirements().iter().enumerate();
    requirements.map(|(i, r)| Colour::of(r.reward(), i)).collect()
}

/// Bounds of at most this ratio share a pair of axes.
const ONE_SCALE: f64 = 20.0;

/// The figures of an execution. `prefix` sets their names apart from others on the page; `done` says that the runs are.
pub(crate) fn execution(prefix: &str, run: &LiveRun, done: bool) -> Vec<Figure> {
    let several = |curve: &Curve| curve.points().nth(1).is_some();
    let drawn = |mut curves: Box<dyn Iterator<Item = &Curve> + '_>| done || curves.any(several);
    let requirements = || run.requirements.iter();
    let mut figures = Vec::new();
    if drawn(Box::new(requirements().map(|r| &r.averages).chain([&run.objective]))) {
        figures.push(averages(&format!("{prefix}averages"), run));
    }
    if !run.requirements.is_empty() && drawn(Box::new(requirements().map(|r| &r.multipliers))) {
        figures.push(multipliers(&format!("{prefix}multipliers"), run));
    }
    let known = requirements().all(|r| r.tolerance.is_some());
    if !run.requirements.is_empty() && known && drawn(Box::new(requirements().map(|r| &r.shortfalls))) {
        figures.push(certificate(&format!("{prefix}certificate"), run));
    }
    figures
}

/// Requirements that share a pair of axes: all if their bounds are of one size; else each has its own,
/// with its name as title.
fn groups(run: &LiveRun) -> Vec<(String, Vec<usize>)> {
    let sizes = run.requirements.iter().filter_map(|r| r.bound).map(|(bound, _)| bound.abs());
    let (least, most) = sizes
        .filter(|size| *size > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(least, most), size| (least.min(size), most.max(size)));
    if most <= ONE_SCALE * least {
        return vec![(String::new(), (0..run.requirements.len()).collect())];
    }
    run.requirements.iter().enumerate().map(|(i, r)| (r.name.clone(), vec![i])).collect()
}

/// The colour of a requirement, which is that of its reward on both sides.
fn colour(run: &LiveRun, i: usize) -> Colour {
    let name = &run.requirements[i].name;
    Colour::of(name.strip_suffix(".min").or(name.strip_suffix(".max")).unwrap_or(name), i)
}

/// A range that shows these numbers with some room around them.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|v| v.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    let room = 0.08 * (high - low).max(1e-6);
    (low <= high).then_some((low - room, high + room))
}

/// The range of points after the first twentieth of the run, in which averages jump, and of these levels.
fn settled(run: &LiveRun, points: Vec<(f64, f64)>, levels: Vec<f64>) -> Option<(f64, f64)> {
    let begin = run.execution.map_or(0.0, |execution| execution.total as f64) / 20.0;
    let late: Vec<f64> = points.into_iter().filter(|(x, _)| *x >= begin.floor()).map(|(_, y)| y).collect();
    if late.is_empty() { None } else { range(late.into_iter().chain(levels)) }
}

/// A curve of means, with a band from the least to the most of several runs.
pub(crate) fn curve(name: &str, colour: Colour, curve: &Curve, runs: Option<u64>) -> Series {
    let y = |f: fn(&crate::curves::Point) -> f64| curve.points().map(|point| f(&point)).collect::<Vec<f64>>();
    let band = runs.filter(|runs| *runs > 1).map(|runs| Band {
        name: format!("min–max over {runs} runs"),
        low: y(|point| point.least),
        high: y(|point| point.most),
    });
    Series { band, ..Series::new(name, colour, y(|point| point.x), y(|point| point.mean)) }
}

/// Running averages with their bounds; the objective in a panel of its own.
fn averages(name: &str, run: &LiveRun) -> Figure {
    let panel = |(title, members): (String, Vec<usize>)| {
        let (mut series, mut bounds, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for i in members {
            let (tracked, colour) = (&run.requirements[i], colour(run, i));
            series.push(curve(&tracked.name, colour, &tracked.averages, run.runs));
            bounds.extend(tracked.bound.map(|(value, direction)| {
                Bound::new(format!("{} {}", tracked.name, bound(direction, value, 4)), value, colour)
            }));
            points.extend(tracked.averages.points().flat_map(|p| [(p.x, p.least), (p.x, p.most)]));
        }
        let range = settled(run, points, bounds.iter().map(|bound| bound.value).collect());
        let y = Axis { range, ..Axis::new("average so far") };
        Panel::lines(title, Axis::new("step"), y, series, bounds)
    };
    let mut panels: Vec<Panel> = match run.requirements.is_empty() {
        true => Vec::new(),
        false => groups(run).into_iter().map(panel).collect(),
    };
    if run.objective.latest().is_some() {
        let (name, title) = run.objective_name.clone().unwrap_or(("objective".into(), "objective".into()));
        let series = vec![curve(&name, Colour::Grey, &run.objective, run.runs)];
        panels.push(Panel::lines(title, Axis::new("step"), Axis::new("average so far"), series, Vec::new()));
    }
    Figure::new(
        name,
        "Averages so far, and what is required",
        "Each curve is the mean over runs of the average of a reward from the first step on; the band reaches from \
         the worst run to the best. Dashed: the bound.",
        panels.len().min(2),
        panels,
    )
}

/// The multipliers: their averages so far, and how they move.
fn multipliers(name: &str, run: &LiveRun) -> Figure {
    let average = |i: usize| {
        let (mut sum, curve) = (0.0, &run.requirements[i].multipliers);
        let means = curve.points().enumerate().map(|(k, point)| {
            sum += point.mean;
            (point.x, sum / (k + 1) as f64)
        });
        let (x, y) = means.unzip();
        Series::new(&run.requirements[i].name, colour(run, i), x, y)
    };
    let last = |i: usize| {
        let (x, y) = run.detail.iter().map(|(step, l)| (*step as f64, l[i])).unzip();
        Series { steps: true, ..Series::new(&run.requirements[i].name, colour(run, i), x, y) }
    };
    let current = |i: usize| {
        let tracked = &run.requirements[i];
        let runs = run.runs.filter(|_| !run.epochs);
        Series { steps: run.epochs, ..curve(&tracked.name, colour(run, i), &tracked.multipliers, runs) }
    };
    let over = |what: &str| match run.runs {
        Some(runs) if runs > 1 => format!("{what}, over {runs} runs"),
        _ => what.to_owned(),
    };
    let mut panels = Vec::new();
    for (group, members) in groups(run) {
        let mut panel = |title: String, series: &dyn Fn(usize) -> Series| {
            let title = if group.is_empty() { title } else { format!("{group}: {title}") };
            let series = members.iter().map(|i| series(*i)).collect();
            panels.push(Panel::lines(
                title,
                Axis::new("step"),
                Axis::new("multiplier λ"),
                series,
                Vec::new(),
            ));
        };
        if run.epochs {
            panel("by epoch".to_owned(), &current);
            continue;
        }
        panel(over("average so far"), &average);
        match run.detail.is_empty() {
            true => panel(over("current value"), &current),
            false => panel("the last steps of run 1".to_owned(), &last),
        }
    }
    Figure::new(
        name,
        "Multipliers",
        "A multiplier rises while its requirement is violated and falls while there is margin: that is how the agent \
         switches. A bounded multiplier proves that its requirement is met; one that grows linearly shows that it is \
         not. (Averages are over the points drawn.)",
        panels.len().min(2),
        panels,
    )
}

/// The certified shortfalls, which decay as 1/n once the multipliers are stationary.
fn certificate(name: &str, run: &LiveRun) -> Figure {
    let label = "certified shortfall, in units of the tolerance";
    let series = |(i, tracked): (usize, &crate::curves::Tracked)| {
        let unit = tracked.tolerance.filter(|tolerance| *tolerance > 0.0).unwrap_or(f64::NAN);
        let points = tracked.shortfalls.points().map(|point| (point.x, point.mean / unit));
        let (x, y) = points.unzip();
        Series::new(&tracked.name, colour(run, i), x, y)
    };
    let series: Vec<Series> = run.requirements.iter().enumerate().map(series).collect();
    let points = series.iter().flat_map(|s| s.x.iter().copied().zip(s.y.iter().copied())).collect();
    let y = Axis { range: settled(run, points, vec![0.0, 1.0]), ..Axis::new(label) };
    let met = Bound::new("tolerance".to_owned(), 1.0, Colour::Grey);
    Figure::new(
        name,
        "The certificate",
        "Proven upper bound on the violation in any run, whatever the policy does: it follows from the multipliers \
         alone. Negative values are guaranteed margin. While multipliers stay bounded it decays as 1/n.",
        1,
        vec![Panel::lines("", Axis::new("step"), y, series, vec![met])],
    )
}
