//! Weights w to train on: how they are drawn, a curriculum of weights and states, and which of them were covered.

mod coverage;
mod curriculum;
mod grid;
mod sampler;

pub use coverage::{Coverage, CoverageReport};
pub(crate) use curriculum::WeightCurriculum;
pub(crate) use grid::Grid;
pub use sampler::WeightSampler;
pub(crate) use sampler::{normalize, simplex};
