//! io_uring from a file to a socket through a buffer or a pipe: each piece has a request that reads it
//! and a linked one that sends it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use crate::io_buffers::IoBuffers;
use crate::pipe::{Pipe, moving};
use crate::ring::RequestRing;

/// The longest wait for requests when the ring is dropped.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// The offset of a pipe or socket in splice(2).
const NO_OFFSET: i64 = -1;

/// The intermediate between the file and the socket.
pub enum RelayedBy {
    /// Memory, into whose first buffer pieces are read, and from which they are sent.
    Buffer(IoBuffers),
    /// A pipe through which pieces are spliced.
    Pipe(Pipe),
}

/// The result of one request of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEvent {
    /// Bytes read from the file, 0 at its end; or a negative errno.
    Read(i32),
    /// Bytes sent to the socket; or a negative errno.
    Sent(i32),
}

/// A ring that relays pieces of a file to a socket, one after the other.
pub struct UringRelay {
    // Dropped first, so that no request outlives the memory it uses.
    ring: RequestRing,
    file: OwnedFd,
    socket: OwnedFd,
    intermediate: RelayedBy,
}

/// Tags of the two requests of a piece.
const READ: u64 = 0;
const SENT: u64 = 1;

impl UringRelay {
    /// Sets up a ring with room for `pieces` pieces. EPERM or ENOSYS if io_uring is forbidden or
    /// missing.
    pub fn new(
        file: OwnedFd,
        socket: OwnedFd,
        pieces: u32,
        intermediate: RelayedBy,
    ) -> io::Result<UringRelay> {
        let entries = pieces.saturating_mul(2).max(2);
        Ok(UringRelay {
            ring: RequestRing::single_issuer(entries)?,
            file,
            socket,
            intermediate,
        })
    }

    /// Queues a piece: `len` bytes of the file from `offset` on are read, then sent. `more` says that
    /// another piece of the message follows. With `linked` the next piece begins when this one is done;
    /// otherwise no piece may be queued until all requests have finished. `InvalidInput` for more bytes
    /// than the intermediate holds, `WouldBlock` if the queue is full.
    pub fn piece(&mut self, offset: u64, len: usize, more: bool, linked: bool) -> io::Result<()> {
        let room = match &self.intermediate {
            RelayedBy::Buffer(buffer) => buffer.size(),
            RelayedBy::Pipe(pipe) => pipe.capacity,
        };
        if len > room {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = u32::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let file = Fd(self.file.as_raw_fd());
        let socket = self.socket.as_raw_fd();
        let (read, send) = match &mut self.intermediate {
            RelayedBy::Buffer(buffer) => {
                if self.ring.in_flight() == 0 {
                    buffer.begin(0)?;
                }
                let memory = buffer.pointer(0);
                let read = opcode::Read::new(file, memory, bytes)
                    .offset(offset)
                    .build();
                let msg_more = if more { libc::MSG_MORE } else { 0 };
                let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL | msg_more;
                let send = opcode::Send::new(Fd(socket), memory, bytes)
                    .flags(flags)
                    .build();
                (read, send)
            }
            RelayedBy::Pipe(pipe) => {
                let (pipe_read, pipe_write) = (pipe.read.as_raw_fd(), pipe.write.as_raw_fd());
                let from = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
                let read = opcode::Splice::new(file, from, Fd(pipe_write), NO_OFFSET, bytes)
                    .flags(moving(false).bits())
                    .build();
                (read, splice_to_socket(pipe_read, socket, bytes, more))
            }
        };
        self.push(read.user_data(READ), true)?;
        self.push(send.user_data(SENT), linked)
    }

    /// Queues a send of `len` bytes that are left in the pipe; only if no request is in flight.
    pub fn rest(&mut self, len: usize, more: bool) -> io::Result<()> {
        let RelayedBy::Pipe(pipe) = &self.intermediate else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let bytes = u32::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (pipe, socket) = (pipe.read.as_raw_fd(), self.socket.as_raw_fd());
        let send = splice_to_socket(pipe, socket, bytes, more);
        self.push(send.user_data(SENT), false)
    }

    fn push(&mut self, entry: squeue::Entry, linked: bool) -> io::Result<()> {
        // SAFETY: the request uses the first buffer, which cannot be borrowed while a request is in
        // flight, and whose memory is not unmapped before that.
        unsafe { self.ring.push(entry, linked) }
    }

    /// Submits the queue and waits until `want` requests have finished, in one system call,
    /// io_uring_enter(2); false if `timeout` ran out.
    pub fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<bool> {
        Ok(self.ring.enter(want, timeout)?.is_some())
    }

    /// Marks the buffer as free if no request uses it.
    fn release_buffer(&mut self) {
        if self.ring.in_flight() == 0
            && let RelayedBy::Buffer(buffer) = &mut self.intermediate
        {
            buffer.end(0);
        }
    }

    /// The next finished request.
    pub fn next_event(&mut self) -> Option<RelayEvent> {
        let entry = self.ring.next()?;
        self.release_buffer();
        Some(match entry.user_data() {
            READ => RelayEvent::Read(entry.result()),
            _ => RelayEvent::Sent(entry.result()),
        })
    }
}

fn splice_to_socket(pipe: RawFd, socket: RawFd, bytes: u32, more: bool) -> squeue::Entry {
    opcode::Splice::new(Fd(pipe), NO_OFFSET, Fd(socket), NO_OFFSET, bytes)
        .flags(moving(more).bits())
        .build()
}

impl Drop for UringRelay {
    fn drop(&mut self) {
        // A request that still does not finish keeps its buffer in use, whose memory then stays.
        self.ring.drain(LAST_WAIT, |_| ());
        self.release_buffer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_relay_whose_peer_does_not_read_can_be_dropped() {
        let (a, _b) = UnixStream::pair().unwrap();
        let big = 4 << 20;
        let file = rustix::fs::memfd_create("relay", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, big as u64).unwrap();
        let intermediate = RelayedBy::Buffer(IoBuffers::new(1, big).unwrap());
        let mut relay = UringRelay::new(file, a.into(), 1, intermediate).unwrap();
        assert!(relay.piece(0, big + 1, false, false).is_err());
        relay.piece(0, big, false, false).unwrap();
        assert!(relay.enter(1, Duration::from_secs(60)).unwrap());
        assert_eq!(relay.next_event(), Some(RelayEvent::Read(big as i32)));
        assert!(!relay.enter(1, Duration::from_millis(20)).unwrap());
    }
}
