//! Primal averaging: one policy out of the policies π(λ_k) that dual dynamics visit.
//!
//! > π̄_K = (1/K) Σ_{k<K} π(λ_k)
//!
//! What the sum means decides whether it works:
//!
//! - [`state_wise`], as printed: π̄(a|s) = (1/K) Σ π(λ_k)(a|s). Each policy has a say in states that it
//!   never visits. **Not feasible in general**: on Example 1 R₀ gets .443 and R₁, R₂ only .278 each.
//! - [`occupancy_weighted`]: π̄(a|s) ∝ Σ_k ρ_k(s, a), where ρ_k(s, a) is the long-run share of time that
//!   π(λ_k) spends on (s, a). It attains the mean of the V(π(λ_k)) ([`mixed_values`]) **if** the states
//!   that the policies visit hang together under it; if not, it stays where it first gets to, which
//!   shows when its values are compared with the mean. In a state that none of them visits it takes
//!   every action with the same probability.
//! - [`trajectory_weighted`]: π̄(a|s) ∝ the number of times that the run itself took a in s. As what leaves
//!   a state also enters it, this attains the averages of the run, **if** the states hang together.
//! - [`Blocks`]: draw one of the π(λ_k) and hold it for a long time, then draw again. Attains the mean of
//!   the V(π(λ_k)) up to the time that changes of behaviour take; a policy with memory.
//!
//! The mean of the V(π(λ_k)) meets the requirements as far as an epoch's averages are unbiased (A3).
//! On Example 1 with T₀ = 10 they are not: an epoch that begins with a change spends steps on the way,
//! the multipliers make up for it, and the mean is .296/.352/.352, more than is required and less
//! than the optimum .333 of r₀. With T₀ = 1,000, or with the rules of
//! [`dual_descent`](crate::baselines::finite::dual_descent), which sees exact values, it is .333/.333/.333.

use std::ops::ControlFlow;

use acrl::{
    Agent, EpochLength, Event, FiniteCmdp, FinitePolicy, Multipliers, Rng, Simulator, Values, execute,
};
use acrl_exact::{ExactPolicy, FiniteTask};
use serde::Serialize;

use crate::baselines::finite::stationary::check_rule;
use crate::error::{length, setting};
use crate::{LearnError, Stationary};

/// A rule, and for how many k it was π(λ_k).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VisitedRule {
    /// The number of the action taken in each state.
    pub rule: Vec<usize>,
    /// For how many k.
    pub count: u64,
}

/// What an execution of Algorithm 2 with the exact maximiser went through.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Visits {
    /// The different rules among π(λ₀) … π(λ_{K−1}), in the order of their first appearance.
    pub rules: Vec<VisitedRule>,
    /// How many steps were spent on each choice.
    pub choices: Vec<u64>,
    /// The averages of r₀ … r_m over the run.
    pub averages: Values,
}

/// Runs dual dynamics with the exact maximiser for K = `epochs` epochs of T₀ = `epoch` steps.
pub fn visits(
    task: &FiniteTask<'_>,
    step_size: f64,
    epoch: u64,
    epochs: u64,
    rng: &mut Rng,
) -> Result<Visits, LearnError> {
    setting("epochs", epochs as f64, 1.0.., "1 or more")?;
    let model = task.model();
    let mut environment = Simulator::new(model, task.specification().clone())?;
    let requirements = task.specification().requirements().to_vec();
    let mut agent = Agent::builder(requirements)
        .step_size(step_size)
        .epoch(EpochLength::Fixed(epoch))
        .scales(task.objective_scale(), task.scales())
        .build()?;
    let mut exact = ExactPolicy::new(task);
    let mut choices = vec![0; model.choice_count()];
    let mut policy = |state: usize, lambda: &Multipliers, rng: &mut Rng| {
        let action = exact.act(state, lambda, rng);
        choices[model.choices(state).start + action] += 1;
        action
    };
    let mut lambdas = vec![agent.multipliers().clone()];
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            lambdas.push(epoch.multipliers.clone());
        }
        ControlFlow::Continue(())
    };
    let steps = epoch.saturating_mul(epochs);
    let run = execute(&mut environment, &mut policy, &mut agent, steps, rng, &mut observer)?;
    let mut rules: Vec<VisitedRule> = Vec::new();
    for lambda in &lambdas[..lambdas.len() - 1] {
        let rule = exact.actions(lambda)?;
        match rules.iter_mut().find(|visited| visited.rule == rule) {
            Some(visited) => visited.count += 1,
            None => rules.push(VisitedRule { rule: rule.to_vec(), count: 1 }),
        }
    }
    Ok(Visits { rules, choices, averages: run.averages })
}

/// π̄(a|s) = (1/K) Σ_k π(λ_k)(a|s), as printed.
pub fn state_wise(model: &FiniteCmdp, visited: &[VisitedRule]) -> Result<Stationary, LearnError> {
    let mut average = vec![0.0; model.choice_count()];
    for (visit, share) in visited.iter().zip(shares(model, visited)?) {
        for (s, action) in visit.rule.iter().enumerate() {
            average[model.choices(s).start + action] += share;
        }
    }
    Stationary::new(model, average)
}

/// π̄(a|s) ∝ Σ_k ρ_k(s, a); uniform in states that no rule visits.
pub fn occupancy_weighted(task: &FiniteTask<'_>, visited: &[VisitedRule]) -> Result<Stationary, LearnError> {
    let model = task.model();
    let mut average = vec![0.0; model.choice_count()];
    for (visit, share) in visited.iter().zip(shares(model, visited)?) {
        let occupancy = task.occupancy(&visit.rule)?;
        average.iter_mut().zip(occupancy).for_each(|(sum, rho)| *sum += share * rho);
    }
    condition(model, average)
}

/// π̄(a|s) ∝ the number of times that a was taken in s; uniform in states that were not visited.
pub fn trajectory_weighted(model: &FiniteCmdp, choices: &[u64]) -> Result<Stationary, LearnError> {
    length("steps by choice", model.choice_count(), choices.len())?;
    let total = choices.iter().sum::<u64>().max(1) as f64;
    condition(model, choices.iter().map(|n| *n as f64 / total).collect())
}

/// The policy of an occupancy: π(a|s) ∝ ρ(s, a).
fn condition(model: &FiniteCmdp, mut occupancy: Vec<f64>) -> Result<Stationary, LearnError> {
    for s in 0..model.states() {
        let own = &mut occupancy[model.choices(s)];
        let mass: f64 = own.iter().sum();
        let uniform = 1.0 / own.len() as f64;
        // Less than this is rounding, not a visit.
        own.iter_mut().for_each(|rho| *rho = if mass > 1e-12 { *rho / mass } else { uniform });
    }
    Stationary::new(model, occupancy)
}

/// (1/K) Σ_k V(π(λ_k)): what switching between the rules attains if changes take no time.
pub fn mixed_values(task: &FiniteTask<'_>, visited: &[VisitedRule]) -> Result<Values, LearnError> {
    let mut sums = vec![0.0; task.len() + 1];
    for (visit, share) in visited.iter().zip(shares(task.model(), visited)?) {
        let values = task.values(&visit.rule)?;
        sums.iter_mut().zip(values.as_slice()).for_each(|(sum, v)| *sum += share * v);
    }
    Ok(Values::new(sums)?)
}

/// Draws one of the rules by its count, holds it for a block of steps, draws again; acts the same at
/// every λ.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    rules: Vec<Vec<usize>>,
    shares: Vec<f64>,
    length: u64,
    held: usize,
    left: u64,
}

impl Blocks {
    /// A length that is long against the time that a change of behaviour takes in most small models.
    pub const LENGTH: u64 = 1_000;

    /// From the rules and the length of a block, of one step at least.
    pub fn new(model: &FiniteCmdp, visited: &[VisitedRule], length: u64) -> Result<Self, LearnError> {
        setting("length", length as f64, 1.0.., "1 or more")?;
        let shares = shares(model, visited)?;
        let rules = visited.iter().map(|visit| visit.rule.clone()).collect();
        Ok(Self { rules, shares, length, held: 0, left: 0 })
    }
}

impl FinitePolicy for Blocks {
    #[inline]
    fn act(&mut self, state: usize, _: &Multipliers, rng: &mut Rng) -> usize {
        if self.left == 0 {
            self.held = rng.weighted(&self.shares);
            self.left = self.length;
        }
        self.left -= 1;
        self.rules[self.held][state]
    }
}

/// The share of each rule, all of which must fit the model.
fn shares(model: &FiniteCmdp, visited: &[VisitedRule]) -> Result<Vec<f64>, LearnError> {
    visited.iter().try_for_each(|visit| check_rule(model, &visit.rule))?;
    let total: f64 = visited.iter().map(|visit| visit.count as f64).sum();
    if total > 0.0 {
        Ok(visited.iter().map(|visit| visit.count as f64 / total).collect())
    } else {
        Err(LearnError::NoRules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::finite::dual_descent::dual_descent;
    use crate::baselines::finite::violation;
    use crate::test_models::{machine, monitoring, running, third};
    use acrl::Silent;

    fn close(values: &Values, expected: [f64; 3], tolerance: f64) -> bool {
        values.as_slice().iter().zip(expected).all(|(v, e)| (v - e).abs() < tolerance)
    }

    fn example(epoch: u64, epochs: u64) -> Visits {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        visits(&task, 0.5, epoch, epochs, &mut Rng::new(0)).unwrap()
    }

    #[test]
    fn the_printed_average_breaks_example_1() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        for (epochs, expected) in [(1_000, [0.4432, 0.2784, 0.2784]), (10_000, [0.4420, 0.2790, 0.2790])] {
            let visits = example(10, epochs);
            assert_eq!(visits.rules.iter().map(|v| v.count).sum::<u64>(), epochs);
            assert_eq!(visits.choices.iter().sum::<u64>(), 10 * epochs);
            let printed = state_wise(&model, &visits.rules).unwrap().values(&task).unwrap();
            assert!(close(&printed, expected, 1e-4), "{printed:?}");
            assert!(violation(&task, &printed) > 0.05);
        }
    }

    #[test]
    fn averages_by_occupancy_meet_example_1() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        // Short epochs are biased: more than is required, at the objective's expense.
        for (epoch, epochs, expected) in
            [(10, 1_000, [0.296, 0.352, 0.352]), (1_000, 10_000, [0.33335, 0.3333, 0.33335])]
        {
            let visits = example(epoch, epochs);
            let mixed = mixed_values(&task, &visits.rules).unwrap();
            let weighted = occupancy_weighted(&task, &visits.rules).unwrap().values(&task).unwrap();
            assert!(close(&mixed, expected, 1e-4), "{mixed:?}");
            assert!(close(&weighted, expected, 1e-4), "{weighted:?}");
        }
        // Exact values have no such bias …
        let descent = dual_descent(&task, 0.5, 10_000).unwrap();
        let weighted = occupancy_weighted(&task, &descent.visited()).unwrap().values(&task).unwrap();
        assert!(close(&weighted, [1.0 / 3.0; 3], 1e-3), "{weighted:?}");
        let printed = state_wise(&model, &descent.visited()).unwrap().values(&task).unwrap();
        assert!(violation(&task, &printed) > 0.05, "{printed:?}");
        // … and neither has the run's own occupancy.
        for (epochs, expected) in [(1_000, [0.3368, 0.3316, 0.3316]), (100_000, [0.3334, 0.3333, 0.3333])] {
            let visits = example(10, epochs);
            let weighted = trajectory_weighted(&model, &visits.choices).unwrap().values(&task).unwrap();
            assert!(close(&visits.averages, expected, 1e-4), "{:?}", visits.averages);
            assert!(close(&weighted, expected, 2e-4), "{weighted:?}");
        }
    }

    #[test]
    fn blocks_attain_the_mean_of_the_rules() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let rules = example(1_000, 1_000).rules;
        let mut blocks = Blocks::new(&model, &rules, Blocks::LENGTH).unwrap();
        let mut environment = Simulator::new(&model, third()).unwrap();
        let requirements = third().requirements().to_vec();
        let agent = Agent::builder(requirements).step_size(0.5).epoch(EpochLength::Fixed(10));
        let mut agent = agent.build().unwrap();
        let mut rng = Rng::new(1);
        let run = execute(&mut environment, &mut blocks, &mut agent, 5_000_000, &mut rng, &mut Silent);
        let averages = run.unwrap().averages;
        let mixed = mixed_values(&task, &rules).unwrap();
        let expected = [0, 1, 2].map(|i| mixed.as_slice()[i]);
        assert!(close(&averages, expected, 0.02), "{averages:?} {mixed:?}");
    }

    #[test]
    fn a_disconnected_mixture_shows_in_its_values() {
        // Half the time "to R1 and stay", half "to R2 and stay": nothing leads from one to the other.
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let visited = [[0, 1, 0], [1, 0, 1]].map(|rule| VisitedRule { rule: rule.to_vec(), count: 1 });
        let mixed = mixed_values(&task, &visited).unwrap();
        assert!(close(&mixed, [0.0, 0.5, 0.5], 1e-12));
        let policy = occupancy_weighted(&task, &visited).unwrap();
        assert_eq!(policy.probabilities(), [0.5, 0.5, 0.0, 1.0, 0.0, 1.0], "uniform in R0, then for ever");
        let lopsided = [VisitedRule { count: 3, ..visited[0].clone() }, visited[1].clone()];
        let mixed = mixed_values(&task, &lopsided).unwrap();
        let weighted = occupancy_weighted(&task, &lopsided).unwrap().values(&task).unwrap();
        assert!(close(&mixed, [0.0, 0.75, 0.25], 1e-12) && close(&weighted, [0.0, 0.5, 0.5], 1e-12));
    }

    #[test]
    fn on_a_random_model_the_averages_by_occupancy_do_as_the_run_did() {
        let model = machine();
        let task = FiniteTask::new(&model, &running(0.9, 0.3)).unwrap();
        let visits = visits(&task, 0.1, 100, 20_000, &mut Rng::new(3)).unwrap();
        assert!(visits.rules.len() >= 3, "{:?}", visits.rules);
        let mixed = mixed_values(&task, &visits.rules).unwrap();
        let weighted = occupancy_weighted(&task, &visits.rules).unwrap().values(&task).unwrap();
        let trajectory = trajectory_weighted(&model, &visits.choices).unwrap().values(&task).unwrap();
        let [a, b, c] = [0, 1, 2].map(|i| mixed.as_slice()[i]);
        assert!(close(&weighted, [a, b, c], 1e-9));
        let [a, b, c] = [0, 1, 2].map(|i| visits.averages.as_slice()[i]);
        assert!(close(&trajectory, [a, b, c], 0.02), "{trajectory:?} {:?}", visits.averages);
        assert!(violation(&task, &trajectory) < 0.005 && violation(&task, &mixed) < 0.02, "{mixed:?}");
    }

    #[test]
    fn nothing_to_average_and_wrong_rules_are_errors() {
        let model = monitoring();
        assert_eq!(state_wise(&model, &[]).unwrap_err(), LearnError::NoRules);
        let none = VisitedRule { rule: vec![0; 3], count: 0 };
        assert_eq!(state_wise(&model, &[none]).unwrap_err(), LearnError::NoRules);
        let wrong = VisitedRule { rule: vec![0; 2], count: 1 };
        assert!(Blocks::new(&model, &[wrong], 10).is_err());
        let right = VisitedRule { rule: vec![0; 3], count: 1 };
        assert!(Blocks::new(&model, &[right], 0).is_err());
    }
}
