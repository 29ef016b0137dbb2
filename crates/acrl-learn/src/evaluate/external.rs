//! Evaluation of a trained policy in an environment that the caller steps.
//!
//! The counterpart of [`evaluate_library`](crate::evaluate_library()) for environments that cannot be set to a state.
//! The caller acts with [`ExternalEvaluation::act`], steps the environment, and reports with
//! [`ExternalEvaluation::observe`], until it [is over](ExternalEvaluation::is_over). Then the long-run averages under
//! fixed weights are a [library](ExternalEvaluation::library), and the [policy](ExternalEvaluation::policy) samples its
//! actions where that was measured to be better.

use acrl::{BatchMatrix, Error, Executor, PolicyLibrary, Rng, VecPolicy as _, VecTask};

use super::front::FrontEvaluator;
use crate::tuning::external_evaluation::{
    DRAWN, FACTORS, LARGEST_SHARE, MEASURED, SAMPLING_GAIN, SHARE, WARM_UP,
};
use crate::tuning::front;
use crate::{ExecutionDefaults, ExternalPpo, LibraryEvaluator, Sac, TrainedPolicy};

/// What an evaluation needs of a training.
#[derive(Debug, Clone)]
pub struct EvaluatedTraining {
    /// Number of environments.
    pub num_envs: usize,
    /// Environment steps of the whole training.
    pub total_steps: u64,
    /// Mean length of episodes; `None` if none has ended.
    pub episode: Option<f64>,
    /// Row of the environment's rewards, and sign, of each of r₀ … r_m.
    pub terms: Vec<Option<(usize, f64)>>,
    /// Scales R₀ … R_m of the rewards.
    pub scales: Vec<f64>,
    /// Whether there is an objective.
    pub objective: bool,
    /// The policy.
    pub policy: TrainedPolicy,
}

impl From<&ExternalPpo> for EvaluatedTraining {
    fn from(training: &ExternalPpo) -> Self {
        let (settings, policy) = (training.settings(), training.policy());
        Self {
            num_envs: settings.num_envs,
            total_steps: settings.total_steps.unwrap_or(0),
            episode: training.episode(),
            terms: training.terms().to_vec(),
            scales: policy.inputs().scales().to_vec(),
            objective: policy.inputs().objective(),
            policy: TrainedPolicy::Mlp(Box::new(policy)),
        }
    }
}

impl From<&Sac> for EvaluatedTraining {
    fn from(training: &Sac) -> Self {
        let (settings, policy) = (training.settings(), training.policy());
        Self {
            num_envs: settings.num_envs,
            total_steps: settings.total_steps,
            episode: training.episode(),
            terms: training.terms().to_vec(),
            scales: policy.inputs().scales().to_vec(),
            objective: policy.inputs().objective(),
            policy: TrainedPolicy::Sac(Box::new(policy)),
        }
    }
}

/// An evaluation, between two steps of the environment.
#[derive(Debug, Clone)]
pub struct ExternalEvaluation {
    plan: Plan,
    stage: Stage,
    policy: TrainedPolicy,
    evaluator: Evaluator,
    /// For each of r₀ … r_m the row of the environment's rewards and the sign.
    terms: Vec<Option<(usize, f64)>>,
    rewards: BatchMatrix,
    rngs: Vec<Rng>,
    /// Steps in each environment: in this stage, and in all.
    step: usize,
    steps: usize,
}

/// The order of measurements: single-objective averages of the mode and of samples, if there are discrete actions, and
/// then the library of the better of the two.
#[derive(Debug, Clone)]
enum Stage {
    Mode,
    Samples { mode: f64, spent: usize },
    Library,
}

/// What measures averages under fixed weights.
#[derive(Debug, Clone)]
enum Evaluator {
    /// Of policies whose samples or modes may be better, and which may get stuck at some weights.
    Library(LibraryEvaluator),
    /// Of deterministic policies, whose execution shares time between the best entries.
    Front(FrontEvaluator),
}

/// Runs the same expression for any evaluator.
macro_rules! each {
    ($evaluator:expr, $each:ident => $call:expr) => {
        match $evaluator {
            Evaluator::Library($each) => $call,
            Evaluator::Front($each) => $call,
        }
    };
}

/// Lengths and budgets, in steps of each environment.
#[derive(Debug, Clone)]
struct Plan {
    scales: Vec<f64>,
    objective: bool,
    num_envs: usize,
    seed: u64,
    episode: usize,
    warm_up: usize,
    measured: usize,
    budget: usize,
}

impl Plan {
    fn new(training: &EvaluatedTraining, seed: u64) -> Self {
        let (num_envs, total) = (training.num_envs, training.total_steps as f64);
        let episode = training.episode.filter(|steps| *steps != 0.0).unwrap_or(1.0).round_ties_even();
        let mut plan = Self {
            scales: training.scales.clone(),
            objective: training.objective,
            num_envs,
            seed,
            episode: (episode as usize).max(1),
            warm_up: WARM_UP as usize,
            measured: MEASURED as usize,
            budget: (LARGEST_SHARE * total / num_envs as f64) as usize,
        };
        let unscaled = plan.steps(DRAWN, plan.measured) * num_envs;
        let factor = (SHARE * total / unscaled as f64).clamp(FACTORS.0, FACTORS.1);
        plan.warm_up = ((factor * WARM_UP) as usize).max(1);
        plan.measured = ((factor * MEASURED) as usize).max(1);
        plan
    }

    /// An evaluator of the library with `drawn` weights from the simplex, or of the single-objective averages alone.
    fn evaluator(&self, drawn: Option<usize>, measured: usize, budget: usize) -> Evaluator {
        let (scales, lengths) = (&self.scales, (self.warm_up, measured));
        let (objective, num_envs, seed) = (self.objective, self.num_envs, self.seed);
        Evaluator::Library(LibraryEvaluator::new(scales, objective, num_envs, drawn, lengths, budget, seed))
    }

    /// An evaluator of the weightings that are the best ones for some weights.
    fn front(&self, total_steps: u64) -> Evaluator {
        let budget = (front::SHARE * total_steps as f64 / self.num_envs as f64) as usize;
        Evaluator::Front(FrontEvaluator::new(&self.scales, self.objective, self.num_envs, budget, self.seed))
    }

    /// The steps of a library with `drawn` weights from the simplex, without further visits.
    fn steps(&self, drawn: usize, measured: usize) -> usize {
        each!(self.evaluator(Some(drawn), measured, 0), evaluator => evaluator.steps())
    }

    /// The number of weights to draw, and the steps to measure at each: whole episodes as far as possible, because the
    /// average of a part of an episode is biased. Where episodes are long, fewer weights are drawn.
    fn whole_episodes(&self, budget: usize) -> (usize, usize) {
        let whole = self.episode * self.measured.div_ceil(self.episode);
        let most = budget.max(self.steps(DRAWN, self.measured));
        if let Some(drawn) = (0..=DRAWN).rev().find(|drawn| self.steps(*drawn, whole) <= most) {
            return (drawn, whole);
        }
        let rounds = self.steps(0, self.measured) / (self.warm_up + self.measured);
        (0, (most / rounds).saturating_sub(self.warm_up).max(self.measured))
    }

    fn rngs(&self) -> Vec<Rng> {
        (0..self.num_envs as u64).map(|env| Rng::stream(self.seed ^ 0x5e77, env)).collect()
    }
}

impl ExternalEvaluation {
    /// Begins to evaluate the present policy of a training.
    pub fn new(training: impl Into<EvaluatedTraining>, seed: u64) -> Self {
        let training = training.into();
        let plan = Plan::new(&training, seed);
        let (stage, evaluator) = if matches!(training.policy, TrainedPolicy::Sac(_)) {
            (Stage::Library, plan.front(training.total_steps))
        } else if training.policy.has_categorical_actions() {
            (Stage::Mode, plan.evaluator(None, plan.measured, 0))
        } else {
            let (drawn, measured) = plan.whole_episodes(plan.budget);
            (Stage::Library, plan.evaluator(Some(drawn), measured, plan.budget))
        };
        Self {
            rewards: BatchMatrix::zeros(plan.scales.len(), plan.num_envs),
            terms: training.terms,
            rngs: plan.rngs(),
            policy: training.policy.sampling(false),
            plan,
            stage,
            evaluator,
            step: 0,
            steps: 0,
        }
    }

    /// Writes an action for every environment.
    pub fn act(&mut self, observation: &BatchMatrix, actions: &mut BatchMatrix) -> Result<(), Error> {
        let weights = each!(&self.evaluator, evaluator => evaluator.weights());
        self.policy.act(observation, weights, actions, &mut self.rngs)
    }

    /// Takes the environment's rewards in environments that made a step (`mask`), and episodes that ended with it.
    pub fn observe(&mut self, rewards: &BatchMatrix, mask: &[bool], ended: &[bool]) {
        for (i, term) in self.terms.iter().enumerate() {
            if let Some((row, sign)) = term {
                let out = self.rewards.row_mut(i).iter_mut();
                out.zip(rewards.row(*row)).for_each(|(r, x)| *r = sign * x);
            }
        }
        each!(&mut self.evaluator, evaluator => evaluator.observe(&self.rewards, mask, ended));
        (self.step, self.steps) = (self.step + 1, self.steps + 1);
        if self.stage_is_over() {
            self.next_stage();
        }
    }

    fn next_stage(&mut self) {
        let plan = &self.plan;
        let (stage, evaluator, sampling) = match self.stage {
            Stage::Library => return,
            Stage::Mode => {
                let stage = Stage::Samples { mode: self.single_objective_sum(), spent: self.stage_steps() };
                (stage, plan.evaluator(None, plan.measured, 0), true)
            }
            Stage::Samples { mode, spent } => {
                let rewards = plan.scales.len() - usize::from(!plan.objective);
                let sampling = self.single_objective_sum() - mode > SAMPLING_GAIN * rewards as f64;
                let budget = plan.budget.saturating_sub(spent + self.stage_steps());
                let (drawn, measured) = plan.whole_episodes(budget);
                (Stage::Library, plan.evaluator(Some(drawn), measured, budget), sampling)
            }
        };
        self.rngs = plan.rngs();
        (self.stage, self.evaluator, self.step) = (stage, evaluator, 0);
        self.policy = self.policy.clone().sampling(sampling);
    }

    /// The sum over rewards of the average, in units of the reward's range, under all weight on that reward.
    fn single_objective_sum(&self) -> f64 {
        let (scales, first) = (&self.plan.scales, usize::from(!self.plan.objective));
        let library = self.library();
        let entries = library.entries.iter().take(scales.len() - first).enumerate();
        entries.map(|(j, entry)| entry.values[first + j] / scales[first + j]).sum()
    }

    /// Steps of the present stage in each environment, as far as they are planned.
    fn stage_steps(&self) -> usize {
        each!(&self.evaluator, evaluator => evaluator.steps())
    }

    fn stage_is_over(&self) -> bool {
        each!(&self.evaluator, evaluator => evaluator.is_over())
    }

    /// True when everything has been measured.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Library) && self.stage_is_over()
    }

    /// The share of the present stage that is done, as far as its length is known.
    pub fn progress(&self) -> f64 {
        self.step as f64 / self.stage_steps() as f64
    }

    /// Environment steps so far, in all environments.
    pub fn steps(&self) -> u64 {
        (self.steps * self.plan.num_envs) as u64
    }

    /// Number of environments.
    pub fn num_envs(&self) -> usize {
        self.plan.num_envs
    }

    /// The policy, which samples its actions or takes their mode.
    pub fn policy(&self) -> &TrainedPolicy {
        &self.policy
    }

    /// The long-run averages of the policy under fixed weights.
    pub fn library(&self) -> PolicyLibrary {
        each!(&self.evaluator, evaluator => evaluator.library())
    }

    /// The defaults with which to execute the policy. The environment cannot be copied, so the executor follows from the
    /// evaluation, and the rest is not [calibrated](crate::calibrate()).
    pub fn execution_defaults(&self, task: &VecTask<'_>) -> ExecutionDefaults {
        let executor = match &self.evaluator {
            Evaluator::Library(evaluator) => evaluator.executor(),
            // Without an objective there is nothing to divide by its value.
            Evaluator::Front(_) if !task.has_objective() => Executor::Library,
            Evaluator::Front(_) => Executor::TimeSharing,
        };
        ExecutionDefaults { executor, ..ExecutionDefaults::uncalibrated(task) }
    }
}
