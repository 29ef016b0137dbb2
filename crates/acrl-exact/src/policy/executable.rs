//! Executable form of a solution: the deterministic policies of its mixture.
//!
//! Memory is proportional to the model: one small number for each state and each policy. An
//! [`ExecutionPlan`](crate::ExecutionPlan) decides how they are used.
//!
//! In a model with several end components the almost-sure optimum is executed: a journey to a component
//! that meets the requirements, which is reached with probability 1, and there its own mixture.

use acrl::{FiniteCmdp, Multipliers};

use super::redirect_slow_states;
use crate::tolerances::WEIGHT_SUM;
use crate::{AlmostSure, ComponentOptimum, FiniteTask, MixturePolicy, Optimum};

/// Mark in a journey: the agent stays in the end component of this state.
pub const SETTLE: u32 = u32::MAX;

/// Solution that can be executed. [`check`](Self::check) tests that it fits a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Executable {
    /// End components in which an agent may stay.
    pub components: Vec<ExecutableComponent>,
    /// Component of each state; empty if there is only one, to which all belong.
    pub component_of: Vec<u32>,
    /// Number of the action in each state on the way to a component, or [`SETTLE`]; empty if there is only
    /// one component.
    pub journey: Vec<u32>,
    /// Number of the action in each state, by policy. The n-th policy of each component is stored in the
    /// n-th of these, at the component's states.
    pub policies: Vec<Vec<u32>>,
}

/// Solution in one end component.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutableComponent {
    /// Probability that the agent ends in this component.
    pub mass: f64,
    /// λ* here.
    pub multipliers: Vec<f64>,
    /// Share of time of each policy.
    pub weights: Vec<f64>,
    /// V₀ … V_m of each policy.
    pub values: Vec<Vec<f64>>,
}

impl ExecutableComponent {
    fn new(mass: f64, multipliers: &Multipliers, mixture: &[MixturePolicy]) -> Self {
        Self {
            mass,
            multipliers: multipliers.as_slice().to_vec(),
            weights: mixture.iter().map(|c| c.weight).collect(),
            values: mixture.iter().map(|c| c.values.as_slice().to_vec()).collect(),
        }
    }
}

impl Executable {
    /// Solution of a task with one end component. Policies are changed where they would not reach their
    /// recurrent class in reasonable time ([`redirect_slow_states`]).
    pub fn new(task: &FiniteTask<'_>, optimum: &Optimum) -> Self {
        let redirected = |policy: &MixturePolicy| {
            let mut actions = policy.actions.clone();
            redirect_slow_states(task.model(), &mut actions, |_| true);
            actions.into_iter().map(|action| action as u32).collect()
        };
        Self {
            components: vec![ExecutableComponent::new(1.0, &optimum.multipliers, &optimum.mixture)],
            component_of: Vec::new(),
            journey: Vec::new(),
            policies: optimum.mixture.iter().map(redirected).collect(),
        }
    }

    /// Almost-sure optimum of a model with several end components; `None` if the requirements cannot be met
    /// almost surely.
    pub fn almost_sure(task: &FiniteTask<'_>, sure: &AlmostSure) -> Option<Self> {
        let (model, journey) = (task.model(), sure.journey.as_ref()?);
        let mut answer = Self {
            components: Vec::new(),
            component_of: vec![SETTLE; model.states()],
            journey: journey.steps.iter().map(|step| step.map_or(SETTLE, |a| a as u32)).collect(),
            policies: Vec::new(),
        };
        let components = task.structure().end_components.iter().zip(&sure.components);
        for ((states, offered), &mass) in components.zip(&journey.mass) {
            let Some(ComponentOptimum { multipliers, mixture, .. }) = &offered.optimum else { continue };
            states.iter().for_each(|&s| answer.component_of[s] = answer.components.len() as u32);
            answer.components.push(ExecutableComponent::new(mass, multipliers, mixture));
            let stays = |c: usize| {
                let inside = |t: usize| states.binary_search(&t).is_ok();
                model.choice(c).targets.iter().all(|&t| inside(t as usize))
            };
            let mut allowed = vec![false; model.choice_count()];
            states.iter().flat_map(|&s| model.choices(s)).for_each(|c| allowed[c] = stays(c));
            for (j, policy) in mixture.iter().enumerate() {
                let mut actions = vec![0; model.states()];
                states.iter().zip(&policy.actions).for_each(|(&s, &action)| actions[s] = action);
                redirect_slow_states(model, &mut actions, |c| allowed[c]);
                if j == answer.policies.len() {
                    answer.policies.push(vec![0; model.states()]);
                }
                states.iter().for_each(|&s| answer.policies[j][s] = actions[s] as u32);
            }
        }
        Some(answer)
    }

    /// Checks that the solution fits a model with this number of requirements; the error states why not.
    pub fn check(&self, model: &FiniteCmdp, requirements: usize) -> Result<(), String> {
        let (n, components) = (model.states(), self.components.len());
        let lengths = if components == 1 && self.journey.is_empty() { 0 } else { n };
        if components == 0 || self.component_of.len() != lengths || self.journey.len() != lengths {
            return Err(format!(
                "it has {components} components for {} states, expected {n} states",
                self.component_of.len()
            ));
        }
        for component in &self.components {
            let fits = |v: &Vec<f64>| v.len() == requirements + 1;
            let policies = component.weights.len();
            let shares = component.weights.iter().all(|w| *w > 0.0 && *w <= 1.0)
                && (component.weights.iter().sum::<f64>() - 1.0).abs() < WEIGHT_SUM;
            if !shares
                || component.values.len() != policies
                || policies > self.policies.len()
                || !component.values.iter().all(fits)
            {
                return Err(format!("the shares of its {policies} policies or their values cannot be used"));
            }
            let multipliers = &component.multipliers;
            if multipliers.len() != requirements || multipliers.iter().any(|l| *l < 0.0) {
                return Err(format!("its multipliers are {multipliers:?}, expected {requirements}"));
            }
        }
        for s in 0..n {
            let actions = model.choices(s).len();
            let known = |action: u32| (action as usize) < actions;
            let stays = self.journey.get(s).is_some_and(|&step| step == SETTLE);
            let component = self.component_of.get(s).copied().unwrap_or(0);
            if self.policies.iter().any(|policy| policy.len() != n || !known(policy[s]))
                || stays && component as usize >= components
                || self.journey.get(s).is_some_and(|&step| step != SETTLE && !known(step))
            {
                return Err(format!("it takes an action in state {s} that the state does not have"));
            }
        }
        Ok(())
    }

    /// Initial λ: the mean of λ* over the components in which the agent may end.
    pub fn multipliers(&self) -> Vec<f64> {
        let total: f64 = self.components.iter().map(|c| c.mass).sum();
        let m = self.components.first().map_or(0, |c| c.multipliers.len());
        let mean = |i: usize| self.components.iter().map(|c| c.mass * c.multipliers[i]).sum::<f64>() / total;
        (0..m).map(mean).collect()
    }

    /// V₀ … V_m of the mixture, on average over the components in which the agent may end.
    pub fn values(&self) -> Vec<f64> {
        let width = self.components.first().and_then(|c| c.values.first()).map_or(0, Vec::len);
        let mut total = vec![0.0; width];
        for component in &self.components {
            for (weight, values) in component.weights.iter().zip(&component.values) {
                total.iter_mut().zip(values).for_each(|(t, v)| *t += component.mass * weight * v);
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{optimum, silent};
    use crate::test_models::{maximise_r0, of_choices};
    use crate::{ExecutionPlan, MixtureExecutor, PlanOptions, Realisation, SolveOptions, almost_sure};
    use acrl::{Agent, EpochLength, Rng, Silent, Simulator, execute};

    /// Averages of one long run of each realisation.
    fn averages(task: &FiniteTask<'_>, answer: &Executable, seed: u64) -> [Vec<f64>; 2] {
        answer.check(task.model(), task.len()).unwrap();
        let specification = task.specification();
        [Realisation::Stationary, Realisation::TimeSharing].map(|realisation| {
            let steps = 400_000;
            let options =
                PlanOptions { steps: Some(steps), realisation: Some(realisation), tolerances: &[0.01] };
            let plan = ExecutionPlan::new(task, answer, &options).unwrap();
            let mut agent = Agent::builder(specification.requirements().to_vec())
                .step_size(plan.step_size())
                .epoch(EpochLength::Scheduled(plan.schedule()))
                .reference(Multipliers::new(plan.multipliers().to_vec()).unwrap())
                .build()
                .unwrap();
            let mut environment = Simulator::new(task.model(), specification.clone()).unwrap();
            let (mut policy, mut rng) = (MixtureExecutor::new(&plan), Rng::stream(seed, 0));
            let run =
                execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, &mut Silent).unwrap();
            run.averages.as_slice().to_vec()
        })
    }

    /// Ring with random moves, rewards by state, and optionally a transient entrance.
    fn ring(entrance: bool) -> FiniteCmdp {
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        let n = 8;
        (0..n + usize::from(entrance)).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..n {
            let rewards = [(s % 3) as f64 / 2.0, if s >= 6 { 1.0 } else { 0.0 }];
            for (a, step) in [1, n - 1].into_iter().enumerate() {
                b.choice(s, a.to_string(), &[((s + step) % n, 0.8), (s, 0.2)], &rewards);
            }
        }
        if entrance {
            b.choice(n, "wait", &[(n, 0.9), (0, 0.1)], &[0.0, 0.0]);
            b.choice(n, "enter", &[(4, 1.0)], &[0.0, 0.0]);
            b.initial(n, 1.0);
        }
        b.build().unwrap()
    }

    #[test]
    fn simulated_averages_match_the_certified_values() {
        for entrance in [false, true] {
            let model = ring(entrance);
            let task = FiniteTask::new(&model, &maximise_r0(&[("r1", 0.4)])).unwrap();
            assert!(task.structure().is_communicating());
            let optimum = optimum(&task, &SolveOptions::default(), &mut silent).unwrap().unwrap();
            assert!(optimum.mixture.len() == 2, "it must switch");
            let answer = Executable::new(&task, &optimum);
            for averages in averages(&task, &answer, 3) {
                for (measured, certified) in averages.iter().zip(optimum.values.as_slice()) {
                    assert!((measured - certified).abs() < 0.01, "{averages:?} {:?}", optimum.values);
                }
            }
        }
    }

    /// A hub leads to an absorbing state with the best objective and no service, or at random to one of two
    /// rings.
    #[test]
    fn every_path_attains_the_certified_values_of_its_component() {
        let model = of_choices(&[
            (0, "trap", &[(1, 1.0)], [0.0, 0.0]),
            (0, "rings", &[(2, 0.3), (4, 0.3), (0, 0.4)], [0.0, 0.0]),
            (1, "stay", &[(1, 1.0)], [5.0, 0.0]),
            (2, "earn", &[(2, 1.0)], [1.0, 0.0]),
            (2, "over", &[(3, 1.0)], [0.0, 0.0]),
            (3, "serve", &[(3, 0.9), (2, 0.1)], [0.0, 1.0]),
            (4, "earn", &[(4, 1.0)], [0.5, 0.0]),
            (4, "over", &[(5, 1.0)], [0.0, 0.0]),
            (5, "serve", &[(5, 0.9), (4, 0.1)], [0.0, 1.0]),
        ]);
        let task = FiniteTask::new(&model, &maximise_r0(&[("r1", 0.25)])).unwrap();
        let sure = almost_sure(&task, &SolveOptions::default()).unwrap();
        let journey = sure.journey.as_ref().unwrap();
        assert_eq!(journey.steps[0], Some(1), "not into the trap");
        assert!(journey.mass[0] == 0.0 && (journey.mass[1] - 0.5).abs() < 1e-9, "{:?}", journey.mass);
        let answer = Executable::almost_sure(&task, &sure).unwrap();
        assert!((answer.values()[0] - sure.objective.unwrap()).abs() < 1e-6);
        let mut ended = [0, 0];
        for seed in 0..6 {
            for averages in averages(&task, &answer, seed) {
                let near = |objective: f64| (averages[0] - objective).abs() < 0.01;
                let which = sure.components[1..].iter().position(|c| near(c.objective.unwrap()));
                ended[which.unwrap_or_else(|| panic!("{averages:?} {sure:?}"))] += 1;
                assert!((averages[1] - 0.25).abs() < 0.01, "{averages:?}");
            }
        }
        assert!(ended[0] > 0 && ended[1] > 0, "{ended:?}");
    }

    #[test]
    fn solutions_that_do_not_fit_the_model_are_refused() {
        let model = ring(false);
        let task = FiniteTask::new(&model, &maximise_r0(&[("r1", 0.4)])).unwrap();
        let optimum = optimum(&task, &SolveOptions::default(), &mut silent).unwrap().unwrap();
        let good = Executable::new(&task, &optimum);
        assert!(good.check(&model, 1).is_ok());
        assert!(good.check(&model, 2).is_err());
        assert!(good.check(&ring(true), 1).is_err());
        let mut bad = good.clone();
        bad.policies[0][3] = 2;
        assert!(bad.check(&model, 1).is_err());
        let mut bad = good;
        bad.components[0].weights[0] += 0.1;
        assert!(bad.check(&model, 1).is_err());
    }
}
