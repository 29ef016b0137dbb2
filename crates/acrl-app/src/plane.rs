//! Pictures of agents in the plane: regions, where the time goes, and the policy as arrows.

use std::f64::consts::TAU;

use acrl::{ActionPart, BatchMatrix, Rng, RunReport, VecPolicy as _, VecTask};
use acrl_envs::{Continuous, Region as Place, Shape};
use acrl_learn::{PolicyFile, TrainedPolicy};
use acrl_report::run_figures::colours;
use acrl_report::{Area, Arrow, Colour, Field, Figure, Heat, Model, Panel, Plot, Region, Slider};

use crate::Error;
use crate::occupancy::OccupancyGrid;

/// Arrows along a side.
const ARROWS: usize = 17;

/// A box with regions in it.
pub(crate) struct Plane<'a> {
    area: Area,
    regions: &'a [Place],
    home: Option<&'a Shape>,
    /// The greatest length of an action that has its effect.
    longest: Option<f64>,
    /// What the arrows are.
    velocity: &'static str,
}

impl<'a> Plane<'a> {
    /// `None` if the environment is not in the plane.
    pub(crate) fn new(environment: &'a Continuous) -> Option<Self> {
        let (width, height, regions, home, longest, velocity) = match environment {
            Continuous::Planar(planar) => {
                let p = planar.parameters();
                (p.width, p.height, &p.regions, &p.home, p.speed_limit, "velocity")
            }
            Continuous::Drone(drone) => {
                let p = drone.parameters();
                (p.width, p.height, &p.regions, &p.home, Some(p.thrust), "thrust (at rest, no wind)")
            }
            Continuous::Wireless(_) | Continuous::External(_) => return None,
        };
        let area = Area { x: (0.0, width), y: (0.0, height) };
        Some(Self { area, regions, home: home.as_ref(), longest, velocity })
    }

    fn regions(&self) -> Vec<Region> {
        let places = self.regions.iter().enumerate();
        let mut regions: Vec<Region> = places
            .map(|(i, place)| Region {
                name: place.name.clone(),
                colour: Colour::of(&place.name, i),
                outline: outline(&place.shape),
            })
            .collect();
        regions.extend(self.home.map(|home| Region {
            name: "home".to_owned(),
            colour: Colour::Grey,
            outline: outline(home),
        }));
        regions
    }

    /// Where the runs spent their time.
    pub(crate) fn occupancy(&self, name: &str, occupancy: &OccupancyGrid) -> Figure {
        let heat = Heat {
            area: self.area,
            regions: self.regions(),
            columns: OccupancyGrid::CELLS,
            shares: occupancy.shares(),
        };
        let caption = "The share of the time of all runs that was spent in each cell, in per cent.";
        Figure::new(name, "Where the time goes", caption, 1, vec![Panel::new("", Plot::Heat(heat))])
    }

    /// The policy at these multipliers, which can be moved in the page if it is a network.
    pub(crate) fn field(
        &self,
        name: &str,
        task: &VecTask<'_>,
        policy: &TrainedPolicy,
        multipliers: &[f64],
    ) -> Result<Figure, Error> {
        let specification = task.specification();
        let names = specification.names();
        let most = nice(2.0 * multipliers.iter().copied().fold(0.0, f64::max));
        let colours = colours(specification);
        let sliders = names.iter().zip(multipliers).enumerate().map(|(i, (name, value))| Slider {
            name: name.clone(),
            colour: colours[i],
            value: *value,
            most,
        });
        let (sliders, model) = match self.model(task, policy) {
            Some(model) => (sliders.collect(), Some(model)),
            None => (Vec::new(), None),
        };
        let moved = if model.is_some() { " Move a multiplier to update the vectors." } else { "" };
        let field = Field {
            area: self.area,
            regions: self.regions(),
            arrows: self.arrows(task, policy, multipliers)?,
            sliders,
            model,
        };
        let caption = format!(
            "What π(s, λ) does in each place, its {}, at first for the mean multipliers of the runs, which change all \
             the time.{moved}",
            self.velocity
        );
        Ok(Figure::new(name, "The policy π(s, λ)", &caption, 1, vec![Panel::new("", Plot::Field(field))]))
    }

    /// The figures of some runs of a policy: arrows at the mean multipliers, and where the time went.
    pub(crate) fn figures(
        &self,
        task: &VecTask<'_>,
        file: &PolicyFile,
        report: &RunReport,
        occupancy: Option<&OccupancyGrid>,
    ) -> Result<Vec<Figure>, Error> {
        let mut figures = Vec::new();
        if !file.policy.ignores_weights() {
            let multipliers: Vec<f64> = report.multipliers.iter().map(|(_, m)| m.mean).collect();
            figures.push(self.field("policy", task, &file.policy, &multipliers)?);
        }
        figures.extend(occupancy.map(|occupancy| self.occupancy("occupancy", occupancy)));
        Ok(figures)
    }

    /// Arrows on a grid; what is seen beside the place is in the middle of its range.
    fn arrows(
        &self,
        task: &VecTask<'_>,
        policy: &TrainedPolicy,
        multipliers: &[f64],
    ) -> Result<Vec<Arrow>, Error> {
        let environment = task.environment();
        let num_envs = ARROWS * ARROWS;
        let mut observation = BatchMatrix::zeros(environment.observation_space().len(), num_envs);
        let mut weights = BatchMatrix::zeros(multipliers.len() + 1, num_envs);
        let mut actions = BatchMatrix::zeros(environment.action_space().len(), num_envs);
        let at = |(low, high): (f64, f64), k: usize| low + (high - low) * (k as f64 + 0.5) / ARROWS as f64;
        for env in 0..num_envs {
            for (row, range) in environment.observation_space().iter().enumerate() {
                let value = match row {
                    0 => at(self.area.x, env % ARROWS),
                    1 => at(self.area.y, env / ARROWS),
                    _ => 0.5 * (range.low + range.high),
                };
                observation.set(row, env, value);
            }
            weights.set(0, env, if task.has_objective() { 1.0 } else { 0.0 });
            for (i, l) in multipliers.iter().enumerate() {
                weights.set(i + 1, env, *l);
            }
        }
        let mut rngs = vec![Rng::new(0); num_envs];
        // What it does on average, not what it draws.
        let mut policy = match policy.clone() {
            TrainedPolicy::Mlp(policy) => TrainedPolicy::Mlp(Box::new(policy.sampling(false))),
            TrainedPolicy::Rbf(policy) => TrainedPolicy::Rbf(Box::new(policy.sampling(false))),
            other => other,
        };
        policy.act(&observation, &weights, &mut actions, &mut rngs)?;
        let arrow = |env: usize| {
            let (dx, dy) = (actions.at(0, env), actions.at(1, env));
            let shorter = self.longest.map_or(1.0, |v| (v / dx.hypot(dy)).min(1.0));
            Arrow { x: observation.at(0, env), y: observation.at(1, env), dx: dx * shorter, dy: dy * shorter }
        };
        Ok((0..num_envs).map(arrow).collect())
    }

    /// The policy for the page to compute.
    fn model(&self, task: &VecTask<'_>, policy: &TrainedPolicy) -> Option<Model> {
        let TrainedPolicy::Mlp(policy) = policy else { return None };
        let inputs = policy.inputs();
        if inputs.ignores_weights() {
            return None;
        }
        let outputs = policy.heads().parts().iter().map(|part| match part {
            ActionPart::Continuous(range) if range.is_bounded() => {
                Some((0.5 * (range.low + range.high), 0.5 * range.width()))
            }
            ActionPart::Continuous(_) => Some((0.0, 1.0)),
            ActionPart::Discrete(_) => None,
        });
        let ranges = task.environment().observation_space();
        Some(Model::Mlp {
            objective: inputs.objective(),
            scales: inputs.scales().to_vec(),
            observation: inputs
                .observation()
                .iter()
                .map(|range| (0.5 * (range.low + range.high), 2.0 / range.width()))
                .collect(),
            rest: ranges.iter().skip(2).map(|range| 0.5 * (range.low + range.high)).collect(),
            output: outputs.collect::<Option<Vec<_>>>()?,
            longest: self.longest,
            shape: policy.actor().shape().to_vec(),
            parameters: policy.actor().parameters().to_vec(),
        })
    }
}

/// The least of 1, 2, 5, 10, 20 … (and their tenths) that is not below; 1 for nothing.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|step| step * power).find(|nice| *nice >= value).unwrap_or(10.0 * power)
}

/// A closed polygon; of a disc, one with many corners.
fn outline(shape: &Shape) -> Vec<(f64, f64)> {
    match shape {
        Shape::Square { .. } => {
            let [[west, east], [south, north]] = shape.bounds();
            vec![(west, south), (east, south), (east, north), (west, north), (west, south)]
        }
        Shape::Disc { centre: [x, y], radius } => {
            const CORNERS: usize = 48;
            let angle = |k: usize| TAU * k as f64 / CORNERS as f64;
            (0..=CORNERS).map(|k| (x + radius * angle(k).cos(), y + radius * angle(k).sin())).collect()
        }
        Shape::Polygon { vertices } => {
            vertices.iter().chain(vertices.first()).map(|[x, y]| (*x, *y)).collect()
        }
    }
}
