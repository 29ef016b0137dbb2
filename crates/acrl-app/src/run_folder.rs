//! The folder of some runs: their events while they go on, and the report at the end.

use std::path::{Path, PathBuf};

use acrl::{Certificate, Event, Specification};
use acrl_files::{FolderLock, RunFolder};
use acrl_report::Report;

use crate::control::Stop;
use crate::event_log::EventLog;
use crate::{Context as _, Error, bail, ensure};

const EVENTS: &str = "events.jsonl";

/// Creates a folder. To be called before the work begins, so that a folder that cannot be created costs no result.
pub fn prepare(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

/// A folder that is being filled.
pub(crate) struct RunWriter {
    path: PathBuf,
    /// Held as long as the runs go on.
    _lock: FolderLock,
    /// What happens, for those who look on.
    pub(crate) log: EventLog,
}

impl RunWriter {
    /// Creates the folder, and notes what is required and how long the runs are. A folder that holds a
    /// training is refused, and one that holds a run unless it is to be replaced.
    pub(crate) fn create(
        path: &Path,
        replace: bool,
        specification: &Specification,
        steps: u64,
        stop: Stop,
    ) -> Result<Self, Error> {
        let taken = [EVENTS, "report.html", "checkpoint"].iter().find(|name| path.join(name).exists());
        if let (Some(name), false) = (taken, replace) {
            bail!(
                "{} holds a run already ({name}): replace it with --replace, or choose another --out-dir",
                path.display()
            );
        }
        ensure!(
            !path.join("checkpoint").exists(),
            "{} holds a training, which is not replaced by a run: choose another --out-dir",
            path.display()
        );
        prepare(path)?;
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

    /// Notes the end, and writes the report, and the problem if it is at hand as text.
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
