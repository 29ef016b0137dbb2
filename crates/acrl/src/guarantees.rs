//! The constants and bounds of the theorems, with B as the proofs use it.
//!
//! The paper's (A2) bounds each |r_i − c_i| by B, but its proofs use ‖g‖² ≤ B² for the whole vector,
//! so B² here is sup ‖r − c‖². On Example 1 that is 5/9 and not 4/9.

/// B² = sup ‖r − c‖² over all reward vectors r₁ … r_m.
///
/// ```
/// // Example 1, c = (1/3, 1/3): the worst state is R₁ (or R₂).
/// let third = 1.0 / 3.0;
/// let b2 = acrl::guarantees::squared_bound([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], &[third, third]);
/// assert!((b2 - 5.0 / 9.0).abs() < 1e-15);
/// ```
pub fn squared_bound<R: AsRef<[f64]>>(rewards: impl IntoIterator<Item = R>, bounds: &[f64]) -> f64 {
    let squared = |r: R| r.as_ref().iter().zip(bounds).map(|(r, c)| (r - c).powi(2)).sum::<f64>();
    rewards.into_iter().map(squared).fold(0.0, f64::max)
}

/// The bound η B²/2 + β on the optimality gap of the average of r₀. Theorem 1 has β = 0 (unbiased
/// estimates); in the theorem with a realizable estimator β = β(T₀) bounds the bias of r_λ.
pub fn optimality_loss(step_size: f64, squared_bound: f64, beta: f64) -> f64 {
    step_size * squared_bound / 2.0 + beta
}

/// The step size η = 2δ/B² whose loss is δ.
pub fn step_size_for(loss: f64, squared_bound: f64) -> f64 {
    2.0 * loss / squared_bound
}

/// The Lemma on the size of λ: every λ with d(λ) − P* ≤ η B²/2 has
/// ‖λ‖₁ ≤ (P* − V₀(π†) + η B²/2)/C, where π† satisfies every requirement with slack C > 0.
pub fn multiplier_bound(
    optimum: f64,
    slater_objective: f64,
    slater_constant: f64,
    step_size: f64,
    squared_bound: f64,
) -> f64 {
    (optimum - slater_objective + optimality_loss(step_size, squared_bound, 0.0)) / slater_constant
}

/// B_λ of Assumption 2 for ε = C/2: from this distance to λ* on, the drift holds everywhere.
///
/// By convexity gᵀ(λ − λ*) ≥ d(λ) − P* and by (A1) d(λ) ≥ V₀(π†) + C‖λ‖₁, so (A1) implies
/// Assumption 2 with B_λ = 2 (‖λ*‖₁ + the [bound](multiplier_bound) of the Lemma).
pub fn drift_radius(optimal_sum: f64, multiplier_bound: f64) -> f64 {
    2.0 * (optimal_sum + multiplier_bound)
}

/// The drift of Assumption 2 at λ: (g + v)ᵀ(λ − λ*) ≥ η B²/2 for all ‖v‖ ≤ ε, where g = V(π(λ)) − c
/// is a subgradient of the dual function. Where it holds, λ is pulled back towards λ*.
pub fn drift_holds(
    subgradient: &[f64],
    multipliers: &[f64],
    optimal: &[f64],
    epsilon: f64,
    step_size: f64,
    squared_bound: f64,
) -> bool {
    let offset = multipliers.iter().zip(optimal).map(|(l, o)| l - o);
    let pull: f64 = offset.clone().zip(subgradient).map(|(d, g)| d * g).sum();
    let distance = offset.map(|d| d * d).sum::<f64>().sqrt();
    pull - epsilon * distance >= step_size * squared_bound / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_step_size_are_inverse() {
        let loss = optimality_loss(0.5, 5.0 / 9.0, 0.0);
        assert!((loss - 5.0 / 36.0).abs() < 1e-15);
        assert!((step_size_for(loss, 5.0 / 9.0) - 0.5).abs() < 1e-15);
    }

    #[test]
    fn drift_holds_far_from_the_optimum_only() {
        assert!(drift_holds(&[1.0, 1.0], &[9.0, 9.0], &[1.0, 1.0], 0.1, 0.5, 1.0));
        assert!(!drift_holds(&[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0], 0.1, 0.5, 1.0));
    }
}
