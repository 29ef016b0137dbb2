//! The solution as a page.

use acrl::Requirement;
use acrl_exact::{Conflict, Optimum, Solution};
use acrl_report::run_figures::colours;
use acrl_report::run_page::{machine, pairs};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table, Tone};
use acrl_report::{bound, number};

use super::SolveResult;
use super::json::ShareJson;

impl SolveResult {
    /// The page on it. `input` is what was solved, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let (lead, blocks) = match &self.answer {
            Solution::Optimal(optimum) => (self.optimum_lead(optimum), self.optimum_blocks(optimum)),
            Solution::Infeasible(conflict) => (
                format!("Infeasible: no policy meets {} together.", conflict.names.join(", ")),
                self.conflict_blocks(conflict),
            ),
        };
        let facts = solver_facts(input, (self.model.states(), self.model.choice_count()), self.seconds);
        let (title, good) = (format!("{input}: exact solution"), Some(self.feasible()));
        Report { title, lead, good, blocks, facts, command: command.to_owned() }
    }

    fn optimum_lead(&self, optimum: &Optimum) -> String {
        match self.specification.objective() {
            Some(objective) => format!(
                "The {} {}{} is {}, with a relative gap of {}.",
                if self.sign() > 0.0 { "maximum" } else { "minimum" },
                objective.reward,
                if optimum.reached { "" } else { " found" },
                number(self.sign() * optimum.objective, 6),
                number(optimum.gap.max(1e-12), 2)
            ),
            None => "The requirements can be met.".to_owned(),
        }
    }

    fn optimum_blocks(&self, optimum: &Optimum) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !self.specification.requirements().is_empty() {
            blocks.push(Block::Table(self.price_table(optimum)));
            blocks.push(Block::Figure(self.prices(optimum.multipliers.as_slice())));
        }
        if optimum.mixture.len() > 1 {
            blocks.push(Block::Heading("Attained by a mixture of deterministic policies".to_owned()));
            blocks.push(Block::Table(self.mixture_table(optimum)));
            if self.differing_states(optimum) > 0 {
                blocks.push(Block::Text(format!("{}.", sentence(&self.differing_heading(optimum)))));
                blocks.push(Block::Table(self.differing_table(optimum, 100)));
            }
        }
        if self.end_components > 1 {
            blocks.push(Block::Text(self.several_components()));
            blocks.push(Block::Table(self.component_table(optimum)));
        }
        blocks
    }

    /// The remark on a model with several end components.
    pub fn several_components(&self) -> String {
        format!(
            "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
            self.end_components
        )
    }

    /// The value and the price of each requirement.
    pub fn price_table(&self, optimum: &Optimum) -> Table {
        let row = |(i, r): (usize, &Requirement)| {
            let value = number(r.sign() * optimum.values.requirements()[i], 6);
            let price = number(optimum.multipliers.as_slice()[i], 5);
            vec![r.name().into(), bound(r.direction(), r.bound(), 6).into(), value.into(), price.into()]
        };
        Table::new(
            ["requirement", "bound", "value", "price"],
            self.specification.requirements().iter().enumerate().map(row),
            "price: what the objective loses per unit by which the bound is tightened",
        )
    }

    /// The policies of the mixture.
    pub fn mixture_table(&self, optimum: &Optimum) -> Table {
        let names = self.values(&optimum.values);
        let rows = optimum.mixture.iter().map(|component| {
            let values = self.values(&component.values);
            let cells = values.iter().map(|(_, v)| *v);
            std::iter::once(component.weight).chain(cells).map(|x| number(x, 5).into()).collect()
        });
        Table::new(std::iter::once("share of time").chain(names.iter().map(|(name, _)| name)), rows, "")
    }

    fn prices(&self, prices: &[f64]) -> Figure {
        let (requirements, colours) = (self.specification.requirements(), colours(&self.specification));
        let bar = |(i, r): (usize, &Requirement)| Bar {
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
            y: Axis::new(label),
            bars: requirements.iter().enumerate().map(bar).collect(),
            bounds: Vec::new(),
        });
        let caption = "The multiplier times the range of its reward, so that they can be compared.";
        Figure::new("prices", "What each requirement costs", caption, 1, vec![Panel::new("", plot)])
    }

    fn conflict_blocks(&self, conflict: &Conflict) -> Vec<Block> {
        let mut blocks = vec![Block::Text(self.infeasibility_proof(conflict))];
        if !conflict.complete {
            blocks.push(Block::Text(format!("The analysis was {ANALYSIS_STOPPED}.")));
        }
        blocks.push(Block::Table(self.conflict_table(conflict)));
        blocks
    }

    /// How far each bound has to be relaxed.
    pub fn conflict_table(&self, conflict: &Conflict) -> Table {
        let requirements = self.specification.requirements().iter().zip(&self.ranges);
        let rows = requirements.zip(&conflict.relaxation.alone).map(|((r, range), alone)| {
            let relaxed = |amount: f64| bound(r.direction(), r.bound() - r.sign() * amount * range, 5);
            let involved = conflict.names.iter().any(|name| name == r.name());
            vec![
                r.name().into(),
                bound(r.direction(), r.bound(), 6).into(),
                relaxed(conflict.relaxation.uniform).into(),
                alone.map_or_else(|| single_relaxation(conflict), relaxed).into(),
                if involved { Cell::new("yes", Tone::Bad) } else { "no".into() },
            ]
        });
        let header = ["requirement", "bound", "all relaxed", "this one alone", "in conflict"];
        Table::new(header, rows, "What the bounds would have to be for the requirements to be met.")
    }
}

/// A text that begins with a capital letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Facts on a page of the exact solver.
pub(crate) fn solver_facts(
    input: &str,
    (states, choices): (usize, usize),
    seconds: f64,
) -> Vec<(String, String)> {
    let mut facts = pairs([
        ("input", input.to_owned()),
        ("states", states.to_string()),
        ("choices", choices.to_string()),
        ("took", format!("{} s", number(seconds, 2))),
    ]);
    facts.extend(machine(None));
    facts
}

/// The remark on a conflict whose analysis was stopped.
pub const ANALYSIS_STOPPED: &str =
    "stopped before the analysis of the conflict was complete: the set may not be irreducible";

/// The text for a bound that no relaxation of its own makes feasible.
fn single_relaxation(conflict: &Conflict) -> String {
    if conflict.complete { "does not help" } else { "not known" }.to_owned()
}

impl SolveResult {
    /// What each end component has of the optimum; the most likely come first.
    pub fn component_table(&self, optimum: &Optimum) -> Table {
        const MOST: usize = 20;
        let names = self.values(&optimum.values);
        let names: Vec<&str> = names.iter().map(|(name, _)| name).collect();
        let header = ["end component of", "states", "share of runs"].into_iter().chain(names.iter().copied());
        let mut components = self.components();
        components.sort_by(|a, b| b.mass.total_cmp(&a.mass));
        let row = |c: &ShareJson| {
            let mut row: Vec<Cell> =
                vec![c.first.as_str().into(), c.states.to_string().into(), number(c.mass, 5).into()];
            match &c.values {
                Some(values) => row.extend(values.iter().map(|(_, v)| number(*v, 5).into())),
                None => row.extend(names.iter().map(|_| "-".into())),
            }
            row.push(match (&c.almost_sure, &self.almost_sure) {
                (Some(alone), _) => alone.objective.map_or("can be met".to_owned(), |v| number(v, 5)).into(),
                (None, Some(_)) => "cannot be met".into(),
                (None, None) => "not known".into(),
            });
            row
        };
        Table::new(header.chain(["when staying there"]), components.iter().take(MOST).map(row), "")
    }

    /// The proof of infeasibility as a sentence: "no policy has 0.6 r1 + 0.4 r2 above 0.93, and the bounds ask for 1".
    pub fn infeasibility_proof(&self, conflict: &Conflict) -> String {
        let requirements = self.specification.requirements();
        let priced: Vec<(f64, &Requirement)> =
            conflict.certificate.iter().copied().zip(requirements).filter(|(y, _)| *y > 0.0).collect();
        let total: f64 = priced.iter().map(|(y, _)| y).sum();
        // All on one side: in the sign in which they were asked for.
        let sign = if priced.iter().all(|(_, r)| r.sign() < 0.0) { -1.0 } else { 1.0 };
        let mut sum = String::new();
        for (y, r) in &priced {
            let factor = sign * r.sign() * y / total;
            let joint = match (sum.is_empty(), factor < 0.0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let size = number(factor.abs(), 4);
            let size = if size == "1" { String::new() } else { format!("{size} ") };
            sum += &format!("{joint}{size}{}", r.reward());
        }
        let asked: f64 = priced.iter().map(|(y, r)| y * r.c()).sum();
        // Enough digits to tell the two apart.
        let digits =
            (6.0 - ((asked - conflict.most) / asked.abs().max(conflict.most.abs())).log10()).clamp(5.0, 15.0);
        let shown = |x: f64| number(sign * x / total, digits as usize);
        let side = if sign > 0.0 { "above" } else { "below" };
        let all = if priced.len() == 1 { "the bound asks" } else { "the bounds together ask" };
        format!("No policy has {sum} {side} {}, and {all} for {}.", shown(conflict.most), shown(asked))
    }
}
