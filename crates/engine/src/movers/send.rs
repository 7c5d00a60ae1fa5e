//! `send`: one send(2) a message, from one piece of memory.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::SendFlags;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, STREAM, finish};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "send",
        summary: "send(2): one call a message; the kernel copies it",
        ..STREAM
    },
    open: Open::Stream(open),
};

struct Send {
    socket: OwnedFd,
    source: Source,
    region: Region,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::contiguous(&setup))?;
    Ok(Box::new(Send {
        socket,
        source,
        region,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl Move for Send {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(self.region.bytes_mut());
        let message = &self.region.bytes()[self.source.layout().range(slot, 0)];
        finish(self.size, &mut self.tally, |done| {
            Ok(rustix::net::send(
                &self.socket,
                &message[done..],
                SendFlags::NOSIGNAL,
            )?)
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
