//! The policy file: tensors and metadata in a `safetensors` file with a checksum.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::checksum::Checksum;
use crate::input::Input;
use crate::safetensors_header::{Header, Info, elements};
use crate::{Error, Tensor, TensorData, write_atomically};

const FORMAT: &str = "acrl policy";
const VERSION: u32 = 1;

/// Named tensors and their metadata.
///
/// On disk it is a `safetensors` file, so any `safetensors` reader can open the tensors. Its `__metadata__` holds `format`
/// ("acrl policy"), `version` ("1"), `meta` (JSON text) and `checksum` (CRC-64 in hexadecimal, over all of it).
/// Serialisation is deterministic: equal containers give equal bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Container {
    /// Metadata as JSON: spaces, names, settings.
    pub meta: Value,
    /// The tensors.
    pub tensors: BTreeMap<String, Tensor>,
}

/// An invalid policy file, or a container that cannot be stored in one.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Not a `safetensors` file, or a damaged header.
    #[error("it is no safetensors file, or a damaged one: {0}")]
    NotSafetensors(String),
    /// Bytes are missing at the end.
    #[error("the file is cut short: it has fewer bytes than its header says")]
    CutShort,
    /// A safetensors file of another program.
    #[error("its metadata's format is '{}': expected '{FORMAT}'", .0.escape_debug())]
    OtherFormat(String),
    /// A newer format.
    #[error("written by a newer acrl: this program reads version {VERSION}, and the file has version {0}")]
    Newer(u64),
    /// A missing or unknown version.
    #[error("its version is '{}': expected {VERSION}", .0.escape_debug())]
    NoVersion(String),
    /// The checksum does not match.
    #[error("the file is damaged: its checksum does not match its content")]
    Damaged,
    /// Invalid JSON metadata.
    #[error("its metadata cannot be used: {0}")]
    Meta(String),
    /// An unexpected element type.
    #[error("tensor '{name}' has numbers of type {found}: expected {expected}")]
    WrongType { name: String, found: String, expected: &'static str },
    /// An unexpected shape.
    #[error("tensor '{name}' has shape {found:?}: expected {expected:?}")]
    WrongShape { name: String, found: Vec<usize>, expected: Vec<usize> },
    /// The number of elements does not match the shape.
    #[error("tensor '{name}' has shape {shape:?}, but its data are of another length")]
    WrongLength { name: String, shape: Vec<usize> },
    /// An infinite or NaN element.
    #[error("tensor '{name}' holds {value} at position {index}: expected finite numbers")]
    NotFinite { name: String, index: usize, value: String },
    /// A missing tensor.
    #[error("tensor '{0}' is missing")]
    Missing(String),
    /// An unexpected tensor.
    #[error("tensor '{0}' is unknown to this kind of policy")]
    Unexpected(String),
    /// The reserved tensor name.
    #[error("a tensor cannot be called '__metadata__'")]
    ReservedName,
}

impl Container {
    /// A container with metadata and no tensors.
    pub fn new(meta: Value) -> Self {
        Self { meta, tensors: BTreeMap::new() }
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ContainerError> {
        let meta = self.meta.to_string();
        // What is nested too deeply can be written but not read.
        if parse_meta(&meta)? != self.meta {
            return Err(ContainerError::Meta("it does not survive being written as JSON".to_owned()));
        }
        let mut data = Vec::new();
        let mut header = Header::default();
        let mut order: Vec<(&String, &Tensor)> = self.tensors.iter().collect();
        // The wider type first, so that every number is aligned.
        order.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.data.width()));
        for (name, tensor) in order {
            if elements(&tensor.shape) != Some(tensor.data.len()) {
                return Err(ContainerError::WrongLength { name: name.clone(), shape: tensor.shape.clone() });
            }
            tensor.data.check_finite(name)?;
            let begin = data.len();
            tensor.data.write(&mut data);
            let info = Info {
                dtype: tensor.data.name().to_owned(),
                shape: tensor.shape.clone(),
                data_offsets: (begin, data.len()),
            };
            header.tensors.push((name.clone(), info));
        }
        let checksum = checksum(&meta, &header, &data);
        header.metadata = [
            ("format", FORMAT.to_owned()),
            ("version", VERSION.to_string()),
            ("checksum", checksum),
            ("meta", meta),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let mut bytes = header.to_bytes()?;
        bytes.append(&mut data);
        Ok(bytes)
    }

    /// The container in the bytes of a file, the inverse of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContainerError> {
        let (header, data) = Header::read(bytes)?;
        let entry = |key| header.metadata.get(key).map(String::as_str);
        if entry("format") != Some(FORMAT) {
            return Err(ContainerError::OtherFormat(entry("format").unwrap_or_default().to_owned()));
        }
        // Before anything else, as a newer format may differ in anything else.
        let version = entry("version").unwrap_or_default();
        if version != VERSION.to_string() {
            return Err(match version.parse() {
                Ok(newer) if newer > u64::from(VERSION) => ContainerError::Newer(newer),
                _ => ContainerError::NoVersion(version.to_owned()),
            });
        }
        let mut tensors = BTreeMap::new();
        for (name, info) in &header.tensors {
            tensors.insert(name.clone(), Tensor::read(name, info, data)?);
        }
        let meta = entry("meta").unwrap_or_default();
        if entry("checksum") != Some(&checksum(meta, &header, data)) {
            return Err(ContainerError::Damaged);
        }
        // Only now, as a damaged file is better called damaged.
        tensors.iter().try_for_each(|(name, tensor)| tensor.data.check_finite(name))?;
        Ok(Self { meta: parse_meta(meta)?, tensors })
    }

    /// Writes the file atomically.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let bytes = self.to_bytes().map_err(|source| Error::Container { path: path.to_owned(), source })?;
        write_atomically(path, &bytes)
    }

    /// Reads the file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let wrong = |source| Error::Container { path: path.to_owned(), source };
        let mut file = Input::open(path)?;
        // The length of the header, and the brace that it begins with.
        if let Err(error @ ContainerError::NotSafetensors(_)) = Header::read(file.read(9)?) {
            return Err(wrong(error));
        }
        Self::from_bytes(file.read(u64::MAX)?).map_err(wrong)
    }

    /// Takes a tensor of single precision and this shape out.
    pub fn take_f32(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ContainerError> {
        match self.take(name, shape)? {
            TensorData::F32(data) => Ok(data),
            other => Err(other.wrong_type(name, "F32")),
        }
    }

    /// Takes a tensor of double precision and this shape out.
    pub fn take_f64(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>, ContainerError> {
        match self.take(name, shape)? {
            TensorData::F64(data) => Ok(data),
            other => Err(other.wrong_type(name, "F64")),
        }
    }

    /// Takes an integer tensor of this shape out.
    pub fn take_whole(&mut self, name: &str, shape: &[usize]) -> Result<Vec<u32>, ContainerError> {
        match self.take(name, shape)? {
            TensorData::U32(data) => Ok(data),
            TensorData::U8(data) => Ok(data.into_iter().map(u32::from).collect()),
            other => Err(other.wrong_type(name, "U8 or U32")),
        }
    }

    /// Takes a tensor of bytes of any length out.
    pub fn take_bytes(&mut self, name: &str) -> Result<Vec<u8>, ContainerError> {
        let shape = self.tensors.get(name).map_or_else(Vec::new, |tensor| tensor.shape.clone());
        match self.take(name, &shape)? {
            TensorData::U8(data) => Ok(data),
            other => Err(other.wrong_type(name, "U8")),
        }
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<TensorData, ContainerError> {
        let tensor = self.tensors.remove(name).ok_or_else(|| ContainerError::Missing(name.to_owned()))?;
        if tensor.shape != shape {
            return Err(ContainerError::WrongShape {
                name: name.to_owned(),
                found: tensor.shape,
                expected: shape.to_vec(),
            });
        }
        Ok(tensor.data)
    }

    /// An error if a tensor was not taken: files with unknown content are rejected.
    pub fn nothing_left(&self) -> Result<(), ContainerError> {
        self.tensors.keys().next().map_or(Ok(()), |name| Err(ContainerError::Unexpected(name.clone())))
    }
}

fn parse_meta(text: &str) -> Result<Value, ContainerError> {
    serde_json::from_str(text).map_err(|error| ContainerError::Meta(error.to_string()))
}

/// The checksum over metadata and tensors, independent of their order in the file.
fn checksum(meta: &str, header: &Header, data: &[u8]) -> String {
    let mut checksum = Checksum::new();
    checksum.bytes(FORMAT.as_bytes());
    checksum.number(u64::from(VERSION));
    checksum.bytes(meta.as_bytes());
    let tensors: BTreeMap<&String, &Info> = header.tensors.iter().map(|(name, info)| (name, info)).collect();
    for (name, info) in tensors {
        checksum.bytes(name.as_bytes());
        checksum.bytes(info.dtype.as_bytes());
        checksum.number(info.shape.len() as u64);
        info.shape.iter().for_each(|&n| checksum.number(n as u64));
        checksum.bytes(data.get(info.data_offsets.0..info.data_offsets.1).unwrap_or_default());
    }
    format!("{:016x}", checksum.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a NaN, which only another program would write.
    #[test]
    fn nan_in_an_intact_file_is_rejected() {
        let data = f32::NAN.to_le_bytes();
        let info = Info { dtype: "F32".to_owned(), shape: vec![1], data_offsets: (0, 4) };
        let mut header = Header { tensors: vec![("w".to_owned(), info)], ..Header::default() };
        let checksum = checksum("null", &header, &data);
        for (key, value) in [("format", FORMAT), ("version", "1"), ("meta", "null"), ("checksum", &checksum)]
        {
            header.metadata.insert(key.to_owned(), value.to_owned());
        }
        let bytes = [&header.to_bytes().unwrap()[..], &data].concat();
        let error = Container::from_bytes(&bytes).unwrap_err().to_string();
        assert_eq!(error, "tensor 'w' holds NaN at position 0: expected finite numbers");
    }
}
