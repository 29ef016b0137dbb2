//! Exploration where solutions are: policies that are optimal in the estimated model for random weights.

use acrl::Rng;
use serde::{Deserialize, Serialize};

use super::Counts;
use crate::tuning::tabular::{PRECISION, SWEEPS};

/// Policy that is greedy for a weighted reward in the estimated model, and what the model claims of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GreedyPlan {
    /// Action by state; none where none was ever tried.
    rule: Vec<Option<u32>>,
    values: Vec<f64>,
}

impl GreedyPlan {
    /// Plans for Σ w_i r_i by value iteration (Gauss–Seidel, in alternating order) with the discount factor `gamma`, reading at
    /// most about `work` transitions.
    pub(super) fn new(counts: &Counts, weights: &[f64], gamma: f64, work: usize) -> Self {
        let (states, actions) = (counts.states(), counts.actions());
        let reward: Vec<f64> = (0..states * actions)
            .map(|pair| weights.iter().enumerate().map(|(i, w)| w * counts.mean(pair, i)).sum())
            .collect();
        let mut plan = Self { rule: vec![None; states], values: vec![0.0; states] };
        let size: usize = counts.pairs().iter().map(|pair| 1 + pair.successors.len()).sum();
        let sweeps = (work / size.max(1)).clamp(SWEEPS.0, SWEEPS.1);
        let (low, high) = reward.iter().fold((0.0_f64, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
        let (precision, episodes) = (PRECISION * (high - low), counts.episodes().max(1) as f64);
        for sweep in 0..sweeps {
            let starts = counts.starts().iter().zip(&plan.values);
            let reset = starts.map(|(n, v)| *n as f64 * v).sum::<f64>() / episodes;
            let mut change = 0.0_f64;
            for i in 0..states {
                let state = if sweep % 2 == 0 { states - 1 - i } else { i };
                let mut best = (None, f64::NEG_INFINITY);
                for action in 0..actions {
                    let pair = &counts.pairs()[state * actions + action];
                    if pair.visits == 0 {
                        continue;
                    }
                    let next = pair.successors.iter().map(|(to, n)| *n as f64 * plan.values[*to as usize]);
                    let next = (next.sum::<f64>() + pair.ends as f64 * reset) / pair.visits as f64;
                    let value = reward[state * actions + action] + gamma * next;
                    if value > best.1 {
                        best = (Some(action as u32), value);
                    }
                }
                // A state that was never left is like the end of an episode.
                let value = if best.0.is_some() { best.1 } else { reset };
                change = change.max((value - plan.values[state]).abs());
                (plan.rule[state], plan.values[state]) = (best.0, value);
            }
            if change <= precision {
                break;
            }
        }
        plan
    }

    /// The action in a state; at random where none is known.
    pub(super) fn action(&self, state: usize, actions: usize, rng: &mut Rng) -> usize {
        let known = self.rule.get(state).copied().flatten();
        known.map_or_else(|| rng.index(actions), |action| action as usize)
    }

    /// Estimate of the largest average of the weighted reward: the mean of (1 − γ) V over what was visited.
    pub(super) fn average(&self, counts: &Counts, gamma: f64) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for (state, value) in self.values.iter().enumerate() {
            let visits: u64 = (0..counts.actions()).map(|action| counts.visits(state, action)).sum();
            sum += visits as f64 * value;
            total += visits as f64;
        }
        if total > 0.0 { (1.0 - gamma) * sum / total } else { 0.0 }
    }

    /// Mean of Σ w_i r_i over the next steps from these states, as the model has it.
    pub(super) fn claim(&self, counts: &Counts, weights: &[f64], states: &[usize], steps: u64) -> f64 {
        let actions = counts.actions();
        let n = counts.states();
        let mut now = vec![0.0; n];
        states.iter().filter(|state| **state < n).for_each(|state| now[*state] += 1.0 / states.len() as f64);
        let (mut sum, episodes) = (0.0, counts.episodes().max(1) as f64);
        let mut after = vec![0.0; n];
        for _ in 0..steps {
            let mut reset = 0.0;
            after.fill(0.0);
            for state in 0..n {
                if now[state] == 0.0 {
                    continue;
                }
                let Some(action) = self.rule[state] else {
                    reset += now[state];
                    continue;
                };
                let number = state * actions + action as usize;
                let pair = &counts.pairs()[number];
                let mean: f64 = weights.iter().enumerate().map(|(i, w)| w * counts.mean(number, i)).sum();
                sum += now[state] * mean;
                let share = now[state] / pair.visits as f64;
                pair.successors.iter().for_each(|(to, times)| after[*to as usize] += share * *times as f64);
                reset += share * pair.ends as f64;
            }
            for (state, times) in counts.starts().iter().enumerate().filter(|(_, times)| **times > 0) {
                after[state] += reset * *times as f64 / episodes;
            }
            std::mem::swap(&mut now, &mut after);
        }
        sum / steps.max(1) as f64
    }
}
