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
//! With the default arguments the least effort is 0.008508015748 ([`Patrol::DEFAULT_OPTIMUM`]), at
//! the prices λ* ≈ (0.0274, 0.0272, 0.0272, 0.0256): drifting costs nothing, so the robot waits for
//! slips to carry it out of a region and helps where that would take too long.
//!
//! # Starting state
//!
//! The cell in the middle, (N/2, N/2).
//!
//! # Arguments
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

use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};
use serde::Deserialize;

use crate::parameter::{Check, ParameterError};

/// Parameters of a patrol problem.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | `size` | 10 | N: cells along a side of the grid | 2 to 1000 |
/// | `slip` | 0.1 | probability that a random move is made instead | 0 to 1 |
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PatrolParameters {
    /// Cells along a side of the grid, N.
    pub size: usize,
    /// The probability that a random move is made instead of the one chosen.
    pub slip: f64,
}

impl Default for PatrolParameters {
    fn default() -> Self {
        Self { size: 10, slip: 0.1 }
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
        let check = Check(Self::KIND);
        check.whole("size", parameters.size, 2..=1000)?;
        check.number("slip", parameters.slip, 0.0..=1.0)?;
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
    use crate::test_support::{assert_stochastic, dual_value};

    fn patrol(size: usize, slip: f64) -> Patrol {
        Patrol::new(PatrolParameters { size, slip }).unwrap()
    }

    #[test]
    fn the_model_has_the_size_and_the_regions_it_should_have() {
        let model = patrol(10, 0.1).model().unwrap();
        assert_stochastic(&model);
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

    #[test]
    fn the_multipliers_prove_the_optimum() {
        let p = patrol(10, 0.1);
        let lambda = [0.02743445213105003, 0.02721591924762034, 0.027215919247620624, 0.02555399964945431];
        let dual = dual_value(&p.model().unwrap(), &p.specification().unwrap(), &lambda);
        assert!((dual + Patrol::DEFAULT_OPTIMUM).abs() < 1e-8, "{dual}");
    }

    #[test]
    fn edges_of_the_ranges_build_and_what_is_outside_is_named() {
        for (size, slip) in [(2, 0.0), (3, 1.0), (4, 0.5)] {
            assert_stochastic(&patrol(size, slip).model().unwrap());
        }
        for (size, slip, expected) in [
            (1, 0.1, "'size' of the patrol environment is 1, expected a whole number from 2 to 1000"),
            (1001, 0.1, "is 1001"),
            (5, -0.1, "'slip' of the patrol environment is -0.1, expected a number from 0 to 1"),
            (5, f64::NAN, "is NaN"),
        ] {
            let error = Patrol::new(PatrolParameters { size, slip }).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
