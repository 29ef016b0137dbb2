//! Finite models from arrays and files.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use acrl::{CsrModel, FiniteCmdp};
use acrl_exact::npz;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{FileError, InputError, file, input};

/// A finite model. It never changes, so threads may share it.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Model {
    pub(crate) model: Arc<FiniteCmdp>,
}

#[pymethods]
impl Model {
    /// From the rows of a sparse matrix, one for each pair of a state and an action: row s * actions + a. A row
    /// without entries is an action that the state does not have. `rewards` has a number per row, one reward after
    /// the other; `initial` are probabilities.
    #[new]
    #[pyo3(signature = (actions, indptr, indices, data, names, rewards, initial))]
    #[expect(clippy::too_many_arguments, reason = "called from one place, with the parts of arrays")]
    fn new(
        py: Python<'_>,
        actions: usize,
        indptr: PyReadonlyArray1<'_, i64>,
        indices: PyReadonlyArray1<'_, i64>,
        data: PyReadonlyArray1<'_, f64>,
        names: Vec<String>,
        rewards: PyReadonlyArray1<'_, f64>,
        initial: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let whole = |_| InputError::new_err("an array is not contiguous");
        let (indptr, indices) = (indptr.as_slice().map_err(whole)?, indices.as_slice().map_err(whole)?);
        let (data, rewards) = (data.as_slice().map_err(whole)?, rewards.as_slice().map_err(whole)?);
        let initial = initial.as_slice().map_err(whole)?;
        py.detach(|| build(actions, Csr { indptr, indices, data }, names, rewards, initial))
    }

    /// Reads a file in Storm's explicit format (.drn) or of arrays (.npz).
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        match py.detach(|| acrl_app::read_model(&path)) {
            Ok(model) => Ok(Self { model: Arc::new(model) }),
            Err(error) => Err(FileError::new_err(crate::errors::with_causes(&error))),
        }
    }

    /// Writes an .npz file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || acrl_files::write_atomically(&path, &npz::write(&self.model));
        py.detach(write).map_err(|error| file(&path, error))
    }

    /// The number of states.
    #[getter]
    fn states(&self) -> usize {
        self.model.states()
    }

    /// The number of pairs of a state and one of its actions.
    #[getter]
    fn choices(&self) -> usize {
        self.model.choice_count()
    }

    /// The names of the rewards.
    #[getter]
    fn reward_names(&self) -> Vec<String> {
        self.model.reward_names().to_vec()
    }

    /// From what an .npz file holds.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, content: &[u8]) -> PyResult<Self> {
        let model = py.detach(|| npz::read(Cursor::new(content))).map_err(input)?;
        Ok(Self { model: Arc::new(model) })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, model) = (slf.py(), slf.get());
        let content = PyBytes::new(py, &py.detach(|| npz::write(&model.model)));
        Ok((slf.get_type().getattr("from_bytes")?, (content,)))
    }
}

type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>,));

#[derive(Clone, Copy)]
struct Csr<'a> {
    indptr: &'a [i64],
    indices: &'a [i64],
    data: &'a [f64],
}

fn build(
    actions: usize,
    transitions: Csr<'_>,
    reward_names: Vec<String>,
    named: &[f64],
    initial: &[f64],
) -> PyResult<Model> {
    let (states, rows) = (initial.len(), initial.len() * actions);
    if transitions.indptr.len() != rows + 1 || named.len() != rows * reward_names.len() {
        return Err(InputError::new_err("the arrays of the model do not fit together"));
    }
    let whole = |number: &i64| u32::try_from(*number).ok();
    let wrong = || InputError::new_err("the transitions are not a CSR matrix of at most 4294967295 entries");
    let first_entry: Option<Vec<u32>> = transitions.indptr.iter().map(whole).collect();
    let targets: Option<Vec<u32>> = transitions.indices.iter().map(whole).collect();
    let rewards = (0..rows).flat_map(|row| (0..reward_names.len()).map(move |i| named[i * rows + row]));
    let arrays = CsrModel {
        states,
        rewards: rewards.collect(),
        reward_names,
        first_entry: first_entry.ok_or_else(wrong)?,
        targets: targets.ok_or_else(wrong)?,
        probabilities: transitions.data.to_vec(),
        initial: initial.iter().copied().enumerate().filter(|(_, p)| *p != 0.0).collect(),
        ..CsrModel::default()
    };
    if arrays.initial.is_empty() && states > 0 {
        return Err(InputError::new_err("the initial probabilities add up to 0, expected 1"));
    }
    let model = FiniteCmdp::from_csr(arrays).map_err(input)?;
    Ok(Model { model: Arc::new(model) })
}
