//! The dual dynamics behind a lock.

use std::sync::Mutex;

use acrl::{DualDynamics, EpochLength, Multipliers, Rewards, Specification};
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;

use crate::errors::{InputError, input, lock};
use crate::vocabulary::Requirement;

/// Multipliers that follow the measured deficit. Any thread may use it; calls wait for each other.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Dynamics(Mutex<DualDynamics>);

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
        // Names the two sides of a reward, and refuses the same name twice.
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
        Ok(Self(Mutex::new(dynamics)))
    }

    /// From what `to_json` gave, to the bit.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let wrong = |error| InputError::new_err(format!("the state of the dynamics cannot be read: {error}"));
        Ok(Self(Mutex::new(serde_json::from_str(text).map_err(wrong)?)))
    }

    /// The whole state as JSON.
    fn to_json(&self) -> PyResult<String> {
        let wrong = |error| InputError::new_err(format!("the state cannot be written: {error}"));
        serde_json::to_string(&*lock(&self.0)).map_err(wrong)
    }

    /// Takes note of one step's rewards r0, r1 ... rm, those of the requirements in the user's signs. True if the
    /// multipliers moved.
    fn observe(&self, mut rewards: Vec<f64>) -> PyResult<bool> {
        let mut dynamics = lock(&self.0);
        if let Some(requirements) = rewards.get_mut(1..) {
            for (reward, requirement) in requirements.iter_mut().zip(dynamics.requirements()) {
                *reward *= requirement.sign();
            }
        }
        let rewards = Rewards::new(rewards).map_err(input)?;
        Ok(dynamics.observe(&rewards).map_err(input)?.is_some())
    }

    /// Changes one bound from the next step on, and opens a new ledger.
    fn set_bound(&self, name: &str, bound: f64) -> PyResult<()> {
        lock(&self.0).set_bound(name, bound).map_err(input)
    }

    /// The multipliers to act with now.
    fn multipliers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        lock(&self.0).multipliers().as_slice().to_pyarray(py)
    }

    /// The weights w0 ... wm of these multipliers; w0 is 0 without an objective.
    fn weights<'py>(&self, py: Python<'py>, objective: bool) -> Bound<'py, PyArray1<f64>> {
        lock(&self.0).multipliers().weights(objective).to_pyarray(py)
    }

    /// The requirements in force.
    fn requirements(&self) -> Vec<Requirement> {
        lock(&self.0).requirements().iter().map(|r| Requirement(r.clone())).collect()
    }

    /// The averages of r0 ... rm since the ledger was opened, those of the requirements in the user's signs.
    fn averages(&self) -> Vec<f64> {
        let dynamics = lock(&self.0);
        let mut averages = dynamics.averages();
        for (average, requirement) in averages[1..].iter_mut().zip(dynamics.requirements()) {
            *average = requirement.sign() * *average + 0.0; // adding 0 turns -0 into 0
        }
        averages
    }

    /// The steps since the ledger was opened, and name, bound, average and certified shortfall of each requirement.
    fn certificate(&self) -> (u64, Vec<(String, f64, f64, f64)>) {
        let certificate = lock(&self.0).certificate();
        let entries = certificate.requirements.into_iter();
        (certificate.steps, entries.map(|c| (c.name, c.bound, c.average, c.shortfall)).collect())
    }

    /// The ranges of the requirements' rewards.
    fn scales(&self) -> Vec<f64> {
        lock(&self.0).scales().to_vec()
    }

    /// The length of the current epoch, in steps.
    #[getter]
    fn epoch(&self) -> u64 {
        lock(&self.0).epoch_length()
    }

    /// The steps observed in all.
    #[getter]
    fn steps(&self) -> u64 {
        lock(&self.0).steps()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json()?,)))
    }
}
