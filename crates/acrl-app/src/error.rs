//! The errors of the use cases.

/// A use case that gave no result. `Display` and the sources, joined by ": ", are one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Input or options that cannot be used.
    #[error("{0}")]
    Input(String),
    /// A stop was requested before there was a result.
    #[error("stopped by Ctrl-C{0}")]
    Stopped(&'static str),
    /// An error at a place, such as a file.
    #[error("{place}")]
    At {
        /// The place, or what was being done.
        place: String,
        /// The error there.
        source: Box<Error>,
    },
    /// A file or folder that cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// JSON that cannot be read or written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A specification, model or run that contradicts itself.
    #[error(transparent)]
    Method(#[from] acrl::Error),
    /// A finite model that contradicts itself.
    #[error(transparent)]
    Model(#[from] acrl::ModelError),
    /// A parameter of an environment that is out of range.
    #[error(transparent)]
    Parameter(#[from] acrl_envs::ParameterError),
    /// A problem file that cannot be used.
    #[error(transparent)]
    Problem(#[from] acrl_envs::ProblemError),
    /// A model file in Storm's explicit format that cannot be used.
    #[error(transparent)]
    Drn(#[from] acrl_exact::drn::DrnError),
    /// A model file of arrays that cannot be used.
    #[error(transparent)]
    Npz(#[from] acrl_exact::npz::NpzError),
    /// An exact solver that gave no solution.
    #[error(transparent)]
    Solve(#[from] acrl_exact::SolveError),
    /// A learner that cannot be set up, or that diverged.
    #[error(transparent)]
    Learn(#[from] acrl_learn::LearnError),
    /// A policy that could not be evaluated.
    #[error(transparent)]
    Evaluation(#[from] acrl_exact::Singular),
    /// The content of a policy file that cannot be used.
    #[error(transparent)]
    PolicyFile(#[from] acrl_learn::PolicyFileError),
    /// A container that lacks a tensor, or has another one.
    #[error(transparent)]
    Container(#[from] acrl_files::ContainerError),
    /// A policy, checkpoint or run folder that cannot be used.
    #[error(transparent)]
    File(#[from] acrl_files::Error),
    /// A report that cannot be written.
    #[error(transparent)]
    Report(#[from] acrl_report::Error),
}

impl Error {
    /// The error itself, without the places around it.
    pub fn root(&self) -> &Self {
        match self {
            Self::At { source, .. } => source.root(),
            other => other,
        }
    }
}

/// Names the place of an error.
pub trait Context<T> {
    /// Adds a place, or says what is missing.
    fn context(self, place: impl Into<String>) -> Result<T, Error>;

    /// Adds a place that is put together only if it is needed.
    fn with_context<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T, Error>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, place: impl Into<String>) -> Result<T, Error> {
        self.with_context(|| place)
    }

    fn with_context<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|error| Error::At { place: place().into(), source: Box::new(error.into()) })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, place: impl Into<String>) -> Result<T, Error> {
        self.ok_or_else(|| Error::Input(place.into()))
    }

    fn with_context<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T, Error> {
        self.ok_or_else(|| Error::Input(place().into()))
    }
}

/// Returns [`Error::Input`] with a formatted text.
#[macro_export]
macro_rules! bail {
    ($format:literal $($rest:tt)*) => { return Err($crate::Error::Input(format!($format $($rest)*))) };
    ($text:expr) => { return Err($crate::Error::Input($text)) };
}

/// Returns [`Error::Input`] with a formatted text unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => { if !$condition { $crate::bail!($($text)+) } };
}
