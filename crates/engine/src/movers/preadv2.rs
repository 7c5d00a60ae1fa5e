//! `preadv2`: preadv2(2) without flags.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;
use rustix::io::ReadWriteFlags;

use super::reading::{self, Read};
use super::{InFlight, Move, Mover, Route, Setup, Tally};

pub const MOVER: Mover = Mover {
    name: "preadv2",
    summary: "preadv2(2) without flags: what a vector of one buffer costs",
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

struct Preadv2;

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    reading::open(setup, Preadv2)
}

impl Read for Preadv2 {
    fn read(
        &mut self,
        file: &OwnedFd,
        bytes: &mut [u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        tally.calls += 1;
        let mut vector = [IoSliceMut::new(bytes)];
        rustix::io::preadv2(file, &mut vector, offset, ReadWriteFlags::empty())
    }
}
