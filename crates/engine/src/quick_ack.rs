//! TCP_QUICKACK, tcp(7), before each receive: acknowledgements are not delayed. The kernel leaves
//! that state by itself, so that it must be set again and again.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use crate::receivers::Take;

/// Sets TCP_QUICKACK before each receive.
pub struct QuickAck {
    receiver: Box<dyn Take>,
    socket: OwnedFd,
    calls: u64,
}

impl QuickAck {
    /// Sets it on `socket`, the TCP socket from which `receiver` takes.
    pub fn new(receiver: Box<dyn Take>, socket: OwnedFd) -> QuickAck {
        QuickAck {
            receiver,
            socket,
            calls: 0,
        }
    }
}

impl Take for QuickAck {
    fn expect(&mut self, message_bytes: usize) {
        self.receiver.expect(message_bytes);
    }

    fn take(&mut self) -> io::Result<usize> {
        self.calls += 1;
        sockopt::set_tcp_quickack(&self.socket, true)?;
        self.receiver.take()
    }

    fn inspect(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        self.receiver.inspect(got, see);
    }

    fn calls(&self) -> u64 {
        self.receiver.calls() + self.calls
    }
}
