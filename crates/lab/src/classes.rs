//! The scheduler class of a thread, and the limit that keeps a real-time thread from hanging the machine.
//!
//! The threads of a trial have the lowest real-time priority. The thread that ends their windows has a
//! higher one, so that these end in time. The kernel ends a process whose thread does not block for
//! [`REALTIME_MOST_US`] (RLIMIT_RTTIME, setrlimit(2)). Deadline threads have a runtime budget instead.

use std::io;

use bytecost_host::{Roots, scheduler_classes};
use bytecost_spec::Class;
use bytecost_spec::cell::{DEADLINE_PERIOD_NS, DEADLINE_RUNTIME_NS};
use bytecost_sys::sched::{self, Policy};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The longest CPU time of a real-time thread without blocking, in µs.
pub(crate) const REALTIME_MOST_US: u64 = 10_000_000;
/// The real-time priorities of a trial's threads, and of the thread that ends their windows.
const PRIORITY: u32 = 1;
const WATCHDOG_PRIORITY: u32 = 2;

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

/// Sets the class of the calling thread, which its later threads inherit.
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
    set(class, Policy::Fifo(WATCHDOG_PRIORITY))
}

fn set(class: Class, policy: Policy) -> io::Result<()> {
    sched::set_policy(policy).map_err(|e| {
        let why = scheduler_classes::refusal_reason(&Roots::real(), class, &e);
        io::Error::new(e.kind(), format!("class {class}: {why}"))
    })
}

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
