//! Orthogonal initialisation.

use acrl::Rng;

/// A number drawn from the standard normal distribution, by Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    // 1 − u is not 0, so that the logarithm is finite.
    let radius = (-2.0 * (1.0 - rng.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.uniform()).cos()
}

/// Fills a matrix, row by row with `columns` columns, with `gain` times a random orthogonal matrix: its rows are
/// orthonormal if they are no more than its columns, else its columns are.
pub(crate) fn orthogonal(matrix: &mut [f32], columns: usize, gain: f32, rng: &mut Rng) {
    let rows = matrix.len() / columns;
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut v: Vec<f64> = (0..length).map(|_| normal(rng)).collect();
        // Gram and Schmidt, twice because once loses digits.
        for u in basis.iter().chain(&basis) {
            let dot: f64 = u.iter().zip(&v).map(|(u, v)| u * v).sum();
            v.iter_mut().zip(u).for_each(|(v, u)| *v -= dot * u);
        }
        let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        // A vector in the span of the others has probability zero; another one is drawn.
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
