//! The page of a run while it goes on.

use acrl::{Direction, Verdict};

use crate::curves::{LiveRun, Progress, Tracked};
use crate::run_figures::{curve, execution};
use crate::{
    Axis, Block, Bound, Cell, Colour, Figure, Panel, Report, Series, Table, Tone, bound, grouped, number,
};

/// The page on what is known so far. `done`: nothing more is to come.
pub fn live_report(live: &LiveRun, done: bool, title: &str, command: String) -> Report {
    let mut blocks = Vec::new();
    if live.execution.is_some() && !live.requirements.is_empty() {
        blocks.push(Block::Table(table(live, done)));
    }
    blocks.extend(execution("", live, false).into_iter().chain(training(live)).map(Block::Figure));
    let met: Option<Vec<bool>> =
        live.requirements.iter().map(|tracked| Some(tracked.verdict()?.is_met())).collect();
    let good = met.filter(|met| done && !met.is_empty()).map(|met| met.into_iter().all(|met| met));
    Report { title: title.to_owned(), lead: lead(live, done), good, blocks, facts: Vec::new(), command }
}

/// How far it has come, in a sentence.
fn lead(live: &LiveRun, done: bool) -> String {
    let far = |what: &str, Progress { done, total }: Progress| match (done, total) {
        (done, total) if done >= total => format!("{} {what}s", grouped(done)),
        (done, total) => format!("{what} {} of {}", grouped(done), grouped(total)),
    };
    let mut parts = Vec::new();
    parts.extend(live.training.map(|training| {
        format!("{}, {} environment steps", far("iteration", training), grouped(live.training_steps))
    }));
    parts.extend(live.execution.map(|execution| far("step", execution)));
    let verdicts: Vec<Verdict> = live.requirements.iter().filter_map(Tracked::verdict).collect();
    if !verdicts.is_empty() {
        let so_far = if done { "" } else { " so far" };
        let of = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let within = match of(Verdict::WithinTolerance) {
            0 => String::new(),
            n => format!(", {n} within tolerance"),
        };
        let (satisfied, all) = (of(Verdict::Satisfied), live.requirements.len());
        parts.push(format!("{satisfied} of {all} requirements satisfied{within}{so_far}"));
    }
    let to_the_end = live.execution.is_some_and(|execution| execution.done >= execution.total);
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

/// Where each requirement stands.
fn table(live: &LiveRun, done: bool) -> Table {
    let several = live.runs.filter(|runs| *runs > 1);
    let mut header = vec!["requirement", "bound", "average"];
    header.extend(several.map(|_| "worst run"));
    header.extend(["certified shortfall", "multiplier"]);
    let row = |tracked: &Tracked| {
        let shown = |y: Option<f64>| y.filter(|y| y.is_finite()).map_or("–".to_owned(), |y| number(y, 4));
        let average = tracked.averages.latest();
        let least = tracked.bound.is_none_or(|(_, direction)| direction == Direction::AtLeast);
        let tone = match tracked.verdict() {
            Some(verdict) if verdict.is_met() => Tone::Good,
            // What is not met yet may be so in a while.
            Some(_) if done => Tone::Bad,
            _ => Tone::Plain,
        };
        let required = tracked.bound.map_or("–".to_owned(), |(value, side)| bound(side, value, 4));
        let mut row: Vec<Cell> =
            vec![tracked.name.clone().into(), required.into(), shown(average.map(|a| a.mean)).into()];
        row.extend(several.map(|_| shown(average.map(|a| if least { a.least } else { a.most })).into()));
        row.push(Cell::new(shown(tracked.shortfalls.latest().map(|s| s.mean.max(0.0))), tone));
        row.push(shown(tracked.multipliers.latest().map(|m| m.mean)).into());
        row
    };
    let note = several.map_or(String::new(), |runs| format!("Means of {} runs.", grouped(runs)));
    Table::new(header, live.requirements.iter().map(row), note)
}

/// A panel per metric of the learner; the rewards have a figure of their own, and the multipliers of a
/// baseline share a panel.
fn training(live: &LiveRun) -> Vec<Figure> {
    let x = || Axis::new("environment steps");
    let panel = |title: &str, series: Vec<Series>, bounds: Vec<Bound>| {
        Panel::lines(title, x(), Axis::default(), series, bounds)
    };
    let (mut rewards, mut metrics, mut multipliers) = (Vec::new(), Vec::new(), Vec::new());
    for (name, points) in &live.metrics {
        let line = |name: &str, colour| curve(name, colour, points, None);
        if let Some(reward) = name.strip_prefix("rollout/reward/") {
            // A reward that is bounded on both sides has two requirements, NAME.min and NAME.max.
            let its = |r: &&Tracked| {
                r.name.strip_prefix(reward).is_some_and(|side| matches!(side, "" | ".min" | ".max"))
            };
            let required = live.requirements.iter().filter(its).filter_map(|r| {
                let (value, side) = r.bound?;
                Some(Bound::new(format!("{} {}", r.name, bound(side, value, 4)), value, Colour::Grey))
            });
            let colour = Colour::of(reward, rewards.len());
            rewards.push(panel(reward, vec![line("reward", colour)], required.collect()));
        } else if let Some(requirement) = multiplier_of(name) {
            multipliers.push(line(requirement, Colour::of(requirement, multipliers.len())));
        } else {
            // The title names it, so that a legend is not needed.
            metrics.push(panel(name, vec![line("learner", Colour::Blue)], Vec::new()));
        }
    }
    let mut caption = "Metrics per iteration.".to_owned();
    for (metric, meaning) in [
        ("scalarized_reward", "reward per step, weighted as in training, in units of the rewards' ranges"),
        ("min_objective_progress", "score on the worst-learned reward (0 to 1) when optimising it alone"),
    ] {
        if live.metrics.iter().any(|(name, _)| name.ends_with(metric)) {
            caption += &format!(" {metric}: {meaning}.");
        }
    }
    let mut figures = Vec::new();
    let mut add = |name: &str, title: &str, caption: &str, panels: Vec<Panel>| {
        if !panels.is_empty() {
            figures.push(Figure::new(name, title, caption, panels.len().min(2), panels));
        }
    };
    let about = "Mean reward per step of each iteration, over all weights in training. Dashed: the bound.";
    add("training-rewards", "Rewards in training", about, rewards);
    add("training", "Training", &caption, metrics);
    let panels = if multipliers.is_empty() { Vec::new() } else { vec![panel("", multipliers, Vec::new())] };
    let about = "The multipliers with which the learner trains, in units of the rewards' ranges.";
    add("training-multipliers", "Multipliers in training", about, panels);
    figures
}

/// The requirement of a training metric that is its multiplier (`train/multiplier/NAME`).
fn multiplier_of(metric: &str) -> Option<&str> {
    metric.strip_prefix("train/multiplier/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plot;
    use crate::curves::tests::live;

    const REQUIREMENTS: &str = r#"{"type":"requirements","data":[{"name":"red","bound":0.2,"direction":"at_least"},{"name":"queue","bound":0.5,"direction":"at_most"}]}"#;
    const STARTED: &str = r#"{"type":"started","data":{"requirements":["red","queue"],"steps":200000}}"#;

    fn snapshot(steps: u64) -> String {
        format!(
            r#"{{"type":"snapshot","data":{{"steps":{steps},"total":200000,"runs":20,"averages":[[0.21,0.2,0.22],[0.6,0.5,0.7]],"multipliers":[[1,0,2],[0,0,0]],"certified_shortfalls":[0.01,0.2],"tolerances":[0.005,0.005]}}}}"#
        )
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
        let report = live_report(&live, false, "a", String::new());
        assert_eq!(names(&report), ["averages", "multipliers", "certificate"]);
        assert_eq!(report.lead, "Step 80,000 of 200,000, 1 of 2 requirements satisfied so far.");
        assert_eq!(report.good, None);
        let Block::Figure(averages) = &report.blocks[1] else { panic!("not a figure") };
        let Plot::Lines(lines) = &averages.panels[0].plot else { panic!("not lines") };
        assert_eq!(lines.series.len(), 2);
        assert_eq!(lines.bounds[0].name, "red ≥ 0.2");
        assert_eq!(lines.series[1].band.as_ref().unwrap().high, [0.7, 0.7]);
        let Block::Figure(shortfalls) = &report.blocks[3] else { panic!("not a figure") };
        let Plot::Lines(lines) = &shortfalls.panels[0].plot else { panic!("not lines") };
        assert_eq!((&lines.series[0].y[..], lines.bounds[0].value), (&[2.0, 2.0][..], 1.0));
    }

    #[test]
    fn bounds_of_different_size_have_axes_of_their_own() {
        let far = REQUIREMENTS.replace("0.5", "50");
        let live = live(&[&far, STARTED, &snapshot(1), &snapshot(2)]);
        let report = live_report(&live, false, "a", String::new());
        let Block::Figure(averages) = &report.blocks[1] else { panic!("not a figure") };
        assert_eq!((averages.panels.len(), averages.columns), (2, 2));
    }

    #[test]
    fn verdicts_are_counted() {
        let finished =
            r#"{"type":"finished","data":{"steps":200000,"certificate":{"steps":1,"requirements":[]}}}"#;
        let report =
            live_report(&live(&[REQUIREMENTS, STARTED, &snapshot(1), finished]), true, "a", String::new());
        assert_eq!(report.lead, "Finished: 200,000 steps, 1 of 2 requirements satisfied.");
        assert_eq!(report.good, Some(false));
        let close = snapshot(1).replace("[0.01,0.2]", "[0.01,0.004]");
        let report = live_report(&live(&[REQUIREMENTS, STARTED, &close, finished]), true, "a", String::new());
        assert_eq!(
            (report.lead.as_str(), report.good),
            ("Finished: 200,000 steps, 1 of 2 requirements satisfied, 1 within tolerance.", Some(true))
        );
    }

    #[test]
    fn training_has_a_panel_per_metric_and_figures_for_rewards_and_multipliers() {
        let line = r#"{"type":"iteration","data":{"iteration":120,"total":245,"steps":2400,"metrics":{"rollout/reward/red":0.1,"rollout/reward/x":0.5,"policy_loss":1,"train/multiplier/red":1,"train/multiplier/blue":2}}}"#;
        let live = live(&[REQUIREMENTS, line]);
        let going = live_report(&live, false, "a", String::new());
        assert_eq!(going.lead, "Iteration 120 of 245, 2,400 environment steps.");
        assert_eq!(names(&going), ["training-rewards", "training", "training-multipliers"]);
        let titles = |block: &Block| match block {
            Block::Figure(figure) => figure.panels.iter().map(|panel| panel.title.clone()).collect(),
            _ => Vec::new(),
        };
        assert_eq!(titles(&going.blocks[0]), ["red", "x"]);
        assert_eq!(titles(&going.blocks[1]), ["policy_loss"]);
        let Block::Figure(rewards) = &going.blocks[0] else { panic!("not a figure") };
        let Plot::Lines(red) = &rewards.panels[0].plot else { panic!("not lines") };
        assert_eq!((red.bounds[0].name.as_str(), red.bounds[0].value), ("red ≥ 0.2", 0.2));
        assert!(live_report(&live, true, "a", String::new()).lead.starts_with("Stopped: "));
        assert_eq!(
            live_report(&LiveRun::default(), false, "a", String::new()).lead,
            "Waiting for the first event."
        );
    }
}
