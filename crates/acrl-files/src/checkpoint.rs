//! Checkpoints: the whole state of a training run, for a bit-identical resume.
//!
//! The state is any type that derives `Serialize` and `Deserialize`; `#[serde(skip)]` leaves out scratch
//! buffers. It is written as MessagePack with the names of fields: floats keep every bit, also those of NaN and −0, and
//! a state whose fields have changed is rejected instead of misread. `flatten` and `untagged`
//! work, `i128` does not.
//!
//! A checkpoint can only be loaded by the version of the program that wrote it, because another version may treat the
//! same state differently; a [policy file](crate::Container) lasts.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `acrl-ckp` |
//! | 4 | version of this layout |
//! | 8 | CRC-64 over version and body |
//! | 8 | length of the body |
//! | the rest | body: `[kind, version of the program]` and the state, MessagePack |
//!
//! ```
//! use acrl_files::checkpoint;
//!
//! let bytes = checkpoint::encode("learner", &(7_u64, vec![0.1_f32, -0.0]))?;
//! let state: (u64, Vec<f32>) = checkpoint::decode(&bytes, "learner")?;
//! assert_eq!(state.0, 7);
//! assert!(checkpoint::decode::<(u64, Vec<f32>)>(&bytes, "another learner").is_err());
//! # Ok::<(), checkpoint::CheckpointError>(())
//! ```

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksum::Checksum;
use crate::input::Input;
use crate::{Error, write_atomically};

const MAGIC: &[u8; 8] = b"acrl-ckp";
const VERSION: u32 = 1;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
const HEAD: usize = 28;

/// An invalid checkpoint, or a state that cannot be stored in one.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The file is not a checkpoint.
    #[error("it is no checkpoint of acrl")]
    NotACheckpoint,
    /// Bytes are missing at the end.
    #[error("the file is cut short: expected {expected} bytes, found {found}")]
    CutShort { expected: u64, found: u64 },
    /// The checksum does not match.
    #[error("the file is damaged: its checksum does not match its content")]
    Damaged,
    /// A newer layout.
    #[error("written by a newer acrl: this program reads version {VERSION}, and the file has version {0}")]
    Newer(u32),
    /// The checkpoint is of another kind.
    #[error("it is the state of '{found}': expected that of '{expected}'")]
    OtherKind { expected: String, found: String },
    /// Written by another version of the program.
    #[error("written by acrl {0}, and this is acrl {PROGRAM}: resume with that version or start anew")]
    OtherProgram(String),
    /// The state does not have the form that is expected.
    #[error("its state does not fit this program: {0}")]
    OtherState(String),
    /// A state that cannot be written, such as an `i128`.
    #[error("the state cannot be written: {0}")]
    Unwritable(String),
}

/// Writes a checkpoint of this kind atomically.
pub fn save(path: &Path, kind: &str, state: &impl Serialize) -> Result<(), Error> {
    let bytes = encode(kind, state).map_err(|source| Error::Checkpoint { path: path.to_owned(), source })?;
    write_atomically(path, &bytes)
}

/// Reads a checkpoint of this kind.
pub fn load<T: DeserializeOwned>(path: &Path, kind: &str) -> Result<T, Error> {
    let wrong = |source| Error::Checkpoint { path: path.to_owned(), source };
    let mut file = Input::open(path)?;
    let head = Head::read(file.read(HEAD as u64)?).map_err(wrong)?;
    decode(file.read(head.length.saturating_add(1))?, kind).map_err(wrong)
}

/// The bytes of a checkpoint.
pub fn encode(kind: &str, state: &impl Serialize) -> Result<Vec<u8>, CheckpointError> {
    encode_as(PROGRAM, kind, state)
}

fn encode_as(program: &str, kind: &str, state: &impl Serialize) -> Result<Vec<u8>, CheckpointError> {
    let unwritable = |error: rmp_serde::encode::Error| CheckpointError::Unwritable(error.to_string());
    let mut bytes = vec![0; HEAD];
    rmp_serde::encode::write(&mut bytes, &(kind, program)).map_err(unwritable)?;
    rmp_serde::encode::write_named(&mut bytes, state).map_err(unwritable)?;
    let body = &bytes[HEAD..];
    let head = Head { checksum: checksum(body), length: body.len() as u64 };
    bytes[..HEAD].copy_from_slice(&head.to_bytes());
    Ok(bytes)
}

/// The state in the bytes of a checkpoint, the inverse of [`encode`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8], kind: &str) -> Result<T, CheckpointError> {
    let head = Head::read(bytes)?;
    let mut body = &bytes[HEAD..];
    if (body.len() as u64) < head.length {
        let expected = head.length.saturating_add(HEAD as u64);
        return Err(CheckpointError::CutShort { expected, found: bytes.len() as u64 });
    }
    if body.len() as u64 != head.length || head.checksum != checksum(body) {
        return Err(CheckpointError::Damaged);
    }
    let other = |error: rmp_serde::decode::Error| CheckpointError::OtherState(error.to_string());
    let (found, program): (String, String) = rmp_serde::from_read(&mut body).map_err(other)?;
    if found != kind {
        return Err(CheckpointError::OtherKind { expected: kind.to_owned(), found });
    }
    if program != PROGRAM {
        return Err(CheckpointError::OtherProgram(program));
    }
    let state = rmp_serde::from_read(&mut body).map_err(other)?;
    if body.is_empty() { Ok(state) } else { Err(CheckpointError::OtherState("it holds more".to_owned())) }
}

fn checksum(body: &[u8]) -> u64 {
    let mut checksum = Checksum::new();
    checksum.number(u64::from(VERSION));
    checksum.bytes(body);
    checksum.finish()
}

struct Head {
    checksum: u64,
    length: u64,
}

impl Head {
    fn to_bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[20..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        if !bytes.starts_with(MAGIC) {
            return Err(CheckpointError::NotACheckpoint);
        }
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Err(CheckpointError::CutShort { expected: HEAD as u64, found: bytes.len() as u64 });
        };
        let number = |begin: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&head[begin..begin + 8]);
            u64::from_le_bytes(number)
        };
        match u32::from_le_bytes([head[8], head[9], head[10], head[11]]) {
            VERSION => Ok(Self { checksum: number(12), length: number(20) }),
            0 => Err(CheckpointError::Damaged),
            newer => Err(CheckpointError::Newer(newer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_of_another_program_version_is_rejected() {
        let bytes = encode_as("0.0.7", "k", &1_u64).unwrap();
        let error = decode::<u64>(&bytes, "k").unwrap_err().to_string();
        let here = format!("and this is acrl {PROGRAM}: resume with that version or start anew");
        assert_eq!(error, format!("written by acrl 0.0.7, {here}"));
    }
}
