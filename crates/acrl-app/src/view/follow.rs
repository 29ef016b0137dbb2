//! Reading along in a file of lines that somebody else is writing.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

/// How much of what was read is remembered, to notice that it is no longer there.
const MEMORY: usize = 256;

/// What a file has to say since the last time.
pub(crate) enum News<'a> {
    /// It was cut or replaced, as when a run is resumed: what follows is from its beginning.
    Again,
    /// A whole line, without its end.
    Line(&'a [u8]),
}

/// The place up to which a file was read. A last line that is not complete is left for later.
pub(crate) struct Follow {
    path: PathBuf,
    offset: u64,
    /// What stands before `offset`.
    before: Vec<u8>,
}

impl Follow {
    /// From the beginning of this file, which need not exist yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, before: Vec::new() }
    }

    /// Whether nothing was read yet.
    pub(crate) fn at_start(&self) -> bool {
        self.offset == 0
    }

    /// Tells what is new, and returns whether anything was.
    pub(crate) fn read(&mut self, mut tell: impl FnMut(News<'_>)) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let again = !self.is_there(&mut file)?;
        if again {
            (self.offset, self.before) = (0, Vec::new());
            tell(News::Again);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let (mut line, mut any) = (Vec::new(), again);
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                return Ok(any);
            }
            tell(News::Line(&line));
            any = true;
            self.offset += line.len() as u64 + 1;
            self.before.extend_from_slice(&line);
            self.before.push(b'\n');
            let surplus = self.before.len().saturating_sub(MEMORY);
            self.before.drain(..surplus);
        }
    }

    /// Whether what was read is still what stands there.
    fn is_there(&self, file: &mut File) -> io::Result<bool> {
        if file.metadata()?.len() < self.offset {
            return Ok(false);
        }
        let mut before = vec![0; self.before.len()];
        file.seek(SeekFrom::Start(self.offset - before.len() as u64))?;
        match file.read_exact(&mut before) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            result => result.map(|()| before == self.before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    /// What is new, with "again" for a file that was cut.
    fn news(follow: &mut Follow) -> Vec<String> {
        let mut all = Vec::new();
        let any = follow.read(|news| {
            all.push(match news {
                News::Again => "again".to_owned(),
                News::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
            });
        });
        assert_eq!(any.unwrap(), !all.is_empty());
        all
    }

    #[test]
    fn complete_lines_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut follow = Follow::new(path.clone());
        assert!(news(&mut follow).is_empty(), "there is no file yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(news(&mut follow), ["one"]);
        assert!(news(&mut follow).is_empty());
        file.write_all(b"o\n\nthree\n").unwrap();
        assert_eq!(news(&mut follow), ["two", "", "three"]);
        // Longer than what is remembered.
        let long = "x".repeat(3 * MEMORY);
        writeln!(file, "{long}").unwrap();
        assert_eq!(news(&mut follow), [long]);
        writeln!(file, "four").unwrap();
        assert_eq!(news(&mut follow), ["four"]);
    }

    #[test]
    fn truncated_or_replaced_file_is_read_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut follow = Follow::new(path.clone());
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(news(&mut follow), ["one", "two", "three"]);
        fs::write(&path, "one\n").unwrap();
        assert_eq!(news(&mut follow), ["again", "one"]);
        // Cut, and grown beyond where it was before anybody looked.
        fs::write(&path, "uno\ntwo\nthree\nfour\n").unwrap();
        assert_eq!(news(&mut follow), ["again", "uno", "two", "three", "four"]);
        fs::write(&path, "").unwrap();
        assert_eq!(news(&mut follow), ["again"]);
        fs::remove_file(&path).unwrap();
        assert!(news(&mut follow).is_empty());
    }
}
