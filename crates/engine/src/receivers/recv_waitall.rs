//! `recv-waitall`: recv(2) with MSG_WAITALL, which waits until all that it asked for is there.
//!
//! It never asks past the end of a message: a sender that waits for an answer would wait for
//! ever. Source: recv(2), MSG_WAITALL.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::RecvFlags;

use crate::receiver::{Receiver, ReceiverFacts, Take, taken};

pub const RECEIVER: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv-waitall",
        summary: "recv(2) with MSG_WAITALL: one call waits for a whole message, or for --read-size bytes where that is less; the kernel copies",
        sees_content: true,
    },
    open,
};

struct RecvWaitall {
    socket: OwnedFd,
    buffer: Region,
    message: usize,
    /// What is still to come of the message under way.
    left: usize,
    calls: u64,
}

fn open(socket: OwnedFd, read_size: usize) -> io::Result<Box<dyn Take>> {
    Ok(Box::new(RecvWaitall {
        socket,
        buffer: Region::new(read_size)?,
        message: read_size,
        left: read_size,
        calls: 0,
    }))
}

impl Take for RecvWaitall {
    fn expect(&mut self, message_bytes: usize) {
        self.message = message_bytes;
        self.left = message_bytes;
    }

    fn take(&mut self) -> io::Result<usize> {
        let most = self.left.min(self.buffer.bytes().len());
        let buffer = &mut self.buffer.bytes_mut()[..most];
        let got = taken(&mut self.calls, || {
            rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::WAITALL).map(|(n, _)| n)
        })?;
        self.left -= got;
        if self.left == 0 {
            self.left = self.message;
        }
        Ok(got)
    }

    fn look(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        see(&self.buffer.bytes()[..got]);
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
