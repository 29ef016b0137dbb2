//! Extension of a policy to states outside its recurrent class.

use acrl::FiniteCmdp;

use crate::evaluation::chain::until_outside;
use crate::tolerances::TIE;
use crate::tuning::{LEAD_HOME_RAISES, LEAD_HOME_ROUNDS, LONGEST_DETOUR};

/// What the way to a recurrent class costs.
pub(super) struct WayHome<'a> {
    pub(super) model: &'a FiniteCmdp,
    /// States of the class.
    pub(super) class: &'a [bool],
    /// Cost of each choice, not negative on average wherever the agent might stay outside.
    pub(super) costs: &'a [f64],
    /// Worth of arriving at each state of the class.
    pub(super) worth: &'a [f64],
    /// Price of a step in the units of the costs, to begin with.
    pub(super) price: f64,
}

/// What counts on the way.
#[derive(Clone, Copy)]
enum Aim {
    /// Costs, worth, and steps at this price.
    Cheap(f64),
    /// Steps alone.
    Fast,
}

impl WayHome<'_> {
    /// Replaces the actions outside the class by those of a cheap way there that is not much longer than the fastest
    /// one. Actions in the class, and in states from which it cannot be reached, stay as they are.
    ///
    /// To wait may cost nothing: an agent may act as well as before until chance leads it to the class. So the price of
    /// a step is raised until the way takes at most [`LONGEST_DETOUR`] times as long as the fastest one.
    pub(super) fn lead(&self, actions: &mut [usize]) {
        let outside = self.first_way(actions);
        let time = |actions: &[usize]| -> Option<f64> {
            self.values(actions, &outside, Aim::Fast).ok().map(|times| -times.iter().sum::<f64>())
        };
        self.improve(actions, &outside, Aim::Fast);
        let Some(fastest) = time(actions) else { return };
        let mut cheap = actions.to_vec();
        for raise in LEAD_HOME_RAISES {
            cheap.copy_from_slice(actions);
            self.improve(&mut cheap, &outside, Aim::Cheap(raise * self.price));
            if time(&cheap).is_some_and(|time| time <= LONGEST_DETOUR * fastest) {
                actions.copy_from_slice(&cheap);
                return;
            }
        }
    }

    /// Stochastic shortest path (Bertsekas & Tsitsiklis 1991), by policy iteration from a policy that gets there for
    /// sure.
    fn improve(&self, actions: &mut [usize], outside: &[usize], aim: Aim) {
        let Ok(mut values) = self.values(actions, outside, aim) else { return };
        for _ in 0..LEAD_HOME_ROUNDS {
            let mut better = actions.to_vec();
            for (i, &s) in outside.iter().enumerate() {
                let margin = TIE * (1.0 + values[i].abs());
                let mut best = values[i] + margin;
                for (a, c) in self.model.choices(s).enumerate() {
                    let value = self.after(c, outside, &values, aim) - self.cost(c, aim);
                    if value > best {
                        (best, better[s]) = (value, a);
                    }
                }
            }
            if better == *actions {
                return;
            }
            match self.values(&better, outside, aim) {
                Ok(next) => values = next,
                Err(_) => return,
            }
            actions.copy_from_slice(&better);
        }
    }

    /// Σ P(t) v(t) of a choice, where v is the worth in the class and 0 where it cannot be reached.
    fn after(&self, choice: usize, outside: &[usize], values: &[f64], aim: Aim) -> f64 {
        let choice = self.model.choice(choice);
        let value = |t: usize| match outside.binary_search(&t) {
            Ok(i) => values[i],
            Err(_) => self.worth(t, aim),
        };
        choice.targets.iter().zip(choice.probabilities).map(|(&t, p)| p * value(t as usize)).sum()
    }

    fn cost(&self, choice: usize, aim: Aim) -> f64 {
        match aim {
            Aim::Cheap(price) => self.costs[choice] + price,
            Aim::Fast => 1.0,
        }
    }

    fn worth(&self, state: usize, aim: Aim) -> f64 {
        match aim {
            Aim::Cheap(_) if self.class[state] => self.worth[state],
            _ => 0.0,
        }
    }

    /// −(cost until the class) + worth there, from each state outside.
    fn values(&self, actions: &[usize], outside: &[usize], aim: Aim) -> Result<Vec<f64>, crate::Singular> {
        let model = self.model;
        until_outside(model, actions, outside, |i| {
            let c = model.choices(outside[i]).start + actions[outside[i]];
            let choice = model.choice(c);
            let arrives = |(&t, p): (&u32, &f64)| p * self.worth(t as usize, aim);
            choice.targets.iter().zip(choice.probabilities).map(arrives).sum::<f64>() - self.cost(c, aim)
        })
    }

    /// Sets actions that lead to the class for sure, along the fewest steps that may do; returns the states outside
    /// from which there are such actions, ascending.
    fn first_way(&self, actions: &mut [usize]) -> Vec<usize> {
        let n = self.model.states();
        let mut reached = self.class.to_vec();
        let mut sources: Vec<Vec<(u32, u32)>> = vec![Vec::new(); n];
        for s in (0..n).filter(|&s| !self.class[s]) {
            for c in self.model.choices(s) {
                for &t in self.model.choice(c).targets {
                    sources[t as usize].push((s as u32, c as u32));
                }
            }
        }
        let mut queue: Vec<usize> = (0..n).filter(|&s| reached[s]).collect();
        let mut outside = Vec::new();
        let mut next = 0;
        while next < queue.len() {
            for &(s, c) in &sources[queue[next]] {
                let s = s as usize;
                if !reached[s] {
                    reached[s] = true;
                    actions[s] = c as usize - self.model.choices(s).start;
                    outside.push(s);
                    queue.push(s);
                }
            }
            next += 1;
        }
        outside.sort_unstable();
        outside
    }
}
