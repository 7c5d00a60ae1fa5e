//! Messages sent from memory by io_uring, a few in one call: copied, or by reference, when a
//! request has two events: the bytes are taken, and the buffer is free again (with a word on
//! whether the kernel copied after all). Source: io_uring_enter(2), IORING_OP_SEND_ZC.

use std::io;
use std::time::Duration;

use bytecost_spec::cell::Reaping;
use bytecost_sys::uring_socket::{SendEvent, UringSocket};

use crate::mover::{InFlight, Move, Mover, MoverFacts, Offer, Open, Release, STREAM, no_progress};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::{ENTER, Each, PINNED, Requirement, SENT, URING, WAITS, call};
use crate::tally::Tally;

pub const COPIED: Mover = Mover {
    facts: MoverFacts {
        name: "uring-send",
        summary: "io_uring send: up to eight linked messages in one call; the kernel copies them",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 2,
        ..STREAM
    },
    states: SENT
        .by(&[call("IORING_OP_SEND"), ENTER.each(Each::Several)])
        .needing(URING),
    open: Open::Stream(|setup| {
        let batch = BATCH.min(setup.slots);
        open(setup, false, batch)
    }),
};

pub const ZERO_COPY: Mover = Mover {
    facts: MoverFacts {
        name: "uring-send-zc",
        summary: "io_uring SEND_ZC from registered memory: up to eight linked messages in one call; the kernel says when buffers are free and whether it copied after all",
        release: Release::AtCompletion,
        locks_rings: 1,
        ..COPIED.facts
    },
    states: PINNED.by(&[call("IORING_OP_SEND_ZC"), WAITS]).needing(&[
        Requirement::Uring,
        Requirement::Linux(6, 0),
        Requirement::Tcp,
    ]),
    open: Open::Stream(|setup| {
        if setup.reaping != Reaping::Full {
            let why = "completions and results come in one ring, so that none can be left lying";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // Each request has two events, and those of every slot may be waiting at once.
        let entries = (2 * setup.slots).clamp(16, 4096);
        open(setup, true, entries)
    }),
};

/// Messages that one call hands over, linked, so that none overtakes another.
const BATCH: usize = 8;

struct UringSend {
    ring: UringSocket,
    source: Source,
    size: usize,
    batch: usize,
    patience: Duration,
    queued: usize,
    /// By slot, whether the kernel still has its buffer.
    held: Vec<bool>,
    tally: Tally,
}

fn open(mut setup: Setup, zero_copy: bool, entries: usize) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (source, region) = Source::new(&setup, Layout::contiguous(&setup))?;
    Ok(Box::new(UringSend {
        ring: UringSocket::new(entries as u32, socket, region, zero_copy)?,
        source,
        size: setup.size,
        batch: BATCH.min(setup.slots),
        patience: setup.patience,
        queued: 0,
        held: vec![false; setup.slots],
        tally: Tally::default(),
    }))
}

impl UringSend {
    /// One call: hands over what is queued, waits for `want` events, takes in all that are there.
    /// Fewer are progress too: only where none came within its patience, it fails.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        self.tally.calls += 1;
        let mut is_progress = self.ring.enter(want, self.patience)?;
        while let Some(event) = self.ring.event() {
            is_progress = true;
            match event {
                SendEvent::Done {
                    tag,
                    result,
                    is_held,
                } => {
                    whole(result, self.size)?;
                    self.queued -= 1;
                    self.tally.moved(self.size);
                    if is_held {
                        self.tally.held += 1;
                    } else {
                        self.held[tag as usize] = false;
                    }
                }
                SendEvent::Released { tag, is_copied } => {
                    self.held[tag as usize] = false;
                    self.tally.released += 1;
                    self.tally.copied += u64::from(is_copied);
                }
            }
        }
        is_progress.then_some(()).ok_or_else(no_progress)
    }
}

impl Move for UringSend {
    fn offer(&mut self) -> io::Result<Offer> {
        if self.queued == self.batch || self.held[self.source.next_slot()] {
            return Ok(Offer::Full);
        }
        let slot = self.source.begin(self.ring.bytes_mut());
        let range = self.source.layout().range(slot, 0);
        let linked = self.queued + 1 < self.batch;
        self.ring.send(range, slot as u64, linked)?;
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

/// Holds a request's result against the message: MSG_WAITALL promises all of it or an error.
fn whole(result: i32, size: usize) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    if result as usize == size {
        return Ok(());
    }
    let why = format!("io_uring sent {result} of {size} bytes");
    Err(io::Error::new(io::ErrorKind::WriteZero, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_that_went_out_are_received_though_others_wait() {
        let (sending, _silent) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&sending, 128 << 10).unwrap();
        let setup = Setup {
            socket: Some(sending.into()),
            slots: BATCH,
            ..Setup::new(64 << 10, Duration::from_millis(10))
        };
        let mut mover = open(setup, false, BATCH).unwrap();
        (0..BATCH).for_each(|_| assert!(mover.offer().is_ok()));
        assert!(mover.flush().is_err(), "nobody reads");
        assert!(mover.tally().messages > 0);
    }
}
