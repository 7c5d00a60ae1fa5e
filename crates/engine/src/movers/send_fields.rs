//! `send-fields`: one send(2) for each field of a message.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::net::SendFlags;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, STREAM, retry};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "send-fields",
        summary: "send(2) once for each field: many calls a message; the kernel copies it",
        uses_fields: true,
        ..STREAM
    },
    open: Open::Stream(open),
};

struct SendFields {
    socket: OwnedFd,
    source: Source,
    region: Region,
    fields: usize,
    /// Flags of every field but the last.
    between: SendFlags,
    size: u64,
    tally: Tally,
}

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    with_flags(setup, SendFlags::empty())
}

/// One send(2) for each field, with these flags on all but the last.
pub(super) fn with_flags(mut setup: Setup, between: SendFlags) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    let tally = Tally::default();
    Ok(Box::new(SendFields {
        socket,
        source,
        region,
        fields: setup.fields,
        between: SendFlags::NOSIGNAL | between,
        size: setup.size as u64,
        tally,
    }))
}

impl Move for SendFields {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(self.region.bytes_mut());
        for field in 0..self.fields {
            let flags = if field + 1 < self.fields {
                self.between
            } else {
                SendFlags::NOSIGNAL
            };
            let mut left = &self.region.bytes()[self.source.layout().range(slot, field)];
            while !left.is_empty() {
                self.tally.calls += 1;
                match rustix::net::send(&self.socket, left, flags) {
                    Ok(n) => left = &left[n..],
                    Err(e) => retry(e.into())?,
                }
            }
        }
        self.tally.messages += 1;
        self.tally.bytes += self.size;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
