//! The common start of the generator's threads: all of them begin to count at the same time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No thread is waited for any more.
const NEVER: u64 = u64::MAX;

/// The moment at which all threads of a load start.
pub(super) struct StartGate {
    threads: u32,
    missing: AtomicU32,
    /// The start, in ns of CLOCK_MONOTONIC; 0 while it is not known.
    at_ns: AtomicU64,
    /// The longest round of a thread.
    round_ns: AtomicU64,
}

impl StartGate {
    pub(super) fn new(threads: u32) -> StartGate {
        StartGate {
            threads,
            missing: AtomicU32::new(threads),
            at_ns: AtomicU64::new(0),
            round_ns: AtomicU64::new(0),
        }
    }

    /// Notes that one thread is ready now, whose first round took `round_ns`. The last one sets the
    /// start `notice_ns` from now, by when each thread has checked for it.
    pub(super) fn ready(&self, now_ns: u64, notice_ns: u64, round_ns: u64) {
        self.round_ns.fetch_max(round_ns, Ordering::AcqRel);
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let notice_ns = if self.threads > 1 { notice_ns } else { 0 };
            let _ = self.at_ns.compare_exchange(
                0,
                now_ns + notice_ns,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    pub(super) fn at_ns(&self) -> Option<u64> {
        Some(self.at_ns.load(Ordering::Acquire)).filter(|at_ns| !matches!(*at_ns, 0 | NEVER))
    }

    /// The longest round of all threads, once they start.
    pub(super) fn round_ns(&self) -> u64 {
        self.round_ns.load(Ordering::Acquire)
    }

    pub(super) fn give_up(&self) {
        self.at_ns.store(NEVER, Ordering::Release);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.at_ns.load(Ordering::Acquire) == NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_decides_and_who_is_late_does_not_revive_what_was_given_up() {
        let start = StartGate::new(3);
        start.ready(10, 100, 5);
        start.ready(20, 100, 7);
        assert_eq!(start.at_ns(), None);
        start.ready(30, 100, 6);
        assert_eq!((start.at_ns(), start.round_ns()), (Some(130), 7));
        let alone = StartGate::new(1);
        alone.ready(10, 100, 0);
        assert_eq!(alone.at_ns(), Some(10));
        let given_up = StartGate::new(1);
        given_up.give_up();
        given_up.ready(10, 100, 0);
        assert!(given_up.at_ns().is_none() && given_up.is_given_up());
    }
}
