//! `recvmsg`: recvmsg(2) into eight pieces of memory.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::{RecvAncillaryBuffer, RecvFlags};

use crate::receivers::{Receiver, ReceiverFacts, Take, taken};

pub const RECEIVER: Receiver = Receiver {
    facts: ReceiverFacts {
        name: "recvmsg",
        summary: "recvmsg(2) into eight pieces of memory; the kernel copies",
        sees_content: true,
    },
    open,
};

const PIECES: usize = 8;

struct Recvmsg {
    socket: OwnedFd,
    pieces: Vec<Region>,
    calls: u64,
}

fn open(socket: OwnedFd, read_size: usize) -> io::Result<Box<dyn Take>> {
    let piece = read_size.div_ceil(PIECES);
    Ok(Box::new(Recvmsg {
        socket,
        pieces: (0..PIECES)
            .map(|_| Region::new(piece))
            .collect::<io::Result<_>>()?,
        calls: 0,
    }))
}

impl Take for Recvmsg {
    fn take(&mut self) -> io::Result<usize> {
        let mut pieces = self.pieces.iter_mut();
        let mut slices: [IoSliceMut<'_>; PIECES] = std::array::from_fn(|_| {
            IoSliceMut::new(pieces.next().map_or(&mut [], Region::bytes_mut))
        });
        taken(&mut self.calls, || {
            let mut control = RecvAncillaryBuffer::default();
            rustix::net::recvmsg(&self.socket, &mut slices, &mut control, RecvFlags::empty())
                .map(|m| m.bytes)
        })
    }

    fn inspect(&self, got: usize, see: &mut dyn FnMut(&[u8])) {
        let mut left = got;
        for piece in &self.pieces {
            let bytes = piece.bytes();
            let n = left.min(bytes.len());
            if n == 0 {
                return;
            }
            see(&bytes[..n]);
            left -= n;
        }
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
