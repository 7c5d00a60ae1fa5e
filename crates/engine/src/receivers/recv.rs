//! recv(2) into one buffer, which the kernel copies to, or does not, or until all is there.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::RecvFlags;

use crate::receivers::{Receiver, ReceiverFacts, Take, taken};

pub const RECV: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv",
        summary: "recv(2) into one buffer; the kernel copies",
        sees_content: true,
    },
    open: |socket, read_size| Ok(Box::new(Recv::new(socket, read_size, RecvFlags::empty())?)),
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
            let why = "MSG_TRUNC discards on TCP only; a Unix stream socket copies the bytes all the same";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(Box::new(Recv::new(socket, read_size, RecvFlags::TRUNC)?))
    },
};

/// It waits until all that it asked for is there, and never asks past the end of a message: a
/// sender that waits for an answer would wait for ever. Source: recv(2), MSG_WAITALL.
pub const WAITALL: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv-waitall",
        summary: "recv(2) with MSG_WAITALL: one call waits for a whole message, or for --read-size bytes where that is less; the kernel copies",
        sees_content: true,
    },
    open: |socket, read_size| {
        Ok(Box::new(RecvWaitall {
            recv: Recv::new(socket, read_size, RecvFlags::WAITALL)?,
            message: read_size,
            left: read_size,
        }))
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
    fn new(socket: OwnedFd, read_size: usize, flags: RecvFlags) -> io::Result<Recv> {
        Ok(Recv {
            socket,
            buffer: Region::new(read_size)?,
            flags,
            calls: 0,
        })
    }

    #[inline]
    fn take_most(&mut self, most: usize) -> io::Result<usize> {
        let bytes = self.buffer.bytes_mut();
        let len = most.min(bytes.len());
        let buffer = &mut bytes[..len];
        // The length that MSG_TRUNC reports may exceed what was asked for on other protocols.
        taken(&mut self.calls, || {
            rustix::net::recv(&self.socket, &mut *buffer, self.flags).map(|(_, n)| n.min(len))
        })
    }
}

impl Take for Recv {
    fn take(&mut self) -> io::Result<usize> {
        self.take_most(usize::MAX)
    }

    fn inspect(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        if self.flags != RecvFlags::TRUNC {
            see(&self.buffer.bytes()[..got]);
        }
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

struct RecvWaitall {
    recv: Recv,
    message: usize,
    /// Bytes of the current message that have not arrived.
    left: usize,
}

impl Take for RecvWaitall {
    fn expect(&mut self, message_bytes: usize) {
        self.message = message_bytes;
        self.left = message_bytes;
    }

    fn take(&mut self) -> io::Result<usize> {
        let got = self.recv.take_most(self.left)?;
        self.left -= got;
        if self.left == 0 {
            self.left = self.message;
        }
        Ok(got)
    }

    fn inspect(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        self.recv.inspect(got, see);
    }

    fn calls(&self) -> u64 {
        self.recv.calls
    }
}
