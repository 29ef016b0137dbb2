//! The acting side of a training: actions, transitions, and statistics of what was observed.

use acrl::{BatchMatrix, Interval, Rng, VecTask};
use serde::{Deserialize, Serialize};

use super::actions::Actions;
use super::learner::Learner;
use super::policy::SacPolicy;
use super::units::RewardUnits;
use super::weights::{ActingWeights, Measured};
use super::{SacConfig, weights};
use crate::metrics::named_rewards;
use crate::ppo::{EpisodeLength, ObservationStatistics, StepResult};
use crate::tuning::ppo::{COVERAGE_SAMPLE, REWARD_SAMPLE_INTERVAL};
use crate::{Coverage, LearnError, RewardSample};

/// What acts in the environments, and what is known of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollout {
    /// Names of the environment's rewards.
    reward_names: Vec<String>,
    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    pub(super) terms: Vec<Option<(usize, f64)>>,
    /// Ranges of the environment's observations.
    ranges: Vec<Interval>,
    actions: Actions,
    /// `None` only while it is made.
    policy: Option<SacPolicy>,
    pub(super) units: RewardUnits,
    weights: ActingWeights,
    statistics: ObservationStatistics,
    pub(super) episodes: EpisodeLength,
    pub(super) coverage: Coverage,
    pub(super) reward_sample: RewardSample,
    pub(super) restarts: Vec<bool>,
    rngs: Vec<Rng>,
    rng: Rng,
    /// Environment steps so far.
    pub(super) steps: u64,
    /// The last observation and action of the networks, environment by environment, while a result is awaited.
    pending: Option<(BatchMatrix, Vec<f32>)>,
    /// Transitions that are not in the replay buffer yet.
    records: Vec<f32>,
    /// Transitions to a termination whose next episode may not have begun, by environment.
    terminations: Vec<Option<Vec<f32>>>,
    /// Sums of r₀ … r_m and of the weighted rewards in units since the last metrics, and the steps.
    sums: (Vec<f64>, f64, u64),
    #[serde(skip)]
    rewards: Option<BatchMatrix>,
}

impl Rollout {
    pub(super) fn new(
        task: &VecTask<'_>,
        (ranges, given): (&[Interval], &[bool]),
        actions: &Actions,
        settings: &SacConfig,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let (environment, num_envs) = (task.environment(), settings.num_envs);
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let scoring = task.specification().bind(environment.reward_names())?;
        let terms: Vec<_> = scoring.terms().collect();
        let widths: Vec<f64> = environment.reward_ranges().iter().map(|range| range.width()).collect();
        let sampler = settings.weight_sampler;
        Ok(Self {
            reward_names: environment.reward_names().to_vec(),
            ranges: ranges.to_vec(),
            actions: actions.clone(),
            policy: None,
            units: RewardUnits::new(&widths, given, num_envs),
            weights: ActingWeights::new(sampler, task.has_objective(), terms.len(), num_envs, &mut rngs),
            statistics: ObservationStatistics::new(ranges.len()),
            episodes: EpisodeLength::new(num_envs),
            coverage: Coverage::new(),
            reward_sample: RewardSample::default(),
            restarts: vec![false; num_envs],
            rngs,
            rng: Rng::stream(seed, u64::MAX - 1),
            steps: 0,
            pending: None,
            records: Vec::new(),
            terminations: vec![None; num_envs],
            sums: (vec![0.0; terms.len()], 0.0, 0),
            rewards: None,
            terms,
        })
    }

    pub(super) fn set_policy(&mut self, policy: SacPolicy) {
        self.policy = Some(policy);
    }

    /// Takes the learner's policy for the next actions.
    pub(super) fn copy_policy(&mut self, learner: &Learner) {
        self.policy.iter_mut().for_each(|policy| learner.copy_to(policy));
    }

    /// Draws an action for every environment: from the policy, or at random without `epsilon`.
    pub(super) fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix, epsilon: Option<f64>) {
        let (num_envs, width) = (self.rngs.len(), self.actions.len());
        let mut drawn = Vec::with_capacity(num_envs * width);
        match (&mut self.policy, epsilon) {
            (Some(policy), Some(epsilon)) => {
                policy.explore(observation, self.weights.weights(), epsilon, &mut self.rngs, &mut drawn);
            }
            _ => {
                for rng in &mut self.rngs {
                    match self.actions.joint() {
                        Some(n) => drawn.push(rng.index(n) as f32),
                        None => drawn.extend((0..width).map(|_| (2.0 * rng.uniform() - 1.0) as f32)),
                    }
                }
            }
        }
        for (env, action) in drawn.chunks_exact(width).enumerate() {
            self.actions.write(action, env, actions);
        }
        self.pending = Some((observation.clone(), drawn));
    }

    /// Notes the discrete actions that another learner took.
    pub(super) fn note_actions(&mut self, observation: &BatchMatrix, actions: &BatchMatrix) {
        let taken = (0..self.rngs.len()).map(|env| self.actions.joint_index(env, actions) as f32).collect();
        self.pending = Some((observation.clone(), taken));
    }

    /// Records the result of the last action; the number of transitions, or `None` if no action awaits one.
    pub(super) fn observe(&mut self, result: &StepResult<'_>, random: bool) -> Option<u64> {
        let (observation, actions) = self.pending.take()?;
        self.statistics.visit(&observation);
        let (num_envs, width) = (self.rngs.len(), self.actions.len());
        let rewards = match self.rewards.take() {
            Some(rewards) => rewards,
            None => BatchMatrix::zeros(self.terms.len(), num_envs),
        };
        let rewards = self.rewards.insert(rewards);
        for (i, term) in self.terms.iter().enumerate() {
            let Some((row, sign)) = term else { continue };
            let out = rewards.row_mut(i).iter_mut();
            out.zip(result.rewards.row(*row)).for_each(|(r, x)| *r = sign * x);
        }
        self.units.observe(result.rewards, result.mask, random);
        let thorough = self.steps.is_multiple_of(REWARD_SAMPLE_INTERVAL as u64);
        self.reward_sample.glance(rewards, result.mask, thorough);
        self.episodes.step(result);
        let units = units_of(&self.terms, self.units.units());
        let first = usize::from(self.terms.first().is_some_and(Option::is_none));
        let mut steps = 0;
        for env in 0..num_envs {
            let ended = result.terminated[env] || result.truncated[env];
            if let Some(mut record) = self.terminations[env].take() {
                if !result.mask[env] {
                    // The next episode begins only now.
                    let at = record.len() - 1 - (self.terms.len() - first) - self.ranges.len();
                    let next = &mut record[at..][..self.ranges.len()];
                    next.iter_mut().zip(result.observation.column(env)).for_each(|(out, x)| *out = x as f32);
                }
                self.records.extend(record);
            }
            if !result.mask[env] {
                continue;
            }
            steps += 1;
            let truncated = result.truncated[env] && !result.terminated[env];
            let next = if truncated { result.final_observation } else { result.observation };
            let acted = self.weights.weights();
            let mut record: Vec<f32> = observation.column(env).map(|x| x as f32).collect();
            record.extend(&actions[env * width..(env + 1) * width]);
            record.extend(rewards.column(env).skip(first).map(|r| r as f32));
            record.extend(next.column(env).map(|x| x as f32));
            record.extend(acted.column(env).skip(first).map(|w| w as f32));
            record.push(f32::from(u8::from(result.terminated[env])));
            let weighted =
                acted.column(env).zip(rewards.column(env)).zip(&units).map(|((w, r), u)| w * r / u);
            self.sums.1 += weighted.sum::<f64>();
            self.sums.0.iter_mut().zip(rewards.column(env)).for_each(|(sum, r)| *sum += r);
            self.sums.2 += 1;
            if result.terminated[env] {
                self.terminations[env] = Some(record);
            } else {
                self.records.extend(record);
            }
            let measured = Measured { windows: &self.units, units: &units, terms: &self.terms };
            self.weights.observe(env, rewards.column(env), ended, &measured, &mut self.rngs[env]);
        }
        self.steps += steps;
        Some(steps)
    }

    /// The transitions since the last call.
    pub(super) fn take_records(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.records)
    }

    /// Measures the units anew; true if one has changed.
    pub(super) fn measure_units(&mut self) -> bool {
        self.units.measure()
    }

    /// Units R₀ … R_m.
    pub(super) fn units_of_terms(&self) -> Vec<f64> {
        units_of(&self.terms, self.units.units())
    }

    /// Intervals that are scaled to \[−1, 1\]: mean ± standard deviation, unless the range is narrow.
    pub(super) fn intervals(&self) -> Vec<Interval> {
        self.statistics.intervals_of(&self.ranges, 1.0)
    }

    /// Metrics since the last call.
    pub(super) fn metrics(&mut self) -> Vec<(String, f64)> {
        let (sums, weighted, steps) =
            std::mem::replace(&mut self.sums, (vec![0.0; self.terms.len()], 0.0, 0));
        let share = 1.0 / steps.max(1) as f64;
        let means: Vec<f64> = sums.iter().map(|sum| sum * share).collect();
        let mut metrics = named_rewards(&self.reward_names, &self.terms, &means);
        metrics.push(("rollout/scalarized_reward".to_owned(), weighted * share));
        metrics.extend(self.episodes.mean().map(|mean| ("rollout/ep_len_mean".to_owned(), mean)));
        let mut drawn = vec![0.0; self.terms.len()];
        let first = usize::from(self.terms.first().is_some_and(Option::is_none));
        for k in 0..COVERAGE_SAMPLE {
            if k % 2 == 0 {
                weights::draw(&mut drawn[first..], &mut self.rng);
            } else {
                let env = self.rng.index(self.rngs.len());
                drawn = self.weights.weights().column(env).collect();
            }
            self.coverage.visit(drawn.iter().copied(), &mut self.rng);
        }
        metrics
    }
}

/// Units R₀ … R_m, given those of the environment's rewards.
fn units_of(terms: &[Option<(usize, f64)>], units: &[f64]) -> Vec<f64> {
    terms.iter().map(|term| term.map_or(1.0, |(row, _)| units[row])).collect()
}

#[cfg(test)]
mod tests {
    use acrl::{Objective, Requirement, Specification};
    use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};

    use super::*;

    const LAYOUT: super::super::replay::Layout =
        super::super::replay::Layout { observation: 1, action: 1, rewards: 2 };

    fn column(values: &[f64]) -> BatchMatrix {
        let mut column = BatchMatrix::zeros(values.len(), 1);
        column.set_column(0, values);
        column
    }

    fn rollout(num_envs: usize) -> Rollout {
        let reward = |name: &str| ExternalReward { name: name.to_owned(), low: 0.0, high: 1.0 };
        let external = External::new(ExternalParameters {
            observation: vec![[-1.0, 1.0]],
            action: vec![ExternalAction { choices: Some(2), low: None, high: None }],
            reward: vec![reward("r"), reward("cost")],
            spaces: None,
        })
        .unwrap();
        let cost = Requirement::at_most("cost", 1.0).unwrap();
        let specification = Specification::new(Some(Objective::maximize("r")), vec![cost]).unwrap();
        let task = VecTask::new(&external, specification).unwrap();
        let actions = Actions::new(task.environment().action_space()).unwrap();
        let settings = SacConfig { num_envs, ..SacConfig::default() };
        Rollout::new(&task, (&[Interval::UNBOUNDED], &[false; 2]), &actions, &settings, 1).unwrap()
    }

    /// Observes a step from `now` to `next` with a final observation of 99; the records that are complete by then.
    fn step(
        rollout: &mut Rollout,
        now: f64,
        next: f64,
        [terminated, truncated, mask]: [bool; 3],
    ) -> Vec<f32> {
        rollout.act(&column(&[now]), &mut BatchMatrix::zeros(1, 1), None);
        rollout.observe(
            &StepResult {
                rewards: &column(&[2.0, 3.0]),
                observation: &column(&[next]),
                final_observation: &column(&[99.0]),
                terminated: &[terminated],
                truncated: &[truncated],
                mask: &[mask],
            },
            true,
        );
        rollout.take_records()
    }

    #[test]
    fn successors_of_ends_are_the_final_or_the_next_first_observation() {
        let mut rollout = rollout(1);
        let next = |record: &[f32]| (record[LAYOUT.next_at()], record[LAYOUT.terminated_at()]);
        let plain = step(&mut rollout, 1.0, 2.0, [false, false, true]);
        assert_eq!((plain.len(), plain[0], next(&plain)), (LAYOUT.width(), 1.0, (2.0, 0.0)));
        // A cost counts negatively, as at least −1 is asked of it.
        assert_eq!(plain[LAYOUT.rewards_at()..][..2], [2.0, -3.0]);
        let truncated = step(&mut rollout, 2.0, 5.0, [false, true, true]);
        assert_eq!(next(&truncated), (99.0, 0.0));
        // The record of a termination waits for the next episode, which begins at once,
        assert!(step(&mut rollout, 5.0, 7.0, [true, false, true]).is_empty());
        let both = step(&mut rollout, 7.0, 8.0, [false, false, true]);
        assert_eq!((both.len(), next(&both)), (2 * LAYOUT.width(), (7.0, 1.0)));
        assert_eq!(both[LAYOUT.width()], 7.0);
        // or with a step that only resets, and is no transition.
        assert!(step(&mut rollout, 8.0, 9.0, [true, false, true]).is_empty());
        let reset = step(&mut rollout, 9.0, 0.5, [false, false, false]);
        assert_eq!((reset.len(), next(&reset)), (LAYOUT.width(), (0.5, 1.0)));
        assert_eq!(rollout.steps, 5);
    }

    #[test]
    fn a_result_without_an_action_is_ignored() {
        let mut rollout = rollout(1);
        let matrix = column(&[0.0, 0.0]);
        let result = StepResult {
            rewards: &matrix,
            observation: &matrix,
            final_observation: &matrix,
            terminated: &[false],
            truncated: &[false],
            mask: &[true],
        };
        assert!(rollout.observe(&result, true).is_none());
    }
}
