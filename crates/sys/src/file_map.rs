//! A file in memory: mapped, touched, and asked how much of it is in the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::ProtFlags;
use rustix::param::page_size;

use crate::mapping::Mapping;
use crate::syscall::checked;

const CHUNK_BYTES: u64 = 256 << 20;

/// A shared mapping of a file's piece, or of a BPF map (BPF_F_MMAPABLE). Reading past the end of a
/// file that has become shorter ends the process with SIGBUS, mmap(2).
#[derive(Debug)]
pub struct FileMap(Mapping);

impl FileMap {
    /// Maps `len` bytes from `offset`, a multiple of the page's size, and brings nothing in.
    /// `InvalidInput` for no bytes, and for more than a BPF map has, mmap(2).
    pub fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<FileMap> {
        let map = Mapping::shared(file, offset, len, ProtFlags::READ)?;
        Ok(FileMap(map))
    }

    /// The sum of the first byte of each page of a range and the last of it, within the mapping.
    #[inline]
    pub fn touch(&self, from: usize, len: usize) -> u64 {
        let to = from.saturating_add(len).min(self.0.len());
        let step = page_size();
        let mut sum = 0;
        let mut at = from;
        while at < to {
            sum += u64::from(self.byte(at));
            at += step;
        }
        if from < to {
            sum + u64::from(self.byte(to - 1))
        } else {
            sum
        }
    }

    /// Copies from `from` on, as much as there is and fits: how many bytes.
    pub fn copy(&self, from: usize, into: &mut [u8]) -> usize {
        let len = into.len().min(self.0.len().saturating_sub(from));
        for (at, byte) in into.iter_mut().enumerate().take(len) {
            *byte = self.byte(from + at);
        }
        len
    }

    /// send(2) of at most `len` mapped bytes from `from` on: how many went, 0 where nothing is
    /// mapped; EFAULT where the file has become shorter than its mapping.
    pub fn send(&self, socket: impl AsFd, from: usize, len: usize) -> io::Result<usize> {
        let len = len.min(self.0.len().saturating_sub(from));
        if len == 0 {
            return Ok(0);
        }
        let (socket, flags) = (socket.as_fd().as_raw_fd(), libc::MSG_NOSIGNAL);
        let at = self.0.start().wrapping_add(from);
        // SAFETY: the range lies within the mapping, which lives as long as `self`. The kernel
        // only reads it, and answers EFAULT where no page is behind it; no reference is made.
        let sent = unsafe { libc::syscall(libc::SYS_sendto, socket, at, len, flags, 0, 0) };
        checked(sent)
    }

    /// The 64-bit word `at`, counted in words; 0 outside of the mapping.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        if at >= self.0.len() / size_of::<u64>() {
            return 0;
        }
        // SAFETY: the word is within the mapping, which is aligned to a page and lives as long as
        // `self`; whoever writes there does so in whole words, and reading is atomic.
        let word = unsafe { &*self.0.start().cast::<AtomicU64>().add(at) };
        word.load(Ordering::Acquire)
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        debug_assert!(at < self.0.len());
        // SAFETY: all callers stay below `len`, the mapping lives as long as `self`, and others
        // may write to the file, so the read is volatile and no reference is made.
        unsafe { self.0.start().add(at).read_volatile() }
    }
}

/// How many pages of a file's piece are in the page cache, and of how many: mincore(2). To all but
/// the file's owner and those who may write it every page looks present. `offset` is of whole
/// pages.
pub fn resident_pages(file: impl AsFd, offset: u64, len: u64) -> io::Result<(u64, u64)> {
    let file = file.as_fd();
    let (mut resident, mut all) = (0, 0);
    let mut at = 0;
    while at < len {
        let piece = CHUNK_BYTES.min(len - at) as usize;
        let map = FileMap::new(file, offset + at, piece)?;
        let mut pages = vec![0_u8; piece.div_ceil(page_size())];
        let start = map.0.start().cast();
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        checked(unsafe { libc::mincore(start, piece, pages.as_mut_ptr()) })?;
        resident += pages.iter().filter(|p| **p & 1 == 1).count() as u64;
        all += pages.len() as u64;
        at += piece as u64;
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
            "what is written later, and nothing outside"
        );
    }
}
