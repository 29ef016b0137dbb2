//! Planar problems as finite models, so that their optimum can be computed.

use acrl::{Error, FiniteCmdp, VecEnv as _};

use crate::planar::Planar;

/// The moves: name, cells to the east, cells to the north.
const MOVES: [(&str, isize, isize); 9] = [
    ("stay", 0, 0),
    ("north", 0, 1),
    ("south", 0, -1),
    ("west", -1, 0),
    ("east", 1, 0),
    ("north-west", -1, 1),
    ("north-east", 1, 1),
    ("south-west", -1, -1),
    ("south-east", 1, -1),
];

impl Planar {
    /// The most cells of [`Planar::discretised`] along a side: 54² = 2,916 cells.
    pub const MOST_CELLS: usize = 54;

    /// A finite model of the problem, with `cells` × `cells` cells of equal size: a reference for its optimum.
    ///
    /// A state is a cell, named `column,row` from the south-west, and stands for its middle. The actions are to stay or
    /// to go to one of the eight neighbours, in a straight line and at constant speed. Every action takes
    /// the same period of n steps, the fewest in which the speed limit v allows to go to the neighbour
    /// across a corner, at distance d: n = ⌈d/(v T_s)⌉; n = 1 without a limit. So an average over actions is an average over
    /// steps. The rewards are those of a step, and have the same names: of each region and of the home 1 if the
    /// cell's middle is in it; `energy` = (distance/(n v T_s))². It starts in each cell with equal probability.
    ///
    /// What its optimum says about the problem itself: staying is allowed everywhere, so for the long-run optimum
    /// travel costs nothing, in both: with ever longer stays its share of the time goes to 0. The optimum of
    /// shares of time (`home`) is therefore the same in both, as long as each overlap of regions that
    /// exists contains the middle of a cell; with an objective `energy` it is 0 in both. For a finite stretch of
    /// time both are bounds, from above and from below, which a run comes the nearer the longer it stays.
    ///
    /// Fails if `cells` is not from 2 to [`Planar::MOST_CELLS`], or if a region contains no middle of a cell.
    pub fn discretised(&self, cells: usize) -> Result<FiniteCmdp, Error> {
        let most = Self::MOST_CELLS;
        if !(2..=most).contains(&cells) {
            let message =
                format!("the cells along a side are {cells}, expected a whole number from 2 to {most}");
            return Err(Error::Environment(message));
        }
        let p = self.parameters();
        let (wide, high) = (p.width / cells as f64, p.height / cells as f64);
        // As a share of the way that a period allows; the corner is the farthest.
        let reach = match p.speed_limit {
            Some(speed) => {
                let step = speed * p.sampling_time;
                (wide.hypot(high) / step).ceil() * step
            }
            None => f64::INFINITY,
        };
        let mut builder = FiniteCmdp::builder(self.reward_names().iter().map(String::as_str));
        let mut met = vec![false; self.shapes().count()];
        let probability = 1.0 / (cells * cells) as f64;
        for cell in 0..cells * cells {
            let (column, row) = (cell % cells, cell / cells);
            let state = builder.state(format!("{column},{row}"));
            builder.initial(state, probability);
            let middle = [(column as f64 + 0.5) * wide, (row as f64 + 0.5) * high];
            let inside: Vec<bool> = self.shapes().map(|shape| shape.contains(middle)).collect();
            met.iter_mut().zip(&inside).for_each(|(met, inside)| *met |= inside);
            for (name, east, north) in MOVES {
                let to = |at: usize, by: isize| at.checked_add_signed(by).filter(|to| *to < cells);
                let (Some(column), Some(row)) = (to(column, east), to(row, north)) else { continue };
                let mut rewards: Vec<f64> = inside.iter().map(|i| f64::from(u8::from(*i))).collect();
                if p.energy {
                    let share = (east as f64 * wide).hypot(north as f64 * high) / reach;
                    rewards.push(share * share);
                }
                builder.choice(state, name, &[(row * cells + column, 1.0)], &rewards);
            }
        }
        if let Some(region) = met.iter().position(|met| !met) {
            let name = &self.reward_names()[region];
            let message = format!(
                "the region '{name}' contains the middle of none of {cells} x {cells} cells, expected more cells along a side"
            );
            return Err(Error::Environment(message));
        }
        Ok(builder.build()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planar::PlanarParameters;
    use crate::regions::Shape;

    fn planar(change: impl FnOnce(&mut PlanarParameters)) -> Planar {
        let mut parameters = PlanarParameters::default();
        change(&mut parameters);
        Planar::new(parameters).unwrap()
    }

    #[test]
    fn cells_lead_to_their_neighbours_and_carry_the_rewards_of_a_step() {
        let p = planar(|p| (p.speed_limit, p.energy) = (Some(2.0), true));
        let model = p.discretised(20).unwrap();
        assert_eq!((model.states(), model.reward_names()), (400, p.reward_names()));
        // Corners have 3 neighbours, edges 5, all others 8, and each can stay.
        assert_eq!(model.choice_count(), 4 * 4 + 4 * 18 * 6 + 18 * 18 * 9);
        for region in 0..4 {
            let inside = (0..400).filter(|s| model.choice(model.choices(*s).start).rewards[region] == 1.0);
            assert_eq!(inside.count(), 16, "side 2 is four cells of a half");
        }
        // d = 0.707 and 0.1 per step: 8 steps, which reach 0.8.
        let rewards = |name: &str| {
            let choice = model.choices(45).find(|&c| model.action_name(c) == name).unwrap();
            let choice = model.choice(choice);
            (choice.targets[0], choice.rewards[4])
        };
        assert_eq!(rewards("stay"), (45, 0.0));
        assert_eq!(rewards("north-east").0, 66);
        assert!((rewards("north-east").1 - 0.5 / 0.64).abs() < 1e-12);
        assert!((rewards("west").1 - 0.25 / 0.64).abs() < 1e-12);
    }

    #[test]
    fn too_many_cells_or_too_few_are_refused() {
        for (cells, expected) in
            [(1, "is 1, expected"), (55, "from 2 to 54"), (2, "the region 'red' contains")]
        {
            let shifted = planar(|p| {
                p.regions[0].shape = Shape::Square { centre: [1.0, 9.0], side: 1.0 };
            });
            let error = shifted.discretised(cells).unwrap_err().to_string().replace("are 1,", "is 1,");
            assert!(error.contains(expected), "{error}");
        }
    }
}
