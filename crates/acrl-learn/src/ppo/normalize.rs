//! Normalisation of observations, rewards and values, for environments that do not give ranges.
//!
//! Observations are scaled by a running mean and standard deviation (as by VecNormalize of Stable-Baselines3), rewards by
//! the spread of their averages over blocks of steps, and the critic's targets by PopArt (van Hasselt et al. 2016).

use acrl::{BatchMatrix, Interval};
use acrl_nn::Mlp;
use serde::{Deserialize, Serialize};

use super::RolloutBuffer;
use super::actor_critic::Networks;
use crate::tuning::normalize::{
    CONSTANT, MIN_REWARD_SCALE, MIN_VALUE_SCALE, OBSERVATION_STDS, VALUE_SCALE_DECAY, WIDE,
};

/// Distribution of a reward, as far as it was observed.
pub(super) struct RewardSpread {
    /// Smallest average over a block of steps.
    pub(super) low: f64,
    /// Largest average over a block of steps.
    pub(super) high: f64,
    /// Median over all steps.
    pub(super) median: f64,
    /// Standard deviation over all steps.
    std: f64,
    /// Largest |r|.
    largest: f64,
}

impl RewardSpread {
    pub(super) fn of(rewards: &[BatchMatrix], row: usize, block: usize) -> Self {
        let num_envs = rewards.first().map_or(0, BatchMatrix::num_envs);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for steps in rewards.chunks(block) {
            for env in 0..num_envs {
                let mean = steps.iter().map(|rewards| rewards.at(row, env)).sum::<f64>() / steps.len() as f64;
                (low, high) = (low.min(mean), high.max(mean));
            }
        }
        let all = || rewards.iter().flat_map(|rewards| rewards.row(row).iter().copied());
        let count = (rewards.len() * num_envs).max(1) as f64;
        let mean = all().sum::<f64>() / count;
        let std = (all().map(|r| (r - mean).powi(2)).sum::<f64>() / count).sqrt();
        let mut sorted: Vec<f64> = all().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        Self { low, high, median, std, largest: all().fold(0.0, |a, r| r.abs().max(a)) }
    }

    /// Whether it is the same at every step.
    pub(super) fn is_constant(&self) -> bool {
        self.std <= CONSTANT * self.largest
    }

    /// Whether it is 0 at every step.
    pub(super) fn never_observed(&self) -> bool {
        self.largest == 0.0
    }

    /// Scale R of the reward: its absolute value if it is constant, and 1 if that is 0.
    pub(super) fn reward_scale(&self) -> f64 {
        let varied = (self.high - self.low).max(self.std).max(MIN_REWARD_SCALE * self.largest);
        let scale = if self.is_constant() { self.largest } else { varied };
        if scale.is_finite() && scale > f64::MIN_POSITIVE { scale } else { 1.0 }
    }
}

/// Running means and variances of observations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ObservationStatistics {
    count: f64,
    means: Vec<f64>,
    /// Σ (x − mean)².
    squares: Vec<f64>,
}

impl ObservationStatistics {
    pub(crate) fn new(rows: usize) -> Self {
        Self { count: 0.0, means: vec![0.0; rows], squares: vec![0.0; rows] }
    }

    /// Adds the observations of all environments.
    pub(crate) fn visit(&mut self, observation: &BatchMatrix) {
        let n = observation.num_envs() as f64;
        let total = self.count + n;
        for (row, (mean, squares)) in self.means.iter_mut().zip(&mut self.squares).enumerate() {
            let batch = observation.row(row);
            let batch_mean = batch.iter().sum::<f64>() / n;
            let batch_squares = batch.iter().map(|x| (x - batch_mean).powi(2)).sum::<f64>();
            let apart = batch_mean - *mean;
            *mean += apart * n / total;
            *squares += batch_squares + apart * apart * self.count * n / total;
        }
        self.count = total;
    }

    /// Sum of the variances of observations that are scaled from these intervals to [−1, 1].
    pub(super) fn variance(&self, intervals: &[Interval]) -> f64 {
        let of = |(squares, interval): (&f64, &Interval)| {
            squares / self.count.max(1.0) / (0.5 * interval.width()).powi(2)
        };
        self.squares.iter().zip(intervals).map(of).sum()
    }

    /// Intervals to scale from: the range itself if it is narrow, else two standard deviations around the mean.
    pub(crate) fn intervals(&self, ranges: &[Interval]) -> Vec<Interval> {
        self.intervals_of(ranges, OBSERVATION_STDS)
    }

    /// [`Self::intervals`] with another number of standard deviations.
    pub(crate) fn intervals_of(&self, ranges: &[Interval], stds: f64) -> Vec<Interval> {
        let measured = |row: usize, range: &Interval| {
            if range.is_bounded() && range.width() <= WIDE {
                return *range;
            }
            let (mean, std) = (self.means[row], (self.squares[row] / self.count.max(1.0)).sqrt());
            // A number that has not changed yet is not scaled.
            let half = if std > CONSTANT * (1.0 + mean.abs()) { stds * std } else { 1.0 };
            Interval::new(mean - half, mean + half)
        };
        ranges.iter().enumerate().map(|(row, range)| measured(row, range)).collect()
    }
}

impl Networks {
    /// PopArt: rescales the critic's output layer so that targets have unit variance while its predictions are unchanged.
    /// The scale grows immediately and decays by 10 % per update, because a rare reward may be missing from many
    /// rollouts.
    pub(super) fn update_popart(&mut self, buffer: &RolloutBuffer) {
        self.value_scales.resize(self.values(), 1.0);
        let mut factors = Vec::with_capacity(self.value_scales.len());
        for (scale, returns) in self.value_scales.iter_mut().zip(buffer.returns.chunks_exact(buffer.len())) {
            let all =
                || returns.iter().zip(&buffer.ignored).filter(|(_, ignored)| !**ignored).map(|(r, _)| *r);
            let count = all().count().max(1) as f32;
            let mean = all().sum::<f32>() / count;
            let found = all().map(|r| (r - mean).powi(2)).sum::<f32>() / count;
            let old = *scale;
            *scale =
                found.max(old * old + VALUE_SCALE_DECAY * (found - old * old)).sqrt().max(MIN_VALUE_SCALE);
            factors.push(f64::from(old / *scale));
        }
        scale_outputs(&mut self.critic, &factors);
    }

    /// Changes the scales of the rewards to these R₀ … R_m; values in the old units times the factors are values in the
    /// new ones.
    pub(super) fn rescale(&mut self, factors: &[f64], scales: &[f64]) {
        self.inputs.set_scales(scales.to_vec());
        let heads = self.values();
        let factors = &factors[factors.len() - heads..];
        if self.value_scales.is_empty() {
            scale_outputs(&mut self.critic, factors);
        }
        self.value_scales.iter_mut().zip(factors).for_each(|(scale, factor)| *scale *= *factor as f32);
        if let Some(averages) = &mut self.average_reward {
            averages.rescale(factors);
        }
    }

    /// Multiplies the initial values by this factor.
    pub(super) fn shrink_values(&mut self, factor: f64) {
        let factors = vec![factor; self.values()];
        scale_outputs(&mut self.critic, &factors);
    }
}

/// Multiplies each output of a network by a factor.
pub(crate) fn scale_outputs(network: &mut Mlp, factors: &[f64]) {
    let width = network.shape()[network.shape().len() - 2];
    let from = network.parameters().len() - factors.len() * (width + 1);
    let (weights, biases) = network.parameters_mut()[from..].split_at_mut(factors.len() * width);
    for ((row, bias), factor) in weights.chunks_exact_mut(width).zip(biases).zip(factors) {
        *bias *= *factor as f32;
        row.iter_mut().for_each(|w| *w *= *factor as f32);
    }
}

#[cfg(test)]
mod tests {
    use acrl::{Objective, Rng, Specification, VecTask};
    use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};

    use super::*;
    use crate::PpoConfig;
    use crate::ppo::Inputs;

    /// Variance of drawn observations after scaling.
    fn variance(rows: usize, range: Interval, mut draw: impl FnMut(usize) -> Vec<f64>) -> f64 {
        let (mut statistics, mut seen) = (ObservationStatistics::new(rows), BatchMatrix::zeros(rows, 1));
        for t in 0..2000 {
            seen.set_column(0, &draw(t));
            statistics.visit(&seen);
        }
        statistics.variance(&statistics.intervals(&vec![range; rows]))
    }

    #[test]
    fn variance_of_scaled_observations_grows_with_their_dimension() {
        let mut rng = Rng::new(1);
        let mut noise = |rows: usize| (0..rows).map(|_| 7.0 + 100.0 * rng.uniform()).collect::<Vec<_>>();
        // Two standard deviations are scaled to 1, so each number has a variance of ¼.
        assert!((variance(4, Interval::UNBOUNDED, |_| noise(4)) - 1.0).abs() < 1e-9);
        assert!((variance(60, Interval::UNBOUNDED, |_| noise(60)) - 15.0).abs() < 1e-9);
        // A one-hot observation has little variance: it goes from −1 to 1 and back.
        let choice =
            variance(50, Interval::new(0.0, 1.0), |t| (0..50).map(|k| f64::from(k == t % 50)).collect());
        assert!((choice - 4.0 * 0.98).abs() < 1e-9, "{choice}");
        assert_eq!(variance(3, Interval::UNBOUNDED, |_| vec![1.0; 3]), 0.0, "nothing moves");
    }

    #[test]
    fn a_constant_reward_is_scaled_by_its_absolute_value() {
        let seen = |r: fn(usize) -> f64| {
            let row = |t: usize| {
                let mut rows = BatchMatrix::zeros(1, 2);
                rows.row_mut(0).fill(r(t));
                rows
            };
            RewardSpread::of(&(0..64).map(row).collect::<Vec<_>>(), 0, 16)
        };
        // In units of its standard deviation it would dominate every other reward.
        let time = seen(|_| -1.0);
        assert_eq!((time.is_constant(), time.reward_scale(), time.median), (true, 1.0, -1.0));
        let zero = seen(|_| 0.0);
        assert_eq!((zero.is_constant(), zero.reward_scale(), zero.median), (true, 1.0, 0.0));
        // The median of a rare reward is 0.
        let rare = seen(|t| if t == 3 { 5.0 } else { 0.0 });
        assert_eq!((rare.is_constant(), rare.median), (false, 0.0));
        assert!(rare.reward_scale() < 1.0);
    }

    #[test]
    fn popart_preserves_predictions_while_the_scale_follows_the_targets() {
        let external = External::new(ExternalParameters {
            observation: vec![[-1.0, 1.0]],
            action: vec![ExternalAction { choices: Some(2), low: None, high: None }],
            reward: vec![ExternalReward { name: "r".to_owned(), low: 0.0, high: 1.0 }],
            spaces: None,
        })
        .unwrap();
        let specification = Specification::new(Some(Objective::maximize("r")), Vec::new()).unwrap();
        let task = VecTask::new(&external, specification).unwrap();
        let (inputs, actions) = (Inputs::new(&task).unwrap(), task.environment().action_space());
        let mut networks = Networks::new(inputs, actions, &PpoConfig::default(), &mut Rng::new(1)).unwrap();
        let mut buffer = networks.rollout_buffer(4, 2);
        buffer.inputs.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 / 10.0);
        networks.evaluate(&mut buffer, 0..5);
        let before = buffer.values.clone();
        assert!(before.iter().any(|value| value.abs() > 1e-3));
        let mut follow = |networks: &mut Networks, size: f32| {
            for (i, r) in buffer.returns.iter_mut().enumerate() {
                *r = if i % 2 == 0 { 7.0 + size } else { 7.0 - size };
            }
            networks.update_popart(&buffer);
            networks.evaluate(&mut buffer, 0..5);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs() + 1e-6;
            assert!(buffer.values.iter().zip(&before).all(near), "{:?}, not {before:?}", buffer.values);
            networks.value_scale(0)
        };
        // The scale grows at once, wherever the values lie, and decays slowly.
        assert!((follow(&mut networks, 30.0) - 30.0).abs() < 1e-3);
        let smaller = follow(&mut networks, 0.001);
        assert!((20.0..30.0).contains(&smaller), "{smaller}");
        (0..300).for_each(|_| _ = follow(&mut networks, 0.001));
        assert!((follow(&mut networks, 0.001) - 0.001).abs() < 1e-4);
    }
}
