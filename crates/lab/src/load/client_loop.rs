//! The two ways from the clients of one thread to the kernel, which differ only in what a request
//! costs.

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

/// Addresses of this machine, each with all ports, for connections to it: 127.0.0.1 to 127.0.0.250.
pub(crate) const SOURCES: u64 = 250;

/// Every kernel has it. Requests are far smaller than any window, but others work (and BBR paces).
const CHEAPEST: &str = "reno";

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

/// An event of a client's connection.
pub(super) enum LoopEvent<P> {
    /// It is connected, or cannot be.
    Connected(u32, Result<(), LoadError>),
    /// Something has come for it.
    Received(u32, Result<P, LoadError>),
    /// There is room for more of what it has to send: the same is to be composed again.
    Room(u32),
    /// All that it had to send is sent, or cannot be.
    Sent(u32, Result<(), LoadError>),
}

/// The beginning and the end of a loop's wait, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitTimes {
    /// By now everything that was to be sent is with the kernel.
    pub(super) from_ns: u64,
    /// From then to now it had nothing to do.
    pub(super) to_ns: u64,
}

/// A loop: connections by the number of the client.
pub(super) trait ClientLoop {
    type Piece;

    /// Begins to connect; true when that is done at once, else [`LoopEvent::Connected`] follows.
    fn connect(&mut self, i: u32) -> Result<bool, LoadError>;

    /// Closes a connection, of which no event follows.
    fn close(&mut self, i: u32);

    /// Sends what `compose` appends, which is the same for every call until it is sent: true when
    /// that is done at once, else [`LoopEvent::Room`] or [`LoopEvent::Sent`] follows, and until then
    /// the client can send nothing else.
    fn send(&mut self, i: u32, compose: impl FnOnce(&mut Vec<u8>)) -> Result<bool, LoadError>;

    /// Hands everything over, and waits for so long, or until something happens.
    fn wait(&mut self, most_ns: u64) -> io::Result<WaitTimes>;

    /// The next event of those up to the end of the last wait.
    fn next_event(&mut self) -> Option<LoopEvent<Self::Piece>>;

    fn bytes(&self, piece: &Self::Piece) -> &[u8];

    fn release(&mut self, piece: Self::Piece);

    /// Asks for events of the bytes that follow a piece, where the client still has its connection.
    fn receive_more(&mut self, i: u32);

    /// The time at which the last event was seen, in ns of CLOCK_MONOTONIC.
    fn now_ns(&self) -> u64;
}

/// The address of this machine from which connections are made.
struct Source {
    /// The last byte of the address; 0 leaves the choice to the kernel.
    last: u8,
    /// True if other addresses can be taken.
    has_more: bool,
}

impl Source {
    fn new(load: &Load) -> Source {
        // IPv6 has one address there, and no other of this machine is meant.
        let has_more = load.address.is_ipv4() && load.address.ip().is_loopback();
        Source { last: 0, has_more }
    }

    fn socket(&self, load: &Load, flags: SocketFlags) -> io::Result<OwnedFd> {
        let socket = tcp::socket(load.address, flags)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match &load.congestion {
            Some(name) => sockopt::set_tcp_congestion(&socket, name)?,
            // Where it is not allowed, the system's does as well.
            None if load.kept => drop(sockopt::set_tcp_congestion(&socket, CHEAPEST)),
            None => {}
        }
        if self.last > 0 {
            tcp::bind_source(&socket, Ipv4Addr::new(127, 0, 0, self.last))?;
        }
        Ok(socket)
    }

    /// Returns true if a connection that could not be opened from an address (its last byte) is to be
    /// tried again: the next address is taken when the ports of this one are used up.
    fn may_retry(&mut self, error: Errno, from: u8) -> bool {
        // Another connection may have taken the next address already.
        let is_new = from == self.last;
        let is_over = is_new && u64::from(self.last) >= SOURCES;
        let may_retry = error == Errno::ADDRNOTAVAIL && self.has_more && !is_over;
        if may_retry && is_new {
            // The kernel's own choice is 127.0.0.1, at least where that is asked.
            self.last = (self.last + 1).max(2);
        }
        may_retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_address_is_taken_when_all_ports_are_used_up_and_never_else() {
        let check = |last, has_more, (error, from), expected: (bool, u8)| {
            let mut source = Source { last, has_more };
            assert_eq!((source.may_retry(error, from), source.last), expected);
        };
        let none_left = Errno::ADDRNOTAVAIL;
        check(0, true, (none_left, 0), (true, 2));
        check(2, true, (none_left, 2), (true, 3));
        check(249, true, (none_left, 249), (true, 250));
        check(250, true, (none_left, 250), (false, 250));
        // Another connection has found it out before.
        check(2, true, (none_left, 0), (true, 2));
        check(250, true, (none_left, 249), (true, 250));
        check(0, false, (none_left, 0), (false, 0));
        check(0, true, (Errno::CONNREFUSED, 0), (false, 0));
    }
}
