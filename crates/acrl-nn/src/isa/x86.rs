//! AVX-512 and AVX2 with FMA.

use super::{Isa, Kernel, Tiles};
use crate::batch::TILE;
use crate::math::{CUBICS, CUBICS_LIMIT};
use pulp::x86::{V3, V4};
use std::arch::x86_64::{__m256, __m512, _CMP_GT_OQ};

/// A kernel and the token it runs with, as `pulp` wants it.
pub(super) struct Run<K, I>(pub(super) K, pub(super) I);

impl<K: Kernel, I: Isa> pulp::NullaryFnOnce for Run<K, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.run(self.1);
    }
}

impl Isa for V4 {
    type V = __m512;
    const TILES: Tiles = Tiles::Large;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        self.avx512f._mm512_set1_ps(x)
    }
    #[inline(always)]
    fn load(self, from: &[f32; TILE]) -> __m512 {
        pulp::cast(*from)
    }
    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32; TILE]) {
        *to = pulp::cast(v);
    }
    operations! { self:
        add(a, b) = self.avx512f._mm512_add_ps(a, b);
        sub(a, b) = self.avx512f._mm512_sub_ps(a, b);
        mul(a, b) = self.avx512f._mm512_mul_ps(a, b);
        div(a, b) = self.avx512f._mm512_div_ps(a, b);
        sqrt(a) = self.avx512f._mm512_sqrt_ps(a);
        mul_add(a, b, c) = self.avx512f._mm512_fmadd_ps(a, b, c);
        mul_sub_from(a, b, c) = self.avx512f._mm512_fnmadd_ps(a, b, c);
    }
    #[inline(always)]
    fn clamp(self, a: __m512, low: f32, high: f32) -> __m512 {
        // Both give their second argument when one is NaN.
        let a = self.avx512f._mm512_min_ps(self.splat(high), a);
        self.avx512f._mm512_max_ps(self.splat(low), a)
    }
    #[inline(always)]
    fn where_positive(self, x: __m512, d: __m512) -> __m512 {
        let f = self.avx512f;
        f._mm512_maskz_mov_ps(f._mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, self.splat(0.0)), d)
    }
    #[inline(always)]
    fn to_exponent(self, a: __m512) -> __m512 {
        let bits = self.avx512f._mm512_castps_si512(a);
        self.avx512f._mm512_castsi512_ps(self.avx512f._mm512_slli_epi32::<23>(bits))
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        let halves: [__m256; 2] = pulp::cast(a);
        sum8(*self, self.avx._mm256_add_ps(halves[0], halves[1]))
    }

    /// A cubic by table: 12 instructions, none of them a division.
    #[inline(always)]
    fn tanh(self, a: __m512) -> __m512 {
        /// The bits of a sign.
        const SIGN: i32 = i32::MIN;
        let f = self.avx512f;
        let bits = f._mm512_castps_si512(a);
        let sign = f._mm512_set1_epi32(SIGN);
        let size = f._mm512_castsi512_ps(f._mm512_andnot_si512(sign, bits));
        // It gives its second argument when one is NaN.
        let size = f._mm512_min_ps(self.splat(CUBICS_LIMIT), size);
        let shifted = f._mm512_castps_si512(self.add(size, self.splat(0.5)));
        let interval = f._mm512_srli_epi32::<20>(shifted);
        let c = |k: usize| {
            let [low, high] = &CUBICS[k];
            f._mm512_permutex2var_ps(self.load(&low.0), interval, self.load(&high.0))
        };
        let p = self.mul_add(self.mul_add(self.mul_add(c(3), size, c(2)), size, c(1)), size, c(0));
        // p | (sign & a).
        let p = f._mm512_castps_si512(p);
        f._mm512_castsi512_ps(f._mm512_ternarylogic_epi32::<0xF8>(p, sign, bits))
    }

    #[inline(always)]
    fn tanh_pair(self, a: __m512, b: __m512) -> (__m512, __m512) {
        (self.tanh(a), self.tanh(b))
    }

    #[inline(always)]
    fn sums(self, a: [__m512; TILE]) -> [f32; TILE] {
        // 16 → 8 lanes of two vectors, then 8 → 4 of four: quarter q of the result is of vector i + 4q.
        let mut four = [a[0]; 4];
        for i in 0..4 {
            let p = halve16::<0x44, 0xEE>(self, a[i], a[i + 4]);
            let q = halve16::<0x44, 0xEE>(self, a[i + 8], a[i + 12]);
            four[i] = halve16::<0x88, 0xDD>(self, p, q);
        }
        // 4 → 2 → 1 within the quarters.
        let p = halve4::<0x44, 0xEE>(self, four[0], four[1]);
        let q = halve4::<0x44, 0xEE>(self, four[2], four[3]);
        pulp::cast(halve4::<0x88, 0xDD>(self, p, q))
    }

    #[inline(always)]
    fn transpose(self, a: [__m512; TILE]) -> [__m512; TILE] {
        // Lanes 4q + c of four vectors side by side in quarter q, at c of each group g of four.
        let (f, mut fours, mut turned) = (self.avx512f, a, a);
        for g in (0..TILE).step_by(4) {
            let (p, q) = (f._mm512_unpacklo_ps(a[g], a[g + 1]), f._mm512_unpackhi_ps(a[g], a[g + 1]));
            let (r, s) = (f._mm512_unpacklo_ps(a[g + 2], a[g + 3]), f._mm512_unpackhi_ps(a[g + 2], a[g + 3]));
            fours[g] = f._mm512_shuffle_ps::<0x44>(p, r);
            fours[g + 1] = f._mm512_shuffle_ps::<0xEE>(p, r);
            fours[g + 2] = f._mm512_shuffle_ps::<0x44>(q, s);
            fours[g + 3] = f._mm512_shuffle_ps::<0xEE>(q, s);
        }
        // Then the same quarter of all groups.
        for c in 0..4 {
            let (p, q) = (fours[c], fours[c + 4]);
            let (low, high) = (f._mm512_shuffle_f32x4::<0x44>(p, q), f._mm512_shuffle_f32x4::<0xEE>(p, q));
            let (p, q) = (fours[c + 8], fours[c + 12]);
            let (low_2, high_2) =
                (f._mm512_shuffle_f32x4::<0x44>(p, q), f._mm512_shuffle_f32x4::<0xEE>(p, q));
            turned[c] = f._mm512_shuffle_f32x4::<0x88>(low, low_2);
            turned[c + 4] = f._mm512_shuffle_f32x4::<0xDD>(low, low_2);
            turned[c + 8] = f._mm512_shuffle_f32x4::<0x88>(high, high_2);
            turned[c + 12] = f._mm512_shuffle_f32x4::<0xDD>(high, high_2);
        }
        turned
    }
}

/// The quarters LOW of two vectors plus their quarters HIGH.
#[inline(always)]
fn halve16<const LOW: i32, const HIGH: i32>(simd: V4, a: __m512, b: __m512) -> __m512 {
    let f = simd.avx512f;
    f._mm512_add_ps(f._mm512_shuffle_f32x4::<LOW>(a, b), f._mm512_shuffle_f32x4::<HIGH>(a, b))
}

/// The same with lanes within each quarter.
#[inline(always)]
fn halve4<const LOW: i32, const HIGH: i32>(simd: V4, a: __m512, b: __m512) -> __m512 {
    let f = simd.avx512f;
    f._mm512_add_ps(f._mm512_shuffle_ps::<LOW>(a, b), f._mm512_shuffle_ps::<HIGH>(a, b))
}

/// The sum of 8 lanes, halves first.
#[inline(always)]
fn sum8(simd: V3, a: __m256) -> f32 {
    let (low, high) = (simd.avx._mm256_castps256_ps128(a), simd.avx._mm256_extractf128_ps::<1>(a));
    let four = simd.sse._mm_add_ps(low, high);
    let two = simd.sse._mm_add_ps(four, simd.sse._mm_movehl_ps(four, four));
    simd.sse._mm_cvtss_f32(simd.sse._mm_add_ss(two, simd.sse._mm_shuffle_ps::<1>(two, two)))
}

#[inline(always)]
fn to_exponent8(simd: V3, a: __m256) -> __m256 {
    simd.avx._mm256_castsi256_ps(simd.avx2._mm256_slli_epi32::<23>(simd.avx._mm256_castps_si256(a)))
}

impl Isa for V3 {
    type V = [__m256; 2];
    const TILES: Tiles = Tiles::Medium;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [self.avx._mm256_set1_ps(x); 2]
    }
    #[inline(always)]
    fn load(self, from: &[f32; TILE]) -> Self::V {
        pulp::cast(*from)
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; TILE]) {
        *to = pulp::cast(v);
    }
    operations! { self:
        add(a, b) = [self.avx._mm256_add_ps(a[0], b[0]), self.avx._mm256_add_ps(a[1], b[1])];
        sub(a, b) = [self.avx._mm256_sub_ps(a[0], b[0]), self.avx._mm256_sub_ps(a[1], b[1])];
        mul(a, b) = [self.avx._mm256_mul_ps(a[0], b[0]), self.avx._mm256_mul_ps(a[1], b[1])];
        div(a, b) = [self.avx._mm256_div_ps(a[0], b[0]), self.avx._mm256_div_ps(a[1], b[1])];
        sqrt(a) = [self.avx._mm256_sqrt_ps(a[0]), self.avx._mm256_sqrt_ps(a[1])];
        mul_add(a, b, c) =
            [self.fma._mm256_fmadd_ps(a[0], b[0], c[0]), self.fma._mm256_fmadd_ps(a[1], b[1], c[1])];
        mul_sub_from(a, b, c) =
            [self.fma._mm256_fnmadd_ps(a[0], b[0], c[0]), self.fma._mm256_fnmadd_ps(a[1], b[1], c[1])];
        to_exponent(a) = [to_exponent8(self, a[0]), to_exponent8(self, a[1])];
    }
    #[inline(always)]
    fn clamp(self, a: Self::V, low: f32, high: f32) -> Self::V {
        // Both give their second argument when one is NaN.
        let (low, high) = (self.avx._mm256_set1_ps(low), self.avx._mm256_set1_ps(high));
        let a = [self.avx._mm256_min_ps(high, a[0]), self.avx._mm256_min_ps(high, a[1])];
        [self.avx._mm256_max_ps(low, a[0]), self.avx._mm256_max_ps(low, a[1])]
    }
    #[inline(always)]
    fn where_positive(self, x: Self::V, d: Self::V) -> Self::V {
        let zero = self.avx._mm256_set1_ps(0.0);
        [0, 1].map(|i| self.avx._mm256_and_ps(self.avx._mm256_cmp_ps::<_CMP_GT_OQ>(x[i], zero), d[i]))
    }
    #[inline(always)]
    fn sum(self, a: Self::V) -> f32 {
        sum8(self, self.avx._mm256_add_ps(a[0], a[1]))
    }

    #[inline(always)]
    fn transpose(self, a: [Self::V; TILE]) -> [Self::V; TILE] {
        let mut turned = a;
        for high in 0..2 {
            for half in 0..2 {
                let mut eight = [a[0][0]; 8];
                for i in 0..8 {
                    eight[i] = a[8 * high + i][half];
                }
                let eight = transpose8(self, eight);
                for i in 0..8 {
                    turned[8 * half + i][high] = eight[i];
                }
            }
        }
        turned
    }
}

/// Vector i of the result has lane i of each of the 8 vectors.
#[inline(always)]
fn transpose8(simd: V3, a: [__m256; 8]) -> [__m256; 8] {
    let (f, mut fours, mut turned) = (simd.avx, a, a);
    for g in [0, 4] {
        let (p, q) = (f._mm256_unpacklo_ps(a[g], a[g + 1]), f._mm256_unpackhi_ps(a[g], a[g + 1]));
        let (r, s) = (f._mm256_unpacklo_ps(a[g + 2], a[g + 3]), f._mm256_unpackhi_ps(a[g + 2], a[g + 3]));
        fours[g] = f._mm256_shuffle_ps::<0x44>(p, r);
        fours[g + 1] = f._mm256_shuffle_ps::<0xEE>(p, r);
        fours[g + 2] = f._mm256_shuffle_ps::<0x44>(q, s);
        fours[g + 3] = f._mm256_shuffle_ps::<0xEE>(q, s);
    }
    for c in 0..4 {
        turned[c] = f._mm256_permute2f128_ps::<0x20>(fours[c], fours[c + 4]);
        turned[c + 4] = f._mm256_permute2f128_ps::<0x31>(fours[c], fours[c + 4]);
    }
    turned
}
