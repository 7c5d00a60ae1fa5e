//! A thread sleeps until a beat, wakes, and does nothing or a little. Nothing is moved, and a
//! message is one wake-up. The caller sleeps, since it holds the clock.

use crate::mover::{Move, Mover, MoverFacts, Open, WORK, WorkKind, at_once};
use crate::setup::Setup;
use crate::statement::NOTHING;
use crate::work::{Integer, Work};

/// From one beat to the next, in ns: the interval that cyclictest has by default.
const BEAT_NS: u64 = 1_000_000;
/// Units of work at each beat of `wake-work`: some 300 µs, so that a quota has something to bind.
const UNITS: u32 = 30;
/// The bytes that a wake-up counts as: those of its counter.
const COUNTER_BYTES: usize = 8;

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

pub const WITH_WORK: Mover = Mover {
    facts: MoverFacts {
        name: "wake-work",
        summary: "wakes as wake-up does, and multiplies and adds whole numbers for some 300 µs each time",
        ..MOVER.facts
    },
    states: NOTHING,
    open: Open::Beats {
        every_ns: BEAT_NS,
        open: |setup| Ok(waking(&setup, UNITS)),
    },
};

fn waking(setup: &Setup, units: u32) -> Box<dyn Move> {
    let mut work = Integer::new(setup.flow);
    at_once(move |tally| {
        for _ in 0..units {
            work.unit()?;
        }
        tally.moved(COUNTER_BYTES);
        Ok(())
    })
}
