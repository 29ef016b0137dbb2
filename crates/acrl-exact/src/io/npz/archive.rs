//! Container of `.npz`: a zip archive whose entries are stored or deflated, in 32 or 64 bits.
//!
//! The `zip` crate parses the container and verifies checksums. Sizes are declared by the file, so they
//! are checked here before memory is allocated for them.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use zip::read::ZipFile;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// Largest compression ratio of deflate.
const MAX_RATIO: u64 = 1032;

/// Zip archive whose directory has been read.
pub(super) struct Archive<R> {
    zip: ZipArchive<BufReader<R>>,
    length: u64,
}

impl<R: Read + Seek> Archive<R> {
    pub(super) fn open(mut reader: R) -> Result<Self, String> {
        let io = |e: io::Error| format!("the file cannot be read: {e}");
        let length = reader.seek(SeekFrom::End(0)).map_err(io)?;
        reader.rewind().map_err(io)?;
        let zip = ZipArchive::new(BufReader::with_capacity(1 << 16, reader)).map_err(|e| match e {
            ZipError::Io(e) if e.kind() != io::ErrorKind::UnexpectedEof => io(e),
            e => format!(
                "this is not a whole zip file, which an .npz file is: its directory cannot be read ({e}); \
                 was it cut short?"
            ),
        })?;
        if zip.has_duplicate_names() {
            return Err("two entries of the zip file have the same name".into());
        }
        Ok(Self { zip, length })
    }

    /// Names of the entries.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.zip.file_names_raw().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Content of an entry; `None` if there is no such entry.
    pub(super) fn content(&mut self, name: &str) -> Option<Result<Content<'_, R>, String>> {
        let index = self.zip.index_for_name_raw(name.as_bytes())?;
        Some(Content::open(&mut self.zip, self.length, index))
    }
}

/// Unpacked bytes of an entry, in order.
pub(super) struct Content<'a, R: Read> {
    reader: ZipFile<'a, BufReader<R>>,
    /// Number of bytes that the directory declares.
    pub(super) size: u64,
    /// Largest number of bytes that the packed bytes can hold.
    pub(super) most: u64,
}

impl<'a, R: Read + Seek> Content<'a, R> {
    fn open(zip: &'a mut ZipArchive<BufReader<R>>, length: u64, index: usize) -> Result<Self, String> {
        let unreadable = |e: ZipError| format!("the entry cannot be read, or the file was cut short: {e}");
        let entry = zip.by_index_raw(index).map_err(unreadable)?;
        let (size, packed, start) = (entry.size(), entry.compressed_size(), entry.data_start().unwrap_or(0));
        if entry.encrypted() {
            return Err("the entry is encrypted, expected one that is stored or deflated".into());
        }
        if start.checked_add(packed).is_none_or(|end| end > length) {
            return Err(format!("the entry ends beyond the file's {length} bytes: was it cut short?"));
        }
        let most = match entry.compression() {
            CompressionMethod::Stored => packed,
            CompressionMethod::Deflated => packed.saturating_mul(MAX_RATIO),
            other => {
                return Err(format!(
                    "the entry is compressed by method {other}, expected one that is stored (0) or \
                     deflated (8), as NumPy and SciPy write them"
                ));
            }
        };
        if size > most {
            return Err(format!(
                "the entry is said to have {size} bytes, but {packed} packed bytes cannot hold them"
            ));
        }
        drop(entry);
        let reader = zip.by_index(index).map_err(unreadable)?;
        Ok(Self { reader, size, most })
    }

    /// Fills all of the buffer.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        self.reader.read_exact(buffer).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => format!("the entry ends before its {} bytes", self.size),
            _ => format!("the entry cannot be unpacked: {e}"),
        })
    }

    /// Checks that the entry ends here, and its checksum.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(format!("the entry has more than its {} bytes", self.size)),
            Err(e) => Err(format!("the entry is damaged: its checksum is wrong ({e})")),
        }
    }
}
