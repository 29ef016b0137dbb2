//! Execution of a policy in a finite model with an agent (Algorithm 2).
//!
//! Finite models have a loop of their own beside [`VecExecution`](crate::VecExecution), because
//! states and actions are indices: through the batched interface a step of a small model takes more
//! than twice as long.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Agent, Certificate, Error, Event, FinitePolicy, MultiplierStatistics, Multipliers, Observer, Rewards,
    Rng, Simulator, Step, Values,
};

/// (s, λ): the state on which a policy acts, and from which an execution can be resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AugmentedState<S> {
    /// The state s of the environment.
    pub state: S,
    /// The multipliers λ.
    pub multipliers: Multipliers,
}

/// The result of one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution<S> {
    /// The number of steps taken.
    pub steps: u64,
    /// The time averages of r₀ … r_m.
    pub averages: Values,
    /// The certificate of the requirements.
    pub certificate: Certificate,
    /// Statistics of the multipliers after the first tenth of the steps.
    pub multipliers: Vec<MultiplierStatistics>,
    /// (L_n − L_{n/2})/(α n/2): the deficit per step in the second half, by requirement. It stays
    /// away from zero only if a requirement is not being met.
    pub deficit_rates: Vec<f64>,
    /// T₀ at the end.
    pub epoch: u64,
    /// The number of finished epochs, and so of dual updates.
    pub epochs: u64,
    /// The state and multipliers at the end.
    pub last: AugmentedState<S>,
}

impl<S> Execution<S> {
    /// The result of a run of an agent that ended in `state`.
    pub fn new(agent: &Agent, state: S) -> Result<Self, Error> {
        let (steps, epochs) = agent.progress();
        Ok(Self {
            steps,
            averages: Values::new(agent.averages())?,
            certificate: agent.certificate(),
            multipliers: agent.multiplier_statistics(),
            deficit_rates: agent.deficit_rates(),
            epoch: agent.dynamics().epoch_length(),
            epochs,
            last: AugmentedState { state, multipliers: agent.multipliers().clone() },
        })
    }
}

/// Runs a policy with an agent for a number of steps (Algorithm 2).
///
/// The agent may have a past: a restored one continues with the certificate and the averages of its
/// open ledger.
///
/// ```
/// use acrl::*;
/// // Two states; action = next state; each must get 30 % of the time. Go where λ is larger.
/// let mut model = FiniteCmdp::builder(["a", "b"]);
/// for (name, rewards) in [("A", [1.0, 0.0]), ("B", [0.0, 1.0])] {
///     let s = model.state(name);
///     model.choice(s, "to A", &[(0, 1.0)], &rewards);
///     model.choice(s, "to B", &[(1, 1.0)], &rewards);
/// }
/// let model = model.build()?;
/// let requirements = vec![Requirement::at_least("a", 0.3)?, Requirement::at_least("b", 0.3)?];
/// let mut simulator = Simulator::new(&model, Specification::new(None, requirements.clone())?)?;
/// let mut agent = Agent::builder(requirements).step_size(0.1).epoch(EpochLength::Fixed(10)).build()?;
/// let mut policy = |_: usize, l: &Multipliers, _: &mut Rng| usize::from(l.as_slice()[1] > l.as_slice()[0]);
/// let run = execute(&mut simulator, &mut policy, &mut agent, 10_000, &mut Rng::new(1), &mut Silent)?;
/// assert!(run.averages.meets(&[0.3, 0.3], 0.005));
/// # Ok::<(), acrl::Error>(())
/// ```
pub fn execute<P: FinitePolicy + ?Sized, O: Observer + ?Sized>(
    simulator: &mut Simulator<'_>,
    policy: &mut P,
    agent: &mut Agent,
    steps: u64,
    rng: &mut Rng,
    observer: &mut O,
) -> Result<Execution<usize>, Error> {
    let mut state = simulator.reset(rng);
    let mut rewards = Rewards::zeros(agent.dynamics().len());
    agent.plan(steps);
    let names = simulator.specification().names();
    let mut stop = observer.event(&Event::Started { requirements: &names, steps }).is_break();
    let mut taken = 0;
    policy.begin_epoch(agent.dynamics());
    while taken < steps && !stop {
        let action = policy.act(state, agent.multipliers(), rng); // a_t ~ π(s_t, λ_k)
        state = simulator.step(state, action, &mut rewards, rng)?;
        taken += 1;
        if let Some(epoch) = agent.observe(&rewards)? {
            stop = observer.event(&Event::Epoch(epoch)).is_break();
            policy.begin_epoch(agent.dynamics());
        }
        let step = Step { steps: taken, agents: std::slice::from_ref(agent), states: None };
        stop |= observer.step(&step).is_break();
    }
    let execution = Execution::new(agent, state)?;
    // The run has ended: a request to stop has no effect.
    let _ = observer.event(&Event::Finished { steps: taken, certificate: &execution.certificate });
    Ok(execution)
}

/// Does `run(0)`, `run(1)` … on all cores; the results come in order and do not depend on the
/// number of threads, provided that each run takes its randomness from [`Rng::stream`].
pub fn execute_runs<T: Send, X: Send>(
    runs: usize,
    run: impl Fn(usize) -> Result<T, X> + Sync + Send,
) -> Result<Vec<T>, X> {
    (0..runs).into_par_iter().map(run).collect()
}
