//! The time of a run, without its pauses.

use std::time::Duration;

use bytecost_sys::clock;

/// The clock of a run: it stops while the run pauses, and counts the time of the run's earlier processes.
#[derive(Debug)]
pub(crate) struct RunClock {
    started_ns: u64,
    earlier: Duration,
}

impl RunClock {
    /// A clock that starts now, with the time that the run had taken before.
    pub(crate) fn start(earlier: Duration) -> RunClock {
        RunClock {
            started_ns: clock::monotonic_ns(),
            earlier,
        }
    }

    /// Time of the run so far, in ms, without pauses.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        (clock::monotonic_ns() - self.started_ns) / 1_000_000 + self.earlier.as_millis() as u64
    }

    /// Calls a function whose time does not count.
    pub(crate) fn pause<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let began_ns = clock::monotonic_ns();
        let waited = wait();
        self.started_ns += clock::monotonic_ns() - began_ns;
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::thread;

    #[test]
    fn a_pause_is_no_time_of_the_run() {
        let mut clock = RunClock::start(Duration::from_secs(7));
        let before_ms = clock.elapsed_ms();
        assert!(before_ms >= 7_000);
        clock.pause(|| thread::sleep(Duration::from_secs(1)));
        assert!(clock.elapsed_ms() - before_ms < 1_000);
    }
}
