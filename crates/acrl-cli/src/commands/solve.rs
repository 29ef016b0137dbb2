//! `acrl solve`: the optimum, the price of each requirement, or what is in conflict.

use std::sync::Arc;
use std::time::Instant;

use acrl::{FiniteCmdp, Named, Specification, Values};
use acrl_exact::{
    AlmostSure, Answer, Conflict, FiniteTask, Optimum, SolveOptions, SolveRound, almost_sure,
    solve as solve_task,
};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table as Grid, Tone};
use serde::{Serialize, Serializer};

use crate::args::SolveArgs;
use crate::comparison::named_values;
use crate::figures::{self, colours};
use crate::input::{Input, Loaded};
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, figure, relation, styled};
use crate::watch::{Watch, listen};
use crate::{Verdict, page};

/// Solves and prints.
pub(crate) fn verb(args: &SolveArgs, output: &mut Output) -> anyhow::Result<Verdict> {
    let loaded = Loaded::new(&args.source)?;
    let watch = Watch { stop: listen(), bar: output.spinner("solving") };
    let solved = solve_finite(loaded, args.gap, &watch)?;
    watch.bar.finish_and_clear();
    if let Answer::Optimal(optimum) = &solved.answer
        && optimum.gap > args.gap
    {
        let (gap, wanted) = (figure(optimum.gap, 3), figure(args.gap, 3));
        output.warn(&format!("stopped at a gap of {gap}, above the {wanted} asked for"));
    }
    match &solved.answer {
        _ if output.is_json() => output.object(&solved)?,
        Answer::Optimal(optimum) => {
            print_optimum(&solved, optimum, output);
            output.hint(format!(
                "Try next: acrl run {0}, to meet the requirements while running; acrl check {0}, for the theory.",
                args.source.input
            ));
        }
        Answer::Infeasible(conflict) => print_conflict(&solved, conflict, output),
    }
    Ok(Verdict::of(solved.feasible()))
}

/// The exact answer to a finite problem. Serialises as the object of `acrl solve --json`.
#[derive(Debug)]
pub struct Solved {
    model: Arc<FiniteCmdp>,
    specification: Specification,
    answer: Answer,
    /// Where there are several end components.
    sure: Option<AlmostSure>,
    communicating: bool,
    /// The number of end components.
    parts: usize,
    /// The range of each requirement's reward over the whole model.
    ranges: Vec<f64>,
    seconds: f64,
}

/// Solves a finite problem until the certified bounds are this close, or until it is stopped: what is proved by then is a
/// result too. `name` is what messages call it.
pub fn solve(name: &str, input: Input, gap: f64, watch: &Watch) -> anyhow::Result<Solved> {
    solve_finite(Loaded::of(name, input)?, gap, watch)
}

fn solve_finite(loaded: Loaded, gap: f64, watch: &Watch) -> anyhow::Result<Solved> {
    let start = Instant::now();
    let task = loaded.task()?;
    let mut look = |round: &SolveRound| {
        let gap =
            round.gap.map_or("looking for a feasible policy".to_owned(), |g| format!("gap {}", figure(g, 2)));
        watch.bar.set_message(format!("round {}, {gap},", round.round));
        watch.stop.flow()
    };
    let options = SolveOptions { gap, ..SolveOptions::default() };
    let answer = solve_task(&task, &options, &mut look)?;
    let communicating = task.structure().is_communicating();
    let sure = match &answer {
        Answer::Optimal(_) if !communicating => Some(almost_sure(&task, &options)?),
        _ => None,
    };
    let parts = task.structure().end_components.len();
    let ranges = task.in_model_units().scales().to_vec();
    let specification = task.specification().clone();
    let seconds = start.elapsed().as_secs_f64();
    Ok(Solved { model: loaded.model, specification, answer, sure, communicating, parts, ranges, seconds })
}

impl Solved {
    /// Whether the requirements can be met.
    pub fn feasible(&self) -> bool {
        matches!(self.answer, Answer::Optimal(_))
    }

    /// The answer, in the signs of the paper.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// What was asked.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// The model.
    pub fn model(&self) -> &FiniteCmdp {
        &self.model
    }

    /// The sign that turns r₀ back into the user's objective.
    fn sign(&self) -> f64 {
        self.specification.objective().map_or(1.0, acrl::Objective::sign)
    }

    fn values(&self, values: &Values) -> Named<f64> {
        named_values(&self.specification, values)
    }

    fn named<T: Copy>(&self, values: &[T]) -> Named<T> {
        self.specification.names().into_iter().zip(values.iter().copied()).collect()
    }

    /// The ranges of the multipliers; an end at infinity has no number.
    fn multiplier_ranges(&self, optimum: &Optimum) -> Named<[Option<f64>; 2]> {
        let end = |x: f64| Some(x).filter(|x| x.is_finite());
        let ranges = optimum.multiplier_ranges.iter().map(|&(low, high)| [end(low), end(high)]);
        self.specification.names().into_iter().zip(ranges).collect()
    }
}

impl Serialize for Solved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.answer {
            Answer::Optimal(optimum) => OptimalJson::new(self, optimum).serialize(serializer),
            Answer::Infeasible(conflict) => InfeasibleJson::new(self, conflict).serialize(serializer),
        }
    }
}

/// The object printed when the requirements can be met. Everything in the user's signs.
#[derive(Serialize)]
struct OptimalJson<'a> {
    status: &'static str,
    specification: &'a Specification,
    objective: Option<f64>,
    /// The best that can be had on almost every path; differs where there are several end components.
    almost_sure: Option<f64>,
    bounds: [f64; 2],
    gap: f64,
    values: Named<f64>,
    multipliers: Named<f64>,
    /// The least and the largest optimal multipliers, where they are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier_ranges: Option<Named<[Option<f64>; 2]>>,
    mixture: Vec<ComponentJson>,
    communicating: bool,
    states: usize,
    choices: usize,
    rounds: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct ComponentJson {
    weight: f64,
    values: Named<f64>,
}

impl<'a> OptimalJson<'a> {
    fn new(solved: &'a Solved, optimum: &Optimum) -> Self {
        let (sign, demands) = (solved.sign(), solved.specification.objective().is_some());
        let bounds = [sign * optimum.lower + 0.0, sign * optimum.upper + 0.0];
        Self {
            status: "optimal",
            specification: &solved.specification,
            almost_sure: match &solved.sure {
                Some(sure) => sure.objective.map(|v| sign * v + 0.0),
                None => Some(sign * optimum.objective + 0.0),
            }
            .filter(|_| demands),
            objective: demands.then_some(sign * optimum.objective + 0.0),
            bounds: if sign > 0.0 { bounds } else { [bounds[1], bounds[0]] },
            gap: optimum.gap,
            values: solved.values(&optimum.values),
            multipliers: solved.named(optimum.multipliers.as_slice()),
            multiplier_ranges: (!optimum.multipliers_are_unique()).then(|| solved.multiplier_ranges(optimum)),
            mixture: optimum
                .mixture
                .iter()
                .map(|c| ComponentJson { weight: c.weight, values: solved.values(&c.values) })
                .collect(),
            communicating: solved.communicating,
            states: solved.model.states(),
            choices: solved.model.choice_count(),
            rounds: optimum.rounds,
            seconds: solved.seconds,
        }
    }
}

/// The object printed when they cannot.
#[derive(Serialize)]
struct InfeasibleJson<'a> {
    status: &'static str,
    specification: &'a Specification,
    conflict: Vec<String>,
    certificate: Named<f64>,
    relax: RelaxJson,
    states: usize,
    choices: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct RelaxJson {
    uniform: Option<f64>,
    alone: Named<Option<f64>>,
}

impl<'a> InfeasibleJson<'a> {
    fn new(solved: &'a Solved, conflict: &Conflict) -> Self {
        Self {
            status: "infeasible",
            specification: &solved.specification,
            conflict: conflict.names.clone(),
            certificate: solved.named(&conflict.certificate),
            relax: RelaxJson {
                uniform: Some(conflict.relaxation.uniform).filter(|u| u.is_finite()),
                alone: solved.named(&conflict.relaxation.alone),
            },
            states: solved.model.states(),
            choices: solved.model.choice_count(),
            seconds: solved.seconds,
        }
    }
}

/// The sign that turns r₀ back into the user's objective.
pub(crate) fn objective_sign(task: &FiniteTask<'_>) -> f64 {
    task.specification().objective().map_or(1.0, acrl::Objective::sign)
}

fn print_optimum(solved: &Solved, optimum: &Optimum, output: &mut Output) {
    let specification = &solved.specification;
    let sign = solved.sign();
    match specification.objective() {
        Some(objective) => output.line(format!(
            "{} {} = {}  ({}, proved to within {}, {})",
            styled(GOOD, "optimal"),
            styled(STRONG, &objective.reward),
            styled(STRONG, figure(sign * optimum.objective, 7)),
            if sign > 0.0 { "largest" } else { "least" },
            if optimum.gap < 1e-12 {
                "rounding".to_owned()
            } else {
                format!("a share of {}", figure(optimum.gap, 2))
            },
            count(solved.model.states() as u64, "state"),
        )),
        None => output.line(format!(
            "{}  (no objective, {})",
            styled(GOOD, "feasible"),
            count(solved.model.states() as u64, "state")
        )),
    }
    if !specification.requirements().is_empty() {
        output.line("");
        let mut table = Table::new(&["requirement", "bound", "value", "price"]);
        for (i, r) in specification.requirements().iter().enumerate() {
            table.plain(vec![
                r.name().to_owned(),
                relation(r, 6),
                figure(r.sign() * optimum.values.requirements()[i], 6),
                figure(optimum.multipliers.as_slice()[i], 5),
            ]);
        }
        output.raw(&table.to_string());
        if specification.objective().is_some() {
            output.line(styled(
                FAINT,
                "price: what the objective loses per unit by which the bound is tightened",
            ));
        }
        if !optimum.multipliers_are_unique() {
            for (name, (low, high)) in specification.names().iter().zip(&optimum.multiplier_ranges) {
                let text =
                    format!("{name}: any price from {} to {} is right", figure(*low, 4), figure(*high, 4));
                output.line(styled(FAINT, text));
            }
        }
    }
    if optimum.mixture.len() > 1 {
        output.line("");
        output.line("attained by switching between these policies:");
        let names: Vec<String> =
            solved.values(&optimum.mixture[0].values).iter().map(|(n, _)| n.to_owned()).collect();
        let mut header = vec!["share of time"];
        header.extend(names.iter().map(String::as_str));
        let mut table = Table::new(&header);
        for component in &optimum.mixture {
            let mut row = vec![figure(component.weight, 5)];
            row.extend(solved.values(&component.values).iter().map(|(_, v)| figure(*v, 5)));
            table.plain(row);
        }
        output.raw(&table.to_string());
    }
    if let Some(sure) = &solved.sure {
        output.line("");
        output.line(format!(
            "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
            solved.parts
        ));
        output.line(match (sure.objective, specification.objective()) {
            (Some(v), Some(o)) => {
                format!("On almost every path the best is {} = {}.", o.reward, figure(sign * v, 7))
            }
            (Some(_), None) => "The requirements can be met on almost every path.".to_owned(),
            (None, _) => "No policy meets the requirements on almost every path.".to_owned(),
        });
    }
}

fn print_conflict(solved: &Solved, conflict: &Conflict, output: &mut Output) {
    let together = if conflict.names.len() == 1 { "" } else { " together" };
    output.line(format!(
        "{}: no policy meets {}{together}",
        styled(BAD, "infeasible"),
        styled(STRONG, conflict.names.join(", "))
    ));
    output.line("");
    output.line(format!(
        "They could be met if every bound gave way by {} of its reward's range, or if one gave way alone:",
        figure(conflict.relaxation.uniform, 4)
    ));
    let mut table = Table::new(&["requirement", "bound", "all give way", "this one alone"]);
    let requirements = solved.specification.requirements().iter();
    for ((r, alone), range) in requirements.zip(&conflict.relaxation.alone).zip(&solved.ranges) {
        let sign = if r.sign() > 0.0 { ">=" } else { "<=" };
        let relaxed = |amount: f64| format!("{sign} {}", figure(r.bound() - r.sign() * amount * range, 5));
        table.plain(vec![
            r.name().to_owned(),
            relation(r, 6),
            relaxed(conflict.relaxation.uniform),
            alone.map_or("does not help".to_owned(), relaxed),
        ]);
    }
    output.raw(&table.to_string());
}

impl Solved {
    /// The page on it. `input` is what was solved, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let (lead, blocks) = match &self.answer {
            Answer::Optimal(optimum) => (self.optimum_lead(optimum), self.optimum_blocks(optimum)),
            Answer::Infeasible(conflict) => (
                format!("Infeasible: no policy meets {} together.", conflict.names.join(", ")),
                vec![Block::Table(self.conflict_table(conflict))],
            ),
        };
        let mut facts = vec![
            ("input".to_owned(), input.to_owned()),
            ("states".to_owned(), self.model.states().to_string()),
            ("choices".to_owned(), self.model.choice_count().to_string()),
            ("took".to_owned(), format!("{} s", figure(self.seconds, 2))),
        ];
        // There is no randomness in it.
        facts.extend(page::machine(0).into_iter().filter(|(name, _)| name != "seed"));
        let (title, good) = (format!("{input}: the exact answer"), Some(self.feasible()));
        Report { title, lead, good, blocks, facts, command: command.to_owned() }
    }

    fn optimum_lead(&self, optimum: &Optimum) -> String {
        match self.specification.objective() {
            Some(objective) => format!(
                "The {} {} is {}, proved to within a share of {}.",
                if self.sign() > 0.0 { "largest" } else { "least" },
                objective.reward,
                figure(self.sign() * optimum.objective, 6),
                figure(optimum.gap.max(1e-12), 2)
            ),
            None => "The requirements can be met.".to_owned(),
        }
    }

    fn optimum_blocks(&self, optimum: &Optimum) -> Vec<Block> {
        let requirements = self.specification.requirements();
        let row =
            |cells: Vec<String>| cells.into_iter().map(|text| Cell { text, tone: Tone::Plain }).collect();
        let prices = optimum.multipliers.as_slice();
        let rows = requirements.iter().enumerate().map(|(i, r)| {
            let value = figure(r.sign() * optimum.values.requirements()[i], 6);
            row(vec![r.name().to_owned(), bound(r), value, figure(prices[i], 5)])
        });
        let mut blocks = Vec::new();
        if !requirements.is_empty() {
            blocks.push(Block::Table(Grid {
                header: ["requirement", "bound", "value", "price"].map(str::to_owned).to_vec(),
                rows: rows.collect(),
                note: "price: what the objective loses per unit by which the bound is tightened".to_owned(),
            }));
            blocks.push(Block::Figure(self.prices(prices)));
        }
        if optimum.mixture.len() > 1 {
            let names = self.values(&optimum.values);
            let header = std::iter::once("share of time").chain(names.iter().map(|(name, _)| name));
            let rows = optimum.mixture.iter().map(|c| {
                let values = self.values(&c.values);
                let cells = values.iter().map(|(_, v)| figure(*v, 5));
                row(std::iter::once(figure(c.weight, 5)).chain(cells).collect())
            });
            blocks.push(Block::Heading("Attained by switching between these policies".to_owned()));
            blocks.push(Block::Table(Grid {
                header: header.map(str::to_owned).collect(),
                rows: rows.collect(),
                note: String::new(),
            }));
        }
        if self.sure.is_some() {
            blocks.push(Block::Text(format!(
                "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
                self.parts
            )));
        }
        blocks
    }

    fn prices(&self, prices: &[f64]) -> Figure {
        let (requirements, colours) = (self.specification.requirements(), colours(&self.specification));
        let bar = |(i, r): (usize, &acrl::Requirement)| Bar {
            name: r.name().to_owned(),
            colour: colours.get(i).copied().unwrap_or(Colour::Grey),
            values: vec![prices[i] * self.ranges[i]],
            ranges: Vec::new(),
        };
        let label = match self.specification.objective() {
            Some(objective) => format!("price in {}, by the reward's range", objective.reward),
            None => "price, by the reward's range".to_owned(),
        };
        let plot = Plot::Bars(Bars {
            categories: vec!["price".to_owned()],
            y: Axis { label, ..Axis::default() },
            bars: requirements.iter().enumerate().map(bar).collect(),
            bounds: Vec::new(),
        });
        Figure {
            name: "prices".to_owned(),
            title: "What each requirement costs".to_owned(),
            caption: "The multiplier times the range of its reward, so that they can be compared.".to_owned(),
            columns: 1,
            panels: vec![Panel { title: String::new(), plot }],
        }
    }

    fn conflict_table(&self, conflict: &Conflict) -> Grid {
        let requirements = self.specification.requirements().iter().zip(&self.ranges);
        let rows = requirements.zip(&conflict.relaxation.alone).map(|((r, range), alone)| {
            let relaxed = |amount: f64| figure(r.bound() - r.sign() * amount * range, 5);
            let cells = [
                r.name().to_owned(),
                bound(r),
                relaxed(conflict.relaxation.uniform),
                alone.map_or("does not help".to_owned(), relaxed),
            ];
            let mut row: Vec<Cell> = cells.map(|text| Cell { text, tone: Tone::Plain }).into();
            let involved = conflict.names.iter().any(|name| name == r.name());
            row.push(if involved {
                Cell { text: "yes".to_owned(), tone: Tone::Bad }
            } else {
                Cell { text: "no".to_owned(), tone: Tone::Plain }
            });
            row
        });
        let header = ["requirement", "bound", "all give way", "this one alone", "in conflict"];
        Grid {
            header: header.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            note: "What the bounds would have to be for the requirements to be met.".to_owned(),
        }
    }
}

/// "≥ 0.3".
fn bound(requirement: &acrl::Requirement) -> String {
    figures::relation(requirement).trim_start_matches(requirement.name()).trim().to_owned()
}
