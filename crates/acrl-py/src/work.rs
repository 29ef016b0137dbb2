//! Long work without the interpreter's lock, interrupted by exceptions of Python's signal handlers.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use acrl_app::{Control, Error, Stop};
use pyo3::prelude::*;

use crate::errors::{SolveError, verb};

/// Interval at which signals are checked.
const PATIENCE: Duration = Duration::from_millis(50);

/// Does the work on threads of its own while this one looks for signals, which only Python's main thread can. When a
/// handler raises, the work is asked to stop, and the exception is the result.
///
/// The threads end with the work: a pool that outlived it would be gone in a forked process, and be waited for there.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Control) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let stop = Stop::default();
    let watch = Control::silent(stop.clone());
    let done = py.detach(|| -> PyResult<T> {
        let pool = rayon::ThreadPoolBuilder::new()
            .build()
            .map_err(|error| SolveError::new_err(format!("cannot start threads: {error}")))?;
        let (tell, told) = channel::<()>();
        let mut raised = None;
        let ended = std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                // Dropped at the end, also by a panic.
                let _tell = tell;
                pool.install(|| work(&watch))
            });
            while told.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop.request();
                    raised.get_or_insert(error);
                }
            }
            worker.join()
        });
        match (raised, ended) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => result.map_err(|error| verb(&error)),
            (None, Err(panic)) => resume_unwind(panic),
        }
    })?;
    Ok(done)
}
