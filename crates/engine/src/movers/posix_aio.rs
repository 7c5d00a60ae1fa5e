//! `posix-aio`: glibc's aio_read, several in flight.

use std::io;

use bytecost_sys::posix_aio::PosixAio;

use super::queued;
use crate::mover::{FILE_READ, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::statement::{FROM_FILE, call};

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
    states: FROM_FILE.by(&[call("pread64")]),
    open: Open::File(open),
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, places| Ok(PosixAio::new(file, places)))
}
