//! Bellman operator with the actions of a state side by side in a vector register.
//!
//! Where the actions of a state lead to the same few successors with different probabilities, as in
//! grids and queues, the successors' values are loaded once for all actions, and the action values
//! are computed in one vector.
//!
//! In a Gauss–Seidel sweep each state waits for the one before it. But a state depends only on its
//! neighbours: all states at the same distance from the first (on a grid a diagonal) are independent.
//! So states are taken level by level: each uses the same values as in the order of their numbers,
//! the results are bit-identical, and the processor works on several states at once.

use crate::graph::EndComponent;
use crate::tuning::ARGMAX_COST;

/// Actions per vector.
const WIDTH: usize = 8;

/// One number per action of a state.
type ActionVector = [f64; WIDTH];

/// End component in the order of a sweep, with the actions of each state side by side.
pub(crate) struct SimdBellman {
    /// States, level by level; those before `half` first.
    order: Vec<u32>,
    first: Vec<u32>,
    /// Successors of a state under any of its actions.
    targets: Vec<u32>,
    /// Their probabilities under each action, given that it leaves the state: p/(1 − stay).
    probabilities: Vec<ActionVector>,
    /// Relative reward of each action until it leaves the state, (ρ − g)/(1 − stay); −∞ where the state
    /// has fewer actions.
    rewards: Vec<ActionVector>,
}

impl SimdBellman {
    /// Operator for sweeps over all states, or, if `half` is less than their number, over those before it
    /// and those from it on. `None` where it would not be faster.
    pub(crate) fn new(component: &EndComponent, half: usize) -> Option<Self> {
        let n = component.len();
        let mut this = Self {
            order: by_level(component, half),
            first: vec![0],
            targets: Vec::new(),
            probabilities: Vec::new(),
            rewards: vec![[f64::NEG_INFINITY; WIDTH]; n],
        };
        let all: usize = (0..n).map(|s| component.successors(s).len()).sum();
        let mut own = Vec::new();
        for i in 0..n {
            let s = this.order[i] as usize;
            let choices = component.choices_of(s);
            if choices.len() > WIDTH {
                return None;
            }
            own.clear();
            own.extend_from_slice(component.successors(s));
            // An absorbing action is a plain step of value iteration.
            let absorbs = |c: usize| component.transitions(c).0.is_empty();
            own.extend(choices.clone().any(absorbs).then_some(s as u32));
            // The neighbours in a sweep come last: their values are computed last.
            own.sort_unstable_by_key(|&t| (u32::MAX - t.abs_diff(s as u32), t));
            own.dedup();
            let begin = this.targets.len();
            this.targets.extend_from_slice(&own);
            if 2 * (this.targets.len() + ARGMAX_COST * (i + 1)) > all {
                return None;
            }
            this.probabilities.resize(this.targets.len(), [0.0; WIDTH]);
            let rows = &mut this.probabilities[begin..];
            let mut add = |t: u32, action: usize, p: f64| {
                let at = own.iter().position(|&own| own == t);
                at.into_iter().for_each(|at| rows[at][action] += p);
            };
            for (action, c) in choices.enumerate() {
                let (targets, probabilities) = component.transitions(c);
                targets.iter().zip(probabilities).for_each(|(&t, &p)| add(t, action, p * component.steps(c)));
                if targets.is_empty() {
                    add(s as u32, action, 1.0);
                }
            }
            this.first.push(this.targets.len() as u32);
        }
        Some(this)
    }

    /// Sets ρ of each choice, and the gain g.
    pub(crate) fn set_rewards(&mut self, component: &EndComponent, rho: &[f64], gain: f64) {
        for (own, &s) in self.rewards.iter_mut().zip(&self.order) {
            for (reward, c) in own.iter_mut().zip(component.choices_of(s as usize)) {
                *reward = (rho[c] - gain) * component.steps(c);
            }
        }
    }

    /// Gauss–Seidel sweep over the states from `first` on, with values `own`; those of other states are in
    /// `before`.
    #[inline(always)]
    pub(crate) fn sweep(&self, backwards: bool, first: usize, own: &mut [f64], before: &[f64]) {
        let n = own.len();
        for i in 0..n {
            let i = first + if backwards { n - 1 - i } else { i };
            let mut x = self.rewards[i];
            let range = self.first[i] as usize..self.first[i + 1] as usize;
            for (&t, p) in self.targets[range.clone()].iter().zip(&self.probabilities[range]) {
                let v = match own.get((t as usize).wrapping_sub(first)) {
                    Some(v) => *v,
                    None => before[t as usize],
                };
                for action in 0..WIDTH {
                    x[action] += p[action] * v;
                }
            }
            for half in [4, 2, 1] {
                for action in 0..half {
                    x[action] = if x[action + half] > x[action] { x[action + half] } else { x[action] };
                }
            }
            own[self.order[i] as usize - first] = x[0];
        }
    }
}

/// States before `half`, then those from it on, each by level: one more than that of all neighbours
/// (predecessors and successors) with a smaller number on the same side of `half`.
fn by_level(component: &EndComponent, half: usize) -> Vec<u32> {
    let n = component.len();
    let mut level = vec![0u32; n];
    for s in 0..n {
        let same_side = |&&t: &&u32| (t as usize >= half) == (s >= half);
        for &t in component.successors(s).iter().filter(same_side).filter(|&&t| (t as usize) < s) {
            level[s] = level[s].max(level[t as usize] + 1);
        }
        for &t in component.successors(s).iter().filter(same_side).filter(|&&t| t as usize > s) {
            level[t as usize] = level[t as usize].max(level[s] + 1);
        }
    }
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_unstable_by_key(|&s| (s as usize >= half, level[s as usize], s));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::whole_component;
    use acrl::{FiniteCmdp, Rng};

    const SIDE: usize = 6;

    /// Torus on which every action may lead to all neighbours; in the first state one of them is absorbing.
    fn torus(actions: usize) -> FiniteCmdp {
        let mut rng = Rng::new(9);
        let mut b = FiniteCmdp::builder(["r0"]);
        (0..SIDE * SIDE).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..SIDE * SIDE {
            let (x, y) = (s % SIDE, s / SIDE);
            let at = |x: usize, y: usize| x % SIDE + y % SIDE * SIDE;
            let near = [s, at(x + 1, y), at(x + SIDE - 1, y), at(x, y + 1), at(x, y + SIDE - 1)];
            for a in 0..actions {
                let shares: Vec<f64> = near.iter().map(|_| 0.1 + rng.uniform()).collect();
                let total: f64 = shares.iter().sum();
                let to: Vec<(usize, f64)> =
                    near.iter().zip(&shares).map(|(&t, share)| (t, share / total)).collect();
                let stays = s == 0 && a == 1;
                b.choice(s, a.to_string(), if stays { &[(0, 1.0)] } else { &to }, &[rng.uniform()]);
            }
        }
        b.build().unwrap()
    }

    #[test]
    fn sweep_equals_the_bellman_operator_state_by_state() {
        let model = torus(6);
        let component = whole_component(&model);
        let rho: Vec<f64> = (0..component.choice_count()).map(|c| model.choice(c).rewards[0]).collect();
        let mut simd = SimdBellman::new(&component, component.len()).unwrap();
        assert!(simd.order.iter().enumerate().any(|(i, &s)| i != s as usize), "level by level");
        simd.set_rewards(&component, &rho, 0.4);
        let (mut v, mut expected) = (vec![0.0; component.len()], vec![0.0; component.len()]);
        for sweep in 0..10 {
            let backwards = sweep % 2 == 1;
            simd.sweep(backwards, 0, &mut v, &[]);
            for i in 0..component.len() {
                let s = if backwards { component.len() - 1 - i } else { i };
                let worth = |c: usize| {
                    let (targets, probabilities) = component.transitions(c);
                    let next: f64 =
                        targets.iter().zip(probabilities).map(|(&t, p)| p * expected[t as usize]).sum();
                    let x = rho[c] - 0.4 + next;
                    if targets.is_empty() { x + expected[s] } else { x / (1.0 - component.stay(c)) }
                };
                expected[s] = component.choices_of(s).map(worth).fold(f64::NEG_INFINITY, f64::max);
            }
            assert!(v.iter().zip(&expected).all(|(v, e)| (v - e).abs() < 1e-12), "{v:?} {expected:?}");
        }
    }

    #[test]
    fn halves_use_the_previous_values_of_the_other_half() {
        let model = torus(6);
        let component = whole_component(&model);
        let first = component.len() / 2;
        let [simd, all] = [first, component.len()].map(|half| {
            let mut simd = SimdBellman::new(&component, half).unwrap();
            simd.set_rewards(&component, &vec![0.5; component.choice_count()], 0.4);
            simd
        });
        let before: Vec<f64> = (0..component.len()).map(|s| (s * s % 7) as f64).collect();
        let (mut whole, mut half) = (before.clone(), before.clone());
        all.sweep(false, 0, &mut whole, &[]);
        simd.sweep(false, 0, &mut half[..first], &before);
        assert_eq!(half[first..], before[first..]);
        // Row 0 has neighbours in the last row, which a forward sweep has not updated either.
        assert_eq!(half[..SIDE], whole[..SIDE]);
    }

    #[test]
    fn operator_is_built_only_where_it_is_faster() {
        for (actions, faster) in [(1, false), (2, false), (8, true), (9, false)] {
            let model = torus(actions);
            let component = whole_component(&model);
            assert_eq!(SimdBellman::new(&component, component.len()).is_some(), faster, "{actions} actions");
        }
    }
}
