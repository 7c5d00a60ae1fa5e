//! Readings of living processes from `/proc`: usage, migrations, time in the run queue, and memory.

use std::collections::BTreeMap;
use std::fs;

use bytecost_sys::process::ThreadUsage;
use bytecost_sys::{clock, proc_view};

use crate::proc_text;

fn read(process: u32, file: &str) -> Option<Vec<u8>> {
    fs::read(proc_view::directory(process)?.join(file)).ok()
}

/// The sum of the CPU times of processes, without those that have ended. A read takes less than 1 µs
/// each.
pub(super) fn cpu_ns(processes: &[u32]) -> u64 {
    let read = |process: &u32| clock::process_cpu_ns_of(*process).ok();
    processes.iter().filter_map(read).sum()
}

/// The sum of the context switches and page faults of processes of one thread each, without those that
/// have ended. None if `by_ns` is reached before all are read.
pub(super) fn usage(processes: &[u32], by_ns: u64) -> Option<ThreadUsage> {
    let mut sum = ThreadUsage::default();
    for process in processes {
        if clock::monotonic_ns() >= by_ns {
            return None;
        }
        let Some(usage) = process_usage(*process) else {
            continue;
        };
        sum.switches_voluntary += usage.switches_voluntary;
        sum.switches_involuntary += usage.switches_involuntary;
        sum.faults_minor += usage.faults_minor;
        sum.faults_major += usage.faults_major;
    }
    Some(sum)
}

fn process_usage(process: u32) -> Option<ThreadUsage> {
    let [switches_voluntary, switches_involuntary] =
        proc_text::switches(&read(process, "status")?)?;
    Some(ThreadUsage {
        switches_voluntary,
        switches_involuntary,
        ..proc_text::usage(&read(process, "stat")?, 0)?
    })
}

/// The migrations of each thread of a process; none if there are more than `most`, or one could not be
/// read by `by_ns`.
pub(super) fn migrations(process: u32, most: usize, by_ns: u64) -> Option<BTreeMap<u32, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(proc_view::directory(process)?.join("task")).ok()? {
        if found.len() > most || clock::monotonic_ns() >= by_ns {
            return None;
        }
        let entry = entry.ok()?;
        let name = entry.file_name();
        let thread: u32 = name.to_str()?.parse().ok()?;
        let text = fs::read(entry.path().join("sched")).ok()?;
        found.insert(thread, proc_text::value(&text, "se.nr_migrations")?);
    }
    Some(found).filter(|found| found.len() <= most)
}

/// The time for which the thread of a process was ready and waited for a CPU; none for a process of
/// several threads.
pub(super) fn run_queue_ns(process: u32) -> Option<u64> {
    let mut threads = fs::read_dir(proc_view::directory(process)?.join("task")).ok()?;
    threads.next()?.ok()?;
    if threads.next().is_some() {
        return None;
    }
    proc_text::run_queue_ns(&read(process, "schedstat")?)
}

#[derive(Debug)]
pub(super) struct ProcessMemory {
    pub(super) threads: u64,
    /// Its share of anonymous memory (Pss), and its page tables.
    pub(super) bytes: u64,
}

pub(super) fn memory(process: u32) -> Option<ProcessMemory> {
    let status = read(process, "status")?;
    let rollup = read(process, "smaps_rollup")?;
    let anonymous = proc_text::bytes(&rollup, "Pss_Anon")?;
    Some(ProcessMemory {
        threads: proc_text::value(&status, "Threads")?,
        bytes: anonymous + proc_text::bytes(&status, "VmPTE")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_this_process_are_plausible() {
        let own = std::process::id();
        let memory = memory(own).unwrap();
        assert!(memory.threads >= 1 && memory.bytes > 4096, "{memory:?}");
        assert!(cpu_ns(&[own, 1 << 23]) > 0);
        assert!(usage(&[own, 1 << 23], u64::MAX).unwrap().faults_minor > 0);
        assert_eq!(usage(&[own], 0), None, "no time");
        if let Some(threads) = migrations(own, 1000, u64::MAX) {
            assert!(threads.contains_key(&own));
            assert_eq!(migrations(own, 0, u64::MAX), None);
            assert_eq!(migrations(own, 1000, 0), None, "no time");
        }
    }
}
