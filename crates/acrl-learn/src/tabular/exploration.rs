//! Exploration: coverage of all pairs and policies that are greedy for random weights, in turns.

use acrl::Rng;
use serde::{Deserialize, Serialize};

use super::coverage_plan::CoveragePlan;
use super::greedy_plan::GreedyPlan;
use crate::tuning::tabular::{COMPARED, PHASE, SHORTEST_PHASE, WORK};

use super::Counts;

/// State of the exploration.
///
/// Coverage alone spends as much on states that no solution visits as on those that matter, and greedy policies alone may
/// never find what the model does not contain yet. So they take turns, each for a twentieth of the steps so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exploration {
    gamma: f64,
    coverage: CoveragePlan,
    /// The present phase, if it is greedy.
    greedy: Option<GreedyPhase>,
    /// Step at which the phase ends.
    until: u64,
    /// Ranges of the averages of r₀ … r_m in the model, estimated at this step.
    ranges: Vec<f64>,
    ranged: u64,
    comparison: Comparison,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GreedyPhase {
    /// Weights of the environment's rewards.
    weights: Vec<f64>,
    plan: GreedyPlan,
    claim: f64,
    /// Σ w·r over the compared steps, and their number.
    measured: f64,
    steps: u64,
    until: u64,
}

/// Differences between what was measured and what the model had claimed, a number for each greedy phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comparison(Vec<f64>);

impl Comparison {
    /// Mean and standard error of the differences in the later half of the phases.
    pub(super) fn summary(&self) -> Option<(f64, f64)> {
        let later = &self.0[self.0.len() / 2..];
        let n = later.len() as f64;
        if later.len() < 2 {
            return None;
        }
        let mean = later.iter().sum::<f64>() / n;
        let variance = later.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        Some((mean, (variance / n).sqrt()))
    }
}

/// What the exploration needs to know of the training.
pub(super) struct Progress<'a> {
    pub(super) counts: &'a Counts,
    /// Row and sign of each of r₀ … r_m.
    pub(super) terms: &'a [Option<(usize, f64)>],
    /// Environment steps so far.
    pub(super) steps: u64,
    /// Present states of the environments.
    pub(super) states: &'a [usize],
}

impl Exploration {
    pub(super) fn new(gamma: f64) -> Self {
        Self {
            gamma,
            coverage: CoveragePlan::new(gamma),
            greedy: None,
            until: 0,
            ranges: Vec::new(),
            ranged: 0,
            comparison: Comparison::default(),
        }
    }

    pub(super) fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Begins the next phase, if the present one is over.
    pub(super) fn begin(&mut self, progress: &Progress<'_>, rng: &mut Rng) {
        let Progress { counts, terms, steps, states } = *progress;
        if steps < self.until || states.is_empty() {
            return;
        }
        let length = ((PHASE * steps as f64) as u64).max(SHORTEST_PHASE * states.len() as u64);
        self.until = steps + length;
        let first = steps == 0;
        match self.greedy.take() {
            Some(phase) => self.comparison.0.extend(phase.difference()),
            None if !first && counts.states() > 0 => {
                let work = WORK * length as usize;
                if steps >= 2 * self.ranged {
                    self.measure_ranges(counts, terms, work);
                    self.ranged = steps;
                }
                let weights = self.draw_weights(counts.rewards(), terms, rng);
                let plan = GreedyPlan::new(counts, &weights, self.gamma, work);
                let compared = COMPARED.min(length / states.len() as u64);
                let claim = plan.claim(counts, &weights, states, compared);
                let until = steps + compared * states.len() as u64;
                self.greedy = Some(GreedyPhase { weights, plan, claim, measured: 0.0, steps: 0, until });
            }
            None => {}
        }
    }

    fn measure_ranges(&mut self, counts: &Counts, terms: &[Option<(usize, f64)>], work: usize) {
        let work = work / (2 * terms.len().max(1));
        let range = |term: &Option<(usize, f64)>| {
            let Some((row, _)) = term else { return 1.0 };
            let extreme = |sign: f64| {
                let mut weights = vec![0.0; counts.rewards()];
                weights[*row] = sign;
                sign * GreedyPlan::new(counts, &weights, self.gamma, work).average(counts, self.gamma)
            };
            extreme(1.0) - extreme(-1.0)
        };
        self.ranges = terms.iter().map(range).collect();
    }

    /// Uniform from the simplex, in units of the ranges of averages; of the environment's rewards.
    fn draw_weights(&self, rewards: usize, terms: &[Option<(usize, f64)>], rng: &mut Rng) -> Vec<f64> {
        let drawn: Vec<f64> = terms.iter().map(|_| -(1.0 - rng.uniform()).ln()).collect();
        let present = drawn.iter().zip(terms).filter(|(_, term)| term.is_some());
        let total: f64 = present.map(|(x, _)| x).sum();
        let mut weights = vec![0.0; rewards];
        for ((x, term), range) in drawn.iter().zip(terms).zip(&self.ranges) {
            if let Some((row, sign)) = term.filter(|_| *range > 0.0 && total > 0.0) {
                weights[row] += sign * x / (total * range);
            }
        }
        weights
    }

    /// The action of an environment.
    pub(super) fn action(&self, counts: &Counts, state: Option<usize>, rng: &mut Rng) -> usize {
        match (state, &self.greedy) {
            (None, _) => rng.index(counts.actions()),
            (Some(state), Some(phase)) => phase.plan.action(state, counts.actions(), rng),
            (Some(state), None) => self.coverage.action(counts, state, rng),
        }
    }

    /// Takes note of the first state of an episode, which has been counted.
    pub(super) fn start(&mut self, counts: &Counts, state: usize) {
        self.coverage.start(counts, state);
    }

    /// Takes note of a transition that has been counted.
    pub(super) fn transition(
        &mut self,
        counts: &Counts,
        (state, action): (usize, usize),
        rewards: &[f64],
        next: Option<usize>,
        steps: u64,
    ) {
        self.coverage.transition(counts, state, action, next);
        if let Some(phase) = self.greedy.as_mut().filter(|phase| steps < phase.until) {
            phase.measured += phase.weights.iter().zip(rewards).map(|(w, r)| w * r).sum::<f64>();
            phase.steps += 1;
        }
    }
}

impl GreedyPhase {
    /// Measured mean less the model's claim.
    fn difference(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.measured / self.steps as f64 - self.claim)
    }
}
