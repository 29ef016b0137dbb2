//! Time sharing of the entries of a policy library: shares of an epoch that make up for what is missing.

use serde::{Deserialize, Serialize};

use crate::mixture::elastic_mixture;
use crate::{DualDynamics, EpochSchedule, LibraryEntry, PolicyLibrary};

/// Turns of the entries of a library within an epoch.
///
/// At the beginning of an epoch of T steps the multipliers say how much of each reward is missing, D = (λ − λ*)/α. The
/// shares w of the epoch are those of the best mixture that makes up for it within the window W,
///
/// > max Σ w_j V₀_j such that Σ w_j V_j ≥ c + D/W + d/T,
///
/// where d is what the changes of policy of the epoch miss, as far as it was measured: the shares are solved for again in
/// each epoch (re-solving; Jasin & Kumar 2012). A shortfall that cannot be avoided has a price (an exact penalty). An
/// entry whose turn is not worth the changes that it brings gets none. To D is added what chance moves in an epoch: two
/// standard deviations of the sums of rewards from the predicted ones, in the epochs so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeSharing {
    /// Entries and steps of the turns that are left, the next one last.
    turns: Vec<(usize, u64)>,
    /// Steps that are left of the present turn.
    left: u64,
    /// Steps that will be left when half of it is over: rewards before may be those of the way.
    half: u64,
    /// Predicted sums of r₁ … r_m over this epoch.
    predicted: Vec<f64>,
    /// Steps and sums of r₁ … r_m since the ledger was opened, when this epoch began.
    before: (u64, Vec<f64>),
    /// Σ of squared deviations from the predicted sums, and the steps of these epochs.
    squares: Vec<f64>,
    steps: u64,
}

/// What a step within an epoch brings.
pub(crate) enum TurnEvent {
    /// Half of the turn is over.
    Half,
    /// The turn of another entry begins.
    Next(usize),
}

/// Division of an epoch.
struct Division {
    turns: Vec<(usize, u64)>,
    /// Objective per step, less what changes of policy and shortfalls cost.
    value: f64,
}

/// An epoch that is to be divided.
struct EpochToDivide<'a> {
    library: &'a PolicyLibrary,
    /// V₀ … V_m, with V₀ = 0 if there is no objective.
    values: Vec<Vec<f64>>,
    /// c + (D + margin)/W.
    targets: Vec<f64>,
    prices: Vec<f64>,
    length: u64,
    current: Option<usize>,
}

impl TimeSharing {
    /// The price of a shortfall, in units of that which the optimum has or might have.
    const PENALTY: f64 = 10.0;
    /// A bound nearer to 0 than this share of the range counts as so far from it.
    const LEAST_ASKED: f64 = 0.01;
    /// Standard deviations of an epoch's rewards that are collected in advance.
    const DEVIATIONS: f64 = 2.0;
    /// The fewest steps of a turn.
    const SHORTEST_TURN: u64 = 10;
    /// How often shares are solved for until they fit the changes that they bring.
    const ROUNDS: usize = 3;
    /// The share of the objective that changes of policy may cost if longer epochs are to save nothing.
    const SWITCHING_LOSS: f64 = 5e-4;
    /// By how much changes of policy may shift the shares, if longer epochs are to gain nothing.
    const TRANSIENT_SHARE: f64 = 0.05;
    /// With a known end: the largest share of all steps that an epoch takes.
    const HORIZON_SHARE: f64 = 0.25;
    /// Without a known end: the largest and the smallest share of the steps taken.
    const OPEN_ENDED_SHARES: (f64, f64) = (0.001, 0.125);

    /// Decides on the turns of an epoch that begins, and returns the first entry; `current` acts now. The objective
    /// counts if its weight is positive.
    pub(crate) fn begin_epoch(
        &mut self,
        library: &PolicyLibrary,
        dynamics: &DualDynamics,
        objective: f64,
        current: Option<usize>,
    ) -> Option<usize> {
        let (bounds, scales) = (dynamics.bounds(), dynamics.scales());
        let optimum = library.optimum(bounds);
        let price = |i: usize| {
            let asked = bounds[i].abs().clamp(Self::LEAST_ASKED * scales[i], scales[i]);
            let multiplier = optimum.as_ref().map_or(0.0, |best| best.multipliers[i]);
            Self::PENALTY * (multiplier + dynamics.objective_scale() / asked)
        };
        let (deficits, window, length) = (dynamics.deficits(), dynamics.window(), dynamics.epoch_length());
        self.compare(dynamics);
        let variance = |i: usize| self.squares.get(i).map_or(0.0, |s| s / self.steps.max(1) as f64);
        let target = |(i, c): (usize, &f64)| {
            let margin = Self::DEVIATIONS * (variance(i) * length as f64).sqrt();
            c + (deficits[i] + margin) / window.max(length as f64)
        };
        let value = |entry: &LibraryEntry| {
            let mut values = entry.values.clone();
            values[0] *= objective;
            values
        };
        let epoch = EpochToDivide {
            library,
            values: library.entries.iter().map(value).collect(),
            targets: bounds.iter().enumerate().map(target).collect(),
            prices: (0..bounds.len()).map(price).collect(),
            length,
            current,
        };
        self.turns = epoch.best_turns();
        let (opened, totals) = dynamics.totals();
        self.before = (opened, totals[1..].to_vec());
        self.predicted = epoch.predicted(&self.turns);
        self.turns.reverse();
        self.next_turn()
    }

    /// Adds the deviation of the sums of rewards from the predicted ones in the epoch that has ended.
    fn compare(&mut self, dynamics: &DualDynamics) {
        let (opened, totals) = dynamics.totals();
        let (before, sums) = &self.before;
        // A ledger that was opened meanwhile, because a bound has changed, covers only a part of the epoch.
        let steps = opened.saturating_sub(*before);
        if steps == 0 || self.predicted.len() + 1 != totals.len() || sums.len() != self.predicted.len() {
            return;
        }
        self.squares.resize(self.predicted.len(), 0.0);
        for (i, square) in self.squares.iter_mut().enumerate() {
            *square += (totals[i + 1] - sums[i] - self.predicted[i]).powi(2);
        }
        self.steps += steps;
    }

    /// Counts a step.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<TurnEvent> {
        self.left = self.left.saturating_sub(1);
        if self.left == self.half && self.left > 0 {
            return Some(TurnEvent::Half);
        }
        if self.left > 0 {
            return None;
        }
        self.next_turn().map(TurnEvent::Next)
    }

    /// The entry whose turn is next; the last one goes on if none is left.
    fn next_turn(&mut self) -> Option<usize> {
        let next = self.turns.pop();
        self.left = next.map_or(u64::MAX, |(_, steps)| steps);
        self.half = self.left / 2;
        next.map(|(entry, _)| entry)
    }

    /// T₀ over time for the entries of a library: what suffices to make changes of policy cheap, as far as their cost was
    /// measured, but at most a share of the time. `shortest` is used where nothing was measured; a shortfall of
    /// `tolerances` is tolerated on the way without a known end.
    pub(crate) fn schedule(
        library: &PolicyLibrary,
        (bounds, scales): (&[f64], &[f64]),
        tolerances: &[f64],
        steps: Option<u64>,
        shortest: u64,
    ) -> EpochSchedule {
        let limit = steps.map_or(u64::MAX, |n| (n / 8).max(1));
        let schedule = |start: f64, sufficient: f64, share: f64| EpochSchedule {
            start: (start.ceil() as u64).max(Self::SHORTEST_TURN).min(limit),
            sufficient: sufficient.ceil().min(1e18) as u64,
            share: if steps.is_some() { Self::HORIZON_SHARE } else { share },
            horizon: steps,
            correction_time: None,
            change_correction_time: 0.0,
        };
        let Some(best) = library.optimum(bounds) else {
            return schedule(shortest as f64, f64::MAX, Self::OPEN_ENDED_SHARES.0);
        };
        let parts: Vec<usize> = (0..best.weights.len()).filter(|&j| best.weights[j] > 1e-9).collect();
        let value = |j: usize, i: usize| library.entries[j].values[i];
        let attained = |i: usize| parts.iter().map(|&j| best.weights[j] * value(j, i)).sum::<f64>();
        let (least, mut share) = Self::OPEN_ENDED_SHARES;
        for &j in &parts {
            for (i, tolerance) in tolerances.iter().enumerate() {
                let missing = best.weights[j] * (attained(i + 1) - value(j, i + 1));
                if missing > 0.0 {
                    share = share.min(tolerance / missing);
                }
            }
        }
        let share = share.max(least);
        let pairs = || parts.iter().flat_map(|&j| parts.iter().map(move |&l| (j, l))).filter(|(j, l)| j != l);
        let lost = |(j, l): (usize, usize)| library.lost(j, l);
        if !pairs().any(|pair| lost(pair).is_some()) {
            return schedule(shortest as f64, f64::MAX, share);
        }
        // A round through the parts costs at most the largest loss of each.
        let round = |i: usize| -> f64 {
            let largest =
                |l: usize| pairs().filter(move |pair| pair.1 == l).filter_map(lost).map(|d| d[i].abs());
            parts.iter().map(|&l| largest(l).fold(0.0, f64::max)).sum()
        };
        let priced =
            round(0) + best.multipliers.iter().enumerate().map(|(i, l)| l * round(i + 1)).sum::<f64>();
        let worth = best.value.abs().max(Self::SWITCHING_LOSS * scales[0]);
        let mut sufficient = priced / (Self::SWITCHING_LOSS * worth);
        let mut start = 0.0_f64;
        for i in 0..scales.len() {
            let values = || parts.iter().map(|&j| value(j, i));
            let range = values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min);
            if range > 0.0 {
                start = start.max(round(i) / range);
                sufficient = sufficient.max(round(i) / (Self::TRANSIENT_SHARE * range));
            }
        }
        schedule(start, sufficient, share)
    }
}

impl EpochToDivide<'_> {
    fn best_turns(&self) -> Vec<(usize, u64)> {
        let mut usable = vec![true; self.library.entries.len()];
        let mut kept = vec![false; usable.len()];
        let Some(mut best) = self.divide(&usable) else { return Vec::new() };
        // A turn may be too short, or not worth the changes that it brings.
        while let Some(&(entry, steps)) = best
            .turns
            .iter()
            .filter(|(entry, _)| !kept[*entry])
            .min_by_key(|(_, steps)| *steps)
            .filter(|_| best.turns.len() > 1)
        {
            usable[entry] = false;
            let too_short = steps < TimeSharing::SHORTEST_TURN;
            match self.divide(&usable).filter(|without| too_short || without.value >= best.value) {
                Some(without) => best = without,
                None => (usable[entry], kept[entry]) = (true, true),
            }
        }
        best.turns
    }

    fn divide(&self, usable: &[bool]) -> Option<Division> {
        let numbers: Vec<usize> = (0..usable.len()).filter(|&j| usable[j]).collect();
        let values: Vec<&[f64]> = numbers.iter().map(|&j| &self.values[j][..]).collect();
        let length = self.length as f64;
        let mut missing = vec![0.0; self.targets.len() + 1];
        let mut best = None;
        // What changes of policy miss depends on the shares, and the other way round.
        for _ in 0..TimeSharing::ROUNDS {
            let targets: Vec<f64> =
                self.targets.iter().zip(&missing[1..]).map(|(c, d)| c + d / length).collect();
            let solved = elastic_mixture(&values, &targets, &self.prices)?;
            let turns = self.turns(numbers.iter().copied().zip(solved.weights.iter().copied()).collect());
            let now = self.missing(&turns, missing.len());
            let extra = self.prices.iter().zip(now[1..].iter().zip(&missing[1..]));
            let extra: f64 =
                extra.map(|(price, (now, before))| price * (now - before).max(0.0) / length).sum();
            best = Some(Division { turns, value: solved.value - now[0] / length - extra });
            if now == missing {
                break;
            }
            missing = now;
        }
        best
    }

    /// Entries with their steps, each followed by the one to which the change costs least; the one that acts now is first.
    fn turns(&self, mut shares: Vec<(usize, f64)>) -> Vec<(usize, u64)> {
        shares.retain(|(_, share)| *share > 0.0);
        let (mut order, mut from) = (Vec::new(), self.current);
        while !shares.is_empty() {
            let cost = |to: usize| match from {
                Some(from) if from != to => self.library.lost(from, to).map_or(0.0, |lost| lost[0].max(0.0)),
                _ => -1.0,
            };
            let next = (0..shares.len()).min_by(|&a, &b| cost(shares[a].0).total_cmp(&cost(shares[b].0)));
            let (entry, share) = shares.remove(next.unwrap_or(0));
            order.push((entry, share));
            from = Some(entry);
        }
        let (mut until, mut taken) = (0.0, 0);
        let mut turns = Vec::new();
        for (entry, share) in order {
            until += share * self.length as f64;
            let steps = (until.round() as u64).saturating_sub(taken);
            taken += steps;
            if steps > 0 {
                turns.push((entry, steps));
            }
        }
        turns
    }

    /// Sums of r₁ … r_m that these turns bring.
    fn predicted(&self, turns: &[(usize, u64)]) -> Vec<f64> {
        let missing = self.missing(turns, self.targets.len() + 1);
        let sum = |i: usize| turns.iter().map(|(j, n)| *n as f64 * self.values[*j][i + 1]).sum::<f64>();
        (0..self.targets.len()).map(|i| sum(i) - missing[i + 1]).collect()
    }

    /// r₀ … r_m that the changes of these turns miss.
    fn missing(&self, turns: &[(usize, u64)], rewards: usize) -> Vec<f64> {
        let mut missing = vec![0.0; rewards];
        let from = self.current.into_iter().chain(turns.iter().map(|(entry, _)| *entry));
        for (from, (to, _)) in from.zip(turns.iter().skip(usize::from(self.current.is_none()))) {
            if let Some(lost) = (from != *to).then(|| self.library.lost(from, *to)).flatten() {
                missing.iter_mut().zip(lost).for_each(|(sum, lost)| *sum += lost);
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Agent, EpochLength, Executor, Multipliers, Requirement, Rewards};
    use std::sync::Arc;

    /// Three places; a change of place takes `way` steps without rewards.
    fn places(way: f64) -> PolicyLibrary {
        let entry = |i: usize| {
            let unit = |k: usize| f64::from(u8::from(k == i));
            LibraryEntry {
                weights: (0..3).map(unit).collect(),
                values: (0..3).map(unit).collect(),
                place: i,
                travel: (0..3)
                    .map(|from| (0..3).map(|k| if from == i { 0.0 } else { way * unit(k) }).collect())
                    .collect(),
                ..LibraryEntry::default()
            }
        };
        PolicyLibrary { entries: (0..3).map(entry).collect() }
    }

    /// Average rewards of a run in such an environment, and the agent.
    fn run(library: PolicyLibrary, way: u64, steps: u64, horizon: bool) -> (Vec<f64>, Agent) {
        let requirements =
            vec![Requirement::at_least("x", 0.25).unwrap(), Requirement::at_least("y", 0.15).unwrap()];
        let (bounds, scales, tolerances) = ([0.25, 0.15], [1.0; 3], [0.0025, 0.0015]);
        let steps_known = horizon.then_some(steps);
        let schedule = TimeSharing::schedule(&library, (&bounds, &scales), &tolerances, steps_known, 100);
        let start = library.start(&bounds, &scales, true);
        let mut agent = Agent::builder(requirements)
            .epoch(EpochLength::Scheduled(schedule))
            .reference(Multipliers::new(start).unwrap())
            .executor(Executor::TimeSharing)
            .library(Some(Arc::new(library)))
            .build()
            .unwrap();
        let (mut goal, mut walking) = (0, 0);
        for _ in 0..steps {
            let wanted = agent.weights().iter().position(|w| *w == 1.0).unwrap();
            if wanted != goal {
                (goal, walking) = (wanted, way);
            }
            let mut rewards = vec![0.0; 3];
            if walking > 0 {
                walking -= 1;
            } else {
                rewards[goal] = 1.0;
            }
            agent.observe(&Rewards::new(rewards).unwrap()).unwrap();
        }
        (agent.averages(), agent)
    }

    #[test]
    fn shares_meet_bounds_and_the_objective_is_nearly_optimal() {
        for (horizon, steps, gap) in [(true, 200_000, 0.005), (false, 1_000_000, 0.015)] {
            let (averages, agent) = run(places(20.0), 20, steps, horizon);
            let slack = [averages[1] - 0.25, averages[2] - 0.15];
            assert!(slack[0] >= -0.0025 && slack[1] >= -0.0015, "{averages:?}");
            assert!(averages[0] > 0.6 - gap, "{averages:?}");
            assert!(agent.certificate().requirements.iter().all(|c| c.certified_shortfall < 0.0026));
        }
    }

    #[test]
    fn wrong_values_and_unmeasured_ways_are_corrected_by_the_deficit() {
        let mut library = places(20.0);
        for entry in &mut library.entries {
            entry.travel.clear();
            entry.values.iter_mut().skip(1).for_each(|v| *v *= 1.15);
        }
        let (averages, _) = run(library, 20, 200_000, true);
        assert!(averages[1] >= 0.2475 && averages[2] >= 0.1485 && averages[0] > 0.57, "{averages:?}");
    }

    #[test]
    fn turn_that_costs_more_than_it_brings_is_left_out() {
        let epoch = |length: u64, target: f64| EpochToDivide {
            library: Box::leak(Box::new(places(40.0))),
            values: places(40.0).entries.into_iter().map(|entry| entry.values).collect(),
            targets: vec![target, 0.0],
            prices: vec![0.5, 0.5],
            length,
            current: Some(0),
        };
        assert_eq!(epoch(1000, 0.3).best_turns(), [(0, 1000)], "a shortfall costs less than the objective");
        let dear = EpochToDivide { prices: vec![10.0, 10.0], ..epoch(1000, 0.3) };
        let turns = dear.best_turns();
        assert_eq!((turns.len(), turns[0].0, turns[1].0), (2, 0, 1));
        assert!((335..=345).contains(&turns[1].1), "300 steps and the way: {turns:?}");
    }
}
