//! Movers with a known truth, for tests of bytecost itself: ways that are equal, and one that does
//! 5 % more work. They are in no build but one with the feature `planted`.

use super::send::SEND;
use super::sync_file::{PREAD, reading};
use crate::mover::{FILE_READ, Mover, MoverFacts, Open};

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
pub const PREAD_PLUS_5: Mover = Mover {
    facts: MoverFacts {
        name: "pread-plus-5",
        summary: "planted: pread(2), and every twentieth request is read a second time",
        ..FILE_READ
    },
    states: PREAD.states,
    open: Open::File(|setup| {
        let mut since = 0;
        reading(setup, move |file, bytes, offset, tally| {
            since += 1;
            if since == EVERY {
                since = 0;
                tally.calls += 1;
                rustix::io::pread(file, &mut *bytes, offset)?;
            }
            rustix::io::pread(file, bytes, offset)
        })
    }),
};

/// One request in so many is carried out twice: 5 % more of the same work.
const EVERY: u32 = 20;
