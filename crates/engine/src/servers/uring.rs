//! `uring`: one thread that is told of what is done rather than of what could be done.
//!
//! One request to the kernel takes all connections (multishot accept), and one for each
//! connection takes all that comes on it (multishot receive), into buffers that all connections
//! share, so that a connection that is silent holds none. Answers are sent by requests as well.
//! All that is asked for and all that has happened in a round goes through one system call,
//! however many connections it concerns.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use bytecost_sys::multishot::{Happened, Multishot, Piece};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::arrival::Arrival;
use super::conversation::{Conversation, Desk, READ_BYTES};
use super::ticker::Ticker;
use crate::server::{Limits, ONE_THREAD, Server, ServerFacts, Setup, Tally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "uring",
        summary: "one thread for all connections: io_uring with multishot accept and receive",
        caution: Some(
            "connections that the kernel has taken already may exceed the limit by a few",
        ),
        ..ONE_THREAD
    },
    serve,
};

/// Requests that are handed over at once.
const ENTRIES: u32 = 1024;
/// Buffers that all connections share.
const BUFFERS: u16 = 512;
/// Bytes that a client may be ahead with its requests while its answers are being sent.
const MOST_AHEAD: usize = 256 << 10;
/// Memory of an answer that is kept for the next one, in bytes, and how many of them.
const KEPT_BYTES: usize = 64 << 10;
const MOST_KEPT: usize = 64;

/// A client, by the number of its descriptor.
struct Seat {
    socket: OwnedFd,
    talk: Conversation,
    /// Whether the kernel receives for it, and whether it is to stop that.
    receives: bool,
    is_paused: bool,
    /// Whether an answer is being sent: one at a time, since they must not pass each other.
    sends: bool,
    /// Whether it is to go as soon as the kernel has done with it.
    leaves: bool,
    has_said_farewell: bool,
    quiet_ticks: u32,
}

struct Engine {
    ring: Multishot,
    desk: Desk,
    listener: Option<OwnedFd>,
    accepts: bool,
    has_room: bool,
    seats: Vec<Option<Seat>>,
    open: usize,
    /// Memory for answers.
    kept: Vec<Vec<u8>>,
    limits: Limits,
}

fn serve(setup: Setup) -> io::Result<Tally> {
    let ticker = Ticker::new(setup.limits.tick())?;
    let (tick, stop) = (token(&ticker), token(&setup.stop));
    rustix::io::ioctl_fionbio(&setup.listener, false)?;
    let mut server = Engine {
        ring: Multishot::new(ENTRIES, BUFFERS, READ_BYTES).map_err(explained)?,
        desk: Desk::new(&setup),
        listener: Some(setup.listener),
        accepts: false,
        has_room: true,
        seats: Vec::new(),
        open: 0,
        kept: Vec::new(),
        limits: setup.limits,
    };
    server.ring.watch(stop, setup.stop.as_fd())?;
    server.ring.watch(tick, ticker.as_fd())?;
    let (mut stopping, mut over) = (false, false);
    while !(over || stopping && server.open == 0) {
        server.accept_again()?;
        server.ring.wait()?;
        while let Some(happened) = server.ring.next_happened() {
            match happened {
                Happened::Accepted { socket, goes_on } => server.accepted(socket, goes_on)?,
                Happened::Received {
                    token,
                    piece,
                    goes_on,
                } => server.received(token, piece, goes_on)?,
                Happened::Sent {
                    token,
                    sent,
                    buffer,
                } => server.sent(token, sent, buffer)?,
                Happened::Ready { token } if token == tick => {
                    if ticker.ticked() {
                        over = stopping;
                        server.tick()?;
                    }
                    server.ring.watch(tick, ticker.as_fd())?;
                }
                Happened::Ready { token } if token == stop && !stopping => {
                    stopping = true;
                    ticker.start(server.limits.grace)?;
                    server.begin_stop();
                }
                Happened::Ready { .. } => {}
            }
        }
    }
    Ok(server.desk.tally)
}

/// What is missing where a ring cannot be had.
fn explained(error: io::Error) -> io::Error {
    let text = format!(
        "no ring for a server ({error}): it needs Linux 6.1, and leave to use io_uring \
         (kernel.io_uring_disabled, seccomp)"
    );
    io::Error::new(error.kind(), text)
}

fn token(fd: &impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd() as u32
}

impl Engine {
    /// Asks for connections, if none is asked for and there is room for one.
    fn accept_again(&mut self) -> io::Result<()> {
        let listener = self
            .listener
            .as_ref()
            .filter(|_| self.has_room && !self.accepts);
        if let Some(listener) = listener {
            self.ring.accept(listener.as_fd())?;
            self.accepts = true;
        }
        Ok(())
    }

    fn accepted(&mut self, taken: io::Result<OwnedFd>, goes_on: bool) -> io::Result<()> {
        self.accepts = goes_on;
        match Arrival::of(taken) {
            Arrival::Came(socket) => self.seat(socket)?,
            Arrival::NoRoom => self.put_off(),
            Arrival::Over => self.listener = None,
            Arrival::Nobody => {}
        }
        Ok(())
    }

    fn put_off(&mut self) {
        self.has_room = false;
        self.desk.tally.put_off += 1;
    }

    fn seat(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.listener.is_none() {
            return Ok(()); // it came while the server was being stopped
        }
        self.desk.tally.connections += 1;
        self.open += 1;
        if self.open >= self.limits.connections && self.accepts {
            self.ring.stop_accepting()?;
            self.put_off();
        }
        let fd = token(&socket);
        self.ring.receive(fd, socket.as_fd())?;
        let place = fd as usize;
        if place >= self.seats.len() {
            self.seats.resize_with(place + 1, || None);
        }
        self.seats[place] = Some(Seat {
            socket,
            talk: Conversation::default(),
            receives: true,
            is_paused: false,
            sends: false,
            leaves: false,
            has_said_farewell: false,
            quiet_ticks: 0,
        });
        Ok(())
    }

    fn received(
        &mut self,
        fd: u32,
        piece: io::Result<Option<Piece>>,
        goes_on: bool,
    ) -> io::Result<()> {
        let seat = self.seats.get_mut(fd as usize).and_then(Option::as_mut);
        let Some(seat) = seat else {
            if let Ok(Some(piece)) = piece {
                self.ring.give_back(piece);
            }
            return Ok(());
        };
        seat.receives = goes_on;
        match piece {
            Ok(Some(piece)) => {
                if !seat.leaves {
                    let was_owed = seat.talk.is_owed();
                    let bytes = self.ring.bytes(&piece);
                    if seat.sends {
                        seat.talk.keep(bytes);
                    } else if seat.talk.hear_bytes(&mut self.desk, bytes) > 0 || !was_owed {
                        seat.quiet_ticks = 0;
                    }
                    if seat.talk.bytes_ahead() > MOST_AHEAD && seat.receives && !seat.is_paused {
                        seat.is_paused = true;
                        self.ring.pause(fd)?;
                    }
                }
                self.ring.give_back(piece);
            }
            Ok(None) => {
                seat.talk.end();
                seat.leaves |= seat.talk.is_discarding();
            }
            // Out of buffers, or held up because it was ahead: it is received for again.
            Err(e)
                if matches!(
                    Errno::from_io_error(&e),
                    Some(Errno::NOBUFS | Errno::CANCELED)
                ) => {}
            Err(_) => self.broken(fd),
        }
        self.go_on(fd)
    }

    fn sent(&mut self, fd: u32, sent: io::Result<usize>, mut buffer: Vec<u8>) -> io::Result<()> {
        let Some(seat) = self.seats.get_mut(fd as usize).and_then(Option::as_mut) else {
            return Ok(());
        };
        seat.sends = false;
        seat.quiet_ticks = 0;
        match sent {
            Ok(length) if length < buffer.len() && !seat.leaves => {
                // A signal or a timeout cut it short.
                buffer.drain(..length);
                seat.sends = true;
                return self.ring.send(fd, seat.socket.as_fd(), buffer);
            }
            Ok(_) => {}
            Err(_) => self.broken(fd),
        }
        if buffer.capacity() <= KEPT_BYTES && self.kept.len() < MOST_KEPT {
            buffer.clear();
            self.kept.push(buffer);
        }
        self.go_on(fd)
    }

    /// The connection is of no more use.
    fn broken(&mut self, fd: u32) {
        if let Some(seat) = self.seats[fd as usize].as_mut().filter(|seat| !seat.leaves) {
            self.desk.tally.broken += 1;
            seat.leave();
        }
    }

    /// What follows for a connection now: its next answer, its next request, or its end.
    fn go_on(&mut self, fd: u32) -> io::Result<()> {
        let Some(seat) = self.seats[fd as usize].as_mut() else {
            return Ok(());
        };
        if !seat.sends && !seat.leaves {
            if self.desk.out.is_empty() && seat.talk.has_more() {
                seat.talk.go_on(&mut self.desk);
            }
            if !self.desk.out.is_empty() {
                let next = self.kept.pop().unwrap_or_default();
                let answer = std::mem::replace(&mut self.desk.out, next);
                seat.sends = true;
                self.ring.send(fd, seat.socket.as_fd(), answer)?;
            } else if seat.talk.is_over() {
                seat.leave();
            } else if seat.talk.is_discarding() && !seat.has_said_farewell {
                seat.has_said_farewell = true;
                let _ = shutdown(&seat.socket, Shutdown::Write);
            }
        }
        self.desk.out.clear();
        if seat.leaves {
            if !seat.receives && !seat.sends {
                self.seats[fd as usize] = None;
                self.open -= 1;
                self.has_room = true;
            }
            return Ok(());
        }
        let is_ahead = seat.talk.bytes_ahead() > MOST_AHEAD;
        if !seat.receives && !is_ahead && !seat.talk.is_ended() {
            seat.receives = true;
            seat.is_paused = false;
            self.ring.receive(fd, seat.socket.as_fd())?;
        }
        Ok(())
    }

    /// Has everyone go who is out of time.
    fn tick(&mut self) -> io::Result<()> {
        self.has_room = true;
        for fd in 0..self.seats.len() {
            let Some(seat) = self.seats[fd].as_mut().filter(|seat| !seat.leaves) else {
                continue;
            };
            seat.quiet_ticks = seat.quiet_ticks.saturating_add(1);
            let is_owed = seat.sends || seat.talk.is_owed();
            if self.limits.is_late(seat.quiet_ticks, is_owed) {
                self.desk.tally.timed_out += 1;
                seat.leave();
                self.go_on(fd as u32)?;
            }
        }
        Ok(())
    }

    /// Lets nobody in any more, and ends everyone's input.
    fn begin_stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            // The request for connections has the listener still: this ends it.
            let _ = shutdown(&listener, Shutdown::Both);
        }
        for seat in self.seats.iter().flatten() {
            let _ = shutdown(&seat.socket, Shutdown::Read);
        }
    }
}

impl Seat {
    /// Has what is under way end; the seat is free when it has.
    fn leave(&mut self) {
        self.leaves = true;
        if self.receives || self.sends {
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}
