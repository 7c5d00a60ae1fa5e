//! io_uring from a file to a socket through a buffer or a pipe: two linked requests for each piece.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use crate::io_buffers::IoBuffers;
use crate::pipe::{Pipe, moving};
use crate::ring::RequestRing;

const LAST_WAIT: Duration = Duration::from_secs(1);
/// An offset that means none: pipes and sockets have no place to begin at.
const NO_OFFSET: i64 = -1;

/// What lies between the file and the socket.
pub enum RelayedBy {
    /// Memory, into whose first place pieces are read and from which they are sent.
    Buffer(IoBuffers),
    /// A pipe, through which they are spliced.
    Pipe(Pipe),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEvent {
    /// Bytes came from the file, 0 at its end; or a negative error number.
    Read(i32),
    /// Bytes went to the socket; or a negative error number.
    Sent(i32),
}

/// A ring that brings pieces of a file to a socket, one after the other.
pub struct UringRelay {
    // Dropped first, so that no request outlives the memory it uses.
    ring: RequestRing,
    file: OwnedFd,
    socket: OwnedFd,
    between: RelayedBy,
}

const BROUGHT: u64 = 0;
const PASSED: u64 = 1;

impl UringRelay {
    /// A relay with room for `pieces` pieces; EPERM or ENOSYS where io_uring is forbidden or
    /// missing.
    pub fn new(
        file: OwnedFd,
        socket: OwnedFd,
        pieces: u32,
        between: RelayedBy,
    ) -> io::Result<UringRelay> {
        let entries = pieces.saturating_mul(2).max(2);
        Ok(UringRelay {
            ring: RequestRing::of_one_thread(entries)?,
            file,
            socket,
            between,
        })
    }

    /// Queues a piece: `len` bytes of the file from `offset` on are brought, then passed on; `more`
    /// of the message follows. Where the next piece is not `linked`, so that it begins when this
    /// one is done, nothing may be queued until all is over. `InvalidInput` for more bytes than
    /// what lies between holds, `WouldBlock` for a full queue.
    pub fn piece(&mut self, offset: u64, len: usize, more: bool, linked: bool) -> io::Result<()> {
        let room = match &self.between {
            RelayedBy::Buffer(places) => places.size(),
            RelayedBy::Pipe(pipe) => pipe.capacity,
        };
        if len > room {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = u32::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let file = Fd(self.file.as_raw_fd());
        let socket = self.socket.as_raw_fd();
        let (bring, pass) = match &mut self.between {
            RelayedBy::Buffer(places) => {
                if self.ring.in_flight() == 0 {
                    places.begin(0)?;
                }
                let at = places.pointer(0);
                let bring = opcode::Read::new(file, at, bytes).offset(offset).build();
                let goes_on = if more { libc::MSG_MORE } else { 0 };
                let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL | goes_on;
                let pass = opcode::Send::new(Fd(socket), at, bytes)
                    .flags(flags)
                    .build();
                (bring, pass)
            }
            RelayedBy::Pipe(pipe) => {
                let (read, write) = (pipe.read.as_raw_fd(), pipe.write.as_raw_fd());
                let from = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
                let bring = opcode::Splice::new(file, from, Fd(write), NO_OFFSET, bytes)
                    .flags(moving(false).bits())
                    .build();
                (bring, out_of(read, socket, bytes, more))
            }
        };
        self.push(bring.user_data(BROUGHT), true)?;
        self.push(pass.user_data(PASSED), linked)
    }

    /// Queues the passing on of what the pipe still holds, with nothing in flight.
    pub fn rest(&mut self, len: usize, more: bool) -> io::Result<()> {
        let RelayedBy::Pipe(pipe) = &self.between else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let bytes = u32::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let pass = out_of(pipe.read.as_raw_fd(), self.socket.as_raw_fd(), bytes, more);
        self.push(pass.user_data(PASSED), false)
    }

    fn push(&mut self, entry: squeue::Entry, linked: bool) -> io::Result<()> {
        // SAFETY: the request uses the one place, which nobody sees while anything is in flight,
        // and whose memory is never given back before that.
        unsafe { self.ring.push(entry, linked) }
    }

    /// Hands over the queue and waits until `want` requests are over, in one system call,
    /// io_uring_enter(2); false when `timeout` ran out.
    pub fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<bool> {
        Ok(self.ring.enter(want, timeout)?.is_some())
    }

    fn give_back(&mut self) {
        if self.ring.in_flight() == 0
            && let RelayedBy::Buffer(places) = &mut self.between
        {
            places.end(0);
        }
    }

    /// The next request that is over.
    pub fn next_event(&mut self) -> Option<RelayEvent> {
        let entry = self.ring.next()?;
        self.give_back();
        Some(match entry.user_data() {
            BROUGHT => RelayEvent::Read(entry.result()),
            _ => RelayEvent::Sent(entry.result()),
        })
    }
}

fn out_of(pipe: RawFd, socket: RawFd, bytes: u32, more: bool) -> squeue::Entry {
    opcode::Splice::new(Fd(pipe), NO_OFFSET, Fd(socket), NO_OFFSET, bytes)
        .flags(moving(more).bits())
        .build()
}

impl Drop for UringRelay {
    fn drop(&mut self) {
        // What still does not end keeps its place in use, whose memory then stays.
        self.ring.end(LAST_WAIT, |_| ());
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_relay_that_is_dropped_while_nobody_reads_ends() {
        let (a, _b) = UnixStream::pair().unwrap();
        let big = 4 << 20;
        let file = rustix::fs::memfd_create("relay", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, big as u64).unwrap();
        let between = RelayedBy::Buffer(IoBuffers::new(1, big).unwrap());
        let mut relay = UringRelay::new(file, a.into(), 1, between).unwrap();
        assert!(relay.piece(0, big + 1, false, false).is_err());
        relay.piece(0, big, false, false).unwrap();
        assert!(relay.enter(1, Duration::from_secs(60)).unwrap());
        assert_eq!(relay.next_event(), Some(RelayEvent::Read(big as i32)));
        assert!(!relay.enter(1, Duration::from_millis(20)).unwrap());
    }
}
