//! Helpers of the loops' tests: a connection, an end, and a count of allocations.
#![allow(dead_code)] // each test file uses a part of it

use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::file::TestFile;
use bytecost_lab::edges::WindowEnd;
use bytecost_lab::transports;
use bytecost_spec::{Cell, Transport};

pub const TIMEOUT: Duration = Duration::from_secs(60);

pub fn pair(transport: Transport) -> (OwnedFd, OwnedFd) {
    let cell = Cell {
        transport,
        congestion: "default".to_owned(),
        ..Cell::default()
    };
    let listener = transports::listen(&cell, None).unwrap();
    let a = transports::connect(&cell, &listener.address(), TIMEOUT).unwrap();
    let b = listener.accept(TIMEOUT).unwrap();
    for socket in [&a, &b] {
        transports::set_timeout(socket, TIMEOUT).unwrap();
    }
    (a, b)
}

pub fn finish() -> WindowEnd<fn()> {
    WindowEnd {
        on_close: || (),
        min_messages: 0,
    }
}

/// The number of a call's allocations, and its result.
pub fn counted<T>(run: impl FnOnce() -> T) -> (u64, T) {
    let mut given = None;
    let info = allocation_counter::measure(|| given = Some(run()));
    (info.count_total, given.unwrap())
}

pub fn in_memory(bytes: u64) -> TestFile {
    let mut file = TestFile::in_memory().unwrap();
    file.grow(bytes).unwrap();
    file
}
