//! Exploration by coverage: a plan that is always up to date, by prioritised sweeping.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use acrl::Rng;
use serde::{Deserialize, Serialize};

use super::Counts;
use crate::tuning::tabular::{BACKUPS, LEAST_PRIORITY, RESET_CHANGE};

/// Values of the count-based bonus 1/√n(s, a) (Strehl & Littman 2008), discounted, where a pair that was never tried is
/// worth the maximum 1/(1 − γ) ("R-max", Brafman & Tennenholtz 2002).
///
/// Every transition changes the model a little, and the values with it: the changes are propagated to the predecessors by
/// prioritised sweeping (Moore & Atkeson 1993), a bounded number of backups per transition. So the agent never follows a
/// stale plan, and its cost does not depend on the number of states.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CoveragePlan {
    gamma: f64,
    values: Vec<f64>,
    /// By how much the backup of a state may change its value; 0 if nothing is known to have changed.
    priorities: Vec<f64>,
    /// Σ of the values of the first states of episodes.
    start_sum: f64,
    /// Value of the next episode's first state in the backups of pairs that end episodes.
    propagated: f64,
    #[serde(skip)]
    links: Option<Links>,
}

/// What follows from counts and priorities.
#[derive(Debug, Clone, Default)]
struct Links {
    /// Pairs that lead to each state.
    predecessors: Vec<Vec<u32>>,
    /// Pairs that ended an episode.
    ending: Vec<u32>,
    /// States by priority; those whose priority is another one by now are skipped.
    queue: BinaryHeap<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    priority: f64,
    state: u32,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.total_cmp(&other.priority).then(other.state.cmp(&self.state))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Links {
    fn new(counts: &Counts, priorities: &[f64]) -> Self {
        let mut links = Self { predecessors: vec![Vec::new(); counts.states()], ..Self::default() };
        for (number, pair) in counts.pairs().iter().enumerate() {
            for (to, _) in &pair.successors {
                links.predecessors[*to as usize].push(number as u32);
            }
            if pair.ends > 0 {
                links.ending.push(number as u32);
            }
        }
        links.queue = queue(priorities);
        links
    }
}

fn queue(priorities: &[f64]) -> BinaryHeap<Entry> {
    let waiting = priorities.iter().enumerate().filter(|(_, priority)| **priority > 0.0);
    waiting.map(|(state, priority)| Entry { priority: *priority, state: state as u32 }).collect()
}

impl CoveragePlan {
    pub(super) fn new(gamma: f64) -> Self {
        Self {
            gamma,
            values: Vec::new(),
            priorities: Vec::new(),
            start_sum: 0.0,
            propagated: 1.0 / (1.0 - gamma),
            links: None,
        }
    }

    /// Value of a pair that was never tried.
    fn most(&self) -> f64 {
        1.0 / (1.0 - self.gamma)
    }

    fn reset_value(&self, counts: &Counts) -> f64 {
        if counts.episodes() == 0 { self.most() } else { self.start_sum / counts.episodes() as f64 }
    }

    /// Value of an action.
    fn value(&self, counts: &Counts, pair: usize) -> f64 {
        let pair = &counts.pairs()[pair];
        if pair.visits == 0 {
            return self.most();
        }
        let visits = pair.visits as f64;
        let next: f64 = pair.successors.iter().map(|(to, n)| *n as f64 * self.values[*to as usize]).sum();
        let next = next + pair.ends as f64 * self.propagated;
        1.0 / visits.sqrt() + self.gamma * next / visits
    }

    /// Adds states whose actions were never tried.
    fn grow(&mut self, counts: &Counts) {
        let (states, most) = (counts.states(), self.most());
        self.values.resize(states, most);
        self.priorities.resize(states, 0.0);
        if let Some(links) = &mut self.links {
            links.predecessors.resize(states, Vec::new());
        }
    }

    /// Takes note of the first state of an episode, which has been counted.
    pub(super) fn start(&mut self, counts: &Counts, state: usize) {
        self.grow(counts);
        self.start_sum += self.values[state];
    }

    /// Takes note of a transition that has been counted, and updates the plan.
    pub(super) fn transition(&mut self, counts: &Counts, state: usize, action: usize, next: Option<usize>) {
        self.grow(counts);
        let number = state * counts.actions() + action;
        let mut links = match self.links.take() {
            None => Links::new(counts, &self.priorities),
            Some(mut links) => {
                let pair = &counts.pairs()[number];
                match next {
                    Some(next) if pair.times(next) == 1 => links.predecessors[next].push(number as u32),
                    None if pair.ends == 1 => links.ending.push(number as u32),
                    _ => {}
                }
                links
            }
        };
        self.backup(counts, state, &mut links);
        let mut left = BACKUPS;
        while left > 0
            && let Some(Entry { priority, state }) = links.queue.pop()
        {
            // Skipped entries do not count: a resumed training has none.
            if priority == self.priorities[state as usize] {
                self.backup(counts, state as usize, &mut links);
                left -= 1;
            }
        }
        let reset = self.reset_value(counts);
        if (reset - self.propagated).abs() > RESET_CHANGE * self.propagated {
            let change = (reset - self.propagated).abs();
            self.propagated = reset;
            for &number in &links.ending {
                let pair = &counts.pairs()[number as usize];
                let moved = self.gamma * change * pair.ends as f64 / pair.visits as f64;
                self.raise(number as usize / counts.actions(), moved, &mut links.queue);
            }
        }
        if links.queue.len() > 8 * self.values.len() + 1_000 {
            links.queue = queue(&self.priorities);
        }
        self.links = Some(links);
    }

    /// Improves the value of a state, and lets its predecessors wait for the same.
    fn backup(&mut self, counts: &Counts, state: usize, links: &mut Links) {
        self.priorities[state] = 0.0;
        let actions = counts.actions();
        let values = (state * actions..(state + 1) * actions).map(|pair| self.value(counts, pair));
        let best = values.fold(f64::NEG_INFINITY, f64::max);
        let change = best - self.values[state];
        if change == 0.0 {
            return;
        }
        self.values[state] = best;
        self.start_sum += counts.starts()[state] as f64 * change;
        for &number in &links.predecessors[state] {
            let pair = &counts.pairs()[number as usize];
            let moved = self.gamma * change.abs() * pair.times(state) as f64 / pair.visits as f64;
            self.raise(number as usize / actions, moved, &mut links.queue);
        }
    }

    fn raise(&mut self, state: usize, priority: f64, queue: &mut BinaryHeap<Entry>) {
        // Smaller changes do not change actions.
        if priority > self.priorities[state] && priority > LEAST_PRIORITY * self.values[state] {
            self.priorities[state] = priority;
            queue.push(Entry { priority, state: state as u32 });
        }
    }

    /// The action that leads to the least known pairs; equally good ones at random.
    pub(super) fn action(&self, counts: &Counts, state: usize, rng: &mut Rng) -> usize {
        let actions = counts.actions();
        if state >= self.values.len() {
            return rng.index(actions);
        }
        let (mut best, mut equal) = ((0, f64::NEG_INFINITY), 0);
        for action in 0..actions {
            let value = self.value(counts, state * actions + action);
            if value > best.1 {
                (best, equal) = ((action, value), 1);
            } else if value == best.1 {
                equal += 1;
                if rng.index(equal) == 0 {
                    best.0 = action;
                }
            }
        }
        best.0
    }
}
