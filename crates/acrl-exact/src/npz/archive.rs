//! The container of `.npz`: a zip file whose entries are stored or deflated, in 32 or 64 bits.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Take, Write as _};

use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

const LOCAL: &[u8] = b"PK\x03\x04";
const DIRECTORY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";

/// Deflate packs at most so many bytes into one.
const MOST_PACKED: u64 = 1032;

/// A zip file, of which the directory has been read.
pub(super) struct Archive<R> {
    reader: R,
    length: u64,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    encrypted: bool,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    offset: u64,
}

impl<R: Read + Seek> Archive<R> {
    pub(super) fn open(mut reader: R) -> Result<Self, String> {
        let io = |e: io::Error| format!("the file cannot be read: {e}");
        let length = reader.seek(SeekFrom::End(0)).map_err(io)?;
        // The end of the directory is the end of the file, but for a comment.
        let mut tail = Vec::new();
        let tail_start = length.saturating_sub((1 << 16) + 42);
        reader.seek(SeekFrom::Start(tail_start)).map_err(io)?;
        reader.by_ref().take(length - tail_start).read_to_end(&mut tail).map_err(io)?;
        let end = (0..tail.len().saturating_sub(21)).rev().find(|&at| tail[at..].starts_with(END));
        let end = end.ok_or(
            "this is not a whole zip file, which an .npz file is: it has no directory at its end; was it cut short?",
        )?;
        let (mut count, mut size, mut offset) = (
            u64::from(u16_at(&tail, end + 10)),
            u64::from(u32_at(&tail, end + 12)),
            u64::from(u32_at(&tail, end + 16)),
        );
        if count == 0xffff || size == 0xffff_ffff || offset == 0xffff_ffff {
            let damaged = || "the end of the zip file's directory is damaged".to_owned();
            let locator =
                end.checked_sub(20).filter(|&at| tail[at..].starts_with(LOCATOR_64)).ok_or_else(damaged)?;
            let mut end_64 = [0; 56];
            reader.seek(SeekFrom::Start(u64_at(&tail, locator + 8))).map_err(io)?;
            reader.read_exact(&mut end_64).map_err(|_| damaged())?;
            if !end_64.starts_with(END_64) {
                return Err(damaged());
            }
            (count, size, offset) = (u64_at(&end_64, 32), u64_at(&end_64, 40), u64_at(&end_64, 48));
        }
        if offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(format!(
                "the zip file's directory ends beyond the file's {length} bytes: was it cut short?"
            ));
        }
        let mut directory = Vec::new();
        reader.seek(SeekFrom::Start(offset)).map_err(io)?;
        reader.by_ref().take(size).read_to_end(&mut directory).map_err(io)?;
        let entries = read_directory(&directory, count)?;
        Ok(Self { reader, length, entries })
    }

    /// The names of the entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// What an entry holds.
    pub(super) fn content(&mut self, name: &str) -> Option<Result<Content<'_, R>, String>> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        Some(Content::open(&mut self.reader, self.length, entry))
    }
}

fn read_directory(directory: &[u8], count: u64) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut rest = directory;
    for number in 0..count {
        let damaged = || format!("entry {number} of the zip file's directory is damaged");
        if rest.len() < 46 || !rest.starts_with(DIRECTORY) {
            return Err(damaged());
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(rest, at)));
        let (head, tail) = rest.split_at(46);
        if tail.len() < name + extra + comment {
            return Err(damaged());
        }
        let (name, tail) = tail.split_at(name);
        rest = &tail[extra + comment..];
        let mut long = long_fields(&tail[..extra]);
        let mut field = |at: usize| match u32_at(head, at) {
            u32::MAX => {
                let (field, more) = long.split_at_checked(8)?;
                long = more;
                Some(u64_at(field, 0))
            }
            short => Some(u64::from(short)),
        };
        let (size, packed, offset) = (field(24), field(20), field(42));
        let (Some(size), Some(packed), Some(offset)) = (size, packed, offset) else { return Err(damaged()) };
        let name = String::from_utf8_lossy(name).into_owned();
        if entries.iter().any(|entry| entry.name == name) {
            return Err(format!("two entries of the zip file are called '{name}'"));
        }
        let (encrypted, method, crc) = (u16_at(head, 8) & 1 != 0, u16_at(head, 10), u32_at(head, 16));
        entries.push(Entry { name, encrypted, method, crc, packed, size, offset });
    }
    Ok(entries)
}

/// The numbers of 64 bits in the extra fields of an entry.
fn long_fields(mut extra: &[u8]) -> &[u8] {
    while extra.len() >= 4 {
        let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some((field, rest)) = extra[4..].split_at_checked(length) else { break };
        if id == 1 {
            return field;
        }
        extra = rest;
    }
    &[]
}

/// The unpacked bytes of an entry, one after the other.
pub(super) struct Content<'a, R> {
    source: Source<Take<&'a mut R>>,
    crc: Crc,
    expected_crc: u32,
    read: u64,
    /// How many there should be.
    pub(super) size: u64,
    /// How many there can be at most, since there are only so many packed ones.
    pub(super) most: u64,
}

enum Source<T> {
    Stored(T),
    Deflated(DeflateDecoder<BufReader<T>>),
}

impl<'a, R: Read + Seek> Content<'a, R> {
    fn open(reader: &'a mut R, length: u64, entry: &Entry) -> Result<Self, String> {
        if entry.encrypted {
            return Err("the entry is encrypted, expected one that is stored or deflated".into());
        }
        let damaged = |_| "the entry's head is damaged, or the file was cut short".to_owned();
        let mut head = [0; 30];
        reader.seek(SeekFrom::Start(entry.offset)).map_err(damaged)?;
        reader.read_exact(&mut head).map_err(damaged)?;
        let start = entry.offset + 30 + u64::from(u16_at(&head, 26)) + u64::from(u16_at(&head, 28));
        if !head.starts_with(LOCAL) {
            return Err("the entry's head is damaged: expected the bytes PK\\x03\\x04".into());
        }
        if start.checked_add(entry.packed).is_none_or(|end| end > length) {
            return Err(format!("the entry ends beyond the file's {length} bytes: was it cut short?"));
        }
        reader.seek(SeekFrom::Start(start)).map_err(damaged)?;
        let packed = reader.take(entry.packed);
        let (source, most) = match entry.method {
            0 => (Source::Stored(packed), entry.packed),
            8 => {
                let unpacked = DeflateDecoder::new(BufReader::with_capacity(1 << 16, packed));
                (Source::Deflated(unpacked), entry.packed.saturating_mul(MOST_PACKED))
            }
            other => {
                let methods =
                    "expected one that is stored (0) or deflated (8), as NumPy and SciPy write them";
                return Err(format!("the entry is compressed by method {other}, {methods}"));
            }
        };
        if entry.size > most {
            let (size, packed) = (entry.size, entry.packed);
            return Err(format!(
                "the entry is said to have {size} bytes, but {packed} packed bytes cannot hold them"
            ));
        }
        Ok(Self { source, crc: Crc::new(), expected_crc: entry.crc, read: 0, size: entry.size, most })
    }

    /// Fills all of the buffer.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        let result = match &mut self.source {
            Source::Stored(source) => source.read_exact(buffer),
            Source::Deflated(source) => source.read_exact(buffer),
        };
        result.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => format!("the entry ends before its {} bytes", self.size),
            _ => format!("the entry cannot be unpacked after {} bytes: {e}", self.read),
        })?;
        self.crc.update(buffer);
        self.read += buffer.len() as u64;
        Ok(())
    }

    /// Checks that all has been read, and read right.
    pub(super) fn finish(&self) -> Result<(), String> {
        if self.crc.sum() == self.expected_crc {
            return Ok(());
        }
        Err(format!(
            "the entry is damaged: its checksum is {:08x}, expected {:08x}",
            self.crc.sum(),
            self.expected_crc
        ))
    }
}

/// Writes a zip file into memory, all of it with fields of 64 bits.
#[derive(Default)]
pub(super) struct ArchiveWriter {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u64,
}

impl ArchiveWriter {
    /// Adds an entry, deflated: what `fill` writes.
    pub(super) fn add(&mut self, name: &str, fill: impl FnOnce(&mut EntryWriter)) {
        let offset = self.bytes.len();
        let start = offset + 30 + name.len() + 20;
        self.bytes.resize(start, 0);
        let packer = DeflateEncoder::new(std::mem::take(&mut self.bytes), Compression::fast());
        let mut entry = EntryWriter { packer, buffer: Vec::new(), crc: Crc::new() };
        fill(&mut entry);
        entry.flush();
        let EntryWriter { packer, crc, .. } = entry;
        let (crc, size) = (crc.sum(), packer.total_in());
        // Writing to a Vec cannot fail.
        self.bytes = packer.finish().unwrap_or_default();
        let packed = (self.bytes.len() - start) as u64;

        // Version 4.5, UTF-8 names, deflate, 1 January 1980, sizes in the extra field.
        let common = |extra: u16| {
            let mut common = vec![45, 0, 0, 8, 8, 0, 0, 0, 0x21, 0];
            common.extend(crc.to_le_bytes());
            common.extend([0xff; 8]);
            common.extend((name.len() as u16).to_le_bytes());
            common.extend(extra.to_le_bytes());
            common
        };
        let sizes = [size.to_le_bytes(), packed.to_le_bytes()].concat();
        let head = [LOCAL, &common(20), name.as_bytes(), &[1, 0, 16, 0], &sizes].concat();
        self.bytes[offset..start].copy_from_slice(&head);
        let offset = (offset as u64).to_le_bytes();
        let attributes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        for part in
            [DIRECTORY, &[45, 0], &common(28), &attributes, name.as_bytes(), &[1, 0, 24, 0], &sizes, &offset]
        {
            self.directory.extend(part);
        }
        self.count += 1;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let (start, size) = (self.bytes.len() as u64, self.directory.len() as u64);
        let end = (start + size).to_le_bytes();
        let count = self.count.to_le_bytes();
        let (start, size) = (start.to_le_bytes(), size.to_le_bytes());
        let parts: [&[u8]; 14] = [
            &self.directory,
            END_64,
            &[44, 0, 0, 0, 0, 0, 0, 0, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &count,
            &count,
            &size,
            &start,
            LOCATOR_64,
            &[0; 4],
            &end,
            &[1, 0, 0, 0],
            END,
            &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0, 0],
        ];
        parts.iter().for_each(|part| self.bytes.extend(*part));
        self.bytes
    }
}

/// Takes the bytes of an entry.
pub(super) struct EntryWriter {
    packer: DeflateEncoder<Vec<u8>>,
    buffer: Vec<u8>,
    crc: Crc,
}

impl EntryWriter {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= 1 << 16 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.crc.update(&self.buffer);
        // Writing to a Vec cannot fail.
        _ = self.packer.write_all(&self.buffer);
        self.buffer.clear();
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
