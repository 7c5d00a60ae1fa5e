//! `send-more`: one send(2) for each field of a message, with MSG_MORE on all but the last.
//!
//! The kernel then holds back what does not fill a segment until the last field is there, so
//! that no small segment waits for an acknowledgement (Nagle). Source: send(2), MSG_MORE.

use std::io;

use bytecost_spec::survey::Release;
use rustix::net::SendFlags;

use super::{InFlight, Move, Mover, Route, Setup, send_fields};

pub const MOVER: Mover = Mover {
    name: "send-more",
    summary: "send(2) once for each field, with MSG_MORE on all but the last: as many calls, but no small segment goes out before the message is whole",
    route: Route::MemoryToSocket,
    in_flight: InFlight::One,
    release: Release::AtReturn,
    uses_fields: true,
    locks_rings: 0,
    descriptors_per_flow: 1,
    leaves_completions: false,
    caution: None,
    open,
};

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    send_fields::with_flags(setup, SendFlags::MORE)
}
