//! `acrl solve --sweep`: how the objective depends on one requirement.

use std::ops::ControlFlow;

use acrl::{Event, Named, Requirement, Specification};
use acrl_exact::{FiniteTask, Optimum, SweepPoint, sweep as sweep_tasks};
use acrl_report::{Axis, Band, Block, Cell, Colour, Figure, Panel, Report, Series, Table, Tone, number};
use serde::Serialize;

use crate::Error;
use crate::comparison::named_values;
use crate::control::Control;
use crate::input::{FiniteProblem, Input};
use crate::options::Sweep;
use crate::solve::{Rounds, SolveSettings, objective_sign, solver_facts};

/// The curve of the objective over the bound of one requirement. Serialises as the object of `acrl solve --sweep --json`.
#[derive(Debug, Serialize)]
pub struct SweptCurve {
    /// The requirement whose bound was moved.
    requirement: String,
    /// The objective and the requirements, with the first bound.
    pub specification: Specification,
    sweep: Vec<Point>,
    /// The number of states of the model.
    pub states: usize,
    choices: usize,
    /// True if the model has one end component.
    pub communicating: bool,
    /// True if nothing stopped it, and the gap was reached at every bound.
    pub complete: bool,
    seconds: f64,
    /// True if the gap was reached at every bound that can be met.
    #[serde(skip)]
    pub reached: bool,
}

/// One bound. Everything in the user's signs.
#[derive(Debug, Default, Serialize)]
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
        self.multipliers.as_ref().and_then(|all| all.get(name).copied()).unwrap_or(f64::NAN)
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
    let mut problem = FiniteProblem::of(name, input)?;
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
    let empty = |status| Point { bound, status, ..Point::default() };
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

    /// "r1 ≥", for a column of bounds.
    pub fn relation(&self) -> String {
        let sign = if self.requirement().is_some_and(|r| r.sign() < 0.0) { '≤' } else { '≥' };
        format!("{} {sign}", self.requirement)
    }

    /// The name of the objective.
    pub fn objective(&self) -> String {
        self.specification.objective().map_or_else(|| "objective".to_owned(), |o| o.reward.clone())
    }

    /// Bound, objective, price of the bound, and the values of the other requirements.
    pub fn table(&self) -> Table {
        let requirements = self.specification.requirements().iter().map(Requirement::name);
        let others: Vec<&str> = requirements.filter(|name| *name != self.requirement).collect();
        let mut header = vec![self.relation(), self.objective(), "price".to_owned()];
        header.extend(others.iter().map(|name| (*name).to_owned()));
        let row = |point: &Point| {
            let mut row: Vec<Cell> = vec![number(point.bound, 6).into()];
            if point.status != "optimal" {
                let tone = if point.status == "infeasible" { Tone::Bad } else { Tone::Plain };
                row.push(Cell::new(point.status, tone));
                row.resize(header.len(), "-".into());
                return row;
            }
            row.push(point.objective.map_or("met".to_owned(), |v| number(v, 6)).into());
            row.push(number(point.price(&self.requirement), 5).into());
            let value = |name: &&str| point.values.as_ref()?.get(name).map(|v| number(*v, 5));
            row.extend(others.iter().map(|name| value(name).unwrap_or("-".to_owned()).into()));
            row
        };
        let rows: Vec<Vec<Cell>> = self.sweep.iter().map(row).collect();
        let note = "price: what the objective loses per unit by which the bound is tightened, the slope of the curve";
        Table::new(header, rows, note)
    }

    /// The page on it. `input` is what was solved, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let infeasible = match self.count("infeasible") {
            0 => String::new(),
            n => format!("; at {n} of them the requirements cannot be met"),
        };
        let (objective, requirement) = (self.objective(), &self.requirement);
        let bounds = self.sweep.len();
        Report {
            title: format!("{input}: {objective} over {requirement}"),
            lead: format!("The best {objective} for {bounds} bounds on {requirement}{infeasible}."),
            good: Some(self.feasible()),
            blocks: vec![Block::Figure(self.figure()), Block::Table(self.table())],
            facts: solver_facts(input, (self.states, self.choices), self.seconds),
            command: command.to_owned(),
        }
    }

    /// The objective and the price over the bound.
    fn figure(&self) -> Figure {
        let mut points: Vec<&Point> = self.sweep.iter().collect();
        points.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        let x: Vec<f64> = points.iter().map(|p| p.bound).collect();
        let (least, most) = (x[0], x[x.len() - 1]);
        let room = 0.03 * (most - least);
        let of = |f: &dyn Fn(&Point) -> f64| points.iter().map(|p| f(p)).collect::<Vec<f64>>();
        // Where the requirements cannot be met there is no value: a dashed line at the foot.
        let infeasible = |y: &[f64]| {
            let foot = y.iter().copied().filter(|v| v.is_finite()).fold(f64::INFINITY, f64::min);
            let foot = if foot.is_finite() { foot } else { 0.0 };
            let y = of(&|p| if p.status == "infeasible" { foot } else { f64::NAN });
            let any = y.iter().any(|v| v.is_finite());
            any.then(|| Series { dashed: true, ..Series::new("cannot be met", Colour::Red, x.clone(), y) })
        };
        let panel = |title: &str, label: String, curve: Series| {
            let range = Some((least - room, most + room));
            let x = Axis { range, ..Axis::new(format!("bound: {}", self.relation())) };
            let series = infeasible(&curve.y).into_iter();
            Panel::lines(title, x, Axis::new(label), std::iter::once(curve).chain(series).collect(), vec![])
        };
        let mut panels = Vec::new();
        if self.specification.objective().is_some() {
            let end = |i: usize| of(&move |p: &Point| p.bounds.map_or(f64::NAN, |b| b[i]));
            let band = Some(Band { name: "proven interval".to_owned(), low: end(0), high: end(1) });
            let y = of(&|p| p.objective.unwrap_or(f64::NAN));
            let curve = Series { band, ..Series::new(self.objective(), Colour::Blue, x.clone(), y) };
            panels.push(panel("optimum", self.objective(), curve));
        }
        let y = of(&|p| p.price(&self.requirement));
        let curve = Series { steps: true, ..Series::new("price", Colour::Orange, x.clone(), y) };
        let label = format!("price of {} in {}", self.requirement, self.objective());
        panels.push(panel("its slope: the price of the bound", label, curve));
        Figure::new(
            "sweep",
            &format!("What {} costs", self.requirement),
            "The best objective for each bound, and its price: what the objective loses per unit by which the bound is \
             tightened. The curve bends where the mixture changes policies. Dashed: there the requirements cannot be met.",
            panels.len(),
            panels,
        )
    }

    /// The number of bounds.
    pub fn bounds(&self) -> usize {
        self.sweep.len()
    }

    /// The number of bounds of this status: "optimal", "infeasible" or "unknown".
    pub fn count(&self, status: &str) -> usize {
        self.sweep.iter().filter(|point| point.status == status).count()
    }
}
