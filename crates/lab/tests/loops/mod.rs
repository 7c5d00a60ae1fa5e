//! Helpers of the loops' tests: a connection, an end, and a count of allocations.
#![allow(dead_code)] // each test file uses a part of it

use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::file::TestFile;
use bytecost_lab::edges::WindowEnd;
use bytecost_lab::phase::{EIGHTHS, Gate, Phase};
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

/// A gate whose phase depends on the number of looks, for tests that must have the same result each time.
#[derive(Debug)]
pub struct CountingGate {
    looks: std::cell::Cell<u64>,
    warmup: u64,
    window: u64,
}

impl CountingGate {
    /// `warmup` looks before the window, `window` looks within it.
    pub fn new(warmup: u64, window: u64) -> CountingGate {
        CountingGate {
            looks: std::cell::Cell::new(0),
            warmup,
            window,
        }
    }
}

impl Gate for CountingGate {
    fn phase(&self) -> Phase {
        let n = self.looks.get();
        self.looks.set(n + 1);
        if n < self.warmup {
            Phase::Warmup
        } else if n < self.warmup + self.window {
            let eighth = EIGHTHS.len() as u64 * (n - self.warmup) / self.window;
            EIGHTHS[eighth as usize]
        } else {
            Phase::Stop
        }
    }

    /// So short that a loop with a clock of its own sees edges within any window.
    fn eighth_ns(&self) -> u64 {
        10_000
    }
}
