//! The model that counts estimate, and its exact solution.

use std::ops::ControlFlow;

use acrl::{CsrModel, Error, FiniteCmdp, Requirement, Specification};
use acrl_exact::{
    Executable, FiniteTask, Solution, SolveError, SolveOptions, SolveRound, almost_sure_observed, maximise,
    solve,
};

use super::Counts;
use super::counts::Pair;
use crate::LearnError;
use crate::tuning::tabular::{
    GAP, LEAST_RELAXATION, MOST_RELAXATIONS, RELAXATION_GROWTH, RESET_ENTRIES, SOLVE_WORK, STEEP,
};

/// The maximum-likelihood model of the counts, with a state for each observation.
///
/// A pair that was never tried is an action that the state does not have. A state that was never left is taken for the end of
/// an episode, with the mean rewards of all steps. After the end of an episode the next one begins in a first state of any
/// episode. With a [time limit](super::TimeLimit) of K phases the state s in phase k is number s·K + k.
pub fn estimate(counts: &Counts, reward_names: &[String]) -> Result<FiniteCmdp, Error> {
    let (states, actions) = (counts.states(), counts.actions());
    let overall = counts.overall_means();
    let phases = counts.phases();
    let starts = Starts::new(counts, phases.count);
    let mut arrays = CsrModel {
        states: states * phases.count,
        reward_names: reward_names.to_vec(),
        first_row: Some(vec![0]),
        action_names: Some((0..actions).map(|action| action.to_string()).collect()),
        row_actions: Some(Vec::new()),
        first_entry: vec![0],
        initial: starts.shares.iter().map(|(s, p)| (*s as usize, *p)).collect(),
        ..CsrModel::default()
    };
    let resetting = |pair: &Pair| if pair.ends > 0 { phases.count } else { usize::from(phases.count > 1) };
    let ended: usize = counts.pairs().iter().map(resetting).sum();
    let most = (RESET_ENTRIES / ended.max(1)).max(1);
    for (state, phase) in (0..states).flat_map(|state| (0..phases.count).map(move |phase| (state, phase))) {
        let mut left = false;
        let last = phase + 1 == phases.count;
        for action in 0..actions {
            let number = state * actions + action;
            let pair = &counts.pairs()[number];
            if pair.visits == 0 {
                continue;
            }
            left = true;
            let visits = pair.visits as f64;
            let ended = pair.ends as f64 / visits;
            let next = pair.successors.iter().flat_map(|(to, times)| {
                let (p, to) = (*times as f64 / visits, to * phases.count as u32 + phase as u32);
                let further = (phases.rate > 0.0 && !last).then_some((to + 1, p * phases.rate));
                std::iter::once((to, p * (1.0 - phases.rate))).chain(further)
            });
            let cut_off = if last { (1.0 - ended) * phases.rate } else { 0.0 };
            let resets = starts.after(ended + cut_off, number, most);
            let rewards = (0..counts.rewards()).map(|i| counts.mean(number, i));
            arrays.push(action, merged(next.chain(resets)), rewards);
        }
        if !left {
            arrays.push(0, starts.after(1.0, state * actions, most), overall.iter().copied());
        }
        let rows = arrays.first_entry.len() as u32 - 1;
        arrays.first_row.get_or_insert_default().push(rows);
    }
    Ok(FiniteCmdp::from_csr(arrays)?)
}

/// Successors with their probabilities, each once, without those that cannot follow.
fn merged(next: impl Iterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut merged: Vec<(u32, f64)> = next.filter(|(_, p)| *p > 0.0).collect();
    merged.sort_by_key(|(to, _)| *to);
    merged.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0.0 };
        same
    });
    merged
}

/// Rows that are added to arrays.
trait Rows {
    fn push(
        &mut self,
        action: usize,
        next: impl IntoIterator<Item = (u32, f64)>,
        rewards: impl Iterator<Item = f64>,
    );
}

impl Rows for CsrModel {
    fn push(
        &mut self,
        action: usize,
        next: impl IntoIterator<Item = (u32, f64)>,
        rewards: impl Iterator<Item = f64>,
    ) {
        for (to, p) in next {
            self.targets.push(to);
            self.probabilities.push(p);
        }
        self.rewards.extend(rewards);
        self.row_actions.get_or_insert_default().push(action as u32);
        self.first_entry.push(self.targets.len() as u32);
    }
}

/// Distribution of the first states of episodes.
struct Starts {
    shares: Vec<(u32, f64)>,
    /// Sums of the shares up to each.
    sums: Vec<f64>,
}

impl Starts {
    fn new(counts: &Counts, phases: usize) -> Self {
        let total = counts.episodes().max(1) as f64;
        let begun = counts.starts().iter().enumerate().filter(|(_, times)| **times > 0);
        let mut shares: Vec<(u32, f64)> =
            begun.map(|(state, times)| ((state * phases) as u32, *times as f64 / total)).collect();
        if shares.is_empty() {
            shares.push((0, 1.0));
        }
        let mut sum = 0.0;
        let sums = shares
            .iter()
            .map(|(_, share)| {
                sum += share;
                sum
            })
            .collect();
        Self { shares, sums }
    }

    /// Where an episode begins that ends with a probability. Of more than `most` states a systematic sample is taken, which is
    /// another one for each pair.
    fn after(&self, probability: f64, pair: usize, most: usize) -> Vec<(u32, f64)> {
        if probability == 0.0 {
            return Vec::new();
        }
        if self.shares.len() <= most {
            return self.shares.iter().map(|(state, share)| (*state, probability * share)).collect();
        }
        // The multiples of the golden ratio are evenly spread.
        let offset = (pair as f64 * 0.618_033_988_749_894_9).fract();
        let place = |k: usize| {
            let at = (k as f64 + offset) / most as f64;
            self.sums.partition_point(|sum| *sum < at).min(self.shares.len() - 1)
        };
        let mut after: Vec<(u32, f64)> = Vec::new();
        for k in (0..most).map(place) {
            match after.last_mut() {
                Some((state, p)) if *state == self.shares[k].0 => *p += probability / most as f64,
                _ => after.push((self.shares[k].0, probability / most as f64)),
            }
        }
        after
    }
}

/// Solution of an estimated model.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimatedSolution {
    /// The solution.
    pub answer: Executable,
    /// The specification that was solved: with bounds that can be met in the estimate.
    pub specification: Specification,
    /// By which share of each reward's range the bounds were relaxed; 0 if they can be met.
    pub relaxed: f64,
}

/// Solves an estimated model. Bounds that cannot be met in the estimate are relaxed, all by the same share of the ranges, as far
/// as necessary.
pub fn solve_estimate(
    model: &FiniteCmdp,
    specification: &Specification,
) -> Result<EstimatedSolution, LearnError> {
    let whole = FiniteTask::new(model, specification)?;
    let (mut relaxed, mut task) = (0.0, whole.clone());
    for _ in 0..MOST_RELAXATIONS {
        match attempt(&task)? {
            Attempt::Solved(answer) => {
                let specification = task.specification().clone();
                return Ok(EstimatedSolution { answer, specification, relaxed });
            }
            Attempt::Infeasible(missing) => {
                // What is missing exactly would be too close to infeasible.
                relaxed = (relaxed + 1.01 * missing).max(RELAXATION_GROWTH * relaxed).max(LEAST_RELAXATION);
            }
        }
        task = whole.with(&relax(&whole.in_model_units(), relaxed)?)?;
    }
    Err(LearnError::Unsolved { states: model.states() })
}

/// [`solve_estimate`], unless bounds that are lower by a negligible slack have far smaller prices: then it is for those.
///
/// Close to infeasible bounds prices are steep, and an error of the estimate that is smaller than any tolerance makes a
/// solution that pays for it with the objective. The dual dynamics make up for the slack, as far as that is cheap.
pub(super) fn solve_robustly(
    model: &FiniteCmdp,
    specification: &Specification,
    slack: &[f64],
) -> Result<EstimatedSolution, LearnError> {
    let solution = solve_estimate(model, specification)?;
    let task = FiniteTask::new(model, specification)?;
    let lower = specification.requirements().iter().zip(slack).map(|(r, slack)| {
        let bound = r.sign() * (r.c() - slack);
        Ok(Requirement::new(r.reward(), r.direction(), bound)?.named(r.name()))
    });
    let lower = lower.collect::<Result<Vec<_>, Error>>()?;
    let lower = Specification::new(specification.objective().cloned(), lower)?;
    let Attempt::Solved(answer) = attempt(&task.with(&lower)?)? else { return Ok(solution) };
    let size = |answer: &Executable| -> f64 {
        let prices = answer.multipliers();
        prices.iter().zip(task.scales()).map(|(l, range)| l * range).sum()
    };
    if size(&solution.answer) <= STEEP * size(&answer) {
        return Ok(solution);
    }
    Ok(EstimatedSolution { answer, specification: lower, relaxed: solution.relaxed })
}

/// Half of the tolerated shortfall of each requirement: what is asked for is measured from the worst average in the model.
pub(super) fn negligible(
    model: &FiniteCmdp,
    specification: &Specification,
    tolerance: f64,
) -> Result<Vec<f64>, LearnError> {
    let task = FiniteTask::new(model, specification)?;
    let slack = |(i, (bound, range)): (usize, (&f64, &f64))| {
        let mut weights = vec![0.0; task.len() + 1];
        weights[i + 1] = -1.0;
        let worst = maximise(&task, &weights)?.values(&task)?.requirements()[i];
        Ok(0.5 * acrl::tolerance(tolerance, *bound, *range, Some(worst)))
    };
    task.bounds().iter().zip(task.scales()).enumerate().map(slack).collect()
}

enum Attempt {
    Solved(Executable),
    /// Share of the ranges that is missing, as far as it is known.
    Infeasible(f64),
}

/// Solves a task, within a number of rounds that depends on the size of the model: wall-clock time would make results differ.
fn attempt(task: &FiniteTask<'_>) -> Result<Attempt, LearnError> {
    let size = task.model().transitions() + task.model().states();
    let most = (SOLVE_WORK / size.max(1)).max(20);
    let options = SolveOptions { gap: GAP, ..SolveOptions::default() };
    let mut observer = |round: &SolveRound| match round.gap {
        Some(_) if round.round >= most => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if task.structure().end_components.len() > 1 {
        let sure = match almost_sure_observed(task, &options, &mut observer) {
            Err(SolveError::Rounds(_) | SolveError::Stopped) => return Ok(Attempt::Infeasible(0.0)),
            sure => sure?,
        };
        return Ok(Executable::almost_sure(task, &sure).map_or(Attempt::Infeasible(0.0), Attempt::Solved));
    }
    Ok(match solve(task, &options, &mut observer) {
        Ok(Solution::Optimal(optimum)) => Attempt::Solved(Executable::new(task, &optimum)),
        Ok(Solution::Infeasible(conflict)) => {
            let uniform = conflict.relaxation.uniform;
            Attempt::Infeasible(if uniform.is_finite() { uniform } else { 0.0 })
        }
        // Too close to infeasible to tell.
        Err(SolveError::Rounds(_) | SolveError::Stopped) => Attempt::Infeasible(0.0),
        Err(error) => return Err(error.into()),
    })
}

/// The specification with every bound relaxed by a share of the reward's range.
fn relax(task: &FiniteTask<'_>, share: f64) -> Result<Specification, Error> {
    let requirements = task.specification().requirements().iter().zip(task.scales());
    let requirements = requirements
        .map(|(r, range)| {
            let bound = r.sign() * (r.c() - share * range);
            Ok(Requirement::new(r.reward(), r.direction(), bound)?.named(r.name()))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Specification::new(task.specification().objective().cloned(), requirements)
}
