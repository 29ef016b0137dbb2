//! PPO for environments that cannot be reset to an arbitrary state (simulators, hardware, Gymnasium).
//!
//! The caller steps the environments; the learner exposes [`act`](ExternalPpo::act), [`observe`](ExternalPpo::observe) and
//! [`update`](ExternalPpo::update), which is due when the [rollout is full](ExternalPpo::rollout_is_full). There is no
//! reset buffer, and as ranges are unknown everything is normalised by what is observed:
//!
//! - **Warm-up.** The first rollout only measures observations and rewards.
//! - **Observations** that are unbounded or in a wide range are scaled by a running mean and standard deviation during
//!   the first half of the training.
//! - **Rewards** are scaled by the spread of their averages, re-estimated after ⅛ of the training and, if the spread has
//!   widened, after ¼ and ½. Their median in the warm-up is subtracted from the critic's rewards. A reward
//!   that was never observed gets its scale when it first appears.
//! - **Values** are normalised by PopArt (van Hasselt et al. 2016).
//! - **Advantages** are normalised per weighting, so that no weighting dominates the gradient.
//! - **Weight inputs.** With high-dimensional observations the first layer is dominated by the observation, and the policy
//!   learns to ignore w. The initial input weights of w are scaled by the total observation variance, at most tenfold.
//! - **Exploration.** σ(w) depends on the weights and has a lower bound until mid-training. Environments whose dominant
//!   reward was constant in the warm-up use [sticky actions](crate::exploration), and one that was always 0 is
//!   replaced by a [count-based bonus](crate::exploration).
//!
//! # Episodes
//!
//! The problem is a continuing one: episodes are concatenated, and averages are over all steps. So a *termination* is a
//! transition to the first state of the next episode and bootstraps from its value; a *truncation* bootstraps from the final
//! observation. Neither lets advantages flow from one episode into another.

use acrl::{BatchMatrix, Interval, Named, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::actor_critic::Networks;
use super::normalize::{ObservationStatistics, RewardSpread};
use super::{COVERAGE_SAMPLE, Inputs, MlpPolicy, PpoConfig, REWARD_SAMPLE_INTERVAL, RolloutBuffer};
use crate::error::length;
use crate::exploration::{CountBonus, StickyActions};
use crate::metrics::named_rewards;
use crate::tuning::external_ppo::{
    BLOCK, INITIAL_VALUE_SCALE, LAST_EPISODE, MAX_RESCALE, MAX_WEIGHT_INPUT_SCALE, MIN_STD, RESCALE,
    RESCALE_WIDER,
};
use crate::weights::WeightCurriculum;
use crate::{Coverage, LearnError, RewardSample};

/// Result of a step, by environment.
#[derive(Debug, Clone, Copy)]
pub struct StepResult<'a> {
    /// Rewards of the environment, in the order of their names.
    pub rewards: &'a BatchMatrix,
    /// Next observation: the one after the reset where an episode has ended.
    pub observation: &'a BatchMatrix,
    /// Final observation of an episode that has ended; arbitrary elsewhere.
    pub final_observation: &'a BatchMatrix,
    /// Environments whose episode terminated.
    pub terminated: &'a [bool],
    /// Environments whose episode was truncated.
    pub truncated: &'a [bool],
    /// False where the environment was only reset, so that there is no transition.
    pub mask: &'a [bool],
}

/// A training that can be stopped between two iterations, stored, and continued bit-identically, if the environment can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalPpo {
    settings: PpoConfig,
    /// Names of the environment's rewards.
    #[serde(default)]
    reward_names: Vec<String>,
    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    terms: Vec<Option<(usize, f64)>>,
    /// Ranges of the environment's observations.
    ranges: Vec<Interval>,
    /// Scale R of each of the environment's rewards, and whether it was given and is not to be measured.
    reward_scales: Vec<(f64, bool)>,
    /// Median of each of them in the warm-up, which is subtracted from the critic's rewards.
    #[serde(default)]
    reward_median: Vec<f64>,
    networks: Networks,
    curriculum: WeightCurriculum,
    coverage: Coverage,
    reward_sample: RewardSample,
    statistics: ObservationStatistics,
    rngs: Vec<Rng>,
    rng: Rng,
    /// Whether the warm-up is over.
    measured: bool,
    iteration: u64,
    #[serde(default)]
    episodes: EpisodeLength,
    /// Variance of the advantages of each head of the critic.
    #[serde(default)]
    variances: Vec<f32>,
    /// Environments that should be reset.
    restarts: Vec<bool>,
    #[serde(default)]
    sticky_actions: StickyActions,
    #[serde(default)]
    count_bonus: CountBonus,
    /// Rewards of the environment that have never been observed, and whose scale is not given.
    #[serde(default)]
    never_observed: Vec<bool>,
    #[serde(skip)]
    rollout: Option<PartialRollout>,
}

/// A rollout in progress, which is not stored: a resumed training begins a new one.
#[derive(Debug, Clone)]
struct PartialRollout {
    buffer: RolloutBuffer,
    /// Whether the update is done, so that only the allocated memory is of use.
    consumed: bool,
    /// Number of actions drawn.
    acted: usize,
    /// Number of step results observed.
    observed: usize,
    /// r₀ … r_m of a step, first as they are and then in units of R.
    rewards: BatchMatrix,
    /// Sums of r₀ … r_m.
    sums: BatchMatrix,
    /// Number of transitions of each environment.
    steps: Vec<f64>,
    /// Rewards of the environment at each step of the warm-up.
    warm_up: Vec<BatchMatrix>,
    ends: Vec<EpisodeEnd>,
    /// Index of the termination, by environment, whose next episode has not begun yet.
    pending: Vec<Option<usize>>,
}

/// An action after which an episode ended, and the observation whose value it bootstraps from.
#[derive(Debug, Clone)]
struct EpisodeEnd {
    step: usize,
    env: usize,
    observation: Vec<f64>,
}

impl ExternalPpo {
    /// A training from scratch. The task's environment is a description that is not stepped. `ranges` are those of the
    /// observations, infinite where they are unknown; `given` marks the rewards whose range is known and not to be measured.
    pub fn new(
        task: &VecTask<'_>,
        ranges: &[Interval],
        given: &[bool],
        settings: PpoConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check(1)?;
        let environment = task.environment();
        length("ranges of observations", environment.observation_space().len(), ranges.len())?;
        length("ranges of rewards that are given", environment.reward_names().len(), given.len())?;
        let num_envs = settings.num_envs;
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let scoring = task.specification().bind(environment.reward_names())?;
        let widths = environment.reward_ranges().iter().map(|range| range.width());
        let actions = environment.action_space();
        let mut networks = Networks::new(Inputs::new(task)?, actions, &settings, &mut rng)?;
        networks.weight_dependent_std();
        networks.shrink_values(INITIAL_VALUE_SCALE);
        Ok(Self {
            reward_names: environment.reward_names().to_vec(),
            terms: scoring.terms().collect(),
            ranges: ranges.to_vec(),
            reward_scales: widths.zip(given.iter().copied()).collect(),
            reward_median: Vec::new(),
            networks,
            curriculum: WeightCurriculum::new(task, settings.weight_sampler, num_envs, &mut rngs),
            coverage: Coverage::new(),
            reward_sample: RewardSample::default(),
            statistics: ObservationStatistics::new(ranges.len()),
            rngs,
            rng,
            measured: false,
            iteration: 0,
            variances: Vec::new(),
            episodes: EpisodeLength::new(num_envs),
            restarts: vec![false; num_envs],
            sticky_actions: StickyActions::default(),
            count_bonus: CountBonus::default(),
            never_observed: Vec::new(),
            settings,
            rollout: None,
        })
    }

    /// Draws an action for every environment. A second call before a step result is observed draws the same action again; a
    /// full rollout without an update is dropped.
    pub fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) {
        let rollout = match self.rollout.take() {
            Some(rollout) if !rollout.consumed && rollout.observed < self.settings.n_steps => rollout,
            old => self.begin(old),
        };
        if self.normalizes_observations() {
            self.statistics.visit(observation);
        }
        let rollout = self.rollout.insert(rollout);
        let (t, num_envs) = (rollout.observed, self.settings.num_envs);
        self.networks.act(&mut rollout.buffer, t, observation, actions, &mut self.rngs);
        self.sticky_actions.apply(actions, &mut rollout.buffer.sticky[t * num_envs..(t + 1) * num_envs]);
        rollout.acted = t + 1;
    }

    /// Records the result of the last action, once. The numbers must be finite: an update by others is refused.
    pub fn observe(&mut self, result: &StepResult<'_>) {
        let waiting = |rollout: &&mut PartialRollout| !rollout.consumed && rollout.observed < rollout.acted;
        let Some(rollout) = self.rollout.as_mut().filter(waiting) else {
            return;
        };
        let t = rollout.observed;
        let num_envs = self.settings.num_envs;
        for (i, term) in self.terms.iter().enumerate() {
            let out = rollout.rewards.row_mut(i);
            match term {
                Some((row, sign)) => {
                    out.iter_mut().zip(result.rewards.row(*row)).for_each(|(r, x)| *r = sign * x);
                }
                None => out.fill(0.0),
            }
        }
        for env in (0..num_envs).filter(|env| !result.mask[*env]) {
            // The next episode begins: its first observation is the successor of the termination before.
            rollout.buffer.ignored[t * num_envs + env] = true;
            (0..self.terms.len()).for_each(|i| rollout.rewards.set(i, env, 0.0));
            if let Some(end) = rollout.pending[env].take() {
                rollout.ends[end].observation = result.observation.column(env).collect();
            }
        }
        if !self.measured {
            rollout.warm_up.push(result.rewards.clone());
        }
        self.reward_sample.glance(&rollout.rewards, result.mask, t.is_multiple_of(REWARD_SAMPLE_INTERVAL));
        self.episodes.step(result);
        self.sticky_actions.observe(result, &mut self.rngs);
        let scales = scales(&self.terms, &self.reward_scales);
        for (i, scale) in scales.iter().enumerate() {
            rollout.rewards.row_mut(i).iter_mut().for_each(|r| *r /= scale);
            let sums = rollout.sums.row_mut(i).iter_mut();
            sums.zip(rollout.rewards.row(i)).for_each(|(sum, r)| *sum += r);
        }
        for (i, term) in self.terms.iter().enumerate() {
            let Some((row, sign)) = term else { continue };
            let median = sign * self.reward_median.get(*row).copied().unwrap_or(0.0) / scales[i];
            let envs = rollout.rewards.row_mut(i).iter_mut().zip(result.mask);
            envs.filter(|(_, valid)| **valid).for_each(|(r, _)| *r -= median);
        }
        self.networks.reward(&mut rollout.buffer, t, &rollout.rewards, 1.0 - self.settings.gamma);
        for env in 0..num_envs {
            if !result.mask[env] {
                continue;
            }
            rollout.steps[env] += 1.0;
            rollout.pending[env] = None;
            let next = if result.terminated[env] {
                rollout.pending[env] = Some(rollout.ends.len());
                result.observation
            } else if result.truncated[env] {
                result.final_observation
            } else {
                continue;
            };
            rollout.ends.push(EpisodeEnd { step: t, env, observation: next.column(env).collect() });
        }
        rollout.observed += 1;
    }

    /// Whether an update is due.
    pub fn rollout_is_full(&self) -> bool {
        let full = |rollout: &PartialRollout| rollout.observed == self.settings.n_steps;
        self.rollout.as_ref().is_some_and(|rollout| !rollout.consumed && full(rollout))
    }

    /// Updates the networks by a full rollout and returns its metrics; `observation` is the present one. `None` after the
    /// warm-up.
    ///
    /// On an error the networks are as they were before.
    pub fn update(&mut self, observation: &BatchMatrix) -> Result<Option<Named<f64>>, LearnError> {
        let Some(mut rollout) = self.rollout.take_if(|rollout| !rollout.consumed) else { return Ok(None) };
        rollout.consumed = true;
        if !self.measured {
            self.measured = true;
            self.measure(&rollout);
            self.rollout = Some(rollout);
            return Ok(None);
        }
        let n_steps = self.settings.n_steps;
        self.networks.set_observation_at(&mut rollout.buffer, n_steps, observation);
        self.scale_new_rewards(&mut rollout);
        self.networks.evaluate(&mut rollout.buffer, 0..n_steps + 1);
        let ends = rollout.ends.iter().map(|end| (end.step, end.env, end.observation.as_slice()));
        self.networks.end_episodes(&mut rollout.buffer, ends, self.settings.gamma as f32);
        let left = (1.0 - self.iteration as f64 / self.iterations() as f64).max(0.0);
        // Annealed to 0 by mid-training.
        let bonus = (1.0 - self.settings.gamma) * (2.0 * left - 1.0);
        self.count_bonus.reward(&mut rollout.buffer, self.ranges.len(), bonus as f32);
        self.networks.advantages(&mut rollout.buffer, &self.settings, left);
        self.networks.update_popart(&rollout.buffer);
        rollout
            .buffer
            .normalize_advantages_per_weight(&mut self.variances, self.settings.min_advantage_std as f32);
        let learning_rate = self.settings.learning_rate * left;
        let max_std = self.settings.max_std(left);
        self.networks.clamp_std_max(max_std);
        self.networks.clamp_std_min(MIN_STD * max_std.min(self.settings.init_std));
        // Advantages have a standard deviation of about 1 now; smaller ones are noise, and stay small.
        let settings = PpoConfig { min_advantage_std: 1.0, ..self.settings.clone() };
        self.iteration += 1;
        let (iteration, rng) = (self.iteration, &mut self.rng);
        let update = self.networks.update(&rollout.buffer, &settings, learning_rate, iteration, rng)?;
        let (mut means, mut overall) = (rollout.sums.clone(), scales(&self.terms, &self.reward_scales));
        let steps = rollout.steps.iter().sum::<f64>().max(1.0);
        for (i, overall) in overall.iter_mut().enumerate() {
            *overall *= rollout.sums.row(i).iter().sum::<f64>() / steps;
            means.row_mut(i).iter_mut().zip(&rollout.steps).for_each(|(mean, n)| *mean /= n.max(1.0));
        }
        let done = self.iteration as f64 / self.iterations() as f64;
        self.curriculum.after_external_rollout(n_steps, done, &means, &mut self.rngs, &mut self.restarts);
        self.episodes.forget(&self.restarts);
        self.sticky_actions.choose(&self.curriculum, done, &self.restarts, &mut self.rngs);
        let objective = self.terms.first().is_some_and(Option::is_some);
        let progress = self.curriculum.progress();
        let metrics = update.named(&means, &rollout.buffer.weights, progress, objective);
        let metrics = metrics.chain(named_rewards(&self.reward_names, &self.terms, &overall)).collect();
        if self.normalizes_observations() {
            self.networks.set_observation(self.statistics.intervals(&self.ranges));
        }
        let all = self.iterations() as f64;
        let due = |share: &f64| self.iteration == (share * all).ceil() as u64;
        if due(&RESCALE) {
            self.rescale_rewards(1.0 / MAX_RESCALE);
        } else if RESCALE_WIDER.iter().any(due) {
            self.rescale_rewards(1.0);
        }
        self.rollout = Some(rollout);
        Ok(Some(metrics))
    }

    /// Whether the running statistics of observations are still updated.
    fn normalizes_observations(&self) -> bool {
        2 * self.iteration < self.iterations()
    }

    /// A new rollout, in the memory of an old one.
    fn begin(&mut self, old: Option<PartialRollout>) -> PartialRollout {
        let (num_envs, n_steps, m) = (self.settings.num_envs, self.settings.n_steps, self.terms.len());
        let mut rollout = old.unwrap_or_else(|| PartialRollout {
            buffer: self.networks.rollout_buffer(n_steps, num_envs),
            consumed: false,
            acted: 0,
            observed: 0,
            rewards: BatchMatrix::zeros(m, num_envs),
            sums: BatchMatrix::zeros(m, num_envs),
            steps: vec![0.0; num_envs],
            warm_up: Vec::new(),
            ends: Vec::new(),
            pending: vec![None; num_envs],
        });
        (rollout.consumed, rollout.acted, rollout.observed) = (false, 0, 0);
        rollout.sums.as_mut_slice().fill(0.0);
        rollout.steps.fill(0.0);
        rollout.warm_up.clear();
        rollout.ends.clear();
        rollout.pending.fill(None);
        rollout.buffer.continues.fill(1.0);
        rollout.buffer.ignored.fill(false);
        rollout.buffer.sticky.fill(false);
        self.networks.set_weights(&mut rollout.buffer, self.curriculum.weights());
        for _ in 0..COVERAGE_SAMPLE.min(num_envs) {
            let env = self.rng.index(num_envs);
            self.coverage.visit(self.curriculum.weights().column(env), &mut self.rng);
        }
        rollout
    }

    /// Evaluates the warm-up: intervals of observations, scales and medians of rewards, and what has to be explored.
    fn measure(&mut self, rollout: &PartialRollout) {
        let intervals = self.statistics.intervals(&self.ranges);
        self.networks.scale_weight_inputs(
            self.statistics.variance(&intervals).clamp(1.0, MAX_WEIGHT_INPUT_SCALE) as f32,
        );
        self.networks.set_observation(intervals);
        let rows = 0..self.reward_scales.len();
        let spreads: Vec<RewardSpread> =
            rows.map(|row| RewardSpread::of(&rollout.warm_up, row, BLOCK)).collect();
        let mut scales = self.reward_scales.clone();
        for ((scale, given), spread) in scales.iter_mut().zip(&spreads) {
            if !*given {
                *scale = spread.reward_scale();
            }
        }
        let is_rare = |term: &Option<(usize, f64)>| term.is_some_and(|(row, _)| spreads[row].is_constant());
        self.sticky_actions =
            StickyActions::new(self.terms.iter().map(is_rare).collect(), self.settings.num_envs);
        self.sticky_actions.choose(&self.curriculum, 0.0, &self.restarts, &mut self.rngs);
        let observed =
            |term: &Option<(usize, f64)>| term.is_some_and(|(row, _)| !spreads[row].never_observed());
        let heads = self.terms.iter().filter(|term| term.is_some()).map(|term| !observed(term));
        self.count_bonus = CountBonus::new(heads.collect());
        let given = self.reward_scales.iter().zip(&spreads);
        self.never_observed = given.map(|((_, given), s)| !given && s.never_observed()).collect();
        self.set_scales(scales);
        self.reward_median = spreads.iter().map(|spread| spread.median).collect();
        let averages = self.terms.iter().map(|term| match term {
            Some((row, sign)) => {
                let RewardSpread { low, high, .. } = spreads[*row];
                let scale = self.reward_scales[*row].0;
                let (a, b) = (sign * low / scale, sign * high / scale);
                [a.min(b), a.max(b)]
            }
            None => [0.0, 0.0],
        });
        self.curriculum.set_ranges(averages.collect(), &mut self.rngs);
    }

    /// Scales rewards that are observed for the first time by the largest average of an environment in this rollout: with
    /// a scale of 1, a rare reward would be negligible until the next re-estimation.
    fn scale_new_rewards(&mut self, rollout: &mut PartialRollout) {
        let mut new = self.reward_scales.clone();
        for (i, term) in self.terms.iter().enumerate() {
            let Some((row, _)) = term.filter(|(row, _)| self.never_observed.get(*row) == Some(&true)) else {
                continue;
            };
            let averages =
                rollout.sums.row(i).iter().zip(&rollout.steps).map(|(sum, n)| sum.abs() / n.max(1.0));
            let most = averages.fold(0.0, f64::max);
            if most > 0.0 {
                self.never_observed[row] = false;
                new[row].0 *= most;
            }
        }
        if new == self.reward_scales {
            return;
        }
        let before = scales(&self.terms, &self.reward_scales);
        self.set_scales(new);
        let after = scales(&self.terms, &self.reward_scales);
        let num_envs = self.settings.num_envs;
        let block = num_envs * self.settings.n_steps;
        let heads = rollout.buffer.weights.len() / num_envs;
        let first = self.terms.len() - heads;
        for (i, (before, after)) in before.iter().zip(&after).enumerate() {
            let factor = before / after;
            rollout.sums.row_mut(i).iter_mut().for_each(|sum| *sum *= factor);
            if i >= first {
                let rewards = &mut rollout.buffer.rewards[(i - first) * block..(i - first + 1) * block];
                rewards.iter_mut().for_each(|r| *r *= factor as f32);
            }
        }
    }

    /// Re-estimates the scales of rewards by the spread of recent averages, each changed by at least this factor: if scales
    /// could shrink repeatedly, a reward that was missing for a while would dominate when it returns.
    fn rescale_rewards(&mut self, min_factor: f64) {
        let mut scales = self.reward_scales.clone();
        let mut widths = vec![0.0f64; scales.len()];
        for (term, [low, high]) in self.terms.iter().zip(self.curriculum.ranges()) {
            if let Some((row, _)) = term {
                widths[*row] = widths[*row].max(high - low);
            }
        }
        for ((scale, given), width) in scales.iter_mut().zip(&widths) {
            if !*given && *width > 0.0 {
                *scale *= width.clamp(min_factor, MAX_RESCALE);
            }
        }
        self.set_scales(scales);
    }

    /// Changes the scales of rewards, and converts everything that is in units of them.
    fn set_scales(&mut self, new: Vec<(f64, bool)>) {
        let (old, new_scales) = (scales(&self.terms, &self.reward_scales), scales(&self.terms, &new));
        let factors: Vec<f64> = old.iter().zip(&new_scales).map(|(old, new)| old / new).collect();
        self.reward_scales = new;
        self.curriculum.rescale(&factors);
        let heads = factors.iter().skip(factors.len() - self.variances.len());
        self.variances
            .iter_mut()
            .zip(heads)
            .for_each(|(variance, factor)| *variance *= (factor * factor) as f32);
        self.networks.rescale(&factors, &new_scales);
    }

    /// The settings.
    pub fn settings(&self) -> &PpoConfig {
        &self.settings
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        self.settings.iterations(1)
    }

    /// Environment steps done, in all environments, those of the warm-up included.
    pub fn steps(&self) -> u64 {
        (self.iteration + u64::from(self.measured)) * (self.settings.num_envs * self.settings.n_steps) as u64
    }

    /// Environments that should be reset now, if that is possible.
    pub fn restarts(&self) -> &[bool] {
        &self.restarts
    }

    /// Moving average of the length of episodes; `None` if none has ended.
    pub fn episode(&self) -> Option<f64> {
        self.episodes.mean
    }

    /// Scale R of each of the environment's rewards.
    pub fn units(&self) -> Vec<f64> {
        self.reward_scales.iter().map(|(scale, _)| *scale).collect()
    }

    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    pub fn terms(&self) -> &[Option<(usize, f64)>] {
        &self.terms
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        &self.reward_sample
    }

    /// Sample of the weights that it was trained on.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Progress on each of r₀ … r_m, from 0 to 1.
    pub fn progress(&self) -> &[f64] {
        self.curriculum.progress()
    }

    /// The policy as it is now.
    pub fn policy(&self) -> MlpPolicy {
        self.networks.policy(1)
    }
}

/// Moving average of the length of episodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EpisodeLength {
    /// Steps of each environment's episode so far; `None` where its beginning is not known.
    ages: Vec<Option<u64>>,
    mean: Option<f64>,
}

impl EpisodeLength {
    /// No episode has ended yet.
    pub(crate) fn new(num_envs: usize) -> Self {
        Self { ages: vec![Some(0); num_envs], mean: None }
    }

    /// The average; `None` if no episode has ended.
    pub(crate) fn mean(&self) -> Option<f64> {
        self.mean
    }

    pub(crate) fn step(&mut self, result: &StepResult<'_>) {
        self.ages.resize(result.mask.len(), None);
        for (env, age) in self.ages.iter_mut().enumerate().filter(|(env, _)| result.mask[*env]) {
            let steps = age.map(|age| age + 1);
            *age = steps;
            if result.terminated[env] || result.truncated[env] {
                if let Some(steps) = steps.map(|steps| steps as f64) {
                    let mean = self.mean.get_or_insert(steps);
                    *mean += LAST_EPISODE * (steps - *mean);
                }
                *age = Some(0);
            }
        }
    }

    /// Discards the ages of environments that are asked to reset, and may not be able to.
    fn forget(&mut self, restarts: &[bool]) {
        self.ages.iter_mut().zip(restarts).filter(|(_, restart)| **restart).for_each(|(age, _)| *age = None);
    }
}

/// Scales R₀ … R_m.
fn scales(terms: &[Option<(usize, f64)>], scales: &[(f64, bool)]) -> Vec<f64> {
    terms.iter().map(|term| term.map_or(1.0, |(row, _)| scales[row].0)).collect()
}
