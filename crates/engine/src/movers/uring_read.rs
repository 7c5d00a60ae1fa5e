//! `uring-read`: io_uring reads, several in flight.

use bytecost_sys::places::Places;
use bytecost_sys::uring_file::{Options, UringFile};
use std::io;
use std::time::Duration;

use super::queued::{self, Queue};
use crate::mover::{FILE_READ, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-read",
        summary: "io_uring reads: handed over by an eighth of the depth at once; the last of these calls waits for at least one",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 2,
        ..FILE_READ
    },
    open: Open::File(open),
};

const OPTIONS: Options = Options {
    write: false,
    registered: false,
    poller: false,
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, places| UringFile::new(file, places, OPTIONS))
}

impl Queue for UringFile {
    fn places(&self) -> &Places {
        self.places()
    }

    fn start(&mut self, place: usize, offset: u64, _tally: &mut Tally) -> io::Result<()> {
        self.start(place, offset)
    }

    fn enter(&mut self, min: usize, patience: Duration, tally: &mut Tally) -> io::Result<bool> {
        let calls = self.enter(min, patience)?;
        tally.calls += calls.unwrap_or(0);
        Ok(calls.is_some())
    }

    fn finished(&mut self) -> Option<(usize, i32)> {
        self.finished()
    }
}
