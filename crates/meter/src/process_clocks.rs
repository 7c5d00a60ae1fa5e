//! The CPU clocks of all processes, and the attribution of their CPU time to owners.
//!
//! A process may read the CPU time of any other in ns, also of kernel threads
//! (clock_getcpuclockid(3)). The time of a running thread is that of its last tick, as in cpuacct.usage.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytecost_spec::sample::OtherProcess;
use bytecost_sys::{clock, proc_view};

use crate::proc_text::StatFields;

/// The owner of a process, to which its CPU time is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessOwner {
    /// The sending side, with the processes that it has started (with a server, the clients).
    Sender,
    /// The receiving side (the server).
    Receiver,
    /// The background load that is a part of the cell.
    Background,
    /// The process of bytecost that started the others, and those of them that are no side.
    Instrument,
    /// A kernel thread that handles interrupts and packets: ksoftirqd, NAPI, a threaded interrupt.
    Softirq,
    /// Any other kernel thread.
    Kernel,
    /// Programs that are not part of the measurement.
    Other,
}

/// PF_KTHREAD of include/linux/sched.h, in field 9 of proc_pid_stat(5).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// The largest error of the time of waited-for children: steps of 10 ms of user and system time, at both
/// readings.
const WAITED_STEPS_NS: u64 = 40_000_000;
/// Prefixes of the names of kernel threads that handle interrupts and packets (kernel/softirq.c,
/// net/core/dev.c, kernel/irq/manage.c).
const SOFTIRQ_THREADS: [&str; 4] = ["ksoftirqd/", "napi/", "backlog_napi/", "irq/"];
/// The most processes of others that are named.
const MOST_NAMED: usize = 8;

/// The list of all processes with their owners.
#[derive(Debug)]
pub struct ProcessClocks {
    proc: PathBuf,
    /// The process that started all those of bytecost.
    program: u32,
    known: BTreeMap<u32, Known>,
    /// The unit of times in /proc/PID/stat.
    unit_ns: u64,
}

#[derive(Clone, Debug)]
struct Known {
    owner: ProcessOwner,
    name: String,
    parent: u32,
}

/// The CPU times of the listed processes at one moment, by process id.
#[derive(Clone, Debug, Default)]
pub struct ClocksRead {
    ns: BTreeMap<u32, u64>,
    /// The parent of each process whose time includes that of waited-for children.
    parents: BTreeMap<u32, u32>,
    /// The part of each process's time that is of such children.
    waited: BTreeMap<u32, u64>,
}

/// The fields of /proc/PID/stat that are needed here.
#[derive(Debug)]
struct Stat {
    name: String,
    parent: u32,
    is_kernel_thread: bool,
    /// CPU time of children that were waited for, in ticks.
    waited_ticks: u64,
}

impl ProcessClocks {
    /// An empty list for the processes that `program` has started. `root` is `/` except in tests.
    pub fn new(root: &Path, program: u32) -> ProcessClocks {
        ProcessClocks {
            proc: root.join("proc"),
            program,
            known: BTreeMap::new(),
            unit_ns: clock::proc_stat_unit_ns(),
        }
    }

    /// Lists the processes. Descendants of `ours` get their owners; others that are known keep theirs.
    /// The list is empty if `/proc` is of another PID namespace.
    pub fn list(&mut self, ours: &[(u32, ProcessOwner)]) {
        let mut before = std::mem::take(&mut self.known);
        let mut new = BTreeMap::new();
        for pid in pids(&self.proc) {
            match before.remove(&pid) {
                Some(known) if assigned(ours, pid).is_none_or(|owner| owner == known.owner) => {
                    self.known.insert(pid, known);
                }
                _ => new.extend(self.stat(pid).map(|stat| (pid, stat))),
            }
        }
        let known = |(pid, stat): (&u32, &Stat)| {
            let known = Known {
                owner: self.owner(*pid, &new, ours),
                name: stat.name.clone(),
                parent: stat.parent,
            };
            (*pid, known)
        };
        let newly_known: Vec<(u32, Known)> = new.iter().map(known).collect();
        self.known.extend(newly_known);
    }

    /// The owner of a new process: that of the nearest ancestor that has one, itself included. Process
    /// ids wrap, so that a child's may be smaller than its parent's.
    fn owner(
        &self,
        pid: u32,
        new: &BTreeMap<u32, Stat>,
        ours: &[(u32, ProcessOwner)],
    ) -> ProcessOwner {
        let mut ancestor = pid;
        // Bounded, since a reused process id could make a cycle.
        for _ in 0..=new.len() {
            let Some(stat) = new.get(&ancestor) else {
                break;
            };
            match assigned(ours, ancestor) {
                Some(owner) => return owner,
                None if stat.is_kernel_thread && ancestor == pid => return stat.kernel_owner(),
                None if stat.is_kernel_thread => return ProcessOwner::Other,
                None if ancestor == self.program => return ProcessOwner::Instrument,
                None => ancestor = stat.parent,
            }
        }
        match self.known.get(&ancestor).map(|known| known.owner) {
            Some(ProcessOwner::Kernel | ProcessOwner::Softirq) | None => ProcessOwner::Other,
            Some(owner) => owner,
        }
    }

    /// Returns true if not even this process is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The reason why `/proc` does not show processes of other users; none if it shows them.
    pub fn hides_others(&self) -> Option<&'static str> {
        proc_view::hides_others(&self.proc)
    }

    /// Returns true if kernel threads are visible, which they are not in a PID namespace.
    pub fn sees_kernel(&self) -> bool {
        let kernel = [ProcessOwner::Kernel, ProcessOwner::Softirq];
        self.known.values().any(|k| kernel.contains(&k.owner))
    }

    /// The CPU time of each listed process so far. Processes that have ended are left out.
    pub fn read(&self) -> ClocksRead {
        let read = |pid: &u32| Some((*pid, clock::process_cpu_ns_of(*pid).ok()?));
        ClocksRead {
            ns: self.known.keys().filter_map(read).collect(),
            ..ClocksRead::default()
        }
    }

    /// The CPU times, for processes of others including the children that each has waited for, in steps
    /// of 10 ms: for intervals in which processes end.
    pub fn read_with_children(&self) -> ClocksRead {
        let mut read = self.read();
        for (pid, ns) in &mut read.ns {
            let Some(known) = (self.known.get(pid)).filter(|k| k.owner == ProcessOwner::Other)
            else {
                continue;
            };
            read.parents.insert(*pid, known.parent);
            if let Some(stat) = self.stat(*pid) {
                let waited_ns = stat.waited_ticks * self.unit_ns;
                read.waited.insert(*pid, waited_ns);
                *ns += waited_ns;
            }
        }
        read
    }

    /// A reading, with the CPU times so far of processes that started after the list was made. They are
    /// added to the list, from which none is removed.
    pub fn with_newcomers(&mut self, read: &ClocksRead) -> ClocksRead {
        let before = self.known.clone();
        self.list(&[]);
        let mut both = self.read();
        both.ns.retain(|pid, _| !before.contains_key(pid));
        both.ns.extend(&read.ns);
        self.known.extend(before);
        both
    }

    /// The CPU time between two readings by owner. A process that is missing in the first counts with all
    /// its time.
    pub fn between(&self, from: &ClocksRead, to: &ClocksRead) -> BTreeMap<ProcessOwner, u64> {
        let mut by_owner = BTreeMap::new();
        for (pid, ns) in cpu_times(from, to) {
            if let Some(known) = self.known.get(&pid) {
                *by_owner.entry(known.owner).or_default() += ns;
            }
        }
        by_owner
    }

    /// The processes of others with the most CPU time between two readings, in descending order.
    pub fn largest(&self, from: &ClocksRead, to: &ClocksRead) -> Vec<OtherProcess> {
        let mut others: Vec<OtherProcess> = (cpu_times(from, to).into_iter())
            .filter_map(|(pid, cpu_ns)| {
                let known = self.known.get(&pid)?;
                (known.owner == ProcessOwner::Other && cpu_ns > 0).then(|| OtherProcess {
                    name: known.name.clone(),
                    pid,
                    cpu_ns,
                })
            })
            .collect();
        others.sort_by_key(|o| std::cmp::Reverse(o.cpu_ns));
        others.truncate(MOST_NAMED);
        others
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read(self.proc.join(pid.to_string()).join("stat")).ok()?)
    }
}

impl Stat {
    /// Parses ppid (field 4), flags (9), cutime and cstime (16 and 17), proc_pid_stat(5).
    fn parse(text: &[u8]) -> Option<Stat> {
        let stat = StatFields::parse(text)?;
        Some(Stat {
            name: String::from_utf8_lossy(stat.name).into_owned(),
            parent: u32::try_from(stat.field(4)?).ok()?,
            is_kernel_thread: stat.field(9)? & KERNEL_THREAD != 0,
            waited_ticks: stat.field(16)?.saturating_add(stat.field(17)?),
        })
    }

    fn kernel_owner(&self) -> ProcessOwner {
        if (SOFTIRQ_THREADS.iter()).any(|prefix| self.name.starts_with(prefix)) {
            ProcessOwner::Softirq
        } else {
            ProcessOwner::Kernel
        }
    }
}

/// The CPU time of each process between two readings. A smaller time than before is of another process
/// that got the id, and all new. If children are included, the time of one that has ended is in its
/// parent's now, from which its time before the first reading is subtracted.
fn cpu_times(from: &ClocksRead, to: &ClocksRead) -> BTreeMap<u32, u64> {
    let grown = |(pid, ns): (&u32, &u64)| {
        let before = from.ns.get(pid).copied().unwrap_or(0);
        (*pid, ns.checked_sub(before).unwrap_or(*ns))
    };
    let mut times: BTreeMap<u32, u64> = to.ns.iter().map(grown).collect();
    // The time that each process got from children for which it has waited.
    let mut waited: BTreeMap<u32, u64> = (to.waited.iter())
        .map(|(pid, ns)| {
            let before = from.waited.get(pid).copied().unwrap_or(0);
            (*pid, ns.saturating_sub(before))
        })
        .collect();
    for (ended, parent) in (from.parents.iter()).filter(|(pid, _)| !to.ns.contains_key(pid)) {
        let before = from.ns.get(ended).copied().unwrap_or(0);
        let mut ancestor = *parent;
        while let (None, Some(next)) = (times.get(&ancestor), from.parents.get(&ancestor)) {
            ancestor = *next;
        }
        // The process that waited for it has its whole time. If its parent ended as well, that is a
        // reaper: an ancestor, or init.
        let may_include = |ns: u64| ns + WAITED_STEPS_NS >= before;
        let charged_to = if waited.get(&ancestor).is_some_and(|ns| may_include(*ns)) {
            Some(ancestor)
        } else {
            (waited.iter())
                .filter(|(_, ns)| may_include(**ns))
                .min_by_key(|(_, ns)| **ns)
                .map(|(pid, _)| *pid)
        };
        let Some(pid) = charged_to else { continue };
        if let (Some(time), Some(of_children)) = (times.get_mut(&pid), waited.get_mut(&pid)) {
            let charged_ns = before.min(*of_children);
            *time = time.saturating_sub(charged_ns);
            *of_children -= charged_ns;
        }
    }
    times
}

/// The owner that the caller has assigned to a process.
fn assigned(ours: &[(u32, ProcessOwner)], pid: u32) -> Option<ProcessOwner> {
    (ours.iter())
        .find(|(assigned, _)| *assigned == pid)
        .map(|(_, owner)| *owner)
}

/// The ids of all processes; none if `proc` is of another PID namespace.
fn pids(proc: &Path) -> Vec<u32> {
    if !proc_view::is_ours(proc) {
        return Vec::new();
    }
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
    entries.filter_map(|e| number(e.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::put;
    use std::process::{Command, Stdio};

    /// An invented table of processes: `(pid, name, parent, flags, ticks of waited-for children)`.
    fn process_table(rows: &[(u32, &str, u32, u64, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, name, parent, flags, waited) in rows {
            let line =
                format!("{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 5 5 {waited} 0 20 0");
            put(root.path(), &format!("proc/{pid}/stat"), &line);
        }
        root
    }

    /// A reading with these CPU times.
    fn reading(rows: &[(u32, u64)]) -> ClocksRead {
        ClocksRead {
            ns: rows.iter().copied().collect(),
            ..ClocksRead::default()
        }
    }

    // Invariant 11.
    #[test]
    fn each_process_has_one_owner_which_children_inherit() {
        let root = process_table(&[
            (1, "init", 0, 0, 0),
            (2, "ksoftirqd/0", 0, KERNEL_THREAD, 0),
            (3, "kworker/0:1", 0, KERNEL_THREAD, 0),
            (4, "napi/eth0-8193", 0, KERNEL_THREAD, 0),
            (30, "bytecost", 1, 0, 0),
            (31, "server", 30, 0, 0),
            (32, "worker) (x", 31, 0, 0),
            (40, "rustc", 1, 0, 64 * 3),
            // Process ids had wrapped when this one started.
            (12, "helper", 13, 0, 0),
            (13, "sh", 32, 0, 0),
        ]);
        let mut clocks = ProcessClocks::new(root.path(), std::process::id());
        // 64 children of 30 ms each, as a machine of 64 CPUs has them: none lives at the end.
        let waited = |pid| clocks.stat(pid).unwrap().waited_ticks;
        assert_eq!([30, 40].map(waited), [0, 64 * 3]);
        clocks.list(&[(30, ProcessOwner::Sender), (31, ProcessOwner::Receiver)]);
        let none = reading(&[]);
        let rows = [
            (1, 1),
            (2, 20),
            (3, 6),
            (4, 2),
            (12, 70_000),
            (30, 300),
            (31, 4),
            (32, 5),
            (40, 6_000),
        ];
        let all = reading(&rows);
        let used = clocks.between(&none, &all);
        let of = |owner| used.get(&owner).copied();
        assert_eq!(of(ProcessOwner::Sender), Some(300));
        assert_eq!(of(ProcessOwner::Receiver), Some(70_009));
        assert_eq!(of(ProcessOwner::Softirq), Some(22));
        assert_eq!(of(ProcessOwner::Kernel), Some(6));
        assert_eq!(of(ProcessOwner::Other), Some(6_001));
        let named = clocks.largest(&reading(&[(1, 1)]), &all);
        assert_eq!(named.len(), 1);
        assert_eq!((named[0].name.as_str(), named[0].cpu_ns), ("rustc", 6_000));
        // The id of a process that ended is given to another.
        let reused = clocks.between(&reading(&[(40, 9_000)]), &reading(&[(40, 50)]));
        assert_eq!(reused, [(ProcessOwner::Other, 50)].into());
        // A process that starts later has its parent's owner as well.
        put(
            root.path(),
            "proc/11/stat",
            "11 (late) S 40 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0",
        );
        put(
            root.path(),
            "proc/10/stat",
            "10 (late) S 13 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0",
        );
        clocks.list(&[]);
        let later = clocks.between(&none, &reading(&[(10, 7), (11, 8), (30, 9)]));
        let of_later = |owner| later.get(&owner).copied();
        assert_eq!(of_later(ProcessOwner::Receiver), Some(7));
        assert_eq!(of_later(ProcessOwner::Other), Some(8));
        assert_eq!(of_later(ProcessOwner::Sender), Some(9));
    }

    #[test]
    fn time_before_the_first_reading_is_not_counted_when_a_process_ends() {
        let s = 1_000_000_000;
        // make (7) has a compiler (8) that has an assembler (9); both end, and make has waited.
        let from = ClocksRead {
            ns: [(1, 5 * s), (7, s), (8, 60 * s), (9, 2 * s)].into(),
            parents: [(1, 0), (7, 1), (8, 7), (9, 8)].into(),
            waited: [(1, 4 * s), (7, 0), (8, 0), (9, 0)].into(),
        };
        let to = ClocksRead {
            ns: [(1, 5 * s), (7, s + 64 * s)].into(),
            parents: [(1, 0), (7, 1)].into(),
            waited: [(1, 4 * s), (7, 64 * s)].into(),
        };
        assert_eq!(cpu_times(&from, &to), [(1, 0), (7, 2 * s)].into());
    }

    #[test]
    fn the_time_of_an_orphan_is_not_counted_as_its_reapers() {
        let s = 1_000_000_000;
        // A shell (5) has a script (6) that has a hog (7). The script ends, then the hog, and init
        // waits for it; the shell itself works for 3 s, and its own children for 1 s.
        let from = ClocksRead {
            ns: [(1, s), (5, 2 * s), (6, 0), (7, 400 * s)].into(),
            parents: [(1, 0), (5, 1), (6, 5), (7, 6)].into(),
            waited: [(1, 0), (5, s), (6, 0), (7, 0)].into(),
        };
        let to = ClocksRead {
            ns: [(1, s + 402 * s), (5, 6 * s)].into(),
            parents: [(1, 0), (5, 1)].into(),
            waited: [(1, 402 * s), (5, 2 * s)].into(),
        };
        assert_eq!(cpu_times(&from, &to), [(1, 2 * s), (5, 4 * s)].into());
        // It was not waited for: the time of other processes' children stays theirs.
        let to = ClocksRead {
            ns: [(1, s), (5, 6 * s)].into(),
            waited: [(1, 0), (5, 2 * s)].into(),
            ..to
        };
        assert_eq!(cpu_times(&from, &to), [(1, 0), (5, 4 * s)].into());
    }

    #[test]
    fn real_processes_are_found_with_their_cpu_time() {
        let mut clocks = ProcessClocks::new(Path::new("/"), std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while :; do i=$((i+1)); done"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        clocks.list(&[(child.id(), ProcessOwner::Background)]);
        let from = clocks.read();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let used = loop {
            let used = clocks.between(&from, &clocks.read());
            let loud = used.get(&ProcessOwner::Background).copied().unwrap_or(0);
            if loud > 20_000_000 || std::time::Instant::now() > deadline {
                break loud;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used > 20_000_000, "{used} ns");
        assert!(clocks.known[&std::process::id()].owner == ProcessOwner::Instrument);
        clocks.list(&[]);
        assert!(!clocks.known.contains_key(&child.id()), "it has ended");
    }
}
