//! The tensors of a policy file.

use crate::ContainerError;
use crate::safetensors_header::Info;

/// A tensor of finite numbers in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The length in each dimension.
    pub shape: Vec<usize>,
    /// The elements; their number is the product of the lengths.
    pub data: TensorData,
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorData {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Bytes.
    U8(Vec<u8>),
    /// Unsigned integers.
    U32(Vec<u32>),
}

impl Tensor {
    /// A single-precision tensor.
    pub fn f32(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Self {
        Self { shape: shape.into(), data: TensorData::F32(data) }
    }

    /// A double-precision tensor.
    pub fn f64(shape: impl Into<Vec<usize>>, data: Vec<f64>) -> Self {
        Self { shape: shape.into(), data: TensorData::F64(data) }
    }

    /// An integer tensor in the smallest type that holds it.
    pub fn whole(shape: impl Into<Vec<usize>>, data: Vec<u32>) -> Self {
        let small = data.iter().all(|x| u8::try_from(*x).is_ok());
        let data = if small {
            TensorData::U8(data.iter().map(|x| *x as u8).collect())
        } else {
            TensorData::U32(data)
        };
        Self { shape: shape.into(), data }
    }

    /// A tensor of bytes.
    pub fn bytes(data: Vec<u8>) -> Self {
        Self { shape: vec![data.len()], data: TensorData::U8(data) }
    }

    pub(crate) fn read(name: &str, info: &Info, data: &[u8]) -> Result<Self, ContainerError> {
        let bytes = |size| {
            let wrong = || ContainerError::WrongLength { name: name.to_owned(), shape: info.shape.clone() };
            info.data(data, size).ok_or_else(wrong)
        };
        macro_rules! numbers {
            ($number:ty) => {
                bytes(size_of::<$number>())?
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&b| <$number>::from_le_bytes(b))
                    .collect()
            };
        }
        let data = match info.dtype.as_str() {
            "F32" => TensorData::F32(numbers!(f32)),
            "F64" => TensorData::F64(numbers!(f64)),
            "U8" => TensorData::U8(numbers!(u8)),
            "U32" => TensorData::U32(numbers!(u32)),
            other => {
                let (name, found) = (name.to_owned(), other.to_owned());
                return Err(ContainerError::WrongType { name, found, expected: "F32, F64, U8 or U32" });
            }
        };
        Ok(Self { shape: info.shape.clone(), data })
    }
}

impl TensorData {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::F64(data) => data.len(),
            Self::U8(data) => data.len(),
            Self::U32(data) => data.len(),
        }
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::F32(_) => "F32",
            Self::F64(_) => "F64",
            Self::U8(_) => "U8",
            Self::U32(_) => "U32",
        }
    }

    pub(crate) fn width(&self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::F32(_) | Self::U32(_) => 4,
            Self::F64(_) => 8,
        }
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::F32(data) => data.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
            Self::F64(data) => data.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
            Self::U8(data) => bytes.extend_from_slice(data),
            Self::U32(data) => data.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        }
    }

    pub(crate) fn check_finite(&self, name: &str) -> Result<(), ContainerError> {
        let bad = match self {
            Self::F32(data) => data.iter().position(|x| !x.is_finite()).map(|i| (i, data[i].to_string())),
            Self::F64(data) => data.iter().position(|x| !x.is_finite()).map(|i| (i, data[i].to_string())),
            Self::U8(_) | Self::U32(_) => None,
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
