//! The demo: trains on the four regions, runs the policy and the baselines, and then
//! changes the requirements and runs the same policy again.

use std::path::Path;
use std::time::Instant;

use acrl::{Executor, Requirement, RunReport, Specification, VecTask};
use acrl_learn::{Method, Training};
use acrl_report::run_page::{RunSummary, executor_line, machine, pairs, percent};
use acrl_report::{Block, Cell, Report, Table, Tone, bound, number};
use serde::Serialize;

use crate::compare_continuous::{Contest, Contestant};
use crate::comparison::{Comparison, margins};
use crate::control::{Control, Progress as _};
use crate::input::{ContinuousProblem, Input};
use crate::occupancy::OccupancyGrid;
use crate::plane::Plane;
use crate::problems::problem_text;
use crate::run_policy::{Plan, PolicyRuns, training_line};
use crate::{Context as _, Error, bail};

/// The problem: four regions, and travelling takes time.
const PROBLEM: &str = "planar-speed";
const RUNS: usize = 20;
/// What is asked of the same policy afterwards: nearly the other way round, and more in all.
const CHANGED: [(&str, f64); 4] = [("red", 0.05), ("blue", 0.10), ("green", 0.20), ("orange", 0.35)];

/// Options of [`demo`].
#[derive(Debug, Clone)]
pub struct DemoOptions<'a> {
    /// The folder for the report and the policy.
    pub out_dir: &'a Path,
    /// Environment steps on which each method trains; the learner's default if absent.
    pub train_steps: Option<u64>,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// The command that repeats it, for the page.
    pub command: &'a str,
}

/// The results of [`demo`]. Serialises as the object of `acrl demo --json`.
#[derive(Debug, Serialize)]
pub struct Demo {
    /// True if A-CRL meets all requirements, the first and the changed ones.
    pub met: bool,
    /// Seconds in all.
    pub seconds: f64,
    /// The path of the page.
    pub report: String,
    /// The path of the policy.
    pub policy: String,
    /// A-CRL and the baselines.
    pub comparison: Comparison,
    /// The runs with the problem's requirements.
    pub first: RunReport,
    /// The runs with the changed requirements.
    pub changed: RunReport,
    /// The changed requirements.
    #[serde(skip)]
    pub changed_specification: Specification,
    /// Environment steps of the training of A-CRL.
    #[serde(skip)]
    pub train_steps: u64,
    /// The table by requirement.
    #[serde(skip)]
    pub table: Table,
}

/// Trains A-CRL and the baselines on the four regions, runs them, and runs the same policy with other requirements.
pub fn demo(options: &DemoOptions<'_>, control: &Control) -> Result<Demo, Error> {
    let (begin, folder) = (Instant::now(), options.out_dir);
    // Before the work, so that a folder that cannot be created costs no result.
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let input = Input::from_problem(problem_text(PROBLEM)?.to_owned(), Path::new(PROBLEM), false)?;
    let Input::Continuous(mut problem) = input else { bail!("{PROBLEM} is not continuous") };
    problem.run.seed = options.seed.unwrap_or(problem.run.seed);
    problem.run.runs = RUNS;
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let contest = Contest {
        problem: &problem,
        task: &task,
        steps: options.train_steps,
        seeds: vec![options.seed.unwrap_or(problem.train.seed)],
        stop: &control.stop,
    };
    let grid = OccupancyGrid::new(&task)?;
    control.message("training A-CRL and five baselines on the same steps".to_owned());
    let contestants = contest.hold(Method::ALL, Some(&grid), control)?;
    let ours = contestants.iter().find(|c| c.training.method() == Training::A_CRL);
    let ours = ours.filter(|_| !control.stop.requested()).ok_or(Error::Stopped(""))?;
    let comparison = contest.sum_up(&contestants)?;

    let changed = changed(&problem.specification)?;
    let task_changed = VecTask::new(problem.environment.batch(), changed.clone())?;
    control.message("the same policy, other requirements".to_owned());
    control.begin(ours.run.steps * RUNS as u64);
    let start = ours.file.multipliers(&task_changed)?;
    let executor = ours.file.execution_defaults.executor_for(ours.run.epoch);
    let plan = Plan { task: &task_changed, file: &ours.file, run: &ours.run, start, executor };
    let executed = plan.execute(Some(grid), None, None, control)?;
    if control.stop.requested() {
        return Err(Error::Stopped(""));
    }
    let report_changed = plan.report(&executed.runs, &[])?;

    let policy = folder.join("policy.safetensors");
    ours.file.to_container()?.save(&policy)?;
    let text = folder.join("problem.toml");
    std::fs::write(&text, &problem.text).with_context(|| format!("cannot write {}", text.display()))?;
    let again = ChangedRuns { task: &task_changed, executed: &executed, report: &report_changed };
    let (seconds, command) = (begin.elapsed().as_secs_f64(), options.command.to_owned());
    page(&problem, &task, ours, &comparison, &again, (executor, seconds), command)?.write(folder)?;
    Ok(Demo {
        met: ours.report.met() && report_changed.met(),
        seconds,
        report: folder.join("report.html").display().to_string(),
        policy: policy.display().to_string(),
        table: table(&task, ours, &comparison),
        comparison,
        first: ours.report.clone(),
        changed_specification: changed,
        train_steps: ours.training.steps(),
        changed: report_changed,
    })
}

/// The same requirements with other bounds.
fn changed(specification: &Specification) -> Result<Specification, Error> {
    let mut changed = specification.clone();
    for (name, bound) in CHANGED {
        changed = changed.require(Requirement::at_least(name, bound)?)?;
    }
    Ok(changed)
}

/// The runs with the changed requirements.
struct ChangedRuns<'a> {
    task: &'a VecTask<'a>,
    executed: &'a PolicyRuns,
    report: &'a RunReport,
}

/// Baselines by what is left of them at the end: the lines that can be run.
fn shown(comparison: &Comparison) -> impl Iterator<Item = (&'static str, usize)> + '_ {
    let lines = comparison.methods.iter().enumerate();
    lines
        .filter(|(_, entry)| !entry.method.ends_with("online") && entry.method != "A-CRL")
        .map(|(index, entry)| (entry.method.trim_end_matches(", stopped"), index))
}

/// A share of the time.
fn share(value: f64) -> String {
    format!("{value:.3}")
}

/// The table by requirement: its bound, A-CRL on average and in the worst run, and each baseline on average.
fn table(task: &VecTask<'_>, ours: &Contestant, comparison: &Comparison) -> Table {
    let judged = |text: String, good: bool| Cell::new(text, if good { Tone::Good } else { Tone::Bad });
    let mut header = vec!["", "bound", "A-CRL", "worst run"];
    header.extend(shown(comparison).map(|(name, _)| name));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (i, r) in task.specification().requirements().iter().enumerate() {
        let entry = ours.report.requirements.get(r.name());
        let (average, worst) = entry.map_or((f64::NAN, f64::NAN), |e| (e.average, e.worst));
        let mut row: Vec<Cell> =
            vec![r.name().into(), bound(r.direction(), r.bound(), 4).into(), share(average).into()];
        row.push(entry.map_or(share(worst).into(), |e| judged(share(worst), e.verdict.is_met())));
        row.extend(shown(comparison).map(|(_, index)| {
            let line = &comparison.methods[index];
            let average = line.averages.get(r.name()).copied().unwrap_or(f64::NAN);
            judged(share(average), line.verdict_on(i).is_met())
        }));
        rows.push(row);
    }
    // A method may meet each requirement in some run, and all of them in none.
    let runs = |[met, of]: [usize; 2]| judged(format!("{met} of {of}"), met == of);
    let mut last: Vec<Cell> = ["runs met", "", ""].map(Cell::from).into();
    let ours = comparison.methods.iter().filter(|line| line.method == "A-CRL");
    last.extend(ours.map(|line| runs(line.runs_met)));
    last.extend(shown(comparison).map(|(_, index)| runs(comparison.methods[index].runs_met)));
    rows.push(last);
    let note = "Means over runs, marked by whether the worst run meets the requirement too. Baselines trained on the same \
                steps; shown is the policy that each is left with.";
    Table::new(header, rows, note)
}

fn page(
    problem: &ContinuousProblem,
    task: &VecTask<'_>,
    ours: &Contestant,
    comparison: &Comparison,
    again: &ChangedRuns<'_>,
    (executor, seconds): (Executor, f64),
    command: String,
) -> Result<Report, Error> {
    let tolerance = ours.run.tolerance;
    let first = RunSummary {
        specification: task.specification(),
        report: &ours.report,
        history: &ours.executed.history,
        tolerance,
    };
    let second = RunSummary {
        specification: again.task.specification(),
        report: again.report,
        history: &again.executed.history,
        tolerance,
    };
    let plane = Plane::new(&problem.environment).context("the demo is in the plane")?;
    let mut by_method = table(task, ours, comparison);
    by_method.note += " What they had while they trained is in the figure (online).";
    let text = |text: &str| Block::Text(text.to_owned());
    let heading = |text: &str| Block::Heading(text.to_owned());
    let mut blocks = vec![
        text(
            "An agent moves through a box and has to be in each of four regions for a share of its time. No fixed weighting \
             of the four rewards makes it do that. One policy π(s, λ) was trained for all multipliers λ; as it runs, each \
             multiplier rises while its region is behind and falls while it is ahead.",
        ),
        Block::Table(by_method),
        Block::Figure(margins(comparison)),
        heading("How it gets there"),
    ];
    blocks.extend(first.figures("").into_iter().map(Block::Figure));
    blocks.push(heading("What the policy does"));
    let pictures = plane.figures(task, &ours.file, &ours.report, ours.executed.occupancy.as_ref())?;
    blocks.extend(pictures.into_iter().map(Block::Figure));
    blocks.push(heading("Other requirements, the same policy"));
    blocks.push(text(
        "The policy does not depend on the bounds: they only move the multipliers. Here it runs with other requirements, \
         and nothing is trained again.",
    ));
    blocks.push(Block::Table(second.table()));
    blocks.extend(second.figures("changed-").into_iter().take(2).map(Block::Figure));
    let map = again.executed.occupancy.as_ref().map(|o| plane.occupancy("changed-occupancy", o));
    blocks.extend(map.map(Block::Figure));
    let mut facts = pairs([
        ("problem", PROBLEM.to_owned()),
        ("trained", training_line(&ours.file.training)),
        ("executor", executor_line(executor)),
        ("step size", number(ours.run.step_size(), 4)),
        ("tolerance", format!("{} of what is asked", percent(tolerance))),
        ("epoch", format!("{} at the end", ours.report.epoch)),
        ("took", format!("{} s", number(seconds, 2))),
    ]);
    facts.extend(machine(Some(ours.run.seed)));
    Ok(Report {
        title: "One policy, every requirement".to_owned(),
        lead: format!(
            "{} {}",
            first.lead(),
            if again.report.met() {
                "The same policy also meets the changed requirements."
            } else {
                "Not all of the changed requirements are met."
            }
        ),
        good: Some(ours.report.met() && again.report.met()),
        blocks,
        facts,
        command,
    })
}
