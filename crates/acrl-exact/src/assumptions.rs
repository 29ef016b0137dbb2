//! Assumptions and guarantees of the theorems, computed for a finite problem.
//!
//! Rewards are measured in units of their range (r_i/R_i), multipliers accordingly (λ_i R_i/R₀), as
//! the dual dynamics do: so a step size, B, C and ε mean the same on every problem.

use std::collections::HashSet;

use acrl::Multipliers;
use acrl::guarantees::{drift_holds, drift_radius, multiplier_bound, optimality_loss, squared_bound};

use crate::evaluation::chain::Chain;
use crate::tolerances::POSITIVE_SLACK;
use crate::{ExactPolicy, FiniteTask, Optimum, Singular, Slack, SolveError, SolveOptions, most_slack};

/// Assumptions 1 and 2 and the constants of the theorems, at the multipliers of an execution.
#[derive(Debug, Clone)]
pub struct Assumptions {
    /// (A1) The Slater constant C and how it is attained; `None` without requirements.
    pub slater: Option<Slack>,
    /// (A2) B² = sup ‖r − c‖², in range units.
    pub squared_bound: f64,
    /// The Lemma's bound on Σ λ_i R_i/R₀; `None` if C is not positive.
    pub multiplier_bound: Option<f64>,
    /// Assumption 1: the bias of an epoch's averages for each T₀ from 1 on.
    pub bias: Vec<EpochBias>,
    /// Assumption 2: the drift at the visited multipliers.
    pub drift: Drift,
    /// Longest expected duration of a visited change of policy: the hitting time of the core of the new
    /// policy (nine tenths of its stationary distribution) from the core of the old one.
    pub switch_time: f64,
    /// Smallest T₀ with ε(T₀) ≤ C: long enough for the proof. `None` if it is longer than
    /// [`Assumptions::LONGEST`] or C is not positive.
    pub suggested_epoch: Option<u64>,
    /// η B²/2 at the step size examined, times R₀: the suboptimality bound without β.
    pub loss: f64,
}

/// ε(T₀) and β(T₀) of Assumption 1: the worst over visited policies and states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochBias {
    /// T₀.
    pub epoch: u64,
    /// ‖E\[average of r over the epoch\] − V‖, in range units.
    pub epsilon: f64,
    /// |E\[average of r_λ over the epoch\] − V_λ| in units of R₀, at the visited multipliers.
    pub beta: f64,
}

/// Assumption 2 at the visited multipliers, with ε = C/2 and the step size examined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Number of visited multipliers.
    pub visited: usize,
    /// Number of them at which the drift towards λ* is strong enough.
    pub holds: usize,
    /// Largest visited distance from λ* at which it is not.
    pub fails_up_to: f64,
    /// B_λ: from this distance on it holds everywhere; `None` if C is not positive.
    pub radius: Option<f64>,
    /// Largest visited distance from λ*.
    pub farthest: f64,
}

impl Assumptions {
    /// Largest T₀ examined.
    pub const LONGEST: u64 = 1000;
    /// Share of the stationary distribution that makes the core of a policy.
    const CORE: f64 = 0.9;
    /// Largest number of visited policies examined.
    const POLICIES: usize = 64;

    /// Examines a task at its optimum, at the multipliers `visited` by an execution with a step size.
    pub fn examine(
        task: &FiniteTask<'_>,
        optimum: &Optimum,
        visited: &[Multipliers],
        step_size: f64,
        options: &SolveOptions,
    ) -> Result<Self, SolveError> {
        let r0 = task.objective_scale();
        let b2 = scaled_squared_bound(task);
        let slater = most_slack(task, options)?;
        let constant = slater.as_ref().map_or(0.0, |s| s.lower);
        let positive = slater.as_ref().filter(|_| constant > 0.0);
        let bound = positive.map(|slack| scaled_multiplier_bound(task, optimum, slack, step_size, b2));

        let mut visits = Visits::new(task, visited, Self::POLICIES)?;
        let mut drift = visits.drift(task, optimum, constant / 2.0, step_size, b2);
        let optimal_sum: f64 = scaled_multipliers(task, &optimum.multipliers).iter().sum();
        drift.radius = bound.map(|bound| drift_radius(optimal_sum, bound));
        let bias = visits.bias(task, Self::LONGEST);
        let enough = |b: &&EpochBias| b.epsilon <= constant;
        let suggested_epoch = bias.iter().find(enough).filter(|_| constant > 0.0).map(|b| b.epoch);
        Ok(Self {
            slater,
            squared_bound: b2,
            multiplier_bound: bound,
            bias,
            drift,
            switch_time: visits.switch_time()?,
            suggested_epoch,
            loss: r0 * optimality_loss(step_size, b2, 0.0),
        })
    }
}

/// Upper bound on Σ λ_i R_i in an execution whose epoch is long enough: twice the Lemma's bound plus one
/// step, a margin for chance. `None` without slack, and so without a bound.
pub(crate) fn multiplier_reach(
    task: &FiniteTask<'_>,
    optimum: &Optimum,
    slack: &Slack,
    step_size: f64,
) -> Option<f64> {
    if slack.lower <= POSITIVE_SLACK {
        return None;
    }
    let b2 = scaled_squared_bound(task);
    let bound = scaled_multiplier_bound(task, optimum, slack, step_size, b2);
    let step = step_size * (task.len() as f64 * b2).sqrt();
    Some(2.0 * task.objective_scale() * (bound + step))
}

/// The Lemma's bound on Σ λ_i R_i/R₀.
fn scaled_multiplier_bound(
    task: &FiniteTask<'_>,
    optimum: &Optimum,
    slack: &Slack,
    step_size: f64,
    b2: f64,
) -> f64 {
    let r0 = task.objective_scale();
    multiplier_bound(optimum.upper / r0, slack.values.objective() / r0, slack.lower, step_size, b2)
}

/// B² in units of ranges.
fn scaled_squared_bound(task: &FiniteTask<'_>) -> f64 {
    let scales = task.scales();
    let bounds: Vec<f64> = task.bounds().iter().zip(scales).map(|(c, r)| c / r).collect();
    let scaled = |r: Vec<f64>| -> Vec<f64> { r.iter().zip(scales).map(|(r, s)| r / s).collect() };
    squared_bound(task.reward_vectors().into_iter().map(scaled), &bounds)
}

/// Policies visited by an execution, with the multipliers at which each was in force.
struct Visits {
    policies: Vec<Visit>,
    /// Changes from one policy to another, by index.
    switches: HashSet<(usize, usize)>,
}

struct Visit {
    actions: Vec<usize>,
    chain: Chain,
    /// V₀ … V_m.
    values: Vec<f64>,
    /// λ R/R₀ at which it was in force.
    multipliers: Vec<Vec<f64>>,
}

impl Visits {
    fn new(task: &FiniteTask<'_>, visited: &[Multipliers], limit: usize) -> Result<Self, Singular> {
        let mut policy = ExactPolicy::new(task);
        let mut visits = Self { policies: Vec::new(), switches: HashSet::new() };
        let mut previous = None;
        for multipliers in visited {
            let actions = policy.actions(multipliers)?.to_vec();
            let scaled = scaled_multipliers(task, multipliers);
            let known = visits.policies.iter().position(|visit| visit.actions == actions);
            let index = match known {
                Some(index) => index,
                None if visits.policies.len() >= limit => continue,
                None => {
                    let chain = Chain::of_actions(task.model(), &actions)?;
                    let values = task.values(&actions)?.as_slice().to_vec();
                    visits.policies.push(Visit { actions, chain, values, multipliers: Vec::new() });
                    visits.policies.len() - 1
                }
            };
            visits.policies[index].multipliers.push(scaled);
            if let Some(previous) = previous.replace(index).filter(|p| *p != index) {
                visits.switches.insert((previous, index));
            }
        }
        Ok(visits)
    }

    fn drift(&self, task: &FiniteTask<'_>, optimum: &Optimum, epsilon: f64, eta: f64, b2: f64) -> Drift {
        let optimal = scaled_multipliers(task, &optimum.multipliers);
        let mut drift = Drift { visited: 0, holds: 0, fails_up_to: 0.0, radius: None, farthest: 0.0 };
        for visit in &self.policies {
            let subgradient: Vec<f64> = (0..task.len())
                .map(|i| (visit.values[i + 1] - task.bounds()[i]) / task.scales()[i])
                .collect();
            for multipliers in &visit.multipliers {
                let squared = multipliers.iter().zip(&optimal).map(|(l, o)| (l - o).powi(2));
                let distance = squared.sum::<f64>().sqrt();
                let holds = drift_holds(&subgradient, multipliers, &optimal, epsilon, eta, b2);
                drift.visited += 1;
                drift.holds += usize::from(holds);
                drift.farthest = drift.farthest.max(distance);
                if !holds {
                    drift.fails_up_to = drift.fails_up_to.max(distance);
                }
            }
        }
        drift
    }

    /// From state s an epoch of T steps averages V + (h − P^T h)/T, where h is the bias.
    fn bias(&mut self, task: &FiniteTask<'_>, longest: u64) -> Vec<EpochBias> {
        let (n, width) = (task.model().states(), task.len() + 1);
        let mut worst: Vec<EpochBias> =
            (1..=longest).map(|epoch| EpochBias { epoch, epsilon: 0.0, beta: 0.0 }).collect();
        for visit in &mut self.policies {
            // Many multipliers share a policy; β is convex in λ, so the extreme ones suffice.
            extremes(&mut visit.multipliers);
            let biases: Vec<Vec<f64>> = (0..width)
                .map(|i| {
                    let (_, bias) = visit.chain.gain_and_bias(&task.policy_rewards(&visit.actions, i));
                    bias.iter().map(|h| h / task.ranges()[i]).collect()
                })
                .collect();
            let mut ahead = biases.clone();
            for entry in &mut worst {
                for h in &mut ahead {
                    *h = (0..n).map(|s| visit.chain.expectation(s, h)).collect();
                }
                for s in (0..n).filter(|&s| task.structure().reachable[s]) {
                    let d = |i: usize| (biases[i][s] - ahead[i][s]) / entry.epoch as f64;
                    let norm = (1..width).map(|i| d(i).powi(2)).sum::<f64>().sqrt();
                    entry.epsilon = entry.epsilon.max(norm);
                    for multipliers in &visit.multipliers {
                        let weighted: f64 =
                            d(0) + multipliers.iter().enumerate().map(|(i, l)| l * d(i + 1)).sum::<f64>();
                        entry.beta = entry.beta.max(weighted.abs());
                    }
                }
            }
        }
        worst
    }

    fn switch_time(&self) -> Result<f64, Singular> {
        let mut longest: f64 = 0.0;
        for &(from, to) in &self.switches {
            let (from, to) = (&self.policies[from].chain, &self.policies[to].chain);
            let mut core = vec![false; self.policies[0].actions.len()];
            to.core(Assumptions::CORE).into_iter().for_each(|s| core[s] = true);
            let times = to.hitting_times(&core)?;
            longest = from.core(Assumptions::CORE).into_iter().map(|s| times[s]).fold(longest, f64::max);
        }
        Ok(longest)
    }
}

/// λ_i R_i/R₀: the multipliers of rewards divided by their ranges.
fn scaled_multipliers(task: &FiniteTask<'_>, multipliers: &Multipliers) -> Vec<f64> {
    let scales = multipliers.as_slice().iter().zip(task.scales());
    scales.map(|(l, r)| l * r / task.objective_scale()).collect()
}

/// Keeps the multipliers with the smallest and the largest entry in each coordinate and in sum.
fn extremes(multipliers: &mut Vec<Vec<f64>>) {
    let Some(m) = multipliers.first().map(Vec::len) else { return };
    let mut kept: Vec<Vec<f64>> = Vec::new();
    for i in 0..=m {
        let key = |l: &Vec<f64>| if i < m { l[i] } else { l.iter().sum() };
        let order = |a: &&Vec<f64>, b: &&Vec<f64>| key(a).total_cmp(&key(b));
        kept.extend(multipliers.iter().min_by(order).cloned());
        kept.extend(multipliers.iter().max_by(order).cloned());
    }
    kept.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    kept.dedup();
    *multipliers = kept;
}
