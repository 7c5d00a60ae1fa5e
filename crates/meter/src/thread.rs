//! The meter of a thread: its clocks, its resource usage, its time in the run queue and its perf events.

use std::fs::File;
use std::marker::PhantomData;
use std::path::Path;

use bytecost_spec::{Counter, Reading, Readings, Refusal};
use bytecost_sys::clock;
use bytecost_sys::perf::{Group, GroupValues, PerfEvent};
use bytecost_sys::process::{self, ThreadUsage};

use crate::events::{self, Kernel, Members};
use crate::interrupts::Interrupts;
use crate::{Meter, increase, increase_if_read, proc_text, usage};

const THREAD_COUNTERS: &[Counter] = &[
    Counter::ElapsedNs,
    Counter::CpuNs,
    Counter::UserNs,
    Counter::SystemNs,
    Counter::TaskClockNs,
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
    Counter::Migrations,
    Counter::PageFaultsMinor,
    Counter::PageFaultsMajor,
    Counter::RunQueueNs,
    Counter::Cycles,
    Counter::Instructions,
    Counter::L1dLoadMisses,
    Counter::LlcLoadMisses,
    Counter::Branches,
    Counter::BranchMisses,
    Counter::PerfEnabledNs,
    Counter::PerfRunningNs,
];

/// The reason of absent perf events in trials without them.
pub const LEFT_OUT: &str =
    "perf events were left out of this trial, since they make each context switch more expensive";

const SCHED: &str = "/proc/thread-self/sched";
const NO_SCHED: &str = "this kernel has no /proc/thread-self/sched";
const SCHED_KEY: &str = "se.nr_migrations";
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";
const NO_SCHEDSTAT: &str =
    "this kernel does not tell it in /proc/thread-self/schedstat (CONFIG_SCHED_INFO)";

/// The optional counters of a [`ThreadMeter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extras {
    /// Ok to open the hardware counters; else the reason why they are absent.
    pub hardware: Result<(), String>,
    /// True to open the perf software event task-clock.
    pub task_clock: bool,
    /// True to read [`Counter::InterruptNs`] of the CPU on which the thread runs and to which it is
    /// pinned.
    pub interrupts: bool,
}

/// A meter of the thread that opened it. It cannot be sent to another, whose clocks it would read:
///
/// ```compile_fail,E0277
/// let meter = bytecost_meter::ThreadMeter::open();
/// std::thread::spawn(move || drop(meter));
/// ```
#[derive(Debug)]
pub struct ThreadMeter {
    layout: Layout,
    software: Option<Group>,
    hardware: Option<Group>,
    sched: Option<File>,
    schedstat: Option<File>,
    interrupts: Option<Interrupts>,
    of_one_thread: PhantomData<*const ()>,
}

/// A read of a [`ThreadMeter`]: totals since the thread began, or since the meter was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC.
    pub clock_ns: u64,
    /// CLOCK_THREAD_CPUTIME_ID.
    pub cpu_ns: u64,
    usage: Option<ThreadUsage>,
    software: Option<GroupValues>,
    hardware: Option<GroupValues>,
    sched_migrations: Option<u64>,
    run_queue_ns: Option<u64>,
    interrupts: Option<u64>,
}

/// The source of each counter, or the reason why it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout {
    software: Members,
    hardware: Members,
    migrations: Migrations,
}

/// The source of migrations.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Migrations {
    /// `se.nr_migrations` of /proc/thread-self/sched.
    Sched,
    /// The software group, which has passed its self-test.
    Perf,
    Refused(String),
}

impl ThreadMeter {
    /// Opens all counters of the calling thread, tests them (about a millisecond), and leaves them
    /// counting. A counter that cannot be opened is absent with its reason. Perf events make each context
    /// switch more expensive: see [`ThreadMeter::open_without_perf`].
    pub fn open() -> ThreadMeter {
        ThreadMeter::with(&Extras {
            hardware: Ok(()),
            task_clock: true,
            interrupts: false,
        })
    }

    /// Opens all counters but perf events, for windows in which context switches must have their usual
    /// cost. A byte to and fro between two threads on one CPU took 11.4 µs on a virtual machine of 2026
    /// (Linux 6.18); with one software event on both 15.2 µs, with three 17.5.
    pub fn open_without_perf() -> ThreadMeter {
        ThreadMeter::with(&Extras {
            hardware: Err(LEFT_OUT.to_owned()),
            task_clock: false,
            interrupts: false,
        })
    }

    /// Opens these counters of the calling thread; migrations by perf only if /proc does not have them.
    pub fn with(extras: &Extras) -> ThreadMeter {
        let sched = filled(SCHED, sched_migrations);
        // Each event makes context switches more expensive, so the file is preferred.
        let migrations_by_perf = sched.is_none() && extras.hardware.is_ok();
        let (software, software_members) = match (migrations_by_perf, extras.task_clock) {
            (true, _) => events::open_software(&mut Kernel, &events::SOFTWARE),
            (false, true) => events::open_software(&mut Kernel, &events::SOFTWARE[..1]),
            (false, false) => (None, Members::none_of(&events::SOFTWARE, LEFT_OUT)),
        };
        let (hardware, hardware_members) = match &extras.hardware {
            Ok(()) => events::open_hardware(&mut Kernel),
            Err(why) => (None, Members::none_of(&events::HARDWARE, why)),
        };
        let migrations = match (&sched, software_members.refused(PerfEvent::CpuMigrations)) {
            (Some(_), _) => Migrations::Sched,
            (None, None) => Migrations::Perf,
            (None, Some(why)) => Migrations::Refused(format!("{NO_SCHED}, and {why}")),
        };
        ThreadMeter {
            layout: Layout {
                software: software_members,
                hardware: hardware_members,
                migrations,
            },
            software,
            hardware,
            sched,
            schedstat: filled(SCHEDSTAT, run_queue_ns),
            interrupts: extras
                .interrupts
                .then(|| Interrupts::open(Path::new("/"), process::current_cpu())),
            of_one_thread: PhantomData,
        }
    }

    /// The counters that are not available here, with the reason and the remedy.
    pub fn refused(&self) -> Vec<Refusal<Counter>> {
        THREAD_COUNTERS
            .iter()
            .filter_map(|&subject| {
                Some(Refusal {
                    subject,
                    why: match (subject, &self.schedstat) {
                        (Counter::RunQueueNs, None) => NO_SCHEDSTAT.to_owned(),
                        _ => self.layout.refused(subject)?,
                    },
                })
            })
            .collect()
    }
}

/// The open file if it has the wanted value: a kernel without CONFIG_SCHED_INFO shows zeros.
fn filled(path: &str, wanted: fn(&File) -> Option<u64>) -> Option<File> {
    File::open(path).ok().filter(|file| wanted(file).is_some())
}

fn run_queue_ns(file: &File) -> Option<u64> {
    let mut buffer = [0_u8; 80]; // three numbers of 64 bits
    proc_text::run_queue_ns(proc_text::reread(file, &mut buffer)?)
}

fn sched_migrations(file: &File) -> Option<u64> {
    let mut buffer = [0_u8; 1024]; // the line is among the first six
    proc_text::value(proc_text::reread(file, &mut buffer)?, SCHED_KEY)
}

impl Meter for ThreadMeter {
    type Snapshot = Snapshot;

    // In both reads, the fields are read in the order of their lines.
    fn read_start(&mut self) -> Snapshot {
        Snapshot {
            interrupts: self.interrupts.as_mut().and_then(Interrupts::read),
            sched_migrations: self.sched.as_ref().and_then(sched_migrations),
            run_queue_ns: self.schedstat.as_ref().and_then(run_queue_ns),
            usage: process::thread_usage().ok(),
            software: self.software.as_ref().and_then(Group::read),
            // Next to the clocks, since it also counts the work of the meter itself.
            hardware: self.hardware.as_ref().and_then(Group::read),
            cpu_ns: clock::thread_cpu_ns(),
            clock_ns: clock::monotonic_ns(),
        }
    }

    fn read_end(&mut self) -> Snapshot {
        Snapshot {
            clock_ns: clock::monotonic_ns(),
            cpu_ns: clock::thread_cpu_ns(),
            hardware: self.hardware.as_ref().and_then(Group::read),
            software: self.software.as_ref().and_then(Group::read),
            usage: process::thread_usage().ok(),
            run_queue_ns: self.schedstat.as_ref().and_then(run_queue_ns),
            sched_migrations: self.sched.as_ref().and_then(sched_migrations),
            interrupts: self.interrupts.as_mut().and_then(Interrupts::read),
        }
    }

    fn difference(&self, start: &Snapshot, end: &Snapshot) -> Readings {
        let mut readings: Readings = (THREAD_COUNTERS.iter())
            .map(|counter| (*counter, self.layout.reading(*counter, start, end)))
            .collect();
        if self.interrupts.is_some() {
            let interrupts = Interrupts::increase(start.interrupts, end.interrupts);
            readings.insert(Counter::InterruptNs, interrupts);
        }
        readings
    }
}

fn hardware_event(counter: Counter) -> Option<PerfEvent> {
    Some(match counter {
        Counter::Cycles => PerfEvent::Cycles,
        Counter::Instructions => PerfEvent::Instructions,
        Counter::L1dLoadMisses => PerfEvent::L1dLoadMisses,
        Counter::LlcLoadMisses => PerfEvent::LlcLoadMisses,
        Counter::Branches => PerfEvent::Branches,
        Counter::BranchMisses => PerfEvent::BranchMisses,
        _ => return None,
    })
}

impl Layout {
    fn reading(&self, counter: Counter, start: &Snapshot, end: &Snapshot) -> Reading {
        let (from, to) = (start.usage.as_ref(), end.usage.as_ref());
        if let Some(reading) = usage::between(counter, from, to, usage::NO_USAGE) {
            return reading;
        }
        let soft = [start.software.as_ref(), end.software.as_ref()];
        let hard = [start.hardware.as_ref(), end.hardware.as_ref()];
        match counter {
            Counter::ElapsedNs => increase(start.clock_ns, end.clock_ns),
            Counter::CpuNs => increase(start.cpu_ns, end.cpu_ns),
            Counter::TaskClockNs => self.software.reading(PerfEvent::TaskClock, soft),
            Counter::Migrations => match &self.migrations {
                Migrations::Perf => self.software.reading(PerfEvent::CpuMigrations, soft),
                Migrations::Sched => {
                    let unread = format!("{SCHED} could not be read");
                    increase_if_read(start.sched_migrations, end.sched_migrations, unread)
                }
                Migrations::Refused(why) => Reading::absent(why.as_str()),
            },
            Counter::RunQueueNs => {
                increase_if_read(start.run_queue_ns, end.run_queue_ns, NO_SCHEDSTAT)
            }
            Counter::PerfEnabledNs => self.hardware.time(hard, |v| v.enabled_ns),
            Counter::PerfRunningNs => self.hardware.time(hard, |v| v.running_ns),
            other => match hardware_event(other) {
                Some(event) => self.hardware.reading(event, hard),
                None => Reading::absent("no counter of a thread"),
            },
        }
    }

    /// The reason why a counter has no source.
    fn refused(&self, counter: Counter) -> Option<String> {
        let why = match counter {
            Counter::TaskClockNs => self.software.refused(PerfEvent::TaskClock),
            Counter::Migrations => match &self.migrations {
                Migrations::Refused(why) => Some(why.as_str()),
                _ => None,
            },
            Counter::PerfEnabledNs | Counter::PerfRunningNs => self.hardware.group_refused(),
            other => self.hardware.refused(hardware_event(other)?),
        };
        why.map(str::to_owned)
    }
}

#[cfg(test)]
mod tests;
