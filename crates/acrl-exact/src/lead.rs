//! Rules that lead home: changed where they would stay away from it for ages.
//!
//! A rule can have one recurrent class and yet hold regions that it leaves once in 10³⁰ steps. Its long-run averages are those
//! of its class; an agent that starts in such a region, or is there when it switches to the rule, would never see them. What is
//! done there does not count in the long run, so it may as well be a step on the way home.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use acrl::FiniteCmdp;

use crate::elimination::{Elimination, Workspace};
use crate::graph::components;
use crate::ordering::Graph;
use crate::plan::Plan;

/// States that together have no more than this of a rule's time are not its home.
const AWAY: f64 = 1e-7;
/// From where home is not reached in so many steps (sweeps, that is, which are as good as several steps) with a probability of a
/// half, the rule is changed; fewer in models so large that this would take long.
const SOON: usize = 2_000;
const WORK: usize = 2_000_000_000;
/// At most this many numbers are stored to find out where a rule is at home (1 GB).
const BUDGET: usize = 125_000_000;

/// Changes a rule (the number of the action in each state) where it does not get home soon, to steps on a short way there. Only
/// choices that are `allowed` are taken. Returns the number of states in which something was changed.
pub fn lead_home(model: &FiniteCmdp, rule: &mut [usize], allowed: impl Fn(usize) -> bool) -> usize {
    let home = home(model, rule, &allowed);
    let near = near(model, rule, &home);
    let lost: Vec<usize> =
        (0..model.states()).filter(|&s| !near[s] && model.choices(s).any(&allowed)).collect();
    if lost.is_empty() { 0 } else { lead(model, rule, &lost, &near, &allowed) }
}

/// Where a rule spends its time: the likeliest states of its recurrent class, or all of its classes if there are several.
fn home(model: &FiniteCmdp, rule: &[usize], allowed: &impl Fn(usize) -> bool) -> Vec<bool> {
    let n = model.states();
    let choice = |s: usize| model.choice(model.choices(s).start + rule[s]);
    let inside = |s: usize| model.choices(s).any(allowed);
    let edges: Vec<Vec<usize>> = (0..n)
        .map(|s| if inside(s) { choice(s).targets.iter().map(|&t| t as usize).collect() } else { Vec::new() })
        .collect();
    let mut of = vec![0; n];
    let found = components(n, |s| &edges[s]);
    found.iter().enumerate().for_each(|(i, states)| states.iter().for_each(|&s| of[s] = i));
    let closed = |states: &[usize]| {
        states.iter().all(|&s| inside(s) && edges[s].iter().all(|&t| of[t] == of[states[0]]))
    };
    let classes: Vec<&Vec<usize>> = found.iter().filter(|states| closed(states)).collect();
    let mut home = vec![false; n];
    if let [class] = classes[..]
        && let Some(shares) = shares(class, |s| (choice(s).targets, choice(s).probabilities), n)
    {
        let mut order: Vec<usize> = (0..class.len()).collect();
        order.sort_by(|&i, &j| shares[i].total_cmp(&shares[j]));
        let mut away = 0.0;
        for i in order {
            away += shares[i];
            home[class[i]] = away > AWAY;
        }
        return home;
    }
    classes.iter().for_each(|states| states.iter().for_each(|&s| home[s] = true));
    home
}

/// The stationary distribution of a recurrent class; `None` if it is too large to tell.
fn shares<'m>(class: &[usize], row: impl Fn(usize) -> (&'m [u32], &'m [f64]), n: usize) -> Option<Vec<f64>> {
    let mut position = vec![0u32; n];
    class.iter().enumerate().for_each(|(i, &s)| position[s] = i as u32);
    let targets: Vec<Vec<u32>> =
        class.iter().map(|&s| row(s).0.iter().map(|&t| position[t as usize]).collect()).collect();
    let own = |i: usize| (&targets[i][..], row(class[i]).1);
    let graph = Graph::symmetric(class.len(), |i| &targets[i]);
    let plan = Plan::new(&graph, BUDGET)?;
    let elimination = Elimination::new(&plan, own, 0, &mut Workspace::default());
    let visits = elimination.visits(own);
    let total: f64 = visits.iter().sum();
    (total.is_finite() && total > 0.0).then(|| visits.into_iter().map(|x| x / total).collect())
}

/// From where the rule gets home soon.
fn near(model: &FiniteCmdp, rule: &[usize], home: &[bool]) -> Vec<bool> {
    let n = model.states();
    let mut reached: Vec<f64> = home.iter().map(|&h| if h { 1.0 } else { 0.0 }).collect();
    let mut far: Vec<usize> = (0..n).filter(|&s| !home[s]).collect();
    let sweeps = SOON.min(WORK / model.transitions().max(1)).max(50);
    for sweep in 0..sweeps {
        if far.is_empty() {
            break;
        }
        let mut update =
            |&s: &usize| reached[s] = model.expectation(model.choices(s).start + rule[s], &reached);
        if sweep % 2 == 0 {
            far.iter().for_each(&mut update)
        } else {
            far.iter().rev().for_each(&mut update)
        }
        far.retain(|&s| reached[s] < 0.999);
    }
    reached.iter().map(|p| *p >= 0.5).collect()
}

/// Steps on a short way to where the rule is near home. A step that succeeds with probability p counts 1/p.
fn lead(
    model: &FiniteCmdp,
    rule: &mut [usize],
    lost: &[usize],
    near: &[bool],
    allowed: &impl Fn(usize) -> bool,
) -> usize {
    // Who of the lost can step to whom: (target, state, choice, probability), by target.
    let mut steps: Vec<(u32, u32, u32, f64)> = Vec::new();
    for &s in lost {
        for c in model.choices(s).filter(|&c| allowed(c)) {
            let choice = model.choice(c);
            for (&t, &p) in choice.targets.iter().zip(choice.probabilities).filter(|(t, _)| **t as usize != s)
            {
                steps.push((t, s as u32, c as u32, p));
            }
        }
    }
    steps.sort_unstable_by_key(|step| step.0);
    let into = |t: usize| {
        let begin = steps.partition_point(|step| (step.0 as usize) < t);
        steps[begin..].iter().take_while(move |step| step.0 as usize == t)
    };
    let mut length = vec![f64::INFINITY; model.states()];
    let mut queue = BinaryHeap::new();
    let mut ends: Vec<usize> = steps.iter().map(|step| step.0 as usize).filter(|&t| near[t]).collect();
    ends.dedup();
    for t in ends {
        length[t] = 0.0;
        queue.push((Reverse(0u64), t));
    }
    let mut changed = 0;
    let mut taken = vec![false; model.states()];
    // Lengths are not negative, so that their bits are in the order of the numbers.
    while let Some((Reverse(bits), t)) = queue.pop() {
        if std::mem::replace(&mut taken[t], true) {
            continue;
        }
        for &(_, s, c, p) in into(t) {
            let (s, through) = (s as usize, f64::from_bits(bits) + 1.0 / p);
            if through < length[s] && !taken[s] {
                changed += usize::from(length[s] == f64::INFINITY);
                length[s] = through;
                rule[s] = c as usize - model.choices(s).start;
                queue.push((Reverse(through.to_bits()), s));
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rooms of three states in a ring. The rule goes round in each; it leaves the first room for the second with
    /// probability `leak`, and the second for the first with probability `back`. A door leads out of the first at once.
    fn rooms(leak: f64, back: f64) -> FiniteCmdp {
        let mut b = FiniteCmdp::builder(["x"]);
        (0..6).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..6 {
            let room = s / 3 * 3;
            let on = room + (s + 1 - room) % 3;
            let (p, other) = if s == 0 {
                (leak, 3)
            } else if s == 3 {
                (back, 0)
            } else {
                (0.0, s)
            };
            b.choice(
                s,
                "on",
                &if p > 0.0 { vec![(on, 1.0 - p), (other, p)] } else { vec![(on, 1.0)] },
                &[0.0],
            );
            if s == 1 {
                b.choice(s, "door", &[(5, 1.0)], &[0.0]);
            }
        }
        b.build().unwrap()
    }

    #[test]
    fn a_room_that_is_hardly_ever_left_is_left_by_its_door() {
        for back in [0.0, 1e-30] {
            let model = rooms(1e-9, back);
            let mut rule = vec![0; 6];
            assert_eq!(lead_home(&model, &mut rule, |_| true), 3);
            assert_eq!(rule, [0, 1, 0, 0, 0, 0], "through the door, and at home as before");
            assert_eq!(lead_home(&model, &mut rule, |_| true), 0, "it leads home now");
        }
    }

    #[test]
    fn a_rule_that_lives_in_both_rooms_stays_as_it_is() {
        let model = rooms(1e-9, 1e-9);
        let mut rule = vec![0; 6];
        assert_eq!(lead_home(&model, &mut rule, |_| true), 0);
        assert_eq!(rule, [0; 6]);
    }

    #[test]
    fn only_allowed_choices_are_taken() {
        let model = rooms(1e-9, 0.0);
        let mut rule = vec![0; 6];
        lead_home(&model, &mut rule, |c| model.action_name(c) != "door");
        assert_eq!(rule, [0; 6]);
    }
}
