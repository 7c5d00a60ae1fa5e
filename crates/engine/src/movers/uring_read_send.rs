//! `uring-read-send`: io_uring reads of a file, each linked to a send of what it brought.

use std::io;

use bytecost_spec::survey::Release;
use bytecost_sys::uring_relay::UringRelay;

use super::relay::{PIECES, Relay};
use super::sent_file::take;
use super::{InFlight, Move, Mover, Route, Setup};

pub const MOVER: Mover = Mover {
    name: "uring-read-send",
    summary: "io_uring: a read of `block` bytes of a file into a buffer, linked to a send of them, up to eight such pairs in one call; the kernel copies twice",
    route: Route::FileToSocket,
    in_flight: InFlight::SeveralByThreads,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 3,
    leaves_completions: false,
    caution: None,
    open,
};

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    let block = work.block.max(1);
    let ring = UringRelay::by_buffer(work.file, socket, PIECES as u32, block)?;
    Ok(Box::new(Relay::new(ring, work.walk, &setup, block, false)))
}
