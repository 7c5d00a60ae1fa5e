//! `uring-sqpoll`: io_uring reads that a thread of the kernel polls for.

use std::io;

use bytecost_spec::survey::Release;
use bytecost_sys::uring_file::{Options, UringFile};

use super::queued;
use super::{InFlight, Move, Mover, Route, Setup};

pub const MOVER: Mover = Mover {
    name: "uring-sqpoll",
    summary: "as uring-read-fixed, with a thread of the kernel that polls for requests, so that handing over takes no call",
    route: Route::FileToMemory,
    in_flight: InFlight::SeveralByThreads,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 1,
    descriptors_per_flow: 2,
    leaves_completions: false,
    caution: Some("its poller keeps a CPU busy while requests come; that CPU time is counted"),
    open,
};

const OPTIONS: Options = Options {
    write: false,
    registered: true,
    poller: true,
};

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    queued::reading(setup, |file, places| UringFile::new(file, places, OPTIONS))
}
