//! `uring-send-zc`: io_uring zero-copy sends from registered memory.
//!
//! A request has two events: the bytes are taken, and the buffer is free again (with a word on
//! whether the kernel copied after all). Source: io_uring_enter(2), IORING_OP_SEND_ZC.

use std::io;
use std::time::Duration;

use bytecost_spec::cell::Reaping;
use bytecost_spec::survey::Release;
use bytecost_sys::uring::{Event, Uring};

use super::uring_send::{BATCH, whole};
use crate::mover::{InFlight, Move, Mover, MoverFacts, Offer, Open, STREAM, no_progress};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-send-zc",
        summary: "io_uring SEND_ZC from registered memory: up to eight linked messages in one call; the kernel says when buffers are free and whether it copied after all",
        in_flight: InFlight::SeveralByThreads,
        release: Release::AtCompletion,
        locks_rings: 1,
        descriptors_per_flow: 2,
        ..STREAM
    },
    open: Open::Stream(open),
};

struct UringSendZc {
    ring: Uring,
    source: Source,
    size: usize,
    batch: usize,
    patience: Duration,
    queued: usize,
    held: Vec<bool>,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    if setup.reaping != Reaping::Full {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "completions and results come in one ring, so that none can be left lying",
        ));
    }
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::contiguous(&setup))?;
    let batch = BATCH.min(setup.slots);
    // Each request has two events, and those of every slot may be waiting at once.
    let ring = Uring::new(
        (2 * setup.slots).clamp(16, 4096) as u32,
        socket,
        region,
        true,
    )?;
    Ok(Box::new(UringSendZc {
        ring,
        source,
        size: setup.size,
        batch,
        patience: setup.patience,
        queued: 0,
        held: vec![false; setup.slots],
        tally: Tally::default(),
    }))
}

impl UringSendZc {
    /// One call: hands over what is queued, waits for `want` events, takes in all that are there.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        self.tally.calls += 1;
        if !self.ring.enter(want, self.patience)? {
            return Err(no_progress());
        }
        while let Some(event) = self.ring.event() {
            match event {
                Event::Done { tag, result, more } => {
                    whole(result, self.size)?;
                    self.queued -= 1;
                    self.tally.messages += 1;
                    self.tally.bytes += self.size as u64;
                    if more {
                        self.tally.held += 1;
                    } else {
                        self.held[tag as usize] = false;
                    }
                }
                Event::Back { tag, copied } => {
                    self.held[tag as usize] = false;
                    self.tally.released += 1;
                    self.tally.copied += u64::from(copied);
                }
            }
        }
        Ok(())
    }
}

impl Move for UringSendZc {
    fn offer(&mut self) -> io::Result<Offer> {
        if self.queued == self.batch || self.held[self.source.next_slot()] {
            return Ok(Offer::Full);
        }
        let slot = self.source.begin(self.ring.bytes_mut());
        let range = self.source.layout().range(slot, 0);
        self.ring
            .send_zc(range, slot as u64, self.queued + 1 < self.batch, true)?;
        self.held[slot] = true;
        self.queued += 1;
        Ok(Offer::Queued)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.queued > 0 {
            self.enter(self.queued)?;
        }
        Ok(())
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        if min == 0 {
            return Ok(());
        }
        if self.queued > 0 {
            return self.flush();
        }
        let goal = (self.tally.released + u64::from(min)).min(self.tally.held);
        while self.tally.released < goal {
            self.enter(1)?;
        }
        Ok(())
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
