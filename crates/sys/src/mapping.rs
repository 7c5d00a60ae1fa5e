//! A mapping of whole pages that is unmapped when it is dropped, mmap(2).

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// The owner of a mapping. It gives the address alone: code that makes a reference from it argues why
/// that is sound.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping has one owner, all threads of the process see it, and only the drop unmaps it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps zeroed memory.
    pub(crate) fn anonymous(
        len: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Mapping> {
        // SAFETY: the address is the kernel's choice, so the new mapping overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags)? };
        Mapping::new(start.cast(), len)
    }

    /// Maps a file, or another descriptor that can be mapped, from `offset` on (MAP_SHARED).
    pub(crate) fn shared(
        file: impl AsFd,
        offset: u64,
        len: usize,
        protection: ProtFlags,
    ) -> io::Result<Mapping> {
        // SAFETY: the address is the kernel's choice, so the new mapping overlaps nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                file,
                offset,
            )?
        };
        Mapping::new(start.cast(), len)
    }

    fn new(start: *mut u8, len: usize) -> io::Result<Mapping> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }

    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned here, and all references into it borrowed from its owner.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
