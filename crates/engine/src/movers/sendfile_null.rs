//! `sendfile-null`: sendfile(2) to where nothing is kept. The kernel takes references to the
//! file's pages into a pipe of its own, and `/dev/null` lets go of them (splice_direct_to_actor
//! in fs/splice.c, splice_write_null in drivers/char/mem.c): no byte is looked at.

use std::io;
use std::os::fd::OwnedFd;

use super::copying::{self, Carry};
use crate::mover::{FILE_TO_NULL, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile-null",
        summary: "sendfile(2) to /dev/null: references to the file's pages are taken and let go; nothing is copied",
        caution: Some(
            "no byte of the file is touched on the way to /dev/null: this measures the look-up of pages in the page cache, and the disk where they are missing, but no copy; whoever uses the data pays for that besides",
        ),
        ..FILE_TO_NULL
    },
    open: Open::File(open),
};

struct SendfileNull;

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    copying::to_null(setup, |_| Ok(SendfileNull))
}

impl Carry for SendfileNull {
    fn carry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset: u64,
        len: usize,
        tally: &mut Tally,
    ) -> io::Result<usize> {
        tally.calls += 1;
        let mut offset = offset;
        Ok(rustix::fs::sendfile(to, from, Some(&mut offset), len)?)
    }
}
