//! `sendmsg`: all fields of a message in one sendmsg(2).

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::gather::Gather;
use rustix::net::SendFlags;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, STREAM, finish};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "sendmsg",
        summary: "sendmsg(2): all fields of a message in one call; the kernel copies them",
        uses_fields: true,
        ..STREAM
    },
    open: Open::Stream(open),
};

struct Sendmsg {
    socket: OwnedFd,
    source: Source,
    gather: Gather,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    let gather = Gather::new(region, &source.layout().ranges(), setup.fields)?;
    Ok(Box::new(Sendmsg {
        socket,
        source,
        gather,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl Move for Sendmsg {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(self.gather.bytes_mut());
        finish(self.size, &mut self.tally, |done| {
            self.gather
                .sendmsg(&self.socket, slot, done, SendFlags::NOSIGNAL)
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
