//! Vectors of 16 lanes on each instruction set, and the choice among them at run time.
//!
//! `pulp` proves that an instruction exists by a token, so that there is no unsafe code here. Every set works on 16
//! lanes and adds them up in the same order; with fused multiply-add the results are bit-identical except for tanh,
//! for which AVX-512 uses a faster approximation.

use crate::batch::TILE;
use crate::math::{tanh_quotient, tanh_quotients};

/// The supported instruction sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512,
    /// AVX2 and FMA.
    Avx2,
    /// Plain Rust, vectorised by the compiler for the build's target.
    Portable,
}

impl Instructions {
    /// The fastest set of this machine.
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if pulp::x86::V4::is_available() {
                return Self::Avx512;
            }
            if pulp::x86::V3::is_available() {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// The sets of this machine, fastest first; the last one is [`Instructions::Portable`].
    pub fn available() -> Vec<Self> {
        let all = [Self::Avx512, Self::Avx2, Self::Portable];
        all.into_iter().skip_while(|&set| set != Self::best()).collect()
    }
}

/// 16 floats on a cache line of their own.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [f32; TILE]);

impl Line {
    pub(crate) const ZERO: Self = Self([0.0; TILE]);
}

/// Arithmetic on vectors of 16 lanes.
pub(crate) trait Isa: Copy {
    /// 16 lanes.
    type V: Copy;
    /// The register tiles of this instruction set.
    const TILES: Tiles;

    fn splat(self, x: f32) -> Self::V;
    fn load(self, from: &[f32; TILE]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [f32; TILE]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// a·b + c.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c − a·b.
    fn mul_sub_from(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// max(low, min(high, a)); a NaN stays one.
    fn clamp(self, a: Self::V, low: f32, high: f32) -> Self::V;
    /// d where x is above 0, else 0.
    fn where_positive(self, x: Self::V, d: Self::V) -> Self::V;
    /// The bits of each lane shifted left by 23, which makes an exponent of an integer.
    fn to_exponent(self, a: Self::V) -> Self::V;
    /// The sum of the lanes: halves are added to each other until one lane is left.
    fn sum(self, a: Self::V) -> f32;

    /// tanh a: |error| ≤ 10⁻⁶ and |tanh a| < 1; NaN stays NaN.
    #[inline(always)]
    fn tanh(self, a: Self::V) -> Self::V {
        tanh_quotient(self, a)
    }

    /// tanh of two vectors: |error| ≤ 10⁻⁶, |tanh| ≤ 1 + 1.2·10⁻⁷; a NaN in one is a NaN in that lane of it, and may be
    /// one in the same lane of the other.
    #[inline(always)]
    fn tanh_pair(self, a: Self::V, b: Self::V) -> (Self::V, Self::V) {
        tanh_quotients(self, a, b)
    }

    /// The sum of the lanes of each of 16 vectors, in the order of [`Isa::sum`].
    #[inline(always)]
    fn sums(self, a: [Self::V; TILE]) -> [f32; TILE] {
        let mut sums = [0.0; TILE];
        for i in 0..TILE {
            sums[i] = self.sum(a[i]);
        }
        sums
    }

    /// Vector i of the result has lane i of each of the 16 vectors.
    #[inline(always)]
    fn transpose(self, a: [Self::V; TILE]) -> [Self::V; TILE] {
        let (mut rows, mut result) = ([[0.0; TILE]; TILE], a);
        for i in 0..TILE {
            self.store(a[i], &mut rows[i]);
        }
        for i in 0..TILE {
            let mut column = [0.0; TILE];
            for k in 0..TILE {
                column[k] = rows[k][i];
            }
            result[i] = self.load(&column);
        }
        result
    }
}

/// The tile shapes that fill the registers of an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tiles {
    /// 32 registers of 16 lanes.
    Large,
    /// 16 registers of 8 lanes.
    Medium,
    /// 16 registers of 4 lanes.
    Small,
}

/// A computation that can be compiled for each instruction set.
pub(crate) trait Kernel {
    /// Must be `#[inline(always)]`, and all that it calls too.
    fn run<I: Isa>(self, isa: I);
}

/// Runs a kernel with the given instruction set, or the next best of this machine.
pub(crate) fn dispatch(instructions: Instructions, kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    {
        if instructions == Instructions::Avx512
            && let Some(simd) = pulp::x86::V4::try_new()
        {
            return simd.vectorize(x86::Run(kernel, simd));
        }
        if instructions != Instructions::Portable
            && let Some(simd) = pulp::x86::V3::try_new()
        {
            return simd.vectorize(x86::Run(kernel, simd));
        }
    }
    let _ = instructions;
    kernel.run(Portable);
}

/// Operations of an [`Isa`] on whole vectors, each an expression.
macro_rules! operations {
    ($token:ident: $($name:ident($($a:ident),+) = $result:expr;)+) => {$(
        #[inline(always)]
        fn $name($token, $($a: Self::V),+) -> Self::V {
            $result
        }
    )+};
}

/// Arrays of 16 floats and loops over them.
#[derive(Clone, Copy)]
struct Portable;

#[inline(always)]
fn zip(a: [f32; TILE], b: [f32; TILE], f: impl Fn(f32, f32) -> f32) -> [f32; TILE] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// a·b + c, fused where that is one instruction.
#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
}

impl Isa for Portable {
    type V = [f32; TILE];
    const TILES: Tiles = Tiles::Small;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; TILE]
    }
    #[inline(always)]
    fn load(self, from: &[f32; TILE]) -> Self::V {
        *from
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; TILE]) {
        *to = v;
    }
    operations! { self:
        add(a, b) = zip(a, b, |a, b| a + b);
        sub(a, b) = zip(a, b, |a, b| a - b);
        mul(a, b) = zip(a, b, |a, b| a * b);
        div(a, b) = zip(a, b, |a, b| a / b);
        sqrt(a) = a.map(f32::sqrt);
        mul_add(a, b, c) = std::array::from_fn(|i| mul_add(a[i], b[i], c[i]));
        mul_sub_from(a, b, c) = std::array::from_fn(|i| mul_add(-a[i], b[i], c[i]));
        to_exponent(a) = a.map(|a| f32::from_bits(a.to_bits() << 23));
    }
    #[inline(always)]
    fn clamp(self, a: Self::V, low: f32, high: f32) -> Self::V {
        a.map(|a| a.clamp(low, high))
    }
    #[inline(always)]
    fn where_positive(self, x: Self::V, d: Self::V) -> Self::V {
        zip(x, d, |x, d| if x > 0.0 { d } else { 0.0 })
    }
    #[inline(always)]
    fn sum(self, mut a: Self::V) -> f32 {
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                a[i] += a[i + half];
            }
        }
        a[0]
    }
}

#[cfg(target_arch = "x86_64")]
mod x86;
