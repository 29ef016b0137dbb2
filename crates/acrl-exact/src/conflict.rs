//! Requirements that cannot be met together: which, and by how much they would have to give.

use acrl::{Goal, Objective, Requirement, Specification};

use crate::solve::{SolveError, SolveOptions, feasible, highest, most_slack, optimum};
use crate::{FiniteTask, Slack};

/// Why no policy meets the requirements.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// A smallest set: without any one of them the others could be met.
    pub names: Vec<String>,
    /// y ≥ 0 with Σ y_i R_i = 1 such that y·(V − c) < 0 for every policy.
    pub certificate: Vec<f64>,
    /// Proved by a solve of its own: y·V ≤ `most` for every policy. The bounds ask for more, y·c.
    pub most: f64,
    /// How far from feasible: the largest slack, which is negative.
    pub slack: Slack,
    /// What would have to give.
    pub relaxation: Relaxation,
}

/// How much the bounds would have to give, in units of each reward's range over the model. Verified by
/// solving again.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxation {
    /// All requirements by the same share of their range.
    pub uniform: f64,
    /// One requirement alone, in the order of the specification; `None` where that does not help.
    pub alone: Vec<Option<f64>>,
}

impl Conflict {
    /// Analyses requirements that were proved to conflict with prices y.
    pub(crate) fn analyse(
        task: &FiniteTask<'_>,
        prices: &[f64],
        options: &SolveOptions,
    ) -> Result<Self, SolveError> {
        let task = &task.in_model_units();
        let slack = most_slack(task, options)?.ok_or(SolveError::Rounds(0))?;
        let specification = task.specification();
        // The priced requirements conflict already; drop each one without which they still do.
        let mut set: Vec<usize> = (0..task.len()).filter(|&i| prices[i] > 0.0).collect();
        for i in set.clone() {
            let without: Vec<usize> = set.iter().copied().filter(|&j| j != i).collect();
            if !without.is_empty() && !meets(&task.with(&specification.subset(&without))?, options)? {
                set = without;
            }
        }
        let names = set.iter().map(|&i| specification.requirements()[i].name().to_owned()).collect();
        let uniform = verified(task, -slack.lower, &vec![true; task.len()], options)?;
        let alone = (0..task.len()).map(|i| relax_alone(task, i, options)).collect::<Result<_, _>>()?;
        let (certificate, most) = proof(task, [&slack.prices, prices], options)?
            .unwrap_or_else(|| (slack.prices.clone(), asked(task, &slack.prices) + slack.upper));
        Ok(Self {
            names,
            certificate,
            most,
            slack,
            relaxation: Relaxation { uniform: uniform.unwrap_or(f64::NAN), alone },
        })
    }
}

/// y·c.
fn asked(task: &FiniteTask<'_>, prices: &[f64]) -> f64 {
    prices.iter().zip(task.bounds()).map(|(y, c)| y * c).sum()
}

/// The first of these prices, with Σ y_i R_i = 1, that prove the conflict when they are solved for, and what no policy exceeds.
fn proof(
    task: &FiniteTask<'_>,
    candidates: [&[f64]; 2],
    options: &SolveOptions,
) -> Result<Option<(Vec<f64>, f64)>, SolveError> {
    for prices in candidates {
        let total: f64 = prices.iter().zip(task.scales()).map(|(y, r)| y * r).sum();
        let prices: Vec<f64> = prices.iter().map(|y| y / total).collect();
        let weights: Vec<f64> = std::iter::once(0.0).chain(prices.iter().copied()).collect();
        match proved(highest(task, &weights, options))? {
            Some(most) if most < asked(task, &prices) => return Ok(Some((prices, most))),
            _ => {}
        }
    }
    Ok(None)
}

/// An answer, or `None` where it is too close to call: that must not cost the verdict on the whole.
fn proved<T>(answer: Result<T, SolveError>) -> Result<Option<T>, SolveError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(SolveError::Rounds(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the requirements can be met, as far as is known.
fn meets(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<bool, SolveError> {
    Ok(proved(feasible(task, options))?.unwrap_or(true))
}

/// How much requirement i must give if the others stay.
fn relax_alone(task: &FiniteTask<'_>, i: usize, options: &SolveOptions) -> Result<Option<f64>, SolveError> {
    let requirements = task.specification().requirements();
    let this = &requirements[i];
    let goal = if this.sign() > 0.0 { Goal::Maximize } else { Goal::Minimize };
    let objective = Objective { reward: this.reward().to_owned(), goal };
    let others: Vec<Requirement> = requirements.iter().filter(|r| *r != this).cloned().collect();
    let best = proved(optimum(&task.with(&Specification::new(Some(objective), others)?)?, options))?;
    let Some(best) = best.flatten() else { return Ok(None) };
    let amount = ((this.c() - best.lower) / task.scales()[i]).max(0.0);
    let mut which = vec![false; task.len()];
    which[i] = true;
    verified(task, amount, &which, options)
}

/// The amount by which the bounds marked in `which` must give, a hair more if rounding asks for it;
/// `None` if even that does not help.
fn verified(
    task: &FiniteTask<'_>,
    amount: f64,
    which: &[bool],
    options: &SolveOptions,
) -> Result<Option<f64>, SolveError> {
    for extra in [0.0, 1e-9, 1e-7, 1e-6] {
        let amount = amount * (1.0 + extra) + extra;
        let mut requirements = task.specification().requirements().to_vec();
        for (i, requirement) in requirements.iter_mut().enumerate().filter(|(i, _)| which[*i]) {
            let bound = requirement.bound() - requirement.sign() * amount * task.scales()[i];
            *requirement = Requirement::new(requirement.reward(), requirement.direction(), bound)?
                .named(requirement.name());
        }
        let objective = task.specification().objective().cloned();
        if proved(feasible(&task.with(&Specification::new(objective, requirements)?)?, options))?
            == Some(true)
        {
            return Ok(Some(amount));
        }
    }
    Ok(None)
}
