//! The tensors of a policy file.

use crate::ContainerError;
use crate::safetensors_header::Info;

/// Finite numbers in a shape, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The length in each dimension.
    pub shape: Vec<usize>,
    /// The numbers: as many as the product of the lengths.
    pub data: TensorData,
}

/// The numbers of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorData {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
}

impl Tensor {
    /// Of single precision.
    pub fn f32(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Self {
        Self { shape: shape.into(), data: TensorData::F32(data) }
    }

    /// Of double precision.
    pub fn f64(shape: impl Into<Vec<usize>>, data: Vec<f64>) -> Self {
        Self { shape: shape.into(), data: TensorData::F64(data) }
    }

    pub(crate) fn read(name: &str, info: &Info, data: &[u8]) -> Result<Self, ContainerError> {
        let bytes = |size| {
            let wrong = || ContainerError::WrongLength { name: name.to_owned(), shape: info.shape.clone() };
            info.data(data, size).ok_or_else(wrong)
        };
        let data = match info.dtype.as_str() {
            "F32" => {
                TensorData::F32(bytes(4)?.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect())
            }
            "F64" => {
                TensorData::F64(bytes(8)?.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect())
            }
            other => {
                let found = other.to_owned();
                return Err(ContainerError::WrongType {
                    name: name.to_owned(),
                    found,
                    expected: "F32 or F64",
                });
            }
        };
        Ok(Self { shape: info.shape.clone(), data })
    }
}

impl TensorData {
    /// The number of numbers.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::F64(data) => data.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::F32(_) => "F32",
            Self::F64(_) => "F64",
        }
    }

    pub(crate) fn width(&self) -> usize {
        match self {
            Self::F32(_) => 4,
            Self::F64(_) => 8,
        }
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::F32(data) => data.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
            Self::F64(data) => data.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        }
    }

    pub(crate) fn check_finite(&self, name: &str) -> Result<(), ContainerError> {
        let bad = match self {
            Self::F32(data) => data.iter().position(|x| !x.is_finite()).map(|i| (i, data[i].to_string())),
            Self::F64(data) => data.iter().position(|x| !x.is_finite()).map(|i| (i, data[i].to_string())),
        };
        match bad {
            Some((index, value)) => Err(ContainerError::NotFinite { name: name.to_owned(), index, value }),
            None => Ok(()),
        }
    }

    pub(crate) fn wrong_type(&self, name: &str, expected: &'static str) -> ContainerError {
        ContainerError::WrongType { name: name.to_owned(), found: self.name().to_owned(), expected }
    }
}
