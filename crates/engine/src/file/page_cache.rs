//! The page cache of a file: brings its pages in, or drops them, and verifies either.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use bytecost_sys::file_map::resident_pages;
use bytecost_sys::io_buffers::ALIGN_BYTES;
use rustix::fs::{Advice, fadvise};

use super::{CHUNK_BYTES, read_whole};

/// The share of pages that may stay though they were dropped: the kernel keeps a few in use.
const RESIDENT_MOST: f64 = 0.01;
/// The share of a file's pages that must be in the page cache for it to be warm.
const RESIDENT_LEAST: f64 = 0.99;
/// No folio, the unit in which the page cache keeps a file, is larger, in bytes; and each begins
/// on a multiple of its size.
pub const FOLIO_MOST: u64 = 2 << 20;

/// Brings a piece of a file into the page cache: `UnexpectedEof` where the file ends before,
/// `OutOfMemory` where the cache does not keep it.
pub fn warm(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    const TRIES: usize = 3;
    let file = file.as_fd();
    let enough = || -> io::Result<bool> {
        let (resident, pages) = resident_pages(file, whole(offset), len)?;
        Ok(resident as f64 >= RESIDENT_LEAST * pages as f64)
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    // The kernel may take pages back while others are read, as DAMON does.
    for _ in 0..TRIES {
        if enough()? {
            return Ok(());
        }
        let mut at = 0;
        while at < len {
            let most = CHUNK_BYTES.min((len - at) as usize);
            read_whole(file, &mut chunk[..most], offset + at)?;
            at += most as u64;
        }
    }
    if enough()? {
        return Ok(());
    }
    let why = "the page cache does not keep the file: choose a smaller --ring";
    Err(io::Error::new(io::ErrorKind::OutOfMemory, why))
}

/// Drops a piece of a file from the page cache, posix_fadvise(2), with what shares a folio with it,
/// and makes sure that it is gone, mincore(2): `Unsupported` where pages stay.
pub fn cool(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    // Another flow that writes to the same folio makes it dirty again, so that one try may not do.
    const TRIES: usize = 40;
    let file = file.as_fd();
    // A folio is dropped whole or not at all.
    let from = offset / FOLIO_MOST * FOLIO_MOST;
    let to = (offset + len).next_multiple_of(FOLIO_MOST);
    let mut share = 1.0;
    for attempt in 0..TRIES {
        // Dirty pages are not dropped. A file that is only read has none of ours, and to write none
        // may take seconds: fdatasync(2) waits for the disk's cache, and for other files' writes.
        if attempt > 0 {
            let _ = rustix::fs::fdatasync(file);
        }
        fadvise(file, from, NonZeroU64::new(to - from), Advice::DontNeed)?;
        let (resident, pages) = resident_pages(file, whole(offset), len)?;
        share = resident as f64 / pages.max(1) as f64;
        if share <= RESIDENT_MOST {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{:.0} % of the file stay in the page cache, so it is not cold: choose a directory on a disk with --dir, and a file of your own that nobody else uses",
            share * 100.0
        ),
    ))
}

fn whole(offset: u64) -> u64 {
    offset / ALIGN_BYTES as u64 * ALIGN_BYTES as u64
}
