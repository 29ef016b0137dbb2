//! A file of events.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;

use acrl::{Event, Observer};
use anyhow::Context as _;

use crate::watch::Stop;

/// Events as JSON Lines.
pub(crate) struct Log {
    file: BufWriter<File>,
    path: std::path::PathBuf,
    failed: Option<std::io::Error>,
    stop: Stop,
}

impl Log {
    pub(crate) fn create(path: &std::path::Path, stop: Stop) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { file: BufWriter::new(file), path: path.to_owned(), failed: None, stop })
    }

    /// Writes an event; what goes wrong is told by `finish`. Those who look on see snapshots and rounds at once.
    pub(crate) fn write(&mut self, event: &Event<'_>) {
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

    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        let result = self.failed.take().map_or(Ok(()), Err).and_then(|()| self.file.flush());
        result.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Observer for Log {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if self.stop.requested() {
            return ControlFlow::Break(());
        }
        self.write(event);
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
