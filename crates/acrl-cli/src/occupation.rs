//! The occupation measure: where runs spend their time, over the first two coordinates.

use std::fmt::Write as _;

use acrl::{BatchTask, Interval, Rows};
use anyhow::ensure;

/// Counts of visits on a grid of cells.
#[derive(Debug, Clone)]
pub(crate) struct Occupation {
    ranges: [Interval; 2],
    counts: Vec<u64>,
}

/// Cells along a side.
const CELLS: usize = 50;

impl Occupation {
    /// Needs an environment whose first two observations are coordinates with a finite range.
    pub(crate) fn new(task: &BatchTask<'_>) -> anyhow::Result<Self> {
        let (environment, space) = (task.environment(), task.environment().observation_space());
        ensure!(
            environment.state_dimension() >= 2
                && space.len() >= 2
                && space[..2].iter().all(|r| r.is_bounded()),
            "--occupation needs a state with two coordinates of finite range"
        );
        Ok(Self { ranges: [space[0], space[1]], counts: vec![0; CELLS * CELLS] })
    }

    /// Counts the states of all lanes.
    pub(crate) fn visit(&mut self, state: &Rows) {
        let cell = |axis: usize, value: f64| {
            let share = (value - self.ranges[axis].low) / self.ranges[axis].width();
            ((share * CELLS as f64) as usize).min(CELLS - 1)
        };
        for (x, y) in state.row(0).iter().zip(state.row(1)) {
            self.counts[cell(1, *y) * CELLS + cell(0, *x)] += 1;
        }
    }

    /// Adds another one's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }

    /// A line for each cell: its middle, and its share of the time.
    pub(crate) fn to_csv(&self) -> String {
        let total = self.counts.iter().sum::<u64>().max(1) as f64;
        let middle = |axis: usize, index: usize| {
            self.ranges[axis].low + self.ranges[axis].width() * (index as f64 + 0.5) / CELLS as f64
        };
        let mut text = "x,y,share\n".to_owned();
        for (index, count) in self.counts.iter().enumerate() {
            let (x, y) = (middle(0, index % CELLS), middle(1, index / CELLS));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{x},{y},{}", *count as f64 / total);
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
        let mut occupation = Occupation { ranges, counts: vec![0; CELLS * CELLS] };
        let mut state = Rows::zeros(2, 2);
        state.set_lane(0, &[0.0, -1.0]);
        state.set_lane(1, &[10.0, 1.0]);
        occupation.visit(&state);
        let csv = occupation.to_csv();
        let shares: Vec<f64> =
            csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!((shares[0], shares[CELLS * CELLS - 1]), (0.5, 0.5));
        assert_eq!(shares.iter().sum::<f64>(), 1.0);
    }
}
