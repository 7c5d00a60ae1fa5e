//! Deadlines, in ns of CLOCK_MONOTONIC, and the waits that end by them.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// The time between a wait's checks of its stop flag, in ns.
const POLL_INTERVAL_NS: u64 = 50_000_000;

/// The time so long from now.
pub(crate) fn after(duration: Duration) -> u64 {
    clock::monotonic_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Waits until one of these is ready, at most for so many ns. Returns true for each that is.
pub(crate) fn ready(polled: &mut [PollFd<'_>], wait_ns: u64) -> io::Result<Vec<bool>> {
    poll(polled, wait_ns)?;
    Ok(polled.iter().map(|p| !p.revents().is_empty()).collect())
}

/// As [`ready`]. Returns the number of those that are ready.
pub(crate) fn poll(polled: &mut [PollFd<'_>], wait_ns: u64) -> io::Result<usize> {
    let wait = Timespec::try_from(Duration::from_nanos(wait_ns))
        .map_err(|_| io::ErrorKind::InvalidInput)?;
    match rustix::event::poll(polled, Some(&wait)) {
        Err(Errno::INTR) => Ok(0),
        ready => Ok(ready?),
    }
}

/// A descriptor whose reads end by one deadline, however slowly bytes come. A socket can be written too.
pub(crate) struct DeadlineReader<'a> {
    pub(crate) from: BorrowedFd<'a>,
    /// In ns of CLOCK_MONOTONIC.
    pub(crate) until_ns: u64,
    /// The stop flag of the caller.
    pub(crate) stop: Option<&'a AtomicBool>,
}

impl<'a> DeadlineReader<'a> {
    /// A reader whose deadline is so long from now.
    pub(crate) fn within(timeout: Duration, from: BorrowedFd<'a>) -> DeadlineReader<'a> {
        DeadlineReader {
            from,
            until_ns: after(timeout),
            stop: None,
        }
    }
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        await_event(self.from, PollFlags::IN, self.until_ns, self.stop)?;
        Ok(rustix::io::read(self.from, buf)?)
    }
}

impl Write for DeadlineReader<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        await_event(self.from, PollFlags::OUT, self.until_ns, self.stop)?;
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(rustix::net::send(self.from, buf, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until a descriptor is ready for an event; `TimedOut` where it is not by `until_ns`.
pub(crate) fn await_event(
    of: impl AsFd,
    event: PollFlags,
    until_ns: u64,
    stop: Option<&AtomicBool>,
) -> io::Result<()> {
    loop {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(io::Error::other("stopped"));
        }
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        let slice_ns = stop.map_or(left_ns, |_| left_ns.min(POLL_INTERVAL_NS));
        if poll(&mut [PollFd::new(&of, event)], slice_ns)? > 0 {
            return Ok(());
        }
        if left_ns == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
