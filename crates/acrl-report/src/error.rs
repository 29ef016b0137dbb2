//! What can go wrong with a report.

/// A report that cannot be written. The source, if there is one, says why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name would not be a good file's.
    #[error("a figure is called '{0}': expected small letters, digits and hyphens")]
    Name(String),
    /// The second would overwrite the first.
    #[error("two figures are called '{0}': expected a name for each")]
    Twice(String),
    /// The picture cannot be drawn, such as one with a drawing that is not well-formed.
    #[error("the figure '{name}' cannot be drawn: {reason}")]
    Picture {
        /// The figure.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The report is not JSON.
    #[error("the report cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] acrl_files::Error),
    /// A folder cannot be made.
    #[error("cannot create {}", path.display())]
    Folder {
        /// The folder.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
