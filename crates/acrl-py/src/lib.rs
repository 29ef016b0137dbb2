//! The native module `acrl._acrl` of the Python package `acrl`.
//!
//! Conversions only: classes and functions have the names of the crates below, and what is convenient in Python (mappings,
//! NumPy's conversions, Gymnasium) is written in Python, in `python/acrl`.
//!
//! | class or function | wraps |
//! |---|---|
//! | `Requirement`, `Objective` | [`acrl::Requirement`], [`acrl::Objective`], frozen |
//! | `Agent` | [`acrl::Agent`] with a policy, behind a lock |
//! | `PolicyFile` | [`acrl_learn::PolicyFile`] with a pool of actors, without the interpreter's lock while they act |
//! | `SolvedPolicy` | [`acrl_app::SolutionFile`], frozen |
//! | `Trainer`, `Evaluation` | [`acrl_learn::ExternalTraining`], [`acrl_learn::ExternalEvaluation`]: Python steps the environment |
//! | `Model`, `solve`, `sweep` | [`acrl::FiniteCmdp`], [`acrl_app::solve`], [`acrl_app::sweep`] |
//! | `ExternalRun` | [`acrl_app::ExternalRun`]: Python steps the environments |
//! | `run`, `compare`, `reproduce`, `main` | those of [`acrl_app`], `acrl_paper` and (feature `program`) `acrl_cli` |
//! | `Report` | [`acrl_report::Report`], frozen |

mod agent;
mod arrays;
mod errors;
mod external_run;
mod model;
mod policy;
mod solve;
mod solved;
mod specification;
mod train;
#[cfg(feature = "trials")]
mod trials;
mod verbs;
mod work;

use pyo3::prelude::*;

/// The native half of the package `acrl`.
#[pymodule]
mod _acrl {
    use pyo3::prelude::*;

    /// Sets the version, which all crates share.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use super::agent::Agent;
    #[pymodule_export]
    use super::errors::write_atomically;
    #[pymodule_export]
    use super::external_run::ExternalRun;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::policy::PolicyFile;
    #[pymodule_export]
    use super::solve::{solve, sweep};
    #[pymodule_export]
    use super::solved::{SolvedPolicy, load_policy};
    #[pymodule_export]
    use super::specification::{Objective, Requirement, named, weights};
    #[pymodule_export]
    use super::train::{Evaluation, Trainer, default_num_envs, default_settings, default_total_steps};
    #[cfg(feature = "trials")]
    #[pymodule_export]
    use super::trials::{seconds_to_act, untrained};
    #[cfg(feature = "program")]
    #[pymodule_export]
    use super::verbs::main;
    #[pymodule_export]
    use super::verbs::{Report, compare, reproduce, run};
}
