//! `pwrite`: pwrite(2), the plain way.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;

use super::writing::{self, PASSES, Write};
use super::{InFlight, Move, Mover, Route, Setup, Tally};

pub const MOVER: Mover = Mover {
    name: "pwrite",
    summary: "pwrite(2): the offset is told, the file's position stays",
    route: Route::MemoryToFile,
    in_flight: InFlight::One,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 1,
    leaves_completions: false,
    caution: None,
    open,
};

pub const WITH_FDATASYNC: Mover = Mover {
    name: "pwrite-fdatasync",
    summary: "pwrite(2): the offset is told, the file's position stays; fdatasync(2) at the end of each pass through the file",
    route: Route::MemoryToFile,
    in_flight: InFlight::One,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 1,
    leaves_completions: false,
    caution: Some(PASSES),
    open: open_synced,
};

struct Pwrite;

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    writing::open(setup, false, Pwrite)
}

fn open_synced(setup: Setup) -> io::Result<Box<dyn Move>> {
    writing::open(setup, true, Pwrite)
}

impl Write for Pwrite {
    fn write(
        &mut self,
        file: &OwnedFd,
        bytes: &[u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        tally.calls += 1;
        rustix::io::pwrite(file, bytes, offset)
    }
}
