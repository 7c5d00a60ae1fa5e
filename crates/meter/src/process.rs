//! The meter of a process with threads that work for it: io_uring's, glibc's asynchronous I/O's.

use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::process::{self, ThreadUsage};

use crate::thread::{Snapshot, ThreadMeter};
use crate::{Meter, usage};

const ONE_THREAD: &str = "other threads of the process do a part of the work, which this counter of one thread does not see";

/// Reads the clocks of the thread that opened it, and what [`crate::is_of_process`] of the whole
/// process. What else exists of one thread only is absent. [`crate::WithWorkers`] has the others'.
#[derive(Debug)]
pub struct ProcessMeter(pub ThreadMeter);

/// What a [`ProcessMeter`] read.
#[derive(Clone, Copy, Debug)]
pub struct ProcessSnapshot {
    thread: Snapshot,
    usage: Option<ThreadUsage>,
}

impl Meter for ProcessMeter {
    type Snapshot = ProcessSnapshot;

    fn read_start(&mut self) -> ProcessSnapshot {
        let usage = process::process_usage().ok();
        let thread = self.0.read_start();
        ProcessSnapshot { thread, usage }
    }

    fn read_end(&mut self) -> ProcessSnapshot {
        let thread = self.0.read_end();
        let usage = process::process_usage().ok();
        ProcessSnapshot { thread, usage }
    }

    fn difference(&self, start: &ProcessSnapshot, end: &ProcessSnapshot) -> Readings {
        let of_thread = self.0.difference(&start.thread, &end.thread);
        let readings = of_thread.into_iter().map(|(counter, own)| {
            let (start, end) = (start.usage.as_ref(), end.usage.as_ref());
            let of_process = usage::between(counter, start, end, usage::NO_USAGE);
            let reading = of_process.unwrap_or(match counter {
                Counter::ElapsedNs | Counter::CpuNs => own,
                _ => Reading::absent(ONE_THREAD),
            });
            (counter, reading)
        });
        readings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::spin;
    use bytecost_sys::clock;

    /// CPU time that a busy thread beside this one is given, in ns.
    const BUSY_NS: u64 = 60_000_000;

    #[test]
    fn the_work_of_another_thread_is_counted_and_what_only_one_thread_has_is_absent() {
        let mut meter = ProcessMeter(ThreadMeter::open_without_perf());
        let start = meter.read_start();
        let before = clock::thread_cpu_ns();
        std::thread::spawn(|| spin(BUSY_NS)).join().unwrap();
        let own = clock::thread_cpu_ns() - before;
        let end = meter.read_end();
        let readings = meter.difference(&start, &end);
        let read = |counter| readings[&counter].measured();
        let split = read(Counter::UserNs).unwrap() + read(Counter::SystemNs).unwrap();
        assert!(split >= BUSY_NS.max(own));
        assert!(read(Counter::CpuNs).unwrap() >= own);
        assert!(read(Counter::ElapsedNs).unwrap() > 0);
        for (counter, _) in usage::OF_PROCESS {
            assert!(read(counter).is_some(), "{counter:?}");
        }
        for counter in [Counter::Migrations, Counter::TaskClockNs, Counter::Cycles] {
            assert_eq!(readings[&counter], Reading::absent(ONE_THREAD));
        }
    }
}
