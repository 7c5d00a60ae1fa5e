//! `uring`: one thread to which the kernel reports completed operations instead of ready sockets.
//!
//! One io_uring request accepts all connections (multishot accept). Another one for each connection
//! receives all its bytes (multishot receive), into buffers that all connections share, so that a
//! silent connection holds none. Responses are sent by requests too. One system call submits all
//! requests of a round and waits for completions, however many connections there are.

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

/// Entries of the submission queue and of the completion queue.
const ENTRIES: u32 = 1024;
const COMPLETIONS: u32 = 4 * ENTRIES;
/// Buffers that all connections share.
const BUFFERS: u16 = 512;
/// Bytes of unanswered requests from which on nothing more is received from a client.
const MOST_UNANSWERED_BYTES: usize = 256 << 10;
/// The largest buffer of a response that is kept for a later one, in bytes, and the number of these.
const KEPT_BYTES: usize = 64 << 10;
const MOST_KEPT: usize = 64;

struct Client {
    socket: OwnedFd,
    conversation: Conversation,
    /// True while a receive request of the client is in flight.
    receives: bool,
    /// True if the receive request is being cancelled.
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
    /// True while the accept request is in flight.
    accepts: bool,
    has_room: bool,
    /// Clients by the number of their descriptor.
    clients: Vec<Option<Client>>,
    /// The number of clients.
    open: usize,
    /// Buffers of responses that were sent.
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
                ConnectionEvent::Accepted { socket, has_more } => {
                    server.accepted(socket, has_more)?
                }
                ConnectionEvent::Received {
                    token: fd,
                    piece,
                    has_more,
                } => {
                    server.received(fd, piece, has_more)?;
                }
                ConnectionEvent::Sent {
                    token: fd,
                    sent,
                    memory,
                } => server.sent(fd, sent, memory)?,
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

    fn accepted(&mut self, taken: io::Result<OwnedFd>, has_more: bool) -> io::Result<()> {
        self.accepts = has_more;
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
            return Ok(()); // it was accepted while the server stopped
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
        let slot_index = fd as usize;
        if slot_index >= self.clients.len() {
            self.clients.resize_with(slot_index + 1, || None);
        }
        self.clients[slot_index] = Some(Client {
            socket,
            conversation: Conversation::default(),
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
        has_more: bool,
    ) -> io::Result<()> {
        let Some(Some(client)) = self.clients.get_mut(fd as usize) else {
            if let Ok(Some(piece)) = piece {
                self.ring.give_back(piece);
            }
            return Ok(());
        };
        client.receives = has_more;
        match piece {
            Ok(Some(piece)) => {
                if !client.leaves {
                    let awaited_client = client.conversation.awaits_client();
                    let (bytes, worker) = (self.ring.bytes(&piece), &mut self.worker);
                    if client.sends {
                        client.conversation.postpone(bytes);
                    } else if client.conversation.receive_bytes(worker, bytes) > 0
                        || !awaited_client
                    {
                        client.quiet_ticks = 0;
                    }
                    let is_ahead = client.conversation.unanswered_bytes() > MOST_UNANSWERED_BYTES;
                    if is_ahead && client.receives && !client.is_paused {
                        client.is_paused = true;
                        self.ring.pause(fd)?;
                    }
                }
                self.ring.give_back(piece);
            }
            Ok(None) => {
                client.conversation.end();
                client.leaves |= client.conversation.is_discarding();
            }
            // Out of buffers, or paused as too many requests waited: the next step receives again.
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::NOBUFS | Errno::CANCELED) => {}
                _ => self.broken(fd),
            },
        }
        self.next_step(fd)
    }

    fn sent(&mut self, fd: u64, sent: io::Result<usize>, mut buffer: Vec<u8>) -> io::Result<()> {
        let Some(Some(client)) = self.clients.get_mut(fd as usize) else {
            return Ok(());
        };
        client.sends = false;
        client.quiet_ticks = 0;
        match sent {
            Ok(length) if length < buffer.len() && !client.leaves => {
                // A signal or a timeout ended the send early.
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
        self.next_step(fd)
    }

    fn broken(&mut self, fd: u64) {
        let client = self.clients[fd as usize].as_mut();
        if let Some(client) = client.filter(|client| !client.leaves) {
            self.worker.tally.broken += 1;
            client.leave();
        }
    }

    /// Begins the next step of a connection: to send responses, to receive requests, or to end.
    fn next_step(&mut self, fd: u64) -> io::Result<()> {
        let Some(client) = self.clients[fd as usize].as_mut() else {
            return Ok(());
        };
        if !client.sends && !client.leaves {
            if self.worker.out.is_empty() && client.conversation.has_more() {
                client.conversation.resume(&mut self.worker);
            }
            if !self.worker.out.is_empty() {
                let next = self.kept.pop().unwrap_or_default();
                let answer = std::mem::replace(&mut self.worker.out, next);
                client.sends = true;
                self.ring.send(fd, client.socket.as_fd(), answer)?;
            } else if client.conversation.is_over() {
                client.leave();
            } else if client.conversation.is_discarding() && !client.has_ended_output {
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
        let is_ahead = client.conversation.unanswered_bytes() > MOST_UNANSWERED_BYTES;
        if !client.receives && !is_ahead && !client.conversation.is_ended() {
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
            let awaits_client = client.sends || client.conversation.awaits_client();
            let is_expired = client.conversation.is_expired();
            if is_expired || self.limits.is_late(client.quiet_ticks, awaits_client) {
                self.worker.tally.count_late(is_expired, awaits_client);
                client.leave();
                self.next_step(fd as u64)?;
            }
        }
        Ok(())
    }

    fn begin_stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            // The ring's accept request still uses the listener: this ends it.
            let _ = shutdown(&listener, Shutdown::Both);
        }
        for client in self.clients.iter().flatten() {
            let _ = shutdown(&client.socket, Shutdown::Read);
        }
    }
}

impl Client {
    /// Ends the requests in flight. The client's slot is free when they have ended.
    fn leave(&mut self) {
        self.leaves = true;
        if self.receives || self.sends {
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}
