//! TensorBoard event files, written without TensorFlow.
//!
//! A file is a sequence of TFRecords: length, masked CRC-32C of it, data, masked CRC-32C of them. The data are
//! protocol buffers, of which only the fields below are used:
//!
//! ```text
//! Event      { 1 wall_time: double, 2 step: int64, 3 file_version: string, 5 summary: Summary, 7 session_log: SessionLog }
//! Summary    { 1 value: repeated Value }
//! Value      { 1 tag: string, 2 simple_value: float }
//! SessionLog { 1 status: enum, START = 1 }
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use acrl::Named;

use crate::Error;
use crate::checksum::masked_crc32c;
use crate::tail::Tail;

const PREFIX: &str = "events.out.tfevents.";
/// In place of the host name that other writers put here.
const WRITER: &str = ".acrl.";

/// One event file.
#[derive(Debug)]
pub(crate) struct EventFile(Tail);

impl EventFile {
    /// A new file that sorts behind those in the folder. With `resume_at`, TensorBoard discards the events of older
    /// files from this step on.
    pub(crate) fn create(folder: &Path, resume_at: Option<u64>) -> Result<Self, Error> {
        let mut file = Self(new_file(folder)?);
        let begin = resume_at.unwrap_or(0);
        file.event(begin, |event| event.bytes(3, b"brain.Event:2"))?;
        if resume_at.is_some() {
            file.event(begin, start)?;
        }
        Ok(file)
    }

    /// The metrics at a step, which is the x axis: environment steps.
    pub(crate) fn scalars(&mut self, step: u64, metrics: &Named<f64>) -> Result<(), Error> {
        self.event(step, |event| summary(event, metrics))
    }

    fn event(&mut self, step: u64, what: impl FnOnce(&mut Message)) -> Result<(), Error> {
        self.0.write(&record(&event(now(), step, what)))
    }

    pub(crate) fn file(&mut self) -> &mut Tail {
        &mut self.0
    }

    /// The files that this crate has written to a folder.
    pub(crate) fn all(folder: &Path) -> Result<Vec<PathBuf>, Error> {
        Ok(existing(folder)?.into_iter().map(|(name, _)| folder.join(name)).collect())
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Our files in a folder, with the time in their name.
fn existing(folder: &Path) -> Result<Vec<(String, u64)>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let Ok(name) = entry.map_err(Error::io("read", folder))?.file_name().into_string() else { continue };
        let time =
            name.strip_prefix(PREFIX).and_then(|rest| rest.split_once(WRITER)).map(|(time, _)| time.parse());
        if let Some(Ok(time)) = time {
            found.push((name, time));
        }
    }
    Ok(found)
}

fn new_file(folder: &Path) -> Result<Tail, Error> {
    // TensorBoard reads files in the order of their names, which must not follow a clock that was set back.
    let latest = existing(folder)?.into_iter().map(|(_, time)| time).max().unwrap_or(0);
    let time = latest.max(now() as u64);
    let mut number = 0;
    loop {
        let path = folder.join(format!("{PREFIX}{time:010}{WRITER}{number:03}"));
        match Tail::create_new(path.clone()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            result => return result.map_err(Error::io("create", &path)),
        }
    }
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_crc32c(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_crc32c(data).to_le_bytes());
    record
}

fn event(wall_time: f64, step: u64, what: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, wall_time);
    // As all writers do, which leave out a zero.
    if step > 0 {
        event.varint(2, step);
    }
    what(&mut event);
    event.0
}

fn summary(event: &mut Message, metrics: &Named<f64>) {
    event.message(5, |summary| {
        for (tag, &x) in metrics.iter() {
            summary.message(1, |value| {
                value.bytes(1, tag.as_bytes());
                value.float(2, x as f32);
            });
        }
    });
}

fn start(event: &mut Message) {
    event.message(7, |log| log.varint(1, 1));
}

/// A protocol buffer in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Of the wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
    fn key(&mut self, field: u64, wire: u64) {
        self.raw_varint(field << 3 | wire);
    }

    fn raw_varint(&mut self, mut x: u64) {
        while x >= 0x80 {
            self.0.push(x as u8 | 0x80);
            x >>= 7;
        }
        self.0.push(x as u8);
    }

    fn varint(&mut self, field: u64, x: u64) {
        self.key(field, 0);
        self.raw_varint(x);
    }

    fn double(&mut self, field: u64, x: f64) {
        self.key(field, 1);
        self.0.extend(x.to_le_bytes());
    }

    fn float(&mut self, field: u64, x: f32) {
        self.key(field, 5);
        self.0.extend(x.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, what: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        what(&mut inner);
        self.bytes(field, &inner.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn event_file_is_byte_identical_to_the_tensorboard_package() {
        let version = event(1.5, 0, |event| event.bytes(3, b"brain.Event:2"));
        assert_eq!(
            hex(&record(&version)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"
        );
        let figures: Named<f64> = [("return".to_owned(), 0.5), ("λ".to_owned(), -2.0)].into_iter().collect();
        assert_eq!(
            hex(&record(&event(1.5, 300, |event| summary(event, &figures)))),
            "2800000000000000ff70164a09000000000000f83f10ac022a1a0a0d0a0672657475726e150000003f0a090a02cebb15000000c0\
             84651a7a"
        );
        assert_eq!(
            hex(&record(&event(1.5, 7, start))),
            "0f000000000000006d532b0909000000000000f83f10073a020801774771c7"
        );
    }

    #[test]
    fn new_file_sorts_behind_older_ones_after_a_clock_change() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("events.out.tfevents.9999999999.acrl.000"), b"").unwrap();
        fs::write(folder.path().join("events.out.tfevents.99999999999.elsewhere"), b"").unwrap();
        let mut file = EventFile::create(folder.path(), None).unwrap();
        assert!(file.file().path().ends_with("events.out.tfevents.9999999999.acrl.001"));
        assert_eq!(EventFile::all(folder.path()).unwrap().len(), 2);
    }
}
