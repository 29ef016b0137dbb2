//! Run folder: events during the runs, and the report at the end.

use std::path::{Path, PathBuf};

use acrl::{Certificate, Event, Specification};
use acrl_files::{FolderLock, RunFolder};
use acrl_report::Report;

use crate::control::Stop;
use crate::event_log::EventLog;
use crate::{Context as _, Error, bail, ensure};

const EVENTS: &str = "events.jsonl";

/// Creates a folder. To be called before the work begins, so that a folder that cannot be created costs no result.
pub fn create_folder(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

/// A folder that is being filled.
pub(crate) struct RunWriter {
    path: PathBuf,
    /// Held as long as the runs go on.
    _lock: FolderLock,
    /// Event log, read by `acrl view`.
    pub(crate) log: EventLog,
}

impl RunWriter {
    /// Creates the folder and writes the first events. A folder with a training is rejected, and one with
    /// a run unless `replace` is set.
    pub(crate) fn create(
        path: &Path,
        replace: bool,
        specification: &Specification,
        steps: u64,
        stop: Stop,
    ) -> Result<Self, Error> {
        ensure!(
            !path.join("checkpoint").exists(),
            "{} holds a training, which is not replaced by a run: choose another --out-dir",
            path.display()
        );
        if let Some(name) = [EVENTS, "report.html"].iter().find(|name| !replace && path.join(name).exists()) {
            bail!(
                "{} holds a run already ({name}): replace it with --replace, or choose another --out-dir",
                path.display()
            );
        }
        create_folder(path)?;
        let lock = RunFolder::lock(path)?;
        let mut log = EventLog::create(&path.join(EVENTS), stop)?;
        // A report that is there belongs to the run before.
        let old = path.join("report.html");
        if old.exists() {
            std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        // Errors in writing are reported by `finish`.
        log.write(&Event::Requirements(specification.requirements()));
        log.write(&Event::Started { requirements: &specification.names(), steps });
        Ok(Self { path: path.to_owned(), _lock: lock, log })
    }

    /// Writes the last event, the report, and the problem if its text is available.
    pub(crate) fn finish(
        mut self,
        certificate: &Certificate,
        report: &Report,
        problem: Option<&str>,
    ) -> Result<(), Error> {
        if let Some(text) = problem {
            let path = self.path.join("problem.toml");
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        report.write(&self.path)?;
        self.log.write(&Event::Finished { steps: certificate.steps, certificate });
        self.log.finish()
    }
}
