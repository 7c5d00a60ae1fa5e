//! A counter of a thread and of all that it starts afterwards.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::perf_event_open;

use super::{PerfEvent, Scope};

use crate::syscall::checked;

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
        let (kind, config) = event.code();
        let mut attr = abi::perf_event_attr {
            type_: kind,
            size: size_of::<abi::perf_event_attr>() as u32,
            config,
            read_format: (abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING)
                as u64,
            ..Default::default()
        };
        attr.set_inherit(1);
        attr.set_exclude_kernel(u64::from(scope == Scope::UserOnly));
        // SAFETY: `attr` is initialised, lives for the length of the call, and asks for plain
        // counting (no sample buffer, no signal); pid 0 and cpu -1 mean the calling thread.
        let fd =
            unsafe { perf_event_open(&raw mut attr, 0, -1, -1, abi::PERF_FLAG_FD_CLOEXEC.into()) };
        checked(fd)?;
        // SAFETY: the kernel has just made this descriptor and nobody else knows it.
        Ok(Inherited(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// What it has counted so far; none where it is in error.
    #[must_use]
    pub fn read(&self) -> Option<Counted> {
        let mut bytes = [0_u8; 24];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let word = |i: usize| -> Option<u64> {
            let bytes = bytes.get(i * 8..length)?.first_chunk::<8>()?;
            Some(u64::from_ne_bytes(*bytes))
        };
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
