//! PPO for environments that keep their states to themselves: a simulator, a robot, an environment of Python.
//!
//! What [`Ppo`](super::Ppo) does, turned inside out: whoever steps the environments asks what to [do](LivePpo::decide) and
//! [tells](LivePpo::observe) what came of it; when a [segment is over](LivePpo::is_full), the networks
//! [improve](LivePpo::improve) by it. States cannot be kept and returned to, so environments only start anew where the
//! environment lets them start; and nothing is known of ranges, so they are measured:
//!
//! - **the first segment** is only looked at: it says where observations and rewards lie;
//! - **observations** that are unbounded, or range over more than a few units, are scaled by their mean and deviation,
//!   which are followed through the first half of the training;
//! - **rewards** are measured again when an eighth of the training is over, by where averages lie then; and at a quarter
//!   and half of it, if they lie wider apart: a reward that has to be found first has a wider range when it has been.
//!
//! - **values** are those of what is above the usual reward, and in units of how much they differ, so that neither a reward that
//!   is far from 0 nor one of which little is at stake is beyond the critic;
//! - **advantages** are divided by what they come to at the weights of their environment, so that no weighting is drowned by
//!   others at which more is at stake;
//! - **the weights w** are heard the more, the more there is to see beside them;
//! - **numbers** of actions deviate by σ(w): environments to which noise is a cost do not take it from those that still try;
//!   σ stays above a share of what it may be, so that nobody stops trying before the middle of the training;
//! - **actions are held** by environments that care most for a reward of which the first segment showed nothing, and if that
//!   was 0, what is **new** is rewarded in its place; when it is found it is measured at once.
//!
//! # Episodes
//!
//! The problem is a continuing one: where an episode ends the next one begins, and averages are over all steps. So a
//! *termination* is a transition to the first state of the next episode, and its value is that of this state. A
//! *truncation* is none of the agent's doing: its value is that of the state in which it was cut short. Neither lets
//! advantages flow from one episode into another.

use acrl::{BatchMatrix, Interval, Named, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::count_bonus::CountBonus;
use super::networks::Networks;
use super::rollout::Rollout;
use super::statistics::{Spread, Statistics};
use super::sticky_actions::StickyActions;
use super::weight_curriculum::WeightCurriculum;
use super::{COVERED, LOOK, MlpPolicy, PpoConfig, figures};
use crate::error::length;
use crate::{Coverage, LearnError, RewardSample};

/// What came of a step, by environment.
#[derive(Debug, Clone, Copy)]
pub struct After<'a> {
    /// The environment's rewards, in the order of their names.
    pub rewards: &'a BatchMatrix,
    /// What is seen next: after a reset where an episode has ended.
    pub observation: &'a BatchMatrix,
    /// What was seen last in an episode that has ended; elsewhere anything.
    pub last: &'a BatchMatrix,
    /// Where an episode came to its end.
    pub terminated: &'a [bool],
    /// Where an episode was cut short.
    pub truncated: &'a [bool],
    /// False where no step was made because the environment only reset: this counts for nothing.
    pub valid: &'a [bool],
}

/// A training that can be stopped between two iterations, stored, and continued to the bit, if the environment can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalPpo {
    settings: PpoConfig,
    /// For each of r₀ … r_m the row of the environment's rewards and the sign.
    terms: Vec<Option<(usize, f64)>>,
    /// The environment's ranges of observations.
    ranges: Vec<Interval>,
    /// R of each of the environment's rewards, and whether it was given and is not to be measured.
    units: Vec<(f64, bool)>,
    /// What each of them usually was when nothing was learnt yet: values are those of what is above it.
    #[serde(default)]
    usual: Vec<f64>,
    networks: Networks,
    curriculum: WeightCurriculum,
    coverage: Coverage,
    seen: RewardSample,
    statistics: Statistics,
    rngs: Vec<Rng>,
    rng: Rng,
    /// Whether the first segment is over, of which nothing is learnt.
    measured: bool,
    iteration: u64,
    #[serde(default)]
    episodes: Episodes,
    /// By head of the critic, the variance of its advantages.
    #[serde(default)]
    variances: Vec<f32>,
    /// Lanes that should start anew.
    restarts: Vec<bool>,
    /// Lanes that hold their actions.
    #[serde(default)]
    holding: StickyActions,
    /// What is new to those who care for a reward never seen.
    #[serde(default)]
    novelty: CountBonus,
    /// Of which of the environment's rewards nothing has been seen yet, and the range is not known.
    #[serde(default)]
    unseen: Vec<bool>,
    #[serde(skip)]
    segment: Option<Segment>,
}

/// What need not be stored, because it begins anew with each segment.
#[derive(Debug, Clone)]
struct Segment {
    rollout: Rollout,
    /// Whether it has been learnt from: it is kept for its memory only.
    over: bool,
    /// The decisions made.
    decided: usize,
    /// The decisions that were told about.
    observed: usize,
    /// r₀ … r_m, first as they are and then in units of R.
    rewards: BatchMatrix,
    /// Their sums, and the steps of each environment.
    sums: BatchMatrix,
    steps: Vec<f64>,
    /// The environment's rewards at each step, while they are measured.
    seen: Vec<BatchMatrix>,
    cuts: Vec<Cut>,
    /// By environment, the cut at which an episode terminated whose next one has not begun yet.
    pending: Vec<Option<usize>>,
}

/// A decision after which an episode ended, and the observation whose value it leads to.
#[derive(Debug, Clone)]
struct Cut {
    decision: usize,
    env: usize,
    observation: Vec<f64>,
}

/// The share of the training after which rewards are measured again.
const MEASURE_AGAIN: f64 = 0.125;
/// Those after which R may only grow. Later than half of the training the actor, which sees weights in units of R, could not
/// make up for it.
const MEASURE_WIDER: [f64; 2] = [0.25, 0.5];
/// The factor by which each of them may change R.
const MOST_CHANGE: f64 = 30.0;
/// What the critic says at first, beside what it would say: nearly nothing. Where rewards are rare, advantages that are
/// the critic's fancies send the policy somewhere before it has seen any, and it may never come back.
const FIRST_VALUES: f64 = 0.01;
/// Beside an observation of many numbers the few weights w are hardly heard, and a policy learns one behaviour for all of
/// them: it is heard by as many times more as the variance of all that is seen is above 1, and by this at most.
const MOST_HEED: f64 = 10.0;
/// The share of the largest σ below which it may not fall. What is in reach is soon done well, and better still without noise;
/// what has to be found first is found as long as something is tried.
const KEPT_DEVIATION: f64 = 2.0 / 3.0;
/// The steps over which rewards are averaged to see where averages lie.
const BLOCK: usize = 16;

impl ExternalPpo {
    /// A training from scratch. The task's environment is a description: it is not stepped. `ranges` are those of the
    /// observations, infinite where nothing is known; `given` says of which rewards the range is known and not to
    /// be measured.
    pub fn new(
        task: &VecTask<'_>,
        ranges: &[Interval],
        given: &[bool],
        settings: PpoConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check_envs(1)?;
        let environment = task.environment();
        length("ranges of observations", environment.observation_space().len(), ranges.len())?;
        length("ranges of rewards that are given", environment.reward_names().len(), given.len())?;
        let num_envs = settings.num_envs;
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let scoring = task.specification().bind(environment.reward_names())?;
        let widths = environment.reward_ranges().iter().map(|range| range.width());
        let mut networks = Networks::new(task, &settings, &mut rng)?;
        networks.deviate_by_weights();
        networks.shrink_values(FIRST_VALUES);
        Ok(Self {
            terms: scoring.terms().collect(),
            ranges: ranges.to_vec(),
            units: widths.zip(given.iter().copied()).collect(),
            usual: Vec::new(),
            networks,
            curriculum: WeightCurriculum::new(task, settings.sampler, num_envs, &mut rngs),
            coverage: Coverage::new(),
            seen: RewardSample::default(),
            statistics: Statistics::new(ranges.len()),
            rngs,
            rng,
            measured: false,
            iteration: 0,
            variances: Vec::new(),
            episodes: Episodes { ages: vec![Some(0); num_envs], length: None },
            restarts: vec![false; num_envs],
            holding: StickyActions::default(),
            novelty: CountBonus::default(),
            unseen: Vec::new(),
            settings,
            segment: None,
        })
    }

    /// Draws an action for every environment. Asking again before anything was told is asking for the same decision; a segment
    /// that is full and not learnt from is dropped.
    pub fn decide(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) {
        let segment = match self.segment.take() {
            Some(segment) if !segment.over && segment.observed < self.settings.segment => segment,
            old => self.begin(old),
        };
        if self.follows() {
            self.statistics.visit(observation);
        }
        let segment = self.segment.insert(segment);
        self.networks.act(&mut segment.rollout, segment.observed, observation, actions, &mut self.rngs);
        let (t, num_envs) = (segment.observed, self.settings.num_envs);
        self.holding.decide(actions, &mut segment.rollout.held[t * num_envs..(t + 1) * num_envs]);
        segment.decided = segment.observed + 1;
    }

    /// Takes note of what came of the last decision, once. Numbers are to be finite: improving by others is refused.
    pub fn observe(&mut self, after: &After<'_>) {
        let waiting = |segment: &&mut Segment| !segment.over && segment.observed < segment.decided;
        let Some(segment) = self.segment.as_mut().filter(waiting) else {
            return;
        };
        let t = segment.observed;
        let num_envs = self.settings.num_envs;
        for (i, term) in self.terms.iter().enumerate() {
            let out = segment.rewards.row_mut(i);
            match term {
                Some((row, sign)) => {
                    out.iter_mut().zip(after.rewards.row(*row)).for_each(|(r, x)| *r = sign * x);
                }
                None => out.fill(0.0),
            }
        }
        for env in (0..num_envs).filter(|env| !after.valid[*env]) {
            // The environment began the next episode: this is what the end of the last one led to.
            segment.rollout.ignored[t * num_envs + env] = true;
            (0..self.terms.len()).for_each(|i| segment.rewards.set(i, env, 0.0));
            if let Some(cut) = segment.pending[env].take() {
                segment.cuts[cut].observation = after.observation.column(env).collect();
            }
        }
        if !self.measured {
            segment.seen.push(after.rewards.clone());
        }
        self.seen.glance(&segment.rewards, after.valid, t.is_multiple_of(LOOK));
        self.episodes.step(after);
        self.holding.observe(after, &mut self.rngs);
        let units = units(&self.terms, &self.units);
        for (i, unit) in units.iter().enumerate() {
            segment.rewards.row_mut(i).iter_mut().for_each(|r| *r /= unit);
            let sums = segment.sums.row_mut(i).iter_mut();
            sums.zip(segment.rewards.row(i)).for_each(|(sum, r)| *sum += r);
        }
        for (i, term) in self.terms.iter().enumerate() {
            let Some((row, sign)) = term else { continue };
            let usual = sign * self.usual.get(*row).copied().unwrap_or(0.0) / units[i];
            let num_envs = segment.rewards.row_mut(i).iter_mut().zip(after.valid);
            num_envs.filter(|(_, valid)| **valid).for_each(|(r, _)| *r -= usual);
        }
        self.networks.reward(&mut segment.rollout, t, &segment.rewards, 1.0 - self.settings.discount);
        for env in 0..num_envs {
            if !after.valid[env] {
                continue;
            }
            segment.steps[env] += 1.0;
            segment.pending[env] = None;
            let next = if after.terminated[env] {
                segment.pending[env] = Some(segment.cuts.len());
                after.observation
            } else if after.truncated[env] {
                after.last
            } else {
                continue;
            };
            segment.cuts.push(Cut { decision: t, env, observation: next.column(env).collect() });
        }
        segment.observed += 1;
    }

    /// Whether it is time to improve.
    pub fn is_full(&self) -> bool {
        self.segment
            .as_ref()
            .is_some_and(|segment| !segment.over && segment.observed == self.settings.segment)
    }

    /// Improves the networks by a segment that is over; `observation` is what is seen now. `None` after the first
    /// segment, which is only looked at.
    ///
    /// On an error the networks are as they were before.
    pub fn improve(&mut self, observation: &BatchMatrix) -> Result<Option<Named<f64>>, LearnError> {
        let Some(mut segment) = self.segment.take_if(|segment| !segment.over) else { return Ok(None) };
        segment.over = true;
        if !self.measured {
            self.measured = true;
            self.measure(&segment);
            self.segment = Some(segment);
            return Ok(None);
        }
        let decisions = self.settings.segment;
        self.networks.see(&mut segment.rollout, decisions, observation);
        self.discover(&mut segment);
        self.networks.evaluate(&mut segment.rollout, 0..decisions + 1);
        self.networks.cut(
            &mut segment.rollout,
            segment.cuts.iter().map(|cut| (cut.decision, cut.env, cut.observation.as_slice())),
            self.settings.discount as f32,
        );
        let left = (1.0 - self.iteration as f64 / self.iterations() as f64).max(0.0);
        // Less and less in the first half of the training.
        let novel = (1.0 - self.settings.discount) * (2.0 * left - 1.0);
        self.novelty.reward(&mut segment.rollout, self.ranges.len(), novel as f32);
        self.networks.advantages(&mut segment.rollout, &self.settings, left);
        self.networks.follow_values(&segment.rollout);
        segment.rollout.balance(&mut self.variances, self.settings.advantage_floor as f32);
        let step_size = self.settings.step_size * left;
        let largest = self.settings.largest_deviation(left);
        self.networks.limit_deviations(largest);
        self.networks.keep_deviations(KEPT_DEVIATION * largest.min(self.settings.deviation));
        // Advantages are about 1 now; where they are less they are noise, and stay small.
        let settings = PpoConfig { advantage_floor: 1.0, ..self.settings.clone() };
        let improved = self.networks.improve(&segment.rollout, &settings, step_size, &mut self.rng);
        self.iteration += 1;
        let improved = improved.map_err(|(quantity, value)| LearnError::Diverged {
            iteration: self.iteration,
            quantity,
            value,
        })?;
        let mut means = segment.sums.clone();
        for i in 0..means.len() {
            means.row_mut(i).iter_mut().zip(&segment.steps).for_each(|(mean, n)| *mean /= n.max(1.0));
        }
        let done = self.iteration as f64 / self.iterations() as f64;
        self.curriculum.after_live_segment(decisions, done, &means, &mut self.rngs, &mut self.restarts);
        self.episodes.forget(&self.restarts);
        self.holding.choose(&self.curriculum, done, &self.restarts, &mut self.rngs);
        let objective = self.terms.first().is_some_and(Option::is_some);
        let mastered = self.curriculum.mastered();
        let figures = figures(improved, &means, &segment.rollout.weights, mastered, objective);
        if self.follows() {
            self.networks.set_observation(self.statistics.intervals(&self.ranges));
        }
        let all = self.iterations() as f64;
        let due = |share: &f64| self.iteration == (share * all).ceil() as u64;
        if due(&MEASURE_AGAIN) {
            self.measure_again(1.0 / MOST_CHANGE);
        } else if MEASURE_WIDER.iter().any(due) {
            self.measure_again(1.0);
        }
        self.segment = Some(segment);
        Ok(Some(figures))
    }

    /// Whether observations are still followed.
    fn follows(&self) -> bool {
        2 * self.iteration < self.iterations()
    }

    /// A new segment, in the memory of an old one.
    fn begin(&mut self, old: Option<Segment>) -> Segment {
        let (num_envs, decisions, m) = (self.settings.num_envs, self.settings.segment, self.terms.len());
        let mut segment = old.unwrap_or_else(|| Segment {
            rollout: self.networks.rollout(decisions, num_envs),
            over: false,
            decided: 0,
            observed: 0,
            rewards: BatchMatrix::zeros(m, num_envs),
            sums: BatchMatrix::zeros(m, num_envs),
            steps: vec![0.0; num_envs],
            seen: Vec::new(),
            cuts: Vec::new(),
            pending: vec![None; num_envs],
        });
        (segment.over, segment.decided, segment.observed) = (false, 0, 0);
        segment.sums.as_mut_slice().fill(0.0);
        segment.steps.fill(0.0);
        segment.seen.clear();
        segment.cuts.clear();
        segment.pending.fill(None);
        segment.rollout.continues.fill(1.0);
        segment.rollout.ignored.fill(false);
        segment.rollout.held.fill(false);
        self.networks.set_weights(&mut segment.rollout, self.curriculum.weights());
        for _ in 0..COVERED.min(num_envs) {
            let env = self.rng.index(num_envs);
            self.coverage.visit(self.curriculum.weights().column(env), &mut self.rng);
        }
        segment
    }

    /// Where observations and rewards lie when nothing has been learnt yet.
    fn measure(&mut self, segment: &Segment) {
        let intervals = self.statistics.intervals(&self.ranges);
        self.networks.heed(self.statistics.variance(&intervals).clamp(1.0, MOST_HEED) as f32);
        self.networks.set_observation(intervals);
        let spreads: Vec<Spread> =
            (0..self.units.len()).map(|row| Spread::of(&segment.seen, row, BLOCK)).collect();
        let mut units = self.units.clone();
        for ((unit, given), spread) in units.iter_mut().zip(&spreads) {
            if !*given {
                *unit = spread.unit();
            }
        }
        let is_rare = |term: &Option<(usize, f64)>| term.is_some_and(|(row, _)| spreads[row].is_constant());
        self.holding = StickyActions::new(self.terms.iter().map(is_rare).collect(), self.settings.num_envs);
        self.holding.choose(&self.curriculum, 0.0, &self.restarts, &mut self.rngs);
        let found = |term: &Option<(usize, f64)>| term.is_some_and(|(row, _)| !spreads[row].is_nothing());
        let heads = self.terms.iter().filter(|term| term.is_some()).map(|term| !found(term));
        self.novelty = CountBonus::new(heads.collect());
        self.unseen =
            self.units.iter().zip(&spreads).map(|((_, given), s)| !given && s.is_nothing()).collect();
        self.set_units(units);
        self.usual = spreads.iter().map(|spread| spread.usual).collect();
        let averages = self.terms.iter().map(|term| match term {
            Some((row, sign)) => {
                let Spread { low, high, .. } = spreads[*row];
                let (a, b) = (sign * low / self.units[*row].0, sign * high / self.units[*row].0);
                [a.min(b), a.max(b)]
            }
            None => [0.0, 0.0],
        });
        self.curriculum.set_ranges(averages.collect(), &mut self.rngs);
    }

    /// Where a reward is seen for the first time, R is what the best environment has of it in this segment, before anything is learnt of it:
    /// in units of 1 a rare one would count for nothing until rewards are measured again.
    fn discover(&mut self, segment: &mut Segment) {
        let mut new = self.units.clone();
        for (i, term) in self.terms.iter().enumerate() {
            let Some((row, _)) = term.filter(|(row, _)| self.unseen.get(*row) == Some(&true)) else {
                continue;
            };
            let averages =
                segment.sums.row(i).iter().zip(&segment.steps).map(|(sum, n)| sum.abs() / n.max(1.0));
            let most = averages.fold(0.0, f64::max);
            if most > 0.0 {
                self.unseen[row] = false;
                new[row].0 *= most;
            }
        }
        if new == self.units {
            return;
        }
        let before = units(&self.terms, &self.units);
        self.set_units(new);
        let after = units(&self.terms, &self.units);
        let num_envs = self.settings.num_envs;
        let block = num_envs * self.settings.segment;
        let heads = segment.rollout.weights.len() / num_envs;
        let first = self.terms.len() - heads;
        for (i, (before, after)) in before.iter().zip(&after).enumerate() {
            let factor = before / after;
            segment.sums.row_mut(i).iter_mut().for_each(|sum| *sum *= factor);
            if i >= first {
                let rewards = &mut segment.rollout.rewards[(i - first) * block..(i - first + 1) * block];
                rewards.iter_mut().for_each(|r| *r *= factor as f32);
            }
        }
    }

    /// R by where averages have been lying lately, times this at least. Narrower again and again, a reward that was not had
    /// lately would count ever more until a single one of it upsets all that was learnt.
    fn measure_again(&mut self, least: f64) {
        let mut units = self.units.clone();
        let mut widths = vec![0.0f64; units.len()];
        for (term, [low, high]) in self.terms.iter().zip(self.curriculum.ranges()) {
            if let Some((row, _)) = term {
                widths[*row] = widths[*row].max(high - low);
            }
        }
        for ((unit, given), width) in units.iter_mut().zip(&widths) {
            if !*given && *width > 0.0 {
                *unit *= width.clamp(least, MOST_CHANGE);
            }
        }
        self.set_units(units);
    }

    /// Everything in other units.
    fn set_units(&mut self, new: Vec<(f64, bool)>) {
        let (old, new_units) = (units(&self.terms, &self.units), units(&self.terms, &new));
        let factors: Vec<f64> = old.iter().zip(&new_units).map(|(old, new)| old / new).collect();
        self.units = new;
        self.curriculum.rescale(&factors);
        let heads = factors.iter().skip(factors.len() - self.variances.len());
        self.variances
            .iter_mut()
            .zip(heads)
            .for_each(|(variance, factor)| *variance *= (factor * factor) as f32);
        self.networks.rescale(&factors, &new_units);
    }

    /// The settings.
    pub fn settings(&self) -> &PpoConfig {
        &self.settings
    }

    /// Iterations done.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Iterations planned.
    pub fn iterations(&self) -> u64 {
        self.settings.iterations()
    }

    /// Environment steps done, in all environments, those that were only looked at included.
    pub fn steps(&self) -> u64 {
        (self.iteration + u64::from(self.measured)) * (self.settings.num_envs * self.settings.segment) as u64
    }

    /// Lanes that should start anew now, if that is possible.
    pub fn restarts(&self) -> &[bool] {
        &self.restarts
    }

    /// How many steps episodes have taken lately that came to their end; `None` if none did.
    pub fn episode(&self) -> Option<f64> {
        self.episodes.length
    }

    /// R of each of the environment's rewards.
    pub fn units(&self) -> Vec<f64> {
        self.units.iter().map(|(unit, _)| *unit).collect()
    }

    /// For each of r₀ … r_m the row of the environment's rewards and the sign.
    pub fn terms(&self) -> &[Option<(usize, f64)>] {
        &self.terms
    }

    /// The rewards that occurred.
    pub fn seen(&self) -> &RewardSample {
        &self.seen
    }

    /// A sample of the weights it was trained on.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// How much of each of r₀ … r_m's range the policy has when that reward is nearly all that matters, from 0 to 1.
    pub fn mastered(&self) -> &[f64] {
        self.curriculum.mastered()
    }

    /// The policy as it is now.
    pub fn policy(&self) -> MlpPolicy {
        self.networks.policy(1)
    }
}

/// How long episodes are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Episodes {
    /// The steps of each environment's episode so far; `None` where its beginning is not known.
    ages: Vec<Option<u64>>,
    length: Option<f64>,
}

impl Episodes {
    /// The share of the last episode in what is known of their length.
    const LAST: f64 = 1.0 / 16.0;

    fn step(&mut self, after: &After<'_>) {
        self.ages.resize(after.valid.len(), None);
        for (env, age) in self.ages.iter_mut().enumerate().filter(|(env, _)| after.valid[*env]) {
            let steps = age.map(|age| age + 1);
            *age = steps;
            if after.terminated[env] || after.truncated[env] {
                if let Some(steps) = steps.map(|steps| steps as f64) {
                    let length = self.length.get_or_insert(steps);
                    *length += Self::LAST * (steps - *length);
                }
                *age = Some(0);
            }
        }
    }

    /// These environments may start anew, or may not be able to.
    fn forget(&mut self, restarts: &[bool]) {
        self.ages.iter_mut().zip(restarts).filter(|(_, restart)| **restart).for_each(|(age, _)| *age = None);
    }
}

/// R₀ … R_m.
fn units(terms: &[Option<(usize, f64)>], units: &[(f64, bool)]) -> Vec<f64> {
    terms.iter().map(|term| term.map_or(1.0, |(row, _)| units[row].0)).collect()
}
