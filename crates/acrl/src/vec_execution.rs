//! Algorithm 2 for many runs at once.

use std::ops::ControlFlow;

use crate::error::arity;
use crate::execute::Watch;
use crate::{
    AugmentedState, BatchMatrix, DualDynamics, Error, Event, Execution, Executor, Observer, PolicyLibrary,
    Rewards, Rng, Values, VecTask, WeightSelector,
};

/// π(s, λ) for a batch.
///
/// `weights` has the rows w₀ … w_m, which are (1, λ), or (0, λ) without an objective, up to a positive factor:
/// there is no way to act without naming λ. What is done in an environment depends on that environment alone.
pub trait VecPolicy: Send {
    /// Writes an action for each environment.
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error>;

    /// The number of steps for which an action is held.
    fn hold(&self) -> usize {
        1
    }
}

/// Runs with dual dynamics, one per environment, that go on together.
pub struct VecExecution<'a> {
    task: &'a VecTask<'a>,
    policy: &'a mut dyn VecPolicy,
    library: Option<&'a PolicyLibrary>,
    dynamics: Vec<DualDynamics>,
    rngs: Vec<Rng>,
    state: BatchMatrix,
    observation: BatchMatrix,
    weights: BatchMatrix,
    /// Room for those of one environment.
    env_weights: Vec<f64>,
    actions: BatchMatrix,
    named: BatchMatrix,
    rewards: BatchMatrix,
    step_rewards: Rewards,
    steerers: Vec<WeightSelector>,
    watches: Vec<Watch>,
    epochs: Vec<u64>,
    objective_weight: f64,
    steps: u64,
    taken: u64,
}

impl<'a> VecExecution<'a> {
    /// One run per dynamics, each with its own generator, from states drawn by the environment.
    ///
    /// With a `library`, a run whose multipliers keep growing holds from some time on the entry that is best at its
    /// multipliers: see [`WeightSelector`].
    pub fn new(
        task: &'a VecTask<'a>,
        policy: &'a mut dyn VecPolicy,
        library: Option<&'a PolicyLibrary>,
        dynamics: Vec<DualDynamics>,
        mut rngs: Vec<Rng>,
        steps: u64,
    ) -> Result<Self, Error> {
        let (num_envs, m) = (dynamics.len(), task.specification().requirements().len());
        arity("generators", num_envs, rngs.len())?;
        for one in &dynamics {
            arity("requirements of the dynamics", m, one.len())?;
        }
        let environment = task.environment();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), num_envs);
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng)?;
        }
        let mut execution = Self {
            observation: BatchMatrix::zeros(environment.observation_space().len(), num_envs),
            weights: BatchMatrix::zeros(m + 1, num_envs),
            env_weights: vec![0.0; m + 1],
            actions: BatchMatrix::zeros(environment.action_space().len(), num_envs),
            named: BatchMatrix::zeros(environment.reward_names().len(), num_envs),
            rewards: BatchMatrix::zeros(m + 1, num_envs),
            step_rewards: Rewards::zeros(m),
            steerers: dynamics.iter().map(|one| WeightSelector::new(Executor::Policy, one)).collect(),
            watches: dynamics.iter().map(|one| Watch::new(one, steps)).collect(),
            epochs: vec![0; num_envs],
            objective_weight: if task.has_objective() { 1.0 } else { 0.0 },
            steps,
            taken: 0,
            task,
            policy,
            library,
            dynamics,
            rngs,
            state,
        };
        (0..num_envs).for_each(|env| execution.set_weights(env));
        Ok(execution)
    }

    /// The same with the objective counted for nothing: how the requirements come out if they are all that
    /// matters, and what that costs.
    pub fn ignoring_objective(mut self) -> Self {
        self.objective_weight = 0.0;
        (0..self.dynamics.len()).for_each(|env| self.set_weights(env));
        self
    }

    /// The same, steered by the library from the first step on, or by the policy as long as it does.
    pub fn steered_by(mut self, steering: Executor) -> Self {
        self.steerers = self.steerers.into_iter().map(|one| one.steered_by(steering)).collect();
        (0..self.dynamics.len()).for_each(|env| self.set_weights(env));
        self
    }

    /// One step of every run.
    pub fn step(&mut self, observer: &mut dyn Observer) -> Result<ControlFlow<()>, Error> {
        let environment = self.task.environment();
        if self.taken.is_multiple_of(self.policy.hold().max(1) as u64) {
            environment.observe(&self.state, &mut self.observation);
            self.policy.act(&self.observation, &self.weights, &mut self.actions, &mut self.rngs)?;
        }
        environment.step(&mut self.state, &self.actions, &mut self.named, &mut self.rngs)?;
        self.task.score(&self.named, &mut self.rewards)?;
        self.taken += 1;
        let mut flow = ControlFlow::Continue(());
        for env in 0..self.dynamics.len() {
            for (i, r) in self.step_rewards.as_mut_slice().iter_mut().enumerate() {
                *r = self.rewards.at(i, env);
            }
            let watch = &mut self.watches[env];
            let mut ended = false;
            if let Some(epoch) = self.dynamics[env].observe(&self.step_rewards)? {
                watch.multipliers(epoch.multipliers, epoch.steps);
                if env == 0 {
                    flow = observer.event(&Event::Epoch(epoch));
                }
                ended = true;
            }
            if self.taken == watch.half {
                watch.middle = self.dynamics[env].ledger();
            }
            if self.taken == watch.tenth {
                watch.begin(self.dynamics[env].multipliers());
            }
            if ended {
                self.epochs[env] += 1;
                self.set_weights(env);
            }
        }
        Ok(flow)
    }

    /// Turns the multipliers of a run into the weights that its policy is given.
    fn set_weights(&mut self, env: usize) {
        let (dynamics, weights) = (&mut self.dynamics[env], &mut self.env_weights);
        self.steerers[env].steer(dynamics, self.library, self.objective_weight, weights);
        self.weights.set_column(env, weights);
    }

    /// The states of all runs.
    pub fn state(&self) -> &BatchMatrix {
        &self.state
    }

    /// w₀ … w_m of all runs, as the policy is given them.
    pub fn weights(&self) -> &BatchMatrix {
        &self.weights
    }

    /// r₀ … r_m of all runs at the last step.
    pub fn rewards(&self) -> &BatchMatrix {
        &self.rewards
    }

    /// The dynamics of one run.
    pub fn dynamics(&self, env: usize) -> &DualDynamics {
        &self.dynamics[env]
    }

    /// The runs that hold entries of the library.
    pub fn fallbacks(&self) -> usize {
        self.steerers.iter().filter(|one| one.entry().is_some()).count()
    }

    /// What each run came to.
    pub fn finish(self) -> Result<Vec<Execution<Vec<f64>>>, Error> {
        let Self { dynamics, watches, state, epochs, taken, .. } = self;
        let num_envs = dynamics.iter().zip(&watches).enumerate();
        num_envs
            .map(|(env, (dynamics, watch))| {
                Ok(Execution {
                    steps: taken,
                    averages: Values::new(dynamics.averages())?,
                    certificate: dynamics.certificate(),
                    multipliers: watch.statistics(dynamics.multipliers()),
                    growth: watch.growth(dynamics, taken),
                    epoch: dynamics.epoch_length(),
                    epochs: epochs[env],
                    last: AugmentedState {
                        state: state.column(env).collect(),
                        multipliers: dynamics.multipliers().clone(),
                    },
                })
            })
            .collect()
    }

    /// Goes on to the end, or until the observer says stop: it hears of every epoch of the first run, and of
    /// its beginning and end. `each_step` looks on after every step of all runs and may stop them too.
    pub fn run(
        mut self,
        observer: &mut dyn Observer,
        each_step: &mut dyn FnMut(&Self) -> ControlFlow<()>,
    ) -> Result<Vec<Execution<Vec<f64>>>, Error> {
        let names = self.task.specification().names();
        let mut flow = observer.event(&Event::Started { requirements: &names, steps: self.steps });
        while self.taken < self.steps && flow.is_continue() {
            flow = self.step(observer)?;
            if each_step(&self).is_break() {
                break;
            }
        }
        if let Some(first) = self.dynamics.first() {
            let certificate = first.certificate();
            // A run that is over cannot be stopped any more.
            let _ = observer.event(&Event::Finished { steps: self.taken, certificate: &certificate });
        }
        self.finish()
    }
}
