//! Planar monitoring: an agent in a box that has to be in each of several regions for a share of its time.
//!
//! # Description
//!
//! The continuous example of the paper (Section IV). An agent steers through a box by choosing its velocity.
//! Each region has to be watched for a share of the time; with a home there is also a place to be as much
//! as possible, and with energy on, moving costs.
//!
//! # States
//!
//! s = (x, y) in \[0, width\] × \[0, height\]; the agent sees it as it is.
//!
//! # Actions
//!
//! a = (vx, vy), the velocity. With a speed limit v each part is in \[−v, v\] and a vector longer than v is
//! shortened to that length; without one, any finite number.
//!
//! # Dynamics
//!
//! s' = clip(s + T_s a), where clip moves what is outside to the nearest point of the box.
//!
//! # Rewards
//!
//! One per region, by its name: 1 if s, the state before the move, is in the region, edges included. `home`, if
//! there is one: the same for it. `energy`, if it is on: |a|²/v², from 0 to 1.
//!
//! # Requirements
//!
//! Of n regions the i-th is to be watched for (n + 1 − i)/(n (n + 1)) of the time at least, half of the time in all: 20, 15, 10
//! and 5 % with four of them, as in the paper. Maximise home, if there is one; else minimise energy, if it is
//! on; else there is no objective.
//!
//! # Known optimum
//!
//! If the regions are disjoint, shares c are feasible if Σ c_i < 1: the longer the agent stays, the smaller the
//! share of the time it travels. With a home apart from them the largest share of it is 1 − Σ c_i; with
//! energy the least is 0. Both are approached and not reached. [`Planar::discretised`] is a finite
//! model with the same optimum.
//!
//! # Starting state
//!
//! Uniform in the box.
//!
//! # Parameters
//!
//! See [`PlanarParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "planar"
//! speed_limit = 2.0
//! regions = [
//!     { name = "a", shape = "square", centre = [2.0, 2.0], side = 2.0 },
//!     { name = "b", shape = "polygon", vertices = [[6, 6], [9, 6], [7, 9]] },
//! ]
//! home = { shape = "disc", centre = [8.0, 2.0], radius = 1.0 }
//! ```

use acrl::{
    ActionPart, BatchMatrix, Error, Interval, Objective, Requirement, Rng, Spaces, Specification, VecEnv,
};

use crate::batch::{check_numbers, check_reset, check_step, shortened};
use crate::parameter::{Check, ParameterError, Positive, parameters};
use crate::regions::{Region, Shape, check_regions, indicate_all};

parameters! {
    /// Parameters of a planar problem.
    PlanarParameters {
        /// The box reaches from x = 0 to here.
        width: f64 = 10.0, Positive;
        /// The box reaches from y = 0 to here.
        height: f64 = 10.0, Positive;
        /// T_s, the time of a step.
        sampling_time: f64 = 0.05, Positive;
        /// v, the greatest speed (the Euclidean length of an action).
        speed_limit: Option<f64> = None, Positive;
        /// What has to be watched: 1 to 100 regions in the box.
        regions: Vec<Region> = Region::of_the_paper();
        /// Where to be as much as possible, in the box.
        home: Option<Shape> = None;
        /// True if there is the reward `energy`; with a speed limit only.
        energy: bool = false;
    }
}

impl Region {
    /// The four squares of the paper.
    fn of_the_paper() -> Vec<Self> {
        let centres =
            [("red", [2.5, 7.5]), ("blue", [7.5, 7.5]), ("green", [2.5, 2.5]), ("orange", [7.5, 2.5])];
        centres.map(|(name, centre)| Self::new(name, Shape::Square { centre, side: 2.0 })).to_vec()
    }
}

/// A planar problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Planar {
    parameters: PlanarParameters,
    spaces: Spaces,
}

const ACTIONS: [&str; 2] = ["vx", "vy"];

impl Planar {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "planar";

    /// Checks the parameters.
    pub fn new(parameters: PlanarParameters) -> Result<Self, ParameterError> {
        let check = Check(Self::KIND);
        let PlanarParameters { width, height, speed_limit, regions, home, energy, .. } = &parameters;
        parameters.check(&check)?;
        check_regions(&check, regions, home.as_ref(), [*width, *height])?;
        let expected = || "false, unless there is a 'speed_limit' to measure it by".to_owned();
        check.within("energy", energy, !energy || speed_limit.is_some(), expected)?;
        let part = speed_limit.map_or(Interval::UNBOUNDED, |v| Interval::new(-v, v));
        let mut reward_names: Vec<String> = regions.iter().map(|region| region.name.clone()).collect();
        reward_names.extend(home.as_ref().map(|_| "home".to_owned()));
        reward_names.extend(energy.then(|| "energy".to_owned()));
        let spaces = Spaces {
            state_dimension: 2,
            observation: [*width, *height].map(|side| Interval::new(0.0, side)).to_vec(),
            action: vec![ActionPart::Continuous(part); 2],
            reward_ranges: vec![Interval::new(0.0, 1.0); reward_names.len()],
            reward_names,
        };
        Ok(Self { spaces, parameters })
    }

    /// The parameters.
    pub fn parameters(&self) -> &PlanarParameters {
        &self.parameters
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let n = self.parameters.regions.len();
        let shares = (0..n).map(|i| (n - i) as f64 / (n * (n + 1)) as f64);
        let named = self.parameters.regions.iter().zip(shares);
        let requirements = named.map(|(region, share)| Requirement::at_least(&region.name, share));
        Specification::new(self.objective(), requirements.collect::<Result<_, _>>()?)
    }

    /// The objective that comes with it.
    pub(crate) fn objective(&self) -> Option<Objective> {
        if self.parameters.home.is_some() {
            return Some(Objective::maximize("home"));
        }
        self.parameters.energy.then(|| Objective::minimize("energy"))
    }

    /// The regions' shapes and the home's.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.parameters.regions.iter().map(|region| &region.shape).chain(&self.parameters.home)
    }
}

impl VecEnv for Planar {
    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// As many steps (1 to 100) as take the agent, at the speed limit, 3 % along the shorter side of the box, or a third
    /// of the way across the smallest region, √area wide, if that is less. 1 without a speed limit.
    fn action_repeat(&self) -> usize {
        let p = &self.parameters;
        let Some(speed) = p.speed_limit else { return 1 };
        let narrowest = self.shapes().map(|shape| shape.area().sqrt()).fold(f64::INFINITY, f64::min);
        let distance = (0.03 * p.width.min(p.height)).min(narrowest / 3.0);
        (distance / (speed * p.sampling_time)).round().clamp(1.0, 100.0) as usize
    }

    fn reset(&self, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> Result<(), Error> {
        check_reset(&self.spaces, state, env)?;
        for (row, space) in self.observation_space().iter().enumerate() {
            state.set(row, env, space.high * rng.uniform());
        }
        Ok(())
    }

    fn observe(&self, state: &BatchMatrix, observation: &mut BatchMatrix) {
        observation.as_mut_slice().copy_from_slice(state.as_slice());
    }

    fn step(
        &self,
        state: &mut BatchMatrix,
        actions: &BatchMatrix,
        rewards: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        check_step(&self.spaces, state, actions, rewards, rngs)?;
        let p = &self.parameters;
        if state.num_envs() == 0 {
            return Ok(());
        }
        for (row, name) in ACTIONS.iter().enumerate() {
            check_numbers(name, actions.row(row), p.speed_limit.is_none())?;
        }
        indicate_all(self.shapes(), state, rewards);
        let [x, y] = state.rows_mut(0);
        let velocities = actions.row(0).iter().zip(actions.row(1));
        let num_envs = x.iter_mut().zip(y).zip(velocities);
        // A loop for each case, so that none has a branch in it.
        match (p.speed_limit, p.energy) {
            (None, _) => {
                for ((x, y), (&vx, &vy)) in num_envs {
                    *x = (*x + p.sampling_time * vx).clamp(0.0, p.width);
                    *y = (*y + p.sampling_time * vy).clamp(0.0, p.height);
                }
            }
            (Some(limit), false) => {
                for ((x, y), (&vx, &vy)) in num_envs {
                    let (vx, vy) = shortened(vx, vy, limit);
                    *x = (*x + p.sampling_time * vx).clamp(0.0, p.width);
                    *y = (*y + p.sampling_time * vy).clamp(0.0, p.height);
                }
            }
            (Some(limit), true) => {
                let energies = rewards.row_mut(self.reward_names().len() - 1);
                for (((x, y), (&vx, &vy)), energy) in num_envs.zip(energies) {
                    let (vx, vy) = shortened(vx, vy, limit);
                    *energy = ((vx * vx + vy * vy) / (limit * limit)).min(1.0);
                    *x = (*x + p.sampling_time * vx).clamp(0.0, p.width);
                    *y = (*y + p.sampling_time * vy).clamp(0.0, p.height);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planar(change: impl FnOnce(&mut PlanarParameters)) -> Result<Planar, ParameterError> {
        let mut parameters = PlanarParameters::default();
        change(&mut parameters);
        Planar::new(parameters)
    }

    /// The next state and the rewards of one environment.
    fn step(planar: &Planar, from: [f64; 2], action: [f64; 2]) -> Result<([f64; 2], Vec<f64>), Error> {
        let (mut state, mut actions) = (BatchMatrix::zeros(2, 1), BatchMatrix::zeros(2, 1));
        state.set_column(0, &from);
        actions.set_column(0, &action);
        let mut rewards = BatchMatrix::zeros(planar.reward_names().len(), 1);
        planar.step(&mut state, &actions, &mut rewards, &mut [Rng::new(0)])?;
        Ok(([state.at(0, 0), state.at(1, 0)], rewards.column(0).collect()))
    }

    fn close(a: [f64; 2], b: [f64; 2]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    #[test]
    fn the_paper_s_agent_moves_by_its_velocity_and_is_rewarded_where_it_was() {
        let p = planar(|_| ()).unwrap();
        let (to, rewards) = step(&p, [3.4, 7.0], [4.0, -20.0]).unwrap();
        assert!(close(to, [3.6, 6.0]), "{to:?}");
        assert_eq!(rewards, [1.0, 0.0, 0.0, 0.0], "it was in red before the move");
        let (to, rewards) = step(&p, [0.1, 9.9], [-1e6, 1e6]).unwrap();
        assert_eq!((to, rewards), ([0.0, 10.0], vec![0.0; 4]));
        assert!(p.action_space().iter().all(|part| *part == ActionPart::Continuous(Interval::UNBOUNDED)));
        assert_eq!((p.action_repeat(), p.state_dimension()), (1, 2));
    }

    #[test]
    fn a_speed_limit_shortens_the_velocity_and_energy_measures_it() {
        let home = Shape::Disc { centre: [5.0, 5.0], radius: 1.0 };
        let p = planar(|p| (p.speed_limit, p.energy, p.home) = (Some(2.0), true, Some(home))).unwrap();
        assert_eq!(p.reward_names(), ["red", "blue", "green", "orange", "home", "energy"]);
        // (3, 4) is 5 long: 2/5 of it are left.
        let (to, rewards) = step(&p, [5.0, 5.5], [3.0, 4.0]).unwrap();
        assert!(close(to, [5.0 + 0.05 * 1.2, 5.5 + 0.05 * 1.6]), "{to:?}");
        assert_eq!(rewards[4], 1.0);
        assert!((rewards[5] - 1.0).abs() < 1e-12);
        let (to, rewards) = step(&p, [1.0, 1.0], [0.0, -1.0]).unwrap();
        assert!(close(to, [1.0, 0.95]) && rewards[5] == 0.25);
        let (to, _) = step(&p, [5.0, 5.0], [f64::INFINITY, 1.0]).unwrap();
        assert!(close(to, [5.1, 5.0]), "{to:?}");
        let (to, _) = step(&p, [5.0, 5.0], [1e300, f64::NEG_INFINITY]).unwrap();
        assert!((to[0] - 5.0 - (5.0 - to[1])).abs() < 1e-12, "{to:?}");
    }

    #[test]
    fn an_action_that_is_no_number_is_an_error_that_names_it() {
        let free = planar(|_| ()).unwrap();
        let limited = planar(|p| p.speed_limit = Some(1.0)).unwrap();
        let message = |p: &Planar, action| step(p, [1.0, 1.0], action).unwrap_err().to_string();
        let nan = "the action 'vy' in env 0 must be a finite number, but it is NaN";
        assert_eq!(message(&free, [0.0, f64::NAN]), nan);
        assert_eq!(message(&limited, [0.0, f64::NAN]), nan);
        let infinite = "the action 'vx' in env 0 must be a finite number, but it is -inf";
        assert_eq!(message(&free, [f64::NEG_INFINITY, 0.0]), infinite);
    }

    #[test]
    fn the_requirements_are_the_paper_s_and_the_objective_follows_the_parameters() {
        let of = |p: Planar| p.specification().unwrap();
        let paper = of(planar(|_| ()).unwrap());
        assert_eq!((paper.objective(), paper.bounds()), (None, vec![0.2, 0.15, 0.1, 0.05]));
        let home = Shape::Square { centre: [5.0, 5.0], side: 1.0 };
        let with_home =
            of(planar(|p| (p.speed_limit, p.energy, p.home) = (Some(1.0), true, Some(home))).unwrap());
        assert_eq!(with_home.objective(), Some(&Objective::maximize("home")));
        let with_energy = of(planar(|p| (p.speed_limit, p.energy) = (Some(1.0), true)).unwrap());
        assert_eq!(with_energy.objective(), Some(&Objective::minimize("energy")));
    }

    #[test]
    fn an_action_is_held_for_a_small_part_of_the_way() {
        let hold = |speed: f64, side: f64, sampling_time: f64| {
            let changed = planar(|p| {
                p.speed_limit = Some(speed);
                p.sampling_time = sampling_time;
                p.regions[2].shape = Shape::Square { centre: [2.5, 2.5], side };
            });
            changed.unwrap().action_repeat()
        };
        assert_eq!([1.0, 2.0, 5.0].map(|speed| hold(speed, 2.0, 0.05)), [6, 3, 1]);
        assert_eq!([hold(1.0, 0.6, 0.05), hold(5.0, 0.1, 0.05), hold(50.0, 2.0, 0.05)], [4, 1, 1]);
        assert_eq!([hold(1.0, 2.0, 0.01), hold(1.0, 2.0, 1e-6)], [30, 100]);
    }
}
