//! What a process has used, read by itself, or reported on a signal, without a thread for that.

use std::io;
use std::mem::transmute;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock;
use crate::process::{ThreadUsage, children_usage, process_usage};
use crate::syscall::{handle, handled};

/// What a process has used since it began.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CLOCK_MONOTONIC at the moment of telling.
    pub clock_ns: u64,
    /// CPU time of all its threads, those that have ended included.
    pub cpu_ns: u64,
    /// What its threads have used.
    pub own: ThreadUsage,
    /// What those of its children have used that have ended and were waited for.
    pub children: ThreadUsage,
}

const BYTES: usize = size_of::<Usage>();

static TELL_TO: AtomicI32 = AtomicI32::new(-1);

/// What the calling process has used.
pub fn usage() -> Usage {
    Usage {
        own: process_usage().unwrap_or_default(),
        children: children_usage().unwrap_or_default(),
        cpu_ns: clock::process_cpu_ns(),
        clock_ns: clock::monotonic_ns(),
    }
}

/// Has this process write its usage to a pipe at each SIGUSR1, sigaction(2), for its whole life.
/// The signal interrupts the system call that a thread waits in, signal(7).
pub fn report_on_signal(to: OwnedFd) -> io::Result<()> {
    // The first call of a function may look it up, and of a clock find the vDSO, which no handler may.
    let _ = usage();
    TELL_TO.store(to.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: the handler calls only what a handler may.
    unsafe { handle(libc::SIGUSR1, tell, libc::SA_RESTART) }
}

extern "C" fn tell(_signal: libc::c_int) {
    // Nothing in it allocates or locks: getrusage and clock_gettime are plain system calls.
    handled(|| {
        let (to, bytes) = (TELL_TO.load(Ordering::Relaxed), usage().to_bytes());
        // SAFETY: write(2) may be called in a handler, signal-safety(7); the bytes are this
        // frame's, and a wrong number gives an error. So few go into a pipe in one piece, pipe(7).
        unsafe { libc::write(to, bytes.as_ptr().cast(), BYTES) };
    });
}

/// In s: among hundreds of busy threads it took over one.
const PATIENCE_S: i64 = 10;

/// Asks a process that has called [`report_on_signal`]: `NotFound` where it is gone, `TimedOut`
/// after ten seconds.
pub fn request(process: u32, told: BorrowedFd<'_>) -> io::Result<Usage> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the process is gone");
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(pid.ok_or_else(gone)?, Signal::USR1).map_err(|_| gone())?;
    let patience = Timespec {
        tv_sec: PATIENCE_S,
        tv_nsec: 0,
    };
    let mut waiting = [PollFd::from_borrowed_fd(told, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut waiting, Some(&patience)))? == 0 {
        let why = "the process did not tell what it has used";
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    let mut bytes = [0; BYTES];
    match rustix::io::read(told, &mut bytes)? {
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
    fn whoever_is_asked_tells_what_it_has_used() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        report_on_signal(to).unwrap();
        const NOBODY: u32 = 1 << 23; // above PID_MAX_LIMIT
        let before = usage();
        let end = clock::thread_cpu_ns() + 20_000_000;
        while clock::thread_cpu_ns() < end {}
        // A process that does not come to its turn for a second may be asked again.
        let ask_again = || request(std::process::id(), from.as_fd()).ok();
        let told = (0..60).find_map(|_| ask_again()).unwrap();
        assert!(told.clock_ns > before.clock_ns);
        assert!(told.cpu_ns - before.cpu_ns >= 15_000_000);
        assert!(clock::process_cpu_ns_of(std::process::id()).unwrap() >= told.cpu_ns);
        assert!(request(NOBODY, from.as_fd()).is_err());
    }
}
