//! `posix-aio`: glibc's aio_read, several in flight.

use std::io;
use std::time::Duration;

use bytecost_sys::places::Places;
use bytecost_sys::posix_aio::PosixAio;

use super::queued::{self, Queue};
use crate::mover::{FILE_READ, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "posix-aio",
        summary: "aio_read(3) of glibc, whose threads call pread(2) in the caller's place; its calls are the library's",
        in_flight: InFlight::SeveralByThreads,
        caution: Some(
            "glibc carries out the requests to one file descriptor one after the other, so more of them in flight wait in its queue, not at the disk",
        ),
        ..FILE_READ
    },
    open: Open::File(open),
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, places| Ok(PosixAio::new(file, places)))
}

impl Queue for PosixAio {
    fn places(&self) -> &Places {
        self.places()
    }

    fn start(&mut self, place: usize, offset: u64, tally: &mut Tally) -> io::Result<()> {
        tally.calls += 1;
        self.start(place, offset)
    }

    fn enter(&mut self, min: usize, patience: Duration, tally: &mut Tally) -> io::Result<bool> {
        if min == 0 {
            return Ok(true);
        }
        let calls = self.wait(patience)?;
        tally.calls += calls.unwrap_or(0);
        Ok(calls.is_some())
    }

    fn finished(&mut self) -> Option<(usize, i32)> {
        self.finished()
    }
}
