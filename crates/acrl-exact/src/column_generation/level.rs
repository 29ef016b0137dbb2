//! Multipliers to price next, by the level method (Lemaréchal, Nemirovskii & Nesterov 1995).
//!
//! The columns give a cutting-plane model of the dual function from below,
//! max_k V₀ᵏ + Σ λ_i (Vᵢᵏ − c_i). Its minimiser, the multipliers of the master program, is unstable
//! while there are few columns: where the dual function is nearly smooth, as in models with many
//! states, most of these jumps are wasted. So the next λ is the projection of the best one so far onto
//! the level set of the model, part of the way down to its minimum.

use acrl::mixture::Mixture;
use acrl::{Error, Multipliers};

use crate::FiniteTask;
use crate::pricing::Column;
use crate::tolerances::{LEVEL_MISS, LEVEL_ROUNDING};
use crate::tuning::PROJECTION_PASSES;
use crate::vector::dot;

/// Multipliers tried so far, each in units of its reward's range.
#[derive(Default)]
pub(crate) struct LevelMethod {
    tried: Vec<Vec<f64>>,
}

/// Affine minorant of the dual function: V₀ of a column, and its V_i − c_i in units of the reward's
/// range.
struct Cut {
    objective: f64,
    slacks: Vec<f64>,
}

impl Cut {
    fn at(&self, point: &[f64]) -> f64 {
        self.objective + dot(&self.slacks, point)
    }
}

impl LevelMethod {
    /// Next multipliers, leaving `share` of the descent from the best ones so far to the optimum of the
    /// master program.
    pub(crate) fn next(
        &mut self,
        task: &FiniteTask<'_>,
        columns: &[Column],
        best: &Mixture,
        share: f64,
    ) -> Result<Multipliers, Error> {
        let (scales, bounds) = (task.scales(), task.bounds());
        let cut = |column: &Column| {
            let slacks = column.values[1..].iter().zip(bounds).zip(scales).map(|((v, c), r)| (v - c) / r);
            Cut { objective: column.values[0], slacks: slacks.collect() }
        };
        let cuts: Vec<Cut> = columns.iter().map(cut).collect();
        let minimiser: Vec<f64> = best.multipliers.iter().zip(scales).map(|(l, r)| l * r).collect();
        let point = self.point(&cuts, &minimiser, best.value, share);
        self.tried.push(point.clone());
        Multipliers::new(point.iter().zip(scales).map(|(x, r)| x / r).collect())
    }

    /// Projection of the best point so far onto the level set; the minimiser of the model, where it is
    /// `least`, if that brings nothing.
    fn point(&self, cuts: &[Cut], minimiser: &[f64], least: f64, share: f64) -> Vec<f64> {
        let model = |point: &[f64]| cuts.iter().map(|cut| cut.at(point)).fold(f64::NEG_INFINITY, f64::max);
        let tried = self.tried.iter().map(|point| (model(point), point));
        let Some((most, centre)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return minimiser.to_vec();
        };
        let descent = most - least;
        if descent <= LEVEL_ROUNDING * least.abs() {
            return minimiser.to_vec();
        }
        let point = project(centre, cuts, least + share * descent, LEVEL_MISS * share * descent);
        // The projection may not have converged.
        if model(&point) <= least + 0.5 * (1.0 + share) * descent { point } else { minimiser.to_vec() }
    }
}

/// Point λ ≥ 0 closest to `centre` at which no cut exceeds the level by more than the tolerance, by the
/// method of Hildreth (1957): coordinate ascent on the dual.
fn project(centre: &[f64], cuts: &[Cut], level: f64, tolerance: f64) -> Vec<f64> {
    let mut point = centre.to_vec();
    let norms: Vec<f64> = cuts.iter().map(|cut| dot(&cut.slacks, &cut.slacks)).collect();
    let mut cut_duals = vec![0.0; cuts.len()];
    let mut sign_duals = vec![0.0; centre.len()];
    for _ in 0..PROJECTION_PASSES {
        let mut most: f64 = 0.0;
        for ((cut, norm), dual) in
            cuts.iter().zip(&norms).zip(&mut cut_duals).filter(|((_, norm), _)| **norm > 0.0)
        {
            let change = ((cut.at(&point) - level) / norm).max(-*dual);
            if change != 0.0 {
                *dual += change;
                point.iter_mut().zip(&cut.slacks).for_each(|(x, slack)| *x -= change * slack);
                most = most.max(change.abs() * norm);
            }
        }
        for (x, dual) in point.iter_mut().zip(&mut sign_duals) {
            let change = (-*x).max(-*dual);
            *dual += change;
            *x += change;
        }
        if most <= tolerance {
            break;
        }
    }
    point.iter_mut().for_each(|x| *x = x.max(0.0));
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(objective: f64, slacks: [f64; 2]) -> Cut {
        Cut { objective, slacks: slacks.to_vec() }
    }

    #[test]
    fn projection_is_the_closest_point_of_the_level_set() {
        // One cut: a half plane. 3 + x + y ≤ 4 from (2, 2): back along (1, 1).
        let point = project(&[2.0, 2.0], &[cut(3.0, [1.0, 1.0])], 4.0, 1e-12);
        assert!((point[0] - 0.5).abs() < 1e-9 && (point[1] - 0.5).abs() < 1e-9, "{point:?}");
        // Two cuts: their corner x ≤ 1, y ≤ 1.
        let both = [cut(0.0, [1.0, 0.0]), cut(0.0, [0.0, 1.0])];
        let point = project(&[3.0, 2.0], &both, 1.0, 1e-12);
        assert!((point[0] - 1.0).abs() < 1e-9 && (point[1] - 1.0).abs() < 1e-9, "{point:?}");
        // Multipliers are not negative: x + 2y ≤ 1 from (0, 1).
        let point = project(&[0.0, 1.0], &[cut(0.0, [1.0, 2.0])], 1.0, 1e-12);
        assert!(point[0].abs() < 1e-9 && (point[1] - 0.5).abs() < 1e-9, "{point:?}");
        // A point of the level set is its own projection.
        assert_eq!(project(&[0.2, 0.3], &both, 1.0, 1e-12), [0.2, 0.3]);
    }

    #[test]
    fn next_point_is_a_projection_of_the_best_point_so_far() {
        // max(−x, x − 4): least −2 at 2.
        let cuts = [Cut { objective: 0.0, slacks: vec![-1.0] }, Cut { objective: -4.0, slacks: vec![1.0] }];
        let mut level = LevelMethod::default();
        assert_eq!(level.point(&cuts, &[2.0], -2.0, 0.5), [2.0], "no point was tried yet");
        level.tried.push(vec![9.0]);
        level.tried.push(vec![0.0]);
        // From 0, where the model is 0, half of the descent to −2.
        assert!((level.point(&cuts, &[2.0], -2.0, 0.5)[0] - 1.0).abs() < 1e-9);
        level.tried.push(vec![2.0]);
        assert_eq!(level.point(&cuts, &[2.0], -2.0, 0.5), [2.0], "no descent is left");
    }
}
