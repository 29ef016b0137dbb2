//! Who looks on while something takes long: a bar that moves, and a wish to stop.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use acrl::{Event, Observer};
use indicatif::ProgressBar;

/// A wish that long work looks at now and then: to stop, and to report what it has. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for it.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked for it.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether to go on.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Observer for Stop {
    fn event(&mut self, _: &Event<'_>) -> ControlFlow<()> {
        self.flow()
    }
}

/// Progress and interruption of long work.
#[derive(Debug, Clone)]
pub struct Watch {
    pub(crate) bar: ProgressBar,
    pub(crate) stop: Stop,
}

impl Watch {
    /// Shows nothing, and stops when asked to.
    pub fn silent(stop: Stop) -> Self {
        Self { bar: ProgressBar::hidden(), stop }
    }
}

static PRESSED: OnceLock<Stop> = OnceLock::new();

fn pressed() -> &'static Stop {
    PRESSED.get_or_init(Stop::default)
}

/// Listens to Ctrl-C from now on: the first asks long work to stop and report what it has, the second ends the program.
pub(crate) fn listen() -> Stop {
    // Without a handler Ctrl-C ends the program at once, which is all that is lost.
    let _ = ctrlc::set_handler(|| {
        if pressed().0.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    pressed().clone()
}

/// Whether Ctrl-C was pressed.
pub(crate) fn interrupted() -> bool {
    pressed().requested()
}
