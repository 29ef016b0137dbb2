//! Plan of one end component: its policies, how far they are apart, and how long epochs are.

use acrl::FiniteCmdp;

use super::lead_home::WayHome;
use super::plan::{PlannedComponent, mixed};
use super::{Executable, ExecutableComponent, PlanOptions, Realisation};
use crate::almost_sure::restrict;
use crate::evaluation::chain::Chain;
use crate::pricing::maximise_from;
use crate::tolerances::{BINDING, LEAD_HOME_COST, LEAST_SHORTFALL_ODDS, SAME_POLICY};
use crate::tuning::{
    CORE_SHARE, CORRECTION_PRICES, LARGE_FOR_CORRECTIONS, LONGEST_CYCLE, OPEN_ENDED_LONGEST, PLANNED_STATES,
    SHORTEST_EPOCH, SLOW_MIXING, SWITCHING_LOSS, TRANSIENT_SHARE, UNPLANNED_BASE, UNPLANNED_PER_SIDE,
};
use crate::{FiniteTask, Singular, SolveError};

/// Plans one component of a solution. The actions of its policies are replaced in `policies` by those that lead to
/// their recurrent classes, and policies are added that correct chance.
pub(super) fn plan_component(
    task: &FiniteTask<'_>,
    answer: &Executable,
    component: &ExecutableComponent,
    number: usize,
    policies: &mut Vec<Vec<u32>>,
    (options, prices): (&PlanOptions<'_>, &[f64]),
) -> Result<PlannedComponent, SolveError> {
    let n = task.model().states();
    if n > PLANNED_STATES {
        return Ok(unplanned(n, component, options));
    }
    if answer.component_of.is_empty() {
        let actions = |j: usize| policies[j].iter().map(|&a| a as usize).collect();
        let start = (0..component.weights.len()).map(actions).collect();
        let (planned, all) = Planner { task, model: task.model(), component, prices }.plan(start, options)?;
        for (j, policy) in all.iter().enumerate() {
            let actions = policy.actions.iter().map(|&a| a as u32).collect();
            if j == policies.len() { policies.push(actions) } else { policies[j] = actions }
        }
        return Ok(planned);
    }
    let states: Vec<usize> = (0..n).filter(|&s| answer.component_of[s] == number as u32).collect();
    let (model, kept) = restrict(task.model(), &states)?;
    let restricted = FiniteTask::new(&model, task.specification())?;
    let position = |i: usize, a: u32| kept[i].iter().position(|&k| k == a).unwrap_or(0);
    let actions = |j: usize| states.iter().enumerate().map(|(i, &s)| position(i, policies[j][s])).collect();
    let start = (0..component.weights.len()).map(actions).collect();
    let (mut planned, all) =
        Planner { task: &restricted, model: &model, component, prices }.plan(start, options)?;
    for (j, policy) in all.iter().enumerate() {
        if j == policies.len() {
            policies.push(vec![0; n]);
        }
        planned.occupancy[j] = vec![0.0; n];
        for (i, &s) in states.iter().enumerate() {
            policies[j][s] = kept[i][policy.actions[i]];
            planned.occupancy[j][s] = policy.occupancy[i];
        }
    }
    Ok(planned)
}

/// Plan of a model that is too large to look at its policies: a change takes about as long as crossing the model.
fn unplanned(states: usize, component: &ExecutableComponent, options: &PlanOptions<'_>) -> PlannedComponent {
    let guess = UNPLANNED_BASE + UNPLANNED_PER_SIDE * (states as f64).sqrt();
    let policies = component.weights.len();
    let mut planned = PlannedComponent::new(component, options);
    planned.travel = vec![vec![guess; policies]; policies];
    planned.start = shortest(&planned, options);
    planned.sufficient = u64::MAX;
    planned
}

impl PlannedComponent {
    fn new(component: &ExecutableComponent, options: &PlanOptions<'_>) -> Self {
        Self {
            values: component.values.clone(),
            weights: component.weights.clone(),
            occupancy: Vec::new(),
            travel: Vec::new(),
            transients: Vec::new(),
            order: (0..component.weights.len()).collect(),
            margin: vec![0.0; component.multipliers.len()],
            missing: vec![0.0; component.multipliers.len() + 1],
            combines: options.realisation != Some(Realisation::TimeSharing),
            start: SHORTEST_EPOCH,
            sufficient: u64::MAX,
            correction_time: f64::INFINITY,
            change_correction_time: 0.0,
            mass: component.mass,
        }
    }
}

/// Planner of one end component, on a model that is that component, perhaps with states that lead there.
struct Planner<'a, 't> {
    task: &'a FiniteTask<'t>,
    model: &'t FiniteCmdp,
    component: &'a ExecutableComponent,
    /// What a shortfall may cost of the objective, by requirement.
    prices: &'a [f64],
}

/// Deterministic policy of a plan.
struct Planned {
    actions: Vec<usize>,
    weight: f64,
    values: Vec<f64>,
    /// Long-run frequency of each state.
    occupancy: Vec<f64>,
    /// Asymptotic standard deviation of the sum of each requirement's reward, per square root of a step.
    deviations: Vec<f64>,
    /// Bias of r₀ … r_m, 0 on average over the long run.
    biases: Vec<Vec<f64>>,
    /// Excess variance of the sum of each requirement's reward from each state on, beside that of the long run: the bias
    /// of the variance of r(s) + h(s') − h(s).
    excess_variances: Vec<Vec<f64>>,
    chain: Chain,
}

impl Planner<'_, '_> {
    fn plan(
        &self,
        start: Vec<Vec<usize>>,
        options: &PlanOptions<'_>,
    ) -> Result<(PlannedComponent, Vec<Planned>), Singular> {
        let mut planned = PlannedComponent::new(self.component, options);
        let mut all = Vec::new();
        for (j, actions) in start.into_iter().enumerate() {
            all.push(self.policy(actions, self.component.weights[j], &self.component.values[j])?);
        }
        self.add_corrections(&mut all)?;
        planned.values = all.iter().map(|p| p.values.clone()).collect();
        planned.weights = all.iter().map(|p| p.weight).collect();
        planned.travel = travel(&all)?;
        planned.occupancy = all.iter().map(|p| p.occupancy.clone()).collect();
        planned.order = self.order(&planned.travel, &all)?;
        let mut deviations = self.deviations(&all);
        let groups = planned.groups(&planned.weights);
        if groups.iter().any(|group| group.len() > 1) {
            let combined = self.combined_deviations(&all, &groups)?;
            let longest = options.steps.map_or(OPEN_ENDED_LONGEST, |n| n / 100) as f64;
            let times = self.correction_times(&planned, &combined).into_iter();
            let mut times = times.zip(self.correction_times(&planned, &deviations));
            let slow = times.any(|(combined, apart)| combined > (SLOW_MIXING * apart).max(longest));
            if slow && options.realisation != Some(Realisation::Stationary) {
                planned.combines = false;
            } else {
                deviations = combined;
            }
        }
        planned.transients = transients(&all);
        let transients = of_epoch(&planned, &planned.transients);
        let of_changes = of_epoch(&planned, &change_variances(&all));
        let of_changes: Vec<f64> = of_changes.iter().map(|v| v.max(0.0).sqrt()).collect();
        let times = self.correction_times(&planned, &deviations);
        planned.start = shortest(&planned, options);
        planned.sufficient = self.sufficient(&planned, &transients).ceil().min(1e18) as u64;
        planned.correction_time = times.iter().copied().fold(0.0, f64::max);
        planned.change_correction_time =
            self.correction_times(&planned, &of_changes).into_iter().fold(0.0, f64::max).sqrt();
        for (i, time) in times.into_iter().enumerate() {
            let odds = self.shortfall_odds(i);
            let deviation = deviations[i] * time.max(planned.start as f64).sqrt();
            let of_changes = (-odds.ln() - 1.0).max(0.0) * of_changes[i];
            planned.margin[i] = (normal_quantile(odds) * deviation).hypot(of_changes);
        }
        planned.missing = transients;
        Ok((planned, all))
    }

    /// Policy with its recurrent class, to which its actions elsewhere lead.
    fn policy(&self, mut actions: Vec<usize>, weight: f64, values: &[f64]) -> Result<Planned, Singular> {
        let (model, task) = (self.model, self.task);
        let n = model.states();
        let chain = Chain::of_actions(model, &actions)?;
        let terms: Vec<(Vec<f64>, Vec<f64>)> =
            (0..=task.len()).map(|i| chain.gain_and_bias(&task.policy_rewards(&actions, i))).collect();
        let ranges = task.ranges();
        let distance = |s: usize| -> f64 {
            terms.iter().zip(values).zip(ranges).map(|(((g, _), v), r)| ((g[s] - v) / r).abs()).sum()
        };
        let (states, stationary) = chain
            .stationary()
            .min_by(|(a, _), (b, _)| distance(a[0]).total_cmp(&distance(b[0])))
            .ok_or(Singular)?;
        let (mut occupancy, mut class) = (vec![0.0; n], vec![false; n]);
        states.iter().zip(stationary).for_each(|(&s, &x)| (occupancy[s], class[s]) = (x, true));
        let values: Vec<f64> = terms.iter().map(|(g, _)| g[states[0]]).collect();
        // The sum of a reward over n steps has the variance n Σ x (2 (r − g) h − (r − g)²).
        let deviation = |i: usize| {
            let (g, h) = &terms[i];
            let term = |&s: &usize| {
                let r = task.rewards(model.choices(s).start + actions[s])[i] - g[s];
                occupancy[s] * (2.0 * r * h[s] - r * r)
            };
            states.iter().map(term).sum::<f64>().max(0.0).sqrt()
        };
        let deviations = (1..=task.len()).map(deviation).collect();
        // No policy of the component has a larger gain, so that staying outside the class costs something.
        let gain = self.gain();
        let ranges = self.lagrangian(ranges);
        let step = if ranges > 0.0 { LEAD_HOME_COST * ranges } else { 1.0 };
        let costs: Vec<f64> =
            (0..model.choice_count()).map(|c| gain - self.lagrangian(task.rewards(c))).collect();
        let bias = |s: usize| self.lagrangian(&terms.iter().map(|(_, h)| h[s]).collect::<Vec<_>>());
        let worth: Vec<f64> = (0..n).map(|s| if class[s] { bias(s) } else { 0.0 }).collect();
        let way = WayHome { model, class: &class, costs: &costs, worth: &worth, price: step };
        let before = actions.clone();
        way.lead(&mut actions);
        let (chain, biases): (Chain, Vec<Vec<f64>>) = if actions == before {
            (chain, terms.into_iter().map(|(_, h)| h).collect())
        } else {
            let chain = Chain::of_actions(model, &actions)?;
            let bias = |i| chain.gain_and_bias(&task.policy_rewards(&actions, i)).1;
            let biases = (0..=task.len()).map(bias).collect();
            (chain, biases)
        };
        let excess = |h: &Vec<f64>| {
            let squares: Vec<f64> = h.iter().map(|h| h * h).collect();
            let variance = |s| chain.expectation(s, &squares) - chain.expectation(s, h).powi(2);
            chain.gain_and_bias(&(0..n).map(variance).collect::<Vec<_>>()).1
        };
        let excess_variances = biases[1..].iter().map(excess).collect();
        Ok(Planned { actions, weight, values, occupancy, deviations, biases, excess_variances, chain })
    }

    /// v₀ + Σ λ*_i v_i.
    fn lagrangian(&self, v: &[f64]) -> f64 {
        let objective = if self.task.has_objective() { v[0] } else { 0.0 };
        objective + self.component.multipliers.iter().zip(&v[1..]).map(|(l, v)| l * v).sum::<f64>()
    }

    /// The largest gain of the Lagrangian at λ*, which the mixture attains.
    fn gain(&self) -> f64 {
        self.lagrangian(&mixed(&self.component.values, &self.component.weights))
    }

    /// Adds policies that make up for chance at little cost: of the maximisers at other prices of each bound that
    /// binds, those that are new.
    fn add_corrections(&self, all: &mut Vec<Planned>) -> Result<(), Singular> {
        let task = self.task;
        let optimum = mixed(&self.component.values, &self.component.weights);
        let heaviest = all.iter().max_by(|a, b| a.weight.total_cmp(&b.weight));
        let Some(first) = heaviest.map(|p| p.actions.clone()) else { return Ok(()) };
        let prices = if self.model.states() > LARGE_FOR_CORRECTIONS {
            &CORRECTION_PRICES[CORRECTION_PRICES.len() - 2..]
        } else {
            &CORRECTION_PRICES[..]
        };
        for i in (0..task.len()).filter(|&i| self.binds(i, &optimum)) {
            for &factor in prices {
                let mut weights = vec![if task.has_objective() { 1.0 } else { 0.0 }];
                weights.extend_from_slice(&self.component.multipliers);
                let price = &mut weights[i + 1];
                if factor.is_finite() {
                    let unit = task.objective_scale() / task.scales()[i];
                    *price = if *price > 0.0 { *price * factor } else { unit * (factor - 1.0).max(0.0) };
                } else {
                    weights.fill(0.0);
                    weights[i + 1] = 1.0;
                }
                let best = maximise_from(task, &weights, first.clone())?;
                let values = best.values(task)?;
                let policy = self.policy(best.actions, 0.0, values.as_slice())?;
                let same = |other: &Planned| {
                    let pairs = other.values.iter().zip(&policy.values).zip(task.ranges());
                    pairs.into_iter().all(|((a, b), r)| (a - b).abs() <= SAME_POLICY * r)
                };
                if !all.iter().any(same) {
                    all.push(policy);
                }
            }
        }
        Ok(())
    }

    /// Whether a bound is attained with equality, or has a price.
    fn binds(&self, i: usize, optimum: &[f64]) -> bool {
        let room = optimum[i + 1] - self.task.bounds()[i];
        self.component.multipliers[i] > 0.0 || room < BINDING * self.task.scales()[i]
    }

    /// Order in which the policies take turns: each is followed by the one that is reached soonest, starting from the
    /// one that is reached soonest from the initial states.
    fn order(&self, travel: &[Vec<f64>], all: &[Planned]) -> Result<Vec<usize>, Singular> {
        let mut rest: Vec<usize> = (0..all.len()).collect();
        let mut order = Vec::new();
        let mut distance = Vec::new();
        for policy in all {
            let times = policy.chain.hitting_times(&core(policy))?;
            distance.push(self.model.initial().iter().map(|(s, p)| p * times[*s]).sum::<f64>());
        }
        while !rest.is_empty() {
            let from = order.last().map_or(&distance, |&last: &usize| &travel[last]);
            let next = (0..rest.len()).min_by(|&a, &b| from[rest[a]].total_cmp(&from[rest[b]])).unwrap_or(0);
            order.push(rest.remove(next));
        }
        Ok(order)
    }

    /// Deviations of the mixture whose policies act one after the other.
    fn deviations(&self, all: &[Planned]) -> Vec<f64> {
        let variance = |i: usize| all.iter().map(|p| p.weight * p.deviations[i].powi(2)).sum::<f64>();
        (0..self.task.len()).map(|i| variance(i).sqrt()).collect()
    }

    /// The same if the policies of each group are combined to a randomised policy.
    fn combined_deviations(&self, all: &[Planned], groups: &[Vec<usize>]) -> Result<Vec<f64>, Singular> {
        let mut variances = vec![0.0; self.task.len()];
        for group in groups {
            let share: f64 = group.iter().map(|&j| all[j].weight).sum();
            let of_group = if let [j] = group[..] {
                all[j].deviations.clone()
            } else {
                self.deviations_of_group(all, group)?
            };
            variances.iter_mut().zip(of_group).for_each(|(sum, d)| *sum += share * d * d);
        }
        Ok(variances.into_iter().map(f64::sqrt).collect())
    }

    /// Deviations, as of a single policy, of the randomised policy that policies are combined to.
    fn deviations_of_group(&self, all: &[Planned], group: &[usize]) -> Result<Vec<f64>, Singular> {
        let (model, task) = (self.model, self.task);
        let mut weights = vec![0.0; model.choice_count()];
        for s in 0..model.states() {
            let total: f64 = group.iter().map(|&j| all[j].weight * all[j].occupancy[s]).sum();
            for &j in group {
                let odds = if total > 0.0 {
                    all[j].weight * all[j].occupancy[s] / total
                } else {
                    f64::from(u8::from(j == group[0]))
                };
                weights[model.choices(s).start + all[j].actions[s]] += odds;
            }
        }
        let chain = Chain::of_weights(model, &weights)?;
        let Some((states, stationary)) = chain
            .stationary()
            .find(|(states, _)| states.iter().any(|&s| group.iter().any(|&j| all[j].occupancy[s] > 0.0)))
        else {
            return Err(Singular);
        };
        let choices = |s: usize| model.choices(s).filter(|&c| weights[c] > 0.0);
        let deviation = |i: usize| {
            let rewards: Vec<f64> = (0..model.states())
                .map(|s| choices(s).map(|c| weights[c] * task.rewards(c)[i]).sum())
                .collect();
            let (g, h) = chain.gain_and_bias(&rewards);
            // r + h at the next state, less g and h: independent increments.
            let increment = |c: usize, s: usize, t: usize| task.rewards(c)[i] - g[s] + h[t] - h[s];
            let variance = |s: usize| -> f64 {
                let of_choice = |c: usize| -> f64 {
                    let choice = model.choice(c);
                    let targets = choice.targets.iter().zip(choice.probabilities);
                    weights[c] * targets.map(|(&t, p)| p * increment(c, s, t as usize).powi(2)).sum::<f64>()
                };
                choices(s).map(of_choice).sum()
            };
            states.iter().zip(stationary).map(|(&s, x)| x * variance(s)).sum::<f64>().sqrt()
        };
        Ok((1..=task.len()).map(deviation).collect())
    }

    /// Probability of a shortfall at which a margin is worth what it costs: λ* over the price of a shortfall (the
    /// newsvendor's critical ratio). Margins are quantiles at it, of a normal distribution for the sum of many rewards,
    /// and of an exponential one for what a change misses.
    fn shortfall_odds(&self, i: usize) -> f64 {
        (self.component.multipliers[i] / self.prices[i]).clamp(LEAST_SHORTFALL_ODDS, 0.5)
    }

    /// Number of steps within which each requirement's standard deviation can be made up for.
    fn correction_times(&self, planned: &PlannedComponent, deviations: &[f64]) -> Vec<f64> {
        let optimum = mixed(&planned.values, &planned.weights);
        let time = |i: usize| {
            let most = planned.values.iter().map(|v| v[i + 1]).fold(f64::NEG_INFINITY, f64::max);
            let correction = most - self.task.bounds()[i];
            let corrects = correction > 0.0 && self.binds(i, &optimum);
            if corrects { (deviations[i] / correction).powi(2) } else { 0.0 }
        };
        (0..self.task.len()).map(time).collect()
    }

    /// Epoch in which changes of policy cost next to nothing of the objective and of the requirements.
    fn sufficient(&self, planned: &PlannedComponent, transients: &[f64]) -> f64 {
        let task = self.task;
        let optimum = mixed(&planned.values, &planned.weights);
        let worth = if task.has_objective() { optimum[0].abs() } else { 1.0 };
        let negligible = SWITCHING_LOSS * worth.max(SWITCHING_LOSS * task.objective_scale());
        let mut steps = (self.lagrangian(transients) / negligible).max(for_turns(planned));
        for i in 1..=task.len() {
            // Twice the mean deviation of the averages in the mixture: the range, if there are two equal shares.
            let of_mixture = planned.values.iter().zip(&planned.weights);
            let spread = 2.0 * of_mixture.map(|(v, w)| w * (v[i] - optimum[i]).abs()).sum::<f64>();
            if spread > 0.0 {
                steps = steps.max(transients[i].abs() / (TRANSIENT_SHARE * spread));
            }
        }
        steps
    }
}

/// z with P(Z > z) = p ≤ 1/2, within 0.0005 (Abramowitz & Stegun 1964, 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    let over = 2.515517 + t * (0.802853 + t * 0.010328);
    (t - over / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))).max(0.0)
}

/// r₀ … r_m that a change from each policy to each other one misses on average.
fn transients(all: &[Planned]) -> Vec<Vec<Vec<f64>>> {
    let missed = |from: &Planned, to: &Planned| {
        let of = |bias: &Vec<f64>| -from.occupancy.iter().zip(bias).map(|(x, h)| x * h).sum::<f64>();
        to.biases.iter().map(of).collect()
    };
    all.iter().map(|from| all.iter().map(|to| missed(from, to)).collect()).collect()
}

/// Variance of r₁ … r_m that a change from each policy to each other one misses.
fn change_variances(all: &[Planned]) -> Vec<Vec<Vec<f64>>> {
    let variance = |from: &Planned, to: &Planned| {
        let expected = |x: &dyn Fn(usize) -> f64| -> f64 {
            from.occupancy.iter().enumerate().map(|(s, share)| share * x(s)).sum()
        };
        let of = |(h, excess): (&Vec<f64>, &Vec<f64>)| {
            let mean = expected(&|s| h[s]);
            expected(&|s| excess[s] + (h[s] - mean).powi(2))
        };
        to.biases[1..].iter().zip(&to.excess_variances).map(of).collect()
    };
    all.iter().map(|from| all.iter().map(|to| variance(from, to)).collect()).collect()
}

/// Sum of quantities over the changes of policy of an epoch of the optimum, in an order that turns around from epoch to
/// epoch; `of_change` has them for each pair of policies.
fn of_epoch(planned: &PlannedComponent, of_change: &[Vec<Vec<f64>>]) -> Vec<f64> {
    let groups = planned.groups(&planned.weights);
    let change = |from: &[usize], to: &[usize], i: usize| {
        planned.between(from, to, &planned.weights, |j, l| of_change[j][l][i])
    };
    let of = |i: usize| {
        let both = |pair: &[Vec<usize>]| change(&pair[0], &pair[1], i) + change(&pair[1], &pair[0], i);
        groups.windows(2).map(both).sum::<f64>() / 2.0
    };
    let quantities = of_change.first().and_then(|row| row.first()).map_or(0, Vec::len);
    (0..quantities).map(of).collect()
}

/// Epoch in which changes of policy do not take up the time.
fn for_turns(planned: &PlannedComponent) -> f64 {
    let mut steps = 0.0_f64;
    for pair in planned.groups(&planned.weights).windows(2) {
        let travel = 2.0 * planned.travel_between(&pair[0], &pair[1]);
        for group in pair {
            let weight: f64 = group.iter().map(|&j| planned.weights[j]).sum();
            steps = steps.max((travel / weight).min(LONGEST_CYCLE * travel));
        }
    }
    steps
}

/// The shortest epoch: one change of policy.
fn shortest(planned: &PlannedComponent, options: &PlanOptions<'_>) -> u64 {
    let limit = options.steps.map_or(OPEN_ENDED_LONGEST, |n| (n / 8).max(1));
    planned.change().max(SHORTEST_EPOCH).min(limit)
}

/// Expected steps from each policy in its long run until the core of each other one.
fn travel(all: &[Planned]) -> Result<Vec<Vec<f64>>, Singular> {
    let mut travel = vec![vec![0.0; all.len()]; all.len()];
    for (l, to) in all.iter().enumerate() {
        let times = to.chain.hitting_times(&core(to))?;
        for (j, from) in all.iter().enumerate().filter(|(j, _)| *j != l) {
            let steps = from.occupancy.iter().zip(&times).filter(|(x, _)| **x > 0.0);
            travel[j][l] = steps.map(|(x, t)| x * t.min(f64::MAX)).sum();
        }
    }
    Ok(travel)
}

/// Likeliest states of a policy.
fn core(policy: &Planned) -> Vec<bool> {
    let mut order: Vec<usize> = (0..policy.occupancy.len()).collect();
    order.sort_by(|&a, &b| policy.occupancy[b].total_cmp(&policy.occupancy[a]));
    let (mut core, mut mass) = (vec![false; order.len()], 0.0);
    for s in order {
        if mass >= CORE_SHARE {
            break;
        }
        mass += policy.occupancy[s];
        core[s] = true;
    }
    core
}
