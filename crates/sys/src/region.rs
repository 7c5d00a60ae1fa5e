//! Memory whose address is given to the kernel: an anonymous mapping of whole pages.

use std::io;
use std::mem::MaybeUninit;

use rustix::mm::{MapFlags, ProtFlags};

use crate::mapping::Mapping;

/// Zeroed, populated memory that is unmapped when it is dropped, even while the kernel still reads it
/// (MSG_ZEROCOPY, vmsplice, io_uring): the kernel holds references to the pages.
///
/// ```
/// use bytecost_sys::region::Region;
/// let mut region = Region::new(4096)?;
/// region.bytes_mut().fill(7);
/// assert_eq!(region.bytes()[4095], 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Region(Mapping);

impl Region {
    /// Maps `len` bytes of zeroed memory and populates every page; `InvalidInput` for no bytes, mmap(2).
    pub fn new(len: usize) -> io::Result<Region> {
        if len == 0 {
            let why = "a region needs at least one byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        Ok(Region(Mapping::anonymous(len, protection, flags)?))
    }

    /// The address, for memory that the kernel writes to while no reference to it exists.
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.start()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable bytes and lives as long as `self`; it is written
        // through `&mut self` only. For memory that the kernel writes to, this is not called.
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.len()) }
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes this the only slice.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.len()) }
    }
}

/// Advises the kernel to use huge pages for memory that was not touched yet, madvise(2) MADV_HUGEPAGE.
/// It may ignore that.
pub fn advise_huge_pages<T>(room: &mut [MaybeUninit<T>]) {
    let page = rustix::param::page_size();
    let start = room.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(page);
    let len = size_of_val(room).saturating_sub(skipped) / page * page;
    if len == 0 {
        return;
    }
    // SAFETY: whole pages of the caller's own memory, and the advice leaves their content alone.
    let _ = unsafe {
        let pages = start.add(skipped).cast();
        rustix::mm::madvise(pages, len, rustix::mm::Advice::LinuxHugepage)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zeroed_writable_memory() {
        let mut region = Region::new(10_000).unwrap();
        assert!(region.bytes().iter().all(|b| *b == 0));
        region.bytes_mut()[9_999] = 7;
        assert_eq!(region.bytes()[9_999], 7);
        assert_eq!(region.bytes().len(), 10_000);
        assert!(Region::new(0).is_err());
    }

    #[test]
    fn memory_with_advice_for_huge_pages_can_be_used() {
        for len in [0, 1, 5000, 3 << 20] {
            let mut memory: Vec<u8> = Vec::with_capacity(len);
            advise_huge_pages(memory.spare_capacity_mut());
            memory.resize(len, 7);
            assert!(memory.iter().all(|b| *b == 7));
        }
    }
}
