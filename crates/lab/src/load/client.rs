//! One client of the load generator: its requests, and the check of its responses.

use std::collections::VecDeque;

use bytecost_engine::Service;
use bytecost_engine::services::{Framing, MOST_ANSWER_BYTES, Requester, ServiceSetup};

use super::outcome::LoadError;

/// The times of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The time at which it was to be sent: latency counts from here.
    pub(super) intended_ns: u64,
    pub(super) sent_ns: u64,
}

impl Due {
    pub(super) fn at(now_ns: u64) -> Due {
        Due {
            intended_ns: now_ns,
            sent_ns: now_ns,
        }
    }
}

/// The wire format of the service under load.
pub(super) struct Codec {
    pub(super) requester: Box<dyn Requester>,
    pub(super) framing: Framing,
}

impl Codec {
    pub(super) fn new(service: &Service, asking: &ServiceSetup) -> Codec {
        Codec {
            requester: (service.requester)(asking),
            framing: (service.response_framing)(asking.size),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// It has no connection, or waits until the driver lets it continue.
    Resting,
    Connecting,
    /// It can send requests, or waits for responses.
    Connected,
    /// All its requests are made.
    Done,
}

pub(super) struct Client {
    /// The number that its requests carry.
    id: u32,
    pub(super) state: ClientState,
    /// Requests made so far, those that failed included.
    pub(super) asked: u64,
    /// Requests that have no answer yet, oldest first.
    pub(super) under_way: VecDeque<Due>,
    /// The request that it connects for, where it is for one, and when that began.
    pub(super) connecting_for: Due,
    /// Number of the last requests that are not sent whole yet.
    pub(super) unsent: usize,
    /// A request that is made as soon as the one before is sent whole.
    pub(super) deferred: Option<Due>,
    /// Bytes of the next answer that have come and are right.
    received: usize,
    /// An answer that is a line and has come in part.
    line: Vec<u8>,
}

impl Client {
    pub(super) fn new(id: u32, depth: usize) -> Client {
        Client {
            id,
            state: ClientState::Resting,
            asked: 0,
            under_way: VecDeque::with_capacity(depth),
            connecting_for: Due::at(0),
            unsent: 0,
            deferred: None,
            received: 0,
            line: Vec::new(),
        }
    }

    /// Forgets the connection, and returns the number of requests that are lost with it.
    pub(super) fn disconnect(&mut self) -> usize {
        let lost = self.under_way.len();
        self.state = ClientState::Resting;
        self.under_way.clear();
        self.unsent = 0;
        self.deferred = None;
        self.received = 0;
        self.line.clear();
        lost
    }

    /// Makes the next requests, which are to be composed and sent.
    pub(super) fn ask(&mut self, due: Due, times: usize) {
        self.under_way.extend(std::iter::repeat_n(due, times));
        self.asked += times as u64;
        self.unsent = times;
    }

    pub(super) fn compose(&self, requester: &dyn Requester, out: &mut Vec<u8>) {
        for number in self.asked - self.unsent as u64..self.asked {
            requester.append_request(self.id, number, out);
        }
    }

    /// Checks received bytes, and returns the number of responses that they complete, to the oldest of
    /// `under_way`.
    pub(super) fn receive(&mut self, codec: &Codec, mut bytes: &[u8]) -> Result<usize, LoadError> {
        let mut complete = 0;
        while !bytes.is_empty() {
            if complete == self.under_way.len() {
                return Err(LoadError::Wrong); // nobody asked for this
            }
            let number = self.asked - (self.under_way.len() - complete) as u64;
            let (used, is_complete) = match codec.framing {
                Framing::Size(size) => {
                    self.receive_piece(&*codec.requester, number, size, bytes)?
                }
                Framing::Line => self.receive_line(&*codec.requester, number, bytes)?,
            };
            complete += usize::from(is_complete);
            bytes = &bytes[used..];
        }
        Ok(complete)
    }

    fn receive_piece(
        &mut self,
        requester: &dyn Requester,
        number: u64,
        size: usize,
        bytes: &[u8],
    ) -> Result<(usize, bool), LoadError> {
        let piece = &bytes[..bytes.len().min(size - self.received)];
        if !requester.is_right(self.id, number, self.received, piece) {
            return Err(LoadError::Wrong);
        }
        self.received += piece.len();
        let is_complete = self.received == size;
        if is_complete {
            self.received = 0;
        }
        Ok((piece.len(), is_complete))
    }

    fn receive_line(
        &mut self,
        requester: &dyn Requester,
        number: u64,
        bytes: &[u8],
    ) -> Result<(usize, bool), LoadError> {
        let end = bytes.iter().position(|b| *b == b'\n');
        let piece = &bytes[..end.map_or(bytes.len(), |at| at + 1)];
        if self.line.len() + piece.len() > MOST_ANSWER_BYTES {
            return Err(LoadError::Wrong);
        }
        let is_whole = end.is_some() && self.line.is_empty();
        if !is_whole {
            self.line.extend_from_slice(piece);
        }
        if end.is_none() {
            return Ok((piece.len(), false));
        }
        let line = if is_whole { piece } else { &self.line };
        let is_right = requester.is_right(self.id, number, 0, line);
        self.line.clear();
        (is_right.then_some((piece.len(), true))).ok_or(LoadError::Wrong)
    }
}
