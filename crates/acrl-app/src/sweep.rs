//! `acrl solve --sweep`: how the objective depends on one requirement.

use std::ops::ControlFlow;

use acrl::{Event, Named, Requirement, Specification};
use acrl_exact::{FiniteTask, Optimum, SweepPoint, sweep as sweep_tasks};
use acrl_report::run_page::machine;
use acrl_report::{
    Axis, Band, Block, Cell, Colour, Figure, Lines, Panel, Plot, Report, Series, Table as Grid, Tone, number,
};
use serde::Serialize;

use crate::Error;
use crate::comparison::named_values;
use crate::control::Control;
use crate::input::{FiniteProblem, Input};
use crate::options::Sweep;
use crate::solve::{Rounds, SolveSettings, objective_sign};

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
    sweep: &Sweep,
    settings: &SolveSettings,
    control: &Control,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<SweptCurve, Error> {
    sweep_finite(FiniteProblem::of(name, input)?, sweep, settings, control, observer)
}

pub(super) fn sweep_finite(
    mut problem: FiniteProblem,
    sweep: &Sweep,
    settings: &SolveSettings,
    control: &Control,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<SweptCurve, Error> {
    problem.specification = problem.specification.require(sweep.requirement.clone())?;
    let first = problem.task()?;
    let at = |bound: f64| -> Result<FiniteTask<'_>, Error> {
        let requirement = Requirement::new(sweep.requirement.reward(), sweep.requirement.direction(), bound)?;
        Ok(first.with(&problem.specification.require(requirement)?)?)
    };
    // From the loosest bound on, so that each begins with policies that are nearly right, and nothing is left to do
    // where the requirements cannot be met any more.
    let mut order: Vec<usize> = (0..sweep.bounds.len()).collect();
    let sign = sweep.requirement.sign();
    order.sort_by(|&i, &j| (sign * sweep.bounds[i]).total_cmp(&(sign * sweep.bounds[j])));
    let tasks = order.iter().map(|&i| at(sweep.bounds[i])).collect::<Result<Vec<_>, Error>>()?;
    let mut rounds = Rounds::new(settings, objective_sign(&first), control, observer);
    let total = tasks.len();
    let mut look = |i: usize, round: &_| rounds.look(&format!("bound {} of {total}, ", i + 1), round);
    let answers = sweep_tasks(&tasks, &settings.options(), &mut look)?;
    let reached =
        !answers.iter().any(|answer| matches!(answer, SweepPoint::Optimal(optimum) if !optimum.reached));
    let mut points: Vec<(usize, Point)> = order
        .iter()
        .zip(answers)
        .zip(&tasks)
        .map(|((&i, answer), task)| (i, point(task, sweep.bounds[i], answer)))
        .collect();
    points.sort_by_key(|(i, _)| *i);
    Ok(SweptCurve {
        requirement: tasks[0]
            .specification()
            .requirements()
            .iter()
            .find(|r| {
                r.reward() == sweep.requirement.reward() && r.direction() == sweep.requirement.direction()
            })
            .map_or_else(String::new, |r| r.name().to_owned()),
        specification: problem.specification.clone(),
        sweep: points.into_iter().map(|(_, point)| point).collect(),
        states: first.model().states(),
        choices: first.model().choice_count(),
        communicating: first.structure().is_communicating(),
        complete: reached && !control.stop.requested(),
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
    /// True if the requirements can be met at one of the bounds.
    pub fn feasible(&self) -> bool {
        self.sweep.iter().any(|point| point.status == "optimal")
    }

    fn requirement(&self) -> Option<&Requirement> {
        self.specification.requirements().iter().find(|r| r.name() == self.requirement)
    }

    /// "r1 >=", for a column of bounds.
    pub fn relation(&self) -> String {
        let sign = if self.requirement().is_some_and(|r| r.sign() < 0.0) { "<=" } else { ">=" };
        format!("{} {sign}", self.requirement)
    }

    /// The name of the objective.
    pub fn objective(&self) -> String {
        self.specification.objective().map_or_else(|| "objective".to_owned(), |o| o.reward.clone())
    }

    /// Header and rows of the table: bound, objective, price of the bound, the values of the other requirements.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
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
            let mut row = vec![number(point.bound, 6)];
            if point.status != "optimal" {
                row.push(point.status.to_owned());
                row.resize(header.len(), "-".to_owned());
                return row;
            }
            row.push(point.objective.map_or("met".to_owned(), |v| number(v, 6)));
            row.push(number(point.price(&self.requirement), 5));
            let value = |name: &&str| point.values.as_ref()?.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            row.extend(others.iter().map(|name| value(name).map_or("-".to_owned(), |v| number(v, 5))));
            row
        };
        (header.clone(), self.sweep.iter().map(row).collect())
    }

    /// The page on it. `input` is what was solved, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let infeasible = self.count("infeasible");
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
            ("took".to_owned(), format!("{} s", number(self.seconds, 2))),
        ];
        facts.extend(machine(0).into_iter().filter(|(name, _)| name != "seed"));
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
        let band = Band { name: "proven interval".to_owned(), low: end(0), high: end(1) };
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
            panels.push(panel("optimum", self.objective(), first, marked));
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

    /// The number of states of the model.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The number of bounds.
    pub fn len(&self) -> usize {
        self.sweep.len()
    }

    /// True if there are no bounds.
    pub fn is_empty(&self) -> bool {
        self.sweep.is_empty()
    }

    /// The number of bounds of this status: "optimal", "infeasible" or "unknown".
    pub fn count(&self, status: &str) -> usize {
        self.sweep.iter().filter(|point| point.status == status).count()
    }

    /// True if the gap was reached at every bound that can be met.
    pub fn reached(&self) -> bool {
        self.reached
    }

    /// True if nothing stopped it, and the gap was reached at every bound.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// True if the model has one end component.
    pub fn communicating(&self) -> bool {
        self.communicating
    }

    /// The objective and the requirements, with the first bound.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }
}
