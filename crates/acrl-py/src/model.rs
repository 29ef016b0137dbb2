//! Finite models from arrays.

use acrl::FiniteCmdp;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors::{InputError, input};

/// A finite model. It never changes, so threads may share it.
#[pyclass(frozen, module = "acrl._acrl")]
pub(crate) struct Model {
    pub(crate) model: FiniteCmdp,
    /// The number of each choice's action among the columns of the arrays.
    pub(crate) actions: Vec<usize>,
    /// The number of those columns.
    columns: usize,
}

type Parts<'py> = (
    usize,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Vec<String>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

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

    /// What it can be made of again.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> Parts<'py> {
        let (model, names) = (&self.model, self.model.reward_names().to_vec());
        let rows = model.states() * self.columns;
        let mut ends = vec![0_i64; rows + 1];
        let (mut indices, mut data) = (Vec::new(), Vec::new());
        let mut rewards = vec![0.0; rows * names.len()];
        for state in 0..model.states() {
            for number in model.choices(state) {
                let (choice, row) = (model.choice(number), state * self.columns + self.actions[number]);
                ends[row + 1] = choice.targets.len() as i64;
                indices.extend(choice.targets.iter().map(|t| i64::from(*t)));
                data.extend_from_slice(choice.probabilities);
                choice.rewards.iter().enumerate().for_each(|(i, r)| rewards[i * rows + row] = *r);
            }
        }
        (0..rows).for_each(|row| ends[row + 1] += ends[row]);
        let mut initial = vec![0.0; model.states()];
        model.initial().iter().for_each(|(state, p)| initial[*state] += p);
        (
            self.columns,
            PyArray1::from_vec(py, ends),
            PyArray1::from_vec(py, indices),
            PyArray1::from_vec(py, data),
            names,
            PyArray1::from_vec(py, rewards),
            PyArray1::from_vec(py, initial),
        )
    }
}

#[derive(Clone, Copy)]
struct Csr<'a> {
    indptr: &'a [i64],
    indices: &'a [i64],
    data: &'a [f64],
}

impl Csr<'_> {
    /// The entries of a row; an entry that is out of place is an error and not a panic.
    fn row(&self, row: usize) -> PyResult<Vec<(usize, f64)>> {
        let wrong =
            || InputError::new_err(format!("row {row} of the transitions is not that of a CSR matrix"));
        let end = |i: usize| self.indptr.get(i).and_then(|&at| usize::try_from(at).ok()).ok_or_else(wrong);
        let range = end(row)?..end(row + 1)?;
        let targets = self.indices.get(range.clone()).ok_or_else(wrong)?;
        let probabilities = self.data.get(range).ok_or_else(wrong)?;
        let entry = |(&t, &p): (&i64, &f64)| Ok((usize::try_from(t).map_err(|_| wrong())?, p));
        targets.iter().zip(probabilities).map(entry).collect()
    }
}

fn build(
    actions: usize,
    transitions: Csr<'_>,
    names: Vec<String>,
    rewards: &[f64],
    initial: &[f64],
) -> PyResult<Model> {
    let (states, rows) = (initial.len(), initial.len() * actions);
    if transitions.indptr.len() != rows + 1 || rewards.len() != rows * names.len() {
        return Err(InputError::new_err("the arrays of the model do not fit together"));
    }
    let mut builder = FiniteCmdp::builder(names.iter().map(String::as_str));
    for s in 0..states {
        builder.state(s.to_string());
    }
    let mut taken = Vec::with_capacity(rows);
    let mut named = vec![0.0; names.len()];
    for row in 0..rows {
        let entries = transitions.row(row)?;
        if entries.iter().all(|(_, p)| *p == 0.0) {
            continue;
        }
        for (i, reward) in named.iter_mut().enumerate() {
            *reward = rewards[i * rows + row];
        }
        builder.choice(row / actions, (row % actions).to_string(), &entries, &named);
        builder.check().map_err(input)?;
        taken.push(row % actions);
    }
    for (s, &p) in initial.iter().enumerate() {
        builder.initial(s, p);
    }
    Ok(Model { model: builder.build().map_err(input)?, actions: taken, columns: actions })
}
