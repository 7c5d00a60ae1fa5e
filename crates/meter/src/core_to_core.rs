//! The meter of core-to-core latency: how long a cache line takes from one CPU to another.
//!
//! A host moves virtual CPUs to other cores within a trial. What one thread hands to another then
//! costs more, and the guest's clocks and counters do not show it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use bytecost_sys::sched::Promptness;
use bytecost_sys::{clock, process};

/// Round trips of a mean, and means of which the least counts: others are disturbed.
const ROUND_TRIPS: u64 = 50;
const MEANS: u32 = 4;
/// Two idle CPUs take 0.1 ms for a reading, mostly to wake up; a busy one loses little time.
const PATIENCE_NS: u64 = 500_000;
/// Looks between two looks at the clock.
const LOOKS: u32 = 256;

/// Reads it by two threads, each held to its CPU, that sleep between readings outside a window.
#[derive(Debug)]
pub struct CoreToCoreMeter {
    /// The CPUs.
    pub cpus: [u32; 2],
    shared: Arc<Shared>,
    threads: [JoinHandle<()>; 2],
    answers: Receiver<Answer>,
}

type Answer = (u64, Option<u64>);

/// What one of the two threads does.
enum Play {
    /// Wakes the other one up and asks it: woken by the reader, it could take its CPU too early.
    Asks(Thread, Sender<Answer>),
    Answers,
}

/// What the two threads share, each on a line of its own.
#[derive(Debug, Default)]
struct Shared {
    line: OwnLine<AtomicU64>,
    /// The reading that each has woken for.
    awake: [OwnLine<AtomicU64>; 2],
    asked: OwnLine<AtomicU64>,
    over: AtomicBool,
}

/// Two lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

impl CoreToCoreMeter {
    /// Starts the threads; none where they cannot be started or held to these CPUs.
    pub fn between(cpus: [u32; 2]) -> Option<CoreToCoreMeter> {
        let shared = Arc::new(Shared::default());
        let (answer, answers) = mpsc::channel();
        let start = |play: Play, cpu: u32| {
            let shared = Arc::clone(&shared);
            let (tell, told) = mpsc::channel();
            let thread = thread::Builder::new()
                .name("core-to-core".to_owned())
                .spawn(move || {
                    let held = process::set_affinity(&[cpu]).is_ok();
                    // Processes of the next trial may be starting.
                    Promptness::take(true).keep();
                    if tell.send(held).is_ok() && held {
                        shared.play(&play);
                    }
                })
                .ok()?;
            told.recv().ok()?.then_some(thread)
        };
        let answers_it = start(Play::Answers, cpus[1])?;
        let asks = Play::Asks(answers_it.thread().clone(), answer);
        let Some(asks) = start(asks, cpus[0]) else {
            shared.end([&answers_it]);
            return None;
        };
        let threads = [asks, answers_it];
        Some(CoreToCoreMeter {
            cpus,
            shared,
            threads,
            answers,
        })
    }

    /// Half a round trip in ns, the least of four means of 50; None where one was busy for 0.5 ms.
    pub fn read_ns(&self) -> Option<u64> {
        let reading = self.shared.asked.0.load(Ordering::Relaxed) + 1;
        self.shared.asked.0.store(reading, Ordering::Release);
        self.threads[0].thread().unpark();
        let until_ns = clock::monotonic_ns() + 4 * PATIENCE_NS;
        loop {
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            // One of a reading before may come late.
            match self.answers.recv_timeout(Duration::from_nanos(left_ns)) {
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
        self.over.store(true, Ordering::Release);
        threads.into_iter().for_each(|t| t.thread().unpark());
    }

    /// Takes part in each reading that is asked for, until it is over.
    fn play(&self, play: &Play) {
        let mut done = 0;
        loop {
            let reading = self.asked.0.load(Ordering::Acquire);
            if self.over.load(Ordering::Acquire) {
                return;
            }
            if reading == done {
                thread::park();
                continue;
            }
            done = reading;
            if let Play::Asks(other, _) = play {
                other.unpark();
            }
            let until_ns = clock::monotonic_ns() + PATIENCE_NS;
            let [asks, answers] = &self.awake;
            let (own, other) = match play {
                Play::Asks(..) => (asks, answers),
                Play::Answers => (answers, asks),
            };
            own.0.store(reading, Ordering::Release);
            let met = seen(&other.0, reading, until_ns);
            match play {
                Play::Asks(_, answer) => {
                    let latency_ns = met.then(|| self.ask(reading, until_ns)).flatten();
                    // Nobody waits any more where the meter is gone.
                    let _ = answer.send((reading, latency_ns));
                }
                Play::Answers if met => self.answer(reading, until_ns),
                Play::Answers => {}
            }
        }
    }

    /// The numbers of a reading on the line, odd where one asks and even where the other answers.
    fn numbers(reading: u64) -> impl Iterator<Item = u64> {
        let first = (reading << 32) + 1;
        (0..ROUND_TRIPS * u64::from(MEANS)).map(move |i| first + 2 * i)
    }

    fn ask(&self, reading: u64, until_ns: u64) -> Option<u64> {
        let mut numbers = Shared::numbers(reading);
        let mut least_ns = u64::MAX;
        for _ in 0..MEANS {
            let from_ns = clock::monotonic_ns();
            for number in numbers.by_ref().take(ROUND_TRIPS as usize) {
                self.line.0.store(number, Ordering::Release);
                if !seen(&self.line.0, number + 1, until_ns) {
                    return None;
                }
            }
            least_ns = least_ns.min(clock::monotonic_ns() - from_ns);
        }
        Some((least_ns / (2 * ROUND_TRIPS)).max(1))
    }

    fn answer(&self, reading: u64, until_ns: u64) {
        for number in Shared::numbers(reading) {
            if !seen(&self.line.0, number, until_ns) {
                return;
            }
            self.line.0.store(number + 1, Ordering::Release);
        }
    }
}

/// Looks until the number is there; whether it came in time.
fn seen(place: &AtomicU64, number: u64, until_ns: u64) -> bool {
    loop {
        for _ in 0..LOOKS {
            if place.load(Ordering::Acquire) == number {
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
        // No two CPUs are 100 µs apart: that is a thread that was off its CPU.
        assert!(read.iter().all(|ns| (1..100_000).contains(ns)), "{read:?}");
        let shared = Arc::clone(&meter.shared);
        drop(meter);
        // Both let go of it: what is left is ours.
        while Arc::strong_count(&shared) > 1 {
            thread::yield_now();
        }
    }

    #[test]
    fn what_cannot_be_held_to_a_cpu_reads_nothing() {
        assert!(CoreToCoreMeter::between([0, 70_000]).is_none());
    }
}
