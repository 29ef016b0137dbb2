//! Multipliers to try next, by the level method.
//!
//! The columns known so far give a model of the dual function, max_k V₀ᵏ + Σ λ_i (Vᵢᵏ − c_i), that lies below it. Its minimiser, which the
//! master program knows, jumps about as long as there are few columns: where the dual function has hardly a corner, as in models with
//! many states, most of these jumps are wasted. So the next λ is the point closest to the best one so far at which the
//! model has come down part of the way to its minimum. (Lemaréchal, Nemirovskii and Nesterov, 1995.)

/// Passes of the projection over all columns, at most.
const PASSES: usize = 500;
/// The projection may miss the level by this share of the way down.
const MISS: f64 = 1e-3;
/// Below this share of the values themselves a way down is rounding.
const ROUNDING: f64 = 1e-9;

/// The multipliers tried so far, each in units of its reward's range.
#[derive(Default)]
pub(crate) struct Level {
    tried: Vec<Vec<f64>>,
}

/// What one column contributes to the model: V₀, and V_i − c_i in units of the reward's range.
pub(crate) struct Cut {
    pub(crate) objective: f64,
    pub(crate) slacks: Vec<f64>,
}

impl Cut {
    fn at(&self, point: &[f64]) -> f64 {
        self.objective + dot(&self.slacks, point)
    }
}

impl Level {
    /// Notes what is tried.
    pub(crate) fn note(&mut self, point: Vec<f64>) {
        self.tried.push(point);
    }

    /// The next point: `share` of the way down from the best one so far is left. The model's minimum, `least`, is at `minimiser`,
    /// which is returned where there is nothing better.
    pub(crate) fn next(&self, cuts: &[Cut], minimiser: &[f64], least: f64, share: f64) -> Vec<f64> {
        let model = |point: &[f64]| cuts.iter().map(|cut| cut.at(point)).fold(f64::NEG_INFINITY, f64::max);
        let tried = self.tried.iter().map(|point| (model(point), point));
        let Some((most, centre)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return minimiser.to_vec();
        };
        let way = most - least;
        if way <= ROUNDING * least.abs() {
            return minimiser.to_vec();
        }
        let point = project(centre, cuts, least + share * way, MISS * share * way);
        // The projection may not have come to its end.
        if model(&point) <= least + 0.5 * (1.0 + share) * way { point } else { minimiser.to_vec() }
    }
}

/// The point λ ≥ 0 closest to `centre` at which no cut is above the level, or above it by the tolerance: by Hildreth's method, a
/// coordinate ascent on the dual.
fn project(centre: &[f64], cuts: &[Cut], level: f64, tolerance: f64) -> Vec<f64> {
    let mut point = centre.to_vec();
    let norms: Vec<f64> = cuts.iter().map(|cut| dot(&cut.slacks, &cut.slacks)).collect();
    let mut pushes = vec![0.0; cuts.len()];
    let mut raises = vec![0.0; centre.len()];
    for _ in 0..PASSES {
        let mut most: f64 = 0.0;
        for ((cut, norm), push) in
            cuts.iter().zip(&norms).zip(&mut pushes).filter(|((_, norm), _)| **norm > 0.0)
        {
            let change = ((cut.at(&point) - level) / norm).max(-*push);
            if change != 0.0 {
                *push += change;
                point.iter_mut().zip(&cut.slacks).for_each(|(x, slack)| *x -= change * slack);
                most = most.max(change.abs() * norm);
            }
        }
        for (x, raise) in point.iter_mut().zip(&mut raises) {
            let change = (-*x).max(-*raise);
            *raise += change;
            *x += change;
        }
        if most <= tolerance {
            break;
        }
    }
    point.iter_mut().for_each(|x| *x = x.max(0.0));
    point
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(objective: f64, slacks: [f64; 2]) -> Cut {
        Cut { objective, slacks: slacks.to_vec() }
    }

    #[test]
    fn a_projection_is_the_closest_point_below_the_level() {
        // One cut: a half plane. 3 + x + y ≤ 4 from (2, 2): back along (1, 1).
        let point = project(&[2.0, 2.0], &[cut(3.0, [1.0, 1.0])], 4.0, 1e-12);
        assert!((point[0] - 0.5).abs() < 1e-9 && (point[1] - 0.5).abs() < 1e-9, "{point:?}");
        // Two cuts: into the corner x ≤ 1, y ≤ 1.
        let both = [cut(0.0, [1.0, 0.0]), cut(0.0, [0.0, 1.0])];
        let point = project(&[3.0, 2.0], &both, 1.0, 1e-12);
        assert!((point[0] - 1.0).abs() < 1e-9 && (point[1] - 1.0).abs() < 1e-9, "{point:?}");
        // Below 0 a multiplier cannot go: x + 2y ≤ 1 from (0, 1).
        let point = project(&[0.0, 1.0], &[cut(0.0, [1.0, 2.0])], 1.0, 1e-12);
        assert!(point[0].abs() < 1e-9 && (point[1] - 0.5).abs() < 1e-9, "{point:?}");
        // Where all is well nothing moves.
        assert_eq!(project(&[0.2, 0.3], &both, 1.0, 1e-12), [0.2, 0.3]);
    }

    #[test]
    fn the_next_point_is_on_the_way_from_the_best_one_so_far() {
        // max(−x, x − 4): least −2 at 2.
        let cuts = [Cut { objective: 0.0, slacks: vec![-1.0] }, Cut { objective: -4.0, slacks: vec![1.0] }];
        let mut level = Level::default();
        assert_eq!(level.next(&cuts, &[2.0], -2.0, 0.5), [2.0], "nothing was tried yet");
        level.note(vec![9.0]);
        level.note(vec![0.0]);
        // From 0, where the model is 0, half the way down to −2.
        assert!((level.next(&cuts, &[2.0], -2.0, 0.5)[0] - 1.0).abs() < 1e-9);
        level.note(vec![2.0]);
        assert_eq!(level.next(&cuts, &[2.0], -2.0, 0.5), [2.0], "there is no way down");
    }
}
