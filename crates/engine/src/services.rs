//! The table of services: each row something that a server answers and a client asks. A file holds
//! both halves of its protocol: how a request is answered ([`Responder`]), and how one is asked and
//! its answer checked ([`Requester`]). How bytes become requests is [`Framing`].

use std::time::Duration;

use bytecost_host::Roots;
pub use bytecost_spec::survey::ServiceFacts;

use crate::table::table;

mod echo;
mod fixed;
pub mod top;

/// All services, in the order of the documentation.
pub const SERVICES: &[Service] = &[top::SERVICE, echo::SERVICE, fixed::SERVICE];

/// The longest request that a server takes, in bytes, its line end included.
pub const MOST_REQUEST_BYTES: usize = 64 << 10;
/// The longest answer, in bytes.
pub const MOST_ANSWER_BYTES: usize = 1 << 20;
/// Further requests wait until these bytes of responses are sent, so that a client that sends and does
/// not receive cannot fill the memory.
pub(crate) const MOST_UNSENT: usize = 256 << 10;
/// The most requests of a connection before the others have their turns.
pub(crate) const TURN_REQUESTS: u64 = 8;
/// The response to a request that is too long, after which the connection is closed.
pub const TOO_LONG: &[u8] = b"error: a request has at most 65536 bytes, its line end included\n";

/// A row of the table of services. It reads as its facts.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Its name and properties, as surveys and plans have them.
    pub facts: ServiceFacts<&'static str>,
    /// The framing of a request, by size.
    pub request: fn(usize) -> Framing,
    /// The framing of a response, by size.
    pub answer: fn(usize) -> Framing,
    /// Makes the server's half ready, one for each thread.
    pub open: fn(&ServiceSetup) -> Box<dyn Responder>,
    /// Makes the client's half ready, one for each thread.
    pub question: fn(&ServiceSetup) -> Box<dyn Requester>,
}

/// The parameters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSetup {
    /// Bytes of a message, where the service takes a size.
    pub size: usize,
    /// The root of the kernel's files, `/proc` and `/sys`.
    pub roots: Roots,
    /// For how long a response may be made from what was read for an earlier one. A trial measures what
    /// each response costs, and keeps nothing.
    pub kept_for: Duration,
}

impl ServiceSetup {
    /// Of this machine, with messages of that size.
    pub fn new(size: usize) -> ServiceSetup {
        ServiceSetup {
            size,
            roots: Roots::real(),
            kept_for: Duration::ZERO,
        }
    }
}

/// The rule by which a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It ends with a line feed, which belongs to it.
    Line,
    /// It has this many bytes.
    Size(usize),
}

/// The result of looking for a message at the beginning of some bytes.
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
    /// The beginning of `bytes`, of which the first `seen` were found to hold no end before.
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

    /// Returns true if `piece`, which begins `at` bytes into the response to that request, is correct. A
    /// response that is a line comes in one piece. Does not allocate.
    fn is_right(&self, connection: u32, number: u64, at: usize, piece: &[u8]) -> bool;
}

table!(Service, ServiceFacts, SERVICES);

impl Service {
    /// The most bytes of responses that a server keeps for a client that does not receive them.
    pub fn most_unsent(&self, size: usize) -> usize {
        match (self.answer)(size) {
            Framing::Size(size) => (TURN_REQUESTS as usize * size).min(MOST_UNSENT + size),
            Framing::Line => MOST_UNSENT,
        }
    }

    /// The reason why the service is not available in that size, as one line with the bounds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_where_they_end() {
        let long = vec![b'x'; MOST_REQUEST_BYTES + 1];
        let mut just = long[1..].to_vec();
        just[MOST_REQUEST_BYTES - 1] = b'\n';
        let check = |framing: Framing, bytes: &[u8], seen, expected| {
            assert_eq!(framing.cut(bytes, seen), expected);
        };
        check(Framing::Line, b"", 0, Cut::Part);
        check(Framing::Line, b"to", 0, Cut::Part);
        check(Framing::Line, b"\n", 0, Cut::Whole(1));
        check(Framing::Line, b"top\ntop\n", 0, Cut::Whole(4));
        check(Framing::Line, b"top\n", 3, Cut::Whole(4));
        check(Framing::Line, b"top", 9, Cut::Part);
        check(Framing::Line, &just, 0, Cut::Whole(MOST_REQUEST_BYTES));
        check(Framing::Line, &long, 0, Cut::TooLong);
        let seen = MOST_REQUEST_BYTES - 1;
        check(Framing::Line, &long[1..], seen, Cut::TooLong);
        check(Framing::Size(3), b"to", 0, Cut::Part);
        check(Framing::Size(3), b"top\n", 2, Cut::Whole(3));
    }

    #[test]
    fn questions_and_answers_fit() {
        for service in SERVICES {
            let sizes = service.sizes.map_or(vec![0], |(a, b)| vec![a, 64, 5000, b]);
            for size in sizes.into_iter().map(|size| size as usize) {
                let setup = ServiceSetup::new(size);
                let (mut answers, asks) = ((service.open)(&setup), (service.question)(&setup));
                let (mut request, mut answer) = (Vec::new(), Vec::new());
                asks.ask(3, 7, &mut request);
                let whole = (service.request)(size).cut(&request, 0);
                assert_eq!(whole, Cut::Whole(request.len()), "{}", service.name);
                answers.answer(&request, &mut answer);
                match (service.answer)(size) {
                    Framing::Line => {
                        let end = answer.iter().position(|b| *b == b'\n');
                        assert_eq!(end, Some(answer.len() - 1));
                    }
                    Framing::Size(size) => {
                        assert_eq!(answer.len(), size, "{}", service.name);
                        let half = size / 2;
                        assert!(asks.is_right(3, 7, half, &answer[half..]));
                    }
                }
                assert!(asks.is_right(3, 7, 0, &answer), "{} {size}", service.name);
                let last = answer.len() - 1;
                answer[last] ^= 1;
                assert!(!asks.is_right(3, 7, 0, &answer), "{} {size}", service.name);
                assert!(!asks.is_right(3, 7, 0, TOO_LONG), "{} {size}", service.name);
            }
        }
    }

    #[test]
    fn sizes_have_bounds() {
        let echo = Service::named("echo").unwrap();
        assert_eq!(echo.check_size(64), Ok(()));
        let error = echo.check_size(MOST_REQUEST_BYTES + 1).unwrap_err();
        let expected = "size `65537` is out of bounds for echo: 1 to 65536 bytes";
        assert_eq!(error, expected);
        assert_eq!(Service::named("top").unwrap().check_size(0), Ok(()));
        assert!(Service::named("tip").is_none());
    }
}
