//! `uring`: one thread that learns of completed operations instead of ready sockets.
//!
//! One request to the kernel takes all connections (multishot accept), and one for each
//! connection takes all that comes on it (multishot receive), into buffers that all connections
//! share, so that a connection that is silent holds none. Answers are sent by requests as well.
//! All that is asked for and all that has happened in a round goes through one system call,
//! however many connections it concerns.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use bytecost_sys::uring_connections::{ConnectionEvent, Piece, UringConnections};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::accepted::Accepted;
use super::address_limit::{AddressLimit, AddressSlot};
use super::conversation::{Conversation, READ_BYTES, Worker};
use super::ticker::Ticker;
use crate::servers::{Limits, ONE_THREAD, Server, ServerFacts, ServerSetup, ServerTally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "uring",
        summary: "one thread for all connections: io_uring with multishot accept and receive",
        caution: Some(
            "connections that the kernel has taken already may exceed the limit by a few",
        ),
        uses_uring: true,
        needs_linux: Some((6, 0)),
        ..ONE_THREAD
    },
    serve,
};

/// Requests that are handed over at once, and completions to which they lead.
const ENTRIES: u32 = 1024;
const COMPLETIONS: u32 = 4 * ENTRIES;
/// Buffers that all connections share.
const BUFFERS: u16 = 512;
/// Bytes that a client may be ahead with its requests while its answers are being sent.
const MOST_AHEAD: usize = 256 << 10;
/// Memory of an answer that is kept for the next one, in bytes, and how many of them.
const KEPT_BYTES: usize = 64 << 10;
const MOST_KEPT: usize = 64;

/// A client, by the number of its descriptor.
struct Client {
    socket: OwnedFd,
    talk: Conversation,
    /// True while the kernel receives for it.
    receives: bool,
    /// True if it is to stop receiving.
    is_paused: bool,
    /// True while a response is being sent: one at a time, since they must stay in order.
    sends: bool,
    leaves: bool,
    has_ended_output: bool,
    quiet_ticks: u32,
    _slot: AddressSlot,
}

struct Engine {
    ring: UringConnections,
    worker: Worker,
    listener: Option<OwnedFd>,
    accepts: bool,
    has_room: bool,
    clients: Vec<Option<Client>>,
    open: usize,
    kept: Vec<Vec<u8>>,
    addresses: AddressLimit,
    limits: Limits,
}

fn serve(setup: ServerSetup) -> io::Result<ServerTally> {
    let ticker = Ticker::new(setup.limits.tick())?;
    let (tick, stop) = (token(&ticker), token(&setup.stop));
    rustix::io::ioctl_fionbio(&setup.listener, false)?;
    let ring = UringConnections::new(ENTRIES, COMPLETIONS, BUFFERS, READ_BYTES);
    let mut server = Engine {
        ring: ring.map_err(explained)?,
        worker: Worker::new(&setup),
        addresses: AddressLimit::new(&setup.limits),
        listener: Some(setup.listener),
        accepts: false,
        has_room: true,
        clients: Vec::new(),
        open: 0,
        kept: Vec::new(),
        limits: setup.limits,
    };
    server.ring.watch(stop, setup.stop.as_fd())?;
    server.ring.watch(tick, ticker.as_fd())?;
    let (mut stopping, mut over) = (false, false);
    while !(over || stopping && server.open == 0) {
        server.accept_again()?;
        server.ring.wait(None)?;
        while let Some(happened) = server.ring.next_event() {
            match happened {
                ConnectionEvent::Accepted(socket, goes_on) => server.accepted(socket, goes_on)?,
                ConnectionEvent::Received(fd, piece, goes_on) => {
                    server.received(fd, piece, goes_on)?;
                }
                ConnectionEvent::Sent(fd, sent, buffer) => server.sent(fd, sent, buffer)?,
                ConnectionEvent::Ready(token) if token == tick => {
                    if ticker.ticked() {
                        over = stopping;
                        server.tick()?;
                    }
                    server.ring.watch(tick, ticker.as_fd())?;
                }
                ConnectionEvent::Ready(token) if token == stop && !stopping => {
                    stopping = true;
                    ticker.start(server.limits.grace)?;
                    server.begin_stop();
                }
                ConnectionEvent::Connected(..) | ConnectionEvent::Ready(_) => {}
            }
        }
    }
    Ok(server.worker.tally)
}

/// The error of a ring that cannot be set up, with its likely cause.
fn explained(error: io::Error) -> io::Error {
    let text = format!(
        "no ring for a server ({error}): it needs Linux 6.1, and leave to use io_uring \
         (kernel.io_uring_disabled, seccomp)"
    );
    io::Error::new(error.kind(), text)
}

fn token(fd: &impl AsFd) -> u64 {
    fd.as_fd().as_raw_fd() as u64
}

impl Engine {
    fn accept_again(&mut self) -> io::Result<()> {
        if let Some(listener) = &self.listener
            && self.has_room
            && !self.accepts
        {
            self.ring.accept(listener.as_fd())?;
            self.accepts = true;
        }
        Ok(())
    }

    fn accepted(&mut self, taken: io::Result<OwnedFd>, goes_on: bool) -> io::Result<()> {
        self.accepts = goes_on;
        match Accepted::of(taken) {
            Accepted::Socket(socket) => self.register(socket)?,
            Accepted::NoRoom => self.put_off(),
            Accepted::Closed => self.listener = None,
            Accepted::None => {}
        }
        Ok(())
    }

    fn put_off(&mut self) {
        self.has_room = false;
        self.worker.tally.put_off += 1;
    }

    fn register(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.listener.is_none() {
            return Ok(()); // it came while the server was being stopped
        }
        let Some(slot) = self.addresses.admit(&socket) else {
            self.worker.tally.crowded += 1;
            return Ok(());
        };
        self.worker.tally.connections += 1;
        self.open += 1;
        if self.open >= self.limits.connections && self.accepts {
            self.ring.stop_accepting()?;
            self.put_off();
        }
        let fd = token(&socket);
        self.ring.receive(fd, socket.as_fd())?;
        let place = fd as usize;
        if place >= self.clients.len() {
            self.clients.resize_with(place + 1, || None);
        }
        self.clients[place] = Some(Client {
            socket,
            talk: Conversation::default(),
            receives: true,
            is_paused: false,
            sends: false,
            leaves: false,
            has_ended_output: false,
            quiet_ticks: 0,
            _slot: slot,
        });
        Ok(())
    }

    fn received(
        &mut self,
        fd: u64,
        piece: io::Result<Option<Piece>>,
        goes_on: bool,
    ) -> io::Result<()> {
        let Some(Some(client)) = self.clients.get_mut(fd as usize) else {
            if let Ok(Some(piece)) = piece {
                self.ring.give_back(piece);
            }
            return Ok(());
        };
        client.receives = goes_on;
        match piece {
            Ok(Some(piece)) => {
                if !client.leaves {
                    let was_owed = client.talk.is_owed();
                    let bytes = self.ring.bytes(&piece);
                    if client.sends {
                        client.talk.keep(bytes);
                    } else if client.talk.hear_bytes(&mut self.worker, bytes) > 0 || !was_owed {
                        client.quiet_ticks = 0;
                    }
                    let is_ahead = client.talk.bytes_ahead() > MOST_AHEAD;
                    if is_ahead && client.receives && !client.is_paused {
                        client.is_paused = true;
                        self.ring.pause(fd)?;
                    }
                }
                self.ring.give_back(piece);
            }
            Ok(None) => {
                client.talk.end();
                client.leaves |= client.talk.is_discarding();
            }
            // Out of buffers, or held up because it was ahead: it is received for again.
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::NOBUFS | Errno::CANCELED) => {}
                _ => self.broken(fd),
            },
        }
        self.go_on(fd)
    }

    fn sent(&mut self, fd: u64, sent: io::Result<usize>, mut buffer: Vec<u8>) -> io::Result<()> {
        let Some(Some(client)) = self.clients.get_mut(fd as usize) else {
            return Ok(());
        };
        client.sends = false;
        client.quiet_ticks = 0;
        match sent {
            Ok(length) if length < buffer.len() && !client.leaves => {
                // A signal or a timeout cut it short.
                buffer.drain(..length);
                client.sends = true;
                return self.ring.send(fd, client.socket.as_fd(), buffer);
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

    fn broken(&mut self, fd: u64) {
        let client = self.clients[fd as usize].as_mut();
        if let Some(client) = client.filter(|client| !client.leaves) {
            self.worker.tally.broken += 1;
            client.leave();
        }
    }

    /// Begins the next step of a connection: its next answer, its next request, or its end.
    fn go_on(&mut self, fd: u64) -> io::Result<()> {
        let Some(client) = self.clients[fd as usize].as_mut() else {
            return Ok(());
        };
        if !client.sends && !client.leaves {
            if self.worker.out.is_empty() && client.talk.has_more() {
                client.talk.go_on(&mut self.worker);
            }
            if !self.worker.out.is_empty() {
                let next = self.kept.pop().unwrap_or_default();
                let answer = std::mem::replace(&mut self.worker.out, next);
                client.sends = true;
                self.ring.send(fd, client.socket.as_fd(), answer)?;
            } else if client.talk.is_over() {
                client.leave();
            } else if client.talk.is_discarding() && !client.has_ended_output {
                client.has_ended_output = true;
                let _ = shutdown(&client.socket, Shutdown::Write);
            }
        }
        self.worker.out.clear();
        if client.leaves {
            if !client.receives && !client.sends {
                self.clients[fd as usize] = None;
                self.open -= 1;
                self.has_room = true;
            }
            return Ok(());
        }
        let is_ahead = client.talk.bytes_ahead() > MOST_AHEAD;
        if !client.receives && !is_ahead && !client.talk.is_ended() {
            client.receives = true;
            client.is_paused = false;
            self.ring.receive(fd, client.socket.as_fd())?;
        }
        Ok(())
    }

    fn tick(&mut self) -> io::Result<()> {
        self.has_room = true;
        for fd in 0..self.clients.len() {
            let Some(client) = self.clients[fd].as_mut().filter(|client| !client.leaves) else {
                continue;
            };
            client.quiet_ticks = client.quiet_ticks.saturating_add(1);
            let is_owed = client.sends || client.talk.is_owed();
            if self.limits.is_late(client.quiet_ticks, is_owed) {
                self.worker.tally.count_late(is_owed);
                client.leave();
                self.go_on(fd as u64)?;
            }
        }
        Ok(())
    }

    fn begin_stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            // The request for connections has the listener still: this ends it.
            let _ = shutdown(&listener, Shutdown::Both);
        }
        for client in self.clients.iter().flatten() {
            let _ = shutdown(&client.socket, Shutdown::Read);
        }
    }
}

impl Client {
    /// Has what is under way end; its place is free when it has.
    fn leave(&mut self) {
        self.leaves = true;
        if self.receives || self.sends {
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}
