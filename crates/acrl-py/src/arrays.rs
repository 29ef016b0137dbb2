//! NumPy arrays of floats, read without a copy.

use acrl::BatchMatrix;
use numpy::{
    PyArrayDyn, PyArrayMethods as _, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods as _,
    ndarray::IxDyn,
};
use pyo3::prelude::*;

use crate::errors::InputError;

/// A C-contiguous array of doubles or singles. Nothing is copied, and no Python code runs.
pub(crate) enum Floats<'py> {
    Double(PyReadonlyArrayDyn<'py, f64>),
    Single(PyReadonlyArrayDyn<'py, f32>),
}

impl<'py> Floats<'py> {
    /// `None` for anything else, which is to be converted in Python.
    pub(crate) fn new(object: &Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(array) = object.cast::<PyArrayDyn<f64>>() {
            return readable(array).map(Self::Double);
        }
        readable(object.cast::<PyArrayDyn<f32>>().ok()?).map(Self::Single)
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Double(array) => array.shape(),
            Self::Single(array) => array.shape(),
        }
    }

    /// The shape as NumPy writes it.
    pub(crate) fn shape_text(&self) -> String {
        match self.shape() {
            [n] => format!("({n},)"),
            shape => format!("({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        }
    }

    /// Writes its rows, one to an environment, from row `first` on; a single one goes to all environments. Refuses what is not finite.
    pub(crate) fn write(&self, rows: &mut BatchMatrix, first: usize, what: &str) -> PyResult<()> {
        let wrong = match self {
            Self::Double(array) => write(array.as_slice().unwrap_or_default(), self.shape(), rows, first),
            Self::Single(array) => write(array.as_slice().unwrap_or_default(), self.shape(), rows, first),
        };
        finite(wrong, what)
    }

    /// All numbers.
    pub(crate) fn extend(&self, to: &mut Vec<f64>) {
        match self {
            Self::Double(array) => to.extend_from_slice(array.as_slice().unwrap_or_default()),
            Self::Single(array) => {
                to.extend(array.as_slice().unwrap_or_default().iter().map(|x| f64::from(*x)))
            }
        }
    }
}

fn readable<'py, T: numpy::Element>(
    array: &Bound<'py, PyArrayDyn<T>>,
) -> Option<numpy::PyReadonlyArray<'py, T, IxDyn>> {
    let array = array.is_c_contiguous().then(|| array.try_readonly().ok())??;
    // Misaligned arrays are converted in Python, too.
    array.as_slice().is_ok().then_some(array)
}

/// The place and value of the first number that is not finite, if there is one.
fn write<T: Copy + Into<f64>>(
    from: &[T],
    shape: &[usize],
    rows: &mut BatchMatrix,
    first: usize,
) -> Option<(usize, usize, f64)> {
    let width = shape.last().copied().unwrap_or(0).max(1);
    // Without an early exit, so that the loop is vectorised.
    if !from.iter().fold(true, |finite, &x| finite & x.into().is_finite()) {
        let place = from.iter().position(|&x| !x.into().is_finite())?;
        return Some((place / width, place % width, from[place].into()));
    }
    if shape.len() == 1 {
        from.iter().enumerate().for_each(|(k, &x)| rows.row_mut(first + k).fill(x.into()));
        return None;
    }
    // By tiles of environments, which keeps both sides in the cache.
    let tiles = from.chunks(TILE * width).enumerate();
    for (tile, from) in tiles {
        for k in 0..width {
            let to = &mut rows.row_mut(first + k)[tile * TILE..];
            for (to, from) in to.iter_mut().zip(from.chunks_exact(width)) {
                *to = from[k].into();
            }
        }
    }
    None
}

/// Environments that are transposed together.
const TILE: usize = 16;

/// A row of an array becomes an environment.
pub(crate) fn rows(array: &PyReadonlyArray2<'_, f64>, width: usize, what: &str) -> PyResult<BatchMatrix> {
    let view = array.as_array();
    let (num_envs, found) = view.dim();
    if found != width {
        let text = format!("the {what} have {found} numbers each, expected {width}");
        return Err(InputError::new_err(text));
    }
    let mut rows = BatchMatrix::zeros(width, num_envs);
    // Copied only if it is laid out in another way.
    let flat = view.as_standard_layout();
    finite(write(flat.as_slice().unwrap_or_default(), &[num_envs, width], &mut rows, 0), what)?;
    Ok(rows)
}

/// An error if there is a number that is not finite: its row, its place there, and its value.
fn finite(wrong: Option<(usize, usize, f64)>, what: &str) -> PyResult<()> {
    match wrong {
        None => Ok(()),
        Some((row, number, value)) => Err(InputError::new_err(format!(
            "the {what} must be finite numbers, but number {number} of row {row} is {value}"
        ))),
    }
}
