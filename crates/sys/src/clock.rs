//! Clocks, in ns. [`monotonic_ns`] is read in user space (vDSO); the CPU clocks are read by a direct
//! system call.

use std::io;

use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::syscall::checked;

const NS_PER_S: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC in ns, clock_gettime(2). It never goes back and does not count suspension.
pub fn monotonic_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// The time for which the machine has been suspended since it booted, in ns, as a lower and an upper
/// bound: CLOCK_BOOTTIME less CLOCK_MONOTONIC. time_namespaces(7) may shift both.
pub fn suspended_ns() -> [i64; 2] {
    let before_ns = monotonic_ns();
    let boot_ns = ns(clock_gettime(ClockId::Boottime));
    [monotonic_ns(), before_ns].map(|monotonic_ns| boot_ns as i64 - monotonic_ns as i64)
}

/// CPU time of the calling thread in ns (CLOCK_THREAD_CPUTIME_ID), user and system, up to this
/// moment.
pub fn thread_cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of all threads of this process in ns, ended ones included, CLOCK_PROCESS_CPUTIME_ID.
pub fn process_cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time of all threads of any process in ns, ended ones included; kernel threads are processes.
/// A thread that is running on another CPU counts up to its last tick only. Does not allocate.
/// `EINVAL` without such a process.
pub fn process_cpu_ns_of(pid: u32) -> io::Result<u64> {
    cpu_clock_ns(pid, CPUCLOCK_SCHED)
}

/// CPU time of a thread of this process in ns, up to this moment on any CPU: reading it updates the
/// thread's account. Threads that the kernel made for the process, as io_uring's workers, can be read
/// as well. Does not allocate. `EINVAL` without such a thread.
pub fn thread_cpu_ns_of(tid: u32) -> io::Result<u64> {
    cpu_clock_ns(tid, CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD)
}

/// Bits of the number of a CPU clock (linux/posix-timers_types.h): the scheduler's account of a
/// process, or with the second bit of a thread.
const CPUCLOCK_SCHED: libc::clockid_t = 2;
const CPUCLOCK_PERTHREAD: libc::clockid_t = 4;

fn cpu_clock_ns(id: u32, kind: libc::clockid_t) -> io::Result<u64> {
    let id = libc::pid_t::try_from(id).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: all-zero bytes are a valid `timespec`: it consists of integers.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is valid for writes of a `timespec` for the length of the call; any number of
    // a clock is permitted.
    checked(unsafe { libc::clock_gettime((!id << 3) | kind, &raw mut time) })?;
    Ok(time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64)
}

/// The resolution of CLOCK_MONOTONIC in ns: 1 where the kernel has high-resolution timers.
pub fn resolution_ns() -> u64 {
    ns(clock_getres(ClockId::Monotonic))
}

/// The scheduler's tick in ns (4,000,000 at 250 Hz): the resolution of CLOCK_MONOTONIC_COARSE.
/// The kernel updates the CPU time of a thread that keeps running once a tick.
pub fn tick_ns() -> u64 {
    ns(clock_getres(ClockId::MonotonicCoarse))
}

/// The unit of the times in /proc/stat in ns: 10,000,000 wherever USER_HZ is 100, proc_stat(5).
pub fn proc_stat_unit_ns() -> u64 {
    NS_PER_S / rustix::param::clock_ticks_per_second().max(1)
}

/// Sleeps until [`monotonic_ns`] has reached `at_ns`, whatever signals arrive, clock_nanosleep(2).
pub fn sleep_until_ns(at_ns: u64) {
    let until = Timespec {
        tv_sec: (at_ns / NS_PER_S) as _,
        tv_nsec: (at_ns % NS_PER_S) as _,
    };
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {
    }
}

fn ns(t: Timespec) -> u64 {
    // The clocks above start at boot or at zero, so neither part is negative.
    t.tv_sec as u64 * NS_PER_S + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_at_or_after_its_time_and_costs_little_cpu() {
        let at = monotonic_ns() + 20_000_000;
        let cpu = thread_cpu_ns();
        sleep_until_ns(at);
        assert!(monotonic_ns() >= at);
        assert!(thread_cpu_ns() - cpu < 15_000_000, "it slept, not spun");
        sleep_until_ns(at); // in the past: returns
    }

    #[test]
    fn a_machine_that_runs_is_not_suspended() {
        let ([least, _], [_, most]) = (suspended_ns(), suspended_ns());
        assert!(least <= most);
    }

    #[test]
    fn cpu_times_of_any_process_and_of_own_threads_are_read() {
        let me = std::process::id();
        let before = process_cpu_ns();
        let by_id = process_cpu_ns_of(me).unwrap();
        assert!((before..=process_cpu_ns()).contains(&by_id));
        // kthreadd, where it is visible, or the first process of a container.
        let another = process_cpu_ns_of(2).or_else(|_| process_cpu_ns_of(1));
        assert!(another.is_ok());
        assert!(process_cpu_ns_of(u32::MAX).is_err());
        let (sender, receiver) = std::sync::mpsc::channel();
        let busy = std::thread::spawn(move || {
            let end = thread_cpu_ns() + 5_000_000;
            while thread_cpu_ns() < end {}
            sender
                .send((crate::process::gettid(), thread_cpu_ns()))
                .unwrap();
            std::thread::park();
        });
        let (tid, used) = receiver.recv().unwrap();
        assert!(thread_cpu_ns_of(tid).unwrap() >= used);
        assert!(thread_cpu_ns_of(1).is_err(), "no thread of this process");
        busy.thread().unpark();
        busy.join().unwrap();
    }

    #[test]
    fn the_steps_are_those_of_linux() {
        assert!((1..=10_000_000).contains(&resolution_ns()));
        // HZ is 100 to 10,000.
        assert!((100_000..=10_000_000).contains(&tick_ns()));
        assert!((1_000_000..=10_000_000).contains(&proc_stat_unit_ns()));
    }
}
