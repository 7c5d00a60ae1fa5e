//! `send-more`: one send(2) for each field of a message, with MSG_MORE on all but the last.
//!
//! The kernel then holds back what does not fill a segment until the last field is there, so
//! that no small segment waits for an acknowledgement (Nagle). Source: send(2), MSG_MORE.

use std::io;

use rustix::net::SendFlags;

use super::send_fields;
use crate::mover::{Move, Mover, MoverFacts, Open, STREAM};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "send-more",
        summary: "send(2) once for each field, with MSG_MORE on all but the last: as many calls, but no small segment goes out before the message is whole",
        uses_fields: true,
        ..STREAM
    },
    open: Open::Stream(open),
};

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    send_fields::with_flags(setup, SendFlags::MORE)
}
