//! The target file of a mover that copies: empty before, and equal to the source after.

use std::io;
use std::os::fd::AsFd;

use bytecost_sys::io_buffers::IoBuffers;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{CHUNK_BYTES, TestFile, read_whole, write_all};
use crate::block_order::BlockOrder;

impl TestFile {
    /// Makes it at least so long, fallocate(2), and leaves what is there; `StorageFull` without
    /// room.
    pub fn reserve(&mut self, len: u64) -> io::Result<()> {
        if !self.may_grow(len)? {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(&self.file, len)?,
            answer => answer?,
        }
        self.len = len;
        Ok(())
    }
}

/// Writes zeroes over a piece of a file, pwrite(2), so that nothing is left of an earlier copy and
/// all its blocks are there.
pub fn blank(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let file = file.as_fd();
    let buffers = IoBuffers::new(1, CHUNK_BYTES)?;
    let zeroes = buffers.bytes(0).ok_or(io::ErrorKind::WouldBlock)?;
    let mut at = 0;
    while at < len {
        let piece = CHUNK_BYTES.min((len - at) as usize);
        write_all(file, &zeroes[..piece], offset + at)?;
        at += piece as u64;
    }
    Ok(())
}

/// Compares a copy with its source: the first blocks of the order, at most `blocks` of `size` bytes,
/// and the first `most` bytes of each `piece`. Returns the number of compared bytes; `InvalidData` for
/// a wrong one.
pub fn check_copied(
    source: impl AsFd,
    copy: impl AsFd,
    mut order: BlockOrder,
    blocks: u64,
    (size, piece): (usize, usize),
    most: usize,
) -> io::Result<u64> {
    let step = piece.clamp(1, size.max(1));
    let mut expected = vec![0; step.min(most)];
    let mut found = expected.clone();
    let mut compared = 0;
    for _ in 0..blocks.min(order.blocks()) {
        let start = order.next_offset();
        for at in (0..size).step_by(step) {
            let offset = start + at as u64;
            let len = expected.len().min(size - at);
            read_whole(&source, &mut expected[..len], offset)?;
            read_whole(&copy, &mut found[..len], offset)?;
            if let Some(wrong) = (0..len).find(|i| expected[*i] != found[*i]) {
                let what = "the copy is not what the file holds";
                return Err(super::wrong(what, offset + wrong as u64));
            }
            compared += len as u64;
        }
    }
    Ok(compared)
}
