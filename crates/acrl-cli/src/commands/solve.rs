//! `acrl solve`: the optimum, the price of each requirement, or what is in conflict.

use std::ops::ControlFlow;
use std::time::Instant;

use acrl::{Named, Values};
use acrl_exact::{
    AlmostSure, Answer, Conflict, FiniteTask, Optimum, SolveOptions, SolveRound, almost_sure,
    solve as solve_task,
};
use serde::Serialize;

use crate::args::SolveArgs;
use crate::input::Loaded;
use crate::interrupt;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, figure, relation, styled};
use crate::{Verdict, comparison};

/// Solves and prints.
pub(crate) fn solve(args: &SolveArgs, output: &mut Output) -> anyhow::Result<Verdict> {
    let start = Instant::now();
    let loaded = Loaded::new(&args.source)?;
    let task = loaded.task()?;
    interrupt::listen();
    let spinner = output.spinner("solving");
    let mut watch = |round: &SolveRound| {
        let gap =
            round.gap.map_or("looking for a feasible policy".to_owned(), |g| format!("gap {}", figure(g, 2)));
        spinner.set_message(format!("round {}, {gap},", round.round));
        // What is proved so far is a result too.
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = SolveOptions { gap: args.gap, ..SolveOptions::default() };
    let answer = solve_task(&task, &options, &mut watch)?;
    let sure = match &answer {
        Answer::Optimal(_) if !task.structure().is_communicating() => Some(almost_sure(&task, &options)?),
        _ => None,
    };
    spinner.finish_and_clear();
    if let Answer::Optimal(optimum) = &answer
        && optimum.gap > args.gap
    {
        let (gap, wanted) = (figure(optimum.gap, 3), figure(args.gap, 3));
        output.warn(&format!("stopped at a gap of {gap}, above the {wanted} asked for"));
    }
    let seconds = start.elapsed().as_secs_f64();
    match &answer {
        Answer::Optimal(optimum) if output.is_json() => {
            output.object(&OptimalJson::new(&task, optimum, sure.as_ref(), seconds))?;
        }
        Answer::Infeasible(conflict) if output.is_json() => {
            output.object(&InfeasibleJson::new(&task, conflict, seconds))?;
        }
        Answer::Optimal(optimum) => {
            print_optimum(&task, optimum, sure.as_ref(), output);
            output.hint(format!(
                "Try next: acrl run {0}, to meet the requirements while running; acrl check {0}, for the theory.",
                args.source.input
            ));
        }
        Answer::Infeasible(conflict) => print_conflict(&task, conflict, output),
    }
    Ok(match answer {
        Answer::Optimal(_) => Verdict::Good,
        Answer::Infeasible(_) => Verdict::Bad,
    })
}

/// The object printed when the requirements can be met. Everything in the user's signs.
#[derive(Serialize)]
struct OptimalJson {
    status: &'static str,
    specification: SpecificationJson,
    objective: Option<f64>,
    /// The best that can be had on almost every path; differs where there are several end components.
    almost_sure: Option<f64>,
    bounds: [f64; 2],
    gap: f64,
    values: Named<f64>,
    multipliers: Named<f64>,
    /// The least and the largest optimal multipliers, where they are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier_ranges: Option<Named<[Option<f64>; 2]>>,
    mixture: Vec<ComponentJson>,
    communicating: bool,
    states: usize,
    choices: usize,
    rounds: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct ComponentJson {
    weight: f64,
    values: Named<f64>,
}

impl OptimalJson {
    fn new(task: &FiniteTask<'_>, optimum: &Optimum, sure: Option<&AlmostSure>, seconds: f64) -> Self {
        let sign = objective_sign(task);
        let bounds = [sign * optimum.lower + 0.0, sign * optimum.upper + 0.0];
        Self {
            status: "optimal",
            specification: SpecificationJson::new(task.specification()),
            almost_sure: match sure {
                Some(sure) => sure.objective.map(|v| sign * v + 0.0),
                None => Some(sign * optimum.objective + 0.0),
            }
            .filter(|_| task.has_objective()),
            objective: task.has_objective().then_some(sign * optimum.objective + 0.0),
            bounds: if sign > 0.0 { bounds } else { [bounds[1], bounds[0]] },
            gap: optimum.gap,
            values: named_values(task, &optimum.values),
            multipliers: named(task, optimum.multipliers.as_slice()),
            multiplier_ranges: (!optimum.multipliers_are_unique()).then(|| ranges(task, optimum)),
            mixture: optimum
                .mixture
                .iter()
                .map(|c| ComponentJson { weight: c.weight, values: named_values(task, &c.values) })
                .collect(),
            communicating: task.structure().is_communicating(),
            states: task.model().states(),
            choices: task.model().choice_count(),
            rounds: optimum.rounds,
            seconds,
        }
    }
}

/// The object printed when they cannot.
#[derive(Serialize)]
struct InfeasibleJson {
    status: &'static str,
    specification: SpecificationJson,
    conflict: Vec<String>,
    certificate: Named<f64>,
    relax: RelaxJson,
    states: usize,
    choices: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct RelaxJson {
    uniform: Option<f64>,
    alone: Named<Option<f64>>,
}

impl InfeasibleJson {
    fn new(task: &FiniteTask<'_>, conflict: &Conflict, seconds: f64) -> Self {
        let names = task.specification().names();
        Self {
            status: "infeasible",
            specification: SpecificationJson::new(task.specification()),
            conflict: conflict.names.clone(),
            certificate: named(task, &conflict.certificate),
            relax: RelaxJson {
                uniform: Some(conflict.relaxation.uniform).filter(|u| u.is_finite()),
                alone: names.into_iter().zip(conflict.relaxation.alone.iter().copied()).collect(),
            },
            states: task.model().states(),
            choices: task.model().choice_count(),
            seconds,
        }
    }
}

/// What was asked for, so that a result stands by itself.
#[derive(Serialize)]
pub(crate) struct SpecificationJson {
    objective: Option<acrl::Objective>,
    requirements: Vec<acrl::Requirement>,
}

impl SpecificationJson {
    pub(crate) fn new(specification: &acrl::Specification) -> Self {
        Self {
            objective: specification.objective().cloned(),
            requirements: specification.requirements().to_vec(),
        }
    }
}

/// The sign that turns r₀ back into the user's objective.
pub(crate) fn objective_sign(task: &FiniteTask<'_>) -> f64 {
    task.specification().objective().map_or(1.0, acrl::Objective::sign)
}

/// V₀ … V_m by name, in the user's signs.
pub(crate) fn named_values(task: &FiniteTask<'_>, values: &Values) -> Named<f64> {
    comparison::named_values(task.specification(), values)
}

/// The ranges of the multipliers; an end at infinity has no number.
fn ranges(task: &FiniteTask<'_>, optimum: &Optimum) -> Named<[Option<f64>; 2]> {
    let end = |x: f64| Some(x).filter(|x| x.is_finite());
    let ranges = optimum.multiplier_ranges.iter().map(|&(low, high)| [end(low), end(high)]);
    task.specification().names().into_iter().zip(ranges).collect()
}

fn named(task: &FiniteTask<'_>, numbers: &[f64]) -> Named<f64> {
    task.specification().names().into_iter().zip(numbers.iter().copied()).collect()
}

fn print_optimum(task: &FiniteTask<'_>, optimum: &Optimum, sure: Option<&AlmostSure>, output: &mut Output) {
    let specification = task.specification();
    let sign = objective_sign(task);
    match specification.objective() {
        Some(objective) => output.line(format!(
            "{} {} = {}  ({}, proved to within {}, {})",
            styled(GOOD, "optimal"),
            styled(STRONG, &objective.reward),
            styled(STRONG, figure(sign * optimum.objective, 7)),
            if sign > 0.0 { "largest" } else { "least" },
            if optimum.gap < 1e-12 {
                "rounding".to_owned()
            } else {
                format!("a share of {}", figure(optimum.gap, 2))
            },
            count(task.model().states() as u64, "state"),
        )),
        None => output.line(format!(
            "{}  (no objective, {})",
            styled(GOOD, "feasible"),
            count(task.model().states() as u64, "state")
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
            named_values(task, &optimum.mixture[0].values).iter().map(|(n, _)| n.to_owned()).collect();
        let mut header = vec!["share of time"];
        header.extend(names.iter().map(String::as_str));
        let mut table = Table::new(&header);
        for component in &optimum.mixture {
            let mut row = vec![figure(component.weight, 5)];
            row.extend(named_values(task, &component.values).iter().map(|(_, v)| figure(*v, 5)));
            table.plain(row);
        }
        output.raw(&table.to_string());
    }
    if let Some(sure) = sure {
        output.line("");
        output.line(format!(
            "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
            task.structure().end_components.len()
        ));
        output.line(match (sure.objective, specification.objective()) {
            (Some(v), Some(o)) => {
                format!("On almost every path the best is {} = {}.", o.reward, figure(sign * v, 7))
            }
            (Some(_), None) => "The requirements can be met on almost every path.".to_owned(),
            (None, _) => "No policy meets the requirements on almost every path.".to_owned(),
        });
    }
}

fn print_conflict(task: &FiniteTask<'_>, conflict: &Conflict, output: &mut Output) {
    let together = if conflict.names.len() == 1 { "" } else { " together" };
    output.line(format!(
        "{}: no policy meets {}{together}",
        styled(BAD, "infeasible"),
        styled(STRONG, conflict.names.join(", "))
    ));
    output.line("");
    output.line(format!(
        "They could be met if every bound gave way by {} of its reward's range, or if one gave way alone:",
        figure(conflict.relaxation.uniform, 4)
    ));
    let mut table = Table::new(&["requirement", "bound", "all give way", "this one alone"]);
    let (units, requirements) = (task.in_model_units(), task.specification().requirements().iter());
    for ((r, alone), range) in requirements.zip(&conflict.relaxation.alone).zip(units.scales()) {
        let sign = if r.sign() > 0.0 { ">=" } else { "<=" };
        let relaxed = |amount: f64| format!("{sign} {}", figure(r.bound() - r.sign() * amount * range, 5));
        table.plain(vec![
            r.name().to_owned(),
            relation(r, 6),
            relaxed(conflict.relaxation.uniform),
            alone.map_or("does not help".to_owned(), relaxed),
        ]);
    }
    output.raw(&table.to_string());
}
