//! The occupancy measure: where runs spend their time, over the first two coordinates.

use std::fmt::Write as _;

use acrl::{BatchMatrix, Interval, VecTask};

use crate::{Error, ensure};

/// Counts of visits on a grid of cells.
#[derive(Debug, Clone)]
pub(crate) struct OccupancyGrid {
    ranges: [Interval; 2],
    counts: Vec<u64>,
}

impl OccupancyGrid {
    /// Cells along a side: a quarter each in a box of 10, so that cells end where the regions of the paper do.
    pub(crate) const CELLS: usize = 40;

    /// Needs an environment whose first two observations are coordinates with a finite range.
    pub(crate) fn new(task: &VecTask<'_>) -> Result<Self, Error> {
        let (environment, space) = (task.environment(), task.environment().observation_space());
        ensure!(
            environment.state_dimension() >= 2
                && space.len() >= 2
                && space[..2].iter().all(|r| r.is_bounded()),
            "--occupancy needs a state with two coordinates of finite range"
        );
        Ok(Self { ranges: [space[0], space[1]], counts: vec![0; Self::CELLS * Self::CELLS] })
    }

    /// Counts the states of all environments.
    pub(crate) fn visit(&mut self, state: &BatchMatrix) {
        let cell = |axis: usize, value: f64| {
            let share = (value - self.ranges[axis].low) / self.ranges[axis].width();
            ((share * Self::CELLS as f64) as usize).min(Self::CELLS - 1)
        };
        for (x, y) in state.row(0).iter().zip(state.row(1)) {
            self.counts[cell(1, *y) * Self::CELLS + cell(0, *x)] += 1;
        }
    }

    /// Adds another one's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }

    /// The share of the time in each cell, row by row from the least y.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let total = self.counts.iter().sum::<u64>().max(1) as f64;
        self.counts.iter().map(|count| *count as f64 / total).collect()
    }

    /// A line for each cell: its middle, and its share of the time.
    pub(crate) fn to_csv(&self) -> String {
        let middle = |axis: usize, index: usize| {
            self.ranges[axis].low + self.ranges[axis].width() * (index as f64 + 0.5) / Self::CELLS as f64
        };
        let mut text = "x,y,share\n".to_owned();
        for (index, share) in self.shares().iter().enumerate() {
            let (x, y) = (middle(0, index % Self::CELLS), middle(1, index / Self::CELLS));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{x},{y},{share}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_one_and_edges_count() {
        let ranges = [Interval::new(0.0, 10.0), Interval::new(-1.0, 1.0)];
        let mut occupancy =
            OccupancyGrid { ranges, counts: vec![0; OccupancyGrid::CELLS * OccupancyGrid::CELLS] };
        let mut state = BatchMatrix::zeros(2, 2);
        state.set_column(0, &[0.0, -1.0]);
        state.set_column(1, &[10.0, 1.0]);
        occupancy.visit(&state);
        let csv = occupancy.to_csv();
        let shares: Vec<f64> =
            csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!((shares[0], shares[OccupancyGrid::CELLS * OccupancyGrid::CELLS - 1]), (0.5, 0.5));
        assert_eq!(shares.iter().sum::<f64>(), 1.0);
    }
}
