//! Progress and interruption of long work.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use acrl::{Event, Observer};

/// Cancellation token, polled by long work, which then returns the results so far. Clones share the request.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests a stop; true if one was requested before.
    pub fn request(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// True once a stop was requested.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `Break` once a stop was requested.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Observer for Stop {
    fn event(&mut self, _: &Event<'_>) -> ControlFlow<()> {
        self.flow()
    }
}

/// Receives the progress of long work, from any thread. All methods have empty default implementations.
pub trait Progress: Send + Sync {
    /// The work begins; `total` is its amount.
    fn begin(&self, _total: u64) {}

    /// Adds `amount` to the completed work, in the units of `total`.
    fn advance(&self, _amount: u64) {}

    /// The present state, in a few words.
    fn message(&self, _text: String) {}
}

/// The progress display and the stop request of long work.
#[derive(Clone)]
pub struct Control {
    /// The stop request.
    pub stop: Stop,
    progress: Option<Arc<dyn Progress>>,
}

impl Control {
    /// Control that displays progress.
    pub fn new(stop: Stop, progress: impl Progress + 'static) -> Self {
        Self { stop, progress: Some(Arc::new(progress)) }
    }

    /// Control without a display.
    pub fn silent(stop: Stop) -> Self {
        Self { stop, progress: None }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl Progress for Control {
    fn begin(&self, total: u64) {
        self.progress.iter().for_each(|progress| progress.begin(total));
    }

    fn advance(&self, amount: u64) {
        self.progress.iter().for_each(|progress| progress.advance(amount));
    }

    fn message(&self, text: String) {
        if let Some(progress) = &self.progress {
            progress.message(text);
        }
    }
}
