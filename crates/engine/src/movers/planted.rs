//! Movers with a known truth, for tests of bytecost itself: ways that are equal, and one that does
//! 5 % more work. They are in no build but one with the feature `planted`.

use std::io;
use std::os::fd::OwnedFd;

use super::reading::{self, Read};
use super::send;
use crate::mover::{FILE_READ, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

const EQUAL: &str = "planted: the same as another row, under another name";

/// `send` under another name.
const fn equal(name: &'static str) -> Mover {
    Mover {
        facts: MoverFacts {
            name,
            summary: EQUAL,
            ..send::MOVER.facts
        },
        ..send::MOVER
    }
}

pub const SEND_1: Mover = equal("send-same-1");
pub const SEND_2: Mover = equal("send-same-2");
pub const SEND_3: Mover = equal("send-same-3");
pub const PREAD_PLUS_5: Mover = Mover {
    facts: MoverFacts {
        name: "pread-plus-5",
        summary: "planted: pread(2), and every twentieth request is read a second time",
        ..FILE_READ
    },
    open: Open::File(open),
};

/// One request in so many is carried out twice: 5 % more of the same work.
const EVERY: u32 = 20;

struct PlusFive {
    since: u32,
}

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    reading::open(setup, PlusFive { since: 0 })
}

impl Read for PlusFive {
    fn read(
        &mut self,
        file: &OwnedFd,
        bytes: &mut [u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize> {
        self.since += 1;
        if self.since == EVERY {
            self.since = 0;
            tally.calls += 1;
            rustix::io::pread(file, &mut *bytes, offset)?;
        }
        tally.calls += 1;
        rustix::io::pread(file, bytes, offset)
    }
}
