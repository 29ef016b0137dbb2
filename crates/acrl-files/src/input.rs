//! Reading a file whose head is checked before the rest of it is read.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::Error;

/// A file that is read in parts: one of another format is not read to its end, which may be far away.
pub(crate) struct Input<'a> {
    path: &'a Path,
    file: File,
    bytes: Vec<u8>,
}

impl<'a> Input<'a> {
    pub(crate) fn open(path: &'a Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        Ok(Self { path, file, bytes: Vec::new() })
    }

    /// Reads at most `count` more bytes; all bytes so far.
    pub(crate) fn read(&mut self, count: u64) -> Result<&[u8], Error> {
        let read = self.file.by_ref().take(count).read_to_end(&mut self.bytes);
        read.map_err(Error::io("read", self.path))?;
        Ok(&self.bytes)
    }
}
