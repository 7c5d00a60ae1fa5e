//! An io_uring: how all rings here are made, entered and emptied.

use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};

/// Whether io_uring may be used here at all.
pub fn probe() -> io::Result<()> {
    IoUring::new(1).map(|_| ())
}

pub(crate) struct RequestRing {
    pub(crate) ring: IoUring,
    in_flight: usize,
}

impl RequestRing {
    /// EPERM or ENOSYS where io_uring is forbidden or missing.
    pub(crate) fn of_one_thread(entries: u32) -> io::Result<RequestRing> {
        IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|e| match e.raw_os_error() {
                // Kernels before 6.1 know neither flag.
                Some(libc::EINVAL) => IoUring::new(entries),
                _ => Err(e),
            })
            .map(RequestRing::of)
    }

    pub(crate) fn of(ring: IoUring) -> RequestRing {
        RequestRing { ring, in_flight: 0 }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// `WouldBlock` when the queue is full. With `linked` the next one starts when this one is
    /// done.
    ///
    /// # Safety
    /// What memory the request uses stays until it is over or the ring is gone, and nobody sees
    /// what it writes to before that.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, linked: bool) -> io::Result<()> {
        let flags = match linked {
            true => squeue::Flags::IO_LINK,
            false => squeue::Flags::empty(),
        };
        // SAFETY: the caller promises it.
        unsafe { self.ring.submission().push(&entry.flags(flags)) }
            .map_err(|_| io::ErrorKind::WouldBlock)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Waits for at least `want` completions: how many system calls, or none when `timeout` ran
    /// out.
    pub(crate) fn enter(&self, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
        let time = Timespec::from(timeout);
        let mut calls = 0;
        loop {
            calls += 1;
            let entered = if want == 0 {
                self.ring.submit()
            } else {
                let args = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(want, &args)
            };
            match entered {
                Ok(_) => return Ok(Some(calls)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ETIME) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<cqueue::Entry> {
        let entry = self.ring.completion().next()?;
        self.in_flight -= usize::from(!cqueue::more(entry.flags()));
        Some(entry)
    }

    /// Waits until all requests are over, or none is for so long.
    pub(crate) fn end(&mut self, patience: Duration, mut over: impl FnMut(cqueue::Entry)) {
        let mut goes_on = true;
        while goes_on {
            goes_on = self.in_flight > 0 && matches!(self.enter(1, patience), Ok(Some(_)));
            while let Some(entry) = self.next() {
                over(entry);
            }
        }
    }
}
