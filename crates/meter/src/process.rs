//! The meter of a thread for which other threads of the process work: those of io_uring and of glibc's
//! asynchronous I/O.

use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::process::{self, ThreadUsage};

use crate::thread::{Snapshot, ThreadMeter};
use crate::{Meter, usage};

const ONE_THREAD: &str = "other threads of the process do a part of the work, which this counter of one thread does not see";

/// A meter of the clocks of the thread that opened it and, of the whole process, the counters for which
/// [`crate::is_of_process`]. Counters of a single thread are absent. [`crate::WithWorkers`] adds the CPU
/// time of the other threads.
#[derive(Debug)]
pub struct ProcessMeter(pub ThreadMeter);

/// A read of a [`ProcessMeter`].
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

    /// CPU time that another thread uses, in ns.
    const BUSY_NS: u64 = 60_000_000;

    #[test]
    fn the_work_of_another_thread_is_counted_and_counters_of_one_thread_are_absent() {
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
