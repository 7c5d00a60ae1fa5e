//! `pread`: pread(2), the plain way.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;

use super::reading::{self, Read};
use super::{InFlight, Move, Mover, Route, Setup, Tally};

pub const MOVER: Mover = Mover {
    name: "pread",
    summary: "pread(2): the offset is told, the file's position stays",
    route: Route::FileToMemory,
    in_flight: InFlight::One,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 1,
    leaves_completions: false,
    caution: None,
    open,
};

struct Pread;

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    reading::open(setup, Pread)
}

impl Read for Pread {
    fn read(
        &mut self,
        file: &OwnedFd,
        bytes: &mut [u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        tally.calls += 1;
        rustix::io::pread(file, bytes, offset)
    }
}
