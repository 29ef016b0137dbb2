//! The checksums of the files.

use crc::{CRC_32_ISCSI, CRC_64_XZ, Crc, Digest, Table};

static CRC_64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);
static CRC_32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// CRC-64 of a sequence of parts. Parts of variable length go in with their length, so that no two different
/// sequences are the same bytes.
pub(crate) struct Checksum(Digest<'static, u64, Table<16>>);

impl Checksum {
    pub(crate) fn new() -> Self {
        Self(CRC_64.digest())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    pub(crate) fn finish(self) -> u64 {
        self.0.finalize()
    }
}

/// CRC-32C, masked as TFRecord files want it.
pub(crate) fn masked_crc32c(bytes: &[u8]) -> u32 {
    CRC_32C.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
