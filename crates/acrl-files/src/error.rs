//! File errors, with the path of the file.

use std::io;
use std::path::{Path, PathBuf};

use crate::{CheckpointError, ContainerError};

/// A file that cannot be read, written or used; the source has the reason.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the operating system.
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// Not a usable policy file.
    #[error("cannot use {} as a policy file", path.display())]
    Container { path: PathBuf, source: ContainerError },
    /// Not a usable checkpoint.
    #[error("cannot use {} as a checkpoint", path.display())]
    Checkpoint { path: PathBuf, source: CheckpointError },
    /// The folder of a new run holds another run.
    #[error("{} holds a run already: resume it or choose another folder", .0.display())]
    RunExists(PathBuf),
    /// Another process is writing to the folder.
    #[error("another run is writing to {}: wait for it or choose another folder", .0.display())]
    RunInUse(PathBuf),
    /// The file to append metrics to has other columns.
    #[error("{} begins with '{found}': expected the columns iteration,steps,seconds", path.display())]
    NotProgress { path: PathBuf, found: String },
}

impl Error {
    /// An adapter for `map_err` that adds the action and the path.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
