//! The clocks of all processes, read from outside: whose CPU time is whose.
//!
//! Any process may ask for the CPU time of any other, kernel threads included
//! (clock_getcpuclockid(3)), in ns. What runs now is up to date as of the last tick, as is
//! cpuacct.usage by the same kernel code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytecost_spec::sample::OtherProcess;
use bytecost_sys::{clock, proc_view};

use crate::proc_text::StatFields;

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessOwner {
    /// The sending side's, and what it has started (clients, where there is a server).
    Sender,
    /// The receiving side's (the server's).
    Receiver,
    /// The background load that a cell asked for.
    Background,
    /// bytecost's own beside these.
    Instrument,
    /// A kernel thread that handles interrupts and packets: ksoftirqd, NAPI, a threaded interrupt.
    Softirq,
    /// Any other kernel thread.
    Kernel,
    /// Anybody else's.
    Other,
}

/// PF_KTHREAD of include/linux/sched.h, in field 9 of proc_pid_stat(5).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// By how much the time of children that were waited for may be short: steps of 10 ms of user and
/// system time, at both moments.
const WAITED_STEPS_NS: u64 = 40_000_000;
/// How the names of kernel threads begin that handle interrupts and packets (kernel/softirq.c,
/// net/core/dev.c, kernel/irq/manage.c).
const SOFTIRQ_THREADS: [&str; 4] = ["ksoftirqd/", "napi/", "backlog_napi/", "irq/"];
/// The largest processes of others that are named.
const MOST_NAMED: usize = 8;

/// Knows all processes and whose they are.
#[derive(Debug)]
pub struct ProcessClocks {
    proc: PathBuf,
    known: BTreeMap<u32, Known>,
    unit_ns: u64,
}

#[derive(Clone, Debug)]
struct Known {
    whose: ProcessOwner,
    name: String,
    parent: u32,
}

/// What all of them had used at one moment, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct ClocksRead {
    ns: BTreeMap<u32, u64>,
    /// The parent of each, where the time of children that were waited for is in it.
    parents: BTreeMap<u32, u32>,
    /// The part of each that is of such children.
    waited: BTreeMap<u32, u64>,
}

#[derive(Debug)]
struct Stat {
    name: String,
    parent: u32,
    is_kernel_thread: bool,
    /// CPU time of children that were waited for, in ticks.
    waited_ticks: u64,
}

impl ProcessClocks {
    /// Knows nobody yet. `root` is `/` but in tests.
    pub fn new(root: &Path) -> ProcessClocks {
        ProcessClocks {
            proc: root.join("proc"),
            known: BTreeMap::new(),
            unit_ns: clock::proc_stat_unit_ns(),
        }
    }

    /// Looks who is there. What `ours` have started is theirs; others that are known keep owners.
    /// Nobody is where `/proc` is that of another PID namespace.
    pub fn list(&mut self, ours: &[(u32, ProcessOwner)]) {
        let mut before = std::mem::take(&mut self.known);
        let mut came = BTreeMap::new();
        for pid in pids(&self.proc) {
            match before.remove(&pid) {
                Some(known) if named(ours, pid).is_none_or(|w| w == known.whose) => {
                    self.known.insert(pid, known);
                }
                _ => came.extend(self.stat(pid).map(|stat| (pid, stat))),
            }
        }
        let known = |(pid, stat): (&u32, &Stat)| {
            let known = Known {
                whose: self.whose(*pid, &came, ours),
                name: stat.name.clone(),
                parent: stat.parent,
            };
            (*pid, known)
        };
        let newcomers: Vec<(u32, Known)> = came.iter().map(known).collect();
        self.known.extend(newcomers);
    }

    /// Whose one is that has come: its nearest ancestor's that is anybody's, itself included. Numbers
    /// begin anew when they are used up, so that a child's may be smaller than its parent's.
    fn whose(
        &self,
        pid: u32,
        came: &BTreeMap<u32, Stat>,
        ours: &[(u32, ProcessOwner)],
    ) -> ProcessOwner {
        let mut at = pid;
        // No further than there are ancestors, should a number have been given away meanwhile.
        for _ in 0..=came.len() {
            let Some(stat) = came.get(&at) else { break };
            match named(ours, at) {
                Some(whose) => return whose,
                None if stat.is_kernel_thread && at == pid => return stat.kernel_owner(),
                None if stat.is_kernel_thread => return ProcessOwner::Other,
                None if at == std::process::id() => return ProcessOwner::Instrument,
                None => at = stat.parent,
            }
        }
        match self.known.get(&at).map(|known| known.whose) {
            Some(ProcessOwner::Kernel | ProcessOwner::Softirq) | None => ProcessOwner::Other,
            Some(whose) => whose,
        }
    }

    /// Returns true if not even this process is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Why processes of others cannot be seen, where that is so.
    pub fn hides_others(&self) -> Option<&'static str> {
        proc_view::hides_others(&self.proc)
    }

    /// Whether kernel threads can be seen: not from within a PID namespace.
    pub fn sees_kernel(&self) -> bool {
        let kernel = [ProcessOwner::Kernel, ProcessOwner::Softirq];
        self.known.values().any(|k| kernel.contains(&k.whose))
    }

    /// What each of them has used so far. One that is gone is left out.
    pub fn read(&self) -> ClocksRead {
        let read = |pid: &u32| Some((*pid, clock::process_cpu_ns_of(*pid).ok()?));
        ClocksRead {
            ns: self.known.keys().filter_map(read).collect(),
            ..ClocksRead::default()
        }
    }

    /// The same with the children that each has waited for, in steps of 10 ms: where processes end.
    pub fn read_with_children(&self) -> ClocksRead {
        let mut read = self.read();
        for (pid, ns) in &mut read.ns {
            let known = self.known.get(pid);
            let Some(known) = known.filter(|k| k.whose == ProcessOwner::Other) else {
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

    /// A reading, and all that those have used by now who came since the list. It forgets nobody.
    pub fn with_newcomers(&mut self, read: &ClocksRead) -> ClocksRead {
        let before = self.known.clone();
        self.list(&[]);
        let mut all = self.read();
        all.ns.retain(|pid, _| !before.contains_key(pid));
        all.ns.extend(&read.ns);
        self.known.extend(before);
        all
    }

    /// What was used between two moments, by owner; all of it by who was not there at the first.
    pub fn between(&self, from: &ClocksRead, to: &ClocksRead) -> BTreeMap<ProcessOwner, u64> {
        let mut owners = BTreeMap::new();
        for (pid, ns) in used(from, to) {
            if let Some(known) = self.known.get(&pid) {
                *owners.entry(known.whose).or_default() += ns;
            }
        }
        owners
    }

    /// The processes of others that used most, the largest first.
    pub fn largest(&self, from: &ClocksRead, to: &ClocksRead) -> Vec<OtherProcess> {
        let others = used(from, to).into_iter().filter_map(|(pid, cpu_ns)| {
            let known = self.known.get(&pid)?;
            (known.whose == ProcessOwner::Other && cpu_ns > 0).then(|| OtherProcess {
                name: known.name.clone(),
                pid,
                cpu_ns,
            })
        });
        let mut others: Vec<OtherProcess> = others.collect();
        others.sort_by_key(|o| std::cmp::Reverse(o.cpu_ns));
        others.truncate(MOST_NAMED);
        others
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read(self.proc.join(pid.to_string()).join("stat")).ok()?)
    }
}

impl Stat {
    /// By ppid (field 4), flags (9), cutime and cstime (16 and 17), proc_pid_stat(5).
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
        let mut names = SOFTIRQ_THREADS.iter();
        if names.any(|name| self.name.starts_with(name)) {
            ProcessOwner::Softirq
        } else {
            ProcessOwner::Kernel
        }
    }
}

/// By process. A number given to another one has a smaller time, all of it new. With children
/// counted, one that ended is with its parent now, and what it had used before is taken off there.
fn used(from: &ClocksRead, to: &ClocksRead) -> BTreeMap<u32, u64> {
    let grown = |(pid, ns): (&u32, &u64)| {
        let before = from.ns.get(pid).copied().unwrap_or(0);
        (*pid, ns.checked_sub(before).unwrap_or(*ns))
    };
    let mut used: BTreeMap<u32, u64> = to.ns.iter().map(grown).collect();
    // What came to each from children that it has waited for.
    let waited = to.waited.iter().map(|(pid, ns)| {
        let before = from.waited.get(pid).copied().unwrap_or(0);
        (*pid, ns.saturating_sub(before))
    });
    let mut waited: BTreeMap<u32, u64> = waited.collect();
    let parents = from.parents.iter();
    for (ended, parent) in parents.filter(|(pid, _)| !to.ns.contains_key(pid)) {
        let before = from.ns.get(ended).copied().unwrap_or(0);
        let mut charged_to = *parent;
        while let (None, Some(next)) = (used.get(&charged_to), from.parents.get(&charged_to)) {
            charged_to = *next;
        }
        // Whoever waited for it has its whole life. Where its parent ended too, that is a reaper:
        // an ancestor, or init.
        let has_it = |ns: u64| ns + WAITED_STEPS_NS >= before;
        let is_parent = waited.get(&charged_to).is_some_and(|ns| has_it(*ns));
        let reaper = || {
            let reapers = waited.iter().filter(|(_, ns)| has_it(**ns));
            reapers.min_by_key(|(_, ns)| **ns).map(|(pid, _)| *pid)
        };
        let charged_to = if is_parent {
            Some(charged_to)
        } else {
            reaper()
        };
        let Some(pid) = charged_to else { continue };
        if let (Some(used), Some(waited)) = (used.get_mut(&pid), waited.get_mut(&pid)) {
            let before = before.min(*waited);
            *used = used.saturating_sub(before);
            *waited -= before;
        }
    }
    used
}

fn named(ours: &[(u32, ProcessOwner)], pid: u32) -> Option<ProcessOwner> {
    let own = ours.iter().find(|(own, _)| *own == pid);
    own.map(|(_, whose)| *whose)
}

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

    /// A made-up table of processes: `(pid, name, parent, flags, ticks of waited-for children)`.
    fn planted(rows: &[(u32, &str, u32, u64, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, name, parent, flags, waited) in rows {
            let line =
                format!("{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 5 5 {waited} 0 20 0");
            put(root.path(), &format!("proc/{pid}/stat"), &line);
        }
        root
    }

    fn at(rows: &[(u32, u64)]) -> ClocksRead {
        ClocksRead {
            ns: rows.iter().copied().collect(),
            ..ClocksRead::default()
        }
    }

    // Invariant 11.
    #[test]
    fn each_process_has_one_owner_and_children_are_their_parents() {
        let root = planted(&[
            (1, "init", 0, 0, 0),
            (2, "ksoftirqd/0", 0, KERNEL_THREAD, 0),
            (3, "kworker/0:1", 0, KERNEL_THREAD, 0),
            (4, "napi/eth0-8193", 0, KERNEL_THREAD, 0),
            (30, "bytecost", 1, 0, 0),
            (31, "server", 30, 0, 0),
            (32, "worker) (x", 31, 0, 0),
            (40, "rustc", 1, 0, 64 * 3),
            // Numbers had begun anew when this one came.
            (12, "helper", 13, 0, 0),
            (13, "sh", 32, 0, 0),
        ]);
        let mut clocks = ProcessClocks::new(root.path());
        // 64 children of 30 ms each, as a machine of 64 CPUs has them: none lives at the end.
        let waited = |pid| clocks.stat(pid).unwrap().waited_ticks;
        assert_eq!([30, 40].map(waited), [0, 64 * 3]);
        clocks.list(&[(30, ProcessOwner::Sender), (31, ProcessOwner::Receiver)]);
        let none = at(&[]);
        let all = [
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
        let all = at(&all);
        let used = clocks.between(&none, &all);
        let of = |whose| used.get(&whose).copied();
        assert_eq!(of(ProcessOwner::Sender), Some(300));
        assert_eq!(of(ProcessOwner::Receiver), Some(70_009));
        assert_eq!(of(ProcessOwner::Softirq), Some(22));
        assert_eq!(of(ProcessOwner::Kernel), Some(6));
        assert_eq!(of(ProcessOwner::Other), Some(6_001));
        let named = clocks.largest(&at(&[(1, 1)]), &all);
        assert_eq!(named.len(), 1);
        assert_eq!((named[0].name.as_str(), named[0].cpu_ns), ("rustc", 6_000));
        // The number of one that ended goes to another.
        let used = clocks.between(&at(&[(40, 9_000)]), &at(&[(40, 50)]));
        assert_eq!(used, [(ProcessOwner::Other, 50)].into());
        // One that comes later is its parent's as well.
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
        let used = clocks.between(&none, &at(&[(10, 7), (11, 8), (30, 9)]));
        let of = |whose| used.get(&whose).copied();
        assert_eq!(of(ProcessOwner::Receiver), Some(7));
        assert_eq!(of(ProcessOwner::Other), Some(8));
        assert_eq!(of(ProcessOwner::Sender), Some(9));
    }

    #[test]
    fn what_a_process_had_used_before_a_block_is_no_part_of_it_when_it_ends_there() {
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
        assert_eq!(used(&from, &to), [(1, 0), (7, 2 * s)].into());
    }

    #[test]
    fn the_life_of_one_whose_parent_has_ended_is_not_that_of_its_reaper() {
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
        assert_eq!(used(&from, &to), [(1, 2 * s), (5, 4 * s)].into());
        // Nobody waited for it: what others' children did meanwhile is theirs.
        let to = ClocksRead {
            ns: [(1, s), (5, 6 * s)].into(),
            waited: [(1, 0), (5, 2 * s)].into(),
            ..to
        };
        assert_eq!(used(&from, &to), [(1, 0), (5, 4 * s)].into());
    }

    #[test]
    fn real_processes_are_found_with_what_they_use() {
        let mut clocks = ProcessClocks::new(Path::new("/"));
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
        assert!(clocks.known[&std::process::id()].whose == ProcessOwner::Instrument);
        clocks.list(&[]);
        assert!(!clocks.known.contains_key(&child.id()), "it is gone");
    }
}
