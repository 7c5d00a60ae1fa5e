//! The buffers of a ring, which the kernel chooses from: io_uring_register_buf_ring(3).

use std::io;
use std::mem::size_of;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::Piece;
use crate::region::Region;

/// The most buffers that the kernel takes in one ring.
const MOST_BUFFERS: u16 = 1 << 15;

/// The buffers that the kernel chooses from: an array of descriptions that both sides know, and
/// the memory that they describe.
pub(crate) struct Pool {
    entries: Region,
    memory: Region,
    count: u16,
    bytes_each: usize,
    tail: u16,
}

impl Pool {
    pub(crate) fn new(count: u16, bytes_each: usize) -> io::Result<Pool> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        if !count.is_power_of_two() || count > MOST_BUFFERS || u32::try_from(bytes_each).is_err() {
            return Err(wrong());
        }
        let all = bytes_each
            .checked_mul(usize::from(count))
            .ok_or_else(wrong)?;
        Ok(Pool {
            entries: Region::new(usize::from(count) * size_of::<BufRingEntry>())?,
            memory: Region::new(all)?,
            count,
            bytes_each,
            tail: 0,
        })
    }

    /// Where the array is, for the kernel. No other pool that there is has the same.
    pub(crate) fn address(&self) -> u64 {
        self.entries.start() as u64
    }

    /// The memory of a buffer that is not the kernel's; nothing for a number that is none.
    pub(crate) fn bytes(&self, piece: &Piece) -> &[u8] {
        if piece.buffer >= self.count || piece.pool != self.address() {
            return &[];
        }
        let start = usize::from(piece.buffer) * self.bytes_each;
        let length = piece.length.min(self.bytes_each);
        // SAFETY: the buffer lies within the mapping, and all bytes are valid numbers. A piece is
        // made from a completion of this very pool's ring, and is used up when its buffer is
        // given back, so the kernel does not write to the buffer while the piece is there.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(start), length) }
    }

    /// Takes a piece's buffer back and hands it to the kernel again.
    pub(crate) fn take_back(&mut self, piece: Piece) {
        if piece.pool == self.address() {
            self.provide(piece.buffer);
        }
    }

    /// Hands a buffer to the kernel; a number that is none is passed over.
    pub(crate) fn provide(&mut self, buffer: u16) {
        if buffer >= self.count {
            return;
        }
        let start = usize::from(buffer) * self.bytes_each;
        let address = self.memory.start() as u64 + start as u64;
        let place = usize::from(self.tail & (self.count - 1));
        let base = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: the place is within the array, which is page-aligned memory, all bytes of which
        // are valid numbers; the kernel, which only reads, looks at it once the tail has passed.
        let entry = unsafe { &mut *base.add(place) };
        entry.set_addr(address);
        entry.set_len(self.bytes_each as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: base is the first entry of the array, and its tail is aligned and within it;
        // the kernel only reads it, and we only write it through an atomic.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}
