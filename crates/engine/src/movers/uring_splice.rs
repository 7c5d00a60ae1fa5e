//! `uring-splice`: io_uring splices, from a file into a pipe and from the pipe to the socket.

use std::io;

use bytecost_spec::survey::Release;
use bytecost_sys::pipe::Pipe;
use bytecost_sys::places::ALIGN_BYTES;
use bytecost_sys::uring_relay::UringRelay;

use super::relay::{PIECES, Relay};
use super::sent_file::take;
use super::splice::PIPE_BYTES;
use crate::mover::{FILE_SENT, InFlight, Move, Mover, MoverFacts, Open};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-splice",
        summary: "io_uring splices through a pipe: up to eight linked pairs in one call, carried out by io_uring's own threads; the socket refers to the file's pages",
        in_flight: InFlight::SeveralByThreads,
        release: Release::Never,
        descriptors_per_flow: 5,
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    let pipe = Pipe::new(PIPE_BYTES)?;
    // A piece that begins within a page takes a slot of the pipe more than its pages.
    let piece = pipe.capacity().saturating_sub(ALIGN_BYTES);
    let ring = UringRelay::by_pipe(work.file, socket, PIECES as u32, pipe)?;
    Ok(Box::new(Relay::new(ring, work.walk, &setup, piece, true)))
}
