//! Fixed weights: maximise V₀ + Σ λ_i V_i for λ on a grid, and hope that one λ is feasible.
//!
//! > π(λ) ∈ argmax_π V₀(π) + Σ λ_i (V_i(π) − c_i)   \[R-CRL\]
//!
//! This is what a reward with hand-tuned penalties amounts to. The maximiser is exact, so a failure
//! is one of the method and not of the learning: on Example 1 every λ gives an infeasible policy.
//!
//! **Not claimed**: that no *regularised* weighting works. With an entropy bonus the maximiser is
//! randomised, and on Example 1 at λ = (1, 1), where all rewards weigh the same, the
//! [`soft_policy`] is the uniform one, which spends a third of its time in each state. The statement
//! "no weighting works" is about unregularised maximisers; at ties the first action is taken.

use acrl::{Multipliers, Values};
use acrl_exact::{ExactPolicy, FiniteTask};
use serde::Serialize;

use crate::baselines::finite::violation;
use crate::error::{length, setting};
use crate::{LearnError, Stationary};

/// One weighting and what its maximiser attains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Weighting {
    /// λ.
    pub multipliers: Multipliers,
    /// V₀ … V_m of the exact maximiser.
    pub values: Values,
    /// Whether no requirement is missed by more than the tolerance.
    pub feasible: bool,
}

/// Every λ ∈ {0, most/(points − 1) … most}ᵐ, for [`sweep`].
pub fn square_grid(requirements: usize, most: f64, points: usize) -> Result<Vec<Multipliers>, LearnError> {
    setting("most", most, 0.0.., "0 or more")?;
    setting("points", points as f64, 2.0.., "2 or more")?;
    let size = (points as f64).powi(i32::try_from(requirements).unwrap_or(i32::MAX));
    setting("points to the power of the number of requirements", size, ..=1e7, "at most 10,000,000")?;
    let digit = |j: usize, i: usize| (j / points.pow(i as u32) % points) as f64 * most / (points - 1) as f64;
    (0..size as usize)
        .map(|j| Ok(Multipliers::new((0..requirements).rev().map(|i| digit(j, i)).collect())?))
        .collect()
}

/// The maximiser's values at each λ. `tolerance` is in units of each reward's range.
pub fn sweep(
    task: &FiniteTask<'_>,
    multipliers: Vec<Multipliers>,
    tolerance: f64,
) -> Result<Vec<Weighting>, LearnError> {
    let mut policy = ExactPolicy::new(task);
    let weighting = |multipliers: Multipliers| {
        length("multipliers", task.len(), multipliers.len())?;
        let values = task.values(policy.actions(&multipliers)?)?;
        let feasible = violation(task, &values) <= tolerance;
        Ok(Weighting { multipliers, values, feasible })
    };
    multipliers.into_iter().map(weighting).collect()
}

/// The feasible weighting with the largest objective; if none is feasible, the one whose worst
/// violation, in units of each reward's range, is least. Ties go to the first.
pub fn best<'w>(task: &FiniteTask<'_>, weightings: &'w [Weighting]) -> Option<&'w Weighting> {
    // Feasible ones are ranked before others, and then by the number that matters.
    let rank = |w: &Weighting| match w.feasible {
        true => (1, w.values.objective()),
        false => (0, -violation(task, &w.values)),
    };
    let better = |a: &Weighting, b: &Weighting| rank(a).partial_cmp(&rank(b)).is_some_and(|o| o.is_lt());
    weightings.iter().reduce(|best, w| if better(best, w) { w } else { best })
}

/// The maximiser with an entropy bonus: of V₀ + Σ λ_i V_i + τ × (the policy's average entropy).
///
/// > g + h(s) = τ log Σ_a exp(q(s, a)/τ),  q(s, a) = r_λ(s, a) + Σ p(s′) h(s′),  π(a|s) ∝ exp(q(s, a)/τ),
///
/// by damped relative value iteration. It settles where every state leads to the same long-run
/// average, as in a communicating model; else it is an error.
pub fn soft_policy(
    task: &FiniteTask<'_>,
    multipliers: &Multipliers,
    temperature: f64,
) -> Result<Stationary, LearnError> {
    const SWEEPS: usize = 100_000;
    length("multipliers", task.len(), multipliers.len())?;
    setting("temperature", temperature, f64::MIN_POSITIVE.., "a number above 0")?;
    let model = task.model();
    let weighted = |c: usize| {
        let r = task.rewards(c);
        r[0] + r[1..].iter().zip(multipliers.as_slice()).map(|(r, l)| l * r).sum::<f64>()
    };
    let reward: Vec<f64> = (0..model.choice_count()).map(weighted).collect();
    let scale = reward.iter().fold(temperature, |m, r| m.max(r.abs()));
    let mut h = vec![0.0; model.states()];
    let mut q = vec![0.0; model.choice_count()];
    for _ in 0..SWEEPS {
        let expectation = |c: usize| reward[c] + model.expectation(c, &h);
        q = (0..q.len()).map(expectation).collect();
        let soft_max = |s: usize| {
            let most = q[model.choices(s)].iter().fold(f64::NEG_INFINITY, |m, q| m.max(*q));
            let sum: f64 = q[model.choices(s)].iter().map(|q| ((q - most) / temperature).exp()).sum();
            most + temperature * sum.ln()
        };
        let change: Vec<f64> = (0..h.len()).map(|s| soft_max(s) - h[s]).collect();
        let (low, high) =
            change.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), d| (l.min(*d), h.max(*d)));
        if high - low <= 1e-11 * scale {
            for s in 0..model.states() {
                q[model.choices(s)]
                    .iter_mut()
                    .for_each(|q| *q = ((*q - h[s] - change[s]) / temperature).exp());
            }
            return Stationary::new(model, q);
        }
        // Half a step, so that a periodic chain settles too; relative to the first state.
        let first = 0.5 * change[0] + h[0];
        h.iter_mut().zip(&change).for_each(|(h, d)| *h += 0.5 * d - first);
    }
    Err(LearnError::NotConverged { what: "the entropy-regularised maximiser", sweeps: SWEEPS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{machine, monitoring, running, third};

    #[test]
    fn no_weighting_of_example_1_is_feasible() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let weightings = sweep(&task, square_grid(2, 3.0, 61).unwrap(), 0.0).unwrap();
        assert_eq!(weightings.len(), 3_721);
        assert_eq!(weightings.iter().filter(|w| w.feasible).count(), 0);
        let best = best(&task, &weightings).unwrap();
        assert!((violation(&task, &best.values) - 1.0 / 3.0).abs() < 1e-12, "{best:?}");
        assert_eq!(best.multipliers.as_slice(), [0.0, 0.0], "the first of many");
    }

    #[test]
    fn the_best_weighting_is_feasible_where_one_is() {
        let model = machine();
        let task = FiniteTask::new(&model, &running(0.7, 0.9)).unwrap();
        let weightings = sweep(&task, square_grid(2, 40.0, 21).unwrap(), 0.0).unwrap();
        let best = best(&task, &weightings).unwrap();
        assert!(best.feasible);
        let largest = weightings.iter().filter(|w| w.feasible).map(|w| w.values.objective());
        assert_eq!(best.values.objective(), largest.fold(f64::NEG_INFINITY, f64::max));
        assert!(super::best(&task, &[]).is_none());
    }

    #[test]
    fn with_an_entropy_bonus_equal_weights_solve_example_1() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let lambda = Multipliers::new(vec![1.0, 1.0]).unwrap();
        for temperature in [0.01, 0.1, 1.0] {
            let policy = soft_policy(&task, &lambda, temperature).unwrap();
            assert!(policy.probabilities().iter().all(|p| (p - 0.5).abs() < 1e-9));
            let values = policy.values(&task).unwrap();
            assert!(values.as_slice().iter().all(|v| (v - 1.0 / 3.0).abs() < 1e-9), "{values:?}");
        }
    }

    #[test]
    fn the_soft_policy_approaches_the_maximiser_as_the_bonus_vanishes() {
        let model = machine();
        let task = FiniteTask::new(&model, &running(0.7, 0.9)).unwrap();
        let lambda = Multipliers::new(vec![8.0, 2.0]).unwrap();
        let gain = |v: &Values| v.objective() + 8.0 * v.requirements()[0] + 2.0 * v.requirements()[1];
        let exact = gain(&sweep(&task, vec![lambda.clone()], 0.0).unwrap()[0].values);
        let soft = |t: f64| gain(&soft_policy(&task, &lambda, t).unwrap().values(&task).unwrap());
        assert!((soft(0.02) - exact).abs() < 1e-3, "{} {exact}", soft(0.02));
        assert!(soft(5.0) < soft(0.5) && soft(0.5) < exact + 1e-9);
    }

    #[test]
    fn bad_settings_are_errors_with_their_value() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        assert!(square_grid(2, f64::NAN, 5).is_err() && square_grid(2, 1.0, 1).is_err());
        assert!(square_grid(9, 1.0, 1_000).is_err());
        assert!(sweep(&task, vec![Multipliers::zeros(3)], 0.0).is_err());
        let error = soft_policy(&task, &Multipliers::zeros(2), 0.0).unwrap_err();
        assert_eq!(error.to_string(), "the setting 'temperature' is 0, expected a number above 0");
    }
}
