//! Algorithm 2 for many runs at once.

use std::ops::ControlFlow;

use crate::error::arity;
use crate::execute::Watch;
use crate::{
    AugmentedState, BatchTask, DualDynamics, Error, Event, Execution, Library, Observer, Rewards, Rng, Rows,
    Steerer, Steering, Values,
};

/// π(s, λ) for a batch.
///
/// `weights` has the rows w₀ … w_m, which are (1, λ), or (0, λ) without an objective, up to a positive factor:
/// there is no way to act without naming λ. What is done in a lane depends on that lane alone.
pub trait BatchPolicy: Send {
    /// Writes an action for each lane.
    fn act(
        &mut self,
        observation: &Rows,
        weights: &Rows,
        actions: &mut Rows,
        rngs: &mut [Rng],
    ) -> Result<(), Error>;

    /// The number of steps for which an action is held.
    fn hold(&self) -> usize {
        1
    }
}

/// Runs with dual dynamics, one per lane, that go on together.
pub struct BatchExecution<'a> {
    task: &'a BatchTask<'a>,
    policy: &'a mut dyn BatchPolicy,
    library: Option<&'a Library>,
    dynamics: Vec<DualDynamics>,
    rngs: Vec<Rng>,
    state: Rows,
    observation: Rows,
    weights: Rows,
    /// Room for those of one lane.
    lane_weights: Vec<f64>,
    actions: Rows,
    named: Rows,
    rewards: Rows,
    step_rewards: Rewards,
    steerers: Vec<Steerer>,
    watches: Vec<Watch>,
    epochs: Vec<u64>,
    objective_weight: f64,
    steps: u64,
    taken: u64,
}

impl<'a> BatchExecution<'a> {
    /// One run per dynamics, each with its own generator, from states drawn by the environment.
    ///
    /// With a `library`, a run whose multipliers keep growing holds from some time on the entry that is best at its
    /// multipliers: see [`Steerer`].
    pub fn new(
        task: &'a BatchTask<'a>,
        policy: &'a mut dyn BatchPolicy,
        library: Option<&'a Library>,
        dynamics: Vec<DualDynamics>,
        mut rngs: Vec<Rng>,
        steps: u64,
    ) -> Result<Self, Error> {
        let (lanes, m) = (dynamics.len(), task.specification().requirements().len());
        arity("generators", lanes, rngs.len())?;
        for one in &dynamics {
            arity("requirements of the dynamics", m, one.len())?;
        }
        let environment = task.environment();
        let mut state = Rows::zeros(environment.state_dimension(), lanes);
        for (lane, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, lane, rng)?;
        }
        let mut execution = Self {
            observation: Rows::zeros(environment.observation_space().len(), lanes),
            weights: Rows::zeros(m + 1, lanes),
            lane_weights: vec![0.0; m + 1],
            actions: Rows::zeros(environment.action_space().len(), lanes),
            named: Rows::zeros(environment.reward_names().len(), lanes),
            rewards: Rows::zeros(m + 1, lanes),
            step_rewards: Rewards::zeros(m),
            steerers: dynamics.iter().map(|one| Steerer::new(Steering::Policy, one)).collect(),
            watches: dynamics.iter().map(|one| Watch::new(one, steps)).collect(),
            epochs: vec![0; lanes],
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
        (0..lanes).for_each(|lane| execution.set_weights(lane));
        Ok(execution)
    }

    /// The same with the objective counted for nothing: how the requirements come out if they are all that
    /// matters, and what that costs.
    pub fn ignoring_objective(mut self) -> Self {
        self.objective_weight = 0.0;
        (0..self.dynamics.len()).for_each(|lane| self.set_weights(lane));
        self
    }

    /// The same, steered by the library from the first step on, or by the policy as long as it does.
    pub fn steered_by(mut self, steering: Steering) -> Self {
        self.steerers = self.steerers.into_iter().map(|one| one.steered_by(steering)).collect();
        (0..self.dynamics.len()).for_each(|lane| self.set_weights(lane));
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
        for lane in 0..self.dynamics.len() {
            for (i, r) in self.step_rewards.as_mut_slice().iter_mut().enumerate() {
                *r = self.rewards.at(i, lane);
            }
            let watch = &mut self.watches[lane];
            let mut ended = false;
            if let Some(epoch) = self.dynamics[lane].observe(&self.step_rewards)? {
                watch.multipliers(epoch.multipliers, epoch.steps);
                if lane == 0 {
                    flow = observer.event(&Event::Epoch(epoch));
                }
                ended = true;
            }
            if self.taken == watch.half {
                watch.middle = self.dynamics[lane].ledger();
            }
            if self.taken == watch.tenth {
                watch.begin(self.dynamics[lane].multipliers());
            }
            if ended {
                self.epochs[lane] += 1;
                self.set_weights(lane);
            }
        }
        Ok(flow)
    }

    /// Turns the multipliers of a run into the weights that its policy is given.
    fn set_weights(&mut self, lane: usize) {
        let (dynamics, weights) = (&mut self.dynamics[lane], &mut self.lane_weights);
        self.steerers[lane].steer(dynamics, self.library, self.objective_weight, weights);
        self.weights.set_lane(lane, weights);
    }

    /// The states of all runs.
    pub fn state(&self) -> &Rows {
        &self.state
    }

    /// w₀ … w_m of all runs, as the policy is given them.
    pub fn weights(&self) -> &Rows {
        &self.weights
    }

    /// r₀ … r_m of all runs at the last step.
    pub fn rewards(&self) -> &Rows {
        &self.rewards
    }

    /// The dynamics of one run.
    pub fn dynamics(&self, lane: usize) -> &DualDynamics {
        &self.dynamics[lane]
    }

    /// The runs that hold entries of the library.
    pub fn fallbacks(&self) -> usize {
        self.steerers.iter().filter(|one| one.entry().is_some()).count()
    }

    /// What each run came to.
    pub fn finish(self) -> Result<Vec<Execution<Vec<f64>>>, Error> {
        let Self { dynamics, watches, state, epochs, taken, .. } = self;
        let lanes = dynamics.iter().zip(&watches).enumerate();
        lanes
            .map(|(lane, (dynamics, watch))| {
                Ok(Execution {
                    steps: taken,
                    averages: Values::new(dynamics.averages())?,
                    certificate: dynamics.certificate(),
                    multipliers: watch.statistics(dynamics.multipliers()),
                    growth: watch.growth(dynamics, taken),
                    epoch: dynamics.epoch_length(),
                    epochs: epochs[lane],
                    last: AugmentedState {
                        state: state.lane(lane).collect(),
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
