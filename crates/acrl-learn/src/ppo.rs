//! Algorithm 1 with proximal policy optimisation: one network for π(s, w), good for every weighting w.
//!
//! The default learner. Its networks see the state and the normalised weights w = (1, λ)/(1 + Σλ), so no
//! multiplier is ever outside what they were trained on, and the reward is w·r. What makes it keep its promises
//! on problems for which it was not tuned:
//!
//! - **the sampler**: half of the environments run dual dynamics while they train, and so see what an executor asks for;
//! - **one critic head per reward**, and A = Σ w_i A_i: a head learns an average reward, whatever the weights;
//! - **no neglect**: states in which a reward was had are kept, and environments are sent there;
//! - **the library**: at the end the policy is held at many weights, and what it settles at is kept.
//!
//! | Setting | Default | Purpose | Range |
//! |---|---|---|---|
//! | `decisions` | 4,000,000 | decisions in all environments, each of `hold` environment steps | ≥ 1 |
//! | `environments` | 512 | copies of the environment | 2 to 65,536 |
//! | `segment` | 32 | decisions between two updates; w is constant in a segment | 1 to 4,096 |
//! | `hold` | the environment's | steps for which an action is held: a decision | 1 to 1,000 |
//! | `passes` | 5 | passes over an iteration's decisions | 1 to 100 |
//! | `minibatch` | 1,024 | decisions of one gradient step | 1 to 1,000,000 |
//! | `step_size` | .001 | of Adam, going down to 0 | (0, 1) |
//! | `targets` | discounted | what the critic learns: discounted sums, or what is above the long-run averages ρ(w) | |
//! | `discount` | .985 | γ per decision; with average targets only the unit of values, 1 − γ | (0, 1) |
//! | `trace` | .95 | κ of the generalised advantages | 0 to 1 |
//! | `clip` | .2 | how far π(a) may move in one iteration | (0, 1) |
//! | `deviation` | .6 | σ of numbers at the start, in half-widths of their interval | (0, 10) |
//! | `last_deviation` | .05 | σ may be no larger at the end: what is executed is the mean, so the mean must be good | (0, 10) |
//! | `entropy` | 0 | bonus on the entropy of choices, going down with the step size | 0 to 1 |
//! | `advantage_floor` | 0 | advantages are divided by their deviation, or by this if that is less: then they are noise | 0 to 1 |
//! | `gradient_norm` | .5 | longest gradient | above 0 |
//! | `hidden` | 64, 64 | widths of the hidden layers | 1 to 8 layers of 1 to 1,024 |
//! | `sampler` | dual | the weights to train on | |

mod action;
mod average;
mod chunk;
mod count_bonus;
mod episodes;
mod external;
mod external_config;
mod networks;
mod policy;
mod rollout;
mod statistics;
mod sticky_actions;
mod unconditioned;
mod weight_curriculum;

use acrl::{BatchMatrix, Named, Rng, VecTask};
use serde::{Deserialize, Serialize};

pub use action::ActionHeads;
#[doc(hidden)]
pub use episodes::{EpisodeNotes, Episodes};
pub use external::{After, ExternalPpo};
pub(crate) use networks::Figures;
pub use policy::{Inputs, MlpPolicy};
pub(crate) use unconditioned::UnconditionedPpo;

use crate::error::setting;
use crate::{Coverage, Criterion, LearnError, RewardSample, WeightSampler};
use networks::Networks;
use rollout::Rollout;
use weight_curriculum::WeightCurriculum;

/// The settings; see the [module](self).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PpoConfig {
    /// Decisions in all environments.
    pub decisions: u64,
    /// Copies of the environment.
    pub num_envs: usize,
    /// Decisions between two updates.
    pub segment: usize,
    /// Steps for which an action is held; the environment's own number if absent.
    pub hold: Option<usize>,
    /// Passes over an iteration's decisions.
    pub passes: usize,
    /// Decisions of one gradient step.
    pub minibatch: usize,
    /// Adam's step size at the start; it goes down to 0.
    pub step_size: f64,
    /// What the critic learns.
    #[serde(default)]
    pub targets: Criterion,
    /// γ per decision.
    pub discount: f64,
    /// κ of the generalised advantages.
    pub trace: f64,
    /// How far the probability of an action may move.
    pub clip: f64,
    /// σ at the start.
    pub deviation: f64,
    /// The largest σ at the end.
    pub last_deviation: f64,
    /// Bonus on the entropy of choices.
    pub entropy: f64,
    /// The least deviation that advantages are divided by.
    pub advantage_floor: f64,
    /// Longest gradient.
    pub gradient_norm: f64,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// The weights to train on.
    pub sampler: WeightSampler,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            decisions: 4_000_000,
            num_envs: 512,
            segment: 32,
            hold: None,
            passes: 5,
            minibatch: 1024,
            step_size: 1e-3,
            targets: Criterion::Discounted,
            discount: 0.985,
            trace: 0.95,
            clip: 0.2,
            deviation: 0.6,
            last_deviation: 0.05,
            entropy: 0.0,
            advantage_floor: 0.0,
            gradient_norm: 0.5,
            hidden: vec![64, 64],
            sampler: WeightSampler::Dual,
        }
    }
}

impl PpoConfig {
    /// Iterations that it takes to make all decisions.
    fn iterations(&self) -> u64 {
        self.decisions.div_ceil((self.num_envs * self.segment) as u64).max(1)
    }

    /// σ is free in the first half of the training, and then held below a bound that goes down geometrically;
    /// `left` is the share of the training that is left.
    fn largest_deviation(&self, left: f64) -> f64 {
        let free = (2.0 * left).clamp(0.0, 1.0);
        if free < 1.0 {
            self.deviation.powf(free) * self.last_deviation.powf(1.0 - free)
        } else {
            f64::INFINITY
        }
    }

    fn check(&self) -> Result<(), LearnError> {
        self.check_envs(2)
    }

    /// `Ok` if all settings are in their ranges, with so many environments at least.
    fn check_envs(&self, least: usize) -> Result<(), LearnError> {
        let whole = |name, value: usize, most: usize, expected| {
            setting(name, value as f64, 1.0..=most as f64, expected)
        };
        setting("decisions", self.decisions as f64, 1.0.., "at least 1")?;
        let num_envs =
            if least == 1 { "a whole number from 1 to 65,536" } else { "a whole number from 2 to 65,536" };
        setting("num_envs", self.num_envs as f64, least as f64..=65_536.0, num_envs)?;
        whole("segment", self.segment, 4096, "a whole number from 1 to 4,096")?;
        whole("hold", self.hold.unwrap_or(1), 1000, "a whole number from 1 to 1,000")?;
        whole("passes", self.passes, 100, "a whole number from 1 to 100")?;
        whole("minibatch", self.minibatch, 1_000_000, "a whole number from 1 to 1,000,000")?;
        let open = f64::MIN_POSITIVE;
        setting("step_size", self.step_size, open..1.0, "a number between 0 and 1")?;
        setting("discount", self.discount, open..1.0, "a number between 0 and 1")?;
        setting("trace", self.trace, 0.0..=1.0, "a number from 0 to 1")?;
        setting("clip", self.clip, open..1.0, "a number between 0 and 1")?;
        setting("deviation", self.deviation, open..10.0, "a number between 0 and 10")?;
        setting("last_deviation", self.last_deviation, open..10.0, "a number between 0 and 10")?;
        setting("entropy", self.entropy, 0.0..=1.0, "a number from 0 to 1")?;
        setting("advantage_floor", self.advantage_floor, 0.0..=1.0, "a number from 0 to 1")?;
        setting("gradient_norm", self.gradient_norm, open.., "a number above 0")?;
        whole("hidden", self.hidden.len(), 8, "1 to 8 layers")?;
        self.sampler.check()?;
        if let WeightSampler::Box { high } = self.sampler {
            let expected = "no box: the weights are normalised";
            return Err(LearnError::Setting { name: "sampler", value: high, expected });
        }
        for width in &self.hidden {
            whole("hidden", *width, 1024, "widths from 1 to 1,024")?;
        }
        Ok(())
    }
}

/// A training that can be stopped between two iterations, stored, and continued to the bit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ppo {
    settings: PpoConfig,
    networks: Networks,
    curriculum: WeightCurriculum,
    coverage: Coverage,
    seen: RewardSample,
    /// The states of all environments.
    state: BatchMatrix,
    /// A generator for each environment, and one for the order of minibatches.
    rngs: Vec<Rng>,
    rng: Rng,
    hold: usize,
    iteration: u64,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

/// Every so many decisions the rewards of all environments are looked at for ones that have not been seen.
const LOOK: usize = 8;
/// The environments of an iteration whose weights count as a sample of what was trained on.
const COVERED: usize = 16;

/// What need not be stored.
#[derive(Debug, Clone)]
struct Scratch {
    rollout: Rollout,
    /// At each decision: the states, and the rewards there.
    states: Vec<BatchMatrix>,
    had: Vec<BatchMatrix>,
    observation: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    /// Mean rewards of the segment, in units of their ranges.
    means: BatchMatrix,
}

impl Ppo {
    /// A training from scratch.
    pub fn new(task: &VecTask<'_>, settings: PpoConfig, seed: u64) -> Result<Self, LearnError> {
        settings.check()?;
        let environment = task.environment();
        let num_envs = settings.num_envs;
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(seed, env)).collect();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng)?;
        }
        Ok(Self {
            networks: Networks::new(task, &settings, &mut rng)?,
            curriculum: WeightCurriculum::new(task, settings.sampler, num_envs, &mut rngs),
            coverage: Coverage::new(),
            seen: RewardSample::default(),
            hold: settings.hold.unwrap_or_else(|| environment.hold()).max(1),
            state,
            rngs,
            rng,
            iteration: 0,
            settings,
            scratch: None,
        })
    }

    /// Experiences a segment in every environment and improves the networks by it.
    ///
    /// On an error the networks are as they were before the iteration.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(task, &self.settings, self));
        self.experience(task, &mut scratch)?;
        self.networks.evaluate(&mut scratch.rollout, 0..self.settings.segment + 1);
        let left = (1.0 - self.iteration as f64 / self.iterations() as f64).max(0.0);
        self.networks.advantages(&mut scratch.rollout, &self.settings, left);
        let step_size = self.settings.step_size * left;
        self.networks.limit_deviations(self.settings.largest_deviation(left));
        let figures = self.networks.improve(&scratch.rollout, &self.settings, step_size, &mut self.rng);
        self.iteration += 1;
        let figures = figures.map_err(|(quantity, value)| LearnError::Diverged {
            iteration: self.iteration,
            quantity,
            value,
        })?;
        let steps = self.settings.segment * self.hold;
        let means = &scratch.means;
        self.curriculum.after_segment(task, steps, means, &mut self.state, &mut self.rngs)?;
        let weights = &scratch.rollout.weights;
        let figures =
            self::figures(figures, means, weights, self.curriculum.mastered(), task.has_objective());
        self.scratch = Some(scratch);
        Ok(figures)
    }

    /// One segment: every environment decides, holds its action, and decides again.
    fn experience(&mut self, task: &VecTask<'_>, scratch: &mut Scratch) -> Result<(), LearnError> {
        let environment = task.environment();
        let Scratch { rollout, states, had, observation, actions, named, rewards, means } = scratch;
        let scales = task.scales();
        means.as_mut_slice().fill(0.0);
        self.networks.set_weights(rollout, self.curriculum.weights());
        for _ in 0..COVERED {
            let env = self.rng.index(self.settings.num_envs);
            self.coverage.visit(self.curriculum.weights().column(env), &mut self.rng);
        }
        for t in 0..self.settings.segment {
            environment.observe(&self.state, observation);
            self.networks.act(rollout, t, observation, actions, &mut self.rngs);
            states[t].as_mut_slice().copy_from_slice(self.state.as_slice());
            for step in 0..self.hold {
                environment.step(&mut self.state, actions, named, &mut self.rngs)?;
                task.score(named, rewards)?;
                if step == 0 && t.is_multiple_of(LOOK) {
                    self.seen.visit(rewards);
                }
                for (i, scale) in scales.iter().enumerate() {
                    rewards.row_mut(i).iter_mut().for_each(|r| *r /= scale);
                }
                self.networks.reward(rollout, t, rewards, (1.0 - self.settings.discount) / self.hold as f64);
                for (mean, r) in means.as_mut_slice().iter_mut().zip(rewards.as_slice()) {
                    *mean += r / (self.settings.segment * self.hold) as f64;
                }
                if step == 0 {
                    had[t].as_mut_slice().copy_from_slice(rewards.as_slice());
                }
            }
        }
        self.curriculum.remember(states, had, &mut self.rng);
        environment.observe(&self.state, observation);
        self.networks.see(rollout, self.settings.segment, observation);
        Ok(())
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

    /// Environment steps done, in all environments.
    pub fn steps(&self) -> u64 {
        self.iteration * (self.settings.num_envs * self.settings.segment * self.hold) as u64
    }

    /// The rewards that occurred.
    pub fn seen(&self) -> &RewardSample {
        &self.seen
    }

    /// How much of each of r₀ … r_m's range the policy has when that reward is nearly all that matters, from 0 to 1.
    pub fn mastered(&self) -> &[f64] {
        self.curriculum.mastered()
    }

    /// A sample of the weights it was trained on.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The policy as it is now.
    pub fn policy(&self) -> MlpPolicy {
        self.networks.policy(self.hold)
    }
}

/// What an iteration tells: the mean of w·r in units of R, how well the least mastered reward is mastered, and what
/// the networks say.
fn figures(
    improved: Figures,
    means: &BatchMatrix,
    weights: &[f32],
    mastered: &[f64],
    objective: bool,
) -> Named<f64> {
    let (num_envs, first) = (means.num_envs(), usize::from(!objective));
    let heads = means.as_slice()[first * num_envs..].iter();
    let reward = heads.zip(weights).map(|(r, w)| r * f64::from(*w)).sum::<f64>() / num_envs as f64;
    [
        ("reward", reward),
        ("mastered", mastered[first..].iter().copied().fold(f64::INFINITY, f64::min)),
        ("policy_loss", improved.policy_loss),
        ("value_loss", improved.value_loss),
        ("deviation", improved.deviation),
        ("clipped", improved.clipped),
        ("divergence", improved.divergence),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

impl Scratch {
    fn new(task: &VecTask<'_>, settings: &PpoConfig, ppo: &Ppo) -> Self {
        let environment = task.environment();
        let rows = |n: usize| BatchMatrix::zeros(n, settings.num_envs);
        let rewards = task.scales().len();
        Self {
            rollout: ppo.networks.rollout(settings.segment, settings.num_envs),
            states: vec![rows(environment.state_dimension()); settings.segment],
            had: vec![rows(rewards); settings.segment],
            observation: rows(environment.observation_space().len()),
            actions: rows(environment.action_space().len()),
            named: rows(environment.reward_names().len()),
            rewards: rows(rewards),
            means: rows(rewards),
        }
    }
}
