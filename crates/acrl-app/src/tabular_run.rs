//! Runs of a tabular policy: its solved mixture with counts that go on, an execution for each environment.

use acrl::{Agent, BatchMatrix, Error as MethodError, Rng};
use acrl_exact::Realisation;
use acrl_learn::ppo::StepResult;
use acrl_learn::tabular::{TabularExecution, TabularExecutionOptions};
use acrl_learn::{TabularPolicy, TrainedPolicy};

use crate::Error;
use crate::finite_execution::FiniteExecutor;
use crate::input::PolicyProblem;
use crate::options::{EpochOption, ExecutorOption, InitMultipliers};
use crate::run::{Run, RunOptions};

/// The tabular policy of a file that is executed as a solved mixture: unless π(s, λ) or the library is asked for.
pub(crate) fn solved_policy(
    input: &PolicyProblem,
    executor: Option<ExecutorOption>,
) -> Option<&TabularPolicy> {
    match (&input.file.policy, executor) {
        (_, Some(ExecutorOption::Policy | ExecutorOption::Library)) => None,
        (TrainedPolicy::Tabular(policy), _) => Some(policy),
        _ => None,
    }
}

/// Executions of a tabular policy, one for each environment.
#[derive(Debug)]
pub(crate) struct TabularRuns {
    executions: Vec<TabularExecution>,
    /// Row of each counted reward among those observed, if it is.
    rows: Vec<Option<usize>>,
    observation: Vec<f64>,
}

impl TabularRuns {
    /// Plans runs, and gives the agent for each of them. The settings of the input become those of the plan.
    pub(crate) fn new(
        input: &mut PolicyProblem,
        options: &RunOptions,
        names: &[String],
        num_envs: usize,
    ) -> Result<Option<(Self, Agent)>, Error> {
        let Some(policy) = solved_policy(input, options.executor) else { return Ok(None) };
        let specification = input.problem.specification.clone();
        let execution = TabularExecution::new(
            policy,
            specification.clone(),
            TabularExecutionOptions {
                steps: Some(input.problem.run.steps),
                tolerance: input.problem.run.tolerance,
                time_sharing: match options.executor {
                    Some(ExecutorOption::TimeSharing) => Some(true),
                    Some(ExecutorOption::Stationary) => Some(false),
                    _ => None,
                },
                step_size: options.execution.step_size,
                epoch: match options.execution.epoch {
                    Some(EpochOption::Fixed(steps)) => Some(steps),
                    _ => None,
                },
                epoch_start: None,
            },
        )?;
        let width = policy.table().width();
        input.problem.run.step_size = Some(execution.step_size());
        input.problem.run.epoch = Some(execution.epoch());
        let names_of = specification.names();
        let builder = execution.agent_builder()?;
        let builder = match &options.init_multipliers {
            None | Some(InitMultipliers::Library | InitMultipliers::Optimum) => builder,
            Some(InitMultipliers::Zero) => builder.reference(acrl::Multipliers::zeros(names_of.len())),
            Some(InitMultipliers::Given(list)) => {
                builder.reference(InitMultipliers::by_name(list, &names_of)?)
            }
        };
        let agent = builder.build()?;
        let row = |name: &String| names.iter().position(|known| known == name);
        let rows = execution.reward_names().iter().map(row).collect();
        let mut runs =
            Self { executions: vec![execution; num_envs], rows, observation: Vec::with_capacity(width) };
        runs.executions.iter_mut().for_each(|execution| execution.begin_epoch(&agent));
        Ok(Some((runs, agent)))
    }

    /// Adds to a result how the mixture was realised, and whether the bounds could be met in the model.
    pub(crate) fn describe(&self, run: &mut Run) {
        let Some(execution) = self.executions.first() else { return };
        let plan = execution.plan();
        run.executor = Some(match plan.realisation() {
            Realisation::Stationary => FiniteExecutor::Stationary,
            Realisation::TimeSharing => FiniteExecutor::TimeSharing,
        });
        let relaxed =
            self.executions.iter().map(|execution| execution.solution().relaxed).fold(0.0, f64::max);
        run.executor_reason = Some(match relaxed {
            0.0 => plan.reason(),
            share => format!(
                "{}; no policy of the estimated model meets the bounds, which are relaxed by {:.3} % of the rewards' ranges",
                plan.reason(),
                100.0 * share
            ),
        });
        run.change_of_behaviour = plan.change_of_behaviour();
        if let Some(policy) = &mut run.policy {
            policy.executor = None;
        }
    }

    /// Writes an action for every environment.
    pub(crate) fn act(
        &mut self,
        observations: &BatchMatrix,
        agents: &[Agent],
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) {
        let envs = self.executions.iter_mut().zip(agents).zip(rngs).enumerate();
        for (env, ((execution, agent), rng)) in envs {
            self.observation.clear();
            self.observation.extend(observations.column(env));
            actions.set_column(env, &execution.act(&self.observation, agent, rng));
        }
    }

    /// Takes the result of a step of an environment, whose agent has observed it (`updated`: its epoch has ended).
    pub(crate) fn observe(
        &mut self,
        env: usize,
        result: &StepResult<'_>,
        updated: bool,
        agent: &mut Agent,
    ) -> Result<(), MethodError> {
        let rewards: Vec<Option<f64>> =
            self.rows.iter().map(|row| row.map(|row| result.rewards.at(row, env))).collect();
        let ended = result.terminated[env] || result.truncated[env];
        self.executions[env].observe(&rewards, ended, updated, agent)
    }
}
