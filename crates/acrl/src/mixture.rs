//! Mixtures of value vectors: the best feasible one, and the largest slack of the requirements.
//!
//! A policy that switches between behaviours with long-run values v_j, spending a share p_j of its
//! time on each, attains Σ p_j v_j. So attainability is a small linear program
//! over the v_j.

use crate::simplex::maximise;

/// The best mixture that meets the requirements.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// p: nonnegative, adds up to 1, at most m + 1 entries are positive.
    pub weights: Vec<f64>,
    /// Σ p_j v_{0j}.
    pub value: f64,
    /// λ: the price of one unit of each bound.
    pub multipliers: Vec<f64>,
    /// True if the vertex is degenerate, so that the multipliers may not be unique.
    pub degenerate: bool,
}

/// max_p Σ p_j v_{0j} such that Σ p_j v_{ij} ≥ c_i; `None` if no mixture meets the requirements.
///
/// Each vector is V₀, V₁ … V_m.
///
/// ```
/// use acrl::mixture::best_mixture;
/// // Example 1: R₀ ↔ R₁, R₀ ↔ R₂, stay at R₁, stay at R₂.
/// let v = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
/// let best = best_mixture(&v, &[1.0 / 3.0, 1.0 / 3.0]).unwrap();
/// assert!((best.value - 1.0 / 3.0).abs() < 1e-12);
/// assert!(best.multipliers.iter().all(|l| (l - 1.0).abs() < 1e-12));
/// ```
pub fn best_mixture<V: AsRef<[f64]>>(vectors: &[V], bounds: &[f64]) -> Option<Mixture> {
    let (n, m) = (vectors.len(), bounds.len());
    if n == 0 {
        return None;
    }
    let scale = |i: usize, bound: f64| {
        let largest = vectors.iter().map(|v| (v.as_ref()[i] - bound).abs()).fold(0.0, f64::max);
        if largest > 0.0 { largest } else { 1.0 }
    };
    let objective_scale = scale(0, 0.0);
    let scales: Vec<f64> = (0..m).map(|i| scale(i + 1, bounds[i])).collect();
    let mut rows = Vec::with_capacity(m + 1);
    for i in 0..m {
        let mut row: Vec<f64> = vectors.iter().map(|v| (v.as_ref()[i + 1] - bounds[i]) / scales[i]).collect();
        row.extend((0..m).map(|j| if i == j { -1.0 } else { 0.0 }));
        rows.push(row);
    }
    rows.push((0..n + m).map(|j| if j < n { 1.0 } else { 0.0 }).collect());
    let mut cost: Vec<f64> = vectors.iter().map(|v| v.as_ref()[0] / objective_scale).collect();
    cost.resize(n + m, 0.0);
    let mut rhs = vec![0.0; m];
    rhs.push(1.0);
    let vertex = maximise(&cost, &rows, &rhs)?;
    let weights = shares(&vertex.x[..n]);
    let value = weights.iter().zip(vectors).map(|(p, v)| p * v.as_ref()[0]).sum();
    let multipliers = (0..m).map(|i| (-vertex.duals[i]).max(0.0) * objective_scale / scales[i]).collect();
    Some(Mixture { weights, value, multipliers, degenerate: vertex.degenerate })
}

/// A mixture that may fall short of requirements.
#[derive(Debug, Clone, PartialEq)]
pub struct ElasticMixture {
    /// p: nonnegative, adds up to 1.
    pub weights: Vec<f64>,
    /// Σ p_j v_{0j}, less the price of the shortfalls.
    pub value: f64,
}

/// max_p Σ p_j v_{0j} − Σ prices_i (c_i − Σ p_j v_{ij})₊: the weights of a mixture that falls short of requirements
/// only where that is worth more than their prices, or where nothing else is possible (an exact penalty; Nocedal &
/// Wright 2006, ch. 17). Where some mixture meets the requirements, and the prices exceed the multipliers, that is
/// [`best_mixture`].
///
/// ```
/// use acrl::mixture::elastic_mixture;
/// let v = [[1.0, 0.0], [0.0, 0.4]];
/// assert_eq!(elastic_mixture(&v, &[0.5], &[10.0]).unwrap().weights, [0.0, 1.0]);
/// assert_eq!(elastic_mixture(&v, &[0.5], &[1.0]).unwrap().weights, [1.0, 0.0]);
/// ```
///
/// `None` if there is no vector, or a number is not finite.
pub fn elastic_mixture<V: AsRef<[f64]>>(
    vectors: &[V],
    bounds: &[f64],
    prices: &[f64],
) -> Option<ElasticMixture> {
    let (n, m) = (vectors.len(), bounds.len());
    if n == 0 {
        return None;
    }
    let scale = |i: usize, bound: f64| {
        let largest = vectors.iter().map(|v| (v.as_ref()[i] - bound).abs()).fold(0.0, f64::max);
        if largest > 0.0 { largest } else { 1.0 }
    };
    let objective_scale = scale(0, 0.0);
    let mut cost: Vec<f64> = vectors.iter().map(|v| v.as_ref()[0] / objective_scale).collect();
    cost.resize(n + m, 0.0);
    let mut rows = Vec::with_capacity(m + 1);
    for i in 0..m {
        let scale = scale(i + 1, bounds[i]);
        let mut row: Vec<f64> = vectors.iter().map(|v| (v.as_ref()[i + 1] - bounds[i]) / scale).collect();
        row.extend((0..m).map(|j| if i == j { -1.0 } else { 0.0 }));
        row.extend((0..m).map(|j| if i == j { 1.0 } else { 0.0 }));
        rows.push(row);
        cost.push(-prices[i] * scale / objective_scale);
    }
    rows.push((0..n + 2 * m).map(|j| if j < n { 1.0 } else { 0.0 }).collect());
    let mut rhs = vec![0.0; m];
    rhs.push(1.0);
    let vertex = maximise(&cost, &rows, &rhs)?;
    let value = objective_scale * cost.iter().zip(&vertex.x).map(|(c, x)| c * x).sum::<f64>();
    Some(ElasticMixture { weights: shares(&vertex.x[..n]), value })
}

/// Weights that add up to 1 despite rounding.
fn shares(x: &[f64]) -> Vec<f64> {
    let total: f64 = x.iter().sum();
    x.iter().map(|p| p / total).collect()
}

/// The value of the matrix game between a mixture and the worst requirement.
#[derive(Debug, Clone, PartialEq)]
pub struct Game {
    /// max_p min_i (Σ p_j v_j − c)_i / R_i; negative if no mixture meets the requirements.
    pub value: f64,
    /// The best p.
    pub weights: Vec<f64>,
    /// y ≥ 0 with Σ y_i R_i = 1 such that y·(v_j − c) ≤ value for every j: the combination of
    /// requirements that is hardest to meet.
    pub prices: Vec<f64>,
}

/// max_p min_i (Σ p_j v_j − c)_i / R_i over mixtures of the vectors (V₁ … V_m each).
///
/// ```
/// use acrl::mixture::game_value;
/// let game = game_value(&[[1.0, 0.0], [0.0, 1.0]], &[0.55, 0.55], &[1.0, 1.0]).unwrap();
/// assert!((game.value + 0.05).abs() < 1e-12);
/// ```
///
/// `None` if there is no vector or no requirement.
pub fn game_value<V: AsRef<[f64]>>(vectors: &[V], bounds: &[f64], scales: &[f64]) -> Option<Game> {
    let (n, m) = (vectors.len(), bounds.len());
    if n == 0 || m == 0 {
        return None;
    }
    let slack = |j: usize, i: usize| (vectors[j].as_ref()[i] - bounds[i]) / scales[i];
    let all = || (0..n).flat_map(|j| (0..m).map(move |i| slack(j, i)));
    let least = all().fold(f64::INFINITY, f64::min);
    let span = (all().fold(f64::NEG_INFINITY, f64::max) - least).max(f64::MIN_POSITIVE);
    // Slacks shifted and scaled to [0, 1], so that the value is a nonnegative variable t.
    let mut rows = Vec::with_capacity(m + 1);
    for i in 0..m {
        let mut row: Vec<f64> = (0..n).map(|j| (slack(j, i) - least) / span).collect();
        row.push(-1.0);
        row.extend((0..m).map(|k| if i == k { -1.0 } else { 0.0 }));
        rows.push(row);
    }
    rows.push((0..n + 1 + m).map(|j| if j < n { 1.0 } else { 0.0 }).collect());
    let mut cost = vec![0.0; n + 1 + m];
    cost[n] = 1.0;
    let mut rhs = vec![0.0; m];
    rhs.push(1.0);
    let vertex = maximise(&cost, &rows, &rhs)?;
    let weights = shares(&vertex.x[..n]);
    let worst = |i: usize| (0..n).map(|j| weights[j] * slack(j, i)).sum::<f64>();
    let value = (0..m).map(worst).fold(f64::INFINITY, f64::min);
    let prices = (0..m).map(|i| (-vertex.duals[i]).max(0.0) / scales[i]).collect();
    Some(Game { value, weights, prices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_requirements_the_best_vector_wins() {
        let best = best_mixture(&[[1.0], [3.0], [2.0]], &[]).unwrap();
        assert_eq!((best.value, best.weights), (3.0, vec![0.0, 1.0, 0.0]));
        assert!(best_mixture::<Vec<f64>>(&[], &[]).is_none());
        assert!(game_value::<Vec<f64>>(&[], &[], &[]).is_none());
    }

    #[test]
    fn requirements_out_of_reach_have_no_mixture() {
        assert!(best_mixture(&[[1.0, 0.0], [0.0, 0.4]], &[0.5]).is_none());
    }

    proptest! {
        /// Weak and strong duality: the multipliers prove that no vector does better.
        #[test]
        fn the_multipliers_certify_the_mixture(
            vectors in prop::collection::vec(prop::collection::vec(-5.0..5.0f64, 4), 1..12),
            bounds in prop::collection::vec(-4.0..4.0f64, 3),
        ) {
            let game = game_value(
                &vectors.iter().map(|v| v[1..].to_vec()).collect::<Vec<_>>(), &bounds, &[1.0, 2.0, 0.5]
            ).unwrap();
            for v in &vectors {
                let priced: f64 = (0..3).map(|i| game.prices[i] * (v[i + 1] - bounds[i])).sum();
                prop_assert!(priced <= game.value + 1e-8, "{priced} > {}", game.value);
            }
            match best_mixture(&vectors, &bounds) {
                Some(best) => {
                    prop_assert!(game.value > -1e-8);
                    prop_assert!((best.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                    prop_assert!(best.weights.iter().filter(|p| **p > 1e-9).count() <= 4);
                    for i in 0..3 {
                        let v: f64 = best.weights.iter().zip(&vectors).map(|(p, v)| p * v[i + 1]).sum();
                        prop_assert!(v >= bounds[i] - 1e-8);
                    }
                    for v in &vectors {
                        let l: f64 = v[0] + (0..3).map(|i| best.multipliers[i] * (v[i + 1] - bounds[i])).sum::<f64>();
                        prop_assert!(l <= best.value + 1e-7, "{l} > {}", best.value);
                    }
                }
                None => prop_assert!(game.value < 1e-8),
            }
        }
    }
}
