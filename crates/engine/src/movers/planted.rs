//! Movers with a known truth, for tests of bytecost itself: ways that are equal, and one that does
//! 5 % more work. They are in no build but one with the feature `planted`.

use std::io;
use std::os::fd::OwnedFd;

use super::reading::{self, Read};
use super::{Move, Mover, Setup, Tally, pread, send};

const EQUAL: &str = "planted: the same as another row, under another name";

pub const SEND_1: Mover = Mover {
    name: "send-same-1",
    summary: EQUAL,
    ..send::MOVER
};
pub const SEND_2: Mover = Mover {
    name: "send-same-2",
    ..SEND_1
};
pub const SEND_3: Mover = Mover {
    name: "send-same-3",
    ..SEND_1
};
pub const PREAD_PLUS_5: Mover = Mover {
    name: "pread-plus-5",
    summary: "planted: pread(2), and every twentieth request is read a second time",
    open,
    ..pread::MOVER
};

/// One request in so many is carried out twice: 5 % more of the same work.
const EVERY: u32 = 20;

struct PlusFive {
    since: u32,
}

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
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
