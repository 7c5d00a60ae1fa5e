//! `uring-read-fixed`: io_uring reads with registered buffers and files.

use std::io;

use bytecost_spec::survey::Release;
use bytecost_sys::uring_file::{Options, UringFile};

use super::queued;
use super::{InFlight, Move, Mover, Route, Setup};

pub const MOVER: Mover = Mover {
    name: "uring-read-fixed",
    summary: "as uring-read, with buffers and file registered, so that they are looked up and pinned once",
    route: Route::FileToMemory,
    in_flight: InFlight::SeveralByThreads,
    release: Release::AtReturn,
    uses_fields: false,
    locks_rings: 1,
    descriptors_per_flow: 2,
    leaves_completions: false,
    caution: None,
    open,
};

const OPTIONS: Options = Options {
    write: false,
    registered: true,
    poller: false,
};

fn open(setup: Setup) -> io::Result<Box<dyn Move>> {
    queued::reading(setup, |file, places| UringFile::new(file, places, OPTIONS))
}
