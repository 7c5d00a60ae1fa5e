//! The calling thread and its process: what it used, where it may run, when it must die.

use std::io;

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

use crate::syscall::checked;

/// What the calling thread has used since it began, getrusage(2) with RUSAGE_THREAD.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// User CPU time in ns. On most kernels only the sum of user and system time is exact; the
    /// split between them is estimated at scheduler ticks.
    pub user_ns: u64,
    /// System CPU time in ns.
    pub system_ns: u64,
    /// Page faults served without reading from a device.
    pub faults_minor: u64,
    /// Page faults that read from a device.
    pub faults_major: u64,
    /// Context switches because the thread waited.
    pub switches_voluntary: u64,
    /// Context switches because it was taken off its CPU.
    pub switches_involuntary: u64,
}

/// Reads [`ThreadUsage`]. Does not allocate.
///
/// # Errors
/// The kernel's own, which for RUSAGE_THREAD means that a seccomp filter forbids the call.
pub fn thread_usage() -> io::Result<ThreadUsage> {
    usage(libc::RUSAGE_THREAD)
}

/// What all threads of the process have used together, getrusage(2) with RUSAGE_SELF: those that
/// have ended included, and those that the kernel runs for its io_uring (since Linux 5.12). Does
/// not allocate.
///
/// # Errors
/// As [`thread_usage`].
pub fn process_usage() -> io::Result<ThreadUsage> {
    usage(libc::RUSAGE_SELF)
}

/// What those children of this process have used together that have ended and were waited for,
/// getrusage(2) with RUSAGE_CHILDREN; theirs are in it as well. Does not allocate.
///
/// # Errors
/// As [`thread_usage`].
pub fn children_usage() -> io::Result<ThreadUsage> {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(whose: libc::c_int) -> io::Result<ThreadUsage> {
    // SAFETY: all-zero bytes are a valid `rusage`: it consists of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes of a `rusage` for the length of the call.
    checked(unsafe { libc::getrusage(whose, &raw mut usage) })?;
    Ok(ThreadUsage {
        user_ns: timeval_ns(usage.ru_utime),
        system_ns: timeval_ns(usage.ru_stime),
        faults_minor: usage.ru_minflt as u64,
        faults_major: usage.ru_majflt as u64,
        switches_voluntary: usage.ru_nvcsw as u64,
        switches_involuntary: usage.ru_nivcsw as u64,
    })
}

fn timeval_ns(t: libc::timeval) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000
}

/// The kernel's number of the calling thread, gettid(2).
pub fn gettid() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

/// Has this process killed (SIGKILL) when its parent dies, prctl(2) PR_SET_PDEATHSIG, and makes
/// sure that the parent did not die before that took hold.
///
/// The kernel's "parent" is the *thread* that created this process: when that thread ends, this
/// process is killed, even though the parent process lives on. Create such children from a thread
/// that outlives them. `expected_parent` is the parent's process id, as the parent tells it.
///
/// # Errors
/// The parent is another process already (then this one is an orphan and should exit), or the
/// kernel refuses.
pub fn die_with_parent(expected_parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = rustix::process::getppid().map_or(0, |p| p.as_raw_pid() as u32);
    if parent == expected_parent {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the parent process {expected_parent} is gone (the parent is {parent} now): \
         this process has nobody to report to and must end"
    )))
}

/// Restricts the calling thread to `cpus`, sched_setaffinity(2). Threads that it starts later
/// inherit that.
///
/// # Errors
/// `cpus` is empty, holds a number that no kernel takes, or names no CPU that is online and
/// allowed to this process.
pub fn set_affinity(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu}: numbers end at {}", CpuSet::MAX_CPU - 1),
            ));
        }
        set.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| io::Error::new(io::Error::from(e).kind(), format!("CPUs {cpus:?}: {e}")))
}

/// The CPUs that the calling thread may run on, in order, sched_getaffinity(2).
///
/// # Errors
/// The machine has more CPUs than the set that is asked with (1,024).
pub fn affinity() -> io::Result<Vec<u32>> {
    affinity_of(None)
}

/// The CPUs that a process may run on, in order; without one, the calling thread.
///
/// # Errors
/// What sched_getaffinity(2) answers.
pub fn affinity_of(process: Option<Pid>) -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(process)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu as u32)
        .collect())
}

/// The CPU that the calling thread runs on at this moment, getcpu(2).
pub fn current_cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn the_usage_of_a_thread_is_its_own() {
        let before = thread_usage().unwrap();
        std::thread::spawn(|| {
            let end = clock::thread_cpu_ns() + 30_000_000;
            while clock::thread_cpu_ns() < end {}
            let used = thread_usage().unwrap();
            assert!(used.user_ns + used.system_ns >= 29_000_000);
        })
        .join()
        .unwrap();
        // The other one may be over before this one waits for it.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = thread_usage().unwrap();
        let own = after.user_ns + after.system_ns - before.user_ns - before.system_ns;
        assert!(own < 25_000_000, "{own} ns of another thread were counted");
        assert!(after.switches_voluntary > before.switches_voluntary);
    }

    #[test]
    fn affinity_is_what_was_set_and_a_thread_runs_there() {
        std::thread::spawn(|| {
            let all = affinity().unwrap();
            let last = *all.last().unwrap();
            for cpu in all {
                set_affinity(&[cpu]).unwrap();
                assert_eq!(affinity().unwrap(), [cpu]);
                assert_eq!(current_cpu(), cpu);
            }
            assert!(set_affinity(&[]).is_err());
            let far = set_affinity(&[70_000]).unwrap_err();
            assert_eq!(far.to_string(), "CPU 70000: numbers end at 1023");
            assert_eq!(affinity().unwrap(), [last], "a refused set changes nothing");
            // The kernel takes a mask that names more CPUs than there are, and none that names
            // only such.
            set_affinity(&[last, 1023]).unwrap();
            assert_eq!(affinity().unwrap(), [last]);
            assert!(set_affinity(&[1023]).is_err());
        })
        .join()
        .unwrap();
    }

    // Invariant 9.
    #[test]
    fn an_orphan_is_told_so() {
        // No process is its own parent.
        let myself = std::process::id();
        let e = die_with_parent(myself).unwrap_err();
        assert!(e.to_string().contains("is gone"), "{e}");
        let parent = rustix::process::getppid().map_or(0, |p| p.as_raw_pid() as u32);
        die_with_parent(parent).unwrap();
        rustix::process::set_parent_process_death_signal(None).unwrap();
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = gettid();
        assert_ne!(std::thread::spawn(gettid).join().unwrap(), mine);
    }
}
