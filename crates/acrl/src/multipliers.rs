//! Multipliers λ and the Lagrangian they make of the rewards.

use serde::{Deserialize, Serialize};

use crate::error::{arity, finite};
use crate::{Error, Rewards, Values};

/// λ: one price per requirement, nonnegative and finite by construction, in f64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Multipliers(Vec<f64>);

impl Multipliers {
    /// From λ₁ … λ_m.
    pub fn new(values: Vec<f64>) -> Result<Self, Error> {
        for (index, &value) in values.iter().enumerate() {
            finite(&format!("multiplier number {index}"), value)?;
            if value < 0.0 {
                return Err(Error::NegativeMultiplier { index, value });
            }
        }
        Ok(Self(values))
    }

    /// λ = 0, where Algorithm 2 starts.
    pub fn zeros(m: usize) -> Self {
        Self(vec![0.0; m])
    }

    /// λ₁ … λ_m.
    #[inline]
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// The number of requirements, m.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// ‖λ‖₁.
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The projected step λ_i ← \[λ_i + d_i\]₊; false and without effect if the result is not finite.
    #[inline]
    pub(crate) fn step(&mut self, i: usize, d: f64) -> bool {
        let moved = self.0[i] + d;
        let fine = moved.is_finite();
        if fine {
            self.0[i] = moved.max(0.0);
        }
        fine
    }

    /// The weights on which Π(λ) depends: with an objective w = (1, λ)/(1 + Σλ), without one
    /// w = (0, λ)/Σλ, uniform at λ = 0. They are nonnegative and add up to 1, so a policy trained
    /// on the simplex covers all multipliers.
    ///
    /// ```
    /// let lambda = acrl::Multipliers::new(vec![1.0, 2.0])?;
    /// assert_eq!(lambda.weights(true), [0.25, 0.25, 0.5]);
    /// assert_eq!(acrl::Multipliers::zeros(2).weights(false), [0.0, 0.5, 0.5]);
    /// # Ok::<(), acrl::Error>(())
    /// ```
    pub fn weights(&self, has_objective: bool) -> Vec<f64> {
        let first = if has_objective { 1.0 } else { 0.0 };
        let total = first + self.sum();
        let mut weights = Vec::with_capacity(self.len() + 1);
        if total > 0.0 && total.is_finite() {
            weights.push(first / total);
            weights.extend(self.0.iter().map(|l| l / total));
        } else {
            // λ = 0 without an objective, or a sum that overflows: uniform weights.
            weights.push(0.0);
            weights.extend(self.0.iter().map(|_| 1.0 / self.len().max(1) as f64));
        }
        weights
    }
}

impl TryFrom<Vec<f64>> for Multipliers {
    type Error = Error;
    fn try_from(values: Vec<f64>) -> Result<Self, Error> {
        Self::new(values)
    }
}

impl From<Multipliers> for Vec<f64> {
    fn from(multipliers: Multipliers) -> Self {
        multipliers.0
    }
}

/// The Lagrangian at fixed λ and c.
///
/// ```
/// use acrl::{Lagrangian, Multipliers, Rewards};
/// let lambda = Multipliers::new(vec![2.0])?;
/// let lagrangian = Lagrangian::new(&lambda, &[0.25])?;
/// assert_eq!(lagrangian.reward(&Rewards::new(vec![1.0, 0.5])?), 1.5); // 1 + 2·(0.5 − 0.25)
/// # Ok::<(), acrl::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Lagrangian<'a> {
    multipliers: &'a Multipliers,
    bounds: &'a [f64],
}

impl<'a> Lagrangian<'a> {
    /// At multipliers λ and bounds c.
    pub fn new(multipliers: &'a Multipliers, bounds: &'a [f64]) -> Result<Self, Error> {
        arity("bounds of the Lagrangian", multipliers.len(), bounds.len())?;
        Ok(Self { multipliers, bounds })
    }

    /// r_λ = r₀ + Σ λ_i (r_i − c_i).
    pub fn reward(&self, rewards: &Rewards) -> f64 {
        self.weigh(rewards.as_slice())
    }

    /// 𝓛 = V₀ + Σ λ_i (V_i − c_i).
    pub fn value(&self, values: &Values) -> f64 {
        self.weigh(values.as_slice())
    }

    fn weigh(&self, r: &[f64]) -> f64 {
        let excess = r[1..].iter().zip(self.bounds).zip(self.multipliers.as_slice());
        r[0] + excess.map(|((r, c), l)| l * (r - c)).sum::<f64>()
    }
}
