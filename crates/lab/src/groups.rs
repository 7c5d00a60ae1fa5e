//! A control group for a trial: made before its processes, read at the window's edges, removed
//! after. Its name has its owner, so that a later run finds the groups of a killed one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytecost_host::Roots;
use bytecost_host::cgroups::{self, Controller, Parent, Version};
use bytecost_spec::cell::QUOTA_PERIOD_US;
use bytecost_spec::{Cgroup, Counter, Reading, Readings};
use bytecost_sys::proc_view;
use serde::{Deserialize, Serialize};

const PREFIX: &str = "bytecost-";
/// Attempts at removing a group whose processes are just ending, and the time between them.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);
/// The depth, and the number of groups, to which leftovers are searched.
const MOST_DEPTH: usize = 12;
const MOST_GROUPS: usize = 1 << 16;
/// The weight of version 1 that is 100 in version 2.
const USUAL_SHARES: u64 = 1024;
/// The fewest shares that version 1 takes.
const LEAST_SHARES: u64 = 2;

/// The control groups of a trial: one of version 2, or one for each hierarchy of version 1. Dropping the
/// value removes them.
#[derive(Debug)]
pub(crate) struct ControlGroups {
    dirs: Vec<PathBuf>,
    throttling: Option<ThrottlingAccount>,
}

/// The file that counts the throttling of a group with a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThrottlingAccount {
    path: PathBuf,
    is_version_1: bool,
}

impl ThrottlingAccount {
    /// The throttling so far; an error has the reason why it is not known.
    pub(crate) fn read(&self) -> Result<Throttled, String> {
        let version = if self.is_version_1 {
            Version::V1
        } else {
            Version::V2
        };
        Throttled::read(&self.path, version)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttled {
    periods: u64,
    pub(crate) throttled: u64,
    pub(crate) throttled_ns: u64,
}

impl ControlGroups {
    /// Makes the groups that a cell asks for; none where it asks for none. `cpus` may be used.
    pub(crate) fn make(
        roots: &Roots,
        asked: &Cgroup,
        cpus: &[u32],
    ) -> Result<Option<ControlGroups>, String> {
        let of_cpu = asked.quota_percent.is_some() || asked.weight.is_some();
        let wanted: Vec<Controller> = [
            of_cpu.then_some(Controller::Cpu),
            asked.cpuset.is_some().then_some(Controller::Cpuset),
        ]
        .into_iter()
        .flatten()
        .collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let name = Owner::this(roots)?.name();
        let mut group = ControlGroups {
            dirs: Vec::new(),
            throttling: None,
        };
        for parent in cgroups::parents(roots, &wanted)? {
            let dir = parent.dir.join(&name);
            fs::create_dir(&dir).map_err(|e| failure("made", &dir, &e))?;
            group.dirs.push(dir.clone());
            for (file, text) in settings(&parent, asked, cpus)? {
                let path = dir.join(file);
                fs::write(&path, text).map_err(|e| failure("written", &path, &e))?;
            }
            let is_bound =
                asked.quota_percent.is_some() && parent.controllers.contains(&Controller::Cpu);
            if is_bound {
                group.throttling = Some(ThrottlingAccount {
                    path: dir.join("cpu.stat"),
                    is_version_1: parent.version == Version::V1,
                });
            }
        }
        Ok(Some(group))
    }

    /// The `cgroup.procs` files: a process that writes to them enters the groups.
    pub(crate) fn procs_files(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|d| d.join("cgroup.procs")).collect()
    }

    /// Returns true if real-time group scheduling gives the new group no budget.
    pub(crate) fn bars_realtime(&self) -> bool {
        self.dirs.iter().any(|dir| {
            fs::read_to_string(dir.join("cpu.rt_runtime_us")).is_ok_and(|text| text.trim() == "0")
        })
    }

    /// The account of its throttling; none without a quota.
    pub(crate) fn throttling(&self) -> Option<ThrottlingAccount> {
        self.throttling.clone()
    }
}

impl Throttled {
    pub(crate) fn read(path: &Path, version: Version) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| failure("read", path, &e))?;
        throttled(&text, version)
            .ok_or_else(|| format!("{} has no counts of throttling", path.display()))
    }

    pub(crate) fn between(from: &Result<Self, String>, to: &Result<Self, String>) -> Readings {
        let increase = |field| Throttled::increase(from, to, field);
        [
            (Counter::CgroupPeriods, increase(|t| t.periods)),
            (Counter::CgroupThrottledPeriods, increase(|t| t.throttled)),
            (Counter::CgroupThrottledNs, increase(|t| t.throttled_ns)),
        ]
        .into()
    }

    /// The increase of one count between two reads; absent with the reason if one of them failed.
    pub(crate) fn increase(
        from: &Result<Self, String>,
        to: &Result<Self, String>,
        field: fn(&Throttled) -> u64,
    ) -> Reading {
        match (from, to) {
            (Ok(from), Ok(to)) => Reading::Measured(field(to).saturating_sub(field(from))),
            (Err(why), _) | (_, Err(why)) => Reading::absent(why.clone()),
        }
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for dir in &self.dirs {
            // A group that cannot be removed now is removed by the next run.
            let _ = remove(dir);
        }
    }
}

/// Moves a process, with all that it will start, into the groups of these files; 0 is the caller.
pub(crate) fn enter(procs_files: &[PathBuf], pid: u32) -> io::Result<()> {
    for path in procs_files {
        fs::write(path, pid.to_string()).map_err(|e| {
            let why = match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("{e}: run as root, or have the groups delegated to you")
                }
                _ => e.to_string(),
            };
            io::Error::new(e.kind(), format!("control group {}: {why}", path.display()))
        })?;
    }
    Ok(())
}

/// The files of a new group and their contents, in the order in which they are written.
fn settings(
    parent: &Parent,
    asked: &Cgroup,
    cpus: &[u32],
) -> Result<Vec<(&'static str, String)>, String> {
    let mut files = Vec::new();
    let has = |controller| parent.controllers.contains(&controller);
    if has(Controller::Cpu) {
        if let Some(percent) = asked.quota_percent {
            let quota = u64::from(percent) * QUOTA_PERIOD_US / 100;
            match parent.version {
                Version::V2 => files.push(("cpu.max", format!("{quota} {QUOTA_PERIOD_US}"))),
                Version::V1 => files.extend([
                    ("cpu.cfs_period_us", QUOTA_PERIOD_US.to_string()),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ]),
            }
        }
        if let Some(weight) = asked.weight {
            let shares = (u64::from(weight) * USUAL_SHARES / 100).max(LEAST_SHARES);
            files.push(match parent.version {
                Version::V2 => ("cpu.weight", weight.to_string()),
                Version::V1 => ("cpu.shares", shares.to_string()),
            });
        }
    }
    if has(Controller::Cpuset)
        && let Some(list) = &asked.cpuset
    {
        let list = match (list.as_slice(), cpus.first()) {
            ([], Some(first)) => vec![*first],
            ([], None) => return Err("no CPU is known that may be used".to_owned()),
            (list, _) => list.to_vec(),
        };
        if parent.version == Version::V1 {
            // A new group of version 1 has no memory nodes, and no process may enter without.
            let path = parent.dir.join("cpuset.mems");
            let nodes = fs::read_to_string(&path).map_err(|e| failure("read", &path, &e))?;
            files.push(("cpuset.mems", nodes.trim().to_owned()));
        }
        files.push(("cpuset.cpus", bytecost_spec::cpulist::write(&list)));
    }
    Ok(files)
}

fn throttled(text: &str, version: Version) -> Option<Throttled> {
    let value = |name: &str| -> Option<u64> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(of, _)| *of == name)?.1.trim().parse().ok()
    };
    Some(Throttled {
        periods: value("nr_periods")?,
        throttled: value("nr_throttled")?,
        throttled_ns: match version {
            Version::V1 => value("throttled_time")?,
            Version::V2 => value("throttled_usec")?.checked_mul(1000)?,
        },
    })
}

fn failure(what: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": run as root (sudo bytecost …), or have the groups delegated to you"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ": control groups are read-only here: run outside of the container"
        }
        _ => "",
    };
    format!("{} cannot be {what}: {error}{remedy}", path.display())
}

/// Removes a group whose processes have ended or are just ending; false where there is none.
fn remove(dir: &Path) -> io::Result<bool> {
    for _ in 1..TRIES {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(BETWEEN),
            Err(e) => return Err(e),
        }
    }
    fs::remove_dir(dir).map(|()| true)
}

/// The owner of a group: a process by its number and its start, in its PID namespace.
struct Owner {
    namespace: String,
    pid: u32,
    start: u64,
}

impl Owner {
    fn this(roots: &Roots) -> Result<Owner, String> {
        let pid = std::process::id();
        let unknown = || "this process cannot be looked up in /proc".to_owned();
        Ok(Owner {
            namespace: namespace(roots).ok_or_else(unknown)?,
            pid,
            start: start(roots, pid).ok_or_else(unknown)?,
        })
    }

    fn name(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (pid, start) = (self.pid, self.start);
        format!("{PREFIX}{}-{pid}-{start}-{number}", self.namespace)
    }

    /// The owner of a group of that name; none where it is no name of ours.
    fn from_name(name: &str) -> Option<Owner> {
        let parts: Vec<&str> = name.strip_prefix(PREFIX)?.split('-').collect();
        let [namespace, pid, start, number] = parts[..] else {
            return None;
        };
        number.parse::<u32>().ok()?;
        Some(Owner {
            namespace: namespace.parse::<u64>().ok()?.to_string(),
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    }

    /// Returns true if it is known to be gone.
    fn is_gone(&self, roots: &Roots) -> bool {
        proc_view::is_ours(&roots.proc)
            && namespace(roots).as_ref() == Some(&self.namespace)
            && start(roots, self.pid) != Some(self.start)
    }
}

fn namespace(roots: &Roots) -> Option<String> {
    let link = fs::read_link(roots.proc.join("self/ns/pid")).ok()?;
    let digits = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    Some(digits.to_owned())
}

/// The start of a process, in ticks since boot: the 22nd word of its `stat`, of which a name is one.
fn start(roots: &Roots, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(roots.proc.join(format!("{pid}/stat"))).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Removes groups of ours whose owner is gone; each with the outcome.
pub(crate) fn remove_leftovers(roots: &Roots) -> Vec<(PathBuf, io::Result<bool>)> {
    // Hierarchies may be mounted within each other.
    let mut left = BTreeSet::new();
    let mut visited = 0;
    let tops = cgroups::hierarchies(roots).into_iter();
    let mut open: Vec<(PathBuf, usize)> = tops.map(|top| (top, 0)).collect();
    while let Some((dir, depth)) = open.pop() {
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
        for group in groups.take(MOST_GROUPS - visited) {
            visited += 1;
            match group.file_name().to_str().and_then(Owner::from_name) {
                Some(owner) if owner.is_gone(roots) => drop(left.insert(group.path())),
                None if depth < MOST_DEPTH => open.push((group.path(), depth + 1)),
                _ => {}
            }
        }
    }
    let removed: Vec<_> = left.iter().map(|dir| remove(dir)).collect();
    left.into_iter().zip(removed).collect()
}

#[cfg(test)]
mod tests;
