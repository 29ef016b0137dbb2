//! `acrl demo`: the whole story in about a minute. Trains on the four regions, runs the policy and the baselines, and then
//! changes the requirements and runs the same policy again.

use std::path::Path;
use std::time::Instant;

use acrl::{Executor, Requirement, RunReport, Specification, VecTask};
use acrl_envs::{Problem, Source, bundled};
use acrl_learn::{Method, TrainSettings, Training};
use acrl_report::{Block, Cell, Figure, Report, Table as Grid, Tone};
use anyhow::{Context as _, bail, ensure};
use serde::Serialize;

use super::compare_continuous::{Contest, Contestant};
use super::run_policy::{Executed, Plan, advised_steering};
use crate::Verdict;
use crate::args::{DemoArgs, Global};
use crate::comparison::{Comparison, margins};
use crate::input::ContinuousProblem;
use crate::occupation::Occupation;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, figure, relation, styled};
use crate::page::{Told, machine, steered, trained};
use crate::plane::Plane;
use crate::watch::{Watch, listen};

/// The problem: four regions, and travelling takes time.
const PROBLEM: &str = "planar-speed";
const RUNS: usize = 20;
/// What is asked of the same policy afterwards: nearly the other way round, and more in all.
const CHANGED: [(&str, f64); 4] = [("red", 0.05), ("blue", 0.10), ("green", 0.20), ("orange", 0.35)];

/// The object printed as JSON.
#[derive(Serialize)]
struct DemoJson<'a> {
    met: bool,
    seconds: f64,
    report: String,
    policy: String,
    comparison: &'a Comparison,
    first: &'a RunReport,
    changed: &'a RunReport,
}

/// Does all of it and prints.
pub(crate) fn demo(args: &DemoArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    let begin = Instant::now();
    // Before the work, so that a folder that cannot be written to costs nobody a minute.
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot create {}", args.folder.display()))?;
    let mut problem = problem()?;
    problem.run.seed = global.seed.unwrap_or(problem.run.seed);
    problem.run.runs = RUNS;
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let stop = listen();
    let contest = Contest {
        problem: &problem,
        task: &task,
        steps: args.budget,
        seeds: vec![global.seed.unwrap_or(problem.train.seed)],
        stop: &stop,
    };
    let grid = Occupation::new(&task)?;
    let bar = output.bar(0, "training A-CRL and five baselines on the same budget");
    let contestants = contest.hold(Method::ALL, Some(&grid), &bar)?;
    bar.finish_and_clear();
    let ours = contestants.iter().find(|c| c.training.method() == Training::A_CRL);
    let ours = ours.filter(|_| !stop.requested()).context("stopped by Ctrl-C")?;
    let comparison = contest.sum_up(&contestants)?;

    let changed = changed(&problem.specification)?;
    let task_changed = VecTask::new(problem.environment.batch(), changed)?;
    let running = output.bar(ours.run.steps * RUNS as u64, "the same policy, other requirements");
    let start = ours.file.multipliers(&task_changed)?;
    let steering = advised_steering(&ours.run, ours.file.execution_defaults);
    let plan = Plan { task: &task_changed, file: &ours.file, run: &ours.run, start, steering };
    let watch = Watch { stop: stop.clone(), bar: running };
    let executed = plan.execute(Some(grid), None, &watch)?;
    watch.bar.finish_and_clear();
    ensure!(!stop.requested(), "stopped by Ctrl-C");
    let report_changed = plan.report(&executed.runs)?;

    let policy = args.folder.join("policy.safetensors");
    ours.file.to_container()?.save(&policy)?;
    let text = args.folder.join("problem.toml");
    std::fs::write(&text, &problem.text).with_context(|| format!("cannot write {}", text.display()))?;
    let again = Again { task: &task_changed, executed: &executed, report: &report_changed };
    let seconds = begin.elapsed().as_secs_f64();
    let command = output.command().to_owned();
    page(&problem, &task, ours, &comparison, &again, (steering, seconds), command)?.write(&args.folder)?;
    let met = ours.report.met() && report_changed.met();
    let report = args.folder.join("report.html");
    if output.is_json() {
        output.object(&DemoJson {
            met,
            seconds,
            report: report.display().to_string(),
            policy: policy.display().to_string(),
            comparison: &comparison,
            first: &ours.report,
            changed: &report_changed,
        })?;
    } else {
        print(&task, ours, &comparison, &again, output);
        output.line("");
        output.line(format!("Look at it: {} (or: acrl view {})", report.display(), args.folder.display()));
        output.line(styled(
            FAINT,
            format!("policy: {}; {} s in all", policy.display(), figure(begin.elapsed().as_secs_f64(), 2)),
        ));
        output.hint(try_next(&policy));
    }
    Ok(if met { Verdict::Good } else { Verdict::Bad })
}

fn try_next(policy: &Path) -> String {
    format!(
        "Try next: acrl run {} --runs 20 --require 'blue>=0.5', or acrl init planar-speed -o mine.toml",
        policy.display()
    )
}

fn problem() -> anyhow::Result<ContinuousProblem> {
    let bundled =
        bundled().iter().find(|problem| problem.name == PROBLEM).context("the problem is not bundled")?;
    let problem = Problem::parse(bundled.text)?;
    let Source::Continuous(environment) = problem.source else { bail!("{PROBLEM} is not continuous") };
    Ok(ContinuousProblem {
        text: bundled.text.to_owned(),
        environment,
        specification: problem.specification,
        run: problem.run,
        train: TrainSettings::read(&problem.train, true)?,
    })
}

/// The same requirements with other bounds.
fn changed(specification: &Specification) -> anyhow::Result<Specification> {
    let mut changed = specification.clone();
    for (name, bound) in CHANGED {
        changed = changed.require(Requirement::at_least(name, bound)?)?;
    }
    Ok(changed)
}

/// The runs with the changed requirements.
struct Again<'a> {
    task: &'a VecTask<'a>,
    executed: &'a Executed,
    report: &'a RunReport,
}

/// Baselines by what is left of them at the end: the lines that can be run.
fn shown(comparison: &Comparison) -> impl Iterator<Item = (&'static str, usize)> + '_ {
    let lines = comparison.methods.iter().enumerate();
    lines
        .filter(|(_, entry)| !entry.method().ends_with("online") && entry.method() != "a-crl")
        .map(|(index, entry)| (entry.method().trim_end_matches(", stopped"), index))
}

const NOTE: &str = "Means over runs, marked by whether the worst run meets the requirement too. Baselines trained on the same \
                    steps; shown is the policy that each is left with.";

/// What a cell says, and whether that is good.
type Judged = (String, Option<bool>);

/// A share of the time.
fn share(value: f64) -> String {
    format!("{value:.3}")
}

/// The table by requirement: its bound, A-CRL on average and in the worst run, and each baseline on average.
fn table(task: &VecTask<'_>, ours: &Contestant, comparison: &Comparison) -> (Vec<String>, Vec<Vec<Judged>>) {
    let mut header: Vec<String> = ["", "bound", "a-crl", "worst run"].map(str::to_owned).to_vec();
    header.extend(shown(comparison).map(|(name, _)| name.to_owned()));
    let mut rows = Vec::new();
    for (i, r) in task.specification().requirements().iter().enumerate() {
        let entry = ours.report.requirements.get(r.name());
        let (average, worst) = entry.map_or((f64::NAN, f64::NAN), |e| (e.average, e.worst));
        let mut row = vec![
            (r.name().to_owned(), None),
            (relation(r, 4), None),
            (share(average), None),
            (share(worst), entry.map(|e| e.met)),
        ];
        for (_, index) in shown(comparison) {
            let line = &comparison.methods[index];
            let average = line.averages().get(r.name()).copied().unwrap_or(f64::NAN);
            row.push((share(average), Some(line.margin(i) >= -comparison.tolerance)));
        }
        rows.push(row);
    }
    // A method may meet each requirement in some run, and all of them in none.
    let runs = |[met, of]: [usize; 2]| (format!("{met} of {of}"), Some(met == of));
    let mut last = vec![("runs met".to_owned(), None), (String::new(), None), (String::new(), None)];
    let lines = || comparison.methods.iter();
    last.extend(lines().filter(|line| line.method() == "a-crl").map(|line| runs(line.runs_met())));
    last.extend(shown(comparison).map(|(_, index)| runs(comparison.methods[index].runs_met())));
    rows.push(last);
    (header, rows)
}

fn print(
    task: &VecTask<'_>,
    ours: &Contestant,
    comparison: &Comparison,
    again: &Again<'_>,
    output: &mut Output,
) {
    let (header, rows) = table(task, ours, comparison);
    output.line(styled(STRONG, "Four regions, each to be watched for a share of the time"));
    output.line(format!(
        "one policy for all multipliers ({}, {}), {} of {}",
        ours.training.learner(),
        count(ours.training.steps(), "training step"),
        count(ours.report.runs as u64, "run"),
        count(ours.report.steps, "step")
    ));
    output.line("");
    let mut printed = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let style = |good: &Option<bool>| match good {
        Some(true) => GOOD,
        Some(false) => BAD,
        None => anstyle::Style::new(),
    };
    for row in &rows {
        printed.row(row.iter().map(|(cell, good)| (cell.clone(), style(good))).collect());
    }
    output.raw(&printed.to_string());
    output.line(styled(FAINT, NOTE));
    output.line("");
    output.line(styled(STRONG, "Other requirements, the same policy: nothing is trained again"));
    output.line("");
    let mut printed = Table::new(&["", "bound", "average", "worst run", "certified within", "met"]);
    for (r, (name, entry)) in
        again.task.specification().requirements().iter().zip(again.report.requirements.iter())
    {
        let plain = anstyle::Style::new();
        let mut row: Vec<(String, anstyle::Style)> = [
            name.to_owned(),
            relation(r, 4),
            figure(entry.average, 3),
            figure(entry.worst, 3),
            figure(entry.certified_shortfall, 2),
        ]
        .map(|cell| (cell, plain))
        .into();
        row.push(if entry.met { ("yes".to_owned(), GOOD) } else { ("NO".to_owned(), BAD) });
        printed.row(row);
    }
    output.raw(&printed.to_string());
}

fn page(
    problem: &ContinuousProblem,
    task: &VecTask<'_>,
    ours: &Contestant,
    comparison: &Comparison,
    again: &Again<'_>,
    (steering, seconds): (Executor, f64),
    command: String,
) -> anyhow::Result<Report> {
    let tolerance = ours.run.tolerance;
    let first = Told {
        specification: task.specification(),
        report: &ours.report,
        course: &ours.executed.course,
        tolerance,
    };
    let second = Told {
        specification: again.task.specification(),
        report: again.report,
        course: &again.executed.course,
        tolerance,
    };
    let plane = Plane::new(&problem.environment).context("the demo is in the plane")?;
    let (header, rows) = table(task, ours, comparison);
    let tone = |good: Option<bool>| match good {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    };
    let cell =
        |(text, good): (String, Option<bool>)| Cell { text: text.replace(">=", "≥"), tone: tone(good) };
    let beside = Grid {
        header,
        rows: rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect(),
        note: format!("{NOTE} What they had while they trained is in the figure (online)."),
    };
    let text = |text: &str| Block::Text(text.to_owned());
    let heading = |text: &str| Block::Heading(text.to_owned());
    let mut blocks = vec![
        text(
            "An agent moves through a box and has to be in each of four regions for a share of its time. No fixed weighting \
             of the four rewards makes it do that. One policy π(s, λ) was trained for all multipliers λ; as it runs, each \
             multiplier rises while its region is behind and falls while it is ahead.",
        ),
        Block::Table(beside),
        Block::Figure(margins(comparison)),
        heading("How it gets there"),
    ];
    blocks.extend(first.figures("").into_iter().map(Block::Figure));
    blocks.push(heading("What the policy does"));
    let pictures = plane.figures(task, &ours.file, &ours.report, ours.executed.occupation.as_ref())?;
    blocks.extend(pictures.into_iter().map(Block::Figure));
    blocks.push(heading("Other requirements, the same policy"));
    blocks.push(text(
        "The policy does not depend on the bounds: they only move the multipliers. Here it runs with other requirements, \
         and nothing is trained again.",
    ));
    blocks.push(Block::Table(second.table()));
    blocks.extend(second.figures("changed-").into_iter().take(2).map(Block::Figure));
    let map = again.executed.occupation.as_ref().map(|o| plane.occupation("changed-occupation", o));
    blocks.extend(map.map(|figure: Figure| Block::Figure(figure)));
    let mut facts = vec![
        ("problem".to_owned(), PROBLEM.to_owned()),
        ("trained".to_owned(), trained(&ours.file.training)),
        ("steered by".to_owned(), steered(steering)),
        ("step size".to_owned(), figure(ours.run.step_size(), 4)),
        ("tolerance".to_owned(), figure(tolerance, 3)),
        ("epoch".to_owned(), format!("{} at the end", ours.report.epoch)),
        ("took".to_owned(), format!("{} s", figure(seconds, 2))),
    ];
    facts.extend(machine(ours.run.seed));
    Ok(Report {
        title: "One policy, every requirement".to_owned(),
        lead: format!(
            "{} {}",
            first.lead(),
            if again.report.met() {
                "So are others, asked for afterwards, by the same policy."
            } else {
                "Of others, asked for afterwards, not all are."
            }
        ),
        good: Some(ours.report.met() && again.report.met()),
        blocks,
        facts,
        command,
    })
}
