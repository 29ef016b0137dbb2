//! Ctrl-C.

use std::sync::OnceLock;

use acrl_app::Stop;

static PRESSED: OnceLock<Stop> = OnceLock::new();

fn pressed() -> &'static Stop {
    PRESSED.get_or_init(Stop::default)
}

/// Listens to Ctrl-C from now on: the first requests a stop, the second ends the program.
pub(crate) fn listen() -> Stop {
    // Without a handler Ctrl-C ends the program at once, which is all that is lost.
    let _ = ctrlc::set_handler(|| {
        if pressed().request() {
            std::process::exit(130);
        }
    });
    pressed().clone()
}

/// True once a stop was requested, by Ctrl-C or by a time limit.
pub(crate) fn interrupted() -> bool {
    pressed().requested()
}
