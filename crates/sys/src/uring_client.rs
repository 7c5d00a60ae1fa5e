//! io_uring for a client of many connections: they are opened from here, written to from memory of
//! the ring's own, and all that comes lies in buffers that all share.
//!
//! What is asked for is handed over together, with one system call, and what has come until then
//! is taken in by the same call. Sockets that are kept stand in a table of the ring's, so that no
//! request looks for its descriptor, and one request takes all that ever comes on one of them.
//! Needs Linux 6.1; io_uring_enter(2), io_uring_register_files_sparse(3),
//! io_uring_prep_recv_multishot(3).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{EnterFlags, cqueue, opcode, squeue};

use rustix::net::SocketAddrAny;

use crate::buffer_ring::{BufferRing, Piece, answer, passing};

/// Requests that are handed over at once, at most; more of them take another system call.
const ENTRIES: u32 = 256;
/// The most completions that there is room for; the kernel keeps what goes beyond.
const MOST_COMPLETIONS: u32 = 1 << 15;

/// IORING_RECVSEND_POLL_FIRST: nothing has come yet.
const POLL_FIRST: u16 = 1;

/// What a request was: the highest byte of its tag. Below it are three bytes of the line's
/// generation, and the line; of [`SEND`] only the slot.
const CONNECT: u64 = 1 << 56;
const RECEIVE: u64 = 2 << 56;
const SEND: u64 = 3 << 56;
const CANCEL: u64 = 4 << 56;
const KINDS: u64 = 0xff << 56;
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

/// The ring.
pub struct UringClient {
    // Dropped first, so that no request outlives the memory that it uses.
    ring: BufferRing,
    /// As the kernel takes it, at a place that stays.
    address: Box<SocketAddrAny>,
    lines: Vec<Line>,
    /// What is being sent; whose it is by line and generation; which of them are free.
    slots: Vec<Vec<u8>>,
    owners: Vec<(u32, u32)>,
    free: Vec<u32>,
    /// Whether the ring has a table of the lines' sockets.
    has_table: bool,
    /// Whether one request takes all that comes on a line.
    kept: bool,
}

impl UringClient {
    /// A ring for so many lines, all to one address, of which the first `asking` send up to
    /// `request_bytes` at a time and get answers of about `answer_bytes`. Whether their
    /// connections are `kept` decides how it is made, not what it can do. It is to be used by the
    /// thread that made it.
    ///
    /// # Errors
    /// What io_uring_setup(2) and io_uring_register(2) answer: EPERM or ENOSYS where io_uring is
    /// forbidden or missing, EINVAL where the kernel is too old.
    pub fn new(
        address: SocketAddr,
        lines: u32,
        asking: u32,
        [request_bytes, answer_bytes]: [usize; 2],
        kept: bool,
    ) -> io::Result<UringClient> {
        let asking = asking.min(lines);
        let completions = (2 * lines)
            .next_power_of_two()
            .clamp(2 * ENTRIES, MOST_COMPLETIONS);
        let (buffers, bytes_each) = pool(lines, answer_bytes);
        let ring = BufferRing::new(ENTRIES, completions, buffers, bytes_each)?;
        // Where it cannot be had (it counts against RLIMIT_NOFILE), descriptors do as well.
        let has_table = kept && ring.ring.submitter().register_files_sparse(lines).is_ok();
        Ok(UringClient {
            ring,
            address: Box::new(address.into()),
            lines: (0..lines).map(|_| Line::default()).collect(),
            slots: (0..asking)
                .map(|_| Vec::with_capacity(request_bytes))
                .collect(),
            owners: vec![(0, 0); asking as usize],
            free: (0..asking).rev().collect(),
            has_table,
            kept,
        })
    }

    /// Has a line connect by a socket that does so nowhere yet; [`ClientEvent::Connected`] tells the rest.
    /// What the line had before is hung up. A line that there is not is an error.
    ///
    /// # Errors
    /// What io_uring_enter(2) and io_uring_register(2) answer.
    pub fn connect(&mut self, line: u32, socket: OwnedFd) -> io::Result<()> {
        self.hang_up(line);
        let fd = socket.as_raw_fd();
        if self.has_table {
            self.set_file(line, fd)?;
        }
        let place = self.line(line)?;
        place.socket = Some(socket);
        place.connects = true;
        let tag = place.tag(CONNECT, line);
        let (to, length) = (self.address.as_ptr().cast(), self.address.addr_len());
        let (fd, flags) = self.named(line, fd);
        let entry = opcode::Connect::new(fd, to, length).build();
        self.push(entry.flags(flags), tag)
    }

    /// Sends all that `compose` appends; [`ClientEvent::Sent`] tells when that is done. Until then the
    /// line takes nothing more. Allocates nothing up to the size that the ring was made for.
    ///
    /// # Errors
    /// `WouldBlock` while something is being sent, `NotConnected` where the line has no
    /// connection, and what io_uring_enter(2) answers.
    pub fn send(&mut self, line: u32, compose: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let place = self.line(line)?;
        let generation = place.generation;
        let Some(fd) = place.socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if place.slot.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            // What was sent last on another line has not come to its end yet.
            self.slots.push(Vec::new());
            self.owners.push((0, 0));
            self.slots.len() as u32 - 1
        });
        let memory = &mut self.slots[slot as usize];
        memory.clear();
        compose(memory);
        let length = u32::try_from(memory.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (from, flags) = (memory.as_ptr(), libc::MSG_WAITALL | libc::MSG_NOSIGNAL);
        let (fd, named) = self.named(line, fd);
        let entry = opcode::Send::new(fd, from, length).flags(flags).build();
        self.owners[slot as usize] = (line, generation);
        self.lines[line as usize].slot = Some(slot);
        self.push(entry.flags(named), SEND | u64::from(slot))?;
        self.ring.outstanding += 1;
        self.listen(line)
    }

    /// Has what comes on a line told, if it is not already. A line does so by itself when it is
    /// connected, where connections are kept, or when it sends; afterwards it is to be called for
    /// what follows a piece.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn listen(&mut self, line: u32) -> io::Result<()> {
        let place = self.line(line)?;
        if place.receives || place.connects {
            return Ok(());
        }
        let Some(fd) = place.socket.as_ref().map(AsRawFd::as_raw_fd) else {
            return Ok(());
        };
        place.receives = true;
        let tag = place.tag(RECEIVE, line);
        let (fd, flags) = self.named(line, fd);
        let entry = match self.kept {
            true => opcode::RecvMulti::new(fd, BufferRing::GROUP).build(),
            // One answer is all that comes, and there is none yet.
            false => opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .ioprio(POLL_FIRST)
                .buf_group(BufferRing::GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
        };
        self.push(entry.flags(flags), tag)?;
        self.ring.outstanding += 1;
        Ok(())
    }

    /// Gives a line's connection up. What is under way on it ends, and is not told.
    pub fn hang_up(&mut self, line: u32) {
        let Some(place) = self.lines.get_mut(line as usize) else {
            return;
        };
        let (connects, receives) = (place.connects, place.receives);
        let tags = [CONNECT, RECEIVE].map(|kind| place.tag(kind, line));
        let slot = place.slot.take();
        place.next_generation();
        (place.connects, place.receives) = (false, false);
        let Some(socket) = place.socket.take() else {
            return;
        };
        if connects || receives || slot.is_some() {
            // What is queued names the connection by a number that the next one may get.
            let _ = self.ring.submit();
            let wanted = [(connects, tags[0]), (receives, tags[1])];
            let sends = slot.map(|slot| (true, SEND | u64::from(slot)));
            for (_, tag) in wanted.into_iter().chain(sends).filter(|(is, _)| *is) {
                let builder = CancelBuilder::user_data(tag);
                let entry = opcode::AsyncCancel2::new(builder).build();
                let _ = self.push(entry, CANCEL);
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

    /// How a request names a line's socket: by its place in the table, where there is one.
    fn named(&self, line: u32, fd: RawFd) -> (Fd, squeue::Flags) {
        match self.has_table {
            true => (Fd(line as RawFd), squeue::Flags::FIXED_FILE),
            false => (Fd(fd), squeue::Flags::empty()),
        }
    }

    /// Puts a socket into the table's place of a line; -1 is none.
    fn set_file(&self, line: u32, fd: RawFd) -> io::Result<usize> {
        let submitter = self.ring.ring.submitter();
        submitter.register_files_update(line, &[fd])
    }

    fn push(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        // SAFETY: a request uses only memory that this ring owns: the pool, the address, and
        // slots, which are not written to between the push and the completion.
        unsafe { self.ring.push(&entry.user_data(tag)) }
    }

    /// Hands over what was asked for and takes in what has come, and waits for nothing. One
    /// system call.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn turn(&mut self) -> io::Result<()> {
        let ring = &mut self.ring.ring;
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
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.ring.wait(Some(time))
    }

    /// Whether something has come that was not told.
    pub fn has_rung(&mut self) -> bool {
        !self.ring.ring.completion().is_empty()
    }

    /// The next thing that has come already.
    pub fn next_rang(&mut self) -> Option<ClientEvent> {
        loop {
            let entry = self.ring.next()?;
            let (tag, flags) = (entry.user_data(), entry.flags());
            let result = answer(&entry);
            let told = match tag & KINDS {
                CONNECT => self.connected(tag, result),
                RECEIVE => self.received(tag, flags, result),
                SEND => self.sent(tag as u32, result),
                _ => None,
            };
            if told.is_some() {
                return told;
            }
        }
    }

    /// The line of a tag, unless it has had another connection since.
    fn rung(&mut self, tag: u64) -> Option<(u32, &mut Line)> {
        let line = tag as u32;
        let place = self.lines.get_mut(line as usize)?;
        place.has(tag).then_some((line, place))
    }

    fn connected(&mut self, tag: u64, result: io::Result<usize>) -> Option<ClientEvent> {
        let (line, place) = self.rung(tag)?;
        place.connects = false;
        let result = match result {
            Ok(_) if self.kept => self.listen(line),
            result => result.map(drop),
        };
        Some(ClientEvent::Connected(line, result))
    }

    fn received(&mut self, tag: u64, flags: u32, result: io::Result<usize>) -> Option<ClientEvent> {
        let goes_on = cqueue::more(flags);
        self.ring.outstanding -= usize::from(!goes_on);
        let length = *result.as_ref().unwrap_or(&0);
        let piece = self.ring.piece(flags, length);
        let line = self.rung(tag).map(|(line, place)| {
            place.receives = goes_on;
            line
        });
        if let (true, Some(line)) = (length > 0, line) {
            return Some(ClientEvent::Received(line, Ok(piece)));
        }
        // It is of an earlier connection, or stands for the end.
        if let Some(piece) = piece {
            self.give_back(piece);
        }
        let line = line?;
        let piece = match result {
            // Those that were used up have been given back by now.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => Err(self.listen(line).err()?),
            result => result.map(|_| None),
        };
        Some(ClientEvent::Received(line, piece))
    }

    fn sent(&mut self, slot: u32, result: io::Result<usize>) -> Option<ClientEvent> {
        self.ring.outstanding -= 1;
        self.free.push(slot);
        let (line, generation) = *self.owners.get(slot as usize)?;
        let place = self.lines.get_mut(line as usize)?;
        if place.generation != generation {
            return None;
        }
        place.slot = None;
        let result = match result {
            // A signal cut it short, which the kernel goes on after; so the connection ended.
            Ok(length) if length < self.slots[slot as usize].len() => {
                Err(io::Error::from_raw_os_error(libc::EPIPE))
            }
            result => result.map(drop),
        };
        Some(ClientEvent::Sent(line, result))
    }

    /// The bytes of a piece.
    pub fn bytes(&self, piece: &Piece) -> &[u8] {
        self.ring.bytes(piece)
    }

    /// Gives a piece's buffer back to the kernel.
    pub fn give_back(&mut self, piece: Piece) {
        self.ring.give_back(piece);
    }
}

impl Drop for UringClient {
    /// Has every request end. Memory that the kernel still uses after a second, which would be its
    /// fault, is left to it.
    fn drop(&mut self) {
        let mut goes_on = self.ring.cancel_all();
        while goes_on {
            goes_on = self.ring.wait_at_the_end();
            while let Some(entry) = self.ring.next() {
                let ends = !cqueue::more(entry.flags());
                let uses_memory = matches!(entry.user_data() & KINDS, RECEIVE | SEND);
                self.ring.outstanding -= usize::from(ends && uses_memory);
            }
        }
        if self.ring.leave_what_is_used() {
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

/// One line, which has one connection after the other.
#[derive(Default)]
struct Line {
    socket: Option<OwnedFd>,
    /// How many connections it has had, so that what comes late of an earlier one is known.
    generation: u32,
    connects: bool,
    receives: bool,
    /// Where that lies which is being sent.
    slot: Option<u32>,
}

impl Line {
    /// The tag of a request of this connection.
    fn tag(&self, kind: u64, line: u32) -> u64 {
        kind | u64::from(self.generation) << 32 | u64::from(line)
    }

    /// Has what comes late of this connection known as such.
    fn next_generation(&mut self) {
        self.generation = (self.generation + 1) % GENERATIONS;
    }

    /// Whether the tag is of this connection.
    fn has(&self, tag: u64) -> bool {
        self.generation == (tag >> 32) as u32 & (GENERATIONS - 1)
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
