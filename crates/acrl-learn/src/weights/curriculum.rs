//! Curriculum of weights and states.
//!
//! With [`WeightSampler::DualTrajectory`] half of the environments run *dual dynamics while they train*, with random
//! requirements, and so see the weights that an execution will ask for, in the states in which it will ask for them. An
//! eighth keep their weights for long, and see their long-run effect. The others draw fresh weights and start anew with
//! every rollout, mostly from a *reset buffer*: states from which a reward was recently obtained (cf. Go-Explore, Ecoffet et
//! al. 2019), so that sparse rewards keep appearing in the batch.

use acrl::{BatchMatrix, Error, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::{WeightSampler, simplex};
use crate::tuning::curriculum::{
    AROUND_GIVEN, BUFFER_SIZE, DOMINATED, EXTERNAL_DOMINATED, FROM_BUFFER, GAIN, HIGH, LOOK_BACK, NEW_BOUNDS,
    NEW_EXTERNAL_BOUNDS, NEW_EXTERNAL_WEIGHTS, NEW_WEIGHTS, PATIENCE, PROGRESS_RATE, PROGRESS_WEIGHT,
    RANGE_DECAY, REPLACE, RESTARTS, SINGLE_REWARD, STALLED, WITHOUT_OBJECTIVE,
};

/// The weights of all environments, and the statistics by which they are chosen. Rewards are in units of their ranges, and
/// weights add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WeightCurriculum {
    sampler: WeightSampler,
    objective: bool,
    /// λ of the environments that run dual dynamics.
    multipliers: BatchMatrix,
    /// Bounds c of their requirements.
    bounds: BatchMatrix,
    /// w₀ … w_m of every environment.
    weights: BatchMatrix,
    /// Bounds of the user's requirements.
    given: Vec<f64>,
    /// Range of the averages over rollouts, by reward.
    ranges: Vec<[f64; 2]>,
    /// States from which a reward was soon high, by reward.
    reset_buffer: Vec<Vec<Vec<f64>>>,
    /// Share of a reward's range that environments attain when it has most of the weight, by reward.
    progress: Vec<f64>,
    /// Number of consecutive rollouts without the dominant reward, by environment.
    stalled_rollouts: Vec<u32>,
}

impl WeightCurriculum {
    /// Draws weights for every environment.
    pub(crate) fn new(task: &VecTask<'_>, sampler: WeightSampler, num_envs: usize, rngs: &mut [Rng]) -> Self {
        let m = task.specification().requirements().len();
        let named = task.environment();
        // The range of averages is that of the reward at first, and narrows by what is observed.
        let scoring = task.specification().bind(named.reward_names()).into_iter();
        let terms: Vec<_> = scoring.flat_map(|s| s.terms().collect::<Vec<_>>()).collect();
        let ranges = terms.iter().zip(task.scales()).map(|(term, scale)| match term {
            Some((row, sign)) => {
                let range = named.reward_ranges()[*row];
                let (a, b) = (sign * range.low / scale, sign * range.high / scale);
                [a.min(b), a.max(b)]
            }
            None => [0.0, 0.0],
        });
        let bounds = task.specification().bounds();
        let given = bounds.iter().zip(&task.scales()[1..]).map(|(c, scale)| c / scale).collect();
        let mut curriculum = Self {
            sampler,
            objective: task.has_objective(),
            multipliers: BatchMatrix::zeros(m, num_envs),
            bounds: BatchMatrix::zeros(m, num_envs),
            weights: BatchMatrix::zeros(m + 1, num_envs),
            given,
            ranges: ranges.collect(),
            reset_buffer: vec![Vec::new(); m + 1],
            progress: vec![0.0; m + 1],
            stalled_rollouts: vec![0; num_envs],
        };
        for (env, rng) in rngs.iter_mut().enumerate() {
            if curriculum.is_dual(env) {
                curriculum.draw_bounds(env, rng);
            } else {
                curriculum.draw_weights(env, None, rng);
            }
        }
        curriculum
    }

    /// w₀ … w_m of every environment.
    pub(crate) fn weights(&self) -> &BatchMatrix {
        &self.weights
    }

    /// Whether an environment runs dual dynamics: one half of them.
    fn is_dual(&self, env: usize) -> bool {
        self.sampler == WeightSampler::DualTrajectory && env < self.stalled_rollouts.len() / 2
    }

    /// Whether an environment keeps its weights: one eighth of them.
    fn keeps_weights(&self, env: usize) -> bool {
        let num_envs = self.stalled_rollouts.len();
        self.sampler == WeightSampler::DualTrajectory && env >= num_envs - num_envs / 8
    }

    /// Stores states from which a reward was high a little later, given the states and rewards at each action of a
    /// rollout.
    pub(crate) fn fill_reset_buffer(
        &mut self,
        states: &[BatchMatrix],
        rewards: &[BatchMatrix],
        rng: &mut Rng,
    ) {
        for (i, buffer) in self.reset_buffer.iter_mut().enumerate() {
            let [low, high] = self.ranges[i];
            let threshold = low + HIGH * (high - low);
            let look_back = (LOOK_BACK * self.progress[i]) as usize;
            if high <= low {
                continue;
            }
            for (t, rewards) in rewards.iter().enumerate() {
                for (env, _) in rewards.row(i).iter().enumerate().filter(|(_, r)| **r > threshold) {
                    let full = buffer.len() == BUFFER_SIZE;
                    if full && rng.uniform() >= REPLACE {
                        continue;
                    }
                    let before = t - rng.index(t.min(look_back) + 1);
                    let state = states[before].column(env).collect();
                    if full {
                        buffer[rng.index(BUFFER_SIZE)] = state;
                    } else {
                        buffer.push(state);
                    }
                }
            }
        }
    }

    /// Prepares the next rollout, after one of `steps` steps with these mean rewards: updates multipliers, draws weights, and
    /// resets environments.
    pub(crate) fn after_rollout(
        &mut self,
        task: &VecTask<'_>,
        steps: usize,
        means: &BatchMatrix,
        state: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        self.update_ranges(means);
        self.update_progress(means);
        for (env, rng) in rngs.iter_mut().enumerate() {
            let dominant = self.dominant(env);
            let [low, high] = self.ranges[dominant];
            let stalled = means.at(dominant, env) <= low + STALLED * (high - low);
            self.stalled_rollouts[env] = if stalled { self.stalled_rollouts[env] + 1 } else { 0 };
            if self.is_dual(env) {
                self.move_multipliers(env, steps, means);
                if rng.uniform() < NEW_BOUNDS {
                    self.draw_bounds(env, rng);
                }
                if self.stalled_rollouts[env] >= PATIENCE && self.restore(dominant, state, env, rng) {
                    self.stalled_rollouts[env] = 0;
                }
            } else if !self.keeps_weights(env) {
                self.start(task, state, env, rng)?;
            } else if rng.uniform() < NEW_WEIGHTS {
                // Without a reset, as in an execution; half of the time all weight on one reward.
                let corner = self.draw_corner(rng);
                self.draw_weights(env, None, rng);
                if rng.uniform() < 0.5 {
                    self.set_corner(env, corner);
                }
            }
        }
        Ok(())
    }

    /// [`after_rollout`](Self::after_rollout) for environments that cannot be reset to an arbitrary state, when this share of
    /// the training is done. Marks those that should be reset.
    ///
    /// At first each environment has all weight on one reward, so that no reward is sacrificed for another before it was
    /// ever obtained.
    pub(crate) fn after_external_rollout(
        &mut self,
        steps: usize,
        done: f64,
        means: &BatchMatrix,
        rngs: &mut [Rng],
        restarts: &mut [bool],
    ) {
        self.update_ranges(means);
        self.update_progress(means);
        for (env, rng) in rngs.iter_mut().enumerate() {
            restarts[env] = false;
            if rng.uniform() < 1.0 - done / SINGLE_REWARD {
                let corner = self.draw_corner(rng);
                self.set_corner(env, corner);
                restarts[env] = rng.uniform() < RESTARTS;
            } else if self.is_dual(env) {
                self.move_multipliers(env, steps, means);
                if rng.uniform() < NEW_EXTERNAL_BOUNDS {
                    self.draw_bounds(env, rng);
                }
            } else if !self.keeps_weights(env) || rng.uniform() < NEW_EXTERNAL_WEIGHTS {
                let dominated = rng.uniform() < EXTERNAL_DOMINATED;
                let reward = self.sample_underperforming(rng);
                self.draw_weights(env, dominated.then_some(reward), rng);
                restarts[env] = rng.uniform() < RESTARTS;
            }
        }
    }

    /// Replaces the ranges of averages, in units of R, and draws new requirements.
    pub(crate) fn set_ranges(&mut self, ranges: Vec<[f64; 2]>, rngs: &mut [Rng]) {
        self.ranges = ranges;
        for (env, rng) in rngs.iter_mut().enumerate() {
            if self.is_dual(env) {
                self.draw_bounds(env, rng);
            }
        }
    }

    /// Range of the averages over rollouts, by reward.
    pub(crate) fn ranges(&self) -> &[[f64; 2]] {
        &self.ranges
    }

    /// Changes the scales R₀ … R_m: rewards in the old units times the factors are rewards in the new ones.
    pub(crate) fn rescale(&mut self, factors: &[f64]) {
        for (i, factor) in factors.iter().enumerate() {
            self.ranges[i].iter_mut().for_each(|x| *x *= factor);
            if i > 0 {
                self.given[i - 1] *= factor;
                self.bounds.row_mut(i - 1).iter_mut().for_each(|c| *c *= factor);
            }
        }
    }

    /// Resets an environment and draws fresh weights.
    fn start(
        &mut self,
        task: &VecTask<'_>,
        state: &mut BatchMatrix,
        env: usize,
        rng: &mut Rng,
    ) -> Result<(), Error> {
        let reward = self.sample_underperforming(rng);
        task.environment().reset(state, env, rng)?;
        let from_buffer = rng.uniform() < FROM_BUFFER && self.restore(reward, state, env, rng);
        let dominated = from_buffer && rng.uniform() < DOMINATED;
        self.draw_weights(env, dominated.then_some(reward), rng);
        Ok(())
    }

    /// Samples a reward with probability ∝ (1.1 − progress)⁴.
    fn sample_underperforming(&self, rng: &mut Rng) -> usize {
        let first = usize::from(!self.objective);
        let need = |i: usize| (1.1 - self.progress[i]).powi(4);
        let total: f64 = (first..self.progress.len()).map(need).sum();
        let shares: Vec<f64> = (first..self.progress.len()).map(|i| need(i) / total).collect();
        first + rng.weighted(&shares)
    }

    /// Resets an environment to a state of a reward's reset buffer, unless that is empty.
    fn restore(&self, reward: usize, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> bool {
        let buffer = &self.reset_buffer[reward];
        if buffer.is_empty() {
            return false;
        }
        state.set_column(env, &buffer[rng.index(buffer.len())]);
        true
    }

    /// Dual update λ ← \[λ + α Σ (c − r)\]₊.
    fn move_multipliers(&mut self, env: usize, steps: usize, means: &BatchMatrix) {
        for i in 0..self.multipliers.len() {
            let deficit = self.bounds.at(i, env) - means.at(i + 1, env);
            let moved = self.multipliers.at(i, env) + GAIN * steps as f64 * deficit;
            self.multipliers.set(i, env, moved.max(0.0));
        }
        self.set_weights_by_multipliers(env);
    }

    /// Sets w = (1, λ)/(1 + Σλ), or λ/Σλ without an objective.
    fn set_weights_by_multipliers(&mut self, env: usize) {
        let first = if self.objective { 1.0 } else { 0.0 };
        let total = first + self.multipliers.column(env).sum::<f64>();
        let m = self.multipliers.len();
        self.weights.set(0, env, if total > 0.0 { first / total } else { 0.0 });
        for i in 0..m {
            let l = self.multipliers.at(i, env);
            self.weights.set(i + 1, env, if total > 0.0 { l / total } else { 1.0 / m as f64 });
        }
    }

    /// Draws requirements, either around the user's or as shares of the ranges of averages that add up to 0.3 to 1, and
    /// multipliers of any size.
    fn draw_bounds(&mut self, env: usize, rng: &mut Rng) {
        let m = self.multipliers.len();
        let around = rng.uniform() < AROUND_GIVEN;
        let (mut shares, total) = (vec![0.0; m], 0.3 + 0.7 * rng.uniform());
        simplex(&mut shares, rng);
        for i in 0..m {
            let [low, high] = self.ranges[i + 1];
            let c = if around {
                self.given[i] + 0.1 * (high - low) * (2.0 * rng.uniform() - 1.0)
            } else {
                low + total * shares[i] * (high - low)
            };
            self.bounds.set(i, env, c);
        }
        // From 1/20 to 20 on average, for any ratio between the values of objective and requirements.
        let size = m as f64 * (6.0 * rng.uniform() - 3.0).exp();
        simplex(&mut shares, rng);
        for i in 0..m {
            self.multipliers.set(i, env, size * shares[i]);
        }
        self.set_weights_by_multipliers(env);
    }

    /// Draws weights, dominated by one reward if that is given.
    fn draw_weights(&mut self, env: usize, dominant: Option<usize>, rng: &mut Rng) {
        let without = dominant != Some(0) && rng.uniform() < WITHOUT_OBJECTIVE;
        let mut w = vec![0.0; self.weights.len()];
        self.sampler.draw(self.objective && !without, &mut w, rng);
        if let Some(reward) = dominant {
            let share = 0.6 + 0.4 * rng.uniform();
            w.iter_mut().for_each(|w| *w *= 1.0 - share);
            w[reward] += share;
        }
        self.weights.set_column(env, &w);
    }

    /// A reward with a weight, each with the same probability.
    fn draw_corner(&self, rng: &mut Rng) -> usize {
        let first = usize::from(!self.objective);
        first + rng.index(self.weights.len() - first)
    }

    /// Puts all weight on one reward.
    fn set_corner(&mut self, env: usize, corner: usize) {
        (0..self.weights.len()).for_each(|i| self.weights.set(i, env, f64::from(i == corner)));
    }

    /// The reward with the largest weight.
    pub(crate) fn dominant(&self, env: usize) -> usize {
        let weights = self.weights.column(env).enumerate();
        weights.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i)
    }

    /// Updates the progress on each reward by the environments with most of their weight on it.
    fn update_progress(&mut self, means: &BatchMatrix) {
        for i in 0..self.progress.len() {
            let [low, high] = self.ranges[i];
            let envs = (0..means.num_envs()).filter(|&env| self.weights.at(i, env) > PROGRESS_WEIGHT);
            let (count, sum) = envs.fold((0.0, 0.0), |(n, sum), env| (n + 1.0, sum + means.at(i, env)));
            if count > 0.0 && high > low {
                let share = ((sum / count - low) / (high - low)).clamp(0.0, 1.0);
                self.progress[i] += PROGRESS_RATE * (share - self.progress[i]);
            }
        }
    }

    /// Progress on each reward, from 0 to 1.
    pub(crate) fn progress(&self) -> &[f64] {
        &self.progress
    }

    /// Updates the ranges of averages between their 2 % quantiles, which widen at once and narrow slowly.
    fn update_ranges(&mut self, means: &BatchMatrix) {
        for (i, range) in self.ranges.iter_mut().enumerate() {
            let mut sorted = means.row(i).to_vec();
            sorted.sort_by(f64::total_cmp);
            let tail = sorted.len() / 50;
            let (low, high) = (sorted[tail], sorted[sorted.len() - 1 - tail]);
            range[0] = low.min(range[0] + RANGE_DECAY * (low - range[0]));
            range[1] = high.max(range[1] + RANGE_DECAY * (high - range[1]));
        }
    }
}
