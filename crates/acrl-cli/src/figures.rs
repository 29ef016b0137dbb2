//! Figures of the course of runs: averages, multipliers and certificates over time.

use acrl::{Direction, History, MeanMinMax, Requirement, Snapshot, Specification};
use acrl_report::{Axis, Band, Bound, Colour, Figure, Lines, Panel, Plot, Series};

use crate::output::figure as number;

/// The colours of the requirements: the region's own, or one after the other.
pub(crate) fn colours(specification: &Specification) -> Vec<Colour> {
    let requirements = specification.requirements().iter().enumerate();
    requirements.map(|(i, r)| Colour::of(r.reward(), i)).collect()
}

/// A requirement as people write it.
pub(crate) fn relation(requirement: &Requirement) -> String {
    let sign = if requirement.direction() == Direction::AtLeast { '≥' } else { '≤' };
    format!("{} {sign} {}", requirement.name(), number(requirement.bound(), 4))
}

/// Bounds of at most this ratio share a pair of axes.
const ONE_SCALE: f64 = 20.0;

/// Which of these can share a pair of axes, by their bounds: all if those are of one size; else each has its own, with its name as
/// title.
pub(crate) fn groups(named: &[(&str, Option<f64>)]) -> Vec<(String, Vec<usize>)> {
    let sizes = named.iter().filter_map(|(_, bound)| *bound).map(f64::abs);
    let (least, most) = sizes
        .filter(|size| *size > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(least, most), size| (least.min(size), most.max(size)));
    if most <= ONE_SCALE * least {
        return vec![(String::new(), (0..named.len()).collect())];
    }
    named.iter().enumerate().map(|(i, (name, _))| ((*name).to_owned(), vec![i])).collect()
}

fn groups_of(specification: &Specification) -> Vec<(String, Vec<usize>)> {
    let requirements = specification.requirements();
    groups(&requirements.iter().map(|r| (r.name(), Some(r.bound()))).collect::<Vec<_>>())
}

/// An axis over steps.
fn steps() -> Axis {
    Axis { label: "step".to_owned(), ..Axis::default() }
}

/// A range that shows these numbers and some room around them; what jumps about at first does not count.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|v| v.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    let room = 0.08 * (high - low).max(1e-6);
    (low <= high).then_some((low - room, high + room))
}

/// The snapshots after the first twentieth of the steps.
fn settled(course: &History) -> impl Iterator<Item = &Snapshot> {
    course.snapshots().iter().filter(|s| s.steps >= s.total / 20)
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

/// A curve of means over time, with a band from the least to the most of the runs if there are several.
fn spread(
    name: &str,
    colour: Colour,
    course: &History,
    of: impl Fn(&Snapshot) -> Option<MeanMinMax>,
) -> Series {
    let points: Vec<(f64, MeanMinMax)> =
        course.snapshots().iter().filter_map(|s| Some((s.steps as f64, of(s)?))).collect();
    let runs = course.runs();
    let all = |f: fn(&MeanMinMax) -> f64| points.iter().map(|(_, spread)| f(spread)).collect::<Vec<f64>>();
    let band = (runs > 1).then(|| Band {
        name: format!("least and most of {runs} runs"),
        low: all(MeanMinMax::min),
        high: all(MeanMinMax::max),
    });
    Series {
        name: name.to_owned(),
        colour,
        x: points.iter().map(|(x, _)| *x).collect(),
        y: all(MeanMinMax::mean),
        band,
        steps: false,
        dashed: false,
    }
}

/// The averages so far, with what is required of them; the objective in a panel of its own.
pub(crate) fn averages(name: &str, specification: &Specification, course: &History) -> Figure {
    let colours = colours(specification);
    let requirements = specification.requirements();
    let panel = |(title, members): (String, Vec<usize>)| {
        let bounds = members.iter().map(|i| requirements[*i].bound());
        let seen = settled(course).flat_map(|s| members.iter().map(|i| &s.averages[*i]));
        let shown = range(bounds.chain(seen.flat_map(|a| [a.min(), a.max()])));
        let bound = |i: &usize| {
            let r = &requirements[*i];
            Bound { name: relation(r), value: r.bound(), colour: colours[*i] }
        };
        let curve =
            |i: &usize| spread(requirements[*i].name(), colours[*i], course, |s| Some(s.averages[*i]));
        Panel {
            title,
            plot: Plot::Lines(Lines {
                x: steps(),
                y: Axis { range: shown, ..axis("average so far") },
                series: members.iter().map(curve).collect(),
                bounds: members.iter().map(bound).collect(),
            }),
        }
    };
    let mut panels: Vec<Panel> = groups_of(specification).into_iter().map(panel).collect();
    if let Some(objective) = specification.objective() {
        let goal = if objective.sign() > 0.0 { "as much as possible" } else { "as little as possible" };
        panels.push(Panel {
            title: format!("{}: {goal}", objective.reward),
            plot: Plot::Lines(Lines {
                x: steps(),
                y: axis("average so far"),
                series: vec![spread(&objective.reward, Colour::Grey, course, |s| s.objective)],
                bounds: Vec::new(),
            }),
        });
    }
    Figure {
        name: name.to_owned(),
        title: "Averages so far, and what is required".to_owned(),
        caption: "Each curve is the mean over runs of the average of a reward from the first step on; the band reaches \
                  from the worst run to the best. Dashed: the bound."
            .to_owned(),
        columns: panels.len().min(2),
        panels,
    }
}

/// The multipliers: their averages so far, and the last of one run as they were.
pub(crate) fn multipliers(name: &str, specification: &Specification, course: &History) -> Figure {
    let colours = colours(specification);
    let requirements = specification.requirements();
    let series = |i: usize, (x, y): (Vec<f64>, Vec<f64>), steps| Series {
        name: requirements[i].name().to_owned(),
        colour: colours[i],
        x,
        y,
        band: None,
        steps,
        dashed: false,
    };
    let so_far = |i: usize| {
        let mut sum = 0.0;
        let means = course.snapshots().iter().enumerate().map(|(k, s)| {
            sum += s.multipliers[i].mean();
            (s.steps as f64, sum / (k + 1) as f64)
        });
        series(i, means.unzip(), false)
    };
    let last =
        |i: usize| series(i, course.detail().iter().map(|(step, l)| (*step as f64, l[i])).unzip(), true);
    let panel = |title: String, series: Vec<Series>| Panel {
        title,
        plot: Plot::Lines(Lines { x: steps(), y: axis("multiplier λ"), series, bounds: Vec::new() }),
    };
    let all = match course.runs() {
        1 => "average so far".to_owned(),
        runs => format!("average so far, over {runs} runs"),
    };
    let end = "the end of the first run, as it was";
    let titled = |name: &str, title: &str| {
        if name.is_empty() { title.to_owned() } else { format!("{name}: {title}") }
    };
    let mut panels = Vec::new();
    for (name, members) in groups_of(specification) {
        panels.push(panel(titled(&name, &all), members.iter().copied().map(so_far).collect()));
        // A run that was stopped has no end to show.
        if !course.detail().is_empty() {
            panels.push(panel(titled(&name, end), members.into_iter().map(last).collect()));
        }
    }
    Figure {
        name: name.to_owned(),
        title: "Multipliers".to_owned(),
        caption: "A multiplier rises while its requirement is behind and falls while it is ahead: that is how the agent \
                  switches. A multiplier that stays bounded proves that its requirement is met; one that climbs like a \
                  straight line says that it is not. (The averages are taken over the moments that are drawn.)"
            .to_owned(),
        columns: panels.len().min(2),
        panels,
    }
}

/// The certified shortfalls, which go to 0 like 1/n once the multipliers have settled.
pub(crate) fn certificates(
    name: &str,
    specification: &Specification,
    course: &History,
    tolerance: f64,
) -> Figure {
    let colours = colours(specification);
    let requirements = specification.requirements().iter().zip(course.scales()).enumerate();
    let series: Vec<Series> = requirements
        .map(|(i, (r, scale))| {
            let points = course.snapshots().iter().map(|s| (s.steps as f64, s.shortfalls[i] / scale));
            let (x, y) = points.unzip();
            let name = r.name().to_owned();
            Series { name, colour: colours[i], x, y, band: None, steps: false, dashed: false }
        })
        .collect();
    let first = course.snapshots().iter().take_while(|s| s.steps < s.total / 20).count();
    let seen = series.iter().flat_map(|series| series.y[first.min(series.y.len())..].iter().copied());
    let shown = range(seen.chain([0.0, tolerance]));
    Figure {
        name: name.to_owned(),
        title: "The certificate".to_owned(),
        caption: "No run is further behind than this, whatever the policy does: proved from the multipliers alone. Below 0 \
                  it is ahead by that at least. While multipliers stay bounded it goes to 0 like one over the number of steps."
            .to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Lines(Lines {
                x: steps(),
                y: Axis { label: "certified shortfall, share of range".to_owned(), range: shown, log: false },
                series,
                bounds: vec![Bound {
                    name: format!("counts as met: {}", number(tolerance, 3)),
                    value: tolerance,
                    colour: Colour::Grey,
                }],
            }),
        }],
    }
}
