//! Algorithm 2 as a state machine: what an operator's loop, `execute`, the batches and Python run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::arity;
use crate::ledger_history::LedgerHistory;
use crate::weight_selector::WeightSelector;
use crate::{
    Certificate, Diagnosis, DiagnosisInput, DiagnosisVerdict, DualDynamics, Epoch, EpochLength, Error,
    Executor, MultiplierStatistics, Multipliers, PolicyLibrary, Requirement, Rewards,
};

/// The run-time half of the method without I/O: dual dynamics, the choice of the weights to act
/// with, and a history.
///
/// The loop of an agent is: act with [`weights`](Self::weights) in any environment,
/// [`observe`](Self::observe) the rewards, and read the [`certificate`](Self::certificate) at any
/// time.
///
/// ```
/// use acrl::{Agent, EpochLength, Requirement, Rewards};
///
/// // A server that earns 1 per job, and must idle for a third of the time.
/// let idle = Requirement::at_least("idle", 1.0 / 3.0)?;
/// let mut agent = Agent::builder(vec![idle]).step_size(0.5).epoch(EpochLength::Fixed(10)).build()?;
/// for _ in 0..10_000 {
///     let weights = agent.weights(); // w₀ of the objective, w₁ of the requirement
///     let working = weights[0] > weights[1]; // a policy π(s, w)
///     let rewards = if working { [1.0, 0.0] } else { [0.0, 1.0] };
///     agent.observe(&Rewards::new(rewards.to_vec())?)?; // `Some` when the multipliers move
/// }
/// let certified = &agent.certificate().requirements[0];
/// assert!(certified.average > 1.0 / 3.0 - 0.005 && certified.certified_shortfall < 0.005);
/// # Ok::<(), acrl::Error>(())
/// ```
///
/// With [`Executor::Policy`] the weights are (1, λ) or (0, λ); but when an automatic epoch has become
/// four times as long as it was, the policy by itself is not sufficient: from then on the agent uses
/// the entry of its library that is best at λ, as with [`Executor::Library`] from the start.
///
/// The state is plain data: serialised, restored and continued it yields bit-identical numbers. A
/// [library](AgentBuilder::library) is not part of it and has to be
/// [attached](Self::attach_library) again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Agent {
    dynamics: DualDynamics,
    selector: WeightSelector,
    /// w₀ beside λ, 1 or 0.
    objective_weight: f64,
    /// w₀ … w_m to act with now.
    weights: Vec<f64>,
    history: LedgerHistory,
    #[serde(skip)]
    library: Option<Arc<PolicyLibrary>>,
}

/// An agent as it is read, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    dynamics: DualDynamics,
    selector: WeightSelector,
    objective_weight: f64,
    weights: Vec<f64>,
    history: LedgerHistory,
}

impl TryFrom<Saved> for Agent {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { dynamics, selector, objective_weight, weights, history } = saved;
        arity("weights", dynamics.len() + 1, weights.len())?;
        history.check(dynamics.len())?;
        Multipliers::new(weights.iter().copied().chain([objective_weight]).collect())?; // finite and nonnegative
        Ok(Self { dynamics, selector, objective_weight, weights, history, library: None })
    }
}

/// The configuration of an [`Agent`].
///
/// | setting | default | purpose |
/// |---|---|---|
/// | [`step_size`](Self::step_size) | 0.5 | η of the dual update |
/// | [`epoch`](Self::epoch) | `Auto(10)` | T₀ |
/// | [`scales`](Self::scales) | 1 | ranges R₀ … R_m of the rewards |
/// | [`multipliers`](Self::multipliers) | 0 | λ₀ |
/// | [`reference`](Self::reference) | none | λ*, where it is known |
/// | [`objective`](Self::objective) | true | w₀ = 1 beside λ, else 0 |
/// | [`library`](Self::library) | none | evaluated policies π(·, w_j) to fall back on |
/// | [`executor`](Self::executor) | `Policy` | what turns λ into weights |
#[derive(Debug, Clone)]
pub struct AgentBuilder {
    requirements: Vec<Requirement>,
    step_size: f64,
    epoch: EpochLength,
    scales: Option<Vec<f64>>,
    multipliers: Option<Multipliers>,
    reference: Option<Multipliers>,
    objective_weight: f64,
    library: Option<Arc<PolicyLibrary>>,
    executor: Executor,
}

impl AgentBuilder {
    /// η by default.
    pub const STEP_SIZE: f64 = 0.5;
    /// T₀ by default.
    pub const EPOCH: EpochLength = EpochLength::Auto(10);

    /// Sets η, the step size of the dual update; the gain per step is η/T₀.
    pub fn step_size(mut self, step_size: f64) -> Self {
        self.step_size = step_size;
        self
    }

    /// Sets T₀, the steps between two dual updates.
    pub fn epoch(mut self, epoch: EpochLength) -> Self {
        self.epoch = epoch;
        self
    }

    /// Sets R₀ … R_m, the ranges in units of which rewards are measured; R₀ = 1 without an objective.
    pub fn scales(mut self, objective: f64, requirements: &[f64]) -> Self {
        self.scales = Some(std::iter::once(objective).chain(requirements.iter().copied()).collect());
        self
    }

    /// Sets λ₀: a warm start.
    pub fn multipliers(mut self, multipliers: Multipliers) -> Self {
        self.multipliers = Some(multipliers);
        self
    }

    /// Sets λ*, where the multipliers also start ([`DualDynamics::with_reference`]).
    pub fn reference(mut self, multipliers: Multipliers) -> Self {
        self.reference = Some(multipliers);
        self
    }

    /// Sets w₀ to 1 if there is an objective, and else to 0: then only the requirements have weights.
    pub fn objective(mut self, exists: bool) -> Self {
        self.objective_weight = if exists { 1.0 } else { 0.0 };
        self
    }

    /// Sets the library of evaluated policies.
    pub fn library(mut self, library: Option<Arc<PolicyLibrary>>) -> Self {
        self.library = library;
        self
    }

    /// Sets what turns λ into weights.
    pub fn executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// The agent, before its first step.
    pub fn build(self) -> Result<Agent, Error> {
        let mut dynamics = DualDynamics::new(self.requirements, self.step_size, self.epoch)?;
        if let Some(scales) = &self.scales {
            dynamics = dynamics.with_scales(scales[0], &scales[1..])?;
        }
        // Entries take turns in shares that are those of the optimum where nothing is missing.
        let (multipliers, reference) = match (self.executor, self.reference) {
            (Executor::TimeSharing, None) => (None, self.multipliers),
            (_, reference) => (self.multipliers, reference),
        };
        if let Some(multipliers) = multipliers {
            dynamics = dynamics.with_multipliers(multipliers)?;
        }
        if let Some(reference) = reference {
            dynamics = dynamics.with_reference(reference)?;
        }
        let mut agent = Agent {
            selector: WeightSelector::new(self.executor, &dynamics),
            objective_weight: self.objective_weight,
            weights: vec![0.0; dynamics.len() + 1],
            history: LedgerHistory::new(&dynamics, None),
            library: None,
            dynamics,
        };
        agent.attach_library(self.library)?;
        agent.select_weights();
        Ok(agent)
    }
}

impl Agent {
    /// The configuration of an agent with these requirements.
    pub fn builder(requirements: Vec<Requirement>) -> AgentBuilder {
        AgentBuilder {
            requirements,
            step_size: AgentBuilder::STEP_SIZE,
            epoch: AgentBuilder::EPOCH,
            scales: None,
            multipliers: None,
            reference: None,
            objective_weight: 1.0,
            library: None,
            executor: Executor::Policy,
        }
    }

    /// Attaches the library of evaluated policies, after the agent was restored; fails if it is not
    /// made for as many requirements.
    pub fn attach_library(&mut self, library: Option<Arc<PolicyLibrary>>) -> Result<(), Error> {
        check_library(library.as_deref(), self.dynamics.len())?;
        self.library = library;
        Ok(())
    }

    /// Starts a history of `steps` planned steps: reports then are about its second half.
    pub fn plan(&mut self, steps: u64) {
        self.history = LedgerHistory::new(&self.dynamics, Some(steps));
    }

    /// Adds the rewards of one step (Algorithm 2). `Some` when the step ends an epoch: the
    /// multipliers have moved, and new weights to act with have been chosen.
    #[inline]
    pub fn observe(&mut self, rewards: &Rewards) -> Result<Option<Epoch<'_>>, Error> {
        let Some(epoch) = self.dynamics.observe(rewards)? else {
            self.history.step(&self.dynamics);
            self.selector.step(&self.dynamics, self.library.as_deref(), &mut self.weights);
            return Ok(None);
        };
        self.history.update(&epoch);
        let Epoch { k, step, steps, length, .. } = epoch;
        self.history.step(&self.dynamics);
        self.select_weights();
        Ok(Some(Epoch { k, step, steps, multipliers: self.dynamics.multipliers(), length }))
    }

    fn select_weights(&mut self) {
        let (library, objective) = (self.library.as_deref(), self.objective_weight);
        self.selector.select(&mut self.dynamics, library, objective, &mut self.weights);
    }

    /// Changes one bound (in the user's sign) from the next step on. Opens a new ledger and a new
    /// history.
    pub fn set_bound(&mut self, name: &str, bound: f64) -> Result<(), Error> {
        self.dynamics.set_bound(name, bound)?;
        self.history = LedgerHistory::new(&self.dynamics, None);
        Ok(())
    }

    /// Replaces the requirements, as [`DualDynamics::replace`] does. Opens a new ledger and a new
    /// history, and chooses new weights. An attached library must be made for as many requirements.
    pub fn replace(&mut self, requirements: Vec<Requirement>, scales: &[f64]) -> Result<(), Error> {
        let m = requirements.len();
        check_library(self.library.as_deref(), m)?;
        self.dynamics.replace(requirements, scales)?;
        self.history = LedgerHistory::new(&self.dynamics, None);
        self.weights.resize(m + 1, 0.0);
        self.select_weights();
        Ok(())
    }

    /// Replaces λ*, η and T₀ by those of a plan for changed requirements, as [`DualDynamics::replan`]
    /// does. Opens a new ledger and a new history, and chooses new weights.
    pub fn replan(
        &mut self,
        reference: Multipliers,
        step_size: f64,
        epoch: EpochLength,
    ) -> Result<(), Error> {
        self.dynamics.replan(reference, step_size, epoch)?;
        self.history = LedgerHistory::new(&self.dynamics, None);
        self.select_weights();
        Ok(())
    }

    /// Replaces λ*, η and T₀ by those of a plan for the same requirements, as [`DualDynamics::revise`] does. The ledger and
    /// the history go on; chooses new weights.
    pub fn revise(
        &mut self,
        reference: Multipliers,
        step_size: f64,
        epoch: EpochLength,
    ) -> Result<(), Error> {
        self.dynamics.revise(reference, step_size, epoch)?;
        self.select_weights();
        Ok(())
    }

    /// w₀ … w_m to act with now: (1, λ), (0, λ) without an objective, or the weights of an entry of
    /// the library.
    #[inline]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// λ_k.
    #[inline]
    pub fn multipliers(&self) -> &Multipliers {
        self.dynamics.multipliers()
    }

    /// True if the weights have an objective, w₀ = 1 beside λ.
    pub fn has_objective(&self) -> bool {
        self.objective_weight > 0.0
    }

    /// The dual dynamics: requirements, scales, epoch length, steps.
    pub fn dynamics(&self) -> &DualDynamics {
        &self.dynamics
    }

    /// The rule in use that turns λ into weights.
    pub fn executor(&self) -> Executor {
        self.selector.executor()
    }

    /// The entry of the library in use, if the agent runs on it.
    pub fn entry(&self) -> Option<usize> {
        self.selector.entry()
    }

    /// The averages of r₀ … r_m since the ledger was opened.
    pub fn averages(&self) -> Vec<f64> {
        self.dynamics.averages()
    }

    /// The certificate of each requirement since the ledger was opened.
    pub fn certificate(&self) -> Certificate {
        self.dynamics.certificate()
    }

    /// The steps and the dual updates since the history was opened.
    pub fn progress(&self) -> (u64, u64) {
        (self.history.steps(), self.history.updates())
    }

    /// The deficit per step in the second half of the history, by requirement: (L_n − L_{n/2})/(α
    /// n/2). It stays away from 0 only if a requirement is not being met.
    pub fn deficit_rates(&self) -> Vec<f64> {
        self.history.deficit_rates(&self.dynamics)
    }

    /// Statistics of the multipliers over the history; over the last nine tenths of it if its
    /// length was planned.
    pub fn multiplier_statistics(&self) -> Vec<MultiplierStatistics> {
        self.history.multipliers(&self.dynamics)
    }

    /// A library, which is the agent's own or one corrected by other runs, with the averages that
    /// its entries had in this run: means over the steps of the evaluation and of the run together.
    pub fn corrected_library(&self, library: &PolicyLibrary) -> PolicyLibrary {
        self.selector.corrected(library).into_owned()
    }

    /// The [tolerances](crate::tolerance) of the certified shortfalls, for a share of what is asked; the worst average is
    /// that of the attached library.
    pub fn tolerances(&self, share: f64) -> Vec<f64> {
        let (bounds, scales) = (self.dynamics.bounds(), self.dynamics.scales());
        match &self.library {
            Some(library) => library.tolerances(share, bounds, scales),
            None => PolicyLibrary::default().tolerances(share, bounds, scales),
        }
    }

    /// The part of a diagnosis that the run itself shows, with the [tolerances](Self::tolerances) of
    /// a share of what is asked.
    pub fn diagnosis_input(&self, tolerance: f64) -> DiagnosisInput<'static> {
        let (requirements, scales) = (self.dynamics.requirements(), self.dynamics.scales());
        let (certificate, tolerances) = (self.certificate(), self.tolerances(tolerance));
        DiagnosisInput {
            verdicts: tolerances.iter().enumerate().map(|(i, t)| certificate.verdict(i, *t)).collect(),
            names: requirements.iter().map(|r| r.name().to_owned()).collect(),
            bounds: self.dynamics.bounds().to_vec(),
            scales: scales.to_vec(),
            tolerances,
            shortfalls: self.dynamics.shortfalls(),
            deficit_rates: self.deficit_rates(),
            multiplier_size: DiagnosisInput::default().size(self.multipliers(), scales),
            updates: self.history.updates(),
            ..DiagnosisInput::default()
        }
    }

    /// The diagnosis of the run, by [`diagnosis_input`](Self::diagnosis_input) and by what is `known`
    /// beside the run.
    pub fn diagnosis(&self, tolerance: f64, known: DiagnosisInput<'_>) -> Diagnosis {
        let own = self.diagnosis_input(tolerance);
        let mut diagnosis = Diagnosis::judge(&DiagnosisInput {
            names: own.names,
            bounds: own.bounds,
            multiplier_size: known.size(self.multipliers(), &own.scales),
            scales: own.scales,
            verdicts: own.verdicts,
            tolerances: own.tolerances,
            shortfalls: own.shortfalls,
            deficit_rates: own.deficit_rates,
            updates: own.updates,
            ..known
        });
        if self.history.steps() == 0 && !self.dynamics.is_empty() {
            // A shortfall of 0 before the first step is no achievement.
            diagnosis.verdict = DiagnosisVerdict::Converging;
        }
        diagnosis
    }
}

/// Fails if the library is not made for m requirements.
fn check_library(library: Option<&PolicyLibrary>, m: usize) -> Result<(), Error> {
    let mut entries = library.iter().flat_map(|library| &library.entries);
    entries.try_for_each(|entry| arity("weights of an entry of the library", m + 1, entry.weights.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryEntry, Rng};

    fn requirement() -> Vec<Requirement> {
        vec![Requirement::at_least("x", 0.9).unwrap()]
    }

    fn library() -> Arc<PolicyLibrary> {
        let entry = |weights: [f64; 2], values: [f64; 2]| LibraryEntry {
            weights: weights.to_vec(),
            values: values.to_vec(),
            steps: 1_000,
            ..LibraryEntry::default()
        };
        Arc::new(PolicyLibrary {
            entries: vec![entry([1.0, 0.0], [1.0, 0.0]), entry([0.0, 1.0], [0.0, 0.5])],
        })
    }

    fn observe(agent: &mut Agent, steps: u64, rng: &mut Rng) {
        for _ in 0..steps {
            agent.observe(&Rewards::new(vec![0.0, 0.2 * rng.uniform()]).unwrap()).unwrap();
        }
    }

    #[test]
    fn restored_agent_continues_bit_identically() {
        let builder = Agent::builder(requirement()).scales(2.0, &[0.5]).library(Some(library()));
        let mut agent = builder.epoch(EpochLength::Auto(10)).build().unwrap();
        for steps in [15, 1_500, 3_000, 10_000] {
            observe(&mut agent, steps, &mut Rng::new(steps));
            let text = serde_json::to_string(&agent).unwrap();
            let mut restored: Agent = serde_json::from_str(&text).unwrap();
            restored.attach_library(Some(library())).unwrap();
            assert_eq!(restored, agent);
            observe(&mut agent, 5_000, &mut Rng::new(7));
            observe(&mut restored, 5_000, &mut Rng::new(7));
            assert_eq!(restored, agent);
        }
        assert_eq!(
            (agent.executor(), agent.entry(), agent.weights()),
            (Executor::Library, Some(1), &[0.0, 1.0][..])
        );
    }

    #[test]
    fn damaged_state_and_unfit_library_are_rejected() {
        let mut agent = Agent::builder(requirement()).build().unwrap();
        let good = serde_json::to_value(&agent).unwrap();
        for (key, value) in [
            ("weights", serde_json::json!([1.0])),
            ("weights", serde_json::json!([1.0, -1.0])),
            ("surprise", serde_json::json!(1)),
            ("history", serde_json::json!({})),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(serde_json::from_value::<Agent>(bad).is_err(), "{key}");
        }
        let entry = LibraryEntry { weights: vec![1.0; 3], values: vec![0.0; 3], ..LibraryEntry::default() };
        let unfit = Arc::new(PolicyLibrary { entries: vec![entry] });
        assert!(agent.attach_library(Some(unfit)).is_err());
    }

    #[test]
    fn changed_requirements_open_a_new_history_and_keep_multipliers() {
        let mut agent = Agent::builder(requirement()).epoch(EpochLength::Fixed(10)).build().unwrap();
        observe(&mut agent, 100, &mut Rng::new(0));
        let lambda = agent.multipliers().as_slice()[0];
        assert_eq!((agent.progress(), agent.weights()), ((100, 10), &[1.0, lambda][..]));
        agent.set_bound("x", 0.5).unwrap();
        assert_eq!((agent.progress(), agent.certificate().steps), ((0, 0), 0));
        assert_eq!(
            agent.diagnosis(0.005, DiagnosisInput::default()).verdict,
            DiagnosisVerdict::Converging,
            "not met before the first step"
        );
        let mut requirements = vec![Requirement::at_most("y", 1.0).unwrap()];
        requirements.extend(agent.dynamics().requirements().iter().cloned());
        agent.replace(requirements, &[1.0, 1.0]).unwrap();
        assert_eq!(agent.weights(), [1.0, 0.0, lambda]);
    }
}
