//! io_uring for a client of many connections: one system call submits all requests and collects all
//! completions. Sockets of persistent connections are in the ring's table, so that the kernel does not
//! look up descriptors, and one multishot request receives all that arrives on one of them. Needs Linux
//! 6.1; io_uring_enter(2), io_uring_register_files_sparse(3), io_uring_prep_recv_multishot(3).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{EnterFlags, opcode, squeue};
use rustix::net::SocketAddrAny;

use crate::uring_connections::{
    CONNECT, ConnectionEvent, NamedSocket, Piece, RECEIVE, UringConnections, ignore_transient,
};

/// The most requests of one submission; more of them take another system call.
const ENTRIES: u32 = 256;
/// The largest completion queue; the kernel keeps further completions.
const MOST_COMPLETIONS: u32 = 1 << 15;
/// The number of successive connections of a line that have different tokens.
const GENERATIONS: u32 = 1 << 24;
/// Memory for receiving that all lines share, in bytes.
const POOL_BYTES: usize = 1 << 20;
const LEAST_BUFFERS: usize = 64;
const MOST_BUFFERS: usize = 4096;
/// Bounds of one buffer, in bytes.
const LEAST_BYTES: usize = 128;
const MOST_BYTES: usize = 16 << 10;

/// A completion, with the number of its line.
#[derive(Debug)]
pub enum ClientEvent {
    /// The line is connected, or connecting failed.
    Connected(u32, io::Result<()>),
    /// Bytes arrived; none at the end of the stream.
    Received(u32, io::Result<Option<Piece>>),
    /// All bytes of a send were sent, or sending failed.
    Sent(u32, io::Result<()>),
}

/// A ring of numbered lines. A line has one connection after another. Calls fail as io_uring_enter(2)
/// and io_uring_register(2) do.
pub struct UringClient {
    // Dropped first, so that no request outlives the memory that it uses.
    ring: UringConnections,
    /// The address in the kernel's form, which does not move.
    address: Box<SocketAddrAny>,
    lines: Vec<Line>,
    /// Memory of finished sends, for reuse.
    spare: Vec<Vec<u8>>,
    /// True if sockets are in the ring's table, at the index of their line.
    has_table: bool,
    /// True for connections of many requests.
    kept: bool,
}

impl UringClient {
    /// Sets up a ring of `lines` to one address, for `senders` of them that send at the same time: up to
    /// `request_bytes` each, with responses of about `response_bytes`. `kept` is true for connections of
    /// many requests; it changes the setup of the ring, not the calls. Only the calling thread may use
    /// it. EPERM or ENOSYS if io_uring is forbidden or missing, EINVAL if the kernel is too old.
    pub fn new(
        address: SocketAddr,
        lines: u32,
        senders: u32,
        [request_bytes, response_bytes]: [usize; 2],
        kept: bool,
    ) -> io::Result<UringClient> {
        let completions = (2 * lines)
            .next_power_of_two()
            .clamp(2 * ENTRIES, MOST_COMPLETIONS);
        let (buffers, bytes_each) = pool(lines, response_bytes);
        let ring = UringConnections::new(ENTRIES, completions, buffers, bytes_each)?;
        // The table counts against RLIMIT_NOFILE; without it, descriptors are used.
        let submitter = ring.requests.ring.submitter();
        let has_table = kept && submitter.register_files_sparse(lines).is_ok();
        Ok(UringClient {
            ring,
            address: Box::new(address.into()),
            lines: (0..lines).map(|_| Line::default()).collect(),
            spare: (0..senders.min(lines))
                .map(|_| Vec::with_capacity(request_bytes))
                .collect(),
            has_table,
            kept,
        })
    }

    /// Connects a line by a new socket, which [`ClientEvent::Connected`] completes; its former
    /// connection is closed. `InvalidInput` for a number without a line.
    pub fn connect(&mut self, line: u32, socket: OwnedFd) -> io::Result<()> {
        self.disconnect(line);
        let fd = socket.as_raw_fd();
        if self.has_table {
            self.set_file(line, fd)?;
        }
        let state = self.line(line)?;
        state.socket = Some(socket);
        state.connects = true;
        let token = state.token(line);
        let (to, length) = (self.address.as_ptr().cast(), self.address.addr_len());
        let (fd, flags) = self.named(line, fd);
        let entry = opcode::Connect::new(fd, to, length).build().flags(flags);
        // SAFETY: the address is owned by this ring, and never written to.
        unsafe { self.ring.push(entry, CONNECT | token) }
    }

    /// Sends all bytes that `compose` appends, which [`ClientEvent::Sent`] completes; `WouldBlock` for a
    /// second send before that. `NotConnected` without a connection. Does not allocate for requests
    /// within the bounds that [`UringClient::new`] got.
    pub fn send(&mut self, line: u32, compose: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let state = self.line(line)?;
        let token = state.token(line);
        let Some(fd) = state.socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if state.sends.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // There is none while more than `senders` sends are in flight.
        let mut memory = self.spare.pop().unwrap_or_default();
        compose(&mut memory);
        let tag = self.ring.send_to(token, self.named(line, fd), memory)?;
        self.lines[line as usize].sends = Some(tag);
        self.receive(line)
    }

    /// Begins to receive from a line. A kept line that is connected, and a line that sends, begin by
    /// themselves; the caller does it for the bytes after a piece.
    pub fn receive(&mut self, line: u32) -> io::Result<()> {
        let state = self.line(line)?;
        if state.receives || state.connects {
            return Ok(());
        }
        let Some(fd) = state.socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return Ok(());
        };
        state.receives = true;
        let token = state.token(line);
        let (socket, kept) = (self.named(line, fd), self.kept);
        // A connection that is not kept gets a single response, which has not arrived yet.
        self.ring.receive_from(token, socket, kept)
    }

    /// Closes a line's connection and cancels its requests, of which no completion is reported.
    pub fn disconnect(&mut self, line: u32) {
        let Some(state) = self.lines.get_mut(line as usize) else {
            return;
        };
        let token = state.token(line);
        let connects = state.connects.then_some(CONNECT | token);
        let receives = state.receives.then_some(RECEIVE | token);
        let in_flight = [connects, receives, state.sends.take()];
        state.next_generation();
        (state.connects, state.receives) = (false, false);
        let Some(socket) = state.socket.take() else {
            return;
        };
        if in_flight.iter().any(Option::is_some) {
            // A queued request has a number that the next connection may get: so it is submitted.
            let _ = self.ring.submit();
            for tag in in_flight.into_iter().flatten() {
                let _ = self.ring.cancel(CancelBuilder::user_data(tag));
            }
        }
        if self.has_table {
            let _ = self.set_file(line, -1);
        }
        drop(socket);
    }

    fn line(&mut self, line: u32) -> io::Result<&mut Line> {
        (self.lines.get_mut(line as usize)).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn named(&self, line: u32, fd: RawFd) -> NamedSocket {
        if self.has_table {
            (Fd(line as RawFd), squeue::Flags::FIXED_FILE)
        } else {
            (Fd(fd), squeue::Flags::empty())
        }
    }

    /// Sets the descriptor of a line in the table; -1 for none.
    fn set_file(&self, line: u32, fd: RawFd) -> io::Result<usize> {
        let submitter = self.ring.requests.ring.submitter();
        submitter.register_files_update(line, &[fd])
    }

    /// Submits the queue and collects completions, without waiting, in one system call.
    pub fn exchange(&mut self) -> io::Result<()> {
        let ring = &mut self.ring.requests.ring;
        let queued = ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: there is no signal mask, and `queued` entries are in the queue.
        let entered = unsafe {
            ring.submitter()
                .enter::<libc::sigset_t>(queued, 0, flags, None)
        };
        ignore_transient(entered)
    }

    /// Submits the queue and waits for a completion, for at most `time`.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.ring.wait(Some(time))
    }

    /// Returns true if a completion has arrived that [`UringClient::next_event`] has not returned.
    pub fn has_event(&mut self) -> bool {
        !self.ring.requests.ring.completion().is_empty()
    }

    /// The next completion that has arrived.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        loop {
            let event = match self.ring.next_event()? {
                ConnectionEvent::Connected(token, result) => self.connected(token, result),
                ConnectionEvent::Received {
                    token,
                    piece,
                    has_more,
                } => self.received(token, piece, has_more),
                ConnectionEvent::Sent {
                    token,
                    sent,
                    memory,
                } => self.sent(token, sent, memory),
                ConnectionEvent::Accepted { .. } | ConnectionEvent::Ready(_) => None,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// The line of a token; none if the line has had another connection since.
    fn current_line(&mut self, token: u64) -> Option<(u32, &mut Line)> {
        let line = token as u32;
        let state = self.lines.get_mut(line as usize)?;
        (state.token(line) == token).then_some((line, state))
    }

    fn connected(&mut self, token: u64, result: io::Result<()>) -> Option<ClientEvent> {
        let (line, state) = self.current_line(token)?;
        state.connects = false;
        let result = match result {
            Ok(()) if self.kept => self.receive(line),
            result => result,
        };
        Some(ClientEvent::Connected(line, result))
    }

    fn received(
        &mut self,
        token: u64,
        piece: io::Result<Option<Piece>>,
        has_more: bool,
    ) -> Option<ClientEvent> {
        let Some((line, state)) = self.current_line(token) else {
            if let Ok(Some(piece)) = piece {
                self.give_back(piece);
            }
            return None;
        };
        state.receives = has_more;
        let piece = match piece {
            // The pool was empty; its buffers have been returned by now.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => Err(self.receive(line).err()?),
            piece => piece,
        };
        Some(ClientEvent::Received(line, piece))
    }

    fn sent(
        &mut self,
        token: u64,
        sent: io::Result<usize>,
        mut memory: Vec<u8>,
    ) -> Option<ClientEvent> {
        let total = memory.len();
        memory.clear();
        self.spare.push(memory);
        let (line, state) = self.current_line(token)?;
        state.sends = None;
        let result = match sent {
            // After a signal the kernel continues, so a short send means that the connection ended.
            Ok(length) if length < total => Err(io::Error::from_raw_os_error(libc::EPIPE)),
            sent => sent.map(drop),
        };
        Some(ClientEvent::Sent(line, result))
    }

    /// The bytes of a piece.
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.ring.bytes(piece)
    }

    /// Returns the buffer of a piece to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        self.ring.give_back(piece);
    }
}

#[derive(Default)]
struct Line {
    socket: Option<OwnedFd>,
    /// The number of its former connections, by which late completions of those are recognised.
    generation: u32,
    connects: bool,
    receives: bool,
    /// The tag of the send in flight.
    sends: Option<u64>,
}

impl Line {
    fn token(&self, line: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(line)
    }

    fn next_generation(&mut self) {
        self.generation = (self.generation + 1) % GENERATIONS;
    }
}

/// The number and the size of the buffers for so many lines with responses of about that size.
fn pool(lines: u32, response_bytes: usize) -> (u16, usize) {
    let bytes_each = response_bytes
        .next_power_of_two()
        .clamp(LEAST_BYTES, MOST_BYTES);
    let most = (POOL_BYTES / bytes_each).clamp(LEAST_BUFFERS, MOST_BUFFERS);
    let wanted = (lines as usize).next_power_of_two().max(LEAST_BUFFERS);
    (most.min(wanted) as u16, bytes_each)
}

#[cfg(test)]
mod tests;
