//! Time for which the coordinator was stopped: by a signal, by a freezer of control groups, or with
//! its machine.
//!
//! A thread that waits for a CPU has that in its account, so that a busy machine is not taken for a
//! stop. What stops it between two waits is not seen: windows are open while it waits.

use std::cell::Cell;

use bytecost_sys::clock;

/// The shortest unaccounted time of a wait that counts as a stop. A hypervisor takes less at once, and so
/// does the kernel to bring a page back.
const NOTICED_NS: u64 = 250_000_000;

thread_local! {
    static STOPPED_NS: Cell<u64> = const { Cell::new(0) };
}

/// CPU time and time in the queue for a CPU of this thread, together; none where the kernel keeps no
/// such account (no CONFIG_SCHED_INFO).
fn accounted_ns() -> Option<u64> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut times = line.split_whitespace().map(str::parse::<u64>);
    let (Ok(ran_ns), Ok(queued_ns)) = (times.next()?, times.next()?) else {
        return None;
    };
    (ran_ns > 0).then(|| ran_ns + queued_ns)
}

/// The time for which a thread was stopped in a wait that was to take `wanted_ns` at most and took
/// `took_ns`, while its account grew by so much. Without an account it is 0.
fn stopped_ns(wanted_ns: u64, took_ns: u64, accounted_ns: Option<u64>) -> u64 {
    let late_ns = took_ns.saturating_sub(wanted_ns);
    let stopped_ns = late_ns.saturating_sub(accounted_ns.unwrap_or(late_ns));
    if stopped_ns < NOTICED_NS {
        0
    } else {
        stopped_ns
    }
}

/// Calls `wait`, which takes at most so many ns, and counts the time for which the thread was stopped.
pub(crate) fn watched<T>(wanted_ns: u64, wait: impl FnOnce() -> T) -> T {
    let (began_ns, before) = (clock::monotonic_ns(), accounted_ns());
    let waited = wait();
    let took_ns = clock::monotonic_ns() - began_ns;
    let grown = accounted_ns()
        .zip(before)
        .map(|(now, then)| now.saturating_sub(then));
    STOPPED_NS.set(STOPPED_NS.get() + stopped_ns(wanted_ns, took_ns, grown));
    waited
}

/// The stopped time of this thread and of the machine since this was made.
pub(crate) struct StoppedTime {
    thread_ns: u64,
    machine_ns: [i64; 2],
}

impl StoppedTime {
    pub(crate) fn begin() -> StoppedTime {
        StoppedTime {
            thread_ns: STOPPED_NS.get(),
            machine_ns: clock::suspended_ns(),
        }
    }

    /// The stopped time so far, in ns.
    pub(crate) fn ns(&self) -> u64 {
        let now = StoppedTime::begin();
        suspended_ns(self.machine_ns, now.machine_ns) + now.thread_ns - self.thread_ns
    }
}

/// The least growth of the machine's time of suspension, in ns.
fn suspended_ns([_, most_before]: [i64; 2], [least_now, _]: [i64; 2]) -> u64 {
    let grown_ns = u64::try_from(least_now.saturating_sub(most_before)).unwrap_or(0);
    if grown_ns < NOTICED_NS { 0 } else { grown_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_wait_that_is_late_for_no_reason_was_stopped() {
        let check = |took_ms: u64, accounted_ms: Option<u64>, stopped_ms: u64| {
            let accounted_ns = accounted_ms.map(|ms| ms * MS);
            let found = stopped_ns(50 * MS, took_ms * MS, accounted_ns);
            assert_eq!(found, stopped_ms * MS, "{took_ms} {accounted_ms:?}");
        };
        // In time, or not late enough to be remarkable.
        check(0, Some(0), 0);
        check(50, Some(0), 0);
        check(299, Some(0), 0);
        check(300, Some(0), 250);
        // Stopped, alone or on a busy machine.
        check(1_050, Some(0), 1_000);
        check(1_350, Some(300), 1_000);
        // It waited for a CPU, or ran: nothing is left, or next to nothing.
        check(1_050, Some(1_000), 0);
        check(1_050, Some(900), 0);
        check(1_050, Some(5_000), 0);
        // Nobody knows.
        check(10_000, None, 0);
    }

    #[test]
    fn a_machine_was_suspended_by_what_its_clocks_differ_by_for_sure() {
        let s = 1_000_000_000;
        // The second look took long between its clocks.
        assert_eq!(suspended_ns([0, 9], [0, 3 * s]), 0);
        assert_eq!(suspended_ns([0, 9], [2 * s + 9, 3 * s]), 2 * s as u64);
        assert_eq!(
            suspended_ns([-5 * s, -5 * s], [-3 * s, -3 * s]),
            2 * s as u64
        );
        assert_eq!(suspended_ns([0, 9], [s / 100, s]), 0);
    }

    #[test]
    fn a_thread_that_works_or_waits_as_planned_was_not_stopped() {
        let time = StoppedTime::begin();
        watched(0, || {
            let until_ns = clock::thread_cpu_ns() + 300 * MS;
            while clock::thread_cpu_ns() < until_ns {}
        });
        watched(300 * MS, || {
            clock::sleep_until_ns(clock::monotonic_ns() + 300 * MS)
        });
        assert_eq!(time.ns(), 0);
        // One that sleeps without a word is as one that is stopped.
        watched(0, || {
            clock::sleep_until_ns(clock::monotonic_ns() + 300 * MS)
        });
        assert!(accounted_ns().is_none() || time.ns() >= 250 * MS);
    }
}
