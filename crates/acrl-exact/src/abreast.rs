//! The actions of each state abreast, for fast sweeps.
//!
//! Where the actions of a state lead to the same few states with different probabilities, as on grids and in queues, these states are
//! looked up once for all actions, and what the actions are worth is computed in one vector.
//!
//! A Gauss–Seidel sweep takes state by state, and each waits for the one before. But a state depends only on its neighbours: all that
//! are as many neighbours away from the beginning (on a grid a diagonal) do not depend on each other. So states are
//! taken level by level: each sees the same values as in the order of their numbers, to the bit, and the machine works on several.

use crate::part::Part;

/// Actions abreast.
const LANES: usize = 8;

/// What looking for the best of a state's actions costs, in targets.
const CHOICE: usize = 4;

/// One number of each action of a state.
type Lanes = [f64; LANES];

/// An end component, state by state in the order of a sweep.
pub(crate) struct Abreast {
    /// The states, level by level; those before `half` first.
    order: Vec<u32>,
    first: Vec<u32>,
    /// Where any action of a state leads, ...
    targets: Vec<u32>,
    /// ... and the probabilities with which each action does when it leaves the state, p/(1 − stay).
    probabilities: Vec<Lanes>,
    /// What each action brings until then, (ρ − g)/(1 − stay), by state; −∞ for actions that there are not.
    brings: Vec<Lanes>,
}

impl Abreast {
    /// For sweeps over all states, or, if `half` is less than their number, over those before it and those from it on. `None` where it
    /// would not pay.
    pub(crate) fn new(part: &Part, half: usize) -> Option<Self> {
        let n = part.len();
        let mut this = Self {
            order: by_level(part, half),
            first: vec![0],
            targets: Vec::new(),
            probabilities: Vec::new(),
            brings: vec![[f64::NEG_INFINITY; LANES]; n],
        };
        let all: usize = (0..n).map(|s| part.successors(s).len()).sum();
        let mut own = Vec::new();
        for i in 0..n {
            let s = this.order[i] as usize;
            let choices = part.choices_of(s);
            if choices.len() > LANES {
                return None;
            }
            own.clear();
            own.extend_from_slice(part.successors(s));
            // Where an action stays for good, a step counts as a step.
            let stays = |c: usize| part.transitions(c).0.is_empty();
            own.extend(choices.clone().any(stays).then_some(s as u32));
            // The neighbours in a sweep come last: they are known last.
            own.sort_unstable_by_key(|&t| (u32::MAX - t.abs_diff(s as u32), t));
            own.dedup();
            let begin = this.targets.len();
            this.targets.extend_from_slice(&own);
            if 2 * (this.targets.len() + CHOICE * (i + 1)) > all {
                return None;
            }
            this.probabilities.resize(this.targets.len(), [0.0; LANES]);
            let lines = &mut this.probabilities[begin..];
            let mut add = |t: u32, lane: usize, p: f64| {
                let at = own.iter().position(|&own| own == t);
                at.into_iter().for_each(|at| lines[at][lane] += p);
            };
            for (lane, c) in choices.enumerate() {
                let (targets, probabilities) = part.transitions(c);
                targets.iter().zip(probabilities).for_each(|(&t, &p)| add(t, lane, p * part.steps(c)));
                if targets.is_empty() {
                    add(s as u32, lane, 1.0);
                }
            }
            this.first.push(this.targets.len() as u32);
        }
        Some(this)
    }

    /// Takes the ρ of each choice, and the gain g.
    pub(crate) fn take(&mut self, part: &Part, rho: &[f64], gain: f64) {
        for (own, &s) in self.brings.iter_mut().zip(&self.order) {
            for (brings, c) in own.iter_mut().zip(part.choices_of(s as usize)) {
                *brings = (rho[c] - gain) * part.steps(c);
            }
        }
    }

    /// One Gauss–Seidel sweep over the states from `first` on, whose values these are; those of others are in `before`.
    #[inline(always)]
    pub(crate) fn sweep(&self, backwards: bool, first: usize, own: &mut [f64], before: &[f64]) {
        let n = own.len();
        for i in 0..n {
            let i = first + if backwards { n - 1 - i } else { i };
            let mut x = self.brings[i];
            let range = self.first[i] as usize..self.first[i + 1] as usize;
            for (&t, p) in self.targets[range.clone()].iter().zip(&self.probabilities[range]) {
                let v = match own.get((t as usize).wrapping_sub(first)) {
                    Some(v) => *v,
                    None => before[t as usize],
                };
                for lane in 0..LANES {
                    x[lane] += p[lane] * v;
                }
            }
            for half in [4, 2, 1] {
                for lane in 0..half {
                    x[lane] = if x[lane + half] > x[lane] { x[lane + half] } else { x[lane] };
                }
            }
            own[self.order[i] as usize - first] = x[0];
        }
    }
}

/// The states before `half` and then those from it on, each by level: one more than that of all neighbours with a smaller
/// number on the same side of `half`, be it that they lead here or that this one leads there.
fn by_level(part: &Part, half: usize) -> Vec<u32> {
    let n = part.len();
    let mut level = vec![0u32; n];
    for s in 0..n {
        let same_side = |&&t: &&u32| (t as usize >= half) == (s >= half);
        for &t in part.successors(s).iter().filter(same_side).filter(|&&t| (t as usize) < s) {
            level[s] = level[s].max(level[t as usize] + 1);
        }
        for &t in part.successors(s).iter().filter(same_side).filter(|&&t| t as usize > s) {
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
    use acrl::{FiniteCmdp, Rng};

    const SIDE: usize = 6;

    /// A torus on which every action may lead to all neighbours; in the first state one of them stays for good.
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
    fn a_sweep_is_the_best_of_all_actions_state_by_state() {
        let model = torus(6);
        let part = Part::new(&model, &(0..SIDE * SIDE).collect::<Vec<_>>());
        let rho: Vec<f64> = (0..part.choice_count()).map(|c| model.choice(c).rewards[0]).collect();
        let mut abreast = Abreast::new(&part, part.len()).expect("six actions with the same targets");
        assert!(abreast.order.iter().enumerate().any(|(i, &s)| i != s as usize), "level by level");
        abreast.take(&part, &rho, 0.4);
        let (mut v, mut expected) = (vec![0.0; part.len()], vec![0.0; part.len()]);
        for sweep in 0..10 {
            let backwards = sweep % 2 == 1;
            abreast.sweep(backwards, 0, &mut v, &[]);
            for i in 0..part.len() {
                let s = if backwards { part.len() - 1 - i } else { i };
                let worth = |c: usize| {
                    let (targets, probabilities) = part.transitions(c);
                    let next: f64 =
                        targets.iter().zip(probabilities).map(|(&t, p)| p * expected[t as usize]).sum();
                    let x = rho[c] - 0.4 + next;
                    if targets.is_empty() { x + expected[s] } else { x / (1.0 - part.stay(c)) }
                };
                expected[s] = part.choices_of(s).map(worth).fold(f64::NEG_INFINITY, f64::max);
            }
            assert!(v.iter().zip(&expected).all(|(v, e)| (v - e).abs() < 1e-12), "{v:?} {expected:?}");
        }
    }

    #[test]
    fn halves_take_the_values_of_the_other_half_from_before() {
        let model = torus(6);
        let part = Part::new(&model, &(0..SIDE * SIDE).collect::<Vec<_>>());
        let first = part.len() / 2;
        let [mut abreast, mut all] = [first, part.len()].map(|half| Abreast::new(&part, half).unwrap());
        for abreast in [&mut abreast, &mut all] {
            abreast.take(&part, &vec![0.5; part.choice_count()], 0.4);
        }
        let before: Vec<f64> = (0..part.len()).map(|s| (s * s % 7) as f64).collect();
        let (mut whole, mut half) = (before.clone(), before.clone());
        all.sweep(false, 0, &mut whole, &[]);
        abreast.sweep(false, 0, &mut half[..first], &before);
        assert_eq!(half[first..], before[first..]);
        // Row 0 has neighbours in the last one, of which a sweep from the first state on has not heard either.
        assert_eq!(half[..SIDE], whole[..SIDE]);
    }

    #[test]
    fn it_is_left_where_it_would_not_pay() {
        for (actions, pays) in [(1, false), (2, false), (8, true), (9, false)] {
            let model = torus(actions);
            let part = Part::new(&model, &(0..SIDE * SIDE).collect::<Vec<_>>());
            assert_eq!(Abreast::new(&part, part.len()).is_some(), pays, "{actions} actions");
        }
    }
}
