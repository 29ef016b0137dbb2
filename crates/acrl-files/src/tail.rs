//! An append-only file of lines that can be truncated to the iteration at which a run resumes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;

/// A file that is appended to. Errors carry its path.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Tail {
    /// Opens or creates the file. Its content stays until [`cut`](Self::cut).
    pub(crate) fn open(path: PathBuf) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(Error::io("open", &path))?;
        Ok(Self { file: BufWriter::new(file), path })
    }

    /// Creates a file; the kind of the error says if it exists already.
    pub(crate) fn create_new(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { file: BufWriter::new(file), path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its first line, if it is whole.
    pub(crate) fn first_line(&mut self) -> Result<Option<String>, Error> {
        let read = || {
            let mut line = Vec::new();
            let mut file = self.file.get_ref();
            file.seek(SeekFrom::Start(0))?;
            BufReader::new(file).read_until(b'\n', &mut line)?;
            Ok(line.strip_suffix(b"\n").map(|line| String::from_utf8_lossy(line).into_owned()))
        };
        read().map_err(Error::io("read", &self.path))
    }

    /// Truncates the file after the last line of this iteration or an earlier one. `iteration_of` gives the iteration
    /// of a line, if it has one. The next write appends there.
    pub(crate) fn cut(
        &mut self,
        iteration: u64,
        iteration_of: impl Fn(&[u8]) -> Option<u64>,
    ) -> Result<(), Error> {
        let cut = || {
            let mut file = self.file.get_ref();
            file.seek(SeekFrom::Start(0))?;
            let kept = kept(BufReader::new(file), iteration, iteration_of)?;
            file.set_len(kept)?;
            file.seek(SeekFrom::Start(kept)).map(drop)
        };
        cut().map_err(Error::io("cut back", &self.path))
    }

    /// Moves the write position to the end of the file.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.file.get_ref().seek(SeekFrom::End(0)).map(drop).map_err(Error::io("write", &self.path))
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.cut(0, |_| None)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    /// Flushes the buffer to the operating system, so that other processes can read the data.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(Error::io("write", &self.path))
    }

    /// Waits until the data are on the disk.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.file.get_ref().sync_data().map_err(Error::io("write", &self.path))
    }
}

/// The length up to the last line of an iteration that is not beyond `iteration`.
fn kept(
    mut reader: impl BufRead,
    iteration: u64,
    iteration_of: impl Fn(&[u8]) -> Option<u64>,
) -> io::Result<u64> {
    let (mut at, mut kept, mut last) = (0, 0, None);
    let mut line = Vec::new();
    loop {
        line.clear();
        at += reader.read_until(b'\n', &mut line)? as u64;
        // The end, or a line torn by a crash.
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(kept) };
        match iteration_of(whole) {
            None => {}
            // Iterations only ever count up, so anything else is debris of a crash.
            Some(found) if found > iteration || Some(found) <= last => return Ok(kept),
            Some(found) => (kept, last) = (at, Some(found)),
        }
    }
}
