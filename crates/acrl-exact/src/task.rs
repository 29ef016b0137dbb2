//! Finite model with a specification.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use acrl::{Error, FiniteCmdp, Requirement, Specification, Values};

use crate::evaluation::chain::Chain;
use crate::graph::EndComponent;
use crate::vector::dot;
use crate::{Singular, Structure};

/// Finite model and specification, with the rewards in the form r₀ … r_m of the paper.
#[derive(Debug, Clone)]
pub struct FiniteTask<'a> {
    model: &'a FiniteCmdp,
    specification: Specification,
    structure: Arc<Structure>,
    /// The only end component, if there is one, built on first use.
    component: Arc<OnceLock<EndComponent>>,
    /// r₀ … r_m of each choice; shared by tasks that differ in bounds.
    rewards: Arc<Vec<f64>>,
    bounds: Vec<f64>,
    /// R₀ … R_m: the range of each reward; the magnitude of a constant one, or 1.
    ranges: Vec<f64>,
}

impl<'a> FiniteTask<'a> {
    /// Task on a model. Fails if the specification names a reward that the model does not have.
    pub fn new(model: &'a FiniteCmdp, specification: &Specification) -> Result<Self, Error> {
        Self::with_structure(model, specification, Arc::new(Structure::new(model)), Arc::default())
    }

    fn with_structure(
        model: &'a FiniteCmdp,
        specification: &Specification,
        structure: Arc<Structure>,
        component: Arc<OnceLock<EndComponent>>,
    ) -> Result<Self, Error> {
        let scoring = specification.bind(model.reward_names())?;
        let terms: Vec<Option<(usize, f64)>> = scoring.terms().collect();
        let mut rewards = Vec::with_capacity(model.choice_count() * terms.len());
        for choice in 0..model.choice_count() {
            let named = model.choice(choice).rewards;
            rewards.extend(terms.iter().map(|term| term.map_or(0.0, |(i, sign)| sign * named[i])));
        }
        // Over reachable states. The range of a constant reward is its magnitude.
        let mut extremes = vec![(f64::INFINITY, f64::NEG_INFINITY); terms.len()];
        for choice in reachable_choices(model, &structure) {
            let own = &rewards[choice * terms.len()..(choice + 1) * terms.len()];
            for ((low, high), r) in extremes.iter_mut().zip(own) {
                (*low, *high) = (low.min(*r), high.max(*r));
            }
        }
        let range = |(term, (low, high)): (&Option<(usize, f64)>, (f64, f64))| match term {
            None => 1.0,
            Some(_) => [high - low, high.abs()].into_iter().find(|r| *r > 0.0).unwrap_or(1.0),
        };
        let ranges = terms.iter().zip(extremes).map(range).collect();
        let bounds = specification.bounds();
        Ok(Self {
            model,
            specification: specification.clone(),
            structure,
            component,
            rewards: Arc::new(rewards),
            bounds,
            ranges,
        })
    }

    /// Task on the same model with another specification; one that differs in bounds only costs nothing.
    pub fn with(&self, specification: &Specification) -> Result<Self, Error> {
        let same =
            |(a, b): (&Requirement, &Requirement)| a.reward() == b.reward() && a.direction() == b.direction();
        let (ours, theirs) = (self.specification.requirements(), specification.requirements());
        if self.specification.objective() == specification.objective()
            && ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(same)
        {
            let (specification, bounds) = (specification.clone(), specification.bounds());
            return Ok(Self { specification, bounds, ..self.clone() });
        }
        Self::with_structure(self.model, specification, self.structure.clone(), self.component.clone())
    }

    /// Task with ranges over the whole model, unreachable states included: the unit of relaxations.
    pub fn in_model_units(&self) -> Self {
        let names = self.model.reward_names();
        let mut task = self.clone();
        for (range, requirement) in task.ranges[1..].iter_mut().zip(self.specification.requirements()) {
            let index = names.iter().position(|name| name == requirement.reward());
            let (low, high) = index.map_or((0.0, 0.0), |i| self.model.reward_range(i));
            if high > low {
                *range = high - low;
            }
        }
        task
    }

    /// Model.
    pub fn model(&self) -> &'a FiniteCmdp {
        self.model
    }

    /// Specification.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// Reachable states and end components of the model.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// The only end component; `None` if there are several.
    pub(crate) fn end_component(&self) -> Option<&EndComponent> {
        let states = match &self.structure.end_components[..] {
            [states] => states,
            _ => return None,
        };
        Some(self.component.get_or_init(|| EndComponent::new(self.model, states)))
    }

    /// Whether there is an objective (else r₀ = 0).
    pub fn has_objective(&self) -> bool {
        self.specification.objective().is_some()
    }

    /// m, the number of requirements.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// c₁ … c_m.
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// R₁ … R_m: the ranges of the requirements' rewards over reachable states.
    pub fn scales(&self) -> &[f64] {
        &self.ranges[1..]
    }

    /// R₀, the range of the objective; 1 without one.
    pub fn objective_scale(&self) -> f64 {
        self.ranges[0]
    }

    /// R₀ … R_m.
    pub(crate) fn ranges(&self) -> &[f64] {
        &self.ranges
    }

    /// Σ |w_i| R_i: the range of Σ w_i r_i.
    pub(crate) fn weighted_range(&self, weights: &[f64]) -> f64 {
        weights.iter().zip(&self.ranges).map(|(w, r)| (w * r).abs()).sum()
    }

    /// r₀ … r_m of a choice.
    #[inline]
    pub fn rewards(&self, choice: usize) -> &[f64] {
        let n = self.bounds.len() + 1;
        &self.rewards[choice * n..(choice + 1) * n]
    }

    /// Σ w_i r_i of a choice.
    #[inline]
    pub(crate) fn weighted_reward(&self, choice: usize, weights: &[f64]) -> f64 {
        dot(self.rewards(choice), weights)
    }

    /// Distinct reward vectors r₁ … r_m over reachable states.
    pub fn reward_vectors(&self) -> Vec<Vec<f64>> {
        let choices = reachable_choices(self.model, &self.structure);
        let mut known = HashSet::new();
        let mut bits = Vec::new();
        // Looked up before they are copied: most of them are repetitions.
        let first = |rewards: &&[f64]| {
            bits.clear();
            bits.extend(rewards.iter().map(|r| r.to_bits()));
            !known.contains(&bits) && known.insert(bits.clone())
        };
        let rewards = choices.map(|c| &self.rewards(c)[1..]);
        let mut vectors: Vec<Vec<f64>> = rewards.filter(first).map(<[f64]>::to_vec).collect();
        vectors.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        vectors.dedup();
        vectors
    }

    /// V₀ … V_m of the deterministic policy that takes action number `actions[s]` in state s, from the
    /// initial distribution.
    pub fn values(&self, actions: &[usize]) -> Result<Values, Singular> {
        self.average(&Chain::of_actions(self.model, actions)?, |i| self.policy_rewards(actions, i))
    }

    /// Recurrent classes of a deterministic policy, each with its states and its V₀ … V_m.
    pub fn classes(&self, actions: &[usize]) -> Result<Vec<(Vec<usize>, Values)>, Singular> {
        let chain = Chain::of_actions(self.model, actions)?;
        let gain = |i: usize| chain.gain_and_bias(&self.policy_rewards(actions, i)).0;
        let gains: Vec<Vec<f64>> = (0..=self.len()).map(gain).collect();
        let values = |s: usize| Values::new(gains.iter().map(|g| g[s]).collect()).map_err(|_| Singular);
        chain.recurrent_classes().map(|states| Ok((states.to_vec(), values(states[0])?))).collect()
    }

    /// V₀ … V_m of the randomised stationary policy that takes choice number c with probability
    /// `weights[c]`, from the initial distribution.
    pub fn values_of_randomised(&self, weights: &[f64]) -> Result<Values, Singular> {
        let chain = Chain::of_weights(self.model, weights)?;
        let reward =
            |i: usize, s: usize| self.model.choices(s).map(|c| weights[c] * self.rewards(c)[i]).sum::<f64>();
        self.average(&chain, |i| (0..self.model.states()).map(|s| reward(i, s)).collect())
    }

    /// Occupancy measure of a deterministic policy: the long-run share of time spent on each choice.
    pub fn occupancy(&self, actions: &[usize]) -> Result<Vec<f64>, Singular> {
        let frequencies = Chain::of_actions(self.model, actions)?.frequencies(self.model.initial());
        let mut occupancy = vec![0.0; self.model.choice_count()];
        for (s, frequency) in frequencies.into_iter().enumerate() {
            occupancy[self.model.choices(s).start + actions[s]] = frequency;
        }
        Ok(occupancy)
    }

    /// r_i in each state under a deterministic policy.
    pub(crate) fn policy_rewards(&self, actions: &[usize], i: usize) -> Vec<f64> {
        let reward = |(s, a): (usize, &usize)| self.rewards(self.model.choices(s).start + a)[i];
        actions.iter().enumerate().map(reward).collect()
    }

    /// Long-run averages of `rewards(i)`, from the initial distribution.
    fn average(&self, chain: &Chain, rewards: impl Fn(usize) -> Vec<f64>) -> Result<Values, Singular> {
        let frequencies = chain.frequencies(self.model.initial());
        let value = |i| frequencies.iter().zip(rewards(i)).map(|(f, r)| f * r).sum();
        Values::new((0..=self.len()).map(value).collect()).map_err(|_| Singular)
    }
}

/// Choices of reachable states.
fn reachable_choices<'a>(
    model: &'a FiniteCmdp,
    structure: &'a Structure,
) -> impl Iterator<Item = usize> + 'a {
    (0..model.states()).filter(|&s| structure.reachable[s]).flat_map(|s| model.choices(s))
}
