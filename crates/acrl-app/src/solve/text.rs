//! The answer as text.

use acrl_exact::{Conflict, Optimum, Solution};

use super::SolveResult;
use super::json::ShareJson;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, figure, relation, styled};

pub(super) fn print_optimum(solved: &SolveResult, optimum: &Optimum, output: &mut Output) {
    let specification = &solved.specification;
    let sign = solved.sign();
    match specification.objective() {
        Some(objective) => output.line(format!(
            "{} {} = {}  ({}, proved to within {}, {})",
            if optimum.reached { styled(GOOD, "optimal") } else { styled(STRONG, "best found:") },
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
    if solved.parts > 1 {
        output.line("");
        output.line(format!(
            "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
            solved.parts
        ));
        let (header, rows) = solved.component_table();
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        rows.into_iter().for_each(|row| table.plain(row));
        output.raw(&table.to_string());
    }
    if let Some(sure) = &solved.sure {
        output.line(match (sure.objective, specification.objective()) {
            (Some(v), Some(o)) => {
                format!("On almost every path the best is {} = {}.", o.reward, figure(sign * v, 7))
            }
            (Some(_), None) => "The requirements can be met on almost every path.".to_owned(),
            (None, _) => "No policy meets the requirements on almost every path.".to_owned(),
        });
    }
}

pub(super) fn print_conflict(solved: &SolveResult, conflict: &Conflict, output: &mut Output) {
    let together = if conflict.names.len() == 1 { "" } else { " together" };
    output.line(format!(
        "{}: no policy meets {}{together}",
        styled(BAD, "infeasible"),
        styled(STRONG, conflict.names.join(", "))
    ));
    output.line(solved.certificate(conflict));
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
            alone.map_or_else(|| no_amount(conflict), relaxed),
        ]);
    }
    output.raw(&table.to_string());
}

/// What is said of a conflict whose analysis was stopped.
pub(super) const STOPPED: &str =
    "stopped before all was known about the conflict: the set may not be a smallest one";

/// Why a bound has no amount by which it could give way alone.
pub(super) fn no_amount(conflict: &Conflict) -> String {
    if conflict.complete { "does not help" } else { "not known" }.to_owned()
}

impl SolveResult {
    /// The table of end components: header and rows.
    pub(super) fn component_table(&self) -> (Vec<String>, Vec<Vec<String>>) {
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
            let mut row = vec![c.first.clone(), c.states.to_string(), figure(c.mass, 5)];
            match &c.values {
                Some(values) => row.extend(values.iter().map(|(_, v)| figure(*v, 5))),
                None => row.extend(names.iter().map(|_| "-".to_owned())),
            }
            row.push(match (&c.almost_sure, &self.sure) {
                (Some(alone), _) => alone.objective.map_or("can be met".to_owned(), |v| figure(v, 5)),
                (None, Some(_)) => "cannot be met".to_owned(),
                (None, None) => "not known".to_owned(),
            });
            row
        };
        (header, components.iter().take(MOST).map(row).collect())
    }

    /// The certificate as a sentence: "no policy has 0.6 r1 + 0.4 r2 above 0.93, and the bounds ask for 1".
    pub(super) fn certificate(&self, conflict: &Conflict) -> String {
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
            let size = figure(factor.abs(), 4);
            let size = if size == "1" { String::new() } else { format!("{size} ") };
            sum += &format!("{joint}{size}{}", r.reward());
        }
        let asked: f64 = priced.iter().map(|(y, r)| y * r.c()).sum();
        // Enough digits to tell the two apart.
        let digits =
            (6.0 - ((asked - conflict.most) / asked.abs().max(conflict.most.abs())).log10()).clamp(5.0, 15.0);
        let shown = |x: f64| figure(sign * x / total, digits as usize);
        let side = if sign > 0.0 { "above" } else { "below" };
        let all = if priced.len() == 1 { "the bound asks" } else { "the bounds together ask" };
        format!("No policy has {sum} {side} {}, and {all} for {}.", shown(conflict.most), shown(asked))
    }
}
