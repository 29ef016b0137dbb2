//! Atomic replacement of files.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Replaces a file atomically: after a crash at any time it has either the whole old or the whole new content.
///
/// The bytes go to a temporary file `.acrl-*.tmp` in the same folder, and that one to the disk before it takes the
/// name. On an error the old file is as it was and the temporary one is gone. A symbolic link is followed, permissions
/// are kept, a file without write permission is left alone, and a device or a pipe is simply written to.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace(path, bytes).map_err(Error::io("write", path))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let old = match fs::metadata(path) {
        Ok(old) if old.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        // Nothing to keep, and a rename would replace the device by a file.
        Ok(old) if !old.is_file() => return OpenOptions::new().write(true).open(path)?.write_all(bytes),
        // A rename would succeed, as it needs the folder's permissions alone.
        Ok(old) if old.permissions().readonly() => return Err(ErrorKind::PermissionDenied.into()),
        Ok(old) => Some(old),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let target = if old.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    if target.file_name().is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "expected the name of a file"));
    }
    let folder = match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let (mut file, temporary) = Temporary::create(folder)?;
    if let Some(old) = old {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary.0, &target)?;
    std::mem::forget(temporary);
    // The new file is in place. Where a folder cannot be synced, only a power cut within seconds brings back the old
    // one, which is whole as well, so that is no reason to report a failure.
    if cfg!(unix) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// A file that is removed again unless it is forgotten.
struct Temporary(PathBuf);

impl Temporary {
    fn create(folder: &Path) -> io::Result<(File, Self)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name: OsString = format!(".acrl-{}-{count}.tmp", std::process::id()).into();
            let path = folder.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((file, Self(path))),
                // Left by a program that had the same number and was stopped while it wrote.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn atomic_write_replaces_the_file_and_removes_the_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_atomically(&path, b"old and long").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn failed_write_names_the_path_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("b");
        fs::create_dir(&inside).unwrap();
        for path in [folder.path().join("missing/x"), inside, PathBuf::new(), PathBuf::from("..")] {
            let error = write_atomically(&path, b"x").unwrap_err();
            assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
        }
        assert_eq!(names(folder.path()), ["b"]);
    }

    #[test]
    fn read_only_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"precious").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(write_atomically(&path, b"new").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_are_followed_and_permissions_kept() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, b"old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_to() {
        write_atomically(Path::new("/dev/null"), b"x").unwrap();
        assert!(write_atomically(Path::new("/dev/full"), b"x").is_err());
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
