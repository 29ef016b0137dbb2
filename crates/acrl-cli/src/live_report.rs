//! The report on a run that may still be going on.

use acrl::Direction;
use acrl_report::{
    Axis, Band, Block, Bound, Cell, Colour, Figure, Lines, Panel, Plot, Report, Series, Table, Tone,
};

use crate::figures;
use crate::live::{Curve, Live, Progress, Tracked};
use crate::output::figure;

/// What the figures of a training are called that belong to a requirement.
const MULTIPLIER: &str = "multiplier.";

/// The report on what is known so far. `done`: nothing more is to come.
pub(crate) fn report(live: &Live, done: bool, title: &str, command: String) -> Report {
    let mut blocks = Vec::new();
    if !live.requirements.is_empty() {
        blocks.push(Block::Table(table(live, done)));
        blocks.extend(execution(live).into_iter().map(Block::Figure));
    }
    blocks.extend(training(live).into_iter().map(Block::Figure));
    let met: Option<Vec<bool>> = live.requirements.iter().map(Tracked::met).collect();
    let good = met.filter(|met| done && !met.is_empty()).map(|met| met.into_iter().all(|met| met));
    Report { title: title.to_owned(), lead: lead(live, done), good, blocks, facts: Vec::new(), command }
}

/// How far it has come, in a sentence.
fn lead(live: &Live, done: bool) -> String {
    let far = |what: &str, Progress { done, of }: Progress| match (done, of) {
        (done, of) if done >= of => format!("{} {what}s", grouped(done)),
        (done, of) => format!("{what} {} of {}", grouped(done), grouped(of)),
    };
    let mut parts = Vec::new();
    parts.extend(live.training.map(|training| far("iteration", training)));
    parts.extend(live.execution.map(|execution| far("step", execution)));
    let met = counted(live, Tracked::met).map(|n| (n, "requirements met"));
    let strict = counted(live, Tracked::strict).map(|n| (n, "averages within their bounds"));
    if let Some((n, what)) = met.or(strict) {
        let so_far = if done { "" } else { " so far" };
        parts.push(format!("{n} of {} {what}{so_far}", live.requirements.len()));
    }
    let to_the_end = live.execution.is_some_and(|execution| execution.done >= execution.of);
    let complete = (live.finished && to_the_end) || live.trained();
    let parts = parts.join(", ");
    match (parts.is_empty(), done, complete) {
        (true, false, _) => "Waiting for the first event.".to_owned(),
        (true, true, _) => "It ended before its first event.".to_owned(),
        (_, true, true) => format!("Finished: {parts}."),
        (_, true, false) => format!("Stopped: {parts}."),
        (_, false, _) => format!("{}{}.", parts[..1].to_uppercase(), &parts[1..]),
    }
}

/// Of how many requirements this is true; `None` if it is known of none.
fn counted(live: &Live, judge: fn(&Tracked) -> Option<bool>) -> Option<usize> {
    let judged: Vec<bool> = live.requirements.iter().filter_map(judge).collect();
    (!judged.is_empty()).then(|| judged.iter().filter(|good| **good).count())
}

/// Where each requirement stands.
fn table(live: &Live, done: bool) -> Table {
    let several = live.runs.is_some_and(|runs| runs > 1);
    let mut header = vec!["requirement", "bound", "average"];
    header.extend(several.then_some("worst run"));
    header.extend(["certified within", "multiplier"]);
    let row = |tracked: &Tracked| {
        let plain = |text: String| Cell { text, tone: Tone::Plain };
        let number = |y: Option<f64>| y.filter(|y| y.is_finite()).map_or("–".to_owned(), |y| figure(y, 4));
        let average = tracked.averages.latest();
        let least = tracked.bound.is_none_or(|(_, direction)| direction == Direction::AtLeast);
        let tone = match tracked.met() {
            Some(true) => Tone::Good,
            // What is not met yet may be so in a while.
            Some(false) if done => Tone::Bad,
            _ => Tone::Plain,
        };
        let mut row =
            vec![plain(tracked.name.clone()), plain(tracked.bound.map_or("–".to_owned(), relation))];
        row.push(plain(number(average.map(|a| a.mean))));
        if several {
            row.push(plain(number(average.map(|a| if least { a.least } else { a.most }))));
        }
        row.push(Cell { text: number(tracked.shortfalls.latest().map(|s| s.mean.max(0.0))), tone });
        row.push(plain(number(tracked.multipliers.latest().map(|m| m.mean))));
        row
    };
    Table {
        header: header.into_iter().map(str::to_owned).collect(),
        rows: live.requirements.iter().map(row).collect(),
        note: match live.runs {
            Some(runs) if several => format!("Means of {} runs.", grouped(runs)),
            _ => String::new(),
        },
    }
}

/// Averages, multipliers and certified shortfalls over time.
fn execution(live: &Live) -> Vec<Figure> {
    let band = match live.runs {
        Some(runs) if runs > 1 => Some(format!("least and most of {} runs", grouped(runs))),
        _ => None,
    };
    let one = |i: usize, curve: &Curve, steps: bool, band: Option<&str>| {
        let tracked = &live.requirements[i];
        series(&tracked.name, Colour::of(&tracked.name, i), curve, steps, band)
    };
    let draw = |name: &str, title: &str, caption: &str, label: &str, log: bool, pick: &Pick<'_>| {
        let panels = groups(live)
            .into_iter()
            .map(|(title, members)| {
                let (series, bounds) = members.into_iter().map(pick).unzip();
                let x = axis("step", false);
                Panel {
                    title,
                    plot: Plot::Lines(Lines { x, y: axis(label, log), series, bounds: flat(bounds) }),
                }
            })
            .collect();
        panels_of(name, title, caption, panels)
    };
    let bound = |i: usize, value: f64, text: String| Bound {
        name: text,
        value,
        colour: Colour::of(&live.requirements[i].name, i),
    };
    let mut figures = Vec::new();
    let several =
        |pick: fn(&Tracked) -> &Curve| live.requirements.iter().any(|t| pick(t).points().nth(1).is_some());
    if several(|tracked| &tracked.averages) {
        figures.push(draw(
            "averages",
            "Averages so far",
            "Each requirement's average reward since the beginning, and the level that it should keep to (dashed).",
            "average",
            false,
            &|i| {
                let tracked = &live.requirements[i];
                let level = tracked.bound.map(|b| bound(i, b.0, format!("{} {}", tracked.name, relation(b))));
                (one(i, &tracked.averages, false, band.as_deref()), level)
            },
        ));
    }
    if several(|tracked| &tracked.multipliers) {
        let band = band.as_deref().filter(|_| !live.epochs);
        figures.push(draw(
            "multipliers",
            "Multipliers",
            "What the agent thinks each requirement is worth: it grows while the requirement is behind and shrinks while \
             it is ahead.",
            "multiplier",
            false,
            &|i| (one(i, &live.requirements[i].multipliers, live.epochs, band), None),
        ));
    }
    let one_tolerance = groups(live).len() == 1
        && live.requirements.windows(2).all(|pair| pair[0].tolerance == pair[1].tolerance);
    let positive = |tracked: &Tracked| tracked.shortfalls.points().filter(|p| p.mean > 0.0).count() > 1;
    if live.requirements.iter().any(positive) {
        figures.push(draw(
            "shortfalls",
            "RequirementCertificate shortfalls",
            "By how much the average of the worst run can be behind its bound at most: proved, whatever the agent does. \
             Met: below the dashed line.",
            "certified shortfall",
            true,
            &|i| {
                let tracked = &live.requirements[i];
                let mut series = one(i, &tracked.shortfalls, false, None);
                // Zero has no logarithm.
                series.y.iter_mut().filter(|y| **y <= 0.0).for_each(|y| *y = f64::NAN);
                let level = tracked.tolerance.map(|tolerance| match one_tolerance {
                    true => Bound { name: "met".to_owned(), value: tolerance, colour: Colour::Grey },
                    false => bound(i, tolerance, format!("{}: met", tracked.name)),
                });
                (series, level.filter(|_| i == 0 || !one_tolerance))
            },
        ));
    }
    if live.objective.points().nth(1).is_some() {
        let curve = series("objective", Colour::Grey, &live.objective, false, band.as_deref());
        let panel = lines("step", String::new(), vec![curve]);
        figures.push(panels_of("objective", "Objective", "Its average since the beginning.", vec![panel]));
    }
    figures
}

type Pick<'a> = dyn Fn(usize) -> (Series, Option<Bound>) + 'a;

/// Requirements that can share a pair of axes, with a title if they do not.
fn groups(live: &Live) -> Vec<(String, Vec<usize>)> {
    let named: Vec<(&str, Option<f64>)> =
        live.requirements.iter().map(|t| (t.name.as_str(), t.bound.map(|(bound, _)| bound))).collect();
    figures::groups(&named)
}

/// A panel per figure of the learner; the multipliers of a baseline share one.
fn training(live: &Live) -> Vec<Figure> {
    let (mut panels, mut multipliers) = (Vec::new(), Vec::new());
    for (name, curve) in &live.figures {
        if let Some(requirement) = name.strip_prefix(MULTIPLIER) {
            let colour = Colour::of(requirement, multipliers.len());
            multipliers.push(series(requirement, colour, curve, false, None));
        } else {
            // The title says what it is, so that a legend is not needed.
            panels.push(lines(
                "iteration",
                name.replace('_', " "),
                vec![series("learner", Colour::Blue, curve, false, None)],
            ));
        }
    }
    let has = |name: &str| live.figures.iter().any(|(known, _)| known == name);
    let mut caption = "What the learner tells after each iteration.".to_owned();
    if has("reward") {
        caption += " Reward: what is earned per step, weighted as in training.";
    }
    if has("mastered") {
        caption += " Mastered: of the reward that the policy is worst at, how much of its range it has when asked for nothing \
                    else.";
    }
    let mut figures = Vec::new();
    if !panels.is_empty() {
        figures.push(panels_of("training", "Training", &caption, panels));
    }
    if !multipliers.is_empty() {
        let caption = "The multipliers with which the learner trains, in units of the rewards' ranges.";
        let panel = lines("iteration", String::new(), multipliers);
        figures.push(panels_of("training-multipliers", "Multipliers in training", caption, vec![panel]));
    }
    figures
}

fn lines(x: &str, title: String, series: Vec<Series>) -> Panel {
    let plot = Lines { x: axis(x, false), y: axis("", false), series, bounds: Vec::new() };
    Panel { title, plot: Plot::Lines(plot) }
}

fn panels_of(name: &str, title: &str, caption: &str, panels: Vec<Panel>) -> Figure {
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
    }
}

fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), range: None, log }
}

fn series(name: &str, colour: Colour, curve: &Curve, steps: bool, band: Option<&str>) -> Series {
    Series {
        name: name.to_owned(),
        colour,
        x: curve.points().map(|point| point.x).collect(),
        y: curve.points().map(|point| point.mean).collect(),
        band: band.map(|name| Band {
            name: name.to_owned(),
            low: curve.points().map(|point| point.least).collect(),
            high: curve.points().map(|point| point.most).collect(),
        }),
        steps,
        dashed: false,
    }
}

fn flat(bounds: Vec<Option<Bound>>) -> Vec<Bound> {
    bounds.into_iter().flatten().collect()
}

fn relation((bound, direction): (f64, Direction)) -> String {
    let sign = match direction {
        Direction::AtLeast => '≥',
        Direction::AtMost => '≤',
    };
    format!("{sign} {}", figure(bound, 4))
}

/// 1234567 as 1,234,567.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIREMENTS: &str = r#"{"type":"requirements","data":[{"name":"red","bound":0.2,"direction":"at_least"},{"name":"queue","bound":0.5,"direction":"at_most"}]}"#;
    const STARTED: &str = r#"{"type":"started","data":{"requirements":["red","queue"],"steps":200000}}"#;

    fn snapshot(steps: u64) -> String {
        format!(
            r#"{{"type":"snapshot","data":{{"steps":{steps},"total":200000,"runs":20,"averages":[[0.21,0.2,0.22],[0.6,0.5,0.7]],"multipliers":[[1,0,2],[0,0,0]],"shortfalls":[0.01,0]}}}}"#
        )
    }

    fn live(lines: &[&str]) -> Live {
        let mut live = Live::default();
        lines.iter().for_each(|line| live.line(line.as_bytes()));
        live
    }

    fn names(report: &Report) -> Vec<&str> {
        let figures = report.blocks.iter().filter_map(|block| match block {
            Block::Figure(figure) => Some(figure.name.as_str()),
            _ => None,
        });
        figures.collect()
    }

    #[test]
    fn an_execution_shows_averages_multipliers_and_shortfalls() {
        let live = live(&[REQUIREMENTS, STARTED, &snapshot(40_000), &snapshot(80_000)]);
        let report = report(&live, false, "a", String::new());
        assert_eq!(names(&report), ["averages", "multipliers", "shortfalls"]);
        assert_eq!(report.lead, "Step 80,000 of 200,000, 1 of 2 averages within their bounds so far.");
        assert_eq!(report.good, None);
        let Block::Figure(averages) = &report.blocks[1] else { panic!("not a figure") };
        let Plot::Lines(lines) = &averages.panels[0].plot else { panic!("not lines") };
        assert_eq!(lines.series.len(), 2);
        assert_eq!(lines.bounds[0].name, "red ≥ 0.2");
        assert_eq!(lines.series[1].band.as_ref().unwrap().high, [0.7, 0.7]);
        let Block::Figure(shortfalls) = &report.blocks[3] else { panic!("not a figure") };
        let Plot::Lines(lines) = &shortfalls.panels[0].plot else { panic!("not lines") };
        assert!(lines.y.log && lines.series[1].y.iter().all(|y| y.is_nan()), "zero has no logarithm");
    }

    #[test]
    fn bounds_of_different_size_have_axes_of_their_own() {
        let far = REQUIREMENTS.replace("0.5", "50");
        let live = live(&[&far, STARTED, &snapshot(1), &snapshot(2)]);
        let report = report(&live, false, "a", String::new());
        let Block::Figure(averages) = &report.blocks[1] else { panic!("not a figure") };
        assert_eq!((averages.panels.len(), averages.columns), (2, 2));
    }

    #[test]
    fn with_a_tolerance_the_certificate_decides() {
        let with =
            |steps| snapshot(steps).replace("\"shortfalls\"", "\"tolerances\":[0.005,0.005],\"shortfalls\"");
        let finished =
            r#"{"type":"finished","data":{"steps":200000,"certificate":{"steps":1,"requirements":[]}}}"#;
        let live = live(&[REQUIREMENTS, STARTED, &with(1), &with(2), finished]);
        let report = report(&live, true, "a", String::new());
        assert_eq!(report.lead, "Finished: 200,000 steps, 1 of 2 requirements met.");
        assert_eq!(report.good, Some(false));
        let Block::Figure(shortfalls) = &report.blocks[3] else { panic!("not a figure") };
        let Plot::Lines(lines) = &shortfalls.panels[0].plot else { panic!("not lines") };
        let levels: Vec<_> = lines.bounds.iter().map(|bound| (bound.name.as_str(), bound.value)).collect();
        assert_eq!(levels, [("met", 0.005)], "one line where the tolerance is the same");
    }

    #[test]
    fn a_training_has_a_panel_per_figure_and_one_for_multipliers() {
        let line = r#"{"type":"iteration","data":{"iteration":120,"total":245,"metrics":{"reward":0.5,"policy_loss":1,"multiplier.red":1,"multiplier.blue":2}}}"#;
        let live = live(&[line]);
        let going = report(&live, false, "a", String::new());
        assert_eq!(going.lead, "Iteration 120 of 245.");
        let Block::Figure(training) = &going.blocks[0] else { panic!("not a figure") };
        let titles: Vec<&str> = training.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["reward", "policy loss"]);
        assert_eq!(names(&going), ["training", "training-multipliers"]);
        assert!(report(&live, true, "a", String::new()).lead.starts_with("Stopped: "));
        assert_eq!(report(&Live::default(), false, "a", String::new()).lead, "Waiting for the first event.");
    }
}
