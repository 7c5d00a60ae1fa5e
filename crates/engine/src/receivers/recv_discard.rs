//! `recv-discard`: recv(2) with MSG_TRUNC, which on TCP throws the bytes away uncopied.
//!
//! Source: tcp(7), MSG_TRUNC. Other sockets copy all the same, so this receiver refuses them.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::RecvFlags;

use crate::receiver::{Receiver, ReceiverFacts, Take, taken};

pub const RECEIVER: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv-discard",
        summary: "recv(2) with MSG_TRUNC: the bytes are thrown away uncopied, so their content cannot be checked, only their number",
        sees_content: false,
    },
    open,
};

struct RecvDiscard {
    socket: OwnedFd,
    /// Never written: its length is the bound of a call.
    buffer: Region,
    calls: u64,
}

fn open(socket: OwnedFd, read_size: usize) -> io::Result<Box<dyn Take>> {
    if rustix::net::sockopt::socket_domain(&socket)? == rustix::net::AddressFamily::UNIX {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "MSG_TRUNC discards on TCP only; a Unix stream socket copies the bytes all the same",
        ));
    }
    Ok(Box::new(RecvDiscard {
        socket,
        buffer: Region::new(read_size)?,
        calls: 0,
    }))
}

impl Take for RecvDiscard {
    fn take(&mut self) -> io::Result<usize> {
        let buffer = self.buffer.bytes_mut();
        let most = buffer.len();
        // The length that MSG_TRUNC reports may exceed what was asked for on other protocols.
        taken(&mut self.calls, || {
            rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::TRUNC)
                .map(|(_, n)| n.min(most))
        })
    }

    fn look(&self, _got: usize, _see: &mut dyn FnMut(&[u8])) {}

    fn calls(&self) -> u64 {
        self.calls
    }
}
