//! Iterative evaluation of chains that mix fast.

use super::gth::{LOSS, RHS, Rhs, TIME};
use super::{Evaluated, GROUP, Rewards, group_rewards};
use crate::graph::EndComponent;
use crate::simd::vectorised;
use crate::tolerances::{DAMPING, ITERATION_PROGRESS};
use crate::tuning::{DAMP_AFTER, GAUSS_SEIDEL_PER_CHECK, GIVE_UP_AFTER, MAX_ITERATIONS};

/// Iteration h ← r − g + P h, started from the bias of the policy before.
pub(super) struct Iteration {
    /// Bias so far, by group of rewards.
    bias: Vec<Vec<Rhs>>,
    next: Vec<Rhs>,
    rewards: Vec<Rhs>,
    chain: PackedChain,
    /// Share of each update that is taken; less than 1 where a chain is periodic.
    damping: f64,
}

impl Iteration {
    pub(super) fn new() -> Self {
        Self {
            bias: Vec::new(),
            next: Vec::new(),
            rewards: Vec::new(),
            chain: PackedChain::default(),
            damping: 1.0,
        }
    }

    /// Values and bias of a policy, each value to within `precision[i]`; `None` if the iteration does not
    /// converge soon. The span of r + P h − h bounds the error of the gain (Odoni 1969).
    pub(super) fn evaluate<'r>(
        &mut self,
        component: &EndComponent,
        policy: &[u32],
        reward: &Rewards<'_, 'r>,
        precision: &[f64],
    ) -> Option<Evaluated> {
        let n = component.len();
        let width = precision.len();
        self.bias.resize_with(width.div_ceil(GROUP), || vec![[0.0; RHS]; n]);
        self.next.resize(n, [0.0; RHS]);
        let (mut values, mut errors) = (vec![0.0; width], vec![0.0; width]);
        let mut groups = Vec::new();
        self.chain.pack(component, policy);
        for (group, begin) in (0..width).step_by(GROUP).enumerate() {
            let members = begin..(begin + GROUP).min(width);
            self.rewards.clear();
            self.rewards.extend(policy.iter().map(|&c| group_rewards(reward(c as usize), begin)));
            let mut best = f64::INFINITY;
            let mut waited = 0;
            let mut iterations = 0;
            loop {
                let h = &self.bias[group];
                let (low, high) = vectorised(
                    #[inline(always)]
                    || jacobi(&self.chain, &self.rewards, h, self.damping, &mut self.next),
                );
                // Only differences of h matter: the midpoint of the changes is subtracted.
                let middle: Rhs = std::array::from_fn(|k| f64::midpoint(low[k], high[k]));
                let shift = middle.map(|x| self.damping * x);
                self.next.iter_mut().for_each(|h| h.iter_mut().zip(&shift).for_each(|(h, m)| *h -= m));
                let mut error: f64 = 0.0;
                for i in members.clone() {
                    let k = i - begin;
                    values[i] = middle[k];
                    errors[i] = (high[k] - low[k]) / 2.0;
                    error = error.max(errors[i] / precision[i]);
                }
                std::mem::swap(&mut self.bias[group], &mut self.next);
                if error <= 1.0 {
                    break;
                }
                iterations += 1;
                if error < ITERATION_PROGRESS * best {
                    (best, waited) = (error, 0);
                } else {
                    waited += 1;
                }
                if waited == DAMP_AFTER && self.damping == 1.0 {
                    (self.damping, waited) = (DAMPING, 0);
                } else if waited == GIVE_UP_AFTER || iterations == MAX_ITERATIONS {
                    return None;
                }
                // Gauss–Seidel converges faster, but gives no error bound.
                let h = &mut self.bias[group];
                for _ in 0..GAUSS_SEIDEL_PER_CHECK {
                    vectorised(
                        #[inline(always)]
                        || gauss_seidel(&self.chain, &self.rewards, &middle, h),
                    );
                }
            }
            let mut bias = self.bias[group].clone();
            bias.iter_mut().for_each(|h| (h[TIME], h[LOSS]) = (0.0, 0.0));
            groups.push(bias);
        }
        let (others, reach) = (Vec::new(), Vec::new());
        Some(Evaluated { values, errors, root: 0, several: false, bias: groups, others, reach })
    }
}

/// Chain of a policy, row by row.
#[derive(Default)]
struct PackedChain {
    first: Vec<u32>,
    transitions: Vec<(u32, f64)>,
}

impl PackedChain {
    fn pack(&mut self, component: &EndComponent, policy: &[u32]) {
        self.first.clear();
        self.transitions.clear();
        self.first.push(0);
        for (s, &choice) in policy.iter().enumerate() {
            let (targets, probabilities) = component.transitions(choice as usize);
            let stay = component.stay(choice as usize);
            self.transitions.extend((stay > 0.0).then_some((s as u32, stay)));
            self.transitions.extend(targets.iter().copied().zip(probabilities.iter().copied()));
            self.first.push(self.transitions.len() as u32);
        }
    }

    /// r(s) + Σ p h(t).
    #[inline(always)]
    fn reward_and_next(&self, s: usize, rewards: &[Rhs], h: &[Rhs]) -> Rhs {
        let mut x = rewards[s];
        for &(t, p) in &self.transitions[self.first[s] as usize..self.first[s + 1] as usize] {
            let h = &h[t as usize];
            for k in 0..RHS {
                x[k] += p * h[k];
            }
        }
        x
    }
}

/// Jacobi iteration h ← h + d (r + P h − h); returns the least and the largest r + P h − h of each
/// right-hand side.
#[inline(always)]
fn jacobi(chain: &PackedChain, rewards: &[Rhs], h: &[Rhs], damping: f64, next: &mut [Rhs]) -> (Rhs, Rhs) {
    let (mut low, mut high) = ([f64::INFINITY; RHS], [f64::NEG_INFINITY; RHS]);
    for (s, (own, next)) in h.iter().zip(next).enumerate() {
        let x = chain.reward_and_next(s, rewards, h);
        for k in 0..RHS {
            let change = x[k] - own[k];
            low[k] = if change < low[k] { change } else { low[k] };
            high[k] = if change > high[k] { change } else { high[k] };
            next[k] = own[k] + damping * change;
        }
    }
    (low, high)
}

/// Gauss–Seidel iteration h ← r − g + P h, in place.
#[inline(always)]
fn gauss_seidel(chain: &PackedChain, rewards: &[Rhs], gain: &Rhs, h: &mut [Rhs]) {
    for s in 0..h.len() {
        let x = chain.reward_and_next(s, rewards, h);
        for k in 0..RHS {
            h[s][k] = x[k] - gain[k];
        }
    }
}
