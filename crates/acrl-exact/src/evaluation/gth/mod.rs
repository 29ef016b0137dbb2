//! GTH elimination (Grassmann, Taksar & Heyman 1985): gain and bias of a Markov chain without
//! subtractions.
//!
//! Eliminating a state j from a chain P redirects all transitions into j to where j goes next:
//! P(i, t) += P(i, j) P(j, t)/d_j, with d_j = Σ_t P(j, t) over the states that are left (d_j is
//! 1 − P(j, j), but computed as a sum). Every number is a sum of products of probabilities, so each has
//! nearly full relative precision, however close the chain is to being reducible, and a state with
//! d_j = 0 is the last one of a recurrent class, its *root*: the recurrent classes are a result of the
//! elimination.
//!
//! The sparsity pattern is that of the whole model, whatever the policy. So states are ordered once
//! ([`ordering`], nested dissection) and analysed once ([`symbolic`]: supernodes and assembly tree); per
//! policy the chain is eliminated supernode by supernode, each as a dense frontal matrix ([`numeric`],
//! [`front`]; multifrontal method, Duff & Reid 1983), and right-hand sides go up and down the tree
//! ([`solve`]).
//!
//! Some subtrees of the assembly tree are processed in parallel, then the rest up to its root. Subtrees
//! and the order of all sums belong to the symbolic analysis, so results do not depend on the number of
//! threads.

mod front;
mod numeric;
pub(crate) mod ordering;
mod solve;
mod symbolic;

use std::sync::Arc;

use acrl::Rng;
use rayon::prelude::*;

use super::{Evaluated, GROUP, RecurrentClass, Rewards, group_rewards};
use crate::graph::EndComponent;
use crate::tolerances::{LONG_CYCLE, NEVER};
use crate::tuning::{CHUNK, MAX_SIMULATED_STEPS, REFERENCE_ATTEMPTS};
use crate::vector::dot;

pub(crate) use numeric::{Elimination, Evaluation, Workspace};
pub(crate) use symbolic::Symbolic;

/// Number of right-hand sides that are solved for together.
pub(crate) const RHS: usize = 8;
/// Right-hand side of the time, which is not available for rewards.
pub(crate) const TIME: usize = RHS - 1;
/// Right-hand side of the probability to end in another class, which is not available either.
pub(crate) const LOSS: usize = RHS - 2;
/// One number per right-hand side.
pub(crate) type Rhs = [f64; RHS];

/// Evaluator of policies by elimination.
pub(super) struct GthEvaluator {
    symbolic: Arc<Symbolic>,
    workspace: Workspace,
    /// State in which the last simulation ended.
    at: usize,
    rng: Rng,
    /// Visits in the last simulation.
    counts: Vec<u32>,
}

impl GthEvaluator {
    pub(super) fn new(symbolic: Symbolic) -> Self {
        Self {
            symbolic: Arc::new(symbolic),
            workspace: Workspace::default(),
            at: 0,
            rng: Rng::new(0),
            counts: Vec::new(),
        }
    }

    /// Eliminates from a reference state that the policy visits often. If that turns out to be transient,
    /// in a class of smaller Σ w_i V_i or rarely visited, others are tried.
    pub(super) fn evaluate<'r>(
        &mut self,
        component: &EndComponent,
        policy: &[u32],
        reward: &Rewards<'_, 'r>,
        weights: &[f64],
    ) -> Evaluated {
        let row = |s: usize| component.transitions(policy[s] as usize);
        let mut reference = self.most_visited(component, policy);
        let mut tried = Vec::new();
        // A state that is known to be recurrent, and whether it is to be taken.
        let (mut recurrent, mut last_resort) = (None, false);
        loop {
            let elimination = Elimination::new(&self.symbolic, row, reference, &mut self.workspace);
            let groups: Vec<Evaluation> = (0..weights.len())
                .step_by(GROUP)
                .map(|begin| elimination.evaluate(row, |s| group_rewards(reward(policy[s] as usize), begin)))
                .collect();
            let lagrangian = |class: Option<usize>| -> f64 {
                let gain = |group: &Evaluation| class.map_or(group.gain, |class| group.others[class].1);
                let terms = groups.iter().zip(weights.chunks(GROUP));
                terms.map(|(group, w)| dot(&gain(group), w)).sum()
            };
            let mut others: Vec<usize> = (0..groups[0].others.len()).collect();
            others.sort_by(|&a, &b| lagrangian(Some(b)).total_cmp(&lagrangian(Some(a))));
            let root = |class: usize| groups[0].others[class].0;
            let best = others.iter().copied().find(|&class| !tried.contains(&root(class)));
            let transient = groups[0].loss > NEVER;
            let long = groups[0].cycle.is_nan() || groups[0].cycle > LONG_CYCLE;
            if !transient {
                recurrent = Some(reference);
            }
            let next = match best {
                _ if last_resort || tried.len() == REFERENCE_ATTEMPTS => None,
                Some(class) if transient || lagrangian(Some(class)) > lagrangian(None) => Some(root(class)),
                _ if long => {
                    let visits = elimination.visits(row);
                    (0..visits.len())
                        .max_by(|&a, &b| visits[a].total_cmp(&visits[b]))
                        .filter(|s| *s != reference)
                }
                _ => None,
            };
            let next = next.or_else(|| {
                last_resort = transient;
                recurrent.filter(|_| transient)
            });
            let Some(next) = next else {
                let visits = elimination.visits(row);
                others.truncate(if transient { RHS } else { 0 });
                let class = |&class: &usize| {
                    let gains = groups.iter().flat_map(|group| &group.others[class].1[..GROUP]);
                    RecurrentClass { root: root(class), values: gains.copied().take(weights.len()).collect() }
                };
                let others: Vec<RecurrentClass> = others.iter().map(class).collect();
                let roots: Vec<usize> = others.iter().map(|class| class.root).collect();
                let reach = if transient { elimination.reach(&roots) } else { Vec::new() };
                elimination.recycle(&mut self.workspace);
                let mut evaluated =
                    finish(component, policy, reward, weights.len(), &visits, reference, groups);
                evaluated.turn_to(others, reach);
                return evaluated;
            };
            tried.push(reference);
            reference = next;
            elimination.recycle(&mut self.workspace);
        }
    }

    /// State that a simulation of the policy visits most often.
    fn most_visited(&mut self, component: &EndComponent, policy: &[u32]) -> usize {
        let steps = (component.len() + 1000).min(MAX_SIMULATED_STEPS);
        self.counts.clear();
        self.counts.resize(component.len(), 0);
        for step in 0..steps {
            let choice = policy[self.at] as usize;
            let (targets, probabilities) = component.transitions(choice);
            let mut u = self.rng.uniform() - component.stay(choice);
            if u >= 0.0 && !targets.is_empty() {
                let drawn = probabilities.iter().position(|p| {
                    u -= p;
                    u < 0.0
                });
                self.at = targets[drawn.unwrap_or(targets.len() - 1)] as usize;
            }
            if 2 * step >= steps {
                self.counts[self.at] += 1;
            }
        }
        (0..component.len()).max_by_key(|&s| self.counts[s]).unwrap_or(0)
    }
}

/// Values with their errors. The residuals of g + h = r + P h, weighted by the stationary distribution,
/// bound the error of g: a residual may be large where the chain is once in 10²⁰ steps.
fn finish<'r>(
    component: &EndComponent,
    policy: &[u32],
    reward: &Rewards<'_, 'r>,
    width: usize,
    visits: &[f64],
    reference: usize,
    evaluations: Vec<Evaluation>,
) -> Evaluated {
    let total: f64 = visits.iter().sum();
    let mut errors = vec![0.0f64; width];
    for (group, evaluation) in evaluations.iter().enumerate() {
        let begin = group * GROUP;
        let mut mean = [0.0f64; RHS];
        let residual = |s: usize| {
            let choice = policy[s] as usize;
            let (targets, probabilities) = component.transitions(choice);
            let own = &evaluation.bias[s];
            let mut residual = group_rewards(reward(choice), begin);
            (0..RHS).for_each(|k| residual[k] -= evaluation.gain[k]);
            for (&t, p) in targets.iter().zip(probabilities) {
                let h = &evaluation.bias[t as usize];
                (0..RHS).for_each(|k| residual[k] += p * (h[k] - own[k]));
            }
            residual
        };
        // Chunk by chunk, so that the sum does not depend on the number of threads.
        let sums = visits.par_chunks(CHUNK).enumerate().map(|(piece, visits)| {
            let mut sum = [0.0f64; RHS];
            for (s, visits) in (piece * CHUNK..).zip(visits).filter(|(_, visits)| **visits > 0.0) {
                let share = visits / total;
                sum.iter_mut().zip(residual(s)).for_each(|(x, r)| *x += share * r.abs());
            }
            sum
        });
        for sum in sums.collect::<Vec<Rhs>>() {
            mean.iter_mut().zip(sum).for_each(|(x, y)| *x += y);
        }
        let members = (width - begin).min(GROUP);
        errors[begin..begin + members].copy_from_slice(&mean[..members]);
    }
    if evaluations[0].loss > NEVER {
        errors.fill(f64::INFINITY); // the reference is transient
    }
    let values = evaluations.iter().flat_map(|e| e.gain[..GROUP].iter().copied()).take(width).collect();
    let several = !evaluations[0].others.is_empty();
    let bias = evaluations.into_iter().map(|e| e.bias).collect();
    Evaluated { values, errors, root: reference, several, bias, others: Vec::new(), reach: Vec::new() }
}
