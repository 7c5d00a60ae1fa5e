//! Files mapped into memory, and the share of a file that is in the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::ProtFlags;
use rustix::param::page_size;

use crate::mapping::Mapping;
use crate::syscall::checked;

/// Bytes that [`resident_pages`] maps at a time.
const CHUNK_BYTES: u64 = 256 << 20;

/// A shared, read-only mapping of a range of a file, or of a BPF map (BPF_F_MMAPABLE). If the file has
/// become shorter, reading past its end kills the process (SIGBUS, mmap(2)).
#[derive(Debug)]
pub struct FileMap(Mapping);

impl FileMap {
    /// Maps `len` bytes from `offset`, a multiple of the page size, without reading them.
    /// `InvalidInput` for no bytes, and for more than a BPF map has, mmap(2).
    pub fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<FileMap> {
        let map = Mapping::shared(file, offset, len, ProtFlags::READ)?;
        Ok(FileMap(map))
    }

    /// Reads the first byte of each page of a range, and the last byte of the range. Bytes outside of the
    /// mapping are left out. Returns the sum of these bytes.
    #[inline]
    pub fn touch(&self, from: usize, len: usize) -> u64 {
        let to = from.saturating_add(len).min(self.0.len());
        let step = page_size();
        let mut sum = 0;
        let mut offset = from;
        while offset < to {
            sum += u64::from(self.byte(offset));
            offset += step;
        }
        if from < to {
            sum + u64::from(self.byte(to - 1))
        } else {
            sum
        }
    }

    /// Copies bytes from the offset `from` up to the end of the mapping or of `into`. Returns their number.
    pub fn copy(&self, from: usize, into: &mut [u8]) -> usize {
        let len = into.len().min(self.0.len().saturating_sub(from));
        for (i, byte) in into.iter_mut().enumerate().take(len) {
            *byte = self.byte(from + i);
        }
        len
    }

    /// Sends at most `len` mapped bytes from the offset `from`, send(2). Returns the number of sent bytes; 0
    /// outside of the mapping. EFAULT if the file has become shorter than its mapping.
    pub fn send(&self, socket: impl AsFd, from: usize, len: usize) -> io::Result<usize> {
        let len = len.min(self.0.len().saturating_sub(from));
        if len == 0 {
            return Ok(0);
        }
        let (socket, flags) = (socket.as_fd().as_raw_fd(), libc::MSG_NOSIGNAL);
        let start = self.0.start().wrapping_add(from);
        // SAFETY: the range lies within the mapping, which lives as long as `self`. The kernel
        // only reads it, and returns EFAULT where no page is behind it; no reference is made.
        let sent = unsafe { libc::syscall(libc::SYS_sendto, socket, start, len, flags, 0, 0) };
        checked(sent)
    }

    /// The 64-bit word at an index, counted in words; 0 outside of the mapping.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        if index >= self.0.len() / size_of::<u64>() {
            return 0;
        }
        // SAFETY: the word is within the mapping, which is aligned to a page and lives as long as
        // `self`; writers there store whole words, and reading is atomic.
        let word = unsafe { &*self.0.start().cast::<AtomicU64>().add(index) };
        word.load(Ordering::Acquire)
    }

    #[inline]
    fn byte(&self, offset: usize) -> u8 {
        debug_assert!(offset < self.0.len());
        // SAFETY: all callers stay below `len`, the mapping lives as long as `self`, and others
        // may write to the file, so the read is volatile and no reference is made.
        unsafe { self.0.start().add(offset).read_volatile() }
    }
}

/// The number of pages of a file's range that are in the page cache, and the number of all pages of the
/// range, mincore(2). The kernel reports every page as present to users who neither own the file nor may
/// write to it. `offset` is a multiple of the page size.
pub fn resident_pages(file: impl AsFd, offset: u64, len: u64) -> io::Result<(u64, u64)> {
    let file = file.as_fd();
    let (mut resident, mut all) = (0, 0);
    let mut done = 0;
    while done < len {
        let chunk = CHUNK_BYTES.min(len - done) as usize;
        let map = FileMap::new(file, offset + done, chunk)?;
        let mut pages = vec![0_u8; chunk.div_ceil(page_size())];
        let start = map.0.start().cast();
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        checked(unsafe { libc::mincore(start, chunk, pages.as_mut_ptr()) })?;
        resident += pages.iter().filter(|p| **p & 1 == 1).count() as u64;
        all += pages.len() as u64;
        done += chunk as u64;
    }
    Ok((resident, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;

    #[test]
    fn a_map_shows_the_file_and_its_pages_are_resident_once_written() {
        let file = rustix::fs::memfd_create("map", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 5 * 4096).unwrap();
        assert_eq!(resident_pages(&file, 0, 5 * 4096).unwrap(), (0, 5));
        rustix::io::pwrite(&file, &[7; 4097], 0).unwrap();
        assert_eq!(resident_pages(&file, 0, 5 * 4096).unwrap(), (2, 5));
        let map = FileMap::new(&file, 0, 5 * 4096).unwrap();
        assert_eq!(map.touch(0, 4096), 14);
        assert_eq!(map.touch(0, 4097), 21);
        assert_eq!(map.touch(5 * 4096, 10), 0);
        let mut copy = [0; 3];
        assert_eq!(map.copy(4095, &mut copy), 3);
        assert_eq!(copy, [7, 7, 0]);
        assert!(FileMap::new(&file, 0, 0).is_err());
        rustix::io::pwrite(&file, &7_u64.to_ne_bytes(), 24).unwrap();
        let last = 5 * 4096 / 8 - 1;
        let words = [3, last, last + 1, usize::MAX].map(|at| map.word(at));
        assert_eq!(
            words,
            [7, 0, 0, 0],
            "later writes are visible, and words outside are 0"
        );
    }
}
