//! Temporally extended exploration (Dabney et al. 2021).
//!
//! Environments whose dominant reward was constant in the warm-up repeat each action for a random duration, whose mean is
//! drawn per environment (up to 64 steps), because independent actions may never lead to such a reward. The share
//! of these environments is annealed to 0 by mid-training. Repeated actions train the critic only; the actions
//! between them are the policy's, and their advantages include what followed from the repetition.

use acrl::{BatchMatrix, Rng};
use serde::{Deserialize, Serialize};

use crate::ppo::StepResult;
use crate::tuning::exploration::LONGEST;
use crate::weights::WeightCurriculum;

/// Repetition of actions by environment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StickyActions {
    /// Whether each of r₀ … r_m was constant in the warm-up.
    rare: Vec<bool>,
    envs: Vec<Repetition>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repetition {
    /// Probability per step that the repetition ends; `None` if the environment does not repeat actions.
    stop: Option<f64>,
    /// Last action that was drawn from the policy.
    last: Vec<f64>,
    /// Action of the next step, if it is a repeated one.
    action: Option<Vec<f64>>,
}

impl StickyActions {
    /// No environment repeats actions before [`choose`](Self::choose).
    pub(crate) fn new(rare: Vec<bool>, num_envs: usize) -> Self {
        Self { rare, envs: vec![Repetition::default(); num_envs] }
    }

    /// Replaces actions by repeated ones, and marks them.
    pub(crate) fn apply(&mut self, actions: &mut BatchMatrix, sticky: &mut [bool]) {
        for (env, repetition) in self.envs.iter_mut().enumerate() {
            if let Some(action) = &repetition.action {
                actions.set_column(env, action);
                sticky[env] = true;
            } else if repetition.stop.is_some() {
                repetition.last = actions.column(env).collect();
            }
        }
    }

    /// Decides after a step whether the action is repeated; never into another episode.
    pub(crate) fn observe(&mut self, result: &StepResult<'_>, rngs: &mut [Rng]) {
        for (env, repetition) in self.envs.iter_mut().enumerate() {
            let ended = result.terminated[env] || result.truncated[env] || !result.mask[env];
            let Some(stop) = repetition.stop else { continue };
            let continues = !ended && rngs[env].uniform() >= stop;
            repetition.action = continues.then(|| repetition.last.clone());
        }
    }

    /// Chooses the environments that repeat actions in the next rollout, when this share of the training is done.
    pub(crate) fn choose(
        &mut self,
        curriculum: &WeightCurriculum,
        done: f64,
        restarts: &[bool],
        rngs: &mut [Rng],
    ) {
        if !self.rare.contains(&true) {
            return;
        }
        for (env, (repetition, rng)) in self.envs.iter_mut().zip(rngs).enumerate() {
            let repeats = self.rare[curriculum.dominant(env)] && rng.uniform() < 1.0 - 2.0 * done;
            repetition.stop = repeats.then(|| (-LONGEST * rng.uniform()).exp2());
            if !repeats || restarts[env] {
                repetition.action = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use acrl::{Objective, Requirement, Specification, VecTask};
    use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};

    use super::*;
    use crate::WeightSampler;

    const ENVS: usize = 64;

    fn curriculum(rngs: &mut [Rng]) -> WeightCurriculum {
        let reward = |name: &str| ExternalReward { name: name.to_owned(), low: 0.0, high: 1.0 };
        let external = External::new(ExternalParameters {
            observation: vec![[0.0, 1.0]],
            action: vec![ExternalAction { choices: None, low: Some(0.0), high: Some(1.0) }],
            reward: vec![reward("common"), reward("rare")],
            spaces: None,
        })
        .unwrap();
        let specification = Specification::new(
            Some(Objective::maximize("common")),
            vec![Requirement::at_least("rare", 0.1).unwrap()],
        )
        .unwrap();
        WeightCurriculum::new(
            &VecTask::new(&external, specification).unwrap(),
            WeightSampler::DualTrajectory,
            ENVS,
            rngs,
        )
    }

    /// The environments that repeat actions when this share of the training is done, and those whose dominant reward is
    /// rare.
    fn chosen(rare: [bool; 2], done: f64) -> (Vec<bool>, Vec<bool>) {
        let mut rngs: Vec<Rng> = (0..ENVS as u64).map(|env| Rng::stream(1, env)).collect();
        let curriculum = curriculum(&mut rngs);
        let mut sticky = StickyActions::new(rare.to_vec(), ENVS);
        sticky.choose(&curriculum, done, &[false; ENVS], &mut rngs);
        let dominated = (0..ENVS).map(|env| curriculum.dominant(env) == 1).collect();
        (sticky.envs.iter().map(|repetition| repetition.stop.is_some()).collect(), dominated)
    }

    #[test]
    fn environments_with_a_rare_dominant_reward_repeat_actions_in_the_first_half() {
        let (repeats, dominated) = chosen([false, true], 0.0);
        assert_eq!(repeats, dominated);
        assert!(dominated.contains(&true) && dominated.contains(&false));
        let (later, _) = chosen([false, true], 0.25);
        let count = |envs: &[bool]| envs.iter().filter(|repeats| **repeats).count();
        assert!(count(&later) > 0 && count(&later) < count(&repeats));
        assert_eq!(count(&chosen([false, true], 0.5).0), 0);
        assert_eq!(count(&chosen([false, false], 0.0).0), 0, "nothing is rare");
    }

    #[test]
    fn a_repetition_ends_with_the_episode() {
        let mut rngs = vec![Rng::new(3)];
        let mut sticky = StickyActions::new(vec![false, true], 1);
        sticky.envs[0].stop = Some(0.125);
        let (mut repeated_steps, mut decisions, nothing) = (0, 0, BatchMatrix::zeros(1, 1));
        let mut ended = true;
        for t in 0..4000 {
            let (mut actions, mut repeated) = (BatchMatrix::zeros(1, 1), [false]);
            actions.set(0, 0, f64::from(t));
            let last = sticky.envs[0].last.clone();
            sticky.apply(&mut actions, &mut repeated);
            if repeated[0] {
                assert!(!ended, "step {t}");
                assert_eq!(vec![actions.at(0, 0)], last);
                repeated_steps += 1;
            } else {
                assert_eq!(actions.at(0, 0), f64::from(t));
                decisions += 1;
            }
            ended = t % 100 == 99;
            sticky.observe(
                &StepResult {
                    rewards: &nothing,
                    observation: &nothing,
                    final_observation: &nothing,
                    terminated: &[ended],
                    truncated: &[false],
                    mask: &[true],
                },
                &mut rngs,
            );
        }
        // Eight steps each on average, less where an episode ends.
        let mean = f64::from(repeated_steps + decisions) / f64::from(decisions);
        assert!((6.5..8.5).contains(&mean), "{mean}");
    }
}
