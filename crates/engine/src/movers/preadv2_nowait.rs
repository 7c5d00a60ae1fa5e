//! `preadv2-nowait`: preadv2(2) with RWF_NOWAIT, which never waits for the disk.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, ReadWriteFlags};

use super::reading::{self, Read};
use crate::mover::{FILE_READ, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "preadv2-nowait",
        summary: "preadv2(2) with RWF_NOWAIT, and again without it where the page cache has not all",
        ..FILE_READ
    },
    open: Open::File(open),
};

struct Nowait;

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    reading::open(setup, Nowait)
}

impl Read for Nowait {
    fn read(
        &mut self,
        file: &OwnedFd,
        bytes: &mut [u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        tally.calls += 1;
        let mut vector = [IoSliceMut::new(bytes)];
        let some = match rustix::io::preadv2(file, &mut vector, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN) => 0,
            // The cache has all, or the file ends.
            whole if whole == Ok(bytes.len()) || whole == Ok(0) => return whole,
            part => part?,
        };
        tally.misses += 1;
        tally.calls += 1;
        let rest = &mut bytes[some..];
        Ok(some + rustix::io::pread(file, rest, offset + some as u64)?)
    }
}
