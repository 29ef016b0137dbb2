//! The paper's learners: Gaussian policies with radial basis functions over states and multipliers.

pub mod actor_critic;
pub mod policy_gradient;
pub mod rbf;
