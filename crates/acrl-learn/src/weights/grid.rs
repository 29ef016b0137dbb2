//! A regular grid on the simplex of weights, and interpolation between its points.
//!
//! The grid of resolution n holds every w with entries k/n that add up to 1. In the cumulative
//! coordinates y_j = n (w_0 + … + w_j) the simplex is {0 ≤ y_0 ≤ y_1 ≤ … ≤ n} and the grid its integer
//! points, and the Freudenthal (Kuhn) triangulation of ℝᵈ cuts it into cells exactly: the cell of y
//! has the vertices ⌊y⌋, then one unit more in the coordinate with the largest fractional part,
//! then also in the next, and so on; the barycentric coordinates are the differences between
//! neighbouring fractional parts.

/// The points, in lexicographic order of their cumulative coordinates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    entries: usize,
    resolution: usize,
    points: Vec<Vec<usize>>,
}

impl Grid {
    /// The grid over weights with so many entries. With at most one entry there is a single point.
    pub(crate) fn new(entries: usize, resolution: usize) -> Self {
        let mut y = vec![0; entries.saturating_sub(1)];
        let mut points = vec![y.clone()];
        while let Some(j) = y.iter().rposition(|&y| y < resolution) {
            let next = y[j] + 1;
            y[j..].fill(next);
            points.push(y.clone());
        }
        Self { entries, resolution, points }
    }

    /// The finest grid of at most `most` points, but of resolution 1 at least.
    pub(crate) fn finest(entries: usize, most: usize) -> Self {
        let mut resolution = 1;
        while entries > 1 && Self::size(entries, resolution + 1) <= most {
            resolution += 1;
        }
        Self::new(entries, resolution)
    }

    /// C(n + d, d) for d = entries − 1.
    pub(crate) fn size(entries: usize, resolution: usize) -> usize {
        let factor = |size: usize, j: usize| size.saturating_mul(resolution + j) / j;
        (1..entries).fold(1, factor)
    }

    /// n.
    pub(crate) fn resolution(&self) -> usize {
        self.resolution
    }

    /// The number of points.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// w at a point.
    pub(crate) fn weights(&self, point: usize) -> Vec<f64> {
        let ends = self.points[point].iter().copied().chain([self.resolution]).take(self.entries);
        let mut before = 0;
        ends.map(|y| (y - std::mem::replace(&mut before, y)) as f64 / self.resolution as f64).collect()
    }

    /// The vertices of the cell around w, with their barycentric coordinates: positive numbers that
    /// add up to 1.
    pub(crate) fn surrounding(&self, weights: &[f64]) -> Vec<(usize, f64)> {
        let n = self.resolution as f64;
        let mut sum = 0.0;
        let mut cumulative = |w: &f64| {
            sum += w * n;
            f64::min(sum, n)
        };
        let y: Vec<f64> = weights.iter().take(self.entries.saturating_sub(1)).map(&mut cumulative).collect();
        let fraction: Vec<f64> = y.iter().map(|y| y - y.floor()).collect();
        // Of equal fractions the later goes first, which keeps every vertex nondecreasing.
        let mut order: Vec<usize> = (0..y.len()).collect();
        order.sort_by(|&i, &j| fraction[j].total_cmp(&fraction[i]).then(j.cmp(&i)));
        let mut vertex: Vec<usize> = y.iter().map(|y| y.floor() as usize).collect();
        let mut found = Vec::with_capacity(y.len() + 1);
        let mut above = 1.0;
        for step in order.into_iter().map(Some).chain([None]) {
            let share = above - step.map_or(0.0, |j| fraction[j]);
            if share > 0.0 {
                found.extend(self.points.binary_search(&vertex).ok().map(|point| (point, share)));
            }
            if let Some(j) = step {
                above = fraction[j];
                vertex[j] += 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_grid_holds_every_weight_with_entries_k_over_n() {
        let grid = Grid::new(3, 2);
        let weights: Vec<Vec<f64>> = (0..grid.len()).map(|p| grid.weights(p)).collect();
        assert_eq!(
            weights,
            [
                [0.0, 0.0, 1.0],
                [0.0, 0.5, 0.5],
                [0.0, 1.0, 0.0],
                [0.5, 0.0, 0.5],
                [0.5, 0.5, 0.0],
                [1.0, 0.0, 0.0]
            ]
        );
        assert_eq!((Grid::finest(3, 300).resolution(), Grid::finest(3, 300).len()), (23, 300));
        assert_eq!(Grid::finest(7, 3).len(), 7, "the corners at least");
        assert_eq!((Grid::finest(1, 50).weights(0), Grid::finest(0, 50).weights(0)), (vec![1.0], vec![]));
        assert_eq!(Grid::new(1, 1).surrounding(&[1.0]), [(0, 1.0)]);
        assert_eq!(Grid::new(0, 1).surrounding(&[]), [(0, 1.0)]);
    }

    proptest! {
        /// The coordinates are a convex combination that gives the weights back, within one cell.
        #[test]
        fn interpolation_reproduces_the_weights(
            raw in prop::collection::vec(0.0..1.0f64, 1..7), resolution in 1..9usize, zero in 0..7usize
        ) {
            let mut raw = raw;
            if zero < raw.len() && raw.len() > 1 {
                raw[zero] = 0.0;
            }
            let total: f64 = raw.iter().sum();
            prop_assume!(total > 1e-6);
            let weights: Vec<f64> = raw.iter().map(|w| w / total).collect();
            let grid = Grid::new(weights.len(), resolution);
            prop_assert_eq!(grid.len(), Grid::size(weights.len(), resolution));
            let found = grid.surrounding(&weights);
            prop_assert!((found.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);
            for (i, w) in weights.iter().enumerate() {
                let mixed: f64 = found.iter().map(|(p, share)| share * grid.weights(*p)[i]).sum();
                prop_assert!((mixed - w).abs() < 1e-12);
                let near = |(p, _): &(usize, f64)| {
                    (grid.weights(*p)[i] - w).abs() < 1.0 / resolution as f64 + 1e-9
                };
                prop_assert!(found.iter().all(near));
            }
        }
    }
}
