//! The event loop of a thread with many clients. Its two implementations, on epoll(7) and on io_uring(7),
//! differ in the system calls of a request, and so in its CPU time.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use bytecost_sys::tcp;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

use super::Load;
use super::outcome::LoadError;

pub(super) mod epoll;
pub(super) mod uring;

/// The number of source addresses for connections over loopback, 127.0.0.1 to 127.0.0.250. Each has as
/// many ports as the machine allows.
pub(crate) const SOURCE_ADDRESSES: u64 = 250;

/// The congestion control that costs the clients least. Every kernel has it. Others compute more for each
/// ACK, or pace (BBR); requests are far smaller than a window, so that it makes no other difference.
const CHEAPEST_CONTROL: &str = "reno";

impl From<Errno> for LoadError {
    fn from(error: Errno) -> LoadError {
        match error {
            Errno::CONNREFUSED => LoadError::Refused,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => LoadError::Reset,
            Errno::TIMEDOUT => LoadError::Timeout,
            _ => LoadError::Local,
        }
    }
}

/// An event of a connection, with the number of its client.
pub(super) enum LoopEvent<P> {
    /// The connection is established, or could not be.
    Connected(u32, Result<(), LoadError>),
    /// Bytes of a response were received, or the connection has failed.
    Received(u32, Result<P, LoadError>),
    /// The socket has room for more of a request: the caller composes the same request again.
    Room(u32),
    /// The whole request is sent, or could not be.
    Sent(u32, Result<(), LoadError>),
}

/// The beginning and the end of a loop's wait, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitTimes {
    /// The beginning. The kernel has received all requests of the clients by then.
    pub(super) from_ns: u64,
    /// The end. The thread was idle until then.
    pub(super) to_ns: u64,
}

/// An event loop of clients, which have one connection each at a time. `i` is the number of a client.
pub(super) trait ClientLoop {
    /// Received bytes, in a buffer of the loop.
    type Piece;

    /// Begins to connect. Returns true if that succeeded at once; otherwise [`LoopEvent::Connected`]
    /// follows.
    fn connect(&mut self, i: u32) -> Result<bool, LoadError>;

    /// Closes a connection. No event of it follows.
    fn close(&mut self, i: u32);

    /// Sends the request that `compose` appends. Returns true if all of it was sent at once; otherwise
    /// [`LoopEvent::Room`] follows, after which the caller sends the same request again, or
    /// [`LoopEvent::Sent`]. Until then the client must send no other request.
    fn send(&mut self, i: u32, compose: impl FnOnce(&mut Vec<u8>)) -> Result<bool, LoadError>;

    /// Submits requests that are not submitted yet, and waits for events, for at most this time.
    fn wait(&mut self, most_ns: u64) -> io::Result<WaitTimes>;

    /// The next event of the last wait.
    fn next_event(&mut self) -> Option<LoopEvent<Self::Piece>>;

    fn bytes(&self, piece: &Self::Piece) -> &[u8];

    /// Frees the buffer of a piece.
    fn release(&mut self, piece: Self::Piece);

    /// Receives the bytes that follow a piece, if the client still has its connection.
    fn receive_more(&mut self, i: u32);

    /// The time of the last event, in ns of CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
}

/// The source address of new connections.
struct Source {
    /// The last byte of an address 127.0.0.x; 0 leaves the choice to the kernel.
    last_byte: u8,
    /// True if other addresses of this machine reach the server too.
    has_others: bool,
}

impl Source {
    fn new(load: &Load) -> Source {
        // IPv6 has a single loopback address.
        let has_others = load.address.is_ipv4() && load.address.ip().is_loopback();
        Source {
            last_byte: 0,
            has_others,
        }
    }

    fn socket(&self, load: &Load, flags: SocketFlags) -> io::Result<OwnedFd> {
        let socket = tcp::socket(load.address, flags)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match &load.congestion {
            Some(name) => sockopt::set_tcp_congestion(&socket, name)?,
            // Where this is not allowed, the connection has the system's.
            None if load.kept => drop(sockopt::set_tcp_congestion(&socket, CHEAPEST_CONTROL)),
            None => {}
        }
        if self.last_byte > 0 {
            tcp::bind_source(&socket, Ipv4Addr::new(127, 0, 0, self.last_byte))?;
        }
        Ok(socket)
    }

    /// Takes the next address if all ports of the failed one, given by its last byte, are in use. Returns
    /// true if the caller is to try the connection again.
    fn advance(&mut self, error: Errno, failed_byte: u8) -> bool {
        // Another connection may have advanced it already.
        let is_current = failed_byte == self.last_byte;
        let is_exhausted = is_current && u64::from(self.last_byte) >= SOURCE_ADDRESSES;
        let may_retry = error == Errno::ADDRNOTAVAIL && self.has_others && !is_exhausted;
        if may_retry && is_current {
            // The kernel chooses 127.0.0.1 for a connection to it, so that 2 follows 0.
            self.last_byte = (self.last_byte + 1).max(2);
        }
        may_retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_address_is_taken_only_when_all_ports_are_in_use() {
        let check = |last_byte, has_others, (error, failed_byte), expected: (bool, u8)| {
            let mut source = Source {
                last_byte,
                has_others,
            };
            let may_retry = source.advance(error, failed_byte);
            assert_eq!((may_retry, source.last_byte), expected);
        };
        let none_left = Errno::ADDRNOTAVAIL;
        check(0, true, (none_left, 0), (true, 2));
        check(2, true, (none_left, 2), (true, 3));
        check(249, true, (none_left, 249), (true, 250));
        check(250, true, (none_left, 250), (false, 250));
        // Another connection has advanced it before.
        check(2, true, (none_left, 0), (true, 2));
        check(250, true, (none_left, 249), (true, 250));
        check(0, false, (none_left, 0), (false, 0));
        check(0, true, (Errno::CONNREFUSED, 0), (false, 0));
    }
}
