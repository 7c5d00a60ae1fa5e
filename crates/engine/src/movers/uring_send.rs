//! `uring-send`: io_uring sends, a few messages in one call.

use std::io;
use std::time::Duration;

use bytecost_sys::uring::{Event, Uring};

use crate::mover::{InFlight, Move, Mover, MoverFacts, Offer, Open, STREAM, no_progress};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-send",
        summary: "io_uring send: up to eight linked messages in one call; the kernel copies them",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 2,
        ..STREAM
    },
    open: Open::Stream(open),
};

/// Messages that one call hands over. They are linked: on a stream two sends side by side could
/// overtake each other.
pub(super) const BATCH: usize = 8;

struct UringSend {
    ring: Uring,
    source: Source,
    size: usize,
    batch: usize,
    patience: Duration,
    queued: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::contiguous(&setup))?;
    let batch = BATCH.min(setup.slots);
    let ring = Uring::new(batch as u32, socket, region, false)?;
    let (size, patience) = (setup.size, setup.patience);
    Ok(Box::new(UringSend {
        ring,
        source,
        size,
        batch,
        patience,
        queued: 0,
        tally: Tally::default(),
    }))
}

impl Move for UringSend {
    fn offer(&mut self) -> io::Result<Offer> {
        if self.queued == self.batch {
            return Ok(Offer::Full);
        }
        let slot = self.source.begin(self.ring.bytes_mut());
        self.ring.send(
            self.source.layout().range(slot, 0),
            slot as u64,
            self.queued + 1 < self.batch,
        )?;
        self.queued += 1;
        Ok(Offer::Queued)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.queued == 0 {
            return Ok(());
        }
        let mut missing = self.queued;
        while missing > 0 {
            self.tally.calls += 1;
            if !self.ring.enter(missing, self.patience)? {
                return Err(no_progress());
            }
            while let Some(event) = self.ring.event() {
                if let Event::Done { result, .. } = event {
                    whole(result, self.size)?;
                    missing -= 1;
                    self.tally.messages += 1;
                    self.tally.bytes += self.size as u64;
                }
            }
        }
        self.queued = 0;
        Ok(())
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        if min == 0 { Ok(()) } else { self.flush() }
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// Holds a request's result against the message: MSG_WAITALL promises all of it or an error.
pub(super) fn whole(result: i32, size: usize) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    if result as usize == size {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::WriteZero,
        format!("io_uring sent {result} of {size} bytes"),
    ))
}
