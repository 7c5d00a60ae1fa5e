//! What a process has used, told by itself: at once, or whenever it gets a signal, so that a
//! server needs no thread of its own for that.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock;
use crate::process::{ThreadUsage, children_usage, process_usage};
use crate::syscall::checked;

/// What a process has used since it began.
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

const WORDS: usize = 14;
const BYTES: usize = WORDS * 8;

/// Where a process tells its usage to when it gets the signal.
static TELL_TO: AtomicI32 = AtomicI32::new(-1);

/// What the calling process has used.
#[must_use]
pub fn usage() -> Usage {
    Usage {
        own: process_usage().unwrap_or_default(),
        children: children_usage().unwrap_or_default(),
        cpu_ns: clock::process_cpu_ns(),
        clock_ns: clock::monotonic_ns(),
    }
}

/// Has this process write its usage to a pipe whenever it gets SIGUSR1, for as long as it lives.
/// The signal interrupts the system call that a thread of it waits in, signal(7).
///
/// # Errors
/// What sigaction(2) answers.
pub fn tell_when_asked(to: OwnedFd) -> io::Result<()> {
    TELL_TO.store(to.into_raw_fd(), Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = tell;
    // SAFETY: all zeros are a valid `sigaction`: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler calls only what a handler may, and lives as long as the program.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    checked(set).map(drop)
}

extern "C" fn tell(_signal: libc::c_int) {
    // SAFETY: the address is that of the calling thread's own number.
    let errno = unsafe { *libc::__errno_location() };
    // Nothing in it allocates or locks: getrusage and clock_gettime are plain system calls.
    let bytes = usage().to_bytes();
    // SAFETY: write(2) may be called in a handler, signal-safety(7); the bytes are this frame's,
    // and a wrong number gives an error. So few go into a pipe in one piece, pipe(7).
    unsafe {
        libc::write(
            TELL_TO.load(Ordering::Relaxed),
            bytes.as_ptr().cast(),
            BYTES,
        )
    };
    // SAFETY: as above. The code that was interrupted may be about to read it.
    unsafe { *libc::__errno_location() = errno };
}

/// How long a process may take to tell, in s. One that shares its CPU with hundreds of busy threads
/// has taken more than one.
const PATIENCE_S: i64 = 10;

/// Asks a process that has called [`tell_when_asked`] for its usage, and waits for it.
///
/// # Errors
/// `NotFound` where the process is gone, `TimedOut` where it does not tell within ten
/// seconds.
pub fn ask(process: u32, told: BorrowedFd<'_>) -> io::Result<Usage> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the process is gone");
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(pid.ok_or_else(gone)?, Signal::USR1).map_err(|_| gone())?;
    let patience = Timespec {
        tv_sec: PATIENCE_S,
        tv_nsec: 0,
    };
    loop {
        let mut waiting = [PollFd::from_borrowed_fd(told.as_fd(), PollFlags::IN)];
        match poll(&mut waiting, Some(&patience)) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the process did not tell what it has used",
                ));
            }
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let mut bytes = [0; BYTES];
    match rustix::io::read(told, &mut bytes)? {
        BYTES => Ok(Usage::from_bytes(&bytes)),
        _ => Err(gone()),
    }
}

impl Usage {
    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let of = |u: ThreadUsage| {
            [
                u.user_ns,
                u.system_ns,
                u.faults_minor,
                u.faults_major,
                u.switches_voluntary,
                u.switches_involuntary,
            ]
        };
        let head = [self.clock_ns, self.cpu_ns];
        let words = head
            .into_iter()
            .chain(of(self.own))
            .chain(of(self.children));
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; BYTES]) -> Usage {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_ne_bytes(bytes)
        });
        let mut next = || words.next().unwrap_or(0);
        let (clock_ns, cpu_ns) = (next(), next());
        let mut usage = || ThreadUsage {
            user_ns: next(),
            system_ns: next(),
            faults_minor: next(),
            faults_major: next(),
            switches_voluntary: next(),
            switches_involuntary: next(),
        };
        let (own, children) = (usage(), usage());
        Usage {
            clock_ns,
            cpu_ns,
            own,
            children,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_is_read_as_it_was_written() {
        let usage = |from| ThreadUsage {
            user_ns: from,
            system_ns: from + 1,
            faults_minor: from + 2,
            faults_major: from + 3,
            switches_voluntary: from + 4,
            switches_involuntary: from + 5,
        };
        let usage = Usage {
            clock_ns: u64::MAX,
            cpu_ns: 1,
            own: usage(10),
            children: usage(20),
        };
        assert_eq!(Usage::from_bytes(&usage.to_bytes()), usage);
    }

    #[test]
    fn whoever_is_asked_tells_what_it_has_used() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        tell_when_asked(to).unwrap();
        const NOBODY: u32 = 1 << 23; // above PID_MAX_LIMIT
        let before = usage();
        let end = clock::thread_cpu_ns() + 20_000_000;
        while clock::thread_cpu_ns() < end {}
        // A process that does not come to its turn for a second may be asked again.
        let ask_again = || ask(std::process::id(), from.as_fd()).ok();
        let told = (0..60).find_map(|_| ask_again()).unwrap();
        assert!(told.clock_ns > before.clock_ns);
        assert!(told.cpu_ns - before.cpu_ns >= 15_000_000);
        assert!(clock::process_cpu_ns_of(std::process::id()).unwrap() >= told.cpu_ns);
        assert!(ask(NOBODY, from.as_fd()).is_err());
    }
}
