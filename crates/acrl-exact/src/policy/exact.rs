//! π(s, λ) of a finite model, computed on demand and cached with its cone of optimality.

use acrl::{FinitePolicy, Multipliers, Rng};

use crate::evaluation::chain::Chain;
use crate::pricing::maximise_from;
use crate::tolerances::{GAIN_ROUNDING, TIE};
use crate::tuning::CONE_MEMORY;
use crate::vector::{dot, largest};
use crate::{FiniteTask, Singular};

/// Exact Lagrangian maximiser as a policy for [`acrl::execute`].
///
/// A deterministic policy is optimal on a cone of weights (1, λ): its gain, bias and next term are
/// linear in the weights, and so is the disadvantage of every other action. So policies are cached with
/// their cones, and a changed λ usually costs one membership test; only outside all known cones policy
/// iteration runs again, from the last policy.
#[derive(Debug, Clone)]
pub struct ExactPolicy<'a> {
    task: &'a FiniteTask<'a>,
    /// Cached policies, the most recently used first.
    cones: Vec<Cone>,
    multipliers: Vec<f64>,
    failed: Option<Singular>,
}

impl<'a> ExactPolicy<'a> {
    /// Policy of a task.
    pub fn new(task: &'a FiniteTask<'a>) -> Self {
        Self { task, cones: Vec::new(), multipliers: Vec::new(), failed: None }
    }

    /// π(λ): the number of the action in each state.
    pub fn actions(&mut self, multipliers: &Multipliers) -> Result<&[usize], Singular> {
        if self.cones.is_empty() || multipliers.as_slice() != self.multipliers {
            self.select(multipliers)?;
        }
        Ok(&self.cones[0].actions)
    }

    /// Cached policies: the number of the action in each state.
    pub fn policies(&self) -> impl Iterator<Item = &[usize]> {
        self.cones.iter().map(|cone| cone.actions.as_slice())
    }

    /// Failure of policy iteration, after which the last policy stayed in use.
    pub fn failure(&self) -> Option<Singular> {
        self.failed
    }

    fn select(&mut self, multipliers: &Multipliers) -> Result<(), Singular> {
        let weights = multipliers.weights(self.task.has_objective());
        match self.cones.iter().position(|cone| cone.contains(&weights)) {
            Some(0) => {}
            Some(i) => self.cones[..=i].rotate_right(1),
            None => {
                let start = match self.cones.first() {
                    Some(cone) => cone.actions.clone(),
                    None => vec![0; self.task.model().states()],
                };
                let actions = maximise_from(self.task, &weights, start)?.actions;
                let cone = Cone::new(self.task, actions)?;
                let limit = (CONE_MEMORY / cone.size().max(1)).max(2);
                self.cones.truncate(limit - 1);
                self.cones.insert(0, cone);
            }
        }
        self.multipliers.clear();
        self.multipliers.extend_from_slice(multipliers.as_slice());
        Ok(())
    }
}

impl FinitePolicy for ExactPolicy<'_> {
    /// π(s, λ). If policy iteration fails for numerical reasons, the last policy stays in use and the error
    /// is available from [`failure`](Self::failure).
    #[inline]
    fn act(&mut self, state: usize, multipliers: &Multipliers, _: &mut Rng) -> usize {
        if (multipliers.as_slice() != self.multipliers || self.cones.is_empty())
            && let Err(failure) = self.select(multipliers)
        {
            self.failed = Some(failure);
        }
        self.cones.first().map_or(0, |cone| cone.actions[state])
    }
}

/// Cone of optimality: a policy, and the disadvantage of every other action as a linear function of the
/// weights.
#[derive(Debug, Clone)]
struct Cone {
    actions: Vec<usize>,
    /// Number of weights, m + 1.
    width: usize,
    /// Whether each other action precedes the policy's own in its state, and so would win a tie.
    earlier: Vec<bool>,
    /// Differences in gain; empty if there are none (one recurrent class).
    gain: Vec<f64>,
    /// Differences in bias.
    bias: Vec<f64>,
    /// Differences in the term after the bias.
    next: Vec<f64>,
    /// Sizes of reward, bias and next term by weight, for the tolerance of ties.
    sizes: [Vec<f64>; 3],
}

impl Cone {
    fn new(task: &FiniteTask<'_>, actions: Vec<usize>) -> Result<Self, Singular> {
        let model = task.model();
        let width = task.len() + 1;
        let chain = Chain::of_actions(model, &actions)?;
        let mut terms = Vec::with_capacity(width);
        for i in 0..width {
            let (g, h) = chain.gain_and_bias(&task.policy_rewards(&actions, i));
            let negated: Vec<f64> = h.iter().map(|h| -h).collect();
            let (_, w) = chain.gain_and_bias(&negated);
            terms.push((g, h, w));
        }
        let (mut earlier, mut gain, mut bias, mut next) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for s in 0..model.states() {
            for (a, c) in model.choices(s).enumerate().filter(|(a, _)| *a != actions[s]) {
                earlier.push(a < actions[s]);
                for (i, (g, h, w)) in terms.iter().enumerate() {
                    gain.push(model.expectation(c, g) - g[s]);
                    bias.push(task.rewards(c)[i] + model.expectation(c, h) - h[s] - g[s]);
                    next.push(model.expectation(c, w) - h[s] - w[s]);
                }
            }
        }
        let ranges = task.ranges().to_vec();
        if gain.iter().enumerate().all(|(j, d)| d.abs() <= GAIN_ROUNDING * ranges[j % width]) {
            gain = Vec::new();
        }
        let bias_sizes = terms.iter().map(|(_, h, _)| largest(h)).collect();
        let next_sizes = terms.iter().map(|(_, _, w)| largest(w)).collect();
        Ok(Self { actions, width, earlier, gain, bias, next, sizes: [ranges, bias_sizes, next_sizes] })
    }

    fn size(&self) -> usize {
        self.gain.len() + self.bias.len() + self.next.len()
    }

    /// Whether policy iteration would return this policy at these weights.
    fn contains(&self, weights: &[f64]) -> bool {
        let n = self.width;
        let size = |i: usize| -> f64 { self.sizes[i].iter().zip(weights).map(|(s, w)| s * w.abs()).sum() };
        let gain_tie = TIE * size(0);
        let bias_tie = gain_tie + TIE * size(1);
        for (j, &earlier) in self.earlier.iter().enumerate() {
            let row = j * n..(j + 1) * n;
            if !self.gain.is_empty() {
                let d = dot(&self.gain[row.clone()], weights);
                if d < -gain_tie {
                    continue;
                }
                if d > gain_tie {
                    return false;
                }
            }
            let d = dot(&self.bias[row.clone()], weights);
            if d < -bias_tie {
                continue;
            }
            if d > bias_tie {
                return false;
            }
            let next_tie = bias_tie + TIE * size(2);
            let d = dot(&self.next[row], weights);
            if d > next_tie || d >= -next_tie && earlier {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maximise;
    use crate::test_models::maximise_r0;
    use acrl::FiniteCmdp;
    use proptest::prelude::*;

    /// Random model: four states in a ring with random shortcuts and rewards.
    fn model(numbers: &[f64]) -> FiniteCmdp {
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        let mut at = numbers.iter().copied().cycle();
        let mut draw = || at.next().unwrap_or(0.5);
        (0..4).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..4 {
            for a in 0..3 {
                let p = 0.1 + 0.8 * draw();
                let (t, u) = ((s + 1) % 4, (s + 2 + a) % 4);
                let to = if t == u { vec![(t, 1.0)] } else { vec![(t, p), (u, 1.0 - p)] };
                b.choice(s, a.to_string(), &to, &[draw(), draw()]);
            }
        }
        b.build().unwrap()
    }

    proptest! {
        /// Whatever is cached, the policy has the gain of policy iteration from scratch.
        #[test]
        fn cached_cones_give_the_gain_of_policy_iteration(
            numbers in prop::collection::vec(0.0..1.0f64, 37),
            lambdas in prop::collection::vec(0.0..4.0f64, 1..40),
        ) {
            let model = model(&numbers);
            let task = FiniteTask::new(&model, &maximise_r0(&[("r1", 0.5)])).unwrap();
            let mut policy = ExactPolicy::new(&task);
            for l in lambdas {
                let multipliers = Multipliers::new(vec![l]).unwrap();
                let cached = task.values(policy.actions(&multipliers).unwrap()).unwrap();
                let exact = maximise(&task, &[1.0, l]).unwrap().value(&task);
                let lagrangian = cached.as_slice()[0] + l * cached.as_slice()[1];
                prop_assert!((lagrangian - exact).abs() < 1e-9);
            }
        }
    }
}
