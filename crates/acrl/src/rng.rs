//! The random number generator that is passed to everything that needs randomness.

use std::convert::Infallible;

use rand_core::{Rng as _, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// A small, fast, serialisable generator (xoshiro256++) whose output is the same on every machine.
///
/// ```
/// use acrl::Rng;
/// let (mut a, mut b) = (Rng::stream(7, 3), Rng::stream(7, 3));
/// assert_eq!(a.uniform(), b.uniform());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The generator of one of many independent streams of a seed, for example of run number `index`.
    pub fn stream(seed: u64, index: u64) -> Self {
        // An odd multiplier is a bijection, so that two streams of a seed never share a generator.
        let mixed = Self::new(seed).bits() ^ index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self::new(mixed)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number drawn uniformly from [0, 1).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number drawn from the normal distribution with mean 0 and variance 1 (Box & Muller 1958).
    #[inline]
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// An index drawn uniformly from `0..n`; 0 when `n` is 0.
    #[inline]
    pub fn index(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// An index drawn with the probabilities `weights`, which add up to about 1.
    #[inline]
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut u = self.uniform();
        for (i, &p) in weights.iter().enumerate() {
            u -= p;
            if u < 0.0 {
                return i;
            }
        }
        // Rounding may leave a sliver above the sum: the last possible outcome takes it.
        weights.iter().rposition(|&p| p > 0.0).unwrap_or(0)
    }
}

/// For distributions and crates that are generic over `rand_core`.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn streams_differ_and_indices_stay_in_range() {
        assert_ne!(Rng::stream(1, 0).bits(), Rng::stream(1, 1).bits());
        assert_ne!(Rng::stream(1, 0).bits(), Rng::stream(2, 0).bits());
        let mut rng = Rng::new(0);
        assert!((0..1000).all(|_| rng.index(7) < 7));
    }

    #[test]
    fn normal_draws_have_the_moments_of_a_normal_distribution() {
        let mut rng = Rng::new(1);
        let draws: Vec<f64> = (0..200_000).map(|_| rng.normal()).collect();
        let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / draws.len() as f64;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.01 && (moment(4) - 3.0).abs() < 0.1);
    }

    #[test]
    fn weighted_never_draws_an_outcome_of_probability_zero() {
        let mut rng = Rng::new(5);
        assert!((0..10_000).all(|_| [1, 2].contains(&rng.weighted(&[0.0, 0.3, 0.7 - 1e-12, 0.0]))));
    }
}
