//! Which weights and which states to train on: this decides whether the promise is kept.
//!
//! Half of the environments run *dual dynamics while they train*, with requirements drawn at random, and so see the
//! weights that an executor will ask for, in the states in which it will ask for them. An eighth hold their weights
//! for long, and see where that leads in the end. The others draw fresh weights from the whole simplex and start
//! anew with every segment. So that no reward is
//! neglected because nothing has ever reached it, states in which it was had are kept, and environments are sent there.

use acrl::{BatchMatrix, Error, Rng, VecTask};
use serde::{Deserialize, Serialize};

use crate::WeightSampler;
use crate::weight_sampler::simplex;

/// The weights, and what is remembered in order to choose them. Rewards here are in units of their
/// ranges, and weights add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WeightCurriculum {
    sampler: WeightSampler,
    objective: bool,
    /// λ of the environments that run dual dynamics.
    multipliers: BatchMatrix,
    /// Their requirements c.
    bounds: BatchMatrix,
    /// w₀ … w_m of every environment.
    weights: BatchMatrix,
    /// The user's own requirements.
    given: Vec<f64>,
    /// Where the averages of segments lie, by reward: from the poor to the good.
    ranges: Vec<[f64; 2]>,
    /// States in which a reward was good, or from which it soon was, by reward.
    kept: Vec<Vec<Vec<f64>>>,
    /// The share of a reward's range that environments have when it is what matters most to them, by reward.
    mastered: Vec<f64>,
    /// For how many segments an environment has had nothing of what it is after.
    idle: Vec<u32>,
}

/// The gain of the dual dynamics in training, per step.
const GAIN: f64 = 0.003;
/// The share of fresh starts that begin in a kept state.
const FROM_KEPT: f64 = 0.8;
/// The share of those whose weights are dominated by the reward that is had there.
const DOMINATED: f64 = 0.6;
/// After so many idle segments an environment is moved to a kept state.
const PATIENCE: u32 = 12;
/// The most states kept by reward.
const KEPT: usize = 512;
/// A kept state is up to so many decisions earlier than a reward that is mastered, and less for one that is not: first
/// learn to stay, then to come back.
const EARLIER: f64 = 12.0;
/// The probability that a good state replaces one of those kept, when there are enough.
const REPLACE: f64 = 1.0 / 64.0;
/// The share of fresh weights that ignore the objective. That is where multipliers go that have grown large, and there
/// the requirements must be met whatever they cost.
const IGNORING: f64 = 0.5;
/// The probability that an environment with dual dynamics draws new requirements after a segment.
const NEW_BOUNDS: f64 = 1.0 / 64.0;
/// The probability that an environment that holds its weights draws new ones after a segment.
const NEW_WEIGHTS: f64 = 1.0 / 32.0;
/// The same two where environments cannot be sent to other states, and there are fewer of them with longer segments.
const NEW_LIVE_BOUNDS: f64 = 1.0 / 16.0;
const NEW_LIVE_WEIGHTS: f64 = 1.0 / 8.0;
/// The share of fresh weights there that are dominated by a reward that is mastered less than others.
const LIVE_DOMINATED: f64 = 0.3;
/// The share of the training there in which environments care for one reward alone, less and less.
const ALONE: f64 = 0.25;
/// The share of environments with fresh weights there that start anew.
const RESTARTS: f64 = 0.25;
/// The share of requirements that are drawn around the user's own.
const AROUND_GIVEN: f64 = 0.25;

impl WeightCurriculum {
    /// Draws weights for every environment.
    pub(crate) fn new(task: &VecTask<'_>, sampler: WeightSampler, num_envs: usize, rngs: &mut [Rng]) -> Self {
        let m = task.specification().requirements().len();
        let named = task.environment();
        // A reward's own range is where its averages lie at first; what is seen narrows it down.
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
            kept: vec![Vec::new(); m + 1],
            mastered: vec![0.0; m + 1],
            idle: vec![0; num_envs],
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

    fn is_dual(&self, env: usize) -> bool {
        self.sampler == WeightSampler::Dual && env < self.idle.len() / 2
    }

    fn is_holding(&self, env: usize) -> bool {
        let num_envs = self.idle.len();
        self.sampler == WeightSampler::Dual && env >= num_envs - num_envs / 8
    }

    /// Takes note of where a segment led: keeps states from which a reward was good a little later, so that environments that
    /// start there find it, first from close by and then from further away.
    ///
    /// `states` and `rewards` are those of each decision.
    pub(crate) fn remember(&mut self, states: &[BatchMatrix], rewards: &[BatchMatrix], rng: &mut Rng) {
        for (i, kept) in self.kept.iter_mut().enumerate() {
            let [low, high] = self.ranges[i];
            let good = low + 0.5 * (high - low);
            let earlier = (EARLIER * self.mastered[i]) as usize;
            if high <= low {
                continue;
            }
            for (t, rewards) in rewards.iter().enumerate() {
                for (env, _) in rewards.row(i).iter().enumerate().filter(|(_, r)| **r > good) {
                    let full = kept.len() == KEPT;
                    if full && rng.uniform() >= REPLACE {
                        continue;
                    }
                    let before = t - rng.index(t.min(earlier) + 1);
                    let state = states[before].column(env).collect();
                    if full {
                        kept[rng.index(KEPT)] = state;
                    } else {
                        kept.push(state);
                    }
                }
            }
        }
    }

    /// After a segment of `steps` steps with these mean rewards: moves multipliers, draws weights, and
    /// sends environments to other states where that is due.
    pub(crate) fn after_segment(
        &mut self,
        task: &VecTask<'_>,
        steps: usize,
        means: &BatchMatrix,
        state: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        self.measure(means);
        self.examine(means);
        for (env, rng) in rngs.iter_mut().enumerate() {
            let dominant = self.dominant(env);
            let [low, high] = self.ranges[dominant];
            let nothing = means.at(dominant, env) <= low + 0.02 * (high - low);
            self.idle[env] = if nothing { self.idle[env] + 1 } else { 0 };
            if self.is_dual(env) {
                self.move_multipliers(env, steps, means);
                if rng.uniform() < NEW_BOUNDS {
                    self.draw_bounds(env, rng);
                }
                if self.idle[env] >= PATIENCE && self.restore(dominant, state, env, rng) {
                    self.idle[env] = 0;
                }
            } else if !self.is_holding(env) {
                self.start(task, state, env, rng)?;
            } else if rng.uniform() < NEW_WEIGHTS {
                // From where it is, as in an execution; half of the time all weight on one reward.
                let first = usize::from(!self.objective);
                let corner = first + rng.index(self.weights.len() - first);
                self.draw_weights(env, None, rng);
                if rng.uniform() < 0.5 {
                    (0..self.weights.len()).for_each(|i| self.weights.set(i, env, f64::from(i == corner)));
                }
            }
        }
        Ok(())
    }

    /// The same for environments that cannot be sent to other states: after a segment of `steps` steps in each of them, when
    /// this share of the training is done. Says which of them should start anew.
    ///
    /// At first each environment cares for one reward alone, so that none is given up because of another before it
    /// was ever had.
    pub(crate) fn after_live_segment(
        &mut self,
        steps: usize,
        done: f64,
        means: &BatchMatrix,
        rngs: &mut [Rng],
        restarts: &mut [bool],
    ) {
        self.measure(means);
        self.examine(means);
        for (env, rng) in rngs.iter_mut().enumerate() {
            restarts[env] = false;
            if rng.uniform() < 1.0 - done / ALONE {
                let first = usize::from(!self.objective);
                let corner = first + rng.index(self.weights.len() - first);
                (0..self.weights.len()).for_each(|i| self.weights.set(i, env, f64::from(i == corner)));
                restarts[env] = rng.uniform() < RESTARTS;
            } else if self.is_dual(env) {
                self.move_multipliers(env, steps, means);
                if rng.uniform() < NEW_LIVE_BOUNDS {
                    self.draw_bounds(env, rng);
                }
            } else if !self.is_holding(env) || rng.uniform() < NEW_LIVE_WEIGHTS {
                let dominated = rng.uniform() < LIVE_DOMINATED;
                let reward = self.neglected(rng);
                self.draw_weights(env, dominated.then_some(reward), rng);
                restarts[env] = rng.uniform() < RESTARTS;
            }
        }
    }

    /// Where averages lie, in units of R: what was known before is forgotten, and requirements are drawn anew.
    pub(crate) fn set_ranges(&mut self, ranges: Vec<[f64; 2]>, rngs: &mut [Rng]) {
        self.ranges = ranges;
        for (env, rng) in rngs.iter_mut().enumerate() {
            if self.is_dual(env) {
                self.draw_bounds(env, rng);
            }
        }
    }

    /// Where the averages of segments lie, by reward.
    pub(crate) fn ranges(&self) -> &[[f64; 2]] {
        &self.ranges
    }

    /// Goes over to other units R₀ … R_m: rewards in the old ones times the factors are rewards in the new ones.
    pub(crate) fn rescale(&mut self, factors: &[f64]) {
        for (i, factor) in factors.iter().enumerate() {
            self.ranges[i].iter_mut().for_each(|x| *x *= factor);
            if i > 0 {
                self.given[i - 1] *= factor;
                self.bounds.row_mut(i - 1).iter_mut().for_each(|c| *c *= factor);
            }
        }
    }

    /// A fresh start with fresh weights.
    fn start(
        &mut self,
        task: &VecTask<'_>,
        state: &mut BatchMatrix,
        env: usize,
        rng: &mut Rng,
    ) -> Result<(), Error> {
        let reward = self.neglected(rng);
        task.environment().reset(state, env, rng)?;
        let from_kept = rng.uniform() < FROM_KEPT && self.restore(reward, state, env, rng);
        let dominated = from_kept && rng.uniform() < DOMINATED;
        self.draw_weights(env, dominated.then_some(reward), rng);
        Ok(())
    }

    /// A reward, the more likely the less it is mastered.
    fn neglected(&self, rng: &mut Rng) -> usize {
        let first = usize::from(!self.objective);
        let need = |i: usize| (1.1 - self.mastered[i]).powi(4);
        let total: f64 = (first..self.mastered.len()).map(need).sum();
        let shares: Vec<f64> = (first..self.mastered.len()).map(|i| need(i) / total).collect();
        first + rng.weighted(&shares)
    }

    /// Puts an environment into a state in which the reward was good, if there is one.
    fn restore(&self, reward: usize, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> bool {
        let kept = &self.kept[reward];
        if kept.is_empty() {
            return false;
        }
        state.set_column(env, &kept[rng.index(kept.len())]);
        true
    }

    /// λ ← \[λ + α Σ (c − r)\]₊.
    fn move_multipliers(&mut self, env: usize, steps: usize, means: &BatchMatrix) {
        for i in 0..self.multipliers.len() {
            let deficit = self.bounds.at(i, env) - means.at(i + 1, env);
            let moved = self.multipliers.at(i, env) + GAIN * steps as f64 * deficit;
            self.multipliers.set(i, env, moved.max(0.0));
        }
        self.read_multipliers(env);
    }

    /// w = (1, λ)/(1 + Σλ), or λ/Σλ without an objective.
    fn read_multipliers(&mut self, env: usize) {
        let first = if self.objective { 1.0 } else { 0.0 };
        let total = first + self.multipliers.column(env).sum::<f64>();
        let m = self.multipliers.len();
        self.weights.set(0, env, if total > 0.0 { first / total } else { 0.0 });
        for i in 0..m {
            let l = self.multipliers.at(i, env);
            self.weights.set(i + 1, env, if total > 0.0 { l / total } else { 1.0 / m as f64 });
        }
    }

    /// New requirements: shares of what is there to be had that add up to .3 to 1, or near the user's own;
    /// and multipliers anywhere.
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
        // From 1/20 to 20 on average: whatever the objective is worth beside the requirements.
        let size = m as f64 * (6.0 * rng.uniform() - 3.0).exp();
        simplex(&mut shares, rng);
        for i in 0..m {
            self.multipliers.set(i, env, size * shares[i]);
        }
        self.read_multipliers(env);
    }

    /// New weights, or weights dominated by one reward.
    fn draw_weights(&mut self, env: usize, dominant: Option<usize>, rng: &mut Rng) {
        let ignoring = dominant != Some(0) && rng.uniform() < IGNORING;
        let mut w = vec![0.0; self.weights.len()];
        self.sampler.draw(self.objective && !ignoring, &mut w, rng);
        if let Some(reward) = dominant {
            let share = 0.6 + 0.4 * rng.uniform();
            w.iter_mut().for_each(|w| *w *= 1.0 - share);
            w[reward] += share;
        }
        self.weights.set_column(env, &w);
    }

    /// The reward with the largest weight.
    pub(crate) fn dominant(&self, env: usize) -> usize {
        let weights = self.weights.column(env).enumerate();
        weights.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i)
    }

    /// How much of a reward environments have that care for little else.
    fn examine(&mut self, means: &BatchMatrix) {
        const RATE: f64 = 0.1;
        for i in 0..self.mastered.len() {
            let [low, high] = self.ranges[i];
            let caring = (0..means.num_envs()).filter(|&env| self.weights.at(i, env) > 0.6);
            let (count, sum) = caring.fold((0.0, 0.0), |(n, sum), env| (n + 1.0, sum + means.at(i, env)));
            if count > 0.0 && high > low {
                let share = ((sum / count - low) / (high - low)).clamp(0.0, 1.0);
                self.mastered[i] += RATE * (share - self.mastered[i]);
            }
        }
    }

    /// How well each reward is mastered, from 0 to 1.
    pub(crate) fn mastered(&self) -> &[f64] {
        &self.mastered
    }

    /// Follows where the averages of segments lie: at once when they widen, slowly when they narrow.
    fn measure(&mut self, means: &BatchMatrix) {
        const FORGET: f64 = 0.03;
        for (i, range) in self.ranges.iter_mut().enumerate() {
            let mut sorted = means.row(i).to_vec();
            sorted.sort_by(f64::total_cmp);
            let tail = sorted.len() / 50;
            let (low, high) = (sorted[tail], sorted[sorted.len() - 1 - tail]);
            range[0] = low.min(range[0] + FORGET * (low - range[0]));
            range[1] = high.max(range[1] + FORGET * (high - range[1]));
        }
    }
}
