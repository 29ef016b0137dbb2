//! The policy file: a trained policy with everything that is needed to run it.
//!
//! The file is a `safetensors` container: the weights are tensors that any reader of that format opens, and the rest
//! is metadata. It embeds the problem, so that `acrl run FILE` needs nothing else.

use acrl::{LibraryEntry, Objective, PolicyLibrary, Requirement, Specification, VecTask};
use acrl_files::{Container, ContainerError, Tensor};
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

/// A tensor for each layer's weights (outputs × inputs) and biases.
pub(crate) fn network_tensors(name: &str, network: &acrl_nn::Mlp) -> Vec<(String, Tensor)> {
    let mut rest = network.parameters();
    let mut tensors = Vec::new();
    for (layer, widths) in network.shape().windows(2).enumerate() {
        let (weights, after) = rest.split_at(widths[0] * widths[1]);
        let (bias, after) = after.split_at(widths[1]);
        rest = after;
        let matrix = Tensor::f32([widths[1], widths[0]], weights.to_vec());
        tensors.push((format!("{name}.{layer}.weight"), matrix));
        tensors.push((format!("{name}.{layer}.bias"), Tensor::f32([widths[1]], bias.to_vec())));
    }
    tensors
}

/// The network of such tensors.
pub(crate) fn network_from(
    name: &str,
    shape: &[usize],
    container: &mut Container,
) -> Result<acrl_nn::Mlp, PolicyFileError> {
    let mut parameters = Vec::new();
    for (layer, widths) in shape.windows(2).enumerate() {
        parameters.extend(container.take_f32(&format!("{name}.{layer}.weight"), &[widths[1], widths[0]])?);
        parameters.extend(container.take_f32(&format!("{name}.{layer}.bias"), &[widths[1]])?);
    }
    acrl_nn::Mlp::from_parameters(shape, parameters).map_err(|e| PolicyFileError::Inconsistent(e.to_string()))
}
