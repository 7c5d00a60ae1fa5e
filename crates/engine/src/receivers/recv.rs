//! `recv`: recv(2) into one buffer.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::RecvFlags;

use crate::receiver::{Receiver, ReceiverFacts, Take, taken};

pub const RECEIVER: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recv",
        summary: "recv(2) into one buffer; the kernel copies",
        sees_content: true,
    },
    open,
};

struct Recv {
    socket: OwnedFd,
    buffer: Region,
    calls: u64,
}

fn open(socket: OwnedFd, read_size: usize) -> io::Result<Box<dyn Take>> {
    Ok(Box::new(Recv {
        socket,
        buffer: Region::new(read_size)?,
        calls: 0,
    }))
}

impl Take for Recv {
    fn take(&mut self) -> io::Result<usize> {
        let buffer = self.buffer.bytes_mut();
        taken(&mut self.calls, || {
            rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()).map(|(n, _)| n)
        })
    }

    fn look(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        see(&self.buffer.bytes()[..got]);
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
