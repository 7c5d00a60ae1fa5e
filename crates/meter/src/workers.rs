//! CPU time of worker threads that the kernel or glibc starts for a side: io_uring's (`iou-`) and POSIX
//! AIO's.

use std::fs::File;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::{clock, process};
use rustix::fs::{RawDir, SeekFrom};

use crate::{Meter, increase_if_read};

const TASKS: &str = "/proc/self/task";
const UNREADABLE: &str = "the threads in /proc/self/task cannot be read";

/// The threads of this process that measure themselves or only wait. All others count as workers. The
/// list is complete before the first window opens.
#[derive(Debug)]
pub struct KnownThreads(Vec<AtomicU32>);

impl KnownThreads {
    /// An empty list with room for `most` threads.
    pub fn new(most: usize) -> KnownThreads {
        KnownThreads((0..most).map(|_| AtomicU32::new(0)).collect())
    }

    /// Adds the calling thread. Without room it counts as a worker.
    pub fn add(&self) {
        let own = process::gettid();
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        (self.0.iter()).any(|slot| slot.compare_exchange(0, own, success, failure).is_ok());
    }

    fn has(&self, tid: u32) -> bool {
        self.0.iter().any(|t| t.load(Ordering::Acquire) == tid)
    }
}

/// A meter with [`Counter::WorkersNs`] in addition to another meter's counters.
///
/// CPU time of workers is that of the process less that of its known threads, so that it includes
/// workers that have ended. The kernel updates the account of a running thread when that thread's clock
/// is read. So all are read, and then the process's: the result has no error of a tick.
#[derive(Debug)]
pub struct WithWorkers<'t, M> {
    meter: M,
    workers: Option<Workers<'t>>,
}

/// A read of [`WithWorkers`].
#[derive(Clone, Copy, Debug)]
pub struct WorkersSnapshot<S> {
    read: S,
    workers_ns: Option<u64>,
    /// CPU time of the calling thread for the read itself.
    read_cost_ns: u64,
}

impl<S> WorkersSnapshot<S> {
    fn new(read: S, workers_ns: Option<u64>, from_ns: u64) -> WorkersSnapshot<S> {
        WorkersSnapshot {
            read,
            workers_ns,
            read_cost_ns: clock::thread_cpu_ns().saturating_sub(from_ns),
        }
    }
}

#[derive(Debug)]
struct Workers<'t> {
    tasks: Option<File>,
    known: &'t KnownThreads,
}

impl<'t, M> WithWorkers<'t, M> {
    /// Adds the workers to a meter. One thread of a process does, since all would read the same.
    pub fn new(meter: M, known: &'t KnownThreads) -> WithWorkers<'t, M> {
        let tasks = File::open(TASKS).ok();
        let workers = Some(Workers { tasks, known });
        WithWorkers { meter, workers }
    }

    /// Wraps a meter without reading workers.
    pub fn without(meter: M) -> WithWorkers<'t, M> {
        WithWorkers {
            meter,
            workers: None,
        }
    }

    fn workers_ns(&self) -> Option<u64> {
        self.workers.as_ref()?.read_ns()
    }
}

impl Workers<'_> {
    fn read_ns(&self) -> Option<u64> {
        let tasks = self.tasks.as_ref()?;
        rustix::fs::seek(tasks, SeekFrom::Start(0)).ok()?;
        let own = process::gettid();
        let mut known_ns = 0;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(tasks, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            let name = std::str::from_utf8(entry.file_name().to_bytes()).ok()?;
            let Some(tid) = name.parse().ok().filter(|tid| *tid != own) else {
                continue;
            };
            // A worker may end after it was listed: its time is in the process's clock.
            let ns = clock::thread_cpu_ns_of(tid).unwrap_or(0);
            if self.known.has(tid) {
                known_ns += ns;
            }
        }
        let process_ns = clock::process_cpu_ns();
        Some(process_ns.saturating_sub(known_ns + clock::thread_cpu_ns()))
    }
}

impl<M: Meter> Meter for WithWorkers<'_, M> {
    type Snapshot = WorkersSnapshot<M::Snapshot>;

    fn read_start(&mut self) -> Self::Snapshot {
        let from_ns = clock::thread_cpu_ns();
        let workers_ns = self.workers_ns();
        let read = self.meter.read_start();
        WorkersSnapshot::new(read, workers_ns, from_ns)
    }

    fn read_end(&mut self) -> Self::Snapshot {
        let from_ns = clock::thread_cpu_ns();
        let read = self.meter.read_end();
        WorkersSnapshot::new(read, self.workers_ns(), from_ns)
    }

    fn difference(&self, start: &Self::Snapshot, end: &Self::Snapshot) -> Readings {
        let mut readings = self.meter.difference(&start.read, &end.read);
        let edges_ns = start.read_cost_ns + end.read_cost_ns;
        readings.insert(Counter::EdgesNs, Reading::Measured(edges_ns));
        if self.workers.is_some() {
            // The clocks of two reads are some hundred ns apart.
            let start_ns = start.workers_ns;
            let end_ns = end.workers_ns.map(|ns| ns.max(start_ns.unwrap_or(0)));
            let reading = increase_if_read(start_ns, end_ns, UNREADABLE);
            readings.insert(Counter::WorkersNs, reading);
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadMeter;
    use crate::tests::spin;
    use std::sync::mpsc;

    const BUSY_NS: u64 = 30_000_000;

    fn counted(work: impl FnOnce(&KnownThreads, mpsc::Sender<()>) + Send + 'static) -> [u64; 2] {
        let known: &'static KnownThreads = Box::leak(Box::new(KnownThreads::new(1)));
        let mut meter = WithWorkers::new(ThreadMeter::open_without_perf(), known);
        let (sender, done) = mpsc::channel();
        let start = meter.read_start();
        std::thread::spawn(move || work(known, sender));
        done.recv().unwrap();
        let end = meter.read_end();
        let readings = meter.difference(&start, &end);
        [Counter::WorkersNs, Counter::CpuNs].map(|c| readings[&c].measured().unwrap())
    }

    /// Runs a test in a process of its own, since other tests are threads of this process: returns true
    /// there, and false after it has passed.
    fn alone(test: &str) -> bool {
        const CHILD: &str = "BYTECOST_TEST_ALONE";
        if std::env::var_os(CHILD).is_some() {
            return true;
        }
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--test-threads", "1"])
            .env(CHILD, "1")
            .status();
        assert!(status.unwrap().success());
        false
    }

    #[test]
    fn unknown_threads_are_workers_and_known_ones_are_not() {
        if !alone("workers::tests::unknown_threads_are_workers_and_known_ones_are_not") {
            return;
        }
        let [ended_ns, own_ns] = counted(|_, sender| {
            std::thread::spawn(|| spin(BUSY_NS)).join().unwrap();
            sender.send(()).unwrap();
        });
        assert!(ended_ns >= BUSY_NS, "{ended_ns} ns");
        assert!(own_ns < BUSY_NS, "{own_ns} ns");
        let [known_ns, _] = counted(|known, sender| {
            known.add();
            spin(BUSY_NS);
            sender.send(()).unwrap();
            std::thread::park();
        });
        assert!(known_ns < BUSY_NS / 2, "{known_ns} ns");
        // It is running while it is read, and no tick is missing. It ends with the process.
        let [running_ns, _] = counted(|_, sender| {
            spin(BUSY_NS);
            sender.send(()).unwrap();
            loop {
                std::hint::spin_loop();
            }
        });
        assert!(running_ns >= BUSY_NS, "{running_ns} ns");
    }
}
