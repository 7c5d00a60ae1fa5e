//! `memcpy`: what a core's copy costs without a kernel in between.

use std::hint::black_box;
use std::io;

use bytecost_sys::io_buffers::IoBuffers;
use bytecost_sys::region::Region;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, Route, WORK};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::NOTHING;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "memcpy",
        summary: "memcpy(3) of the payload into one buffer of a message: no system call; what one core copies by itself",
        route: Route::MemoryToMemory,
        ..WORK
    },
    states: NOTHING,
    open: Open::Stream(|setup| Ok(Box::new(Memcpy::new(setup)?))),
};

struct Memcpy {
    source: Source,
    region: Region,
    /// One place: where all messages go.
    to: IoBuffers,
    tally: Tally,
}

impl Memcpy {
    fn new(mut setup: Setup) -> io::Result<Memcpy> {
        setup.fresh = false;
        setup.refill = false;
        let (source, region) = Source::new(&setup, Layout::contiguous(&setup))?;
        Ok(Memcpy {
            source,
            region,
            to: IoBuffers::new(1, setup.size)?,
            tally: Tally::default(),
        })
    }
}

impl Move for Memcpy {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(&mut []);
        let from = &self.region.bytes()[self.source.layout().range(slot, 0)];
        let to = self.to.bytes_mut(0).ok_or(io::ErrorKind::WouldBlock)?;
        to.copy_from_slice(from);
        black_box(to);
        self.tally.moved(from.len());
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_the_ring_arrives_whole_and_is_counted() {
        let setup = || Setup {
            slots: 4,
            flow: 3,
            fresh: true,
            ..Setup::new(5000, std::time::Duration::from_secs(1))
        };
        let pattern = setup().pattern(false);
        let mut mover = Memcpy::new(setup()).unwrap();
        for message in 0..9_u64 {
            assert_eq!(mover.offer().unwrap(), Offer::Moved);
            let bytes = mover.to.bytes(0).unwrap();
            assert_eq!(bytes.len(), 5000);
            let wrong = pattern.mismatch(message % 4 * 5000, bytes);
            assert_eq!(wrong, None, "{message}");
        }
        let tally = mover.tally();
        assert_eq!((tally.messages, tally.bytes, tally.calls), (9, 45_000, 0));
    }
}
