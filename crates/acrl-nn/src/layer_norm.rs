//! Layer normalisation (Ba et al. 2016) of one block: over the features of each sample.

use crate::isa::{Isa, Line};
use crate::kernels::Row;

/// What is added to the variance.
const EPSILON: f32 = 1e-5;

/// y = g x̂ + b in place of the sums u, with x̂ = (u − mean u)/√(var u + ε); keeps x̂ and 1/√(var u + ε).
#[inline(always)]
pub(crate) fn forward<I: Isa>(
    isa: I,
    (gains, shifts): (&[f32], &[f32]),
    y: &mut [Row],
    (normalized, inverse_std): (&mut [Row], &mut Row),
    lines: usize,
) {
    let share = isa.splat(1.0 / y.len() as f32);
    for line in 0..lines {
        let mean = isa.mul(total(isa, y, |row| isa.load(&row[line].0)), share);
        let square = |row: &Row| {
            let d = isa.sub(isa.load(&row[line].0), mean);
            isa.mul(d, d)
        };
        let variance = isa.mul_add(total(isa, y, square), share, isa.splat(EPSILON));
        let inverse = isa.div(isa.splat(1.0), isa.sqrt(variance));
        isa.store(inverse, &mut inverse_std[line].0);
        for (((row, kept), gain), shift) in y.iter_mut().zip(&mut *normalized).zip(gains).zip(shifts) {
            let x = isa.mul(isa.sub(isa.load(&row[line].0), mean), inverse);
            isa.store(x, &mut kept[line].0);
            isa.store(isa.mul_add(x, isa.splat(*gain), isa.splat(*shift)), &mut row[line].0);
        }
    }
}

/// ∂L/∂u in place of d = ∂L/∂y: (g d − mean(g d) − x̂ mean(g d x̂))/√(var u + ε). Adds the vectors of each row of d x̂, which
/// is ∂L/∂g, and of ∂L/∂u to its line of the two lists of sums.
#[inline(always)]
pub(crate) fn backward<I: Isa>(
    isa: I,
    gains: &[f32],
    (normalized, inverse_std): (&[Row], &Row),
    d: &mut [Row],
    (gain_sums, sums): (&mut [Line], &mut [Line]),
    lines: usize,
) {
    let share = isa.splat(1.0 / d.len() as f32);
    for line in 0..lines {
        let [mut mean, mut slope] = [isa.splat(0.0); 2];
        for (((row, x), gain), sum) in d.iter().zip(normalized).zip(gains).zip(&mut *gain_sums) {
            let (d, x) = (isa.load(&row[line].0), isa.load(&x[line].0));
            isa.store(isa.mul_add(d, x, isa.load(&sum.0)), &mut sum.0);
            let d = isa.mul(d, isa.splat(*gain));
            mean = isa.add(mean, d);
            slope = isa.mul_add(d, x, slope);
        }
        let (mean, slope) = (isa.mul(mean, share), isa.mul(slope, share));
        let inverse = isa.load(&inverse_std[line].0);
        for (((row, x), gain), sum) in d.iter_mut().zip(normalized).zip(gains).zip(&mut *sums) {
            let d = isa.mul(isa.load(&row[line].0), isa.splat(*gain));
            let d = isa.mul_sub_from(slope, isa.load(&x[line].0), isa.sub(d, mean));
            let d = isa.mul(d, inverse);
            isa.store(d, &mut row[line].0);
            isa.store(isa.add(isa.load(&sum.0), d), &mut sum.0);
        }
    }
}

/// The sum over rows, in four partial sums, so that additions do not wait for each other.
#[inline(always)]
fn total<I: Isa>(isa: I, rows: &[Row], of: impl Fn(&Row) -> I::V) -> I::V {
    let mut sums = [isa.splat(0.0); 4];
    let quads = rows.chunks_exact(4);
    for row in quads.remainder() {
        sums[0] = isa.add(sums[0], of(row));
    }
    for quad in quads {
        for i in 0..4 {
            sums[i] = isa.add(sums[i], of(&quad[i]));
        }
    }
    isa.add(isa.add(sums[0], sums[1]), isa.add(sums[2], sums[3]))
}
