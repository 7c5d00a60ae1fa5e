//! The meter of core-to-core latency: the time in which a cache line passes from one CPU to another.
//!
//! A host may move virtual CPUs to other cores within a trial. Passing data between threads then costs
//! more, which the guest's clocks and counters do not show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use bytecost_sys::sched::Promptness;
use bytecost_sys::{clock, process};

/// Round trips of one mean.
const ROUND_TRIPS: u64 = 50;
/// Means of a reading, of which the smallest counts: others are disturbed.
const MEANS: u32 = 4;
/// The longest part of a thread in a reading. Two idle CPUs take 0.1 ms, mostly to wake up; if one is
/// busy, the thread gives up soon.
const PATIENCE_NS: u64 = 500_000;
/// Loads of the line between two reads of the clock.
const LOADS: u32 = 256;

/// Two threads, each pinned to its CPU, that exchange a cache line for a reading and sleep between
/// readings. Readings are taken outside of windows.
#[derive(Debug)]
pub struct CoreToCoreMeter {
    /// The CPUs.
    pub cpus: [u32; 2],
    shared: Arc<Shared>,
    threads: [JoinHandle<()>; 2],
    results: Receiver<ReadingResult>,
}

/// The number of a reading and the latency in ns; none if a thread was too late.
type ReadingResult = (u64, Option<u64>);

/// The part of a thread in a reading.
enum Role {
    /// The first thread wakes the second one up and writes first. (If the reader woke the second, it
    /// could take the reader's CPU too early.)
    Initiator(Thread, Sender<ReadingResult>),
    /// The second thread writes in response.
    Responder,
}

/// The memory of both threads, each part on cache lines of its own.
#[derive(Debug, Default)]
struct Shared {
    /// The line that is passed.
    line: OwnLine<AtomicU64>,
    /// The number of the reading for which each thread is awake.
    awake: [OwnLine<AtomicU64>; 2],
    /// The number of the requested reading.
    requested: OwnLine<AtomicU64>,
    ended: AtomicBool,
}

/// A value on two cache lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

impl CoreToCoreMeter {
    /// Starts the threads; none if they cannot be started or pinned to these CPUs.
    pub fn between(cpus: [u32; 2]) -> Option<CoreToCoreMeter> {
        let shared = Arc::new(Shared::default());
        let (result_sender, results) = mpsc::channel();
        let start = |role: Role, cpu: u32| {
            let shared = Arc::clone(&shared);
            let (pinned_sender, pinned) = mpsc::channel();
            let thread = thread::Builder::new()
                .name("core-to-core".to_owned())
                .spawn(move || {
                    let is_pinned = process::set_affinity(&[cpu]).is_ok();
                    // Processes of the next trial may be starting.
                    Promptness::take(true).keep();
                    if pinned_sender.send(is_pinned).is_ok() && is_pinned {
                        shared.run(&role);
                    }
                })
                .ok()?;
            pinned.recv().ok()?.then_some(thread)
        };
        let responder = start(Role::Responder, cpus[1])?;
        let role = Role::Initiator(responder.thread().clone(), result_sender);
        let Some(initiator) = start(role, cpus[0]) else {
            shared.end([&responder]);
            return None;
        };
        Some(CoreToCoreMeter {
            cpus,
            shared,
            threads: [initiator, responder],
            results,
        })
    }

    /// Half a round trip in ns, the smallest of four means of 50; none if a CPU was busy for 0.5 ms.
    pub fn read_ns(&self) -> Option<u64> {
        let reading = self.shared.requested.0.load(Ordering::Relaxed) + 1;
        self.shared.requested.0.store(reading, Ordering::Release);
        self.threads[0].thread().unpark();
        let until_ns = clock::monotonic_ns() + 4 * PATIENCE_NS;
        loop {
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            // The result of an earlier reading may arrive late.
            match self.results.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok((number, latency_ns)) if number == reading => return latency_ns,
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for CoreToCoreMeter {
    fn drop(&mut self) {
        self.shared.end(&self.threads);
    }
}

impl Shared {
    fn end<'t>(&self, threads: impl IntoIterator<Item = &'t JoinHandle<()>>) {
        self.ended.store(true, Ordering::Release);
        threads.into_iter().for_each(|t| t.thread().unpark());
    }

    /// Takes part in each requested reading until the meter is dropped.
    fn run(&self, role: &Role) {
        let mut done = 0;
        loop {
            let reading = self.requested.0.load(Ordering::Acquire);
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            if reading == done {
                thread::park();
                continue;
            }
            done = reading;
            if let Role::Initiator(responder, _) = role {
                responder.unpark();
            }
            let until_ns = clock::monotonic_ns() + PATIENCE_NS;
            let [initiator, responder] = &self.awake;
            let (own, other) = match role {
                Role::Initiator(..) => (initiator, responder),
                Role::Responder => (responder, initiator),
            };
            own.0.store(reading, Ordering::Release);
            let both_awake = spin_until(&other.0, reading, until_ns);
            match role {
                Role::Initiator(_, results) => {
                    let latency_ns = both_awake
                        .then(|| self.initiate(reading, until_ns))
                        .flatten();
                    // There is no receiver any more if the meter was dropped.
                    let _ = results.send((reading, latency_ns));
                }
                Role::Responder if both_awake => self.respond(reading, until_ns),
                Role::Responder => {}
            }
        }
    }

    /// The numbers that the initiator writes to the line in a reading; the responder adds 1 to each.
    fn numbers(reading: u64) -> impl Iterator<Item = u64> {
        let first = (reading << 32) + 1;
        (0..ROUND_TRIPS * u64::from(MEANS)).map(move |i| first + 2 * i)
    }

    /// Half a round trip in ns.
    fn initiate(&self, reading: u64, until_ns: u64) -> Option<u64> {
        let mut numbers = Shared::numbers(reading);
        let mut least_ns = u64::MAX;
        for _ in 0..MEANS {
            let from_ns = clock::monotonic_ns();
            for number in numbers.by_ref().take(ROUND_TRIPS as usize) {
                self.line.0.store(number, Ordering::Release);
                if !spin_until(&self.line.0, number + 1, until_ns) {
                    return None;
                }
            }
            least_ns = least_ns.min(clock::monotonic_ns() - from_ns);
        }
        Some((least_ns / (2 * ROUND_TRIPS)).max(1))
    }

    fn respond(&self, reading: u64, until_ns: u64) {
        for number in Shared::numbers(reading) {
            if !spin_until(&self.line.0, number, until_ns) {
                return;
            }
            self.line.0.store(number + 1, Ordering::Release);
        }
    }
}

/// Spins until a cell has a number; false if it did not in time.
fn spin_until(cell: &AtomicU64, number: u64, until_ns: u64) -> bool {
    loop {
        for _ in 0..LOADS {
            if cell.load(Ordering::Acquire) == number {
                return true;
            }
            std::hint::spin_loop();
        }
        if clock::monotonic_ns() > until_ns {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_some_time_between_two_cpus_and_threads_end_with_the_meter() {
        let cpus = process::affinity().unwrap();
        let [first, second, ..] = cpus[..] else {
            panic!("this test needs two CPUs");
        };
        let meter = CoreToCoreMeter::between([first, second]).unwrap();
        // A machine that is busy may have no time for many readings.
        let until_ns = clock::monotonic_ns() + 60_000_000_000;
        let next = || (clock::monotonic_ns() < until_ns).then(|| meter.read_ns());
        let read: Vec<u64> = std::iter::from_fn(next).flatten().take(3).collect();
        assert_eq!(read.len(), 3);
        // No two CPUs are 100 µs apart: such a reading is of a thread that was preempted.
        assert!(read.iter().all(|ns| (1..100_000).contains(ns)), "{read:?}");
        let shared = Arc::clone(&meter.shared);
        drop(meter);
        // Both threads drop it; the last reference is the test's.
        while Arc::strong_count(&shared) > 1 {
            thread::yield_now();
        }
    }

    #[test]
    fn without_a_cpu_to_pin_to_there_is_no_meter() {
        assert!(CoreToCoreMeter::between([0, 70_000]).is_none());
    }
}
