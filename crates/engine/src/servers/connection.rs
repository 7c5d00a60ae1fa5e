//! A client that is being served: its socket, and what has been said.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::address_limit::AddressSlot;
use super::conversation::{Conversation, Worker};

/// A read of fewer bytes than this that completes no request is a crumb.
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
    /// By level: who has a turn again learns of it by the room that there is.
    pub(super) fn is_to_write(self) -> bool {
        matches!(self, Wants::Write | Wants::Turn)
    }
}

pub(super) struct Connection<S = OwnedFd> {
    pub(super) socket: S,
    talk: Conversation,
    /// The rest of an answer that the socket had no room for, and how much of it is sent.
    unsent: Vec<u8>,
    sent: usize,
    /// When some of an answer was left for the first time, where answers have a bound.
    unsent_since: Option<Instant>,
    /// Ticks since something was last brought to an end.
    quiet_ticks: u32,
    /// Reads of next to nothing since then.
    pub(super) crumbs: u32,
    has_ended_output: bool,
    is_cut_off: bool,
    _slot: AddressSlot,
}

impl<S: AsFd> Connection<S> {
    pub(super) fn new(socket: S, slot: AddressSlot) -> Connection<S> {
        Connection {
            socket,
            talk: Conversation::default(),
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

    /// Reads once, answers, and sends as much as can be sent. A blocking socket waits until
    /// something has come; [`Wants::Read`] and [`Wants::Write`] then mean that its timeout has
    /// passed.
    pub(super) fn step(&mut self, worker: &mut Worker) -> Wants {
        match self.send_rest(worker) {
            Ok(Wants::Heard) => {}
            Ok(other) => return other,
            Err(_) => return broken(worker),
        }
        if self.talk.has_more() {
            // The answers so far were too many to be sent at once. Nothing was read this time, so
            // there may be more.
            worker.out.clear();
            self.talk.go_on(worker);
            return self.speak(worker, Wants::More);
        }
        match rustix::net::recv(&self.socket, &mut worker.buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => {
                self.talk.end();
                Wants::Close
            }
            Ok((length, _)) => {
                let was_owed = self.talk.is_owed();
                worker.out.clear();
                let answered = self.talk.hear(worker, length);
                if answered > 0 || !was_owed {
                    self.quiet_ticks = 0;
                    self.crumbs = 0;
                } else if length < CRUMB_BYTES {
                    self.crumbs += 1;
                }
                // A read that did not fill the buffer took all that there was, epoll(7).
                let next = if length < worker.buffer.len() {
                    Wants::Heard
                } else {
                    Wants::More
                };
                self.speak(worker, next)
            }
            Err(Errno::AGAIN) => Wants::Read,
            Err(Errno::INTR) => Wants::More,
            Err(_) => broken(worker),
        }
    }

    /// Sends what lies in the worker's `out`; what follows is `next` if there was room for it all.
    fn speak(&mut self, worker: &mut Worker, next: Wants) -> Wants {
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

    /// The wait for room for the remainder of a response, or the end if it has taken too long in all.
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

    /// [`Wants::Heard`] where nothing is left.
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
        if self.talk.is_discarding() {
            self.end_output();
        }
        Ok(Wants::Heard)
    }

    fn after_sending(&mut self, next: Wants) -> Wants {
        if self.talk.is_over() {
            return Wants::Close;
        }
        if self.talk.is_discarding() {
            self.end_output();
        }
        if self.talk.has_more() {
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

    /// Returns true if the client owes something: the remainder of a request, or the receipt of its response.
    pub(super) fn is_owed(&self) -> bool {
        !self.unsent.is_empty() || self.talk.is_owed()
    }

    /// Counts a tick, and returns the number of ticks since something was completed.
    pub(super) fn tick(&mut self) -> u32 {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        self.quiet_ticks
    }

    /// Shuts the socket, so that whoever serves it next finds the end; false where that was done
    /// before and nobody has come to it yet.
    pub(super) fn cut_off(&mut self) -> bool {
        // It may be gone already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        !std::mem::replace(&mut self.is_cut_off, true)
    }

    /// Ends the input: bytes that have arrived are still read, then follows the end.
    pub(super) fn end_input(&self) {
        // It may be gone already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }
}

fn send(socket: impl AsFd, bytes: &[u8]) -> rustix::io::Result<usize> {
    // Without NOSIGNAL a client that went away would kill the server by SIGPIPE.
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
}

fn broken(worker: &mut Worker) -> Wants {
    worker.tally.broken += 1;
    Wants::Close
}
