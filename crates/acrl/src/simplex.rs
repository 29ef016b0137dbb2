//! A dense two-phase simplex for the small linear programs of [`crate::mixture`].
//!
//! They have m + 1 rows and need three properties that general-purpose solvers in pure Rust do not
//! offer together: an exact vertex (few policies in a mixture), its duals (the multipliers), and
//! full precision.

/// An optimal vertex of max {cᵀx : A x = b, x ≥ 0}.
pub(crate) struct Vertex {
    /// The primal solution x.
    pub(crate) x: Vec<f64>,
    /// The dual solution y with Aᵀy ≥ c and bᵀy = cᵀx.
    pub(crate) duals: Vec<f64>,
    /// True if a basic variable is zero, so that the duals may not be unique.
    pub(crate) degenerate: bool,
}

/// The smallest pivot.
const PIVOT: f64 = 1e-9;
/// The smallest reduced cost that improves.
const REDUCED_COST: f64 = 1e-11;

/// Solves max {cᵀx : A x = b, x ≥ 0} with b ≥ 0; `None` if it is infeasible or unbounded.
///
/// `rows[i]` is row i of A. Entries are expected to be of order 1: the caller scales.
pub(crate) fn maximise(c: &[f64], rows: &[Vec<f64>], b: &[f64]) -> Option<Vertex> {
    let (m, n) = (rows.len(), c.len());
    // The tableau holds the columns of x, then an artificial identity, then the right-hand side.
    let mut tableau: Vec<Vec<f64>> = Vec::with_capacity(m);
    for (i, row) in rows.iter().enumerate() {
        let mut t = Vec::with_capacity(n + m + 1);
        t.extend_from_slice(row);
        t.extend((0..m).map(|j| if i == j { 1.0 } else { 0.0 }));
        t.push(b[i]);
        tableau.push(t);
    }
    let mut basis: Vec<usize> = (n..n + m).collect();

    let mut phase_one = vec![0.0; n + m];
    phase_one[n..].fill(-1.0);
    run(&mut tableau, &mut basis, &phase_one, n)?;
    let infeasibility: f64 = (0..m).filter(|&i| basis[i] >= n).map(|i| tableau[i][n + m]).sum();
    if infeasibility > 1e-9 {
        return None;
    }
    // Artificial variables at zero leave the basis where they can; where they cannot the row is
    // redundant.
    for i in 0..m {
        let column = (0..n).find(|&j| tableau[i][j].abs() > PIVOT);
        if let (true, Some(j)) = (basis[i] >= n, column) {
            pivot(&mut tableau, &mut basis, i, j);
        }
    }
    let mut phase_two = vec![0.0; n + m];
    phase_two[..n].copy_from_slice(c);
    run(&mut tableau, &mut basis, &phase_two, n)?;
    let rounded: Vec<f64> = tableau.iter().map(|row| row[n + m]).collect();
    Some(polish(c, rows, b, &basis, &rounded))
}

/// Pivots until no column of the first `n` improves. Dantzig's rule, and Bland's after a while, so
/// that it ends; `None` if the program is unbounded.
fn run(tableau: &mut [Vec<f64>], basis: &mut [usize], cost: &[f64], n: usize) -> Option<()> {
    let m = tableau.len();
    let rhs = cost.len();
    for iteration in 0.. {
        let bland = iteration > 50 + 10 * m;
        let mut entering = None;
        let mut best = REDUCED_COST;
        for j in 0..n {
            let reduced = cost[j] - (0..m).map(|i| cost[basis[i]] * tableau[i][j]).sum::<f64>();
            if reduced > best {
                entering = Some(j);
                if bland {
                    break;
                }
                best = reduced;
            }
        }
        let Some(j) = entering else { return Some(()) };
        let mut leaving: Option<(usize, f64)> = None;
        for i in 0..m {
            if tableau[i][j] > PIVOT {
                let ratio = tableau[i][rhs] / tableau[i][j];
                let better = leaving.is_none_or(|(k, least)| {
                    ratio < least - 1e-14 || ratio <= least + 1e-14 && basis[i] < basis[k]
                });
                if better {
                    leaving = Some((i, ratio));
                }
            }
        }
        let (i, _) = leaving?;
        pivot(tableau, basis, i, j);
        if iteration > 100_000 {
            return None;
        }
    }
    None
}

fn pivot(tableau: &mut [Vec<f64>], basis: &mut [usize], row: usize, column: usize) {
    let scale = 1.0 / tableau[row][column];
    tableau[row].iter_mut().for_each(|x| *x *= scale);
    let pivot_row = std::mem::take(&mut tableau[row]);
    for (i, other) in tableau.iter_mut().enumerate() {
        if i != row && other[column] != 0.0 {
            let factor = other[column];
            other.iter_mut().zip(&pivot_row).for_each(|(x, p)| *x -= factor * p);
            other[column] = 0.0;
        }
    }
    tableau[row] = pivot_row;
    basis[row] = column;
}

/// Solves for the final basis from the original data, which removes what pivoting has rounded.
/// Where the basis is so ill-conditioned that this leaves the feasible set, the pivoted values
/// stay.
fn polish(c: &[f64], rows: &[Vec<f64>], b: &[f64], basis: &[usize], rounded: &[f64]) -> Vertex {
    let (m, n) = (rows.len(), c.len());
    let entry = |i: usize, j: usize| match basis[j].checked_sub(n) {
        Some(artificial) => f64::from(u8::from(artificial == i)),
        None => rows[i][basis[j]],
    };
    let matrix: Vec<Vec<f64>> = (0..m).map(|i| (0..m).map(|j| entry(i, j)).collect()).collect();
    let transposed: Vec<Vec<f64>> = (0..m).map(|i| (0..m).map(|j| entry(j, i)).collect()).collect();
    let costs: Vec<f64> = basis.iter().map(|&j| if j < n { c[j] } else { 0.0 }).collect();
    let mut basic = solve(matrix, b.to_vec());
    if !basic.iter().all(|x| *x >= -1e-10) {
        basic = rounded.to_vec();
    }
    let mut x = vec![0.0; n];
    for (&j, &value) in basis.iter().zip(&basic) {
        if j < n {
            x[j] = value.max(0.0);
        }
    }
    let degenerate = basic.iter().any(|v| v.abs() < 1e-9);
    Vertex { x, duals: solve(transposed, costs), degenerate }
}

/// Gaussian elimination with partial pivoting; a vanishing pivot gives a zero in that place.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let p = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap_or(k);
        a.swap(k, p);
        b.swap(k, p);
        if a[k][k] == 0.0 {
            continue;
        }
        for i in k + 1..n {
            let factor = a[i][k] / a[k][k];
            if factor != 0.0 {
                for j in k..n {
                    a[i][j] -= factor * a[k][j];
                }
                b[i] -= factor * b[k];
            }
        }
    }
    let mut x = vec![0.0; n];
    for k in (0..n).rev() {
        let rest: f64 = (k + 1..n).map(|j| a[k][j] * x[j]).sum();
        x[k] = if a[k][k] == 0.0 { 0.0 } else { (b[k] - rest) / a[k][k] };
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_program_has_its_duals() {
        // max 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18.
        let rows =
            vec![vec![1.0, 0.0, 1.0, 0.0, 0.0], vec![0.0, 2.0, 0.0, 1.0, 0.0], vec![3.0, 2.0, 0.0, 0.0, 1.0]];
        let v = maximise(&[3.0, 5.0, 0.0, 0.0, 0.0], &rows, &[4.0, 12.0, 18.0]).unwrap();
        assert!((v.x[0] - 2.0).abs() < 1e-12 && (v.x[1] - 6.0).abs() < 1e-12);
        for (y, expected) in v.duals.iter().zip([0.0, 1.5, 1.0]) {
            assert!((y - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn infeasible_and_unbounded_programs_have_no_vertex() {
        assert!(maximise(&[1.0], &[vec![1.0], vec![1.0]], &[1.0, 2.0]).is_none());
        assert!(maximise(&[1.0, 0.0], &[vec![1.0, -1.0]], &[0.0]).is_none());
    }

    #[test]
    fn redundant_rows_are_allowed() {
        let v = maximise(&[1.0, 2.0], &[vec![1.0, 1.0], vec![2.0, 2.0]], &[1.0, 2.0]).unwrap();
        assert!((v.x[1] - 1.0).abs() < 1e-12);
    }
}
