//! The table of services. The file of a service has both halves of its protocol: the [`Responder`] of the
//! server, and the [`Requester`] of the client, which composes requests and checks responses. A
//! [`Framing`] is the rule by which a stream of bytes is divided into messages.
//!
//! A new service is a file under `services/`, its `mod` and its row. `cargo test -p bytecost-lab --test
//! servers /NAME/` has every server serve it under every load.

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
/// The longest response, in bytes.
pub const MOST_ANSWER_BYTES: usize = 1 << 20;
/// The server answers no further requests of a connection that has as many bytes of responses to send,
/// so that a client that sends and does not receive cannot fill the memory.
pub(crate) const MOST_UNSENT_BYTES: usize = 256 << 10;
/// The most requests of a connection that are answered in one turn, before those of the others.
pub(crate) const TURN_REQUESTS: u64 = 8;
/// The response to a request that is too long, after which the connection is closed.
pub const TOO_LONG: &[u8] = b"error: a request has at most 65536 bytes, its line end included\n";

/// A row of the table of services. It dereferences to its facts.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Its name and properties, as surveys and plans have them.
    pub facts: ServiceFacts<&'static str>,
    /// The framing of a request, by the size of the setup.
    pub request_framing: fn(usize) -> Framing,
    /// The framing of a response, by the size of the setup.
    pub response_framing: fn(usize) -> Framing,
    /// Creates the server's half of the protocol, for one thread.
    pub responder: fn(&ServiceSetup) -> Box<dyn Responder>,
    /// Creates the client's half of the protocol, for one thread.
    pub requester: fn(&ServiceSetup) -> Box<dyn Requester>,
}

/// The parameters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSetup {
    /// Bytes of a message, where the service takes a size.
    pub size: usize,
    /// The root of the kernel's files, `/proc` and `/sys`.
    pub roots: Roots,
    /// The time for which data that was read for one response serves later ones too. A trial measures the
    /// cost of each response, so that its time is zero.
    pub kept_for: Duration,
}

impl ServiceSetup {
    /// The parameters of a trial on this machine, with messages of `size` bytes.
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

/// The first message of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstMessage {
    /// Its end has not been received.
    Incomplete,
    /// It has this many bytes.
    Complete(usize),
    /// It has more than [`MOST_REQUEST_BYTES`].
    TooLong,
}

impl Framing {
    /// Finds the end of the first message of `bytes`. An earlier call has found no end in the first
    /// `searched` bytes.
    pub fn first_message(self, bytes: &[u8], searched: usize) -> FirstMessage {
        match self {
            Framing::Size(size) if bytes.len() >= size => FirstMessage::Complete(size),
            Framing::Size(_) => FirstMessage::Incomplete,
            Framing::Line => {
                let within = &bytes[..bytes.len().min(MOST_REQUEST_BYTES)];
                let unsearched = within.get(searched..).unwrap_or_default();
                match unsearched.iter().position(|b| *b == b'\n') {
                    Some(at) => FirstMessage::Complete(searched + at + 1),
                    None if within.len() == MOST_REQUEST_BYTES => FirstMessage::TooLong,
                    None => FirstMessage::Incomplete,
                }
            }
        }
    }
}

/// The server's half of a service's protocol.
pub trait Responder: Send {
    /// Appends the response to a whole request.
    fn append_response(&mut self, request: &[u8], out: &mut Vec<u8>);
}

/// The client's half of a service's protocol.
pub trait Requester: Send {
    /// Appends request `number` of a connection. Does not allocate where `out` has room.
    fn append_request(&self, connection: u32, number: u64, out: &mut Vec<u8>);

    /// Returns true if `piece`, the bytes at the offset `at` of the response to request `number`, is
    /// correct. A response that is a line comes in one piece. Does not allocate.
    fn is_right(&self, connection: u32, number: u64, at: usize, piece: &[u8]) -> bool;
}

table!(Service, ServiceFacts, SERVICES);

impl Service {
    /// The most bytes of responses that a server keeps for a client that does not receive them.
    pub fn most_unsent_bytes(&self, size: usize) -> usize {
        match (self.response_framing)(size) {
            Framing::Size(size) => (TURN_REQUESTS as usize * size).min(MOST_UNSENT_BYTES + size),
            Framing::Line => MOST_UNSENT_BYTES,
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
    use FirstMessage::{Complete, Incomplete, TooLong};

    #[test]
    fn a_message_ends_by_its_framing() {
        let long = vec![b'x'; MOST_REQUEST_BYTES + 1];
        let mut just = long[1..].to_vec();
        just[MOST_REQUEST_BYTES - 1] = b'\n';
        let check = |framing: Framing, bytes: &[u8], searched, expected| {
            assert_eq!(framing.first_message(bytes, searched), expected);
        };
        check(Framing::Line, b"", 0, Incomplete);
        check(Framing::Line, b"to", 0, Incomplete);
        check(Framing::Line, b"\n", 0, Complete(1));
        check(Framing::Line, b"top\ntop\n", 0, Complete(4));
        check(Framing::Line, b"top\n", 3, Complete(4));
        check(Framing::Line, b"top", 9, Incomplete);
        check(Framing::Line, &just, 0, Complete(MOST_REQUEST_BYTES));
        check(Framing::Line, &long, 0, TooLong);
        let searched = MOST_REQUEST_BYTES - 1;
        check(Framing::Line, &long[1..], searched, TooLong);
        check(Framing::Size(3), b"to", 0, Incomplete);
        check(Framing::Size(3), b"top\n", 2, Complete(3));
    }

    #[test]
    fn a_request_and_its_response_have_their_framing() {
        for service in SERVICES {
            let sizes = service.sizes.map_or(vec![0], |(a, b)| vec![a, 64, 5000, b]);
            for size in sizes.into_iter().map(|size| size as usize) {
                let setup = ServiceSetup::new(size);
                let mut responder = (service.responder)(&setup);
                let requester = (service.requester)(&setup);
                let (mut request, mut response) = (Vec::new(), Vec::new());
                let case = format!("{} {size}", service.name);
                requester.append_request(3, 7, &mut request);
                let whole = (service.request_framing)(size).first_message(&request, 0);
                assert_eq!(whole, Complete(request.len()), "{case}");
                responder.append_response(&request, &mut response);
                match (service.response_framing)(size) {
                    Framing::Line => {
                        let end = response.iter().position(|b| *b == b'\n');
                        assert_eq!(end, Some(response.len() - 1));
                    }
                    Framing::Size(size) => {
                        assert_eq!(response.len(), size, "{}", service.name);
                        let half = size / 2;
                        assert!(requester.is_right(3, 7, half, &response[half..]));
                    }
                }
                assert!(requester.is_right(3, 7, 0, &response), "{case}");
                let last = response.len() - 1;
                response[last] ^= 1;
                assert!(!requester.is_right(3, 7, 0, &response), "{case}");
                assert!(!requester.is_right(3, 7, 0, TOO_LONG), "{case}");
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
