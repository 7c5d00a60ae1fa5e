//! An io_uring with buffers that the kernel chooses from for what comes in:
//! io_uring_register_buf_ring(3), Linux 5.19.

use std::io;
use std::mem::size_of;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::region::Region;
use crate::ring;

/// How long the kernel may take to give memory back at the end.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How often it is tried to make room for a request.
const ATTEMPTS: u32 = 8;
/// The tag of the request that ends all others.
const CANCEL: u64 = u64::MAX;

/// Bytes that came, in one of the ring's buffers. It is to be given back to the ring, or
/// that has one buffer less.
#[derive(Debug)]
pub struct Piece {
    /// Where the pool is that the buffer belongs to.
    pool: u64,
    buffer: u16,
    length: usize,
}

/// A ring, its buffers, and how many of its requests use memory of its owner.
pub(crate) struct BufferRing {
    // Dropped first, so that no request outlives the memory that it uses.
    pub(crate) ring: IoUring,
    pool: Option<Pool>,
    /// Requests that use memory, the buffers' or the owner's.
    pub(crate) outstanding: usize,
}

impl BufferRing {
    /// The one group of buffers.
    pub(crate) const GROUP: u16 = 0;

    /// A ring for `entries` requests at a time and so many completions, with `buffers` (a power
    /// of two) of `bytes_each`. It is to be used by the thread that made it.
    pub(crate) fn new(
        entries: u32,
        completions: u32,
        buffers: u16,
        bytes_each: usize,
    ) -> io::Result<BufferRing> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(completions)
            .build(entries)?;
        let mut pool = Pool::new(buffers, bytes_each)?;
        let (address, group) = (pool.address(), BufferRing::GROUP);
        // SAFETY: the array has this many entries, and lives until after the ring.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(address, buffers, group, 0)?;
        }
        (0..buffers).for_each(|buffer| pool.provide(buffer));
        Ok(BufferRing {
            ring,
            pool: Some(pool),
            outstanding: 0,
        })
    }

    /// Queues a request, and hands others over where there is no room for it.
    ///
    /// # Safety
    /// What memory the request uses stays, and is not written to by others, until its completion
    /// was taken or the ring is gone.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            // SAFETY: the caller promises it.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Hands over what is queued.
    pub(crate) fn submit(&self) -> io::Result<()> {
        passing(self.ring.submit())
    }

    /// Hands over what is queued, and waits until something has come or `time` is over, where
    /// there is one.
    pub(crate) fn wait(&self, time: Option<Duration>) -> io::Result<()> {
        let Some(time) = time.map(Timespec::from) else {
            return passing(self.ring.submit_and_wait(1));
        };
        let args = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &args) {
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => Ok(()),
            result => passing(result),
        }
    }

    /// The next completion that is there already.
    pub(crate) fn next(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// The buffer of a completion with these flags, with so many bytes in it; none, and given
    /// back at once, where it is empty: it stands for the end.
    pub(crate) fn piece(&mut self, flags: u32, length: usize) -> Option<Piece> {
        let buffer = cqueue::buffer_select(flags)?;
        let piece = Piece {
            pool: self.pool.as_ref().map_or(0, Pool::address),
            buffer,
            length,
        };
        if length > 0 {
            return Some(piece);
        }
        self.give_back(piece);
        None
    }

    /// The bytes of a piece.
    pub(crate) fn bytes(&self, piece: &Piece) -> &[u8] {
        self.pool.as_ref().map_or(&[], |pool| pool.bytes(piece))
    }

    /// Gives a piece's buffer back to the kernel.
    pub(crate) fn give_back(&mut self, piece: Piece) {
        if let Some(pool) = self.pool.as_mut().filter(|p| p.address() == piece.pool) {
            pool.provide(piece.buffer);
        }
    }

    /// Has every request end; false where that cannot be asked for.
    pub(crate) fn cancel_all(&mut self) -> bool {
        let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: the request uses no memory.
        unsafe { self.push(&all.user_data(CANCEL)) }.is_ok()
    }

    /// Waits for completions while requests use memory; false where none does any more, or the
    /// kernel takes too long.
    pub(crate) fn wait_at_the_end(&self) -> bool {
        self.outstanding > 0 && matches!(ring::enter(&self.ring, 1, LAST_WAIT), Ok(Some(_)))
    }

    /// Leaves the buffers to the kernel where it still uses memory, and says whether it does:
    /// then the owner leaves it its own as well.
    pub(crate) fn leave_what_is_used(&mut self) -> bool {
        let is_used = self.outstanding > 0;
        if is_used {
            std::mem::forget(self.pool.take());
        }
        is_used
    }
}

/// What of errors does not pass by itself.
pub(crate) fn passing(entered: io::Result<usize>) -> io::Result<()> {
    entered.map(drop).or_else(|e| match e.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
        _ => Err(e),
    })
}

/// What a request came to.
pub(crate) fn answer(entry: &cqueue::Entry) -> io::Result<usize> {
    let result = entry.result();
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// The most buffers that the kernel takes in one ring.
const MOST_BUFFERS: u16 = 1 << 15;

/// The buffers that the kernel chooses from: an array of descriptions that both sides know, and
/// the memory that they describe.
struct Pool {
    entries: Region,
    memory: Region,
    count: u16,
    bytes_each: usize,
    tail: u16,
}

impl Pool {
    fn new(count: u16, bytes_each: usize) -> io::Result<Pool> {
        let wrong = io::ErrorKind::InvalidInput;
        if !count.is_power_of_two() || count > MOST_BUFFERS || u32::try_from(bytes_each).is_err() {
            return Err(wrong.into());
        }
        let all = bytes_each.checked_mul(usize::from(count)).ok_or(wrong)?;
        Ok(Pool {
            entries: Region::new(usize::from(count) * size_of::<BufRingEntry>())?,
            memory: Region::new(all)?,
            count,
            bytes_each,
            tail: 0,
        })
    }

    /// Where the array is, for the kernel. No other pool that there is has the same.
    fn address(&self) -> u64 {
        self.entries.start() as u64
    }

    /// The memory of a buffer that is not the kernel's; nothing for a number that is none.
    fn bytes(&self, piece: &Piece) -> &[u8] {
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

    /// Hands a buffer to the kernel; a number that is none is passed over.
    fn provide(&mut self, buffer: u16) {
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
