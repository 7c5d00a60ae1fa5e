//! A file read or written by io_uring, several requests in flight.

use std::io;

use bytecost_spec::survey::Condition;
use bytecost_sys::uring_file::{FileRequests, UringFile};

use super::queued;
use super::sync_file::PASSES;
use crate::mover::{FILE_READ, FILE_WRITE, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::statement::{
    FROM_FILE, HANDS_OVER, INTO_FILE, SQ_WAKEUP, SYNCS, URING, WAITS, WAKES, call,
};

pub const READ: Mover = Mover {
    facts: MoverFacts {
        name: "uring-read",
        summary: "io_uring reads: handed over by an eighth of the depth at once; the last of these calls waits for at least one",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 2,
        ..FILE_READ
    },
    states: FROM_FILE
        .by(&[call("IORING_OP_READ"), HANDS_OVER, WAITS])
        .needing(URING),
    open: Open::File(|setup| reading(setup, FileRequests::Read)),
};

pub const READ_FIXED: Mover = Mover {
    facts: MoverFacts {
        name: "uring-read-fixed",
        summary: "as uring-read, with buffers and file registered, so that they are looked up and pinned once",
        locks_rings: 1,
        ..READ.facts
    },
    states: FROM_FILE
        .by(&[call("IORING_OP_READ_FIXED"), HANDS_OVER, WAITS])
        .needing(URING),
    open: Open::File(|setup| reading(setup, FileRequests::ReadRegistered)),
};

pub const SQPOLL: Mover = Mover {
    facts: MoverFacts {
        name: "uring-sqpoll",
        summary: "as uring-read-fixed, with a thread of the kernel that polls for requests, so that handing over takes no call",
        condition: Some(Condition::PollingCpu),
        caution: Some("its poller keeps a CPU busy while requests come; that CPU time is counted"),
        ..READ_FIXED.facts
    },
    states: FROM_FILE
        .by(&[
            call("IORING_OP_READ_FIXED"),
            WAITS,
            WAKES,
            WAITS.with(SQ_WAKEUP),
        ])
        .needing(URING),
    open: Open::File(|setup| reading(setup, FileRequests::ReadPolled)),
};

pub const WRITE: Mover = Mover {
    facts: MoverFacts {
        name: "uring-write",
        summary: "io_uring writes: handed over by an eighth of the depth at once; the last of these calls waits for at least one",
        in_flight: InFlight::SeveralByThreads,
        descriptors_per_flow: 2,
        ..FILE_WRITE
    },
    states: INTO_FILE
        .by(&[call("IORING_OP_WRITE"), HANDS_OVER, WAITS])
        .needing(URING),
    open: Open::File(|setup| writing(setup, false)),
};

pub const WRITE_FDATASYNC: Mover = Mover {
    facts: MoverFacts {
        name: "uring-write-fdatasync",
        summary: "io_uring writes: handed over by an eighth of the depth at once; the last of these calls waits for at least one; fdatasync(2) at the end of each pass through the file",
        descriptors_per_flow: 3,
        caution: Some(PASSES),
        ..WRITE.facts
    },
    states: INTO_FILE
        .by(&[call("IORING_OP_WRITE"), HANDS_OVER, WAITS, SYNCS])
        .needing(URING),
    open: Open::File(|setup| writing(setup, true)),
};

fn reading(setup: Setup, requests: FileRequests) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, memory| UringFile::new(file, memory, requests))
}

fn writing(setup: Setup, sync: bool) -> io::Result<Box<dyn MoveFile>> {
    queued::writing(setup, sync, |file, memory| {
        UringFile::new(file, memory, FileRequests::Write)
    })
}
