//! `read`: read(2) where the file's position is.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::SeekFrom;

use super::reading::{self, Read};
use crate::mover::{FILE_READ, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "read",
        summary: "read(2) at the file's position; in random order after an lseek(2)",
        ..FILE_READ
    },
    open: Open::File(open),
};

/// Where the file's position is.
struct AtPosition(u64);

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    reading::open(setup, AtPosition(0))
}

impl Read for AtPosition {
    fn read(
        &mut self,
        file: &OwnedFd,
        bytes: &mut [u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        if self.0 != offset {
            tally.calls += 1;
            rustix::fs::seek(file, SeekFrom::Start(offset))?;
            self.0 = offset;
        }
        tally.calls += 1;
        let n = rustix::io::read(file, bytes)?;
        self.0 += n as u64;
        Ok(n)
    }
}
