//! Vectorised tanh and exp.

use crate::batch::TILE;
use crate::isa::{Instructions, Isa, Kernel, Line, dispatch};

/// x·P(x²) / Q(x²), the best relative fit on (0, 7.9] by a weighted least squares that evens out the error; beyond
/// 7.9 tanh is 1 within 3·10⁻⁷.
const LIMIT: f32 = 7.9;
const P: [f32; 4] = [0.999_999_9, 0.129_344_21, 2.960_476_5e-3, 1.153_187_1e-5];
const Q: [f32; 5] = [1.0, 0.462_676_47, 2.385_409_7e-2, 2.400_125e-4, 2.492_557_6e-7];

/// c₀ + c₁u + c₂u² + …
#[inline(always)]
pub(crate) fn polynomial<I: Isa, const N: usize>(isa: I, c: [f32; N], u: I::V) -> I::V {
    let mut p = isa.splat(c[N - 1]);
    for &c in c[..N - 1].iter().rev() {
        p = isa.mul_add(p, u, isa.splat(c));
    }
    p
}

/// tanh |x| ≈ c₀ + c₁|x| + c₂|x|² + c₃|x|³ in 32 intervals: 8 in each octave of |x| + ½ from ½ to 8, as many as two
/// registers hold; the best fit in each, with c₀ = 0 in the first. Beyond the last tanh is 1 within 7·10⁻⁷.
pub(crate) const CUBICS_LIMIT: f32 = 7.499_999_5;
/// Row k has c_k of the interval whose number is bits 20 to 24 of the float |x| + ½, so that 16 is the first.
#[rustfmt::skip]
pub(crate) const CUBICS: [[Line; 2]; 4] = [
    [
        Line([
            0.016_857_259, 0.141_166_48, 0.283_253_22, 0.423_232_32, 0.549_041_7, 0.655_399_4,
            0.741_516_3, 0.809_063_1, 0.880_043_9, 0.938_775_06, 0.969_751_54, 0.985_443_83,
            0.993_146_96, 0.996_832_97, 0.998_559_6, 0.999_353_9,
        ]),
        Line([
            0.0, -3.426_114_7e-6, -4.556_442_6e-5, -2.379_87e-4, -7.912_835e-4, -2.004_987_6e-3,
            -4.225_647_5e-3, -7.783_072e-3, -0.015_941_74, -0.032_572_87, -0.053_340_25, -0.073_453_2,
            -0.087_163_22, -0.089_480_996, -0.077_305_17, -0.049_755_856,
        ]),
    ],
    [
        Line([
            1.172_973_2, 0.959_768_83, 0.746_201_6, 0.559_076_2, 0.407_687_2, 0.291_340_9, 0.204_993_93,
            0.142_483_68, 0.082_211_53, 0.037_775_308, 0.016_959_645, 7.475_798_5e-3, 3.246_034e-3,
            1.391_679_6e-3, 5.902_14e-4, 2.479_655_7e-4,
        ]),
        Line([
            1.000_000_8, 1.000_145_6, 1.001_120_3, 1.004_149_9, 1.010_734_1, 1.022_330_4, 1.040_046_5,
            1.064_402, 1.112_065_8, 1.191_952, 1.275_280_1, 1.344_606_5, 1.386_120_7, 1.392_636_4,
            1.363_667_2, 1.303_724_9,
        ]),
    ],
    [
        Line([
            -0.499_980_75, -0.377_988_1, -0.270_916_04, -0.187_489_67, -0.126_741_4, -0.084_302_58,
            -0.055_435_12, -0.036_147_323, -0.019_080_445, -7.866_695e-3, -3.201_848_6e-3,
            -1.290_543_1e-3, -5.161_133e-4, -2.050_65e-4, -8.102_797_4e-5, -3.186_422e-5,
        ]),
        Line([
            -6.864_575e-5, -2.156_125_6e-3, -9.739_584e-3, -0.025_708_97, -0.051_891_997, -0.088_884_81,
            -0.136_050_82, -0.191_680_46, -0.284_606_43, -0.412_728_04, -0.524_306_36, -0.604_025_1,
            -0.645_951_33, -0.652_044_53, -0.629_062_2, -0.585_573_14,
        ]),
    ],
    [
        Line([
            0.075_196_65, 0.051_909_56, 0.034_004_48, 0.021_600_146, 0.013_471_267, 8.309_483_5e-3,
            5.091_585_7e-3, 3.107_328_4e-3, 1.495_730_5e-3, 5.518_786_5e-4, 2.032_458e-4, 7.479_988e-5,
            2.752_139e-5, 1.012_510_2e-5, 3.724_891e-6, 1.370_320_9e-6,
        ]),
        Line([
            -0.331_935_6, -0.321_578_35, -0.301_723_87, -0.273_538_05, -0.238_741_96, -0.199_340_73,
            -0.157_435_22, -0.115_045_33, -0.054_581_5, 0.014_025_777, 0.063_884_534, 0.094_465_88,
            0.108_588, 0.110_483_82, 0.104_404_19, 0.093_883_37,
        ]),
    ],
];

/// Numerator and denominator of tanh x.
#[inline(always)]
fn tanh_fraction<I: Isa>(isa: I, x: I::V) -> (I::V, I::V) {
    let x = isa.clamp(x, -LIMIT, LIMIT);
    let u = isa.mul(x, x);
    (isa.mul(x, polynomial(isa, P, u)), polynomial(isa, Q, u))
}

/// tanh x with one division: |error| ≤ 5·10⁻⁷ and |tanh x| < 1; NaN stays NaN.
#[inline(always)]
pub(crate) fn tanh_quotient<I: Isa>(isa: I, x: I::V) -> I::V {
    let (p, q) = tanh_fraction(isa, x);
    isa.div(p, q)
}

/// tanh of two vectors with one division, p/q = p q′ · 1/(q q′): the division takes longer than all the rest.
///
/// |error| ≤ 6·10⁻⁷, |tanh x| ≤ 1 + 1.2·10⁻⁷ (one ulp); a NaN in one vector is a NaN in the same lane of both.
#[inline(always)]
pub(crate) fn tanh_quotients<I: Isa>(isa: I, x: I::V, y: I::V) -> (I::V, I::V) {
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
    isa.store(if EXP { exp_vector(isa, x) } else { isa.tanh(x) }, tile);
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

/// Replaces each x by tanh x: |error| ≤ 10⁻⁶ (also of tanh x itself), |tanh x| < 1, NaN stays NaN.
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
    use super::{Isa, Kernel, dispatch};
    use crate::Instructions;
    use crate::batch::TILE;
    use crate::init::uniform;
    use rand_core::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// tanh of the first halves and of the second halves of pairs of tiles.
    struct Pairs<'a>(&'a mut [[[f32; TILE]; 2]]);

    impl Kernel for Pairs<'_> {
        #[inline(always)]
        fn run<I: Isa>(self, isa: I) {
            for [x, y] in self.0 {
                let (a, b) = isa.tanh_pair(isa.load(x), isa.load(y));
                isa.store(a, x);
                isa.store(b, y);
            }
        }
    }

    #[test]
    fn tanh_pair_is_accurate() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let mut draw = || std::array::from_fn(|_| (20.0 * uniform(&mut rng) - 10.0) as f32);
        let x: Vec<[[f32; TILE]; 2]> = (0..100_000).map(|_| [draw(), draw()]).collect();
        for set in Instructions::available() {
            let mut y = x.clone();
            dispatch(set, Pairs(&mut y));
            for (x, y) in x.as_flattened().as_flattened().iter().zip(y.as_flattened().as_flattened()) {
                assert!((f64::from(*y) - f64::from(*x).tanh()).abs() < 1e-6, "{set:?}: tanh {x} is not {y}");
                assert!(y.abs() <= 1.0 + f32::EPSILON, "{set:?}: tanh {x} is not {y}");
            }
        }
        for set in Instructions::available() {
            let mut special =
                [[[f32::NAN; TILE], [f32::INFINITY; TILE]], [[1.0; TILE], [f32::NEG_INFINITY; TILE]]];
            dispatch(set, Pairs(&mut special));
            assert!(special[0][0].iter().all(|y| y.is_nan()), "{set:?}");
            assert!((special[1][1][0] + 1.0).abs() < 1e-6, "{set:?}");
        }
    }
}
