//! The scheduler class of a thread, sched_setattr(2) and sched_getattr(2).

use std::io;
use std::mem::{size_of, zeroed};

use crate::syscall::checked;

/// A scheduler class with its parameters, sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER, with a nice value from -20 to 19.
    Other(i32),
    /// SCHED_BATCH, with a nice value.
    Batch(i32),
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO, with a priority from 1 to 99.
    Fifo(u32),
    /// SCHED_RR, with a priority from 1 to 99.
    RoundRobin(u32),
    /// SCHED_DEADLINE: `runtime_ns` of CPU time in each period, whose end is the deadline.
    Deadline {
        /// CPU time in ns.
        runtime_ns: u64,
        /// Period in ns.
        period_ns: u64,
    },
}

const OTHER: u32 = 0;
const FIFO: u32 = 1;
const RR: u32 = 2;
const BATCH: u32 = 3;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;

/// Sets the class of the calling thread and of those that it starts later; but no thread inherits
/// [`Policy::Deadline`]: those have SCHED_OTHER.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_NICE where the class needs it, without budget for the control
/// group (real-time group scheduling), and for a deadline thread that may not run on all CPUs of its
/// scheduling domain; EBUSY if too little time is left for its reservation.
pub fn set_policy(policy: Policy) -> io::Result<()> {
    set(&attributes(policy))
}

fn blank() -> libc::sched_attr {
    // SAFETY: all-zero bytes are a valid `sched_attr`: it consists of integers.
    let mut attr: libc::sched_attr = unsafe { zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr
}

fn attributes(policy: Policy) -> libc::sched_attr {
    let mut attr = blank();
    match policy {
        Policy::Other(nice) => (attr.sched_policy, attr.sched_nice) = (OTHER, nice),
        Policy::Batch(nice) => (attr.sched_policy, attr.sched_nice) = (BATCH, nice),
        Policy::Idle => attr.sched_policy = IDLE,
        Policy::Fifo(priority) => (attr.sched_policy, attr.sched_priority) = (FIFO, priority),
        Policy::RoundRobin(priority) => (attr.sched_policy, attr.sched_priority) = (RR, priority),
        Policy::Deadline {
            runtime_ns,
            period_ns,
        } => {
            attr.sched_policy = DEADLINE;
            attr.sched_runtime = runtime_ns;
            attr.sched_deadline = period_ns;
            attr.sched_period = period_ns;
            attr.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        }
    }
    attr
}

/// The shortest time slice that the kernel grants, in ns.
const SLICE_NS: u64 = 100_000;

/// A guard under which the calling thread, if it is SCHED_OTHER, runs soon after it wakes up: as
/// SCHED_FIFO if that is wanted and permitted, else with the shortest time slice, which has the earliest
/// deadline (EEVDF, Linux 6.12, Documentation/scheduler/sched-eevdf.rst) and the same share of the CPU.
/// Threads and processes that it starts inherit neither.
#[derive(Debug)]
pub struct Promptness {
    /// The nice value to restore; none if the class was not changed.
    nice: Option<i32>,
}

impl Promptness {
    /// Makes the calling thread prompt; `realtime` to try SCHED_FIFO.
    pub fn take(realtime: bool) -> Promptness {
        let nice = match policy() {
            Ok(Policy::Other(nice)) => nice,
            _ => return Promptness { nice: None },
        };
        if !realtime || set_uninherited(Policy::Fifo(1), 0).is_err() {
            let _ = set_uninherited(Policy::Other(nice), SLICE_NS);
        }
        Promptness { nice: Some(nice) }
    }

    /// Leaves the thread prompt until it ends.
    pub fn keep(mut self) {
        self.nice = None;
    }
}

impl Drop for Promptness {
    fn drop(&mut self) {
        if let Some(nice) = self.nice {
            // Children do not inherit it, unlike before: that needs CAP_SYS_NICE.
            let _ = set_uninherited(Policy::Other(nice), 0);
        }
    }
}

/// Sets a policy that is not inherited; a slice of 0 is the kernel's default.
fn set_uninherited(policy: Policy, slice_ns: u64) -> io::Result<()> {
    let mut attr = attributes(policy);
    attr.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attr.sched_runtime = slice_ns;
    set(&attr)
}

fn set(attr: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: `attr` is valid for reads of its `size` bytes for the length of the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attr), 0) };
    checked(result).map(drop)
}

/// The calling thread's class; `Unsupported` for one that [`Policy`] does not have.
pub fn policy() -> io::Result<Policy> {
    let mut attr = blank();
    let size = attr.size;
    // SAFETY: `attr` is valid for writes of `size` bytes for the length of the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    checked(result)?;
    match attr.sched_policy {
        OTHER => Ok(Policy::Other(attr.sched_nice)),
        BATCH => Ok(Policy::Batch(attr.sched_nice)),
        IDLE => Ok(Policy::Idle),
        FIFO => Ok(Policy::Fifo(attr.sched_priority)),
        RR => Ok(Policy::RoundRobin(attr.sched_priority)),
        DEADLINE => Ok(Policy::Deadline {
            runtime_ns: attr.sched_runtime,
            period_ns: attr.sched_period,
        }),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::lack::{Lack, skipped};
    use rustix::process::{Resource, Rlimit, Signal, setrlimit};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// The class of a new thread after it has set this one.
    fn set_in_thread(policy: Policy) -> io::Result<Policy> {
        std::thread::spawn(move || {
            set_policy(policy)?;
            self::policy()
        })
        .join()
        .unwrap()
    }

    #[test]
    fn promptness_ends_and_is_not_inherited() {
        for realtime in [false, true] {
            let policies = std::thread::spawn(move || {
                set_policy(Policy::Other(3)).unwrap();
                let prompt = Promptness::take(realtime);
                let own = policy().unwrap();
                let of_child = std::thread::spawn(policy).join().unwrap().unwrap();
                drop(prompt);
                (own, of_child, policy().unwrap())
            });
            let (own, of_child, after) = policies.join().unwrap();
            match own {
                Policy::Fifo(1) => assert!(realtime),
                own => assert_eq!(own, Policy::Other(3)),
            }
            assert!(!matches!(of_child, Policy::Fifo(_)));
            assert_eq!(after, Policy::Other(3));
        }
        std::thread::spawn(|| {
            set_policy(Policy::Idle).unwrap();
            drop(Promptness::take(true));
            assert_eq!(policy().unwrap(), Policy::Idle, "another class stays");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_inherit_a_class_and_invalid_ones_change_nothing() {
        std::thread::spawn(|| {
            set_policy(Policy::Other(7)).unwrap();
            let of_child = std::thread::spawn(policy).join().unwrap();
            assert_eq!(of_child.unwrap(), Policy::Other(7));
            for invalid in [
                Policy::Fifo(0),
                Policy::Fifo(100),
                Policy::Deadline {
                    runtime_ns: 2_000_000,
                    period_ns: 1_000_000,
                },
            ] {
                assert!(set_policy(invalid).is_err(), "{invalid:?}");
                assert_eq!(policy().unwrap(), Policy::Other(7));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn helper_that_spins_in_real_time() {
        if std::env::var_os("BYTECOST_SPINS").is_none() {
            return;
        }
        let limit = Rlimit {
            current: Some(100_000),
            maximum: Some(1_000_000),
        };
        setrlimit(Resource::Rttime, limit).unwrap();
        set_policy(Policy::Fifo(1)).unwrap();
        let until = clock::monotonic_ns() + 60_000_000_000;
        while clock::monotonic_ns() < until {}
    }

    // Invariant 9.
    #[test]
    fn a_realtime_thread_that_never_sleeps_is_killed_by_the_kernel() {
        if set_in_thread(Policy::Fifo(1)).is_err() {
            return skipped(Lack::Right, "SCHED_FIFO");
        }
        let name = "sched::tests::helper_that_spins_in_real_time";
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("BYTECOST_SPINS", "1")
            .output()
            .unwrap();
        assert_eq!(ended.status.signal(), Some(Signal::XCPU.as_raw()));
    }
}
