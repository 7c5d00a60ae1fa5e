//! The resource usage of a process, read by itself or reported to another process on a signal: the
//! reporting process needs no thread for it.

use std::io;
use std::mem::transmute;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock;
use crate::process::{ThreadUsage, children_usage, process_usage};
use crate::syscall::{handle, keeping_errno};

/// Resource usage of a process since its start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CLOCK_MONOTONIC when it was read.
    pub clock_ns: u64,
    /// CPU time of all its threads, including ended ones.
    pub cpu_ns: u64,
    /// Usage of its threads.
    pub own: ThreadUsage,
    /// Usage of its children that have ended and were waited for.
    pub children: ThreadUsage,
}

const BYTES: usize = size_of::<Usage>();

/// The pipe to which the signal handler writes.
static REPORT_TO: AtomicI32 = AtomicI32::new(-1);

/// The usage of the calling process.
pub fn usage() -> Usage {
    Usage {
        own: process_usage().unwrap_or_default(),
        children: children_usage().unwrap_or_default(),
        cpu_ns: clock::process_cpu_ns(),
        clock_ns: clock::monotonic_ns(),
    }
}

/// Makes this process write its usage to a pipe at each SIGUSR1 until it ends, sigaction(2). The signal
/// may interrupt a system call in which a thread waits, signal(7).
pub fn report_on_signal(to: OwnedFd) -> io::Result<()> {
    // The first calls may resolve symbols and the vDSO, which a signal handler must not do.
    let _ = usage();
    REPORT_TO.store(to.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: the handler calls only async-signal-safe functions.
    unsafe { handle(libc::SIGUSR1, report, libc::SA_RESTART) }
}

extern "C" fn report(_signal: libc::c_int) {
    // Nothing here allocates or locks: getrusage and clock_gettime are plain system calls.
    keeping_errno(|| {
        let (to, bytes) = (REPORT_TO.load(Ordering::Relaxed), usage().to_bytes());
        // SAFETY: write(2) may be called in a handler, signal-safety(7); the bytes are this
        // frame's, and a wrong number gives an error. So few bytes are written at once, pipe(7).
        unsafe { libc::write(to, bytes.as_ptr().cast(), BYTES) };
    });
}

/// The longest wait for a report, in s: among hundreds of busy threads one took more than 1 s.
const PATIENCE_S: i64 = 10;

/// Requests the usage of a process that has called [`report_on_signal`], whose pipe is `reports`:
/// `NotFound` if it has ended, `TimedOut` after ten seconds.
pub fn request(process: u32, reports: BorrowedFd<'_>) -> io::Result<Usage> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the process is gone");
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(pid.ok_or_else(gone)?, Signal::USR1).map_err(|_| gone())?;
    let patience = Timespec {
        tv_sec: PATIENCE_S,
        tv_nsec: 0,
    };
    let mut waiting = [PollFd::from_borrowed_fd(reports, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut waiting, Some(&patience)))? == 0 {
        let why = "the process did not report its usage";
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    let mut bytes = [0; BYTES];
    match rustix::io::read(reports, &mut bytes)? {
        BYTES => Ok(Usage::from_bytes(bytes)),
        _ => Err(gone()),
    }
}

impl Usage {
    fn to_bytes(self) -> [u8; BYTES] {
        // SAFETY: it consists of words alone, without gaps.
        unsafe { transmute(self) }
    }

    fn from_bytes(bytes: [u8; BYTES]) -> Usage {
        // SAFETY: it consists of words alone, which any bytes are.
        unsafe { transmute(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_process_reports_its_usage_on_request() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        report_on_signal(to).unwrap();
        const NOBODY: u32 = 1 << 23; // above PID_MAX_LIMIT
        let before = usage();
        let end = clock::thread_cpu_ns() + 20_000_000;
        while clock::thread_cpu_ns() < end {}
        // A process that does not run for ten seconds is signalled again.
        let try_again = || request(std::process::id(), from.as_fd()).ok();
        let usage = (0..60).find_map(|_| try_again()).unwrap();
        assert!(usage.clock_ns > before.clock_ns);
        assert!(usage.cpu_ns - before.cpu_ns >= 15_000_000);
        assert!(clock::process_cpu_ns_of(std::process::id()).unwrap() >= usage.cpu_ns);
        assert!(request(NOBODY, from.as_fd()).is_err());
    }
}
