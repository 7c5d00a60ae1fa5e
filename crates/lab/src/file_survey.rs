//! Movers of files that work here, found by reading or writing a few blocks, not by reading a version.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover, Route, Setup, file};
use bytecost_spec::survey::{FileSupport, FileSurvey};
use bytecost_spec::{Cache, Cell, Ring};
use rustix::io::Errno;

use crate::edges::LoopBody;
use crate::file_part::FilePart;
use crate::file_task::FileTask;
use crate::files::{self, DISK_TIMEOUT, Files};
use crate::limits::retried_without_memory;
use crate::protocol::ContentCheck;
use crate::requests::Requests;
use crate::side_by_side;
use crate::survey::{self, Helpers};

/// A request that every file system takes past the page cache, where it takes any.
const SIZE_BYTES: u64 = 4 << 10;
/// Attempts at making a file cold, with a pause between: the mover before may still hold its pages.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time of one such attempt.
const HELD_AT_MOST: Duration = Duration::from_millis(50);
/// The end of the refusal of a mover whose file does not become cold.
const COLD: &str = "though it was cold for another mover: run again, or choose --cache warm";
/// Attempts before the conclusion that no file here becomes cold.
const TRIES_AT_ALL: u32 = 3;

/// Tries every mover of files in every state of the page cache with one checked request; an error is one
/// of the directory or the user's file.
pub fn survey(files: &mut Files) -> io::Result<FileSurvey> {
    let dir = files.dir().to_owned();
    let user = files.user().map(|path| path.to_owned());
    let user_file_bytes = user.as_deref().map(user_bytes).transpose()?;
    let at = user.as_deref().unwrap_or(&dir);
    let mut found = FileSurvey {
        dir: dir.display().to_string(),
        file_system: file::file_system(at)?,
        device: rustix::fs::stat(at).ok().map(|s| s.st_dev),
        free_bytes: file::free_bytes(&dir)?,
        user_file: user.as_ref().map(|path| path.display().to_string()),
        user_file_bytes,
        ..FileSurvey::default()
    };
    let of_disk = match user {
        Some(path) => FileTask {
            path,
            own: false,
            target: None,
        },
        None => files
            .prepare(&cell(Cache::Cold, "pread"))?
            .ok_or(io::ErrorKind::NotFound)?,
    };
    found.direct_bytes = file::direct_bytes(&of_disk.path);
    let tries = tries(files);
    // Each state has files of its own, since another would undo it.
    let of_state = |cache: &Cache| {
        let mut own_files = files.others();
        let here = |m: &&Mover| is_tried(m, *cache) && !m.is_helped();
        let movers = MOVERS.iter().filter(here);
        movers
            .map(|mover| tried(&mut own_files, mover, *cache, None, tries))
            .collect::<Vec<_>>()
    };
    found.movers = side_by_side::each(Cache::ALL, of_state).concat();
    Ok(found)
}

/// Attempts for each mover: where files become cold, one that stays warm now will become so later.
fn tries(files: &mut Files) -> u32 {
    let control = Mover::named("pread")
        .map(|pread| again(TRIES_AT_ALL, || attempt(files, pread, Cache::Cold, None)));
    match control {
        Some(Ok(())) => TRIES,
        _ => 1,
    }
}

fn again(tries: u32, mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..tries {
        match attempt() {
            Err(e) if is_not_cold(&e) => thread::sleep(PAUSE),
            done => return done,
        }
    }
    attempt().map_err(|e| {
        if tries <= TRIES_AT_ALL || !is_not_cold(&e) {
            return e;
        }
        let why = format!("pages of the file stayed in the page cache in {tries} attempts, {COLD}");
        io::Error::new(e.kind(), why)
    })
}

/// Returns true for an error of [`file::cool`], not of a call that is not supported.
fn is_not_cold(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported && error.raw_os_error().is_none()
}

/// Tries the movers that [`survey()`] leaves out, those that have another program do their work.
pub fn helped(files: &mut Files, helpers: &Helpers) -> Vec<FileSupport> {
    let mut found = Vec::new();
    let tries = tries(files);
    for &cache in Cache::ALL {
        let here = |m: &&Mover| is_tried(m, cache) && m.is_helped();
        let movers = MOVERS.iter().filter(here);
        found.extend(movers.map(|mover| tried(files, mover, cache, Some(helpers), tries)));
    }
    found
}

fn tried(
    files: &mut Files,
    mover: &Mover,
    cache: Cache,
    helpers: Option<&Helpers>,
    tries: u32,
) -> FileSupport {
    let java = helpers.map(Helpers::java).transpose();
    let tries = if cache == Cache::Cold { tries } else { 1 };
    let done = java.and_then(|java| {
        let mut once = || retried_without_memory(|| attempt(files, mover, cache, java.clone()));
        again(tries, &mut once)
    });
    FileSupport {
        name: mover.name.to_owned(),
        cache,
        refused: done.err().map(|e| reason(&e)),
    }
}

/// Returns true if a mover is tried in a state of the page cache. One that sends is tried with the
/// transports too, and cannot bypass the page cache.
fn is_tried(mover: &Mover, cache: Cache) -> bool {
    let sends = mover.route == Route::FileToSocket && matches!(cache, Cache::Warm | Cache::Cold);
    mover.route.is_of_files() || sends
}

/// The length of a user's file in bytes; an error has its name.
pub fn user_bytes(path: &std::path::Path) -> io::Result<u64> {
    let opened = file::open(path, file::Opening::default())?;
    let bytes = file::len(&opened)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    if bytes == 0 {
        let why = format!(
            "{}: the file is empty, there is nothing to read",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(bytes)
}

fn cell(cache: Cache, mover: &str) -> Cell {
    Cell {
        cache,
        congestion: "default".to_owned(),
        mover: mover.to_owned(),
        size_bytes: SIZE_BYTES,
        ring: Ring::Bytes(4 * SIZE_BYTES),
        depth: 2,
        ..Cell::default()
    }
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::OPNOTSUPP) => "this file system does not support it (EOPNOTSUPP)".to_owned(),
        Some(Errno::XDEV) => "the two files lie on file systems that it does not copy between (EXDEV): choose a directory on the file's own with --dir".to_owned(),
        _ => survey::reason(error),
    }
}

fn attempt(
    files: &mut Files,
    mover: &Mover,
    cache: Cache,
    java: Option<PathBuf>,
) -> io::Result<()> {
    let mut cell = cell(cache, mover.name);
    let task = files.prepare(&cell)?.ok_or(io::ErrorKind::NotFound)?;
    if !task.own {
        // A file of less than a few blocks is read in one piece.
        let has = file::len(file::open(&task.path, file::Opening::default())?)?;
        cell.size_bytes = cell.size_bytes.min(has);
        cell.ring = Ring::Message;
    }
    let work = files::open(&cell, mover, &task, 0)?;
    files::prepare_pages(&cell, &work, HELD_AT_MOST)?;
    if mover.route == Route::FileToSocket {
        let content = task.own.then(file::content);
        return survey::one_message_apart(&cell, Some((work, content)), java);
    }
    let part = FilePart {
        cell: &cell,
        mover,
        task: &task,
        order: work.order,
        check: ContentCheck::Full,
    };
    let mut engine = mover.open_file(Setup {
        file: Some(work),
        java,
        ..Setup::new(part.size(), DISK_TIMEOUT)
    })?;
    let mut requests = Requests::new(&mut *engine, part.places(), part.content(), None);
    requests.step()?;
    requests.complete()?;
    drop(engine);
    part.check_written(1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(dir: &str, user: Option<PathBuf>) -> FileSurvey {
        survey(&mut Files::new(PathBuf::from(dir), user)).unwrap()
    }

    fn refused(found: &FileSurvey, name: &str, cache: Cache) -> Option<String> {
        let of_it = |m: &&FileSupport| m.name == name && m.cache == cache;
        found.movers.iter().find(of_it).unwrap().refused.clone()
    }

    #[test]
    fn every_mover_of_files_is_tried_in_every_state_of_the_cache() {
        let found = found(env!("CARGO_MANIFEST_DIR"), None);
        let here = || MOVERS.iter().filter(|m| !m.is_helped());
        let tried = |cache: &Cache| here().filter(|m| is_tried(m, *cache)).count();
        let all: usize = Cache::ALL.iter().map(tried).sum();
        assert_eq!(found.movers.len(), all);
        assert!(found.free_bytes > 0 && !found.file_system.is_empty());
        assert!(found.device.is_some());
        let mapped = refused(&found, "mmap-touch", Cache::Direct).unwrap();
        let expected = "a mapping shows the page cache";
        assert!(mapped.starts_with(expected), "{mapped}");
        let direct = refused(&found, "pread", Cache::Direct);
        assert_eq!(direct.is_none(), found.direct_bytes.is_some(), "{direct:?}");
    }

    #[test]
    fn a_file_whose_pages_are_held_for_a_while_is_cold_when_they_are_let_go() {
        let mut files = Files::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")), None);
        let pread = Mover::named("pread").unwrap();
        let cold = |all: &mut Files| attempt(all, pread, Cache::Cold, None);
        again(TRIES, || cold(&mut files)).unwrap();
        // A page in a pipe is the file's own, and cannot be dropped.
        let task = files.prepare(&cell(Cache::Cold, "pread"));
        let file = file::open(&task.unwrap().unwrap().path, file::Opening::default()).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let flags = rustix::pipe::SpliceFlags::empty();
        rustix::pipe::splice(&file, Some(&mut 0), &writer, None, 4096, flags).unwrap();
        let mut held = Some((reader, writer));
        let mut attempts = 0;
        let done = again(TRIES, || {
            attempts += 1;
            let done = cold(&mut files);
            if attempts == 2 {
                held = None;
            }
            done
        });
        done.unwrap();
        assert!(held.is_none() && attempts > 2, "{attempts}");
    }

    #[test]
    fn a_file_that_never_becomes_cold_is_reported_with_the_number_of_attempts() {
        let not_cold = || io::Error::new(io::ErrorKind::Unsupported, "25 % stay: choose --dir");
        let mut attempts = 0;
        let mut never = |tries| {
            attempts = 0;
            let why = again(tries, || {
                attempts += 1;
                Err(not_cold())
            });
            (attempts, why.unwrap_err().to_string())
        };
        let (times, why) = never(TRIES_AT_ALL + 1);
        assert_eq!(times, TRIES_AT_ALL + 1);
        let is_named = why.contains("4 attempts") && !why.contains("--dir");
        assert!(is_named, "{why}");
        assert_eq!(never(1), (1, not_cold().to_string()));
        let refused = again(TRIES, || Err(Errno::OPNOTSUPP.into())).unwrap_err();
        let errno = refused.raw_os_error();
        assert_eq!(errno, Some(Errno::OPNOTSUPP.raw_os_error()));
    }

    #[test]
    fn a_forbidden_call_is_reported_with_its_limit() {
        for (errno, word) in [
            (Errno::PERM, "kernel.io_uring_disabled"),
            (Errno::NOSYS, "does not have it"),
            (Errno::NOMEM, "ulimit -l"),
            (Errno::OPNOTSUPP, "file system"),
            (Errno::XDEV, "--dir"),
        ] {
            let why = reason(&errno.into());
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn a_file_system_in_memory_is_neither_cold_nor_passed_by() {
        if !Path::new("/dev/shm").is_dir() {
            return;
        }
        let found = found("/dev/shm", None);
        assert_eq!(found.file_system, "tmpfs");
        assert_eq!(found.direct_bytes, None);
        assert_eq!(refused(&found, "pread", Cache::Warm), None);
        for (cache, word) in [
            (Cache::Cold, "not cold"),
            (Cache::Direct, "past the page cache"),
        ] {
            let why = refused(&found, "pread", cache).unwrap();
            assert!(why.contains(word) && why.contains("--dir"), "{why}");
        }
    }

    #[test]
    fn a_file_of_the_users_is_read_and_never_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine");
        std::fs::write(&path, vec![3; 10_000]).unwrap();
        let found = found(dir.path().to_str().unwrap(), Some(path.clone()));
        assert_eq!(found.user_file_bytes, Some(10_000));
        assert_eq!(refused(&found, "read", Cache::Warm), None);
        let not_memory = refused(&found, "read", Cache::Memory).unwrap();
        assert!(not_memory.contains("not a memory file"), "{not_memory}");
        for mover in MOVERS.iter().filter(|m| m.route == Route::MemoryToFile) {
            let why = refused(&found, mover.name, Cache::Warm).unwrap();
            assert!(why.contains("never written"), "{why}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), vec![3; 10_000]);
        std::fs::write(&path, []).unwrap();
        for bad in [path, dir.path().to_owned(), PathBuf::from("/nowhere")] {
            let word = bad.display().to_string();
            let why = survey(&mut Files::new(dir.path().to_owned(), Some(bad))).unwrap_err();
            assert!(why.to_string().contains(&word), "{why}");
        }
    }
}
