//! A policy that has stopped learning and knows nothing of λ.

use acrl::{FiniteCmdp, FinitePolicy, Multipliers, Rng, Values};
use acrl_exact::FiniteTask;
use serde::Serialize;

use crate::LearnError;
use crate::error::length;

/// A stationary policy π(a|s) that acts the same at every λ: what a baseline leaves behind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stationary {
    /// The first choice of each state, and the number of choices at the end.
    #[serde(skip)]
    first: Vec<usize>,
    probabilities: Vec<f64>,
}

impl Stationary {
    /// The policy that takes choice number c with probability `probabilities[c]`.
    pub fn new(model: &FiniteCmdp, probabilities: Vec<f64>) -> Result<Self, LearnError> {
        length("probabilities of the choices", model.choice_count(), probabilities.len())?;
        for s in 0..model.states() {
            let own = &probabilities[model.choices(s)];
            let sum: f64 = own.iter().sum();
            // Written so that a NaN is refused too.
            if !((sum - 1.0).abs() < 1e-9 && own.iter().all(|p| *p >= 0.0)) {
                let (state, found) = (model.state_name(s).into_owned(), own.to_vec());
                return Err(LearnError::Probabilities { state, found });
            }
        }
        Ok(Self { first: first_choices(model), probabilities })
    }

    /// The policy that takes action number `rule[s]` in state s.
    pub fn of_rule(model: &FiniteCmdp, rule: &[usize]) -> Result<Self, LearnError> {
        check_rule(model, rule)?;
        let mut probabilities = vec![0.0; model.choice_count()];
        rule.iter().enumerate().for_each(|(s, a)| probabilities[model.choices(s).start + a] = 1.0);
        Ok(Self { first: first_choices(model), probabilities })
    }

    /// π(a|s), by number of the choice.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// V₀ … V_m, exactly, from the initial distribution of the task's model.
    pub fn values(&self, task: &FiniteTask<'_>) -> Result<Values, LearnError> {
        length("probabilities of the choices", task.model().choice_count(), self.probabilities.len())?;
        Ok(task.values_of_randomised(&self.probabilities)?)
    }
}

impl FinitePolicy for Stationary {
    #[inline]
    fn act(&mut self, state: usize, _: &Multipliers, rng: &mut Rng) -> usize {
        rng.weighted(&self.probabilities[self.first[state]..self.first[state + 1]])
    }
}

/// The first choice of each state, and the number of choices at the end.
pub(crate) fn first_choices(model: &FiniteCmdp) -> Vec<usize> {
    (0..model.states()).map(|s| model.choices(s).start).chain([model.choice_count()]).collect()
}

/// `Ok` if the rule takes an action in every state that the state has.
pub(crate) fn check_rule(model: &FiniteCmdp, rule: &[usize]) -> Result<(), LearnError> {
    length("actions of the rule", model.states(), rule.len())?;
    match (0..rule.len()).find(|&s| rule[s] >= model.choices(s).len()) {
        Some(s) => Err(LearnError::Action { state: model.state_name(s).into_owned(), action: rule[s] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{monitoring, third};

    #[test]
    fn the_uniform_policy_of_example_1_spends_a_third_of_its_time_everywhere() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let mut uniform = Stationary::new(&model, vec![0.5; 6]).unwrap();
        for v in uniform.values(&task).unwrap().as_slice() {
            assert!((v - 1.0 / 3.0).abs() < 1e-12);
        }
        let (mut rng, lambda) = (Rng::new(3), Multipliers::zeros(2));
        let ones: usize = (0..10_000).map(|_| uniform.act(1, &lambda, &mut rng)).sum();
        assert!((4_800..5_200).contains(&ones), "{ones}");
    }

    #[test]
    fn what_is_no_policy_is_refused_with_its_value() {
        let model = monitoring();
        let message = |p: Vec<f64>| Stationary::new(&model, p).unwrap_err().to_string();
        assert!(message(vec![0.5; 5]).contains("expected 6 numbers, found 5"));
        assert!(message(vec![0.5, 0.5, 0.5, 0.4, 0.5, 0.5]).contains("state 'R1'"));
        assert!(message(vec![1.5, -0.5, 0.5, 0.5, 0.5, 0.5]).contains("[1.5, -0.5]"));
        assert!(message(vec![f64::NAN; 6]).contains("NaN"));
        let rule = Stationary::of_rule(&model, &[0, 2, 0]).unwrap_err();
        assert_eq!(rule.to_string(), "state 'R1' has no action number 2");
    }
}
