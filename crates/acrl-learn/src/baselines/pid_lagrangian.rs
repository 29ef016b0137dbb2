//! PID-Lagrangian (Stooke, Achiam and Abbeel, 2020): the multiplier as a controller of the deficit.
//!
//! > I ← \[I + K_I g\]₊,  λ ← \[K_P ḡ + I + K_D \[ḡ − ḡ₋\]₊\]₊,
//!
//! where g = c − r̄ is the deficit of a stretch, ḡ a moving average of it and ḡ₋ the one before. The integral alone is
//! [`primal_dual`](super::primal_dual); the other two terms answer at once, and damp its swings.
//!
//! **Guaranteed**: as for primal-dual, with I in place of λ: the averages of the training are short by at most I/(K_I n).
//! **Not guaranteed**: that I stays bounded, and anything about the policy with which one stops. A smoother λ makes a policy
//! easier to learn where one policy suffices; where behaviour has to be switched there is nothing to settle at.

use serde::{Deserialize, Serialize};

use crate::LearnError;
use crate::error::setting;

/// The gains, in units of the rewards' ranges.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | `proportional` | 1 | K_P | 0 or more |
/// | `integral` | .3 | K_I | 0 or more |
/// | `derivative` | 1 | K_D | 0 or more |
/// | `smoothing` | .3 | the share of a new deficit in ḡ | above 0, to 1 |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gains {
    /// K_P.
    pub proportional: f64,
    /// K_I.
    pub integral: f64,
    /// K_D.
    pub derivative: f64,
    /// The share of a new deficit in ḡ.
    pub smoothing: f64,
}

impl Default for Gains {
    fn default() -> Self {
        Self { proportional: 1.0, integral: 0.3, derivative: 1.0, smoothing: 0.3 }
    }
}

impl Gains {
    /// All three gains so many times as large.
    pub fn times(self, factor: f64) -> Self {
        let Self { proportional, integral, derivative, smoothing } = self;
        Self {
            proportional: factor * proportional,
            integral: factor * integral,
            derivative: factor * derivative,
            smoothing,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LearnError> {
        setting("proportional", self.proportional, 0.0.., "0 or more")?;
        setting("integral", self.integral, 0.0.., "0 or more")?;
        setting("derivative", self.derivative, 0.0.., "0 or more")?;
        setting("smoothing", self.smoothing, f64::MIN_POSITIVE..=1.0, "above 0 and at most 1")
    }
}

/// The controller of each requirement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PidLagrangian {
    gains: Gains,
    /// ḡ; nothing before the first stretch.
    smooth: Option<Vec<f64>>,
    integral: Vec<f64>,
    multipliers: Vec<f64>,
}

impl PidLagrangian {
    /// λ = 0.
    pub(crate) fn new(gains: Gains, m: usize) -> Self {
        Self { gains, smooth: None, integral: vec![0.0; m], multipliers: vec![0.0; m] }
    }

    pub(crate) fn multipliers(&self) -> &[f64] {
        &self.multipliers
    }

    /// See the [module](self).
    pub(crate) fn observe(&mut self, deficits: &[f64]) {
        let Gains { proportional, integral, derivative, smoothing } = self.gains;
        let smooth = self.smooth.get_or_insert_with(|| deficits.to_vec());
        for (i, g) in deficits.iter().enumerate() {
            let before = smooth[i];
            smooth[i] += smoothing * (g - before);
            self.integral[i] = (self.integral[i] + integral * g).max(0.0);
            let rise = (smooth[i] - before).max(0.0);
            self.multipliers[i] = (proportional * smooth[i] + self.integral[i] + derivative * rise).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_three_terms_add_up() {
        let gains = Gains { proportional: 2.0, integral: 0.5, derivative: 10.0, smoothing: 0.5 };
        let mut rule = PidLagrangian::new(gains, 1);
        rule.observe(&[0.1]);
        // No rise before the second stretch: 2·.1 + .5·.1.
        assert!((rule.multipliers()[0] - 0.25).abs() < 1e-12);
        rule.observe(&[0.3]);
        // ḡ = .2, a rise of .1, I = .05 + .15: 2·.2 + .2 + 10·.1.
        assert!((rule.multipliers()[0] - 1.6).abs() < 1e-12);
        rule.observe(&[-0.2]);
        // ḡ = 0, no rise counts when it falls, I = .1.
        assert!((rule.multipliers()[0] - 0.1).abs() < 1e-12);
        rule.observe(&[-9.0]);
        assert_eq!(rule.multipliers(), [0.0]);
        // The integral did not go below 0, so it answers the next deficit at once.
        rule.observe(&[9.0]);
        assert!(rule.integral[0] == 4.5);
        assert!(Gains { smoothing: 0.0, ..gains }.check().is_err());
        assert!(gains.times(f64::NAN).check().is_err());
    }

    #[test]
    fn with_the_integral_alone_it_is_primal_dual() {
        let gains = Gains { proportional: 0.0, derivative: 0.0, ..Gains::default() };
        let mut pid = PidLagrangian::new(gains, 1);
        let mut ascent = super::super::PrimalDual::new(gains.integral, 1);
        for n in 0..50 {
            let g = [f64::from(n).sin()];
            pid.observe(&g);
            ascent.observe(&g);
            assert_eq!(pid.multipliers(), ascent.multipliers());
        }
    }
}
