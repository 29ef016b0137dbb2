//! Model-based learning with a table, for environments with few distinct observations.
//!
//! Every distinct observation is a state. The learner counts transitions, rewards and terminations, and solves the
//! [estimated model](estimate()) exactly (`acrl-exact`): certainty equivalence, for all bounds at once, because other bounds
//! only mean another solve. In [execution](TabularExecution) the dual dynamics correct what the estimate is wrong about,
//! counts go on, and the model is solved again at geometrically spaced times.
//!
//! - **Exploration** covers all pairs of states and actions, by a count-based bonus (Strehl & Littman 2008) with prioritised
//!   sweeping (Moore & Atkeson 1993), in turns with policies that are optimal in the model for random weights, so that data
//!   are where solutions are.
//! - **Episodes.** After a termination the next episode begins in a state of one shared distribution, to which all episodes
//!   contribute. A truncation is a transition to the final observation; the [time limit](TimeLimit) is estimated apart.
//! - **Suitability.** [`Tabular::suitability`] measures whether a table is the right thing: states, steps per pair, new
//!   states, and the difference of the model's claims from what was measured, which shows hidden states.
//!
//! The caller steps the environments, as with [`ExternalPpo`](crate::ExternalPpo).

mod config;
mod counts;
mod coverage_plan;
mod estimate;
mod execution;
mod exploration;
pub(crate) mod file;
mod greedy_plan;
mod observations;
mod policy;
mod solution;
mod suitability;
mod time_limit;

pub use config::TabularConfig;
pub use counts::Counts;
pub use estimate::{EstimatedSolution, estimate, solve_estimate};
pub use execution::{TabularExecution, TabularExecutionOptions, TabularState};
pub use observations::ObservationTable;
pub use policy::TabularPolicy;
pub use suitability::Suitability;
pub use time_limit::TimeLimit;

use acrl::{ActionPart, BatchMatrix, Error, Interval, Named, Rng, Specification, VecTask};
use serde::{Deserialize, Serialize};

use crate::error::length;
use crate::metrics::named_rewards;
use crate::ppo::StepResult;
use crate::settings::Settings as _;
use crate::tuning::tabular::{ITERATIONS, MOST_ACTIONS};
use crate::{Coverage, LearnError, RewardSample};
use exploration::{Exploration, Progress};

/// A training that can be stopped between two iterations, stored, and continued bit-identically, if the environment can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tabular {
    settings: TabularConfig,
    specification: Specification,
    /// Names of the environment's rewards.
    reward_names: Vec<String>,
    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    terms: Vec<Option<(usize, f64)>>,
    /// Range of each of the environment's rewards, if it was given.
    given: Vec<Option<f64>>,
    /// Number of values of each part of an action.
    parts: Vec<usize>,
    table: ObservationTable,
    counts: Counts,
    exploration: Exploration,
    envs: Vec<Env>,
    rngs: Vec<Rng>,
    rng: Rng,
    steps: u64,
    iteration: u64,
    /// Steps and states at the end of each iteration.
    growth: Vec<(u64, usize)>,
    /// Why the training cannot go on.
    failure: Option<Failure>,
    /// Σ of the environment's rewards in this iteration, and the number of transitions.
    sums: Vec<f64>,
    transitions: u64,
    /// Objective of the last solution, and its step.
    objective: Option<f64>,
    solved: u64,
    reward_sample: RewardSample,
    coverage: Coverage,
    restarts: Vec<bool>,
}

/// What an environment is doing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Env {
    /// State and action of a step whose result has not been observed.
    taken: Option<(Option<usize>, usize)>,
    /// Whether the next step is the first of an episode.
    fresh: bool,
    /// Steps of the episode.
    clock: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Failure {
    TooManyStates(u64),
    NotFinite,
}

impl Tabular {
    /// A training from scratch. The task's environment is a description that is not stepped. `ranges` are those of the
    /// observations, of which only the number matters; `given` marks the rewards whose range is known.
    pub fn new(
        task: &VecTask<'_>,
        ranges: &[Interval],
        given: &[bool],
        config: TabularConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        config.check_ranges()?;
        let environment = task.environment();
        length("ranges of observations", environment.observation_space().len(), ranges.len())?;
        length("ranges of rewards that are given", environment.reward_names().len(), given.len())?;
        let parts = action_parts(environment.action_space())?;
        let scoring = task.specification().bind(environment.reward_names())?;
        let widths = environment.reward_ranges().iter().map(|range| range.width());
        let num_envs = config.num_envs;
        Ok(Self {
            specification: task.specification().clone(),
            reward_names: environment.reward_names().to_vec(),
            terms: scoring.terms().collect(),
            given: widths.zip(given).map(|(width, given)| given.then_some(width)).collect(),
            table: ObservationTable::new(ranges.len()),
            counts: Counts::new(parts.iter().product(), given.len()),
            parts,
            exploration: Exploration::new(config.gamma),
            envs: vec![Env { taken: None, fresh: true, clock: 0 }; num_envs],
            rngs: (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect(),
            rng: Rng::stream(seed, u64::MAX),
            steps: 0,
            iteration: 0,
            growth: Vec::new(),
            failure: None,
            sums: vec![0.0; given.len()],
            transitions: 0,
            objective: None,
            solved: 0,
            reward_sample: RewardSample::default(),
            coverage: Coverage::new(),
            restarts: vec![false; num_envs],
            settings: config,
        })
    }

    /// Draws an action for every environment. A second call before a step result is observed gives the same actions again.
    pub fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) {
        if self.envs.iter().all(|env| env.taken.is_none()) {
            let states: Vec<Option<usize>> =
                (0..self.envs.len()).map(|env| self.state(observation, env)).collect();
            let known: Vec<usize> = states.iter().copied().flatten().collect();
            let progress =
                Progress { counts: &self.counts, terms: &self.terms, steps: self.steps, states: &known };
            self.exploration.begin(&progress, &mut self.rng);
            for ((env, state), rng) in self.envs.iter_mut().zip(states).zip(&mut self.rngs) {
                env.taken = Some((state, self.exploration.action(&self.counts, state, rng)));
            }
        }
        for (env, taken) in self.envs.iter().enumerate() {
            let (_, action) = taken.taken.unwrap_or_default();
            actions.set_column(env, &split(action, &self.parts));
        }
    }

    /// Records the result of the last action, once.
    pub fn observe(&mut self, result: &StepResult<'_>) {
        if self.envs.iter().any(|env| env.taken.is_none()) {
            return;
        }
        let mut own = BatchMatrix::zeros(self.terms.len(), self.envs.len());
        for (i, term) in self.terms.iter().enumerate() {
            let Some((row, sign)) = term else { continue };
            own.row_mut(i).iter_mut().zip(result.rewards.row(*row)).for_each(|(r, x)| *r = sign * x);
        }
        self.reward_sample.glance(&own, result.mask, false);
        for env in 0..self.envs.len() {
            let taken = self.envs[env].taken.take();
            // The first observation of an episode is that of its first step: environments may reset in a step of their own.
            let (Some((Some(state), action)), true) = (taken, result.mask[env]) else { continue };
            if std::mem::take(&mut self.envs[env].fresh) {
                self.counts.start(state);
                self.exploration.start(&self.counts, state);
            }
            let rewards: Vec<f64> = result.rewards.column(env).collect();
            if rewards.iter().any(|r| !r.is_finite()) {
                self.failure.get_or_insert(Failure::NotFinite);
                continue;
            }
            let (terminated, truncated) = (result.terminated[env], result.truncated[env]);
            self.envs[env].fresh = terminated || truncated;
            self.envs[env].clock += 1;
            if truncated && !terminated {
                self.counts.truncated(self.envs[env].clock);
            }
            if terminated || truncated {
                self.envs[env].clock = 0;
            }
            let next = if terminated {
                None
            } else {
                let shown = if truncated { result.final_observation } else { result.observation };
                let Some(next) = self.state(shown, env) else { continue };
                Some(next)
            };
            self.counts.transition(state, action, &rewards, next);
            self.exploration.transition(&self.counts, (state, action), &rewards, next, self.steps);
            self.sums.iter_mut().zip(&rewards).for_each(|(sum, r)| *sum += r);
            self.transitions += 1;
        }
        self.steps += self.envs.len() as u64;
    }

    /// State of an observation, which is added if it is new.
    fn state(&mut self, observations: &BatchMatrix, env: usize) -> Option<usize> {
        let observation: Vec<f64> = observations.column(env).collect();
        let state = self.table.insert(&observation, self.settings.max_states);
        if state.is_none() && self.failure.is_none() {
            let finite = observation.iter().all(|x| x.is_finite());
            self.failure = Some(if finite { Failure::TooManyStates(self.steps) } else { Failure::NotFinite });
        }
        state
    }

    /// Environment steps of an iteration, in all environments.
    fn batch(&self) -> u64 {
        let num_envs = self.settings.num_envs as u64;
        self.settings.total_steps.div_ceil(ITERATIONS).div_ceil(num_envs).max(1) * num_envs
    }

    /// Whether an update is due.
    pub fn update_is_due(&self) -> bool {
        self.envs.iter().all(|env| env.taken.is_none()) && self.steps >= (self.iteration + 1) * self.batch()
    }

    /// Ends an iteration and returns its metrics. There is nothing to update, as plans are always up to date.
    ///
    /// Fails if there are too many states for a table, or numbers that are not finite.
    pub fn update(&mut self, _: &BatchMatrix) -> Result<Option<Named<f64>>, LearnError> {
        if !self.update_is_due() {
            return Ok(None);
        }
        match self.failure {
            Some(Failure::TooManyStates(steps)) => {
                return Err(LearnError::TooManyStates { states: self.settings.max_states, steps });
            }
            Some(Failure::NotFinite) => {
                let what = "every number of an observation and every reward".to_owned();
                return Err(Error::NotFinite { what, value: f64::NAN }.into());
            }
            None => {}
        }
        self.iteration += 1;
        self.growth.push((self.steps, self.table.len()));
        if self.specification.objective().is_some() && self.solution_is_due() {
            self.solved = self.steps;
            self.objective = self.estimated_objective().ok();
        }
        let means: Vec<f64> = self.sums.iter().map(|sum| sum / self.transitions.max(1) as f64).collect();
        let of_terms: Vec<f64> =
            self.terms.iter().map(|term| term.map_or(0.0, |(row, sign)| sign * means[row])).collect();
        let units = self.units();
        let scaled = self.terms.iter().zip(&of_terms);
        let scaled: Vec<f64> =
            scaled.filter_map(|(term, mean)| term.map(|(row, _)| mean / units[row])).collect();
        self.sums.fill(0.0);
        self.transitions = 0;
        let suitability = self.suitability();
        let metrics = [
            ("rollout/scalarized_reward", scaled.iter().sum::<f64>() / scaled.len().max(1) as f64),
            ("train/states", suitability.states as f64),
            ("train/pairs", suitability.pairs as f64),
            ("train/steps_per_pair", suitability.steps_per_pair),
            ("train/new_states", suitability.new_states as f64),
        ];
        let metrics =
            metrics.into_iter().chain(self.objective.map(|value| ("train/objective_estimate", value)));
        let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
        Ok(Some(metrics.chain(named_rewards(&self.reward_names, &self.terms, &of_terms)).collect()))
    }

    /// Whether the model is solved for the metrics: when the steps have doubled, and in the end.
    fn solution_is_due(&self) -> bool {
        self.steps >= 2 * self.solved || self.iteration == self.iterations()
    }

    /// Objective that the estimated model promises, in the user's sign.
    fn estimated_objective(&self) -> Result<f64, LearnError> {
        let model = estimate(&self.counts, &self.reward_names)?;
        let solution = solve_estimate(&model, &self.specification)?;
        let sign = self.specification.objective().map_or(1.0, acrl::Objective::sign);
        Ok(sign * solution.answer.values()[0] + 0.0)
    }

    /// Measurements that tell whether a table is the right thing.
    pub fn suitability(&self) -> Suitability {
        let from = self.steps - self.steps / 10;
        let before =
            self.growth.iter().rev().find(|(steps, _)| *steps <= from).map_or(0, |(_, states)| *states);
        let pairs = self.counts.pairs_tried();
        let comparison = self.exploration.comparison().summary();
        Suitability {
            steps: self.counts.steps(),
            states: self.table.len(),
            pairs,
            steps_per_pair: self.counts.steps() as f64 / pairs.max(1) as f64,
            new_states: self.table.len() - before,
            too_many_states: matches!(self.failure, Some(Failure::TooManyStates(_))),
            disagreement: comparison.map(|(mean, _)| mean),
            disagreement_error: comparison.map(|(_, error)| error),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &TabularConfig {
        &self.settings
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        self.settings.total_steps.div_ceil(self.batch())
    }

    /// Environment steps done, in all environments.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Environments that should be reset now: none.
    pub fn restarts(&self) -> &[bool] {
        &self.restarts
    }

    /// Range of each of the environment's rewards: the one that was given, or that of the estimated rewards.
    pub fn units(&self) -> Vec<f64> {
        let range = |(i, given): (usize, &Option<f64>)| given.unwrap_or_else(|| self.reward_range(i));
        self.given.iter().enumerate().map(range).collect()
    }

    /// Range of the mean rewards of pairs; the magnitude of a constant one, or 1.
    fn reward_range(&self, reward: usize) -> f64 {
        let tried = self.counts.pairs().iter().enumerate().filter(|(_, pair)| pair.visits > 0);
        let means = tried.map(|(pair, _)| self.counts.mean(pair, reward));
        let (low, high) = means.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), r| (l.min(r), h.max(r)));
        [high - low, high.abs()].into_iter().find(|r| r.is_finite() && *r > 0.0).unwrap_or(1.0)
    }

    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    pub fn terms(&self) -> &[Option<(usize, f64)>] {
        &self.terms
    }

    /// Sample of the reward vectors that occurred.
    pub fn reward_sample(&self) -> &RewardSample {
        &self.reward_sample
    }

    /// Sample of the weights that it was trained on: none, as a model serves all of them.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Numbers of values of the parts of an action.
fn action_parts(space: &[ActionPart]) -> Result<Vec<usize>, LearnError> {
    let number = |part: &ActionPart| match part {
        ActionPart::Discrete(n) => Ok(*n),
        ActionPart::Continuous(range) => {
            let found = format!(
                "an action of this environment has a continuous part in [{}, {}]",
                range.low, range.high
            );
            Err(LearnError::Actions { found })
        }
    };
    let parts = space.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let all = parts.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
    match all {
        Some(1..=MOST_ACTIONS) => Ok(parts),
        Some(n) => Err(LearnError::Actions {
            found: format!("this environment has {n}, and the limit is {MOST_ACTIONS}"),
        }),
        None => Err(LearnError::Actions { found: "this environment has more than can be listed".to_owned() }),
    }
}

/// Values of the parts of a joint action.
pub(crate) fn split(mut action: usize, parts: &[usize]) -> Vec<f64> {
    let value = |n: &usize| {
        let value = action % n;
        action /= n;
        value as f64
    };
    parts.iter().map(value).collect()
}
