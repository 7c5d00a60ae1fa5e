//! Movers with a known truth, for tests of bytecost itself: ways that are equal, and two that do 5 and
//! 25 % more work. They are in no build but one with the feature `planted`.

use std::io;

use super::send::SEND;
use super::sync_file::{PREAD, reading};
use crate::mover::{FILE_READ, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;

const EQUAL: &str = "planted: the same as another row, under another name";

const fn equal(name: &'static str) -> Mover {
    Mover {
        facts: MoverFacts {
            name,
            summary: EQUAL,
            ..SEND.facts
        },
        ..SEND
    }
}

pub const SEND_1: Mover = equal("send-same-1");
pub const SEND_2: Mover = equal("send-same-2");
pub const SEND_3: Mover = equal("send-same-3");
pub const PREAD_PLUS_5: Mover = again(
    "pread-plus-5",
    "planted: pread(2), and every twentieth request is read a second time",
    |setup| reading_again(setup, 20),
);
pub const PREAD_PLUS_25: Mover = again(
    "pread-plus-25",
    "planted: pread(2), and every fourth request is read a second time",
    |setup| reading_again(setup, 4),
);

const fn again(
    name: &'static str,
    summary: &'static str,
    open: fn(Setup) -> io::Result<Box<dyn MoveFile>>,
) -> Mover {
    Mover {
        facts: MoverFacts {
            name,
            summary,
            ..FILE_READ
        },
        states: PREAD.states,
        open: Open::File(open),
    }
}

/// Carries out one request in so many twice: that much more of the same work.
fn reading_again(setup: Setup, every: u32) -> io::Result<Box<dyn MoveFile>> {
    let mut since = 0;
    reading(setup, move |file, bytes, offset, tally| {
        since += 1;
        if since == every {
            since = 0;
            tally.calls += 1;
            rustix::io::pread(file, &mut *bytes, offset)?;
        }
        rustix::io::pread(file, bytes, offset)
    })
}
