//! io_uring for a client of many connections: one system call hands over all requests and takes all
//! events. Sockets that are kept stand in the ring's table, so that no request looks for its
//! descriptor, and one request takes all that ever comes on one of them. Needs Linux 6.1;
//! io_uring_enter(2), io_uring_register_files_sparse(3), io_uring_prep_recv_multishot(3).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{EnterFlags, opcode, squeue};
use rustix::net::SocketAddrAny;

use crate::uring_connections::{
    CONNECT, ConnectionEvent, NamedSocket, Piece, RECEIVE, UringConnections, passing,
};

/// Requests that are handed over at once, at most; more of them take another system call.
const ENTRIES: u32 = 256;
/// The most completions that there is room for; the kernel keeps what goes beyond.
const MOST_COMPLETIONS: u32 = 1 << 15;
/// How many connections of a line are told apart.
const GENERATIONS: u32 = 1 << 24;
/// Memory that all lines share for what comes in, in bytes.
const POOL_BYTES: usize = 1 << 20;
const LEAST_BUFFERS: usize = 64;
const MOST_BUFFERS: usize = 4096;
/// Bounds of one buffer, in bytes.
const LEAST_BYTES: usize = 128;
const MOST_BYTES: usize = 16 << 10;

/// What the ring tells of a line, by its number.
#[derive(Debug)]
pub enum ClientEvent {
    /// It is connected, or why it cannot be.
    Connected(u32, io::Result<()>),
    /// Something came: bytes, or none where the stream has ended.
    Received(u32, io::Result<Option<Piece>>),
    /// All that was to be sent is sent, or why it cannot be.
    Sent(u32, io::Result<()>),
}

/// The ring. Calls fail as io_uring_enter(2) and io_uring_register(2).
pub struct UringClient {
    // Dropped first, so that no request outlives the memory that it uses.
    ring: UringConnections,
    /// As the kernel takes it, at a place that stays.
    address: Box<SocketAddrAny>,
    lines: Vec<Line>,
    /// Memory of earlier sends.
    spare: Vec<Vec<u8>>,
    has_table: bool,
    kept: bool,
}

impl UringClient {
    /// For `lines` to one address; the first `asking` send up to `request_bytes` at a time and get
    /// answers of about `answer_bytes`. `kept` connections decide how it is made, not what it can
    /// do. Used by the thread that made it. EPERM or ENOSYS where io_uring is forbidden or missing,
    /// EINVAL where the kernel is too old.
    pub fn new(
        address: SocketAddr,
        lines: u32,
        asking: u32,
        [request_bytes, answer_bytes]: [usize; 2],
        kept: bool,
    ) -> io::Result<UringClient> {
        let completions = (2 * lines)
            .next_power_of_two()
            .clamp(2 * ENTRIES, MOST_COMPLETIONS);
        let (buffers, bytes_each) = pool(lines, answer_bytes);
        let ring = UringConnections::new(ENTRIES, completions, buffers, bytes_each)?;
        // Where it cannot be had (it counts against RLIMIT_NOFILE), descriptors do as well.
        let submitter = ring.requests.ring.submitter();
        let has_table = kept && submitter.register_files_sparse(lines).is_ok();
        Ok(UringClient {
            ring,
            address: Box::new(address.into()),
            lines: (0..lines).map(|_| Line::default()).collect(),
            spare: (0..asking.min(lines))
                .map(|_| Vec::with_capacity(request_bytes))
                .collect(),
            has_table,
            kept,
        })
    }

    /// Connects a line by a fresh socket, up to [`ClientEvent::Connected`]; its last one is hung
    /// up. A line that there is not is an error.
    pub fn connect(&mut self, line: u32, socket: OwnedFd) -> io::Result<()> {
        self.hang_up(line);
        let fd = socket.as_raw_fd();
        if self.has_table {
            self.set_file(line, fd)?;
        }
        let place = self.line(line)?;
        place.socket = Some(socket);
        place.connects = true;
        let token = place.token(line);
        let (to, length) = (self.address.as_ptr().cast(), self.address.addr_len());
        let (fd, flags) = self.named(line, fd);
        let entry = opcode::Connect::new(fd, to, length).build().flags(flags);
        // SAFETY: the address is this ring's own, and never written to.
        unsafe { self.ring.push(entry, CONNECT | token) }
    }

    /// Sends all that `compose` appends, up to [`ClientEvent::Sent`]; until then `WouldBlock`.
    /// `NotConnected` without a connection. Does not allocate up to the size promised to `new`.
    pub fn send(&mut self, line: u32, compose: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let place = self.line(line)?;
        let token = place.token(line);
        let Some(fd) = place.socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if place.sends.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // There is none where what was sent last on another line has not come to its end yet.
        let mut memory = self.spare.pop().unwrap_or_default();
        compose(&mut memory);
        let tag = self.ring.send_to(token, self.named(line, fd), memory)?;
        self.lines[line as usize].sends = Some(tag);
        self.listen(line)
    }

    /// Has what comes on a line reported. A line does so by itself when it is connected, where
    /// connections are kept, or when it sends; call it for what follows a piece.
    pub fn listen(&mut self, line: u32) -> io::Result<()> {
        let place = self.line(line)?;
        if place.receives || place.connects {
            return Ok(());
        }
        let Some(fd) = place.socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return Ok(());
        };
        place.receives = true;
        let token = place.token(line);
        let (socket, kept) = (self.named(line, fd), self.kept);
        // Where it is not kept, one answer is all that comes, and there is none yet.
        self.ring.receive_from(token, socket, kept)
    }

    /// Gives a line's connection up, and all that is under way on it, silently.
    pub fn hang_up(&mut self, line: u32) {
        let Some(place) = self.lines.get_mut(line as usize) else {
            return;
        };
        let token = place.token(line);
        let connects = place.connects.then_some(CONNECT | token);
        let receives = place.receives.then_some(RECEIVE | token);
        let under_way = [connects, receives, place.sends.take()];
        place.next_generation();
        (place.connects, place.receives) = (false, false);
        let Some(socket) = place.socket.take() else {
            return;
        };
        if under_way.iter().any(Option::is_some) {
            // What is queued names the connection by a number that the next one may get.
            let _ = self.ring.submit();
            for tag in under_way.into_iter().flatten() {
                let _ = self.ring.cancel(CancelBuilder::user_data(tag));
            }
        }
        if self.has_table {
            let _ = self.set_file(line, -1);
        }
        drop(socket);
    }

    fn line(&mut self, line: u32) -> io::Result<&mut Line> {
        let place = self.lines.get_mut(line as usize);
        place.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn named(&self, line: u32, fd: RawFd) -> NamedSocket {
        match self.has_table {
            true => (Fd(line as RawFd), squeue::Flags::FIXED_FILE),
            false => (Fd(fd), squeue::Flags::empty()),
        }
    }

    /// -1 empties the place.
    fn set_file(&self, line: u32, fd: RawFd) -> io::Result<usize> {
        let submitter = self.ring.requests.ring.submitter();
        submitter.register_files_update(line, &[fd])
    }

    /// Hands over the queue and takes in what has come, without waiting, in one system call.
    pub fn exchange(&mut self) -> io::Result<()> {
        let ring = &mut self.ring.requests.ring;
        let queued = ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: there is no argument, and as many entries are queued.
        let entered = unsafe {
            ring.submitter()
                .enter::<libc::sigset_t>(queued, 0, flags, None)
        };
        passing(entered)
    }

    /// Waits until something has come, or until `time` is over.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.ring.wait(Some(time))
    }

    /// Whether something has come that was not told.
    pub fn has_event(&mut self) -> bool {
        !self.ring.requests.ring.completion().is_empty()
    }

    /// The next thing that has come already.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        loop {
            let told = match self.ring.next_event()? {
                ConnectionEvent::Connected(token, result) => self.connected(token, result),
                ConnectionEvent::Received(token, piece, goes_on) => {
                    self.received(token, piece, goes_on)
                }
                ConnectionEvent::Sent(token, sent, memory) => self.sent(token, sent, memory),
                ConnectionEvent::Accepted(..) | ConnectionEvent::Ready(_) => None,
            };
            if told.is_some() {
                return told;
            }
        }
    }

    /// The line of a token, unless it has had another connection since.
    fn rung(&mut self, token: u64) -> Option<(u32, &mut Line)> {
        let line = token as u32;
        let place = self.lines.get_mut(line as usize)?;
        (place.token(line) == token).then_some((line, place))
    }

    fn connected(&mut self, token: u64, result: io::Result<()>) -> Option<ClientEvent> {
        let (line, place) = self.rung(token)?;
        place.connects = false;
        let result = match result {
            Ok(()) if self.kept => self.listen(line),
            result => result,
        };
        Some(ClientEvent::Connected(line, result))
    }

    fn received(
        &mut self,
        token: u64,
        piece: io::Result<Option<Piece>>,
        goes_on: bool,
    ) -> Option<ClientEvent> {
        let Some((line, place)) = self.rung(token) else {
            if let Ok(Some(piece)) = piece {
                self.give_back(piece);
            }
            return None;
        };
        place.receives = goes_on;
        let piece = match piece {
            // Those that were used up have been given back by now.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => Err(self.listen(line).err()?),
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
        let all = memory.len();
        memory.clear();
        self.spare.push(memory);
        let (line, place) = self.rung(token)?;
        place.sends = None;
        let result = match sent {
            // A signal cut it short, which the kernel goes on after; so the connection ended.
            Ok(length) if length < all => Err(io::Error::from_raw_os_error(libc::EPIPE)),
            sent => sent.map(drop),
        };
        Some(ClientEvent::Sent(line, result))
    }

    /// The bytes.
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.ring.bytes(piece)
    }

    /// Gives a piece's buffer back to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        self.ring.give_back(piece);
    }
}

#[derive(Default)]
struct Line {
    socket: Option<OwnedFd>,
    /// How many connections it has had, so that what comes late of an earlier one is known.
    generation: u32,
    connects: bool,
    receives: bool,
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

/// How many buffers of how many bytes so many lines share, which get answers of that size.
fn pool(lines: u32, answer_bytes: usize) -> (u16, usize) {
    let bytes_each = answer_bytes
        .next_power_of_two()
        .clamp(LEAST_BYTES, MOST_BYTES);
    let most = (POOL_BYTES / bytes_each).clamp(LEAST_BUFFERS, MOST_BUFFERS);
    let wanted = (lines as usize).next_power_of_two().max(LEAST_BUFFERS);
    (most.min(wanted) as u16, bytes_each)
}

#[cfg(test)]
mod tests;
