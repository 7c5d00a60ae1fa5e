//! A file that io_uring brings to a socket: pieces of it read and sent, or spliced through a pipe.

use std::io;
use std::time::Duration;

use bytecost_sys::io_buffers::{ALIGN_BYTES, IoBuffers};
use bytecost_sys::pipe::Pipe;
use bytecost_sys::uring_relay::{RelayEvent, RelayedBy, UringRelay};
use rustix::io::Errno;

use super::file_send::{PIPE_BYTES, spliced, take};
use crate::block_order::BlockOrder;
use crate::file::too_short;
use crate::mover::{
    FILE_SENT, InFlight, Move, Mover, MoverFacts, Offer, Open, Release, no_progress,
};
use crate::setup::Setup;
use crate::statement::{ENTER, Each, READ_AND_SENT, TAKEN, URING, call};
use crate::tally::Tally;

pub const SPLICE: Mover = Mover {
    facts: MoverFacts {
        name: "uring-splice",
        summary: "io_uring splices through a pipe: up to eight linked pairs in one call, carried out by io_uring's own threads; the socket refers to the file's pages",
        in_flight: InFlight::SeveralByThreads,
        release: Release::Never,
        descriptors_per_flow: 5,
        ..FILE_SENT
    },
    states: TAKEN
        .by(&[call("IORING_OP_SPLICE").times(2), ENTER])
        .needing(URING),
    open: Open::Stream(|setup| {
        relaying(setup, true, |_| {
            let pipe = Pipe::new(PIPE_BYTES)?;
            // A piece that begins within a page takes a slot of the pipe more than its pages.
            let piece = pipe.capacity.saturating_sub(ALIGN_BYTES);
            Ok((RelayedBy::Pipe(pipe), piece))
        })
    }),
};

pub const READ_SEND: Mover = Mover {
    facts: MoverFacts {
        name: "uring-read-send",
        summary: "io_uring: a read of `block` bytes of a file into a buffer, linked to a send of them, up to eight such pairs in one call; the kernel copies twice",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 3,
        ..FILE_SENT
    },
    states: READ_AND_SENT
        .by(&[
            call("IORING_OP_READ").each(Each::Block),
            call("IORING_OP_SEND").each(Each::Block),
            ENTER,
        ])
        .needing(URING),
    open: Open::Stream(|setup| {
        relaying(setup, false, |block| {
            Ok((RelayedBy::Buffer(IoBuffers::new(1, block)?), block))
        })
    }),
};

/// Pieces that one call hands over. They are linked, so that none overtakes another.
const PIECES: usize = 8;

struct Relay {
    ring: UringRelay,
    order: BlockOrder,
    size: usize,
    /// The most bytes of a piece.
    piece: usize,
    patience: Duration,
    /// Bytes of a message that the relay has brought and not passed on.
    left: usize,
    /// These are still there to be passed on, and need not be brought again.
    is_kept: bool,
    tally: Tally,
}

#[derive(Default)]
struct Outcome {
    brought: usize,
    passed: usize,
    ended: bool,
    failed: Option<i32>,
}

/// `make` makes what is between, of a block's bytes, and says the most bytes of a piece; `is_kept`
/// where what was brought stays there.
fn relaying(
    mut setup: Setup,
    is_kept: bool,
    make: impl FnOnce(usize) -> io::Result<(RelayedBy, usize)>,
) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    let (between, piece) = make(work.block.max(1))?;
    Ok(Box::new(Relay {
        ring: UringRelay::new(work.file, socket, PIECES as u32, between)?,
        order: work.order,
        size: setup.size,
        piece: piece.max(1),
        patience: setup.patience,
        left: 0,
        is_kept,
        tally: Tally::default(),
    }))
}

impl Relay {
    /// Queues pieces from `done` bytes of the message on: how many requests.
    fn queue(&mut self, start: u64, done: usize) -> io::Result<usize> {
        if self.left > 0 && self.is_kept {
            self.ring.rest(self.left, done + self.left < self.size)?;
            return Ok(1);
        }
        // A piece that came short is brought again, as far as it went.
        let mut most = if self.left > 0 { self.left } else { self.piece };
        let mut at = done;
        let mut pieces = 0;
        while pieces < PIECES && at < self.size {
            let len = most.min(self.size - at);
            let more = at + len < self.size;
            let linked = more && pieces + 1 < PIECES;
            self.ring.piece(start + at as u64, len, more, linked)?;
            at += len;
            pieces += 1;
            most = self.piece;
        }
        Ok(2 * pieces)
    }

    fn wait(&mut self, mut missing: usize) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        while missing > 0 {
            self.tally.calls += 1;
            let before = missing;
            let in_time = self.ring.enter(missing, self.patience)?;
            while let Some(half) = self.ring.next_event() {
                missing -= 1;
                match half {
                    RelayEvent::Read(0) => outcome.ended = true,
                    RelayEvent::Read(n) if n > 0 => outcome.brought += n as usize,
                    RelayEvent::Sent(n) if n >= 0 => outcome.passed += n as usize,
                    RelayEvent::Read(e) | RelayEvent::Sent(e) => {
                        if e != -Errno::CANCELED.raw_os_error() {
                            outcome.failed = Some(-e);
                        }
                    }
                }
            }
            if !in_time && missing == before {
                return Err(no_progress());
            }
        }
        Ok(outcome)
    }
}

impl Move for Relay {
    fn offer(&mut self) -> io::Result<Offer> {
        let start = self.order.next_offset();
        let mut done = 0;
        self.left = 0;
        while done < self.size {
            let queued = self.queue(start, done)?;
            if !self.is_kept {
                self.left = 0;
            }
            let outcome = self.wait(queued)?;
            if let Some(errno) = outcome.failed {
                let errno = Errno::from_raw_os_error(errno);
                return Err(if self.is_kept {
                    spliced(errno)
                } else {
                    errno.into()
                });
            }
            if outcome.ended {
                return Err(too_short());
            }
            if outcome.brought + outcome.passed == 0 {
                return Err(no_progress());
            }
            done += outcome.passed;
            self.left = (self.left + outcome.brought).saturating_sub(outcome.passed);
        }
        self.tally.moved(self.size);
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
