//! A counter of a thread and of all that it starts afterwards.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{PerfEvent, Scope, open_event, word};

/// A counter of the thread that opened it and of every thread and process that this one or its
/// own start later, whatever CPU they run on, as `perf stat` counts: those that have ended
/// included.
#[derive(Debug)]
pub struct Inherited(OwnedFd);

/// What an [`Inherited`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The count.
    pub value: u64,
    /// Time for which it was enabled, summed over threads, in ns.
    pub enabled_ns: u64,
    /// Time of that for which it was on a CPU.
    pub running_ns: u64,
}

impl Inherited {
    /// Opens one that counts from now on.
    ///
    /// # Errors
    /// As [`super::Group::lead`].
    pub fn open(event: PerfEvent, scope: Scope) -> io::Result<Inherited> {
        let mut attr = event.counted(scope);
        attr.set_inherit(1);
        Ok(Inherited(open_event(attr, [0, -1, -1])?))
    }

    /// What it has counted so far; none where it is in error.
    #[must_use]
    pub fn read(&self) -> Option<Counted> {
        let mut bytes = [0_u8; 24];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let word = |i| word(&bytes[..length], i);
        Some(Counted {
            value: word(0)?,
            enabled_ns: word(1)?,
            running_ns: word(2)?,
        })
    }
}

impl AsRawFd for Inherited {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn threads_that_have_ended_are_counted() {
        let opened = Inherited::open(PerfEvent::TaskClock, Scope::UserOnly);
        let Ok(counter) = opened else {
            return println!("skipped: perf_event_open is refused");
        };
        let spin = || {
            let end = clock::thread_cpu_ns() + 20_000_000;
            while clock::thread_cpu_ns() < end {}
        };
        let before = counter.read().unwrap().value;
        std::thread::spawn(spin).join().unwrap();
        let counted = counter.read().unwrap().value - before;
        assert!(counted >= 19_000_000, "{counted} ns");
    }
}
