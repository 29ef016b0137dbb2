//! Infeasible requirements: an irreducible conflict, its proof, and the relaxation that resolves it.

use std::ops::ControlFlow;

use acrl::{Goal, Objective, Requirement, Specification};

use crate::solve::{Observer, feasible, highest, most_slack_observed, optimum};
use crate::tolerances::RELAXATION_MARGINS;
use crate::vector::dot;
use crate::{FiniteTask, Slack, SolveError, SolveOptions, SolveRound};

/// Proof and analysis of infeasible requirements.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// Irreducible infeasible subset: without any one of them the others could be met.
    pub names: Vec<String>,
    /// y ≥ 0 with Σ y_i R_i = 1 such that y·(V − c) < 0 for every policy.
    pub certificate: Vec<f64>,
    /// Proved upper bound on y·V of every policy, by a solve of its own; the bounds require more, y·c.
    pub most: f64,
    /// Distance from feasibility: the largest slack, which is negative.
    pub slack: Slack,
    /// Amounts by which the bounds would have to be relaxed.
    pub relaxation: Relaxation,
    /// Whether the analysis was completed. After a stop the conflict is still proved, but the subset may be
    /// reducible, and amounts may be larger than necessary or missing.
    pub complete: bool,
}

/// Amounts by which the bounds would have to be relaxed, in units of each reward's range over the model;
/// verified by solving again.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxation {
    /// Common amount for all requirements.
    pub uniform: f64,
    /// Amount for one requirement alone, in the order of the specification; `None` where that does not
    /// suffice.
    pub alone: Vec<Option<f64>>,
}

impl Conflict {
    /// Analyses requirements that are proved infeasible, because for prices y no policy has y·(V − c) above
    /// `deficit` < 0; `observer` sees the rounds and may stop it.
    pub(crate) fn analyse(
        task: &FiniteTask<'_>,
        prices: &[f64],
        deficit: f64,
        options: &SolveOptions,
        observer: &mut Observer<'_>,
    ) -> Result<Self, SolveError> {
        let task = &task.in_model_units();
        let mut analysis = Analysis { options, observer, stopped: false };
        let slack = most_slack_observed(task, options, &mut |r| analysis.observe(r))?;
        let slack = slack.ok_or(SolveError::Rounds(0))?;
        let specification = task.specification();
        // Deletion filter: the priced requirements conflict; drop each one without which they still do.
        let mut set: Vec<usize> = (0..task.len()).filter(|&i| prices[i] > 0.0).collect();
        for i in set.clone() {
            let without: Vec<usize> = set.iter().copied().filter(|&j| j != i).collect();
            if !without.is_empty()
                && analysis.feasible(&task.with(&specification.subset(&without))?)? == Some(false)
            {
                set = without;
            }
        }
        let names = set.iter().map(|&i| specification.requirements()[i].name().to_owned()).collect();
        // The mixture of this slack shows that it suffices; verified by solving again.
        let uniform = match analysis.verified(task, -slack.lower, &vec![true; task.len()])? {
            None if analysis.stopped => -slack.lower,
            uniform => uniform.unwrap_or(f64::NAN),
        };
        let alone = (0..task.len()).map(|i| analysis.relax_alone(task, i)).collect::<Result<_, _>>()?;
        let (certificate, most) = analysis.proof(task, [&slack.prices, prices])?.unwrap_or_else(|| {
            let certificate = normalised(task, prices);
            let most = dot(&certificate, task.bounds()) + deficit / dot(prices, task.scales());
            (certificate, most)
        });
        let relaxation = Relaxation { uniform, alone };
        Ok(Self { names, certificate, most, slack, relaxation, complete: !analysis.stopped })
    }
}

/// Prices scaled to Σ y_i R_i = 1.
fn normalised(task: &FiniteTask<'_>, prices: &[f64]) -> Vec<f64> {
    let total = dot(prices, task.scales());
    prices.iter().map(|y| y / total).collect()
}

/// Solves of the analysis, none after it was stopped.
struct Analysis<'o> {
    options: &'o SolveOptions,
    observer: &'o mut Observer<'o>,
    stopped: bool,
}

impl Analysis<'_> {
    /// Passes a round on without its bounds, which are not bounds on the answer.
    fn observe(&mut self, round: &SolveRound) -> ControlFlow<()> {
        let flow = (self.observer)(&SolveRound { round: round.round, ..Default::default() });
        self.stopped |= flow.is_break();
        flow
    }

    /// Whether the requirements can be met; `None` if it is too close to decide, or the analysis was
    /// stopped.
    fn feasible(&mut self, task: &FiniteTask<'_>) -> Result<Option<bool>, SolveError> {
        if self.stopped {
            return Ok(None);
        }
        known(feasible(task, self.options, &mut |round| self.observe(round)))
    }

    /// First of these prices, scaled to Σ y_i R_i = 1, that prove the conflict when they are solved for, and
    /// the upper bound on y·V.
    fn proof(
        &mut self,
        task: &FiniteTask<'_>,
        candidates: [&[f64]; 2],
    ) -> Result<Option<(Vec<f64>, f64)>, SolveError> {
        for prices in candidates {
            if self.stopped {
                return Ok(None);
            }
            let prices = normalised(task, prices);
            let weights = [&[0.0], &prices[..]].concat();
            let highest = highest(task, &weights, self.options, &mut |round| self.observe(round));
            match known(highest)? {
                Some(most) if most < dot(&prices, task.bounds()) => return Ok(Some((prices, most))),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Amount by which requirement i must be relaxed if the others stay.
    fn relax_alone(&mut self, task: &FiniteTask<'_>, i: usize) -> Result<Option<f64>, SolveError> {
        if self.stopped {
            return Ok(None);
        }
        let requirements = task.specification().requirements();
        let this = &requirements[i];
        let goal = if this.sign() > 0.0 { Goal::Maximize } else { Goal::Minimize };
        let objective = Objective { reward: this.reward().to_owned(), goal };
        let others: Vec<Requirement> = requirements.iter().filter(|r| *r != this).cloned().collect();
        let asked = task.with(&Specification::new(Some(objective), others)?)?;
        let best = known(optimum(&asked, self.options, &mut |round| self.observe(round)))?;
        let Some(best) = best.flatten() else { return Ok(None) };
        let amount = ((this.c() - best.lower) / task.scales()[i]).max(0.0);
        let mut which = vec![false; task.len()];
        which[i] = true;
        // The value of a mixture suffices even without verification.
        let verified = self.verified(task, amount, &which)?;
        Ok(verified.or(Some(amount).filter(|_| self.stopped)))
    }

    /// Verified amount by which the bounds marked in `which` are relaxed, with a margin for rounding if
    /// necessary; `None` if that does not suffice.
    fn verified(
        &mut self,
        task: &FiniteTask<'_>,
        amount: f64,
        which: &[bool],
    ) -> Result<Option<f64>, SolveError> {
        for margin in RELAXATION_MARGINS {
            let amount = amount * (1.0 + margin) + margin;
            let mut requirements = task.specification().requirements().to_vec();
            for (i, requirement) in requirements.iter_mut().enumerate().filter(|(i, _)| which[*i]) {
                let bound = requirement.bound() - requirement.sign() * amount * task.scales()[i];
                *requirement = Requirement::new(requirement.reward(), requirement.direction(), bound)?
                    .named(requirement.name());
            }
            let objective = task.specification().objective().cloned();
            let relaxed = task.with(&Specification::new(objective, requirements)?)?;
            if self.feasible(&relaxed)? == Some(true) {
                return Ok(Some(amount));
            }
        }
        Ok(None)
    }
}

/// Answer, or `None` if it is too close to decide or was stopped.
fn known<T>(answer: Result<T, SolveError>) -> Result<Option<T>, SolveError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(SolveError::Rounds(_) | SolveError::Stopped) => Ok(None),
        Err(error) => Err(error),
    }
}
