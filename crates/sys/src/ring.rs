//! The io_uring that all rings of this crate build on: setup, submission and completion.

use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};

/// Sets up a ring and drops it: an error if this process cannot use io_uring.
pub fn probe() -> io::Result<()> {
    IoUring::new(1).map(|_| ())
}

pub(crate) struct RequestRing {
    pub(crate) ring: IoUring,
    in_flight: usize,
}

impl RequestRing {
    /// Sets up a ring that one thread uses. EPERM or ENOSYS if io_uring is forbidden or missing.
    pub(crate) fn single_issuer(entries: u32) -> io::Result<RequestRing> {
        IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|e| match e.raw_os_error() {
                // Kernels before 6.1 have neither flag.
                Some(libc::EINVAL) => IoUring::new(entries),
                _ => Err(e),
            })
            .map(RequestRing::new)
    }

    pub(crate) fn new(ring: IoUring) -> RequestRing {
        RequestRing { ring, in_flight: 0 }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues a request; with `linked`, the next one starts when this one has finished. `WouldBlock` if
    /// the queue is full.
    ///
    /// # Safety
    /// The memory that the request uses stays allocated until it is finished or the ring is dropped, and
    /// no reference to memory that it writes exists before that.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, linked: bool) -> io::Result<()> {
        let flags = if linked {
            squeue::Flags::IO_LINK
        } else {
            squeue::Flags::empty()
        };
        // SAFETY: the caller promises it.
        unsafe { self.ring.submission().push(&entry.flags(flags)) }
            .map_err(|_| io::ErrorKind::WouldBlock)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Submits the queue and waits for at least `want` completions: the number of system calls, or none
    /// if `timeout` ran out.
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

    /// Waits until no request is in flight, or none has finished for `patience`.
    pub(crate) fn drain(&mut self, patience: Duration, mut visit: impl FnMut(cqueue::Entry)) {
        loop {
            let progressed = self.in_flight > 0 && matches!(self.enter(1, patience), Ok(Some(_)));
            while let Some(entry) = self.next() {
                visit(entry);
            }
            if !progressed {
                return;
            }
        }
    }
}
