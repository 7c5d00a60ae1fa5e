//! `uring-write`: io_uring writes, several in flight.

use std::io;

use bytecost_sys::uring_file::{Options, UringFile};

use super::queued;
use super::writing::PASSES;
use crate::mover::{FILE_WRITE, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-write",
        summary: "io_uring writes: handed over by an eighth of the depth at once; the last of these calls waits for at least one",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 2,
        ..FILE_WRITE
    },
    open: Open::File(open),
};

pub const WITH_FDATASYNC: Mover = Mover {
    facts: MoverFacts {
        name: "uring-write-fdatasync",
        summary: "io_uring writes: handed over by an eighth of the depth at once; the last of these calls waits for at least one; fdatasync(2) at the end of each pass through the file",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 3,
        caution: Some(PASSES),
        ..FILE_WRITE
    },
    open: Open::File(open_synced),
};

const OPTIONS: Options = Options {
    write: true,
    registered: false,
    poller: false,
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::writing(setup, false, |file, places| {
        UringFile::new(file, places, OPTIONS)
    })
}

fn open_synced(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::writing(setup, true, |file, places| {
        UringFile::new(file, places, OPTIONS)
    })
}
