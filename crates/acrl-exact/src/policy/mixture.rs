//! Executor of a plan: shares of time that follow the multipliers.

use acrl::mixture::elastic_mixture;
use acrl::{DualDynamics, FinitePolicy, Multipliers, Rng};
use serde::{Deserialize, Serialize};

use super::ExecutionPlan;
use super::plan::{PlannedComponent, mixed};
use crate::tuning::{ROUNDS, SHORTEST_TURN};

/// A group of policies that acts as one, and for how many steps.
type Turn = (Vec<usize>, u64);

/// Division of an epoch.
struct Division {
    /// Share of each policy.
    weights: Vec<f64>,
    turns: Vec<Turn>,
    /// Objective per step, less what changes of policy and shortfalls cost of it.
    value: f64,
}

impl Division {
    /// Gives a turn another number of steps.
    fn extend(&mut self, turn: usize, steps: u64) {
        let (group, before) = &mut self.turns[turn];
        let factor = steps as f64 / *before as f64;
        group.iter().for_each(|&j| self.weights[j] *= factor);
        *before = steps;
    }
}

/// Executor of an [`ExecutionPlan`].
///
/// At the beginning of an epoch of T steps the multipliers say how much of each reward is missing, D = (λ − λ*)/α. The
/// shares w of the epoch are the best that make up for it,
///
/// > max Σ w_j V₀_j such that Σ w_j V_j ≥ c + D/T,
///
/// so that shares are solved for again and again (re-solving; Jasin & Kumar 2012), or, if no shares suffice, those
/// which come closest. Policies that share states act as one randomised policy, which draws policy j in state s with
/// odds w_j x_j(s), where x_j is its occupancy measure: the occupancy measure then is Σ w_j x_j. The others act one
/// after the other, in an order that turns around from epoch to epoch.
#[derive(Debug, Clone)]
pub struct MixtureExecutor<'p> {
    plan: &'p ExecutionPlan,
    state: MixtureState,
}

/// State of a [`MixtureExecutor`], apart from its plan: plain data, with which
/// [`MixtureExecutor::resume`] continues bit-identically.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureState {
    component: Option<usize>,
    /// T and D of the present epoch.
    length: u64,
    window: f64,
    deficits: Vec<f64>,
    /// Turns that are left in this epoch, the next one last.
    turns: Vec<Turn>,
    /// Policies that act now.
    acting: Vec<usize>,
    weights: Vec<f64>,
    left: u64,
}

impl<'p> MixtureExecutor<'p> {
    /// Executor before its first step.
    pub fn new(plan: &'p ExecutionPlan) -> Self {
        let state = MixtureState {
            length: 1,
            window: 1.0,
            deficits: vec![0.0; plan.bounds.len()],
            ..MixtureState::default()
        };
        Self { plan, state }
    }

    /// Executor that continues from a state; the error states why the state does not fit the plan.
    pub fn resume(plan: &'p ExecutionPlan, state: MixtureState) -> Result<Self, String> {
        state.check(plan)?;
        Ok(Self { plan, state })
    }

    /// State after the steps so far.
    pub fn into_state(self) -> MixtureState {
        self.state
    }

    /// Decides on the turns of this epoch.
    fn resolve(&mut self, component: usize) {
        let planned = &self.plan.components[component];
        let mut usable = vec![true; planned.values.len()];
        let mut kept = vec![false; planned.values.len()];
        let Some(mut best) = self.division(planned, &usable) else {
            self.state.left = u64::MAX;
            return;
        };
        // A turn may not be worth the changes that it brings.
        while let Some(policies) = shortest(&best, &kept) {
            policies.iter().for_each(|&j| usable[j] = false);
            match self.division(planned, &usable).filter(|without| without.value >= best.value) {
                Some(without) => best = without,
                None => policies.iter().for_each(|&j| (usable[j], kept[j]) = (true, true)),
            }
        }
        self.state.weights = best.weights;
        self.state.turns = best.turns;
        self.state.turns.reverse();
        self.next();
    }

    /// The best division of the epoch among usable policies; `None` if there are none.
    fn division(&self, planned: &PlannedComponent, usable: &[bool]) -> Option<Division> {
        let numbers: Vec<usize> = (0..usable.len()).filter(|&j| usable[j]).collect();
        let values: Vec<&[f64]> = numbers.iter().map(|&j| &planned.values[j][..]).collect();
        let length = self.state.length as f64;
        let mut missing = planned.missing.clone();
        let mut best = None;
        // What changes of policy miss depends on the shares, and the other way round.
        for _ in 0..ROUNDS {
            let target = |(i, c): (usize, &f64)| {
                c + (self.state.deficits[i] + planned.margin[i]) / self.state.window + missing[i + 1] / length
            };
            let targets: Vec<f64> = self.plan.bounds.iter().enumerate().map(target).collect();
            let solved = elastic_mixture(&values, &targets, &self.plan.prices)?;
            let mut weights = vec![0.0; usable.len()];
            numbers.iter().zip(solved.weights).for_each(|(&j, w)| weights[j] = w);
            let turns = self.turns(planned, &weights);
            let mut division = Division { weights, turns, value: 0.0 };
            self.lengthen(planned, &mut division);
            let now = self.missing(planned, &division);
            let attained = mixed(&planned.values, &division.weights);
            let short = |(i, target): (usize, &f64)| {
                let target = target + (now[i + 1] - missing[i + 1]) / length;
                self.plan.prices[i] * (target - attained[i + 1]).max(0.0)
            };
            let shortfalls: f64 = targets.iter().enumerate().map(short).sum();
            division.value = attained[0] - now[0] / length - shortfalls;
            best = Some(division);
            if now == missing {
                break;
            }
            missing = now;
        }
        best
    }

    /// Groups of policies that take turns and their steps, beginning near the policies that act now.
    fn turns(&self, planned: &PlannedComponent, weights: &[f64]) -> Vec<Turn> {
        let mut groups = planned.groups(weights);
        let way = |group| planned.between(&self.state.acting, group, weights, |j, l| planned.travel[j][l]);
        if let (Some(first), Some(last)) = (groups.first(), groups.last())
            && way(last) < way(first)
        {
            groups.reverse();
        }
        let share = |group: &[usize]| group.iter().map(|&j| weights[j]).sum::<f64>();
        let (mut until, mut taken) = (0.0, 0);
        let mut turns = Vec::new();
        for group in groups {
            until += share(&group) * self.state.length as f64;
            let steps = (until.round() as u64).saturating_sub(taken);
            taken += steps;
            if steps > 0 {
                turns.push((group, steps));
            }
        }
        turns
    }

    /// Expected steps on the way to each turn.
    fn ways(&self, planned: &PlannedComponent, division: &Division) -> Vec<f64> {
        let before = std::iter::once(&self.state.acting).chain(division.turns.iter().map(|(group, _)| group));
        let changes = before.zip(&division.turns);
        let way = |(from, (to, _)): (&Vec<usize>, &Turn)| {
            planned.between(from, to, &division.weights, |j, l| planned.travel[j][l])
        };
        changes.map(way).collect()
    }

    /// Lengthens turns that are hardly longer than the way there, at the expense of the longest one.
    fn lengthen(&self, planned: &PlannedComponent, division: &mut Division) {
        let ways = self.ways(planned, division);
        let Some(longest) = (0..ways.len()).max_by_key(|&i| division.turns[i].1) else { return };
        for i in (0..ways.len()).filter(|&i| i != longest) {
            let wanted = (SHORTEST_TURN * ways[i]).ceil() as u64;
            let more = wanted.saturating_sub(division.turns[i].1).min(division.turns[longest].1);
            division.extend(i, division.turns[i].1 + more);
            division.extend(longest, division.turns[longest].1 - more);
        }
    }

    /// r₀ … r_m that the changes of policy of this epoch miss on average.
    fn missing(&self, planned: &PlannedComponent, division: &Division) -> Vec<f64> {
        if planned.transients.is_empty() {
            return planned.missing.clone();
        }
        let mut missing = vec![0.0; planned.missing.len()];
        let mut from = &self.state.acting;
        for (group, _) in &division.turns {
            for (i, missing) in missing.iter_mut().enumerate() {
                *missing +=
                    planned.between(from, group, &division.weights, |j, l| planned.transients[j][l][i]);
            }
            from = group;
        }
        missing
    }

    /// Starts the next turn; the last one goes on if none is left.
    fn next(&mut self) {
        match self.state.turns.pop() {
            Some((group, steps)) => {
                self.state.acting = group;
                self.state.left = steps;
            }
            None => self.state.left = u64::MAX,
        }
    }
}

/// Policies of the shortest of several turns, less those that are to be kept.
fn shortest(division: &Division, kept: &[bool]) -> Option<Vec<usize>> {
    let open = division.turns.iter().filter(|(group, _)| !group.iter().all(|&j| kept[j]));
    let shortest = open.min_by_key(|(_, steps)| *steps).filter(|_| division.turns.len() > 1);
    shortest.map(|(group, _)| group.clone())
}

impl MixtureState {
    /// Tests that the state fits a plan; the error states why not.
    fn check(&self, plan: &ExecutionPlan) -> Result<(), String> {
        let unfit = |what: &str| Err(format!("the state does not fit the plan: {what}"));
        if self.deficits.len() != plan.bounds.len()
            || self.window.is_nan()
            || self.window <= 0.0
            || self.length == 0
        {
            return unfit("its deficits or its epoch");
        }
        let Some(component) = self.component else { return Ok(()) };
        let policies = plan.components.get(component).map_or(0, |planned| planned.values.len());
        let mut used = self.turns.iter().flat_map(|(group, _)| group).chain(&self.acting);
        if self.weights.len() != policies || used.any(|&j| j >= policies) {
            return unfit(&format!("its {} policies, expected {policies}", self.weights.len()));
        }
        Ok(())
    }
}

impl FinitePolicy for MixtureExecutor<'_> {
    #[inline]
    fn act(&mut self, state: usize, _: &Multipliers, rng: &mut Rng) -> usize {
        let plan = self.plan;
        if self.state.component.is_none() {
            self.state.component = plan.settle(state);
            match self.state.component {
                Some(component) => self.resolve(component),
                None => return plan.journey.get(state).map_or(0, |&action| action as usize),
            }
        }
        if self.state.left == 0 {
            self.next();
        }
        self.state.left -= 1;
        let Some(&first) = self.state.acting.first() else { return 0 };
        let action = plan.policies[first][state];
        if self.state.acting[1..].iter().all(|&j| plan.policies[j][state] == action) {
            return action as usize;
        }
        self.draw(state, rng)
    }

    fn begin_epoch(&mut self, dynamics: &DualDynamics) {
        (self.state.length, self.state.window) = (dynamics.epoch_length(), dynamics.window());
        self.state.deficits = dynamics.deficits();
        if let Some(component) = self.state.component {
            self.resolve(component);
        }
    }
}

impl MixtureExecutor<'_> {
    /// Action of one of the acting policies, drawn with the odds w_j x_j(s).
    fn draw(&self, state: usize, rng: &mut Rng) -> usize {
        let plan = self.plan;
        let occupancy = &plan.components[self.state.component.unwrap_or(0)].occupancy;
        let odds = |&j: &usize| self.state.weights[j] * occupancy.get(j).map_or(0.0, |x| x[state]);
        let total: f64 = self.state.acting.iter().map(odds).sum();
        let chosen = if total > 0.0 {
            let mut u = rng.uniform() * total;
            let drawn = self.state.acting.iter().find(|j| {
                u -= odds(j);
                u < 0.0
            });
            drawn.or(self.state.acting.last())
        } else {
            // On the way to states that the policies share.
            self.state
                .acting
                .iter()
                .max_by(|&&a, &&b| self.state.weights[a].total_cmp(&self.state.weights[b]))
        };
        chosen.map_or(0, |&j| plan.policies[j][state] as usize)
    }
}
