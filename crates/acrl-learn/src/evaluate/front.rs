//! Evaluation of the weightings that matter: those that are the best of the library for some weights.
//!
//! An execution shares time between entries of the library that are the best ones for some weights (the convex coverage set;
//! Roijers et al. 2013). So every weighting is visited once, and then those that are, or may be, on this front: weights are
//! drawn, values are drawn from their estimates (Thompson 1933; for fronts Roijers et al. 2017), and the best entry is
//! visited. Weightings that others dominate cost a single visit.

use acrl::{BatchMatrix, LibraryEntry, PolicyLibrary, Rng};

use crate::tuning::front::{LEVELS, MULTIPLIERS, SHARED, WEIGHTINGS};
use crate::weights::normalize;

/// Evaluator of a policy at fixed weights while the caller steps the environments, each of which runs visits of its own.
///
/// The first steps of a visit are not measured: what another weighting has led to is left behind, at the latest with the end
/// of its episode. A visit ends with an episode where it can, because the average of a part of an episode is biased.
#[derive(Debug, Clone)]
pub(super) struct FrontEvaluator {
    scales: Vec<f64>,
    /// w₀ … w_m, for rewards in their own units.
    weightings: Vec<Vec<f64>>,
    /// Weightings that have not been visited, the next one last.
    unvisited: Vec<usize>,
    envs: Vec<Visit>,
    /// Weights of every environment.
    weights: BatchMatrix,
    /// Averages over the visits of each weighting, and the measured steps.
    visits: Vec<Vec<(Vec<f64>, f64)>>,
    measured: usize,
    /// Steps in each environment, so far and in all.
    step: usize,
    budget: usize,
    rng: Rng,
}

/// A visit of an environment.
#[derive(Debug, Clone)]
struct Visit {
    weighting: usize,
    /// Steps before the measurement begins.
    warm_up: usize,
    sums: Vec<f64>,
    steps: usize,
}

/// Estimates of a weighting.
struct Estimate {
    values: Vec<f64>,
    errors: Vec<f64>,
    steps: f64,
}

impl FrontEvaluator {
    /// An evaluation of `budget` steps in each environment, for rewards with the units R₀ … R_m.
    pub(super) fn new(scales: &[f64], objective: bool, num_envs: usize, budget: usize, seed: u64) -> Self {
        let mut rng = Rng::stream(seed, u64::MAX - 1);
        let (first, num_envs) = (usize::from(!objective), num_envs.max(1));
        let weightings: Vec<Vec<f64>> = multiplier_grid(scales.len() - first, &mut rng)
            .iter()
            .map(|w| {
                let scaled = w.iter().zip(&scales[first..]).map(|(w, scale)| w / scale);
                std::iter::repeat_n(0.0, first).chain(scaled).collect()
            })
            .collect();
        let mut unvisited: Vec<usize> = (0..weightings.len()).collect();
        for i in (1..unvisited.len()).rev() {
            unvisited.swap(i, rng.index(i + 1));
        }
        // The first visits take half of the budget, a third of it to warm up.
        let measured = (budget * num_envs / (3 * weightings.len())).max(1);
        let visit = Visit { weighting: 0, warm_up: 0, sums: Vec::new(), steps: 0 };
        let mut new = Self {
            unvisited,
            envs: vec![visit; num_envs],
            weights: BatchMatrix::zeros(scales.len(), num_envs),
            visits: vec![Vec::new(); weightings.len()],
            weightings,
            scales: scales.to_vec(),
            measured,
            step: 0,
            budget: budget.max(2),
            rng,
        };
        (0..num_envs).for_each(|env| new.begin_visit(env));
        new
    }

    /// Weights w₀ … w_m of every environment, to act with.
    pub(super) fn weights(&self) -> &BatchMatrix {
        &self.weights
    }

    /// Steps in each environment.
    pub(super) fn steps(&self) -> usize {
        self.budget
    }

    /// Whether the budget is spent.
    pub(super) fn is_over(&self) -> bool {
        self.step >= self.budget
    }

    /// Records r₀ … r_m of the environments that made a step, and the episodes that ended with it.
    pub(super) fn observe(&mut self, rewards: &BatchMatrix, valid: &[bool], ended: &[bool]) {
        if self.is_over() {
            return;
        }
        self.step += 1;
        for env in (0..self.envs.len()).filter(|env| valid[*env]) {
            let visit = &mut self.envs[env];
            if visit.warm_up > 0 {
                visit.warm_up = if ended[env] { 0 } else { visit.warm_up - 1 };
                continue;
            }
            visit.sums.iter_mut().zip(rewards.column(env)).for_each(|(sum, r)| *sum += r);
            visit.steps += 1;
            if visit.steps >= 2 * self.measured || (ended[env] && visit.steps >= self.measured) {
                self.end_visit(env);
                self.begin_visit(env);
                if ended[env] {
                    self.envs[env].warm_up = 0;
                }
            }
        }
        if self.is_over() {
            // What was measured in visits that are not over counts, if it is long enough not to be mostly chance.
            let long = |env: &usize| 2 * self.envs[*env].steps >= self.measured;
            let all: Vec<usize> = (0..self.envs.len()).filter(long).collect();
            all.into_iter().for_each(|env| self.end_visit(env));
        }
    }

    fn end_visit(&mut self, env: usize) {
        let Visit { weighting, sums, steps, .. } = &self.envs[env];
        let n = *steps as f64;
        self.visits[*weighting].push((sums.iter().map(|sum| sum / n).collect(), n));
    }

    fn begin_visit(&mut self, env: usize) {
        let next = self.unvisited.pop().unwrap_or_else(|| self.draw_from_front());
        let visit = &mut self.envs[env];
        // The same weights go on: there is nothing to leave behind.
        let goes_on = visit.steps > 0 && visit.weighting == next;
        let warm_up = if goes_on { 0 } else { self.measured / 2 };
        *visit = Visit { weighting: next, warm_up, sums: vec![0.0; self.scales.len()], steps: 0 };
        self.weights.set_column(env, &self.weightings[next]);
    }

    /// The weighting that is the best for a weighting that is drawn, by values that are drawn from the estimates.
    fn draw_from_front(&mut self) -> usize {
        let Self { weightings, rng, .. } = self;
        let w = weightings[rng.index(weightings.len())].clone();
        let estimates = self.estimates();
        let rng = &mut self.rng;
        let mut value = |estimate: &Estimate| -> f64 {
            let parts = w.iter().zip(estimate.values.iter().zip(&estimate.errors));
            parts.map(|(w, (value, error))| w * (value + error * rng.normal())).sum()
        };
        let drawn: Vec<f64> =
            estimates.iter().map(|e| if e.steps > 0.0 { value(e) } else { f64::MIN }).collect();
        (0..drawn.len()).max_by(|a, b| drawn[*a].total_cmp(&drawn[*b])).unwrap_or(0)
    }

    /// Estimates of all weightings. The variance of a step's rewards, in the sense that the variance of an average over n
    /// steps is that by n, is that between a weighting's own visits, shrunk towards that of all and never below it: visits
    /// without a rare event differ by little, and must not have a smaller error for that.
    fn estimates(&self) -> Vec<Estimate> {
        let means: Vec<(Vec<f64>, f64)> = self.visits.iter().map(|visits| self.mean(visits)).collect();
        let square = |j: usize, i: usize| -> f64 {
            self.visits[j].iter().map(|(averages, n)| n * (averages[i] - means[j].0[i]).powi(2)).sum()
        };
        let freedom = |j: usize| self.visits[j].len().saturating_sub(1) as f64;
        let shared: Vec<f64> = (0..self.scales.len())
            .map(|i| {
                let all = 0..self.visits.len();
                let (n, sum) = all.fold((0.0, 0.0), |(n, sum), j| (n + freedom(j), sum + square(j, i)));
                // Before anything was visited twice, averages are as uncertain as they are wide.
                if n > 0.0 { sum / n } else { self.measured as f64 * self.scales[i].powi(2) }
            })
            .collect();
        let estimate = |(j, (values, steps)): (usize, &(Vec<f64>, f64))| {
            let variance =
                |i: usize| ((square(j, i) + SHARED * shared[i]) / (freedom(j) + SHARED)).max(shared[i]);
            let error = |i: usize| (variance(i) / steps.max(1.0)).sqrt();
            Estimate { values: values.clone(), errors: (0..values.len()).map(error).collect(), steps: *steps }
        };
        means.iter().enumerate().map(estimate).collect()
    }

    /// Average over visits, and their steps.
    fn mean(&self, visits: &[(Vec<f64>, f64)]) -> (Vec<f64>, f64) {
        let steps: f64 = visits.iter().map(|(_, n)| n).sum();
        let mean =
            |i: usize| visits.iter().map(|(averages, n)| n * averages[i]).sum::<f64>() / steps.max(1.0);
        ((0..self.scales.len()).map(mean).collect(), steps)
    }

    /// The library of the weightings that were visited.
    pub(super) fn library(&self) -> PolicyLibrary {
        let mut library = PolicyLibrary::default();
        for (weights, Estimate { values, errors, steps }) in self.weightings.iter().zip(self.estimates()) {
            if steps > 0.0 {
                let (weights, steps) = (weights.clone(), steps as u64);
                library.entries.push(LibraryEntry {
                    weights,
                    values,
                    errors,
                    steps,
                    ..LibraryEntry::default()
                });
            }
        }
        library
    }
}

/// Weights of `n` rewards that add up to 1: the corners, and multipliers of the first reward's weight in geometric
/// progression, all combinations of them; or as many random ones where these are too many.
fn multiplier_grid(n: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let mut points: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|k| f64::from(k == i)).collect()).collect();
    if n < 2 {
        return points;
    }
    let (low, high): (f64, f64) = MULTIPLIERS;
    let levels = (2..=LEVELS).rev().find(|levels| levels.saturating_pow(n as u32 - 1) <= WEIGHTINGS);
    let at = |share: f64| low * (high / low).powf(share);
    for k in 0..levels.map_or(WEIGHTINGS, |levels| levels.pow(n as u32 - 1)) {
        let mut rest = k;
        let mut point = vec![1.0];
        for _ in 1..n {
            point.push(match levels {
                Some(levels) => at((rest % levels) as f64 / (levels - 1) as f64),
                None => at(rng.uniform()),
            });
            rest /= levels.unwrap_or(1);
        }
        normalize(&mut point);
        points.push(point);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates a policy with the given long-run averages at weights in units, with noise and episodes of 50 steps.
    fn evaluated(
        (scales, objective, num_envs): (&[f64], bool, usize),
        noise: f64,
        averages: impl Fn(&[f64]) -> Vec<f64>,
    ) -> FrontEvaluator {
        let mut evaluator = FrontEvaluator::new(scales, objective, num_envs, 20_000 / num_envs, 1);
        let (mut rewards, mut rng) = (BatchMatrix::zeros(scales.len(), num_envs), Rng::new(2));
        let mut last = vec![Vec::new(); num_envs];
        let mut t = 0;
        while !evaluator.is_over() {
            for env in 0..num_envs {
                let weights: Vec<f64> = evaluator.weights().column(env).collect();
                let units: Vec<f64> = weights.iter().zip(scales).map(|(w, scale)| w * scale).collect();
                let mut found = averages(&units);
                found.iter_mut().for_each(|r| *r += noise * rng.normal());
                if weights != last[env] {
                    last[env] = weights;
                    // What another weighting leaves behind within an episode.
                    found.iter_mut().for_each(|r| *r += if t % 50 == 0 { 0.0 } else { 1e6 });
                }
                rewards.set_column(env, &found);
            }
            t += 1;
            evaluator.observe(&rewards, &vec![true; num_envs], &vec![t % 50 == 0; num_envs]);
        }
        assert_eq!(t, evaluator.steps());
        evaluator
    }

    /// A front from (1, −1) to (0, 0), on which small multipliers lose objective and gain nothing.
    fn front(w: &[f64]) -> Vec<f64> {
        let lambda = w[1] / w[0].max(1e-9);
        if lambda < 0.1 { vec![0.5, -1.0] } else { vec![1.0 / (1.0 + lambda), -1.0 / (1.0 + lambda).powi(2)] }
    }

    #[test]
    fn every_weighting_is_visited_and_dominated_ones_only_once() {
        for num_envs in [1, 4] {
            let library = evaluated((&[2.0, 0.5], true, num_envs), 0.3, front).library();
            assert_eq!(library.entries.len(), 2 + LEVELS);
            let dominated = |entry: &&LibraryEntry| 0.5 * entry.weights[1] < 0.09 * 2.0 * entry.weights[0];
            let steps = |dominated: bool, entries: Vec<&LibraryEntry>| -> f64 {
                assert!(entries.len() > 3 || !dominated);
                entries.iter().map(|entry| entry.steps as f64).sum::<f64>() / entries.len() as f64
            };
            let (worse, better): (Vec<_>, Vec<_>) = library.entries.iter().partition(dominated);
            let (worse, better) = (steps(true, worse), steps(false, better));
            assert!(better > 1.5 * worse, "{better} and {worse} steps");
            for LibraryEntry { weights, values, errors, .. } in &library.entries {
                let expected = front(&[2.0 * weights[0], 0.5 * weights[1]]);
                let near = values
                    .iter()
                    .zip(&expected)
                    .zip(errors)
                    .all(|((v, e), error)| (v - e).abs() < 4.0 * error);
                assert!(
                    near && errors.iter().all(|error| *error < 0.05),
                    "{values:?} {expected:?} {errors:?}"
                );
            }
        }
    }

    #[test]
    fn values_without_noise_are_exact() {
        let library = evaluated((&[1.0, 1.0, 1.0], true, 1), 0.0, <[f64]>::to_vec).library();
        assert_eq!(library.entries.len(), 3 + 25);
        for LibraryEntry { weights, values, .. } in &library.entries {
            assert!(weights.iter().zip(values).all(|(w, v)| (w - v).abs() < 1e-9), "{weights:?} {values:?}");
        }
    }

    #[test]
    fn grids_hold_the_corners_and_stay_small() {
        let mut rng = Rng::new(1);
        for (n, points) in [(1, 1), (2, 13), (3, 28), (4, 4 + 8), (5, 5 + 16), (6, 6 + 25)] {
            let grid = multiplier_grid(n, &mut rng);
            assert_eq!(grid.len(), points, "{n}");
            assert!(grid.iter().all(|w| w.len() == n && (w.iter().sum::<f64>() - 1.0).abs() < 1e-12));
            assert!((0..n).all(|i| grid[i][i] == 1.0));
        }
        // Without an objective the first reward has no weight.
        let library = evaluated((&[1.0, 2.0], false, 1), 0.0, <[f64]>::to_vec).library();
        assert_eq!(library.entries.len(), 1);
        assert_eq!(library.entries[0].weights, [0.0, 0.5]);
    }
}
