//! `pwrite`: pwrite(2), the plain way.

use std::io;
use std::os::fd::OwnedFd;

use super::writing::{self, PASSES, Write};
use crate::mover::{FILE_WRITE, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "pwrite",
        summary: "pwrite(2): the offset is told, the file's position stays",
        ..FILE_WRITE
    },
    open: Open::File(open),
};

pub const WITH_FDATASYNC: Mover = Mover {
    facts: MoverFacts {
        name: "pwrite-fdatasync",
        summary: "pwrite(2): the offset is told, the file's position stays; fdatasync(2) at the end of each pass through the file",
        caution: Some(PASSES),
        ..FILE_WRITE
    },
    open: Open::File(open_synced),
};

struct Pwrite;

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    writing::open(setup, false, Pwrite)
}

fn open_synced(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
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
