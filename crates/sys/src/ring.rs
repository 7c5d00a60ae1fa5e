//! An io_uring: how all rings here are made, entered and emptied.

use std::io;
use std::time::Duration;

use io_uring::IoUring;
use io_uring::types::{SubmitArgs, Timespec};

/// Whether io_uring may be used here at all.
///
/// # Errors
/// What io_uring_setup(2) answers.
pub fn probe() -> io::Result<()> {
    IoUring::new(1).map(|_| ())
}

/// A ring for one thread, which takes completions when it enters.
///
/// # Errors
/// What io_uring_setup(2) answers: EPERM or ENOSYS where io_uring is forbidden or missing.
pub(crate) fn of_one_thread(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|e| match e.raw_os_error() {
            // Kernels before 6.1 know neither flag.
            Some(libc::EINVAL) => IoUring::new(entries),
            _ => Err(e),
        })
}

/// Hands over what is queued and waits for at least `want` completions: how many system calls
/// that took, or none when `timeout` ran out before.
///
/// # Errors
/// What io_uring_enter(2) answers.
pub(crate) fn enter(ring: &IoUring, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
    let time = Timespec::from(timeout);
    let mut calls = 0;
    loop {
        calls += 1;
        let entered = if want == 0 {
            ring.submit()
        } else {
            let args = SubmitArgs::new().timespec(&time);
            ring.submitter().submit_with_args(want, &args)
        };
        match entered {
            Ok(_) => return Ok(Some(calls)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}
