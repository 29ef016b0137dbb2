//! The header of a `safetensors` file: a length, then JSON with the type, shape and byte range of each tensor.
//!
//! Compatible with the `safetensors` crate, which is not used because its writer puts metadata in random order (equal
//! policies would give different files) and its reader overflows on crafted offsets.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ContainerError;

/// The maximal length of a header in the format.
const MAX_LENGTH: usize = 100_000_000;
const METADATA: &str = "__metadata__";

/// Type, shape and byte range of a tensor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Info {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) data_offsets: (usize, usize),
}

impl Info {
    /// The bytes of this tensor, with `size` bytes per element.
    pub(crate) fn data<'a>(&self, data: &'a [u8], size: usize) -> Option<&'a [u8]> {
        let length = elements(&self.shape)?.checked_mul(size)?;
        let (begin, end) = self.data_offsets;
        data.get(begin..end).filter(|data| data.len() == length)
    }
}

/// The number of elements, unless it overflows.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1, |product: usize, &n| product.checked_mul(n))
}

#[derive(Debug, Default)]
pub(crate) struct Header {
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tensors: Vec<(String, Info)>,
}

impl Header {
    /// The header and the data behind it, which the tensors cover once and without gaps.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, &[u8]), ContainerError> {
        let no = |reason: &str| ContainerError::NotSafetensors(reason.to_owned());
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(no(&format!("it has {} bytes", bytes.len())));
        };
        if rest.first().is_some_and(|&first| first != b'{') {
            return Err(no("its header does not begin with '{'"));
        }
        let length = u64::from_le_bytes(*length);
        let Some(length) = usize::try_from(length).ok().filter(|n| (2..=MAX_LENGTH).contains(n)) else {
            return Err(no(&format!("its header would have {length} bytes")));
        };
        let Some((header, data)) = rest.split_at_checked(length) else {
            return Err(ContainerError::CutShort);
        };
        let header: Self = serde_json::from_slice(header).map_err(|error| no(&error.to_string()))?;
        let mut spans: Vec<(usize, usize)> =
            header.tensors.iter().map(|(_, info)| info.data_offsets).collect();
        spans.sort_unstable();
        let mut covered = 0;
        for (begin, end) in spans {
            if begin != covered || end < begin {
                return Err(no(&format!(
                    "a tensor begins at byte {begin}, after one that ends at byte {covered}"
                )));
            }
            covered = end;
        }
        if covered > data.len() {
            return Err(ContainerError::CutShort);
        }
        if covered < data.len() {
            return Err(no(&format!("{} bytes at its end are no tensor", data.len() - covered)));
        }
        Ok((header, data))
    }

    /// The bytes of the header, whose length is a multiple of 8 so that the data are aligned.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, ContainerError> {
        if self.tensors.iter().any(|(name, _)| name == METADATA) {
            return Err(ContainerError::ReservedName);
        }
        let mut text = serde_json::to_vec(self).map_err(|error| ContainerError::Meta(error.to_string()))?;
        text.resize(text.len().next_multiple_of(8), b' ');
        if text.len() > MAX_LENGTH {
            return Err(ContainerError::Meta(format!("it has {} bytes, more than {MAX_LENGTH}", text.len())));
        }
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.append(&mut text);
        Ok(bytes)
    }
}

impl Serialize for Header {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(Some(1 + self.tensors.len()))?;
        map.serialize_entry(METADATA, &self.metadata)?;
        for (name, info) in &self.tensors {
            map.serialize_entry(name, info)?;
        }
        map.end()
    }
}

// By hand, as a derived one with `flatten` would keep all of the header in a form many times its size first.
impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut metadata = None;
                let mut tensors = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    let twice = if name == METADATA {
                        metadata.replace(map.next_value()?).is_some()
                    } else {
                        tensors.insert(name.clone(), map.next_value()?).is_some()
                    };
                    if twice {
                        return Err(A::Error::custom(format!("'{name}' is there twice")));
                    }
                }
                Ok(Header { metadata: metadata.unwrap_or_default(), tensors: tensors.into_iter().collect() })
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}
