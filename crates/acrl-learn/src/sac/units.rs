//! Units of rewards: the range of their long-run averages.
//!
//! A reward's standard deviation is no unit: a rare event, such as a fall, has a large deviation and a small range of
//! averages, and so no weight would be large enough to avoid it.

use acrl::BatchMatrix;
use serde::{Deserialize, Serialize};

use crate::tuning::sac::{CONSTANT, LEAST_WINDOW, MIN_UNIT, OUTER, RECENT, WINDOW};

/// Means of the environment's rewards over windows of steps, and the units that follow from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RewardUnits {
    /// Unit of each reward.
    units: Vec<f64>,
    state: Vec<State>,
    /// Sums of the present window, a row per reward, and its steps, by environment.
    sums: BatchMatrix,
    steps: Vec<u32>,
    /// Means over the windows so far, window after window.
    means: Vec<f32>,
    /// Sum of each reward over all steps with random actions, and their number.
    random: (Vec<f64>, u64),
    /// Largest magnitude of each reward.
    largest: Vec<f64>,
}

/// What is known about the unit of a reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Given by the user.
    Given,
    /// The averages have not differed yet, so that any unit does.
    Unknown,
    /// Measured: it may grow, but not shrink.
    Measured,
}

impl RewardUnits {
    /// Units that are given where it says so, and else to be measured.
    pub(super) fn new(widths: &[f64], given: &[bool], num_envs: usize) -> Self {
        let rows = widths.len();
        let unit = |(width, given): (&f64, &bool)| if *given { *width } else { 1.0 };
        let state = |given: &bool| if *given { State::Given } else { State::Unknown };
        Self {
            units: widths.iter().zip(given).map(unit).collect(),
            state: given.iter().map(state).collect(),
            sums: BatchMatrix::zeros(rows, num_envs),
            steps: vec![0; num_envs],
            means: Vec::new(),
            random: (vec![0.0; rows], 0),
            largest: vec![0.0; rows],
        }
    }

    /// Unit of each of the environment's rewards.
    pub(super) fn units(&self) -> &[f64] {
        &self.units
    }

    /// Adds the rewards of a step in the environments that made one.
    pub(super) fn observe(&mut self, rewards: &BatchMatrix, mask: &[bool], random: bool) {
        for env in (0..mask.len()).filter(|env| mask[*env]) {
            for row in 0..self.units.len() {
                let r = rewards.at(row, env);
                self.sums.set(row, env, self.sums.at(row, env) + r);
                self.largest[row] = self.largest[row].max(r.abs());
                if random {
                    self.random.0[row] += r;
                }
            }
            self.random.1 += u64::from(random);
            self.steps[env] += 1;
            if self.steps[env] == WINDOW {
                self.means.extend(self.sums.column(env).map(|sum| (sum / f64::from(WINDOW)) as f32));
                (0..self.units.len()).for_each(|row| self.sums.set(row, env, 0.0));
                self.steps[env] = 0;
            }
        }
    }

    /// A recent mean of all rewards over a window, counted from the last; `None` if there is none yet.
    pub(super) fn recent(&self, draw: impl FnOnce(usize) -> usize) -> Option<&[f32]> {
        let (rows, n) = (self.units.len().max(1), self.means.len() / self.units.len().max(1));
        let index = n.checked_sub(1 + draw(n.min(RECENT)))?;
        self.means.get(index * rows..(index + 1) * rows)
    }

    /// Measures the units anew; true if one has changed. A unit never shrinks.
    pub(super) fn measure(&mut self) -> bool {
        let before = self.units.clone();
        let rows = self.units.len();
        for row in 0..rows {
            if self.state[row] == State::Given {
                continue;
            }
            let mut means: Vec<f64> =
                self.means.iter().skip(row).step_by(rows).map(|mean| f64::from(*mean)).collect();
            // With many environments, before their first windows are over, those that have begun.
            if means.len() < self.steps.len() {
                let longest = self.steps.iter().copied().max().unwrap_or(0);
                let begun = |env: &usize| self.steps[*env] >= LEAST_WINDOW.min(longest.max(1));
                let begun = (0..self.steps.len()).filter(begun);
                means.extend(begun.map(|env| self.sums.at(row, env) / f64::from(self.steps[env])));
            }
            if means.is_empty() {
                continue;
            }
            means.sort_by(f64::total_cmp);
            let quantile = |q: f64| means[((means.len() - 1) as f64 * q).round() as usize];
            let random = self.random.0[row] / self.random.1.max(1) as f64;
            let learnt = if self.random.1 > 0 { (random - quantile(0.5)).abs() } else { 0.0 };
            let range = (quantile(1.0 - OUTER) - quantile(OUTER)).max(learnt);
            let largest = self.largest[row];
            if range > CONSTANT * largest {
                let unit = range.max(MIN_UNIT * largest);
                let known = self.state[row] == State::Measured;
                self.units[row] = if known { self.units[row].max(unit) } else { unit };
                self.state[row] = State::Measured;
            } else if self.state[row] == State::Unknown && largest > 0.0 {
                // It has been constant: its own magnitude.
                self.units[row] = largest;
            }
        }
        self.units != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(units: &mut RewardUnits, windows: usize, random: bool, reward: impl Fn(usize) -> f64) {
        let mut rewards = BatchMatrix::zeros(1, 1);
        for t in 0..windows * WINDOW as usize {
            rewards.set(0, 0, reward(t));
            units.observe(&rewards, &[true], random);
        }
    }

    #[test]
    fn the_unit_is_the_range_of_averages_and_never_shrinks() {
        let mut units = RewardUnits::new(&[7.0], &[false], 1);
        // Averages 0 and 2 in turns, with a spread of 10 within windows.
        let window = |t: usize| 2.0 * (t / WINDOW as usize % 2) as f64;
        feed(&mut units, 20, false, |t| window(t) + if t % 2 == 0 { 10.0 } else { -10.0 });
        assert!(units.measure());
        assert!((units.units()[0] - 2.0).abs() < 1e-6, "{:?}", units.units());
        feed(&mut units, 2000, false, |_| 0.5);
        assert!(!units.measure());
    }

    #[test]
    fn what_is_learnt_beyond_random_actions_counts() {
        let mut units = RewardUnits::new(&[7.0], &[false], 1);
        feed(&mut units, 4, true, |_| 0.0);
        feed(&mut units, 400, false, |_| 3.0);
        units.measure();
        assert!((units.units()[0] - 3.0).abs() < 1e-6, "{:?}", units.units());
    }

    #[test]
    fn a_reward_that_was_never_observed_gets_its_unit_when_it_appears() {
        let mut units = RewardUnits::new(&[7.0, 2.0], &[false, true], 1);
        let mut rewards = BatchMatrix::zeros(2, 1);
        (0..1000).for_each(|_| units.observe(&rewards, &[true], true));
        units.measure();
        assert_eq!(units.units(), [1.0, 2.0]);
        rewards.set(0, 0, 0.01);
        (0..1000).for_each(|_| units.observe(&rewards, &[true], false));
        units.measure();
        assert!((units.units()[0] - 0.01).abs() < 1e-6, "{:?}", units.units());
        assert_eq!(units.units()[1], 2.0, "given");
    }

    #[test]
    fn windows_that_have_begun_count_before_the_first_are_over() {
        let mut units = RewardUnits::new(&[1.0], &[false], 100);
        let mut rewards = BatchMatrix::zeros(1, 100);
        rewards.row_mut(0).iter_mut().enumerate().for_each(|(env, r)| *r = env as f64);
        (0..10).for_each(|_| units.observe(&rewards, &[true; 100], false));
        units.measure();
        assert!((90.0..=99.0).contains(&units.units()[0]), "{:?}", units.units());
    }

    #[test]
    fn masked_steps_do_not_count() {
        let mut units = RewardUnits::new(&[1.0], &[false], 1);
        let mut rewards = BatchMatrix::zeros(1, 1);
        rewards.set(0, 0, 1e9);
        units.observe(&rewards, &[false], true);
        assert_eq!((units.largest[0], units.steps[0]), (0.0, 0));
    }
}
