//! Figures of the course of runs: averages, multipliers and certificates over time.

use acrl::{Course, Direction, Requirement, Snapshot, Specification, Spread};
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

/// An axis over steps.
fn steps() -> Axis {
    Axis { label: "step".to_owned(), ..Axis::default() }
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

/// A curve of means over time, with a band from the least to the most of the runs if there are several.
fn spread(name: &str, colour: Colour, course: &Course, of: impl Fn(&Snapshot) -> Option<Spread>) -> Series {
    let points: Vec<(f64, Spread)> =
        course.snapshots().iter().filter_map(|s| Some((s.steps as f64, of(s)?))).collect();
    let runs = course.arrivals().len();
    let all = |f: fn(&Spread) -> f64| points.iter().map(|(_, spread)| f(spread)).collect::<Vec<f64>>();
    let band = (runs > 1).then(|| Band {
        name: format!("least and most of {runs} runs"),
        low: all(Spread::least),
        high: all(Spread::most),
    });
    Series {
        name: name.to_owned(),
        colour,
        x: points.iter().map(|(x, _)| *x).collect(),
        y: all(Spread::mean),
        band,
        steps: false,
        dashed: false,
    }
}

/// The averages so far, with what is required of them; the objective in a panel of its own.
pub(crate) fn averages(name: &str, specification: &Specification, course: &Course) -> Figure {
    let colours = colours(specification);
    let requirements = specification.requirements();
    let mut panels = vec![Panel {
        title: String::new(),
        plot: Plot::Lines(Lines {
            x: steps(),
            y: axis("average so far"),
            series: (0..requirements.len())
                .map(|i| spread(requirements[i].name(), colours[i], course, |s| Some(s.averages[i])))
                .collect(),
            bounds: requirements
                .iter()
                .zip(&colours)
                .map(|(r, colour)| Bound { name: relation(r), value: r.bound(), colour: *colour })
                .collect(),
        }),
    }];
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

/// The multipliers: over all runs, and as one run has them.
pub(crate) fn multipliers(name: &str, specification: &Specification, course: &Course) -> Figure {
    let colours = colours(specification);
    let requirements = specification.requirements();
    let x: Vec<f64> = course.snapshots().iter().map(|s| s.steps as f64).collect();
    let one = |i: usize| Series {
        name: requirements[i].name().to_owned(),
        colour: colours[i],
        x: x.clone(),
        y: course.snapshots().iter().map(|s| s.first[i]).collect(),
        band: None,
        steps: true,
        dashed: false,
    };
    let all = |i: usize| spread(requirements[i].name(), colours[i], course, |s| Some(s.multipliers[i]));
    let panel = |title: &str, series: Vec<Series>| Panel {
        title: title.to_owned(),
        plot: Plot::Lines(Lines { x: steps(), y: axis("multiplier λ"), series, bounds: Vec::new() }),
    };
    let indices = 0..requirements.len();
    let mut panels = vec![panel("the first run", indices.clone().map(one).collect())];
    if course.arrivals().len() > 1 {
        panels.insert(0, panel("all runs", indices.map(all).collect()));
    }
    Figure {
        name: name.to_owned(),
        title: "Multipliers".to_owned(),
        caption: "A multiplier rises while its requirement is behind and falls while it is ahead. That it does not grow \
                  for ever is the proof that the requirement is met."
            .to_owned(),
        columns: panels.len(),
        panels,
    }
}

/// The certified shortfalls, which go down like 1/n once the multipliers have settled.
pub(crate) fn certificates(
    name: &str,
    specification: &Specification,
    course: &Course,
    tolerance: f64,
) -> Figure {
    let colours = colours(specification);
    let requirements = specification.requirements().iter().zip(course.scales()).enumerate();
    let series = requirements.map(|(i, (r, scale))| {
        let points = course.snapshots().iter().map(|s| (s.steps as f64, s.shortfalls[i] / scale));
        // There is no logarithm of nothing missing.
        let points: Vec<(f64, f64)> = points.map(|(x, y)| (x, if y > 0.0 { y } else { f64::NAN })).collect();
        Series {
            name: r.name().to_owned(),
            colour: colours[i],
            x: points.iter().map(|(x, _)| *x).collect(),
            y: points.iter().map(|(_, y)| *y).collect(),
            band: None,
            steps: false,
            dashed: false,
        }
    });
    Figure {
        name: name.to_owned(),
        title: "The certificate".to_owned(),
        caption: "No run is further behind than this, whatever the policy does: proved from the multipliers alone. \
                  Where there is no curve, nothing is missing."
            .to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Lines(Lines {
                x: steps(),
                y: Axis { label: "certified shortfall, share of range".to_owned(), range: None, log: true },
                series: series.collect(),
                bounds: vec![Bound {
                    name: format!("counts as met: {}", number(tolerance, 3)),
                    value: tolerance,
                    colour: Colour::Grey,
                }],
            }),
        }],
    }
}
