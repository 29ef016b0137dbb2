//! Random planar problems, for tests on problems that were not hand-picked.

use std::f64::consts::TAU;

use acrl::{Error, Requirement, Rng, Specification};

use crate::planar::{Planar, PlanarParameters};
use crate::regions::{Region, Shape};

/// Objective of a random problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomObjective {
    /// No objective.
    None,
    /// Maximise the share of a home region.
    Home,
    /// Minimise the energy of moving.
    Energy,
}

/// A planar problem drawn at random: its geometry by a seed, and requirements by the number of a draw.
///
/// *Geometry.* The box is 10 × 10, T_s = 0.05 and the speed limit uniform from 1 to 5. There are 3 to 6
/// regions r1, r2, … and, if the objective is a home, one more: each a square, a disc or a convex polygon with equal probability, of
/// a width d uniform from 0.8 to 2.5. A square has side d, a disc radius d/2; a polygon has 3 to 7 corners on a circle of radius
/// d/2, at angles that differ from equal ones by up to 0.3 of their spacing. The circles around the regions lie in the box, at
/// least 0.3 from each other, so that the regions are disjoint.
///
/// *Requirements.* c = total · Dirichlet(1, …, 1), where total is uniform from 0.3 to 1 − τ − 0.03 m, so
/// that the slack (1 − τ − Σ c)/m is at least 0.03. τ is the allowance for travel: the share of the time
/// of an agent that makes the shortest round trip through the regions' middles (and the home's), ℓ long, at the speed
/// limit v once in 2,000 steps, τ = ℓ/(v T_s)/2000. So even an agent that goes round a hundred times in
/// 200,000 steps can meet all requirements and has 0.03 to spare on each of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomPlanar {
    seed: u64,
    planar: Planar,
    travel: f64,
}

/// Largest number of attempts to draw a geometry; a few are enough.
const ATTEMPTS: usize = 10_000;
const SLACK: f64 = 0.03;
const ROUND_TRIP: f64 = 2_000.0;
const GAP: f64 = 0.3;

impl RandomPlanar {
    /// The problem of a seed. Even seeds have no objective; odd ones have a home or energy, by a coin, so that half of any
    /// list of consecutive seeds has an objective.
    pub fn new(seed: u64) -> Result<Self, Error> {
        let coin = Rng::stream(seed, 0).uniform() < 0.5;
        Self::with_objective(
            seed,
            match (seed % 2, coin) {
                (0, _) => RandomObjective::None,
                (_, true) => RandomObjective::Home,
                (_, false) => RandomObjective::Energy,
            },
        )
    }

    /// The problem of a seed with a given kind of objective.
    pub fn with_objective(seed: u64, objective: RandomObjective) -> Result<Self, Error> {
        let mut rng = Rng::stream(seed, 1);
        let speed = 1.0 + 4.0 * rng.uniform();
        let regions = 3 + rng.index(4);
        let count = regions + usize::from(objective == RandomObjective::Home);
        let drawn = (0..ATTEMPTS).find_map(|_| disjoint_shapes(count, &mut rng));
        let mut shapes = drawn.ok_or_else(|| Error::Environment("no room for the regions".to_owned()))?;
        let home = shapes.split_off(regions).pop();
        let names = (1..=regions).map(|i| format!("r{i}"));
        let parameters = PlanarParameters {
            speed_limit: Some(speed),
            regions: names.zip(shapes).map(|(name, shape)| Region::new(name, shape)).collect(),
            home,
            energy: objective == RandomObjective::Energy,
            ..PlanarParameters::default()
        };
        let planar = Planar::new(parameters).map_err(|e| Error::Environment(e.to_string()))?;
        let middles: Vec<[f64; 2]> = planar.shapes().map(Shape::middle).collect();
        let travel = round_trip(&middles) / (speed * planar.parameters().sampling_time) / ROUND_TRIP;
        Ok(Self { seed, planar, travel })
    }

    /// The environment.
    pub fn planar(&self) -> &Planar {
        &self.planar
    }

    /// τ, the allowance for travel.
    pub fn travel(&self) -> f64 {
        self.travel
    }

    /// Objective and requirements of the first draw.
    pub fn specification(&self) -> Result<Specification, Error> {
        self.draw(0)
    }

    /// Objective and requirements of a draw: other feasible requirements, and the same objective.
    pub fn draw(&self, draw: u64) -> Result<Specification, Error> {
        let mut rng = Rng::stream(self.seed, draw.wrapping_add(2));
        let names = self.planar.parameters().regions.iter().map(|region| &region.name);
        let m = names.len();
        let most = (1.0 - self.travel - SLACK * m as f64).max(0.3);
        let total = 0.3 + (most - 0.3) * rng.uniform();
        // Exponential numbers divided by their sum are Dirichlet(1, …, 1).
        let parts: Vec<f64> = (0..m).map(|_| -(1.0 - rng.uniform()).ln()).collect();
        let sum: f64 = parts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let requirements =
            names.zip(&parts).map(|(name, part)| Requirement::at_least(name, total * part / sum));
        Specification::new(self.planar.objective(), requirements.collect::<Result<_, _>>()?)
    }
}

/// So many shapes with disjoint circles around them, or none if one does not fit.
fn disjoint_shapes(count: usize, rng: &mut Rng) -> Option<Vec<Shape>> {
    let mut shapes = Vec::with_capacity(count);
    let mut circles: Vec<([f64; 2], f64)> = Vec::with_capacity(count);
    for _ in 0..count {
        let width = 0.8 + 1.7 * rng.uniform();
        let kind = rng.index(3);
        let around = if kind == 0 { width / 2f64.sqrt() } else { width / 2.0 };
        let centre = [0; 2].map(|_| around + (10.0 - 2.0 * around) * rng.uniform());
        let apart = |(other, radius): &([f64; 2], f64)| {
            (centre[0] - other[0]).hypot(centre[1] - other[1]) >= around + radius + GAP
        };
        if !circles.iter().all(apart) {
            return None;
        }
        circles.push((centre, around));
        shapes.push(match kind {
            0 => Shape::Square { centre, side: width },
            1 => Shape::Disc { centre, radius: width / 2.0 },
            _ => Shape::Polygon { vertices: convex(centre, width / 2.0, rng) },
        });
    }
    Some(shapes)
}

fn convex(centre: [f64; 2], radius: f64, rng: &mut Rng) -> Vec<[f64; 2]> {
    let corners = 3 + rng.index(5);
    let first = rng.uniform();
    let corner = |k: usize| {
        let angle = TAU * (first + (k as f64 + 0.3 * (2.0 * rng.uniform() - 1.0)) / corners as f64);
        [centre[0] + radius * angle.cos(), centre[1] + radius * angle.sin()]
    };
    (0..corners).map(corner).collect()
}

/// The length of the shortest closed tour, by trying all of them: at most 6! orders of 7 points.
fn round_trip(points: &[[f64; 2]]) -> f64 {
    fn shortest(at: [f64; 2], rest: &mut [[f64; 2]], back: [f64; 2]) -> f64 {
        let distance = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
        if rest.is_empty() {
            return distance(at, back);
        }
        let mut best = f64::INFINITY;
        for i in 0..rest.len() {
            rest.swap(0, i);
            let next = rest[0];
            best = best.min(distance(at, next) + shortest(next, &mut rest[1..], back));
            rest.swap(0, i);
        }
        best
    }
    let mut rest = points.to_vec();
    let Some(first) = rest.pop() else { return 0.0 };
    shortest(first, &mut rest, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_as_promised_and_reproduce() {
        let mut objectives = 0;
        let mut kinds = [0; 3];
        for seed in 0..200 {
            let random = RandomPlanar::new(seed).unwrap();
            assert_eq!(random, RandomPlanar::new(seed).unwrap());
            let p = random.planar().parameters();
            assert!((3..=6).contains(&p.regions.len()));
            assert!(p.speed_limit.is_some_and(|v| (1.0..=5.0).contains(&v)));
            for shape in random.planar().shapes() {
                kinds[match shape {
                    Shape::Square { .. } => 0,
                    Shape::Disc { .. } => 1,
                    Shape::Polygon { .. } => 2,
                }] += 1;
                let [[west, east], [south, north]] = shape.bounds();
                let across = (east - west).max(north - south);
                assert!((0.5..=2.51).contains(&across), "{shape:?}");
                let mut others = random.planar().shapes().filter(|other| *other != shape);
                assert!(others.all(|other| !other.contains(shape.middle())));
            }
            let first = random.specification().unwrap();
            assert_eq!(first, random.draw(0).unwrap());
            assert_ne!(first, random.draw(1).unwrap());
            objectives += usize::from(first.objective().is_some());
            for draw in 0..10 {
                let specification = random.draw(draw).unwrap();
                let (c, m) = (specification.bounds(), p.regions.len() as f64);
                let total: f64 = c.iter().sum();
                assert!(total >= 0.3 - 1e-12 && c.iter().all(|c| *c >= 0.0));
                assert!((1.0 - random.travel() - total) / m >= SLACK - 1e-12, "{seed} {draw}");
            }
        }
        assert_eq!(objectives, 100);
        assert!(kinds.iter().all(|n| *n > 200), "{kinds:?}");
    }

    #[test]
    fn the_round_trip_is_the_shortest() {
        let corners = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]];
        assert!((round_trip(&corners) - 4.0).abs() < 1e-12);
        assert_eq!((round_trip(&[]), round_trip(&corners[..1])), (0.0, 0.0));
    }
}
