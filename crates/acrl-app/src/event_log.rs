//! Events as a file.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;

use acrl::{Event, Observer};

use crate::control::Stop;
use crate::{Context as _, Error};

/// Observer that writes events to a file as JSON Lines.
#[derive(Debug)]
pub struct EventLog {
    file: BufWriter<File>,
    path: std::path::PathBuf,
    failed: Option<std::io::Error>,
    stop: Stop,
}

impl EventLog {
    /// Creates the file.
    pub fn create(path: &std::path::Path, stop: Stop) -> Result<Self, Error> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { file: BufWriter::new(file), path: path.to_owned(), failed: None, stop })
    }

    /// Writes an event; errors are reported by [`finish`](Self::finish). Snapshots and rounds are flushed at once.
    pub fn write(&mut self, event: &Event<'_>) {
        let written = serde_json::to_writer(&mut self.file, event)
            .map_err(Into::into)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| {
                let at_once = matches!(event, Event::Snapshot(_) | Event::Round { .. });
                if at_once { self.file.flush() } else { Ok(()) }
            });
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// Flushes the file; fails if an event could not be written.
    pub fn finish(&mut self) -> Result<(), Error> {
        let result = self.failed.take().map_or(Ok(()), Err).and_then(|()| self.file.flush());
        result.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Observer for EventLog {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if self.stop.requested() {
            return ControlFlow::Break(());
        }
        self.write(event);
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
