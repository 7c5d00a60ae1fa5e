//! The meter of a process tree, such as a server: a process with its threads and its children.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;

use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::process::ThreadUsage;
use bytecost_sys::usage::{self, Usage};

use crate::usage::OF_PROCESS;
use crate::{increase, increase_if_read};

mod inherited;
mod live;

use inherited::{InheritedCounts, InheritedEvents};

/// The most threads whose migrations are read one by one; more would take too long.
pub const MOST_THREADS: usize = 256;
/// The most processes whose memory is read one by one; the others count as their mean.
const MOST_MEMORY: usize = 16;
/// The time in which one child is read, in ns, so that a reading of many begins early enough.
const NS_A_CHILD: u64 = 60_000;

const NO_CHILDREN: &str =
    "this kernel does not tell the children of a process (CONFIG_PROC_CHILDREN)";
const LIVE: &str = "for children that are still running, the kernel reports user and system time in steps of 10 ms only";
const COME_AND_GO: &str = "threads or processes came and went within the window, and their moves \
    with them: --perf on counts them all";
const NO_THREADS: &str = "/proc/PID/task/TID/sched cannot be read, or reading that of each thread takes too long beside \
    this window: --perf on counts them all";
const NO_TIME: &str =
    "looking at all processes of the server takes too long beside this window: a longer --window";

const NOT_ALONE: &str = "it is read of processes with one thread and no children, where the kernel \
    shows it in /proc/PID/schedstat (CONFIG_SCHED_INFO)";

/// A meter of a process with its threads and children. It is opened by the thread that starts all
/// others, before it does, since they inherit its perf events.
#[derive(Debug)]
pub struct ProcessTreeMeter {
    events: InheritedEvents,
}

/// A read of a [`ProcessTreeMeter`].
#[derive(Clone, Debug)]
pub struct ProcessTreeSnapshot {
    early: EarlyReading,
    live_cpu_ns: Option<u64>,
    usage: Usage,
    counts: InheritedCounts,
}

/// The slow part of a read, which is made before the process reports its usage.
#[derive(Clone, Debug, Default)]
pub struct EarlyReading {
    /// The living children.
    children: Option<Vec<u32>>,
    /// The sum of their usage.
    live: Option<ThreadUsage>,
    migrations: Option<BTreeMap<u32, u64>>,
    run_queue_ns: Option<u64>,
}

impl ProcessTreeMeter {
    /// Opens a meter, with perf events if `perf`; without hardware events, for the reason `no_hardware`.
    pub fn open(perf: bool, no_hardware: Option<&str>) -> ProcessTreeMeter {
        ProcessTreeMeter {
            events: InheritedEvents::open(perf, no_hardware),
        }
    }

    /// Reads the living children ([`bytecost_sys::children::started_by`]) and the threads of a process,
    /// which may take the time of [`early_reading_ns`]. Parts that are not read by `by_ns` of
    /// CLOCK_MONOTONIC are absent, so that the reading of CPU time, which follows, is not late.
    pub fn read_early(&self, process: u32, children: Option<Vec<u32>>, by_ns: u64) -> EarlyReading {
        let is_alone = children.as_ref().is_some_and(Vec::is_empty);
        let migrations = if self.events.has_migrations() {
            None
        } else {
            tree_migrations(process, children.as_deref().unwrap_or_default(), by_ns)
        };
        EarlyReading {
            run_queue_ns: is_alone.then(|| live::run_queue_ns(process)).flatten(),
            live: (children.as_deref()).and_then(|c| live::usage(c, by_ns)),
            children,
            migrations,
        }
    }

    /// Reads the tree of another process, which reports its usage to the pipe `reports`.
    ///
    /// # Errors
    /// As [`usage::request`].
    pub fn read_other(
        &self,
        early: EarlyReading,
        process: u32,
        reports: BorrowedFd<'_>,
    ) -> std::io::Result<ProcessTreeSnapshot> {
        Ok(ProcessTreeSnapshot {
            live_cpu_ns: early.children.as_deref().map(live::cpu_ns),
            usage: usage::request(process, reports)?,
            counts: self.events.read(),
            early,
        })
    }

    /// Reads this process's own tree, which has no children.
    pub fn read_own(&self) -> ProcessTreeSnapshot {
        let early = EarlyReading {
            children: Some(Vec::new()),
            live: Some(ThreadUsage::default()),
            migrations: tree_migrations(std::process::id(), &[], u64::MAX),
            run_queue_ns: live::run_queue_ns(std::process::id()),
        };
        ProcessTreeSnapshot {
            early,
            live_cpu_ns: Some(0),
            usage: usage::usage(),
            counts: self.events.read(),
        }
    }

    /// The increases between two reads. `steady` says that no thread or process started or ended.
    pub fn difference(
        &self,
        start: &ProcessTreeSnapshot,
        end: &ProcessTreeSnapshot,
        steady: bool,
    ) -> Readings {
        let mut readings: Readings = (self.events)
            .difference(&start.counts, &end.counts)
            .collect();
        if !self.events.has_migrations() {
            let moves = migrations([start, end].map(|s| s.early.migrations.as_ref()), steady);
            readings.insert(Counter::Migrations, moves);
        }
        let cpu_ns = |s: &ProcessTreeSnapshot| {
            let ended = s.usage.children.user_ns + s.usage.children.system_ns;
            Some(s.usage.cpu_ns + ended + s.live_cpu_ns?)
        };
        let elapsed = increase(start.usage.clock_ns, end.usage.clock_ns);
        let [from, to] = [start, end].map(|s| s.early.run_queue_ns);
        let run_queue = increase_if_read(from, to, NOT_ALONE);
        let cpu = increase_if_read(cpu_ns(start), cpu_ns(end), NO_CHILDREN);
        readings.extend([
            (Counter::ElapsedNs, elapsed),
            (Counter::RunQueueNs, run_queue),
            (Counter::CpuNs, cpu),
        ]);
        let unread = match start.live_cpu_ns {
            Some(_) => NO_TIME,
            None => NO_CHILDREN,
        };
        let has_live = [start, end]
            .into_iter()
            .any(|s| s.early.children.as_ref().is_none_or(|c| !c.is_empty()));
        for (counter, field) in OF_PROCESS {
            let total = |s: &ProcessTreeSnapshot| {
                let live = s.early.live.as_ref()?;
                Some(field(&s.usage.own) + field(&s.usage.children) + field(live))
            };
            let reading = match counter {
                Counter::UserNs | Counter::SystemNs if has_live => Reading::absent(LIVE),
                _ => increase_if_read(total(start), total(end), unread),
            };
            readings.insert(counter, reading);
        }
        readings
    }
}

/// The time in ns of a server's window that lies between two reads at its edges.
///
/// Clients send within the window alone, so a late second read adds little. But at least half of the
/// window must be after the first read, and the second must come within a quarter of its length after
/// the end: hundreds of threads may run before it.
///
/// # Errors
/// The time by which a read was too late.
pub fn measured_ns(
    [start, end]: [&ProcessTreeSnapshot; 2],
    from_ns: u64,
    to_ns: u64,
) -> Result<u64, String> {
    let window_ns = to_ns.saturating_sub(from_ns);
    let (opened_ns, closed_ns) = (start.usage.clock_ns, end.usage.clock_ns);
    for (read_ns, due_ns, most_ns) in [
        (opened_ns, from_ns, window_ns / 2),
        (closed_ns, to_ns, window_ns / 4),
    ] {
        let late_ns = read_ns.saturating_sub(due_ns);
        if late_ns > most_ns {
            return Err(format!(
                "what the server had used was read {:.1} ms late in a window of {:.1} ms: too many threads were ready before it had a CPU",
                late_ns as f64 / 1e6,
                window_ns as f64 / 1e6
            ));
        }
    }
    Ok(closed_ns.min(to_ns).saturating_sub(opened_ns.max(from_ns)))
}

/// The expected duration of [`ProcessTreeMeter::read_early`] for so many children, in ns.
pub fn early_reading_ns(children: u64) -> u64 {
    children * NS_A_CHILD
}

/// The numbers of threads and bytes of a process and its children, of which at most 16 are read.
pub fn tree_memory(process: u32) -> Readings {
    let children = bytecost_sys::children::started_by(Path::new("/"), process).unwrap_or_default();
    let sampled: Vec<u64> = (children.iter().take(MOST_MEMORY))
        .filter_map(|child| Some(live::memory(*child)?.bytes))
        .collect();
    let mean = sampled.iter().sum::<u64>() / (sampled.len() as u64).max(1);
    let count = children.len() as u64;
    let why = "/proc/PID/smaps_rollup does not tell Pss_Anon here";
    let readings = match live::memory(process) {
        Some(own) => [own.threads + count, own.bytes + mean * count].map(Reading::Measured),
        None => [why; 2].map(Reading::absent),
    };
    let counters = [Counter::Tasks, Counter::MemoryBytes];
    counters.into_iter().zip(readings).collect()
}

/// The migrations of each thread of a process and its children; none if there are too many.
fn tree_migrations(process: u32, children: &[u32], by_ns: u64) -> Option<BTreeMap<u32, u64>> {
    if children.len() > MOST_THREADS {
        return None;
    }
    let mut by_thread = BTreeMap::new();
    for member in std::iter::once(&process).chain(children) {
        by_thread.extend(live::migrations(*member, MOST_THREADS, by_ns)?);
    }
    (by_thread.len() <= MOST_THREADS).then_some(by_thread)
}

/// The increase of migrations; absent unless the threads are the same at both edges.
fn migrations(edges: [Option<&BTreeMap<u32, u64>>; 2], steady: bool) -> Reading {
    let [Some(start), Some(end)] = edges else {
        return Reading::absent(NO_THREADS);
    };
    if !steady || !start.keys().eq(end.keys()) {
        return Reading::absent(COME_AND_GO);
    }
    increase(start.values().sum(), end.values().sum())
}

#[cfg(test)]
mod tests;
