//! The report of `/proc` on a process and its descendants without root: bytes, calls and CPU time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use bytecost_spec::profile::ProcessIo;
use bytecost_sys::{children, clock, proc_view};

/// The counts of one process: its own, and those of children that it has waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    io: ProcessIo,
    cpu_ns: u64,
}

impl Counts {
    fn read(pid: u32) -> io::Result<Counts> {
        let folder = proc_view::directory(pid).ok_or(io::ErrorKind::NotFound)?;
        let io = io(&fs::read_to_string(folder.join("io"))?);
        let cpu_ns = cpu_ns(&fs::read_to_string(folder.join("stat"))?).unwrap_or(0);
        Ok(Counts { io, cpu_ns })
    }

    fn combined(self, other: Counts, of: fn(u64, u64) -> u64) -> Counts {
        let (a, b) = (self.io, other.io);
        Counts {
            io: ProcessIo {
                read_bytes: of(a.read_bytes, b.read_bytes),
                written_bytes: of(a.written_bytes, b.written_bytes),
                read_calls: of(a.read_calls, b.read_calls),
                write_calls: of(a.write_calls, b.write_calls),
                storage_read_bytes: of(a.storage_read_bytes, b.storage_read_bytes),
                storage_written_bytes: of(a.storage_written_bytes, b.storage_written_bytes),
            },
            cpu_ns: of(self.cpu_ns, other.cpu_ns),
        }
    }
}

/// A process with its descendants.
#[derive(Debug)]
pub struct ProcessTree {
    root: u32,
    first: BTreeMap<u32, Counts>,
    last: BTreeMap<u32, Counts>,
    /// Counts from before the beginning of processes that are gone: their parents' counts have them now.
    first_of_ended: Counts,
}

impl ProcessTree {
    /// The tree of a process from now on, or the error of reading its `/proc`.
    pub fn new(pid: u32) -> io::Result<ProcessTree> {
        let first = Counts::read(pid)?;
        let mut tree = ProcessTree {
            root: pid,
            first: BTreeMap::from([(pid, first)]),
            last: BTreeMap::from([(pid, first)]),
            first_of_ended: Counts::default(),
        };
        for member in tree.members() {
            if let Ok(counts) = Counts::read(member) {
                tree.first.insert(member, counts);
                tree.last.insert(member, counts);
            }
        }
        Ok(tree)
    }

    /// The tree of this process: its children, running or waited for (proc_pid_io(5), times(2)), and also what
    /// it does itself.
    pub fn of_this_process() -> io::Result<ProcessTree> {
        ProcessTree::new(std::process::id())
    }

    /// The process and its descendants that exist now.
    fn members(&self) -> Vec<u32> {
        let mut found = vec![self.root];
        let mut at = 0;
        while at < found.len() {
            let of = children::started_by(Path::new("/"), found[at]).unwrap_or_default();
            found.extend(of);
            at += 1;
        }
        found
    }

    /// Returns true until the process has ended and was waited for.
    pub fn is_running(&self) -> bool {
        proc_view::directory(self.root).is_some_and(|folder| folder.is_dir())
    }

    /// Reads again.
    pub fn advance(&mut self) {
        let all = self.members();
        for pid in &all {
            if let Ok(counts) = Counts::read(*pid) {
                self.last.insert(*pid, counts);
            }
        }
        self.forget_ended(&all);
    }

    /// Takes out processes that are no more among `members`. The kernel has added the counts of a process that
    /// was waited for to its parent's.
    fn forget_ended(&mut self, members: &[u32]) {
        self.last.retain(|pid, _| members.contains(pid));
        self.first.retain(|pid, first| {
            let is_member = members.contains(pid);
            if !is_member {
                self.first_of_ended = self.first_of_ended.combined(*first, u64::saturating_add);
            }
            is_member
        });
    }

    fn counts(&self) -> Counts {
        let grown = self.last.iter().map(|(pid, last)| {
            let first = self.first.get(pid).copied().unwrap_or_default();
            last.combined(first, u64::saturating_sub)
        });
        let sum = grown.fold(Counts::default(), |sum, one| {
            sum.combined(one, u64::saturating_add)
        });
        sum.combined(self.first_of_ended, u64::saturating_sub)
    }

    /// Bytes and calls since the beginning.
    pub fn io(&self) -> ProcessIo {
        self.counts().io
    }

    /// CPU time since the beginning in ns, in steps of the clock tick of proc_pid_stat(5).
    pub fn cpu_ns(&self) -> u64 {
        self.counts().cpu_ns
    }
}

fn io(text: &str) -> ProcessIo {
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    ProcessIo {
        read_bytes: value("rchar"),
        written_bytes: value("wchar"),
        read_calls: value("syscr"),
        write_calls: value("syscw"),
        storage_read_bytes: value("read_bytes"),
        storage_written_bytes: value("write_bytes"),
    }
}

/// User and kernel time of a process and of the children that it has waited for: fields 14 to 17.
fn cpu_ns(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(14 - 3).take(4);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks * clock::proc_stat_unit_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read_by_their_names_and_fields() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 0\n";
        let read = io(text);
        assert_eq!(
            (read.read_bytes, read.write_calls, read.storage_read_bytes),
            (10, 4, 4096)
        );
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 3 4 20 0 1 0 5 6 7\n";
        assert_eq!(cpu_ns(stat), Some(10 * clock::proc_stat_unit_ns()));
    }

    #[test]
    fn what_an_ended_child_had_before_the_beginning_is_not_counted() {
        let counts = |cpu_ns| Counts {
            cpu_ns,
            ..Counts::default()
        };
        let mut tree = ProcessTree {
            root: 1,
            first: BTreeMap::from([(1, counts(10)), (2, counts(100))]),
            // The child has used 30 more, and its parent has waited for it.
            last: BTreeMap::from([(1, counts(10 + 130)), (2, counts(120))]),
            first_of_ended: Counts::default(),
        };
        tree.forget_ended(&[1]);
        assert_eq!(tree.cpu_ns(), 30);
    }
}
