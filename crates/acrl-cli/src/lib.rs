//! The `acrl` program.

pub use acrl_app::*;
