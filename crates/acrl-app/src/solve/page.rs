//! The answer as a page.

use acrl_exact::{Conflict, Optimum, Solution};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table as Grid, Tone};

use super::SolveResult;
use super::text::{STOPPED, no_amount};
use crate::output::figure;
use crate::run_figures::{self, colours};
use crate::run_page as page;

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
                "The {} {}{} is {}, proved to within a share of {}.",
                if self.sign() > 0.0 { "largest" } else { "least" },
                objective.reward,
                if optimum.reached { "" } else { " found" },
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
        let mut blocks = vec![Block::Text(self.certificate(conflict))];
        if !conflict.complete {
            blocks.push(Block::Text(format!("The analysis was {STOPPED}.")));
        }
        blocks.push(Block::Table(self.conflict_table(conflict)));
        blocks
    }

    fn conflict_table(&self, conflict: &Conflict) -> Grid {
        let requirements = self.specification.requirements().iter().zip(&self.ranges);
        let rows = requirements.zip(&conflict.relaxation.alone).map(|((r, range), alone)| {
            let relaxed = |amount: f64| figure(r.bound() - r.sign() * amount * range, 5);
            let cells = [
                r.name().to_owned(),
                bound(r),
                relaxed(conflict.relaxation.uniform),
                alone.map_or_else(|| no_amount(conflict), relaxed),
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
    run_figures::relation(requirement).trim_start_matches(requirement.name()).trim().to_owned()
}
