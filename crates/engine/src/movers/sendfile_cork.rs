//! `sendfile-cork`: sendfile(2) with TCP_CORK around the message.
//!
//! The call that brings the file then never sends a segment that is not full, whatever pieces the
//! kernel cuts the file into; what is left goes out when the cork is taken off. Source: tcp(7),
//! TCP_CORK, which was made for this pair.

use std::io;

use bytecost_spec::survey::Release;

use super::sendfile;
use crate::corked::Corked;
use crate::mover::{FILE_SENT, Move, Mover, MoverFacts, Open};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile-cork",
        summary: "as sendfile, with TCP_CORK set before each message and taken off after it: no segment but the last goes out before it is full",
        release: Release::Never,
        descriptors_per_flow: 3,
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
    let kept = socket.try_clone()?;
    Ok(Box::new(Corked::new(sendfile::open(setup)?, kept)))
}
