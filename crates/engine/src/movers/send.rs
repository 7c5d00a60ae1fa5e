//! Movers that send messages from memory by calls that return when the kernel has copied them. They differ
//! in the call, in its flags, and in sending a message or a field by each call.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::iovecs::Iovecs;
use rustix::net::SendFlags;

use crate::mover::{Move, Mover, MoverFacts, Open, STREAM, at_once, finish, whole};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::{Each, MORE, NOSIGNAL, SENDTO, SENT, call};

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
    states: SENT.by(&[SENDTO.each(Each::Field)]),
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

/// A mover whose messages are contiguous. `send` gets the unsent bytes of a message, and returns the number
/// that the kernel accepted; it is called until all are sent.
pub(super) fn in_one_piece(
    mut setup: Setup,
    send: impl Fn(&OwnedFd, &[u8]) -> rustix::io::Result<usize> + 'static,
) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (mut source, mut memory) = Source::new(&setup, Layout::contiguous(&setup))?;
    Ok(at_once(move |tally| {
        let slot = source.begin(memory.bytes_mut());
        let message = &memory.bytes()[source.layout().range(slot, 0)];
        finish(setup.size, tally, |done, _| {
            Ok(send(&socket, &message[done..])?)
        })
    }))
}

/// A mover whose messages are in several fields. `send` gets the slot of a message and the number of its
/// sent bytes, and returns the number of further bytes that the kernel accepted.
fn gathered(
    mut setup: Setup,
    send: impl Fn(&OwnedFd, &mut Iovecs, usize, usize) -> io::Result<usize> + 'static,
) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (mut source, region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    let mut memory = Iovecs::new(region, &source.layout().ranges(), setup.fields)?;
    Ok(at_once(move |tally| {
        let slot = source.begin(memory.bytes_mut());
        finish(setup.size, tally, |done, _| {
            send(&socket, &mut memory, slot, done)
        })
    }))
}

/// A mover that calls send(2) for each field, with additional flags for all but the last.
fn field_by_field(mut setup: Setup, flags_before_last: SendFlags) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (mut source, mut region) = Source::new(&setup, Layout::of_fields(&setup)?)?;
    Ok(at_once(move |tally| {
        let slot = source.begin(region.bytes_mut());
        for field in 0..setup.fields {
            let flags = if field + 1 < setup.fields {
                SendFlags::NOSIGNAL | flags_before_last
            } else {
                SendFlags::NOSIGNAL
            };
            let bytes = &region.bytes()[source.layout().range(slot, field)];
            whole(bytes.len(), tally, |done, _| {
                Ok(rustix::net::send(&socket, &bytes[done..], flags)?)
            })?;
        }
        tally.moved(setup.size);
        Ok(())
    }))
}
