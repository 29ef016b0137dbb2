//! The page of `acrl run`: results, how they came about, and how to repeat them.

use acrl::{Executor, History, Named, Requirement, RunReport, Specification, Verdict};

use crate::curves::LiveRun;
use crate::run_figures::execution;
use crate::{Block, Cell, Figure, Report, Table, Tone, bound, count, number};

/// The results of some runs of one agent.
#[derive(Debug, Clone, Copy)]
pub struct RunSummary<'a> {
    /// The requirements and the objective.
    pub specification: &'a Specification,
    /// Averages, certificates and the diagnosis.
    pub report: &'a RunReport,
    /// Averages, multipliers and certificates over time.
    pub history: &'a History,
    /// The certified shortfall that counts as met, as a share of what is asked.
    pub tolerance: f64,
}

impl RunSummary<'_> {
    /// The outcome in a sentence.
    pub fn lead(&self) -> String {
        let runs =
            format!("{} of {}", count(self.report.runs as u64, "run"), count(self.report.steps, "step"));
        let all = self.report.requirements.len();
        let among = |verdict| self.report.requirements.iter().filter(|(_, r)| r.verdict == verdict).count();
        let [satisfied, within, violated] =
            [Verdict::Satisfied, Verdict::WithinTolerance, Verdict::Violated].map(among);
        let every = every(&runs, self.report.runs);
        match (all, self.report.verdict) {
            (0, _) => format!("{runs}; nothing is required."),
            (1, Verdict::Satisfied) => format!("The requirement is satisfied in {every}."),
            (1, Verdict::WithinTolerance) => {
                format!("The requirement is met within its tolerance in {every}.")
            }
            (1, Verdict::Violated) => format!("The requirement is violated; {runs}."),
            (_, Verdict::Satisfied) => format!("All {all} requirements are satisfied in {every}."),
            (_, Verdict::WithinTolerance) => {
                format!(
                    "{satisfied} of {all} requirements are satisfied, {within} within tolerance, in {every}."
                )
            }
            (_, Verdict::Violated) => format!("{violated} of {all} requirements are violated; {runs}."),
        }
    }

    /// The standing of each requirement.
    pub fn table(&self) -> Table {
        let requirements = self.specification.requirements();
        let header =
            ["", "bound", "average", "worst run", "certified shortfall", "tolerance", "price", "verdict"];
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        let report = self.report;
        if let Some(objective) = self.specification.objective() {
            let reward = objective.reward.as_str();
            let at = |named: &Named<f64>| number(named.get(reward).copied().unwrap_or(0.0), 5).into();
            let goal = if objective.sign() > 0.0 { "max" } else { "min" };
            rows.push(vec![reward.into(), goal.into(), at(&report.averages), at(&report.worst)]);
        }
        for (r, (name, entry)) in requirements.iter().zip(report.requirements.iter()) {
            let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
            rows.push(vec![
                name.into(),
                bound(r.direction(), r.bound(), 5).into(),
                number(entry.average, 5).into(),
                number(entry.worst, 5).into(),
                number(entry.certified_shortfall, 3).into(),
                number(entry.tolerance, 2).into(),
                number(price, 4).into(),
                verdict_cell(entry.verdict),
            ]);
        }
        if requirements.is_empty() {
            return Table::new(["", "", "average", "worst run"], rows, "");
        }
        let note = format!(
            "certified shortfall: proven upper bound on the violation in any run; tolerance: {} of what is asked; verdict: \
             satisfied if the average is within its bound in every run; price: the multiplier's mean.",
            percent(self.tolerance)
        );
        rows.iter_mut().for_each(|row| row.resize(header.len(), "".into()));
        Table::new(header, rows, note)
    }

    /// Averages, multipliers and certificate over time. `prefix` sets them apart from others on the page.
    pub fn figures(&self, prefix: &str) -> Vec<Figure> {
        execution(prefix, &LiveRun::of(self.specification, self.history), true)
    }
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{} %", number(100.0 * share, 3))
}

/// A verdict in its colour.
pub fn verdict_cell(verdict: Verdict) -> Cell {
    let tone = if verdict.is_met() { Tone::Good } else { Tone::Bad };
    Cell::new(verdict.to_string(), tone)
}

/// "every one of 20 runs of …", or "1 run of …".
fn every(runs: &str, number: usize) -> String {
    if number == 1 { runs.to_owned() } else { format!("every one of {runs}") }
}

/// Settings and remarks of some runs, for the page.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// Step size of the dual update.
    pub step_size: f64,
    /// Seed of all randomness.
    pub seed: u64,
    /// How the policy was trained.
    pub training: Option<String>,
    /// The executor, if there is a choice.
    pub executor: Option<Executor>,
    /// The diagnosis of requirements that are not met, and what to do about it.
    pub advice: Option<String>,
    /// True if it was stopped before the end.
    pub stopped: bool,
}

/// An executor in a line.
pub fn executor_line(executor: Executor) -> String {
    match executor {
        Executor::Policy => "the policy π(s, λ)".to_owned(),
        Executor::TimeSharing => "the policy's library: its entries take turns, in shares of each epoch that make up for what is missing"
            .to_owned(),
        Executor::Library => "the policy's library: for each epoch the agent holds the stored weights whose long-run averages are best at \
                              the multipliers"
            .to_owned(),
    }
}

/// The page of `acrl run`.
pub fn run_page(
    input: &str,
    summary: &RunSummary<'_>,
    notes: Notes,
    pictures: Vec<Figure>,
    command: String,
) -> Report {
    let mut blocks: Vec<Block> = notes.advice.map(Block::Text).into_iter().collect();
    blocks.push(Block::Table(summary.table()));
    blocks.extend(summary.figures("").into_iter().chain(pictures).map(Block::Figure));
    let requirement = |r: &Requirement| format!("{} {}", r.name(), bound(r.direction(), r.bound(), 4));
    let requirements: Vec<String> = summary.specification.requirements().iter().map(requirement).collect();
    let mut facts = pairs([
        ("input", input.to_owned()),
        ("requirements", requirements.join(", ")),
        ("steps of a run", summary.report.steps.to_string()),
        ("runs", summary.report.runs.to_string()),
        ("epoch", format!("{} at the end", summary.report.epoch)),
        ("step size", number(notes.step_size, 4)),
        ("tolerance", format!("{} of what is asked", percent(summary.tolerance))),
    ]);
    facts.extend(notes.executor.map(|executor| ("executor".to_owned(), executor_line(executor))));
    facts.extend(notes.training.map(|training| ("trained".to_owned(), training)));
    facts.extend(machine(Some(notes.seed)));
    let stopped = if notes.stopped { "Stopped by Ctrl-C: results of the steps taken so far. " } else { "" };
    Report {
        title: input.to_owned(),
        lead: format!("{stopped}{}", summary.lead()),
        good: (!summary.report.requirements.is_empty()).then(|| summary.report.met()),
        blocks,
        facts,
        command,
    }
}

/// Facts with the names that are shown.
pub fn pairs(facts: impl IntoIterator<Item = (&'static str, String)>) -> Vec<(String, String)> {
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The seed, if there is randomness, the version and the machine.
pub fn machine(seed: Option<u64>) -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = count(cores as u64, "core");
    let mut facts = pairs(seed.map(|seed| ("seed", seed.to_string())));
    facts.extend(pairs([
        ("acrl", env!("CARGO_PKG_VERSION").to_owned()),
        ("machine", format!("{}, {}, {cores}", std::env::consts::OS, std::env::consts::ARCH)),
    ]));
    facts
}
