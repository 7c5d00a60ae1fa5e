//! `preadv2`: preadv2(2) without flags.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::io::ReadWriteFlags;

use super::reading::{self, Read};
use crate::mover::{FILE_READ, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "preadv2",
        summary: "preadv2(2) without flags: what a vector of one buffer costs",
        ..FILE_READ
    },
    open: Open::File(open),
};

struct Preadv2;

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
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
