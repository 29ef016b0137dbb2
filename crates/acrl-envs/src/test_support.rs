//! Helpers of the tests of several environments.

use acrl::{FiniteCmdp, Specification};

/// Every row is a probability distribution over states that exist.
pub(crate) fn assert_stochastic(model: &FiniteCmdp) {
    for choice in (0..model.choice_count()).map(|c| model.choice(c)) {
        let sum: f64 = choice.probabilities.iter().sum();
        assert!((sum - 1.0).abs() < 1e-12, "{choice:?} adds up to {sum}");
        assert!(choice.probabilities.iter().all(|p| *p > 0.0), "{choice:?}");
        assert!(choice.targets.iter().all(|t| (*t as usize) < model.states()), "{choice:?}");
    }
}

/// d(λ) = max over policies of V₀ + Σ λ_i (V_i − c_i), by relative value iteration. By duality it is
/// at least P*, and equal to it at λ*. For models in which every state reaches every other.
pub(crate) fn dual_value(model: &FiniteCmdp, specification: &Specification, lambda: &[f64]) -> f64 {
    let scoring = specification.bind(model.reward_names()).unwrap();
    let weights: Vec<f64> = std::iter::once(1.0).chain(lambda.iter().copied()).collect();
    let reward = |c: usize| -> f64 {
        let r = model.choice(c).rewards;
        let terms = scoring.terms().zip(&weights);
        terms.map(|(term, w)| term.map_or(0.0, |(i, sign)| w * sign * r[i])).sum()
    };
    let mut h = vec![0.0; model.states()];
    for _ in 0..1_000_000 {
        let best = |s: usize| {
            let values = model.choices(s).map(|c| reward(c) + model.expectation(c, &h));
            values.fold(f64::NEG_INFINITY, f64::max)
        };
        let gains: Vec<f64> = (0..model.states()).map(|s| best(s) - h[s]).collect();
        let low = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let high = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if high - low < 1e-11 {
            let bounds = specification.bounds();
            return (low + high) / 2.0 - lambda.iter().zip(&bounds).map(|(l, c)| l * c).sum::<f64>();
        }
        // Half a step, so that periodic policies converge too.
        h.iter_mut().zip(&gains).for_each(|(h, g)| *h += 0.5 * (g - low));
    }
    panic!("value iteration did not converge");
}
