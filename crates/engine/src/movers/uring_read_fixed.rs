//! `uring-read-fixed`: io_uring reads with registered buffers and files.

use std::io;

use bytecost_sys::uring_file::{Options, UringFile};

use super::queued;
use crate::mover::{FILE_READ, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-read-fixed",
        summary: "as uring-read, with buffers and file registered, so that they are looked up and pinned once",
        in_flight: InFlight::SeveralByThreads,
        locks_rings: 1,
        descriptors_per_flow: 2,
        ..FILE_READ
    },
    open: Open::File(open),
};

const OPTIONS: Options = Options {
    write: false,
    registered: true,
    poller: false,
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, places| UringFile::new(file, places, OPTIONS))
}
