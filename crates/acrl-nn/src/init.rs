//! Orthogonal initialisation (Saxe et al. 2014).

use rand_core::Rng;

/// A draw from the uniform distribution on [0, 1), of 53 bits.
pub(crate) fn uniform(rng: &mut (impl Rng + ?Sized)) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A draw from the standard normal distribution in double precision (Box & Muller 1958).
fn normal(rng: &mut (impl Rng + ?Sized)) -> f64 {
    // 1 − u is not 0, so that the logarithm is finite.
    let radius = (-2.0 * (1.0 - uniform(rng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(rng)).cos()
}

/// Fills a matrix, row by row with `columns` columns, with `gain` times a random orthogonal matrix: its rows are
/// orthonormal if they are no more than its columns, else its columns are.
pub(crate) fn orthogonal(matrix: &mut [f32], columns: usize, gain: f32, rng: &mut (impl Rng + ?Sized)) {
    let rows = matrix.len() / columns;
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut v: Vec<f64> = (0..length).map(|_| normal(rng)).collect();
        // Gram-Schmidt, twice because one pass loses digits.
        for u in basis.iter().chain(&basis) {
            let dot: f64 = u.iter().zip(&v).map(|(u, v)| u * v).sum();
            v.iter_mut().zip(u).for_each(|(v, u)| *v -= dot * u);
        }
        let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        // A vector in the span of the others has probability zero and is drawn again.
        if norm > 1e-6 {
            v.iter_mut().for_each(|v| *v /= norm);
            basis.push(v);
        }
    }
    for (i, x) in matrix.iter_mut().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let q = if rows <= columns { basis[row][column] } else { basis[column][row] };
        *x = gain * q as f32;
    }
}
