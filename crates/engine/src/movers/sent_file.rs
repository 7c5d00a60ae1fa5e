//! What the movers share that send a file.

use std::io;

use bytecost_spec::Access;
use rustix::io::Errno;

use crate::payload::{Layout, Source};
use crate::setup::{FileWork, Setup};
use crate::walk::Walk;

/// Bytes of one call where nothing else is said.
const BLOCK_BYTES: usize = 64 << 10;

/// The file that is sent: the one that was given, else a memory file that holds one round of the
/// ring.
pub(super) fn take(setup: &mut Setup) -> io::Result<FileWork> {
    setup.write_once()?;
    if let Some(work) = setup.file.take() {
        return Ok(work);
    }
    let (_, region) = Source::new(setup, Layout::contiguous(setup))?;
    let file = rustix::fs::memfd_create("bytecost-payload", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    while written < region.len() {
        written += rustix::io::pwrite(&file, &region.bytes()[written..], written as u64)?;
    }
    let (slots, size) = (setup.slots as u64, setup.size as u64);
    Ok(FileWork {
        file,
        walk: Walk::new(Access::Sequential, 0, slots, size, 0),
        depth: 1,
        block: BLOCK_BYTES,
        target: None,
    })
}

/// What splice(2) and sendfile(2) answer, in words where it is the file system's.
pub(super) fn spliced(error: Errno) -> io::Error {
    match error {
        Errno::INVAL | Errno::NOSYS => io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "this file cannot be spliced to a socket ({error}): its file system has no splice; choose another directory with --dir, or read-write"
            ),
        ),
        e => e.into(),
    }
}
