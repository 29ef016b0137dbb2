//! The solution as a page.

use acrl_exact::{Conflict, Optimum, Solution};
use acrl_report::run_figures::{self, colours};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table as Grid, Tone};
use acrl_report::{number, run_page};

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
        let mut facts = vec![
            ("input".to_owned(), input.to_owned()),
            ("states".to_owned(), self.model.states().to_string()),
            ("choices".to_owned(), self.model.choice_count().to_string()),
            ("took".to_owned(), format!("{} s", number(self.seconds, 2))),
        ];
        // There is no randomness in it.
        facts.extend(run_page::machine(0).into_iter().filter(|(name, _)| name != "seed"));
        let (title, good) = (format!("{input}: exact solution"), Some(self.feasible()));
        Report { title, lead, good, blocks, facts, command: command.to_owned() }
    }

    fn optimum_lead(&self, optimum: &Optimum) -> String {
        match self.specification.objective() {
            Some(objective) => format!(
                "The {} {}{} is {}, proven to within a share of {}.",
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
        let requirements = self.specification.requirements();
        let row =
            |cells: Vec<String>| cells.into_iter().map(|text| Cell { text, tone: Tone::Plain }).collect();
        let prices = optimum.multipliers.as_slice();
        let rows = requirements.iter().enumerate().map(|(i, r)| {
            let value = number(r.sign() * optimum.values.requirements()[i], 6);
            row(vec![r.name().to_owned(), bound(r), value, number(prices[i], 5)])
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
                let cells = values.iter().map(|(_, v)| number(*v, 5));
                row(std::iter::once(number(c.weight, 5)).chain(cells).collect())
            });
            blocks.push(Block::Heading("Attained by switching between these policies".to_owned()));
            blocks.push(Block::Table(Grid {
                header: header.map(str::to_owned).collect(),
                rows: rows.collect(),
                note: String::new(),
            }));
        }
        if self.parts > 1 {
            blocks.push(Block::Text(format!(
                "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
                self.parts
            )));
            let (header, rows) = self.component_table();
            let rows = rows.into_iter().map(row).collect();
            blocks.push(Block::Table(Grid { header, rows, note: String::new() }));
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

    fn conflict_blocks(&self, conflict: &Conflict) -> Vec<Block> {
        let mut blocks = vec![Block::Text(self.infeasibility_proof(conflict))];
        if !conflict.complete {
            blocks.push(Block::Text(format!("The analysis was {ANALYSIS_STOPPED}.")));
        }
        blocks.push(Block::Table(self.conflict_table(conflict)));
        blocks
    }

    fn conflict_table(&self, conflict: &Conflict) -> Grid {
        let requirements = self.specification.requirements().iter().zip(&self.ranges);
        let rows = requirements.zip(&conflict.relaxation.alone).map(|((r, range), alone)| {
            let relaxed = |amount: f64| number(r.bound() - r.sign() * amount * range, 5);
            let cells = [
                r.name().to_owned(),
                bound(r),
                relaxed(conflict.relaxation.uniform),
                alone.map_or_else(|| single_relaxation(conflict), relaxed),
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
        let header = ["requirement", "bound", "all relaxed", "this one alone", "in conflict"];
        Grid {
            header: header.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            note: "What the bounds would have to be for the requirements to be met.".to_owned(),
        }
    }
}

/// "≥ 0.3".
fn bound(requirement: &acrl::Requirement) -> String {
    run_figures::relation(requirement).trim_start_matches(requirement.name()).trim().to_owned()
}

/// The remark on a conflict whose analysis was stopped.
pub const ANALYSIS_STOPPED: &str =
    "stopped before all was known about the conflict: the set may not be a smallest one";

/// The text for a bound that no relaxation of its own makes feasible.
pub fn single_relaxation(conflict: &Conflict) -> String {
    if conflict.complete { "does not help" } else { "not known" }.to_owned()
}

impl SolveResult {
    /// The table of end components: header and rows.
    pub fn component_table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        const MOST: usize = 20;
        let Solution::Optimal(optimum) = &self.answer else { return Default::default() };
        let mut header: Vec<String> =
            ["end component of", "states", "share of runs"].map(str::to_owned).into();
        let names = self.values(&optimum.values);
        header.extend(names.iter().map(|(name, _)| name.to_owned()));
        header.push("for one who stays".to_owned());
        let mut components = self.components();
        // Those in which most ends come first; of many that are empty there is no end.
        components.sort_by(|a, b| b.mass.total_cmp(&a.mass));
        let row = |c: &ShareJson| {
            let mut row = vec![c.first.clone(), c.states.to_string(), number(c.mass, 5)];
            match &c.values {
                Some(values) => row.extend(values.iter().map(|(_, v)| number(*v, 5))),
                None => row.extend(names.iter().map(|_| "-".to_owned())),
            }
            row.push(match (&c.almost_sure, &self.sure) {
                (Some(alone), _) => alone.objective.map_or("can be met".to_owned(), |v| number(v, 5)),
                (None, Some(_)) => "cannot be met".to_owned(),
                (None, None) => "not known".to_owned(),
            });
            row
        };
        (header, components.iter().take(MOST).map(row).collect())
    }

    /// The proof of infeasibility as a sentence: "no policy has 0.6 r1 + 0.4 r2 above 0.93, and the bounds ask for 1".
    pub fn infeasibility_proof(&self, conflict: &Conflict) -> String {
        let requirements = self.specification.requirements();
        let priced: Vec<(f64, &acrl::Requirement)> =
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
