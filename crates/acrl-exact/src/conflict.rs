//! Requirements that cannot be met together: which, and by how much they would have to give.

use std::ops::ControlFlow;

use acrl::{Goal, Objective, Requirement, Specification};

use crate::solve::{
    SolveError, SolveOptions, SolveRound, feasible_watched, highest, most_slack_watched, optimum_watched,
};
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
    /// Whether the analysis ended by itself. One that was stopped is as sure of the conflict, but its set may not be a smallest one,
    /// and amounts may be larger than they need to be or missing.
    pub complete: bool,
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
    /// Analyses requirements that were proved to conflict, because for prices y no policy has y·(V − c) above `deficit` < 0;
    /// `observer` sees the rounds and may stop it.
    pub(crate) fn analyse(
        task: &FiniteTask<'_>,
        prices: &[f64],
        deficit: f64,
        options: &SolveOptions,
        observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
    ) -> Result<Self, SolveError> {
        let task = &task.in_model_units();
        let mut analysis = Analysis { options, observer, stopped: false };
        let slack = most_slack_watched(task, options, &mut |r| analysis.look(r))?;
        let slack = slack.ok_or(SolveError::Rounds(0))?;
        let specification = task.specification();
        // The priced requirements conflict already; drop each one without which they still do.
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
        // The mixture that has this slack shows that it is enough; to be sure it is solved again.
        let uniform = match analysis.verified(task, -slack.lower, &vec![true; task.len()])? {
            None if analysis.stopped => -slack.lower,
            uniform => uniform.unwrap_or(f64::NAN),
        };
        let alone = (0..task.len()).map(|i| analysis.relax_alone(task, i)).collect::<Result<_, _>>()?;
        let (certificate, most) = analysis.proof(task, [&slack.prices, prices])?.unwrap_or_else(|| {
            let total = total(task, prices);
            let prices: Vec<f64> = prices.iter().map(|y| y / total).collect();
            let most = asked(task, &prices) + deficit / total;
            (prices, most)
        });
        let relaxation = Relaxation { uniform, alone };
        Ok(Self { names, certificate, most, slack, relaxation, complete: !analysis.stopped })
    }
}

/// y·c.
fn asked(task: &FiniteTask<'_>, prices: &[f64]) -> f64 {
    prices.iter().zip(task.bounds()).map(|(y, c)| y * c).sum()
}

/// Σ y_i R_i.
fn total(task: &FiniteTask<'_>, prices: &[f64]) -> f64 {
    prices.iter().zip(task.scales()).map(|(y, r)| y * r).sum()
}

/// Solves until it is stopped: from then on nothing more is known.
struct Analysis<'o> {
    options: &'o SolveOptions,
    observer: &'o mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
    stopped: bool,
}

impl Analysis<'_> {
    /// Bounds on what is solved on the way are not bounds on the answer.
    fn look(&mut self, round: &SolveRound) -> ControlFlow<()> {
        let flow = (self.observer)(&SolveRound { lower: None, upper: None, gap: None, ..*round });
        self.stopped |= flow.is_break();
        flow
    }

    /// Whether the requirements can be met; `None` where it is too close to call, which must not cost the verdict on the whole, or
    /// if there is no time left.
    fn feasible(&mut self, task: &FiniteTask<'_>) -> Result<Option<bool>, SolveError> {
        if self.stopped {
            return Ok(None);
        }
        known(feasible_watched(task, self.options, &mut |round| self.look(round)))
    }

    /// The first of these prices, with Σ y_i R_i = 1, that prove the conflict when they are solved for, and what no policy
    /// exceeds.
    fn proof(
        &mut self,
        task: &FiniteTask<'_>,
        candidates: [&[f64]; 2],
    ) -> Result<Option<(Vec<f64>, f64)>, SolveError> {
        for prices in candidates {
            if self.stopped {
                return Ok(None);
            }
            let total = total(task, prices);
            let prices: Vec<f64> = prices.iter().map(|y| y / total).collect();
            let weights: Vec<f64> = std::iter::once(0.0).chain(prices.iter().copied()).collect();
            let highest = highest(task, &weights, self.options, &mut |round| self.look(round));
            match known(highest)? {
                Some(most) if most < asked(task, &prices) => return Ok(Some((prices, most))),
                _ => {}
            }
        }
        Ok(None)
    }

    /// How much requirement i must give if the others stay.
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
        let best = known(optimum_watched(&asked, self.options, &mut |round| self.look(round)))?;
        let Some(best) = best.flatten() else { return Ok(None) };
        let amount = ((this.c() - best.lower) / task.scales()[i]).max(0.0);
        let mut which = vec![false; task.len()];
        which[i] = true;
        // What a mixture attains is enough even where there is no time to solve again.
        let verified = self.verified(task, amount, &which)?;
        Ok(verified.or(Some(amount).filter(|_| self.stopped)))
    }

    /// The amount by which the bounds marked in `which` must give, a hair more if rounding asks for it;
    /// `None` if even that does not help.
    fn verified(
        &mut self,
        task: &FiniteTask<'_>,
        amount: f64,
        which: &[bool],
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
            let relaxed = task.with(&Specification::new(objective, requirements)?)?;
            if self.feasible(&relaxed)? == Some(true) {
                return Ok(Some(amount));
            }
        }
        Ok(None)
    }
}

/// An answer, or `None` where there is none.
fn known<T>(answer: Result<T, SolveError>) -> Result<Option<T>, SolveError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(SolveError::Rounds(_) | SolveError::Stopped) => Ok(None),
        Err(error) => Err(error),
    }
}
