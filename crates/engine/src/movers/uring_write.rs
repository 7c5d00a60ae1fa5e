//! `uring-write`: io_uring writes, several in flight.

use std::io;

use bytecost_spec::survey::Release;
use bytecost_sys::uring_file::{Options, UringFile};

use super::queued;
use super::writing::PASSES;
use super::{InFlight, Move, Mover, Route, Setup};

pub const MOVER: Mover = Mover {
    name: "uring-write",
    summary: "io_uring writes: handed over by an eighth of the depth at once; the last of these calls waits for at least one",
    route: Route::MemoryToFile,
    in_flight: InFlight::SeveralByThreads,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 2,
    leaves_completions: false,
    caution: None,
    open,
};

pub const WITH_FDATASYNC: Mover = Mover {
    name: "uring-write-fdatasync",
    summary: "io_uring writes: handed over by an eighth of the depth at once; the last of these calls waits for at least one; fdatasync(2) at the end of each pass through the file",
    route: Route::MemoryToFile,
    in_flight: InFlight::SeveralByThreads,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 3,
    leaves_completions: false,
    caution: Some(PASSES),
    open: open_synced,
};

const OPTIONS: Options = Options {
    write: true,
    registered: false,
    poller: false,
};

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    queued::writing(setup, false, |file, places| {
        UringFile::new(file, places, OPTIONS)
    })
}

fn open_synced(setup: Setup) -> io::Result<Box<dyn Move>> {
    queued::writing(setup, true, |file, places| {
        UringFile::new(file, places, OPTIONS)
    })
}
