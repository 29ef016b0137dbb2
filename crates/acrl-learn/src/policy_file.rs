//! The policy file: a trained policy with everything that is needed to run it.
//!
//! The file is a `safetensors` container: the weights are tensors that any reader of that format opens, and the rest
//! is metadata. It embeds the problem, so that `acrl run FILE` needs nothing else.

use acrl::{LibraryEntry, Objective, PolicyLibrary, Requirement, Specification, VecTask};
use acrl_files::{Container, ContainerError, Tensor};
use acrl_nn::{Activation, Mlp};
use serde::{Deserialize, Serialize};

use crate::{Coverage, ExecutionDefaults, RewardSample, TrainedPolicy};

/// Content of a policy file.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// The text of the problem file.
    pub problem: String,
    /// Objective and requirements of the training. The bounds may be changed when it runs; the rest may not.
    pub specification: Specification,
    /// π(s, λ).
    pub policy: TrainedPolicy,
    /// Long-run averages under fixed weights.
    pub library: PolicyLibrary,
    /// Sample of the weights of the training.
    pub coverage: Coverage,
    /// Sample of the reward vectors that occurred in training.
    pub reward_sample: RewardSample,
    /// Default settings of its execution.
    pub execution_defaults: ExecutionDefaults,
    /// Provenance.
    pub training: TrainingRecord,
}

/// Provenance of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    /// The learner.
    pub learner: String,
    /// The method: `a_crl`, or that of a baseline.
    #[serde(default = "a_crl")]
    pub method: String,
    /// Environment steps.
    pub steps: u64,
    /// The seed.
    pub seed: u64,
    /// Whether the training was complete.
    pub complete: bool,
    /// The version of the program.
    pub version: String,
}

/// Method of files that do not name one.
fn a_crl() -> String {
    crate::Training::A_CRL.to_owned()
}

/// A file that is not a policy of this program.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// The container is damaged, or another one.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// Its metadata are not those of a policy.
    #[error("the metadata of the policy cannot be read: {0}")]
    Meta(#[from] serde_json::Error),
    /// Its parts contradict each other.
    #[error("the policy contradicts itself: {0}")]
    Inconsistent(String),
    /// It was trained for another environment.
    #[error("the policy does not fit the environment: {0}")]
    Spaces(String),
}

/// Metadata of the container.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    problem: String,
    objective: Option<Objective>,
    requirements: Vec<Requirement>,
    policy: serde_json::Value,
    library: PolicyLibrary,
    coverage: Coverage,
    reward_sample: RewardSample,
    execution_defaults: ExecutionDefaults,
    training: TrainingRecord,
}

impl PolicyFile {
    /// As a container, ready to be saved.
    pub fn to_container(&self) -> Result<Container, PolicyFileError> {
        let (policy, tensors) = self.policy.to_parts()?;
        let meta = Meta {
            problem: self.problem.clone(),
            objective: self.specification.objective().cloned(),
            requirements: self.specification.requirements().to_vec(),
            policy,
            library: self.library.clone(),
            coverage: self.coverage.clone(),
            reward_sample: self.reward_sample.clone(),
            execution_defaults: self.execution_defaults,
            training: self.training.clone(),
        };
        let mut container = Container::new(serde_json::to_value(meta)?);
        container.tensors.extend(tensors);
        Ok(container)
    }

    /// From a container that has been read.
    pub fn from_container(mut container: Container) -> Result<Self, PolicyFileError> {
        let meta: Meta = serde_json::from_value(std::mem::take(&mut container.meta))?;
        let wrong = |e: acrl::Error| PolicyFileError::Inconsistent(e.to_string());
        let specification = Specification::new(meta.objective, meta.requirements).map_err(wrong)?;
        let policy = TrainedPolicy::from_parts(meta.policy, &mut container)?;
        container.nothing_left()?;
        let rewards = specification.requirements().len() + 1;
        let fits = |v: &Vec<f64>| v.len() == rewards && v.iter().all(|x| x.is_finite());
        let errors =
            |e: &LibraryEntry| e.errors.is_empty() || (fits(&e.errors) && e.errors.iter().all(|x| *x >= 0.0));
        let fits_entry =
            |e: &LibraryEntry| fits(&e.weights) && fits(&e.values) && errors(e) && e.travel.iter().all(fits);
        if !meta.library.entries.iter().all(fits_entry) {
            let message = format!("an entry of its library has not {rewards} weights and values");
            return Err(PolicyFileError::Inconsistent(message));
        }
        if meta.reward_sample.vectors().iter().any(|v| v.len() + 1 != rewards) {
            let message = format!("an observed reward vector does not have {} numbers", rewards - 1);
            return Err(PolicyFileError::Inconsistent(message));
        }
        let ExecutionDefaults { step_size, epoch, .. } = meta.execution_defaults;
        if !(step_size.is_finite() && step_size > 0.0 && epoch > 0) {
            let message = format!("its execution defaults are {:?}", meta.execution_defaults);
            return Err(PolicyFileError::Inconsistent(message));
        }
        Ok(Self {
            problem: meta.problem,
            specification,
            policy,
            library: meta.library,
            coverage: meta.coverage,
            reward_sample: meta.reward_sample,
            execution_defaults: meta.execution_defaults,
            training: meta.training,
        })
    }

    /// `Ok` if the policy can act in the task's environment: same observations, actions and rewards.
    pub fn check(&self, task: &VecTask<'_>) -> Result<(), PolicyFileError> {
        self.policy.check(task).map_err(PolicyFileError::Spaces)
    }
}

/// A tensor for each layer's weights (outputs × inputs) and biases, and for the gains and shifts of layer normalisation.
pub(crate) fn network_tensors(name: &str, network: &acrl_nn::Mlp) -> Vec<(String, Tensor)> {
    let mut rest = network.parameters();
    let mut take = |n: usize| {
        let (first, after) = rest.split_at(n);
        rest = after;
        first.to_vec()
    };
    let mut tensors = Vec::new();
    for (layer, part, dimensions) in layer_parts(network.shape(), network.has_layer_norm()) {
        let numbers = take(dimensions.iter().product());
        tensors.push((format!("{name}.{layer}.{part}"), Tensor::f32(dimensions, numbers)));
    }
    tensors
}

/// The tensors of a network in the order of its parameters: layer, name and dimensions.
fn layer_parts(shape: &[usize], layer_norm: bool) -> Vec<(usize, &'static str, Vec<usize>)> {
    let mut parts = Vec::new();
    for (layer, widths) in shape.windows(2).enumerate() {
        let (n, m) = (widths[0], widths[1]);
        parts.extend([(layer, "weight", vec![m, n]), (layer, "bias", vec![m])]);
        if layer_norm && layer + 2 < shape.len() {
            parts.extend([(layer, "norm.weight", vec![m]), (layer, "norm.bias", vec![m])]);
        }
    }
    parts
}

/// The network of such tensors, with tanh layers.
pub(crate) fn network_from(
    name: &str,
    shape: &[usize],
    container: &mut Container,
) -> Result<Mlp, PolicyFileError> {
    let parameters = take_parameters(name, shape, false, container)?;
    Mlp::from_parameters(shape, parameters).map_err(|e| PolicyFileError::Inconsistent(e.to_string()))
}

/// The network of such tensors, with ReLU layers that may have layer normalisation.
pub(crate) fn relu_network_from(
    name: &str,
    shape: &[usize],
    layer_norm: bool,
    container: &mut Container,
) -> Result<Mlp, PolicyFileError> {
    let parameters = take_parameters(name, shape, layer_norm, container)?;
    let network = if layer_norm {
        Mlp::from_normalized_parameters(shape, parameters, Activation::Relu)
    } else {
        Mlp::from_parameters(shape, parameters).map(|net| net.with_activation(Activation::Relu))
    };
    network.map_err(|e| PolicyFileError::Inconsistent(e.to_string()))
}

fn take_parameters(
    name: &str,
    shape: &[usize],
    layer_norm: bool,
    container: &mut Container,
) -> Result<Vec<f32>, PolicyFileError> {
    let mut parameters = Vec::new();
    for (layer, part, dimensions) in layer_parts(shape, layer_norm) {
        parameters.extend(container.take_f32(&format!("{name}.{layer}.{part}"), &dimensions)?);
    }
    Ok(parameters)
}
