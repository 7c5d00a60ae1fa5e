//! `null`: moves nothing, so that a trial with it shows the cost of the loop.

use std::hint::black_box;
use std::io;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, Route, WORK};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::NOTHING;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "null",
        summary: "moves nothing: what the measuring loop itself costs",
        route: Route::Nowhere,
        ..WORK
    },
    states: NOTHING,
    open: Open::Stream(open),
};

struct Null {
    source: Source,
    size: u64,
    messages: u64,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    // There is no message to write.
    setup.fresh = false;
    setup.refill = false;
    let (source, _) = Source::new(&setup, Layout::contiguous(&setup))?;
    Ok(Box::new(Null {
        source,
        size: setup.size as u64,
        messages: 0,
    }))
}

impl Move for Null {
    fn offer(&mut self) -> io::Result<Offer> {
        black_box(self.source.begin(&mut []));
        self.messages += 1;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        Tally {
            messages: self.messages,
            bytes: self.messages * self.size,
            ..Tally::default()
        }
    }
}
