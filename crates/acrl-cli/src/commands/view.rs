//! `acrl view`.

use std::io::Write as _;
use std::time::Duration;

use acrl_app::Viewer;
use serde_json::json;

use crate::ExitStatus;
use crate::args::{Global, ViewArgs};
use crate::interrupt::listen;
use crate::output::{FAINT, Output, styled};

/// Serves a run until Ctrl-C.
pub(crate) fn run(args: &ViewArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let stop = listen();
    let viewer = Viewer::start(&args.run, args.port)?;
    let url = viewer.url();
    // At once, for a program that waits for it.
    let mut stdout = anstream::stdout().lock();
    let line = if output.is_json() { json!({ "url": url }).to_string() } else { url };
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    drop(stdout);
    if !args.no_open && viewer.open_browser().is_err() {
        output.warn("no browser could be started: open the address yourself");
    }
    if !global.quiet && !output.is_json() {
        let _ = writeln!(anstream::stderr(), "{}", styled(FAINT, "Ctrl-C ends it."));
    }
    while !stop.requested() {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(ExitStatus::Good)
}
