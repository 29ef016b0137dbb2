//! Redirection of states from which a policy takes too long to reach its recurrent class.
//!
//! A policy can have one recurrent class and yet transient regions that it leaves once in 10³⁰ steps. Its
//! long-run averages are those of its class, but an agent that starts in such a region, or is there when
//! it switches to the policy, would never attain them. Actions in transient states do not affect the
//! averages, so they can be replaced by steps towards the class.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use acrl::FiniteCmdp;

use crate::evaluation::gth::ordering::Graph;
use crate::evaluation::gth::{Elimination, Symbolic, Workspace};
use crate::graph::recurrent_classes;
use crate::tolerances::{OUTSIDE_CORE, REACHED, REACHES_IN_TIME};
use crate::tuning::{MIN_REDIRECT_SWEEPS, REDIRECT_FACTOR_BUDGET, REDIRECT_SWEEPS, REDIRECT_WORK};

/// Redirects the states from which a policy (the number of the action in each state) does not reach the
/// core of its recurrent class in reasonable time to a short path there. Only choices that are `allowed`
/// are taken. Returns the number of states changed.
pub fn redirect_slow_states(
    model: &FiniteCmdp,
    actions: &mut [usize],
    allowed: impl Fn(usize) -> bool,
) -> usize {
    let core = core(model, actions, &allowed);
    let fast = reaching_in_time(model, actions, &core);
    let slow: Vec<usize> =
        (0..model.states()).filter(|&s| !fast[s] && model.choices(s).any(&allowed)).collect();
    if slow.is_empty() { 0 } else { redirect(model, actions, &slow, &fast, &allowed) }
}

/// Core of a policy: the likeliest states of its recurrent class, or all states of its classes if there
/// are several.
fn core(model: &FiniteCmdp, actions: &[usize], allowed: &impl Fn(usize) -> bool) -> Vec<bool> {
    let n = model.states();
    let choice = |s: usize| model.choice(model.choices(s).start + actions[s]);
    let inside = |s: usize| model.choices(s).any(allowed);
    let edges: Vec<Vec<usize>> = (0..n)
        .map(|s| if inside(s) { choice(s).targets.iter().map(|&t| t as usize).collect() } else { Vec::new() })
        .collect();
    let (mut classes, _) = recurrent_classes(n, |s| &edges[s]);
    classes.retain(|states| states.iter().all(|&s| inside(s)));
    let mut core = vec![false; n];
    if let [class] = &classes[..]
        && let Some(stationary) = stationary(class, |s| (choice(s).targets, choice(s).probabilities), n)
    {
        let mut order: Vec<usize> = (0..class.len()).collect();
        order.sort_by(|&i, &j| stationary[i].total_cmp(&stationary[j]));
        let mut outside = 0.0;
        for i in order {
            outside += stationary[i];
            core[class[i]] = outside > OUTSIDE_CORE;
        }
        return core;
    }
    classes.iter().for_each(|states| states.iter().for_each(|&s| core[s] = true));
    core
}

/// Stationary distribution of a recurrent class; `None` if its factors would be too large.
fn stationary<'m>(
    class: &[usize],
    row: impl Fn(usize) -> (&'m [u32], &'m [f64]),
    n: usize,
) -> Option<Vec<f64>> {
    let mut position = vec![0u32; n];
    class.iter().enumerate().for_each(|(i, &s)| position[s] = i as u32);
    let targets: Vec<Vec<u32>> =
        class.iter().map(|&s| row(s).0.iter().map(|&t| position[t as usize]).collect()).collect();
    let own = |i: usize| (&targets[i][..], row(class[i]).1);
    let graph = Graph::symmetric(class.len(), |i| &targets[i]);
    let symbolic = Arc::new(Symbolic::new(&graph, REDIRECT_FACTOR_BUDGET)?);
    let elimination = Elimination::new(&symbolic, own, 0, &mut Workspace::default());
    let visits = elimination.visits(own);
    let total: f64 = visits.iter().sum();
    (total.is_finite() && total > 0.0).then(|| visits.into_iter().map(|x| x / total).collect())
}

/// States from which the policy reaches the core in time, by value iteration on the reachability
/// probability.
fn reaching_in_time(model: &FiniteCmdp, actions: &[usize], core: &[bool]) -> Vec<bool> {
    let n = model.states();
    let mut reached: Vec<f64> = core.iter().map(|&inside| if inside { 1.0 } else { 0.0 }).collect();
    let mut open: Vec<usize> = (0..n).filter(|&s| !core[s]).collect();
    let sweeps = REDIRECT_SWEEPS.min(REDIRECT_WORK / model.transitions().max(1)).max(MIN_REDIRECT_SWEEPS);
    for sweep in 0..sweeps {
        if open.is_empty() {
            break;
        }
        let mut update =
            |&s: &usize| reached[s] = model.expectation(model.choices(s).start + actions[s], &reached);
        if sweep % 2 == 0 {
            open.iter().for_each(&mut update)
        } else {
            open.iter().rev().for_each(&mut update)
        }
        open.retain(|&s| reached[s] < REACHED);
    }
    reached.iter().map(|p| *p >= REACHES_IN_TIME).collect()
}

/// Redirects slow states along shortest paths to fast ones (Dijkstra); a transition of probability p has
/// length 1/p.
fn redirect(
    model: &FiniteCmdp,
    actions: &mut [usize],
    slow: &[usize],
    fast: &[bool],
    allowed: &impl Fn(usize) -> bool,
) -> usize {
    // Transitions of slow states: (target, state, choice, probability), by target.
    let mut steps: Vec<(u32, u32, u32, f64)> = Vec::new();
    for &s in slow {
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
    let mut ends: Vec<usize> = steps.iter().map(|step| step.0 as usize).filter(|&t| fast[t]).collect();
    ends.dedup();
    for t in ends {
        length[t] = 0.0;
        queue.push((Reverse(0u64), t));
    }
    let mut changed = 0;
    let mut taken = vec![false; model.states()];
    // The bits of numbers that are not negative are in the order of the numbers.
    while let Some((Reverse(bits), t)) = queue.pop() {
        if std::mem::replace(&mut taken[t], true) {
            continue;
        }
        for &(_, s, c, p) in into(t) {
            let (s, through) = (s as usize, f64::from_bits(bits) + 1.0 / p);
            if through < length[s] && !taken[s] {
                changed += usize::from(length[s] == f64::INFINITY);
                length[s] = through;
                actions[s] = c as usize - model.choices(s).start;
                queue.push((Reverse(through.to_bits()), s));
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::of_choices;

    /// Two rings of three states. The policy stays in each; it leaves the first for the second with
    /// probability `leak`, and the second for the first with probability `back`. Another action leads
    /// out of the first at once.
    fn rings(leak: f64, back: f64) -> FiniteCmdp {
        of_choices(&[
            (0, "on", &[(1, 1.0 - leak), (3, leak)], [0.0]),
            (1, "on", &[(2, 1.0)], [0.0]),
            (1, "leave", &[(5, 1.0)], [0.0]),
            (2, "on", &[(0, 1.0)], [0.0]),
            (3, "on", &[(4, 1.0 - back), (0, back)], [0.0]),
            (4, "on", &[(5, 1.0)], [0.0]),
            (5, "on", &[(3, 1.0)], [0.0]),
        ])
    }

    #[test]
    fn nearly_absorbing_transient_ring_is_left_at_once() {
        for back in [0.0, 1e-30] {
            let model = rings(1e-9, back);
            let mut actions = vec![0; 6];
            assert_eq!(redirect_slow_states(&model, &mut actions, |_| true), 3);
            assert_eq!(actions, [0, 1, 0, 0, 0, 0], "out of the transient ring, and unchanged in the other");
            assert_eq!(redirect_slow_states(&model, &mut actions, |_| true), 0, "no state is slow now");
        }
    }

    #[test]
    fn policy_recurrent_in_both_rings_is_unchanged() {
        let model = rings(1e-9, 1e-9);
        let mut actions = vec![0; 6];
        assert_eq!(redirect_slow_states(&model, &mut actions, |_| true), 0);
        assert_eq!(actions, [0; 6]);
    }

    #[test]
    fn only_allowed_choices_are_taken() {
        let model = rings(1e-9, 0.0);
        let mut actions = vec![0; 6];
        redirect_slow_states(&model, &mut actions, |c| model.action_name(c) != "leave");
        assert_eq!(actions, [0; 6]);
    }
}
