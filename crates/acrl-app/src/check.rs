//! Checking the assumptions and guarantees of the theorems for a finite problem, and what the library of a trained
//! policy says about requirements.

use std::ops::ControlFlow;

use acrl::guarantees::step_size_for;
use acrl::{Event, Multipliers, Named, Rng, Simulator, execute};
use acrl_exact::assumptions::{Assumptions, EpochBias};
use acrl_exact::{Conflict, ExactPolicy, FiniteTask, Optimum, Slack, Solution, SolveOptions, solve};
use serde::Serialize;

use crate::check_policy::{PolicyCheckReport, check_policy};
use crate::comparison::named_values;
use crate::input::{FiniteProblem, Input, apply};
use crate::options::ExecutionOptions;
use crate::solve::objective_sign;
use crate::{Error, bail};

/// Epochs shown in the table and in JSON.
const EPOCHS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// Number of most recent multipliers to examine.
const VISITED: usize = 2000;

/// Options of [`check`].
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Steps, step size, epoch and tolerance.
    pub execution: ExecutionOptions,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// The largest acceptable suboptimality, as a share of the objective's range.
    pub max_suboptimality: f64,
}

/// The result of [`check`], which serialises as the object of `acrl check --json`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Check {
    /// Of a finite problem.
    Model(Box<CheckReport>),
    /// Of a trained policy.
    Policy(Box<PolicyCheckReport>),
}

impl Check {
    /// True if the requirements can be met, as far as is known.
    pub fn feasible(&self) -> bool {
        match self {
            Self::Model(report) => report.feasible,
            Self::Policy(report) => report.feasible,
        }
    }
}

/// Checks the assumptions of the theorems for a finite problem, or the requirements against the library of a trained
/// policy. `name` is the input's name in messages.
pub fn check(name: &str, input: Input, options: &CheckOptions) -> Result<Check, Error> {
    if let Input::Policy(policy) = input {
        let report = check_policy(*policy, &options.execution, options.seed)?;
        return Ok(Check::Policy(Box::new(report)));
    }
    check_model(name, input, options).map(|report| Check::Model(Box::new(report)))
}

fn check_model(name: &str, input: Input, options: &CheckOptions) -> Result<CheckReport, Error> {
    let mut problem = FiniteProblem::of(name, input)?;
    apply(&mut problem.run, &options.execution, options.seed);
    if problem.specification.requirements().is_empty() {
        bail!("{name}: there is no requirement to check: add one with --require");
    }
    let task = problem.task()?;
    let solve_options = SolveOptions::default();
    match solve(&task, &solve_options, &mut |_| ControlFlow::Continue(()))? {
        Solution::Infeasible(conflict) => Ok(CheckReport::infeasible(&task, &conflict)),
        Solution::Optimal(optimum) => {
            let (visited, epoch) = visit(&problem, &task)?;
            let step_size = problem.run.step_size();
            let assumptions = Assumptions::examine(&task, &optimum, &visited, step_size, &solve_options)?;
            Ok(CheckReport::new(options, &problem, &task, &optimum, &assumptions, epoch))
        }
    }
}

/// Runs once, and returns the last multipliers and the final epoch.
fn visit(problem: &FiniteProblem, task: &FiniteTask<'_>) -> Result<(Vec<Multipliers>, u64), Error> {
    let mut visited = std::collections::VecDeque::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            if visited.len() == VISITED {
                visited.pop_front();
            }
            visited.push_back(epoch.multipliers.clone());
        }
        ControlFlow::Continue(())
    };
    let mut environment = Simulator::new(&problem.model, problem.specification.clone())?;
    let mut agent = problem.agent(task)?;
    let mut rng = Rng::stream(problem.run.seed, 0);
    let mut policy = ExactPolicy::new(task);
    let steps = problem.run.steps;
    let run = execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, &mut observer)?;
    Ok((visited.into(), run.epoch))
}

/// The check of a finite problem. Slacks, B², ε and β are in units
/// of the rewards' ranges; multipliers are shadow prices, as in the result of [`solve`](fn@crate::solve).
#[derive(Debug, Serialize)]
pub struct CheckReport {
    /// True if the requirements can be met.
    pub feasible: bool,
    /// Number of states.
    pub states: usize,
    /// Number of state-action pairs.
    pub choices: usize,
    /// True if there is one end component.
    pub communicating: bool,
    /// Number of end components.
    pub end_components: usize,
    /// Least and largest value of each reward.
    pub ranges: Named<[f64; 2]>,
    /// Irreducible set of requirements in conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Vec<String>>,
    /// The optimal objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// The optimal multipliers, in the units of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipliers: Option<Named<f64>>,
    /// Assumption (A1).
    pub slater: Option<Slater>,
    /// What holds at the multipliers of an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<Theory>,
    /// True if the epoch was adapted while running.
    #[serde(skip)]
    pub auto_epoch: bool,
}

/// (A1): the Slater constant and how it is attained.
#[derive(Debug, Serialize)]
pub struct Slater {
    /// C, certified from below.
    pub constant: f64,
    /// An upper bound on C.
    pub upper: f64,
    /// Policies whose mixture attains it.
    pub mixture: Vec<SlaterPolicy>,
}

/// A policy of the mixture that attains the slack.
#[derive(Debug, Serialize)]
pub struct SlaterPolicy {
    /// Share of the time.
    pub weight: f64,
    /// Long-run averages.
    pub values: Named<f64>,
}

/// What holds at the multipliers of an execution.
#[derive(Debug, Serialize)]
pub struct Theory {
    /// B².
    pub squared_bound: f64,
    /// Bound on Σ λ_i R_i/R₀ near the optimum.
    pub multiplier_bound: Option<f64>,
    /// Bias of the averages of an epoch, by its length.
    pub bias: Vec<Bias>,
    /// Assumption 2.
    pub drift: Drift,
    /// Steps that a change of behaviour takes on average, at most.
    pub switch_time: f64,
    /// The shortest epoch that the proof covers.
    pub suggested_epoch: Option<u64>,
    /// The epoch of the execution.
    pub auto_epoch: u64,
    /// Step size of the dual update.
    pub step_size: f64,
    /// Guaranteed suboptimality at this step size.
    pub suboptimality_bound: f64,
    /// Requested suboptimality.
    pub max_suboptimality: f64,
    /// Step size that guarantees it.
    pub step_size_for_max_suboptimality: f64,
}

/// The bias of the averages of an epoch.
#[derive(Debug, Serialize)]
pub struct Bias {
    /// Length of the epoch.
    pub epoch: u64,
    /// Bias of the rewards.
    pub epsilon: f64,
    /// Bias of the Lagrangian.
    pub beta: f64,
}

/// Assumption 2: drift towards the optimal multipliers.
#[derive(Debug, Serialize)]
pub struct Drift {
    /// Number of multipliers visited.
    pub visited: usize,
    /// How many of them satisfy the drift condition.
    pub holds: usize,
    /// Largest distance from the optimum at which it fails.
    pub fails_up_to: f64,
    /// Distance from which on it is proven.
    pub radius: Option<f64>,
    /// Largest distance visited.
    pub farthest: f64,
}

impl CheckReport {
    fn base(task: &FiniteTask<'_>) -> Self {
        let model = task.model();
        let range = |(i, name): (usize, &String)| {
            let (low, high) = model.reward_range(i);
            (name.clone(), [low, high])
        };
        Self {
            feasible: true,
            states: model.states(),
            choices: model.choice_count(),
            communicating: task.structure().is_communicating(),
            end_components: task.structure().end_components.len(),
            ranges: model.reward_names().iter().enumerate().map(range).collect(),
            conflict: None,
            objective: None,
            multipliers: None,
            slater: None,
            theory: None,
            auto_epoch: false,
        }
    }

    fn infeasible(task: &FiniteTask<'_>, conflict: &Conflict) -> Self {
        Self {
            feasible: false,
            conflict: Some(conflict.names.clone()),
            slater: Some(Slater::new(task, &conflict.slack)),
            ..Self::base(task)
        }
    }

    fn new(
        options: &CheckOptions,
        problem: &FiniteProblem,
        task: &FiniteTask<'_>,
        optimum: &Optimum,
        found: &Assumptions,
        epoch: u64,
    ) -> Self {
        let prices =
            task.specification().names().into_iter().zip(optimum.multipliers.as_slice().iter().copied());
        let shown = |b: &&EpochBias| EPOCHS.contains(&b.epoch);
        Self {
            objective: task.has_objective().then_some(objective_sign(task) * optimum.objective + 0.0),
            multipliers: Some(prices.collect()),
            slater: found.slater.as_ref().map(|s| Slater::new(task, s)),
            theory: Some(Theory {
                squared_bound: found.squared_bound,
                multiplier_bound: found.multiplier_bound,
                bias: found
                    .bias
                    .iter()
                    .filter(shown)
                    .map(|b| Bias { epoch: b.epoch, epsilon: b.epsilon, beta: b.beta })
                    .collect(),
                drift: Drift {
                    visited: found.drift.visited,
                    holds: found.drift.holds,
                    fails_up_to: found.drift.fails_up_to,
                    radius: found.drift.radius,
                    farthest: found.drift.farthest,
                },
                switch_time: found.switch_time,
                suggested_epoch: found.suggested_epoch,
                auto_epoch: epoch,
                step_size: problem.run.step_size(),
                suboptimality_bound: found.loss,
                max_suboptimality: options.max_suboptimality,
                step_size_for_max_suboptimality: step_size_for(
                    options.max_suboptimality,
                    found.squared_bound,
                ),
            }),
            auto_epoch: matches!(problem.run.epoch_length(), acrl::EpochLength::Auto(_)),
            ..Self::base(task)
        }
    }
}

impl Slater {
    fn new(task: &FiniteTask<'_>, slack: &Slack) -> Self {
        let part = |c: &acrl_exact::MixturePolicy| SlaterPolicy {
            weight: c.weight,
            values: named_values(task.specification(), &c.values),
        };
        Self { constant: slack.lower, upper: slack.upper, mixture: slack.mixture.iter().map(part).collect() }
    }
}
