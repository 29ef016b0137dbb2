//! Plan of execution of a solution: how its mixture is realised, and in epochs of which length.

use acrl::EpochSchedule;

use super::planner::plan_component;
use super::{Executable, SETTLE};
use crate::tolerances::{FEASIBILITY, LEAST_ASKED, MIN_WEIGHT};
use crate::tuning::{LONGEST_SHARE, PENALTY, SHORTEST_EPOCH, SHORTEST_SHARE};
use crate::{FiniteTask, SolveError};

/// How a mixture of deterministic policies is realised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Realisation {
    /// One randomised policy: where the policies of the mixture differ an action is drawn with the odds that give the
    /// occupancy measure of the mixture.
    Stationary,
    /// One policy after the other, each for its share of an epoch.
    TimeSharing,
}

/// Number of steps to plan for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanOptions<'a> {
    /// Number of steps, if it is known.
    pub steps: Option<u64>,
    /// Realisation; `None` to choose the better one.
    pub realisation: Option<Realisation>,
    /// How far behind each average may be, for the growth of epochs without a known end.
    pub tolerances: &'a [f64],
}

/// Plan of execution of an [`Executable`] solution, for a [`MixtureExecutor`](super::MixtureExecutor).
#[derive(Debug, Clone)]
pub struct ExecutionPlan {
    pub(super) components: Vec<PlannedComponent>,
    /// Component of each state, as in [`Executable`].
    pub(super) component_of: Vec<u32>,
    pub(super) journey: Vec<u32>,
    /// Number of the action in each state, by policy.
    pub(super) policies: Vec<Vec<u32>>,
    pub(super) bounds: Vec<f64>,
    /// What a shortfall may cost of the objective, by requirement.
    pub(super) prices: Vec<f64>,
    multipliers: Vec<f64>,
    step_size: f64,
    schedule: EpochSchedule,
}

/// Plan of one end component.
#[derive(Debug, Clone)]
pub(super) struct PlannedComponent {
    /// V₀ … V_m of each policy.
    pub(super) values: Vec<Vec<f64>>,
    /// Share of time of each policy in the optimum.
    pub(super) weights: Vec<f64>,
    /// Long-run frequency of each state by policy; empty if they are not known.
    pub(super) occupancy: Vec<Vec<f64>>,
    /// Expected steps from one policy to the next, by number.
    pub(super) travel: Vec<Vec<f64>>,
    /// r₀ … r_m that a change from one policy to the next misses on average, by number.
    pub(super) transients: Vec<Vec<Vec<f64>>>,
    /// Policies in an order in which one comes soon after the other.
    pub(super) order: Vec<usize>,
    /// Reward of each requirement by which the last epoch may miss, which is collected in advance.
    pub(super) margin: Vec<f64>,
    /// r₀ … r_m that the changes of policy of an epoch miss on average.
    pub(super) missing: Vec<f64>,
    /// Whether policies that share states are combined to a randomised one.
    pub(super) combines: bool,
    /// Shortest useful epoch.
    pub(super) start: u64,
    /// Epoch from which on longer ones gain next to nothing.
    pub(super) sufficient: u64,
    /// Steps within which the standard deviation of their rewards can be made up for; infinite if that is not known.
    pub(super) correction_time: f64,
    /// Steps within which the standard deviation of what the changes of an epoch miss can be made up for.
    pub(super) change_correction_time: f64,
    /// Probability that the agent ends here.
    pub(super) mass: f64,
}

impl ExecutionPlan {
    /// Plans the execution of a solution of a task, whose bounds must be those of the solution.
    pub fn new(
        task: &FiniteTask<'_>,
        answer: &Executable,
        options: &PlanOptions<'_>,
    ) -> Result<Self, SolveError> {
        let multipliers = answer.multipliers();
        let scaled = multipliers.iter().zip(task.scales()).map(|(l, r)| l * r / task.objective_scale());
        // Relative to what is asked, as verdicts are.
        let price = |i: usize| {
            let asked = task.bounds()[i].abs().clamp(LEAST_ASKED * task.scales()[i], task.scales()[i]);
            PENALTY * (multipliers[i] + task.objective_scale() / asked)
        };
        let prices: Vec<f64> = (0..task.len()).map(price).collect();
        let mut policies = answer.policies.clone();
        let mut components = Vec::new();
        for (number, component) in answer.components.iter().enumerate() {
            components.push(plan_component(
                task,
                answer,
                component,
                number,
                &mut policies,
                (options, &prices),
            )?);
        }
        let least = scaled.filter(|l| *l > FEASIBILITY).fold(f64::INFINITY, f64::min);
        let start = components.iter().map(|c| c.start).max().unwrap_or(SHORTEST_EPOCH);
        let share = components.iter().map(|c| c.share(options)).fold(f64::INFINITY, f64::min);
        let sufficient = components.iter().map(|c| c.sufficient).max().unwrap_or(start);
        let correction_time =
            components.iter().map(|c| c.correction_time).reduce(f64::max).filter(|t| t.is_finite());
        let change_correction_time = components.iter().map(|c| c.change_correction_time).fold(0.0, f64::max);
        Ok(Self {
            components,
            component_of: answer.component_of.clone(),
            journey: answer.journey.clone(),
            policies,
            bounds: task.bounds().to_vec(),
            prices,
            multipliers,
            step_size: least.min(acrl::AgentBuilder::STEP_SIZE),
            schedule: EpochSchedule {
                start,
                sufficient,
                share,
                horizon: options.steps,
                correction_time,
                change_correction_time,
            },
        })
    }

    /// λ*, where the multipliers start.
    pub fn multipliers(&self) -> &[f64] {
        &self.multipliers
    }

    /// η that fits λ*: an epoch in which all of a reward is missing moves a multiplier by as much as it is large.
    pub fn step_size(&self) -> f64 {
        self.step_size
    }

    /// T₀ over time.
    pub fn schedule(&self) -> EpochSchedule {
        self.schedule
    }

    /// Number of steps from which on changes of policy cost next to nothing.
    pub fn sufficient_steps(&self) -> u64 {
        self.schedule.sufficient
    }

    /// How the mixture is realised: in the component where the agent most probably ends, if there are several.
    pub fn realisation(&self) -> Realisation {
        match self.main() {
            Some(component) if component.groups(&component.weights).len() > 1 => Realisation::TimeSharing,
            _ => Realisation::Stationary,
        }
    }

    /// Why, in a sentence.
    pub fn reason(&self) -> String {
        let Some(component) = self.main() else { return String::new() };
        let active = component.weights.iter().filter(|w| **w > MIN_WEIGHT).count();
        if active == 1 {
            return "one deterministic policy is optimal".to_owned();
        }
        match self.realisation() {
            Realisation::Stationary => format!(
                "the {active} policies of the optimal mixture share states, so that one randomised policy attains it"
            ),
            Realisation::TimeSharing if component.combines => format!(
                "the {active} policies of the optimal mixture stay in different states; a change from one to another \
                 takes about {} steps",
                component.change()
            ),
            Realisation::TimeSharing => format!(
                "a randomised policy would mix too slowly; a change between the {active} policies of the optimal \
                 mixture takes about {} steps",
                component.change()
            ),
        }
    }

    /// Expected steps of a change from one policy of the mixture to the next; 0 with a stationary realisation.
    pub fn change_of_behaviour(&self) -> u64 {
        match self.realisation() {
            Realisation::Stationary => 0,
            Realisation::TimeSharing => self.main().map_or(0, PlannedComponent::change),
        }
    }

    fn main(&self) -> Option<&PlannedComponent> {
        self.components.iter().max_by(|a, b| a.mass.total_cmp(&b.mass))
    }

    /// Component in which the agent stays from this state on; `None` on the way.
    #[inline]
    pub(super) fn settle(&self, state: usize) -> Option<usize> {
        match self.journey.get(state) {
            None => Some(0),
            Some(&SETTLE) => Some(self.component_of[state] as usize),
            Some(_) => None,
        }
    }
}

impl PlannedComponent {
    /// Groups of policies with a positive weight that are combined to a randomised policy, in the order in which they
    /// take turns.
    pub(super) fn groups(&self, weights: &[f64]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for &j in self.order.iter().filter(|&&j| weights[j] > MIN_WEIGHT) {
            let joins = |group: &Vec<usize>| group.iter().any(|&l| self.overlap(j, l));
            let Some(first) = groups.iter().position(joins) else {
                groups.push(vec![j]);
                continue;
            };
            groups[first].push(j);
            // The policy may connect groups that were separate.
            for later in (first + 1..groups.len()).rev() {
                if groups[later].iter().any(|&l| self.overlap(j, l)) {
                    let merged = groups.remove(later);
                    groups[first].extend(merged);
                }
            }
        }
        groups
    }

    /// Whether two policies have recurrent states in common.
    fn overlap(&self, j: usize, l: usize) -> bool {
        self.combines
            && !self.occupancy.is_empty()
            && self.occupancy[j].iter().zip(&self.occupancy[l]).any(|(x, y)| *x > 0.0 && *y > 0.0)
    }

    /// Longest expected change between policies of the mixture that take turns.
    pub(super) fn change(&self) -> u64 {
        let groups = self.groups(&self.weights);
        let between = groups.windows(2).map(|pair| self.travel_between(&pair[0], &pair[1]));
        between.fold(0.0, f64::max).ceil() as u64
    }

    /// Mean over the policies of two groups of a quantity of a change from one to another; 0 if they have one in common,
    /// or if there is nothing to change from.
    pub(super) fn between(
        &self,
        from: &[usize],
        to: &[usize],
        weights: &[f64],
        of: impl Fn(usize, usize) -> f64,
    ) -> f64 {
        if from.is_empty() || from.iter().any(|j| to.contains(j)) {
            return 0.0;
        }
        // The policies that act may have no share any more.
        let odds = |group: &[usize]| -> Vec<f64> {
            let total: f64 = group.iter().map(|&j| weights[j]).sum();
            let odds = |&j: &usize| if total > 0.0 { weights[j] / total } else { 1.0 / group.len() as f64 };
            group.iter().map(odds).collect()
        };
        let (of_from, of_to) = (odds(from), odds(to));
        let pairs = from.iter().zip(&of_from).flat_map(|j| to.iter().zip(&of_to).map(move |l| (j, l)));
        pairs.map(|((&j, p), (&l, q))| p * q * of(j, l)).sum()
    }

    /// Expected steps from one group to another, both ways whichever is longer.
    pub(super) fn travel_between(&self, from: &[usize], to: &[usize]) -> f64 {
        let pairs = from.iter().flat_map(|&j| to.iter().map(move |&l| (j, l)));
        pairs.map(|(j, l)| self.travel[j][l].max(self.travel[l][j])).fold(0.0, f64::max)
    }

    /// Share of the time that an epoch may take.
    fn share(&self, options: &PlanOptions<'_>) -> f64 {
        let groups = self.groups(&self.weights);
        if options.steps.is_some() {
            return 1.0;
        }
        // While one group takes its turn the others' rewards are missing.
        let optimum = mixed(&self.values, &self.weights);
        let mut share = LONGEST_SHARE;
        for group in groups.iter().filter(|_| groups.len() > 1) {
            let weight: f64 = group.iter().map(|&j| self.weights[j]).sum();
            for (i, tolerance) in options.tolerances.iter().enumerate() {
                let of_group = group.iter().map(|&j| self.weights[j] * self.values[j][i + 1]).sum::<f64>();
                let missing = weight * optimum[i + 1] - of_group;
                if missing > 0.0 {
                    share = share.min(tolerance / missing);
                }
            }
        }
        share.max(SHORTEST_SHARE)
    }
}

/// Σ w_j V_j.
pub(super) fn mixed(values: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; values.first().map_or(0, Vec::len)];
    for (values, w) in values.iter().zip(weights) {
        sum.iter_mut().zip(values).for_each(|(sum, v)| *sum += w * v);
    }
    sum
}
