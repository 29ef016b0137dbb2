//! Patrol: four corners of a slippery grid to be watched with as little effort as possible.
//!
//! # Description
//!
//! A robot on an N x N grid has to spend given shares of its time in four corner regions and wants
//! to move as little as it can. The finite sibling of the paper's continuous example.
//!
//! # States
//!
//! The N² cells, named `row,column`; row 0 is the north edge, column 0 the west edge. The regions are
//! squares of side max(1, N/5) in the corners: red north-west, blue north-east, green south-west,
//! orange south-east.
//!
//! # Actions
//!
//! `stay`, `north`, `south`, `west`, `east`, in every cell.
//!
//! # Dynamics
//!
//! With probability 1 − slip the move that was chosen is made, else one of the five at random (which
//! may be the chosen one). A move against a wall stays where it is.
//!
//! # Rewards
//!
//! `red`, `blue`, `green`, `orange`: 1 while the current cell is in that region, else 0. `effort`: 1
//! if the action is not `stay`, else 0.
//!
//! # Requirements
//!
//! Minimise effort; red ≥ 0.20, blue ≥ 0.15, green ≥ 0.10, orange ≥ 0.05.
//!
//! # Known optimum
//!
//! With the default parameters the least effort is 0.008508015748 ([`Patrol::DEFAULT_OPTIMUM`]), at
//! the prices λ* ≈ (0.0274, 0.0272, 0.0272, 0.0256): drifting costs nothing, so the robot waits for
//! slips to carry it out of a region and helps where that would take too long.
//!
//! # Starting state
//!
//! The cell in the middle, (N/2, N/2).
//!
//! # Parameters
//!
//! See [`PatrolParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "patrol"
//! size = 10
//! slip = 0.1
//! ```

use crate::parameter::{Check, ParameterError, parameters};
use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};

parameters! {
    /// Parameters of a patrol problem.
    PatrolParameters {
        /// Cells along a side of the grid, N.
        size: usize = 10, 2..=1000;
        /// The probability that a random move is made instead of the one chosen.
        slip: f64 = 0.1, 0.0..=1.0;
    }
}

/// A patrol problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Patrol {
    parameters: PatrolParameters,
}

/// The moves: name, rows down, columns to the right.
const MOVES: [(&str, isize, isize); 5] =
    [("stay", 0, 0), ("north", -1, 0), ("south", 1, 0), ("west", 0, -1), ("east", 0, 1)];

/// The regions with their default shares.
const REGIONS: [(&str, f64); 4] = [("red", 0.20), ("blue", 0.15), ("green", 0.10), ("orange", 0.05)];

impl Patrol {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "patrol";

    /// The least effort with the default parameters and requirements (by linear programming).
    pub const DEFAULT_OPTIMUM: f64 = 0.008508015748072;

    /// Checks the parameters.
    pub fn new(parameters: PatrolParameters) -> Result<Self, ParameterError> {
        parameters.check(&Check(Self::KIND))?;
        Ok(Self { parameters })
    }

    /// The finite model.
    pub fn model(&self) -> Result<FiniteCmdp, Error> {
        let PatrolParameters { size, slip } = self.parameters;
        let names = REGIONS.iter().map(|(name, _)| *name).chain(["effort"]);
        let mut builder = FiniteCmdp::builder(names);
        for cell in 0..size * size {
            let (row, column) = (cell / size, cell % size);
            let state = builder.state(format!("{row},{column}"));
            let reached = MOVES.map(|(_, down, right)| self.moved(row, column, down, right));
            for (action, (name, ..)) in MOVES.iter().enumerate() {
                let mut transitions: Vec<(usize, f64)> = Vec::with_capacity(MOVES.len());
                for (other, &target) in reached.iter().enumerate() {
                    let p = slip / MOVES.len() as f64 + if other == action { 1.0 - slip } else { 0.0 };
                    // At a wall several moves lead to the same cell.
                    match transitions.iter_mut().find(|(t, _)| *t == target) {
                        Some((_, sum)) => *sum += p,
                        None => transitions.push((target, p)),
                    }
                }
                let mut rewards = self.regions(row, column).to_vec();
                rewards.push(if action == 0 { 0.0 } else { 1.0 });
                builder.choice(state, *name, &transitions, &rewards);
            }
        }
        builder.initial((size / 2) * size + size / 2, 1.0);
        Ok(builder.build()?)
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let requirements = REGIONS.iter().map(|&(name, share)| Requirement::at_least(name, share));
        Specification::new(Some(Objective::minimize("effort")), requirements.collect::<Result<_, _>>()?)
    }

    /// The cell that a move leads to.
    fn moved(&self, row: usize, column: usize, down: isize, right: isize) -> usize {
        let size = self.parameters.size;
        let inside = |at: usize, by: isize| at.checked_add_signed(by).filter(|to| *to < size);
        match (inside(row, down), inside(column, right)) {
            (Some(row), Some(column)) => row * size + column,
            _ => row * size + column,
        }
    }

    /// In which of the four regions a cell is.
    fn regions(&self, row: usize, column: usize) -> [f64; 4] {
        let size = self.parameters.size;
        let side = (size / 5).max(1);
        let (north, south) = (row < side, row >= size - side);
        let (west, east) = (column < side, column >= size - side);
        [north && west, north && east, south && west, south && east].map(|inside| f64::from(u8::from(inside)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patrol(size: usize, slip: f64) -> Patrol {
        Patrol::new(PatrolParameters { size, slip }).unwrap()
    }

    #[test]
    fn the_model_has_the_size_and_the_regions_it_should_have() {
        let model = patrol(10, 0.1).model().unwrap();
        assert_eq!((model.states(), model.choice_count()), (100, 500));
        assert_eq!(model.initial(), [(55, 1.0)]);
        for region in 0..4 {
            let cells = (0..100).filter(|s| model.choice(model.choices(*s).start).rewards[region] == 1.0);
            assert_eq!(cells.count(), 4);
        }
        let blue = model.choice(model.choices(9).start);
        assert_eq!(blue.rewards, [0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn walls_block_and_slips_are_spread_over_the_five_moves() {
        let model = patrol(3, 0.1).model().unwrap();
        // North from the north-west corner: blocked, as are the slips north and west; stay stays.
        let north = model.choice(model.choices(0).start + 1);
        assert_eq!((&*model.action_name(1), north.targets), ("north", &[0, 3, 1][..]));
        for (p, expected) in north.probabilities.iter().zip([0.96, 0.02, 0.02]) {
            assert!((p - expected).abs() < 1e-12);
        }
        let middle = model.choice(model.choices(4).start + 4);
        assert_eq!(model.action_name(model.choices(4).start + 4), "east");
        assert_eq!(middle.targets, [4, 1, 7, 3, 5]);
        assert!((middle.probabilities[4] - 0.92).abs() < 1e-12);
    }
}
