//! What acrl keeps on disk: policy files, checkpoints and run folders.
//!
//! | on disk | what for | here |
//! |---|---|---|
//! | a policy file | a trained policy to run, to share, to open with any `safetensors` reader | [`Container`] |
//! | a checkpoint | the whole state of a training, to continue it bit by bit | [`checkpoint`] |
//! | a run folder | events, figures and the last checkpoint of a training | [`RunFolder`] |
//! | any file | replaced as a whole or not at all | [`write_atomically`] |
//!
//! Files come from elsewhere and get damaged, so nothing here trusts them: a file that is not what it should be is
//! refused with a sentence, and what is read is the same to the bit as what was written. The checksums guard against
//! damage, not against forgery.
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
