//! Initial dual dynamics of an agent.

use acrl::{AgentBuilder, EpochLength, Multipliers, Specification};
use pyo3::prelude::*;

use crate::errors::input;
use crate::specification::Requirement;

/// Configuration of an agent, its requirements after they were named, and the length of its epochs.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Dynamics(
    pub(crate) AgentBuilder,
    pub(crate) Vec<acrl::Requirement>,
    pub(crate) EpochLength,
);

#[pymethods]
impl Dynamics {
    #[new]
    #[pyo3(signature = (requirements, step_size, epoch, auto, objective_scale=1.0, scales=None, multipliers=None))]
    fn new(
        requirements: Vec<Bound<'_, Requirement>>,
        step_size: f64,
        epoch: u64,
        auto: bool,
        objective_scale: f64,
        scales: Option<Vec<f64>>,
        multipliers: Option<Vec<f64>>,
    ) -> PyResult<Self> {
        let requirements = requirements.iter().map(|r| r.get().0.clone()).collect();
        // Names the two directions of a reward, and refuses duplicate names.
        let specification = Specification::new(None, requirements).map_err(input)?;
        let epoch = if auto { EpochLength::Auto(epoch) } else { EpochLength::Fixed(epoch) };
        let requirements = specification.requirements().to_vec();
        let scales = scales.unwrap_or_else(|| vec![1.0; requirements.len()]);
        let mut agent = acrl::Agent::builder(requirements.clone()).step_size(step_size).epoch(epoch);
        agent = agent.scales(objective_scale, &scales);
        if let Some(multipliers) = multipliers {
            agent = agent.multipliers(Multipliers::new(multipliers).map_err(input)?);
        }
        // Rejects invalid settings now.
        agent.clone().build().map_err(input)?;
        Ok(Self(agent, requirements, epoch))
    }

    /// The requirements, each with a name of its own.
    fn requirements(&self) -> Vec<Requirement> {
        self.1.iter().map(|r| Requirement(r.clone())).collect()
    }
}
