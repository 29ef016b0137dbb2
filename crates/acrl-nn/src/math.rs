//! tanh and exp on vectors.

use crate::batch::TILE;
use crate::isa::{Instructions, Isa, Kernel, dispatch};

/// x·P(x²) / Q(x²), the best relative fit on (0, 7.9] by a weighted least squares that evens out the error; beyond
/// 7.9 tanh is 1 within 3·10⁻⁷.
const LIMIT: f32 = 7.9;
const P: [f32; 4] = [0.999_999_9, 0.129_344_21, 2.960_476_5e-3, 1.153_187_1e-5];
const Q: [f32; 5] = [1.0, 0.462_676_47, 2.385_409_7e-2, 2.400_125e-4, 2.492_557_6e-7];

/// c₀ + c₁u + c₂u² + …
#[inline(always)]
fn polynomial<I: Isa, const N: usize>(isa: I, c: [f32; N], u: I::V) -> I::V {
    let mut p = isa.splat(c[N - 1]);
    for &c in c[..N - 1].iter().rev() {
        p = isa.mul_add(p, u, isa.splat(c));
    }
    p
}

/// Numerator and denominator of tanh x.
#[inline(always)]
fn tanh_fraction<I: Isa>(isa: I, x: I::V) -> (I::V, I::V) {
    let x = isa.clamp(x, -LIMIT, LIMIT);
    let u = isa.mul(x, x);
    (isa.mul(x, polynomial(isa, P, u)), polynomial(isa, Q, u))
}

/// tanh x, |error| ≤ 5·10⁻⁷ and |tanh x| < 1; NaN stays NaN.
#[inline(always)]
pub(crate) fn tanh_vector<I: Isa>(isa: I, x: I::V) -> I::V {
    let (p, q) = tanh_fraction(isa, x);
    isa.div(p, q)
}

/// tanh of two vectors with one division, p/q = p q′ · 1/(q q′), as the divider is slower than all the rest of it.
///
/// |error| ≤ 6·10⁻⁷, |tanh x| ≤ 1 + 1.2·10⁻⁷ (one ulp); a NaN in one is a NaN in the same lane of both.
#[inline(always)]
pub(crate) fn tanh_pair<I: Isa>(isa: I, x: I::V, y: I::V) -> (I::V, I::V) {
    let ((p_x, q_x), (p_y, q_y)) = (tanh_fraction(isa, x), tanh_fraction(isa, y));
    let inverse = isa.div(isa.splat(1.0), isa.mul(q_x, q_y));
    (isa.mul(isa.mul(p_x, q_y), inverse), isa.mul(isa.mul(p_y, q_x), inverse))
}

/// eˣ = 2ⁿ·eʳ with n = round(x / ln 2) and |r| ≤ ln 2 / 2, within 2 ulp; 0 and ∞ where they belong.
#[inline(always)]
pub(crate) fn exp_vector<I: Isa>(isa: I, x: I::V) -> I::V {
    /// 1.5·2²³: what is added to it is rounded to an integer, which then are the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first with few enough bits that n times it is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let round = isa.splat(ROUND);
    let x = isa.clamp(x, -105.0, 90.0);
    let n = isa.sub(isa.mul_add(x, isa.splat(std::f32::consts::LOG2_E), round), round);
    let r = isa.mul_sub_from(n, isa.splat(LN_2[1]), isa.mul_sub_from(n, isa.splat(LN_2[0]), x));
    let taylor = [1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];
    // 2ⁿ in two factors, as n may be beyond the exponents of a float.
    let half = isa.sub(isa.mul_add(n, isa.splat(0.5), round), round);
    let bias = isa.splat(ROUND + 127.0);
    let powers = [isa.to_exponent(isa.add(half, bias)), isa.to_exponent(isa.add(isa.sub(n, half), bias))];
    isa.mul(isa.mul(polynomial(isa, taylor, r), powers[0]), powers[1])
}

#[inline(always)]
fn apply<I: Isa, const EXP: bool>(isa: I, tile: &mut [f32; TILE]) {
    let x = isa.load(tile);
    isa.store(if EXP { exp_vector(isa, x) } else { tanh_vector(isa, x) }, tile);
}

struct OverSlice<'a, const EXP: bool>(&'a mut [f32]);

impl<const EXP: bool> Kernel for OverSlice<'_, EXP> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (tiles, rest) = self.0.as_chunks_mut::<TILE>();
        for tile in tiles {
            apply::<I, EXP>(isa, tile);
        }
        if !rest.is_empty() {
            let mut tile = [0.0; TILE];
            tile[..rest.len()].copy_from_slice(rest);
            apply::<I, EXP>(isa, &mut tile);
            rest.copy_from_slice(&tile[..rest.len()]);
        }
    }
}

/// Replaces each x by tanh x: |error| ≤ 5·10⁻⁷, |tanh x| < 1, NaN stays NaN.
///
/// ```
/// let mut x = [0.5, -20.0];
/// acrl_nn::tanh(&mut x);
/// assert!((x[0] - 0.46211716).abs() < 1e-6 && (x[1] + 1.0).abs() < 1e-6);
/// ```
pub fn tanh(x: &mut [f32]) {
    dispatch(Instructions::best(), OverSlice::<false>(x));
}

/// Replaces each x by eˣ, within 2 ulp (denormal results within the least float); NaN stays NaN.
///
/// ```
/// let mut x = [1.0, f32::NEG_INFINITY];
/// acrl_nn::exp(&mut x);
/// assert!((x[0] - 2.7182817).abs() < 1e-6 && x[1] == 0.0);
/// ```
pub fn exp(x: &mut [f32]) {
    dispatch(Instructions::best(), OverSlice::<true>(x));
}

#[cfg(test)]
mod tests {
    use super::{Isa, Kernel, dispatch, tanh_pair};
    use crate::Instructions;
    use crate::batch::TILE;

    /// tanh of the first halves and of the second halves of pairs of tiles.
    struct Pairs<'a>(&'a mut [[[f32; TILE]; 2]]);

    impl Kernel for Pairs<'_> {
        #[inline(always)]
        fn run<I: Isa>(self, isa: I) {
            for [x, y] in self.0 {
                let (a, b) = tanh_pair(isa, isa.load(x), isa.load(y));
                isa.store(a, x);
                isa.store(b, y);
            }
        }
    }

    #[test]
    fn pairs_are_accurate() {
        let mut rng = acrl::Rng::new(0);
        let mut draw = || std::array::from_fn(|_| (20.0 * rng.uniform() - 10.0) as f32);
        let x: Vec<[[f32; TILE]; 2]> = (0..100_000).map(|_| [draw(), draw()]).collect();
        for set in Instructions::available() {
            let mut y = x.clone();
            dispatch(set, Pairs(&mut y));
            for (x, y) in x.as_flattened().as_flattened().iter().zip(y.as_flattened().as_flattened()) {
                assert!((f64::from(*y) - f64::from(*x).tanh()).abs() < 6e-7, "{set:?}: tanh {x} is not {y}");
                assert!(y.abs() <= 1.0 + f32::EPSILON, "{set:?}: tanh {x} is not {y}");
            }
        }
        let mut special =
            [[[f32::NAN; TILE], [f32::INFINITY; TILE]], [[1.0; TILE], [f32::NEG_INFINITY; TILE]]];
        dispatch(Instructions::best(), Pairs(&mut special));
        assert!(special[0].as_flattened().iter().all(|y| y.is_nan()));
        assert!((special[1][1][0] + 1.0).abs() < 6e-7);
    }
}
