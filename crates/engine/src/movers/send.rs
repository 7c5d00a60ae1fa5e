//! Messages sent from memory by calls that return when the kernel has copied them: each row is
//! another call.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::iovecs::Iovecs;
use bytecost_sys::region::Region;
use rustix::net::SendFlags;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, STREAM, finish, retry};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::{Each, MORE, NOSIGNAL, Requirement, SENDTO, SENT, call};
use crate::tally::Tally;

pub const SEND: Mover = Mover {
    facts: MoverFacts {
        name: "send",
        summary: "send(2): one call a message; the kernel copies it",
        ..STREAM
    },
    states: SENT.by(&[SENDTO]),
    open: Open::Stream(|setup| {
        in_one_piece(setup, |socket, bytes| {
            rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
        })
    }),
};

pub const SEND_FIELDS: Mover = Mover {
    facts: MoverFacts {
        name: "send-fields",
        summary: "send(2) once for each field: many calls a message; the kernel copies it",
        ..OF_FIELDS
    },
    states: SENT
        .by(&[SENDTO.each(Each::Field)])
        .needing(&[Requirement::Stream]),
    open: Open::Stream(|setup| field_by_field(setup, SendFlags::empty())),
};

/// The kernel holds back what does not fill a segment until the last field is there, so that no
/// small segment waits for an acknowledgement (Nagle). Source: send(2), MSG_MORE.
pub const SEND_MORE: Mover = Mover {
    facts: MoverFacts {
        name: "send-more",
        summary: "send(2) once for each field, with MSG_MORE on all but the last: as many calls, but no small segment goes out before the message is whole",
        ..OF_FIELDS
    },
    states: SENT.by(&[SENDTO.with(MORE).each(Each::FieldButLast), SENDTO]),
    open: Open::Stream(|setup| field_by_field(setup, SendFlags::MORE)),
};

pub const WRITEV: Mover = Mover {
    facts: MoverFacts {
        name: "writev",
        summary: "writev(2): all fields of a message in one call; the kernel copies them",
        ..OF_FIELDS
    },
    states: SENT.by(&[call("writev")]),
    open: Open::Stream(|setup| {
        gathered(setup, |socket, fields, slot, done| {
            fields.writev(socket, slot, done)
        })
    }),
};

pub const SENDMSG: Mover = Mover {
    facts: MoverFacts {
        name: "sendmsg",
        summary: "sendmsg(2): all fields of a message in one call; the kernel copies them",
        ..OF_FIELDS
    },
    states: SENT.by(&[call("sendmsg").with(NOSIGNAL)]),
    open: Open::Stream(|setup| {
        gathered(setup, |socket, fields, slot, done| {
            fields.sendmsg(socket, slot, done, SendFlags::NOSIGNAL)
        })
    }),
};

const OF_FIELDS: MoverFacts<&str> = MoverFacts {
    uses_fields: true,
    ..STREAM
};

/// Messages in memory of that kind, and the call that sends what is left of one.
struct Sending<M, F> {
    socket: OwnedFd,
    source: Source,
    memory: M,
    size: usize,
    send: F,
    tally: Tally,
}

/// A mover whose call sends one piece of memory: how many bytes went.
pub(super) fn in_one_piece(
    mut setup: Setup,
    send: impl Fn(&OwnedFd, &[u8]) -> rustix::io::Result<usize> + 'static,
) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, memory) = Source::new(&setup, Layout::contiguous(&setup))?;
    Ok(Box::new(Sending {
        socket,
        source,
        memory,
        size: setup.size,
        send,
        tally: Tally::default(),
    }))
}

impl<F: Fn(&OwnedFd, &[u8]) -> rustix::io::Result<usize>> Move for Sending<Region, F> {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(self.memory.bytes_mut());
        let message = &self.memory.bytes()[self.source.layout().range(slot, 0)];
        finish(self.size, &mut self.tally, |done| {
            Ok((self.send)(&self.socket, &message[done..])?)
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// A mover whose call sends what is left of all fields of a slot: how many bytes went.
fn gathered(
    mut setup: Setup,
    send: impl Fn(&OwnedFd, &mut Iovecs, usize, usize) -> io::Result<usize> + 'static,
) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    let memory = Iovecs::new(region, &source.layout().ranges(), setup.fields)?;
    Ok(Box::new(Sending {
        socket,
        source,
        memory,
        size: setup.size,
        send,
        tally: Tally::default(),
    }))
}

impl<F: Fn(&OwnedFd, &mut Iovecs, usize, usize) -> io::Result<usize>> Move for Sending<Iovecs, F> {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(self.memory.bytes_mut());
        finish(self.size, &mut self.tally, |done| {
            (self.send)(&self.socket, &mut self.memory, slot, done)
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

struct FieldByField {
    socket: OwnedFd,
    source: Source,
    region: Region,
    fields: usize,
    /// Flags of every field but the last.
    between: SendFlags,
    size: u64,
    tally: Tally,
}

/// One send(2) for each field, with these flags on all but the last.
fn field_by_field(mut setup: Setup, between: SendFlags) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    Ok(Box::new(FieldByField {
        socket,
        source,
        region,
        fields: setup.fields,
        between: SendFlags::NOSIGNAL | between,
        size: setup.size as u64,
        tally: Tally::default(),
    }))
}

impl Move for FieldByField {
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
