//! recv(2) into one buffer, which the kernel copies to, or does not.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::RecvFlags;

use crate::receiver::{Receiver, ReceiverFacts, Take, taken};

pub const RECV: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv",
        summary: "recv(2) into one buffer; the kernel copies",
        sees_content: true,
    },
    open: |socket, read_size| Recv::open(socket, read_size, RecvFlags::empty()),
};

/// On TCP MSG_TRUNC throws the bytes away uncopied. Source: tcp(7), MSG_TRUNC. Other sockets copy
/// all the same, so this receiver refuses them.
pub const DISCARD: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv-discard",
        summary: "recv(2) with MSG_TRUNC: the bytes are thrown away uncopied, so their content cannot be checked, only their number",
        sees_content: false,
    },
    open: |socket, read_size| {
        if rustix::net::sockopt::socket_domain(&socket)? == rustix::net::AddressFamily::UNIX {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "MSG_TRUNC discards on TCP only; a Unix stream socket copies the bytes all the same",
            ));
        }
        Recv::open(socket, read_size, RecvFlags::TRUNC)
    },
};

struct Recv {
    socket: OwnedFd,
    /// Never written to where bytes are thrown away: its length is the bound of a call.
    buffer: Region,
    flags: RecvFlags,
    calls: u64,
}

impl Recv {
    fn open(socket: OwnedFd, read_size: usize, flags: RecvFlags) -> io::Result<Box<dyn Take>> {
        Ok(Box::new(Recv {
            socket,
            buffer: Region::new(read_size)?,
            flags,
            calls: 0,
        }))
    }
}

impl Take for Recv {
    fn take(&mut self) -> io::Result<usize> {
        let buffer = self.buffer.bytes_mut();
        let most = buffer.len();
        // The length that MSG_TRUNC reports may exceed what was asked for on other protocols.
        taken(&mut self.calls, || {
            rustix::net::recv(&self.socket, &mut *buffer, self.flags).map(|(_, n)| n.min(most))
        })
    }

    fn look(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        if self.flags.is_empty() {
            see(&self.buffer.bytes()[..got]);
        }
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
