//! Files that are read and written: bytecost's own, gone at the end, and the user's, only read.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use bytecost_sys::io_buffers::{ALIGN_BYTES, IoBuffers};
use bytecost_sys::{file_system, proc_view, regular_file};
use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::block_order::BlockOrder;
use crate::pattern::{PayloadPattern, WrongBytes};

mod copies;
mod page_cache;

pub use copies::{blank, check_copied};
pub use page_cache::{FOLIO_MOST, cool, warm};

const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that stay free on the file system in addition to the file.
const SPARE_BYTES: u64 = 64 << 20;
/// The most names that are tried if they are taken.
const NAMES_MOST: usize = 16;

/// The content of a file of bytecost's own: a short one is the beginning of a long one.
pub fn content() -> PayloadPattern {
    PayloadPattern::new(u32::MAX, 0)
}

/// A file of bytecost's own, of no name, so that nothing is left however the process ends.
#[derive(Debug)]
pub struct TestFile {
    file: OwnedFd,
    len: u64,
    /// None for a memory file.
    dir: Option<PathBuf>,
}

impl TestFile {
    /// An empty file in memory, memfd_create(2).
    pub fn in_memory() -> io::Result<TestFile> {
        Ok(TestFile {
            file: rustix::fs::memfd_create("bytecost-file", MemfdFlags::CLOEXEC)?,
            len: 0,
            dir: None,
        })
    }

    /// An empty file in a directory: O_TMPFILE, or else one of a name that nobody can guess, which
    /// is taken away at once. The error names the directory and a remedy.
    pub fn in_dir(dir: &Path) -> io::Result<TestFile> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::open(dir, flags | OFlags::TMPFILE, mode) {
            Ok(file) => file,
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => unlinked(dir, flags, mode)?,
            Err(e) => return Err(in_words(dir, "no file can be made in", e)),
        };
        Ok(TestFile {
            file,
            len: 0,
            dir: Some(dir.to_owned()),
        })
    }

    /// Makes it at least so long, filled with [`content`] and on the disk, fsync(2). What is there
    /// already stays. `StorageFull` where there is no room, before anything is written.
    pub fn grow(&mut self, len: u64) -> io::Result<()> {
        if !self.may_grow(len)? {
            return Ok(());
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        let content = content();
        let mut at = self.len;
        while at < len {
            let piece = &mut chunk[..CHUNK_BYTES.min((len - at) as usize)];
            content.fill(at, piece);
            write_all(&self.file, piece, at)?;
            at += piece.len() as u64;
        }
        rustix::fs::fsync(&self.file)?;
        self.len = len;
        Ok(())
    }

    /// Returns true if it is shorter and may grow; fails if there is no room for that.
    fn may_grow(&self, len: u64) -> io::Result<bool> {
        let more = len.saturating_sub(self.len);
        if let Some(dir) = self.dir.as_ref().filter(|_| more > 0) {
            has_room(dir, more)?;
        }
        Ok(more > 0)
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if no length was requested of it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The path by which other processes of the same user open it, as long as this one lives.
    pub fn path(&self) -> PathBuf {
        proc_view::own_directory().join(format!("fd/{}", self.file.as_raw_fd()))
    }
}

impl AsFd for TestFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file that has its name for a moment only.
fn unlinked(dir: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    for _ in 0..NAMES_MOST {
        let mut random = [0; 16];
        io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut random)?;
        let path = dir.join(format!(".bytecost-{:032x}", u128::from_be_bytes(random)));
        match rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => {
                rustix::fs::unlinkat(rustix::fs::CWD, &path, AtFlags::empty())?;
                return Ok(file);
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(in_words(dir, "no file can be made in", e)),
        }
    }
    Err(in_words(dir, "no file can be made in", Errno::EXIST))
}

fn in_words(path: &Path, what: &str, error: Errno) -> io::Error {
    let remedy = match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            ": choose a directory that you may write to with --dir"
        }
        Errno::NOENT | Errno::NOTDIR => ": choose a directory that is there with --dir",
        _ => "",
    };
    path_error(path, what, error, remedy)
}

fn path_error(path: &Path, what: &str, error: Errno, remedy: &str) -> io::Error {
    let error = io::Error::from(error);
    let why = format!("{what} {}: {error}{remedy}", path.display());
    io::Error::new(error.kind(), why)
}

/// Bytes that an unprivileged process may still write in a directory, statvfs(3).
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let there = rustix::fs::statvfs(dir).map_err(|e| in_words(dir, "nothing is known of", e))?;
    Ok(there.f_bavail.saturating_mul(there.f_frsize))
}

/// `StorageFull` where the file system has less than `len` bytes and some to spare.
pub fn has_room(dir: &Path, len: u64) -> io::Result<()> {
    room(dir, free_bytes(dir)?, len)
}

fn room(dir: &Path, free: u64, len: u64) -> io::Result<()> {
    if free >= len.saturating_add(SPARE_BYTES) {
        return Ok(());
    }
    let (needed, spare, has) = (len.div_ceil(1 << 20), SPARE_BYTES >> 20, free >> 20);
    let why = format!(
        "no space: a file of {needed} MiB and {spare} MiB to spare are needed in {}, which has {has} MiB: choose another directory with --dir, or a smaller --ring or --size",
        dir.display()
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, why))
}

/// The access with which a file is opened: read only, and through the page cache, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// To be written as well.
    pub write: bool,
    /// Past the page cache.
    pub direct: bool,
}

/// Opens a file anew, so that flags and position are the caller's own; errors in words, also of a
/// file system that has no way past the page cache.
pub fn open(path: &Path, how: Opening) -> io::Result<OwnedFd> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    flags.set(OFlags::RDWR, how.write);
    flags.set(OFlags::DIRECT, how.direct);
    let file = regular_file::open(path, flags).map_err(|e| match Errno::from_io_error(&e) {
        None => io::Error::new(e.kind(), format!("{}: {e}", path.display())),
        Some(Errno::INVAL) if how.direct => no_direct("it refuses O_DIRECT"),
        Some(e) => path_error(
            path,
            "cannot open",
            e,
            match e {
                Errno::ACCESS | Errno::PERM => ": choose a file that you may read with --file",
                Errno::NOENT | Errno::NOTDIR => ": choose a file that is there with --file",
                _ => "",
            },
        ),
    })?;
    if how.direct && is_in_memory(&file) {
        return Err(no_direct("its files are the page cache itself"));
    }
    Ok(file)
}

fn no_direct(why: &str) -> io::Error {
    let why = format!(
        "this file system has no way past the page cache ({why}): choose a directory on a disk with --dir"
    );
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The file system that a path lies on: its name, or its number in hexadecimal, statfs(2).
pub fn file_system(path: &Path) -> io::Result<String> {
    let status = rustix::fs::statfs(path).map_err(|e| in_words(path, "nothing is known of", e))?;
    Ok(file_system::name_or_number(status.f_type as u32))
}

fn is_in_memory(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|s| file_system::is_in_memory(s.f_type as u32))
}

/// The alignment of lengths and offsets with O_DIRECT, found by trying on a file of at least a page; none
/// if no alignment works.
pub fn direct_bytes(path: &Path) -> Option<u64> {
    let (write, direct) = (false, true);
    let file = open(path, Opening { write, direct }).ok()?;
    let mut buffer = IoBuffers::new(1, 64 << 10).ok()?;
    let bytes = buffer.bytes_mut(0)?;
    [512, 1024, 2048, ALIGN_BYTES]
        .into_iter()
        .find_map(|align| {
            let read = rustix::io::pread(&file, &mut bytes[..align], align as u64);
            matches!(read, Ok(n) if n > 0).then_some(align as u64)
        })
}

/// The length of a file in bytes, fstat(2); `InvalidInput` for what is no regular file.
pub fn len(file: impl AsFd) -> io::Result<u64> {
    let there = rustix::fs::fstat(file)?;
    if rustix::fs::FileType::from_raw_mode(there.st_mode) != rustix::fs::FileType::RegularFile {
        let why = "this is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(there.st_size as u64)
}

/// A file that ends before a request does.
pub(crate) fn too_short() -> io::Error {
    let why = "the file ends before the request does: was it truncated meanwhile?";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

/// The number of buffers of a mover that writes: 4 MiB in all, at most 1024, but one for each request in
/// flight.
pub fn written_places(size: usize, depth: usize) -> usize {
    const BYTES: usize = 4 << 20;
    const MOST: usize = 1024;
    (BYTES / size.max(1)).clamp(1, MOST).max(depth)
}

fn written() -> PayloadPattern {
    PayloadPattern::new(u32::MAX - 1, 0)
}

/// Buffers with the content that movers write.
pub(crate) fn buffers_to_write(size: usize, count: usize) -> io::Result<IoBuffers> {
    let mut buffers = IoBuffers::new(count, size)?;
    let pattern = written();
    for index in 0..count {
        let bytes = buffers.bytes_mut(index).ok_or(io::ErrorKind::WouldBlock)?;
        pattern.fill((index * size) as u64, bytes);
    }
    Ok(buffers)
}

/// Checks the file that a mover wrote: the first blocks of its order, at most `blocks`, and the first
/// `most` bytes of each. Returns the number of compared bytes; `InvalidData` where one is wrong.
pub fn check_written(
    file: impl AsFd,
    mut order: BlockOrder,
    blocks: u64,
    size: usize,
    depth: usize,
    most: usize,
) -> io::Result<u64> {
    let mut bytes = vec![0; size.min(most)];
    let places = written_places(size, depth);
    let mut compared = 0;
    for _ in 0..blocks.min(order.blocks()) {
        let offset = order.next_offset();
        read_whole(&file, &mut bytes, offset)?;
        let place = offset / size as u64 % places as u64;
        if let Some(at) = written().mismatch(place * size as u64, &bytes) {
            let what = "what the file holds is not what was written";
            return Err(wrong(what, offset + at as u64));
        }
        compared += bytes.len() as u64;
    }
    Ok(compared)
}

fn wrong(what: &str, byte: u64) -> io::Error {
    let why = format!("{what}: byte {byte} of it is wrong");
    WrongBytes(why).into()
}

fn read_whole(file: impl AsFd, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut got = 0;
    while got < bytes.len() {
        let at = offset + got as u64;
        match retry_on_intr(|| rustix::io::pread(&file, &mut bytes[got..], at))? {
            0 => return Err(too_short()),
            n => got += n,
        }
    }
    Ok(())
}

pub(crate) fn write_all(file: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        match retry_on_intr(|| rustix::io::pwrite(&file, &bytes[done..], at))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
