//! The page on some runs: what came out, how, and how to get it again.

use std::ffi::OsString;

use acrl::{Executor, History, RunReport, Specification};
use acrl_envs::RunSettings;
use acrl_learn::TrainingRecord;
use acrl_report::{Block, Cell, Figure, Report, Table, Tone};

use crate::figures;
use crate::output::{count, figure};

/// Some runs of one agent.
pub(crate) struct Told<'a> {
    pub(crate) specification: &'a Specification,
    pub(crate) report: &'a RunReport,
    pub(crate) course: &'a History,
    pub(crate) tolerance: f64,
}

impl Told<'_> {
    /// The outcome in a sentence.
    pub(crate) fn lead(&self) -> String {
        let runs =
            format!("{} of {}", count(self.report.runs as u64, "run"), count(self.report.steps, "step"));
        let all = self.report.requirements.len();
        let met = self.report.requirements.iter().filter(|(_, r)| r.met).count();
        match (all, met == all) {
            (0, _) => format!("{runs}; nothing is required."),
            (1, true) => format!("The requirement is met in {}.", every(&runs, self.report.runs)),
            (_, true) => format!("All {all} requirements are met in {}.", every(&runs, self.report.runs)),
            (_, false) => format!("{met} of {all} requirements are met; {runs}."),
        }
    }

    /// The standing of each requirement.
    pub(crate) fn table(&self) -> Table {
        let header = ["", "bound", "average", "worst run", "certified within", "price", "met"];
        let mut rows = Vec::new();
        let report = self.report;
        if let Some(objective) = self.specification.objective() {
            let at =
                |named: &acrl::Named<f64>| figure(named.get(&objective.reward).copied().unwrap_or(0.0), 5);
            let goal = if objective.sign() > 0.0 { "max" } else { "min" };
            rows.push(plain([
                &objective.reward,
                goal,
                &at(&report.averages),
                &at(&report.worst),
                "",
                "",
                "",
            ]));
        }
        for (r, (name, entry)) in self.specification.requirements().iter().zip(report.requirements.iter()) {
            let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
            let mut row = plain([
                name,
                figures::relation(r).trim_start_matches(r.name()).trim(),
                &figure(entry.average, 5),
                &figure(entry.worst, 5),
                &figure(entry.certified_shortfall, 3),
                &figure(price, 4),
            ]);
            row.push(verdict(entry.met));
            rows.push(row);
        }
        Table {
            header: header.map(str::to_owned).to_vec(),
            rows,
            note: format!(
                "certified within: proved by the multipliers, no run is further behind than this; met: certified within {} of \
                 the reward's range; price: the multiplier's mean.",
                figure(self.tolerance, 3)
            ),
        }
    }

    /// Averages, multipliers and certificate over time. `prefix` sets them apart from others on the page.
    pub(crate) fn figures(&self, prefix: &str) -> Vec<Figure> {
        if self.specification.requirements().is_empty() {
            return vec![figures::averages(&format!("{prefix}averages"), self.specification, self.course)];
        }
        vec![
            figures::averages(&format!("{prefix}averages"), self.specification, self.course),
            figures::multipliers(&format!("{prefix}multipliers"), self.specification, self.course),
            figures::certificates(
                &format!("{prefix}certificate"),
                self.specification,
                self.course,
                self.tolerance,
            ),
        ]
    }
}

/// "every one of 20 runs of …", or "1 run of …".
fn every(runs: &str, number: usize) -> String {
    if number == 1 { runs.to_owned() } else { format!("every one of {runs}") }
}

/// What is to be said beside the numbers.
#[derive(Default)]
pub(crate) struct Remarks<'a> {
    pub(crate) training: Option<&'a TrainingRecord>,
    pub(crate) steering: Option<Executor>,
    /// What is the matter with requirements that are behind, and what to do about it.
    pub(crate) advice: Option<String>,
    /// Whether it was stopped before the end.
    pub(crate) stopped: bool,
}

/// What turns multipliers into behaviour, in a line.
pub(crate) fn steered(steering: Executor) -> String {
    match steering {
        Executor::Policy => "the policy π(s, λ)".to_owned(),
        Executor::Library => "the policy's library: in each epoch the agent holds the weighting, of those whose settled averages \
                              are known, that is best at the multipliers"
            .to_owned(),
    }
}

/// The page on the runs of `acrl run`.
pub(crate) fn run_page(
    input: &str,
    told: &Told<'_>,
    run: &RunSettings,
    remarks: Remarks<'_>,
    pictures: Vec<Figure>,
    command: String,
) -> Report {
    let mut blocks: Vec<Block> = remarks.advice.map(Block::Text).into_iter().collect();
    blocks.push(Block::Table(told.table()));
    blocks.extend(told.figures("").into_iter().chain(pictures).map(Block::Figure));
    let mut facts = vec![
        ("input".to_owned(), input.to_owned()),
        (
            "requirements".to_owned(),
            told.specification.requirements().iter().map(figures::relation).collect::<Vec<_>>().join(", "),
        ),
        ("steps of a run".to_owned(), told.report.steps.to_string()),
        ("runs".to_owned(), told.report.runs.to_string()),
        ("epoch".to_owned(), format!("{} at the end", told.report.epoch)),
        ("step size".to_owned(), figure(run.step_size(), 4)),
        ("tolerance".to_owned(), figure(run.tolerance, 3)),
    ];
    facts.extend(remarks.steering.map(|steering| ("steered by".to_owned(), steered(steering))));
    if let Some(training) = remarks.training {
        facts.push(("trained".to_owned(), trained(training)));
    }
    facts.extend(machine(run.seed));
    Report {
        title: input.to_owned(),
        lead: if remarks.stopped {
            format!("Stopped by Ctrl-C: this is about the steps taken so far. {}", told.lead())
        } else {
            told.lead()
        },
        good: (!told.report.requirements.is_empty()).then(|| told.report.met()),
        blocks,
        facts,
        command,
    }
}

/// A training in a line.
pub(crate) fn trained(training: &TrainingRecord) -> String {
    format!(
        "{} with {}, {}, seed {}{}",
        training.method,
        training.learner,
        count(training.steps, "step"),
        training.seed,
        if training.complete { "" } else { ", stopped early" }
    )
}

/// The seed, the version and the machine.
pub(crate) fn machine(seed: u64) -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    vec![
        ("seed".to_owned(), seed.to_string()),
        ("acrl".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (
            "machine".to_owned(),
            format!("{}, {}, {}", std::env::consts::OS, std::env::consts::ARCH, count(cores as u64, "core")),
        ),
    ]
}

/// The command line, as it can be typed again.
pub(crate) fn command(words: &[OsString]) -> String {
    let quoted = |word: String| {
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_./,=:".contains(c);
        if !word.is_empty() && word.chars().all(safe) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = words.iter().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("acrl".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Cells without a tone.
pub(crate) fn plain<const N: usize>(cells: [&str; N]) -> Vec<Cell> {
    cells.map(|text| Cell { text: text.to_owned(), tone: Tone::Plain }).to_vec()
}

/// Yes or no.
pub(crate) fn verdict(met: bool) -> Cell {
    let (text, tone) = if met { ("yes", Tone::Good) } else { ("no", Tone::Bad) };
    Cell { text: text.to_owned(), tone }
}
