//! Dense elimination of the leading states of a frontal matrix.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::tolerances::FOREVER;
use crate::tuning::{BLOCK, LARGE_PRODUCT, PARALLEL_ROWS, SMALL_PRODUCT};

/// Columns of a frontal matrix besides its states: the probability of transitions to roots, which have
/// left the chain, and the duration of a visit, including the states eliminated into it.
pub(super) const EXTRA_COLUMNS: usize = 2;

/// Eliminates the first k states of a frontal matrix with `size` states, in rows of
/// size + [`EXTRA_COLUMNS`] numbers.
#[inline(always)]
pub(super) fn eliminate(front: &mut [f64], size: usize, k: usize, inverse: &mut [f64], panel: &mut Vec<f64>) {
    let stride = size + EXTRA_COLUMNS;
    for begin in (0..k).step_by(BLOCK) {
        let end = (begin + BLOCK).min(k);
        eliminate_block(front, size, begin..end, inverse);
        if end < k {
            // Recursive blocking: the last 2ⁱ complete blocks update the rows of the next 2ⁱ, and the columns of
            // these in the rest.
            let done = BLOCK << (end / BLOCK).trailing_zeros();
            let (states, last) = (end - done..end, (end + done).min(k));
            redirect(front, size, states.clone(), end..last, end..stride, inverse, panel);
            redirect(front, size, states, last..size, end..last, inverse, panel);
        }
    }
    redirect(front, size, 0..k, k..size, k..stride, inverse, panel);
}

/// Eliminates the states of a block; rows behind it are updated in its own columns alone.
#[inline(always)]
fn eliminate_block(front: &mut [f64], size: usize, block: Range<usize>, inverse: &mut [f64]) {
    let (stride, end) = (size + EXTRA_COLUMNS, block.end);
    for j in block {
        let (above, below) = front.split_at_mut((j + 1) * stride);
        let own = &mut above[j * stride..];
        let mut leaving: f64 = own[j + 1..=size].iter().sum();
        if leaving * FOREVER < own[size + 1] {
            own[j + 1..].fill(0.0);
            leaving = 0.0;
        }
        inverse[j] = if leaving > 0.0 { 1.0 / leaving } else { 0.0 };
        // Transitions to a root are not redirected: they leave the chain.
        let factor = if leaving > 0.0 { inverse[j] } else { 1.0 };
        for (i, row) in (j + 1..size).zip(below.chunks_exact_mut(stride)) {
            if row[j] == 0.0 {
                continue;
            }
            row[j] *= factor;
            let x = row[j];
            if leaving > 0.0 {
                // Within the block all of the row is updated, behind it only the columns of the block.
                let until = if i < end { stride } else { end };
                row[j + 1..until].iter_mut().zip(&own[j + 1..until]).for_each(|(r, o)| *r += x * o);
            } else if i < end {
                row[size] += x;
            }
        }
    }
}

/// Schur complement: adds the transitions of `rows` through the eliminated `states` to `columns`.
#[inline(always)]
fn redirect(
    front: &mut [f64],
    size: usize,
    states: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
    inverse: &[f64],
    panel: &mut Vec<f64>,
) {
    let stride = size + EXTRA_COLUMNS;
    let (m, width, depth) = (rows.len(), columns.len(), states.len());
    if m == 0 {
        return;
    }
    let (above, below) = front.split_at_mut(rows.start * stride);
    let below = &mut below[..m * stride];
    // Transitions to roots leave the chain.
    if columns.contains(&size) {
        for j in states.clone().filter(|&j| inverse[j] == 0.0) {
            for row in below.chunks_exact_mut(stride) {
                row[size] += row[j];
            }
        }
    }
    if m * width * depth < SMALL_PRODUCT {
        for row in below.chunks_exact_mut(stride) {
            let (redirected, rest) = row.split_at_mut(columns.start);
            for (j, &x) in states.clone().zip(&redirected[states.start..]) {
                if x != 0.0 && inverse[j] != 0.0 {
                    let own = &above[j * stride..][columns.clone()];
                    rest.iter_mut().zip(own).for_each(|(r, o)| *r += x * o);
                }
            }
        }
    } else {
        // The rows of roots are 0 behind the diagonal.
        panel.clear();
        below.chunks_exact(stride).for_each(|row| panel.extend_from_slice(&row[states.clone()]));
        let own = &above[states.start * stride + columns.start..];
        multiply(own, &mut below[columns.start..], panel, [m, width, depth], stride);
    }
}

/// rest += redirected · own, of which the first two are [m × width] and [m × depth]; rest and own have
/// rows of `stride` numbers.
fn multiply(own: &[f64], rest: &mut [f64], redirected: &[f64], [m, width, depth]: [usize; 3], stride: usize) {
    // Halved independently of the number of threads, so that every sum is the same.
    if m >= 2 * PARALLEL_ROWS && m * width * depth > LARGE_PRODUCT {
        let half = m / 2;
        let (upper, lower) = rest.split_at_mut(half * stride);
        let (first, second) = redirected.split_at(half * depth);
        rayon::join(
            || multiply(own, upper, first, [half, width, depth], stride),
            || multiply(own, lower, second, [m - half, width, depth], stride),
        );
        return;
    }
    let own = MatRef::from_row_major_slice_with_stride(own, depth, width, stride);
    let redirected = MatRef::from_row_major_slice(redirected, m, depth);
    // (In faer 0.24 the constructor for rows with a stride confuses the strides.)
    let rest = MatMut::from_column_major_slice_with_stride_mut(rest, width, m, stride).transpose_mut();
    matmul(rest, Accum::Add, redirected, own, 1.0, Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::*;
    use acrl::Rng;

    /// Unblocked elimination.
    fn unblocked(front: &mut [f64], size: usize, k: usize) {
        let stride = size + EXTRA_COLUMNS;
        for j in 0..k {
            let own = front[j * stride..(j + 1) * stride].to_vec();
            let leaving: f64 = own[j + 1..=size].iter().sum();
            for row in front.chunks_exact_mut(stride).skip(j + 1) {
                if leaving > 0.0 {
                    row[j] /= leaving;
                    let x = row[j];
                    row[j + 1..].iter_mut().zip(&own[j + 1..]).for_each(|(r, o)| *r += x * o);
                } else {
                    row[size] += row[j];
                }
            }
        }
    }

    #[test]
    fn blocked_elimination_equals_unblocked_elimination() {
        let mut rng = Rng::new(3);
        // One block, blocks that are a power of two, others, and a frontal matrix that is eliminated completely.
        for (size, k) in [(40, 20), (150, 64), (260, 128), (230, 200), (161, 161)] {
            let stride = size + EXTRA_COLUMNS;
            let mut front: Vec<f64> = (0..size * stride).map(|_| rng.uniform()).collect();
            for row in front.chunks_exact_mut(stride) {
                let total: f64 = row[..size].iter().sum();
                row[..size].iter_mut().for_each(|p| *p /= total);
                row[size..].copy_from_slice(&[0.0, 1.0]);
            }
            // Some states are absorbing.
            let roots: Vec<usize> = [3, 17, 33, 40, 70, 130].into_iter().filter(|&root| root < k).collect();
            for &root in &roots {
                front[root * stride..(root + 1) * stride].fill(0.0);
                front[root * stride + size + 1] = 1.0;
            }
            let mut expected = front.clone();
            unblocked(&mut expected, size, k);
            let mut inverse = vec![0.0; k];
            eliminate(&mut front, size, k, &mut inverse, &mut Vec::new());
            for i in 0..size {
                // (The duration of a root is not used.)
                for c in (0..stride).filter(|c| !roots.contains(&i) || *c < size) {
                    let (found, expected) = (front[i * stride + c], expected[i * stride + c]);
                    assert!(
                        (found - expected).abs() <= 1e-10 * expected.abs(),
                        "{size} {k}: {i} {c}: {found} {expected}"
                    );
                }
            }
            assert!(roots.iter().all(|&root| inverse[root] == 0.0));
        }
    }
}
