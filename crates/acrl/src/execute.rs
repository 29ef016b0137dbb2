//! Algorithm 2: run π(s, λ) while λ follows the measured deficit.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Certificate, DualDynamics, Environment, Error, Event, Multipliers, Observer, Policy, Rewards, Rng, Task,
    Values,
};

/// (s, λ): what a policy acts on, and where an execution can be taken up again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AugmentedState<S> {
    /// s.
    pub state: S,
    /// λ.
    pub multipliers: Multipliers,
}

/// What one execution came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution<S> {
    /// The steps taken.
    pub steps: u64,
    /// The time averages of r₀ … r_m.
    pub averages: Values,
    /// What is proved about the requirements.
    pub certificate: Certificate,
    /// The multipliers after the first tenth of the steps.
    pub multipliers: Vec<MultiplierStatistics>,
    /// (L_n − L_{n/2})/(α n/2): the deficit per step in the second half, by requirement. It stays
    /// away from zero only if a requirement is not being met.
    pub growth: Vec<f64>,
    /// T₀ at the end.
    pub epoch: u64,
    /// The epochs completed: the number of dual updates.
    pub epochs: u64,
    /// The state and multipliers at the end.
    pub last: AugmentedState<S>,
}

/// How one multiplier behaved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MultiplierStatistics {
    /// At the end.
    pub last: f64,
    /// On average over steps.
    pub mean: f64,
    /// At least.
    pub min: f64,
    /// At most.
    pub max: f64,
}

/// Runs a policy with dual dynamics for a number of steps (Algorithm 2).
///
/// The dynamics may have a past: a restored one goes on where it stopped, with the certificate and
/// the averages of its open ledger.
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
/// let mut task = Task::new(&model, Specification::new(None, requirements.clone())?)?;
/// let mut dynamics = DualDynamics::new(requirements, 0.1, EpochLength::Fixed(10))?;
/// let mut policy = |_: &usize, l: &Multipliers, _: &mut Rng| usize::from(l.as_slice()[1] > l.as_slice()[0]);
/// let run = execute(&mut task, &mut policy, &mut dynamics, 10_000, &mut Rng::new(1), &mut Silent)?;
/// assert!(run.averages.meets(&[0.3, 0.3], 0.005));
/// # Ok::<(), acrl::Error>(())
/// ```
pub fn execute<E: Environment, P: Policy<E::State, E::Action>>(
    task: &mut Task<E>,
    policy: &mut P,
    dynamics: &mut DualDynamics,
    steps: u64,
    rng: &mut Rng,
    observer: &mut dyn Observer,
) -> Result<Execution<E::State>, Error> {
    execute_watched(task, policy, dynamics, steps, rng, observer, |_, _| {})
}

/// [`execute`], with a look at the dynamics after every step; the number is that of the steps taken.
pub fn execute_watched<E: Environment, P: Policy<E::State, E::Action>>(
    task: &mut Task<E>,
    policy: &mut P,
    dynamics: &mut DualDynamics,
    steps: u64,
    rng: &mut Rng,
    observer: &mut dyn Observer,
    mut each_step: impl FnMut(u64, &DualDynamics),
) -> Result<Execution<E::State>, Error> {
    let mut state = task.reset(rng)?;
    let mut rewards = Rewards::zeros(dynamics.len());
    let mut watch = Watch::new(dynamics, steps);
    let names = task.specification().names();
    let mut stop = observer.event(&Event::Started { requirements: &names, steps }).is_break();
    let (mut taken, mut epochs) = (0, 0);
    while taken < steps && !stop {
        let action = policy.act(&state, dynamics.multipliers(), rng); // a_t ~ π(s_t, λ_k)
        state = task.step(&state, &action, &mut rewards, rng)?;
        taken += 1;
        if let Some(epoch) = dynamics.observe(&rewards)? {
            epochs += 1;
            watch.multipliers(epoch.multipliers, epoch.steps);
            stop = observer.event(&Event::Epoch(epoch)).is_break();
        }
        if taken == watch.half {
            watch.middle = dynamics.ledger();
        }
        if taken == watch.tenth {
            watch.begin(dynamics.multipliers());
        }
        each_step(taken, dynamics);
    }
    let certificate = dynamics.certificate();
    // A run that is over cannot be stopped any more.
    let _ = observer.event(&Event::Finished { steps: taken, certificate: &certificate });
    Ok(Execution {
        steps: taken,
        averages: Values::new(dynamics.averages())?,
        certificate,
        multipliers: watch.statistics(dynamics.multipliers()),
        growth: watch.growth(dynamics, taken),
        epoch: dynamics.epoch_length(),
        epochs,
        last: AugmentedState { state, multipliers: dynamics.multipliers().clone() },
    })
}

/// Does `run(0)`, `run(1)` … on all cores; the results come in order and do not depend on the
/// number of threads, provided that each run takes its randomness from [`Rng::stream`].
pub fn execute_runs<T: Send, X: Send>(
    runs: usize,
    run: impl Fn(usize) -> Result<T, X> + Sync + Send,
) -> Result<Vec<T>, X> {
    (0..runs).into_par_iter().map(run).collect()
}

/// What `execute` remembers of a run in order to report on it.
pub(crate) struct Watch {
    pub(crate) tenth: u64,
    pub(crate) half: u64,
    pub(crate) middle: Vec<f64>,
    weight: f64,
    sums: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Watch {
    pub(crate) fn new(dynamics: &DualDynamics, steps: u64) -> Self {
        let lambda = dynamics.multipliers().as_slice().to_vec();
        Self {
            tenth: steps / 10,
            half: steps / 2,
            middle: dynamics.ledger(),
            weight: 0.0,
            sums: vec![0.0; lambda.len()],
            low: lambda.clone(),
            high: lambda,
        }
    }

    /// Forgets what came before the first tenth was over.
    pub(crate) fn begin(&mut self, lambda: &Multipliers) {
        self.weight = 0.0;
        self.sums.fill(0.0);
        self.low.copy_from_slice(lambda.as_slice());
        self.high.copy_from_slice(lambda.as_slice());
    }

    #[inline]
    pub(crate) fn multipliers(&mut self, lambda: &Multipliers, steps: u64) {
        self.weight += steps as f64;
        for (i, &l) in lambda.as_slice().iter().enumerate() {
            self.sums[i] += l * steps as f64;
            self.low[i] = self.low[i].min(l);
            self.high[i] = self.high[i].max(l);
        }
    }

    pub(crate) fn statistics(&self, lambda: &Multipliers) -> Vec<MultiplierStatistics> {
        let entry = |(i, &last): (usize, &f64)| MultiplierStatistics {
            last,
            mean: if self.weight > 0.0 { self.sums[i] / self.weight } else { last },
            min: self.low[i],
            max: self.high[i],
        };
        lambda.as_slice().iter().enumerate().map(entry).collect()
    }

    pub(crate) fn growth(&self, dynamics: &DualDynamics, taken: u64) -> Vec<f64> {
        let steps = taken.saturating_sub(self.half).max(1) as f64;
        let ledger = dynamics.ledger();
        (0..ledger.len()).map(|i| (ledger[i] - self.middle[i]) / (dynamics.gains()[i] * steps)).collect()
    }
}
