//! MappedWords in memory that someone else writes: a BPF map, or a file.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::ProtFlags;

use crate::mapping::Mapping;

/// A shared mapping of 64-bit words, to be read while others write them. Of a BPF map
/// (BPF_F_MMAPABLE) it keeps the map alive.
///
/// Reading where a file has become shorter meanwhile ends the process with SIGBUS, mmap(2); maps
/// do not change their length.
#[derive(Debug)]
pub struct MappedWords {
    map: Mapping,
    count: usize,
}

impl MappedWords {
    /// Maps the first `count` words.
    ///
    /// # Errors
    /// `InvalidInput` for no words or more than an address space holds; what mmap(2) answers,
    /// which for a map that is shorter is EINVAL.
    pub fn new(of: impl AsFd, count: usize) -> io::Result<MappedWords> {
        let bytes = count
            .checked_mul(size_of::<u64>())
            .filter(|n| *n > 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let map = Mapping::shared(of, 0, bytes, ProtFlags::READ)?;
        Ok(MappedWords { map, count })
    }

    /// The word at a place; 0 outside of the mapping.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        if at >= self.count {
            return 0;
        }
        // SAFETY: `at` is within the mapping, which is aligned to a page and lives as long as
        // `self`; whoever writes there does so in whole words, and reading is atomic.
        let word = unsafe { &*self.map.start().cast::<AtomicU64>().add(at) };
        word.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn what_is_written_later_is_read() {
        let file = memfd_create("words", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let words = MappedWords::new(&file, 512).unwrap();
        assert_eq!(words.get(3), 0);
        rustix::io::pwrite(&file, &7_u64.to_ne_bytes(), 24).unwrap();
        assert_eq!([words.get(2), words.get(3)], [0, 7]);
        assert_eq!(words.get(512), 0, "nothing is read outside");
        assert_eq!(words.get(usize::MAX), 0);
    }

    #[test]
    fn no_words_and_too_many_are_refused() {
        let file = memfd_create("words", MemfdFlags::CLOEXEC).unwrap();
        for count in [0, usize::MAX, usize::MAX / 8] {
            assert!(MappedWords::new(&file, count).is_err(), "{count}");
        }
    }
}
