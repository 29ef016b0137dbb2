//! Graph analysis: strongly connected components, maximal end components, almost-sure reachability.
//!
//! All of it works on the model's own arrays: beside them it takes some 20 bytes for each state, and
//! 4 for each transition where predecessors are needed.

mod end_component;
mod mec;
mod reach;
mod scc;

pub(crate) use end_component::EndComponent;
pub use mec::Structure;
pub(crate) use reach::{Grouped, almost_surely_reaching};
pub(crate) use scc::recurrent_classes;
