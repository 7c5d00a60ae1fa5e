//! One client of the load generator: what it asks, and whether what it hears is right.

use std::collections::VecDeque;

use bytecost_engine::services::{Framing, MOST_ANSWER_BYTES, Requester};

use super::outcome::LoadError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When it was to be sent: latency counts from here.
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

/// What all clients of a thread share.
pub(super) struct Tongue {
    pub(super) question: Box<dyn Requester>,
    pub(super) framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// It has no connection, or waits until the driver lets it go on.
    Resting,
    Connecting,
    /// It can ask, or waits for answers.
    Connected,
    /// It has asked all that it was to ask.
    Done,
}

pub(super) struct Client {
    /// The number that its requests carry.
    name: u32,
    pub(super) state: ClientState,
    /// Requests made so far, those that failed included.
    pub(super) asked: u64,
    /// Requests that have no answer yet, oldest first.
    pub(super) under_way: VecDeque<Due>,
    /// Why it connects: the request that it is for, where it is for one, and when that began.
    pub(super) wanted: Due,
    /// How many of the last requests are being sent.
    pub(super) sends: usize,
    /// A request that is made as soon as the one before is sent whole.
    pub(super) held: Option<Due>,
    /// Bytes of the next answer that have come and are right.
    received: usize,
    /// An answer that is a line and has come in part.
    line: Vec<u8>,
}

impl Client {
    pub(super) fn new(name: u32, depth: usize) -> Client {
        Client {
            name,
            state: ClientState::Resting,
            asked: 0,
            under_way: VecDeque::with_capacity(depth),
            wanted: Due::at(0),
            sends: 0,
            held: None,
            received: 0,
            line: Vec::new(),
        }
    }

    /// Has no connection any more, and says how many requests are lost with it.
    pub(super) fn disconnect(&mut self) -> usize {
        let lost = self.under_way.len();
        self.state = ClientState::Resting;
        self.under_way.clear();
        self.sends = 0;
        self.held = None;
        self.received = 0;
        self.line.clear();
        lost
    }

    /// Makes the next requests, which are to be composed and sent.
    pub(super) fn ask(&mut self, due: Due, times: usize) {
        self.under_way.extend(std::iter::repeat_n(due, times));
        self.asked += times as u64;
        self.sends = times;
    }

    pub(super) fn compose(&self, question: &dyn Requester, out: &mut Vec<u8>) {
        for number in self.asked - self.sends as u64..self.asked {
            question.ask(self.name, number, out);
        }
    }

    /// Takes in what has come: how many answers are complete, to the oldest of `under_way`.
    pub(super) fn receive(
        &mut self,
        tongue: &Tongue,
        mut bytes: &[u8],
    ) -> Result<usize, LoadError> {
        let mut complete = 0;
        while !bytes.is_empty() {
            if complete == self.under_way.len() {
                return Err(LoadError::Wrong); // nobody asked for this
            }
            let number = self.asked - (self.under_way.len() - complete) as u64;
            let (used, is_complete) = match tongue.framing {
                Framing::Size(size) => {
                    self.receive_piece(&*tongue.question, number, size, bytes)?
                }
                Framing::Line => self.receive_line(&*tongue.question, number, bytes)?,
            };
            complete += usize::from(is_complete);
            bytes = &bytes[used..];
        }
        Ok(complete)
    }

    fn receive_piece(
        &mut self,
        question: &dyn Requester,
        number: u64,
        size: usize,
        bytes: &[u8],
    ) -> Result<(usize, bool), LoadError> {
        let piece = &bytes[..bytes.len().min(size - self.received)];
        if !question.is_right(self.name, number, self.received, piece) {
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
        question: &dyn Requester,
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
        let is_right = question.is_right(self.name, number, 0, line);
        self.line.clear();
        (is_right.then_some((piece.len(), true))).ok_or(LoadError::Wrong)
    }
}
