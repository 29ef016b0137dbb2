//! Execution of a table: the solved mixture, dual dynamics that correct it, and counts that go on.

use std::sync::Arc;

use acrl::{
    Agent, AgentBuilder, EpochLength, Error, FiniteCmdp, FinitePolicy as _, Multipliers, Rng, Specification,
};
use acrl_exact::{ExecutionPlan, FiniteTask, MixtureExecutor, MixtureState, PlanOptions, Realisation};
use serde::{Deserialize, Serialize};

use super::estimate::{negligible, solve_robustly};
use super::policy::action_index;
use super::time_limit::Phases;
use super::{Counts, EstimatedSolution, ObservationTable, TabularPolicy, estimate, split};
use crate::LearnError;
use crate::tuning::tabular::{FIRST_RESOLVE, LEAST_RESOLVE, RESOLVE_GROWTH, STATES_ADDED};

/// Options of a [`TabularExecution`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TabularExecutionOptions {
    /// Number of steps, if it is known.
    pub steps: Option<u64>,
    /// Tolerated shortfall as a share of each reward's range: limits how long an epoch may be, if the end is open.
    pub tolerance: f64,
    /// Whether policies take turns, `Some(true)`, or act as one randomised policy, `Some(false)`; `None` to choose.
    pub time_sharing: Option<bool>,
    /// η; `None` for that of the plan.
    pub step_size: Option<f64>,
    /// A fixed T₀.
    pub epoch: Option<u64>,
    /// First T₀ of the plan's schedule.
    pub epoch_start: Option<u64>,
}

/// Execution of a tabular policy in one environment.
///
/// The estimated model is solved for the bounds that are asked for, and a [`MixtureExecutor`] runs the solution: the real
/// rewards drive the multipliers. Counts go on, and the model is estimated and solved again when the steps of the execution
/// have doubled. Each time the multipliers are moved to the new λ*, and what is missing of each reward stays on the account
/// ([`Agent::revise`]). So an error of the model does not last: with an open end it would otherwise leave a constant share of
/// it as a shortfall, because deficits are made up for within a share of the steps taken.
///
/// The phase of the episode follows its steps, if there is a [time limit](super::TimeLimit). An end at the limit is a
/// truncation, after which no state is known; other ends count as terminations.
///
/// In a state that the solved model does not have it acts as in the nearest known one, if that was not tried, and else takes
/// the action that was tried least: until the model is solved again.
#[derive(Debug, Clone)]
pub struct TabularExecution {
    state: TabularState,
    solved: Solved,
    /// Number of values of each part of an action.
    actions: Arc<Vec<usize>>,
    rewards: Arc<Vec<String>>,
}

/// State of a [`TabularExecution`], with which [`TabularExecution::resume`] continues bit-identically.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TabularState {
    options: TabularExecutionOptions,
    /// What is asked for.
    specification: Specification,
    /// Shortfall of each requirement that is negligible.
    slack: Vec<f64>,
    table: ObservationTable,
    counts: Counts,
    /// Counts of the present plan, if they are not those of the policy.
    planned: Option<Counts>,
    mixture: MixtureState,
    /// State and action of a step whose rewards have not been observed.
    taken: Option<(usize, usize)>,
    /// State, action and rewards of a step whose successor has not been observed.
    waiting: Option<(usize, usize, Vec<f64>)>,
    /// Whether the next step is the first of an episode.
    fresh: bool,
    /// Steps of the episode.
    clock: u64,
    steps: u64,
    /// Step after which the model is solved again.
    next: u64,
}

/// A solved model, and the plan for it.
#[derive(Debug, Clone)]
struct Solved {
    model: Arc<FiniteCmdp>,
    solution: EstimatedSolution,
    plan: ExecutionPlan,
    scales: Vec<f64>,
    /// Whether an action was tried in each state.
    left: Vec<bool>,
    phases: Phases,
}

impl Solved {
    fn new(
        model: Arc<FiniteCmdp>,
        counts: &Counts,
        solution: EstimatedSolution,
        options: &TabularExecutionOptions,
    ) -> Result<Self, LearnError> {
        let task = FiniteTask::new(&model, &solution.specification)?;
        let tolerances: Vec<f64> = task.scales().iter().map(|range| options.tolerance * range).collect();
        let realisation = options.time_sharing.map(|turns| match turns {
            true => Realisation::TimeSharing,
            false => Realisation::Stationary,
        });
        let planned = PlanOptions { steps: options.steps, realisation, tolerances: &tolerances };
        let plan = ExecutionPlan::new(&task, &solution.answer, &planned)?;
        let scales = std::iter::once(task.objective_scale()).chain(task.scales().iter().copied()).collect();
        let tried = |state: usize| (0..counts.actions()).any(|action| counts.visits(state, action) > 0);
        let phases = counts.phases();
        let left = (0..model.states() / phases.count).map(tried).collect();
        Ok(Self { solution, plan, scales, left, phases, model: Arc::clone(&model) })
    }
}

impl TabularExecution {
    /// Plans the execution of a policy for a specification, which differs from that of the training only in bounds.
    pub fn new(
        policy: &TabularPolicy,
        specification: Specification,
        options: TabularExecutionOptions,
    ) -> Result<Self, LearnError> {
        let slack = negligible(&*policy.model()?, &specification, options.tolerance)?;
        let state = TabularState {
            slack,
            table: policy.table().clone(),
            counts: policy.counts().clone(),
            planned: None,
            mixture: MixtureState::default(),
            taken: None,
            waiting: None,
            fresh: true,
            clock: 0,
            steps: 0,
            next: LEAST_RESOLVE.max((FIRST_RESOLVE * policy.counts().steps() as f64) as u64),
            options,
            specification,
        };
        let solved = Self::solved(policy, &state)?;
        let mut new = Self::with(policy, state, solved);
        new.state.mixture = MixtureExecutor::new(&new.solved.plan).into_state();
        Ok(new)
    }

    /// Continues from a state.
    pub fn resume(policy: &TabularPolicy, state: TabularState) -> Result<Self, LearnError> {
        let unfit = |what: &str| {
            LearnError::Core(Error::Environment(format!(
                "the state of the execution does not fit its policy: {what}"
            )))
        };
        let counts = [Some(&state.counts), state.planned.as_ref()];
        let same = |counts: &Counts| {
            counts.actions() == policy.counts().actions() && counts.rewards() == policy.counts().rewards()
        };
        if !counts.into_iter().flatten().all(same)
            || state.counts.states() > state.table.len()
            || state.slack.len() != state.specification.requirements().len()
            || state.table.width() != policy.table().width()
            || state.planned.as_ref().is_some_and(|planned| planned.states() > state.table.len())
        {
            return Err(unfit("its counts"));
        }
        let states = state.table.len();
        let fits = |(s, a): (usize, usize)| s < states && a < policy.counts().actions();
        let waiting = state
            .waiting
            .as_ref()
            .is_none_or(|(s, a, rewards)| fits((*s, *a)) && rewards.len() == policy.counts().rewards());
        if !state.taken.is_none_or(fits) || !waiting {
            return Err(unfit("its last step"));
        }
        let solved = Self::solved(policy, &state)?;
        MixtureExecutor::resume(&solved.plan, state.mixture.clone()).map_err(|error| unfit(&error))?;
        Ok(Self::with(policy, state, solved))
    }

    fn with(policy: &TabularPolicy, state: TabularState, solved: Solved) -> Self {
        let parts = policy.parts();
        let (actions, rewards) = (Arc::new(parts.actions.clone()), Arc::new(parts.rewards.clone()));
        Self { state, solved, actions, rewards }
    }

    /// The solution that a state has been following.
    fn solved(policy: &TabularPolicy, state: &TabularState) -> Result<Solved, LearnError> {
        if let Some(planned) = &state.planned {
            let model = Arc::new(estimate(planned, policy.reward_names())?);
            let solution = solve_robustly(&model, &state.specification, &state.slack)?;
            return Solved::new(model, planned, solution, &state.options);
        }
        let model = policy.model()?;
        let solution = solve_robustly(&model, &state.specification, &state.slack)?;
        Solved::new(model, policy.counts(), solution, &state.options)
    }

    /// Configuration of an agent, whose multipliers start at the estimate of λ*.
    pub fn agent_builder(&self) -> Result<AgentBuilder, Error> {
        Ok(Agent::builder(self.state.specification.requirements().to_vec())
            .step_size(self.step_size())
            .epoch(self.epoch())
            .scales(self.solved.scales[0], &self.solved.scales[1..])
            .objective(self.state.specification.objective().is_some())
            .reference(self.multipliers()?))
    }

    /// The estimate of λ*.
    pub fn multipliers(&self) -> Result<Multipliers, Error> {
        Multipliers::new(self.solved.plan.multipliers().to_vec())
    }

    /// R₀ … R_m: ranges of the rewards in the model.
    pub fn scales(&self) -> &[f64] {
        &self.solved.scales
    }

    /// η.
    pub fn step_size(&self) -> f64 {
        self.state.options.step_size.unwrap_or_else(|| self.solved.plan.step_size())
    }

    /// T₀ over time.
    pub fn epoch(&self) -> EpochLength {
        let mut schedule = self.solved.plan.schedule();
        schedule.start = self.state.options.epoch_start.unwrap_or(schedule.start);
        self.state.options.epoch.map_or(EpochLength::Scheduled(schedule), EpochLength::Fixed)
    }

    /// The plan that is followed.
    pub fn plan(&self) -> &ExecutionPlan {
        &self.solved.plan
    }

    /// Objective and requirements that are asked for.
    pub fn specification(&self) -> &Specification {
        &self.state.specification
    }

    /// The solution that is followed; its bounds are relaxed if the estimate cannot meet those that are asked for.
    pub fn solution(&self) -> &EstimatedSolution {
        &self.solved.solution
    }

    /// V₁ … V_m of the policies of the mixture, in the model.
    pub fn values(&self) -> Vec<Vec<f64>> {
        let components = &self.solved.solution.answer.components;
        components.iter().flat_map(|component| &component.values).map(|v| v[1..].to_vec()).collect()
    }

    /// Names of the rewards that are observed, in this order.
    pub fn reward_names(&self) -> &[String] {
        &self.rewards
    }

    /// What was counted, in training and since.
    pub fn counts(&self) -> &Counts {
        &self.state.counts
    }

    /// State to be saved.
    pub fn state(&self) -> &TabularState {
        &self.state
    }

    /// The parts of the action to take.
    pub fn act(&mut self, observation: &[f64], agent: &Agent, rng: &mut Rng) -> Vec<f64> {
        let state = self.state.table.insert(observation, self.limit());
        if let Some((from, action, rewards)) = self.state.waiting.take()
            && let Some(to) = state
        {
            self.state.counts.transition(from, action, &rewards, Some(to));
        }
        let planned = state.filter(|state| self.solved.left.get(*state) == Some(&true));
        let action = match (planned, state) {
            (Some(state), _) => self.planned_action(state, agent, rng),
            (None, state) => {
                let near = self.nearest(observation, state, agent, rng);
                state.map_or(near, |state| self.least_tried(state, near))
            }
        };
        self.state.taken = state.map(|state| (state, action));
        split(action, &self.actions)
    }

    /// Number of states that the table may have.
    fn limit(&self) -> usize {
        self.solved.left.len() + STATES_ADDED
    }

    /// Action of the plan in one of its states.
    fn planned_action(&mut self, state: usize, agent: &Agent, rng: &mut Rng) -> usize {
        let phases = self.solved.phases;
        let state = state * phases.count + phases.after(self.state.clock);
        let choice = self.executor(|executor| executor.act(state, agent.multipliers(), rng));
        action_index(&self.solved.model, state, choice.unwrap_or(0))
    }

    /// Action of the plan in the nearest of its states.
    fn nearest(&mut self, observation: &[f64], own: Option<usize>, agent: &Agent, rng: &mut Rng) -> usize {
        let planned = |state: usize| Some(state) != own && self.solved.left.get(state) == Some(&true);
        let nearest = self.state.table.nearest(observation, planned);
        match nearest.len() {
            0 => rng.index(self.state.counts.actions()),
            n => {
                let state = nearest[rng.index(n)];
                self.planned_action(state, agent, rng)
            }
        }
    }

    /// The action that was tried least in a state; `first` if it was not tried.
    fn least_tried(&self, state: usize, first: usize) -> usize {
        let order = std::iter::once(first).chain(0..self.state.counts.actions());
        order.min_by_key(|action| self.state.counts.visits(state, *action)).unwrap_or(first)
    }

    /// Takes the rewards of the step, in the order of their [names](Self::reward_names) (`None` where one is not known), and
    /// whether its episode ended. If the agent's epoch has ended with it (`updated`), the next one begins.
    ///
    /// At some steps the model is solved again, which takes as long as a solve.
    pub fn observe(
        &mut self,
        rewards: &[Option<f64>],
        ended: bool,
        updated: bool,
        agent: &mut Agent,
    ) -> Result<(), Error> {
        self.state.steps += 1;
        self.state.clock += 1;
        let truncated = ended && self.state.counts.time_limit().is(self.state.clock);
        if truncated {
            self.state.counts.truncated(self.state.clock);
        }
        self.state.clock = if ended { 0 } else { self.state.clock };
        if let Some((state, action)) = self.state.taken.take() {
            if std::mem::replace(&mut self.state.fresh, ended) {
                self.state.counts.start(state);
            }
            let pair = state * self.state.counts.actions() + action;
            self.state.counts.grow(state + 1);
            let mean = |i: usize| self.state.counts.mean(pair, i);
            let rewards: Vec<f64> =
                rewards.iter().enumerate().map(|(i, r)| r.unwrap_or_else(|| mean(i))).collect();
            if ended && !truncated {
                self.state.counts.transition(state, action, &rewards, None);
            } else if !ended {
                self.state.waiting = Some((state, action, rewards));
            }
        } else {
            self.state.fresh = ended;
        }
        if updated {
            self.begin_epoch(agent);
        }
        if self.state.steps >= self.state.next {
            self.state.next = (RESOLVE_GROWTH * self.state.next as f64).ceil() as u64;
            // An estimate that cannot be solved leaves the plan as it is.
            if let Ok(solved) = self.solve_again() {
                self.follow(solved);
                agent.revise(self.multipliers()?, self.step_size(), self.epoch())?;
                self.begin_epoch(agent);
            }
        }
        Ok(())
    }

    /// Solves the model that all counts so far estimate.
    fn solve_again(&self) -> Result<Solved, LearnError> {
        let counts = &self.state.counts;
        let model = Arc::new(estimate(counts, &self.rewards)?);
        let solution = solve_robustly(&model, &self.state.specification, &self.state.slack)?;
        Solved::new(model, counts, solution, &self.state.options)
    }

    fn follow(&mut self, solved: Solved) {
        self.solved = solved;
        self.state.planned = Some(self.state.counts.clone());
        self.state.mixture = MixtureExecutor::new(&self.solved.plan).into_state();
    }

    /// The same execution for other bounds: solves the model again, from all counts so far. The agent must have them already.
    pub fn rebound(&self, specification: Specification, agent: &mut Agent) -> Result<Self, LearnError> {
        let mut next = self.clone();
        next.state.slack = negligible(&self.solved.model, &specification, self.state.options.tolerance)?;
        next.state.specification = specification;
        let solved = next.solve_again()?;
        next.follow(solved);
        agent.replan(next.multipliers()?, next.step_size(), next.epoch())?;
        next.begin_epoch(agent);
        Ok(next)
    }

    /// Divides the epoch that begins among the policies of the mixture.
    pub fn begin_epoch(&mut self, agent: &Agent) {
        self.executor(|executor| executor.begin_epoch(agent.dynamics()));
    }

    /// Calls the executor, which borrows the plan. Its state always fits, as it is made for this plan.
    fn executor<T>(&mut self, call: impl FnOnce(&mut MixtureExecutor<'_>) -> T) -> Option<T> {
        let state = std::mem::take(&mut self.state.mixture);
        let mut executor = MixtureExecutor::resume(&self.solved.plan, state).ok()?;
        let result = call(&mut executor);
        self.state.mixture = executor.into_state();
        Some(result)
    }
}
