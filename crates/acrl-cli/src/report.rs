//! The report on some runs, as text.

use acrl::{Executor, RunReport, Specification};
use acrl_envs::RunSettings;

use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, figure, relation, styled};

/// What is known beside the runs.
pub(crate) struct Beside<'a> {
    pub(crate) specification: &'a Specification,
    pub(crate) run: &'a RunSettings,
    /// The range of the objective.
    pub(crate) objective_scale: f64,
    /// What the objective can come to, in the user's sign, and what that is called.
    pub(crate) optimum: Option<f64>,
    pub(crate) best: &'a str,
    /// What turns multipliers into behaviour, if there is a choice.
    pub(crate) steering: Option<Executor>,
    /// What to do about a requirement that is behind.
    pub(crate) advice: Option<String>,
}

/// Prints the report on some runs.
pub(crate) fn print(report: &RunReport, beside: &Beside<'_>, output: &mut Output) {
    let Beside { specification, objective_scale, optimum, best, .. } = *beside;
    output.line(format!(
        "{} of {}, epoch {}, step size {}{}",
        count(report.runs as u64, "run"),
        count(report.steps, "step"),
        report.epoch,
        figure(beside.run.step_size(), 4),
        match beside.steering {
            Some(Executor::Library) => ", steered by the policy's library",
            _ => "",
        }
    ));
    output.line("");
    let demanding = !specification.requirements().is_empty();
    let mut table = Table::new(if demanding {
        &["", "bound", "average", "worst run", "certified within", "price", "met"]
    } else {
        &["", "", "average", "worst run"]
    });
    if let Some(objective) = specification.objective() {
        let at = |named: &acrl::Named<f64>| figure(named.get(&objective.reward).copied().unwrap_or(0.0), 5);
        table.plain(vec![
            objective.reward.clone(),
            if objective.sign() > 0.0 { "max" } else { "min" }.to_owned(),
            at(&report.averages),
            at(&report.worst),
        ]);
    }
    for (r, (name, entry)) in specification.requirements().iter().zip(report.requirements.iter()) {
        let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
        let mut row: Vec<(String, anstyle::Style)> = [
            name.to_owned(),
            relation(r, 5),
            figure(entry.average, 5),
            figure(entry.worst, 5),
            figure(entry.certified_shortfall, 3),
            figure(price, 4),
        ]
        .map(|cell| (cell, anstyle::Style::new()))
        .into();
        row.push(if entry.met { ("yes".to_owned(), GOOD) } else { ("NO".to_owned(), BAD) });
        table.row(row);
    }
    output.raw(&table.to_string());
    if demanding {
        for note in [
            "certified within: proved by the multipliers; no run is further behind than this".to_owned(),
            format!("met: certified within {} of the reward's range", figure(beside.run.tolerance, 3)),
            "price: the multiplier's mean".to_owned(),
        ] {
            output.line(styled(FAINT, note));
        }
    }
    output.line("");
    if let (Some(objective), Some(optimum)) = (specification.objective(), optimum) {
        let average = report.averages.get(&objective.reward).copied().unwrap_or(0.0);
        // Only a requirement that is behind, within its tolerance, lets the objective do better.
        let ahead = objective.sign() * (average - optimum) > 1e-3 * objective_scale;
        output.line(format!(
            "{} {}: {best} is {}{}",
            styled(STRONG, &objective.reward),
            figure(average, 4),
            figure(optimum, 4),
            if ahead { " once the requirements are met in full" } else { "" }
        ));
    }
    for (name, entry) in report.requirements.iter() {
        let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
        let (name, average, bound) = (styled(STRONG, name), figure(entry.average, 4), figure(entry.bound, 4));
        let certificate = figure(entry.certified_shortfall, 2);
        output.line(if entry.met {
            let met = styled(GOOD, "is met");
            format!(
                "{name} {met}: average {average}, certified within {certificate} of {bound}, price {}",
                figure(price, 3)
            )
        } else {
            let not_met = styled(BAD, "is not met");
            format!(
                "{name} {not_met}: average {average}, behind {bound} by up to {certificate}, price {}",
                figure(price, 3)
            )
        });
    }
    if let Some(advice) = &beside.advice {
        output.line("");
        output.line(advice);
    }
}
