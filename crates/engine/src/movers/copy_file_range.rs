//! `copy_file_range`: from a file to another within the kernel.

use std::io;
use std::os::fd::OwnedFd;

use super::copying::{self, Carry};
use crate::mover::{FILE_COPY, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "copy_file_range",
        summary: "copy_file_range(2) to the other file: the kernel copies from page to page, one call a block",
        caution: Some(
            "a file system that can let two files share their blocks (btrfs, xfs, overlayfs upon these, nfs) may do that in the place of copying; then this measures no copy, and who writes to either file later pays for it",
        ),
        ..FILE_COPY
    },
    open: Open::File(open),
};

struct CopyFileRange;

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    copying::to_file(setup, |_| Ok(CopyFileRange))
}

impl Carry for CopyFileRange {
    fn carry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset: u64,
        len: usize,
        tally: &mut Tally,
    ) -> io::Result<usize> {
        tally.calls += 1;
        let (mut at_from, mut at_to) = (offset, offset);
        Ok(rustix::fs::copy_file_range(
            from,
            Some(&mut at_from),
            to,
            Some(&mut at_to),
            len,
        )?)
    }
}
