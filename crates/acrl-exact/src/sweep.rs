//! Optimum as a function of a bound.

use std::ops::ControlFlow;

use crate::column_generation::ColumnGeneration;
use crate::solve::run;
use crate::{FiniteTask, Optimum, SolveError, SolveOptions, SolveRound};

/// One point of a sweep.
#[derive(Debug, Clone)]
pub enum SweepPoint {
    /// The requirements can be met.
    Optimal(Box<Optimum>),
    /// The requirements cannot be met.
    Infeasible,
    /// Too close to infeasible to decide, or not reached before the sweep was stopped.
    Unknown,
}

/// Solves tasks that differ in their bounds only ([`FiniteTask::with`]), each at least as tight as the
/// one before it: each starts with the columns found until then, and after an infeasible task all are.
/// `observer` sees every round with the number of its task, and may stop the sweep.
pub fn sweep(
    tasks: &[FiniteTask<'_>],
    options: &SolveOptions,
    observer: &mut dyn FnMut(usize, &SolveRound) -> ControlFlow<()>,
) -> Result<Vec<SweepPoint>, SolveError> {
    let Some(first) = tasks.first() else { return Ok(Vec::new()) };
    let mut columns = ColumnGeneration::new(first, options)?;
    let (mut points, mut stopped) = (Vec::new(), false);
    for (i, task) in tasks.iter().enumerate() {
        if stopped || matches!(points.last(), Some(SweepPoint::Infeasible)) {
            points.push(if stopped { SweepPoint::Unknown } else { SweepPoint::Infeasible });
            continue;
        }
        columns.turn_to(task);
        let solved = run(&mut columns, options, &mut |round: &SolveRound| {
            let flow = observer(i, round);
            stopped |= flow.is_break();
            flow
        });
        points.push(match solved {
            Ok(Ok(optimum)) => SweepPoint::Optimal(Box::new(optimum)),
            Ok(Err(_)) => SweepPoint::Infeasible,
            Err(SolveError::Rounds(_) | SolveError::Stopped) => SweepPoint::Unknown,
            Err(error) => return Err(error),
        });
    }
    Ok(points)
}
