//! The files of acrl: policy files, checkpoints and run folders.
//!
//! | file | purpose | item |
//! |---|---|---|
//! | policy file | a trained policy to run and share, readable by any `safetensors` reader | [`Container`] |
//! | checkpoint | the whole state of a training run, for a bit-identical resume | [`checkpoint`] |
//! | run folder | events, metrics (CSV, TensorBoard) and the last checkpoint of a training run | [`RunFolder`] |
//! | any file | replaced atomically | [`write_atomically`] |
//!
//! Files are untrusted input: a damaged or foreign file is rejected with an error message, and a round trip is
//! bit-identical. The checksums protect against damage, not against forgery.
//!
//! ```
//! use acrl_files::{Container, Tensor};
//!
//! let mut policy = Container::new(serde_json::json!({ "kind": "linear" }));
//! policy.tensors.insert("weights".to_owned(), Tensor::f32([2, 2], vec![1.0, 0.5, 0.0, -1.0]));
//! let mut read = Container::from_bytes(&policy.to_bytes()?)?;
//! assert_eq!(read.meta["kind"], "linear");
//! assert_eq!(read.take_f32("weights", &[2, 2])?, [1.0, 0.5, 0.0, -1.0]);
//! read.nothing_left()?;
//! # Ok::<(), acrl_files::ContainerError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod atomic;
pub mod checkpoint;
mod checksum;
mod container;
mod error;
mod input;
mod progress;
mod run_folder;
mod safetensors_header;
mod tail;
mod tensor;
mod tensorboard;

pub use atomic::write_atomically;
pub use checkpoint::CheckpointError;
pub use container::{Container, ContainerError};
pub use error::Error;
pub use run_folder::{FolderLock, RunFolder};
pub use tensor::{Tensor, TensorData};

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
