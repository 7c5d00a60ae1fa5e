//! The connection of a client to a server: its socket, its requests, and its unsent responses.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::address_limit::AddressSlot;
use super::conversation::{Conversation, Worker};

/// A read of fewer bytes than this that completes no request counts as a crumb.
const CRUMB_BYTES: usize = 512;

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// Bytes arrive: there were none.
    Read,
    /// More bytes arrive: all earlier ones are processed.
    Heard,
    /// The next read: there may be more bytes.
    More,
    /// The next turn: there are more requests than are answered in one turn.
    Turn,
    /// Room for the remainder of a response. Until then nothing is read.
    Write,
    /// It is over, and the socket is to be closed.
    Close,
}

impl Wants {
    /// Returns true if the connection waits until its socket is writable. A connection whose turn is over
    /// does too: its socket is writable, and level-triggered events report that at once.
    pub(super) fn is_to_write(self) -> bool {
        matches!(self, Wants::Write | Wants::Turn)
    }
}

pub(super) struct Connection<S = OwnedFd> {
    pub(super) socket: S,
    conversation: Conversation,
    /// The remainder of responses for which the socket had no room.
    unsent: Vec<u8>,
    /// Bytes of `unsent` that are sent by now.
    sent: usize,
    /// The first time at which a response did not fit; only where the time of responses has a bound.
    unsent_since: Option<Instant>,
    /// Ticks since a request or a response was last completed.
    quiet_ticks: u32,
    /// Reads of fewer than [`CRUMB_BYTES`] since then that completed no request.
    pub(super) crumbs: u32,
    has_ended_output: bool,
    is_cut_off: bool,
    _slot: AddressSlot,
}

impl<S: AsFd> Connection<S> {
    pub(super) fn new(socket: S, slot: AddressSlot) -> Connection<S> {
        Connection {
            socket,
            conversation: Conversation::default(),
            unsent: Vec::new(),
            sent: 0,
            unsent_since: None,
            quiet_ticks: 0,
            crumbs: 0,
            has_ended_output: false,
            is_cut_off: false,
            _slot: slot,
        }
    }

    /// Reads once, answers, and sends as much as there is room for. A blocking socket waits for bytes
    /// and for room; [`Wants::Read`] and [`Wants::Write`] then mean that its timeout has passed.
    pub(super) fn step(&mut self, worker: &mut Worker) -> Wants {
        match self.send_rest(worker) {
            Ok(Wants::Heard) => {}
            Ok(other) => return other,
            Err(_) => return broken(worker),
        }
        if self.conversation.has_more() {
            // More requests than one turn answers were received. Nothing is read in this step, so that
            // there may be more bytes.
            worker.out.clear();
            self.conversation.resume(worker);
            return self.send_responses(worker, Wants::More);
        }
        match rustix::net::recv(&self.socket, &mut worker.buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => {
                self.conversation.end();
                Wants::Close
            }
            Ok((length, _)) => {
                let awaited_client = self.conversation.awaits_client();
                worker.out.clear();
                let answered = self.conversation.receive(worker, length);
                if answered > 0 || !awaited_client {
                    self.quiet_ticks = 0;
                    self.crumbs = 0;
                } else if length < CRUMB_BYTES {
                    self.crumbs += 1;
                }
                // A read that did not fill the buffer has read all bytes, epoll(7).
                let next = if length < worker.buffer.len() {
                    Wants::Heard
                } else {
                    Wants::More
                };
                self.send_responses(worker, next)
            }
            Err(Errno::AGAIN) => Wants::Read,
            Err(Errno::INTR) => Wants::More,
            Err(_) => broken(worker),
        }
    }

    /// Sends the responses in the worker's `out`. Returns `next` if there was room for all of them.
    fn send_responses(&mut self, worker: &mut Worker, next: Wants) -> Wants {
        let mut sent = 0;
        while sent < worker.out.len() {
            match send(&self.socket, &worker.out[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.unsent.extend_from_slice(&worker.out[sent..]);
                    return self.wants_room(worker);
                }
                Err(_) => return broken(worker),
            }
            if sent < worker.out.len() && self.wants_room(worker) == Wants::Close {
                return Wants::Close;
            }
        }
        self.unsent_since = None;
        self.after_sending(next)
    }

    /// [`Wants::Write`], or [`Wants::Close`] if the responses have not fitted for too long.
    fn wants_room(&mut self, worker: &mut Worker) -> Wants {
        let Some(most) = worker.response else {
            return Wants::Write;
        };
        let since = self.unsent_since.get_or_insert_with(Instant::now);
        if since.elapsed() <= most {
            return Wants::Write;
        }
        worker.tally.slow += 1;
        Wants::Close
    }

    /// Sends the remainder of earlier responses. Returns [`Wants::Heard`] if all of it is sent.
    fn send_rest(&mut self, worker: &mut Worker) -> rustix::io::Result<Wants> {
        while self.sent < self.unsent.len() {
            match send(&self.socket, &self.unsent[self.sent..]) {
                Ok(n) => {
                    self.sent += n;
                    self.quiet_ticks = 0;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(self.wants_room(worker)),
                Err(e) => return Err(e),
            }
            if self.sent < self.unsent.len() && self.wants_room(worker) == Wants::Close {
                return Ok(Wants::Close);
            }
        }
        self.unsent_since = None;
        self.unsent = Vec::new();
        self.sent = 0;
        if self.conversation.is_discarding() {
            self.end_output();
        }
        Ok(Wants::Heard)
    }

    fn after_sending(&mut self, next: Wants) -> Wants {
        if self.conversation.is_over() {
            return Wants::Close;
        }
        if self.conversation.is_discarding() {
            self.end_output();
        }
        if self.conversation.has_more() {
            return Wants::Turn;
        }
        next
    }

    fn end_output(&mut self) {
        if !self.has_ended_output {
            self.has_ended_output = true;
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Returns true if the lifetime of the connection has passed.
    pub(super) fn is_expired(&self) -> bool {
        self.conversation.is_expired()
    }

    /// Returns true if the server waits for the client to send the remainder of a request, or to receive a
    /// response.
    pub(super) fn awaits_client(&self) -> bool {
        !self.unsent.is_empty() || self.conversation.awaits_client()
    }

    /// Counts a tick, and returns the number of ticks since something was completed.
    pub(super) fn tick(&mut self) -> u32 {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        self.quiet_ticks
    }

    /// Shuts the socket down, so that the next read of a worker finds its end. Returns false if it was
    /// shut down before.
    pub(super) fn cut_off(&mut self) -> bool {
        // The client may have closed it already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        !std::mem::replace(&mut self.is_cut_off, true)
    }

    /// Ends the input: workers still read bytes that have arrived, and then the end.
    pub(super) fn end_input(&self) {
        // The client may have closed it already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }
}

fn send(socket: impl AsFd, bytes: &[u8]) -> rustix::io::Result<usize> {
    // Without NOSIGNAL a client that has closed its socket would end the server by SIGPIPE.
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
}

fn broken(worker: &mut Worker) -> Wants {
    worker.tally.broken += 1;
    Wants::Close
}
