//! Execution of a solved policy by an agent without a planned end, whose bounds may change.

use acrl::{Agent, AgentBuilder, EpochLength, Multipliers, Requirement, Specification};
use acrl_exact::{Executable, ExecutionPlan, FiniteTask, PlanOptions, Realisation, SETTLE};

use crate::control::Stop;
use crate::finite_execution::{FiniteExecutor, solve_executable};
use crate::solution_file::SolutionFile;
use crate::{Context as _, Error, bail, ensure};

/// Options of [`SolutionFile::execution`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolutionExecutionOptions {
    /// Tolerated shortfall as a share of each reward's range: limits how long an epoch may be.
    pub tolerance: f64,
    /// How the mixture is realised; `None` to choose the better one.
    pub realisation: Option<Realisation>,
}

/// A plan for the steps of an agent, and the settings that belong to it.
#[derive(Debug, Clone)]
pub struct SolutionExecution {
    /// The plan, for a [`MixtureExecutor`](acrl_exact::MixtureExecutor).
    pub plan: ExecutionPlan,
    /// Objective and requirements of the plan.
    pub specification: Specification,
    /// V₁ … V_m of the policies of the mixture.
    pub values: Vec<Vec<f64>>,
    objective_scale: f64,
    scales: Vec<f64>,
}

impl SolutionFile {
    /// The specification with these requirements, which replace those on the same reward and side or are added.
    pub fn rebound(&self, requirements: &[Requirement]) -> Result<Specification, Error> {
        let mut specification = self.specification.clone();
        for requirement in requirements {
            specification = specification.require(requirement.clone())?;
        }
        specification.bind(self.model.reward_names())?;
        Ok(specification)
    }

    /// Plans the execution for a specification. If its bounds differ from those of the file, the problem is solved
    /// again; fails if they cannot be met.
    pub fn execution(
        &self,
        specification: Specification,
        options: &SolutionExecutionOptions,
        stop: &Stop,
    ) -> Result<SolutionExecution, Error> {
        let task = FiniteTask::new(&self.model, &specification)?;
        let solved;
        let answer: &Executable = if specification == self.specification {
            &self.answer
        } else {
            match solve_executable(&task, stop)? {
                Ok(answer) => solved = answer,
                Err(names) => bail!("no policy meets the requirements: {} are in conflict", names.join(", ")),
            }
            &solved
        };
        let tolerances: Vec<f64> = task.scales().iter().map(|range| options.tolerance * range).collect();
        let planned = PlanOptions { steps: None, realisation: options.realisation, tolerances: &tolerances };
        let plan = ExecutionPlan::new(&task, answer, &planned)?;
        ensure!(
            options.realisation != Some(Realisation::Stationary)
                || plan.realisation() == Realisation::Stationary,
            "the executor 'stationary' is for mixtures that one stationary policy attains; here {}",
            plan.reason()
        );
        let values = answer.components.iter().flat_map(|component| &component.values);
        Ok(SolutionExecution {
            values: values.map(|v| v[1..].to_vec()).collect(),
            plan,
            objective_scale: task.objective_scale(),
            scales: task.scales().to_vec(),
            specification: specification.clone(),
        })
    }

    /// R₀ and R₁ … R_m of the requirements of the file.
    pub fn scales(&self) -> Result<Vec<f64>, Error> {
        let task = FiniteTask::new(&self.model, &self.specification)?;
        Ok(std::iter::once(task.objective_scale()).chain(task.scales().iter().copied()).collect())
    }

    /// Number of the action, among those of the state, of the policy of the mixture that is best at λ: the maximiser of
    /// V₀ + λ·V, the Lagrangian. On the way to an end component it is the action that leads there.
    pub fn best_choice(&self, state: usize, multipliers: &[f64]) -> usize {
        let answer = &self.answer;
        if let Some(&action) = answer.journey.get(state).filter(|&&action| action != SETTLE) {
            return action as usize;
        }
        let component = &answer.components[answer.component_of.get(state).map_or(0, |&c| c as usize)];
        let lagrangian = |v: &[f64]| v[0] + multipliers.iter().zip(&v[1..]).map(|(l, v)| l * v).sum::<f64>();
        let values: Vec<f64> = component.values.iter().map(|v| lagrangian(v)).collect();
        // The first of equally good ones.
        let best = (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
        answer.policies[best][state] as usize
    }

    /// Index of an action among the distinct names of actions, or its column in arrays, by its number among those of the
    /// state.
    pub fn action_index(&self, state: usize, choice: usize) -> usize {
        self.model.action_numbers(state).nth(choice).unwrap_or(choice)
    }

    /// The names of all actions, in the order of their [indices](Self::action_index).
    pub fn action_names(&self) -> Vec<String> {
        self.model.action_names().map_or_else(
            || {
                let most = (0..self.model.states()).map(|s| self.model.choices(s).len()).max().unwrap_or(0);
                (0..most).map(|action| action.to_string()).collect()
            },
            <[String]>::to_vec,
        )
    }
}

impl SolutionExecution {
    /// Configuration of an agent, whose multipliers start at λ*.
    pub fn agent_builder(&self) -> Result<AgentBuilder, Error> {
        Ok(Agent::builder(self.specification.requirements().to_vec())
            .step_size(self.plan.step_size())
            .epoch(self.epoch())
            .scales(self.objective_scale, &self.scales)
            .objective(self.specification.objective().is_some())
            .reference(self.multipliers()?))
    }

    /// λ*.
    pub fn multipliers(&self) -> Result<Multipliers, Error> {
        Multipliers::new(self.plan.multipliers().to_vec()).context("the multipliers of the solution")
    }

    /// T₀ over time.
    pub fn epoch(&self) -> EpochLength {
        EpochLength::Scheduled(self.plan.schedule())
    }

    /// How the mixture is realised.
    pub fn executor(&self) -> FiniteExecutor {
        match self.plan.realisation() {
            Realisation::Stationary => FiniteExecutor::Stationary,
            Realisation::TimeSharing => FiniteExecutor::TimeSharing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, Input, SolveSettings, solve};
    use acrl::{FinitePolicy as _, Rewards, Rng, Simulator};
    use acrl_exact::MixtureExecutor;
    use acrl_files::Container;
    use std::ops::ControlFlow;

    fn solved(name: &str) -> SolutionFile {
        let control = Control::silent(Stop::default());
        let result =
            solve(name, Input::read(name).unwrap(), &SolveSettings::default(), &control, &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        result.solution_file().unwrap()
    }

    const OPTIONS: SolutionExecutionOptions =
        SolutionExecutionOptions { tolerance: 0.005, realisation: None };

    #[test]
    fn changed_bounds_are_solved_for_and_conflicts_are_reported() {
        let file = solved("monitoring");
        let bound = |r1: f64| {
            let requirement = Requirement::at_least("r1", r1).unwrap();
            let specification = file.rebound(&[requirement]).unwrap();
            file.execution(specification, &OPTIONS, &Stop::default())
        };
        assert_eq!(bound(0.2).unwrap().specification.requirements()[0].bound(), 0.2);
        assert!(bound(0.7).unwrap_err().to_string().contains("conflict"));
    }

    #[test]
    fn best_choice_maximises_the_lagrangian() {
        let file = solved("monitoring");
        let model = &file.model;
        let name = |state: usize, l: &[f64]| {
            let choice = model.choices(state).start + file.best_choice(state, l);
            model.action_name(choice).into_owned()
        };
        assert_ne!(name(0, &[2.0, 0.1]), name(0, &[0.1, 2.0]), "to the region of the larger multiplier");
    }

    #[test]
    fn executor_resumes_bit_identically_and_meets_the_requirements() {
        let file = solved("queue");
        let bytes = file.to_container().unwrap().to_bytes().unwrap();
        let file = SolutionFile::from_container(Container::from_bytes(&bytes).unwrap()).unwrap();
        let execution = file.execution(file.specification.clone(), &OPTIONS, &Stop::default()).unwrap();
        let environment = Simulator::new(&file.model, file.specification.clone()).unwrap();
        let mut agent = execution.agent_builder().unwrap().build().unwrap();
        let mut rng = Rng::new(3);
        let mut policy = MixtureExecutor::new(&execution.plan);
        policy.begin_epoch(agent.dynamics());
        let mut rewards = Rewards::zeros(agent.dynamics().len());
        let mut state = environment.reset(&mut rng);
        for step in 0..50_000 {
            if step % 1_000 == 500 {
                let text = serde_json::to_string(&policy.clone().into_state()).unwrap();
                let restored: acrl_exact::MixtureState = serde_json::from_str(&text).unwrap();
                assert_eq!(restored, policy.clone().into_state());
                policy = MixtureExecutor::resume(&execution.plan, restored).unwrap();
            }
            let action = policy.act(state, agent.multipliers(), &mut rng);
            state = environment.step(state, action, &mut rewards, &mut rng).unwrap();
            if agent.observe(&rewards).unwrap().is_some() {
                policy.begin_epoch(agent.dynamics());
            }
        }
        let certificate = agent.certificate();
        assert!(
            certificate
                .requirements
                .iter()
                .zip(&execution.scales)
                .all(|(r, range)| { r.certified_shortfall <= 0.02 * range }),
            "{certificate:?}"
        );
        let other = solved("monitoring");
        let unfit = other.execution(other.specification.clone(), &OPTIONS, &Stop::default()).unwrap();
        assert!(MixtureExecutor::resume(&unfit.plan, policy.into_state()).is_err());
    }
}
