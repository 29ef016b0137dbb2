//! Weights w that act, and those that replace them in replayed transitions.
//!
//! Weights are in units of the rewards and add up to 1. In half of its stretches of steps an environment runs dual dynamics
//! towards bounds between two recent averages, and so sees the weights that an execution will ask for; in the others it draws
//! weights in every episode and after every [`WINDOW`] steps.

use acrl::{BatchMatrix, Rng};
use serde::{Deserialize, Serialize};

use super::units::RewardUnits;
use crate::WeightSampler;
use crate::tuning::sac::{
    CORNERS, DUAL_PERIOD, DUAL_STEP, MAX_MULTIPLIER, SOFTMAX_STD, STRETCH, UNIFORM, WINDOW,
};
use crate::weights::{normalize, simplex};

/// Draws weights that add up to 1: uniformly, spread over orders of magnitude, or at a corner.
pub(super) fn draw(weights: &mut [f64], rng: &mut Rng) {
    let u = rng.uniform();
    if u < UNIFORM {
        simplex(weights, rng);
    } else if u < UNIFORM + CORNERS {
        let corner = rng.index(weights.len());
        weights.iter_mut().enumerate().for_each(|(i, w)| *w = f64::from(u8::from(i == corner)));
    } else {
        weights.iter_mut().for_each(|w| *w = (SOFTMAX_STD * rng.normal()).exp());
        normalize(weights);
    }
}

/// What is known about rewards.
pub(super) struct Measured<'a> {
    /// Averages over windows of steps.
    pub(super) windows: &'a RewardUnits,
    /// Units of r₀ … r_m.
    pub(super) units: &'a [f64],
    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    pub(super) terms: &'a [Option<(usize, f64)>],
}

/// Weights of every environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActingWeights {
    sampler: WeightSampler,
    /// The first reward with a weight: 1 without an objective.
    first: usize,
    /// w₀ … w_m.
    weights: BatchMatrix,
    envs: Vec<Dynamics>,
}

/// The schedule of one environment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dynamics {
    /// Steps in the present stretch.
    stretch: u32,
    /// Steps with the present weights, or since the last dual step.
    age: u32,
    /// Whether the next stretch may run dual dynamics.
    dual_next: bool,
    /// λ and the bounds c of dual dynamics, and the sums of rewards since the last step; empty without.
    multipliers: Vec<f64>,
    bounds: Vec<f64>,
    sums: Vec<f64>,
}

impl ActingWeights {
    /// Draws weights for every environment.
    pub(super) fn new(
        sampler: WeightSampler,
        objective: bool,
        rewards: usize,
        num_envs: usize,
        rngs: &mut [Rng],
    ) -> Self {
        let dynamics = |env: usize| Dynamics { dual_next: env.is_multiple_of(2), ..Dynamics::default() };
        let mut new = Self {
            sampler,
            first: usize::from(!objective),
            weights: BatchMatrix::zeros(rewards, num_envs),
            envs: (0..num_envs).map(dynamics).collect(),
        };
        rngs.iter_mut().enumerate().for_each(|(env, rng)| new.draw(env, rng));
        new
    }

    /// w₀ … w_m of every environment.
    pub(super) fn weights(&self) -> &BatchMatrix {
        &self.weights
    }

    fn draw(&mut self, env: usize, rng: &mut Rng) {
        let mut weights = vec![0.0; self.weights.len()];
        if self.sampler == WeightSampler::DualTrajectory {
            draw(&mut weights[self.first..], rng);
        } else {
            self.sampler.draw(self.first == 0, &mut weights, rng);
        }
        self.weights.set_column(env, &weights);
        self.envs[env].age = 0;
    }

    /// Takes rewards r₀ … r_m of a step of an environment, in their own units; `ended` at the end of an episode.
    pub(super) fn observe(
        &mut self,
        env: usize,
        rewards: impl Iterator<Item = f64>,
        ended: bool,
        measured: &Measured<'_>,
        rng: &mut Rng,
    ) {
        let dynamics = &mut self.envs[env];
        (dynamics.stretch, dynamics.age) = (dynamics.stretch + 1, dynamics.age + 1);
        if !dynamics.multipliers.is_empty() {
            dynamics.sums.iter_mut().zip(rewards).for_each(|(sum, r)| *sum += r);
            if dynamics.age == DUAL_PERIOD {
                dynamics.step(measured.units);
                self.set_multipliers(env);
            }
        }
        let dynamics = &mut self.envs[env];
        if dynamics.stretch >= STRETCH {
            dynamics.stretch = 0;
            let dual = dynamics.dual_next && self.sampler == WeightSampler::DualTrajectory;
            dynamics.dual_next = !dynamics.dual_next;
            dynamics.multipliers.clear();
            self.draw(env, rng);
            if dual {
                self.begin_dual(env, measured, rng);
            }
        } else if dynamics.multipliers.is_empty() && (ended || dynamics.age >= WINDOW) {
            self.draw(env, rng);
        }
    }

    /// Begins dual dynamics towards bounds that are a mixture of two recent averages.
    fn begin_dual(&mut self, env: usize, measured: &Measured<'_>, rng: &mut Rng) {
        let Measured { windows, terms, .. } = measured;
        let (a, b) = (windows.recent(|n| rng.index(n)), windows.recent(|n| rng.index(n)));
        let (Some(a), Some(b)) = (a, b) else { return };
        let share = rng.uniform();
        let mixed = |term: &Option<(usize, f64)>| {
            let (row, sign) = term.unwrap_or((0, 0.0));
            sign * (share * f64::from(a[row]) + (1.0 - share) * f64::from(b[row]))
        };
        let weights: Vec<f64> = self.weights.column(env).collect();
        let price = |w: &f64| {
            if self.first == 0 { (w / weights[0].max(f64::MIN_POSITIVE)).min(MAX_MULTIPLIER) } else { *w }
        };
        let dynamics = &mut self.envs[env];
        dynamics.multipliers = weights[1..].iter().map(price).collect();
        dynamics.bounds = terms[1..].iter().map(mixed).collect();
        dynamics.sums = vec![0.0; weights.len()];
        self.set_multipliers(env);
    }

    /// w = (1, λ)/(1 + Σλ), or λ/Σλ without an objective.
    fn set_multipliers(&mut self, env: usize) {
        let objective = f64::from(u8::from(self.first == 0));
        let mut weights = vec![objective];
        weights.extend(&self.envs[env].multipliers);
        normalize(&mut weights[self.first..]);
        self.weights.set_column(env, &weights);
    }
}

impl Dynamics {
    /// λ ← [λ − η (mean r − c)]₊ in units.
    fn step(&mut self, units: &[f64]) {
        for (i, (lambda, bound)) in self.multipliers.iter_mut().zip(&self.bounds).enumerate() {
            let mean = self.sums[i + 1] / f64::from(self.age);
            *lambda = (*lambda - DUAL_STEP * (mean - bound) / units[i + 1]).max(0.0);
        }
        self.sums.fill(0.0);
        self.age = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(means: [f64; 2]) -> RewardUnits {
        let mut windows = RewardUnits::new(&[1.0, 1.0], &[true, true], 1);
        let mut rewards = BatchMatrix::zeros(2, 1);
        rewards.set_column(0, &means);
        (0..WINDOW).for_each(|_| windows.observe(&rewards, &[true], false));
        windows
    }

    const TERMS: [Option<(usize, f64)>; 2] = [Some((0, 1.0)), Some((1, 1.0))];

    #[test]
    fn dual_dynamics_raise_the_weight_of_what_falls_short_in_half_of_the_stretches() {
        let windows = windows([0.0, 0.5]);
        let mut rngs = [Rng::new(1)];
        let mut acting = ActingWeights::new(WeightSampler::DualTrajectory, true, 2, 1, &mut rngs);
        let mut last = Vec::new();
        for t in 1..=8 * STRETCH {
            let rewards = [1.0, 0.0];
            let measured = Measured { windows: &windows, units: &[1.0, 1.0], terms: &TERMS };
            acting.observe(0, rewards.into_iter(), false, &measured, &mut rngs[0]);
            if t % STRETCH == STRETCH - 1 {
                last.push(acting.weights().at(1, 0));
            }
        }
        // λ = 40 · 0.5 · 0.5 at the end of a stretch with dual dynamics, and more if it began higher.
        assert!(last.iter().skip(1).step_by(2).all(|w| *w > 9.0 / 10.0), "{last:?}");
        assert!(last.iter().step_by(2).skip(1).any(|w| *w < 9.0 / 10.0), "{last:?}");
    }

    #[test]
    fn weights_are_drawn_anew_in_every_episode_and_every_window() {
        let windows = RewardUnits::new(&[1.0, 1.0], &[true, true], 1);
        let mut rngs = [Rng::new(3)];
        let mut acting = ActingWeights::new(WeightSampler::Simplex, true, 2, 1, &mut rngs);
        let mut changes = Vec::new();
        for t in 1..=600 {
            let before = acting.weights().clone();
            let measured = Measured { windows: &windows, units: &[1.0, 1.0], terms: &TERMS };
            acting.observe(0, [0.0; 2].into_iter(), t == 100, &measured, &mut rngs[0]);
            if acting.weights() != &before {
                changes.push(t);
            }
        }
        assert_eq!(changes, [100, 350, 600]);
    }

    #[test]
    fn weights_of_a_task_without_objective_have_none_on_it() {
        let mut rngs = [Rng::new(3)];
        for sampler in [WeightSampler::DualTrajectory, WeightSampler::Faces] {
            let acting = ActingWeights::new(sampler, false, 3, 1, &mut rngs);
            let weights: Vec<f64> = acting.weights().column(0).collect();
            assert!(weights[0] == 0.0 && (weights.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{weights:?}");
        }
    }
}
