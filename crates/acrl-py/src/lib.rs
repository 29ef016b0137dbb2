//! What the Python package `acrl` is made of: the module `acrl._acrl`.
//!
//! Thin on purpose. What is said here is said in the words of the crates below it; what is convenient in Python
//! (mappings, NumPy's conversions, Gymnasium) is written in Python, in `python/acrl`.
//!
//! | class or function | is |
//! |---|---|
//! | `Requirement`, `Objective` | [`acrl::Requirement`], [`acrl::Objective`], frozen |
//! | `Dynamics` | [`acrl::DualDynamics`] before the first step |
//! | `Agent` | [`acrl::Agent`] with a policy, behind a lock |
//! | `PolicyFile` | [`acrl_learn::PolicyFile`] with a pool of actors, without the interpreter's lock while they act |
//! | `Trainer`, `Settler` | [`acrl_learn::ExternalPpo`], [`acrl_learn::LibraryEvaluator`]: training while Python steps the environment |
//! | `Model`, `solve`, `sweep` | [`acrl::FiniteCmdp`], [`acrl_cli::solve`], [`acrl_cli::sweep`] |
//! | `run`, `compare`, `reproduce`, `main` | those of [`acrl_cli`] |
//! | `Report` | [`acrl_report::Report`], frozen |

mod agent;
mod arrays;
mod dynamics;
mod errors;
mod model;
mod policy;
mod solve;
mod train;
mod trials;
mod verbs;
mod vocabulary;
mod work;

use pyo3::prelude::*;

/// The native half of the package `acrl`.
#[pymodule]
mod _acrl {
    use pyo3::prelude::*;

    /// Everything has one version.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use super::agent::Agent;
    #[pymodule_export]
    use super::dynamics::Dynamics;
    #[pymodule_export]
    use super::errors::write_atomically;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::policy::PolicyFile;
    #[pymodule_export]
    use super::solve::{solve, sweep};
    #[pymodule_export]
    use super::train::{Settler, Trainer};
    #[pymodule_export]
    use super::trials::{seconds_to_act, trace, untrained};
    #[pymodule_export]
    use super::verbs::{Report, compare, main, reproduce, run, run_report};
    #[pymodule_export]
    use super::vocabulary::{Objective, Requirement, weights};
}
