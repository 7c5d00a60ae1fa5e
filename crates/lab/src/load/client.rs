//! One connection of the load generator: connects, asks, hears and checks. When it does so is
//! the driver's business.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use bytecost_engine::services::{Framing, MOST_ANSWER_BYTES, Question};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::outcome::Errors;

/// What went wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Refused,
    Reset,
    Closed,
    Timeout,
    Wrong,
    Local,
}

impl Trouble {
    fn of(error: Errno) -> Trouble {
        match error {
            Errno::CONNREFUSED => Trouble::Refused,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Trouble::Reset,
            Errno::TIMEDOUT => Trouble::Timeout,
            _ => Trouble::Local,
        }
    }

    /// Counts it so many times.
    pub(super) fn count(self, errors: &mut Errors, times: u64) {
        *match self {
            Trouble::Refused => &mut errors.refused,
            Trouble::Reset => &mut errors.reset,
            Trouble::Closed => &mut errors.closed,
            Trouble::Timeout => &mut errors.timeout,
            Trouble::Wrong => &mut errors.wrong,
            Trouble::Local => &mut errors.local,
        } += times;
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When it was to be sent: latency counts from here.
    pub(super) intended_ns: u64,
    /// When it was sent.
    pub(super) sent_ns: u64,
}

impl Due {
    /// One that is sent when it is due.
    pub(super) fn at(now_ns: u64) -> Due {
        Due {
            intended_ns: now_ns,
            sent_ns: now_ns,
        }
    }
}

/// What all clients of a thread share.
pub(super) struct Tongue {
    pub(super) question: Box<dyn Question>,
    pub(super) framing: Framing,
    pub(super) buffer: Box<[u8]>,
    pub(super) request: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has no connection, or waits until the driver lets it go on.
    Resting,
    /// It has asked for a connection.
    Connecting,
    /// It can ask, or waits for answers.
    Connected,
    /// It has asked all that it was to ask.
    Done,
}

/// One connection.
pub(super) struct Client {
    /// The number that its requests carry.
    name: u32,
    pub(super) state: State,
    pub(super) socket: Option<OwnedFd>,
    /// How many sockets it has had, so that an event of an earlier one is known.
    pub(super) generation: u32,
    /// Requests made so far, those that failed included.
    pub(super) asked: u64,
    /// Requests that have no answer yet, oldest first.
    pub(super) under_way: VecDeque<Due>,
    /// For a connection made for one request, when that was to be sent; for every one that is
    /// being opened, when that began.
    pub(super) wanted: Due,
    /// How much of the last request is sent, where it is not all of it.
    unsent_from: Option<usize>,
    /// Bytes of the next answer that have come and are right.
    heard: usize,
    /// An answer that is a line and has come in part.
    line: Vec<u8>,
}

impl Client {
    pub(super) fn new(name: u32, depth: usize) -> Client {
        Client {
            name,
            state: State::Resting,
            socket: None,
            generation: 0,
            asked: 0,
            under_way: VecDeque::with_capacity(depth),
            wanted: Due {
                intended_ns: 0,
                sent_ns: 0,
            },
            unsent_from: None,
            heard: 0,
            line: Vec::new(),
        }
    }

    /// Begins to connect; true when that is done at once.
    pub(super) fn connect(
        &mut self,
        address: SocketAddrV4,
        congestion: Option<&str>,
    ) -> Result<bool, Trouble> {
        let socket = rustix::net::socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|_| Trouble::Local)?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(|_| Trouble::Local)?;
        if let Some(name) = congestion {
            sockopt::set_tcp_congestion(&socket, name).map_err(|_| Trouble::Local)?;
        }
        let connected = match rustix::net::connect(&socket, &address) {
            Ok(()) => true,
            Err(Errno::INPROGRESS | Errno::INTR) => false,
            Err(e) => return Err(Trouble::of(e)),
        };
        self.generation = self.generation.wrapping_add(1);
        self.socket = Some(socket);
        self.state = State::Connecting;
        Ok(connected)
    }

    /// Whether connecting has worked, now that the socket can be written to.
    pub(super) fn connected(&self) -> Result<(), Trouble> {
        let socket = self.socket.as_ref().ok_or(Trouble::Closed)?;
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) | Err(e) => Err(Trouble::of(e)),
        }
    }

    /// Gives the connection up, and says how many requests are lost with it.
    pub(super) fn disconnect(&mut self) -> usize {
        let lost = self.under_way.len();
        self.socket = None;
        self.state = State::Resting;
        self.under_way.clear();
        self.unsent_from = None;
        self.heard = 0;
        self.line.clear();
        lost
    }

    /// Makes the next request. True when it is sent whole; else [`Client::send_rest`] is to be
    /// called when there is room.
    pub(super) fn ask(&mut self, due: Due, tongue: &mut Tongue) -> Result<bool, Trouble> {
        self.under_way.push_back(due);
        self.asked += 1;
        self.unsent_from = Some(0);
        self.send_rest(tongue)
    }

    /// Whether a request is sent only in part.
    pub(super) fn is_sending(&self) -> bool {
        self.unsent_from.is_some()
    }

    /// Sends what is left of the last request.
    pub(super) fn send_rest(&mut self, tongue: &mut Tongue) -> Result<bool, Trouble> {
        let (Some(mut from), Some(socket)) = (self.unsent_from, self.socket.as_ref()) else {
            return Ok(true);
        };
        tongue.request.clear();
        tongue
            .question
            .ask(self.name, self.asked - 1, &mut tongue.request);
        while from < tongue.request.len() {
            match rustix::net::send(socket, &tongue.request[from..], SendFlags::NOSIGNAL) {
                Ok(n) => from += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.unsent_from = Some(from);
                    return Ok(false);
                }
                Err(e) => return Err(Trouble::of(e)),
            }
        }
        self.unsent_from = None;
        Ok(true)
    }

    /// Reads once, and says how many answers are complete now; the oldest so many of
    /// `under_way` are theirs.
    pub(super) fn hear(&mut self, tongue: &mut Tongue) -> Result<usize, Trouble> {
        let socket = self.socket.as_ref().ok_or(Trouble::Closed)?;
        let length = match rustix::net::recv(socket, &mut tongue.buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => return Err(Trouble::Closed),
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(0),
            Err(e) => return Err(Trouble::of(e)),
        };
        let mut bytes = &tongue.buffer[..length];
        let mut complete = 0;
        while !bytes.is_empty() {
            if complete == self.under_way.len() {
                return Err(Trouble::Wrong); // nobody asked for this
            }
            let number = self.asked - (self.under_way.len() - complete) as u64;
            let (used, is_complete) = match tongue.framing {
                Framing::Size(size) => self.hear_piece(&*tongue.question, number, size, bytes)?,
                Framing::Line => self.hear_line(&*tongue.question, number, bytes)?,
            };
            complete += usize::from(is_complete);
            bytes = &bytes[used..];
        }
        Ok(complete)
    }

    fn hear_piece(
        &mut self,
        question: &dyn Question,
        number: u64,
        size: usize,
        bytes: &[u8],
    ) -> Result<(usize, bool), Trouble> {
        let piece = &bytes[..bytes.len().min(size - self.heard)];
        if !question.is_right(self.name, number, self.heard, piece) {
            return Err(Trouble::Wrong);
        }
        self.heard += piece.len();
        let is_complete = self.heard == size;
        if is_complete {
            self.heard = 0;
        }
        Ok((piece.len(), is_complete))
    }

    fn hear_line(
        &mut self,
        question: &dyn Question,
        number: u64,
        bytes: &[u8],
    ) -> Result<(usize, bool), Trouble> {
        let end = bytes.iter().position(|b| *b == b'\n');
        let piece = &bytes[..end.map_or(bytes.len(), |at| at + 1)];
        if self.line.len() + piece.len() > MOST_ANSWER_BYTES {
            return Err(Trouble::Wrong);
        }
        if end.is_none() {
            self.line.extend_from_slice(piece);
            return Ok((piece.len(), false));
        }
        let is_right = if self.line.is_empty() {
            question.is_right(self.name, number, 0, piece)
        } else {
            self.line.extend_from_slice(piece);
            let is_right = question.is_right(self.name, number, 0, &self.line);
            self.line.clear();
            is_right
        };
        if is_right {
            Ok((piece.len(), true))
        } else {
            Err(Trouble::Wrong)
        }
    }
}
