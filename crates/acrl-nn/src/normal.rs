//! Vectorised standard normal random numbers.

use crate::batch::TILE;
use crate::isa::{Instructions, Isa, Kernel, dispatch};
use crate::math::polynomial;

/// (ln(1 + f) − f) / f² on [√½ − 1, √2 − 1], the best fit of ln(1 + f)/f.
const LN: [f32; 8] = [
    -0.499_999_82,
    0.333_339_33,
    -0.250_025_84,
    0.199_634_78,
    -0.165_517_88,
    0.148_836_84,
    -0.144_268_8,
    0.089_795_3,
];
/// sin(πv/2)/v and cos(πv/2) as polynomials in v², the best fits on [−1, 1].
const SIN: [f32; 5] = [1.570_796_4, -0.645_963_8, 0.079_689_93, -0.004_674_157_6, 0.000_151_678_53];
const COS: [f32; 6] = [1.0, -1.233_700_5, 0.253_669_32, -0.020_862_69, 0.000_917_724_86, -0.000_023_824_918];

struct Normals<'a> {
    bits: &'a [u64],
    first: &'a mut [f32],
    second: &'a mut [f32],
}

impl Kernel for Normals<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let tiles = self.bits.chunks(TILE);
        let results = self.first.chunks_mut(TILE).zip(self.second.chunks_mut(TILE));
        for (bits, (first, second)) in tiles.zip(results) {
            let mut tile = [0; TILE];
            tile[..bits.len()].copy_from_slice(bits);
            let (a, b) = pair(isa, &tile);
            let mut normals = [[0.0; TILE]; 2];
            isa.store(a, &mut normals[0]);
            isa.store(b, &mut normals[1]);
            first.copy_from_slice(&normals[0][..first.len()]);
            second.copy_from_slice(&normals[1][..second.len()]);
        }
    }
}

/// √(−2 ln a) (cos θ, sin θ), with a in (0, 1] of the upper 32 bits and θ in [−π, π] of the lower ones.
#[inline(always)]
fn pair<I: Isa>(isa: I, bits: &[u64; TILE]) -> (I::V, I::V) {
    /// √½, the least mantissa.
    const LEAST: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    // a = 2ᵉ (1 + f), with 1 + f from √½ to √2, and θ/π.
    let (mut e, mut f, mut v) = ([0.0; TILE], [0.0; TILE], [0.0; TILE]);
    for i in 0..TILE {
        let upper = ((bits[i] >> 32) as u32).max(1);
        let a = (upper as f32 * (1.0 / 4_294_967_296.0)).to_bits();
        let exponent = (a.wrapping_sub(LEAST) as i32) >> 23;
        e[i] = exponent as f32;
        f[i] = f32::from_bits(a.wrapping_sub((exponent << 23) as u32)) - 1.0;
        v[i] = bits[i] as u32 as i32 as f32 * (1.0 / 2_147_483_648.0);
    }
    let (e, f, v) = (isa.load(&e), isa.load(&f), isa.load(&v));
    let ln = isa.mul_add(polynomial(isa, LN, f), isa.mul(f, f), f);
    let ln = isa.mul_add(e, isa.splat(std::f32::consts::LN_2), ln);
    let radius = isa.sqrt(isa.clamp(isa.mul(ln, isa.splat(-2.0)), 0.0, 100.0));
    // cos θ = 1 − 2 sin²(θ/2), sin θ = 2 sin(θ/2) cos(θ/2).
    let square = isa.mul(v, v);
    let (sin, cos) = (isa.mul(v, polynomial(isa, SIN, square)), polynomial(isa, COS, square));
    let twice = isa.add(sin, sin);
    (isa.mul(radius, isa.mul_sub_from(twice, sin, isa.splat(1.0))), isa.mul(radius, isa.mul(twice, cos)))
}

/// Two independent standard normal numbers for each 64 random bits (Box & Muller 1958), at most 6.7 in magnitude.
///
/// ```
/// let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
/// acrl_nn::normals(&[1 << 63, 7 << 30], &mut a, &mut b);
/// // √(2 ln 2) at the angle 0, and √(2 ln 2³²) at −π/2.
/// assert!((a[0] - 1.1774100).abs() < 1e-6 && b[0] == 0.0);
/// assert!(a[1].abs() < 1e-5 && (b[1] + 6.6604362).abs() < 1e-5);
/// ```
///
/// # Panics
/// If `first` or `second` differs from `bits` in length.
pub fn normals(bits: &[u64], first: &mut [f32], second: &mut [f32]) {
    assert_eq!(bits.len(), first.len(), "number of first numbers");
    assert_eq!(bits.len(), second.len(), "number of second numbers");
    dispatch(Instructions::best(), Normals { bits, first, second });
}

#[cfg(test)]
mod tests {
    use super::{Normals, dispatch};
    use crate::Instructions;
    use rand_core::{Rng as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn drawn(set: Instructions, bits: &[u64]) -> [Vec<f32>; 2] {
        let [mut first, mut second] = [(); 2].map(|()| vec![0.0; bits.len()]);
        dispatch(set, Normals { bits, first: &mut first, second: &mut second });
        [first, second]
    }

    #[test]
    fn normals_match_box_muller_in_double_precision() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let mut bits: Vec<u64> = (0..100_003).map(|_| rng.next_u64()).collect();
        bits.extend([0, 1, u64::MAX, 1 << 32, u64::from(u32::MAX), 1 << 31, (1 << 32) - 1]);
        for set in Instructions::available() {
            let [first, second] = drawn(set, &bits);
            for (i, bits) in bits.iter().enumerate() {
                let a = ((bits >> 32) as f64).max(1.0) / 2f64.powi(32);
                let theta = std::f64::consts::PI * f64::from(*bits as u32 as i32) / 2f64.powi(31);
                let radius = (-2.0 * a.ln()).sqrt();
                // a is rounded to a float, which near 1 moves the radius by up to √(2 · 2⁻²⁵).
                let error = 3e-6 + (radius - (-2.0 * f64::from(a as f32).ln()).sqrt()).abs();
                for (z, expected) in [(first[i], radius * theta.cos()), (second[i], radius * theta.sin())] {
                    assert!((f64::from(z) - expected).abs() < error, "{set:?}: {z} is not {expected}");
                }
            }
        }
    }

    #[test]
    fn normals_have_the_moments_of_the_standard_normal_distribution() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let bits: Vec<u64> = (0..200_000).map(|_| rng.next_u64()).collect();
        let [first, second] = drawn(Instructions::best(), &bits);
        let mean = |f: &dyn Fn(f64, f64) -> f64| {
            let pairs = first.iter().zip(&second);
            pairs.map(|(a, b)| f(f64::from(*a), f64::from(*b))).sum::<f64>() / bits.len() as f64
        };
        assert!(mean(&|a, _| a).abs() < 0.01 && mean(&|_, b| b).abs() < 0.01);
        assert!((mean(&|a, _| a * a) - 1.0).abs() < 0.015 && (mean(&|_, b| b * b) - 1.0).abs() < 0.015);
        assert!((mean(&|a, _| a.powi(4)) - 3.0).abs() < 0.1 && (mean(&|_, b| b.powi(4)) - 3.0).abs() < 0.1);
        assert!(mean(&|a, b| a * b).abs() < 0.01 && (mean(&|a, b| a * a * b * b) - 1.0).abs() < 0.03);
    }
}
