//! Dual descent, stopped: look for λ* first, then keep the policy of the last λ.
//!
//! > λ_{k+1} = \[λ_k − η (V(π(λ_k)) − c)\]₊,  π(λ_k) ∈ Π(λ_k)
//!
//! with exact maximisers and exact values, each reward in units of its range as in
//! [`acrl::DualDynamics::with_scales`]: η_i = η R₀/R_i².
//!
//! **Guaranteed**: with a small η the multipliers come near λ*, the best dual value near P*, and the
//! *averages* over k of the values meet the requirements. **Not guaranteed**, and in general not true:
//! that π(λ_k) meets them at any k. Π(λ*) is a set, and π(λ_k) jumps between its deterministic members,
//! on Example 1 for ever between infeasible ones.

use acrl::{Multipliers, Values};
use acrl_exact::{ExactPolicy, FiniteTask};
use serde::Serialize;

use crate::baselines::finite::primal_averaging::VisitedRule;
use crate::error::setting;
use crate::{LearnError, Stationary};

/// The iterates of dual descent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Descent {
    /// The different rules π(λ_k), in the order of their first appearance.
    pub rules: Vec<ValuedRule>,
    /// λ_k and which rule is π(λ_k), for k = 0, 1, …
    pub iterates: Vec<Iterate>,
}

/// A rule and what it attains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValuedRule {
    /// The number of the action taken in each state.
    pub rule: Vec<usize>,
    /// V₀ … V_m, exactly.
    pub values: Values,
}

/// One iterate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Iterate {
    /// λ_k.
    pub multipliers: Multipliers,
    /// The place of π(λ_k) in [`Descent::rules`].
    pub rule: usize,
}

/// Runs dual descent from λ₀ = 0: so many iterates, the first of which is λ₀.
pub fn dual_descent(task: &FiniteTask<'_>, step_size: f64, iterates: usize) -> Result<Descent, LearnError> {
    setting("step_size", step_size, f64::MIN_POSITIVE.., "a number above 0")?;
    setting("iterates", iterates as f64, 1.0.., "1 or more")?;
    let steps: Vec<f64> =
        task.scales().iter().map(|r| step_size * task.objective_scale() / (r * r)).collect();
    let mut policy = ExactPolicy::new(task);
    let mut descent = Descent { rules: Vec::new(), iterates: Vec::with_capacity(iterates) };
    let mut lambda = vec![0.0; task.len()];
    for _ in 0..iterates {
        let multipliers = Multipliers::new(lambda.clone())?;
        let rule = descent.find_or_add(task, policy.actions(&multipliers)?)?; // π(λ_k)
        descent.iterates.push(Iterate { multipliers, rule });
        let values = descent.rules[rule].values.requirements();
        for (i, l) in lambda.iter_mut().enumerate() {
            *l = (*l - steps[i] * (values[i] - task.bounds()[i])).max(0.0);
        }
    }
    Ok(descent)
}

impl Descent {
    /// V₀ … V_m of π(λ_k); `None` beyond the last iterate.
    pub fn values(&self, k: usize) -> Option<&Values> {
        self.iterates.get(k).map(|iterate| &self.rules[iterate.rule].values)
    }

    /// π(λ_k), frozen: what is left when descent stops at k.
    pub fn stopped(&self, task: &FiniteTask<'_>, k: usize) -> Result<Stationary, LearnError> {
        let last = self.iterates.len().saturating_sub(1) as f64;
        setting("k", k as f64, 0.0..=last, "the number of an iterate")?;
        Stationary::of_rule(task.model(), &self.rules[self.iterates[k].rule].rule)
    }

    /// The averages of V₀ … V_m over all iterates.
    pub fn averages(&self) -> Result<Values, LearnError> {
        let values = || self.iterates.iter().map(|iterate| self.rules[iterate.rule].values.as_slice());
        let mut sums = vec![0.0; values().next().map_or(0, <[f64]>::len)];
        values().for_each(|v| sums.iter_mut().zip(v).for_each(|(sum, v)| *sum += v));
        sums.iter_mut().for_each(|sum| *sum /= self.iterates.len() as f64);
        Ok(Values::new(sums)?)
    }

    /// The rules with how often they came up, for [`primal averaging`](crate::baselines::finite::primal_averaging).
    pub fn visited(&self) -> Vec<VisitedRule> {
        let count = |j: usize| self.iterates.iter().filter(|iterate| iterate.rule == j).count() as u64;
        let visited =
            |(j, known): (usize, &ValuedRule)| VisitedRule { rule: known.rule.clone(), count: count(j) };
        self.rules.iter().enumerate().map(visited).collect()
    }

    fn find_or_add(&mut self, task: &FiniteTask<'_>, rule: &[usize]) -> Result<usize, LearnError> {
        if let Some(found) = self.rules.iter().position(|known| known.rule == rule) {
            return Ok(found);
        }
        self.rules.push(ValuedRule { rule: rule.to_vec(), values: task.values(rule)? });
        Ok(self.rules.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::finite::violation;
    use crate::test_models::{machine, monitoring, running, third};
    use acrl_exact::{Solution, SolveOptions, solve};

    #[test]
    fn on_example_1_every_stopped_policy_is_infeasible_and_the_average_is_not() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let descent = dual_descent(&task, 0.05, 20_000).unwrap();
        for k in [0, 1, 77, 5_000, 19_999] {
            let stopped = descent.stopped(&task, k).unwrap().values(&task).unwrap();
            assert!((descent.values(k).unwrap().objective() - stopped.objective()).abs() < 1e-12);
        }
        assert!(descent.rules.iter().all(|rule| violation(&task, &rule.values) > 0.3));
        assert!(violation(&task, &descent.averages().unwrap()) < 0.002);
        let last = descent.iterates.last().unwrap().multipliers.as_slice();
        assert!(last.iter().all(|l| (l - 1.0).abs() < 0.1), "{last:?}");
        assert!(descent.stopped(&task, 20_000).is_err());
    }

    #[test]
    fn the_multipliers_come_near_the_optimal_ones_in_any_units() {
        let model = machine();
        let task = FiniteTask::new(&model, &running(0.9, 0.3)).unwrap();
        let Solution::Optimal(optimum) =
            solve(&task, &SolveOptions::default(), &mut |_| std::ops::ControlFlow::Continue(())).unwrap()
        else {
            panic!("feasible")
        };
        let descent = dual_descent(&task, 0.05, 20_000).unwrap();
        let averages = descent.averages().unwrap();
        assert!(violation(&task, &averages) < 0.01);
        assert!((averages.objective() - optimum.objective).abs() < 0.1, "{averages:?} {optimum:?}");
    }

    #[test]
    fn bad_settings_are_errors() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        assert!(dual_descent(&task, 0.0, 10).is_err());
        assert!(dual_descent(&task, f64::INFINITY, 10).is_err());
        assert!(dual_descent(&task, 0.1, 0).is_err());
    }
}
