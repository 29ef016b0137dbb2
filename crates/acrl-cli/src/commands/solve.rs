//! `acrl solve`, and `acrl solve --sweep`.

use std::ops::ControlFlow;
use std::path::Path;

use acrl::Event;
use acrl_exact::{Conflict, Optimum, Solution};

use acrl_app::solve::ANALYSIS_STOPPED;
use acrl_app::{Control, EventLog, SolveResult, SolveSettings, SweptCurve, create_folder, solve, sweep};

use crate::ExitStatus;
use crate::args::SolveArgs;
use crate::interrupt::listen;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, ascii, count, number, report_line, styled};

/// Solves and prints.
pub(crate) fn run(args: &SolveArgs, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let name = &args.source.input;
    let input = args.source.open()?;
    let bar = output.spinner("solving");
    let control = Control::new(listen(), bar.clone());
    let mut log = args.log.as_deref().map(|path| EventLog::create(path, control.stop.clone())).transpose()?;
    args.out_dir.as_deref().map(create_folder).transpose()?;
    let settings = SolveSettings { gap: args.gap, time_limit: args.time_limit };
    let mut write = |round: &Event<'_>| {
        if let Some(log) = &mut log {
            log.write(round);
        }
        ControlFlow::Continue(())
    };
    if let Some(bounds) = &args.sweep {
        let swept = sweep(name, input, bounds, &settings, &control, &mut write)?;
        bar.finish();
        log.map_or(Ok(()), |mut log| log.finish())?;
        return print_sweep(&swept, name, args.out_dir.as_deref(), output);
    }
    let solved = solve(name, input, &settings, &control, &mut write)?;
    bar.finish();
    log.map_or(Ok(()), |mut log| log.finish())?;
    if let Solution::Optimal(optimum) = &solved.answer
        && !solved.complete
    {
        if !optimum.reached {
            let (gap, wanted) = (number(optimum.gap, 3), number(args.gap, 3));
            output.warn(&format!("stopped at a gap of {gap}, above the requested {wanted}"));
        }
        if solved.end_components > 1 && solved.almost_sure.is_none() {
            output.warn("stopped before the optimum with probability 1 was known");
        }
    }
    if let Solution::Infeasible(conflict) = &solved.answer
        && !conflict.complete
    {
        output.warn(ANALYSIS_STOPPED);
    }
    if let Some(folder) = &args.out_dir {
        solved.page(name, output.command()).write(folder)?;
    }
    match &args.policy {
        Some(path) if solved.feasible() => {
            solved.save_policy(path)?;
            output.note(&format!("policy: {}", path.display()));
        }
        Some(path) => output.warn(&format!("infeasible: no policy written to {}", path.display())),
        None => {}
    }
    match &args.table {
        Some(path) if solved.feasible() => {
            solved.write_policy_table(path)?;
            output.note(&format!("policy table: {}", path.display()));
        }
        Some(path) => output.warn(&format!("infeasible: no policy table written to {}", path.display())),
        None => {}
    }
    match &solved.answer {
        _ if output.is_json() => output.object(&solved)?,
        Solution::Optimal(optimum) => {
            print_optimum(&solved, optimum, output);
            if let Some(folder) = &args.out_dir {
                output.line(report_line(folder));
            }
            output.hint(match &args.policy {
                Some(path) => {
                    format!("Try next: acrl run {}.", path.display())
                }
                None => format!(
                    "Try next: acrl run {name}, to meet the requirements while running; acrl check {name}, for the theory."
                ),
            });
        }
        Solution::Infeasible(conflict) => {
            print_conflict(&solved, conflict, output);
            if let Some(folder) = &args.out_dir {
                output.line(report_line(folder));
            }
        }
    }
    Ok(ExitStatus::of(solved.feasible()))
}

fn print_optimum(solved: &SolveResult, optimum: &Optimum, output: &mut Output) {
    let specification = &solved.specification;
    let sign = solved.sign();
    match specification.objective() {
        Some(objective) => output.line(format!(
            "{} {} = {}  ({}, proven to {}, {})",
            if optimum.reached { styled(GOOD, "optimal") } else { styled(STRONG, "best found:") },
            styled(STRONG, &objective.reward),
            styled(STRONG, number(sign * optimum.objective, 7)),
            if sign > 0.0 { "maximum" } else { "minimum" },
            if optimum.gap < 1e-12 {
                "machine precision".to_owned()
            } else {
                format!("a relative gap of {}", number(optimum.gap, 2))
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
        let mut table = solved.price_table(optimum);
        if specification.objective().is_none() {
            table.note.clear();
        }
        output.table(&table);
        if !optimum.multipliers_are_unique() {
            for (name, (low, high)) in specification.names().iter().zip(&optimum.multiplier_ranges) {
                let text = format!("{name}: price not unique, {} to {}", number(*low, 4), number(*high, 4));
                output.line(styled(FAINT, text));
            }
        }
    }
    if optimum.mixture.len() > 1 {
        output.line("");
        output.line("attained by a mixture of deterministic policies:");
        output.table(&solved.mixture_table(optimum));
        if solved.differing_states(optimum) > 0 {
            output.line("");
            output.line(format!("{}:", solved.differing_heading(optimum)));
            output.table(&solved.differing_table(optimum, 20));
        }
    }
    if solved.end_components > 1 {
        output.line("");
        output.line(solved.several_components());
        output.table(&solved.component_table(optimum));
    }
    if let Some(sure) = &solved.almost_sure {
        output.line(match (sure.objective, specification.objective()) {
            (Some(v), Some(o)) => {
                format!("Optimum with probability 1: {} = {}.", o.reward, number(sign * v, 7))
            }
            (Some(_), None) => "The requirements can be met with probability 1.".to_owned(),
            (None, _) => "No policy meets the requirements with probability 1.".to_owned(),
        });
    }
}

fn print_conflict(solved: &SolveResult, conflict: &Conflict, output: &mut Output) {
    let together = if conflict.names.len() == 1 { "" } else { " together" };
    output.line(format!(
        "{}: no policy meets {}{together}",
        styled(BAD, "infeasible"),
        styled(STRONG, conflict.names.join(", "))
    ));
    output.line(solved.infeasibility_proof(conflict));
    output.line("");
    output.line(format!(
        "Feasible if every bound is relaxed by {} of its reward's range, or if one bound alone is relaxed:",
        number(conflict.relaxation.uniform, 4)
    ));
    // The conflict is named above.
    let mut table = solved.conflict_table(conflict);
    table.header.pop();
    table.rows.iter_mut().for_each(|row| _ = row.pop());
    table.note.clear();
    output.table(&table);
}

fn print_sweep(
    swept: &SweptCurve,
    input: &str,
    folder: Option<&Path>,
    output: &mut Output,
) -> anyhow::Result<ExitStatus> {
    if !swept.reached {
        output.warn("the requested gap is not reached at every bound");
    }
    if !swept.complete && swept.count("unknown") > 0 {
        output.warn("stopped before all bounds were solved: the others are marked as unknown");
    }
    if let Some(folder) = folder {
        swept.page(input, output.command()).write(folder)?;
    }
    if output.is_json() {
        output.object(swept)?;
        return Ok(ExitStatus::of(swept.feasible()));
    }
    output.line(format!(
        "{} over {}: the requirements can be met at {} of {} ({})",
        styled(STRONG, swept.objective()),
        styled(STRONG, ascii(&swept.relation())),
        styled(GOOD, swept.count("optimal")),
        count(swept.bounds() as u64, "bound"),
        count(swept.states as u64, "state"),
    ));
    output.line("");
    let mut table = swept.table();
    if swept.specification.objective().is_none() {
        table.note.clear();
    }
    output.table(&table);
    if !swept.communicating {
        output.line(
            "The model has several separate end components, and a run ends in one of them: these are expected values.",
        );
    }
    folder.iter().for_each(|folder| output.line(report_line(folder)));
    Ok(ExitStatus::of(swept.feasible()))
}
