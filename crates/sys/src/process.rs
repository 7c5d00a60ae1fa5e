//! The calling thread and its process: resource usage, CPU affinity, and the end with the parent.

use std::io;

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

use crate::syscall::checked;

/// Resource usage of a thread, or a sum over threads, since their start, getrusage(2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// User CPU time in ns. On most kernels only the sum of user and system time is exact.
    pub user_ns: u64,
    /// System CPU time in ns.
    pub system_ns: u64,
    /// Page faults served without reading from a device.
    pub faults_minor: u64,
    /// Page faults that read from a device.
    pub faults_major: u64,
    /// Context switches because the thread waited.
    pub switches_voluntary: u64,
    /// Context switches because the thread was preempted.
    pub switches_involuntary: u64,
}

/// Usage of the calling thread (RUSAGE_THREAD). Does not allocate. Fails only if a seccomp filter
/// forbids getrusage(2).
pub fn thread_usage() -> io::Result<ThreadUsage> {
    usage(libc::RUSAGE_THREAD)
}

/// Usage of all threads of the process (RUSAGE_SELF), including ended ones and, since Linux 5.12, those
/// that the kernel runs for its io_uring.
pub fn process_usage() -> io::Result<ThreadUsage> {
    usage(libc::RUSAGE_SELF)
}

/// Usage of children that have ended and were waited for, and of their descendants likewise
/// (RUSAGE_CHILDREN).
pub fn children_usage() -> io::Result<ThreadUsage> {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(who: libc::c_int) -> io::Result<ThreadUsage> {
    // SAFETY: all-zero bytes are a valid `rusage`: it consists of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes of a `rusage` for the length of the call.
    checked(unsafe { libc::getrusage(who, &raw mut usage) })?;
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

/// The thread id of the calling thread, gettid(2).
pub fn gettid() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

/// Makes the kernel kill this process (SIGKILL) when its parent ends, prctl(2) PR_SET_PDEATHSIG. The
/// kernel's "parent" is the *thread* that created it: the process is killed when that thread ends, even
/// if the parent process lives on. Fails if `expected_parent` has ended before: the caller should exit.
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

/// Restricts the calling thread, and those that it starts later, to `cpus`, sched_setaffinity(2).
/// Fails for a number above the kernel's bound, and if none of them is online and allowed.
pub fn set_affinity(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            let why = format!("CPU {cpu}: numbers end at {}", CpuSet::MAX_CPU - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        set.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| io::Error::new(io::Error::from(e).kind(), format!("CPUs {cpus:?}: {e}")))
}

/// The CPUs on which the calling thread may run, ascending, sched_getaffinity(2).
pub fn affinity() -> io::Result<Vec<u32>> {
    affinity_of(None)
}

/// The CPUs on which a process may run, ascending; without a process, the calling thread.
pub fn affinity_of(process: Option<Pid>) -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(process)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu as u32)
        .collect())
}

/// The CPU on which the calling thread runs at this moment, getcpu(2).
pub fn current_cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    // Invariant 9.
    #[test]
    fn a_process_without_its_expected_parent_gets_an_error() {
        // No process is its own parent.
        let myself = std::process::id();
        let e = die_with_parent(myself).unwrap_err();
        assert!(e.to_string().contains("is gone"), "{e}");
        let parent = rustix::process::getppid().map_or(0, |p| p.as_raw_pid() as u32);
        die_with_parent(parent).unwrap();
        rustix::process::set_parent_process_death_signal(None).unwrap();
    }
}
