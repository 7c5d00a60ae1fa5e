//! A mapping of whole pages, which is gone when it is dropped.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Says nothing about who may read or write it: whoever makes a reference into it says why it is
/// sound.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is one owner's, whose threads all see it; it is only given back by the drop.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(crate) fn of_zeroes(len: usize, may: ProtFlags, flags: MapFlags) -> io::Result<Mapping> {
        // SAFETY: the address is the kernel's choice, so the new mapping overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, may, flags)? };
        Mapping::new(start.cast(), len)
    }

    /// From `offset` on, shared with all others.
    pub(crate) fn shared(
        of: impl AsFd,
        offset: u64,
        len: usize,
        may: ProtFlags,
    ) -> io::Result<Mapping> {
        // SAFETY: the address is the kernel's choice, so the new mapping overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, may, MapFlags::SHARED, of, offset)? };
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
        // SAFETY: the mapping is ours, and whoever made references into it owned it until now.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
