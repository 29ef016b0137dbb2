//! A training of any learner, and the policy that results from it.

use acrl::{ActionPart, BatchMatrix, Error, Named, Rng, VecPolicy, VecTask};
use acrl_files::{Container, Tensor};
use serde::{Deserialize, Serialize};

use crate::baselines::{Baseline, Snapshots};
use crate::kernel::rbf::{RbfPolicy, RbfShape};
use crate::policy_file::{PolicyFileError, network_from, network_tensors, relu_network_from};
use crate::ppo::{ActionHeads, Inputs, MlpPolicy, Ppo};
use crate::sac::{PolicyNetworks, SacPolicy};
use crate::tabular::file::TabularMeta;
use crate::{
    ActorCritic, Coverage, LearnError, Learner, LearnerConfig, Method, PolicyGradient, RewardSample,
    TabularPolicy, TrainSettings,
};

/// A training that can be stopped between two iterations, stored, and continued bit-identically.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Training {
    /// Proximal policy optimisation.
    Ppo(Box<Ppo>),
    /// The paper's policy gradient.
    PolicyGradient(Box<PolicyGradient>),
    /// Policy gradient with a critic.
    ActorCritic(Box<ActorCritic>),
    /// A method for comparison.
    Baseline(Box<Baseline>),
}

/// Runs the same expression for any learner.
macro_rules! each {
    ($training:expr, $learner:ident => $call:expr) => {
        match $training {
            Training::Ppo($learner) => $call,
            Training::PolicyGradient($learner) => $call,
            Training::ActorCritic($learner) => $call,
            Training::Baseline($learner) => $call,
        }
    };
}

impl Training {
    /// Name of Algorithm 1 among the methods.
    pub const A_CRL: &str = "a_crl";

    /// A training from scratch, with the settings of a problem file; `total_steps` are environment steps, by default those of
    /// the section or of the learner.
    pub fn new(
        task: &VecTask<'_>,
        settings: &TrainSettings,
        (method, learner): (Method, Learner),
        total_steps: Option<u64>,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let config = settings.learner_config(learner, total_steps)?;
        if method != Method::ACrl {
            let baseline = Baseline::new(task, settings.baseline(method)?, config, seed)?;
            return Ok(Self::Baseline(Box::new(baseline)));
        }
        Ok(match config {
            LearnerConfig::Ppo(config) => Self::Ppo(Box::new(Ppo::new(task, config, seed)?)),
            LearnerConfig::PolicyGradient(config) => {
                Self::PolicyGradient(Box::new(PolicyGradient::new(task, config, seed)?))
            }
            LearnerConfig::ActorCritic(config) => {
                Self::ActorCritic(Box::new(ActorCritic::new(task, config, seed)?))
            }
        })
    }

    /// The learner's name.
    pub fn learner(&self) -> &'static str {
        match self {
            Self::Ppo(_) => "ppo",
            Self::PolicyGradient(_) => "policy_gradient",
            Self::ActorCritic(_) => "actor_critic",
            Self::Baseline(baseline) => baseline.learner(),
        }
    }

    /// Name of the method: [`Training::A_CRL`], or the baseline's.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Baseline(baseline) => baseline.method().name(),
            _ => Self::A_CRL,
        }
    }

    /// One iteration; returns its metrics.
    pub fn iterate(&mut self, task: &VecTask<'_>) -> Result<Named<f64>, LearnError> {
        each!(self, learner => learner.iterate(task))
    }

    /// Whether another training has the same learner and settings.
    pub fn same_settings(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ppo(a), Self::Ppo(b)) => a.settings() == b.settings(),
            (Self::PolicyGradient(a), Self::PolicyGradient(b)) => a.settings() == b.settings(),
            (Self::ActorCritic(a), Self::ActorCritic(b)) => a.settings() == b.settings(),
            (Self::Baseline(a), Self::Baseline(b)) => a.same_settings(b),
            _ => false,
        }
    }

    /// Number of iterations done.
    pub fn iteration(&self) -> u64 {
        each!(self, learner => learner.iteration())
    }

    /// Number of iterations planned.
    pub fn iterations(&self) -> u64 {
        each!(self, learner => learner.iterations())
    }

    /// Environment steps done.
    pub fn steps(&self) -> u64 {
        each!(self, learner => learner.steps())
    }

    /// The policy as it is now.
    pub fn policy(&self) -> TrainedPolicy {
        match self {
            Self::Ppo(learner) => TrainedPolicy::Mlp(Box::new(learner.policy())),
            Self::PolicyGradient(learner) => TrainedPolicy::Rbf(Box::new(learner.policy())),
            Self::ActorCritic(learner) => TrainedPolicy::Rbf(Box::new(learner.policy())),
            Self::Baseline(baseline) => baseline.policy(),
        }
    }

    /// Sample of the reward vectors that occurred so far.
    pub fn reward_sample(&self) -> &RewardSample {
        each!(self, learner => learner.reward_sample())
    }

    /// Sample of the weights that it was trained on so far.
    pub fn coverage(&self) -> &Coverage {
        each!(self, learner => learner.coverage())
    }
}

/// A trained policy π(s, λ) of any kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainedPolicy {
    /// A network.
    Mlp(Box<MlpPolicy>),
    /// Kernels.
    Rbf(Box<RbfPolicy>),
    /// Several policies that take turns.
    Snapshots(Box<Snapshots>),
    /// Networks of the off-policy learner.
    Sac(Box<SacPolicy>),
    /// A table with the model that it estimates.
    Tabular(Box<TabularPolicy>),
}

impl VecPolicy for TrainedPolicy {
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        match self {
            Self::Mlp(policy) => policy.act(observation, weights, actions, rngs),
            Self::Rbf(policy) => policy.act(observation, weights, actions, rngs),
            Self::Snapshots(policies) => policies.act(observation, weights, actions, rngs),
            Self::Sac(policy) => policy.act(observation, weights, actions, rngs),
            Self::Tabular(policy) => policy.act(observation, weights, actions, rngs),
        }
    }

    fn action_repeat(&self) -> usize {
        match self {
            Self::Mlp(policy) => policy.action_repeat(),
            Self::Rbf(policy) => policy.action_repeat(),
            Self::Snapshots(policies) => policies.action_repeat(),
            Self::Sac(policy) => policy.action_repeat(),
            Self::Tabular(policy) => policy.action_repeat(),
        }
    }
}

/// Metadata of a policy in a policy file; the names are part of the file format.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Meta {
    /// A network.
    Mlp {
        inputs: Inputs,
        heads: ActionHeads,
        #[serde(rename = "hold")]
        action_repeat: usize,
        shape: Vec<usize>,
        #[serde(default)]
        sampling: bool,
    },
    /// Kernels.
    Rbf { shape: RbfShape, weights: usize },
    /// Several policies that take turns; the names of their tensors begin with their numbers.
    Snapshots { policies: Vec<Meta> },
    /// The actor of continuous actions, or the twin critics of discrete ones.
    Sac { inputs: Inputs, actions: Vec<ActionPart>, shape: Vec<usize> },
    /// A table.
    Tabular { table: Box<TabularMeta> },
}

impl TrainedPolicy {
    /// Scaling of the inputs of a network; `None` for other policies.
    pub fn inputs(&self) -> Option<&Inputs> {
        match self {
            Self::Mlp(policy) => Some(policy.inputs()),
            Self::Sac(policy) => Some(policy.inputs()),
            Self::Rbf(_) | Self::Snapshots(_) | Self::Tabular(_) => None,
        }
    }

    /// Whether it draws its actions by default.
    pub fn is_sampling(&self) -> bool {
        match self {
            Self::Mlp(policy) => policy.is_sampling(),
            Self::Rbf(policy) => policy.is_sampling(),
            Self::Snapshots(policies) => policies.policies().iter().any(Self::is_sampling),
            Self::Sac(_) | Self::Tabular(_) => false,
        }
    }

    /// The same policy, drawing its actions as in training or not, where it can do either.
    pub fn sampling(self, sampling: bool) -> Self {
        match self {
            Self::Mlp(policy) => Self::Mlp(Box::new(policy.sampling(sampling))),
            Self::Rbf(policy) => Self::Rbf(Box::new(policy.sampling(sampling))),
            Self::Snapshots(_) | Self::Sac(_) | Self::Tabular(_) => self,
        }
    }

    /// Whether it has a distribution of discrete actions, whose mode may be worse than what is drawn from it.
    pub(crate) fn has_categorical_actions(&self) -> bool {
        let discrete = |part: &ActionPart| matches!(part, ActionPart::Discrete(_));
        match self {
            Self::Mlp(policy) => policy.heads().parts().iter().any(discrete),
            Self::Rbf(_) | Self::Snapshots(_) | Self::Sac(_) | Self::Tabular(_) => false,
        }
    }

    /// Whether it does not depend on λ.
    pub fn ignores_weights(&self) -> bool {
        match self {
            Self::Mlp(policy) => policy.inputs().ignores_weights(),
            Self::Rbf(policy) => policy.ignores_weights(),
            Self::Snapshots(_) => true,
            Self::Sac(_) | Self::Tabular(_) => false,
        }
    }

    /// Number of parameters.
    pub fn numbers(&self) -> usize {
        match self {
            Self::Mlp(policy) => policy.actor().parameters().len() + policy.log_std().len(),
            Self::Rbf(policy) => policy.theta().len(),
            Self::Snapshots(policies) => policies.numbers(),
            Self::Sac(policy) => sac_networks(policy).iter().map(|(_, net)| net.parameters().len()).sum(),
            Self::Tabular(policy) => policy.counts().pairs_tried(),
        }
    }

    /// Metadata, and parameters as tensors.
    pub(crate) fn to_parts(&self) -> Result<(serde_json::Value, Vec<(String, Tensor)>), PolicyFileError> {
        let (meta, tensors) = self.parts("");
        Ok((serde_json::to_value(meta)?, tensors))
    }

    /// [`to_parts`](Self::to_parts) with a prefix to the names of its tensors.
    fn parts(&self, prefix: &str) -> (Meta, Vec<(String, Tensor)>) {
        match self {
            Self::Mlp(policy) => {
                let mut tensors = network_tensors(&format!("{prefix}actor"), policy.actor());
                let log_std = policy.log_std().to_vec();
                let tensor = Tensor::f32([log_std.len()], log_std);
                tensors.push((format!("{prefix}log_deviations"), tensor));
                let meta = Meta::Mlp {
                    inputs: policy.inputs().clone(),
                    heads: policy.heads().clone(),
                    action_repeat: policy.action_repeat(),
                    shape: policy.actor().shape().to_vec(),
                    sampling: policy.is_sampling(),
                };
                (meta, tensors)
            }
            Self::Rbf(policy) => {
                let theta = policy.theta();
                let meta = Meta::Rbf { shape: policy.shape(), weights: theta.len() };
                (meta, vec![(format!("{prefix}theta"), Tensor::f32([theta.len()], theta))])
            }
            Self::Snapshots(policies) => {
                let parts = policies.policies().iter().enumerate();
                let (policies, tensors): (_, Vec<_>) =
                    parts.map(|(k, policy)| policy.parts(&format!("{prefix}{k}."))).unzip();
                (Meta::Snapshots { policies }, tensors.into_iter().flatten().collect())
            }
            Self::Sac(policy) => {
                let networks = sac_networks(policy);
                let tensors =
                    networks.iter().flat_map(|(name, net)| network_tensors(&format!("{prefix}{name}"), net));
                let meta = Meta::Sac {
                    inputs: policy.inputs().clone(),
                    actions: policy.parts().to_vec(),
                    shape: networks[0].1.shape().to_vec(),
                };
                (meta, tensors.collect())
            }
            Self::Tabular(policy) => {
                let (table, tensors) = policy.to_parts(prefix);
                (Meta::Tabular { table: Box::new(table) }, tensors)
            }
        }
    }

    pub(crate) fn from_parts(
        meta: serde_json::Value,
        container: &mut Container,
    ) -> Result<Self, PolicyFileError> {
        Self::from_meta(serde_json::from_value(meta)?, "", container)
    }

    fn from_meta(meta: Meta, prefix: &str, container: &mut Container) -> Result<Self, PolicyFileError> {
        let wrong = PolicyFileError::Inconsistent;
        match meta {
            Meta::Mlp { inputs, heads, action_repeat, shape, sampling } => {
                let (first, last) = (inputs.len(), heads.outputs());
                if shape.len() < 2 || shape[0] != first || shape.last() != Some(&last) {
                    return Err(wrong(format!(
                        "the network's widths are {shape:?}, expected {first} inputs and {last} outputs"
                    )));
                }
                inputs.check().map_err(|e| wrong(e.to_string()))?;
                ActionHeads::new(heads.parts()).map_err(|e| wrong(e.to_string()))?;
                if action_repeat == 0 {
                    return Err(wrong("an action is repeated for 0 steps".to_owned()));
                }
                let actor = network_from(&format!("{prefix}actor"), &shape, container)?;
                let log_std = container.take_f32(&format!("{prefix}log_deviations"), &[heads.numbers()])?;
                let policy = MlpPolicy::new(inputs, heads, actor, log_std, action_repeat).sampling(sampling);
                Ok(Self::Mlp(Box::new(policy)))
            }
            Meta::Rbf { shape, weights } => {
                let theta = container.take_f32(&format!("{prefix}theta"), &[weights])?;
                let policy = RbfPolicy::from_parts(shape, theta).map_err(|e| wrong(e.to_string()))?;
                Ok(Self::Rbf(Box::new(policy)))
            }
            Meta::Snapshots { policies } => {
                let nested = policies.iter().any(|meta| matches!(meta, Meta::Snapshots { .. }));
                if policies.is_empty() || nested {
                    return Err(wrong(
                        "its policies that take turns are none, or take turns themselves".to_owned(),
                    ));
                }
                let parts = policies.into_iter().enumerate();
                let policies = parts
                    .map(|(k, meta)| Self::from_meta(meta, &format!("{prefix}{k}."), container))
                    .collect::<Result<Vec<_>, _>>()?;
                if policies.iter().any(|policy| policy.action_repeat() != policies[0].action_repeat()) {
                    return Err(wrong(
                        "its policies that take turns repeat actions for different times".to_owned(),
                    ));
                }
                Ok(Self::Snapshots(Box::new(Snapshots::new(policies))))
            }
            Meta::Sac { inputs, actions, shape } => {
                let mut network = |name: &str, layer_norm: bool| {
                    relu_network_from(&format!("{prefix}{name}"), &shape, layer_norm, container)
                };
                let continuous = |part: &ActionPart| matches!(part, ActionPart::Continuous(_));
                let networks = if actions.iter().any(continuous) {
                    PolicyNetworks::Actor(network("actor", false)?)
                } else {
                    PolicyNetworks::Critics([network("critic.0", true)?, network("critic.1", true)?])
                };
                let policy = SacPolicy::from_parts(inputs, &actions, networks).map_err(wrong)?;
                Ok(Self::Sac(Box::new(policy)))
            }
            Meta::Tabular { table } => {
                Ok(Self::Tabular(Box::new(TabularPolicy::from_parts(*table, prefix, container)?)))
            }
        }
    }

    /// `Ok` if it can act in the task's environment; else the difference.
    pub(crate) fn check(&self, task: &VecTask<'_>) -> Result<(), String> {
        let environment = task.environment();
        let same = |what: &str, trained: String, found: String| {
            if trained == found {
                return Ok(());
            }
            Err(format!("it was trained for {what} {trained}, but the environment has {found}"))
        };
        let same_spaces = |inputs: &Inputs, parts: &[ActionPart]| {
            let space = environment.observation_space();
            same("observations in", format!("{:?}", inputs.observation()), format!("{space:?}"))?;
            same("actions", format!("{parts:?}"), format!("{:?}", environment.action_space()))?;
            same("rewards with the ranges", format!("{:?}", inputs.scales()), format!("{:?}", task.scales()))
        };
        match self {
            Self::Mlp(policy) => same_spaces(policy.inputs(), policy.heads().parts()),
            Self::Sac(policy) => same_spaces(policy.inputs(), policy.parts()),
            Self::Rbf(policy) => policy.check(task),
            Self::Snapshots(policies) => policies.policies().iter().try_for_each(|policy| policy.check(task)),
            Self::Tabular(policy) => policy.check(task),
        }
    }
}

/// The networks of a policy of the off-policy learner, by name.
fn sac_networks(policy: &SacPolicy) -> Vec<(&'static str, &acrl_nn::Mlp)> {
    match policy.networks() {
        PolicyNetworks::Actor(net) => vec![("actor", net)],
        PolicyNetworks::Critics([a, b]) => vec![("critic.0", a), ("critic.1", b)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rbf::tests::{line, task};
    use crate::{ActorCriticConfig, PolicyGradientConfig};

    /// Trainings of the kernel learners.
    fn trainings(task: &VecTask<'_>, seed: u64) -> [Training; 2] {
        let total_steps = 200_000;
        let gradient = PolicyGradientConfig { total_steps, std: 1.0, ..PolicyGradientConfig::default() };
        let critic = ActorCriticConfig { total_steps, ..ActorCriticConfig::default() };
        [
            Training::PolicyGradient(Box::new(PolicyGradient::new(task, gradient, seed).unwrap())),
            Training::ActorCritic(Box::new(ActorCritic::new(task, critic, seed).unwrap())),
        ]
    }

    fn theta(training: &Training) -> Vec<f32> {
        match training.policy() {
            TrainedPolicy::Rbf(policy) => policy.theta(),
            _ => panic!("no kernels"),
        }
    }

    #[test]
    fn a_resumed_training_is_bit_identical_and_depends_on_its_seed() {
        let line = line();
        let task = task(&line);
        for (mut straight, mut other) in trainings(&task, 5).into_iter().zip(trainings(&task, 6)) {
            let mut resumed = straight.clone();
            for _ in 0..3 {
                let text = serde_json::to_string(&resumed).unwrap();
                resumed = serde_json::from_str(&text).unwrap();
                let figures = resumed.iterate(&task).unwrap();
                assert_eq!(straight.iterate(&task).unwrap(), figures);
                other.iterate(&task).unwrap();
            }
            assert_eq!(serde_json::to_string(&straight).unwrap(), serde_json::to_string(&resumed).unwrap());
            assert_eq!((straight.iteration(), straight.iterations(), straight.steps()), (3, 10, 3_000 * 21));
            assert_ne!(theta(&straight), theta(&other));
        }
    }

    #[test]
    fn a_reward_that_is_not_finite_stops_the_training_and_leaves_it_usable() {
        let mut line = line();
        for mut training in trainings(&task(&line), 1) {
            training.iterate(&task(&line)).unwrap();
            let before = serde_json::to_string(&training).unwrap();
            for (factor, message) in [(f64::NAN, "reward"), (1e300, "iteration 2")] {
                line.factor = factor;
                let error = training.iterate(&task(&line)).unwrap_err().to_string();
                assert!(error.contains(message), "{error}");
                assert_eq!(serde_json::to_string(&training).unwrap(), before);
            }
            line.factor = 1.0;
            training.iterate(&task(&line)).unwrap();
        }
    }
}
