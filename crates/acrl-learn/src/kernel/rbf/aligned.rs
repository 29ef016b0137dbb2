//! Cache-aligned buffers.

use std::ops::{Deref, DerefMut};

/// Buffer that begins at a multiple of 64 bytes, so that a register of the width of a cache line is never loaded from two
/// lines.
#[derive(Debug)]
pub(crate) struct Aligned {
    buffer: Vec<f32>,
    start: usize,
}

/// Numbers in 64 bytes.
const LINE: usize = 16;

impl Aligned {
    /// A buffer of zeros.
    pub(crate) fn zeros(length: usize) -> Self {
        let mut buffer = vec![0.0; length + LINE];
        let start = buffer.as_ptr().align_offset(4 * LINE).min(LINE);
        buffer.truncate(start + length);
        Self { buffer, start }
    }
}

impl Clone for Aligned {
    fn clone(&self) -> Self {
        let mut other = Self::zeros(self.len());
        other.copy_from_slice(self);
        other
    }
}

impl PartialEq for Aligned {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Deref for Aligned {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &self.buffer[self.start..]
    }
}

impl DerefMut for Aligned {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.buffer[self.start..]
    }
}
