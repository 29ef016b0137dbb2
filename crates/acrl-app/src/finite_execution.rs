//! How a finite problem is executed: the mixture of its optimum, or π(λ) itself.

use std::ops::ControlFlow;
use std::sync::Arc;

use acrl::{AgentBuilder, EpochLength, Execution, Multipliers, Observer, Rng, Simulator, execute};
use acrl_exact::{
    ExactPolicy, Executable, ExecutionPlan, FiniteTask, MixtureExecutor, PlanOptions, Realisation, Solution,
    SolveOptions, almost_sure_observed, solve,
};
use acrl_report::grouped;
use serde::Serialize;

use crate::control::Stop;
use crate::input::FiniteProblem;
use crate::options::{ExecutorOption, InitMultipliers};
use crate::solve::objective_sign;
use crate::{Context as _, Error, bail, ensure};

/// The executor of a finite problem: how actions follow from multipliers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FiniteExecutor {
    /// π(λ), computed from the model.
    Policy,
    /// The mixture of the optimum as one randomised policy.
    Stationary,
    /// The policies of the mixture of the optimum, one after the other.
    TimeSharing,
}

/// How a finite problem is executed.
#[derive(Debug)]
pub(crate) struct FiniteExecution {
    /// The plan of the optimum's mixture; without one π(λ) acts.
    plan: Option<ExecutionPlan>,
    /// λ₀, if it is not λ*.
    start: Option<Multipliers>,
    /// The best objective in the user's sign, where it is known.
    pub(crate) optimum: Option<f64>,
    /// Why this executor was chosen.
    pub(crate) reason: Option<String>,
    /// V₁ … V_m of the mixture's policies in a model with one end component.
    pub(crate) values: Vec<Vec<f64>>,
}

impl FiniteExecution {
    /// π(λ) from λ = 0: Algorithm 2 as it is in the paper.
    pub(crate) fn policy() -> Self {
        Self { plan: None, start: None, optimum: None, reason: None, values: Vec::new() }
    }

    /// The execution that was asked for, or the one that is best.
    pub(crate) fn new(
        name: &str,
        problem: &FiniteProblem,
        task: &FiniteTask<'_>,
        executor: Option<ExecutorOption>,
        init: Option<&InitMultipliers>,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let start = initial(name, init, task)?;
        let realisation = match executor {
            Some(ExecutorOption::Library) => {
                bail!("--executor library is for trained policies; {name} is finite: leave it out")
            }
            Some(ExecutorOption::Stationary) => Some(Realisation::Stationary),
            Some(ExecutorOption::TimeSharing) => Some(Realisation::TimeSharing),
            Some(ExecutorOption::Policy) | None => None,
        };
        if executor == Some(ExecutorOption::Policy) {
            ensure!(
                problem.solved.is_none() || problem.model.states() <= SMALL,
                "--executor policy computes pi(lambda) at every lambda, which takes too long with more than {SMALL} \
                 states; {name} has {}",
                problem.model.states()
            );
            return Ok(Self { start, ..Self::policy() });
        }
        let Some(answer) = solution(problem, task, stop)? else {
            let reason = "the requirements cannot be met, so there is no optimum to execute";
            return Ok(Self { start, reason: Some(reason.to_owned()), ..Self::policy() });
        };
        let tolerances = problem.tolerances(task);
        let options = PlanOptions { steps: Some(problem.run.steps), realisation, tolerances: &tolerances };
        let plan = ExecutionPlan::new(task, &answer, &options)?;
        ensure!(
            realisation != Some(Realisation::Stationary) || plan.realisation() == Realisation::Stationary,
            "--executor stationary is for mixtures that one stationary policy attains; here {}",
            plan.reason()
        );
        let optimum = task.has_objective().then(|| objective_sign(task) * answer.values()[0] + 0.0);
        let one = answer.components.len() == 1;
        let values = answer.components.iter().filter(|_| one).flat_map(|c| &c.values);
        Ok(Self {
            start,
            optimum,
            reason: Some(plan.reason()),
            values: values.map(|v| v[1..].to_vec()).collect(),
            plan: Some(plan),
        })
    }

    /// The executor that was chosen.
    pub(crate) fn executor(&self) -> FiniteExecutor {
        match self.plan.as_ref().map(ExecutionPlan::realisation) {
            None => FiniteExecutor::Policy,
            Some(Realisation::Stationary) => FiniteExecutor::Stationary,
            Some(Realisation::TimeSharing) => FiniteExecutor::TimeSharing,
        }
    }

    /// Expected steps of a change from one policy of the mixture to the next.
    pub(crate) fn change_of_behaviour(&self) -> u64 {
        self.plan.as_ref().map_or(0, ExecutionPlan::change_of_behaviour)
    }

    /// How long a run has to be until changes of policy cost next to nothing, if this one is shorter, in a sentence.
    pub(crate) fn longer(&self, steps: u64) -> Option<String> {
        let enough = self.plan.as_ref()?.sufficient_steps();
        (enough > steps).then(|| {
            format!(
                "A change of policy takes about {} steps here, so that the objective comes nearer to the optimum in longer runs: \
                 as near as it can in about {} steps.",
                grouped(self.change_of_behaviour()),
                grouped(rounded(enough))
            )
        })
    }

    /// η.
    pub(crate) fn step_size(&self, problem: &FiniteProblem) -> f64 {
        let default = self.plan.as_ref().map_or(AgentBuilder::STEP_SIZE, ExecutionPlan::step_size);
        problem.run.step_size.unwrap_or(default)
    }

    /// The rule for T₀.
    pub(crate) fn epoch(&self, problem: &FiniteProblem) -> EpochLength {
        match (&self.plan, problem.run.epoch) {
            (Some(plan), None | Some(EpochLength::Auto(_))) => EpochLength::Scheduled(plan.schedule()),
            _ => problem.run.epoch_length(),
        }
    }

    /// One run.
    pub(crate) fn execute(
        &self,
        problem: &FiniteProblem,
        task: &FiniteTask<'_>,
        run: u64,
        observer: &mut impl Observer,
    ) -> Result<Execution<usize>, Error> {
        let mut environment = Simulator::new(&problem.model, problem.specification.clone())?;
        let mut agent =
            problem.agent_builder(task).step_size(self.step_size(problem)).epoch(self.epoch(problem));
        let mut rng = Rng::stream(problem.run.seed, run);
        let steps = problem.run.steps;
        if let Some(plan) = &self.plan {
            let optimal = || Multipliers::new(plan.multipliers().to_vec());
            let mut agent = agent.reference(self.start.clone().map_or_else(optimal, Ok)?).build()?;
            let mut policy = MixtureExecutor::new(plan);
            return Ok(execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, observer)?);
        }
        if let Some(start) = &self.start {
            agent = agent.multipliers(start.clone());
        }
        let mut policy = ExactPolicy::new(task);
        let execution =
            execute(&mut environment, &mut policy, &mut agent.build()?, steps, &mut rng, observer)?;
        policy.failure().map_or(Ok(execution), |failure| Err(failure.into()))
    }
}

/// To two digits, upwards.
fn rounded(steps: u64) -> u64 {
    let unit = 10_u64.saturating_pow(steps.max(1).ilog10().saturating_sub(1));
    steps.div_ceil(unit).saturating_mul(unit)
}

/// Largest model, in states, for which π(λ) is computed at every λ.
const SMALL: usize = 1_000;

/// λ₀; `None` for the default.
fn initial(
    name: &str,
    init: Option<&InitMultipliers>,
    task: &FiniteTask<'_>,
) -> Result<Option<Multipliers>, Error> {
    let names = task.specification().names();
    match init {
        None | Some(InitMultipliers::Optimum) => Ok(None),
        Some(InitMultipliers::Zero) => Ok(Some(Multipliers::zeros(names.len()))),
        Some(InitMultipliers::Library) => {
            bail!("--init-multipliers library is for trained policies; {name} is finite: use optimum")
        }
        Some(InitMultipliers::Given(list)) => InitMultipliers::by_name(list, &names).map(Some),
    }
}

/// The solution, solved for now if the file has none for these bounds; `None` if the requirements cannot be met.
fn solution(
    problem: &FiniteProblem,
    task: &FiniteTask<'_>,
    stop: &Stop,
) -> Result<Option<Arc<Executable>>, Error> {
    if let Some(solved) = problem.solved.as_ref().filter(|s| s.specification == problem.specification) {
        return Ok(Some(solved.answer.clone()));
    }
    let failed = "cannot solve for the optimum that is to be executed; take --executor policy";
    Ok(solve_executable(task, stop).context(failed)?.ok().map(Arc::new))
}

/// The solution of a task in the form that is executed, or the names of requirements that cannot be met together: with
/// several end components those that cannot be met with probability 1.
pub(crate) fn solve_executable(
    task: &FiniteTask<'_>,
    stop: &Stop,
) -> Result<Result<Executable, Vec<String>>, Error> {
    let mut observer =
        |_: &_| if stop.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let options = SolveOptions::default();
    if task.structure().end_components.len() > 1 {
        let sure = almost_sure_observed(task, &options, &mut observer)?;
        return Ok(Executable::almost_sure(task, &sure).ok_or_else(|| task.specification().names()));
    }
    match solve(task, &options, &mut observer)? {
        Solution::Optimal(optimum) => Ok(Ok(Executable::new(task, &optimum))),
        Solution::Infeasible(conflict) => Ok(Err(conflict.names)),
    }
}
