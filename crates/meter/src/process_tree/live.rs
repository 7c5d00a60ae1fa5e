//! What the kernel shows of processes that live: their children, threads and memory.

use std::collections::BTreeMap;
use std::fs;

use bytecost_sys::process::ThreadUsage;
use bytecost_sys::{clock, proc_view};

use crate::proc_text;

fn read(process: u32, file: &str) -> Option<Vec<u8>> {
    fs::read(proc_view::directory(process)?.join(file)).ok()
}

/// CPU time of these processes together; without those that are gone; less than 1 µs each.
pub(super) fn cpu_ns(processes: &[u32]) -> u64 {
    let read = |process: &u32| clock::process_cpu_ns_of(*process).ok();
    processes.iter().filter_map(read).sum()
}

/// What these processes, of one thread each, have used together beside CPU time; those that are gone
/// are left out. None where the time is over before all are read.
pub(super) fn used(processes: &[u32], by_ns: u64) -> Option<ThreadUsage> {
    let mut all = ThreadUsage::default();
    for process in processes {
        if clock::monotonic_ns() >= by_ns {
            return None;
        }
        let Some((one, [voluntary, involuntary])) = used_by(*process) else {
            continue;
        };
        all.switches_voluntary += voluntary;
        all.switches_involuntary += involuntary;
        all.faults_minor += one.faults_minor;
        all.faults_major += one.faults_major;
    }
    Some(all)
}

fn used_by(process: u32) -> Option<(ThreadUsage, [u64; 2])> {
    let status = read(process, "status")?;
    let stat = read(process, "stat")?;
    Some((proc_text::usage(&stat, 0)?, proc_text::switches(&status)?))
}

/// The threads of a process, each with its moves to another CPU; none where not all could be read.
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
        found.insert(thread, proc_text::value_of(&text, "se.nr_migrations")?);
    }
    Some(found).filter(|found| found.len() <= most)
}

/// Time for which the one thread of a process was ready and waited for a CPU, if it has no others.
pub(super) fn run_queue_ns(process: u32) -> Option<u64> {
    let mut threads = fs::read_dir(proc_view::directory(process)?.join("task")).ok()?;
    threads.next()?.ok()?;
    if threads.next().is_some() {
        return None;
    }
    proc_text::run_queue_ns(&read(process, "schedstat")?)
}

/// Threads of a process, and its anonymous memory with its page tables in bytes: its share.
pub(super) fn memory(process: u32) -> Option<(u64, u64)> {
    let status = read(process, "status")?;
    let rollup = read(process, "smaps_rollup")?;
    let anonymous = proc_text::bytes_of(&rollup, "Pss_Anon")?;
    let bytes = anonymous + proc_text::bytes_of(&status, "VmPTE")?;
    Some((proc_text::value_of(&status, "Threads")?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_as_it_is() {
        let own = std::process::id();
        let (threads, bytes) = memory(own).unwrap();
        assert!(threads >= 1 && bytes > 4096, "{threads} {bytes}");
        assert!(cpu_ns(&[own, 1 << 23]) > 0);
        assert!(used(&[own, 1 << 23], u64::MAX).unwrap().faults_minor > 0);
        assert_eq!(used(&[own], 0), None, "no time");
        if let Some(threads) = migrations(own, 1000, u64::MAX) {
            assert!(threads.contains_key(&own));
            assert_eq!(migrations(own, 0, u64::MAX), None);
            assert_eq!(migrations(own, 1000, 0), None, "no time");
        }
    }
}
