//! What can go wrong with a file, with the file's name.

use std::io;
use std::path::{Path, PathBuf};

use crate::{CheckpointError, ContainerError};

/// A file that cannot be read, written or used. The source says why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, such as "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not a policy file that this program can use, or cannot become one.
    #[error("cannot use {} as a policy file", path.display())]
    Container {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ContainerError,
    },
    /// The file is not a checkpoint that this program can continue from, or cannot become one.
    #[error("cannot use {} as a checkpoint", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: CheckpointError,
    },
    /// A new run was to begin in the folder of another one.
    #[error("{} holds a run already: resume it or choose another folder", .0.display())]
    RunExists(PathBuf),
    /// Two runs at a time would write to the same files.
    #[error("another run is writing to {}: wait for it or choose another folder", .0.display())]
    RunInUse(PathBuf),
    /// The file to append figures to has other columns.
    #[error("{} begins with '{found}': expected the columns iteration,steps,seconds", path.display())]
    NotProgress {
        /// The file.
        path: PathBuf,
        /// Its first line.
        found: String,
    },
}

impl Error {
    /// For `map_err`: names what was tried and with which file.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
