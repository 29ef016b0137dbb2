//! The table in which methods are compared, and the object printed as JSON.

use acrl::{Named, Specification, Values};
use serde::Serialize;

use crate::commands::solve::SpecificationJson;
use crate::output::{BAD, FAINT, GOOD, Output, Table, figure, relation, styled};

/// The object printed as JSON, in the user's signs.
#[derive(Serialize)]
pub(crate) struct Comparison {
    pub(crate) steps: u64,
    pub(crate) runs: usize,
    pub(crate) budget: u64,
    pub(crate) tolerance: f64,
    pub(crate) step_size: f64,
    pub(crate) seed: u64,
    /// What trained, for continuous problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) learner: Option<&'static str>,
    pub(crate) specification: SpecificationJson,
    pub(crate) methods: Vec<Entry>,
}

/// One method: means and worst values over runs.
#[derive(Serialize)]
pub(crate) struct Entry {
    method: &'static str,
    averages: Named<f64>,
    worst: Named<f64>,
    /// max_i (c_i − V_i)/R_i in the worst run; `null` without requirements.
    violation: Option<f64>,
    /// In every run no requirement is missed by more than the tolerance.
    met: bool,
    /// The numbers of which a trained policy is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<usize>,
    note: String,
}

impl Entry {
    /// Of the averages of runs, in the signs of the paper; `scales` are the ranges R₁ … R_m.
    pub(crate) fn new(
        method: &'static str,
        specification: &Specification,
        scales: &[f64],
        tolerance: f64,
        runs: &[Values],
        note: String,
    ) -> anyhow::Result<Self> {
        let rewards = specification.requirements().len() + 1;
        let mean = |i: usize| runs.iter().map(|v| v.as_slice()[i]).sum::<f64>() / runs.len() as f64;
        let least = |i: usize| runs.iter().map(|v| v.as_slice()[i]).fold(f64::INFINITY, f64::min);
        let averages = Values::new((0..rewards).map(mean).collect())?;
        // Requirements read V ≥ c and the objective is maximised, so the least is the worst.
        let worst = Values::new((0..rewards).map(least).collect())?;
        let missing = specification.requirements().iter().zip(worst.requirements()).zip(scales);
        let violation = missing.map(|((r, v), scale)| (r.c() - v) / scale).fold(f64::NEG_INFINITY, f64::max);
        Ok(Self {
            method,
            averages: named_values(specification, &averages),
            worst: named_values(specification, &worst),
            violation: Some(violation).filter(|v| v.is_finite()),
            met: violation <= tolerance,
            numbers: None,
            note,
        })
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

/// The table, and a line on each method.
pub(crate) fn print(comparison: &Comparison, specification: &Specification, output: &mut Output) {
    output.line(format!(
        "{} runs of {} steps; learning methods train on {} steps",
        comparison.runs, comparison.steps, comparison.budget
    ));
    output.line("");
    let Some(first) = comparison.methods.first() else { return };
    let names: Vec<String> = first.averages.iter().map(|(name, _)| name.to_owned()).collect();
    let mut header = vec!["average over runs"];
    header.extend(names.iter().map(String::as_str));
    header.extend(["worst miss", "met"]);
    let mut table = Table::new(&header);
    let plain = anstyle::Style::new();
    let mut aims = vec![String::new()];
    if let Some(objective) = specification.objective() {
        aims.push(if objective.sign() > 0.0 { "max" } else { "min" }.to_owned());
    }
    aims.extend(specification.requirements().iter().map(|r| relation(r, 4)));
    table.row(aims.into_iter().map(|aim| (aim, FAINT)).collect());
    for entry in &comparison.methods {
        let mut row = vec![(entry.method.to_owned(), plain)];
        row.extend(entry.averages.iter().map(|(_, average)| (figure(*average, 4), plain)));
        row.push((figure(entry.violation.unwrap_or(0.0).max(0.0), 2), plain));
        row.push(if entry.met { ("yes".to_owned(), GOOD) } else { ("NO".to_owned(), BAD) });
        table.row(row);
    }
    output.raw(&table.to_string());
    output.line(styled(
        FAINT,
        format!(
            "worst miss: of any requirement in any run, as a share of its range; met: at most {}",
            figure(comparison.tolerance, 3)
        ),
    ));
    output.line("");
    for entry in &comparison.methods {
        output.line(styled(FAINT, format!("{}: {}", entry.method, entry.note)));
    }
}
