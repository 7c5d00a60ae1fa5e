//! The meter of a process tree: a process with its threads and its children, as a server is.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;

use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::process::ThreadUsage;
use bytecost_sys::usage::{self, Usage};

use crate::usage::OF_PROCESS;
use crate::{grown, grown_if_read};

mod inherited;
mod live;

use inherited::{InheritedCounts, InheritedEvents};

/// Threads whose migrations are read one by one; more would take longer than they are worth.
pub const MOST_THREADS: usize = 256;
/// Processes whose memory is read one by one; the rest is taken to be like them.
const MOST_MEMORY: usize = 16;
/// What reading one child takes, in ns, so that a reading of many begins early enough.
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

/// Reads what a process uses with its threads and children. Open it in the thread that starts
/// all others, before it does, since perf events are inherited from there.
#[derive(Debug)]
pub struct ProcessTreeMeter {
    events: InheritedEvents,
}

/// What a [`ProcessTreeMeter`] read.
#[derive(Clone, Debug)]
pub struct ProcessTreeSnapshot {
    look: EarlyReading,
    live_cpu_ns: Option<u64>,
    usage: Usage,
    counts: InheritedCounts,
}

/// What of a process is looked at before its usage is asked for.
#[derive(Clone, Debug, Default)]
pub struct EarlyReading {
    /// Those that live.
    children: Option<Vec<u32>>,
    /// What they have used together.
    live: Option<ThreadUsage>,
    migrations: Option<BTreeMap<u32, u64>>,
    run_queue_ns: Option<u64>,
}

impl ProcessTreeMeter {
    /// With perf events or without. Hardware counters known to be missing are not tried.
    pub fn open(perf: bool, no_hardware: Option<&str>) -> ProcessTreeMeter {
        ProcessTreeMeter {
            events: InheritedEvents::open(perf, no_hardware),
        }
    }

    /// Looks at these live children ([`bytecost_sys::children::started_by`]) and at the threads of a process, which may
    /// take a while; see [`early_reading_ns`]. What is not done by `by_ns` of CLOCK_MONOTONIC is absent,
    /// so that the reading of CPU time, which comes next, is never late for it.
    pub fn read_early(&self, process: u32, children: Option<Vec<u32>>, by_ns: u64) -> EarlyReading {
        let is_alone = children.as_ref().is_some_and(Vec::is_empty);
        let migrations = match self.events.has_migrations() {
            true => None,
            false => of_all(process, children.as_deref().unwrap_or_default(), by_ns),
        };
        EarlyReading {
            run_queue_ns: is_alone.then(|| live::run_queue_ns(process)).flatten(),
            live: (children.as_deref()).and_then(|c| live::used(c, by_ns)),
            children,
            migrations,
        }
    }

    /// Reads the tree of another process, with the clocks of the children that were looked at.
    ///
    /// # Errors
    /// As [`usage::request`].
    pub fn read_other(
        &self,
        look: EarlyReading,
        process: u32,
        told: BorrowedFd<'_>,
    ) -> std::io::Result<ProcessTreeSnapshot> {
        Ok(ProcessTreeSnapshot {
            live_cpu_ns: look.children.as_deref().map(live::cpu_ns),
            usage: usage::request(process, told)?,
            counts: self.events.read(),
            look,
        })
    }

    /// Reads this process's own tree, which has no children.
    pub fn read_own(&self) -> ProcessTreeSnapshot {
        let look = EarlyReading {
            children: Some(Vec::new()),
            live: Some(ThreadUsage::default()),
            migrations: of_all(std::process::id(), &[], u64::MAX),
            run_queue_ns: live::run_queue_ns(std::process::id()),
        };
        ProcessTreeSnapshot {
            look,
            live_cpu_ns: Some(0),
            usage: usage::usage(),
            counts: self.events.read(),
        }
    }

    /// What happened between two reads. `steady`: no thread or process came or went.
    pub fn difference(
        &self,
        start: &ProcessTreeSnapshot,
        end: &ProcessTreeSnapshot,
        steady: bool,
    ) -> Readings {
        let differences = self.events.difference(&start.counts, &end.counts);
        let mut readings: Readings = differences.collect();
        if !self.events.has_migrations() {
            let moves = migrations([start, end].map(|s| s.look.migrations.as_ref()), steady);
            readings.insert(Counter::Migrations, moves);
        }
        let cpu_ns = |s: &ProcessTreeSnapshot| {
            let ended = s.usage.children.user_ns + s.usage.children.system_ns;
            Some(s.usage.cpu_ns + ended + s.live_cpu_ns?)
        };
        let elapsed = grown(start.usage.clock_ns, end.usage.clock_ns);
        let [from, to] = [start, end].map(|s| s.look.run_queue_ns);
        let run_queue = grown_if_read(from, to, NOT_ALONE);
        let cpu = grown_if_read(cpu_ns(start), cpu_ns(end), NO_CHILDREN);
        readings.extend([
            (Counter::ElapsedNs, elapsed),
            (Counter::RunQueueNs, run_queue),
            (Counter::CpuNs, cpu),
        ]);
        let unread = match start.live_cpu_ns {
            Some(_) => NO_TIME,
            None => NO_CHILDREN,
        };
        let mut both = [start, end].into_iter();
        let has_live = both.any(|s| s.look.children.as_ref().is_none_or(|c| !c.is_empty()));
        for (counter, of) in OF_PROCESS {
            let all = |s: &ProcessTreeSnapshot| {
                Some(of(&s.usage.own) + of(&s.usage.children) + of(s.look.live.as_ref()?))
            };
            let reading = match counter {
                Counter::UserNs | Counter::SystemNs if has_live => Reading::absent(LIVE),
                _ => grown_if_read(all(start), all(end), unread),
            };
            readings.insert(counter, reading);
        }
        readings
    }
}

/// The part in ns of a server's window between two readings at its edges, or how late which was.
/// The clients ask within the window alone, so being late at its end adds little; but half of it
/// must lie behind the first reading, and the second come within a quarter: hundreds of threads may
/// run first.
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

/// How long [`ProcessTreeMeter::read_early`] is taken to last for so many children, in ns.
pub fn early_reading_ns(children: u64) -> u64 {
    children * NS_A_CHILD
}

/// Threads and memory of a process and its children; of many, a few stand for all.
pub fn tree_memory(process: u32) -> Readings {
    let children = bytecost_sys::children::started_by(Path::new("/"), process).unwrap_or_default();
    let some = children.iter().take(MOST_MEMORY);
    let some: Vec<u64> = some.filter_map(|c| Some(live::memory(*c)?.1)).collect();
    let each = some.iter().sum::<u64>() / (some.len() as u64).max(1);
    let all = children.len() as u64;
    let why = "/proc/PID/smaps_rollup does not tell Pss_Anon here";
    let both = match live::memory(process) {
        Some((threads, bytes)) => [threads + all, bytes + each * all].map(Reading::Measured),
        None => [why; 2].map(Reading::absent),
    };
    let counters = [Counter::Tasks, Counter::MemoryBytes];
    counters.into_iter().zip(both).collect()
}

fn of_all(process: u32, children: &[u32], by_ns: u64) -> Option<BTreeMap<u32, u64>> {
    if children.len() > MOST_THREADS {
        return None;
    }
    let mut all = BTreeMap::new();
    for one in std::iter::once(&process).chain(children) {
        all.extend(live::migrations(*one, MOST_THREADS, by_ns)?);
    }
    (all.len() <= MOST_THREADS).then_some(all)
}

fn migrations(edges: [Option<&BTreeMap<u32, u64>>; 2], steady: bool) -> Reading {
    let [Some(start), Some(end)] = edges else {
        return Reading::absent(NO_THREADS);
    };
    if !steady || !start.keys().eq(end.keys()) {
        return Reading::absent(COME_AND_GO);
    }
    grown(start.values().sum(), end.values().sum())
}

#[cfg(test)]
mod tests;
