//! Sample of the reward vectors (r₁ … r_m) that occurred in training.

use crate::tuning::reward_sample::{ALL, DRAWN};
use acrl::{BatchMatrix, Rng};
use serde::{Deserialize, Serialize};

/// Observed reward vectors or, if there are too many, the extreme ones in many directions.
///
/// No policy's averages lie outside their convex hull. So requirements that no mixture of them meets are infeasible, provided
/// that training has visited all states.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardSample {
    vectors: Vec<Vec<f64>>,
    /// Whether only extreme vectors are stored, one for each direction.
    furthest: bool,
}

impl RewardSample {
    /// The vectors, for a diagnosis.
    pub fn vectors(&self) -> &[Vec<f64>] {
        &self.vectors
    }

    /// Adds the rewards r₀ … r_m of each environment.
    pub(crate) fn visit(&mut self, rewards: &BatchMatrix) {
        (0..rewards.num_envs()).for_each(|env| self.visit_env(rewards, env));
    }

    fn visit_env(&mut self, rewards: &BatchMatrix, env: usize) {
        let known = |v: &Vec<f64>| v.iter().enumerate().all(|(i, r)| *r == rewards.at(i + 1, env));
        if self.furthest || !self.vectors.iter().any(known) {
            self.add(rewards.column(env).skip(1).collect());
        }
    }

    /// Adds the rewards of environments that made a step. Unless it is `thorough`, only vectors that are extreme along an axis
    /// are added once there are many, which is cheap and misses no rare reward.
    pub(crate) fn glance(&mut self, rewards: &BatchMatrix, valid: &[bool], thorough: bool) {
        for env in (0..rewards.num_envs()).filter(|env| valid[*env]) {
            if thorough || !self.furthest {
                self.visit_env(rewards, env);
                continue;
            }
            for i in 0..rewards.len() - 1 {
                if rewards.at(i + 1, env) > self.vectors[i][i] {
                    self.vectors[i] = rewards.column(env).skip(1).collect();
                }
            }
        }
    }

    /// Adds r₁ … r_m of one step.
    pub fn see(&mut self, rewards: &[f64]) {
        if self.furthest {
            self.keep_extreme(rewards);
        } else if !self.vectors.iter().any(|v| v == rewards) {
            self.add(rewards.to_vec());
        }
    }

    /// Adds a vector that is not among them.
    fn add(&mut self, rewards: Vec<f64>) {
        if self.furthest {
            return self.keep_extreme(&rewards);
        }
        self.vectors.push(rewards);
        if self.vectors.len() > ALL {
            self.reduce();
        }
    }

    /// Reduces the sample to the extreme vector in each direction.
    fn reduce(&mut self) {
        let vectors = std::mem::take(&mut self.vectors);
        self.furthest = true;
        let m = vectors.first().map_or(0, Vec::len);
        self.vectors = vec![vectors[0].clone(); m + DRAWN];
        vectors.iter().for_each(|v| self.keep_extreme(v));
    }

    /// Replaces the vectors that it exceeds in their direction.
    fn keep_extreme(&mut self, v: &[f64]) {
        let m = v.len();
        let mut rng = Rng::new(0);
        for (k, kept) in self.vectors.iter_mut().enumerate() {
            let mut ahead = 0.0;
            for i in 0..m {
                let direction = if k < m { f64::from(k == i) } else { rng.uniform() };
                ahead += direction * (v[i] - kept[i]);
            }
            if ahead > 0.0 {
                kept.copy_from_slice(v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acrl::mixture::game_value;

    #[test]
    fn rare_rewards_are_never_missed() {
        let (mut seen, mut rng) = (RewardSample::default(), Rng::new(2));
        let mut rewards = BatchMatrix::zeros(3, 2);
        rewards.set_column(1, &[0.0, 9.0, 9.0]); // no step
        for step in 0..1_000 {
            rewards.set_column(0, &[0.0, rng.uniform(), f64::from(step == 777)]);
            seen.glance(&rewards, &[true, false], step % 8 == 0);
        }
        assert!(seen.furthest);
        assert_eq!(seen.vectors.iter().filter(|v| v[1] == 1.0).count(), 1);
        assert!(seen.vectors[0][0] > 0.99);
    }

    #[test]
    fn many_vectors_are_reduced_to_extreme_ones() {
        let mut seen = RewardSample::default();
        let mut rewards = BatchMatrix::zeros(3, 2);
        rewards.set_column(0, &[9.0, 1.0, 0.0]);
        rewards.set_column(1, &[9.0, 0.0, 1.0]);
        seen.visit(&rewards);
        seen.visit(&rewards);
        assert_eq!(seen.vectors(), [[1.0, 0.0], [0.0, 1.0]]);
        // A quarter of a disc: the best for both at once is 1/√2 each.
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let angle = 1.57 * rng.uniform();
            rewards.set_column(0, &[9.0, angle.cos(), angle.sin()]);
            seen.visit(&rewards);
        }
        assert!(seen.vectors().len() < 200);
        let mut one_by_one = RewardSample::default();
        for r in [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]] {
            one_by_one.see(&r);
        }
        assert_eq!(one_by_one.vectors(), [[1.0, 0.0], [0.0, 1.0]]);
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let angle = 1.57 * rng.uniform();
            one_by_one.see(&[angle.cos(), angle.sin()]);
        }
        assert_eq!(one_by_one, seen);
        let game = game_value(seen.vectors(), &[0.0, 0.0], &[1.0, 1.0]).unwrap();
        assert!((game.value - 0.5f64.sqrt()).abs() < 1e-3, "{}", game.value);
    }
}
