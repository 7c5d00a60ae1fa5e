//! `uring-sqpoll`: io_uring reads that a thread of the kernel polls for.

use std::io;

use bytecost_sys::uring_file::{Options, UringFile};

use super::queued;
use crate::mover::{FILE_READ, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "uring-sqpoll",
        summary: "as uring-read-fixed, with a thread of the kernel that polls for requests, so that handing over takes no call",
        in_flight: InFlight::SeveralByThreads,
        locks_rings: 1,
        descriptors_per_flow: 2,
        caution: Some("its poller keeps a CPU busy while requests come; that CPU time is counted"),
        ..FILE_READ
    },
    open: Open::File(open),
};

const OPTIONS: Options = Options {
    write: false,
    registered: true,
    poller: true,
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, places| UringFile::new(file, places, OPTIONS))
}
