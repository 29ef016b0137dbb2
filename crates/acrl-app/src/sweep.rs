//! `acrl solve --sweep`: how the objective depends on one requirement.

use std::ops::ControlFlow;
use std::path::Path;

use acrl::{Event, Named, Requirement, Specification};
use acrl_exact::{FiniteTask, Optimum, SweepPoint, sweep as sweep_tasks};
use acrl_report::{
    Axis, Band, Block, Cell, Colour, Figure, Lines, Panel, Plot, Report, Series, Table as Grid, Tone,
};
use serde::Serialize;

use crate::args::Sweep;
use crate::comparison::named_values;
use crate::input::{Input, Loaded};
use crate::output::{FAINT, GOOD, Output, STRONG, Table, count, figure, styled};
use crate::solve::{Rounds, SolveSettings, objective_sign};
use crate::watch::Watch;
use crate::{Verdict, folder, run_page as page};

/// The curve of the objective over the bound of one requirement. Serialises as the object of `acrl solve --sweep --json`.
#[derive(Debug, Serialize)]
pub struct SweptCurve {
    /// The requirement whose bound was moved.
    requirement: String,
    /// With the first bound.
    specification: Specification,
    sweep: Vec<Point>,
    states: usize,
    choices: usize,
    communicating: bool,
    /// Whether nothing stopped it, and the gap was reached at every bound.
    complete: bool,
    seconds: f64,
    /// Whether the gap was reached at every bound that can be met.
    #[serde(skip)]
    reached: bool,
}

/// One bound. Everything in the user's signs.
#[derive(Debug, Serialize)]
struct Point {
    bound: f64,
    /// "optimal", "infeasible", or "unknown".
    status: &'static str,
    objective: Option<f64>,
    bounds: Option<[f64; 2]>,
    gap: Option<f64>,
    values: Option<Named<f64>>,
    multipliers: Option<Named<f64>>,
}

impl Point {
    fn price(&self, name: &str) -> f64 {
        let found = self.multipliers.as_ref().and_then(|all| all.iter().find(|(n, _)| *n == name));
        found.map_or(f64::NAN, |(_, price)| *price)
    }
}

/// Solves a finite problem for several bounds of one requirement, until it is stopped. `name` is what messages call it;
/// `observer` sees [`Event::Round`] after every round.
pub fn sweep(
    name: &str,
    input: Input,
    asked: &Sweep,
    settings: &SolveSettings,
    watch: &Watch,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> anyhow::Result<SweptCurve> {
    sweep_finite(Loaded::of(name, input)?, asked, settings, watch, observer)
}

pub(super) fn sweep_finite(
    mut loaded: Loaded,
    asked: &Sweep,
    settings: &SolveSettings,
    watch: &Watch,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> anyhow::Result<SweptCurve> {
    loaded.specification = loaded.specification.require(asked.requirement.clone())?;
    let first = loaded.task()?;
    let at = |bound: f64| -> anyhow::Result<FiniteTask<'_>> {
        let requirement = Requirement::new(asked.requirement.reward(), asked.requirement.direction(), bound)?;
        Ok(first.with(&loaded.specification.require(requirement)?)?)
    };
    // From the loosest bound on, so that each begins with policies that are nearly right, and nothing is left to do
    // where the requirements cannot be met any more.
    let mut order: Vec<usize> = (0..asked.bounds.len()).collect();
    let sign = asked.requirement.sign();
    order.sort_by(|&i, &j| (sign * asked.bounds[i]).total_cmp(&(sign * asked.bounds[j])));
    let tasks = order.iter().map(|&i| at(asked.bounds[i])).collect::<anyhow::Result<Vec<_>>>()?;
    let mut rounds = Rounds::new(settings, objective_sign(&first), watch, observer);
    let total = tasks.len();
    let mut look = |i: usize, round: &_| rounds.look(&format!("bound {} of {total}, ", i + 1), round);
    let answers = sweep_tasks(&tasks, &settings.options(), &mut look)?;
    let reached =
        !answers.iter().any(|answer| matches!(answer, SweepPoint::Optimal(optimum) if !optimum.reached));
    let mut points: Vec<(usize, Point)> = order
        .iter()
        .zip(answers)
        .zip(&tasks)
        .map(|((&i, answer), task)| (i, point(task, asked.bounds[i], answer)))
        .collect();
    points.sort_by_key(|(i, _)| *i);
    Ok(SweptCurve {
        requirement: tasks[0]
            .specification()
            .requirements()
            .iter()
            .find(|r| {
                r.reward() == asked.requirement.reward() && r.direction() == asked.requirement.direction()
            })
            .map_or_else(String::new, |r| r.name().to_owned()),
        specification: loaded.specification.clone(),
        sweep: points.into_iter().map(|(_, point)| point).collect(),
        states: first.model().states(),
        choices: first.model().choice_count(),
        communicating: first.structure().is_communicating(),
        complete: reached && !watch.stop.requested(),
        seconds: rounds.start.elapsed().as_secs_f64(),
        reached,
    })
}

fn point(task: &FiniteTask<'_>, bound: f64, answer: SweepPoint) -> Point {
    let empty = |status| Point {
        bound,
        status,
        objective: None,
        bounds: None,
        gap: None,
        values: None,
        multipliers: None,
    };
    let optimum: Optimum = match answer {
        SweepPoint::Optimal(optimum) => *optimum,
        SweepPoint::Infeasible => return empty("infeasible"),
        SweepPoint::Unknown => return empty("unknown"),
    };
    let sign = objective_sign(task);
    let (lower, upper) = (sign * optimum.lower + 0.0, sign * optimum.upper + 0.0);
    let names = task.specification().names().into_iter();
    Point {
        objective: task.has_objective().then_some(sign * optimum.objective + 0.0),
        bounds: Some([lower.min(upper), lower.max(upper)]),
        gap: Some(optimum.gap),
        values: Some(named_values(task.specification(), &optimum.values)),
        multipliers: Some(names.zip(optimum.multipliers.as_slice().iter().copied()).collect()),
        ..empty("optimal")
    }
}

impl SweptCurve {
    /// Whether the requirements can be met at one of the bounds.
    pub fn feasible(&self) -> bool {
        self.sweep.iter().any(|point| point.status == "optimal")
    }

    fn requirement(&self) -> Option<&Requirement> {
        self.specification.requirements().iter().find(|r| r.name() == self.requirement)
    }

    /// "r1 >=", for a column of bounds.
    fn relation(&self) -> String {
        let sign = if self.requirement().is_some_and(|r| r.sign() < 0.0) { "<=" } else { ">=" };
        format!("{} {sign}", self.requirement)
    }

    fn objective(&self) -> String {
        self.specification.objective().map_or_else(|| "objective".to_owned(), |o| o.reward.clone())
    }

    /// Header and rows of the table: bound, objective, price of the bound, the values of the other requirements.
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut header = vec![self.relation(), self.objective(), "price".to_owned()];
        let others: Vec<&str> = self
            .specification
            .requirements()
            .iter()
            .map(Requirement::name)
            .filter(|n| *n != self.requirement)
            .collect();
        header.extend(others.iter().map(|name| (*name).to_owned()));
        let row = |point: &Point| {
            let mut row = vec![figure(point.bound, 6)];
            if point.status != "optimal" {
                row.push(point.status.to_owned());
                row.resize(header.len(), "-".to_owned());
                return row;
            }
            row.push(point.objective.map_or("met".to_owned(), |v| figure(v, 6)));
            row.push(figure(point.price(&self.requirement), 5));
            let value = |name: &&str| point.values.as_ref()?.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            row.extend(others.iter().map(|name| value(name).map_or("-".to_owned(), |v| figure(v, 5))));
            row
        };
        (header.clone(), self.sweep.iter().map(row).collect())
    }

    pub(super) fn tell(
        &self,
        input: &str,
        folder: Option<&Path>,
        output: &mut Output,
    ) -> anyhow::Result<Verdict> {
        if !self.reached {
            output.warn("the gap that was asked for is not reached at every bound");
        }
        if !self.complete && self.sweep.iter().any(|point| point.status == "unknown") {
            output.warn("stopped before all bounds were done: what is not known is marked so");
        }
        if let Some(folder) = folder {
            self.page(input, output.command()).write(folder)?;
        }
        if output.is_json() {
            output.object(self)?;
            return Ok(Verdict::of(self.feasible()));
        }
        let feasible = self.sweep.iter().filter(|p| p.status == "optimal").count();
        output.line(format!(
            "{} over {}: the requirements can be met at {} of {} ({})",
            styled(STRONG, self.objective()),
            styled(STRONG, self.relation()),
            styled(GOOD, feasible),
            count(self.sweep.len() as u64, "bound"),
            count(self.states as u64, "state"),
        ));
        output.line("");
        let (header, rows) = self.table();
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        rows.into_iter().for_each(|row| table.plain(row));
        output.raw(&table.to_string());
        if self.specification.objective().is_some() {
            output.line(styled(
                FAINT,
                "price: what the objective loses per unit by which the bound is tightened, the slope of the curve",
            ));
        }
        if !self.communicating {
            output.line(
                "The model has several separate end components, and a run ends in one of them: these are expected values.",
            );
        }
        if let Some(folder) = folder {
            output.line(folder::page_line(folder));
        }
        Ok(Verdict::of(self.feasible()))
    }

    /// The page on it. `input` is what was solved, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let infeasible = self.sweep.iter().filter(|p| p.status == "infeasible").count();
        let lead = format!(
            "The best {} for {} bounds on {}{}.",
            self.objective(),
            self.sweep.len(),
            self.requirement,
            match infeasible {
                0 => String::new(),
                n => format!("; at {n} of them the requirements cannot be met"),
            }
        );
        let (header, rows) = self.table();
        let cell = |text: String| {
            let tone = if text == "infeasible" { Tone::Bad } else { Tone::Plain };
            Cell { text, tone }
        };
        let rows = rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect();
        let note = "price: what the objective loses per unit by which the bound is tightened, the slope of the curve";
        let mut facts = vec![
            ("input".to_owned(), input.to_owned()),
            ("states".to_owned(), self.states.to_string()),
            ("choices".to_owned(), self.choices.to_string()),
            ("took".to_owned(), format!("{} s", figure(self.seconds, 2))),
        ];
        facts.extend(page::machine(0).into_iter().filter(|(name, _)| name != "seed"));
        Report {
            title: format!("{input}: {} over {}", self.objective(), self.requirement),
            lead,
            good: Some(self.feasible()),
            blocks: vec![
                Block::Figure(self.figure()),
                Block::Table(Grid { header, rows, note: note.to_owned() }),
            ],
            facts,
            command: command.to_owned(),
        }
    }

    /// The objective and the price over the bound.
    fn figure(&self) -> Figure {
        let mut points: Vec<&Point> = self.sweep.iter().collect();
        points.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        let x: Vec<f64> = points.iter().map(|p| p.bound).collect();
        let sign = if self.requirement().is_some_and(|r| r.sign() < 0.0) { '≤' } else { '≥' };
        let (least, most) = (x[0], x[x.len() - 1]);
        let room = 0.03 * (most - least);
        let axis = || Axis {
            label: format!("bound: {} {sign}", self.requirement),
            range: Some((least - room, most + room)),
            log: false,
        };
        let of = |f: &dyn Fn(&Point) -> f64| points.iter().map(|p| f(p)).collect::<Vec<f64>>();
        let curve = |name: String, colour, y: Vec<f64>, band| Series {
            name,
            colour,
            x: x.clone(),
            y,
            band,
            steps: false,
            dashed: false,
        };
        // Where they cannot be met there is no value: a dashed line at the foot says where that is.
        let marked = |y: &[f64]| {
            let foot = y.iter().copied().filter(|v| v.is_finite()).fold(f64::INFINITY, f64::min);
            let foot = if foot.is_finite() { foot } else { 0.0 };
            let y: Vec<f64> =
                points.iter().map(|p| if p.status == "infeasible" { foot } else { f64::NAN }).collect();
            let any = y.iter().any(|v| v.is_finite());
            any.then(|| Series { dashed: true, ..curve("cannot be met".to_owned(), Colour::Red, y, None) })
        };
        let objective = of(&|p| p.objective.unwrap_or(f64::NAN));
        let end = |i: usize| of(&move |p: &Point| p.bounds.map_or(f64::NAN, |b| b[i]));
        let band = Band { name: "proved to be in between".to_owned(), low: end(0), high: end(1) };
        let prices = of(&|p| p.price(&self.requirement));
        let panel = |title: &str, label: String, first: Series, marked: Option<Series>| Panel {
            title: title.to_owned(),
            plot: Plot::Lines(Lines {
                x: axis(),
                y: Axis { label, ..Axis::default() },
                series: std::iter::once(first).chain(marked).collect(),
                bounds: Vec::new(),
            }),
        };
        let mut panels = Vec::new();
        if self.specification.objective().is_some() {
            let marked = marked(&objective);
            let first = curve(self.objective(), Colour::Blue, objective, Some(band));
            panels.push(panel("the best that can be had", self.objective(), first, marked));
        }
        let marked = marked(&prices);
        let first = Series { steps: true, ..curve("price".to_owned(), Colour::Orange, prices, None) };
        let label = format!("price of {} in {}", self.requirement, self.objective());
        panels.push(panel("its slope: the price of the bound", label, first, marked));
        Figure {
            name: "sweep".to_owned(),
            title: format!("What {} costs", self.requirement),
            caption: "The best objective for each bound, and its price: what the objective loses per unit by which the bound \
                      is tightened. The curve bends where the policies change between which one switches. Dashed: there the \
                      requirements cannot be met."
                .to_owned(),
            columns: panels.len(),
            panels,
        }
    }

    /// The model is not kept: this says how large it was.
    pub fn states(&self) -> usize {
        self.states
    }
}
