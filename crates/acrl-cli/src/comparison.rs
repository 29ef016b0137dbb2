//! The table in which methods are compared, and the object printed as JSON.

use acrl::{Named, Specification, Transient, Values};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table as Grid, Tone};
use serde::Serialize;

use crate::figures::colours;
use crate::output::{BAD, FAINT, GOOD, Output, Table, figure, relation, styled};
use crate::page::{machine, verdict};

/// Methods beside each other; the object printed as JSON, in the user's signs.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub(crate) steps: u64,
    /// Of each training.
    pub(crate) runs: usize,
    /// Trainings of each method, each with its own seed.
    pub(crate) trainings: usize,
    pub(crate) budget: u64,
    pub(crate) tolerance: f64,
    pub(crate) step_size: f64,
    pub(crate) seed: u64,
    /// What trained, for continuous problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) learner: Option<&'static str>,
    pub(crate) specification: Specification,
    /// The best possible objective, in the user's sign, where it is known.
    pub(crate) optimum: Option<f64>,
    /// What `optimum` is.
    #[serde(skip)]
    pub(crate) best: &'static str,
    pub(crate) methods: Vec<Entry>,
    /// Whether A-CRL meets every requirement by its certificate; the others are there to be compared with.
    #[serde(skip)]
    pub(crate) good: bool,
    /// Whether it was stopped before the end.
    #[serde(skip)]
    pub(crate) stopped: bool,
    /// The separate end components of a finite model.
    #[serde(skip)]
    pub(crate) parts: usize,
}

/// A run of a method.
pub(crate) struct Ran {
    pub(crate) values: Vec<f64>,
    /// How it came to that, if it was watched.
    pub(crate) arrival: Option<Transient>,
}

/// One method: means and worst values over runs.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    method: &'static str,
    averages: Named<f64>,
    worst: Named<f64>,
    /// max_i (c_i − V_i)/R_i in the worst run; `null` without requirements.
    violation: Option<f64>,
    /// The same of running averages in the last nine tenths of a run: the largest on the way.
    transient: Option<f64>,
    /// The step from which on no running average was behind by more than the tolerance, in the slowest run.
    met_from: Option<u64>,
    /// In every run no requirement is missed by more than the tolerance.
    met: bool,
    /// The runs of which that is so, and how many there were.
    runs_met: [usize; 2],
    /// The numbers of which a trained policy is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<usize>,
    note: String,
    /// (V_i − c_i)/R_i of each requirement: mean, least and most over runs.
    #[serde(skip)]
    margins: Vec<[f64; 3]>,
}

impl Entry {
    /// Of the averages of runs, in the signs of the paper; `scales` are the ranges R₁ … R_m.
    pub(crate) fn new(
        method: &'static str,
        specification: &Specification,
        scales: &[f64],
        tolerance: f64,
        runs: &[Ran],
        note: String,
    ) -> anyhow::Result<Self> {
        let rewards = specification.requirements().len() + 1;
        let mean = |i: usize| runs.iter().map(|run| run.values[i]).sum::<f64>() / runs.len() as f64;
        let least = |i: usize| runs.iter().map(|run| run.values[i]).fold(f64::INFINITY, f64::min);
        let most = |i: usize| runs.iter().map(|run| run.values[i]).fold(f64::NEG_INFINITY, f64::max);
        let averages = Values::new((0..rewards).map(mean).collect())?;
        // Requirements read V ≥ c and the objective is maximised, so the least is the worst.
        let worst = Values::new((0..rewards).map(least).collect())?;
        let margins: Vec<[f64; 3]> = specification
            .requirements()
            .iter()
            .zip(scales)
            .enumerate()
            .map(|(i, (r, scale))| [mean(i + 1), least(i + 1), most(i + 1)].map(|v| (v - r.c()) / scale))
            .collect();
        let violation = margins.iter().map(|[_, least, _]| -least).fold(f64::NEG_INFINITY, f64::max);
        let fine = |run: &Ran| {
            let requirements = specification.requirements().iter().zip(scales).zip(&run.values[1..]);
            requirements.into_iter().all(|((r, scale), v)| r.c() - v <= tolerance * scale)
        };
        let arrivals: Option<Vec<Transient>> = runs.iter().map(|run| run.arrival).collect();
        let transient = arrivals.as_ref().and_then(|arrivals| {
            let most = arrivals.iter().map(|a| a.worst).fold(f64::NEG_INFINITY, f64::max);
            Some(most).filter(|most| most.is_finite())
        });
        let met_from = arrivals.and_then(|arrivals| {
            let all = arrivals.iter().map(|a| a.met_from).collect::<Option<Vec<u64>>>()?;
            all.into_iter().max()
        });
        Ok(Self {
            method,
            averages: named_values(specification, &averages),
            worst: named_values(specification, &worst),
            violation: Some(violation).filter(|v| v.is_finite()),
            transient,
            met_from,
            met: violation <= tolerance,
            runs_met: [runs.iter().filter(|run| fine(run)).count(), runs.len()],
            numbers: None,
            note,
            margins,
        })
    }

    /// The name.
    pub(crate) fn method(&self) -> &'static str {
        self.method
    }

    /// The means over runs, in the user's signs.
    pub(crate) fn averages(&self) -> &Named<f64> {
        &self.averages
    }

    /// In how many runs everything is met, and of how many.
    pub(crate) fn runs_met(&self) -> [usize; 2] {
        self.runs_met
    }

    /// (V_i − c_i)/R_i in the worst run.
    pub(crate) fn margin(&self, i: usize) -> f64 {
        self.margins[i][1]
    }

    /// With the numbers of which the policy is made.
    pub(crate) fn made_of(self, numbers: usize) -> Self {
        Self { numbers: Some(numbers), ..self }
    }
}

/// Values by name, in the user's signs. A reward that is the objective and required as well comes once.
pub(crate) fn named_values(specification: &Specification, values: &Values) -> Named<f64> {
    let objective = specification.objective();
    let first = objective.map(|o| (o.reward.clone(), o.sign() * values.objective() + 0.0));
    let requirements = specification.requirements().iter().zip(values.requirements());
    let rest = requirements.map(|(r, v)| (r.name().to_owned(), r.sign() * v + 0.0));
    let rest = rest.filter(|(name, _)| objective.is_none_or(|o| o.reward != *name));
    first.into_iter().chain(rest).collect()
}

/// "3 runs of 200000 steps; …".
fn budget(comparison: &Comparison) -> String {
    let trainings = match comparison.trainings {
        1 => String::new(),
        n => format!(" of each of {n} trainings"),
    };
    format!(
        "{} runs{trainings} of {} steps; learning methods train on {} steps",
        comparison.runs, comparison.steps, comparison.budget
    )
}

/// What is aimed at, by column.
fn aims(specification: &Specification) -> Vec<String> {
    let objective = specification.objective().map(|o| if o.sign() > 0.0 { "max" } else { "min" }.to_owned());
    objective.into_iter().chain(specification.requirements().iter().map(|r| relation(r, 4))).collect()
}

/// What a method's line says after the averages, and how.
fn standing(entry: &Entry) -> [String; 3] {
    let miss = |value: Option<f64>| value.map_or("-".to_owned(), |v| figure(v.max(0.0), 2));
    [
        miss(entry.violation.or(Some(0.0))),
        miss(entry.transient),
        entry.met_from.map_or("-".to_owned(), |step| step.to_string()),
    ]
}

const COLUMNS: [&str; 3] = ["worst miss", "on the way", "from step"];

fn legend(tolerance: f64) -> String {
    format!(
        "worst miss: of any requirement in any run, as a share of its range; met: at most {}; on the way: the largest \
         miss of running averages after the first tenth; from step: from there on every run keeps within that",
        figure(tolerance, 3)
    )
}

/// The table, and a line on each method.
pub(crate) fn print(comparison: &Comparison, output: &mut Output) {
    let specification = &comparison.specification;
    output.line(budget(comparison));
    output.line("");
    let Some(first) = comparison.methods.first() else { return };
    let names: Vec<String> = first.averages.iter().map(|(name, _)| name.to_owned()).collect();
    let mut header = vec!["average over runs"];
    header.extend(names.iter().map(String::as_str));
    header.push("met");
    header.extend(COLUMNS);
    let mut table = Table::new(&header);
    let plain = anstyle::Style::new();
    let aims = std::iter::once(String::new()).chain(aims(specification));
    table.row(aims.map(|aim| (aim, FAINT)).collect());
    for entry in &comparison.methods {
        let mut row = vec![(entry.method.to_owned(), plain)];
        row.extend(entry.averages.iter().map(|(_, average)| (figure(*average, 4), plain)));
        row.push(if entry.met { ("yes".to_owned(), GOOD) } else { ("NO".to_owned(), BAD) });
        row.extend(standing(entry).map(|cell| (cell, plain)));
        table.row(row);
    }
    output.raw(&table.to_string());
    output.line(styled(FAINT, legend(comparison.tolerance)));
    if let (Some(objective), Some(optimum)) = (specification.objective(), comparison.optimum) {
        output.line(styled(
            FAINT,
            format!("{}: {} is {}", objective.reward, comparison.best, figure(optimum, 4)),
        ));
    }
    output.line("");
    for entry in &comparison.methods {
        output.line(styled(FAINT, format!("{}: {}", entry.method, entry.note)));
    }
}

/// The same table for a page.
pub(crate) fn grid(comparison: &Comparison) -> Grid {
    let cell = |text: String, tone| Cell { text, tone };
    let names =
        comparison.methods.first().map(|first| first.averages.iter().map(|(name, _)| name.to_owned()));
    let mut header = vec!["average over runs".to_owned()];
    header.extend(names.into_iter().flatten());
    header.push("met".to_owned());
    header.extend(COLUMNS.map(str::to_owned));
    let mut aims: Vec<Cell> = std::iter::once(String::new())
        .chain(aims(&comparison.specification))
        .map(|aim| cell(aim.replace(">=", "≥").replace("<=", "≤"), Tone::Faint))
        .collect();
    aims.resize(header.len(), cell(String::new(), Tone::Faint));
    let rows = comparison.methods.iter().map(|entry| {
        let mut row = vec![cell(entry.method.to_owned(), Tone::Plain)];
        row.extend(entry.averages.iter().map(|(_, v)| cell(figure(*v, 4), Tone::Plain)));
        row.push(verdict(entry.met));
        row.extend(standing(entry).map(|text| cell(text, Tone::Plain)));
        row
    });
    Grid { rows: std::iter::once(aims).chain(rows).collect(), header, note: legend(comparison.tolerance) }
}

/// How far each method is from what is required, and the objective that it has.
pub(crate) fn margins(comparison: &Comparison) -> Figure {
    let specification = &comparison.specification;
    let methods = &comparison.methods;
    let categories: Vec<String> = methods.iter().map(|entry| entry.method.to_owned()).collect();
    let colours = colours(specification);
    let bars = specification.requirements().iter().enumerate().map(|(i, r)| Bar {
        name: r.name().to_owned(),
        colour: colours[i],
        values: methods.iter().map(|entry| entry.margins[i][0]).collect(),
        ranges: methods.iter().map(|entry| (entry.margins[i][1], entry.margins[i][2])).collect(),
    });
    let axis = |label: &str| Axis { label: label.to_owned(), ..Axis::default() };
    let mut panels = vec![Panel {
        title: "how far above what is required".to_owned(),
        plot: Plot::Bars(Bars {
            categories: categories.clone(),
            y: axis("average − bound, share of range"),
            bars: bars.collect(),
            bounds: vec![Some(0.0); methods.len()],
        }),
    }];
    if let Some(objective) = specification.objective() {
        let average = |entry: &Entry| entry.averages.get(&objective.reward).copied().unwrap_or(f64::NAN);
        let best = comparison.optimum.map(|v| format!("; {} is {}", comparison.best, figure(v, 4)));
        panels.push(Panel {
            title: format!("the objective, {}{}", objective.reward, best.unwrap_or_default()),
            plot: Plot::Bars(Bars {
                categories,
                y: axis(&objective.reward),
                bars: vec![Bar {
                    name: objective.reward.clone(),
                    colour: Colour::Grey,
                    values: methods.iter().map(average).collect(),
                    ranges: Vec::new(),
                }],
                bounds: Vec::new(),
            }),
        });
    }
    Figure {
        name: "comparison".to_owned(),
        title: "The methods beside each other".to_owned(),
        caption: "Bars are means over runs and reach below 0 where a requirement is missed; whiskers go from the worst \
                  run to the best."
            .to_owned(),
        columns: 1,
        panels,
    }
}

impl Comparison {
    /// The page on it. `input` is what was compared on, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        page(self, input, command.to_owned())
    }
}

fn page(comparison: &Comparison, input: &str, command: String) -> Report {
    let met: Vec<&str> = comparison.methods.iter().filter(|m| m.met).map(|m| m.method).collect();
    let lead = if met.is_empty() {
        "No method meets every requirement in every run.".to_owned()
    } else {
        format!("Every requirement is met in every run by: {}.", met.join("; "))
    };
    let mut blocks = vec![Block::Table(grid(comparison)), Block::Figure(margins(comparison))];
    blocks.push(Block::Heading("The methods".to_owned()));
    let about = |entry: &Entry| Block::Text(format!("{}: {}.", entry.method, entry.note));
    blocks.extend(comparison.methods.iter().map(about));
    let mut facts = vec![
        ("input".to_owned(), input.to_owned()),
        ("runs".to_owned(), budget(comparison)),
        ("step size".to_owned(), figure(comparison.step_size, 4)),
    ];
    facts.extend(comparison.learner.map(|learner| ("learner".to_owned(), learner.to_owned())));
    facts.extend(machine(comparison.seed));
    let title = format!("{input}: methods compared");
    Report { title, lead, good: None, blocks, facts, command }
}
