//! One front of an elimination: a dense matrix, some of whose states are eliminated.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// A state, with those eliminated into it, that is not left for longer than this is not left at all: what would come of it is far
/// below rounding, and times would overflow. Far longer than what an evaluation takes for never: else a class would be lost to
/// others that are not.
const FOREVER: f64 = 1e60;
/// Columns of a front besides its states: what was redirected to roots, which are out of the chain; and how much time a visit
/// takes, together with the states that were eliminated.
pub(crate) const BESIDES: usize = 2;
/// States eliminated together before the rest of a front hears of it.
const BLOCK: usize = 32;
/// Products of matrices with fewer multiplications than this are written out.
const SMALL: usize = 4096;
/// Those with more are halved, for two threads.
const LARGE: usize = 8_000_000;

/// Eliminates the first k states of a front with `size` states, in rows of size + [`BESIDES`] numbers.
#[inline(always)]
pub(crate) fn eliminate(front: &mut [f64], size: usize, k: usize, inverse: &mut [f64], panel: &mut Vec<f64>) {
    let stride = size + BESIDES;
    for begin in (0..k).step_by(BLOCK) {
        let end = (begin + BLOCK).min(k);
        for j in begin..end {
            let (above, below) = front.split_at_mut((j + 1) * stride);
            let own = &mut above[j * stride..];
            let mut leaving: f64 = own[j + 1..=size].iter().sum();
            if leaving * FOREVER < own[size + 1] {
                own[j + 1..].fill(0.0);
                leaving = 0.0;
            }
            inverse[j] = if leaving > 0.0 { 1.0 / leaving } else { 0.0 };
            // To a root goes what goes there: it is not redirected, but out of the chain.
            let factor = if leaving > 0.0 { inverse[j] } else { 1.0 };
            for (i, row) in (j + 1..size).zip(below.chunks_exact_mut(stride)) {
                if row[j] == 0.0 {
                    continue;
                }
                row[j] *= factor;
                let x = row[j];
                if leaving > 0.0 {
                    // The other states of the block need all of their row, the rest only the columns of the block.
                    let until = if i < end { stride } else { end };
                    row[j + 1..until].iter_mut().zip(&own[j + 1..until]).for_each(|(r, o)| *r += x * o);
                } else if i < end {
                    row[size] += x;
                }
            }
        }
        let (m, width, depth) = (size - end, stride - end, end - begin);
        if m == 0 {
            continue;
        }
        let (above, below) = front.split_at_mut(end * stride);
        // What went to roots of this block is out of the chain.
        for j in (begin..end).filter(|&j| inverse[j] == 0.0) {
            for row in below.chunks_exact_mut(stride) {
                row[size] += row[j];
            }
        }
        if m * width * depth < SMALL {
            for row in below.chunks_exact_mut(stride) {
                let (redirected, rest) = row.split_at_mut(end);
                for (j, &x) in (begin..end).zip(&redirected[begin..]) {
                    if x != 0.0 && inverse[j] != 0.0 {
                        let own = &above[j * stride + end..(j + 1) * stride];
                        rest.iter_mut().zip(own).for_each(|(r, o)| *r += x * o);
                    }
                }
            }
        } else {
            // The rows of roots hold nothing but zeros beyond them.
            panel.clear();
            below.chunks_exact(stride).for_each(|row| panel.extend_from_slice(&row[begin..end]));
            redirect(&above[begin * stride + end..], &mut below[end..], panel, [m, width, depth], stride);
        }
    }
}

/// rest += redirected · own, of which the first two are [m × width] and [m × depth]; rest and own in rows of `stride` numbers.
fn redirect(own: &[f64], rest: &mut [f64], redirected: &[f64], [m, width, depth]: [usize; 3], stride: usize) {
    // Halves beside each other, whatever the number of threads: so every sum is the same.
    if m >= 2 && m * width * depth > LARGE {
        let half = m / 2;
        let (upper, lower) = rest.split_at_mut(half * stride);
        let (first, second) = redirected.split_at(half * depth);
        rayon::join(
            || redirect(own, upper, first, [half, width, depth], stride),
            || redirect(own, lower, second, [m - half, width, depth], stride),
        );
        return;
    }
    let own = MatRef::from_row_major_slice_with_stride(own, depth, width, stride);
    let redirected = MatRef::from_row_major_slice(redirected, m, depth);
    // (In faer 0.24 the constructor for rows with a stride confuses the strides.)
    let rest = MatMut::from_column_major_slice_with_stride_mut(rest, width, m, stride).transpose_mut();
    matmul(rest, Accum::Add, redirected, own, 1.0, Par::Seq);
}
