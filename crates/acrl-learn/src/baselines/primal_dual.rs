//! Primal-dual: a step on the policy and one on the multipliers, stretch after stretch.
//!
//! > λ ← \[λ + η g\]₊,  g = c − r̄ of the stretch.
//!
//! **Guaranteed**, by summing up the update: over n stretches the averages *of the training itself* are short by at most
//! (λ_n − λ_0)/(ηn). **Not guaranteed**: that λ stays bounded, which takes a policy that follows λ faster than λ moves; and nothing
//! at all about the policy with which one stops, which is the best for the last λ at most. To have what is guaranteed one
//! must go on training for ever. Where a stationary policy meets the requirements, it may settle there.

use serde::{Deserialize, Serialize};

/// λ and its step size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrimalDual {
    step_size: f64,
    multipliers: Vec<f64>,
}

impl PrimalDual {
    /// λ = 0.
    pub(crate) fn new(step_size: f64, m: usize) -> Self {
        Self { step_size, multipliers: vec![0.0; m] }
    }

    pub(crate) fn multipliers(&self) -> &[f64] {
        &self.multipliers
    }

    /// λ ← \[λ + η g\]₊.
    pub(crate) fn observe(&mut self, deficits: &[f64]) {
        for (l, g) in self.multipliers.iter_mut().zip(deficits) {
            *l = (*l + self.step_size * g).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_multipliers_bound_the_shortfall_of_the_training() {
        let (mut rule, mut sum) = (PrimalDual::new(0.3, 2), [0.0; 2]);
        for n in 1..=1000 {
            let g = [0.4 - f64::from(n % 3 == 0), f64::from(n).sin()];
            rule.observe(&g);
            for i in 0..2 {
                sum[i] += g[i];
                let bound = rule.multipliers()[i] / (0.3 * f64::from(n));
                assert!(sum[i] / f64::from(n) <= bound + 1e-12);
            }
        }
        rule.observe(&[-1e9, -1e9]);
        assert_eq!(rule.multipliers(), [0.0, 0.0]);
    }
}
