//! Dual dynamics before the first step.

use acrl::{DualDynamics, EpochLength, Multipliers, Specification};
use pyo3::prelude::*;

use crate::errors::input;
use crate::specification::Requirement;

/// Initial dual dynamics of an agent, and the length of its epochs.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Dynamics(pub(crate) DualDynamics, pub(crate) EpochLength);

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
        let mut dynamics = DualDynamics::new(requirements, step_size, epoch).map_err(input)?;
        let scales = scales.unwrap_or_else(|| vec![1.0; dynamics.len()]);
        dynamics = dynamics.with_scales(objective_scale, &scales).map_err(input)?;
        if let Some(multipliers) = multipliers {
            let multipliers = Multipliers::new(multipliers).map_err(input)?;
            dynamics = dynamics.with_multipliers(multipliers).map_err(input)?;
        }
        Ok(Self(dynamics, epoch))
    }

    /// The requirements, each with a name of its own.
    fn requirements(&self) -> Vec<Requirement> {
        self.0.requirements().iter().map(|r| Requirement(r.clone())).collect()
    }
}
