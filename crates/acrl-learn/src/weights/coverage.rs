//! Coverage of the weight space by a training, to detect executions outside of it.

use crate::tuning::curriculum::SAMPLE;
use acrl::Rng;
use serde::{Deserialize, Serialize};

/// Reservoir sample of the weights of a training, in units of the rewards' ranges, each adding up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    sample: Vec<Vec<f32>>,
    seen: u64,
}

/// Comparison of an execution's weights with those of the training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CoverageReport {
    /// Number of weights that were compared.
    pub compared: usize,
    /// Share of them that are further from every weight of the training than those are from one another.
    pub outside: f64,
}

impl Coverage {
    /// An empty sample.
    pub fn new() -> Self {
        Self { sample: Vec::new(), seen: 0 }
    }

    /// Adds weights; each of them has the same probability to be in the sample.
    pub fn visit(&mut self, weights: impl Iterator<Item = f64>, rng: &mut Rng) {
        self.seen += 1;
        let place = rng.index(self.seen.min(usize::MAX as u64) as usize);
        if self.sample.len() < SAMPLE {
            self.sample.push(weights.map(|w| w as f32).collect());
        } else if place < SAMPLE {
            self.sample[place] = weights.map(|w| w as f32).collect();
        }
    }

    /// Compares an execution's weights with those of the training: outside are those whose nearest neighbour is further than
    /// 1.5 times the 99 % quantile of the nearest-neighbour distances within the sample. With an empty sample none are outside.
    pub fn compare(&self, visited: &[Vec<f32>]) -> CoverageReport {
        let nearest = |w: &[f32], skip: Option<usize>| {
            let others = self.sample.iter().enumerate().filter(|(i, _)| Some(*i) != skip);
            others.map(|(_, other)| distance(w, other)).fold(f32::INFINITY, f32::min)
        };
        let mut apart: Vec<f32> = self.sample.iter().enumerate().map(|(i, w)| nearest(w, Some(i))).collect();
        apart.sort_by(f32::total_cmp);
        let radius = apart.get(apart.len() * 99 / 100).map_or(0.0, |d| 1.5 * d);
        let far = |w: &&Vec<f32>| Some(nearest(w, None)).is_some_and(|d| d > radius && d.is_finite());
        let outside = visited.iter().filter(far).count();
        CoverageReport { compared: visited.len(), outside: outside as f64 / visited.len().max(1) as f64 }
    }
}

impl Default for Coverage {
    fn default() -> Self {
        Self::new()
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_were_not_trained_on_are_outside() {
        let mut rng = Rng::new(1);
        let mut coverage = Coverage::new();
        for _ in 0..5_000 {
            let w = 0.5 * rng.uniform();
            coverage.visit([w, 1.0 - w].into_iter(), &mut rng);
        }
        let visited = |from: f32, to: f32| -> Vec<Vec<f32>> {
            (0..100).map(|i| from + (to - from) * i as f32 / 99.0).map(|w| vec![w, 1.0 - w]).collect()
        };
        assert_eq!(coverage.compare(&visited(0.0, 0.5)).outside, 0.0);
        assert!(coverage.compare(&visited(0.6, 1.0)).outside == 1.0);
        let half = coverage.compare(&visited(0.0, 1.0)).outside;
        assert!((0.4..0.6).contains(&half), "{half}");
    }
}
