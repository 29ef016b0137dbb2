//! Checking what the library of a trained policy says about requirements, before it is run.
//!
//! For a finite model [`check`](fn@crate::check) is exact. A trained policy has measured averages under fixed weights
//! instead, with standard errors; mixtures of them are what an execution can attain by switching.

use acrl::mixture::{best_mixture, game_value};
use acrl::{LibraryEntry, Named, Values, VecTask};
use acrl_learn::TrainingRecord;
use serde::Serialize;

use crate::Error;
use crate::comparison::named_values;
use crate::input::{PolicyProblem, apply};
use crate::options::ExecutionOptions;

/// Standard errors by which averages are made worse or better for an estimate that is cautious or optimistic.
const STANDARD_ERRORS: f64 = 2.0;
/// Changes of behaviour may cost this share of the objective's range, at the suggested epoch.
const SWITCHING_COST: f64 = 0.005;

/// The result of checking a trained policy; serialises as the object of `acrl check POLICY --json`. Slacks are in units
/// of the rewards' ranges, everything else in the user's units and signs.
#[derive(Debug, Serialize)]
pub struct PolicyCheckReport {
    /// Whether a mixture of the library's entries meets the requirements.
    pub feasible: bool,
    /// Whether it does with all averages two standard errors worse.
    pub certain: bool,
    /// How the policy was trained.
    pub policy: TrainingRecord,
    /// Number of weights under which the policy was measured.
    pub entries: usize,
    /// The largest slack that all requirements can have at once.
    pub slack: f64,
    /// The same with all averages two standard errors worse.
    pub slack_cautious: f64,
    /// Irreducible set of requirements in conflict; absent if there is a feasible mixture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Vec<String>>,
    /// What is known of each requirement.
    pub requirements: Named<RequirementCheck>,
    /// The best objective under the requirements; `null` without an objective or without a feasible mixture.
    pub objective: Option<ObjectiveEstimate>,
    /// The mixture that attains it, or the largest slack.
    pub mixture: Vec<MixturePart>,
    /// How it would be executed by default.
    pub execution: ExecutionSettings,
}

/// What the library says of a requirement.
#[derive(Debug, Serialize)]
pub struct RequirementCheck {
    /// The bound.
    pub bound: f64,
    /// `at_least` or `at_most`.
    pub direction: acrl::Direction,
    /// The best average of an entry.
    pub best: f64,
    /// The worst average of an entry.
    pub worst: f64,
    /// Standard error of the best average; 0 if it is exact.
    pub standard_error: f64,
    /// Shadow price of the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// The best objective, as estimated from averages that were measured.
#[derive(Debug, Serialize)]
pub struct ObjectiveEstimate {
    /// The name of its reward.
    pub reward: String,
    /// At the averages as measured: too good on average, as the best of several noisy values.
    pub estimate: f64,
    /// With all averages two standard errors worse; `null` if the requirements cannot be met then.
    pub cautious: Option<f64>,
    /// With all averages two standard errors better.
    pub optimistic: f64,
}

/// A part of a mixture.
#[derive(Debug, Serialize)]
pub struct MixturePart {
    /// Share of the time.
    pub weight: f64,
    /// Long-run averages.
    pub values: Named<f64>,
}

/// Default settings of an execution.
#[derive(Debug, Serialize)]
pub struct ExecutionSettings {
    /// λ₀.
    pub init_multipliers: Named<f64>,
    /// η of the dual update.
    pub step_size: f64,
    /// T₀ at the start.
    pub epoch: u64,
    /// The executor.
    pub executor: acrl::Executor,
    /// The shortest epoch at which changes between the parts of the mixture cost 0.5 % of the objective's range; `null`
    /// where their cost was not measured, or nothing changes.
    pub suggested_epoch: Option<u64>,
}

/// Checks a trained policy against its requirements.
pub(crate) fn check_policy(
    mut input: PolicyProblem,
    options: &ExecutionOptions,
    seed: Option<u64>,
) -> Result<PolicyCheckReport, Error> {
    let PolicyProblem { problem, file } = &mut input;
    apply(&mut problem.run, options, seed);
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let executor = file.execution_defaults.executor_for(problem.run.epoch);
    file.complete(&mut problem.run, executor, &task);
    let (library, bounds) = (&file.library, task.specification().bounds());
    let names = task.specification().names();
    let scales = file.scales(&task);
    let shifted =
        |errors: f64| -> Vec<Vec<f64>> { library.entries.iter().map(|entry| moved(entry, errors)).collect() };
    let (measured, cautious) = (shifted(0.0), shifted(-STANDARD_ERRORS));
    let slack_of = |values: &[Vec<f64>]| {
        let values: Vec<&[f64]> = values.iter().map(|v| &v[1..]).collect();
        game_value(&values, &bounds, &scales[1..])
    };
    let game = slack_of(&measured);
    let best = best_mixture(&measured, &bounds);
    let shares =
        best.as_ref().map(|best| best.weights.clone()).or_else(|| game.as_ref().map(|g| g.weights.clone()));
    let shares = shares.unwrap_or_default();
    let conflict = best.is_none().then(|| {
        irreducible_conflict(&measured, &bounds).into_iter().map(|i| names[i].clone()).collect::<Vec<_>>()
    });
    let requirements = task.specification().requirements().iter().enumerate().map(|(i, requirement)| {
        let better = |a: &&LibraryEntry, b: &&LibraryEntry| a.values[i + 1].total_cmp(&b.values[i + 1]);
        let (top, bottom) = (library.entries.iter().max_by(better), library.entries.iter().min_by(better));
        let sign = requirement.sign();
        let average = |entry: Option<&LibraryEntry>| entry.map_or(f64::NAN, |e| sign * e.values[i + 1] + 0.0);
        let check = RequirementCheck {
            bound: requirement.bound(),
            direction: requirement.direction(),
            best: average(top),
            worst: average(bottom),
            standard_error: top.and_then(|entry| entry.errors.get(i + 1)).copied().unwrap_or(0.0),
            price: best.as_ref().map(|best| best.multipliers[i]).filter(|_| task.has_objective()),
        };
        (names[i].clone(), check)
    });
    let objective = task.specification().objective().zip(best.as_ref()).map(|(objective, best)| {
        let value =
            |values: &[Vec<f64>]| best_mixture(values, &bounds).map(|b| objective.sign() * b.value + 0.0);
        let estimate = objective.sign() * best.value + 0.0;
        ObjectiveEstimate {
            reward: objective.reward.clone(),
            estimate,
            cautious: value(&cautious),
            optimistic: value(&shifted(STANDARD_ERRORS)).unwrap_or(estimate),
        }
    });
    let mixture = shares.iter().zip(&library.entries).filter(|(share, _)| **share > 1e-9);
    let mixture = mixture.map(|(&weight, entry)| {
        let values = Values::new(entry.values.clone())?;
        Ok(MixturePart { weight, values: named_values(task.specification(), &values) })
    });
    Ok(PolicyCheckReport {
        feasible: best.is_some(),
        certain: best_mixture(&cautious, &bounds).is_some(),
        policy: file.training.clone(),
        entries: library.entries.len(),
        slack: game.as_ref().map_or(0.0, |game| game.value),
        slack_cautious: slack_of(&cautious).map_or(0.0, |game| game.value),
        conflict,
        requirements: requirements.collect(),
        objective,
        mixture: mixture.collect::<Result<_, Error>>()?,
        execution: ExecutionSettings {
            init_multipliers: names
                .iter()
                .cloned()
                .zip(file.multipliers(&task)?.as_slice().iter().copied())
                .collect(),
            step_size: problem.run.step_size(),
            epoch: problem.run.epoch_length().start(),
            executor,
            suggested_epoch: suggested_epoch(&library.entries, &shares, scales[0])
                .filter(|_| task.has_objective()),
        },
    })
}

/// Requirements that no mixture meets together, none of which can be left out (deletion filter; Chinneck 2008).
fn irreducible_conflict(values: &[Vec<f64>], bounds: &[f64]) -> Vec<usize> {
    let feasible = |of: &[usize]| {
        let vectors: Vec<Vec<f64>> = values
            .iter()
            .map(|v| std::iter::once(v[0]).chain(of.iter().map(|&i| v[i + 1])).collect())
            .collect();
        let bounds: Vec<f64> = of.iter().map(|&i| bounds[i]).collect();
        best_mixture(&vectors, &bounds).is_some()
    };
    let mut conflict: Vec<usize> = (0..bounds.len()).collect();
    for i in 0..bounds.len() {
        let without: Vec<usize> = conflict.iter().copied().filter(|&k| k != i).collect();
        if !feasible(&without) {
            conflict = without;
        }
    }
    conflict
}

/// V₀ … V_m of an entry, better by a number of standard errors.
fn moved(entry: &LibraryEntry, errors: f64) -> Vec<f64> {
    let error = |i: usize| entry.errors.get(i).copied().unwrap_or(0.0);
    entry.values.iter().enumerate().map(|(i, value)| value + errors * error(i)).collect()
}

/// T₀ at which a round through the parts of a mixture costs [`SWITCHING_COST`] of the objective's range `unit`, by the
/// rewards that transients from the places of the other parts were measured to lose.
fn suggested_epoch(entries: &[LibraryEntry], shares: &[f64], unit: f64) -> Option<u64> {
    let parts = || entries.iter().zip(shares).filter(|(_, share)| **share > 1e-9).map(|(entry, _)| entry);
    if parts().count() < 2 {
        return None;
    }
    let lost = |to: &LibraryEntry| {
        let from = parts().filter(|from| from.place != to.place);
        from.filter_map(|from| to.travel.get(from.place).map(|lost| lost[0])).reduce(f64::max)
    };
    let round: f64 = parts().filter_map(lost).map(|lost| lost.max(0.0)).sum();
    (round > 0.0).then(|| (round / (SWITCHING_COST * unit)).ceil() as u64)
}
