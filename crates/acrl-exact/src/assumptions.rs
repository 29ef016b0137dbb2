//! What the theorems need and promise, computed for a finite problem.
//!
//! Rewards are measured in units of their range (r_i/R_i), multipliers accordingly (λ_i R_i/R₀), as
//! the dual dynamics do: so a step size, B, C and ε mean the same on every problem.

use std::collections::HashSet;

use acrl::Multipliers;
use acrl::guarantees::{drift_holds, drift_radius, multiplier_bound, optimality_loss, squared_bound};

use crate::chain::Chain;
use crate::solve::SolveError;
use crate::{ExactPolicy, FiniteTask, Optimum, Singular, Slack, SolveOptions, most_slack};

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
    /// The longest expected number of steps that a visited change of rule takes: from where the old rule
    /// spends nine tenths of its time to where the new one does.
    pub switch_time: f64,
    /// The smallest T₀ with ε(T₀) ≤ C: long enough for the proof. `None` if it is longer than
    /// [`Assumptions::LONGEST`] or C is not positive.
    pub suggested_epoch: Option<u64>,
    /// η B²/2 at the step size examined, times R₀: the promised loss without β.
    pub loss: f64,
}

/// ε(T₀) and β(T₀) of Assumption 1: the worst over visited rules and states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochBias {
    /// T₀.
    pub epoch: u64,
    /// ‖E\[average of r over the epoch\] − V‖, in range units.
    pub epsilon: f64,
    /// The same for r_λ, in units of R₀, at the visited multipliers.
    pub beta: f64,
}

/// How Assumption 2 stands at the visited multipliers, with ε = C/2 and the step size examined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// How many multipliers were visited.
    pub visited: usize,
    /// At how many of them the drift points back to λ* strongly enough.
    pub holds: usize,
    /// The largest visited distance from λ* at which it does not.
    pub fails_up_to: f64,
    /// B_λ: from this distance on it holds everywhere; `None` if C is not positive.
    pub radius: Option<f64>,
    /// The largest distance from λ* visited.
    pub farthest: f64,
}

impl Assumptions {
    /// T₀ is examined up to here.
    pub const LONGEST: u64 = 1000;
    /// The share of time that makes the core of a rule.
    const CORE: f64 = 0.9;
    /// At most so many visited rules are examined.
    const RULES: usize = 64;

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
        let bound = slater.as_ref().filter(|_| constant > 0.0).map(|s| {
            multiplier_bound(optimum.upper / r0, s.values.objective() / r0, constant, step_size, b2)
        });

        let mut visits = Visits::new(task, visited, Self::RULES)?;
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

/// What Σ λ_i R_i may come to in an execution whose epoch is long enough: twice the Lemma's bound and
/// one step beyond, which leaves room for chance. `None` if there is no slack, and so no bound.
pub fn multiplier_reach(
    task: &FiniteTask<'_>,
    optimum: &Optimum,
    slack: &Slack,
    step_size: f64,
) -> Option<f64> {
    if slack.lower <= 1e-9 {
        return None;
    }
    let b2 = scaled_squared_bound(task);
    let r0 = task.objective_scale();
    let bound =
        multiplier_bound(optimum.upper / r0, slack.values.objective() / r0, slack.lower, step_size, b2);
    let step = step_size * (task.len() as f64 * b2).sqrt();
    Some(2.0 * r0 * (bound + step))
}

/// B² in units of ranges.
fn scaled_squared_bound(task: &FiniteTask<'_>) -> f64 {
    let scales = task.scales();
    let bounds: Vec<f64> = task.bounds().iter().zip(scales).map(|(c, r)| c / r).collect();
    let scaled = |r: Vec<f64>| -> Vec<f64> { r.iter().zip(scales).map(|(r, s)| r / s).collect() };
    squared_bound(task.reward_vectors().into_iter().map(scaled), &bounds)
}

/// The rules visited by an execution, with the multipliers at which each was in force.
struct Visits {
    rules: Vec<Visit>,
    /// Changes from one rule to another, by number.
    switches: HashSet<(usize, usize)>,
}

struct Visit {
    rule: Vec<usize>,
    chain: Chain,
    /// V₀ … V_m.
    values: Vec<f64>,
    /// λ R/R₀ at which it was used.
    multipliers: Vec<Vec<f64>>,
}

impl Visits {
    fn new(task: &FiniteTask<'_>, visited: &[Multipliers], limit: usize) -> Result<Self, Singular> {
        let mut policy = ExactPolicy::new(task);
        let mut visits = Self { rules: Vec::new(), switches: HashSet::new() };
        let mut previous = None;
        for multipliers in visited {
            let rule = policy.rule(multipliers)?.to_vec();
            let scaled = scaled_multipliers(task, multipliers);
            let known = visits.rules.iter().position(|visit| visit.rule == rule);
            let index = match known {
                Some(index) => index,
                None if visits.rules.len() >= limit => continue,
                None => {
                    let chain = Chain::of_rule(task.model(), &rule)?;
                    let values = task.values(&rule)?.as_slice().to_vec();
                    visits.rules.push(Visit { rule, chain, values, multipliers: Vec::new() });
                    visits.rules.len() - 1
                }
            };
            visits.rules[index].multipliers.push(scaled);
            if let Some(previous) = previous.replace(index).filter(|p| *p != index) {
                visits.switches.insert((previous, index));
            }
        }
        Ok(visits)
    }

    fn drift(&self, task: &FiniteTask<'_>, optimum: &Optimum, epsilon: f64, eta: f64, b2: f64) -> Drift {
        let optimal = scaled_multipliers(task, &optimum.multipliers);
        let mut drift = Drift { visited: 0, holds: 0, fails_up_to: 0.0, radius: None, farthest: 0.0 };
        for visit in &self.rules {
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
        let model = task.model();
        let (n, width) = (model.states(), task.len() + 1);
        let mut worst: Vec<EpochBias> =
            (1..=longest).map(|epoch| EpochBias { epoch, epsilon: 0.0, beta: 0.0 }).collect();
        for visit in &mut self.rules {
            // Many multipliers share a rule; β is convex in λ, so a few extreme ones tell.
            extremes(&mut visit.multipliers);
            let biases: Vec<Vec<f64>> = (0..width)
                .map(|i| {
                    let reward = |s: usize| task.rewards(model.choices(s).start + visit.rule[s])[i];
                    let rewards: Vec<f64> = (0..n).map(reward).collect();
                    let scale = task.ranges()[i];
                    visit.chain.gain_and_bias(&rewards).1.iter().map(|h| h / scale).collect()
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
            let (from, to) = (&self.rules[from].chain, &self.rules[to].chain);
            let mut settled = vec![false; self.rules[0].rule.len()];
            to.core(Assumptions::CORE).into_iter().for_each(|s| settled[s] = true);
            let times = to.hitting_times(&settled)?;
            longest = from.core(Assumptions::CORE).into_iter().map(|s| times[s]).fold(longest, f64::max);
        }
        Ok(longest)
    }
}

/// λ_i R_i/R₀: multipliers as they are when every reward is divided by its range.
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
