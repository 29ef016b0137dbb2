//! Actions that are held: how rewards are found to which actions drawn anew at each step never lead.
//!
//! A car in a valley that is pushed at random trembles; pushed for a while, now here and now there, it swings, and gets out at
//! times. A reward of which nothing was to be seen when nothing had been learnt yet is *rare*, and environments that care for it
//! most hold their actions: each for a time of its own, fewer and fewer of them in the first half of the training. Decisions
//! that are not the policy's because an action is held teach the critic alone; those between them are the policy's, and
//! their advantages are those of what was done with them.

use acrl::{BatchMatrix, Rng};
use serde::{Deserialize, Serialize};

use super::external::After;
use super::weight_curriculum::WeightCurriculum;

/// Which environments hold their actions, and what they hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StickyActions {
    /// By r₀ … r_m: whether nothing was to be seen of it.
    rare: Vec<bool>,
    num_envs: Vec<Hold>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hold {
    /// The probability to decide again at a step, if the environment holds its actions.
    again: Option<f64>,
    /// The last decision of the policy.
    last: Vec<f64>,
    /// What is held at the next step.
    action: Option<Vec<f64>>,
}

impl StickyActions {
    /// The longest time for which actions are held on average, as a power of 2.
    const LONGEST: f64 = 6.0;

    /// So far no environment holds its actions.
    pub(super) fn new(rare: Vec<bool>, num_envs: usize) -> Self {
        Self { rare, num_envs: vec![Hold::default(); num_envs] }
    }

    /// Replaces the actions of environments that hold theirs, and says which they are.
    pub(super) fn decide(&mut self, actions: &mut BatchMatrix, held: &mut [bool]) {
        for (env, hold) in self.num_envs.iter_mut().enumerate() {
            if let Some(action) = &hold.action {
                actions.set_column(env, action);
                held[env] = true;
            } else if hold.again.is_some() {
                hold.last = actions.column(env).collect();
            }
        }
    }

    /// After a step: an action is held on, or not; never into another episode.
    pub(super) fn observe(&mut self, after: &After<'_>, rngs: &mut [Rng]) {
        for (env, hold) in self.num_envs.iter_mut().enumerate() {
            let ended = after.terminated[env] || after.truncated[env] || !after.valid[env];
            let Some(again) = hold.again else { continue };
            let goes_on = !ended && rngs[env].uniform() >= again;
            hold.action = goes_on.then(|| hold.last.clone());
        }
    }

    /// Which environments hold in the next segment, when this share of the training is done.
    pub(super) fn choose(
        &mut self,
        curriculum: &WeightCurriculum,
        done: f64,
        restarts: &[bool],
        rngs: &mut [Rng],
    ) {
        if !self.rare.contains(&true) {
            return;
        }
        for (env, (hold, rng)) in self.num_envs.iter_mut().zip(rngs).enumerate() {
            let holds = self.rare[curriculum.dominant(env)] && rng.uniform() < 1.0 - 2.0 * done;
            hold.again = holds.then(|| (-Self::LONGEST * rng.uniform()).exp2());
            if !holds || restarts[env] {
                hold.action = None;
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

    const LANES: usize = 64;

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
            WeightSampler::Dual,
            LANES,
            rngs,
        )
    }

    /// The environments that hold their actions when so much of the training is done.
    fn chosen(rare: [bool; 2], done: f64) -> (Vec<bool>, Vec<bool>) {
        let mut rngs: Vec<Rng> = (0..LANES as u64).map(|env| Rng::stream(1, env)).collect();
        let curriculum = curriculum(&mut rngs);
        let mut holding = StickyActions::new(rare.to_vec(), LANES);
        holding.choose(&curriculum, done, &[false; LANES], &mut rngs);
        let caring = (0..LANES).map(|env| curriculum.dominant(env) == 1).collect();
        (holding.num_envs.iter().map(|hold| hold.again.is_some()).collect(), caring)
    }

    #[test]
    fn lanes_that_care_for_a_rare_reward_hold_in_the_first_half() {
        let (holds, caring) = chosen([false, true], 0.0);
        assert_eq!(holds, caring);
        assert!(caring.contains(&true) && caring.contains(&false));
        let (later, _) = chosen([false, true], 0.25);
        let count = |num_envs: &[bool]| num_envs.iter().filter(|holds| **holds).count();
        assert!(count(&later) > 0 && count(&later) < count(&holds));
        assert_eq!(count(&chosen([false, true], 0.5).0), 0);
        assert_eq!(count(&chosen([false, false], 0.0).0), 0, "nothing is rare");
    }

    #[test]
    fn an_action_is_held_to_the_end_of_an_episode_at_most() {
        let mut rngs = vec![Rng::new(3)];
        let mut holding = StickyActions::new(vec![false, true], 1);
        holding.num_envs[0].again = Some(0.125);
        let (mut held_steps, mut decisions, nothing) = (0, 0, BatchMatrix::zeros(1, 1));
        let mut ended = true;
        for t in 0..4000 {
            let (mut actions, mut held) = (BatchMatrix::zeros(1, 1), [false]);
            actions.set(0, 0, f64::from(t));
            let last = holding.num_envs[0].last.clone();
            holding.decide(&mut actions, &mut held);
            if held[0] {
                assert!(!ended, "step {t}");
                assert_eq!(vec![actions.at(0, 0)], last);
                held_steps += 1;
            } else {
                assert_eq!(actions.at(0, 0), f64::from(t));
                decisions += 1;
            }
            ended = t % 100 == 99;
            holding.observe(
                &After {
                    rewards: &nothing,
                    observation: &nothing,
                    last: &nothing,
                    terminated: &[ended],
                    truncated: &[false],
                    valid: &[true],
                },
                &mut rngs,
            );
        }
        // Eight steps each on average, less where an episode ends.
        let mean = f64::from(held_steps + decisions) / f64::from(decisions);
        assert!((6.5..8.5).contains(&mean), "{mean}");
    }
}
