//! Conversion of errors to exceptions of Python, locks, and files.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;

// The classes are written in Python, because each also inherits from one of Python's own.
pyo3::import_exception!(acrl._errors, DivergedError);
pyo3::import_exception!(acrl._errors, Error);
pyo3::import_exception!(acrl._errors, FileError);
pyo3::import_exception!(acrl._errors, InputError);
pyo3::import_exception!(acrl._errors, SolveError);
pyo3::import_exception!(acrl._errors, UnknownNameError);

/// An error and its causes, in one line.
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Transparent errors repeat their cause.
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// An invalid value.
pub(crate) fn input(error: impl StdError) -> PyErr {
    InputError::new_err(with_causes(&error))
}

/// The error of a use case.
pub(crate) fn verb(error: &acrl_app::Error) -> PyErr {
    use acrl_app::Error;
    let text = with_causes(error);
    match error.root() {
        Error::Solve(_) => SolveError::new_err(text),
        Error::Io(_) | Error::File(_) | Error::Report(_) => FileError::new_err(text),
        _ => InputError::new_err(text),
    }
}

/// An unusable file. Its name is in the message already, or put before it.
pub(crate) fn file(path: &Path, error: impl StdError) -> PyErr {
    let (name, text) = (path.display().to_string(), with_causes(&error));
    FileError::new_err(if text.contains(&name) { text } else { format!("{name}: {text}") })
}

/// The value behind a lock. A thread that fails while it holds one leaves a state that is as good as before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes a file as a whole or not at all.
#[pyfunction]
pub(crate) fn write_atomically(py: Python<'_>, path: PathBuf, content: &[u8]) -> PyResult<()> {
    py.detach(|| acrl_files::write_atomically(&path, content)).map_err(|error| file(&path, error))
}
