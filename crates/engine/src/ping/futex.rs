//! A word that both sides write and sleep on: futex(2), private to the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::Timespec;
use rustix::thread::futex::{self, Flags};

use super::{PingEnd, gone, silent};

const CLOSED: u32 = 1;

/// The lower bits of the number, shifted by one, and whether a side has closed.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Word(AtomicU32);

#[derive(Debug)]
pub struct FutexEnd {
    word: Arc<Word>,
    /// The number that is there as long as the other side has not written.
    last: u64,
    patience: Timespec,
    calls: u64,
}

impl FutexEnd {
    /// Both ends of a futex.
    pub fn pair(patience: Duration) -> (FutexEnd, FutexEnd) {
        let word = Arc::new(Word::default());
        let end = |shared| FutexEnd {
            word: shared,
            last: 0,
            patience: Timespec {
                tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: patience.subsec_nanos().into(),
            },
            calls: 0,
        };
        (end(Arc::clone(&word)), end(word))
    }
}

fn low(number: u64) -> u32 {
    (number as u32) << 1
}

impl PingEnd for FutexEnd {
    fn give(&mut self, number: u64) -> io::Result<()> {
        self.last = number;
        if self.word.0.swap(low(number), Ordering::AcqRel) & CLOSED == CLOSED {
            self.word.0.fetch_or(CLOSED, Ordering::Release);
            return Err(gone());
        }
        self.calls += 1;
        futex::wake(&self.word.0, Flags::PRIVATE, 1)?;
        Ok(())
    }

    fn take(&mut self) -> io::Result<u64> {
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            let grown = (word & !CLOSED).wrapping_sub(low(self.last)) >> 1;
            if grown != 0 {
                return Ok(self.last + u64::from(grown));
            }
            if word & CLOSED == CLOSED {
                return Err(gone());
            }
            self.calls += 1;
            match futex::wait(&self.word.0, Flags::PRIVATE, word, Some(&self.patience)) {
                // It may have been written, or woken up for nothing.
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => return Err(silent()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

impl Drop for FutexEnd {
    fn drop(&mut self) {
        self.word.0.fetch_or(CLOSED, Ordering::Release);
        let _ = futex::wake(&self.word.0, Flags::PRIVATE, 1);
    }
}
