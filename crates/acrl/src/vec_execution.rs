//! Algorithm 2 for many runs at once: an agent per environment, one policy for the batch.

use std::ops::ControlFlow;

use crate::error::arity;
use crate::{
    Agent, BatchMatrix, Error, Event, Execution, Executor, Observer, Rewards, Rng, Step, VecPolicy, VecTask,
};

/// Simultaneous runs of one policy, each with an agent of its own.
///
/// Environments do not interact: a run is bit-identical alone and in any batch.
pub struct VecExecution<'a> {
    task: &'a VecTask<'a>,
    policy: &'a mut dyn VecPolicy,
    agents: Vec<Agent>,
    rngs: Vec<Rng>,
    states: BatchMatrix,
    observations: BatchMatrix,
    weights: BatchMatrix,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    /// Scratch for the rewards of one environment.
    env_rewards: Rewards,
    steps: u64,
    taken: u64,
}

impl<'a> VecExecution<'a> {
    /// One run of `steps` steps per agent, each with its own generator, from states drawn by the
    /// environment.
    pub fn new(
        task: &'a VecTask<'a>,
        policy: &'a mut dyn VecPolicy,
        mut agents: Vec<Agent>,
        mut rngs: Vec<Rng>,
        steps: u64,
    ) -> Result<Self, Error> {
        let (num_envs, m) = (agents.len(), task.specification().requirements().len());
        arity("generators", num_envs, rngs.len())?;
        let mut weights = BatchMatrix::zeros(m + 1, num_envs);
        for (env, agent) in agents.iter_mut().enumerate() {
            arity("requirements of an agent", m, agent.dynamics().len())?;
            agent.plan(steps);
            weights.set_column(env, agent.weights());
        }
        let environment = task.environment();
        let mut states = BatchMatrix::zeros(environment.state_dimension(), num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut states, env, rng)?;
        }
        Ok(Self {
            observations: BatchMatrix::zeros(environment.observation_space().len(), num_envs),
            weights,
            actions: BatchMatrix::zeros(environment.action_space().len(), num_envs),
            named: BatchMatrix::zeros(environment.reward_names().len(), num_envs),
            rewards: BatchMatrix::zeros(m + 1, num_envs),
            env_rewards: Rewards::zeros(m),
            steps,
            taken: 0,
            task,
            policy,
            agents,
            rngs,
            states,
        })
    }

    /// One step of every run. The observer gets the epochs of the first run, and every step of all
    /// runs.
    pub fn step<O: Observer + ?Sized>(&mut self, observer: &mut O) -> Result<ControlFlow<()>, Error> {
        let environment = self.task.environment();
        if self.taken.is_multiple_of(self.policy.action_repeat().max(1) as u64) {
            environment.observe(&self.states, &mut self.observations);
            self.policy.act(&self.observations, &self.weights, &mut self.actions, &mut self.rngs)?;
        }
        environment.step(&mut self.states, &self.actions, &mut self.named, &mut self.rngs)?;
        self.task.score(&self.named, &mut self.rewards)?;
        self.taken += 1;
        let mut flow = ControlFlow::Continue(());
        for (env, agent) in self.agents.iter_mut().enumerate() {
            for (i, r) in self.env_rewards.as_mut_slice().iter_mut().enumerate() {
                *r = self.rewards.at(i, env);
            }
            if let Some(epoch) = agent.observe(&self.env_rewards)? {
                if env == 0 {
                    flow = observer.event(&Event::Epoch(epoch));
                }
                self.weights.set_column(env, agent.weights());
            } else if agent.executor() == Executor::TimeSharing {
                self.weights.set_column(env, agent.weights());
            }
        }
        let step = Step { steps: self.taken, agents: &self.agents, states: Some(&self.states) };
        let after = observer.step(&step);
        Ok(if flow.is_break() { flow } else { after })
    }

    /// The states of all runs.
    pub fn states(&self) -> &BatchMatrix {
        &self.states
    }

    /// w₀ … w_m of all runs, on which the policy acts.
    pub fn weights(&self) -> &BatchMatrix {
        &self.weights
    }

    /// r₀ … r_m of all runs at the last step.
    pub fn rewards(&self) -> &BatchMatrix {
        &self.rewards
    }

    /// The results of the runs.
    pub fn finish(self) -> Result<Vec<Execution<Vec<f64>>>, Error> {
        let runs = self.agents.iter().enumerate();
        runs.map(|(env, agent)| Execution::new(agent, self.states.column(env).collect())).collect()
    }

    /// Runs to the end, or until the observer stops.
    pub fn run<O: Observer + ?Sized>(mut self, observer: &mut O) -> Result<Vec<Execution<Vec<f64>>>, Error> {
        let names = self.task.specification().names();
        let mut flow = observer.event(&Event::Started { requirements: &names, steps: self.steps });
        while self.taken < self.steps && flow.is_continue() {
            flow = self.step(observer)?;
        }
        if let Some(first) = self.agents.first() {
            let certificate = first.certificate();
            // The run has ended: a request to stop has no effect.
            let _ = observer.event(&Event::Finished { steps: self.taken, certificate: &certificate });
        }
        self.finish()
    }
}
