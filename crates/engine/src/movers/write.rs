//! `write`: write(2) where the file's position is.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::SeekFrom;

use super::writing::{self, PASSES, Write};
use crate::mover::{FILE_WRITE, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "write",
        summary: "write(2) at the file's position; in random order after an lseek(2)",
        ..FILE_WRITE
    },
    open: Open::File(open),
};

pub const WITH_FDATASYNC: Mover = Mover {
    facts: MoverFacts {
        name: "write-fdatasync",
        summary: "write(2) at the file's position; in random order after an lseek(2); fdatasync(2) at the end of each pass through the file",
        caution: Some(PASSES),
        ..FILE_WRITE
    },
    open: Open::File(open_synced),
};

/// Where the file's position is.
struct AtPosition(u64);

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    writing::open(setup, false, AtPosition(0))
}

fn open_synced(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    writing::open(setup, true, AtPosition(0))
}

impl Write for AtPosition {
    fn write(
        &mut self,
        file: &OwnedFd,
        bytes: &[u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        if self.0 != offset {
            tally.calls += 1;
            rustix::fs::seek(file, SeekFrom::Start(offset))?;
            self.0 = offset;
        }
        tally.calls += 1;
        let n = rustix::io::write(file, bytes)?;
        self.0 += n as u64;
        Ok(n)
    }
}
