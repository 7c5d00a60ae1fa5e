//! Whole files: there complete, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::StoreError;

const ATTEMPTS: u32 = 16;
const SUFFIX: &str = ".tmp";

/// Writes `bytes` as `dir/name`: into a temporary file beside it, down to the disk, then renamed.
/// After an error nothing new is left, and a file of that name is as it was.
///
/// Temporary files of writers that were killed are removed on the way. A writer holds a lock on
/// its own (flock, see flock(2)), which ends with it, so that a live one is never mistaken.
pub(crate) fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let path = dir.join(name);
    let fail = |why| StoreError::io("write", &path, why);
    sweep(dir);
    let (mut file, temporary) = create(dir, name).map_err(fail)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| sync_directory(dir));
    written.map_err(|why| {
        let _ = fs::remove_file(&temporary);
        fail(why)
    })
}

/// Makes what was created or renamed in a directory last.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, StoreError> {
    let fail = |why| StoreError::io("read", path, why);
    let file = File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most {
        return Err(StoreError::TooLarge {
            path: path.to_owned(),
            most,
        });
    }
    Ok(bytes)
}

fn create(dir: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    let mut last = io::Error::other("no free name for a temporary file");
    for attempt in 0..ATTEMPTS {
        let temporary = dir.join(format!(".{name}.{}.{attempt}{SUFFIX}", std::process::id()));
        let file = match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
        {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                last = why;
                continue;
            }
            Err(why) => return Err(why),
        };
        // Another process may have swept the file away before it was locked.
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if locked && file.metadata()?.nlink() > 0 {
            return Ok((file, temporary));
        }
    }
    Err(last)
}

/// Removes the temporary files of the dead from a directory, and says which.
pub(crate) fn sweep(dir: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else {
        return removed;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !is_temporary(&name) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else {
            continue;
        };
        let is_dead = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_dead && fs::remove_file(entry.path()).is_ok() {
            removed.push(entry.path());
        }
    }
    removed
}

/// Whether a name is one that [`create`] gives: `.NAME.PID.ATTEMPT.tmp`.
fn is_temporary(name: &str) -> bool {
    let is_number = |word: Option<&str>| word.is_some_and(|w| w.parse::<u32>().is_ok());
    let Some(stem) = name.strip_prefix('.').and_then(|n| n.strip_suffix(SUFFIX)) else {
        return false;
    };
    let mut words = stem.rsplitn(3, '.');
    is_number(words.next()) && is_number(words.next()) && words.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["first", "second, which is longer", "3"] {
            write(dir.path(), "report.md", text.as_bytes()).unwrap();
            assert_eq!(
                fs::read(dir.path().join("report.md")).unwrap(),
                text.as_bytes()
            );
        }
        assert_eq!(names(dir.path()), ["report.md"]);
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("taken")).unwrap();
        fs::write(dir.path().join("taken/file"), "old").unwrap();
        assert!(write(dir.path(), "taken", b"new").is_err());
        assert_eq!(fs::read(dir.path().join("taken/file")).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["taken"]);
    }

    // Invariant 9.
    #[test]
    fn leftovers_of_the_dead_go_and_files_of_the_living_stay() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".report.md.1.0.tmp"), "half").unwrap();
        fs::write(dir.path().join(".of-another.tmp"), "not ours").unwrap();
        let (_living, path) = create(dir.path(), "other").unwrap();
        write(dir.path(), "report.md", b"whole").unwrap();
        assert_eq!(
            names(dir.path()),
            [
                ".of-another.tmp",
                path.file_name().unwrap().to_str().unwrap(),
                "report.md"
            ]
        );
    }

    #[test]
    fn reading_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, [b'x'; 10]).unwrap();
        assert_eq!(read(&path, 10).unwrap().len(), 10);
        assert!(matches!(
            read(&path, 9),
            Err(StoreError::TooLarge { most: 9, .. })
        ));
        assert!(matches!(
            read(Path::new("/dev/zero"), 100),
            Err(StoreError::TooLarge { .. })
        ));
    }
}
