//! Optimum of a constrained finite problem, with certified bounds and the price of each requirement.
//!
//! Column generation: a small linear program mixes the value vectors of deterministic policies; its
//! multipliers λ go to the Lagrangian maximiser, whose policy is the next column. Every round gives
//! a lower bound (a mixture that meets the requirements) and an upper bound (the dual function).
//!
//! 1. *Feasibility phase*: the columns of a matrix game between policies and requirements, until some
//!    mixture meets all requirements or prices prove that none does.
//! 2. *Optimisation phase*: the columns of the master program, until the bounds on P* meet.
//!
//! In small models and in those with several end components pricing is exact, by policy iteration; in
//! large ones it is approximate, by one step of modified policy iteration a round ([`crate::pricing`]).

use std::ops::ControlFlow;

use acrl::Multipliers;
use acrl::mixture::Game;

use crate::column_generation::{ColumnGeneration, LevelMethod, Round};
use crate::pricing::{lagrangian_weights, priced_bounds};
use crate::tolerances::{ERROR_SHARE, FEASIBILITY, MIN_OBJECTIVE_SHARE, SLACK_GAP, VALUE_ROUNDING};
use crate::{Conflict, FiniteTask, Optimum, Slack, Solution, SolveError, SolveOptions, SolveRound};

/// Observer of rounds, which may stop a solve.
pub(crate) type Observer<'o> = dyn FnMut(&SolveRound) -> ControlFlow<()> + 'o;

/// Observer that never stops a solve.
pub(crate) fn silent(_: &SolveRound) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Solves a constrained problem; `observer` sees every round and may stop it.
pub fn solve(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Solution, SolveError> {
    match run(&mut ColumnGeneration::new(task, options)?, options, observer)? {
        Ok(optimum) => Ok(Solution::Optimal(optimum)),
        Err(Infeasible { prices, deficit }) => {
            Conflict::analyse(task, &prices, deficit, options, observer).map(Solution::Infeasible)
        }
    }
}

/// The optimum without an analysis of conflicts; `None` if the requirements cannot be met.
pub(crate) fn optimum(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<Option<Optimum>, SolveError> {
    Ok(run(&mut ColumnGeneration::new(task, options)?, options, observer)?.ok())
}

/// Proof of infeasibility: no policy has y·(V − c) above the deficit, which is negative.
pub(crate) struct Infeasible {
    prices: Vec<f64>,
    deficit: f64,
}

/// Both phases, from the columns that are known.
pub(crate) fn run(
    columns: &mut ColumnGeneration<'_, '_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<Result<Optimum, Infeasible>, SolveError> {
    match find_feasible(columns, options, observer)? {
        Some(infeasible) => Ok(Err(infeasible)),
        None => optimise(columns, options, observer).map(Ok),
    }
}

/// Feasibility phase: generates columns until a mixture of them meets the requirements (`None`) or it is
/// proved that no policy does.
fn find_feasible(
    columns: &mut ColumnGeneration<'_, '_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<Option<Infeasible>, SolveError> {
    if columns.task.is_empty() {
        return Ok(None);
    }
    let met = |lower: f64, upper: f64| upper - lower < FEASIBILITY;
    let decided = |lower: f64, upper: f64| {
        upper < -FEASIBILITY || lower >= 0.0 || lower >= -FEASIBILITY && met(lower, upper)
    };
    let Closed { solution: game, lower, upper, end } = close_game(columns, options, observer, decided)?;
    if upper < -FEASIBILITY {
        return Ok(Some(Infeasible { prices: game.prices, deficit: upper }));
    }
    // With no more columns, or bounds that have met, the game is solved: its value is as good as 0.
    let solved = end == End::NoColumns || met(lower, upper);
    match end {
        _ if lower >= 0.0 || solved && lower >= -FEASIBILITY => Ok(None),
        End::Stopped => Err(SolveError::Stopped),
        _ => Err(SolveError::Rounds(columns.rounds)),
    }
}

/// Optimisation phase: closes the gap between the best mixture and the dual function.
fn optimise(
    columns: &mut ColumnGeneration<'_, '_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<Optimum, SolveError> {
    let task = columns.task;
    let mut upper = f64::INFINITY;
    // The multipliers that gave the upper bound.
    let mut dual: Option<Multipliers> = None;
    let mut level = LevelMethod::default();
    loop {
        // Master program: the best mixture of the columns, and the price of each requirement.
        let best = columns.master.best_mixture(task).ok_or(SolveError::Rounds(columns.rounds))?;
        let weights = lagrangian_weights(task, &Multipliers::new(best.multipliers.clone())?);

        // Pricing: a new column, and the dual function as an upper bound.
        let (bound, more) = if weights.iter().all(|w| *w == 0.0) {
            (0.0, false) // no objective, and no requirement has a price
        } else {
            let tried = columns.next_multipliers(&best, &mut level, upper)?;
            let round = columns.price(&lagrangian_weights(task, &tried), upper - best.value)?;
            let bound = round.bound - priced_bounds(task, &tried);
            if bound < upper || dual.is_none() {
                dual = Some(tried);
            }
            (bound, round.more)
        };
        upper = upper.min(bound);
        let multipliers = dual.clone().unwrap_or(Multipliers::new(best.multipliers.clone())?);

        // Bounds. What the rounded bounds of the master program concede, at its price, is not proved.
        let error = columns.master.error(&best.weights, &weights);
        let conceded: f64 =
            multipliers.as_slice().iter().zip(task.scales()).map(|(l, r)| l * VALUE_ROUNDING * r).sum();
        let lower = best.value - conceded;
        let scale = lower.abs().max(upper.abs()).max(MIN_OBJECTIVE_SHARE * task.objective_scale());
        let gap = ((upper - lower) / scale).max(0.0);
        // A large offset of the objective must not excuse a large error on its range.
        let gap_scale = scale.min(task.objective_scale());
        columns.set_precision(options.gap, gap_scale);
        let close = upper - lower <= options.gap * gap_scale;
        let round =
            SolveRound { round: columns.rounds, lower: Some(lower), upper: Some(upper), gap: Some(gap) };
        let stop = observer(&round).is_break();

        // Continue: with better values where their errors keep the bounds apart, and in the end in any
        // case; with the other oracle where this one leaves a gap; else with the next column.
        let imprecise = close || !more || error > ERROR_SHARE * (upper - lower);
        if !stop && imprecise && columns.reevaluate(&best.weights, &weights) {
            continue;
        }
        if !stop && !more && !close && columns.switch_oracle() {
            continue;
        }
        if !stop && more && !close && columns.rounds < options.rounds {
            continue;
        }

        let (mixture, values) = columns.master.mix(task, &best.weights)?;
        // With exact pricing the ranges cost little.
        let ranged = (best.degenerate || !columns.is_approximate()) && task.has_objective() && !stop;
        let own = multipliers.as_slice();
        let multiplier_ranges = if ranged {
            let ranges = columns.multiplier_ranges(&best, upper, options)?;
            ranges.iter().zip(own).map(|(&(low, high), &l)| (low.min(l), high.max(l))).collect()
        } else {
            own.iter().map(|&l| (l, l)).collect()
        };
        return Ok(Optimum {
            objective: values.objective(),
            lower,
            upper: upper.max(lower),
            gap,
            reached: gap <= options.gap,
            values,
            multipliers,
            multiplier_ranges,
            mixture,
            rounds: columns.rounds,
        });
    }
}

/// Whether some policy meets the requirements.
pub(crate) fn feasible(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<bool, SolveError> {
    Ok(find_feasible(&mut ColumnGeneration::new(task, options)?, options, observer)?.is_none())
}

/// Largest slack that all requirements can have together, each in units of its reward's range; `None`
/// without requirements. If it is positive it is the Slater constant C of (A1).
pub fn most_slack(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<Option<Slack>, SolveError> {
    most_slack_observed(task, options, &mut silent)
}

/// [`most_slack`] with an observer; if that stops it, the bounds are further apart.
pub(crate) fn most_slack_observed(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<Option<Slack>, SolveError> {
    if task.is_empty() {
        return Ok(None);
    }
    let mut columns = ColumnGeneration::new(task, options)?;
    let tolerance = options.gap * SLACK_GAP;
    let met = |lower: f64, upper: f64| upper - lower <= tolerance;
    let Closed { solution: game, lower, upper, .. } = close_game(&mut columns, options, observer, met)?;
    let (mixture, values) = columns.master.mix(task, &game.weights)?;
    Ok(Some(Slack { lower, upper, mixture, values, prices: game.prices }))
}

/// Proved upper bound on Σ w_i V_i of every policy, tight to the gap unless the observer stops it.
pub(crate) fn highest(
    task: &FiniteTask<'_>,
    weights: &[f64],
    options: &SolveOptions,
    observer: &mut Observer<'_>,
) -> Result<f64, SolveError> {
    let mut columns = ColumnGeneration::new(task, options)?;
    let tolerance = options.gap * task.weighted_range(weights);
    let met = |lower: f64, upper: f64| upper - lower <= tolerance;
    let closed = close_bounds(&mut columns, options, observer, met, |columns, upper| {
        let round = columns.price(weights, upper - columns.master.best_value(weights))?;
        Ok((columns.master.best_value(weights), (), round))
    })?;
    Ok(closed.upper)
}

/// Rounds of the feasibility game, until its bounds are `done`.
fn close_game(
    columns: &mut ColumnGeneration<'_, '_>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
    done: impl Fn(f64, f64) -> bool,
) -> Result<Closed<Game>, SolveError> {
    close_bounds(columns, options, observer, done, |columns, upper| {
        let (game, round) = columns.price_game(upper)?;
        Ok((game.value, game, round))
    })
}

/// Bounds after the last round, and the solution over the columns that attains the lower one.
struct Closed<T> {
    solution: T,
    lower: f64,
    upper: f64,
    end: End,
}

/// Reason why rounds ended.
#[derive(PartialEq)]
enum End {
    NoColumns,
    /// The bounds are as wanted, or the rounds ran out.
    Done,
    Stopped,
}

/// Repeats a round, which gives a lower bound and its solution, until the bounds are `done`, no more
/// columns are found, the rounds run out or the observer stops it.
fn close_bounds<'t, 'm, T>(
    columns: &mut ColumnGeneration<'t, 'm>,
    options: &SolveOptions,
    observer: &mut Observer<'_>,
    done: impl Fn(f64, f64) -> bool,
    mut round: impl FnMut(&mut ColumnGeneration<'t, 'm>, f64) -> Result<(f64, T, Round), SolveError>,
) -> Result<Closed<T>, SolveError> {
    let mut upper = f64::INFINITY;
    loop {
        let (lower, solution, Round { bound, more }) = round(columns, upper)?;
        upper = upper.min(bound);
        let end = if !more {
            End::NoColumns
        } else if done(lower, upper) || columns.rounds >= options.rounds {
            End::Done
        } else if observer(&SolveRound { round: columns.rounds, ..Default::default() }).is_break() {
            End::Stopped
        } else {
            continue;
        };
        return Ok(Closed { solution, lower, upper, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{all_policies, maximise_r0, model, of_choices};
    use crate::tuning::EXACT_PRICING_STATES;
    use crate::vector::dot;
    use acrl::mixture::{best_mixture, game_value};
    use acrl::{Objective, Requirement, Specification};
    use proptest::prelude::*;

    /// V₀ … V_m of every deterministic policy.
    fn all_values(task: &FiniteTask<'_>) -> Vec<Vec<f64>> {
        let values = |actions: &Vec<usize>| task.values(actions).unwrap().as_slice().to_vec();
        all_policies(task.model()).iter().map(values).collect()
    }

    proptest! {
        // 256 cases, or PROPTEST_CASES (`make check-slow`).
        #![proptest_config(ProptestConfig::default())]

        /// The set of attainable values is the convex hull of those of deterministic policies: so
        /// enumeration gives the answer, feasible or not, for both directions of requirements.
        #[test]
        fn column_generation_agrees_with_enumeration(
            seed: u64, c1 in 0.2..0.8f64, c2 in 0.2..0.8f64, minimize: bool, at_most: bool, approximate: bool
        ) {
            let options =
                SolveOptions { small: if approximate { 0 } else { EXACT_PRICING_STATES }, ..SolveOptions::default() };
            let model = model(seed);
            let objective = if minimize { Objective::minimize("r0") } else { Objective::maximize("r0") };
            let second = if at_most { Requirement::at_most("r2", c2) } else { Requirement::at_least("r2", c2) };
            let specification = Specification::new(
                Some(objective), vec![Requirement::at_least("r1", c1).unwrap(), second.unwrap()]
            ).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            let values = all_values(&task);
            let expected = best_mixture(&values, task.bounds());
            match solve(&task, &options, &mut silent).unwrap() {
                Solution::Optimal(optimum) => {
                    let best = expected.expect("enumeration finds a feasible mixture too");
                    prop_assert!((optimum.objective - best.value).abs() < 1e-6, "{} {}", optimum.objective, best.value);
                    prop_assert!(optimum.lower <= best.value + 1e-9 && best.value <= optimum.upper + 1e-9);
                    prop_assert!(optimum.values.meets(task.bounds(), 1e-8));
                }
                Solution::Infeasible(conflict) => {
                    prop_assert!(expected.is_none());
                    let requirements: Vec<Vec<f64>> = values.iter().map(|v| v[1..].to_vec()).collect();
                    let game = game_value(&requirements, task.bounds(), task.in_model_units().scales()).unwrap();
                    prop_assert!((conflict.relaxation.uniform + game.value).abs() < 1e-5);
                    for v in &requirements {
                        let priced: f64 = (0..2).map(|i| conflict.certificate[i] * (v[i] - task.bounds()[i])).sum();
                        prop_assert!(priced < 0.0);
                    }
                    // Irreducible: without any one of the set the others can be met.
                    let set: Vec<usize> =
                        (0..2).filter(|i| conflict.names.contains(&specification.names()[*i])).collect();
                    let feasible = |set: &[usize]| {
                        let task = task.with(&specification.subset(set)).unwrap();
                        feasible(&task, &SolveOptions::default(), &mut silent).unwrap()
                    };
                    prop_assert!(!feasible(&set));
                    for i in &set {
                        prop_assert!(feasible(&set.iter().copied().filter(|j| j != i).collect::<Vec<_>>()));
                    }
                }
            }
        }
    }

    /// Wherever the analysis of a conflict is stopped, its certificate holds.
    #[test]
    fn stopped_conflict_analysis_is_still_a_proof() {
        let model = model(3);
        let specification = maximise_r0(&["r1", "r2", "r0"].map(|reward| (reward, 0.95)));
        let task = FiniteTask::new(&model, &specification).unwrap();
        let units = task.in_model_units();
        let values = all_values(&units);
        let requirements: Vec<&[f64]> = values.iter().map(|v| &v[1..]).collect();
        let best = game_value(&requirements, units.bounds(), units.scales()).unwrap();
        let (mut partial, mut whole) = (0, 0);
        for small in [0, EXACT_PRICING_STATES] {
            for rounds in 0..200 {
                let options = SolveOptions { small, ..SolveOptions::default() };
                let mut seen = 0;
                let answer = solve(&task, &options, &mut |_| {
                    seen += 1;
                    if seen > rounds { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                let conflict = match answer {
                    Err(SolveError::Stopped) => continue,
                    Ok(Solution::Infeasible(conflict)) => conflict,
                    other => panic!("{other:?}"),
                };
                *(if conflict.complete { &mut whole } else { &mut partial }) += 1;
                let priced = |v: &[f64]| dot(&conflict.certificate, v);
                assert!(conflict.most < priced(units.bounds()));
                assert!(requirements.iter().all(|v| priced(v) <= conflict.most + 1e-9), "{conflict:?}");
                // The relaxation is sufficient, though perhaps not minimal.
                assert!(conflict.relaxation.uniform >= -best.value - 1e-9);
            }
        }
        assert!(partial > 0 && whole > 0, "{partial} {whole}");
    }

    #[test]
    fn degenerate_multipliers_have_a_range() {
        // One action pays 1, the other 0 and r1 = 1; c = 0 is on the edge of binding.
        let model =
            of_choices(&[(0, "earn", &[(0, 1.0)], [1.0, 0.0]), (0, "serve", &[(0, 1.0)], [0.0, 1.0])]);
        let at = |c: f64| {
            let task = FiniteTask::new(&model, &maximise_r0(&[("r1", c)])).unwrap();
            let optimum = optimum(&task, &SolveOptions::default(), &mut silent).unwrap().expect("feasible");
            (optimum.multiplier_ranges[0], optimum.multipliers_are_unique())
        };
        let ((low, high), unique) = at(0.0);
        assert!(low.abs() < 1e-9 && (high - 1.0).abs() < 1e-9 && !unique, "{low} {high}");
        let ((low, high), unique) = at(0.5);
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9 && unique);
        assert!(at(1.0).0.1.is_infinite());
    }
}
