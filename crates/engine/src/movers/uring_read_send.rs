//! `uring-read-send`: io_uring reads of a file, each linked to a send of what it brought.

use std::io;

use bytecost_sys::uring_relay::UringRelay;

use super::relay::{PIECES, Relay};
use super::sent_file::take;
use crate::mover::{FILE_SENT, InFlight, Move, Mover, MoverFacts, Open};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-read-send",
        summary: "io_uring: a read of `block` bytes of a file into a buffer, linked to a send of them, up to eight such pairs in one call; the kernel copies twice",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 3,
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    let block = work.block.max(1);
    let ring = UringRelay::by_buffer(work.file, socket, PIECES as u32, block)?;
    Ok(Box::new(Relay::new(ring, work.walk, &setup, block, false)))
}
