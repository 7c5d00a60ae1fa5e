//! io_uring for many connections. One multishot request accepts all connections of a listener, and one
//! for each connection receives all that arrives on it, in buffers that all connections share and of
//! which the kernel chooses one.
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

/// The longest wait for requests when the ring is dropped.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How often a full queue is submitted to make room for one more request.
const SUBMIT_ATTEMPTS: u32 = 8;
/// The buffer group of the ring's pool.
const GROUP: u16 = 0;
/// IORING_RECVSEND_POLL_FIRST: waits for data before the first attempt to receive.
const POLL_FIRST: u16 = 1;

/// Kinds of requests, in the highest byte of a tag. The lower bytes are the token, for [`SEND`] the
/// slot.
const ACCEPT: u64 = 1 << 56;
pub(crate) const CONNECT: u64 = 2 << 56;
pub(crate) const RECEIVE: u64 = 3 << 56;
pub(crate) const SEND: u64 = 4 << 56;
const WATCH: u64 = 5 << 56;
const CANCEL: u64 = 6 << 56;
/// The bits of a tag below its kind.
const TOKEN_MASK: u64 = (1 << 56) - 1;

/// A socket by its descriptor, or by its index in the ring's table (FIXED_FILE).
pub(crate) type NamedSocket = (Fd, squeue::Flags);

/// A completion of the ring.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// A connection was accepted, or failed.
    Accepted {
        /// Its socket.
        socket: io::Result<OwnedFd>,
        /// More will come; if false, [`UringConnections::accept`] must be called again.
        has_more: bool,
    },
    /// The connection of this token is established, or failed.
    Connected(u64, io::Result<()>),
    /// Bytes arrived on a connection.
    Received {
        /// The token of the connection.
        token: u64,
        /// The bytes; none at the end of the stream.
        piece: io::Result<Option<Piece>>,
        /// More will be received; if false, [`UringConnections::receive`] must be called again.
        has_more: bool,
    },
    /// Bytes were sent on a connection.
    Sent {
        /// The token of the connection.
        token: u64,
        /// The number of bytes.
        sent: io::Result<usize>,
        /// The memory of the send.
        memory: Vec<u8>,
    },
    /// The watched descriptor of this token can be read.
    Ready(u64),
}

/// Received bytes in one of the ring's buffers. The caller returns the buffer by
/// [`UringConnections::give_back`].
#[derive(Debug)]
pub struct Piece {
    /// The number of the pool of its buffer.
    pool: u64,
    buffer: u16,
    length: usize,
}

/// A ring that accepts, receives and sends on many connections. Tokens are the caller's numbers of
/// connections, below 2⁵⁶. Calls fail as io_uring_enter(2) does.
///
/// A queued request names its file by the number of its descriptor until it is submitted, by
/// [`UringConnections::wait`] or because the queue was full; from then on the kernel holds the file. If the
/// descriptor is closed before that, the request fails or uses the file that has the number by then; memory
/// stays safe in both cases.
pub struct UringConnections {
    // Dropped first, so that no request outlives the memory that it uses.
    pub(crate) requests: RequestRing,
    /// None only within `drop`, where a pool that the kernel still uses is leaked.
    pool: Option<Pool>,
    /// The token and the memory of each send in flight, by its slot.
    sending: Vec<Option<(u64, Vec<u8>)>>,
    /// Slots without a send.
    free: Vec<u64>,
}

impl UringConnections {
    /// Sets up a ring for `entries` requests and `completions` at a time, with `buffers` (a power of two)
    /// of `bytes_each` for receiving. Only the calling thread may use it.
    ///
    /// # Errors
    /// `InvalidInput` for numbers or flags that this kernel does not accept; EPERM or ENOSYS if io_uring
    /// is forbidden or missing.
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
        // SAFETY: the array has `buffers` entries, and lives until after the ring.
        unsafe { submitter.register_buf_ring_with_flags(address, buffers, GROUP, 0)? };
        (0..buffers).for_each(|buffer| pool.provide(buffer));
        Ok(UringConnections {
            requests: RequestRing::new(ring),
            pool: Some(pool),
            sending: Vec::new(),
            free: Vec::new(),
        })
    }

    /// Accepts connections of a blocking listener until [`UringConnections::stop_accepting`].
    pub fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC)
            .build();
        // SAFETY: the request uses no memory.
        unsafe { self.push(entry, ACCEPT) }
    }

    /// Ends [`UringConnections::accept`]; connections that were accepted before are still reported.
    pub fn stop_accepting(&mut self) -> io::Result<()> {
        self.cancel(CancelBuilder::user_data(ACCEPT))
    }

    /// Receives from a blocking socket, piece by piece, until [`UringConnections::pause`].
    pub fn receive(&mut self, token: u64, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.receive_from(token, by_descriptor(socket), true)
    }

    /// Receives once, or with `multishot` all that arrives.
    pub(crate) fn receive_from(
        &mut self,
        token: u64,
        (fd, flags): NamedSocket,
        multishot: bool,
    ) -> io::Result<()> {
        let entry = if multishot {
            opcode::RecvMulti::new(fd, GROUP).build()
        } else {
            opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .ioprio(POLL_FIRST)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT)
        };
        // SAFETY: the request uses the pool, which lives until after the ring.
        unsafe { self.push(entry.flags(flags), RECEIVE | token) }
    }

    /// Stops [`UringConnections::receive`] of a token, until it is called again.
    pub fn pause(&mut self, token: u64) -> io::Result<()> {
        self.cancel(CancelBuilder::user_data(RECEIVE | token))
    }

    /// Sends all of `bytes`, which the ring owns until [`ConnectionEvent::Sent`].
    pub fn send(&mut self, token: u64, socket: BorrowedFd<'_>, bytes: Vec<u8>) -> io::Result<()> {
        self.send_to(token, by_descriptor(socket), bytes).map(drop)
    }

    /// Sends as [`UringConnections::send`], and returns the tag by which the request can be cancelled.
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
        // Stored before the push: from then on the kernel may read the bytes.
        self.sending[slot as usize] = Some((token, bytes));
        // SAFETY: the bytes stay in `sending` until the completion was read.
        let pushed = unsafe { self.push(entry.flags(flags), SEND | slot) };
        if pushed.is_err() {
            self.sending[slot as usize] = None;
            self.free.push(slot);
        }
        pushed.map(|()| SEND | slot)
    }

    /// Reports once, by [`ConnectionEvent::Ready`], that a descriptor can be read.
    pub fn watch(&mut self, token: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: the request uses no memory.
        unsafe { self.push(entry, WATCH | token) }
    }

    pub(crate) fn cancel(&mut self, which: CancelBuilder) -> io::Result<()> {
        // SAFETY: the request uses no memory.
        unsafe { self.push(opcode::AsyncCancel2::new(which).build(), CANCEL) }
    }

    /// Queues a request; a full queue is submitted first.
    ///
    /// # Safety
    /// The memory that the request uses stays allocated, and is not written by others, until its
    /// completion was read or the ring is dropped.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        let request = entry.user_data(tag);
        let is_linked = false;
        for _ in 0..SUBMIT_ATTEMPTS {
            // SAFETY: the caller promises it.
            if unsafe { self.requests.push(request.clone(), is_linked) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(crate) fn submit(&self) -> io::Result<()> {
        ignore_transient(self.requests.ring.submit())
    }

    /// Submits the queue and waits for a completion, for at most `time`, in one system call.
    pub fn wait(&mut self, time: Option<Duration>) -> io::Result<()> {
        let Some(time) = time.map(Timespec::from) else {
            return ignore_transient(self.requests.ring.submit_and_wait(1));
        };
        let args = SubmitArgs::new().timespec(&time);
        match self.requests.ring.submitter().submit_with_args(1, &args) {
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => Ok(()),
            result => ignore_transient(result),
        }
    }

    /// The next completion that has arrived.
    pub fn next_event(&mut self) -> Option<ConnectionEvent> {
        loop {
            let entry = self.requests.next()?;
            let (kind, token) = (
                entry.user_data() & !TOKEN_MASK,
                entry.user_data() & TOKEN_MASK,
            );
            let has_more = cqueue::more(entry.flags());
            return Some(match kind {
                ACCEPT => ConnectionEvent::Accepted {
                    socket: accepted(&entry),
                    has_more,
                },
                CONNECT => ConnectionEvent::Connected(token, result(&entry).map(drop)),
                RECEIVE => ConnectionEvent::Received {
                    token,
                    piece: result(&entry).map(|length| self.piece(entry.flags(), length)),
                    has_more,
                },
                SEND => {
                    let slot = token;
                    let Some((connection, memory)) =
                        self.sending.get_mut(slot as usize).and_then(Option::take)
                    else {
                        continue;
                    };
                    self.free.push(slot);
                    ConnectionEvent::Sent {
                        token: connection,
                        sent: result(&entry),
                        memory,
                    }
                }
                WATCH => ConnectionEvent::Ready(token),
                _ => continue,
            });
        }
    }

    /// The piece of a completion. At the end of the stream there is none, and a buffer that the kernel chose
    /// all the same is given back at once.
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

    /// The bytes of a piece.
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.pool.as_ref().map_or(&[], |pool| pool.bytes(piece))
    }

    /// Returns the buffer of a piece to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        if let Some(pool) = self.pool.as_mut().filter(|p| p.number == piece.pool) {
            pool.provide(piece.buffer);
        }
    }
}

impl Drop for UringConnections {
    /// Closes connections that were accepted and not reported. Memory that the kernel still uses after a
    /// second stays allocated.
    fn drop(&mut self) {
        let _ = self.cancel(CancelBuilder::any());
        self.requests.drain(LAST_WAIT, |entry| {
            if entry.user_data() == ACCEPT {
                drop(accepted(&entry));
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

/// The result of a submission, in which the errors EINTR, EAGAIN and EBUSY count as success: the caller
/// submits again.
pub(crate) fn ignore_transient(entered: io::Result<usize>) -> io::Result<()> {
    entered.map(drop).or_else(|e| match e.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
        _ => Err(e),
    })
}

/// The result of a completion, or the error of its negative errno.
fn result(entry: &cqueue::Entry) -> io::Result<usize> {
    let number = entry.result();
    usize::try_from(number).map_err(|_| io::Error::from_raw_os_error(-number))
}

fn accepted(entry: &cqueue::Entry) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just opened the descriptor, which has no other owner.
    result(entry).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The kernel's limit on the buffers of a ring.
const MOST_BUFFERS: u16 = 1 << 15;

/// The buffers from which the kernel chooses: their memory, and the ring of descriptions that is shared
/// with the kernel (io_uring_register_buf_ring(3)).
struct Pool {
    /// A number from 1 that no other pool of the process ever has. (The address may be reused.)
    number: u64,
    entries: Region,
    memory: Region,
    count: u16,
    bytes_each: usize,
    tail: u16,
}

impl Pool {
    fn new(count: u16, bytes_each: usize) -> io::Result<Pool> {
        let invalid = io::ErrorKind::InvalidInput;
        if !count.is_power_of_two() || count > MOST_BUFFERS || u32::try_from(bytes_each).is_err() {
            return Err(invalid.into());
        }
        let total_bytes = bytes_each.checked_mul(usize::from(count)).ok_or(invalid)?;
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Ok(Pool {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            entries: Region::new(usize::from(count) * size_of::<BufRingEntry>())?,
            memory: Region::new(total_bytes)?,
            count,
            bytes_each,
            tail: 0,
        })
    }

    fn address(&self) -> u64 {
        self.entries.start() as u64
    }

    /// The bytes of a piece; none for one of another pool.
    fn bytes(&self, piece: &Piece) -> &[u8] {
        if piece.buffer >= self.count || piece.pool != self.number {
            return &[];
        }
        let start = usize::from(piece.buffer) * self.bytes_each;
        let length = piece.length.min(self.bytes_each);
        // SAFETY: the buffer lies within the mapping, and all bytes are valid numbers. A piece is
        // made from a completion of this pool's ring, and is consumed when its buffer is returned,
        // so the kernel does not write to the buffer while the piece exists.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(start), length) }
    }

    /// Gives a buffer to the kernel; a number without a buffer is ignored.
    fn provide(&mut self, buffer: u16) {
        if buffer >= self.count {
            return;
        }
        let start = usize::from(buffer) * self.bytes_each;
        let address = self.memory.start() as u64 + start as u64;
        let index = usize::from(self.tail & (self.count - 1));
        let base = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: the index is within the array, which is page-aligned memory, all bytes of which
        // are valid numbers; the kernel only reads it, and not before the tail has passed it.
        let entry = unsafe { &mut *base.add(index) };
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
