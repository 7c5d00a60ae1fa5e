//! io_uring of many connections: one request takes all connections of a listener, one a connection
//! takes all that comes on it, and that lies in buffers that all share: the kernel chooses one.
//!
//! Multishot accept and a ring of provided buffers need Linux 5.19, multishot receive 6.0;
//! io_uring_prep_multishot_accept(3), io_uring_register_buf_ring(3), io_uring_prep_recv(3).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::region::Region;
use crate::ring::RequestRing;

/// How long the kernel may take to give memory back at the end.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How often it is tried to make room for a request.
const ATTEMPTS: u32 = 8;
const GROUP: u16 = 0;
/// IORING_RECVSEND_POLL_FIRST: nothing has come yet.
const POLL_FIRST: u16 = 1;

/// What a request was: the highest byte of its tag. Below it is its token, of [`SEND`] its slot.
const ACCEPT: u64 = 1 << 56;
pub(crate) const CONNECT: u64 = 2 << 56;
pub(crate) const RECEIVE: u64 = 3 << 56;
pub(crate) const SEND: u64 = 4 << 56;
const WATCH: u64 = 5 << 56;
const CANCEL: u64 = 6 << 56;
const TOKENS: u64 = ACCEPT - 1;

pub(crate) type NamedSocket = (Fd, squeue::Flags);

/// What the ring tells.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// A connection, or why it could not be taken; more come if the flag says so, else
    /// [`UringConnections::accept`] is to be called again.
    Accepted(io::Result<OwnedFd>, bool),
    /// The connection of this token is made, or why it cannot be.
    Connected(u64, io::Result<()>),
    /// What came on the connection of this token: bytes, or none at the end of the stream; unless
    /// more will be taken, it is to be received from again.
    Received(u64, io::Result<Option<Piece>>, bool),
    /// Of the connection of this token: bytes sent, or why none; and the memory, back again.
    Sent(u64, io::Result<usize>, Vec<u8>),
    /// The descriptor of this token, which was watched, is ready.
    Ready(u64),
}

/// Bytes that came, in one of the ring's buffers, which is to be given back.
#[derive(Debug)]
pub struct Piece {
    /// The number of its pool.
    pool: u64,
    buffer: u16,
    length: usize,
}

/// The ring. Tokens are the caller's numbers, below 2⁵⁶. Calls fail as io_uring_enter(2) does.
///
/// A request that is queued names its descriptor by number until [`UringConnections::wait`] hands it
/// over, and the kernel holds the file from then on. A descriptor that is closed between the two makes
/// the request fail, or take the file that has the number by then: no memory is ever of another.
pub struct UringConnections {
    // Dropped first, so that no request outlives the memory that it uses.
    pub(crate) requests: RequestRing,
    pool: Option<Pool>,
    /// What is being sent, with its token, by the number of the slot.
    sending: Vec<Option<(u64, Vec<u8>)>>,
    free: Vec<u64>,
}

impl UringConnections {
    /// For `entries` requests and so many completions at a time, with `buffers` (a power of two) of
    /// `bytes_each` for what comes in. Used by the thread that made it.
    ///
    /// # Errors
    /// `InvalidInput` for numbers that the kernel, or an older one, does not take; EPERM or ENOSYS
    /// where io_uring is forbidden or missing.
    pub fn new(
        entries: u32,
        completions: u32,
        buffers: u16,
        bytes_each: usize,
    ) -> io::Result<UringConnections> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(completions)
            .build(entries)?;
        let mut pool = Pool::new(buffers, bytes_each)?;
        let (submitter, address) = (ring.submitter(), pool.address());
        // SAFETY: the array has this many entries, and lives until after the ring.
        unsafe { submitter.register_buf_ring_with_flags(address, buffers, GROUP, 0)? };
        (0..buffers).for_each(|buffer| pool.provide(buffer));
        Ok(UringConnections {
            requests: RequestRing::of(ring),
            pool: Some(pool),
            sending: Vec::new(),
            free: Vec::new(),
        })
    }

    /// Takes connections from a listener that blocks, one after the other, without end.
    pub fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()));
        let entry = entry.flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the request uses no memory.
        unsafe { self.push(entry, ACCEPT) }
    }

    /// Ends [`UringConnections::accept`]; connections taken already still come.
    pub fn stop_accepting(&mut self) -> io::Result<()> {
        self.cancel(CancelBuilder::user_data(ACCEPT))
    }

    /// Takes in what comes on a socket that blocks, piece by piece, without end.
    pub fn receive(&mut self, token: u64, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.receive_from(token, by_descriptor(socket), true)
    }

    pub(crate) fn receive_from(
        &mut self,
        token: u64,
        (fd, flags): NamedSocket,
        goes_on: bool,
    ) -> io::Result<()> {
        let entry = match goes_on {
            true => opcode::RecvMulti::new(fd, GROUP).build(),
            false => opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .ioprio(POLL_FIRST)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
        };
        // SAFETY: the request uses the pool, which lives until after the ring.
        unsafe { self.push(entry.flags(flags), RECEIVE | token) }
    }

    /// Ends [`UringConnections::receive`] of that token.
    pub fn pause(&mut self, token: u64) -> io::Result<()> {
        self.cancel(CancelBuilder::user_data(RECEIVE | token))
    }

    /// Sends all of `bytes`, which the ring keeps until it is done.
    pub fn send(&mut self, token: u64, socket: BorrowedFd<'_>, bytes: Vec<u8>) -> io::Result<()> {
        self.send_to(token, by_descriptor(socket), bytes).map(drop)
    }

    pub(crate) fn send_to(
        &mut self,
        token: u64,
        (fd, flags): NamedSocket,
        bytes: Vec<u8>,
    ) -> io::Result<u64> {
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let entry = opcode::Send::new(fd, bytes.as_ptr(), length)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sending.push(None);
            self.sending.len() as u64 - 1
        });
        // In its place first: from the push on the kernel may read it.
        self.sending[slot as usize] = Some((token, bytes));
        // SAFETY: the bytes are kept in `sending` until the completion was seen.
        let pushed = unsafe { self.push(entry.flags(flags), SEND | slot) };
        if pushed.is_err() {
            self.sending[slot as usize] = None;
            self.free.push(slot);
        }
        pushed.map(|()| SEND | slot)
    }

    /// Tells once when a descriptor can be read.
    pub fn watch(&mut self, token: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: the request uses no memory.
        unsafe { self.push(entry, WATCH | token) }
    }

    pub(crate) fn cancel(&mut self, which: CancelBuilder) -> io::Result<()> {
        // SAFETY: the request uses no memory.
        unsafe { self.push(opcode::AsyncCancel2::new(which).build(), CANCEL) }
    }

    /// Queues a request; a full queue is handed over first.
    /// # Safety
    /// What memory the request uses stays, and is not written to by others, until its completion
    /// was taken or the ring is gone.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        let entry = entry.user_data(tag);
        for _ in 0..ATTEMPTS {
            // SAFETY: the caller promises it.
            if unsafe { self.requests.push(entry.clone(), false) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(crate) fn submit(&self) -> io::Result<()> {
        passing(self.requests.ring.submit())
    }

    /// Hands over the queue, and waits for an event or until `time` is over, in one system call.
    pub fn wait(&mut self, time: Option<Duration>) -> io::Result<()> {
        let Some(time) = time.map(Timespec::from) else {
            return passing(self.requests.ring.submit_and_wait(1));
        };
        let args = SubmitArgs::new().timespec(&time);
        match self.requests.ring.submitter().submit_with_args(1, &args) {
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => Ok(()),
            result => passing(result),
        }
    }

    /// The next thing that has happened already.
    pub fn next_event(&mut self) -> Option<ConnectionEvent> {
        loop {
            let entry = self.requests.next()?;
            let (kind, token) = (entry.user_data() & !TOKENS, entry.user_data() & TOKENS);
            let goes_on = cqueue::more(entry.flags());
            return Some(match kind {
                ACCEPT => ConnectionEvent::Accepted(accepted(&entry), goes_on),
                CONNECT => ConnectionEvent::Connected(token, answer(&entry).map(drop)),
                RECEIVE => {
                    let piece = answer(&entry).map(|length| self.piece(entry.flags(), length));
                    ConnectionEvent::Received(token, piece, goes_on)
                }
                SEND => {
                    let Some((of, buffer)) = self.sending.get_mut(token as usize)?.take() else {
                        continue;
                    };
                    self.free.push(token);
                    ConnectionEvent::Sent(of, answer(&entry), buffer)
                }
                WATCH => ConnectionEvent::Ready(token),
                _ => continue,
            });
        }
    }

    /// The buffer of a completion; none, and given back at once, for no bytes: the end.
    fn piece(&mut self, flags: u32, length: usize) -> Option<Piece> {
        let buffer = cqueue::buffer_select(flags)?;
        let piece = Piece {
            pool: self.pool.as_ref().map_or(0, |pool| pool.number),
            buffer,
            length,
        };
        if length > 0 {
            return Some(piece);
        }
        self.give_back(piece);
        None
    }

    /// The bytes.
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.pool.as_ref().map_or(&[], |pool| pool.bytes(piece))
    }

    /// Gives a piece's buffer back to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        if let Some(pool) = self.pool.as_mut().filter(|p| p.number == piece.pool) {
            pool.provide(piece.buffer);
        }
    }
}

impl Drop for UringConnections {
    /// Connections taken and not seen are closed. Memory that the kernel still uses after a second,
    /// which would be its fault, is left to it.
    fn drop(&mut self) {
        let _ = self.cancel(CancelBuilder::any());
        self.requests.end(LAST_WAIT, |over| {
            if over.user_data() == ACCEPT {
                drop(accepted(&over));
            }
        });
        if self.requests.in_flight() > 0 {
            std::mem::forget((self.pool.take(), std::mem::take(&mut self.sending)));
        }
    }
}

fn by_descriptor(socket: BorrowedFd<'_>) -> NamedSocket {
    (Fd(socket.as_raw_fd()), squeue::Flags::empty())
}

/// What of errors does not pass by itself.
pub(crate) fn passing(entered: io::Result<usize>) -> io::Result<()> {
    entered.map(drop).or_else(|e| match e.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
        _ => Err(e),
    })
}

fn answer(entry: &cqueue::Entry) -> io::Result<usize> {
    let result = entry.result();
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

fn accepted(entry: &cqueue::Entry) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just opened it for us, and nobody else has it.
    answer(entry).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

const MOST_BUFFERS: u16 = 1 << 15;

/// The buffers that the kernel chooses from: descriptions that both sides know, and the memory.
struct Pool {
    /// From 1: no other pool of the process ever has the same, as it may have the address.
    number: u64,
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
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Ok(Pool {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            entries: Region::new(usize::from(count) * size_of::<BufRingEntry>())?,
            memory: Region::new(all)?,
            count,
            bytes_each,
            tail: 0,
        })
    }

    /// Where the array is.
    fn address(&self) -> u64 {
        self.entries.start() as u64
    }

    /// None for a number that no buffer has.
    fn bytes(&self, piece: &Piece) -> &[u8] {
        if piece.buffer >= self.count || piece.pool != self.number {
            return &[];
        }
        let start = usize::from(piece.buffer) * self.bytes_each;
        let length = piece.length.min(self.bytes_each);
        // SAFETY: the buffer lies within the mapping, and all bytes are valid numbers. A piece is
        // made from a completion of this very pool's ring, and is used up when its buffer is
        // given back, so the kernel does not write to the buffer while the piece is there.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(start), length) }
    }

    /// Hands a buffer to the kernel; any other number is passed over.
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

#[cfg(test)]
mod tests;
