//! The result of a comparison and its page.

use acrl::{Named, Specification, Transient, Values, Verdict};
use acrl_report::run_figures::colours;
use acrl_report::run_page::{machine, pairs, percent, verdict_cell};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table, Tone};
use acrl_report::{bound, number};
use serde::Serialize;

use crate::Error;

/// A comparison of methods, in the user's signs. Serialises as the object of `acrl compare --json`.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Steps of each run.
    pub steps: u64,
    /// Runs of each training.
    pub runs: usize,
    /// Trainings of each method, each with its own seed.
    pub train_seeds: usize,
    /// Environment steps of each training.
    pub train_steps: u64,
    /// Violation that counts as met, as a share of what is asked.
    pub tolerance: f64,
    /// Step size of the dual update.
    pub step_size: f64,
    /// The first seed.
    pub seed: u64,
    /// The learner, for continuous problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learner: Option<&'static str>,
    /// The objective and the requirements.
    pub specification: Specification,
    /// The best possible objective, in the user's sign, where it is known.
    pub optimum: Option<f64>,
    /// What `optimum` is.
    #[serde(skip)]
    pub best: &'static str,
    /// The methods.
    pub methods: Vec<MethodEntry>,
    /// True if A-CRL meets every requirement by its certificate.
    #[serde(skip)]
    pub good: bool,
    /// True if a stop was requested before the end.
    #[serde(skip)]
    pub stopped: bool,
    /// The number of end components of a finite model.
    #[serde(skip)]
    pub end_components: usize,
}

/// A run of a method.
pub(crate) struct MethodRun {
    pub(crate) values: Vec<f64>,
    /// How it came to that, if it was watched.
    pub(crate) transient: Option<Transient>,
}

/// One method: means and worst values over runs.
#[derive(Debug, Serialize)]
pub struct MethodEntry {
    /// The method's name.
    pub method: &'static str,
    /// Means over runs, in the user's signs.
    pub averages: Named<f64>,
    /// Worst values over runs, in the user's signs.
    pub worst: Named<f64>,
    /// max_i (c_i − V_i)/R_i in the worst run; `null` without requirements.
    pub violation: Option<f64>,
    /// The largest violation of running averages in the last nine tenths of a run.
    pub transient: Option<f64>,
    /// First step from which all running averages stay within the tolerance, in the slowest run.
    pub met_from: Option<u64>,
    /// The verdict on all requirements in all runs: satisfied, within tolerance or violated by the averages.
    pub verdict: Verdict,
    /// The number of runs in which that is so, and of all runs.
    pub runs_met: [usize; 2],
    /// The number of parameters of a trained policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<usize>,
    /// What was run.
    pub note: String,
    /// (V_i − c_i)/R_i of each requirement: mean, least and most over runs.
    #[serde(skip)]
    margins: Vec<[f64; 3]>,
    /// Tolerance of each requirement, as a share of its range.
    #[serde(skip)]
    tolerances: Vec<f64>,
}

impl MethodEntry {
    /// Of the averages of runs, in the signs of the paper; `scales` are the ranges R₁ … R_m.
    pub(crate) fn new(
        method: &'static str,
        specification: &Specification,
        scales: &[f64],
        tolerances: &[f64],
        runs: &[MethodRun],
        note: String,
    ) -> Result<Self, Error> {
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
        let verdict = |run: &MethodRun| {
            let requirements = specification.requirements().iter().zip(tolerances).zip(&run.values[1..]);
            Verdict::of_all(
                requirements.map(|((r, tolerance), v)| Verdict::of(*v >= r.c(), r.c() - v, *tolerance)),
            )
        };
        let transients: Option<Vec<Transient>> = runs.iter().map(|run| run.transient).collect();
        let transient = transients.as_ref().and_then(|transients| {
            let most = transients.iter().map(|a| a.worst).fold(f64::NEG_INFINITY, f64::max);
            Some(most).filter(|most| most.is_finite())
        });
        let met_from = transients.and_then(|transients| {
            let all = transients.iter().map(|a| a.met_from).collect::<Option<Vec<u64>>>()?;
            all.into_iter().max()
        });
        Ok(Self {
            method,
            averages: named_values(specification, &averages),
            worst: named_values(specification, &worst),
            violation: Some(violation).filter(|v| v.is_finite()),
            transient,
            met_from,
            verdict: Verdict::of_all(runs.iter().map(verdict)),
            runs_met: [runs.iter().filter(|run| verdict(run).is_met()).count(), runs.len()],
            numbers: None,
            note,
            margins,
            tolerances: tolerances.iter().zip(scales).map(|(tolerance, scale)| tolerance / scale).collect(),
        })
    }

    /// The verdict on a requirement in the worst run.
    pub fn verdict_on(&self, i: usize) -> Verdict {
        let margin = self.margins[i][1];
        Verdict::of(margin >= 0.0, -margin, self.tolerances[i])
    }

    /// True if no requirement is violated in any run.
    pub fn met(&self) -> bool {
        self.verdict.is_met()
    }

    /// Sets the number of parameters.
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

impl Comparison {
    /// "3 runs of 200000 steps; …".
    pub fn amounts(&self) -> String {
        let trainings = match self.train_seeds {
            1 => String::new(),
            n => format!(" of each of {n} training runs"),
        };
        format!(
            "{} runs{trainings} of {} steps; learning methods train on {} steps",
            self.runs, self.steps, self.train_steps
        )
    }

    /// The averages of each method, and how far they miss the requirements; the goals come first.
    pub fn table(&self) -> Table {
        let names =
            self.methods.first().into_iter().flat_map(|first| first.averages.iter().map(|(name, _)| name));
        let mut header = vec!["average over runs"];
        header.extend(names);
        header.extend(["verdict", "worst violation", "worst transient", "settled after"]);
        let objective =
            self.specification.objective().map(|o| if o.sign() > 0.0 { "max" } else { "min" }.to_owned());
        let bounds = self.specification.requirements().iter().map(|r| bound(r.direction(), r.bound(), 4));
        let goals = std::iter::once(String::new()).chain(objective).chain(bounds);
        let mut rows: Vec<Vec<Cell>> = vec![goals.map(|goal| Cell::new(goal, Tone::Faint)).collect()];
        let miss = |value: Option<f64>| value.map_or("-".to_owned(), |v| number(v.max(0.0), 2));
        rows.extend(self.methods.iter().map(|entry| {
            let mut row = vec![entry.method.into()];
            row.extend(entry.averages.iter().map(|(_, v)| number(*v, 4).into()));
            row.push(verdict_cell(entry.verdict));
            row.push(miss(entry.violation.or(Some(0.0))).into());
            row.push(miss(entry.transient).into());
            row.push(entry.met_from.map_or("-".to_owned(), |step| step.to_string()).into());
            row
        }));
        rows[0].resize(header.len(), "".into());
        let legend = format!(
            "verdict: of all requirements in all runs, with a tolerance of {} of what is asked; worst violation: of any \
             requirement in any run, as a share of its range; worst transient: the largest violation of running averages \
             after the first tenth; settled after: first step from which all runs stay within tolerance",
            percent(self.tolerance)
        );
        Table::new(header, rows, legend)
    }

    /// The page on it. `input` is what was compared on, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let met: Vec<&str> = self.methods.iter().filter(|m| m.met()).map(|m| m.method).collect();
        let lead = match met.is_empty() {
            true => "No method meets every requirement in every run.".to_owned(),
            false => format!("Every requirement is met in every run by: {}.", met.join("; ")),
        };
        let mut blocks = vec![Block::Table(self.table()), Block::Figure(margins(self))];
        blocks.push(Block::Heading("The methods".to_owned()));
        let about = |entry: &MethodEntry| Block::Text(format!("{}: {}.", entry.method, entry.note));
        blocks.extend(self.methods.iter().map(about));
        let step_size = number(self.step_size, 4);
        let mut facts =
            pairs([("input", input.to_owned()), ("runs", self.amounts()), ("step size", step_size)]);
        facts.extend(pairs(self.learner.map(|learner| ("learner", learner.to_owned()))));
        facts.extend(machine(Some(self.seed)));
        let title = format!("{input}: methods compared");
        Report { title, lead, good: None, blocks, facts, command: command.to_owned() }
    }
}

/// How far each method is from what is required, and the objective that it has.
pub(crate) fn margins(comparison: &Comparison) -> Figure {
    let specification = &comparison.specification;
    let methods = &comparison.methods;
    let categories: Vec<String> = methods.iter().map(|entry| entry.method.to_owned()).collect();
    let colours = colours(specification);
    let margins = specification.requirements().iter().enumerate().map(|(i, r)| Bar {
        name: r.name().to_owned(),
        colour: colours[i],
        values: methods.iter().map(|entry| entry.margins[i][0]).collect(),
        ranges: methods.iter().map(|entry| (entry.margins[i][1], entry.margins[i][2])).collect(),
    });
    let bars = |y: Axis, bars, bounds| Plot::Bars(Bars { categories: categories.clone(), y, bars, bounds });
    let y = Axis::new("average − bound, share of range");
    let required = vec![Some(0.0); methods.len()];
    let mut panels = vec![Panel::new("Margin over each requirement", bars(y, margins.collect(), required))];
    if let Some(objective) = specification.objective() {
        let average =
            |entry: &MethodEntry| entry.averages.get(&objective.reward).copied().unwrap_or(f64::NAN);
        let best = comparison.optimum.map(|v| format!("; {} is {}", comparison.best, number(v, 4)));
        let title = format!("the objective, {}{}", objective.reward, best.unwrap_or_default());
        let bar = Bar {
            name: objective.reward.clone(),
            colour: Colour::Grey,
            values: methods.iter().map(average).collect(),
            ranges: Vec::new(),
        };
        panels.push(Panel::new(title, bars(Axis::new(&objective.reward), vec![bar], Vec::new())));
    }
    let caption = "Bars are means over runs and reach below 0 where a requirement is missed; whiskers go from the worst \
                   run to the best.";
    Figure::new("comparison", "Comparison of methods", caption, 1, panels)
}
