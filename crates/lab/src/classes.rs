//! A thread's scheduler class, and the bound by which one of real time cannot hang the machine.
//!
//! A trial's thread has the lowest priority of real time, and the one that watches the clock a
//! higher one, so that windows end in time. The kernel ends a process whose thread does not block for
//! [`REALTIME_MOST_US`] (RLIMIT_RTTIME, setrlimit(2)). Deadline threads have a budget of their own.

use std::io;

use bytecost_host::{Roots, classes};
use bytecost_spec::Class;
use bytecost_spec::cell::{DEADLINE_PERIOD_NS, DEADLINE_RUNTIME_NS};
use bytecost_sys::sched::{self, Policy};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The longest CPU time of a thread of real time without blocking, in µs.
pub(crate) const REALTIME_MOST_US: u64 = 10_000_000;
/// Priority of a trial's threads, and of the one that watches the clock for them.
const PRIORITY: u32 = 1;
const WATCHDOG: u32 = 2;

fn policy(class: Class) -> Policy {
    match class {
        Class::Other(nice) => Policy::Other(nice),
        Class::Batch(nice) => Policy::Batch(nice),
        Class::Idle => Policy::Idle,
        Class::Fifo => Policy::Fifo(PRIORITY),
        Class::Rr => Policy::RoundRobin(PRIORITY),
        Class::Deadline => Policy::Deadline {
            runtime_ns: DEADLINE_RUNTIME_NS,
            period_ns: DEADLINE_PERIOD_NS,
        },
    }
}

/// Gives the calling thread its class, which later threads of it inherit.
pub(crate) fn enter(class: Class) -> io::Result<()> {
    if class == Class::default() {
        return Ok(());
    }
    set(class, policy(class))
}

/// Makes the calling process and thread the watchdog of later threads of this class.
pub(crate) fn become_watchdog(class: Class) -> io::Result<()> {
    if !class.needs_watchdog() {
        return Ok(());
    }
    let limit = Rlimit {
        current: Some(REALTIME_MOST_US),
        maximum: Some(REALTIME_MOST_US + 1_000_000),
    };
    setrlimit(Resource::Rttime, limit)?;
    set(class, Policy::Fifo(WATCHDOG))
}

fn set(class: Class, policy: Policy) -> io::Result<()> {
    sched::set_policy(policy).map_err(|e| {
        let why = classes::refusal_reason(&Roots::real(), class, &e);
        io::Error::new(e.kind(), format!("class {class}: {why}"))
    })
}

/// The class of the calling thread.
pub(crate) fn current() -> io::Result<Class> {
    Ok(match sched::policy()? {
        Policy::Other(nice) => Class::Other(nice),
        Policy::Batch(nice) => Class::Batch(nice),
        Policy::Idle => Class::Idle,
        Policy::Fifo(_) => Class::Fifo,
        Policy::RoundRobin(_) => Class::Rr,
        Policy::Deadline { .. } => Class::Deadline,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_class_that_it_took() {
        for text in [
            "other",
            "other:nice=10",
            "batch:nice=3",
            "idle",
            "fifo",
            "rr",
            "deadline",
        ] {
            let class: Class = text.parse().unwrap();
            let got = std::thread::spawn(move || enter(class).and_then(|()| current()));
            match got.join().unwrap() {
                Ok(got) if class == Class::default() => assert_eq!(got, current().unwrap()),
                Ok(got) => assert_eq!(got, class),
                Err(e) => {
                    assert!(class.is_realtime(), "{e}");
                    assert!(e.to_string().starts_with(&format!("class {text}: ")), "{e}");
                }
            }
        }
    }
}
