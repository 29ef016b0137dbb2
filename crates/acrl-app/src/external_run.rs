//! Running a trained policy in environments that the caller steps, such as Gymnasium's.

use acrl::{
    Agent, BatchMatrix, Error as MethodError, Execution, History, Rewards, Rng, Scoring, VecPolicy as _,
};
use acrl_learn::TrainedPolicy;
use acrl_learn::ppo::StepResult;

use crate::input::{PolicyProblem, rebound};
use crate::run::{Run, RunOptions};
use crate::run_policy::{Plan, PolicyRuns, PreparedRun, is_sampled, normalised, prepare};
use crate::tabular_run::TabularRuns;
use crate::{Error, ensure};

/// Runs of a trained policy in environments that the caller steps: an agent for each of them.
///
/// The caller [acts](Self::act), steps the environments, and lets the runs [observe](Self::observe) the rewards, until they
/// [are over](Self::is_over). The [result](Self::finish) is that of [`run`](fn@crate::run), where the policy is run in the
/// environment that it embeds: on the same rewards it has the same averages, multipliers and verdicts.
#[derive(Debug)]
pub struct ExternalRun {
    name: String,
    input: PolicyProblem,
    prepared: PreparedRun,
    agents: Vec<Agent>,
    policy: TrainedPolicy,
    /// Executions of a tabular policy.
    tabular: Option<TabularRuns>,
    rngs: Vec<Rng>,
    /// The names of the rewards that are observed.
    names: Vec<String>,
    scoring: Scoring,
    weights: BatchMatrix,
    actions: BatchMatrix,
    /// Scratch for r₀ … r_m of one environment.
    rewards: Rewards,
    /// Steps of each run.
    taken: Vec<u64>,
    history: History,
    visited: Vec<Vec<f32>>,
    /// Units of the rewards in training.
    units: Vec<f64>,
}

impl ExternalRun {
    /// Runs of a policy with other bounds in `num_envs` environments, of which the options need not say the number.
    /// `name` is the policy's name in messages.
    pub fn new(
        name: &str,
        mut input: PolicyProblem,
        requirements: &[acrl::Requirement],
        options: &RunOptions,
        num_envs: usize,
    ) -> Result<Self, Error> {
        ensure!(num_envs > 0, "there is no environment to run in");
        input.problem.specification = rebound(&input, name, None, requirements)?;
        let mut prepared = prepare(&mut input, options)?;
        let specification = input.problem.specification.clone();
        let mut names: Vec<String> = specification.objective().iter().map(|o| o.reward.clone()).collect();
        for requirement in specification.requirements() {
            if !names.iter().any(|name| name == requirement.reward()) {
                names.push(requirement.reward().to_owned());
            }
        }
        let (tabular, planned) = match TabularRuns::new(&mut input, options, &names, num_envs)? {
            Some((runs, agent)) => {
                prepared.start = agent.multipliers().clone();
                (Some(runs), Some(agent))
            }
            None => (None, None),
        };
        let task = input.task(specification)?;
        let plan = Plan::new(&task, &input, &prepared);
        let mut agent = planned.map_or_else(|| plan.agent(), Ok)?;
        agent.plan(input.problem.run.steps);
        let history = plan.history();
        let specification = task.specification();
        let m = specification.requirements().len();
        Ok(Self {
            name: name.to_owned(),
            scoring: specification.bind(&names)?,
            names,
            policy: input.file.policy.clone(),
            tabular,
            rngs: (0..num_envs as u64).map(|run| Rng::stream(input.problem.run.seed, run)).collect(),
            weights: BatchMatrix::zeros(m + 1, num_envs),
            actions: BatchMatrix::zeros(task.environment().action_space().len(), num_envs),
            rewards: Rewards::zeros(m),
            taken: vec![0; num_envs],
            visited: Vec::new(),
            units: task.scales().to_vec(),
            agents: vec![agent; num_envs],
            history,
            prepared,
            input,
        })
    }

    /// The names of the rewards that are observed, in this order.
    pub fn reward_names(&self) -> &[String] {
        &self.names
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of environments.
    pub fn num_envs(&self) -> usize {
        self.agents.len()
    }

    /// An action for every environment, by the observation of each and its agent's weights.
    pub fn act(&mut self, observations: &BatchMatrix) -> Result<&BatchMatrix, MethodError> {
        if let Some(tabular) = &mut self.tabular {
            tabular.act(observations, &self.agents, &mut self.actions, &mut self.rngs);
            return Ok(&self.actions);
        }
        let repeat = self.policy.action_repeat().max(1) as u64;
        let is_due = |taken: &u64| taken.is_multiple_of(repeat);
        if !self.taken.iter().any(is_due) {
            return Ok(&self.actions);
        }
        // Environments that only reset now and then are at different steps: those in the middle of a repeated action keep it.
        let repeated = self.taken.iter().enumerate().filter(|(_, taken)| !is_due(taken));
        let repeated: Vec<(usize, Vec<f64>, Rng)> = repeated
            .map(|(env, _)| (env, self.actions.column(env).collect(), self.rngs[env].clone()))
            .collect();
        for (env, agent) in self.agents.iter().enumerate() {
            self.weights.set_column(env, agent.weights());
        }
        self.policy.act(observations, &self.weights, &mut self.actions, &mut self.rngs)?;
        for (env, action, rng) in repeated {
            self.actions.set_column(env, &action);
            self.rngs[env] = rng;
        }
        Ok(&self.actions)
    }

    /// Takes the result of a step, with a row of rewards for each of the [names](Self::reward_names), of environments that made
    /// one (`mask`) and whose run is not over.
    pub fn observe(&mut self, result: &StepResult<'_>) -> Result<(), MethodError> {
        let (steps, before) = (self.input.problem.run.steps, self.steps());
        for (env, agent) in self.agents.iter_mut().enumerate() {
            if result.mask[env] && self.taken[env] < steps {
                let named: Vec<f64> = result.rewards.column(env).collect();
                self.scoring.score(&named, &mut self.rewards)?;
                let updated = agent.observe(&self.rewards)?.is_some();
                if let Some(tabular) = &mut self.tabular {
                    tabular.observe(env, result, updated, agent)?;
                }
                self.taken[env] += 1;
            }
        }
        let now = self.steps();
        if now > before {
            if is_sampled(now, steps) {
                self.visited.extend(normalised(&self.agents, &self.units));
            }
            if self.history.is_due(now) {
                self.history.observe(now, self.agents.iter().map(Agent::dynamics));
            }
        }
        Ok(())
    }

    /// Steps that all runs have made.
    pub fn steps(&self) -> u64 {
        self.taken.iter().copied().min().unwrap_or(0)
    }

    /// True if all runs are over.
    pub fn is_over(&self) -> bool {
        self.steps() >= self.input.problem.run.steps
    }

    /// The result of the runs, which may have stopped early.
    pub fn finish(self) -> Result<Run, Error> {
        let stopped = !self.is_over();
        if self.steps() == 0 {
            return Err(Error::Stopped(" before the first step"));
        }
        let task = self.input.task(self.input.problem.specification.clone())?;
        let plan = Plan::new(&task, &self.input, &self.prepared);
        let runs = self.agents.iter().map(|agent| Execution::new(agent, Vec::new()));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let report = plan.report(&runs, &self.agents)?;
        let runs = PolicyRuns {
            runs,
            visited: self.visited,
            runs_on_library: self.agents.iter().filter(|agent| agent.entry().is_some()).count(),
            history: self.history,
            occupancy: None,
        };
        let mut run = plan.result(&self.name, &self.input.problem.text, report, runs, stopped);
        if let Some(tabular) = &self.tabular {
            tabular.describe(&mut run);
        }
        Ok(run)
    }
}
