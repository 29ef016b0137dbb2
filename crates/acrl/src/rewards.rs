//! The rewards of one step, and their long-run averages.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::finite;

/// r₀, r₁ … r_m of one step, in the form of the paper: r₀ is maximised and r_i ≥ c_i is required,
/// so a minimised reward or an `at_most` requirement is stored with its sign turned.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewards(Vec<f64>);

impl Rewards {
    /// From r₀, r₁ … r_m, which must all be finite.
    pub fn new(values: Vec<f64>) -> Result<Self, Error> {
        if let Some(i) = values.iter().position(|value| !value.is_finite()) {
            finite(&format!("reward r{i}"), values[i])?;
        }
        if values.is_empty() {
            return Err(Error::Arity { what: "rewards r0..rm".into(), expected: 1, found: 0 });
        }
        Ok(Self(values))
    }

    /// m + 1 zeros.
    pub fn zeros(m: usize) -> Self {
        Self(vec![0.0; m + 1])
    }

    /// r₀.
    #[inline]
    pub fn objective(&self) -> f64 {
        self.0[0]
    }

    /// r₁ … r_m.
    #[inline]
    pub fn requirements(&self) -> &[f64] {
        &self.0[1..]
    }

    /// r₀ … r_m.
    #[inline]
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// For code of this crate that checks the values it writes.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.0
    }
}

/// V₀, V₁ … V_m: long-run averages, measured or exact, in the signs of [`Rewards`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(Vec<f64>);

impl Values {
    /// From V₀, V₁ … V_m.
    pub fn new(values: Vec<f64>) -> Result<Self, Error> {
        Rewards::new(values).map(|rewards| Self(rewards.0))
    }

    /// V₀.
    pub fn objective(&self) -> f64 {
        self.0[0]
    }

    /// V₁ … V_m.
    pub fn requirements(&self) -> &[f64] {
        &self.0[1..]
    }

    /// V₀ … V_m.
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// True if V_i ≥ c_i − `tolerance` for every i.
    pub fn meets(&self, bounds: &[f64], tolerance: f64) -> bool {
        self.requirements().iter().zip(bounds).all(|(v, c)| *v >= c - tolerance)
    }
}
