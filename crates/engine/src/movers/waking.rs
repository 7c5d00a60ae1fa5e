//! `wake-up` and `wake-work`: a thread sleeps until a beat, wakes, and does nothing or a little.
//!
//! Nothing is moved, and a message is one wake-up. The caller sleeps, since it holds the clock.

use std::io;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, WORK, WorkKind};
use crate::setup::Setup;
use crate::statement::NOTHING;
use crate::tally::Tally;
use crate::work::{Integer, Work};

/// From one beat to the next, in ns: the interval that cyclictest has by default.
const BEAT_NS: u64 = 1_000_000;
/// Units of work at each beat of `wake-work`: some 300 µs, so that a quota has something to bind.
const UNITS: u32 = 30;
/// What a wake-up is counted as, in bytes: its counter.
const COUNTER_BYTES: u64 = 8;

/// Wakes up.
pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "wake-up",
        summary: "sleeps until a beat each millisecond and wakes; latency is how late it runs, as cyclictest measures it",
        work: WorkKind::Beats,
        ..WORK
    },
    states: NOTHING,
    open: Open::Beats {
        every_ns: BEAT_NS,
        open: |setup| Ok(waking(&setup, 0)),
    },
};

/// Wakes up and works.
pub const WITH_WORK: Mover = Mover {
    facts: MoverFacts {
        name: "wake-work",
        summary: "wakes as wake-up does, and multiplies and adds whole numbers for some 300 µs each time",
        work: WorkKind::Beats,
        ..WORK
    },
    states: NOTHING,
    open: Open::Beats {
        every_ns: BEAT_NS,
        open: |setup| Ok(waking(&setup, UNITS)),
    },
};

struct Waking {
    work: Integer,
    units: u32,
    wakes: u64,
}

fn waking(setup: &Setup, units: u32) -> Box<dyn Move> {
    Box::new(Waking {
        work: Integer::new(setup.flow),
        units,
        wakes: 0,
    })
}

impl Move for Waking {
    fn offer(&mut self) -> io::Result<Offer> {
        for _ in 0..self.units {
            self.work.unit()?;
        }
        self.wakes += 1;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        Tally {
            messages: self.wakes,
            bytes: self.wakes * COUNTER_BYTES,
            ..Tally::default()
        }
    }
}
