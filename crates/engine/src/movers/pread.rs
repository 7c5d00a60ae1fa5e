//! `pread`: pread(2), the plain way.

use std::io;
use std::os::fd::OwnedFd;

use super::reading::{self, Read};
use crate::mover::{FILE_READ, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "pread",
        summary: "pread(2): the offset is told, the file's position stays",
        ..FILE_READ
    },
    open: Open::File(open),
};

struct Pread;

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
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
