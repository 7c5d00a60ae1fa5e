//! A row of the table of services, and both halves of a protocol.

use std::ops::Deref;

use bytecost_host::Roots;
pub use bytecost_spec::survey::ServiceFacts;

/// The longest request that a server takes, in bytes, its line end included.
pub const MOST_REQUEST_BYTES: usize = 64 << 10;
/// The longest answer, in bytes.
pub const MOST_ANSWER_BYTES: usize = 1 << 20;
/// What a request that is too long is answered with, before the connection is closed.
pub const TOO_LONG: &[u8] = b"error: a request has at most 65536 bytes, its line end included\n";

/// A row of the table of services. It reads as its facts.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// What others need to know of it.
    pub facts: ServiceFacts<&'static str>,
    /// What delimits a request, by size.
    pub request: fn(usize) -> Framing,
    /// What delimits an answer, by size.
    pub answer: fn(usize) -> Framing,
    /// Makes the server's half ready, one for each thread.
    pub open: fn(&ServiceSetup) -> Box<dyn Responder>,
    /// Makes the client's half ready, one for each thread.
    pub question: fn(&ServiceSetup) -> Box<dyn Requester>,
}

impl Deref for Service {
    type Target = ServiceFacts<&'static str>;

    fn deref(&self) -> &Self::Target {
        &self.facts
    }
}

/// What a service is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSetup {
    /// Bytes of a message, where the service takes a size.
    pub size: usize,
    /// Where the kernel's files are.
    pub roots: Roots,
}

impl ServiceSetup {
    /// Of this machine, with messages of that size.
    pub fn of(size: usize) -> ServiceSetup {
        let roots = Roots::real();
        ServiceSetup { size, roots }
    }
}

/// What delimits a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It ends with a line feed, which belongs to it.
    Line,
    /// It has this many bytes.
    Size(usize),
}

/// What stands at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// A part of a message, or nothing.
    Part,
    /// A whole message of so many bytes.
    Whole(usize),
    /// More than [`MOST_REQUEST_BYTES`] without an end.
    TooLong,
}

impl Framing {
    /// What stands at the beginning of `bytes`, of which the first `seen` were found to hold no
    /// end before.
    pub fn cut(self, bytes: &[u8], seen: usize) -> Cut {
        match self {
            Framing::Size(size) if bytes.len() >= size => Cut::Whole(size),
            Framing::Size(_) => Cut::Part,
            Framing::Line => {
                let within = &bytes[..bytes.len().min(MOST_REQUEST_BYTES)];
                let fresh = within.get(seen..).unwrap_or_default();
                match fresh.iter().position(|b| *b == b'\n') {
                    Some(at) => Cut::Whole(seen + at + 1),
                    None if within.len() == MOST_REQUEST_BYTES => Cut::TooLong,
                    None => Cut::Part,
                }
            }
        }
    }
}

/// The server's half at work.
pub trait Responder: Send {
    /// Appends the answer to a whole request.
    fn answer(&mut self, request: &[u8], out: &mut Vec<u8>);
}

/// The client's half at work.
pub trait Requester: Send {
    /// Appends request `number` of a connection. Does not allocate where `out` has room.
    fn ask(&self, connection: u32, number: u64, out: &mut Vec<u8>);

    /// Whether `piece`, which starts `at` bytes into the answer to that request, is right. An
    /// answer that is a line comes in one piece. Does not allocate.
    fn is_right(&self, connection: u32, number: u64, at: usize, piece: &[u8]) -> bool;
}

impl Service {
    /// Whether the service can be had in that size.
    ///
    /// # Errors
    /// A size out of bounds, as one line that says the bounds.
    pub fn check_size(&self, size: usize) -> Result<(), String> {
        match self.sizes {
            Some((least, most)) if !(least..=most).contains(&(size as u64)) => Err(format!(
                "size `{size}` is out of bounds for {}: {least} to {most} bytes",
                self.name
            )),
            _ => Ok(()),
        }
    }
}
