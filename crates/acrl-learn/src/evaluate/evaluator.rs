//! Evaluation of the policy library in external environments.
//!
//! Estimates the long-run average rewards of π(·, w) for a set of fixed weights w, with standard errors, by running each w
//! at least three times from different states.

use acrl::{BatchMatrix, Executor, LibraryEntry, PolicyLibrary, Rng};

use super::weightings;
use crate::tuning::external_library::{
    AGREEMENT, CRITICAL_F, ERRORS, MAY_BE_STUCK, PARTS, PRECISE, SHARED, STUCK, VISITS,
};

/// Evaluator of the [library](crate::evaluate_library()) of a policy while the caller steps the environments. Each environment
/// runs one weighting after the other, so that each starts from the states to which others lead.
///
/// The standard error of a value is √(var_j/n_j) after n_j visits, where var_j is the variance of the weighting's own visits,
/// shrunk towards that of all visits and never below it: visits without a rare event differ by little, and must not have
/// a smaller error or fewer further visits for that. So errors are right where all weightings have about the same
/// variance, and too large for those with less. They can be too small where rare rewards occur at few weightings only and
/// their visits saw none. Further visits go to the weightings with the largest errors, until the budget is spent.
///
/// The caller acts with the [weights](Self::weights) and passes the rewards to [`observe`](Self::observe), until the
/// evaluation [is over](Self::is_over).
#[derive(Debug, Clone)]
pub struct LibraryEvaluator {
    scales: Vec<f64>,
    objective: bool,
    weightings: Vec<Vec<f64>>,
    /// Weighting of each environment, by round.
    rounds: Vec<Vec<usize>>,
    round: usize,
    step: usize,
    burn_in: usize,
    measured: usize,
    weights: BatchMatrix,
    sums: BatchMatrix,
    counts: Vec<f64>,
    /// Sums and steps of the present part of a visit, by environment.
    part: (BatchMatrix, Vec<f64>),
    /// Averages of the parts before it.
    parts: Vec<Vec<Vec<f64>>>,
    /// Environments in which an episode has ended since the visit began.
    renewed: Vec<bool>,
    visits: Vec<Vec<Visit>>,
    /// Measured steps, by weighting.
    spent: Vec<f64>,
    /// Largest number of steps in each environment.
    budget: usize,
    rng: Rng,
}

/// Averages of an environment during one visit of a weighting.
#[derive(Debug, Clone)]
struct Visit {
    averages: Vec<f64>,
    /// Σ (x − average)² over the averages of its parts.
    squares: Vec<f64>,
    /// Degrees of freedom of that sum.
    freedom: f64,
    /// Whether an episode ended meanwhile, so that the averages do not depend on the first state.
    renewed: bool,
}

impl Visit {
    fn new(averages: Vec<f64>, parts: &[Vec<f64>], renewed: bool) -> Self {
        let n = parts.len().max(1) as f64;
        let square = |i: usize| {
            let mean = parts.iter().map(|part| part[i]).sum::<f64>() / n;
            parts.iter().map(|part| (part[i] - mean).powi(2)).sum()
        };
        Self { squares: (0..averages.len()).map(square).collect(), averages, freedom: n - 1.0, renewed }
    }
}

/// Estimates of a weighting.
struct Estimate {
    /// V₀ … V_m.
    values: Vec<f64>,
    /// Standard deviations of a visit's averages.
    stds: Vec<f64>,
    /// Whether its averages do not depend on the first state.
    agreed: bool,
}

impl LibraryEvaluator {
    /// An evaluation for rewards with the ranges R₀ … R_m. A visit has `burn_in` steps that are not measured, and `measured`
    /// steps that are. `drawn` is the number of random weightings; with `None` there are only the corners. Each weighting is
    /// visited three times, and again with up to `budget` steps in each environment where that was not enough.
    pub fn new(
        scales: &[f64],
        objective: bool,
        num_envs: usize,
        drawn: Option<usize>,
        (burn_in, measured): (usize, usize),
        budget: usize,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::stream(seed, u64::MAX - 1);
        let mut weightings = weightings(scales, objective, drawn.unwrap_or(0), &mut rng);
        if drawn.is_none() {
            weightings.truncate(scales.len() - usize::from(!objective));
        }
        let mut order: Vec<usize> = (0..VISITS * weightings.len()).map(|k| k % weightings.len()).collect();
        // The last round is filled up, so that no environment is unused.
        while !order.len().is_multiple_of(num_envs.max(1)) {
            order.push(rng.index(weightings.len()));
        }
        for i in (1..order.len()).rev() {
            order.swap(i, rng.index(i + 1));
        }
        let mut evaluator = Self {
            scales: scales.to_vec(),
            objective,
            rounds: order.chunks(num_envs.max(1)).map(<[usize]>::to_vec).collect(),
            round: 0,
            step: 0,
            burn_in,
            measured: measured.max(1),
            weights: BatchMatrix::zeros(scales.len(), num_envs),
            sums: BatchMatrix::zeros(scales.len(), num_envs),
            counts: vec![0.0; num_envs],
            part: (BatchMatrix::zeros(scales.len(), num_envs), vec![0.0; num_envs]),
            parts: vec![Vec::new(); num_envs],
            renewed: vec![false; num_envs],
            visits: vec![Vec::new(); weightings.len()],
            spent: vec![0.0; weightings.len()],
            weightings,
            budget,
            rng,
        };
        evaluator.set_weights();
        evaluator
    }

    fn set_weights(&mut self) {
        if let Some(round) = self.rounds.get(self.round) {
            for (env, j) in round.iter().enumerate() {
                self.weights.set_column(env, &self.weightings[*j]);
            }
        }
    }

    /// Weights w₀ … w_m of every environment, to act with.
    pub fn weights(&self) -> &BatchMatrix {
        &self.weights
    }

    /// Number of steps in each environment, as far as it is planned.
    pub fn steps(&self) -> usize {
        self.rounds.len() * (self.burn_in + self.measured)
    }

    /// Whether the evaluation is complete.
    pub fn is_over(&self) -> bool {
        self.round == self.rounds.len()
    }

    /// Records r₀ … r_m of the environments that made a step, and the episodes that ended with it.
    pub fn observe(&mut self, rewards: &BatchMatrix, valid: &[bool], ended: &[bool]) {
        if self.is_over() {
            return;
        }
        self.step += 1;
        if self.step > self.burn_in {
            for (env, _) in valid.iter().enumerate().filter(|(_, valid)| **valid) {
                self.counts[env] += 1.0;
                self.part.1[env] += 1.0;
                for i in 0..rewards.len() {
                    for sums in [&mut self.sums, &mut self.part.0] {
                        sums.set(i, env, sums.at(i, env) + rewards.at(i, env));
                    }
                }
            }
            let (measured, all) = (self.step - self.burn_in, self.measured);
            if measured * PARTS / all > (measured - 1) * PARTS / all {
                self.end_part();
            }
        }
        let ends = ended.iter().zip(valid).map(|(ended, valid)| *ended && *valid);
        self.renewed.iter_mut().zip(ends).for_each(|(renewed, ends)| *renewed |= ends);
        if self.step < self.burn_in + self.measured {
            return;
        }
        for (env, j) in self.rounds[self.round].iter().enumerate() {
            if self.counts[env] > 0.0 {
                let averages = self.sums.column(env).map(|sum| sum / self.counts[env]).collect();
                self.visits[*j].push(Visit::new(averages, &self.parts[env], self.renewed[env]));
                self.spent[*j] += self.counts[env];
            }
        }
        self.sums.as_mut_slice().fill(0.0);
        self.counts.fill(0.0);
        self.renewed.fill(false);
        self.parts.iter_mut().for_each(Vec::clear);
        (self.step, self.round) = (0, self.round + 1);
        if self.is_over() && self.steps() + self.burn_in + self.measured <= self.budget {
            self.visit_again();
        }
        self.set_weights();
    }

    /// Stores the averages of a part of a visit.
    fn end_part(&mut self) {
        let (sums, counts) = &mut self.part;
        for (env, (count, parts)) in counts.iter_mut().zip(&mut self.parts).enumerate() {
            if *count > 0.0 {
                parts.push(sums.column(env).map(|sum| sum / *count).collect());
                *count = 0.0;
            }
        }
        sums.as_mut_slice().fill(0.0);
    }

    /// Adds a round for the weightings with the largest errors, unless these are within the target.
    fn visit_again(&mut self) {
        let found = self.estimates();
        let kept = |j: usize| self.is_kept(j, &found[j]);
        let mut round = Vec::with_capacity(self.counts.len());
        let width = |i: usize| {
            let values = || (0..found.len()).filter(|j| kept(*j)).map(|j| found[j].values[i]);
            values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
        };
        let widths: Vec<f64> =
            self.scales.iter().enumerate().map(|(i, scale)| width(i).max(1e-3 * scale)).collect();
        // The largest variance of a visit, in units of the range of values.
        let variance = |j: usize| {
            let parts = found[j].stds.iter().zip(&widths);
            parts.map(|(std, width)| (std / width).powi(2)).fold(0.0, f64::max)
        };
        let mut visits: Vec<f64> = self.visits.iter().map(|visits| visits.len() as f64).collect();
        while round.len() < self.counts.len() {
            let error = |j: &usize| variance(*j) / visits[*j];
            let all = (0..found.len()).filter(|j| kept(*j));
            let Some(worst) = all.max_by(|a, b| error(a).total_cmp(&error(b))) else { return };
            if round.is_empty() && error(&worst) <= PRECISE * PRECISE {
                return;
            }
            visits[worst] += 1.0;
            round.push(worst);
        }
        for i in (1..round.len()).rev() {
            round.swap(i, self.rng.index(i + 1));
        }
        self.rounds.push(round);
    }

    /// Whether the averages of a weighting depend on the first state of a visit: if they differ by more than a share of the
    /// range, and a one-way ANOVA F test rejects equal means of visits, with parts of visits as samples. Where episodes end
    /// within visits they do not: parts of one episode may well be more alike than those of two.
    fn depends_on_start(&self, visits: &[Visit], i: usize) -> bool {
        let of = || visits.iter().map(|visit| visit.averages[i]);
        let width = of().fold(f64::MIN, f64::max) - of().fold(f64::INFINITY, f64::min);
        if width <= AGREEMENT * self.scales[i] || visits.iter().all(|visit| visit.renewed) {
            return false;
        }
        let n = visits.len() as f64;
        let mean = of().sum::<f64>() / n;
        let between = of().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let (freedom, squares) = visits
            .iter()
            .fold((0.0, 0.0), |(freedom, sum), visit| (freedom + visit.freedom, sum + visit.squares[i]));
        let parts = 1.0 + freedom / n;
        // Without parts the variance within visits is unknown.
        freedom <= 0.0 || between > CRITICAL_F * squares / freedom / parts
    }

    /// Estimates of all weightings.
    fn estimates(&self) -> Vec<Estimate> {
        let of = |visits: &[Visit], i: usize| {
            let of_visits = || visits.iter().map(|visit| visit.averages[i]);
            let mean = of_visits().sum::<f64>() / visits.len().max(1) as f64;
            (mean, of_visits().map(|v| (v - mean).powi(2)).sum::<f64>())
        };
        // Visits that depend on their first state do not count.
        let shared = |i: usize| {
            let chance =
                self.visits.iter().filter(|visits| visits.len() > 1 && !self.depends_on_start(visits, i));
            let (n, squares) = chance
                .fold((0.0, 0.0), |(n, sum), visits| (n + visits.len() as f64 - 1.0, sum + of(visits, i).1));
            if n > 0.0 { squares / n } else { 0.0 }
        };
        let shared: Vec<f64> = (0..self.scales.len()).map(shared).collect();
        let found = |visits: &Vec<Visit>| {
            let n = visits.len();
            let parts: Vec<_> = (0..self.scales.len()).map(|i| of(visits, i)).collect();
            let own = n.saturating_sub(1) as f64;
            let std = |(i, part): (usize, &(f64, f64))| {
                ((part.1 + SHARED * shared[i]) / (own + SHARED)).max(shared[i]).sqrt()
            };
            Estimate {
                values: parts.iter().map(|part| part.0).collect(),
                stds: parts.iter().enumerate().map(std).collect(),
                agreed: n > 1 && !(0..parts.len()).any(|i| self.depends_on_start(visits, i)),
            }
        };
        self.visits.iter().map(found).collect()
    }

    /// Whether a weighting is in the library.
    fn is_kept(&self, j: usize, found: &Estimate) -> bool {
        let corners = self.scales.len() - usize::from(!self.objective);
        found.agreed || (j < corners && !self.visits[j].is_empty())
    }

    /// The library. Weightings whose averages depend on the first state, or with a single visit, are left out, except for
    /// corners.
    pub fn library(&self) -> PolicyLibrary {
        let mut library = PolicyLibrary::default();
        for (j, found) in self.estimates().into_iter().enumerate() {
            if self.is_kept(j, &found) {
                let visits = (self.visits[j].len() as f64).sqrt();
                library.entries.push(LibraryEntry {
                    weights: self.weightings[j].clone(),
                    errors: found.stds.iter().map(|std| std / visits).collect(),
                    values: found.values,
                    steps: self.spent[j] as u64,
                    ..LibraryEntry::default()
                });
            }
        }
        library
    }

    /// The executor: the policy; or the library, if the policy gets stuck at intermediate weights, where it is significantly
    /// worse in w·v than the policy at other weights. The library never uses those.
    pub fn executor(&self) -> Executor {
        let library = self.library();
        let value = |w: &[f64], v: &[f64]| w.iter().zip(v).map(|(w, v)| w * v).sum::<f64>();
        let square = |w: &[f64], d: &[f64]| w.iter().zip(d).map(|(w, d)| (w * d).powi(2)).sum::<f64>();
        let (mut visits, mut stuck) = (0.0, 0.0);
        let found = self.estimates();
        for (j, (weights, averages)) in self.weightings.iter().zip(&self.visits).enumerate() {
            let offered = || library.entries.iter().map(|entry| value(weights, &entry.values));
            let low = offered().fold(f64::INFINITY, f64::min);
            let best = library.entries.iter().zip(offered()).max_by(|a, b| a.1.total_cmp(&b.1));
            let Some((best, high)) = best else { continue };
            let lacks = |v: &[f64], own: f64| {
                let chance = (own + square(weights, &best.errors)).sqrt();
                high - value(weights, v) - ERRORS * chance > STUCK * (high - low)
            };
            let n = averages.len() as f64;
            visits += n;
            // Visits of one distribution count by their mean; others one by one, without an error of their own.
            stuck += if found[j].agreed {
                n * f64::from(lacks(&found[j].values, square(weights, &found[j].stds) / n))
            } else {
                averages.iter().map(|visit| f64::from(lacks(&visit.averages, 0.0))).sum()
            };
        }
        if stuck > MAY_BE_STUCK * visits { Executor::Library } else { Executor::Policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Environments whose rewards are the weights themselves, in units of R, without travel or noise.
    fn evaluated(num_envs: usize, drawn: Option<usize>) -> (LibraryEvaluator, PolicyLibrary) {
        let scales = [2.0, 1.0, 10.0];
        let mut evaluator = LibraryEvaluator::new(&scales, true, num_envs, drawn, (3, 5), 0, 7);
        let (mut steps, mut rewards) = (0, BatchMatrix::zeros(3, num_envs));
        while !evaluator.is_over() {
            rewards.as_mut_slice().copy_from_slice(evaluator.weights().as_slice());
            if steps % 8 < 3 {
                rewards.as_mut_slice().fill(1e6); // on the way, nothing counts
            }
            evaluator.observe(&rewards, &vec![true; num_envs], &vec![false; num_envs]);
            steps += 1;
        }
        assert_eq!(steps, evaluator.steps());
        let library = evaluator.library();
        (evaluator, library)
    }

    #[test]
    fn every_weighting_is_evaluated() {
        for num_envs in [1, 4, 16] {
            let (evaluator, library) = evaluated(num_envs, Some(5));
            // Corners, middles of edges, three beside them for each requirement, and five more.
            assert_eq!(library.entries.len(), 3 + 3 + 6 + 5);
            assert!(evaluator.visits.iter().all(|visits| visits.len() >= VISITS));
            for entry in &library.entries {
                let near = entry.values.iter().zip(&entry.weights).all(|(v, w)| (v - w).abs() < 1e-12);
                assert!(near, "{entry:?}");
            }
            assert_eq!(library.entries[2].weights, [0.0, 0.0, 0.1]);
        }
        assert_eq!(evaluated(4, None).1.entries.len(), 3);
    }

    #[test]
    fn a_policy_that_gets_stuck_is_executed_by_its_library() {
        for (stuck, steering) in [(false, Executor::Policy), (true, Executor::Library)] {
            let mut evaluator = LibraryEvaluator::new(&[1.0, 1.0, 1.0], false, 4, Some(6), (0, 4), 0, 3);
            let mut rewards = BatchMatrix::zeros(3, 4);
            while !evaluator.is_over() {
                for env in 0..4 {
                    // All of the reward that matters more; but nothing if both matter about as much.
                    let (a, b) = (evaluator.weights().at(1, env), evaluator.weights().at(2, env));
                    let had = if stuck && a.min(b) > 0.3 { 0.0 } else { 1.0 };
                    rewards.set_column(env, &[0.0, had * f64::from(a >= b), had * f64::from(a < b)]);
                }
                evaluator.observe(&rewards, &[true; 4], &[false; 4]);
            }
            assert_eq!(evaluator.executor(), steering);
        }
    }

    /// Environments whose cost comes in bursts of 30 steps, about once in a thousand steps.
    fn bursty(budget: usize, seed: u64) -> (LibraryEvaluator, usize) {
        let (num_envs, mut rng) = (4, Rng::new(seed));
        let mut evaluator = LibraryEvaluator::new(&[0.1, 1.0], true, num_envs, Some(2), (10, 500), budget, 1);
        let (mut left, mut rewards, mut steps) = (vec![0; num_envs], BatchMatrix::zeros(2, num_envs), 0);
        while !evaluator.is_over() {
            for (env, left) in left.iter_mut().enumerate() {
                *left = if rng.uniform() < 0.001 { 30 } else { i32::max(*left - 1, 0) };
                let cost = f64::from(*left > 0);
                rewards.set_column(env, &[0.1 * evaluator.weights().at(0, env) / 10.0, -cost]);
            }
            evaluator.observe(&rewards, &vec![true; num_envs], &vec![false; num_envs]);
            steps += 1;
        }
        (evaluator, steps)
    }

    #[test]
    fn standard_errors_cover_the_truth_for_rare_events() {
        let truth = -0.03;
        for budget in [0, 40_000] {
            let (evaluator, steps) = bursty(budget, 5);
            assert_eq!(steps, evaluator.steps());
            let library = evaluator.library();
            assert_eq!(library.entries.len(), 8, "two corners, a middle, three beside, two drawn");
            // Three visits of 500 steps often see no cost at all. That is no proof.
            let lucky = library.entries.iter().filter(|entry| entry.values[1] == 0.0).count();
            assert!(budget > 0 || lucky > 0, "the test is to be a hard one");
            for LibraryEntry { values, errors, .. } in &library.entries {
                assert!((values[1] - truth).abs() < 3.0 * errors[1], "{values:?} {errors:?}");
                assert!(errors[0] < 1e-9, "the objective is exact: {errors:?}");
            }
            let worst = library.entries.iter().map(|entry| entry.errors[1]).fold(0.0, f64::max);
            if budget == 0 {
                assert!(worst > 0.01, "{worst}");
            } else {
                assert!(steps <= budget && steps + 510 > budget, "{steps}: the budget is spent");
                assert!(worst < 0.008, "{worst}");
            }
        }
    }

    #[test]
    fn standard_errors_are_calibrated_and_values_unbiased() {
        let truth = 0.999_f64.powi(30) - 1.0;
        for budget in [0, 10_000, 40_000] {
            let libraries = (0..100).map(|seed| bursty(budget, seed).0.library());
            let entries: Vec<LibraryEntry> = libraries.flat_map(|library| library.entries).collect();
            // In standard errors.
            let off: Vec<f64> =
                entries.iter().map(|entry| (entry.values[1] - truth) / entry.errors[1]).collect();
            let share =
                |errors: f64| off.iter().filter(|off| off.abs() > errors).count() as f64 / off.len() as f64;
            // .046 and .003 if averages were normal; those of three visits are skewed.
            assert!(share(2.0) < 0.055 && share(3.0) < 0.01, "{budget}: {} {}", share(2.0), share(3.0));
            // Visiting again what differs most does not favour what was lucky.
            let mean = entries.iter().map(|entry| entry.values[1]).sum::<f64>() / entries.len() as f64;
            let error = entries.iter().map(|entry| entry.errors[1]).sum::<f64>() / entries.len() as f64;
            assert!((mean - truth).abs() < 0.1 * error, "{budget}: {mean} {error}");
        }
    }

    #[test]
    fn exact_values_are_not_measured_again() {
        let mut evaluator = LibraryEvaluator::new(&[1.0, 1.0, 1.0], false, 4, Some(6), (0, 4), 1_000_000, 3);
        let (planned, mut rewards) = (evaluator.steps(), BatchMatrix::zeros(3, 4));
        while !evaluator.is_over() {
            rewards.as_mut_slice().copy_from_slice(evaluator.weights().as_slice());
            evaluator.observe(&rewards, &[true; 4], &[false; 4]);
        }
        assert_eq!(evaluator.steps(), planned);
    }

    #[test]
    fn noise_does_not_select_the_library() {
        // All weightings are alike, but visits differ by far more than that.
        let (mut rng, mut library) = (Rng::new(11), 0);
        for seed in 0..20 {
            let mut evaluator = LibraryEvaluator::new(&[1.0, 1.0], true, 4, Some(6), (0, 4), 0, seed);
            let mut rewards = BatchMatrix::zeros(2, 4);
            while !evaluator.is_over() {
                rewards.as_mut_slice().iter_mut().for_each(|r| *r = 0.2 * rng.uniform());
                evaluator.observe(&rewards, &[true; 4], &[false; 4]);
            }
            library += u32::from(evaluator.executor() == Executor::Library);
        }
        assert!(library <= 2, "{library} of 20");
    }

    /// Environments in one of two states, which they leave with this probability, and where an episode ends after `episode`
    /// steps, after which the state is drawn anew.
    fn bistable(leave: f64, episode: usize, noise: f64) -> LibraryEvaluator {
        let (num_envs, mut rng) = (4, Rng::new(3));
        let mut evaluator = LibraryEvaluator::new(&[1.0, 1.0], true, num_envs, Some(6), (50, 400), 0, 5);
        let (mut states, mut rewards) = (vec![0.0; num_envs], BatchMatrix::zeros(2, num_envs));
        let mut t = 0;
        while !evaluator.is_over() {
            t += 1;
            let ended = t % episode == 0;
            for (env, state) in states.iter_mut().enumerate() {
                if ended || rng.uniform() < leave || t % 450 == 1 {
                    *state = f64::from(rng.uniform() < 0.5);
                }
                rewards.set_column(env, &[0.0, *state + noise * (rng.uniform() - 0.5)]);
            }
            evaluator.observe(&rewards, &vec![true; num_envs], &vec![ended; num_envs]);
        }
        evaluator
    }

    #[test]
    fn the_f_test_separates_noise_from_dependence_on_the_start() {
        let all = 3 + 3 + 6;
        let entries = |evaluator: &LibraryEvaluator| evaluator.library().entries.len();
        // A visit stays in the state in which it began, for ever as far as one can see: weightings are left out, unless all
        // of their visits began alike.
        let stuck = bistable(0.0, usize::MAX, 0.1);
        assert!(entries(&stuck) <= all - 3, "{}", entries(&stuck));
        // As far apart, but the next episode may be the other way: chance, with errors that say so.
        let episodes = bistable(0.0, 350, 0.1);
        assert_eq!(entries(&episodes), all);
        assert!(episodes.library().entries.iter().all(|entry| entry.errors[1] > 0.1));
        assert_eq!(episodes.executor(), Executor::Policy);
        // Without episodes: states that are left within a visit, so that its parts differ as much as visits do.
        let wanders = bistable(0.03, usize::MAX, 0.1);
        assert_eq!(entries(&wanders), all);
        let apart = |visits: &Vec<Visit>| {
            let of = || visits.iter().map(|visit| visit.averages[1]);
            of().fold(0.0, f64::max) - of().fold(1.0, f64::min) > AGREEMENT
        };
        assert!(wanders.visits.iter().any(apart), "the test is to be a hard one");
    }

    #[test]
    fn masked_steps_do_not_count_and_disagreeing_weightings_are_left_out() {
        let mut evaluator = LibraryEvaluator::new(&[1.0, 1.0], false, 2, Some(3), (0, 4), 0, 1);
        let (mut rewards, mut k) = (BatchMatrix::zeros(2, 2), 0.0);
        while !evaluator.is_over() {
            k += 1.0;
            rewards.row_mut(1).copy_from_slice(&[k, f64::NAN]);
            evaluator.observe(&rewards, &[true, false], &[false; 2]);
        }
        // One requirement, no objective: one corner, which stays although its visits are far apart.
        let library = evaluator.library();
        assert_eq!(library.entries.len(), 1);
        assert!(library.entries[0].values[1].is_finite());
    }
}
