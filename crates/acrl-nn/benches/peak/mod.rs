//! The most a core can do: independent chains of fused multiply-adds in registers.

use std::hint::black_box;
use std::time::Instant;

use acrl_nn::Instructions;

/// GFLOP/s of one core with these instructions, the best of many short measurements.
pub(crate) fn gigaflops(set: Instructions) -> f64 {
    const STEPS: u32 = 5_000;
    (0..401)
        .map(|_| {
            let start = Instant::now();
            let flops = match set {
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => x86::avx512(STEPS),
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => x86::avx2(STEPS),
                _ => portable(STEPS),
            };
            flops / start.elapsed().as_secs_f64() / 1e9
        })
        .fold(0.0, f64::max)
}

fn portable(steps: u32) -> f64 {
    let (mut sums, a) = ([[0.0_f32; 4]; 10], black_box([0.5_f32; 4]));
    for _ in 0..steps {
        for sum in &mut sums {
            for i in 0..4 {
                sum[i] = sum[i] * a[i] + a[i];
            }
        }
    }
    black_box(sums);
    f64::from(steps) * 80.0
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::black_box;
    use pulp::x86::{V3, V4};

    struct Chains<S>(S, u32);

    impl pulp::NullaryFnOnce for Chains<V4> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let f = self.0.avx512f;
            let a = f._mm512_set1_ps(black_box(0.5));
            let mut sums = [a; 12];
            for _ in 0..self.1 {
                for sum in &mut sums {
                    *sum = f._mm512_fmadd_ps(*sum, a, a);
                }
            }
            black_box(sums);
        }
    }

    impl pulp::NullaryFnOnce for Chains<V3> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let a = self.0.avx._mm256_set1_ps(black_box(0.5));
            let mut sums = [a; 12];
            for _ in 0..self.1 {
                for sum in &mut sums {
                    *sum = self.0.fma._mm256_fmadd_ps(*sum, a, a);
                }
            }
            black_box(sums);
        }
    }

    pub(super) fn avx512(steps: u32) -> f64 {
        let Some(simd) = V4::try_new() else { return f64::NAN };
        simd.vectorize(Chains(simd, steps));
        f64::from(steps) * 12.0 * 16.0 * 2.0
    }

    pub(super) fn avx2(steps: u32) -> f64 {
        let Some(simd) = V3::try_new() else { return f64::NAN };
        simd.vectorize(Chains(simd, steps));
        f64::from(steps) * 12.0 * 8.0 * 2.0
    }
}
