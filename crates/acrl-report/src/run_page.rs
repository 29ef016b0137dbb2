//! The page of `acrl run`: results, how they came about, and how to repeat them.

use acrl::{Executor, History, RunReport, Specification};

use crate::{Block, Cell, Figure, Report, Table, Tone, count, number, run_figures};

/// The results of some runs of one agent.
#[derive(Debug, Clone, Copy)]
pub struct RunSummary<'a> {
    /// The requirements and the objective.
    pub specification: &'a Specification,
    /// Averages, certificates and the diagnosis.
    pub report: &'a RunReport,
    /// Averages, multipliers and certificates over time.
    pub history: &'a History,
    /// The certified shortfall that counts as met, as a share of each reward's range.
    pub tolerance: f64,
}

impl RunSummary<'_> {
    /// The outcome in a sentence.
    pub fn lead(&self) -> String {
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
    pub fn table(&self) -> Table {
        let header = ["", "bound", "average", "worst run", "certified shortfall", "price", "met"];
        let mut rows = Vec::new();
        let report = self.report;
        if let Some(objective) = self.specification.objective() {
            let at =
                |named: &acrl::Named<f64>| number(named.get(&objective.reward).copied().unwrap_or(0.0), 5);
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
                run_figures::relation(r).trim_start_matches(r.name()).trim(),
                &number(entry.average, 5),
                &number(entry.worst, 5),
                &number(entry.certified_shortfall, 3),
                &number(price, 4),
            ]);
            row.push(yes_no(entry.met));
            rows.push(row);
        }
        Table {
            header: header.map(str::to_owned).to_vec(),
            rows,
            note: format!(
                "certified shortfall: proven upper bound on the violation in any run; met: certified shortfall at most {} of \
                 the reward's range; price: the multiplier's mean.",
                number(self.tolerance, 3)
            ),
        }
    }

    /// Averages, multipliers and certificate over time. `prefix` sets them apart from others on the page.
    pub fn figures(&self, prefix: &str) -> Vec<Figure> {
        if self.specification.requirements().is_empty() {
            return vec![run_figures::averages(
                &format!("{prefix}averages"),
                self.specification,
                self.history,
            )];
        }
        vec![
            run_figures::averages(&format!("{prefix}averages"), self.specification, self.history),
            run_figures::multipliers(&format!("{prefix}multipliers"), self.specification, self.history),
            run_figures::certificates(
                &format!("{prefix}certificate"),
                self.specification,
                self.history,
                self.tolerance,
            ),
        ]
    }
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
    let mut facts = vec![
        ("input".to_owned(), input.to_owned()),
        (
            "requirements".to_owned(),
            summary
                .specification
                .requirements()
                .iter()
                .map(run_figures::relation)
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("steps of a run".to_owned(), summary.report.steps.to_string()),
        ("runs".to_owned(), summary.report.runs.to_string()),
        ("epoch".to_owned(), format!("{} at the end", summary.report.epoch)),
        ("step size".to_owned(), number(notes.step_size, 4)),
        ("tolerance".to_owned(), number(summary.tolerance, 3)),
    ];
    facts.extend(notes.executor.map(|executor| ("executor".to_owned(), executor_line(executor))));
    facts.extend(notes.training.map(|training| ("trained".to_owned(), training)));
    facts.extend(machine(notes.seed));
    Report {
        title: input.to_owned(),
        lead: if notes.stopped {
            format!("Stopped by Ctrl-C: results of the steps taken so far. {}", summary.lead())
        } else {
            summary.lead()
        },
        good: (!summary.report.requirements.is_empty()).then(|| summary.report.met()),
        blocks,
        facts,
        command,
    }
}

/// The seed, the version and the machine.
pub fn machine(seed: u64) -> Vec<(String, String)> {
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

/// Cells without a tone.
pub fn plain<const N: usize>(cells: [&str; N]) -> Vec<Cell> {
    cells.map(|text| Cell { text: text.to_owned(), tone: Tone::Plain }).to_vec()
}

/// A cell "yes" or "no".
pub fn yes_no(met: bool) -> Cell {
    let (text, tone) = if met { ("yes", Tone::Good) } else { ("no", Tone::Bad) };
    Cell { text: text.to_owned(), tone }
}
