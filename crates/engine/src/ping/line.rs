//! A number in one cache line, written by both sides in turn. A side spins on it; if the other side seems
//! not to run, it yields, then sleeps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{PingEnd, gone, silent};

/// Looks at the line before a side assumes that the other one is not running. Some µs to some 10 µs: many
/// times what a line takes from one end of a machine to the other.
const SPINS: u32 = 1 << 14;
/// Number of times that it then yields before it begins to sleep.
const YIELDS: u64 = 100;
/// Duration of each sleep after that.
const NAP: Duration = Duration::from_millis(1);

/// Two lines of 64 bytes of its own, since some processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Debug, Default)]
struct Shared {
    number: Apart<AtomicU64>,
    is_closed: Apart<AtomicBool>,
}

/// One end of a line. The sides take turns, and each number differs from the one before; the line begins
/// with 0.
#[derive(Debug)]
pub struct LineEnd {
    shared: Arc<Shared>,
    /// The number that this side gave last: as long as the line holds it, the other side has not answered.
    last: u64,
    naps_most: u64,
}

impl LineEnd {
    /// Both ends of a line.
    pub fn pair(patience: Duration) -> (LineEnd, LineEnd) {
        let shared = Arc::new(Shared::default());
        let end = |line| LineEnd {
            shared: line,
            last: 0,
            naps_most: (patience.as_millis() / NAP.as_millis()) as u64,
        };
        (end(Arc::clone(&shared)), end(shared))
    }

    /// The next number, where it comes soon.
    #[inline]
    fn spin(&self) -> Option<u64> {
        // No pause between two looks: that of some processors is longer than a line takes.
        (0..SPINS)
            .map(|_| self.shared.number.0.load(Ordering::Acquire))
            .find(|number| *number != self.last)
    }

    /// The next number, where it does not come soon: looks again after each yield or nap, until the other end
    /// is dropped or the patience is over.
    #[cold]
    fn wait(&self) -> io::Result<u64> {
        for round in 0..YIELDS + self.naps_most {
            if round < YIELDS {
                thread::yield_now();
            } else {
                thread::sleep(NAP);
            }
            // Read before the last look: a number written before the other end was dropped is still found.
            let is_closed = self.shared.is_closed.0.load(Ordering::Acquire);
            if let Some(number) = self.spin() {
                return Ok(number);
            }
            if is_closed {
                return Err(gone());
            }
        }
        Err(silent())
    }
}

impl PingEnd for LineEnd {
    #[inline]
    fn give(&mut self, number: u64) -> io::Result<()> {
        self.last = number;
        self.shared.number.0.store(number, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> io::Result<u64> {
        match self.spin() {
            Some(number) => Ok(number),
            None => self.wait(),
        }
    }

    fn calls(&self) -> u64 {
        0
    }
}

impl Drop for LineEnd {
    fn drop(&mut self) {
        self.shared.is_closed.0.store(true, Ordering::Release);
    }
}
