//! The folder of some runs: their events while they go on, and the report at the end.

use std::path::{Path, PathBuf};

use acrl::{Certificate, Event, Observer as _, Specification};
use acrl_files::{FolderLock, RunFolder};
use acrl_report::Report;
use anyhow::{Context as _, ensure};

use crate::log::Log;
use crate::watch::Stop;

const EVENTS: &str = "events.jsonl";

/// Makes a folder before the work begins, so that one that cannot be had costs nobody the result.
pub(crate) fn prepare(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create the folder {}", path.display()))
}

/// Where the page is, for those who want to look at it.
pub(crate) fn page_line(path: &Path) -> String {
    format!("report: {} (acrl view {})", path.join("report.html").display(), path.display())
}

/// A folder that is being filled.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as the runs go on.
    _lock: FolderLock,
    /// What happens, for those who look on.
    pub(crate) log: Log,
}

impl Folder {
    /// Makes the folder. One that holds a run or a training already is refused, unless it is to be replaced.
    pub(crate) fn create(path: &Path, replace: bool, stop: Stop) -> anyhow::Result<Self> {
        let taken = [EVENTS, "report.html", "checkpoint"].iter().find(|name| path.join(name).exists());
        if let (Some(name), false) = (taken, replace) {
            anyhow::bail!(
                "{} holds a run already ({name}): replace it with --replace, or choose another --folder",
                path.display()
            );
        }
        ensure!(
            !path.join("checkpoint").exists(),
            "{} holds a training, which is not replaced by a run: choose another --folder",
            path.display()
        );
        prepare(path)?;
        let lock = RunFolder::lock(path)?;
        let log = Log::create(&path.join(EVENTS), stop)?;
        // A report that is there belongs to the run before.
        let old = path.join("report.html");
        if old.exists() {
            std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        Ok(Self { path: path.to_owned(), _lock: lock, log })
    }

    /// Notes what is required and how long the runs are.
    pub(crate) fn begin(&mut self, specification: &Specification, steps: u64) {
        let names = specification.names();
        // What cannot be written is told by `finish`.
        let _ = self.log.event(&Event::Requirements(specification.requirements()));
        let _ = self.log.event(&Event::Started { requirements: &names, steps });
    }

    /// Notes the end, and writes the report, and the problem if it is at hand as text.
    pub(crate) fn finish(
        mut self,
        certificate: &Certificate,
        report: &Report,
        problem: Option<&str>,
    ) -> anyhow::Result<()> {
        if let Some(text) = problem {
            let path = self.path.join("problem.toml");
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        report.write(&self.path)?;
        self.log.write(&Event::Finished { steps: certificate.steps, certificate });
        self.log.finish()
    }
}
