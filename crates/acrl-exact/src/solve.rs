//! The optimum of a constrained finite problem, with certified bounds and the price of each requirement.
//!
//! Column generation: a small linear program mixes the value vectors of deterministic policies; its
//! multipliers λ go to the Lagrangian maximiser, whose policy is the next column. Every round gives
//! a lower bound (a mixture that meets the requirements) and an upper bound (the dual function).
//!
//! In small models and in those that fall into several end components the maximiser is exact, by policy iteration to the end;
//! in large ones it is approached while λ still moves (see the module `interleave`).

use std::ops::ControlFlow;

use acrl::{Error, Multipliers, Values};

use crate::columns::{Columns, Feasibility, Priced};
use crate::{Conflict, FiniteTask, Singular};

/// Models with at most this many states are maximised exactly at every λ.
const SMALL: usize = 300;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveOptions {
    /// Stop at this relative gap; default 1e-6.
    pub gap: f64,
    /// Stop after this many rounds; default 10,000.
    pub rounds: usize,
    /// A model with at most this many states is maximised exactly at every λ; default 300.
    pub small: usize,
}

impl Optimum {
    /// Whether no other multipliers are optimal, up to rounding.
    pub fn multipliers_are_unique(&self) -> bool {
        self.multiplier_ranges.iter().all(|(low, high)| high - low <= 1e-6 * (1.0 + low.abs()))
    }
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self { gap: 1e-6, rounds: 10_000, small: SMALL }
    }
}

/// Where a solve stands after a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveRound {
    /// The number of policies generated so far.
    pub round: usize,
    /// The largest proved lower bound on P*; none while no feasible mixture is known.
    pub lower: Option<f64>,
    /// The smallest proved upper bound on P*.
    pub upper: Option<f64>,
    /// The relative gap, once there are both.
    pub gap: Option<f64>,
}

impl SolveRound {
    pub(crate) fn without_bounds(round: usize) -> Self {
        Self { round, lower: None, upper: None, gap: None }
    }
}

/// The answer to a constrained problem.
#[derive(Debug, Clone)]
pub enum Solution {
    /// The requirements can be met.
    Optimal(Optimum),
    /// They cannot.
    Infeasible(Conflict),
}

/// An optimum within certified bounds, in the signs of the paper (r₀ maximised, V_i ≥ c_i).
#[derive(Debug, Clone)]
pub struct Optimum {
    /// V₀ of the mixture.
    pub objective: f64,
    /// Proved: P* ≥ lower.
    pub lower: f64,
    /// Proved: P* ≤ upper.
    pub upper: f64,
    /// (upper − lower)/max(|lower|, |upper|, R₀/1000).
    pub gap: f64,
    /// Whether the gap is as small as was asked for. If not, it was stopped, or nothing more was found that would close it.
    pub reached: bool,
    /// V₀ … V_m of the mixture.
    pub values: Values,
    /// λ*: what one unit of each bound costs in the objective.
    pub multipliers: Multipliers,
    /// The least and the largest optimal value of each multiplier (infinite where the requirement
    /// cannot be tightened at all); they agree where λ* is unique.
    pub multiplier_ranges: Vec<(f64, f64)>,
    /// The deterministic Lagrangian maximisers that are mixed.
    pub mixture: Vec<MixturePolicy>,
    /// The number of policies generated.
    pub rounds: usize,
}

/// A deterministic policy and the share of time spent on it.
#[derive(Debug, Clone, PartialEq)]
pub struct MixturePolicy {
    /// The share.
    pub weight: f64,
    /// V₀ … V_m.
    pub values: Values,
    /// The number of the action taken in each state.
    pub rule: Vec<usize>,
}

/// A solve that could not be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// A policy could not be evaluated.
    #[error(transparent)]
    Singular(#[from] Singular),
    /// A changed specification does not fit the model.
    #[error(transparent)]
    Specification(#[from] Error),
    /// The rounds ran out before a feasible mixture was found.
    #[error("no answer after {0} rounds: the requirements are too close to infeasible to tell")]
    Rounds(usize),
    /// Chains mix too slowly to be iterated, and to eliminate them takes more memory than is allowed.
    #[error(
        "the model is too large: its {states} states hang together so closely that evaluating a policy takes more than \
         2 GB, and change so slowly that it cannot be iterated"
    )]
    TooLarge {
        /// How many.
        states: usize,
    },
    /// An observer asked to stop before a feasible mixture was found.
    #[error("stopped before a policy that meets the requirements was found")]
    Stopped,
}

/// Solves a constrained problem; `observer` sees every round and may stop it.
pub fn solve(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Solution, SolveError> {
    let mut columns = Columns::new(task, options)?;
    match columns.find_feasible(options, observer)? {
        Feasibility::Feasible => columns.optimise(options, observer).map(Solution::Optimal),
        Feasibility::Infeasible { prices, deficit } => {
            Conflict::analyse(task, &prices, deficit, options, observer).map(Solution::Infeasible)
        }
    }
}

/// The optimum alone; `None` if the requirements cannot be met.
pub(crate) fn optimum_watched(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Option<Optimum>, SolveError> {
    let mut columns = Columns::new(task, options)?;
    match columns.find_feasible(options, observer)? {
        Feasibility::Feasible => columns.optimise(options, observer).map(Some),
        Feasibility::Infeasible { .. } => Ok(None),
    }
}

/// One point of a sweep.
#[derive(Debug, Clone)]
pub enum SweepPoint {
    /// The requirements can be met.
    Optimal(Box<Optimum>),
    /// They cannot.
    Infeasible,
    /// They are too close to infeasible to tell, or the sweep was stopped before.
    Unknown,
}

/// Solves tasks that differ in their bounds only ([`FiniteTask::with`]), each at least as tight as the one before it and solved from
/// the policies that were found until then; so after one that cannot be met none can. `observer` sees every round of each, by
/// its number, and may stop it: what is not reached then is unknown.
pub fn sweep(
    tasks: &[FiniteTask<'_>],
    options: &SolveOptions,
    observer: &mut dyn FnMut(usize, &SolveRound) -> ControlFlow<()>,
) -> Result<Vec<SweepPoint>, SolveError> {
    let Some(first) = tasks.first() else { return Ok(Vec::new()) };
    let mut columns = Columns::new(first, options)?;
    let (mut answers, mut stopped) = (Vec::new(), false);
    for (i, task) in tasks.iter().enumerate() {
        if stopped || matches!(answers.last(), Some(SweepPoint::Infeasible)) {
            answers.push(if stopped { SweepPoint::Unknown } else { SweepPoint::Infeasible });
            continue;
        }
        columns.turn_to(task);
        let mut look = |round: &SolveRound| {
            let flow = observer(i, round);
            stopped |= flow.is_break();
            flow
        };
        let answer = match columns.find_feasible(options, &mut look) {
            Ok(Feasibility::Feasible) => {
                columns.optimise(options, &mut look).map(|o| SweepPoint::Optimal(Box::new(o)))
            }
            Ok(Feasibility::Infeasible { .. }) => Ok(SweepPoint::Infeasible),
            Err(error) => Err(error),
        };
        answers.push(match answer {
            Err(SolveError::Rounds(_) | SolveError::Stopped) => SweepPoint::Unknown,
            answer => answer?,
        });
    }
    Ok(answers)
}

/// Proved: no policy's Σ w_i V_i exceeds this. It is as small as the gap lets one see, unless the observer stops it before.
pub(crate) fn highest(
    task: &FiniteTask<'_>,
    weights: &[f64],
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<f64, SolveError> {
    let mut columns = Columns::new(task, options)?;
    let scale: f64 = weights.iter().zip(task.ranges()).map(|(w, r)| (w * r).abs()).sum();
    let worth = |values: &Vec<f64>| values.iter().zip(weights).map(|(v, w)| v * w).sum::<f64>();
    let best = |columns: &Columns<'_, '_>| columns.values.iter().map(worth).fold(f64::NEG_INFINITY, f64::max);
    let mut upper = f64::INFINITY;
    loop {
        let Priced { bound, more } = columns.price(weights, upper - best(&columns))?;
        upper = upper.min(bound);
        let done = !more || upper - best(&columns) <= options.gap * scale || columns.rounds >= options.rounds;
        if done || observer(&SolveRound::without_bounds(columns.rounds)).is_break() {
            return Ok(upper);
        }
    }
}

/// Whether some policy meets the requirements.
pub fn feasible(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<bool, SolveError> {
    feasible_watched(task, options, &mut |_| ControlFlow::Continue(()))
}

/// The same, with an observer.
pub(crate) fn feasible_watched(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<bool, SolveError> {
    let verdict = Columns::new(task, options)?.find_feasible(options, observer)?;
    Ok(matches!(verdict, Feasibility::Feasible))
}

/// max_π min_i (V_i(π) − c_i)/R_i within bounds, and how it is attained.
#[derive(Debug, Clone)]
pub struct Slack {
    /// The slack of the mixture.
    pub lower: f64,
    /// Proved: no policy has more.
    pub upper: f64,
    /// The policies that are mixed.
    pub mixture: Vec<MixturePolicy>,
    /// V₀ … V_m of the mixture.
    pub values: Values,
    /// y ≥ 0 with Σ y_i R_i = 1: the combination of requirements that is hardest to meet.
    pub prices: Vec<f64>,
}

/// The largest slack that all requirements can have together, each in units of its reward's range;
/// `None` without requirements. Positive, it is the Slater constant C of (A1).
pub fn most_slack(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<Option<Slack>, SolveError> {
    most_slack_watched(task, options, &mut |_| ControlFlow::Continue(()))
}

/// The same, with an observer: stopped, the bounds are further apart.
pub(crate) fn most_slack_watched(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<Option<Slack>, SolveError> {
    if task.is_empty() {
        return Ok(None);
    }
    let mut columns = Columns::new(task, options)?;
    let mut upper = f64::INFINITY;
    loop {
        let (game, bound, more) = columns.game_round(upper)?;
        upper = upper.min(bound);
        let done = !more || upper - game.value <= options.gap * 1e-3 || columns.rounds >= options.rounds;
        if done || observer(&SolveRound::without_bounds(columns.rounds)).is_break() {
            let (mixture, values) = columns.mix(&game.weights)?;
            return Ok(Some(Slack { lower: game.value, upper, mixture, values, prices: game.prices }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{all_rules, model};
    use acrl::mixture::{best_mixture, game_value};
    use acrl::{FiniteCmdp, Objective, Requirement, Specification};
    use proptest::prelude::*;

    fn quiet(task: &FiniteTask<'_>) -> Solution {
        solve(task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap()
    }

    proptest! {
        // 256 cases, or as many as PROPTEST_CASES asks for (`make check-slow`).
        #![proptest_config(ProptestConfig::default())]

        /// The set of attainable values is the hull of those of deterministic rules: so enumeration
        /// knows the answer, feasible or not, in both directions.
        #[test]
        fn column_generation_agrees_with_enumeration(
            seed: u64, c1 in 0.2..0.8f64, c2 in 0.2..0.8f64, minimize: bool, at_most: bool, interleaved: bool
        ) {
            let options =
                SolveOptions { small: if interleaved { 0 } else { SMALL }, ..SolveOptions::default() };
            let model = model(seed);
            let objective = if minimize { Objective::minimize("r0") } else { Objective::maximize("r0") };
            let second = if at_most { Requirement::at_most("r2", c2) } else { Requirement::at_least("r2", c2) };
            let specification = Specification::new(
                Some(objective), vec![Requirement::at_least("r1", c1).unwrap(), second.unwrap()]
            ).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            let values: Vec<Vec<f64>> =
                all_rules(&model).iter().map(|rule| task.values(rule).unwrap().as_slice().to_vec()).collect();
            let expected = best_mixture(&values, task.bounds());
            match solve(&task, &options, &mut |_| ControlFlow::Continue(())).unwrap() {
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
                    prop_assert!(!feasible(&task.with(&specification.subset(&set)).unwrap(), &SolveOptions::default()).unwrap());
                    for i in &set {
                        let rest: Vec<usize> = set.iter().copied().filter(|j| j != i).collect();
                        prop_assert!(feasible(&task.with(&specification.subset(&rest)).unwrap(), &SolveOptions::default()).unwrap());
                    }
                }
            }
        }
    }

    /// Wherever the analysis of a conflict is stopped, what it says is proved.
    #[test]
    fn a_conflict_that_is_not_analysed_to_the_end_is_one_all_the_same() {
        let model = model(3);
        let values = |task: &FiniteTask<'_>| -> Vec<Vec<f64>> {
            all_rules(&model).iter().map(|rule| task.values(rule).unwrap().as_slice().to_vec()).collect()
        };
        let requirements = ["r1", "r2", "r0"].map(|r| Requirement::at_least(r, 0.95).unwrap()).to_vec();
        let specification = Specification::new(Some(Objective::maximize("r0")), requirements).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        let values = values(&task.in_model_units());
        let (mut partial, mut whole) = (0, 0);
        for small in [0, SMALL] {
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
                let asked: f64 =
                    conflict.certificate.iter().zip(task.in_model_units().bounds()).map(|(y, c)| y * c).sum();
                assert!(conflict.most < asked);
                for v in &values {
                    let priced: f64 = conflict.certificate.iter().zip(&v[1..]).map(|(y, v)| y * v).sum();
                    assert!(priced <= conflict.most + 1e-9, "{priced} {conflict:?}");
                }
                // What gives way is enough, though it may be more than is needed.
                let game: Vec<Vec<f64>> = values.iter().map(|v| v[1..].to_vec()).collect();
                let units = task.in_model_units();
                let best = game_value(&game, units.bounds(), units.scales()).unwrap();
                assert!(conflict.relaxation.uniform >= -best.value - 1e-9);
            }
        }
        assert!(partial > 0 && whole > 0, "{partial} {whole}");
    }

    #[test]
    fn degenerate_prices_come_with_their_range() {
        // One state that pays 1 and one that pays 0 and r1 = 1; c = 0 is on the edge of binding.
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        b.state("A");
        b.choice(0, "earn", &[(0, 1.0)], &[1.0, 0.0]);
        b.choice(0, "serve", &[(0, 1.0)], &[0.0, 1.0]);
        let model = b.build().unwrap();
        let at = |c: f64| {
            let requirement = Requirement::at_least("r1", c).unwrap();
            let specification =
                Specification::new(Some(Objective::maximize("r0")), vec![requirement]).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            match quiet(&task) {
                Solution::Optimal(optimum) => {
                    (optimum.multiplier_ranges[0], optimum.multipliers_are_unique())
                }
                Solution::Infeasible(_) => panic!("feasible"),
            }
        };
        let ((low, high), unique) = at(0.0);
        assert!(low.abs() < 1e-9 && (high - 1.0).abs() < 1e-9 && !unique, "{low} {high}");
        let ((low, high), unique) = at(0.5);
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9 && unique);
        assert!(at(1.0).0.1.is_infinite());
    }
}
